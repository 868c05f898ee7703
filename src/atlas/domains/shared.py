"""What the surfaces of our domains share. Drawing and solving are imported when they are asked for."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

import jax
import numpy as np
from jax import Array
from jaxtyping import Bool

from atlas.domains import find
from atlas.types import Level, Problem, unpack_pair

CHUNK: Final = 1024
"""How many problems are checked at once: checks need memory."""


def batch_check(check: Callable[[Problem], Bool[Array, ""]]) -> Callable[[Problem], Bool[Array, "batch"]]:
    """A check of batches, of a check of one problem: in chunks."""

    def many(problems: Problem) -> Bool[Array, "batch"]:
        size = min(len(problems.task.target), CHUNK)
        found: Bool[Array, "batch"] = jax.lax.map(check, problems, batch_size=size)
        return found

    return many


class GridSurface:
    """The part of a `Surface` that other modules of its domain answer."""

    draw: ClassVar[str]
    """The module with `level_drawing`, `level_text`, `view_text`, `sign`, `legend` and `page_symbols`."""
    solver: ClassVar[str]
    """The module with `solve_many`."""

    def drawing(self, level: Level, strip: bool | None = None) -> Any:
        return find(self.draw).level_drawing(level, strip=strip)

    def sign(self, prop: int) -> Any:
        return find(self.draw).sign(prop)

    def legend(self) -> Sequence[tuple[Any, str]]:
        return find(self.draw).legend()

    def symbols(self) -> Sequence[Any]:
        return find(self.draw).page_symbols()

    def terminal(self, level: Level) -> Any:
        return find(self.draw).level_text(level)

    def terminal_view(self, view: np.ndarray) -> Any:
        return find(self.draw).view_text(view)

    def solve_many(self, problems: Sequence[Problem], **options: Any) -> list[Any]:
        return find(self.solver).solve_many(problems, **options)


def place_name(argument: int) -> str:
    """A cell in words, from what an edit left in the lineage."""
    return "{},{}".format(*unpack_pair(argument))
