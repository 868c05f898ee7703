"""What every cell looks like: flat shapes in the unit square (x to the right, y down), one source for PNG and SVG."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from atlas.domains.minigrid import grid

Ink = tuple[int, int, int]
Point = tuple[float, float]

INKS: Final[tuple[Ink, ...]] = (
    (229, 57, 53), (67, 180, 72), (60, 120, 245), (165, 85, 215), (250, 210, 50), (150, 153, 160),
)  # fmt: skip
"""By colour: clear of each other on the dark floor and on the gray of walls."""
PAGE: Final[Ink] = (255, 255, 255)
"""Outside, and around the level."""
FLOOR: Final[Ink] = (22, 23, 27)
LINE: Final[Ink] = (58, 60, 66)
"""Between cells of floor."""
WALL: Final[Ink] = (104, 107, 114)
AGENT: Final[Ink] = (255, 64, 48)
LIGHT: Final = 0.22
"""How much white lies over what the agent sees."""


@dataclass(frozen=True)
class Polygon:
    """A filled polygon."""

    points: tuple[Point, ...]
    ink: Ink


@dataclass(frozen=True)
class Circle:
    """A filled circle."""

    x: float
    y: float
    radius: float
    ink: Ink


Shape = Polygon | Circle


def cell_shapes(code: int) -> tuple[Shape, ...]:
    """A cell of the grid, from the ground up."""
    kind, colour = divmod(int(code), 8)
    if kind == grid.OUTSIDE:
        return ()
    if kind == grid.WALL:
        return (_box(0, 0, 1, 1, WALL),)
    ground = (_box(0, 0, 1, 1, LINE), _box(0.03, 0.03, 1, 1, FLOOR))
    return ground if kind == grid.FLOOR else (*ground, *object_shapes(kind, INKS[colour]))


def object_shapes(kind: int, ink: Ink) -> tuple[Shape, ...]:
    """An object without the floor under it."""
    return {
        grid.BALL: _ball, grid.SQUARE: _square, grid.KEY: _key,
        grid.DOOR_CLOSED: _closed_door, grid.DOOR_LOCKED: _locked_door, grid.DOOR_OPEN: _open_door,
    }[kind](ink)  # fmt: skip


def agent_shapes(direction: int) -> tuple[Shape, ...]:
    """The agent: a triangle that points where it looks."""
    turn = np.array([[0, -1], [1, 0]])
    centred = np.array([(-0.34, 0.34), (0.0, -0.38), (0.34, 0.34)]) @ np.linalg.matrix_power(turn, direction).T
    return (Polygon(tuple((float(x) + 0.515, float(y) + 0.515) for x, y in centred), AGENT),)


def _box(left: float, top: float, right: float, bottom: float, ink: Ink) -> Polygon:
    return Polygon(((left, top), (right, top), (right, bottom), (left, bottom)), ink)


def _dark(ink: Ink, share: float) -> Ink:
    """An ink mixed with floor."""
    red, green, blue = (round(share * a + (1 - share) * b) for a, b in zip(ink, FLOOR, strict=True))
    return red, green, blue


def _ball(ink: Ink) -> tuple[Shape, ...]:
    return (Circle(0.515, 0.515, 0.32, ink),)


def _square(ink: Ink) -> tuple[Shape, ...]:
    return (_box(0.215, 0.215, 0.815, 0.815, ink),)


def _key(ink: Ink) -> tuple[Shape, ...]:
    shaft = _box(0.52, 0.40, 0.64, 0.90, ink)
    teeth = (_box(0.38, 0.62, 0.52, 0.70, ink), _box(0.38, 0.82, 0.52, 0.90, ink))
    return (shaft, *teeth, Circle(0.58, 0.29, 0.2, ink), Circle(0.58, 0.29, 0.085, FLOOR))


def _closed_door(ink: Ink) -> tuple[Shape, ...]:
    frame, gap = _box(0.03, 0.03, 1, 1, ink), _box(0.10, 0.10, 0.93, 0.93, FLOOR)
    leaf = _box(0.16, 0.16, 0.87, 0.87, _dark(ink, 0.55))
    return (frame, gap, leaf, Circle(0.73, 0.515, 0.075, ink))


def _locked_door(ink: Ink) -> tuple[Shape, ...]:
    frame, leaf = _box(0.03, 0.03, 1, 1, ink), _box(0.10, 0.10, 0.93, 0.93, _dark(ink, 0.55))
    shackle = (Circle(0.515, 0.44, 0.19, ink), Circle(0.515, 0.44, 0.105, _dark(ink, 0.55)))
    body = _box(0.29, 0.46, 0.74, 0.80, ink)
    keyhole = (Circle(0.515, 0.59, 0.06, FLOOR), _box(0.485, 0.59, 0.545, 0.73, FLOOR))
    return (frame, leaf, *shackle, body, *keyhole)


def _open_door(ink: Ink) -> tuple[Shape, ...]:
    frame, way = _box(0.03, 0.03, 1, 1, ink), _box(0.10, 0.10, 0.93, 0.93, FLOOR)
    leaf = _box(0.10, 0.10, 0.22, 0.93, _dark(ink, 0.55))
    return (frame, way, leaf)
