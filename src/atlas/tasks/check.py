"""Look for mistakes in a task: guards that cannot hold or hold at once, dead ends, acceptance out of reach."""

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, NamedTuple

import numpy as np

from atlas.errors import AtlasError
from atlas.tasks import hrm, rm
from atlas.tasks.flatten import flatten, flatten_with_stacks
from atlas.tasks.hrm import Hierarchy
from atlas.tasks.names import literal_names, machine_name, state_name
from atlas.tasks.rm import ACCEPTED, REJECTED, RUNNING, UNUSED, RewardMachine, Transition
from atlas.vocabulary import Vocabulary

# What can hold at once, given what the propositions imply and exclude; and from that: which machines are equal, what
# can be reached, what is the smallest equal machine. Plain Python: exact, for one task at a time.
#
# Labels are sets of propositions that contain all they imply and no two that exclude each other. Since both facts are
# about pairs, the smallest label with some propositions is unique, and a conjunction is checked by building it.

Guard = Sequence[int]
"""Signed literals, all of which must hold."""
Label = frozenset[int]
"""Ids of the propositions that hold."""


class Theory:
    """What propositions imply and exclude. Without a vocabulary every set of propositions is a label."""

    def __init__(self, vocabulary: Vocabulary | None = None) -> None:
        self._vocabulary = vocabulary
        self.implied = functools.cache(self._implied)
        self.excluded = functools.cache(self._excluded)

    def _implied(self, prop: int) -> Label:
        if self._vocabulary is None:
            return frozenset({prop})
        return frozenset(np.nonzero(self._vocabulary.implies[prop])[0].tolist())

    def _excluded(self, prop: int) -> Label:
        if self._vocabulary is None:
            return frozenset()
        return frozenset(np.nonzero(self._vocabulary.excludes[prop])[0].tolist())

    def smallest(self, literals: Iterable[int]) -> Label | None:
        """The smallest label on which all literals hold; None if there is none."""
        literals = list(literals)
        label = frozenset[int]().union(*(self.implied(literal - 1) for literal in literals if literal > 0))
        if any(-literal - 1 in label for literal in literals if literal < 0):
            return None
        return None if any(self.excluded(prop) & label for prop in label) else label

    def find(self, literals: Sequence[int], refuted: Sequence[Guard] = ()) -> Label | None:
        """A label on which the literals hold and none of the refuted guards does; None if there is none."""
        label = self.smallest(literals)
        if label is None:
            return None
        guard = next((guard for guard in refuted if holds(guard, label)), None)
        if guard is None:
            return label
        options = (self.find([*literals, -literal], refuted) for literal in guard)
        return next((found for found in options if found is not None), None)

    def entails(self, literals: Sequence[int], guard: Guard) -> bool:
        """Whether a guard holds wherever the literals do."""
        return self.find(literals, [guard]) is None


def holds(guard: Guard, label: Label) -> bool:
    """Whether a conjunction of signed literals holds on a label."""
    return all((abs(literal) - 1 in label) == (literal > 0) for literal in guard)


class Move(NamedTuple):
    """One thing that can happen in a state: on which labels, where it leads, what it pays."""

    literals: Guard
    refuted: tuple[Guard, ...]
    """Guards of earlier edges, which did not hold."""
    target: int
    reward: float


class Machine:
    """A flat machine as plain Python. Hierarchies are flattened."""

    def __init__(self, task: Any) -> None:
        task = hrm.old(task)
        flat = flatten(task) if isinstance(task, Hierarchy) else task
        self.outcome = [int(o) for o in np.asarray(flat.outcome)]
        self.leaving: list[list[Transition]] = [[] for _ in self.outcome]
        for edge in rm.transitions(flat):
            self.leaving[edge.source].append(edge)

    def moves(self, state: int) -> Iterator[Move]:
        """Each edge where no earlier one holds, then staying where none does."""
        if self.outcome[state] == RUNNING:
            guards = tuple(edge.literals for edge in self.leaving[state])
            for place, edge in enumerate(self.leaving[state]):
                yield Move(edge.literals, guards[:place], edge.target, edge.reward)
            yield Move((), guards, state, 0.0)
        else:
            yield Move((), (), state, 0.0)

    def reachable(self, theory: Theory) -> list[int]:
        """The states that some labels lead to, in the order of a search in breadth."""
        found = [0]
        for state in found:
            for move in self.moves(state):
                if move.target not in found and theory.find(move.literals, move.refuted) is not None:
                    found.append(move.target)
        return found


def difference(
    one: Any,
    other: Any,
    vocabulary: Vocabulary | None = None,
    rewards: bool = True,
) -> list[Label] | None:
    """A shortest sequence of labels that tells two tasks apart by outcome (and reward); None if they are equal."""
    left, right, theory = Machine(one), Machine(other), Theory(vocabulary)
    if left.outcome[0] != right.outcome[0]:
        return []
    before: dict[tuple[int, int], tuple[tuple[int, int], Label] | None] = {(0, 0): None}
    for pair in (todo := [(0, 0)]):
        for label, here, there in _joint_moves(left, pair[0], right, pair[1], theory):
            after = (here.target, there.target)
            pays_alike = here.reward == there.reward or not rewards
            if left.outcome[after[0]] != right.outcome[after[1]] or not pays_alike:
                return [*_labels_to(pair, before), label]
            if after not in before:
                before[after] = (pair, label)
                todo.append(after)
    return None


def _joint_moves(left: Machine, u: int, right: Machine, v: int, theory: Theory) -> Iterator[tuple[Label, Move, Move]]:
    """What can happen in two states on one label, with such a label."""
    there_moves = list(right.moves(v))
    for here in left.moves(u):
        for there in there_moves:
            label = theory.find([*here.literals, *there.literals], [*here.refuted, *there.refuted])
            if label is not None:
                yield label, here, there


def _labels_to(
    pair: tuple[int, int], before: dict[tuple[int, int], tuple[tuple[int, int], Label] | None]
) -> list[Label]:
    labels: list[Label] = []
    while (step := before[pair]) is not None:
        pair, label = step
        labels.insert(0, label)
    return labels


def equivalent(
    one: Any,
    other: Any,
    vocabulary: Vocabulary | None = None,
    rewards: bool = True,
) -> bool:
    """Whether two tasks end alike (and pay alike) on every sequence of labels."""
    return difference(one, other, vocabulary, rewards) is None


def minimise(task: Any, vocabulary: Vocabulary | None = None) -> RewardMachine:
    """The equal flat machine with the fewest states, without edges that can never be taken or change nothing."""
    machine, theory = Machine(task), Theory(vocabulary)
    states = machine.reachable(theory)
    group = dict.fromkeys(states, 0) | {u: machine.outcome[u] for u in states}
    while True:
        finer = _refine(machine, states, group, theory)
        if len(set(finer.values())) == len(set(group.values())):
            return _quotient(machine, states, finer, theory)
        group = finer


def _refine(machine: Machine, states: list[int], group: dict[int, int], theory: Theory) -> dict[int, int]:
    """Split groups of states until all in one move to the same groups, by one step."""
    leaders: list[int] = []
    finer: dict[int, int] = {}
    for u in states:
        alike = (i for i, v in enumerate(leaders) if group[u] == group[v] and _alike(machine, u, v, group, theory))
        finer[u] = next(alike, len(leaders))
        if finer[u] == len(leaders):
            leaders.append(u)
    return finer


def _alike(machine: Machine, u: int, v: int, group: dict[int, int], theory: Theory) -> bool:
    return all(
        group[here.target] == group[there.target] and here.reward == there.reward
        for _, here, there in _joint_moves(machine, u, machine, v, theory)
    )


def _quotient(machine: Machine, states: list[int], group: dict[int, int], theory: Theory) -> RewardMachine:
    """One state for each group, with the edges of its first member."""
    first = {group[u]: u for u in reversed(states)}
    edges: list[Transition] = []
    for number, u in sorted(first.items()):
        leaving: list[Transition] = []
        for move in reversed(list(machine.moves(u))):
            if theory.find(move.literals, move.refuted) is not None:
                edge = Transition(number, group[move.target], move.literals, move.reward)
                leaving = leaving if _is_idle(edge, leaving, theory) else [edge, *leaving]
        edges += leaving
    ended = {
        outcome: [g for g, u in first.items() if machine.outcome[u] == outcome] for outcome in (ACCEPTED, REJECTED)
    }
    return rm.machine(edges, ended[ACCEPTED], ended[REJECTED])


def _is_idle(edge: Transition, later: list[Transition], theory: Theory) -> bool:
    """Whether an edge is as good as staying: it changes nothing and keeps no later edge from being taken."""
    stays = edge.target == edge.source and edge.reward == 0.0
    return stays and all(theory.smallest([*edge.literals, *other.literals]) is None for other in later)


# Look for mistakes in a task: guards that cannot hold or hold at once, dead ends, acceptance out of reach.


@dataclass(frozen=True)
class Finding:
    """Something about a task that its author should know."""

    level: Literal["error", "warning"]
    sentence: str


def check(task: Any, vocabulary: Vocabulary) -> list[Finding]:
    """All findings, errors first. A task without errors is deterministic and can be accepted."""
    task = hrm.old(task)
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
