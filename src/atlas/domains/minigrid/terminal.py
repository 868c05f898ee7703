"""Levels in the terminal: two columns a cell, each on a ground of its own, for dark and light screens alike."""

from typing import Final

import numpy as np
from rich.color import Color
from rich.style import Style
from rich.text import Text

from atlas.domains.minigrid import grid, text
from atlas.domains.minigrid.grid import Level
from atlas.domains.minigrid.render import seen
from atlas.domains.minigrid.shapes import AGENT, FLOOR, INKS, LIGHT, WALL, Ink

GLYPHS: Final = {
    grid.BALL: "● ", grid.SQUARE: "■ ", grid.KEY: "o┬", grid.DOOR_CLOSED: " •", grid.DOOR_LOCKED: "××",
    grid.DOOR_OPEN: "[]",
}  # fmt: skip
ARROWS: Final = "▲▶▼◀"


def level_text(level: Level, highlight: bool = True) -> Text:
    """The level in colours; what the agent sees is lit."""
    cells = text.natural_cells(level)
    lit = seen(level) & highlight
    agent = tuple(level.position.tolist())
    lines = []
    for row in range(cells.shape[0]):
        line = Text(no_wrap=True)
        for col in range(cells.shape[1]):
            faces = int(level.direction) if (row, col) == agent else None
            line.append(*_cell(int(cells[row, col]), bool(lit[row, col]), faces))
        lines.append(line)
    return Text("\n").join(lines)


def view_text(view: np.ndarray) -> Text:
    """The 5x5 view as the agent has it: itself at the bottom centre, looking up."""
    lines = []
    for row in range(view.shape[0]):
        line = Text(no_wrap=True)
        for col in range(view.shape[1]):
            own = row == grid.VIEW - 1 and col == grid.VIEW // 2
            code = int(view[row, col])
            line.append(*_cell(code, False, grid.UP if own and code == grid.NOTHING else None))
        lines.append(line)
    return Text("\n").join(lines)


def object_text(code: int) -> Text:
    """One object with its name, for running text."""
    glyph, style = _cell(code, False, None)
    return Text.assemble((glyph, style), f" {text.object_phrase(code)}")


def _cell(code: int, lit: bool, faces: int | None) -> tuple[str, Style]:
    """The two characters of a cell and their colours."""
    kind, colour = divmod(code, 8)
    if kind == grid.OUTSIDE:
        return "  ", Style()
    if kind == grid.WALL:
        return "  ", _style(WALL, WALL, lit)
    if faces is not None:
        return f"{ARROWS[faces]} ", _style(AGENT, FLOOR, lit)
    if kind == grid.FLOOR:
        return "  ", _style(FLOOR, FLOOR, lit)
    if kind in (grid.DOOR_CLOSED, grid.DOOR_LOCKED):
        return GLYPHS[kind], _style(FLOOR, INKS[colour], lit)
    return GLYPHS[kind], _style(INKS[colour], FLOOR, lit)


def _style(ink: Ink, ground: Ink, lit: bool) -> Style:
    if lit:
        red, green, blue = (round((1 - LIGHT) * c + LIGHT * 255) for c in ground)
        ground = red, green, blue
    return Style(color=Color.from_rgb(*ink), bgcolor=Color.from_rgb(*ground), bold=True)
