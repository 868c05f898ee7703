"""The student: acting in a rollout, learning by PPO. A matrix product of the same nominal FLOPs is the limit."""

from collections.abc import Iterator

import jax

from atlas.bench.rows import Effort, Row, per_second
from atlas.bench.shapes import PAPER, SMALL, TOY, Shape
from atlas.bench.timing import compiled, measure, products
from atlas.build import parts
from atlas.student.ppo import Learner, optimiser


def rows(effort: Effort) -> Iterator[Row]:
    """Acting and learning, for each network."""
    for shape in (TOY,) if effort.quick else (SMALL, PAPER):
        yield from act_and_learn(shape, effort)


def act_and_learn(shape: Shape, effort: Effort) -> Iterator[Row]:
    """A rollout on problems as in the paper, and all epochs of an update on it."""
    made = parts(shape.config())
    key_student, key_problems, key_play, key_learn = jax.random.split(jax.random.key(0), 4)
    params = jax.jit(made.student.init)(key_student)
    problems = jax.jit(made.sample, static_argnums=1)(key_problems, shape.envs)
    act = compiled(lambda *a: made.player.play(*a).experience, key_play, params, problems)
    unit = per_second(shape.work, "steps")
    yield measure(f"act, {shape.words}", unit, act, effort, limit=products(shape.acting()))
    learner = Learner(made.student, shape.ppo, optimiser(shape.ppo, 1))
    learn = compiled(learner.learn, key_learn, params, learner.optimiser.init(params), act.call())
    name = f"learn, {shape.words}, {shape.ppo.epochs} epoch{'s' * (shape.ppo.epochs > 1)}"
    yield measure(name, unit, learn, effort, limit=products(shape.learning()), least=3)
