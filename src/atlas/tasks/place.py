"""Where in a text a mistake lies: errors that show the line and mark the place, warnings about odd tasks."""

from typing import NoReturn

from atlas.errors import AtlasError


class TaskWarning(UserWarning):
    """A task that can be used, but may not mean what its writer thinks."""


class TextError(AtlasError):
    """A mistake in a text, with its place."""


def fail(text: str, start: int, end: int, sentence: str) -> NoReturn:
    """Raise a TextError that shows the line of `text[start:end]` with the place underlined."""
    raise TextError(f"{sentence} ({describe(text, start)})\n{mark(text, start, end)}")


def describe(text: str, position: int) -> str:
    """`line 2, column 7`, or only the column where there is one line."""
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    return f"line {line}, column {column}" if "\n" in text.strip() else f"column {column}"


def mark(text: str, start: int, end: int) -> str:
    """The line around a place, and carets below it."""
    begin = text.rfind("\n", 0, start) + 1
    stop = text.find("\n", start)
    line = text[begin:] if stop < 0 else text[begin:stop]
    width = max(1, min(end, begin + len(line)) - start)
    return f"    {line}\n    {' ' * (start - begin)}{'^' * width}"
