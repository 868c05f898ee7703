"""A task as plain Python: what people read, draw and write to files is made from this."""

from typing import Any, NamedTuple

import numpy as np

from atlas.tasks.hrm import Hierarchy, old
from atlas.tasks.names import state_name
from atlas.tasks.rm import ACCEPTED, RUNNING, UNUSED, RewardMachine, Transition


class Machine(NamedTuple):
    """One machine: its edges by source, and the outcome of each state that is used."""

    edges: tuple[Transition, ...]
    outcome: dict[int, int]

    def leaving(self, u: int) -> list[Transition]:
        """The edges out of a state, in their order."""
        return [edge for edge in self.edges if edge.source == u]

    def reachable(self) -> list[int]:
        """The states that a path of edges leads to, guards ignored, in the order of a walk in breadth."""
        found = [0]
        for u in found:
            found += dict.fromkeys(e.target for e in self.leaving(u) if e.target not in found)
        return found

    @property
    def can_accept(self) -> bool:
        """Whether a path of edges leads to acceptance."""
        return any(self.outcome[u] == ACCEPTED for u in self.reachable())

    def name(self, u: int) -> str:
        """`u0`, `uA`, `uR`."""
        return state_name(u, self.outcome[u])

    @property
    def running(self) -> list[int]:
        """The states that are not terminal."""
        return [u for u, outcome in self.outcome.items() if outcome == RUNNING]


class TaskView(NamedTuple):
    """All machines of a task; a flat one has one."""

    machines: tuple[Machine, ...]
    root: int

    @property
    def is_flat(self) -> bool:
        """Whether there is one machine only."""
        return len(self.machines) == 1


def view(task: Any) -> TaskView:
    """The plain form of a RewardMachine or a Hierarchy (one, not a batch)."""
    task = old(task)
    if isinstance(task, RewardMachine):
        call = np.full(task.target.shape, UNUSED)
        return TaskView((_machine(task.target, task.guard, task.reward, task.outcome, call),), 0)
    assert isinstance(task, Hierarchy)
    arrays = [np.asarray(x) for x in (task.target, task.guard, task.reward, task.outcome, task.call)]
    return TaskView(tuple(_machine(*(x[m] for x in arrays)) for m in range(len(arrays[0]))), int(task.root))


def _machine(target: Any, guard: Any, reward: Any, outcome: Any, call: Any) -> Machine:
    target, guard, reward, outcome = (np.asarray(x) for x in (target, guard, reward, outcome))
    edges = tuple(
        Transition(
            source=int(u),
            target=int(target[u, e]),
            literals=tuple(int(x) for x in guard[u, e] if x),
            reward=float(reward[u, e]),
            call=int(call[u, e]),
        )
        for u, e in zip(*np.nonzero(target != UNUSED), strict=True)
    )
    used = {0} | {u for edge in edges for u in (edge.source, edge.target)}
    return Machine(edges, {u: int(outcome[u]) for u in sorted(used)})
