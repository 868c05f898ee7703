"""Problems on the page: levels whose cells are drawn once for all of them, and machines."""

import re
from html import escape
from typing import Any, Final

from atlas.domains.minigrid import grid, render
from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.domains.minigrid.grid import Level
from atlas.domains.minigrid.text import natural_cells
from atlas.tasks.draw import Place, svg_task
from atlas.tasks.explain import explain, is_prose

CELLS: Final = (
    *(grid.FLOOR_CELL, grid.WALL_CELL, grid.OUTSIDE_CELL),
    *(8 * kind + colour for kind in grid.MOVABLE + grid.DOORS for colour in range(grid.NO_COLOUR)),
)
"""Every cell that can be drawn."""


def sprite() -> str:
    """The shapes that all levels of the page share, without showing anything itself."""
    return f'<svg class="sprite" aria-hidden="true">{render.svg_symbols(CELLS)}</svg>'


def level_svg(level: Level, width: int = 228) -> str:
    """A level that takes its shapes from the sprite. Tiles are whole pixels, so that no seams show between them."""
    cols = natural_cells(level).shape[1]
    text = render.svg_level(level, tile=max(8, min(22, width // cols)))
    text = re.sub(r"<symbol .*?</symbol>\n?", "", text, flags=re.DOTALL)
    return _inline(text)


def task_svg(task: Any, current: Place | None = None) -> str:
    """A machine; the current state is lit."""
    return _inline(svg_task(task, VOCABULARY, current))


def task_words(task: Any) -> str:
    """The task in English, as HTML, if a sentence or two say it."""
    words = explain(task, VOCABULARY)
    return f'<p class="task">{escape(words)}</p>' if is_prose(words) else ""


def _inline(text: str) -> str:
    """An SVG document as a part of a page."""
    return text.replace(' xmlns="http://www.w3.org/2000/svg"', "", 1).strip()
