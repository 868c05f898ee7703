"""Tasks as arrays: there and back, one by one and in batches."""

import pytest

from atlas.errors import AtlasError
from atlas.tasks.machine import ACCEPT, REJECT, TaskSize, flat_task, hierarchy, machine
from atlas.tasks.packed import pack, stack, unpack, unstack

FLAT = [
    flat_task([(0, ACCEPT, (1,), 1.0)]),
    flat_task([(0, 1, (1, -2)), (0, REJECT, (3,)), (1, ACCEPT, (4, 5, 6), 1.0)]),
]
DEEP = [
    hierarchy([machine([(0, ACCEPT, (), 1.0, 1)]), machine([(0, 1, (7,)), (1, ACCEPT, (8,))])]),
    hierarchy(
        [
            machine([(0, 1, (2,), 0.0, 2), (1, ACCEPT, (3,), 1.0)]),
            machine([(0, ACCEPT, (9,))]),
            machine([(0, ACCEPT, (), 0.0, 1)]),
        ]
    ),
]


@pytest.mark.parametrize("task", [*FLAT, *DEEP])
def test_packing_there_and_back_changes_nothing(task):
    assert unpack(pack(task)) == task
    assert unpack(pack(task, TaskSize(4, 6, 3, 4, 9, 4))) == task


def test_a_flat_task_has_no_arrays_for_calls():
    assert pack(FLAT[1]).size == (1, 4, 2, 3, 0, 0)
    assert pack(FLAT[1]).call is None


@pytest.mark.parametrize("tasks", [FLAT, DEEP, [*FLAT, *DEEP]])
def test_batches_hold_the_same_tasks(tasks):
    batch = stack(tasks)
    assert unstack(batch) == tasks
    assert unstack(stack([pack(task) for task in tasks])) == tasks
    assert batch.call is None if tasks is FLAT else batch.call.shape[:2] == (len(tasks), 3)


def test_what_cannot_be_stacked_is_told():
    long = flat_task([*((i, i + 1, (1,)) for i in range(60)), (60, ACCEPT, (2,))])
    with pytest.raises(AtlasError, match="3 machines x 62 states"):
        stack([long, DEEP[1]])
