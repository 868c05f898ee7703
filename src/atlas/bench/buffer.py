"""The teacher's buffer: draw a batch, take a batch in. A copy of the problems that move is the limit."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from atlas.bench.rows import Effort, Row, milliseconds
from atlas.bench.timing import Compiled, compiled, copies, measure, nbytes, program, ready
from atlas.types import Lineage, Outcome, Partial, Problem
from atlas.ued import BufferConfig
from atlas.ued import buffer as buffers
from atlas.ued.buffer import Buffer
from atlas.ued.supply import root

LEVEL_BYTES, TASK_BYTES, EDITS = 252, 54, 10
"""A six-room level, a sequential task of five transitions, ten edits."""


def rows(effort: Effort) -> Iterator[Row]:
    """The paper's buffer with its batch, full; then other ways to draw and enter."""
    capacity, batch = (5_000, 512) if effort.quick else (50_000, 4_096)
    paper = BufferConfig(capacity=capacity)
    sizes = f"{batch:,} of {capacity:,}"
    yield draw(f"draw {sizes}", batch, paper, effort)
    yield enter(f"enter {sizes}", batch, paper, effort)
    yield draw(f"draw {sizes}, none twice", batch, replace(paper, replacement=False), effort)
    yield draw(f"draw {sizes}, proportional", batch, replace(paper, prioritisation="proportional"), effort)
    yield enter(f"enter {sizes}, no duplicates", batch, replace(paper, deduplicate=True), effort)


def draw(name: str, batch: int, config: BufferConfig, effort: Effort) -> Row:
    """Priorities, a sample, and its problems."""
    full = full_buffer(config)
    key = jax.random.key(1)
    work = compiled(lambda key, b: buffers.take(b, buffers.sample(key, b, batch, config)), key, full)
    return measure(name, milliseconds(), work, effort, limit=copies(_moved(full, batch, config)))


def enter(name: str, batch: int, config: BufferConfig, effort: Effort) -> Row:
    """Newcomers, a different batch each time, take the place of what is worth less. In place: the buffer is donated."""
    full = full_buffer(config)
    keys = jax.random.split(jax.random.key(2), 4)
    turns = itertools.cycle([ready(newcomers(key, batch)) for key in keys])
    insert, taken = program(partial(_insert, config), full, *next(turns), donate=(0,))
    limit = copies(_moved(full, batch, config))
    state: dict[str, Any] = {"buffer": full}

    def call() -> None:
        state["buffer"] = ready(insert(state["buffer"], *next(turns)))

    return measure(name, milliseconds(), Compiled(call, taken), effort, limit=limit)


def _insert(config: BufferConfig, buffer: Buffer, problems: Problem, lineage: Lineage, outcome: Outcome) -> Buffer:
    return buffers.insert(buffer, problems, lineage, outcome, config)


def _moved(full: Buffer, batch: int, config: BufferConfig) -> float:
    return nbytes(full) / config.capacity * batch


def full_buffer(config: BufferConfig) -> Buffer:
    """A buffer without an empty slot."""
    problems, lineage, outcome = newcomers(jax.random.key(0), config.capacity)
    one = jax.tree.map(lambda x: x[0], (problems, lineage))
    fill = jax.jit(partial(_insert, config))
    return fill(buffers.empty(config.capacity, *one), problems, lineage, outcome).replace(clock=jnp.int32(1))


def newcomers(key: Array, batch: int) -> tuple[Problem, Lineage, Outcome]:
    """Problems of random bytes with random scores: a buffer does not look inside."""
    key_level, key_score = jax.random.split(key)
    lineage = jax.vmap(lambda n: root(n, EDITS))(jnp.arange(batch, dtype=jnp.int32))
    level = jax.random.bits(key_level, (batch, LEVEL_BYTES), jnp.uint8)
    nothing = jnp.zeros(batch, jnp.int32)
    none = Partial(level=jnp.uint8(0), task_state=jnp.int8(0), valid=jnp.array(False))
    outcome = Outcome(
        score=jax.random.normal(key_score, (batch,)),
        best_return=jnp.zeros(batch),
        attempts=nothing + 1,
        solves=nothing,
        trivial=jnp.zeros(batch, bool),
        partial=jax.tree.map(lambda x: jnp.broadcast_to(x, (batch,)), none),
    )
    return Problem(level=level, task=jnp.zeros((batch, TASK_BYTES), jnp.uint8)), lineage, outcome
