"""What maps look like: as shapes for pictures, as coloured text for terminals. Also the signs of letters."""

import functools
from typing import Final

import numpy as np
from rich.text import Text as TerminalText

from atlas.domains.letterworld.grid import EMPTY, Level
from atlas.domains.letterworld.settings import LETTERS, SIZE
from atlas.domains.letterworld.text import CELLS
from atlas.show.canvas import Circle, Drawing, Rectangle, Shape, Sign, Symbol, Text, box

FLOOR, SEAM, DARK, AGENT = "#16171b", "#3a3c42", "#16171b", "#ff4030"
TILES: Final = (
    "#f28b82", "#fbbc6b", "#f7e463", "#b9dc6d", "#7cc98a", "#6fd0c8", "#7fb8f0", "#8f9df2", "#b991ea", "#e38fd0",
    "#c9a58a", "#b9bec8",
)  # fmt: skip
"""A colour for each letter: light, so that the letter on it is read first."""


def level_drawing(level: Level, strip: bool | None = None) -> Drawing:
    """The map as shapes; letters tell their names when pointed at. Nothing is held, so there is never a strip."""
    shapes: list[Shape] = []
    for (row, column), code in np.ndenumerate(np.asarray(level.cells)):
        shapes.append(cell_symbol(int(code), (float(column), float(row))))
    row, column = np.asarray(level.position).tolist()
    shapes.append(agent_symbol((float(column), float(row))))
    return Drawing(tuple(shapes), (SIZE, SIZE))


def cell_symbol(code: int, at: tuple[float, float] = (0.0, 0.0)) -> Symbol:
    """A cell by its number."""
    return Symbol(f"cell{code}", _cell(code), at, "" if code == EMPTY else CELLS[code])


def agent_symbol(at: tuple[float, float] = (0.0, 0.0)) -> Symbol:
    """The agent: a ring, so that the letter below it can be read."""
    return Symbol("agent0", (Circle((0.515, 0.515), 0.39, stroke=AGENT, width=0.13),), at, "agent")


def page_symbols() -> list[Symbol]:
    """All symbols of maps and signs, for pages that define them once."""
    return [*map(cell_symbol, range(len(CELLS))), agent_symbol()]


@functools.cache
def _cell(code: int) -> tuple[Shape, ...]:
    ground = (box(0, 0, 1, 1, SEAM), box(0.03, 0.03, 1, 1, FLOOR))
    return ground if code == EMPTY else (*ground, *_tile(code))


def _tile(code: int) -> tuple[Shape, ...]:
    plate = Rectangle((0.115, 0.115), (0.8, 0.8), 0.12, fill=TILES[code - 1])
    return plate, Text((0.515, 0.5), CELLS[code], 0.62, fill=DARK, bold=True, anchor="middle")


@functools.cache
def sign(prop: int) -> Sign:
    """A letter on its tile."""
    return Sign(LETTERS[prop], Drawing((Symbol(f"cell{prop + 1}", _cell(prop + 1)),), (1.0, 1.0)))


def legend() -> list[tuple[Drawing, str]]:
    """What maps hold."""
    return [
        (Drawing((cell_symbol(EMPTY), agent_symbol()), (1.0, 1.0)), "agent; it sees the whole map"),
        (Drawing((cell_symbol(1),), (1.0, 1.0)), "a letter: on the map a cell, in a task that the agent stands on it"),
        (Drawing((cell_symbol(EMPTY),), (1.0, 1.0)), "empty; the sides of the map are joined"),
    ]


def level_text(level: Level) -> TerminalText:
    """The map in colours, two columns a cell."""
    row, column = np.asarray(level.position).tolist()
    return _cells_text(np.asarray(level.cells), (row, column))


def view_text(view: np.ndarray) -> TerminalText:
    """What the agent sees: the map, itself in the middle."""
    return _cells_text(view, (SIZE // 2, SIZE // 2))


def _cells_text(cells: np.ndarray, agent: tuple[int, int]) -> TerminalText:
    lines = [TerminalText(no_wrap=True) for _ in cells]
    for (row, column), code in np.ndenumerate(cells):
        here = agent == (row, column)
        ground = AGENT if here else FLOOR if code == EMPTY else TILES[code - 1]
        mark = "@ " if here and code == EMPTY else "· " if code == EMPTY else f"{CELLS[code]} "
        ink = "#ffffff" if here else SEAM if code == EMPTY else DARK
        lines[row].append(mark, f"bold {ink} on {ground}")
    return TerminalText("\n").join(lines)
