"""Look for mistakes in a task: guards that cannot hold or hold at once, dead ends, acceptance out of reach."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np

from atlas.errors import AtlasError
from atlas.tasks import hrm
from atlas.tasks.algebra import Machine, Theory
from atlas.tasks.flatten import flatten_with_stacks
from atlas.tasks.hrm import Hierarchy
from atlas.tasks.names import literal_names, machine_name, state_name
from atlas.tasks.rm import ACCEPTED, RUNNING, UNUSED, RewardMachine, Transition
from atlas.vocabulary import Vocabulary


@dataclass(frozen=True)
class Finding:
    """Something about a task that its author should know."""

    level: Literal["error", "warning"]
    sentence: str


def check(task: RewardMachine | Hierarchy, vocabulary: Vocabulary) -> list[Finding]:
    """All findings, errors first. A task without errors is deterministic and can be accepted."""
    if isinstance(task, Hierarchy):
        try:
            hrm.check_calls(np.asarray(task.call), int(task.root))
            flat, stacks = flatten_with_stacks(task)
        except AtlasError as error:
            return [Finding("error", str(error))]
        nodes = [stack.node for stack in stacks]
    else:
        flat, nodes = task, [(0, u) for u in range(task.size.states)]
    checks = _Checks(task, flat, nodes, vocabulary)
    found = dict.fromkeys([*checks.guards(), *checks.overlaps(), *checks.ways(), *checks.rushes()])
    return sorted(found, key=lambda finding: finding.level)


class _Checks:
    def __init__(self, task: Any, flat: RewardMachine, nodes: list[tuple[int, int]], vocabulary: Vocabulary) -> None:
        self.task, self.nodes = task, nodes
        self.machine, self.theory, self.names = Machine(flat), Theory(vocabulary), vocabulary.names

    def state(self, u: int) -> str:
        """How a state of the flat form is called."""
        outcome = self.machine.outcome[u]
        machine, state = self.nodes[u] if outcome == RUNNING and u < len(self.nodes) else (0, u)
        return self.place(machine, state, outcome)

    def place(self, machine: int, state: int, outcome: int) -> str:
        prefix = f"{machine_name(machine)}:" if isinstance(self.task, Hierarchy) and outcome == RUNNING else ""
        return prefix + state_name(state, outcome)

    def guard(self, literals: Any) -> str:
        return " & ".join(literal_names(literals, self.names)) or "true"

    def edges(self) -> Iterator[tuple[str, Transition]]:
        """Every edge of every machine, and how it is called."""
        if isinstance(self.task, Hierarchy):
            machines = hrm.arranged(self.task)
        else:
            machines = [(self.machine.leaving, self.machine.outcome)]
        for number, (leaving, outcome) in enumerate(machines):
            for edge in (edge for edges in leaving for edge in edges):
                target = state_name(edge.target, outcome[edge.target])
                yield f"{self.place(number, edge.source, RUNNING)} -> {target}", edge

    def guards(self) -> Iterator[Finding]:
        """Guards that never hold, and those that always do."""
        for name, edge in self.edges():
            if self.theory.smallest(edge.literals) is None:
                yield Finding("warning", f"the guard of {name} can never hold: {self.guard(edge.literals)}")
            if not edge.literals and edge.call == UNUSED:
                yield Finding("warning", f"the guard of {name} always holds: it has no literals")

    def overlaps(self) -> Iterator[Finding]:
        """Two edges out of one state that one label satisfies."""
        for u, leaving in enumerate(self.machine.leaving):
            for one, other in combinations(leaving, 2):
                differ = one.target != other.target or one.reward != other.reward
                label = self.theory.smallest([*one.literals, *other.literals])
                if differ and label is not None:
                    ways = (f"{self.guard(e.literals)} (to {self.state(e.target)})" for e in (one, other))
                    sentence = f"{self.state(u)} is not deterministic: {' and '.join(ways)} can hold at once"
                    yield Finding("error", sentence)

    def ways(self) -> Iterator[Finding]:
        """Acceptance out of reach, and states that cannot be reached or left for it."""
        reached = self.machine.reachable(self.theory)
        if self.machine.outcome[0] != RUNNING:
            yield Finding("warning", f"the task is over before it starts: its initial state is {self.state(0)}")
        if not any(self.machine.outcome[u] == ACCEPTED for u in reached):
            yield Finding("error", "no labels lead to acceptance")
            return
        hopeful = self.hopeful(reached)
        for u in reached:
            if self.machine.outcome[u] == RUNNING and u not in hopeful:
                yield Finding("warning", f"from {self.state(u)} acceptance can no longer be reached")
        used = {0} | {e.source for edges in self.machine.leaving for e in edges}
        for u in sorted(used - set(reached)):
            yield Finding("warning", f"no labels lead to {self.state(u)}")

    def hopeful(self, reached: list[int]) -> set[int]:
        """The states from which some labels lead to acceptance."""
        found = {u for u in reached if self.machine.outcome[u] == ACCEPTED}
        while True:
            more = {u for u in reached if any(move.target in found for move in self.possible(u))}
            if more <= found:
                return found
            found |= more

    def possible(self, u: int) -> Iterator[Any]:
        return (m for m in self.machine.moves(u) if self.theory.find(m.literals, m.refuted) is not None)

    def rushes(self) -> Iterator[Finding]:
        """Steps that the label which led to them always makes as well."""
        for leaving in self.machine.leaving:
            for edge in leaving:
                for after in self.machine.leaving[edge.target]:
                    possible = self.theory.smallest(edge.literals) is not None
                    if possible and edge.target != edge.source and self.theory.entails(edge.literals, after.literals):
                        yield Finding(
                            "warning",
                            f"{self.guard(after.literals)} (from {self.state(after.source)} to "
                            f"{self.state(after.target)}) holds whenever {self.guard(edge.literals)} led there",
                        )
