"""Laws of every task edit on every kind of machine: the result obeys the rules, applicability is exact, the name is
true."""

import functools
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.tasks.edits import task_edits
from atlas.tasks.machine import ACCEPT, REJECT, UNUSED, TaskSize, flat_task
from atlas.tasks.packed import stack
from atlas.tasks.rewards import sparse
from atlas.tasks.sample import SAMPLERS
from rules import task_rules
from twins.drawn import drawn
from twins.task_edits import applies, explains, plain

MASK = np.array(["gray" not in name for name in VOCABULARY.names])
ALPHABET = int(MASK.sum())
COUNT = 64


def by_hand():
    """What samplers do not make: rejection, disjunctions, loops through the start, dead ends, all rows in use."""
    tasks = [
        flat_task([(0, ACCEPT, [1])]),
        flat_task([(0, 1, [1]), (1, 2, [2]), (2, 3, [3]), (3, 4, [4]), (4, ACCEPT, [5])]),
        flat_task([(0, 1, [1, -2]), (0, REJECT, [2, -1]), (1, ACCEPT, [3, -2]), (1, REJECT, [2, -3])]),
        flat_task([(0, ACCEPT, [1, -2]), (0, ACCEPT, [2, -1])]),
        flat_task([(0, 1, [1, 2]), (0, 2, [1, -2]), (1, 0, [3]), (2, ACCEPT, [4])]),
        flat_task([(0, 1, [1]), (1, 0, [2, -3]), (1, ACCEPT, [3, -2])]),
        flat_task([(0, 1, [1]), (1, 2, [2, -3]), (1, ACCEPT, [3, -2])]),
        flat_task([(0, 1, [1, -2]), (0, 2, [2, -1]), (1, 2, [3]), (2, 1, [4, -5]), (2, ACCEPT, [5, -4])]),
        flat_task([(0, 1, []), (1, ACCEPT, [-4])]),
    ]
    batch = [task for task in tasks for _ in range(COUNT // len(tasks) + 1)][:COUNT]
    return jax.vmap(sparse)(stack(batch, TaskSize(1, 6, 2, 2)))


KINDS = (*SAMPLERS, "by hand")
TABLE = task_edits(VOCABULARY, MASK, sparse)
EDITS = tuple(edit.name for edit in TABLE)
every = pytest.mark.parametrize(("kind", "row"), [(k, r) for k in KINDS for r in range(3)], ids=str)


@functools.cache
def tasks(kind):
    if kind == "by hand":
        return jax.tree.map(np.asarray, by_hand())
    return jax.tree.map(lambda leaf: leaf[:COUNT], drawn(kind))


@jax.jit
@jax.vmap
def run(key, task):
    """All edits of a task."""
    return [(edit.applicable(task), *edit.apply(key, task)) for edit in TABLE]


@functools.cache
def edited(kind):
    """For each edit: whether it applies, what it makes, and with what arguments."""
    return jax.device_get(run(jax.random.split(jax.random.key(2), COUNT), tasks(kind)))


def at(tree, i):
    return jax.tree.map(lambda x: x[i], tree)


def machines_of(task) -> list:
    """Each machine of a task in plain Python, and whether others call it."""
    call = np.full_like(task.target, UNUSED) if task.call is None else task.call
    root = 0 if task.root is None else int(task.root)
    parts = zip(task.target, task.guard, task.outcome, call, strict=True)
    return [(plain(*part), number != root) for number, part in enumerate(parts)]


@every
def test_applicability_is_exact(kind, row):
    found = edited(kind)[row][0]
    size = at(tasks(kind), 0).size
    slots = size.edges * size.literals
    for i in range(COUNT):
        expected = [applies(EDITS[row], m, size.states, slots, ALPHABET, c) for m, c in machines_of(at(tasks(kind), i))]
        assert found[i] == any(expected)


@every
def test_results_obey_the_rules(kind, row):
    found, after, _ = edited(kind)[row]
    for i in np.flatnonzero(found):
        task_rules(at(after, i))


@every
def test_the_name_is_true(kind, row):
    found, after, arguments = edited(kind)[row]
    for i in np.flatnonzero(found):
        machine_number, state = divmod(int(arguments[i][0]), 100)
        before, is_callee = machines_of(at(tasks(kind), i))[machine_number]
        now = machines_of(at(after, i))[machine_number][0]
        explains(EDITS[row], before, now, [state, *arguments[i][1:]], MASK, is_callee)


@pytest.mark.parametrize("kind", ["dag", "cyclic"])
def test_new_propositions_do_not_contradict_their_siblings(kind):
    found, after, arguments = edited(kind)[0]
    implies = VOCABULARY.implies
    for i in np.flatnonzero(found):
        state, _, new = (int(a) for a in arguments[i])
        others = np.abs(after.guard[i, 0, state])[after.target[i, 0, state] != UNUSED].ravel() - 1
        others = [p for p in others if p >= 0 and p != new]
        assert not implies[new, others].any()
        assert not implies[others, new].any()


@pytest.mark.parametrize(
    ("edges", "places"),
    [
        ([(0, 1, [1]), (1, 2, [2]), (2, 3, [3]), (3, ACCEPT, [4])], 5),
        ([(0, 1, [1, -2]), (0, 2, [2, -1]), (1, 2, [3]), (2, ACCEPT, [4])], 5),
    ],
    ids=["sequence", "dag"],
)
def test_a_state_is_added_at_a_uniform_place(edges, places):
    """The end of a sequence got more than its share: it was split there or lengthened, which is the same."""
    count = 5000
    task = jax.tree.map(lambda x: jnp.asarray(x)[0], stack([flat_task(edges)], TaskSize(1, 6, 2, 2)))
    apply = jax.jit(jax.vmap(TABLE[1].apply, (0, None)))
    after, arguments = jax.device_get(apply(jax.random.split(jax.random.key(5), count), task))
    found = []
    for target, (at, where, _) in zip(after.target[:, 0], arguments, strict=True):
        # The edge that leads to the new state; there is none where it is the first.
        found.append(tuple(np.argwhere(target == at)[0].tolist()) if where else "start")
    counts = np.array(list(Counter(found).values()))
    assert len(counts) == places
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


def test_sequences_stay_sequences():
    for row in range(3):
        found, after, _ = edited("sequential")[row]
        for i in np.flatnonzero(found):
            length = int((after.target[i] != UNUSED).sum())
            assert after.target[i, 0, :length, 0].tolist() == list(range(1, length + 1))


def test_a_tiny_alphabet_leaves_nothing_to_switch_to():
    edits = task_edits(VOCABULARY, np.arange(len(VOCABULARY.names)) == 3, sparse)
    assert not edits[0].applicable(jax.tree.map(jnp.asarray, at(tasks("sequential"), 0)))
