"""Tasks as arrays: there and back, in batches, and followed as their plain twin is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas.errors import AtlasError
from atlas.tasks.machine import ACCEPT, REJECT, UNUSED, TaskSize, flat_task, hierarchy, machine
from atlas.tasks.packed import RewardMachines, chains, count_states, pack, stack, unpack, unstack
from twins.random_tasks import FLAT, NESTED, as_masks, follower, random_flat, random_hierarchy, random_trace, twin

SMALL = TaskSize(machines=3, states=4, edges=3, literals=2, chains=3, links=3)
BRANCH = flat_task([(0, 1, (1, -2)), (0, REJECT, (3,)), (1, ACCEPT, (4, 5, 6), 1.0)])
TINY = flat_task([(0, ACCEPT, (1,), 1.0)])
CALLS = hierarchy([machine([(0, ACCEPT, (), 1.0, 1)]), machine([(0, 1, (7,)), (1, ACCEPT, (8,))])])
DEEP = hierarchy(  # m0 fetches twice through m1, whose last step is m2
    [
        machine([(0, 1, [1]), (1, 2, [2], 0.25, 1), (2, ACCEPT, [3], 1.0, 1)]),
        machine([(0, 1, [4]), (1, ACCEPT, [5], 0.5, 2)]),
        machine([(0, 1, [2]), (1, ACCEPT, [1]), (1, REJECT, [-1, -2])]),
    ]
)
EVERY = [TINY, BRANCH, CALLS, DEEP]
run = follower(RewardMachines())


def nodes_of(state) -> list[list[int]]:
    """The open nodes after each label."""
    rows = np.asarray(jax.vmap(RewardMachines().nodes)(state))
    return [[int(n) for n in row if n != UNUSED] for row in rows]


# There and back


@pytest.mark.parametrize("task", EVERY)
def test_packing_there_and_back_changes_nothing(task):
    assert unpack(pack(task)) == task
    wide = pack(task, TaskSize(4, 6, 3, 4, 9, 4))
    assert unpack(wide) == task
    assert pack(wide).size == pack(task).size


@given(st.integers(0, 10**9))
@settings(max_examples=30)
def test_random_tasks_are_read_back(seed):
    assert unpack(pack(random_flat(seed), FLAT)) == random_flat(seed)
    assert unpack(pack(random_hierarchy(seed), NESTED)) == random_hierarchy(seed)


def test_a_flat_task_has_no_arrays_for_calls():
    task = pack(BRANCH)
    assert task.size == (1, 4, 2, 3, 0, 0)
    assert len(jax.tree.leaves(task)) == 4
    assert RewardMachines().initial(task).shape == ()


def test_gaps_are_closed_and_what_does_not_fit_is_refused():
    task = pack(flat_task([(0, ACCEPT, [1]), (0, REJECT, [2, 3])]))
    with pytest.raises(AtlasError, match="2 edges of 1"):
        pack(task, TaskSize(1, 3, 1, 2))
    trimmed = pack(task.replace(target=task.target.at[0, 0, 0].set(UNUSED)), TaskSize(1, 3, 1, 2))
    assert trimmed.target[0].tolist() == [[2], [-1], [-1]]
    assert trimmed.guard[0, 0, 0].tolist() == [2, 3]


@pytest.mark.parametrize("tasks", [EVERY[:2], EVERY[2:], EVERY])
def test_batches_hold_the_same_tasks(tasks):
    batch = stack(tasks)
    assert unstack(batch) == tasks
    assert unstack(stack([pack(task) for task in tasks])) == tasks
    assert batch.call is None if len(tasks) == 2 and tasks[0] is TINY else batch.call.shape[:2] == (len(tasks), 3)
    for i, task in enumerate(tasks):
        one = jax.tree.map(lambda x, i=i: x[i], batch)
        jax.tree.map(np.testing.assert_array_equal, one, pack(task, batch.size))


def test_what_cannot_be_stacked_is_told():
    long = flat_task([*((i, i + 1, (1,)) for i in range(60)), (60, ACCEPT, (2,))])
    with pytest.raises(AtlasError, match="3 machines x 62 states"):
        stack([long, DEEP])


def test_states_are_counted_without_padding():
    assert jax.vmap(count_states)(stack(EVERY)).tolist() == [2, 4, 5, 11]
    assert jax.vmap(count_states)(stack([TINY, BRANCH], TaskSize(1, 6, 3, 3))).tolist() == [2, 4]


def test_chains_are_listed_alike_with_and_without_tracing():
    traced = jax.jit(chains, static_argnums=(2, 3))
    for seed in range(40):
        task = pack(random_hierarchy(seed), NESTED)
        assert (traced(task.target, task.call, NESTED.chains, NESTED.links) == task.chain).all()


# Followed


@pytest.mark.parametrize(("sample", "size"), [(random_flat, FLAT), (random_hierarchy, NESTED)])
@given(seed=st.integers(0, 10**9))
@settings(max_examples=120)
def test_followed_like_the_twin(sample, size, seed):
    task, trace = sample(seed), random_trace(seed, 64, 0.6)
    states, rewards, outcomes = run(pack(task, size), as_masks(trace))
    nodes, rewards, outcomes, other = nodes_of(states), np.asarray(rewards), np.asarray(outcomes), twin(task)
    for t, label in enumerate(trace):
        assert rewards[t] == other.step(label)
        stack_of = [(other.machine, other.state), *((m, s) for m, s, _ in reversed(other.stack))]
        assert nodes[t] == [m * size.states + s for m, s in stack_of]
        assert outcomes[t] == other.outcome


def test_the_random_hierarchies_are_deep_enough():
    depths = set()
    for seed in range(60):
        other = twin(random_hierarchy(seed))
        for label in random_trace(seed, 64, 0.6):
            other.step(label)
            depths.add(len(other.stack))
    assert {0, 1, 2, 3} <= depths


def walk(task, labels):
    """Nodes, reward and outcome after each label."""
    states, rewards, outcomes = run(task, as_masks([{p - 1 for p in label} for label in labels], 8))
    return list(zip(nodes_of(states), rewards.tolist(), outcomes.tolist(), strict=True))


def test_a_call_needs_a_satisfied_first_edge_in_the_callee():
    node = lambda machine, state: machine * 4 + state  # noqa: E731
    steps = walk(pack(DEEP, SMALL), [{1}, {2}, {2, 4}, {5}, {5, 2}, {1}])
    assert steps[1] == ([node(0, 1)], 0.0, 0), "the guard of the call holds, but m1 cannot move: nothing is pushed"
    assert steps[2] == ([node(1, 1), node(0, 2)], 0.0, 0)
    assert steps[3] == ([node(1, 1), node(0, 2)], 0.0, 0)
    assert steps[4] == ([node(2, 1), node(1, 2), node(0, 2)], 0.0, 0)
    assert steps[5] == ([node(0, 2)], 0.75, 0), "m2 and m1 return on one label, and both calls are paid"


def test_rejection_at_any_depth_rejects():
    steps = walk(pack(DEEP, SMALL), [{1}, {2, 4}, {5, 2}, set(), {1}])
    assert [outcome for _, _, outcome in steps] == [0, 0, 0, 2, 2]
    assert steps[3][0] == steps[4][0]


def test_padding_changes_nothing_but_the_numbers_of_nodes():
    labels = [{1}, {2, 4}, {5, 2}, {1}, {3, 4}, {5, 2}, {1}]
    small, large = (walk(pack(DEEP, size), labels) for size in (SMALL, NESTED))
    assert [step[1:] for step in small] == [step[1:] for step in large]


def test_the_graph_lets_a_caller_see_its_callee():
    task = pack(DEEP)
    graph = RewardMachines().graph(task)
    states, edges = task.size.states, task.size.edges
    caller = 1
    assert graph.target[caller, 0] == 2, "the call edge leads to its target"
    assert graph.target[caller, edges] == states, "and into the callee's initial state"
    assert graph.guard[caller, edges].tolist() == graph.guard[caller, 0].tolist()
    assert (graph.target[0, edges:] == UNUSED).all(), "a plain edge enters nothing"


def test_following_can_be_batched():
    tasks = [pack(random_hierarchy(seed), NESTED) for seed in range(3)]
    labels = jnp.stack([as_masks(random_trace(seed, 64)) for seed in range(3)])
    together = jax.vmap(run)(stack(tasks, NESTED), labels)[1]
    for i, task in enumerate(tasks):
        assert (together[i] == run(task, labels[i])[1]).all()
