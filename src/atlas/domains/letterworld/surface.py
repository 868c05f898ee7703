"""LetterWorld for people: maps as text and pictures, moments and edits in words, solutions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from atlas.domains.letterworld import text
from atlas.domains.letterworld.grid import EMPTY, Level, State
from atlas.domains.letterworld.settings import LETTERS, SIZE
from atlas.domains.shared import GridSurface, place_name
from atlas.errors import LevelTextError, nearest
from atlas.types import Brush, Problem

AGENT: Final = "agent"
EXAMPLE: Final = {
    "level": """\
. a . . k . .
b . . h . . c
. . @ . . l .
. d . . . . g
e . . i . . .
. . j . . b .
f . . . a . .""",
    "task": "visit h, then visit l, then visit a, without visiting k",
}


class LetterWorldSurface(GridSurface):
    """See `atlas.types.Surface`."""

    draw = "atlas.domains.letterworld.draw"
    solver = "atlas.domains.letterworld.solver"
    level_type = Level
    level_keys = ("level",)
    carries = False
    keys = ({"up": 0, "right": 1, "down": 2, "left": 3}, "↑ → ↓ ← walk")

    def parse_level(self, texts: Mapping[str, str]) -> Level:
        return text.parse_level(texts["level"])

    def format_level(self, level: Level) -> dict[str, str]:
        return {"level": text.format_level(level)}

    def crop(self, level: Level) -> Level:
        """All maps are of one size."""
        return level

    def pad(self, level: Level) -> Level:
        return level

    def sound(self, levels: Level) -> np.ndarray:
        cells, place = np.asarray(levels.cells), np.asarray(levels.position)
        if cells.shape[1:] != (SIZE, SIZE) or place.shape[1:] != (2,):
            return np.zeros(len(cells), bool)
        inside = (place >= 0) & (place < SIZE)
        return np.asarray((cells <= len(LETTERS)).all((1, 2)) & inside.all(1))

    def things(self, level: Level) -> list[str]:
        return [LETTERS[code - 1] for code in np.asarray(level.cells).flatten().tolist() if code]

    def describe(self, level: Level) -> dict[str, Any]:
        return {"letters": _count(level), "level": text.format_level(level)}

    def overview(self, level: Level) -> dict[str, str]:
        return {"letters": str(_count(level))}

    def observe(self, state: State) -> dict[str, Any]:
        """`position` (row, column), `letter` (None on an empty cell), and `view` as rows of letters, the agent in the
        middle."""
        row, column = np.asarray(state.position).tolist()
        view = np.asarray(state.cells)[row : row + SIZE, column : column + SIZE].tolist()
        here = view[SIZE // 2][SIZE // 2]
        return {
            "position": (row, column),
            "letter": None if here == EMPTY else text.CELLS[here],
            "view": [[text.cell_name(code) for code in line] for line in view],
        }

    def moment(self, observed: Mapping[str, Any]) -> dict[str, str]:
        return {"at": "{},{}".format(*observed["position"])}

    def edit_words(self, name: str, arguments: Sequence[int]) -> str | None:
        first, second, third = arguments
        words: dict[str, Callable[[], str]] = {
            "move_agent": lambda: f"to {place_name(second)}",
            "move_letter": lambda: f"{text.CELLS[third]} from {place_name(first)} to {place_name(second)}",
            "swap_letters": lambda: f"{place_name(first)} and {place_name(second)}",
            "add_letter": lambda: f"{text.CELLS[third]} at {place_name(second)}",
            "remove_letter": lambda: f"{text.CELLS[third]} from {place_name(first)}",
        }
        return words[name]() if name in words else None

    def tiles(self, level: Level) -> dict[str, Any]:
        cells, place = np.asarray(level.cells), np.asarray(level.position)
        return {"cols": SIZE, "cells": cells.flatten().tolist(), "at": place.tolist(), "to": 0, "lit": []}

    def view_tiles(self, view: np.ndarray) -> dict[str, Any]:
        """The map, the agent in the middle."""
        middle = [SIZE // 2, SIZE // 2]
        return {"cols": SIZE, "cells": view.flatten().tolist(), "at": middle, "to": 0, "lit": []}

    def brushes(self) -> list[Brush]:
        letters = [Brush(f"letter {text.CELLS[n]}", "letter", (f"cell{n}",)) for n in range(1, len(text.CELLS))]
        agent = Brush(AGENT, AGENT, (f"cell{EMPTY}", "agent0"))
        return [Brush("empty", "empty", (f"cell{EMPTY}",)), *letters, agent]

    def paint(self, level: Level, brush: str, row: int, column: int) -> Level:
        cells, agent = _parts(level, (row, column))
        known = [one.name for one in self.brushes()]
        if brush not in known:
            raise LevelTextError(f"'{brush}' is no brush{nearest(brush, known)}")
        if brush == AGENT:
            return _made(cells, (row, column))
        cells[row, column] = known.index(brush)
        return _made(cells, agent)

    def move(self, level: Level, source: tuple[int, int], target: tuple[int, int]) -> Level:
        """Letters change places."""
        cells, agent = _parts(level, source, target)
        if source == agent:
            return _made(cells, target)
        cells[source], cells[target] = int(cells[target]), int(cells[source])
        return _made(cells, agent)

    def resize(self, level: Level, rows: int, columns: int) -> Level:
        if (rows, columns) != (SIZE, SIZE):
            raise LevelTextError(f"all maps are {SIZE}x{SIZE}")
        return level

    def templates(self) -> dict[str, Level]:
        empty = _made(np.zeros((SIZE, SIZE), np.uint8), (SIZE // 2, SIZE // 2))
        return {"empty map": empty, "scattered letters": text.parse_level(EXAMPLE["level"])}

    def example(self) -> dict[str, str]:
        return EXAMPLE

    def holding(self, level: Level) -> None:
        return None

    def screen_many(self, problems: Problem) -> np.ndarray:
        from atlas.domains.letterworld.solver import reachable_many

        return reachable_many(problems)

    def hints(self, problem: Problem) -> list[str]:
        """Every cell can be walked to."""
        return []


def _parts(level: Level, *places: tuple[int, int]) -> tuple[np.ndarray, tuple[int, int]]:
    """The cells, to be changed, and where the agent is; all places must be on the map."""
    for row, column in places:
        if not (0 <= row < SIZE and 0 <= column < SIZE):
            raise LevelTextError(f"there is no cell {row},{column}: the map has {SIZE} rows and columns")
    row, column = np.asarray(level.position).tolist()
    return np.array(level.cells), (row, column)


def _made(cells: np.ndarray, agent: tuple[int, int]) -> Level:
    return Level.unchecked(cells=cells, position=np.array(agent, np.int8))


def _count(level: Level) -> int:
    return int(np.count_nonzero(np.asarray(level.cells) != EMPTY))
