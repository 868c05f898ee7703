"""How fast problems are screened and solved, and how many stay unknown.

`python benchmarks/solve.py` prints a table. The hard samples are those of the tests: six rooms with five transitions,
and nine rooms with eight locked doors, both level-conditioned.
"""

import dataclasses
import os
import time
from typing import Any, NamedTuple

import jax
import numpy as np

from atlas.config import TaskConfig
from atlas.domains.minigrid import grid
from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.domains.minigrid.conditions import possible
from atlas.domains.minigrid.grid import Level
from atlas.sampling import sample_batch, settings
from atlas.solve.many import solve_many
from atlas.solve.prove import counted
from atlas.solve.relaxed import relaxed, relaxed_many
from atlas.tasks.sample import formalism
from atlas.types import Problem

LENGTH, LOCKS = 5, 8


class Speed(NamedTuple):
    """What a measurement says."""

    problems_per_second: float
    """By the clock, best of several calls where there are several."""
    cpu_microseconds: float
    """Processor time of one problem, over all threads and not counting other processes."""


def measure_relaxed(rooms: int, tasks: str, batch: int = 8192, grouped: bool = False, calls: int = 5) -> Speed:
    """The paper's check on level-conditioned problems; `grouped` sorts them by locks, else room is for every door."""
    problems = jax.block_until_ready(sample_batch(settings("level", tasks, (rooms,)), batch, 0))
    locks = {6: 7, 9: 12}[rooms]
    every = jax.jit(jax.vmap(lambda problem: relaxed(problem, locks)))
    check: Any = relaxed_many if grouped else (lambda some: np.asarray(every(some)))
    check(problems)
    times = []
    for _ in range(calls):
        begin = time.perf_counter(), time.process_time()
        check(problems)
        times.append((time.perf_counter() - begin[0], time.process_time() - begin[1]))
    wall, cpu = (min(column) for column in zip(*times, strict=True))
    return Speed(batch / wall, 1e6 * cpu / batch)


def six_rooms(n: int, seed: int = 0) -> list[Problem]:
    """Six rooms, five transitions, level-conditioned."""
    config = settings("level", "sequential", (6,))
    config = dataclasses.replace(config, tasks=dataclasses.replace(config.tasks, min_length=LENGTH, max_length=LENGTH))
    return _one_by_one(jax.device_get(sample_batch(config, n, seed)), n)


def eight_locks(n: int, seed: int = 0) -> list[Problem]:
    """Nine rooms with eight of twelve doors locked, five transitions, level-conditioned."""
    rng = np.random.default_rng(seed)
    drawn = jax.device_get(sample_batch(settings("level", "sequential", (9,)), n, seed)).level
    levels = Level.unchecked(**vars(drawn) | {"cells": np.stack([_lock(cells, rng) for cells in drawn.cells])})
    tasks, _ = formalism(TaskConfig(min_length=LENGTH, max_length=LENGTH), VOCABULARY)
    keys = jax.random.split(jax.random.key(seed), n)
    sampled = jax.jit(jax.vmap(lambda key, level: tasks.sample(key, possible(level))))(keys, levels)
    return _one_by_one(Problem.unchecked(level=levels, task=jax.device_get(sampled)), n)


def _lock(cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    cells = cells.copy()
    for number, (row, col) in enumerate(rng.permutation(np.argwhere(cells >> 3 >= grid.DOOR_CLOSED))):
        kind = grid.DOOR_LOCKED if number < LOCKS else grid.DOOR_OPEN
        cells[row, col] = grid.cell(kind, int(cells[row, col]) & 7)
    return cells


def _one_by_one(batch: Problem, n: int) -> list[Problem]:
    return [jax.tree.map(lambda leaf, i=i: np.asarray(leaf)[i], batch) for i in range(n)]


def measure_prover(problems: list[Problem], workers: int, bound: bool = False) -> tuple[Speed, dict[str, Any]]:
    """Verdicts with replayed plans. The compiling of the replay is not counted, the start of processes is."""
    solve_many(problems[:64], bound=bound, workers=1)
    begin = time.perf_counter(), time.process_time()
    found = solve_many(problems, bound=bound, workers=workers)
    wall, cpu = time.perf_counter() - begin[0], time.process_time() - begin[1]
    return Speed(len(problems) / wall, 1e6 * cpu / len(problems)), counted(found)


def main() -> None:
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    print("relaxed check, level-conditioned            problems/s   CPU us a problem")
    for rooms, tasks, grouped in (
        (6, "sequential", False), (6, "sequential", True), (6, "dag", False), (6, "hierarchical", False),
    ):  # fmt: skip
        speed = measure_relaxed(rooms, tasks, 8192 if tasks == "sequential" else 2048, grouped)
        how = "grouped by locks" if grouped else "room for 7 locks"
        print(f"  {rooms} rooms, {tasks}, {how:<20} {speed.problems_per_second:14,.0f} {speed.cpu_microseconds:10.1f}")
    print("\nprover, plans replayed                      problems/s   solvable  unsolvable  unknown  mean length")
    for name, make in (("6 rooms, 5 transitions", six_rooms), ("8 locked doors", eight_locks)):
        problems = make(2000)
        for workers in (1, 2):
            speed, total = measure_prover(problems, workers)
            print(
                f"  {name}, {workers} process{'es' if workers > 1 else ''}".ljust(42)
                + f"{speed.problems_per_second:12.0f} {total['solvable']:10} {total['unsolvable']:11} "
                + f"{total['unknown']:8} {total['mean_plan_length']:12.1f}"
            )


if __name__ == "__main__":
    main()
