"""Task edits in plain Python, written from the rules.

A machine is a list of states `(outcome, edges)`, an edge being `(target, literals, callee)` with a set of literals.
"""

from dataclasses import dataclass, replace

import numpy as np

from atlas.tasks.machine import UNUSED
from atlas.vocabulary import ACCEPTED, REJECTED, RUNNING


@dataclass(frozen=True)
class Edge:
    target: int
    literals: frozenset[int]
    call: int = UNUSED


@dataclass(frozen=True)
class State:
    outcome: int
    edges: tuple[Edge, ...]


def plain(target, guard, outcome, call) -> list[State]:
    """The machine in some arrays, as far as it is used."""
    used = max(int(np.max(target)), 0) + 1
    return [
        State(
            int(outcome[u]),
            tuple(
                Edge(int(t), frozenset(int(x) for x in guard[u, e] if x), int(call[u, e]))
                for e, t in enumerate(target[u])
                if t != UNUSED
            ),
        )
        for u in range(used)
    ]


def successors(machine, u) -> set[int]:
    return {e.target for e in machine[u].edges} - {u}


def reach(machine, start, without=-1) -> set[int]:
    """The states that paths from `start` lead to, never through `without`."""
    found, todo = {start}, [start]
    while todo:
        for v in successors(machine, todo.pop()) - found - {without}:
            found.add(v)
            todo.append(v)
    return found


def accepts(machine, start, without=-1) -> bool:
    return any(machine[u].outcome == ACCEPTED for u in reach(machine, start, without))


def replacements(machine, gone, is_callee=False) -> set[int] | None:
    """Who can take the place of a state; None if it cannot go."""
    outcome = machine[gone].outcome
    if len(machine) <= 2:
        return None
    if outcome == REJECTED:
        return set()
    if outcome == ACCEPTED:
        found = {u for u in range(1, len(machine)) if gone in successors(machine, u)}
        return found or None
    found = {v for v in successors(machine, gone) if accepts(machine, v, without=gone)}
    if gone == 0:
        found = {v for v in found if machine[v].outcome == RUNNING and (not is_callee or plain_start(machine, v))}
    return found or None


def plain_start(machine, u) -> bool:
    return len(machine[u].edges) == 1 and machine[u].edges[0].call == UNUSED


def applies(name, machine, rows, slots, alphabet, is_callee=False) -> bool:
    """Whether an edit is applicable to a machine in arrays of so many rows and literal slots a state."""
    if not any(state.edges for state in machine):
        return False
    if name == "switch_proposition":
        asks = any(x > 0 for state in machine for e in state.edges for x in e.literals)
        return asks and alphabet > slots
    if name == "add_state":
        return len(machine) < rows
    assert name == "remove_state"
    return any(replacements(machine, u, is_callee) is not None for u in range(len(machine)))


def explains(name, before, after, arguments, mask, is_callee=False) -> None:
    """The change is what the name and the arguments say, and nothing else."""
    {"switch_proposition": _switched, "add_state": _added, "remove_state": _removed}[name](
        before, after, [int(a) for a in arguments], mask, is_callee
    )


def _switched(before, after, arguments, mask, is_callee):
    u, old, new = arguments
    assert mask[new]
    assert new != old
    names = {old + 1: new + 1, -old - 1: -new - 1}
    edges = tuple(replace(e, literals=frozenset(names.get(x, x) for x in e.literals)) for e in before[u].edges)
    assert any(old + 1 in e.literals for e in before[u].edges)
    assert not any({new + 1, -new - 1} & e.literals for e in before[u].edges)
    assert after == [State(s.outcome, edges) if i == u else s for i, s in enumerate(before)]


def _shifted(machine, at) -> list[State]:
    """Later states move up by one."""
    return [State(s.outcome, tuple(replace(e, target=e.target + (e.target >= at)) for e in s.edges)) for s in machine]


def _added(before, after, arguments, mask, is_callee):
    at, where, prop = arguments
    assert mask[prop]
    assert len(after) == len(before) + 1
    asked = frozenset({prop + 1})
    moved = _shifted(before, at)
    if where == 0:
        assert at == 0
        assert after == [State(RUNNING, (Edge(1, asked),)), *moved]
    else:
        assert where == 1
        (edge,) = after[at].edges
        assert edge.literals == asked
        assert edge.call == UNUSED
        led = [(u, i) for u, s in enumerate(after) for i, e in enumerate(s.edges) if e.target == at]
        assert len(led) == 1
        rest = [
            State(s.outcome, tuple(replace(e, target=edge.target) if e.target == at else e for e in s.edges))
            for u, s in enumerate(after)
            if u != at
        ]
        assert rest == moved


def _removed(before, after, arguments, mask, is_callee):
    gone, into, nothing = arguments
    assert nothing == -1
    possible = replacements(before, gone, is_callee)
    assert possible is not None
    assert into in possible or (into == UNUSED and possible == set())
    assert after == without(before, gone, into)
    assert accepts(after, 0)
    assert len(after) < len(before)


def without(machine, gone, into) -> list[State]:
    """What must be left once a state has handed over."""
    states = []
    for u, state in enumerate(machine):
        there = any(e.target == into for e in state.edges)
        kept, lost = [], []
        for e in state.edges:
            doubles = e.target == gone and (there or u == into or into == UNUSED)
            (lost if doubles else kept).append(replace(e, target=into) if e.target == gone else e)
        states.append(State(state.outcome, _without_stale(kept, lost)))
    if machine[gone].outcome == ACCEPTED:
        states[into] = State(ACCEPTED, ())
    return compacted(states, into if gone == 0 else 0)


def _without_stale(kept, lost) -> tuple[Edge, ...]:
    """Negations of what only lost edges asked for go with them."""
    asked = {x for e in kept for x in e.literals if x > 0}
    stale = {-x for e in lost for x in e.literals if x > 0 and x not in asked}
    return tuple(replace(e, literals=e.literals - stale) for e in kept)


def compacted(machine, start) -> list[State]:
    """Only what the start leads to, it first and the others in order."""
    found = reach(machine, start)
    order = [start, *(u for u in sorted(found) if u != start)]
    number = {u: i for i, u in enumerate(order)}
    return [
        State(machine[u].outcome, tuple(replace(e, target=number[e.target]) for e in machine[u].edges)) for u in order
    ]
