"""Labels: which propositions hold in a state.

`holds` answers only what is asked: it marks the cells in sight that fit a descriptor as bits of one word, so that "next
to" is a shift.
"""

from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int, Int8, Int32, UInt8, UInt32

from atlas.domains.minigrid import dynamics
from atlas.domains.minigrid.alphabet import (
    ANY_COLOUR,
    ANY_STATE,
    CARRYING,
    DOOR_TYPE,
    NEXT,
    PROPOSITIONS,
    Descriptor,
    Proposition,
)
from atlas.domains.minigrid.grid import BALL, DOOR_CLOSED, DOWN, UP, VIEW, Level, State, cell

# The cells in sight are the bits of a word, with a gap of one bit between rows, so that neighbours to the left and
# right are one shift away, and never in another row. They are not turned to the view of the agent, because neighbours
# stay neighbours; only its own cell and the one ahead are in other places then.
STRIDE: Final = VIEW + 1
CELL_BITS: Final = np.array(
    [[1 << (STRIDE * row + column) for column in range(VIEW)] for row in range(VIEW)], np.uint32
)
ALL_CELLS: Final = int(CELL_BITS.sum())
OWN_BITS: Final = tuple(int(np.rot90(CELL_BITS, turn)[VIEW - 1, VIEW // 2]) for turn in range(4))
"""The agent's own cell, by direction."""
FRONT_BITS: Final = tuple(int(np.rot90(CELL_BITS, turn)[VIEW - 2, VIEW // 2]) for turn in range(4))
"""The cell ahead, by direction."""

KIND_MASK: Final = 0b1111000
DOOR_FLAG: Final = 0b1000000
"""A bit that only doors have after `_flag_doors`, so that any set of objects a descriptor can name is a mask test."""


def _flag_doors(cells: UInt8[Array, "*cells"]) -> UInt8[Array, "*cells"]:
    return jnp.where(cells >= cell(DOOR_CLOSED, 0), cells + (DOOR_FLAG - cell(DOOR_CLOSED, 0)), cells)


def _mask_and_value(thing: Descriptor) -> tuple[int, int]:
    """The test `cell & mask == value` for cells with flagged doors."""
    colour_mask, colour = (0, 0) if thing.colour == ANY_COLOUR else (0b111, thing.colour)
    if thing.type != DOOR_TYPE:
        return KIND_MASK | colour_mask, 8 * (BALL + thing.type) | colour
    if thing.state == ANY_STATE:
        return DOOR_FLAG | colour_mask, DOOR_FLAG | colour
    return KIND_MASK | colour_mask, DOOR_FLAG | 8 * thing.state | colour


SECOND_SHIFT, LOCATION_SHIFT = 14, 28


def _code(proposition: Proposition) -> int:
    """A proposition in one word: from the lowest bit 7 each of mask, value, mask, value, then the location."""
    code = proposition.location << LOCATION_SHIFT
    for shift, thing in zip((0, SECOND_SHIFT), proposition.objects, strict=False):
        mask, value = _mask_and_value(thing)
        code |= (mask | value << 7) << shift
    return code


CODES: Final = np.array([_code(proposition) for proposition in PROPOSITIONS], np.uint32)


def holds(state: State, props: Int[Array, "*asked"]) -> Bool[Array, "*asked"]:
    """Which of the asked propositions hold now."""
    return _evaluate(dynamics.window(state), state.direction, state.carrying, props)


def _evaluate(
    window: UInt8[Array, "5 5"], direction: Int8[Array, ""], carrying: UInt8[Array, ""], props: Int[Array, "*asked"]
) -> Bool[Array, "*asked"]:
    """Which of the asked propositions hold, given the cells in sight, the agent at the middle of one side of them."""
    codes = jnp.asarray(CODES)[props]
    location = codes >> LOCATION_SHIFT
    own, ahead = _of_direction(direction, OWN_BITS), _of_direction(direction, FRONT_BITS)
    besides = ALL_CELLS ^ own
    first, second = _fitting(_flag_doors(window).reshape(-1), codes)
    near = _neighbours(second & besides) & besides
    in_sight = (first & jnp.where(location == NEXT, near, ahead)) != 0
    return jnp.where(location == CARRYING, _fits(_flag_doors(carrying), codes), in_sight)


def _of_direction(direction: Int8[Array, ""], bits: tuple[int, ...]) -> UInt32[Array, ""]:
    """One of four words; cheaper than looking it up in an array."""
    up, right, down, left = map(jnp.uint32, bits)
    return jnp.where(direction < DOWN, jnp.where(direction == UP, up, right), jnp.where(direction == DOWN, down, left))


def _fits(cells: UInt8[Array, "*#shape"], codes: UInt32[Array, "*#shape"]) -> Bool[Array, "*#shape"]:
    """Whether cells pass the test in the lowest 14 bits of a code."""
    mask, value = (codes & 127).astype(jnp.uint8), ((codes >> 7) & 127).astype(jnp.uint8)
    return (cells & mask) == value


def _fitting(
    cells: UInt8[Array, "25"], codes: UInt32[Array, "*asked"]
) -> tuple[UInt32[Array, "*asked"], UInt32[Array, "*asked"]]:
    """The cells that fit the first and the second descriptor of each code, as bits.

    One reduction for both: XLA never fuses such a pair into what comes after, which would undo its vectorisation.
    """
    asked = (1,) * codes.ndim
    bits = jnp.asarray(CELL_BITS.reshape(*asked, -1))
    one, other = (
        jnp.where(_fits(cells.reshape(*asked, -1), tests[..., None]), bits, jnp.uint32(0))
        for tests in (codes, codes >> SECOND_SHIFT)
    )
    join = lambda a, b: (a[0] | b[0], a[1] | b[1])  # noqa: E731
    first, second = jax.lax.reduce((one, other), (jnp.uint32(0), jnp.uint32(0)), join, (codes.ndim,))
    return first, second


def _neighbours(bits: UInt32[Array, "*asked"]) -> UInt32[Array, "*asked"]:
    """The cells above, below, left and right of the given ones (and bits that are no cells)."""
    return (bits << 1) | (bits >> 1) | (bits << STRIDE) | (bits >> STRIDE)


def distances(level: Level, props: Int[Array, "asked"]) -> Float32[Array, "asked"]:
    """Steps in a straight line from the agent to the farther of the nearest things that each proposition is about;
    something far off where there is none, 0 for what it carries."""
    codes = jnp.asarray(CODES)[jnp.maximum(props, 0)]
    cells = _flag_doors(level.cells)
    rows, columns = jnp.indices(cells.shape)
    away = jnp.abs(rows - level.position[0]) + jnp.abs(columns - level.position[1])
    nowhere = sum(cells.shape)

    def nearest(tests: UInt32[Array, "asked"]) -> Int32[Array, "asked"]:
        found = _fits(cells[None], tests[:, None, None])
        held = _fits(_flag_doors(level.carrying), tests)
        return jnp.where(held, 0, jnp.min(jnp.where(found, away[None], nowhere), axis=(1, 2)))

    first, second = nearest(codes), nearest(codes >> SECOND_SHIFT)
    both = jnp.where(codes >> LOCATION_SHIFT == NEXT, jnp.maximum(first, second), first)
    return both.astype(jnp.float32)


def things_of(cells: np.ndarray) -> np.ndarray:
    """`bool[889, cells]`: which of some cells each proposition is about."""
    flagged = np.where(cells >= cell(DOOR_CLOSED, 0), cells + (DOOR_FLAG - cell(DOOR_CLOSED, 0)), cells)
    found = np.zeros((len(PROPOSITIONS), len(cells)), bool)
    for row, proposition in zip(found, PROPOSITIONS, strict=True):
        for mask, value in map(_mask_and_value, proposition.objects):
            row |= (flagged & mask) == value
    return found


def is_handled(props: Int[Array, "asked"]) -> Bool[Array, "asked"]:
    """Whether a proposition (-1: none) is about something that is carried, or brought next to something else."""
    location = jnp.asarray(CODES)[jnp.maximum(props, 0)] >> LOCATION_SHIFT
    return (props >= 0) & ((location == CARRYING) | (location == NEXT))


def label(state: State) -> Bool[Array, "889"]:
    """Which of all propositions hold now."""
    return holds(state, jnp.arange(len(PROPOSITIONS)))
