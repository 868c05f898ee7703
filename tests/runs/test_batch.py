"""Stacked problems are the same problems with more room."""

import jax
import numpy as np
import pytest

from atlas.domains.minigrid import text
from atlas.errors import AtlasError
from atlas.runs.problem_files import stack
from atlas.tasks import hrm, rm
from atlas.tasks.hrm import HierarchySize
from atlas.types import Problem

LEVELS = [text.parse_level(drawing) for drawing in ("##^.", "^.\n##\nor", "v.", ">.kb")]
FLAT = [
    rm.machine([(0, rm.ACCEPT, [1], 1.0)]),
    rm.machine([(0, 1, [1, -2]), (0, rm.REJECT, [3]), (1, rm.ACCEPT, [4, 5, 6], 1.0)]),
]
DEEP = [
    hrm.hierarchy([[(0, rm.ACCEPT, [], 1.0, 1)], [(0, 1, [7]), (1, rm.ACCEPT, [8])]]),
    hrm.hierarchy(
        [[(0, 1, [2], 0.0, 2), (1, rm.ACCEPT, [3], 1.0)], [(0, rm.ACCEPT, [9])], [(0, rm.ACCEPT, [], 0.0, 1)]]
    ),
]


def problems(tasks: list) -> list[Problem]:
    return [Problem(level=level, task=task) for level, task in zip(LEVELS, tasks, strict=False)]


def assert_same(a: object, b: object) -> None:
    jax.tree.map(np.testing.assert_array_equal, a, b)


def at(batch: Problem, i: int) -> Problem:
    return jax.tree.map(lambda x: x[i], batch)


def test_flat_tasks_are_padded_as_resize_does() -> None:
    batch = stack(problems(FLAT))
    assert batch.level.cells.shape == (2, 3, 2)
    assert batch.task.size == (4, 2, 3)
    for i, task in enumerate(FLAT):
        assert_same(at(batch, i).task, rm.resize(task, batch.task.size))
        assert_same(at(batch, i).level, text.pad_level(LEVELS[i], 3, 2))


def test_hierarchies_are_padded_as_resize_does() -> None:
    batch = stack(problems(DEEP))
    for i, task in enumerate(DEEP):
        assert_same(at(batch, i).task, hrm.resize(task, HierarchySize(*batch.task.size)))


def test_flat_tasks_among_hierarchies_become_hierarchies() -> None:
    batch = stack(problems([*FLAT, *DEEP]))
    edges = rm.transitions(FLAT[1])
    lifted = hrm.hierarchy([edges], 0, accepting=[2], rejecting=[3])
    assert_same(at(batch, 1).task, hrm.resize(lifted, HierarchySize(*batch.task.size)))


def test_what_cannot_be_stacked_is_told() -> None:
    with pytest.raises(AtlasError, match="no problems"):
        stack([])
    long = rm.machine([(i, i + 1, [1]) for i in range(60)] + [(60, rm.ACCEPT, [2])])
    with pytest.raises(AtlasError, match="3 machines x 62 states"):
        stack(problems([long, DEEP[1]]))
