"""The data of Minigrid: cells, levels and states; sizes, walls and doors by number of rooms."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final

import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Int8, UInt8

from atlas.domains.minigrid import alphabet
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.struct import Struct
from atlas.vocabulary import Pictured

# Cells, levels and states: the data of Minigrid.
#
# A cell is one byte, `8 * kind + colour`, so a whole level is a byte picture and comparing cells is
# comparing bytes.

KINDS: Final = (
    "outside", "floor", "wall", "ball", "square", "key", "door_closed", "door_locked", "door_open"
)  # fmt: skip
OUTSIDE, FLOOR, WALL, BALL, SQUARE, KEY, DOOR_CLOSED, DOOR_LOCKED, DOOR_OPEN = range(len(KINDS))
MOVABLE: Final = (BALL, SQUARE, KEY)
DOORS: Final = (DOOR_CLOSED, DOOR_LOCKED, DOOR_OPEN)

COLOURS: Final = (*alphabet.COLOURS, "none")
RED, GREEN, BLUE, PURPLE, YELLOW, GRAY, NO_COLOUR = range(len(COLOURS))

UP, RIGHT, DOWN, LEFT = range(4)
STEPS: Final = ((-1, 0), (0, 1), (1, 0), (0, -1))
"""(row, column) change of one step forward, by direction."""

ACTIONS: Final = ("forward", "right", "left", "pick_up", "put_down", "toggle")
FORWARD, TURN_RIGHT, TURN_LEFT, PICK_UP, PUT_DOWN, TOGGLE = range(len(ACTIONS))

VIEW: Final = 5
"""The view is VIEW x VIEW; the agent stands at the bottom centre, looking up."""
BORDER: Final = VIEW - 1
"""How many cells of "outside" surround the grid of a state, so that a view needs no edge cases."""


def cell(kind: int, colour: int = NO_COLOUR) -> int:
    """The byte of a cell."""
    return 8 * kind + colour


OUTSIDE_CELL, FLOOR_CELL, WALL_CELL = cell(OUTSIDE), cell(FLOOR), cell(WALL)
NOTHING: Final = FLOOR_CELL
"""What empty hands carry: the agent's own cell then shows floor."""


def cell_name(code: int) -> str:
    """`ball_red`, `door_blue_locked`, `floor`, `wall` or `outside`."""
    kind, colour = divmod(int(code), 8)
    if kind not in MOVABLE + DOORS:
        return KINDS[kind]
    name, _, door_state = KINDS[kind].partition("_")
    return "_".join(part for part in (name, COLOURS[colour], door_state) if part)


CELL_NAMES: Final[Mapping[int, str]] = {
    code: cell_name(code)
    for kind in range(len(KINDS))
    for colour in range(NO_COLOUR + 1)
    if (colour == NO_COLOUR) == (kind not in MOVABLE + DOORS)
    for code in [cell(kind, colour)]
}
"""Every cell that can occur, with its name."""


class Level(Struct, Pictured):
    """Where a task is played: the world at the start of an episode.

    Arrays are padded to a static size with "outside"; smaller levels sit at the top left.
    """

    domain: ClassVar[str] = "minigrid"

    cells: UInt8[Array, "rows cols"]
    position: Int8[Array, "2"]
    """Row and column of the agent; the cell there is floor or an open door."""
    direction: Int8[Array, ""]
    carrying: UInt8[Array, ""]
    """A movable cell, or NOTHING."""
    rooms: Int8[Array, ""]
    """1, 2, 4, 6 or 9 where walls and doors follow the layout of that many rooms; 0 for free-form levels."""


class State(Struct):
    """The world in the middle of an episode: as a level, with a border of "outside" BORDER cells wide."""

    cells: UInt8[Array, "bordered_rows bordered_cols"]
    position: Int8[Array, "2"]
    """In the level's own coordinates, without the border."""
    direction: Int8[Array, ""]
    carrying: UInt8[Array, ""]
    rooms: Int8[Array, ""]


def kind_of(cells: UInt8[Array, "..."]) -> UInt8[Array, "..."]:
    """Kind of each cell."""
    return cells >> 3


def colour_of(cells: UInt8[Array, "..."]) -> UInt8[Array, "..."]:
    """Colour of each cell, NO_COLOUR where it has none."""
    return cells & 7


def as_cell(code: int) -> UInt8[Array, ""]:
    """A cell as an array, for constructing levels by hand."""
    return jnp.uint8(code)


def count_objects(cells: Array | np.ndarray) -> Any:
    """`uint8[…, rows, cols]` to `int32[…]`: objects in each grid, doors included; on the host or the device."""
    return (cells >> 3 >= MOVABLE[0]).sum((-2, -1), dtype=np.int32)


# The one table of sizes, walls, doors and object limits that the sampler and the edits share.
#
# Rooms are INSIDE x INSIDE, in a grid of rooms, with one wall between two of them and a door in the middle of it.
# Everything else follows from ROOM_GRID. Tables are indexed by the number of rooms itself.

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


def doorways(down: int, across: int) -> dict[tuple[int, int], tuple[int, int]]:
    """The (row, column) of each door and the rooms that it joins, in reading order, for some rows of rooms.

    First come the doors in the walls that run left to right, then the others.
    """
    room = np.arange(down * across).reshape(down, across).tolist()
    below = {
        (PITCH * (i + 1), PITCH * j + PITCH // 2): (room[i][j], room[i + 1][j])
        for i in range(down - 1)
        for j in range(across)
    }
    beside = {
        (PITCH * i + PITCH // 2, PITCH * (j + 1)): (room[i][j], room[i][j + 1])
        for i in range(down)
        for j in range(across - 1)
    }
    return below | beside


def door_places(rooms: int) -> tuple[tuple[int, int], ...]:
    """(row, column) of each door of a level with so many rooms."""
    return tuple(doorways(*ROOM_GRID[rooms]))


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


def grid_shape(config: MinigridConfig) -> tuple[int, int]:
    """The static size of arrays that hold every level of these settings."""
    rows, cols = zip(*map(size_of, config.rooms), strict=True)
    return max(rows), max(cols)


def object_limits(config: MinigridConfig) -> dict[int, tuple[int, int]]:
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
def layouts(config: MinigridConfig) -> Layouts:
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
