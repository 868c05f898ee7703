"""Satisfiability against all labels, equality against following; every kind of mistake is told in one sentence."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas.tasks.check import Finding, Theory, check, difference, equivalent
from atlas.tasks.machine import ACCEPT, REJECT, Task, flat_task, flatten, holds, machine
from twins.machines import nested
from twins.random_tasks import PROPS, random_flat, random_hierarchy, random_trace, twin
from twins.vocabularies import fruit

KIND = fruit(implies=[(0, 1), (1, 2), (0, 2), (3, 2)], excludes=[(0, 3), (4, 5)])
"""Apple implies pear implies plum; fig implies plum; apple excludes fig, kiwi excludes lime."""


def labels_of(vocabulary):
    """Every label that the vocabulary allows."""
    count = len(vocabulary.names)
    for bits in itertools.product([False, True], repeat=count):
        on = np.array(bits)
        closed = not (vocabulary.implies[on].any(0) & ~on).any()
        if closed and not vocabulary.excludes[np.ix_(on, on)].any():
            yield frozenset(np.nonzero(on)[0].tolist())


LABELS = list(labels_of(KIND))


@given(st.integers(0, 10**9))
@settings(max_examples=200)
def test_a_label_is_found_iff_there_is_one(seed):
    rng = random.Random(seed)
    draw = lambda: [rng.choice([-1, 1]) * rng.randint(1, 6) for _ in range(rng.randint(1, 3))]  # noqa: E731
    literals, refuted = draw(), [draw() for _ in range(rng.randint(0, 4))]
    fits = [x for x in LABELS if holds(literals, x) and not any(holds(guard, x) for guard in refuted)]
    found = Theory(KIND).find(literals, refuted)
    assert (found is None) == (not fits)
    assert found is None or found in fits


def test_entailment_knows_implications():
    theory = Theory(KIND)
    assert theory.entails([1], [2, 3])
    assert theory.entails([1], [-4])
    assert not theory.entails([2], [1])
    assert not Theory().entails([1], [2])


def follow(task, labels):
    """Rewards and outcomes along labels."""
    other = twin(task)
    return [(other.step(label), other.outcome) for label in labels]


@given(st.integers(0, 10**9))
@settings(max_examples=60)
def test_differences_are_real_and_their_absence_too(seed):
    one, other = random_flat(seed), random_flat(seed + 1)
    labels = difference(one, other)
    if labels is not None:
        assert follow(one, labels) != follow(other, labels)
        assert follow(one, labels[:-1]) == follow(other, labels[:-1])
    else:
        for trace in range(20):
            assert follow(one, random_trace(trace, 20)) == follow(other, random_trace(trace, 20))
    assert equivalent(one, one)


@given(st.integers(0, 10**9))
@settings(max_examples=30)
def test_a_hierarchy_equals_its_flat_form(seed):
    task = random_hierarchy(seed, most=3)
    assert equivalent(task, flatten(task))


def test_rewards_can_be_left_out_of_the_comparison():
    one, other = flat_task([(0, ACCEPT, [1], 1.0)]), flat_task([(0, ACCEPT, [1], 0.5)])
    assert not equivalent(one, other)
    assert equivalent(one, other, rewards=False)
    assert difference(one, other) == [frozenset({0})]


def test_traces_use_the_propositions_of_random_machines():
    assert set().union(*random_trace(0, 50)) == set(range(PROPS))


# Mistakes

APPLE, PEAR, PLUM, FIG = 1, 2, 3, 4
VOCABULARY = fruit(implies=[(0, 1)], excludes=[(0, 3)])
"""Apple implies pear and excludes fig."""


def test_a_sound_task_has_no_findings():
    assert check(flat_task([(0, 1, [PLUM]), (0, REJECT, [FIG, -PLUM]), (1, ACCEPT, [PEAR])]), VOCABULARY) == []


@pytest.mark.parametrize(
    ("edges", "finding"),
    [
        (
            [(0, 1, [APPLE]), (0, ACCEPT, [PEAR]), (1, ACCEPT, [PLUM])],
            Finding("error", "u0 is not deterministic: apple (to u1) and pear (to uA) can hold at once"),
        ),
        (
            [(0, 1, [APPLE, -PEAR]), (0, ACCEPT, [PLUM]), (1, ACCEPT, [PLUM])],
            Finding("warning", "the guard of u0 -> u1 can never hold: apple & -pear"),
        ),
        ([(0, ACCEPT, [])], Finding("warning", "the guard of u0 -> uA always holds: it has no literals")),
        ([(0, 1, [APPLE]), (1, ACCEPT, [APPLE, FIG])], Finding("error", "no labels lead to acceptance")),
        ([(0, REJECT, [APPLE])], Finding("error", "no labels lead to acceptance")),
        (
            [(0, ACCEPT, [PLUM]), (0, 1, [FIG, -PLUM])],
            Finding("warning", "from u1 acceptance can no longer be reached"),
        ),
        ([(0, ACCEPT, [PLUM]), (1, ACCEPT, [PLUM])], Finding("warning", "no labels lead to u1")),
        (
            [(0, 1, [APPLE]), (1, ACCEPT, [PEAR])],
            Finding("warning", "pear (from u1 to uA) holds whenever apple led there"),
        ),
    ],
)
def test_mistakes_are_told(edges, finding):
    assert finding in check(flat_task(edges), VOCABULARY)


def test_parallel_edges_may_overlap():
    assert check(flat_task([(0, ACCEPT, [PLUM], 1.0), (0, ACCEPT, [FIG], 1.0)]), VOCABULARY) == []


def test_guards_that_exclude_each_other_may_stand_side_by_side():
    assert check(flat_task([(0, ACCEPT, [APPLE]), (0, REJECT, [FIG])]), VOCABULARY) == []


def test_a_task_that_is_over_at_once_is_told():
    assert [f.level for f in check(flat_task([], accepting=[0]), VOCABULARY)] == ["warning"]


def test_hierarchies_are_checked_through_their_calls():
    sound = [[(0, 1, [PLUM], 0.0, 1), (1, ACCEPT, [PEAR], 1.0)], [(0, ACCEPT, [FIG])]]
    assert check(nested(sound), VOCABULARY) == []
    impossible = [[(0, ACCEPT, [APPLE], 1.0, 1)], [(0, ACCEPT, [FIG])]]
    assert Finding("error", "no labels lead to acceptance") in check(nested(impossible), VOCABULARY)
    torn = [[(0, ACCEPT, [PLUM], 1.0, 1)], [(0, 1, [FIG]), (1, ACCEPT, [PLUM]), (1, REJECT, [PEAR])]]
    assert Finding("error", "m1:u1 is not deterministic: plum (to uA) and pear (to uR) can hold at once") in check(
        nested(torn), VOCABULARY
    )


def test_exclusive_callees_make_overlapping_calls_deterministic():
    calls = [[(0, ACCEPT, [PLUM], 1.0, 1), (0, REJECT, [PEAR], 0.0, 2)], [(0, ACCEPT, [APPLE])], [(0, ACCEPT, [FIG])]]
    assert check(nested(calls), VOCABULARY) == []


def test_cyclic_calls_are_told():
    one = machine([(0, ACCEPT, [PLUM], 1.0, 1)])
    assert "cyclic" in check(Task((one, one)), VOCABULARY)[0].sentence
