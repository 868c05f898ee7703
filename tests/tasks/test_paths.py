"""Counting paths against listing them."""

import jax
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas.tasks.machine import ACCEPT, flat_task, flatten, hierarchy, machine
from atlas.tasks.packed import pack
from atlas.tasks.rewards import FAR, count_paths, distances
from twins.paths import simple_paths
from twins.random_tasks import FLAT, random_flat

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
