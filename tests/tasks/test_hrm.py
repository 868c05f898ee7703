"""Hierarchies: followed as their plain twin is, equal to their flat form, refused when calls make no sense."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas.errors import AtlasError
from atlas.tasks import hrm, rm
from atlas.tasks.rm import ACCEPT, REJECT
from twins.random_tasks import NESTED, as_masks, follower, random_hierarchy, random_trace, twin

SMALL = hrm.HierarchySize(machines=3, states=4, edges=3, literals=2, chains=3, links=3)
run = follower(hrm.Hierarchies(sample=lambda *_: None))


def stack_of(other):
    """The twin's stack as nodes, innermost first."""
    nodes = [(other.machine, other.state), *((m, s) for m, s, _ in reversed(other.stack))]
    return [m * NESTED.states + s for m, s in nodes]


@given(st.integers(0, 10**9))
@settings(max_examples=150)
def test_followed_like_the_twin(seed):
    task, trace = random_hierarchy(seed), random_trace(seed, 64, 0.6)
    states, rewards, outcomes = jax.tree.map(np.asarray, run(task, as_masks(trace)))
    nodes, other = states.nodes, twin(task)
    for t, label in enumerate(trace):
        assert rewards[t] == other.step(label)
        assert [n for n in nodes[t] if n >= 0] == stack_of(other)
        assert outcomes[t] == other.outcome


def test_the_random_hierarchies_are_deep_enough():
    depths = set()
    for seed in range(60):
        other = twin(random_hierarchy(seed))
        for label in random_trace(seed, 64, 0.6):
            other.step(label)
            depths.add(len(other.stack))
    assert {0, 1, 2, 3} <= depths


def example():
    """Calls within calls: m0 fetches twice through m1, whose last step is m2."""
    return hrm.hierarchy(
        [
            [(0, 1, [1]), (1, 2, [2], 0.25, 1), (2, ACCEPT, [3], 1.0, 1)],
            [(0, 1, [4]), (1, ACCEPT, [5], 0.5, 2)],
            [(0, 1, [2]), (1, ACCEPT, [1]), (1, REJECT, [-1, -2])],
        ]
    )


def walk(task, labels):
    """Nodes, reward and outcome after each label."""
    states, rewards, outcomes = run(task, as_masks([{p - 1 for p in label} for label in labels]))
    nodes = [[int(n) for n in row if n >= 0] for row in np.asarray(states.nodes)]
    return list(zip(nodes, rewards.tolist(), outcomes.tolist(), strict=True))


def test_a_call_needs_a_satisfied_first_edge_in_the_callee():
    node = lambda machine, state: machine * 4 + state  # noqa: E731
    task = hrm.resize(example(), SMALL)
    steps = walk(task, [{1}, {2}, {2, 4}, {5}, {5, 2}, {1}])
    assert steps[1] == ([node(0, 1)], 0.0, 0), "the guard of the call holds, but m1 cannot move: nothing is pushed"
    assert steps[2] == ([node(1, 1), node(0, 2)], 0.0, 0)
    assert steps[3] == ([node(1, 1), node(0, 2)], 0.0, 0)
    assert steps[4] == ([node(2, 1), node(1, 2), node(0, 2)], 0.0, 0)
    assert steps[5] == ([node(0, 2)], 0.75, 0), "m2 and m1 return on one label, and both calls are paid"


def test_rejection_at_any_depth_rejects():
    steps = walk(hrm.resize(example(), SMALL), [{1}, {2, 4}, {5, 2}, set(), {1}])
    assert [outcome for _, _, outcome in steps] == [0, 0, 0, 2, 2]
    assert steps[3][0] == steps[4][0]


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
        hrm.hierarchy([[(0, ACCEPT, [1], 1.0, call)] for call in calls])


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(AtlasError, match="3 machines of 2, 4 states of 3"):
        hrm.resize(example(), hrm.HierarchySize(2, 3, 3, 2, 3, 3))
    with pytest.raises(AtlasError, match="2 machines x 65 states are too many"):
        hrm.hierarchy([[(0, ACCEPT, [1], 1.0, 1)], [(u, u + 1, [1]) for u in range(64)]])


def test_padding_changes_nothing_but_the_numbers_of_nodes():
    task = example()
    labels = [{1}, {2, 4}, {5, 2}, {1}, {3, 4}, {5, 2}, {1}]
    padded = hrm.resize(task, NESTED)
    task = hrm.resize(task, SMALL)
    assert [(r, o) for _, r, o in walk(task, labels)] == [(r, o) for _, r, o in walk(padded, labels)]
    assert hrm.natural_size(padded) == hrm.natural_size(task)


def test_the_graph_lets_a_caller_see_its_callee():
    task = example()
    graph = hrm.graph(task)
    states, edges = task.size.states, task.size.edges
    caller = 1
    assert graph.target[caller, 0] == 2, "the call edge leads to its target"
    assert graph.target[caller, edges] == states, "and into the callee's initial state"
    assert graph.guard[caller, edges].tolist() == graph.guard[caller, 0].tolist()
    assert (graph.target[0, edges:] == rm.UNUSED).all(), "a plain edge enters nothing"


def test_chains_are_listed_alike_with_and_without_tracing():
    traced = jax.jit(hrm.chains, static_argnums=(2, 3))
    for seed in range(40):
        task = random_hierarchy(seed)
        assert (traced(task.target, task.call, NESTED.chains, NESTED.links) == task.chain).all()


def test_following_can_be_batched():
    tasks = [random_hierarchy(seed) for seed in range(3)]
    labels = jnp.stack([as_masks(random_trace(seed, 16)) for seed in range(3)])
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *tasks)
    together = jax.vmap(run)(batch, labels)[1]
    for i, task in enumerate(tasks):
        assert (together[i] == run(task, labels[i])[1]).all()
