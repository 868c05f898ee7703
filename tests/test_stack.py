"""Stacked problems are the same problems with more room."""

import jax
import numpy as np
import pytest

from atlas.domains.minigrid import text
from atlas.errors import AtlasError
from atlas.problems import stack
from atlas.tasks.machine import ACCEPT, flat_task, hierarchy, machine
from atlas.tasks.packed import pack, unstack
from atlas.types import Problem

LEVELS = [text.parse_level(drawing) for drawing in ("##^.", "^.\n##\nor")]
TASKS = [
    flat_task([(0, ACCEPT, (1,), 1.0)]),
    hierarchy([machine([(0, ACCEPT, (), 1.0, 1)]), machine([(0, 1, (7,)), (1, ACCEPT, (8,))])]),
]


@pytest.mark.parametrize("packed", [False, True])
def test_problems_are_padded_to_the_largest(packed: bool) -> None:
    tasks = [pack(task) for task in TASKS] if packed else TASKS
    batch = stack([Problem(level=level, task=task) for level, task in zip(LEVELS, tasks, strict=True)])
    assert batch.level.cells.shape == (2, 3, 2)
    assert batch.task.size == (2, 3, 1, 1, 1, 2)
    assert unstack(batch.task) == TASKS
    for i, level in enumerate(LEVELS):
        one = jax.tree.map(lambda x, i=i: x[i], batch.level)
        jax.tree.map(np.testing.assert_array_equal, one, text.pad_level(level, 3, 2))


def test_nothing_cannot_be_stacked() -> None:
    with pytest.raises(AtlasError, match="no problems"):
        stack([])
