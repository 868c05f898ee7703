"""What can hold at once, given what the propositions imply and exclude; and from that: which machines are equal, what
can be reached, what is the smallest equal machine. Plain Python: exact, for one task at a time.

Labels are sets of propositions that contain all they imply and no two that exclude each other. Since both facts are
about pairs, the smallest label with some propositions is unique, and a conjunction is checked by building it.
"""

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from atlas.tasks import rm
from atlas.tasks.flatten import flatten
from atlas.tasks.hrm import Hierarchy
from atlas.tasks.rm import ACCEPTED, REJECTED, RUNNING, RewardMachine, Transition
from atlas.vocabulary import Vocabulary

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

    def __init__(self, task: RewardMachine | Hierarchy) -> None:
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
    one: RewardMachine | Hierarchy,
    other: RewardMachine | Hierarchy,
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
    one: RewardMachine | Hierarchy,
    other: RewardMachine | Hierarchy,
    vocabulary: Vocabulary | None = None,
    rewards: bool = True,
) -> bool:
    """Whether two tasks end alike (and pay alike) on every sequence of labels."""
    return difference(one, other, vocabulary, rewards) is None


def minimise(task: RewardMachine | Hierarchy, vocabulary: Vocabulary | None = None) -> RewardMachine:
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
