"""How fast the buffer draws and takes in a batch, and how many bytes a problem takes.

`python benchmarks/ued.py` prints a table; `measure_buffer` is what it is made of.
"""

import time
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from atlas.config import BufferConfig
from atlas.types import Lineage, Outcome, Partial, Problem
from atlas.ued import buffer as buffers
from atlas.ued.buffer import Buffer
from atlas.ued.supply import root

LEVEL_BYTES, TASK_BYTES, EDITS = 252, 54, 10
"""A six-room level, a sequential task of five transitions, ten edits."""


class BufferSpeed(NamedTuple):
    """Best of several calls: other processes only ever slow one down."""

    sample: float
    """Seconds to draw a batch and fetch its problems."""
    insert: float
    """Seconds to take in a batch of newcomers."""
    bytes_per_problem: float


def measure_buffer(batch: int, config: BufferConfig, calls: int = 15) -> BufferSpeed:
    """Draw and take in `batch` problems with a full buffer."""
    full = _full(config)
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(full)) / config.capacity
    draw = jax.jit(lambda key, b: buffers.take(b, buffers.sample(key, b, batch, config)))
    enter = jax.jit(lambda b, *new: buffers.insert(b, *new, jnp.ones(batch, bool), config), donate_argnums=0)
    sampling, inserting = [], []
    for key in jax.random.split(jax.random.key(1), calls):
        begin = time.perf_counter()
        jax.block_until_ready(draw(key, full))
        sampling.append(time.perf_counter() - begin)
        newcomers = jax.block_until_ready(_newcomers(key, batch))
        begin = time.perf_counter()
        full = jax.block_until_ready(enter(full, *newcomers))
        inserting.append(time.perf_counter() - begin)
    return BufferSpeed(min(sampling), min(inserting), size)


def _full(config: BufferConfig) -> Buffer:
    problems, lineage, outcome = _newcomers(jax.random.key(0), config.capacity)
    one = jax.tree.map(lambda x: x[0], (problems, lineage))
    enter = jax.jit(lambda b, *new: buffers.insert(b, *new, jnp.ones(config.capacity, bool), config))
    return enter(buffers.empty(config.capacity, *one), problems, lineage, outcome).replace(clock=jnp.int32(1))


def _newcomers(key: Array, batch: int) -> tuple[Problem, Lineage, Outcome]:
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


def main() -> None:
    paper = BufferConfig()
    rows = {
        "with replacement": paper,
        "without replacement": replace(paper, replacement=False),
        "no duplicates": replace(paper, deduplicate=True),
        "proportional": replace(paper, prioritisation="proportional"),
    }
    print(f"buffer of {paper.capacity:,}, batches of 4,096\n")
    for name, config in rows.items():
        speed = measure_buffer(4096, config)
        print(
            f"{name:<20} sample {speed.sample * 1e3:6.1f} ms   insert {speed.insert * 1e3:6.1f} ms   "
            f"{speed.bytes_per_problem:.0f} bytes a problem"
        )


if __name__ == "__main__":
    main()
