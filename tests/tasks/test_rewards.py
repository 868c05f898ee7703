"""What tasks pay: laws of every reward function, and that shaping leaves every finished episode's return alone; and
paths to acceptance, counted against a list of them."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas.tasks.machine import ACCEPT, REJECT, flat_task, flatten, hierarchy, machine
from atlas.tasks.packed import RewardMachines, pack, stack
from atlas.tasks.rewards import FAR, REWARDS, Shaped, count_paths, distances, sparse, stepwise
from twins.paths import simple_paths
from twins.random_tasks import FLAT, NESTED, as_masks, follower, random_flat, random_hierarchy, random_trace

GAMMA = 0.9
SHAPED = Shaped(gamma=GAMMA)
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
    progress = [float(SHAPED.potential(task, jax.numpy.int8(u), distances(task))) for u in range(6)]
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


# Paths

count = jax.jit(count_paths)


def has_circle(task):
    """Whether a path to acceptance can pass through a state twice."""
    n = len(task.flat.outcomes)
    adjacent = np.zeros((n, n), bool)
    for edge in task.flat.edges:
        adjacent[edge.source, edge.target] = True
    ways = [np.eye(n, dtype=bool)]
    for _ in range(n):
        ways.append(ways[-1] @ adjacent)
    reach = np.any(ways, axis=0)
    loops = np.any([np.diag(w) for w in ways[1:]], axis=0)
    accepting = np.asarray(task.flat.outcomes) == 1
    return bool((loops & reach[0] & reach[:, accepting].any(1)).any())


@given(st.integers(0, 10**9))
@settings(max_examples=80)
def test_counts_like_a_list_of_paths(seed):
    task = random_flat(seed)
    found = count(pack(task, FLAT))
    listed = list(simple_paths(task.flat))
    lengths = [len(path) - 1 for path in listed]
    assert found.shortest == min(lengths, default=FAR)
    if has_circle(task):
        assert (found.count, found.mean, found.longest) == (-1, -1, -1)
    else:
        assert found.count == len(listed)
        assert found.longest == max(lengths, default=0)
        assert np.isclose(found.mean, np.mean(lengths) if lengths else 0.0)


def test_a_diamond_in_front_of_a_diamond_has_four_paths():
    edges = [(0, 1, [1]), (0, 2, [2]), (1, 2, [3]), (2, 3, [1]), (2, ACCEPT, [2]), (3, ACCEPT, [4])]
    found = count(pack(flat_task(edges)))
    assert (found.count, found.shortest, found.mean, found.longest) == (4, 2, 3, 4)


def test_calls_stand_for_the_paths_of_their_callee():
    inner = machine([(0, 1, [1]), (0, ACCEPT, [2]), (1, ACCEPT, [3])])
    task = hierarchy([machine([(0, 1, [4], 0.0, 1), (1, ACCEPT, [5], 1.0, 1), (0, ACCEPT, [3])]), inner])
    found, flat = count(pack(task)), count(pack(flatten(task)))
    assert (found.count, found.shortest, found.longest) == (5, 1, 4)
    assert (flat.count, flat.shortest, flat.mean, flat.longest) == (found.count, 1, found.mean, 4)


def test_distances():
    task = pack(flat_task([(0, 1, [1]), (1, ACCEPT, [1]), (1, 0, [2]), (2, 0, [3])]), FLAT)
    assert distances(task).tolist() == [[2, 1, 3, 0, FAR, FAR]]
