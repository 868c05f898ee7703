"""Maps as text: a character a cell, with or without blanks between them.

. a . . k . .       .  an empty cell
b . . h . . c       a  a letter, a to l
. . @ . . l .       @  the agent on an empty cell
. d . . . . g       A  the agent on a letter, here an a
...
"""

from typing import Final

import jax.numpy as jnp
import numpy as np

from atlas.domains.letterworld.grid import EMPTY, Level
from atlas.domains.letterworld.settings import LETTERS, SIZE
from atlas.errors import LevelTextError

CELLS: Final = "." + LETTERS
"""The character of each cell, by its number."""
AGENT: Final = "@" + LETTERS.upper()
"""The same for the cell that the agent is on."""
MOST_CHARACTERS: Final = 2_000
"""Of a drawing, blanks included."""


def parse_level(text: str) -> Level:
    """Read a map."""
    if len(text) > MOST_CHARACTERS:
        raise LevelTextError(f"the map has {len(text):,} characters: {SIZE}x{SIZE} cells are needed")
    drawn = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    if len(drawn) != SIZE:
        raise LevelTextError(f"the map has {len(drawn)} lines: {SIZE} are needed", drawn[-1][0] if drawn else 0)
    cells, agents = np.zeros((SIZE, SIZE), np.uint8), list[tuple[int, int]]()
    for row, (number, line) in enumerate(drawn):
        found = [(column, mark) for column, mark in enumerate(line, start=1) if not mark.isspace()]
        if len(found) != SIZE:
            raise LevelTextError(f"the line has {len(found)} cells: {SIZE} are needed", number)
        for column, (place, mark) in enumerate(found):
            if mark not in CELLS + AGENT:
                allowed = f"letters are {LETTERS[0]} to {LETTERS[-1]}, . is empty, @ or a capital letter the agent"
                raise LevelTextError(f"'{mark}' is no cell: {allowed}", number, place)
            if mark in AGENT:
                if agents:
                    raise LevelTextError("there is a second agent", number, place)
                agents.append((row, column))
            cells[row, column] = (AGENT if mark in AGENT else CELLS).index(mark)
    if not agents:
        raise LevelTextError("there is no agent: @ on an empty cell, or a capital letter on a letter")
    return Level(cells=jnp.asarray(cells), position=jnp.array(agents[0], jnp.int8))


def format_level(level: Level) -> str:
    """The inverse."""
    rows = [[CELLS[code] for code in row] for row in np.asarray(level.cells).tolist()]
    row, column = np.asarray(level.position).tolist()
    rows[row][column] = AGENT[int(level.cells[row, column])]
    return "\n".join(map(" ".join, rows))


def cell_name(code: int) -> str:
    """`a`, or `empty`."""
    return "empty" if code == EMPTY else CELLS[code]
