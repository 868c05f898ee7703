"""A flat task as plain Python values, for searches that follow it millions of times."""

from typing import Any, NamedTuple

import numpy as np

from atlas.tasks.flatten import flatten
from atlas.tasks.hrm import Hierarchy
from atlas.tasks.rm import UNUSED, RewardMachine
from atlas.vocabulary import RUNNING


class Edge(NamedTuple):
    """A way from one task state to another. Its guard is split by sign; propositions by id."""

    target: int
    positive: tuple[int, ...]
    negative: tuple[int, ...]


class Machine(NamedTuple):
    """The edges that leave each state, in the order in which they are tried, and the outcome of each state."""

    edges: tuple[tuple[Edge, ...], ...]
    outcome: tuple[int, ...]

    def is_running(self, u: int) -> bool:
        """Whether the task goes on in a state."""
        return self.outcome[u] == RUNNING


def flat(task: Any) -> RewardMachine:
    """The task itself, or the equal flat machine of a hierarchy."""
    return flatten(task) if isinstance(task, Hierarchy) else task


def read_machine(task: RewardMachine) -> Machine:
    """A flat machine as plain values."""
    target, guard, outcome = (np.asarray(x).tolist() for x in (task.target, task.guard, task.outcome))
    edges = tuple(
        tuple(_edge(v, literals) for v, literals in zip(targets, guards, strict=True) if v != UNUSED)
        for targets, guards in zip(target, guard, strict=True)
    )
    return Machine(edges, tuple(outcome))


def _edge(target: int, literals: list[int]) -> Edge:
    positive = tuple(dict.fromkeys(x - 1 for x in literals if x > 0))
    return Edge(target, positive, tuple(dict.fromkeys(-x - 1 for x in literals if x < 0)))
