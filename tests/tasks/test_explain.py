"""Explanations: natural where possible, and always read back as the same task."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.tasks.english import english
from atlas.tasks.explain import explain, is_prose, shape
from atlas.tasks.machine import ACCEPT, REJECT, flat_task
from twins.machines import nested
from twins.vocabularies import fruit

pytestmark = pytest.mark.filterwarnings("ignore::atlas.errors.TaskWarning")

SENTENCES = [
    "Go to a ball.",
    "Go to a ball, then put a red key next to a locked door.",
    "Go to a ball or pick up a key, then go to an open door.",
    "Go to a ball, a square or a key.",
    "Go to a ball and pick up a key, then go to an open red door and put a ball next to a key.",
    "Go to a ball, a square and a key.",
    "Pick up a ball 3 times, then go to a door.",
    "Pick up a ball twice.",
    "Go to a ball without carrying a key.",
    "Go to a ball without facing an open door or carrying a key, then go to a key.",
    "Go to a ball, then go to a key, without carrying a square.",
    "Either go to a ball, then go to a door, or pick up a key. Then go to a square.",
    "Go to a key. Then either go to a ball, then pick up a ball, or go to a door. Then go to a square.",
    "Go to a red door while carrying a key and not putting a ball next to a ball.",
    "1. Go to a ball, then continue with step 2.\n"
    "2. Either go to a key, then continue with step 1, or go to a door, then finish.",
    "1. Either go to a ball, then finish, or go to a key, then fail.",
    "Main task:\n1. Go to a ball and do routine 1, then finish.\nRoutine 1:\n1. Go to a key, then return.",
]  # fmt: skip


@pytest.mark.parametrize("text", SENTENCES)
def test_explanations_are_what_a_person_would_write(text):
    assert explain(english(text, VOCABULARY), VOCABULARY) == text


literals = st.lists(st.integers(1, 6), max_size=3, unique=True).flatmap(
    lambda props: st.tuples(*(st.sampled_from((p, -p)) for p in props))
)
NO_CALL = st.just(-1)
rewards = st.sampled_from([0.0, 1.0, 0.5, -0.1, 1 / 3, 1e-7])


def transitions(states: int, callees=NO_CALL):
    edge = st.tuples(
        st.integers(0, states - 1), st.sampled_from([*range(states), ACCEPT, REJECT]), literals, rewards, callees
    )
    return st.lists(edge, min_size=1, max_size=8)


@given(transitions(4))
@settings(max_examples=30)
def test_any_machine_is_read_back(edges):
    task = flat_task(edges)
    assert shape(english(explain(task, fruit()), fruit())) == shape(task)


paths = st.lists(st.integers(1, 6), max_size=3)
choices = st.lists(st.tuples(st.integers(1, 6), paths), min_size=2, max_size=3, unique_by=lambda branch: branch[0])


@given(paths, choices, st.lists(st.integers(1, 6), min_size=1, max_size=3))
@settings(max_examples=30)
def test_a_choice_between_paths_is_read_back(before, branches, after):
    edges, new = [], itertools.count(1)

    def walk(start, guards, end):
        """Edges from one state to another over new ones, with these guards in turn."""
        for n, guard in enumerate(guards, start=1):
            target = end if n == len(guards) else next(new)
            edges.append((start, target, guard, float(target == ACCEPT)))
            start = target

    fork, meeting = (next(new) if before else 0), next(new)
    walk(0, [(prop,) for prop in before], fork)
    for first, rest in branches:
        others = (-prop for prop, _ in branches if prop != first)
        walk(fork, [(first, *others), *((prop,) for prop in rest)], meeting)
    walk(meeting, [(prop,) for prop in after], ACCEPT)
    task = flat_task(edges)
    assert shape(english(explain(task, fruit()), fruit())) == shape(task)


@given(transitions(3, st.sampled_from([-1, 1, 2])), transitions(3, st.sampled_from([-1, 2])), transitions(3))
@settings(max_examples=4)
def test_any_hierarchy_is_read_back(root, first, second):
    task = nested([root, first, second])
    assert shape(english(explain(task, fruit()), fruit())) == shape(task)


def test_prose_is_told_from_steps():
    assert is_prose("Go to a ball.")
    assert not is_prose("1. Go to a ball.")
    assert not is_prose("Main task:\n1. Go to a ball.")
