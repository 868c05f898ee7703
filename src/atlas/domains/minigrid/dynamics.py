"""Transition and observation functions: reset, step, the 5x5 view.

Only the cell in front of the agent can change, so a step is a handful of byte comparisons and one write. The grid of
a state has a border of "outside", so every cell that can be seen or walked against exists.
"""

from typing import Final

import jax
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

OWN_ROW, OWN_COLUMN = VIEW - 1, VIEW // 2
"""Where the agent is in its view."""
IS_OWN: Final = np.zeros((VIEW, VIEW), bool)
IS_OWN[OWN_ROW, OWN_COLUMN] = True


def reset(level: Level) -> State:
    """The state an episode starts in."""
    cells = jnp.pad(level.cells, BORDER, constant_values=OUTSIDE_CELL)
    return State(
        cells=cells,
        position=jnp.asarray(level.position),  # a level from a file is on the host
        direction=jnp.asarray(level.direction),
        carrying=jnp.asarray(level.carrying),
        rooms=jnp.asarray(level.rooms),
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
    place = _ahead(state)
    ahead = state.cells[place]
    changed, carrying = _handle(ahead, state.carrying, action)
    moves = (action == FORWARD) & ((ahead == FLOOR_CELL) | (kind_of(ahead) == DOOR_OPEN))
    turn = (action == TURN_RIGHT).astype(jnp.int8) - (action == TURN_LEFT).astype(jnp.int8)
    return state.replace(
        # Indexed by row and column, not flat: a reshape would make XLA copy every grid at every step.
        cells=state.cells.at[place].set(changed),
        position=state.position + moves * _heading(state.direction),
        direction=(state.direction + turn) & 3,
        carrying=carrying,
    )


def view(state: State) -> UInt8[Array, "5 5"]:
    """What the agent sees: itself at the bottom centre looking up, its own cell showing what it carries."""
    return jnp.where(IS_OWN, state.carrying, upright(window(state), state.direction))


def upright(cells: UInt8[Array, "side side"], facing: Int8[Array, ""]) -> UInt8[Array, "side side"]:
    """A square of cells turned so that ahead is up."""
    # Four ways to turn it, of which one is taken, are twice as fast as a gather.
    up, right, down, left = (jnp.rot90(cells, direction) for direction in (UP, RIGHT, DOWN, LEFT))
    return jnp.where(facing < DOWN, jnp.where(facing == UP, up, right), jnp.where(facing == DOWN, down, left))


def window(state: State) -> UInt8[Array, "5 5"]:
    """The part of the grid that the agent sees, not turned: up is up, and its own cell is what it stands on."""
    return jax.lax.dynamic_slice(state.cells, corner(state), (VIEW, VIEW))


def corner(state: State) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """Top row and left column of what the agent sees, in the grid with its border."""
    facing = state.direction
    row, column = state.position.astype(jnp.int32) + BORDER
    top = row - jnp.where(facing == UP, OWN_ROW, jnp.where(facing == DOWN, 0, OWN_COLUMN))
    left = column - jnp.where(facing == LEFT, OWN_ROW, jnp.where(facing == RIGHT, 0, OWN_COLUMN))
    return top, left


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


def _ahead(state: State) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """Row and column of the cell ahead, in the grid with its border."""
    row, column = state.position.astype(jnp.int32) + BORDER + _heading(state.direction).astype(jnp.int32)
    return row, column
