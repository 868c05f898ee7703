"""LetterWorld for people: maps as text and pictures, moments and edits in words, solutions."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jax import Array
from jaxtyping import Bool

from atlas.domains.letterworld import text
from atlas.domains.letterworld.grid import EMPTY, Level, State
from atlas.domains.letterworld.settings import LETTERS, SIZE, LetterWorldConfig
from atlas.types import Problem, unpack_pair

if TYPE_CHECKING:
    from rich.text import Text as TerminalText

    from atlas.proofs import Solution
    from atlas.show.canvas import Drawing, Sign, Symbol


class LetterWorldSurface:
    """See `atlas.types.Surface`."""

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
            "move_agent": lambda: f"to {_place(second)}",
            "move_letter": lambda: f"{text.CELLS[third]} from {_place(first)} to {_place(second)}",
            "swap_letters": lambda: f"{_place(first)} and {_place(second)}",
            "add_letter": lambda: f"{text.CELLS[third]} at {_place(second)}",
            "remove_letter": lambda: f"{text.CELLS[third]} from {_place(first)}",
        }
        return words[name]() if name in words else None

    def drawing(self, level: Level, strip: bool | None = None) -> "Drawing":
        from atlas.domains.letterworld.draw import level_drawing

        return level_drawing(level)

    def sign(self, prop: int) -> "Sign":
        from atlas.domains.letterworld.draw import sign

        return sign(prop)

    def legend(self) -> "list[tuple[Drawing, str]]":
        from atlas.domains.letterworld.draw import legend

        return legend()

    def symbols(self) -> "list[Symbol]":
        from atlas.domains.letterworld.draw import page_symbols

        return page_symbols()

    def tiles(self, level: Level) -> dict[str, Any]:
        cells, place = np.asarray(level.cells), np.asarray(level.position)
        return {"cols": SIZE, "cells": cells.flatten().tolist(), "at": place.tolist(), "to": 0, "lit": []}

    def terminal(self, level: Level) -> "TerminalText":
        from atlas.domains.letterworld.draw import level_text

        return level_text(level)

    def terminal_view(self, view: np.ndarray) -> "TerminalText":
        from atlas.domains.letterworld.draw import view_text

        return view_text(view)

    def holding(self, level: Level) -> None:
        return None

    def screen(self, settings: LetterWorldConfig) -> Callable[[Problem], Bool[Array, ""]]:
        """Exact, but for the step limit."""
        from atlas.domains.letterworld.solver import reachable

        return reachable

    def screen_many(self, problems: Problem) -> np.ndarray:
        from atlas.domains.letterworld.solver import reachable_many

        return reachable_many(problems)

    def solve_many(self, problems: Sequence[Problem], **options: Any) -> "list[Solution]":
        from atlas.domains.letterworld.solver import solve_many

        return solve_many(problems, **options)

    def hints(self, problem: Problem) -> list[str]:
        """Every cell can be walked to."""
        return []


def _count(level: Level) -> int:
    return int(np.count_nonzero(np.asarray(level.cells) != EMPTY))


def _place(argument: int) -> str:
    row, column = unpack_pair(argument)
    return f"{row},{column}"
