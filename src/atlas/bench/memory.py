"""Memory: the peak of a paper-size run, and the bytes of what there is many of."""

import multiprocessing
import re
import resource
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from atlas.bench.rows import Effort, Row, fact
from atlas.bench.shapes import PAPER, TEACHERS, TOY, Shape, toy
from atlas.bench.timing import forget_compiled, nbytes, ready
from atlas.build import build, parts
from atlas.config import Config
from atlas.fit import compile_step


def rows(effort: Effort) -> Iterator[Row]:
    """Sizes are computed from shapes; the peak is measured in a process of its own."""
    shape = TOY if effort.quick else PAPER
    teacher = TEACHERS["plr"][1]
    config = shape.config(toy(teacher) if effort.quick else teacher)
    yield from sizes(config, shape)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        for name, function in (("everything imported", _imports), (f"two iterations, {shape.words}, buffer", _run)):
            yield fact(f"peak: {name}", "MB", process.submit(function, config).result() / 1e6)


def sizes(config: Config, shape: Shape) -> Iterator[Row]:
    """Bytes a problem in the buffer, bytes a stored step, and of the parameters."""
    made, trainer = parts(config), build(config)
    assert config.plan.buffer is not None
    capacity = config.plan.buffer.capacity
    state: Any = jax.eval_shape(trainer.init, jax.random.key(0))
    drawn = jax.eval_shape(lambda key: made.sample(key, shape.envs), jax.random.key(0))
    level, buffer = nbytes(drawn.level) / shape.envs, state.teacher.buffer
    yield fact("a level of up to six rooms", "bytes", level)
    yield fact("a problem in the buffer, lineage and records included", "bytes", nbytes(buffer) / capacity)
    rollout = jax.eval_shape(made.player.play, jax.random.key(0), state.params, drawn)
    yield fact("a step of a stored rollout", "bytes", nbytes(rollout.steps) / shape.work)
    yield fact(f"the whole buffer of {capacity:,}", "MB", nbytes(buffer) / 1e6)
    yield fact("parameters and optimiser", "MB", nbytes((state.params, state.optimiser)) / 1e6)


def _imports(config: Config) -> int:
    return peak()


def _run(config: Config) -> int:
    """One iteration of new problems, one of replayed ones."""
    forget_compiled()
    trainer = build(config)
    state = compile_step(trainer, trainer.compiled_init(jax.random.key(0)))
    ready(trainer.compiled(state, jnp.int32(2)))
    return peak()


def peak() -> int:
    """The most bytes of memory that this process has held at a time."""
    with suppress(OSError, TypeError):  # the system's own count would include what the parent held before it split
        kilobytes = re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())
        return 1024 * int(kilobytes[1])  # type: ignore[index]
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
