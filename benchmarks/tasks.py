"""How fast tasks are drawn, counted and told apart, on one device.

`python benchmarks/tasks.py` prints a table; `measure` is what it is made of.
"""

import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from atlas.config import TaskConfig
from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.tasks.identity import fingerprint
from atlas.tasks.paths import count_paths
from atlas.tasks.sample import SAMPLERS

BATCH = 4096
PROPS = len(VOCABULARY.names)


class Speed(NamedTuple):
    """What a measurement says."""

    tasks_per_second: float
    """Best of several calls: other processes only ever slow one down."""
    cpu_microseconds: float
    """Processor time of one task, over all threads: says the same on a busy machine."""
    compile_seconds: float


def measure(function: Callable[..., Any], *arguments: Any, batch: int = BATCH, calls: int = 9) -> Speed:
    """Time a jittable function of a batch."""
    begin = time.process_time()
    compiled = jax.jit(function).lower(*arguments).compile()
    compile_seconds = time.process_time() - begin
    jax.block_until_ready(compiled(*arguments))
    times = []
    for _ in range(calls):
        begin = time.perf_counter(), time.process_time()
        jax.block_until_ready(compiled(*arguments))
        times.append((time.perf_counter() - begin[0], time.process_time() - begin[1]))
    wall, cpu = (min(column) for column in zip(*times, strict=True))
    return Speed(batch / wall, 1e6 * cpu / batch, compile_seconds)


def measure_sampler(name: str, own_masks: bool, batch: int = BATCH) -> Speed:
    """Draw a batch, all from the whole alphabet, or each task from a mask of its own (level-conditioned)."""
    sample, _ = SAMPLERS[name](TaskConfig(sampler=name), VOCABULARY)
    keys = jax.random.split(jax.random.key(0), batch)
    masks = jax.random.bernoulli(jax.random.key(1), 0.1, (batch, PROPS)) if own_masks else jnp.ones(PROPS, bool)
    return measure(jax.vmap(sample, (0, 0 if own_masks else None)), keys, masks, batch=batch)


def main() -> None:
    """Print the table."""
    print(f"batch {BATCH}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} before the first row\n")
    print(f"{'work':<34}{'tasks/s':>12}{'CPU us/task':>13}{'compile s':>11}")
    for name in SAMPLERS:
        for own_masks in (False, True):
            _print(f"{name}{', own masks' if own_masks else ''}", measure_sampler(name, own_masks))
    sample, _ = SAMPLERS["dag"](TaskConfig(), VOCABULARY)
    keys = jax.random.split(jax.random.key(0), BATCH)
    tasks = jax.jit(jax.vmap(sample, (0, None)))(keys, jnp.ones(PROPS, bool))
    _print("count the paths of a dag", measure(jax.vmap(count_paths), tasks))
    _print("fingerprint a dag", measure(jax.vmap(fingerprint), tasks))


def _print(work: str, speed: Speed) -> None:
    print(f"{work:<34}{speed.tasks_per_second:>12,.0f}{speed.cpu_microseconds:>13.2f}{speed.compile_seconds:>11.1f}")


if __name__ == "__main__":
    main()
