"""A coarse map of what the agent has seen in an episode, around it and turned as it is.

All that changes is changed by the agent within its view. So what it has seen is the present level wherever it has
looked, and one bit a cell is memory enough. The map tells blocks of cells: narrow ones near the agent, wide ones far
off. A block shows the byte that counts most among its cells: something that the task asks for, else a door, a key,
another object, a cell that was not seen yet, a wall, floor. Things that the task asks for are marked in the view, too;
those that it forbids show another sign in the place of their colour.
"""

from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Int, UInt8, UInt32

from atlas.domains.minigrid import dynamics
from atlas.domains.minigrid.grid import BORDER, CELL_NAMES, COLOURS, KINDS, VIEW, WALL, State, cell
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
SHAPE: Final = (VIEW**2 + len(BLOCKS) ** 2, 1)
"""The cells of the view, then the blocks of the map, each row by row."""
FIELDS: Final = (2, len(KINDS), len(COLOURS) + 1)
"""Marked or not, kind, colour (the last one: unseen, or forbidden)."""

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
) -> UInt8[Array, "74 1"]:
    """The view and the map, with what the wanted and the forbidden propositions (-1: none) are about marked in both."""
    goals, bans = _about(wanted), _about(forbidden)
    known = jnp.where(seen, _marked(state.cells, goals, bans), jnp.uint8(UNSEEN))
    row, column = state.position.astype(jnp.int32)
    # One slice and fixed blocks are ten times as fast as blocks that begin where the agent is.
    around = jax.lax.dynamic_slice(
        jnp.pad(known, REACH - BORDER, constant_values=UNSEEN), (row, column), (2 * REACH + 1, 2 * REACH + 1)
    )
    blocks = dynamics.upright(_by_block(_by_block(around).T).T, state.direction)
    near = _marked(dynamics.view(state), goals, bans)
    return jnp.concatenate([near.reshape(-1), blocks.reshape(-1)])[:, None]


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
