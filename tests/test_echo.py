"""Tasks read off episodes: replaying the very actions does them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.config import TaskConfig
from atlas.domains.minigrid.domain import Minigrid
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.problems import echoer, mentions
from atlas.tasks.packed import unstack
from atlas.tasks.sample import formalism
from atlas.testing import TOY_PROPS
from atlas.ued.echo import rarity
from atlas.world import World

STEPS, BATCH = 40, 64
DOMAIN = Minigrid(MinigridConfig(rooms=(1, 2), step_limit=STEPS))
TASKS, _ = formalism(TaskConfig(max_length=3), DOMAIN.vocabulary, mask=DOMAIN.mask)
WORLD = World(DOMAIN, TASKS, STEPS)


@pytest.fixture(scope="module")
def echoes():
    """Levels, random actions, where episodes ended, and what was heard; and when replaying it is done."""
    echo = echoer(DOMAIN, TASKS, range(1, 4))

    def replay(problem, actions):
        start = WORLD.reset(problem)

        def act(state, action):
            state, step = WORLD.step(problem, state, action)
            return state, (step.accepted, TASKS.outcome(problem.task, state.task))

        _, (accepted, _) = jax.lax.scan(act, start, actions)
        return WORLD.trivial(problem, start), jnp.any(accepted), jnp.argmax(accepted)

    def everything(key):
        key_level, key_act, key_last, key_echo = jax.random.split(key, 4)
        levels = jax.vmap(DOMAIN.sample)(jax.random.split(key_level, BATCH))
        actions = jax.random.randint(key_act, (BATCH, STEPS), 0, len(DOMAIN.actions))
        actions = jnp.where(jax.random.uniform(key_act, actions.shape) < 0.4, DOMAIN.actions.index("forward"), actions)
        last = jax.random.randint(key_last, (BATCH,), 3, STEPS)
        problems, valid = jax.vmap(echo)(jax.random.split(key_echo, BATCH), levels, actions, last)
        return levels, last, problems, valid, jax.vmap(replay)(problems, actions)

    return jax.device_get(jax.jit(everything)(jax.random.key(0)))


def test_the_very_actions_do_the_task_in_time(echoes):
    levels, last, problems, valid, (trivial, accepted, when) = echoes
    assert valid.mean() > 0.3
    assert not trivial[valid].any()
    assert accepted[valid].all()
    assert np.all(when[valid] <= last[valid])
    jax.tree.map(np.testing.assert_array_equal, problems.level, levels)


def test_lengths_are_as_the_settings_say(echoes):
    _, _, problems, valid, _ = echoes
    tasks = [task for task, is_valid in zip(unstack(problems.task), valid, strict=True) if is_valid]
    lengths = [len(task.machines[0].states) - 1 for task in tasks]
    assert set(lengths) == {1, 2, 3}


def test_tasks_ask_for_what_the_settings_allow(echoes):
    _, _, problems, valid, _ = echoes
    asked = np.asarray(jax.vmap(lambda task: mentions(TASKS.graph(task)))(problems.task))[valid]
    assert DOMAIN.mask[asked[asked >= 0]].all()


def test_rarity_is_the_mean_over_propositions():
    heard = jnp.arange(TOY_PROPS, dtype=jnp.float32)
    found = rarity(heard, jnp.array([[0, 3, -1], [7, -1, -1], [-1, -1, -1]]))
    np.testing.assert_allclose(found, [(1 + 1 / 4) / 2, 1 / 8, 0.0])
