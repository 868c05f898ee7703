"""Plain tasks: building, flattening, identity (names and order do not matter, all else does), following by names."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import atlas
from atlas.api import follow
from atlas.errors import AtlasError
from atlas.tasks.check import equivalent
from atlas.tasks.machine import (
    ACCEPT,
    REJECT,
    Machine,
    Task,
    TaskSize,
    canonical,
    content_hash,
    flat_task,
    flatten,
    flatten_with_stacks,
    hierarchy,
    machine,
    natural_size,
    tabulate,
)
from twins.machines import nested
from twins.random_tasks import random_hierarchy, random_trace, twin
from twins.vocabularies import fruit

VOCABULARY = fruit()
APPLE, PEAR, PLUM = 1, 2, 3


# Building


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


# Flattening


@given(st.integers(0, 10**9))
@settings(max_examples=150)
def test_a_hierarchy_moves_and_pays_as_its_flat_form(seed):
    task = random_hierarchy(seed)
    flat, stacks = flatten_with_stacks(task)
    one, other = twin(task), twin(flat)
    for label in random_trace(seed + 1, 64, 0.6):
        assert one.step(label) == other.step(label)
        assert one.outcome == other.outcome
        if not one.outcome:
            assert stacks[other.state].node == (one.machine, one.state)


def test_flattening_refuses_what_grows_too_large():
    wide = [[(u, u + 1, [1], 0.0, 1) for u in range(20)] + [(20, ACCEPT, [1])], [(u, u + 1, [1]) for u in range(20)]]
    wide[1].append((20, ACCEPT, [1]))
    with pytest.raises(AtlasError, match="flat form"):
        flatten(nested(wide))


def test_a_root_that_ends_at_once_flattens_to_one_state():
    ended = Task((Machine((), (1,)), machine([(0, ACCEPT, [2])])))
    assert flatten(ended).flat.outcomes == (1,)


# Identity


def deterministic(seed):
    """The edges of a random machine whose guards exclude each other: propositions 1 to 3, all of them in each guard."""
    rng = random.Random(seed)
    edges = []
    for u in range(4):
        for code in rng.sample(range(8), 3):
            literals = [p if code >> (p - 1) & 1 else -p for p in (1, 2, 3)]
            edges.append((u, rng.choice([0, 1, 2, 3, ACCEPT, REJECT]), literals, rng.choice([0.0, 1.0])))
    return edges


def renamed(edges, seed):
    """The same machine with other numbers for its states and another order of edges and literals."""
    rng = random.Random(seed)
    names = {0: 0, ACCEPT: ACCEPT, REJECT: REJECT} | dict(zip((1, 2, 3), rng.sample(range(1, 5), 3), strict=True))
    shuffled = rng.sample(edges, len(edges))
    return [(names[u], names[v], rng.sample(literals, len(literals)), reward) for u, v, literals, reward in shuffled]


@given(st.integers(0, 10**9))
@settings(max_examples=60)
def test_renaming_changes_nothing(seed):
    edges = deterministic(seed)
    one, other = flat_task(edges), flat_task(renamed(edges, seed))
    assert content_hash(one) == content_hash(other)
    assert canonical(one) == canonical(other)
    assert equivalent(one, canonical(one))


def test_changing_anything_changes_the_hash():
    base = [(0, 1, [1]), (1, ACCEPT, [2, -3], 1.0), (1, REJECT, [3])]
    changed = [
        [(0, 1, [2]), *base[1:]],
        [(0, 1, [-1]), *base[1:]],
        [(0, 1, [1], 0.5), *base[1:]],
        [base[0], (1, REJECT, [2, -3], 1.0), (1, ACCEPT, [3])],
        base[:2],
        [(0, 1, [1]), (1, 2, [1]), (2, ACCEPT, [2, -3], 1.0), (2, REJECT, [3])],
    ]
    tasks = [flat_task(edges) for edges in [base, *changed]]
    assert len({content_hash(task) for task in tasks}) == len(tasks)


def test_unreachable_states_do_not_count():
    base = [(0, ACCEPT, [1])]
    assert content_hash(flat_task(base)) == content_hash(flat_task([*base, (1, ACCEPT, [2])]))


def test_machines_of_a_hierarchy_may_change_places():
    first, second = [(0, ACCEPT, [1])], [(0, ACCEPT, [2])]
    one = nested([[(0, 1, [3], 0.0, 1), (1, ACCEPT, [4], 1.0, 2)], first, second])
    other = nested([[(0, 1, [3], 0.0, 2), (1, ACCEPT, [4], 1.0, 1)], second, first])
    apart = nested([[(0, 1, [3], 0.0, 2), (1, ACCEPT, [4], 1.0, 1)], first, second])
    assert content_hash(one) == content_hash(other) != content_hash(apart)
    assert canonical(one) == canonical(other)


# Following


@given(st.integers(0, 10**9))
@settings(max_examples=60)
def test_followed_like_the_twin(seed):
    task, trace = random_hierarchy(seed), random_trace(seed, 64, 0.6)
    other = twin(task)
    for label, record in zip(trace, follow(task, trace, VOCABULARY), strict=True):
        assert record.reward == other.step(label)
        assert (record.accepted, record.rejected) == (other.outcome == 1, other.outcome == 2)
        assert record.machine == f"m{other.machine}"
        assert len(record.stack) == len(other.stack)


def test_a_flat_task_in_names():
    task = flat_task([(0, 1, [APPLE], 0.5), (1, ACCEPT, [PEAR, -PLUM], 1.0), (1, REJECT, [PLUM])])
    records = follow(task, [set(), {"apple"}, ["pear", "plum"], ["apple"]], VOCABULARY)
    assert [r.state for r in records] == ["u0", "u1", "uR", "uR"]
    assert [r.reward for r in records] == [0.0, 0.5, 0.0, 0.0]
    assert records[2].rejected
    assert not records[2].accepted
    assert dict(records[1]) == {
        "machine": "m0", "state": "u1", "stack": [], "reward": 0.5, "accepted": False, "rejected": False,
    }  # fmt: skip
    assert follow(task, [{0}, {"pear"}], VOCABULARY)[-1].accepted


def test_calls_and_returns_in_names():
    task = nested([[(0, 1, [APPLE], 0.25, 1), (1, ACCEPT, [PEAR], 1.0)], [(0, 1, [PEAR]), (1, ACCEPT, [PLUM])]])
    records = follow(task, [{"apple"}, {"apple", "pear"}, {"plum"}, "pear"], VOCABULARY)
    assert [(r.machine, r.state, r.stack) for r in records] == [
        ("m0", "u0", []), ("m1", "u1", ["m0:u1"]), ("m0", "u1", []), ("m0", "uA", []),
    ]  # fmt: skip
    assert [r.reward for r in records] == [0.0, 0.0, 0.25, 1.0]
    assert [r.accepted for r in records] == [False, False, False, True]


def test_unknown_propositions_are_told_with_their_neighbours():
    task = flat_task([(0, ACCEPT, [APPLE])])
    with pytest.raises(AtlasError, match="'aple' is not a proposition; did you mean apple"):
        follow(task, [{"aple"}], VOCABULARY)
    with pytest.raises(AtlasError, match="9 is not a proposition: ids go from 0 to 5"):
        follow(task, [{9}], VOCABULARY)


def test_public_follow_speaks_minigrid():
    task = flat_task([(0, ACCEPT, [1 + 6], 1.0)])
    assert atlas.follow(task, [{"front_ball"}])[0].accepted, "front_ball is proposition 6"
    assert not atlas.follow(task, [{"front_ball_red"}])[0].accepted, "labels are not closed under implication"
