"""A whole iteration of each teacher: propose, play, assess, learn, observe, as `atlas train` compiles it."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

from atlas.bench.rows import Effort, Row, per_second
from atlas.bench.shapes import PAPER, SMALL, TEACHERS, TOY, Shape, toy
from atlas.bench.timing import Compiled, measure, products, program, ready
from atlas.build import build
from atlas.config import Config

UPDATES = {"dr": (1, 1), "plr": (1, 1), "plr-new": (1, 0), "accel": (2, 1)}
"""Iterations of one call, and how many of them learn."""


def rows(effort: Effort) -> Iterator[Row]:
    """Each teacher with the small network, then with the paper's."""
    for shape in (TOY,) if effort.quick else (SMALL, PAPER):
        for teacher in ("accel",) if effort.quick else TEACHERS:
            yield iteration(shape, teacher, effort)


def iteration(shape: Shape, teacher: str, effort: Effort) -> Row:
    """Env steps a second, evaluation-only ones included. The seconds of compiling are those of the whole program."""
    words, settings = TEACHERS[teacher]
    config = shape.config(toy(settings) if effort.quick else settings)
    iterations, updates = UPDATES[teacher]
    work = config.env_steps(iterations, updates)
    flops = shape.acting() * work / shape.work + shape.learning() * updates
    run = _runner(config, iterations)
    unit = per_second(work, "steps")
    return measure(f"{words}, {shape.words}", unit, run, effort, limit=products(flops), least=3, warm=True)


def _runner(config: Config, iterations: int) -> Compiled:
    """A call of so many iterations.

    The first iteration is made here: with an empty buffer it is one of new problems, whatever the settings.
    """
    trainer = build(config)
    state = trainer.compiled_init(jax.random.key(0))
    step, taken = program(trainer.steps, state, jnp.int32(1), donate=(0,))
    run: dict[str, Any] = {"state": step(state, jnp.int32(1))[0]}

    def call() -> None:
        run["state"], _ = ready(step(run["state"], jnp.int32(iterations)))

    return Compiled(call, taken)
