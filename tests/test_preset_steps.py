"""Every preset, made small, runs for some iterations; what tells presets from each other stays as it is."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.build import build
from atlas.config import Config
from atlas.domains.minigrid.presets import PRESETS
from atlas.ued import PLRConfig

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
