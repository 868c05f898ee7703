"""The laws of the world: start, act, look.

Only the cell in front of the agent can change, so a step is a handful of byte comparisons and one write. The grid of
a state has a border of "outside", so every cell that can be seen or walked against exists.
"""

from typing import Final

import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Int, Int8, Int32, UInt8

from atlas.domains.minigrid.grid import (
    BALL,
    BORDER,
    DOOR_CLOSED,
    DOOR_LOCKED,
    DOOR_OPEN,
    DOWN,
    FLOOR_CELL,
    FORWARD,
    KEY,
    LEFT,
    NO_COLOUR,
    NOTHING,
    OUTSIDE_CELL,
    PICK_UP,
    PUT_DOWN,
    RED,
    RIGHT,
    TOGGLE,
    TURN_LEFT,
    TURN_RIGHT,
    UP,
    VIEW,
    Level,
    State,
    cell,
    colour_of,
    kind_of,
)

AHEAD: Final = np.repeat(np.arange(VIEW - 1, -1, -1, dtype=np.int32)[:, None], VIEW, axis=1)
"""How many steps ahead of the agent each cell of the view lies."""
ASIDE: Final = np.repeat(np.arange(VIEW, dtype=np.int32)[None] - VIEW // 2, VIEW, axis=0)
"""How many steps to its right."""
IS_OWN: Final = (AHEAD == 0) & (ASIDE == 0)
"""Where the agent is in its view."""

Offsets = int | np.ndarray


def reset(level: Level) -> State:
    """The state an episode starts in."""
    cells = jnp.pad(level.cells, BORDER, constant_values=OUTSIDE_CELL)
    return State(
        cells=cells,
        position=level.position,
        direction=level.direction,
        carrying=level.carrying,
        rooms=level.rooms,
    )


def as_level(state: State) -> Level:
    """The level that starts where this state is: the inverse of `reset`."""
    return Level(
        cells=state.cells[BORDER:-BORDER, BORDER:-BORDER],
        position=state.position,
        direction=state.direction,
        carrying=state.carrying,
        rooms=state.rooms,
    )


def step(state: State, action: Int[Array, ""]) -> State:
    """The state after an action; one that is not possible changes nothing."""
    place = _place(state, 1, 0)
    ahead = state.cells.reshape(-1)[place]
    changed, carrying = _handle(ahead, state.carrying, action)
    moves = (action == FORWARD) & ((ahead == FLOOR_CELL) | (kind_of(ahead) == DOOR_OPEN))
    turn = (action == TURN_RIGHT).astype(jnp.int8) - (action == TURN_LEFT).astype(jnp.int8)
    return state.replace(
        cells=state.cells.reshape(-1).at[place].set(changed).reshape(state.cells.shape),
        position=state.position + moves * _heading(state.direction),
        direction=(state.direction + turn) & 3,
        carrying=carrying,
    )


def view(state: State) -> UInt8[Array, "5 5"]:
    """What the agent sees: itself at the bottom centre looking up, its own cell showing what it carries."""
    seen = state.cells.reshape(-1)[_place(state, AHEAD, ASIDE)]
    return jnp.where(IS_OWN, state.carrying, seen)


def front(state: State) -> UInt8[Array, ""]:
    """The cell ahead."""
    return state.cells.reshape(-1)[_place(state, 1, 0)]


def _handle(
    ahead: UInt8[Array, ""], carrying: UInt8[Array, ""], action: Int[Array, ""]
) -> tuple[UInt8[Array, ""], UInt8[Array, ""]]:
    """The cell ahead and the hands after picking up, putting down or toggling."""
    picks = (action == PICK_UP) & (carrying == NOTHING) & (ahead >= cell(BALL, RED)) & (ahead <= cell(KEY, NO_COLOUR))
    puts = (action == PUT_DOWN) & (carrying != NOTHING) & (ahead == FLOOR_CELL)
    toggled = jnp.where(action == TOGGLE, _toggle(ahead, carrying), ahead)
    changed = jnp.where(picks, jnp.uint8(FLOOR_CELL), jnp.where(puts, carrying, toggled))
    held = jnp.where(picks, ahead, jnp.where(puts, jnp.uint8(NOTHING), carrying))
    return changed, held


def _toggle(ahead: UInt8[Array, ""], carrying: UInt8[Array, ""]) -> UInt8[Array, ""]:
    """A door after its handle or lock was tried; anything else as it was. No door becomes locked again."""
    kind, colour = kind_of(ahead), colour_of(ahead)
    opens = (kind == DOOR_CLOSED) | ((kind == DOOR_LOCKED) & (carrying == cell(KEY, 0) + colour))
    closes = kind == DOOR_OPEN
    return jnp.where(opens, cell(DOOR_OPEN, 0) + colour, jnp.where(closes, cell(DOOR_CLOSED, 0) + colour, ahead))


def _heading(direction: Int8[Array, ""]) -> Int8[Array, "2"]:
    """(row, column) change of one step forward."""
    rows = (direction == DOWN).astype(jnp.int8) - (direction == UP).astype(jnp.int8)
    columns = (direction == RIGHT).astype(jnp.int8) - (direction == LEFT).astype(jnp.int8)
    return jnp.stack([rows, columns])


def _place(state: State, ahead: Offsets, aside: Offsets) -> Int32[Array, "..."]:
    """Index into the flat grid of the cells so many steps ahead of the agent and to its right."""
    width = state.cells.shape[1]
    row, column = state.position.astype(jnp.int32) + BORDER
    down, right = _heading(state.direction).astype(jnp.int32)
    here, forward, sideways = row * width + column, down * width + right, right * width - down
    return here + ahead * forward + aside * sideways
