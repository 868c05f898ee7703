"""Small pictures of propositions, made from a vocabulary's features: where (front, carried, next) and what.

Tasks know no domain, so a table says what the codes of the features stand for; a vocabulary that does not fit it is
drawn in words.
"""

from typing import NamedTuple

import numpy as np

from atlas.tasks.shapes import Box, Circle, Ink, Line, Point, Polygon, Shape
from atlas.vocabulary import Vocabulary

OUTLINE = "#343a40"
BLANK = "#ffffff"


class IconTable(NamedTuple):
    """What the codes mean: group 0 is a place, each further group is one of each of the other three, or none."""

    places: tuple[str, ...] = ("front", "carrying", "next")
    kinds: tuple[str, ...] = ("ball", "square", "key", "door")
    colours: tuple[str, ...] = ("red", "green", "blue", "purple", "yellow", "gray")
    states: tuple[str, ...] = ("closed", "locked", "open")


ICONS = IconTable()
PAINTS = {
    "red": "#e03131",
    "green": "#2f9e44",
    "blue": "#1c7ed6",
    "purple": "#9c36b5",
    "yellow": "#fab005",
    "gray": "#868e96",
}


class Thing(NamedTuple):
    """An object as it can be drawn; empty words where nothing is said."""

    kind: str
    colour: str
    state: str

    @property
    def words(self) -> str:
        """`locked red door`."""
        return " ".join(word for word in (self.state, self.colour, self.kind) if word)


class Sign(NamedTuple):
    """A proposition as it can be drawn."""

    place: str
    things: tuple[Thing, ...]

    @property
    def words(self) -> str:
        """`red ball`, `red ball + locked door`."""
        return " + ".join(thing.words for thing in self.things)


def sign_of(prop: int, vocabulary: Vocabulary, table: IconTable) -> Sign | None:
    """What to draw for a proposition; None if the table does not tell."""
    features = vocabulary.features[prop]
    if features.shape[1] != len(table.kinds) + len(table.colours) + len(table.states):
        return None
    place = _one(features[0][: len(table.places)], table.places)
    things = tuple(_thing(group, table) for group in features[1:] if group.any())
    if not place or not things or not all(thing.kind for thing in things):
        return None
    return Sign(place, things)


def _thing(codes: np.ndarray, table: IconTable) -> Thing:
    kinds, colours = len(table.kinds), len(table.kinds) + len(table.colours)
    return Thing(
        _one(codes[:kinds], table.kinds),
        _one(codes[kinds:colours], table.colours),
        _one(codes[colours:], table.states),
    )


def _one(codes: np.ndarray, words: tuple[str, ...]) -> str:
    on = np.flatnonzero(codes)
    return words[on[0]] if len(on) == 1 else ""


def sign_width(sign: Sign, size: float) -> float:
    """How wide the picture of a proposition is."""
    return {"front": 1.75, "carrying": 1.3}.get(sign.place, 2.25) * size


def draw_sign(sign: Sign, left: Point, size: float) -> list[Shape]:
    """A proposition, from the middle of its left side: an arrow to what is ahead, a tray under what is carried, a bar
    between what lies side by side."""
    (x, y), half = left, size / 2
    if sign.place == "front":
        arrow = Polygon(((x, y - 0.25 * size), (x + 0.45 * size, y), (x, y + 0.25 * size)), Ink(fill=OUTLINE))
        return [arrow, *draw_thing(sign.things[0], (x + 0.65 * size + half, y), size)]
    if sign.place == "carrying":
        tray = ((x, y), (x, y + 0.56 * size), (x + 1.25 * size, y + 0.56 * size), (x + 1.25 * size, y))
        hand = Line(tray, Ink(stroke=OUTLINE, width=size / 11))
        return [hand, *draw_thing(sign.things[0], (x + 0.62 * size, y), 0.85 * size)]
    bar = Line(((x + half, y), (x + 1.7 * size, y)), Ink(stroke=OUTLINE, width=size / 8))
    places = ((x + half, y), (x + 1.7 * size, y))
    return [bar, *(s for thing, at in zip(sign.things, places, strict=False) for s in draw_thing(thing, at, size))]


def draw_thing(thing: Thing, centre: Point, size: float) -> list[Shape]:
    """One object; white where its colour may be any."""
    paint = PAINTS.get(thing.colour, BLANK)
    draw = {"ball": _ball, "square": _square, "key": _key}.get(thing.kind)
    return draw(centre, size, paint) if draw else _door(centre, size, paint, thing.state)


def _ink(paint: str, size: float) -> Ink:
    return Ink(fill=paint, stroke=OUTLINE, width=size / 14)


def _ball(centre: Point, size: float, paint: str) -> list[Shape]:
    return [Circle(centre, 0.4 * size, _ink(paint, size))]


def _square(centre: Point, size: float, paint: str) -> list[Shape]:
    x, y = centre
    return [Box((x - 0.38 * size, y - 0.38 * size), (0.76 * size, 0.76 * size), 1, _ink(paint, size))]


def _key(centre: Point, size: float, paint: str) -> list[Shape]:
    x, y = centre
    size = 1.12 * size  # a key is thin: let it weigh as much as the others
    ink = _ink(paint, size)
    shaft = Polygon(
        tuple(
            (x + dx * size, y + dy * size)
            for dx, dy in ((-0.1, -0.07), (0.45, -0.07), (0.45, 0.25), (0.33, 0.25), (0.33, 0.07), (0.24, 0.07),
                           (0.24, 0.2), (0.13, 0.2), (0.13, 0.07), (-0.1, 0.07))
        ),
        ink,
    )  # fmt: skip
    bow = Circle((x - 0.24 * size, y), 0.2 * size, ink)
    return [shaft, bow, Circle((x - 0.24 * size, y), 0.07 * size, Ink(fill=BLANK, stroke=OUTLINE, width=size / 18))]


def _door(centre: Point, size: float, paint: str, state: str) -> list[Shape]:
    x, y = centre
    frame = Box((x - 0.34 * size, y - 0.46 * size), (0.68 * size, 0.92 * size), 1, _ink(paint, size))
    if state == "open":
        empty = Box((x - 0.34 * size, y - 0.46 * size), (0.68 * size, 0.92 * size), 1, _ink("#dee2e6", size))
        leaf = ((-0.34, -0.46), (-0.06, -0.32), (-0.06, 0.56), (-0.34, 0.46))
        return [empty, Polygon(tuple((x + dx * size, y + dy * size) for dx, dy in leaf), _ink(paint, size))]
    if state == "locked":
        dark = Ink(fill=OUTLINE)
        slot = ((-0.05, 0.0), (0.05, 0.0), (0.1, 0.24), (-0.1, 0.24))
        hole = Polygon(tuple((x + dx * size, y + dy * size) for dx, dy in slot), dark)
        return [frame, Circle((x, y - 0.06 * size), 0.12 * size, dark), hole]
    if state == "closed":
        return [frame, Circle((x + 0.19 * size, y + 0.03 * size), 0.07 * size, Ink(fill=OUTLINE))]
    return [frame]
