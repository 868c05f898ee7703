"""The text of LTLf formulas. From loosest to tightest: `<->`, `->`, `|`, `&`, then U R W M, then ! X N F G.

`->` and the temporal operators group to the right. Words work too: `not`, `and`, `or`, `implies`, `iff`.
"""

import re
from typing import Any, Final, NamedTuple

from atlas.errors import nearest
from atlas.tasks.place import fail

Formula = tuple[Any, ...]
"""`(operator, *arguments)`: prop (an id), true, false, last, not, and, or, implies, iff, X, N, F, G, U, R, W, M."""

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<symbol><->|<=>|->|=>|&&?|\|\|?|!|~|\(|\)|∧|∨|¬|→|↔)|(?P<word>[A-Za-z_][A-Za-z_0-9]*|[01])|(?P<bad>\S))"
)
_SAME: Final = {
    "~": "!", "¬": "!", "not": "!", "&&": "&", "∧": "&", "and": "&", "||": "|", "∨": "|", "or": "|", "=>": "->",
    "→": "->", "implies": "->", "<=>": "<->", "↔": "<->", "iff": "<->", "1": "true", "0": "false", "tt": "true",
    "ff": "false", "WX": "N",
}  # fmt: skip
_UNARY: Final = {"!": "not", "X": "X", "N": "N", "F": "F", "G": "G"}
_BINARY: Final = {
    "<->": (1, "iff"), "->": (2, "implies"), "|": (3, "or"), "&": (4, "and"),
    "U": (5, "U"), "R": (5, "R"), "W": (5, "W"), "M": (5, "M"),
}  # fmt: skip
"""Operator -> how tightly it binds, and its name."""
_RIGHT: Final = frozenset({"implies", "U", "R", "W", "M"})
_CONSTANTS: Final = ("true", "false", "last")


class _Token(NamedTuple):
    text: str
    start: int
    end: int


class _Parser:
    """Precedence climbing over the tokens of one formula."""

    def __init__(self, text: str, ids: dict[str, int]) -> None:
        self.text, self.ids = text, ids
        self.tokens = _tokens(text)
        self.place = 0

    def peek(self) -> _Token:
        return self.tokens[self.place]

    def take(self) -> _Token:
        self.place += 1
        return self.tokens[self.place - 1]

    def expression(self, tightness: int = 1) -> Formula:
        left = self.unary()
        while (operator := self.peek().text) in _BINARY and _BINARY[operator][0] >= tightness:
            self.take()
            level, name = _BINARY[operator]
            left = (name, left, self.expression(level if name in _RIGHT else level + 1))
        return left

    def unary(self) -> Formula:
        token = self.take()
        if token.text in _UNARY:
            return (_UNARY[token.text], self.unary())
        if token.text == "(":
            inside = self.expression()
            if self.peek().text != ")":
                fail(self.text, token.start, token.end, "this bracket is never closed")
            self.take()
            return inside
        if token.text in _CONSTANTS:
            return (token.text,)
        if token.text in self.ids:
            return ("prop", self.ids[token.text])
        return self.unexpected(token)

    def unexpected(self, token: _Token) -> Formula:
        if not token.text:
            fail(self.text, token.start, token.end, "the formula ends where a proposition or an operator is needed")
        if not re.match(r"[A-Za-z_]", token.text) or token.text in _BINARY:
            fail(self.text, token.start, token.end, f"'{token.text}' cannot stand here: a proposition is needed")
        hint = nearest(token.text, self.ids) or "; propositions look like " + ", ".join(list(self.ids)[:3])
        fail(self.text, token.start, token.end, f"'{token.text}' is no proposition{hint}")


def _tokens(text: str) -> list[_Token]:
    tokens = []
    end = len(text.rstrip())
    place = 0
    while place < end:
        match = _TOKEN.match(text, place)
        assert match is not None  # every character is matched by `bad` at the latest
        kind = match.lastgroup or "bad"
        if kind == "bad":
            fail(text, match.start(kind), match.end(kind), f"'{match[kind]}' means nothing in a formula")
        tokens.append(_Token(_SAME.get(match[kind], match[kind]), match.start(kind), match.end(kind)))
        place = match.end()
    return [*tokens, _Token("", end, end + 1)]


def parse(text: str, ids: dict[str, int]) -> Formula:
    """The formula that a text stands for. `ids` maps names of propositions to their ids."""
    parser = _Parser(text, ids)
    formula = parser.expression()
    rest = parser.peek()
    if rest.text:
        fail(text, rest.start, rest.end, f"an operator such as & or U is needed before '{rest.text}'")
    return formula
