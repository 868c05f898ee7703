"""Every preset becomes a trainer, and what it remembers stays small."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.build import build
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
