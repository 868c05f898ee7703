"""The whole student learns: one room, one thing to go to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import students
from atlas.config import PPOConfig, TaskConfig
from atlas.rollout import Player
from atlas.student import ppo
from atlas.tasks.sample import formalism
from atlas.types import Problem
from atlas.world import World

ENVS, STEPS, POOL, UPDATES = 256, 64, 4, 40
GO_TO = np.array([name.startswith("front") for name in students.DOMAIN.vocabulary.names])


@pytest.mark.slow
def test_going_to_things_in_one_room_is_learnt():
    """At least nine of ten fresh problems are solved within 64 steps, after 650,000 steps (half a minute)."""
    domain = students.DOMAIN
    world = World(domain, formalism(TaskConfig(max_length=1), domain.vocabulary)[0], STEPS)
    student = students.student(
        embedding=16, view_width=128, task_width=64, edge_width=64, action_embedding=16, recurrent=128,
        head_width=128, value_init=0.01,
    )  # fmt: skip
    config = PPOConfig(learning_rate=1e-3, minibatch_envs=64, epochs=2)
    player, learner = Player(world, student, STEPS), ppo.Learner(student, config, ppo.optimiser(config))

    def problem(key):
        key_level, key_task = jax.random.split(key)
        level = domain.sample(key_level)
        return Problem(level=level, task=world.formalism.sample(key_task, domain.possible(level) & jnp.asarray(GO_TO)))

    @jax.jit
    def update(key, params, opt_state):
        key_pools, key_play, key_learn = jax.random.split(key, 3)
        pools = jax.vmap(jax.vmap(problem))(jax.random.split(key_pools, (ENVS, POOL)))
        rollout, _ = player.play_pools(key_play, params, pools)
        share = rollout.steps.accepted.sum(0) / rollout.steps.done.sum(0)
        return *learner.learn(key_learn, params, opt_state, rollout.experience), share

    params = jax.jit(student.init)(jax.random.key(0))
    opt_state = learner.init(params)
    solved = []
    for key in jax.random.split(jax.random.key(1), UPDATES):
        params, opt_state, losses, share = update(key, params, opt_state)
        solved.append(float(share.mean()))
        assert np.isfinite(losses.policy)
    assert np.mean(solved[:2]) < 0.7
    assert np.mean(solved[-3:]) >= 0.9, solved
