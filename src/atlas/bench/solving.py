"""The relaxed check and the prover, on level-conditioned problems with many doors."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from atlas.api import sample_batch, settings
from atlas.bench.rows import Effort, Row, per_second
from atlas.bench.timing import compiled, measure, ready
from atlas.config import TaskConfig
from atlas.domains.minigrid import grid
from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.domains.minigrid.grid import Level, door_places
from atlas.domains.minigrid.sample import possible
from atlas.domains.minigrid.solver.prove import solve_many
from atlas.domains.minigrid.solver.relaxed import relaxed, relaxed_many
from atlas.tasks.packed import flattened
from atlas.tasks.sample import formalism
from atlas.types import Problem

LENGTH, LOCKS = 5, 8


def rows(effort: Effort) -> Iterator[Row]:
    """The hard samples are six rooms with five transitions, and nine rooms with eight locked doors."""
    batch, hard = (256, 32) if effort.quick else (8192, 500)
    yield check(6, "sequential", batch, effort)
    yield check_grouped(6, batch, effort)
    if not effort.quick:
        yield check(6, "dag", batch // 4, effort)
        yield check(6, "hierarchical", batch // 4, effort)
    for name, made in (("6 rooms, 5 transitions", long_tasks(hard, 6)), ("9 rooms, 8 locks", eight_locks(hard))):
        for workers in (1, 2):
            yield prover(name, made, workers, effort)


def check(rooms: int, tasks: str, batch: int, effort: Effort) -> Row:
    """The paper's check with room for every door, as it runs inside a sampler."""
    drawn = _drawn(rooms, tasks, batch)
    drawn = ready(drawn.replace(task=flattened(drawn.task)))
    locks = len(door_places(rooms))
    work = compiled(jax.vmap(lambda problem: relaxed(problem, locks)), drawn)
    name = f"relaxed check, {tasks}, {locks} door{'s' * (locks > 1)}, batch {batch:,}"
    return measure(name, per_second(batch, "problems"), work, effort)


def check_grouped(rooms: int, batch: int, effort: Effort) -> Row:
    """The same where the problems are known: sorted by how many locks they really have."""
    drawn = _drawn(rooms, "sequential", batch)
    name = f"relaxed check, sequential, grouped by locks, batch {batch:,}"
    return measure(name, per_second(batch, "problems"), lambda: relaxed_many(drawn), effort)


def _drawn(rooms: int, tasks: str, batch: int) -> Problem:
    return ready(sample_batch(settings("level", tasks, (rooms,)), batch, 0))


def prover(name: str, problems: list[Problem], workers: int, effort: Effort) -> Row:
    """Verdicts with replayed plans; the start of processes counts."""
    found: list[Any] = []

    def solve() -> None:
        found[:] = solve_many(problems, bound=False, workers=workers)

    row = measure("prover", per_second(len(problems), "problems"), solve, effort, least=3)
    unknown = sum(solution.verdict == "unknown" for solution in found)
    words = f"prover, {name}, {workers} process{'es' * (workers > 1)}, {unknown} of {len(problems)} unknown"
    return dataclasses.replace(row, name=words, processor=row.processor if workers == 1 else None)


def long_tasks(n: int, rooms: int, seed: int = 0) -> list[Problem]:
    """Five transitions, level-conditioned."""
    config = settings("level", "sequential", (rooms,))
    config = dataclasses.replace(config, tasks=dataclasses.replace(config.tasks, min_length=LENGTH, max_length=LENGTH))
    return one_by_one(jax.device_get(sample_batch(config, n, seed)), n)


def eight_locks(n: int, seed: int = 0) -> list[Problem]:
    """Nine rooms with eight of twelve doors locked, five transitions, level-conditioned."""
    rng = np.random.default_rng(seed)
    drawn = jax.device_get(sample_batch(settings("level", "sequential", (9,)), n, seed)).level
    levels = Level.unchecked(**vars(drawn) | {"cells": np.stack([_lock(cells, rng) for cells in drawn.cells])})
    tasks, _ = formalism(TaskConfig(min_length=LENGTH, max_length=LENGTH), VOCABULARY)
    keys = jax.random.split(jax.random.key(seed), n)
    sampled = jax.jit(jax.vmap(lambda key, level: tasks.sample(key, possible(level))))(keys, levels)
    return one_by_one(Problem.unchecked(level=levels, task=jax.device_get(sampled)), n)


def _lock(cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    cells = cells.copy()
    for number, (row, col) in enumerate(rng.permutation(np.argwhere(cells >> 3 >= grid.DOOR_CLOSED))):
        kind = grid.DOOR_LOCKED if number < LOCKS else grid.DOOR_OPEN
        cells[row, col] = grid.cell(kind, int(cells[row, col]) & 7)
    return cells


def one_by_one(batch: Problem, n: int) -> list[Problem]:
    """The problems of a batch, as the prover takes them."""
    return [jax.tree.map(lambda leaf, i=i: np.asarray(leaf)[i], batch) for i in range(n)]
