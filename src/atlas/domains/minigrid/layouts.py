"""The one table of sizes, walls, doors and object limits that the sampler and the edits share.

Rooms are INSIDE x INSIDE, in a grid of rooms, with one wall between two of them and a door in the middle of it.
Everything else follows from ROOM_GRID. Tables are indexed by the number of rooms itself.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from atlas.config import DomainConfig
from atlas.domains.minigrid.grid import FLOOR_CELL, OUTSIDE_CELL, WALL_CELL

ROOM_GRID: Final = {1: (1, 1), 2: (1, 2), 4: (2, 2), 6: (2, 3), 9: (3, 3)}
"""Rows and columns of rooms, by number of rooms: each is the one before it with a row or a column more."""
INSIDE: Final = 5
PITCH: Final = INSIDE + 1
FREE_FORM: Final = 0
"""What `Level.rooms` says where no layout applies."""
FREE_FORM_OBJECTS: Final = (1, 30)
"""Least and most objects of a free-form level."""
INDEXED: Final = max(ROOM_GRID) + 1
"""Length of a table that is indexed by the number of rooms."""


def size_of(rooms: int) -> tuple[int, int]:
    """Rows and columns of a level with so many rooms, outer walls included."""
    down, across = ROOM_GRID[rooms]
    return PITCH * down + 1, PITCH * across + 1


def door_places(rooms: int) -> tuple[tuple[int, int], ...]:
    """(row, column) of each door: first those in the walls that run left to right, then the others."""
    down, across = ROOM_GRID[rooms]
    level = [(PITCH * (i + 1), PITCH * j + PITCH // 2) for i in range(down - 1) for j in range(across)]
    upright = [(PITCH * i + PITCH // 2, PITCH * (j + 1)) for i in range(down) for j in range(across - 1)]
    return tuple(level + upright)


def floor_places(rooms: int) -> tuple[tuple[int, int], ...]:
    """(row, column) of each cell inside a room."""
    rows, cols = size_of(rooms)
    return tuple((r, c) for r in range(rows) for c in range(cols) if r % PITCH and c % PITCH)


def blank(rooms: int, shape: tuple[int, int] | None = None) -> np.ndarray:
    """`uint8[rows, cols]`: floor and walls, wall also where doors belong, and "outside" up to a given shape."""
    rows, cols = size_of(rooms)
    cells = np.full(shape or (rows, cols), OUTSIDE_CELL, np.uint8)
    cells[:rows, :cols] = WALL_CELL
    cells[tuple(zip(*floor_places(rooms), strict=True))] = FLOOR_CELL
    return cells


def grid_shape(config: DomainConfig) -> tuple[int, int]:
    """The static size of arrays that hold every level of these settings."""
    rows, cols = zip(*map(size_of, config.rooms), strict=True)
    return max(rows), max(cols)


def object_limits(config: DomainConfig) -> dict[int, tuple[int, int]]:
    """Least and most objects, doors included, by number of rooms."""
    limits = config.objects
    return {
        FREE_FORM: FREE_FORM_OBJECTS,
        1: limits.one_room,
        2: limits.two_rooms,
        4: limits.four_rooms,
        6: limits.six_rooms,
        9: limits.nine_rooms,
    }


@dataclass(frozen=True, eq=False)
class Layouts:
    """The table for some settings, as arrays. Cells are flat indices into the static grid."""

    shape: tuple[int, int]
    rooms: np.ndarray
    """`int32[choices]`: the room counts in use."""
    in_use: np.ndarray
    """`bool[INDEXED]`: the same as a mask."""
    blank: np.ndarray
    """`uint8[INDEXED, rows, cols]`."""
    floor: np.ndarray
    """`int32[INDEXED, places]`: every cell inside a room; then beyond the grid."""
    num_floor: np.ndarray
    """`int32[INDEXED]`."""
    doors: np.ndarray
    """`int32[INDEXED, doors]`: every place for a door; then beyond the grid."""
    num_doors: np.ndarray
    """`int32[INDEXED]`."""
    least: np.ndarray
    """`int32[INDEXED]`: fewest objects, doors included."""
    most: np.ndarray
    """`int32[INDEXED]`: most objects, doors included."""

    @property
    def nowhere(self) -> int:
        """The flat index beyond the grid: writing there is dropped."""
        return self.shape[0] * self.shape[1]

    @property
    def most_movable(self) -> int:
        """Most movable objects of any sampled level."""
        return int((self.most - self.num_doors)[self.in_use].max())


@lru_cache
def layouts(config: DomainConfig) -> Layouts:
    """The table for these settings. Only rows of room counts that fit into their static size are filled."""
    shape = grid_shape(config)
    fitting = [n for n in ROOM_GRID if all(a <= b for a, b in zip(size_of(n), shape, strict=True))]
    blanks = np.full((INDEXED, *shape), OUTSIDE_CELL, np.uint8)
    for n in fitting:
        blanks[n] = blank(n, shape)
    floor, num_floor = _indices({n: floor_places(n) for n in fitting}, shape)
    doors, num_doors = _indices({n: door_places(n) for n in fitting}, shape)
    least, most = np.zeros((2, INDEXED), np.int32)
    for n, limits in object_limits(config).items():
        least[n], most[n] = limits
    return Layouts(
        shape=shape,
        rooms=np.array(sorted(config.rooms), np.int32),
        in_use=np.isin(np.arange(INDEXED), config.rooms),
        blank=blanks,
        floor=floor,
        num_floor=num_floor,
        doors=doors,
        num_doors=num_doors,
        least=least,
        most=most,
    )


def _indices(places: dict[int, tuple[tuple[int, int], ...]], shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Places as flat indices, padded with one beyond the grid, and how many there are."""
    rows, cols = shape
    longest = max(1, *map(len, places.values()))
    indices = np.full((INDEXED, longest), rows * cols, np.int32)
    for n, cells in places.items():
        indices[n, : len(cells)] = [r * cols + c for r, c in cells]
    return indices, (indices < rows * cols).sum(1).astype(np.int32)
