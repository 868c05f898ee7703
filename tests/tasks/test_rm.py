"""Flat machines: built, padded, counted and followed as their plain twin is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas.errors import AtlasError
from atlas.tasks import rm
from atlas.tasks.rm import ACCEPT, REJECT, TaskSize, machine
from twins.random_tasks import FLAT, as_masks, follower, random_flat, random_trace, twin

run = follower(rm.RewardMachines(sample=lambda *_: None))


@given(st.integers(0, 10**9))
@settings(max_examples=100)
def test_followed_like_the_twin(seed):
    task, trace = random_flat(seed), random_trace(seed, 64)
    states, rewards, outcomes = map(np.asarray, run(task, as_masks(trace)))
    other = twin(task)
    for t, label in enumerate(trace):
        assert rewards[t] == other.step(label)
        assert (states[t], outcomes[t]) == (other.state, other.outcome)


def test_builder_places_terminal_states_last_and_merges_them():
    task = machine([(0, 7, [1]), (0, 1, [2]), (1, 5, [3], 1.0), (1, 6, [-4, 2])], accepting={5, 7}, rejecting={6})
    assert task.target.tolist() == [[2, 1], [2, 3], [-1, -1], [-1, -1]]
    assert task.guard.tolist()[1] == [[3, 0], [-4, 2]]
    assert task.reward.tolist()[1] == [1.0, 0.0]
    assert task.outcome.tolist() == [0, 0, 1, 2]


def test_builder_keeps_the_numbers_of_running_states():
    task = machine([(0, 3, [1]), (3, ACCEPT, [2])])
    assert task.outcome.tolist() == [0, 0, 0, 0, 1]
    assert task.target[:, 0].tolist() == [3, -1, -1, 4, -1]
    assert np.asarray(rm.used_states(task)).tolist() == [True, False, False, True, True]


def test_a_machine_that_ends_at_once_has_one_state():
    task = machine([(1, 2, [1])], accepting={0})
    assert task.outcome.tolist() == [1]
    assert rm.natural_size(task) == TaskSize(1, 1, 1)


@pytest.mark.parametrize(
    ("edges", "sentence"),
    [
        ([(0, ACCEPT, [1]), (ACCEPT, 0, [2])], "an edge leaves state -1, which is accepting"),
        ([(0, -7, [1])], "state -7 is neither accepting nor rejecting"),
        ([(u, u + 1, [1]) for u in range(130)], "131 states is too large"),
    ],
)
def test_builder_refuses(edges, sentence):
    with pytest.raises(AtlasError, match=sentence):
        machine(edges)


@given(st.integers(0, 10**9))
@settings(max_examples=30)
def test_transitions_are_the_inverse_of_the_builder(seed):
    task = random_flat(seed)
    accepting = [int(u) for u in np.nonzero(np.asarray(task.outcome) == 1)[0]]
    rejecting = [int(u) for u in np.nonzero(np.asarray(task.outcome) == 2)[0]]
    again = rm.resize(machine(rm.transitions(task), accepting, rejecting), FLAT)
    for name in ("target", "guard", "reward", "outcome"):
        assert (getattr(again, name) == getattr(task, name)).all(), name


@given(st.integers(0, 10**9))
@settings(max_examples=20)
def test_resizing_there_and_back_changes_nothing(seed):
    task = random_flat(seed)
    again = rm.resize(rm.resize(task, TaskSize(9, 5, 4)), FLAT)
    for name in ("target", "guard", "reward", "outcome"):
        assert (getattr(again, name) == getattr(task, name)).all(), name


def test_trimming_closes_gaps_and_refuses_what_does_not_fit():
    task = machine([(0, ACCEPT, [1]), (0, REJECT, [2, 3])])
    gap = task.replace(target=task.target.at[0, 0].set(rm.UNUSED))
    trimmed = rm.resize(gap, TaskSize(3, 1, 2))
    assert trimmed.target.tolist() == [[2], [-1], [-1]]
    assert trimmed.guard[0, 0].tolist() == [2, 3]
    with pytest.raises(
        AtlasError, match="needs 3 states, 2 edges a state and 2 literals an edge; there is room for 3, 1 and 2"
    ):
        rm.resize(task, TaskSize(3, 1, 2))


def test_padding_can_be_mapped():
    batch = jax.tree.map(lambda x: jnp.stack([x] * 3), machine([(0, ACCEPT, [1])]))
    padded = jax.vmap(lambda task: rm.resize(task, TaskSize(4, 3, 2)))(batch)
    assert padded.guard.shape == (3, 4, 3, 2)


def test_counts_and_reachability():
    task = rm.resize(machine([(0, 1, [1]), (1, 0, [2]), (2, ACCEPT, [3])]), TaskSize(8, 2, 1))
    assert rm.num_states(task) == 4
    assert rm.num_edges(task) == 3
    assert np.asarray(rm.reachable(task)).nonzero()[0].tolist() == [0, 1]
