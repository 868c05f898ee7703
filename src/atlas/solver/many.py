"""Verdicts for many problems: searched one by one, on several cores if asked, and replayed side by side."""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields
from functools import partial
from typing import Any, Final

import jax
import numpy as np

from atlas.domains.minigrid import grid
from atlas.solver.prove import BUDGET, STEP_LIMIT, Solution, confirm, propose
from atlas.solver.verify import accepted
from atlas.tasks.rm import UNUSED, RewardMachine
from atlas.types import Problem

MANY: Final = 200
"""From so many problems on, other processes are worth their start."""
PIECE: Final = 16
"""Problems that are handed to another process at a time."""


Progress = Callable[[int, int], None]


def silent(done: int, total: int) -> None:
    """Tell nobody how far the work is."""


def solve_many(
    problems: Sequence[Problem],
    step_limit: int = STEP_LIMIT,
    budget: int = BUDGET,
    polish: int = 0,
    bound: bool = True,
    workers: int = 1,
    progress: Progress = silent,
) -> list[Solution]:
    """The solution of each problem, as `solve` gives it. `progress` is told how many of how many are done.

    More than one worker starts other Python processes, so a script must call it under `if __name__ == "__main__"`; 0
    takes one a core if the problems are many.
    """
    workers = workers or ((os.cpu_count() or 1) if len(problems) >= MANY else 1)
    plain = [_plain(problem) for problem in problems]
    decide = partial(propose, step_limit=step_limit, budget=budget, polish=polish, bound=bound)
    found: list[Solution] = []
    for solution in map(decide, plain) if workers == 1 else _in_processes(decide, plain, workers):
        found.append(solution)
        progress(len(found), len(plain))
    return _replayed(plain, found, step_limit)


def _plain(problem: Problem) -> Problem:
    """A problem without a name, in plain arrays that travel between processes."""
    return jax.tree.map(np.asarray, Problem.unchecked(level=problem.level, task=problem.task))


def _in_processes(decide: Any, problems: list[Problem], workers: int) -> Iterator[Solution]:
    # A process that is forked from one in which JAX runs may hang, so they are started afresh.
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(decide, problems, chunksize=PIECE)


def _replayed(problems: list[Problem], found: list[Solution], step_limit: int) -> list[Solution]:
    """The solutions with their plans confirmed by the real world, those of problems of one size together."""
    groups: dict[Any, list[int]] = {}
    for number, solution in enumerate(found):
        if solution.plan:
            groups.setdefault(_kind(problems[number]), []).append(number)
    result = list(found)
    for members in groups.values():
        batch = _stack([problems[number] for number in members])
        verdicts = accepted(batch, [found[number].plan or () for number in members], step_limit)
        for number, is_accepted in zip(members, verdicts, strict=True):
            result[number] = confirm(found[number], bool(is_accepted))
    return result


def _kind(problem: Problem) -> Any:
    """What problems must share to be replayed together: flat tasks are padded, hierarchies must be of one size."""
    return "flat" if isinstance(problem.task, RewardMachine) else problem.task.size


PADDING: Final = {"cells": grid.OUTSIDE_CELL, "target": UNUSED}
"""What fills the room that a level or a flat task does not need; 0 where nothing is said."""


def _stack(problems: list[Problem]) -> Problem:
    """One batch, everything padded to the largest size."""
    levels, tasks = ([getattr(problem, part) for problem in problems] for part in ("level", "task"))
    return Problem.unchecked(level=_pile(levels), task=_pile(tasks))


def _pile(structs: list[Any]) -> Any:
    columns = {field.name: [getattr(s, field.name) for s in structs] for field in fields(structs[0])}
    batch = {name: _padded(column, PADDING.get(name, 0)) for name, column in columns.items()}
    return type(structs[0]).unchecked(**batch)


def _padded(arrays: list[np.ndarray], filling: int) -> np.ndarray:
    shape = np.max([array.shape for array in arrays], axis=0).astype(int)
    batch = np.full((len(arrays), *shape), filling, arrays[0].dtype)
    for number, array in enumerate(arrays):
        inside = tuple(slice(size) for size in array.shape)
        batch[number, ...][inside] = array
    return batch
