"""How fast the world steps: random actions, task and restart included, on one device.

`python benchmarks/world.py` prints a table; `measure_world_step` is what it is made of.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from atlas.config import DomainConfig
from atlas.domains.minigrid.domain import Minigrid
from atlas.domains.minigrid.grid import DOORS, FLOOR_CELL, MOVABLE, NOTHING, WALL_CELL, Level, cell
from atlas.tasks.rm import RewardMachine, RewardMachines, TaskSize
from atlas.types import Problem
from atlas.world import World, restart

SEQUENTIAL, WIDE = TaskSize(6, 1, 1), TaskSize(6, 5, 5)
STEPS = 256
"""Steps of one measured call."""


class Speed(NamedTuple):
    """What a measurement says."""

    steps_per_second: float
    """Best of several calls: other processes only ever slow one down."""
    cpu_nanoseconds: float
    """Processor time of one step, over all threads: says the same on a busy machine."""
    compile_seconds: float


def measure_world_step(batch: int, size: TaskSize, calls: int = 7) -> Speed:
    """Play `batch` six-room problems side by side: view, guards, task, restart."""
    world = World(Minigrid(DomainConfig()), RewardMachines(sample=_unused), 512)
    rng = np.random.default_rng(0)
    problems = Problem(level=random_levels(rng, batch), task=random_tasks(rng, batch, size))
    start = jax.jit(jax.vmap(world.reset))(problems)
    actions = jnp.asarray(rng.integers(0, 6, (STEPS, batch)), jnp.int32)
    begin = time.perf_counter()
    play = jax.jit(_play(world)).lower(problems, start, actions).compile()
    compiled = time.perf_counter() - begin
    times = [_seconds(play, problems, start, actions) for _ in range(calls)]
    wall, cpu = (min(column) for column in zip(*times, strict=True))
    return Speed(STEPS * batch / wall, 1e9 * cpu / (STEPS * batch), compiled)


def _play(world: World) -> Callable[..., Any]:
    """A rollout whose view and rewards are used, so that none of it can be optimised away."""

    def play(problems: Problem, start: Any, actions: Array) -> Any:
        def one(carry: Any, action: Array) -> tuple[Any, Array]:
            state, seen, total = carry
            state, step = jax.vmap(world.step)(problems, state, action)
            state = jax.vmap(restart)(step.done, start, state)
            view = jax.vmap(world.domain.view)(state.domain)
            return (state, seen ^ view, total + step.reward), step.done

        zeros = jnp.zeros((actions.shape[1], 5, 5), jnp.uint8), jnp.zeros(actions.shape[1])
        (state, seen, total), done = jax.lax.scan(one, (start, *zeros), actions)
        return state, seen, total, done.sum()

    return play


def _seconds(play: Callable[..., Any], *arguments: Any) -> tuple[float, float]:
    """By the clock, and of processors."""
    begin = time.perf_counter(), time.process_time()
    jax.block_until_ready(play(*arguments))
    return time.perf_counter() - begin[0], time.process_time() - begin[1]


def random_levels(rng: np.random.Generator, batch: int) -> Level:
    """Six rooms with seven doors and thirteen objects each."""
    cells = np.full((batch, 13, 19), FLOOR_CELL, np.uint8)
    cells[:, ::6], cells[:, :, ::6] = WALL_CELL, WALL_CELL
    doors = [(6, 3), (6, 9), (6, 15), (3, 6), (9, 6), (3, 12), (9, 12)]
    position = np.zeros((batch, 2), np.int8)
    for grid, place in zip(cells, position, strict=True):
        free = rng.permutation(np.argwhere(grid == FLOOR_CELL))
        for row, column in doors:
            grid[row, column] = cell(int(rng.choice(DOORS)), int(rng.integers(6)))
        for row, column in free[:13]:
            grid[row, column] = cell(int(rng.choice(MOVABLE)), int(rng.integers(6)))
        place[:] = free[13]
    return jax.vmap(Level)(
        cells=jnp.asarray(cells),
        position=jnp.asarray(position),
        direction=jnp.asarray(rng.integers(0, 4, batch), jnp.int8),
        carrying=jnp.full(batch, NOTHING, jnp.uint8),
        rooms=jnp.full(batch, 6, jnp.int8),
    )


def random_tasks(rng: np.random.Generator, batch: int, size: TaskSize) -> RewardMachine:
    """Every edge leads to the next state; the last one accepts."""
    states, edges, _ = size
    chain = np.where(np.arange(states) < states - 1, np.arange(states) + 1, -1)
    guard = rng.integers(1, 890, (batch, *size)) * rng.choice([-1, 1], (batch, *size))
    guard[..., 0] = abs(guard[..., 0])  # one positive literal on each edge, so that tasks take a while
    return jax.vmap(RewardMachine)(
        target=jnp.asarray(np.broadcast_to(chain[:, None], (batch, states, edges)), jnp.int8),
        guard=jnp.asarray(guard, jnp.int16),
        reward=jnp.asarray(np.broadcast_to(chain[:, None] == states - 1, (batch, states, edges)), jnp.float32),
        outcome=jnp.asarray(np.broadcast_to(chain == -1, (batch, states)), jnp.int8),
    )


def _unused(*_: Any) -> RewardMachine:
    raise NotImplementedError("the tasks of this benchmark are made by hand")


def main() -> None:
    """Print a small table."""
    print(f"{'batch':>6}  {'states x edges x literals':<26}{'steps/s':>12}{'cpu ns/step':>13}{'compile':>10}")
    for batch in (1024, 4096):
        for size in (SEQUENTIAL, WIDE):
            steps, cpu, compiled = measure_world_step(batch, size)
            shape = " x ".join(map(str, size))
            print(f"{batch:>6}  {shape:<26}{steps:>12,.0f}{cpu:>13.0f}{compiled:>8.2f} s")


if __name__ == "__main__":
    main()
