"""Deterministic automata over labels, one decision diagram a state: what English and LTLf are compiled through."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from atlas.errors import AtlasError
from atlas.tasks.diagram import Cube, Diagram, Diagrams
from atlas.tasks.rm import ACCEPT, ACCEPTED, REJECT, REJECTED, RUNNING, RewardMachine, Transition, machine

MOST_STATES: Final = 127
"""States are stored in a signed byte."""
IMPOSSIBLE: Final = -1
"""Where a step leads on labels that cannot occur: guards may or may not cover them."""


@dataclass(frozen=True)
class Automaton:
    """State 0 is the initial one; `step[u]` maps a label to the next state. Steps of terminal states mean nothing."""

    diagrams: Diagrams
    step: tuple[Diagram, ...]
    outcome: tuple[int, ...]

    def successors(self, u: int) -> list[int]:
        """The states that one possible label leads to from a running state."""
        return [v for v in self.diagrams.values(self.step[u]) if v != IMPOSSIBLE]


def minimise(automaton: Automaton) -> Automaton:
    """The smallest automaton with the same outcomes, its states numbered as a walk in breadth meets them."""
    group = list(automaton.outcome)
    while True:
        refined = _refine(automaton, group)
        if len(set(refined)) == len(set(group)):
            return _merge(automaton, group)
        group = refined


def _refine(automaton: Automaton, group: list[int]) -> list[int]:
    """Tell apart those states of a group that some label leads to different groups."""
    steps = automaton.diagrams.relabel(automaton.step, lambda v: IMPOSSIBLE if v == IMPOSSIBLE else group[v])
    numbers: dict[tuple[int, int], int] = {}
    return [
        numbers.setdefault((g, s if outcome == RUNNING else 0), len(numbers))
        for g, s, outcome in zip(group, steps, automaton.outcome, strict=True)
    ]


def _merge(automaton: Automaton, group: list[int]) -> Automaton:
    """One state a group; only those that can be reached."""
    diagrams = automaton.diagrams
    number = {group[0]: 0}
    members = [0]
    for u in members:
        if automaton.outcome[u] == RUNNING:
            for v in automaton.successors(u):
                if group[v] not in number:
                    number[group[v]] = len(members)
                    members.append(v)
    outcome = tuple(automaton.outcome[u] for u in members)
    ongoing = [automaton.step[u] if o == RUNNING else diagrams.leaf(u) for u, o in zip(members, outcome, strict=True)]
    steps = diagrams.relabel(ongoing, lambda v: IMPOSSIBLE if v == IMPOSSIBLE else number[group[v]])
    return Automaton(diagrams, tuple(steps), outcome)


def accepts(automaton: Automaton) -> bool:
    """Whether some possible labels lead to acceptance."""
    agenda = [0]
    for u in agenda:
        if automaton.outcome[u] == RUNNING:
            agenda += [v for v in automaton.successors(u) if v not in agenda]
    return any(automaton.outcome[u] == ACCEPTED for u in agenda)


def to_transitions(automaton: Automaton) -> list[Transition]:
    """The edges, few and short. 1 is the reward into acceptance, else 0."""
    names = {u: {ACCEPTED: ACCEPT, REJECTED: REJECT}.get(o, u) for u, o in enumerate(automaton.outcome)}
    return [
        Transition(u, names[v], cube, float(automaton.outcome[v] == ACCEPTED))
        for u, outcome in enumerate(automaton.outcome)
        if outcome == RUNNING
        for v, cubes in _guards(automaton, u)
        for cube in cubes
    ]


def _guards(automaton: Automaton, u: int) -> Iterator[tuple[int, list[Cube]]]:
    """Every other state that one label leads to, with cubes that cover those labels and perhaps impossible ones."""
    diagrams, step = automaton.diagrams, automaton.step[u]
    impossible = diagrams.equals(step, IMPOSSIBLE)
    for v in automaton.successors(u):
        if v != u:
            taken = diagrams.equals(step, v)
            yield v, diagrams.cover(taken, diagrams.either(taken, impossible))


def to_machine(automaton: Automaton) -> RewardMachine:
    """The automaton as a reward machine; its states keep their order, terminal ones come last."""
    return build(to_transitions(automaton))


def build(edges: Iterable[Transition]) -> RewardMachine:
    """A machine from edges whose running states may be numbered with gaps."""
    edges = list(edges)
    running = sorted({0} | {u for e in edges for u in (e.source, e.target) if u >= 0})
    if len(running) + 2 > MOST_STATES:
        raise AtlasError(f"the task needs {len(running) + 2} states; at most {MOST_STATES} are possible")
    if running[-1] == len(running) - 1:
        return machine(edges)
    number = {u: n for n, u in enumerate(running)} | {ACCEPT: ACCEPT, REJECT: REJECT}
    return machine(e._replace(source=number[e.source], target=number[e.target]) for e in edges)
