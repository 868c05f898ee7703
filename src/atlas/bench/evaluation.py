"""Attempts at a set of problems, as `atlas eval` makes them. The student is untrained, so episodes are long."""

from collections.abc import Iterator

import jax

from atlas.bench.rows import Effort, Row, per_second
from atlas.bench.shapes import PAPER, SMALL, TOY, Shape
from atlas.bench.solving import one_by_one
from atlas.bench.timing import measure, products
from atlas.build import parts
from atlas.evaluation.play import Evaluator

PROBLEMS, ATTEMPTS = 256, 4


def rows(effort: Effort) -> Iterator[Row]:
    """Each network on problems as in the paper."""
    for shape in (TOY,) if effort.quick else (SMALL, PAPER):
        yield attempts(shape, 8 if effort.quick else PROBLEMS, effort)


def attempts(shape: Shape, problems: int, effort: Effort) -> Row:
    """Env steps a second over whole attempts, from asking to counted results."""
    made = parts(shape.config())
    key_student, key_problems = jax.random.split(jax.random.key(0))
    params = jax.jit(made.student.init)(key_student)
    drawn = jax.jit(made.sample, static_argnums=1)(key_problems, problems)
    trials = Evaluator(one_by_one(jax.device_get(drawn), problems), ATTEMPTS, shape.steps)
    played = int(trials.of_student(made.student, params).steps.sum())
    flops = shape.acting() * played / shape.work
    name = f"{shape.name} network, {problems} problems x {ATTEMPTS} attempts of {shape.steps} steps"
    unit = per_second(played, "steps")
    return measure(name, unit, lambda: trials.of_student(made.student, params), effort, limit=products(flops), least=3)
