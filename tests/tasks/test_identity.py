"""Names, order and padding do not matter; anything else does."""

import random

import jax
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas.tasks import hrm, rm
from atlas.tasks.check import equivalent
from atlas.tasks.identity import canonical, content_hash, fingerprint
from atlas.tasks.rm import ACCEPT, REJECT, TaskSize, machine

FLAT = TaskSize(states=6, edges=3, literals=2)
ROOM = TaskSize(states=8, edges=6, literals=4)
mark = jax.jit(fingerprint)


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


def same(one, other):
    """Whether two tasks have equal arrays."""
    return all(a.shape == b.shape and (a == b).all() for a, b in zip(*map(jax.tree.leaves, (one, other)), strict=True))


@given(st.integers(0, 10**9))
@settings(max_examples=60)
def test_renaming_and_padding_change_nothing(seed):
    edges = deterministic(seed)
    one = rm.resize(machine(edges), ROOM)
    other = rm.resize(machine(renamed(edges, seed)), ROOM)
    assert content_hash(one) == content_hash(other) == content_hash(machine(edges))
    assert same(canonical(one), canonical(other))
    assert (mark(one) == mark(other)).all()
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
    tasks = [rm.resize(machine(edges), FLAT) for edges in [base, *changed]]
    assert len({content_hash(task) for task in tasks}) == len(tasks)
    assert len({tuple(np.asarray(mark(task)).tolist()) for task in tasks}) == len(tasks)


def test_unreachable_states_do_not_count():
    base = [(0, ACCEPT, [1])]
    assert content_hash(machine(base)) == content_hash(machine([*base, (1, ACCEPT, [2])]))


def test_random_machines_rarely_share_a_fingerprint():
    edges = [deterministic(seed) for seed in range(300)]
    tasks = [rm.resize(machine(e), ROOM) for e in edges]
    batch = jax.tree.map(lambda *leaves: np.stack(leaves), *tasks)
    marks = np.asarray(jax.jit(jax.vmap(fingerprint))(batch))
    assert len({tuple(row) for row in marks.tolist()}) == len({content_hash(task) for task in tasks})


def test_machines_of_a_hierarchy_may_change_places():
    first, second = [(0, ACCEPT, [1])], [(0, ACCEPT, [2])]
    one = hrm.hierarchy([[(0, 1, [3], 0.0, 1), (1, ACCEPT, [4], 1.0, 2)], first, second])
    other = hrm.hierarchy([[(0, 1, [3], 0.0, 2), (1, ACCEPT, [4], 1.0, 1)], second, first])
    apart = hrm.hierarchy([[(0, 1, [3], 0.0, 2), (1, ACCEPT, [4], 1.0, 1)], first, second])
    assert content_hash(one) == content_hash(other) != content_hash(apart)
    assert same(canonical(one), canonical(other))
    assert (mark(one) == mark(other)).all()
    assert (mark(one) != mark(apart)).any()
