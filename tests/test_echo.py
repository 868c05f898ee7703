"""Tasks read off episodes: replaying the very actions does them."""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.config import TaskConfig
from atlas.domains.minigrid.domain import Minigrid
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.problems import mentions
from atlas.rollout import echoer
from atlas.tasks.machine import Task
from atlas.tasks.packed import sound, unstack
from atlas.tasks.sample import SAMPLERS, formalism
from atlas.testing import TOY_PROPS
from atlas.ued.echo import rarity
from atlas.vocabulary import REJECTED
from atlas.world import World

STEPS = 40
DOMAIN = Minigrid(MinigridConfig(rooms=(1, 2), colours=("red", "blue"), step_limit=STEPS))


QUICK = ("sequential", "reach-avoid", "hierarchical")
EVERY = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in SAMPLERS]


class Echoed(NamedTuple):
    """Levels, random actions, where episodes ended, and what was heard; and when replaying it is done."""

    formalism: Any
    levels: Any
    last: Any
    problems: Any
    valid: Any
    trivial: Any
    accepted: Any
    when: Any


@cache
def echoes(sampler: str) -> Echoed:
    config = TaskConfig(sampler=sampler, max_length=3, states=4, machines=2)
    tasks, _ = formalism(config, DOMAIN.vocabulary, mask=DOMAIN.mask)
    world = World(DOMAIN, tasks, STEPS)
    echo = echoer(world, config.lengths, machines=sampler != "sequential")
    batch = 64 if sampler in QUICK else 512

    def replay(problem, actions):
        start = world.reset(problem)

        def act(state, action):
            state, step = world.step(problem, state, action)
            return state, step.accepted

        accepted = jax.lax.scan(act, start, actions)[1]
        return world.trivial(problem, start), jnp.any(accepted), jnp.argmax(accepted)

    def everything(key):
        key_level, key_act, key_last, key_echo = jax.random.split(key, 4)
        levels = jax.vmap(DOMAIN.sample)(jax.random.split(key_level, batch))
        actions = jax.random.randint(key_act, (batch, STEPS), 0, len(DOMAIN.actions))
        actions = jnp.where(jax.random.uniform(key_act, actions.shape) < 0.4, DOMAIN.actions.index("forward"), actions)
        last = jax.random.randint(key_last, (batch,), 3, STEPS)
        problems, valid = jax.vmap(echo)(jax.random.split(key_echo, batch), levels, actions, last)
        return levels, last, problems, valid, *jax.vmap(replay)(problems, actions)

    return Echoed(tasks, *jax.device_get(jax.jit(everything)(jax.random.key(0))))


def machines(heard: Echoed) -> list[Task]:
    return [task for task, is_valid in zip(unstack(heard.problems.task), heard.valid, strict=True) if is_valid]


@pytest.mark.parametrize("sampler", EVERY)
def test_the_very_actions_do_the_task_in_time(sampler):
    heard = echoes(sampler)
    valid = heard.valid
    assert valid.mean() > 0.3
    assert not heard.trivial[valid].any()
    assert heard.accepted[valid].all()
    assert np.all(heard.when[valid] <= heard.last[valid])
    jax.tree.map(np.testing.assert_array_equal, heard.problems.level, heard.levels)
    assert sound(heard.problems.task, len(DOMAIN.mask)).all()


def test_lengths_are_as_the_settings_say():
    lengths = [len(task.machines[0].states) - 1 for task in machines(echoes("sequential"))]
    assert set(lengths) == {1, 2, 3}


@pytest.mark.parametrize("sampler", EVERY)
def test_tasks_ask_for_what_the_settings_allow(sampler):
    heard = echoes(sampler)
    asked = np.asarray(jax.vmap(lambda task: mentions(heard.formalism.graph(task)))(heard.problems.task))[heard.valid]
    assert DOMAIN.mask[asked[asked >= 0]].all()


def test_what_is_forbidden_is_not_asked_for():
    heard = echoes("reach-avoid")
    graphs = jax.vmap(heard.formalism.graph)(heard.problems.task)
    every = np.asarray(jax.vmap(lambda graph: mentions(graph, bans=False))(graphs))[heard.valid]
    for task, asked in zip(machines(heard), every, strict=True):
        edges, outcomes = task.machines[0].edges, task.machines[0].outcomes
        kept = [edge for edge in edges if outcomes[edge.target] != REJECTED]
        wanted = {literal - 1 for edge in kept for literal in edge.literals if literal > 0}
        assert {*asked.tolist()} - {-1} == wanted


@pytest.mark.parametrize("sampler", EVERY[1:])
def test_machines_of_other_kinds_than_sequences_are_heard(sampler):
    heard = machines(echoes(sampler))
    ways_out = [len(edges) for task in heard for machine in task.machines for edges in machine.leaving]
    assert max(ways_out) > 1 or any(task.called for task in heard)
    assert any(REJECTED in task.machines[0].outcomes for task in heard) == (sampler in ("reach-avoid", "mixed"))


def test_rarity_is_the_mean_over_propositions():
    heard = jnp.arange(TOY_PROPS, dtype=jnp.float32)
    found = rarity(heard, jnp.array([[0, 3, -1], [7, -1, -1], [-1, -1, -1]]))
    np.testing.assert_allclose(found, [(1 + 1 / 4) / 2, 1 / 8, 0.0])
