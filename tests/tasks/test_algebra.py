"""Satisfiability against all labels, equality and minimisation against following the machines."""

import itertools
import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas.tasks.check import Theory, difference, equivalent, holds, minimise
from atlas.tasks.flatten import flatten
from atlas.tasks.rm import ACCEPT, REJECT, machine, num_states, transitions
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


@given(st.integers(0, 10**9))
@settings(max_examples=60)
def test_the_smallest_machine_is_equal_and_not_larger(seed):
    task = random_flat(seed)
    small = minimise(task)
    assert equivalent(task, small)
    assert num_states(small) <= num_states(task)
    assert num_states(minimise(small)) == num_states(small)


def test_equal_states_are_merged_and_impossible_edges_dropped():
    task = machine(
        [
            (0, 1, [1]), (0, 2, [2, -1]), (1, ACCEPT, [3], 1.0), (2, ACCEPT, [3], 1.0), (2, REJECT, [1, -2]),
            (1, 1, [4]), (3, ACCEPT, [1]),
        ]
    )  # fmt: skip
    small = minimise(task, KIND)
    assert [(e.source, e.target, e.literals) for e in transitions(small)] == [
        (0, 1, (1,)), (0, 1, (2, -1)), (1, 2, (3,)),
    ]  # fmt: skip
    assert num_states(minimise(task)) > 3, "without the vocabulary, apple without pear is possible"


def test_rewards_can_be_left_out_of_the_comparison():
    one, other = machine([(0, ACCEPT, [1], 1.0)]), machine([(0, ACCEPT, [1], 0.5)])
    assert not equivalent(one, other)
    assert equivalent(one, other, rewards=False)
    assert difference(one, other) == [frozenset({0})]


def test_traces_use_the_propositions_of_random_machines():
    assert set().union(*random_trace(0, 50)) == set(range(PROPS))
