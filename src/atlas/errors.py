"""Mistakes that a user can mend. The command line prints them as one sentence, without a traceback."""

import difflib
from collections.abc import Iterable
from typing import NoReturn


class AtlasError(Exception):
    """What was wrong, where, and what is allowed."""


def nearest(word: str, known: Iterable[str], n: int = 3) -> str:
    """A hint for a mistyped name: `; did you mean a, b or c?`, or nothing."""
    close = difflib.get_close_matches(word, list(known), n=n, cutoff=0.6)
    if not close:
        return ""
    return f"; did you mean {' or '.join([', '.join(close[:-1])] * (len(close) > 1) + close[-1:])}?"


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


class LevelTextError(AtlasError):
    """A level that cannot be read: what is wrong, and where (counted from 1; 0 where no place is to blame)."""

    def __init__(self, problem: str, line: int = 0, column: int = 0, key: str = "level") -> None:
        self.problem, self.line, self.column, self.key = problem, line, column, key
        place = f"line {line}, column {column}: " if column else f"line {line}: " if line else ""
        super().__init__(place + problem)
