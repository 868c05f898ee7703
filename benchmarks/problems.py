"""How fast problems are made: levels, pairs, children.

`python benchmarks/problems.py` prints a table; `measure` is what it is made of. Processor time is given beside the
clock: it says the same on a busy machine.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from atlas.config import DomainConfig, EditConfig, PairingConfig, TaskConfig
from atlas.domains.minigrid.domain import Minigrid
from atlas.editing import editor
from atlas.problems import batch_sampler
from atlas.tasks.sample import SAMPLERS, formalism
from atlas.types import Lineage, Partial, Problem

BATCH = 4096
CALLS = 10
DOMAIN = Minigrid(DomainConfig())


class Speed(NamedTuple):
    """What a measurement says."""

    per_second: float
    """Best of several calls: other processes only ever slow one down."""
    per_cpu_second: float
    compile_seconds: float


def measure(make: Callable[..., Any], *arguments: Any) -> Speed:
    """How many things a second a function makes that gives BATCH of them."""
    begin = time.perf_counter()
    compiled = jax.jit(make).lower(*arguments).compile()
    compiling = time.perf_counter() - begin
    times = [_seconds(compiled, *arguments) for _ in range(CALLS)]
    wall, cpu = (min(column) for column in zip(*times, strict=True))
    return Speed(BATCH / wall, BATCH / cpu, compiling)


def _seconds(make: Callable[..., Any], *arguments: Any) -> tuple[float, float]:
    """By the clock, and of processors."""
    begin = time.perf_counter(), time.process_time()
    jax.block_until_ready(make(*arguments))
    return time.perf_counter() - begin[0], time.process_time() - begin[1]


def measure_levels() -> Speed:
    """Sampling levels."""
    return measure(lambda key: jax.vmap(DOMAIN.sample)(jax.random.split(key, BATCH)), jax.random.key(0))


def measure_pairs(how: str, tasks: str) -> Speed:
    """Sampling problems."""
    sample = batch_sampler(PairingConfig(how=how), DOMAIN, formalism(TaskConfig(sampler=tasks), DOMAIN.vocabulary)[0])
    return measure(lambda key: sample(key, BATCH), jax.random.key(0))


def measure_children(tasks: str) -> Speed:
    """Children of 7 to 10 edits each, hindsight included."""
    members, _ = formalism(TaskConfig(sampler=tasks), DOMAIN.vocabulary)
    problems = jax.jit(batch_sampler(PairingConfig(), DOMAIN, members), static_argnums=1)(jax.random.key(0), BATCH)
    edit = editor(EditConfig(), DOMAIN, members)

    def family(number: Array, problem: Problem) -> tuple[Lineage, Partial]:
        lineage = Lineage(
            number=number,
            parent=jnp.int32(-1),
            generation=jnp.int16(0),
            edits=jnp.full(10, -1, jnp.int8),
            arguments=jnp.full((10, 3), -1, jnp.int16),
        )
        return lineage, Partial(level=problem.level, task_state=members.initial(problem.task), valid=jnp.bool_(True))

    parents = (problems, *jax.vmap(family)(jnp.arange(BATCH, dtype=jnp.int32), problems))
    return measure(lambda key, *p: jax.vmap(edit)(jax.random.split(key, BATCH), *p), jax.random.key(1), *parents)


def rows() -> Iterator[tuple[str, Speed]]:
    """Everything there is to measure."""
    yield "levels", measure_levels()
    for tasks in SAMPLERS:
        for how in ("independent", "level", "task"):
            yield f"{tasks}, {how}", measure_pairs(how, tasks)
    for tasks in SAMPLERS:
        yield f"children of {tasks}", measure_children(tasks)


def main() -> None:
    """Print the table."""
    print(f"{'batch ' + str(BATCH):30} {'a second':>12} {'a cpu second':>13} {'compile':>8}")
    for name, speed in rows():
        print(f"{name:30} {speed.per_second:12,.0f} {speed.per_cpu_second:13,.0f} {speed.compile_seconds:7.1f}s")


if __name__ == "__main__":
    main()
