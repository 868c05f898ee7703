"""What tasks pay: laws of every reward function, and that shaping leaves every finished episode's return alone."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas.tasks import hrm, rm
from atlas.tasks.hrm import hierarchy
from atlas.tasks.rewards import REWARDS, Shaped, potential, sparse, stepwise
from atlas.tasks.rm import ACCEPT, REJECT, machine
from twins.random_tasks import as_masks, follower, random_flat, random_hierarchy, random_trace

FLAT = rm.RewardMachines(sample=lambda *_: None)
NESTED = hrm.Hierarchies(sample=lambda *_: None)
GAMMA = 0.9
runs = {
    "flat": (random_flat, follower(FLAT), follower(Shaped(FLAT, GAMMA))),
    "nested": (random_hierarchy, follower(NESTED), follower(Shaped(NESTED, GAMMA))),
}


def discounted(rewards):
    return float(np.sum(np.asarray(rewards) * GAMMA ** np.arange(len(rewards))))


@pytest.mark.parametrize("kind", runs)
@given(seed=st.integers(0, 10**9))
@settings(max_examples=40)
def test_shaping_keeps_the_return_of_finished_episodes(kind, seed):
    draw, plain, shaped = runs[kind]
    task, labels = sparse(draw(seed)), as_masks(random_trace(seed, 64, 0.6))
    _, rewards, outcomes = plain(task, labels)
    _, other, _ = shaped(task, labels)
    ended = np.nonzero(np.asarray(outcomes))[0]
    if ended.size:
        assert np.isclose(discounted(rewards), discounted(other), atol=1e-5)
        assert (np.asarray(other)[ended[0] + 1 :] == 0).all(), "a task that is over pays nothing"


def has_loop(task):
    """Whether an edge leads back to where it starts: it pays nothing, though a call may begin with it."""
    states = np.arange(task.size.states)[:, None]
    return bool((np.asarray(task.target) == states).any())


@pytest.mark.parametrize("kind", runs)
@given(seed=st.integers(0, 10**9))
@settings(max_examples=60)
def test_sparse_pays_one_on_acceptance_and_stepwise_one_a_move(kind, seed):
    draw, run, _ = runs[kind]
    labels = as_masks(random_trace(seed, 64, 0.6))
    states, rewards, outcomes = run(sparse(draw(seed)), labels)
    accepted = np.asarray(outcomes) == 1
    assert float(np.sum(rewards)) == float(accepted.any())
    assert not accepted.any() or rewards[int(np.argmax(accepted))] == 1.0
    _, rewards, _ = run(stepwise(draw(seed)), labels)
    places = np.asarray(jax.tree.leaves(states)[0]).reshape(64, -1)
    moved = (places[1:] != places[:-1]).any(axis=1)
    if not has_loop(draw(seed)):
        assert (np.asarray(rewards)[1:] >= moved).all(), "every move pays"
    assert set(np.asarray(rewards).tolist()) <= {0.0, 1.0}


def test_potential_grows_on_the_way():
    task = machine([(0, 1, [1]), (1, 2, [1]), (2, ACCEPT, [1]), (1, 3, [2, -1]), (3, 0, [1]), (0, REJECT, [2, -1])])
    progress = [float(potential(task, jax.numpy.int8(u))) for u in range(6)]
    assert np.allclose(progress, [0, 1 / 3, 2 / 3, -1 / 3, 0, 0])


def test_calls_pay_when_they_return():
    task = sparse(hierarchy([[(0, ACCEPT, [1], 0.0, 1)], [(0, 1, [2]), (1, ACCEPT, [3], 7.0)]]))
    assert task.reward[0, 0, 0] == 1.0
    assert (task.reward[1] == 0.0).all(), "only the root's acceptance counts"


@pytest.mark.parametrize("name", REWARDS)
def test_reward_functions_map_over_batches(name):
    tasks = [random_flat(seed) for seed in range(4)]
    batch = jax.tree.map(lambda *leaves: np.stack(leaves), *tasks)
    together = jax.jit(jax.vmap(REWARDS[name]))(batch)
    for i, task in enumerate(tasks):
        assert (together.reward[i] == REWARDS[name](task).reward).all()
