"""From plain tasks to the arrays of flat and hierarchical machines, and back."""

from typing import Any

import jax
import numpy as np

from atlas.tasks import machine
from atlas.tasks.hrm import Hierarchy
from atlas.tasks.rm import RewardMachine


def pack(task: Any) -> Any:
    """The arrays of a task; arrays stay as they are."""
    if not isinstance(task, machine.Task):
        return task
    tables = machine.tabulate(task)
    if task.is_flat:
        return RewardMachine(**{
            name: jax.device_put(table[0]) for name, table in tables._asdict().items() if table is not None
        })  # fmt: skip
    return Hierarchy(**{name: jax.device_put(table) for name, table in tables._asdict().items()})


def unpack(task: Any) -> machine.Task:
    """The plain form of a task; a plain task stays as it is."""
    if isinstance(task, machine.Task):
        return task
    if isinstance(task, RewardMachine):
        fields = (task.target, task.guard, task.reward, task.outcome)
        return machine.untabulate(machine.Tables(*(np.asarray(field)[None] for field in fields)))
    names = machine.Tables._fields
    return machine.untabulate(machine.Tables(*(np.asarray(getattr(task, name)) for name in names)))
