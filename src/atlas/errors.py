"""Mistakes that a user can mend, and where in a text they lie. The command line prints them without a traceback."""

import difflib
import re
from collections.abc import Iterable
from typing import NamedTuple, NoReturn


class AtlasError(Exception):
    """What was wrong, where, and what is allowed."""


class TextError(AtlasError):
    """A mistake in a text, with its place."""


class LevelTextError(AtlasError):
    """A level that cannot be read: what is wrong, and where (counted from 1; 0 where no place is to blame)."""

    def __init__(self, problem: str, line: int = 0, column: int = 0, key: str = "level") -> None:
        self.problem, self.line, self.column, self.key = problem, line, column, key
        place = f"line {line}, column {column}: " if column else f"line {line}: " if line else ""
        super().__init__(place + problem)


class TaskWarning(UserWarning):
    """A task that can be used, but may not mean what its writer thinks."""


def nearest(word: str, known: Iterable[str], n: int = 3) -> str:
    """A hint for a mistyped name: `; did you mean a, b or c?`, or nothing."""
    close = difflib.get_close_matches(word, list(known), n=n, cutoff=0.6)
    return f"; did you mean {listed(close)}?" if close else ""


def listed(words: list[str], last: str = "or") -> str:
    """`a`, `a or b`, `a, b or c`."""
    return f" {last} ".join([", ".join(words[:-1])] * (len(words) > 1) + words[-1:])


class Token(NamedTuple):
    """A piece of a text and its place; the last one of a text is empty."""

    kind: str
    text: str
    start: int
    end: int


class Reader:
    """A place in the tokens of a text; subclasses are the parsers of small languages."""

    def __init__(self, text: str, pattern: re.Pattern[str], language: str) -> None:
        """Each token is a named group of the pattern; whatever the group `bad` matches is an error."""
        self.text, self.place = text, 0
        self.tokens: list[Token] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            match = pattern.match(text, at)
            assert match is not None  # `bad` matches at the latest
            kind = match.lastgroup or "bad"
            self.tokens.append(Token(kind, match[kind], match.start(kind), match.end(kind)))
            if kind == "bad":
                self.fail(f"'{match[kind]}' means nothing in {language}", self.tokens[-1])
            at = match.end()
        self.tokens.append(Token("end", "", end, end + 1))

    def peek(self, ahead: int = 0) -> str:
        """The text of a token to come."""
        return self.tokens[min(self.place + ahead, len(self.tokens) - 1)].text

    def take(self) -> Token:
        """The next token, which is stepped over."""
        self.place += 1
        return self.tokens[self.place - 1]

    def skip(self, *words: str) -> bool:
        """Step over these words if they come next."""
        found = all(self.peek(i) == word for i, word in enumerate(words))
        self.place += len(words) * found
        return found

    def fail(self, sentence: str, token: Token | None = None) -> NoReturn:
        """Raise a TextError that shows the line of a token, by default the next one, and underlines it."""
        _, _, start, end = token or self.tokens[min(self.place, len(self.tokens) - 1)]
        begin = self.text.rfind("\n", 0, start) + 1
        line = self.text[begin:].split("\n", 1)[0]
        row = f"line {self.text.count(chr(10), 0, start) + 1}, " if "\n" in self.text.strip() else ""
        carets = "^" * max(1, min(end, begin + len(line)) - start)
        where = f"{row}column {start - begin + 1}"
        raise TextError(f"{sentence} ({where})\n    {line}\n    {' ' * (start - begin)}{carets}")
