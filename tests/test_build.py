"""Every preset becomes a trainer and, made small, runs; what a teacher remembers stays small."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.build import build
from atlas.config import Config
from atlas.domains.minigrid.presets import PRESETS, TINY
from atlas.ued import DRConfig, PLRConfig


def begin(config):
    """The shapes of a run's first state."""
    return jax.eval_shape(build(config).init, jax.random.key(0))


COMMON = ("quick", "paper-dr", "paper-plr-level", "paper-accel0", "paper-dag-plr")


@pytest.mark.parametrize(
    "name", [name if name in COMMON else pytest.param(name, marks=pytest.mark.slow) for name in sorted(PRESETS)]
)
def test_every_preset_builds(name):
    config = PRESETS[name].config
    state = begin(config)
    if isinstance(config.teacher, PLRConfig):
        assert state.teacher.buffer.records.score.shape == (config.teacher.buffer.capacity,)


@pytest.mark.parametrize("name", ["paper-accel", "paper-dag-plr"])
def test_a_problem_takes_few_bytes(name):
    config = PRESETS[name].config
    buffer = begin(config).teacher.buffer
    size = (
        sum(np.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(buffer))
        / config.teacher.buffer.capacity
    )
    assert size <= 700, f"{size:.0f} bytes"


TEACHERS = {
    "dr": DRConfig(pool=2),
    "dr carry": DRConfig(pool=2, carry=True),
    "accel": TINY.teacher,
}


@pytest.fixture(
    scope="module", params=["accel", *(pytest.param(n, marks=pytest.mark.slow) for n in ("dr", "dr carry"))]
)
def trained(request):
    """A tiny run with the real student: the state before, and after twelve iterations."""
    trainer = build(dataclasses.replace(TINY, teacher=TEACHERS[request.param]))
    before = jax.jit(trainer.init)(jax.random.key(0))
    kept = jax.tree.map(jnp.copy, before.params)
    after, metrics = trainer.compiled(before, jnp.int32(12))
    return request.param, kept, after, jax.device_get(metrics)


def test_the_real_student_trains(trained):
    _, before, after, metrics = trained
    moved = jax.tree.map(lambda a, b: bool(jnp.any(a != b)), before, after.params)
    assert metrics.bad == -1
    assert metrics.trained > 0
    assert sum(jax.tree.leaves(moved)) > len(jax.tree.leaves(moved)) / 2
    assert all(np.isfinite(x) for x in jax.tree.leaves(metrics.losses))


def test_episodes_finish_and_are_counted(trained):
    name, _, _, metrics = trained
    if name == "accel":  # rollouts are as long as the limit: each problem is finished at least once
        assert np.all(metrics.attempts >= metrics.problems)
    assert metrics.attempts.sum() > 0
    assert np.all(metrics.solves <= metrics.attempts)


NUM_ENVS, NUM_EVAL, LIMIT = 8, 16, 8


def small(config: Config) -> Config:
    """The same experiment with little of everything."""
    teacher = config.teacher
    if isinstance(teacher, PLRConfig):
        buffer = dataclasses.replace(teacher.buffer, capacity=32)
        num_eval = None if teacher.num_eval is None else NUM_EVAL
        teacher = dataclasses.replace(teacher, buffer=buffer, num_eval=num_eval)
    network = dataclasses.replace(
        config.student.network, embedding=4, filters=(4, 4, 4), view_width=8, task_width=8, edge_width=8,
        action_embedding=4, recurrent=8, head_width=8,
    )  # fmt: skip
    ppo = dataclasses.replace(config.student.ppo, minibatch_envs=4)
    return dataclasses.replace(
        config,
        domain=dataclasses.replace(config.domain, step_limit=LIMIT),
        teacher=teacher,
        student=dataclasses.replace(config.student, network=network, ppo=ppo),
        run=dataclasses.replace(config.run, num_envs=NUM_ENVS, rollout=LIMIT, total_steps=10**6),
    )


def shapes(tree):
    return [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree)]


def kind(name):
    """What decides which code a preset runs: teachers, task samplers and views; the rest are numbers."""
    config = PRESETS[name].config
    return config.teacher.name, config.tasks.sampler, config.student.network.view


FIRST_OF_KIND = {kind(name): name for name in sorted(PRESETS, reverse=True)}.values()


def some(names, fast):
    return [name if name in fast else pytest.param(name, marks=pytest.mark.slow) for name in sorted(names)]


@pytest.mark.parametrize("name", some(PRESETS, FIRST_OF_KIND))
def test_every_preset_can_be_traced(name):
    trainer = build(small(PRESETS[name].config))
    start = jax.eval_shape(trainer.init, jax.random.key(0))
    state, metrics = jax.eval_shape(trainer.step, start)
    assert shapes(state) == shapes(start)
    assert shapes(metrics) == shapes(trainer.nothing())


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_preset_runs(name):
    """Three iterations: enough for new problems, replays and edits where replays are likely."""
    trainer = build(small(PRESETS[name].config))
    state, metrics = trainer.compiled(jax.jit(trainer.init)(jax.random.key(0)), jnp.int32(3))
    assert int(state.iterations) == 3
    assert int(metrics.bad) == -1
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(state.params))
