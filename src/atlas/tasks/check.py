"""What can hold at once; from that, which tasks are equal and what is wrong with one. Exact, for one task at a time.

Labels are sets of propositions that contain all they imply and no two that exclude each other. Since both facts are
about pairs, the smallest label with some propositions is unique, and a conjunction is checked by building it.
"""

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Final, Literal, NamedTuple

import numpy as np

from atlas.errors import AtlasError
from atlas.tasks.machine import (
    NO_CALL,
    Machine,
    Task,
    flatten_with_stacks,
    follow,
    hierarchy,
    holds,
    literal_names,
    machine_name,
    outcome,
    state_name,
)
from atlas.vocabulary import ACCEPTED, REJECTED, RUNNING, Vocabulary

Guard = Sequence[int]
"""Signed literals, all of which must hold."""
Label = frozenset[int]
"""Ids of the propositions that hold."""


MOST_WORK: Final = 100_000
"""Labels that are built for one task: more would take seconds."""


class TooInvolvedError(AtlasError):
    """A question about a task that would take too long to answer."""


class Theory:
    """What propositions imply and exclude. Without a vocabulary every set of propositions is a label.

    Questions can be as hard as any: after MOST_WORK labels it gives up with a `TooInvolvedError`.
    """

    def __init__(self, vocabulary: Vocabulary | None = None) -> None:
        self.work = 0

        def row(table: np.ndarray, prop: int) -> Label:
            return frozenset(np.flatnonzero(table[prop]).tolist())

        self.implied = functools.cache(lambda p: frozenset({p}) if vocabulary is None else row(vocabulary.implies, p))
        self.excluded = functools.cache(lambda p: frozenset() if vocabulary is None else row(vocabulary.excludes, p))

    def smallest(self, literals: Iterable[int]) -> Label | None:
        """The smallest label on which all literals hold; None if there is none."""
        self.work += 1
        if self.work > MOST_WORK:
            raise TooInvolvedError("the task has too many transitions and conditions to be examined")
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


class Move(NamedTuple):
    """One thing that can happen in a state: on which labels, where it leads, what it pays."""

    literals: Guard
    refuted: tuple[Guard, ...]
    """Guards of earlier edges, which did not hold."""
    target: int
    reward: float


def moves(machine: Machine, state: int) -> Iterator[Move]:
    """Each edge where no earlier one holds, then staying where none does."""
    guards = tuple(edge.literals for edge in machine.leaving[state])
    for place, edge in enumerate(machine.leaving[state]):
        yield Move(edge.literals, guards[:place], edge.target, edge.reward)
    yield Move((), guards, state, 0.0)


# Equality


def difference(
    one: Task, other: Task, vocabulary: Vocabulary | None = None, rewards: bool = True
) -> list[Label] | None:
    """A shortest sequence of labels that tells two tasks apart by outcome (and reward); None if they are equal."""
    left, right, theory = one.flat, other.flat, Theory(vocabulary)
    if left.outcomes[0] != right.outcomes[0]:
        return []
    labels_to: dict[tuple[int, int], list[Label]] = {(0, 0): []}
    for pair in (todo := [(0, 0)]):
        for here, there in product(moves(left, pair[0]), moves(right, pair[1])):
            label = theory.find([*here.literals, *there.literals], [*here.refuted, *there.refuted])
            if label is None:
                continue
            after, labels = (here.target, there.target), [*labels_to[pair], label]
            if left.outcomes[after[0]] != right.outcomes[after[1]] or (rewards and here.reward != there.reward):
                return labels
            if after not in labels_to:
                labels_to[after] = labels
                todo.append(after)
    return None


def equivalent(one: Task, other: Task, vocabulary: Vocabulary | None = None, rewards: bool = True) -> bool:
    """Whether two tasks end alike (and pay alike) on every sequence of labels."""
    return difference(one, other, vocabulary, rewards) is None


# Examples


def examples(task: Task, vocabulary: Vocabulary) -> tuple[list[list[Label]], list[list[Label]]]:
    """Up to three short traces that complete a task with their last label, and up to two that do not.

    Of those that do not, one fails the task if it can fail; labels are the smallest that tell."""
    flat, theory = task.flat, Theory(vocabulary)
    paths: list[tuple[int, list[Label]]] = [(0, [])]
    ended: dict[int, list[list[Label]]] = {ACCEPTED: [], REJECTED: []}
    waits: list[Label | None] = []
    for state, labels in paths:
        if flat.outcomes[state] != RUNNING:
            ended[flat.outcomes[state]].append(labels)
        if flat.outcomes[state] != RUNNING or len(paths) > 300 or len(ended[ACCEPTED]) > 2:
            continue
        for move in moves(flat, state):
            label = theory.find(move.literals, move.refuted)
            if move.target != state and label is not None:
                paths.append((move.target, [*labels, label]))
            elif state == 0 and move.target == 0 and not labels:
                waits.append(label)
    done = sorted(ended[ACCEPTED], key=len)[:3]
    undone = sorted(ended[REJECTED], key=len)[:1]
    if not done:
        return [], undone

    def outcomes(labels: list[Label]) -> list[int]:
        return [outcome(task, stack.node) for stack, _ in follow(task, labels)]

    first = done[0]
    similar = [label for label in (_similar(label, vocabulary) for label in first[-1:]) if label]
    for before in [
        *([label] for label in similar),
        *([wait] * n for wait in waits if wait is not None for n in (1, 2)),
    ]:
        longer = [*before, *first]
        if len(done) < 3 and outcomes(longer) == [RUNNING] * (len(longer) - 1) + [ACCEPTED]:
            done.append(longer)
    misses = [[*first[:-1], label] for label in similar]
    for other in (
        *misses,
        *(t for d in done for t in (d[::-1], d[:-1], [*d[:-1], frozenset[int]()], [frozenset[int]()])),
    ):
        if len(undone) < 2 and outcomes(other)[-1:] == [RUNNING] and other not in undone:
            undone.append(other)
    return done, undone


def _similar(label: Label, vocabulary: Vocabulary) -> Label | None:
    """A label that is nearly another one: of a red ball that of a green one; None for an empty label."""
    own = most_specific(label, vocabulary)
    if not own:
        return None
    implies = vocabulary.implies
    alike = (implies & implies[own[0]]).sum(1) + 0.5 * vocabulary.excludes[own[0]]
    alike[implies[:, own[0]] | implies[own[0]] | (implies.sum(1) > implies[own[0]].sum())] = -1
    found = int(alike.argmax())
    return frozenset(np.flatnonzero(implies[found]).tolist()) if alike[found] >= 0 else None


def most_specific(label: Label, vocabulary: Vocabulary) -> list[int]:
    """The propositions of a label that no other one of it implies."""
    return sorted(p for p in label if not any(q != p and vocabulary.implies[q, p] for q in label))


# Mistakes


@dataclass(frozen=True)
class Finding:
    """Something about a task that its author should know."""

    level: Literal["error", "note", "warning"]
    sentence: str


def check(task: Task, vocabulary: Vocabulary) -> list[Finding]:
    """All findings, errors first. A task without errors is deterministic and can be accepted."""
    try:
        hierarchy(task.machines, task.root)  # calls may be cyclic where a task came from arrays
        flat, stacks = flatten_with_stacks(task)
    except AtlasError as error:
        return [Finding("error", str(error))]
    nodes = [stack.node for stack in stacks]
    if task.is_flat:
        flat, nodes = task, [(0, u) for u in range(len(task.flat.outcomes))]
    checks = _Checks(task, flat.flat, nodes, vocabulary)
    found: dict[Finding, None] = {}
    try:
        for some in (checks.guards(), checks.overlaps(), checks.ways(), checks.rushes()):
            for finding in some:
                found[finding] = None
    except (TooInvolvedError, RecursionError):
        found[Finding("warning", "the task is too involved to be examined in full")] = None
    return sorted(found, key=lambda finding: finding.level)


class _Checks:
    def __init__(self, task: Task, flat: Machine, nodes: list[tuple[int, int]], vocabulary: Vocabulary) -> None:
        self.task, self.flat, self.nodes = task, flat, nodes
        self.theory, self.names = Theory(vocabulary), vocabulary.names

    def state(self, u: int) -> str:
        """How a state of the flat form is called."""
        ended = self.flat.outcomes[u] != RUNNING
        return self.flat.name(u) if ended or u >= len(self.nodes) else self.place(*self.nodes[u])

    def place(self, number: int, state: int) -> str:
        """How a running state is called."""
        return ("" if self.task.is_flat else f"{machine_name(number)}:") + state_name(state, RUNNING)

    def guard(self, literals: Guard) -> str:
        return " & ".join(literal_names(literals, self.names)) or "true"

    def guards(self) -> Iterator[Finding]:
        """Guards that never hold, and those that always do."""
        for number, machine in enumerate(self.task.machines):
            for edge in machine.edges:
                name = f"{self.place(number, edge.source)} -> {machine.name(edge.target)}"
                if self.theory.smallest(edge.literals) is None:
                    yield Finding("warning", f"the guard of {name} can never hold: {self.guard(edge.literals)}")
                if not edge.literals and edge.call == NO_CALL:
                    yield Finding("warning", f"the guard of {name} always holds: it has no literals")

    def overlaps(self) -> Iterator[Finding]:
        """Two edges out of one state that one label satisfies."""
        for u, leaving in enumerate(self.flat.leaving):
            for one, other in combinations(leaving, 2):
                differ = one.target != other.target or one.reward != other.reward
                if differ and self.theory.smallest([*one.literals, *other.literals]) is not None:
                    ways = (f"{self.guard(e.literals)} (to {self.state(e.target)})" for e in (one, other))
                    sentence = f"{self.state(u)} is not deterministic: {' and '.join(ways)} can hold at once"
                    yield Finding("error", sentence)

    def ways(self) -> Iterator[Finding]:
        """Acceptance out of reach, and states that cannot be reached or left for it."""
        outcomes = self.flat.outcomes
        successors: dict[int, list[int]] = {}
        for u in (reached := [0]):
            possible = (m for m in moves(self.flat, u) if self.theory.find(m.literals, m.refuted) is not None)
            successors[u] = [move.target for move in possible]
            reached += dict.fromkeys(v for v in successors[u] if v not in reached)
        if outcomes[0] != RUNNING:
            yield Finding("warning", f"the task is over before it starts: its initial state is {self.state(0)}")
        hopeful = {u for u in reached if outcomes[u] == ACCEPTED}
        if not hopeful:
            yield Finding("error", "no labels lead to acceptance")
            return
        while more := {u for u in reached if hopeful.intersection(successors[u])} - hopeful:
            hopeful |= more
        for u in reached:
            if outcomes[u] == RUNNING and u not in hopeful:
                yield Finding("warning", f"from {self.state(u)} acceptance can no longer be reached")
        for u in sorted({0, *(edge.source for edge in self.flat.edges)} - set(reached)):
            yield Finding("warning", f"no labels lead to {self.state(u)}")

    def rushes(self) -> Iterator[Finding]:
        """Edges whose guard already holds on the label that led to their source."""
        for edge in self.flat.edges:
            if edge.target == edge.source or self.theory.smallest(edge.literals) is None:
                continue
            for after in self.flat.leaving[edge.target]:
                if self.theory.entails(edge.literals, after.literals):
                    yield Finding(
                        "warning",
                        f"{self.guard(after.literals)} (from {self.state(after.source)} to "
                        f"{self.state(after.target)}) holds whenever {self.guard(edge.literals)} led there",
                    )
