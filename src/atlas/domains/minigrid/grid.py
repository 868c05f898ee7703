"""Cells, levels and states: the data of Minigrid.

A cell is one byte, `8 * kind + colour`, so a whole level is a byte picture and comparing cells is
comparing bytes.
"""

from collections.abc import Mapping
from typing import Any, Final

import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Int8, UInt8

from atlas.struct import Struct

KINDS: Final = (
    "outside", "floor", "wall", "ball", "square", "key", "door_closed", "door_locked", "door_open"
)  # fmt: skip
OUTSIDE, FLOOR, WALL, BALL, SQUARE, KEY, DOOR_CLOSED, DOOR_LOCKED, DOOR_OPEN = range(len(KINDS))
MOVABLE: Final = (BALL, SQUARE, KEY)
DOORS: Final = (DOOR_CLOSED, DOOR_LOCKED, DOOR_OPEN)

COLOURS: Final = ("red", "green", "blue", "purple", "yellow", "gray", "none")
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


class Level(Struct):
    """Where a task is played: the world at the start of an episode.

    Arrays are padded to a static size with "outside"; smaller levels sit at the top left.
    """

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
