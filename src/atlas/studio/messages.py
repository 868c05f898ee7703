"""The messages that a page may send: names, who answers, for how long.

No JAX: the server imports this and nothing heavier.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from atlas.errors import AtlasError, nearest

Lane = Literal["desk", "lab"]
"""Which worker answers: the desk reads and draws, at once; the lab proves, samples, plays, and may take a while."""
MOST_BYTES: Final = 1 << 20
"""Most bytes of a message."""
MOST_DEPTH: Final = 32
"""Lists and objects inside each other."""


class Message(NamedTuple):
    """How a message is treated."""

    lane: Lane
    seconds: float
    """After so long its worker is ended, and another started."""
    newest: bool = False
    """A newer one of the same page makes an older one pointless: it is cancelled."""
    writes: bool = False
    """Not allowed if the studio is read-only, and never sent twice."""


MESSAGES: Final[Mapping[str, Message]] = {
    "start": Message("desk", 60),
    "level": Message("desk", 20),
    "paint": Message("desk", 20),
    "move": Message("desk", 20),
    "resize": Message("desk", 20),
    "template": Message("desk", 20),
    "task": Message("desk", 20, newest=True),
    "text": Message("desk", 20),
    "read": Message("desk", 20),
    "play": Message("desk", 90),
    "folder": Message("desk", 30),
    "open": Message("desk", 90),
    "picture": Message("desk", 30),
    "save": Message("desk", 30, writes=True),
    "runs": Message("desk", 30),
    "run": Message("desk", 60),
    "lineage": Message("desk", 60),
    "verdict": Message("lab", 300, newest=True),
    "verdicts": Message("lab", 600, newest=True),
    "sample": Message("lab", 120),
    "edit": Message("lab", 120),
    "watch": Message("lab", 180, newest=True),
    "rate": Message("lab", 300, newest=True),
}
"""Every message, answered by the method of `atlas.studio.answers.Answers` of the same name."""


@dataclass(frozen=True)
class Studio:
    """How a studio was started."""

    root: str
    """The folder that files are read from and written to."""
    given: str | None = None
    """A file or set to open."""
    policy: str | None = None
    """A run to watch."""
    read_only: bool = False
    domain: str | None = None
    """The domain to begin with, if nothing is given."""


def parse_body(data: bytes) -> dict[str, Any]:
    """The object of a message; anything else is an error."""
    try:
        value = json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise AtlasError("the message is no JSON") from None
    if not isinstance(value, dict):
        raise AtlasError("the message must be a JSON object")
    _require_shallow(value)
    return value


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _require_shallow(value: Any) -> None:
    """Fail unless a value is nested less than MOST_DEPTH deep and all its numbers are finite."""
    todo = [(value, 0)]
    while todo:
        one, depth = todo.pop()
        if depth > MOST_DEPTH:
            raise AtlasError(f"the message has more than {MOST_DEPTH} lists or objects inside each other")
        if isinstance(one, float) and not math.isfinite(one):
            raise AtlasError("the message has a number in it that is not finite")
        inner = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        todo += [(each, depth + 1) for each in inner]


class Body:
    """The fields of a message, each asked for by name and kind."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fields = fields

    def has(self, name: str) -> bool:
        return self.fields.get(name) is not None

    def text(self, name: str, default: str | None = None, most: int = 100_000) -> str:
        value = self._one(name, default)
        if not isinstance(value, str) or len(value) > most:
            raise AtlasError(f"{name} must be a text of at most {most:,} letters")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise AtlasError(f"{name} has half a character in it") from None
        return value

    def one_of(self, name: str, known: Any, default: str | None = None) -> str:
        value = self.text(name, default)
        if value not in known:
            raise AtlasError(f"{name}: there is no '{value[:80]}'{nearest(value, known)}")
        return value

    def whole(self, name: str, least: int, most: int, default: int | None = None) -> int:
        value = self._one(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise AtlasError(f"{name} must be a whole number from {least:,} to {most:,}")
        return value

    def flag(self, name: str) -> bool:
        value = self._one(name, False)
        if not isinstance(value, bool):
            raise AtlasError(f"{name} must be true or false")
        return value

    def texts(self, name: str) -> dict[str, str]:
        """A mapping of texts."""
        value = Body(self._mapping(name))
        return {key: value.text(key) for key in value.fields}

    def words(self, name: str, most: int = 100) -> list[str]:
        """A list of texts."""
        value = self._list(name, most)
        return [Body({name: word}).text(name) for word in value]

    def numbers(self, name: str, least: int, most: int, count: int) -> list[int]:
        """A list of at most `count` whole numbers."""
        return [Body({name: one}).whole(name, least, most) for one in self._list(name, count)]

    def pair(self, name: str) -> tuple[int, int]:
        """A row and a column."""
        value = self.numbers(name, -1, 10_000, 2)
        if len(value) != 2:
            raise AtlasError(f"{name} must be a row and a column")
        return value[0], value[1]

    def inside(self, name: str) -> "Body":
        """The fields of an object inside."""
        return Body(self._mapping(name))

    def each(self, name: str, most: int) -> "list[Body]":
        """A list of objects."""
        value = self._list(name, most)
        return [Body({name: one}).inside(name) for one in value]

    def _mapping(self, name: str) -> dict[str, Any]:
        value = self._one(name)
        if not isinstance(value, dict):
            raise AtlasError(f"{name} must be an object")
        return value

    def _list(self, name: str, most: int) -> list[Any]:
        value = self._one(name)
        if not isinstance(value, list) or len(value) > most:
            raise AtlasError(f"{name} must be a list of at most {most:,} entries")
        return value

    def _one(self, name: str, default: Any = None) -> Any:
        value = self.fields.get(name)
        if value is None and default is None:
            raise AtlasError(f"{name} is missing")
        return default if value is None else value
