"""Many problems as one: padded to a common size and stacked, so that they can be played side by side."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

import jax.numpy as jnp
import numpy as np

from atlas.domains.minigrid import grid
from atlas.domains.minigrid.grid import Level
from atlas.errors import AtlasError
from atlas.tasks.hrm import MAX_NODES, Hierarchy
from atlas.tasks.rm import UNUSED, RewardMachine
from atlas.types import Problem

PADDING: Final = {"cells": grid.OUTSIDE_CELL, "target": UNUSED, "call": UNUSED, "chain": UNUSED}
"""What fills the room that an array does not need; 0 where nothing is said."""


def stack(problems: Sequence[Problem]) -> Problem:
    """A batch of problems. Levels and tasks take the largest size of any; flat tasks among hierarchies become such."""
    if not problems:
        raise AtlasError("there are no problems to stack")
    tasks = [problem.task for problem in problems]
    if any(isinstance(task, Hierarchy) for task in tasks):
        tasks = [_as_hierarchy(task) for task in tasks]
        _check_nodes(tasks)
    levels = _stack([problem.level for problem in problems], Level)
    return Problem.unchecked(level=levels, task=_stack(tasks, type(tasks[0])))


def _as_hierarchy(task: RewardMachine | Hierarchy) -> Hierarchy:
    """A flat machine as the only machine of a hierarchy: every way out of a state is one plain edge."""
    if isinstance(task, Hierarchy):
        return task
    machine = {field.name: np.asarray(getattr(task, field.name))[None] for field in fields(task)}
    is_edge = machine["target"] != UNUSED
    edges = np.arange(is_edge.shape[-1], dtype=np.int8)
    return Hierarchy.unchecked(
        **machine,
        call=np.full_like(machine["target"], UNUSED),
        root=np.int8(0),
        chain=np.where(is_edge, edges, np.int8(UNUSED))[..., None],
    )


def _check_nodes(tasks: Sequence[Hierarchy]) -> None:
    machines, states = (max(task.size[axis] for task in tasks) for axis in (0, 1))
    if machines * states > MAX_NODES:
        raise AtlasError(
            f"together these tasks need {machines} machines x {states} states: at most {MAX_NODES} are possible in one "
            "batch, so play them in several, or flatten them"
        )


def _stack(structs: Sequence[Any], kind: Any) -> Any:
    return kind.unchecked(**{
        field.name: jnp.asarray(
            _padded([np.asarray(getattr(s, field.name)) for s in structs], PADDING.get(field.name, 0))
        )
        for field in fields(kind)
    })  # fmt: skip


def _padded(arrays: Sequence[np.ndarray], filling: int) -> np.ndarray:
    """Arrays of any sizes in one, each in the first corner of its place."""
    shape = np.max([array.shape for array in arrays], axis=0, initial=0).astype(int)
    result = np.full((len(arrays), *shape), filling, arrays[0].dtype)
    for number, array in enumerate(arrays):
        place: tuple[int | slice, ...] = (number, *(slice(length) for length in array.shape))
        result[place] = array
    return result
