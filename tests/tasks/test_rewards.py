"""What tasks pay: laws of every reward function, and that shaping leaves every finished episode's return alone."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas.tasks.machine import ACCEPT, REJECT, flat_task, hierarchy, machine
from atlas.tasks.packed import RewardMachines, pack, stack
from atlas.tasks.rewards import REWARDS, Shaped, sparse, stepwise
from twins.random_tasks import FLAT, NESTED, as_masks, follower, random_flat, random_hierarchy, random_trace

GAMMA = 0.9
SHAPED = Shaped(RewardMachines(), GAMMA)
run, run_shaped = follower(RewardMachines()), follower(SHAPED)
sampled = {
    "flat": lambda seed: pack(random_flat(seed), FLAT),
    "nested": lambda seed: pack(random_hierarchy(seed), NESTED),
}


def discounted(rewards):
    return float(np.sum(np.asarray(rewards) * GAMMA ** np.arange(len(rewards))))


@pytest.mark.parametrize("kind", sampled)
@given(seed=st.integers(0, 10**9))
@settings(max_examples=40)
def test_shaping_keeps_the_return_of_finished_episodes(kind, seed):
    task, labels = sparse(sampled[kind](seed)), as_masks(random_trace(seed, 64, 0.6))
    _, rewards, outcomes = run(task, labels)
    _, other, _ = run_shaped(task, labels)
    ended = np.nonzero(np.asarray(outcomes))[0]
    if ended.size:
        assert np.isclose(discounted(rewards), discounted(other), atol=1e-5)
        assert (np.asarray(other)[ended[0] + 1 :] == 0).all(), "a task that is over pays nothing"


def has_loop(task):
    """Whether an edge leads back to where it starts: it pays nothing, though a call may begin with it."""
    states = np.arange(task.size.states)[:, None]
    return bool((np.asarray(task.target) == states).any())


@pytest.mark.parametrize("kind", sampled)
@given(seed=st.integers(0, 10**9))
@settings(max_examples=60)
def test_sparse_pays_one_on_acceptance_and_stepwise_one_a_move(kind, seed):
    task = sampled[kind](seed)
    labels = as_masks(random_trace(seed, 64, 0.6))
    states, rewards, outcomes = run(sparse(task), labels)
    accepted = np.asarray(outcomes) == 1
    assert float(np.sum(rewards)) == float(accepted.any())
    assert not accepted.any() or rewards[int(np.argmax(accepted))] == 1.0
    _, rewards, _ = run(stepwise(task), labels)
    places = np.asarray(jax.tree.leaves(states)[0]).reshape(64, -1)
    moved = (places[1:] != places[:-1]).any(axis=1)
    if not has_loop(task):
        assert (np.asarray(rewards)[1:] >= moved).all(), "every move pays"
    assert set(np.asarray(rewards).tolist()) <= {0.0, 1.0}


def test_potential_grows_on_the_way():
    edges = [(0, 1, [1]), (1, 2, [1]), (2, ACCEPT, [1]), (1, 3, [2, -1]), (3, 0, [1]), (0, REJECT, [2, -1])]
    task = pack(flat_task(edges))
    progress = [float(SHAPED.potential(task, jax.numpy.int8(u))) for u in range(6)]
    assert np.allclose(progress, [0, 1 / 3, 2 / 3, -1 / 3, 0, 0])


def test_calls_pay_when_they_return():
    task = sparse(pack(hierarchy([machine([(0, ACCEPT, [1], 0.0, 1)]), machine([(0, 1, [2]), (1, ACCEPT, [3], 7.0)])])))
    assert task.reward[0, 0, 0] == 1.0
    assert (task.reward[1] == 0.0).all(), "only the root's acceptance counts"


@pytest.mark.parametrize("name", REWARDS)
def test_reward_functions_map_over_batches(name):
    tasks = [sampled["flat"](seed) for seed in range(4)]
    together = jax.jit(jax.vmap(REWARDS[name]))(stack(tasks, FLAT))
    for i, task in enumerate(tasks):
        assert (together.reward[i] == REWARDS[name](task).reward).all()
