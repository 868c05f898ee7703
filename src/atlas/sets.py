"""The sets of problems that policies are compared on: how each is made, and how to tell that it is the right one.

*hand* comes with ATLAS as text. The others are drawn from a seed: level-conditioned, each problem proven solvable by a
plan that the world accepts, none completed by its first label, no two the same. Which problems are kept follows from
the order in which they were drawn, so neither the number of processes nor the machine matters.
"""

import hashlib
import itertools
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from importlib.metadata import version
from typing import Any, Final, Literal

import jax
import numpy as np

from atlas.config import RoomCount
from atlas.domains.minigrid import grid
from atlas.sampling import sample_batch, settings
from atlas.solver.many import Progress, silent, solve_many
from atlas.solver.prove import BUDGET, STEP_LIMIT
from atlas.tasks.identity import content_hash
from atlas.tasks.rm import ACCEPTED, num_states
from atlas.types import Problem

RECIPE: Final = 1
"""Counts changes of how sets are drawn."""
DRAWN: Final = 16_384
"""Problems drawn at a time."""
SPARE: Final = 1.3
"""Problems that are put to the prover for each one needed: about one in six cannot be solved."""
ROOMS: Final[tuple[RoomCount, ...]] = (1, 2, 4, 6)
LENGTHS: Final = range(1, 6)
BANDS: Final = {
    1: ((1, 2), (3, 4), (5, 5)),
    2: ((1, 3), (4, 7), (8, 10)),
    4: ((4, 7), (8, 11), (12, 15)),
    6: ((7, 10), (11, 16), (17, 20)),
}
"""Few, some or many objects, doors included, by number of rooms."""
BAND_NAMES: Final = ("few", "some", "many")
PER_CELL: Final = 5


@dataclass(frozen=True)
class Recipe:
    """How a set is drawn."""

    name: str
    about: str
    tasks: Literal["sequential", "dag"]
    count: int
    balanced: bool
    """As many problems of each number of rooms, band of objects and length; else as they come."""
    fingerprint: str
    """What `fingerprint` gives for the set drawn from seed 0: the one that results are reported on."""

    @property
    def quota(self) -> int:
        """Problems in each cell."""
        return PER_CELL if self.balanced else self.count


RECIPES: Final = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            name="cvar-sequential",
            about="problems with sequential tasks, as training draws them",
            tasks="sequential",
            count=10_000,
            balanced=False,
            fingerprint="6740fba3dfb4f51174ed170d2b49e725038e23b9286e4a4df31882cad458ba9d",
        ),
        Recipe(
            name="cvar-dag",
            about="problems whose tasks are acyclic graphs, as training draws them",
            tasks="dag",
            count=10_000,
            balanced=False,
            fingerprint="36b94148153d6d8e74570bc4fa129e4951e4ff95416e70f70b7cc3f17370685e",
        ),
        Recipe(
            name="validation",
            about="sequential problems, five for each number of rooms, band of objects and length",
            tasks="sequential",
            count=300,
            balanced=True,
            fingerprint="048be214f91254fa685e1e5cb19c168add151cac9270157cee3be3515f6b23c1",
        ),
    )
}
HAND_FINGERPRINT: Final = "b2baaa1ec91ec5229146ae9557b48802bd3d77c11f0a5234c65b6da42e0b6608"
"""Of the problems in `hand`."""


@dataclass(frozen=True, eq=False)
class Built:
    """A set and what is known about it."""

    problems: Problem
    """Batched."""
    names: tuple[str, ...]
    tags: tuple[tuple[str, ...], ...]
    seed: int
    settings: dict[str, Any]
    """Provenance in plain values: among others, how long the prover's plans are."""


@dataclass(frozen=True, eq=False)
class _Found:
    """A certified problem."""

    cell: int
    problem: Problem
    plan_length: int


def build(recipe: Recipe, seed: int = 0, workers: int = 0, progress: Progress = silent) -> Built:
    """Draw a set. More than one worker (0: one a core) starts other Python processes; see `solve_many`.

    Of every cell the first problems that can be certified are kept, in the order in which they were drawn.
    """
    kept: dict[int, list[_Found]] = {cell: [] for cell in range(recipe.count // recipe.quota)}
    seen: set[Any] = set()
    drawn = 0
    while any(len(found) < recipe.quota for found in kept.values()):
        waiting = _draw(recipe, seed, drawn // DRAWN, seen)
        drawn += DRAWN
        while chosen := list(_next(recipe, kept, waiting)):
            for found in _certified(chosen, workers, progress):
                if len(kept[found.cell]) < recipe.quota:
                    kept[found.cell].append(found)
    return _built(recipe, seed, [found for cell in kept.values() for found in cell], drawn)


Waiting = dict[int, list[Problem]]
"""Problems that were drawn and not yet looked at, by cell."""


def _draw(recipe: Recipe, seed: int, turn: int, seen: set[Any]) -> Waiting:
    """New problems, none of which was seen before, by cell."""
    config = settings("level", recipe.tasks, ROOMS)
    batch = sample_batch(config, DRAWN, zlib.crc32(f"{recipe.name} {seed} {turn}".encode()))
    waiting: Waiting = {}
    for cell, problem in zip(_cells(recipe, batch), one_by_one(batch), strict=True):
        if cell >= 0 and (same := identity(problem)) not in seen:
            seen.add(same)
            waiting.setdefault(int(cell), []).append(problem)
    return waiting


def identity(problem: Problem) -> Any:
    """Equal for problems that are the same: level for level, and task for task whatever its states are called."""
    level = problem.level
    return tuple(np.asarray(getattr(level, f.name)).tobytes() for f in fields(level)), content_hash(problem.task)


def _cells(recipe: Recipe, batch: Problem) -> np.ndarray:
    """`int[batch]`: the cell that each problem belongs to; -1 if none."""
    rooms, objects = np.asarray(batch.level.rooms), grid.count_objects(np.asarray(batch.level.cells))
    if not recipe.balanced:
        return np.zeros(len(rooms), int)
    lengths = np.argmax(np.asarray(batch.task.outcome) == ACCEPTED, axis=1)
    cells = np.full(len(rooms), -1)
    for number, (count, band, length) in enumerate(itertools.product(ROOMS, range(len(BAND_NAMES)), LENGTHS)):
        low, high = BANDS[count][band]
        cells[(rooms == count) & (objects >= low) & (objects <= high) & (lengths == length)] = number
    return cells


def _next(recipe: Recipe, kept: dict[int, list[_Found]], waiting: Waiting) -> Iterator[tuple[int, Problem]]:
    """The problems to look at next: some more than each cell still needs."""
    for cell, problems in waiting.items():
        needed = recipe.quota - len(kept[cell])
        some = int(needed * SPARE) + 1 if needed else 0
        yield from ((cell, problem) for problem in problems[:some])
        del problems[:some]


def _certified(chosen: Sequence[tuple[int, Problem]], workers: int, progress: Progress) -> Iterator[_Found]:
    """Those that are proven solvable and not trivial, in order."""
    problems = [problem for _, problem in chosen]
    solutions = solve_many(problems, bound=False, workers=workers, progress=progress)
    for (cell, problem), solution in zip(chosen, solutions, strict=True):
        if solution.plan:  # a plan of no steps belongs to a trivial problem
            yield _Found(cell, problem, len(solution.plan))


def _built(recipe: Recipe, seed: int, found: list[_Found], drawn: int) -> Built:
    problems: Problem = jax.tree.map(lambda *rows: np.stack(rows), *[one.problem for one in found])
    width = len(str(recipe.count - 1))
    about = {
        "set": recipe.name,
        "recipe": RECIPE,
        "atlas": version("atlas-ued"),
        "pairing": "level",
        "tasks": recipe.tasks,
        "rooms": list(ROOMS),
        "balanced": recipe.balanced,
        "drawn": drawn,
        "step_limit": STEP_LIMIT,
        "budget": BUDGET,
        "plan_lengths": [one.plan_length for one in found],
    }
    return Built(
        problems=problems,
        names=tuple(f"{recipe.name}-{number:0{width}d}" for number in range(recipe.count)),
        tags=tuple(_tags(recipe, problems)),
        seed=seed,
        settings=about,
    )


def _tags(recipe: Recipe, problems: Problem) -> Iterator[tuple[str, ...]]:
    objects = grid.count_objects(np.asarray(problems.level.cells))
    states = np.asarray(jax.vmap(num_states)(problems.task))
    for rooms, count, number in zip(np.asarray(problems.level.rooms).tolist(), objects.tolist(), states, strict=True):
        tags: tuple[str, ...] = (f"rooms-{rooms}", f"states-{number}")
        yield (*tags, f"objects-{_band(rooms, count)}") if recipe.balanced else tags


def _band(rooms: int, objects: int) -> str:
    return next(name for name, (_, high) in zip(BAND_NAMES, BANDS[rooms], strict=True) if objects <= high)


def fingerprint(problems: Iterable[Problem]) -> str:
    """SHA-256 of some problems in their order, whatever they are called and wherever they came from."""
    digest = hashlib.sha256()
    for problem in problems:
        for half in (problem.level, problem.task):
            for field in fields(half):
                array = np.ascontiguousarray(getattr(half, field.name))
                digest.update(f"{field.name} {array.dtype.str} {array.shape}".encode())
                digest.update(array.tobytes())
    return digest.hexdigest()


def one_by_one(batch: Problem) -> Iterator[Problem]:
    """The problems of a batch."""
    leaves, tree = jax.tree.flatten(jax.device_get(batch))
    return (jax.tree.unflatten(tree, row) for row in zip(*leaves, strict=True))
