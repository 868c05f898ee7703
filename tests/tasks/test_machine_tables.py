"""Plain tasks: built, refused, and flattened."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas.errors import AtlasError
from atlas.tasks.machine import (
    ACCEPT,
    Task,
    TaskSize,
    flat_task,
    flatten,
    flatten_with_stacks,
    hierarchy,
    machine,
    natural_size,
    tabulate,
)
from twins.random_tasks import random_hierarchy, random_trace, twin


def test_builder_places_terminal_states_last_and_merges_them():
    edges = [(0, 7, [1]), (0, 1, [2]), (1, 5, [3], 1.0), (1, 6, [-4, 2])]
    one = machine(edges, accepting={5, 7}, rejecting={6})
    assert [(e.source, e.target, e.literals, e.reward) for e in one.edges] == [
        (0, 2, (1,), 0.0), (0, 1, (2,), 0.0), (1, 2, (3,), 1.0), (1, 3, (-4, 2), 0.0),
    ]  # fmt: skip
    assert one.outcomes == (0, 0, 1, 2)


def test_builder_keeps_the_numbers_of_running_states():
    one = machine([(0, 3, [1]), (3, ACCEPT, [2])])
    assert one.outcomes == (0, 0, 0, 0, 1)
    assert [e[:2] for e in one.edges] == [(0, 3), (3, 4)]
    assert one.reachable == (0, 3, 4)


def test_a_machine_that_ends_at_once_has_one_state():
    task = flat_task([(1, 2, [1])], accepting={0})
    assert task.flat.outcomes == (1,)
    assert natural_size(task) == TaskSize(1, 1, 1, 1)


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


@pytest.mark.parametrize(
    ("calls", "sentence"),
    [
        ([1, 2, 1], "the calls m1 -> m2 -> m1 are cyclic"),
        ([1, 1, -1], "the calls m1 -> m1 are cyclic"),
        ([1, 2, 0], "m2 calls m0: the root may not be called"),
        ([1, 5, -1], "m1 calls m5, which does not exist"),
    ],
)
def test_calls_that_make_no_sense_are_refused(calls, sentence):
    with pytest.raises(AtlasError, match=sentence):
        hierarchy([machine([(0, ACCEPT, [1], 1.0, call)]) for call in calls])


def test_sizes_that_do_not_fit_are_refused():
    task = hierarchy([machine([(0, 1, [1], 0.0, 1), (1, ACCEPT, [2])]), machine([(0, ACCEPT, [3])])])
    with pytest.raises(AtlasError, match="3 states of 2, 2 links of 1"):
        tabulate(task, TaskSize(2, 2, 3, 2, 3, 1))
    with pytest.raises(AtlasError, match="2 machines of 1"):
        tabulate(task, TaskSize(1, 4, 3, 2))
    with pytest.raises(AtlasError, match="2 machines x 65 states are too many"):
        hierarchy([machine([(0, ACCEPT, [1], 1.0, 1)]), machine([(u, u + 1, [1]) for u in range(64)])])


@given(st.integers(0, 10**9))
@settings(max_examples=150)
def test_equal_to_the_flat_form(seed):
    task = random_hierarchy(seed)
    flat, stacks = flatten_with_stacks(task)
    one, other = twin(task), twin(flat)
    for label in random_trace(seed + 1, 64, 0.6):
        assert one.step(label) == other.step(label)
        assert one.outcome == other.outcome
        if not one.outcome:
            assert stacks[other.state].node == (one.machine, one.state)


def test_flattening_refuses_what_grows_too_large():
    chain = [(20, ACCEPT, [1])]
    caller = machine([(u, u + 1, [1], 0.0, 1) for u in range(20)] + chain)
    with pytest.raises(AtlasError, match="flat form"):
        flatten(hierarchy([caller, machine([(u, u + 1, [1]) for u in range(20)] + chain)]))


def test_a_root_that_ends_at_once_flattens_to_one_state():
    task = Task((machine([], accepting=[0]), machine([(0, ACCEPT, [2])])))
    assert flatten(task).flat.outcomes == (1,)
