"""A coarse map of what the agent has seen in an episode, around it and turned as it is.

All that changes is changed by the agent within its view. So what it has seen is the present level wherever it has
looked, and one bit a cell is memory enough. The map tells blocks of cells: narrow ones near the agent, wide ones far
off. A block shows the byte that counts most among its cells: something that the task asks for, else a door, a key,
another object, a cell that was not seen yet, a wall, floor. Things that the task asks for are marked in the view, too;
those that it forbids show another sign in the place of their colour. Blocks do not show how one gets anywhere, so the
map also tells ways over what was seen: the first step, and how far it is, to the nearest of what is asked for, of what
was not seen, of keys and of locks.
"""

from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Int, Int32, UInt8, UInt32

from atlas.domains.minigrid import dynamics
from atlas.domains.minigrid.grid import (
    BORDER,
    CELL_NAMES,
    COLOURS,
    DOOR_CLOSED,
    DOOR_LOCKED,
    DOOR_OPEN,
    FLOOR,
    KEY,
    KINDS,
    STEPS,
    VIEW,
    WALL,
    State,
    cell,
    colour_of,
    kind_of,
)
from atlas.domains.minigrid.labels import things_of

UNSEEN: Final = cell(WALL, len(COLOURS))
"""A cell that was not seen: no other byte says so, it counts more than a wall and less than an object."""
FORBIDDEN: Final = len(COLOURS)
"""In the place of the colour of a thing that the task forbids: all three bits, so a union with any colour is this."""
MARK: Final = 1 << 7
"""The bit of a cell that the task asks for."""
BLOCKS: Final = (12, 3, 3, 1, 3, 3, 12)
"""Widths of the blocks, from the left to the right of the agent and from far ahead to far behind it."""
REACH: Final = sum(BLOCKS) // 2
"""How far the map reaches: a cell at one end of a level of nine rooms is on it, seen from the other end."""
WAYS: Final = ("asked for", "not seen", "key", "locked door")
"""Where the ways lead to, each to the nearest of its kind."""
TURNS: Final = (0, 1, 3, 2)
"""Directions as seen by the agent, in the order in which first steps are preferred: ahead, right, left, behind."""
FAR: Final = (1, 2, 4, 8, 16, 32)
"""Lengths of ways are told as how many of these they reach."""
SHAPE: Final = (VIEW**2 + len(BLOCKS) ** 2 + len(WAYS), 1)
"""The cells of the view, then the blocks of the map, each row by row, then the ways."""
FIELDS: Final = (2, len(KINDS), len(COLOURS) + 1)
"""Marked or not, kind, colour (the last one: unseen, or forbidden). In a way: its first step (0: there is no way, else
the place in TURNS, from 1), and how far it is."""

WORD: Final = 32
_CELLS: Final = np.array(sorted(CELL_NAMES), np.uint8)


def _asked_cells() -> np.ndarray:
    """`uint32[889, 3]`: the cells that each proposition is about, as bits."""
    things = things_of(_CELLS)
    words = np.zeros((len(things), cell(len(KINDS), 0) // WORD + 1), np.uint32)
    for about, word in zip(things, words, strict=True):
        for code in _CELLS[about].tolist():  # Python's numbers: a shifted byte would lose its bit
            word[code // WORD] |= np.uint32(1 << code % WORD)
    return words


ASKED: Final = _asked_cells()


def remember(seen: Bool[Array, "rows cols"] | None, state: State) -> Bool[Array, "rows cols"]:
    """Which cells (of the grid with its border) have been seen, now that the agent is where it is."""
    (top, left), (rows, cols) = dynamics.corner(state), state.cells.shape
    row, column = jnp.arange(rows), jnp.arange(cols)
    now = ((row >= top) & (row < top + VIEW))[:, None] & ((column >= left) & (column < left + VIEW))[None]
    return now if seen is None else seen | now


def view(
    state: State,
    seen: Bool[Array, "rows cols"],
    wanted: Int[Array, "literals"],
    forbidden: Int[Array, "literals"],
) -> UInt8[Array, "78 1"]:
    """The view and the map, with what the wanted and the forbidden propositions (-1: none) are about marked in both,
    and the ways."""
    goals, bans = _about(wanted), _about(forbidden)
    known = jnp.where(seen, _marked(state.cells, goals, bans), jnp.uint8(UNSEEN))
    row, column = state.position.astype(jnp.int32)
    # One slice and fixed blocks are ten times as fast as blocks that begin where the agent is.
    around = jax.lax.dynamic_slice(
        jnp.pad(known, REACH - BORDER, constant_values=UNSEEN), (row, column), (2 * REACH + 1, 2 * REACH + 1)
    )
    blocks = dynamics.upright(_by_block(_by_block(around).T).T, state.direction)
    near = _marked(dynamics.view(state), goals, bans)
    return jnp.concatenate([near.reshape(-1), blocks.reshape(-1), _ways(state, known)])[:, None]


def _about(props: Int[Array, "literals"]) -> UInt32[Array, "words"]:
    """The cells that some propositions (-1: none) are about, as bits."""
    cells = jnp.where((props >= 0)[:, None], jnp.asarray(ASKED)[props], jnp.uint32(0))
    return jax.lax.reduce(cells, jnp.uint32(0), jax.lax.bitwise_or, (0,))


def _marked(
    cells: UInt8[Array, "*shape"], goals: UInt32[Array, "words"], bans: UInt32[Array, "words"]
) -> UInt8[Array, "*shape"]:
    """Cells with a mark on those that are asked for, and without their colour where they are forbidden; both may be."""
    code = cells.astype(jnp.uint32)

    def among(words: UInt32[Array, "words"]) -> Bool[Array, "*shape"]:
        word = words[0]
        for number in range(1, len(words)):
            word = jnp.where(code >= number * WORD, words[number], word)
        return (word >> (code % WORD)) & 1 > 0

    shown = jnp.where(among(bans), cells | jnp.uint8(FORBIDDEN), cells)
    return jnp.where(among(goals), shown | jnp.uint8(MARK), shown)


def _by_block(cells: UInt8[Array, "lines width"]) -> UInt8[Array, "7 width"]:
    """What counts most in each block of lines, by column."""
    ends = np.cumsum(BLOCKS)
    return jnp.stack([cells[end - width : end].max(0) for width, end in zip(BLOCKS, ends, strict=True)])


_Search = tuple[Int32[Array, ""], UInt32[Array, "ways rows"], UInt8[Array, "ways"], Bool[Array, ""]]
"""Steps so far, from where a target can be reached by as many, ways that were found, whether there may be more."""


def _ways(state: State, known: UInt8[Array, "rows cols"]) -> UInt8[Array, "ways"]:
    """For each of WAYS, the way to a cell beside the nearest one. It leads over floor and through doors, locked ones if
    their key is at hand."""
    seen, thing, carrying = known != UNSEEN, known & (MARK - 1), state.carrying
    kind = kind_of(thing)
    has_key = (kind == DOOR_LOCKED) & (kind_of(carrying) == KEY) & (colour_of(thing) == colour_of(carrying))
    free = _rows_of_bits(seen & ((kind == FLOOR) | (kind == DOOR_OPEN) | (kind == DOOR_CLOSED) | has_key))
    row, column = state.position.astype(jnp.int32) + BORDER
    rows, columns = jnp.arange(known.shape[0]), jnp.arange(known.shape[1])
    elsewhere = (rows != row)[:, None] | (columns != column)[None]
    targets = jnp.stack([known >= MARK, ~seen, kind == KEY, seen & (kind == DOOR_LOCKED)]) & elsewhere[None]
    beside = jnp.array([row, column])[None] + jnp.asarray(STEPS)[(state.direction + jnp.array(TURNS)) & 3]

    def among(reached: UInt32[Array, "ways rows"], at: Int[Array, "cells 2"]) -> Bool[Array, "ways cells"]:
        return (reached[:, at[:, 0]] >> at[:, 1].astype(jnp.uint32)[None]) & 1 > 0

    # From the targets to the agent, a step a round, all cells at once.
    def farther(carry: _Search) -> _Search:
        steps, reached, ways, _ = carry
        now = reached | (_spread(reached) & free[None])
        arrives = (ways == 0) & among(now, jnp.array([row, column])[None])[:, 0]
        way = (1 + jnp.argmax(among(reached, beside), -1)) * cell(1, 0) + (steps >= jnp.array(FAR)).sum()
        ways = jnp.where(arrives, way.astype(jnp.uint8), ways)
        return steps + 1, now, ways, jnp.any((ways == 0) & jnp.any(now != reached, -1))

    def goes_on(carry: _Search) -> Bool[Array, ""]:
        return carry[-1]

    start = (jnp.int32(0), _rows_of_bits(targets), jnp.zeros(len(WAYS), jnp.uint8), jnp.bool_(True))
    return jax.lax.while_loop(goes_on, farther, start)[2]


def _rows_of_bits(cells: Bool[Array, "*lead rows cols"]) -> UInt32[Array, "*lead rows"]:
    """A word a row, a bit a cell."""
    bits = jnp.broadcast_to(jnp.uint32(1) << jnp.arange(cells.shape[-1], dtype=jnp.uint32), cells.shape)
    return jnp.where(cells, bits, 0).sum(-1, dtype=jnp.uint32)


def _spread(reached: UInt32[Array, "ways rows"]) -> UInt32[Array, "ways rows"]:
    """Those cells and their neighbours."""
    none = jnp.zeros_like(reached[:, :1])
    above, below = jnp.concatenate([reached[:, 1:], none], 1), jnp.concatenate([none, reached[:, :-1]], 1)
    return reached | reached << 1 | reached >> 1 | above | below
