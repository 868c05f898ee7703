"""Mistakes that a user can mend, and where in a text they lie. The command line prints them without a traceback."""

import difflib
import importlib
import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, NoReturn

MOST_LETTERS: Final = 20_000
"""Letters of a task in words or as a formula."""
_UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters, those that turn the direction of writing, and halves of characters."""


def is_printable(text: str) -> bool:
    """Whether a text can be shown as it is: nothing in it commands a terminal. Lines and tabs are allowed."""
    return _UNPRINTABLE.search(text) is None


def printable(text: str) -> str:
    """The text with a visible sign for each character that would command a terminal instead of being shown."""
    return _UNPRINTABLE.sub(lambda found: chr(0x2400 + ord(found[0])) if found[0] < " " else "\ufffd", text)


class AtlasError(Exception):
    """What was wrong, where, and what is allowed. Whatever it quotes is made printable here."""

    def __init__(self, sentence: str) -> None:
        super().__init__(printable(sentence))


class TextError(AtlasError):
    """A mistake in a text. `spans`: from which letter to which the pieces go that are to blame."""

    def __init__(self, sentence: str, spans: Iterable[tuple[int, int]] = ()) -> None:
        super().__init__(sentence)
        self.spans = tuple(spans)


class LevelNeededError(TextError):
    """A task that speaks of all there are, where there is no level, or none of them in it."""


class LevelTextError(AtlasError):
    """A level that cannot be read: what is wrong, and where (counted from 1; 0 where no place is to blame)."""

    def __init__(self, problem: str, line: int = 0, column: int = 0, key: str = "level") -> None:
        self.problem, self.line, self.column, self.key = problem, line, column, key
        place = f"line {line}, column {column}: " if column else f"line {line}: " if line else ""
        super().__init__(place + problem)


class TaskWarning(UserWarning):
    """A task that can be used, but may not mean what its writer thinks."""

    def __init__(self, sentence: str) -> None:
        super().__init__(printable(sentence))


def nearest(word: str, known: Iterable[str], n: int = 3) -> str:
    """A hint for a mistyped name: `; did you mean a, b or c?`, or nothing."""
    if len(word) > 100:  # no name is as long, and comparing takes time
        return ""
    close = difflib.get_close_matches(word, list(known), n=n, cutoff=0.6)
    return f"; did you mean {listed(close)}?" if close else ""


def listed(words: list[str], last: str = "or") -> str:
    """`a`, `a or b`, `a, b or c`."""
    return f" {last} ".join([", ".join(words[:-1])] * (len(words) > 1) + words[-1:])


def extra(module: str, what: str, name: str) -> Any:
    """A package that only some people need; `name` is that of the extra that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise AtlasError(f"{what} needs a package that is not installed: pip install 'atlas-ued[{name}]'") from None


class Token(NamedTuple):
    """A piece of a text and its place; the last one of a text is empty."""

    kind: str
    text: str
    start: int
    end: int


class Reader:
    """A place in the tokens of a text; subclasses are the parsers of small languages."""

    def __init__(self, text: str, pattern: re.Pattern[str], language: str, most: int = MOST_LETTERS) -> None:
        """Each token is a named group of the pattern; whatever `bad` matches is an error, and `comment` is skipped."""
        self.text, self.place = text, 0
        self.tokens: list[Token] = []
        if len(text) > most:
            raise TextError(f"the text has {len(text):,} letters: at most {most:,} are allowed in {language}")
        at, end = 0, len(text.rstrip())
        while at < end:
            match = pattern.match(text, at)
            assert match is not None  # `bad` matches at the latest
            kind = match.lastgroup or "bad"
            token = Token(kind, match[kind], match.start(kind), match.end(kind))
            if kind == "bad":
                self.fail(f"'{match[kind]}' means nothing in {language}", token)
            self.tokens += [token] if kind != "comment" else []
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

    def fail(self, sentence: str, token: Token | None = None, error: type[TextError] = TextError) -> NoReturn:
        """Raise an error that shows the line of a token, by default the next one, and underlines it."""
        _, _, start, end = token or self.tokens[min(self.place, len(self.tokens) - 1)]
        spans = [(start, end)]
        begin = self.text.rfind("\n", 0, start) + 1
        row = f"line {self.text.count(chr(10), 0, start) + 1}, " if "\n" in self.text.strip() else ""
        where = f"{row}column {start - begin + 1}"
        begin = max(begin, start - 200)  # of a very long line, what stands around the place
        line = self.text[begin : start + 200].split("\n", 1)[0].replace("\t", " ")
        carets = "^" * max(1, min(end, begin + len(line)) - start)
        raise error(f"{sentence} ({where})\n    {line}\n    {' ' * (start - begin)}{carets}", spans)
