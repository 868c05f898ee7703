"""How automata are put together: one after the other, all, any, the one begun first, again and again, without.

All take automata over the same pool of diagrams. Part automata keep their meaning: accepted once, they stay so.
"""

import functools
import operator
from collections.abc import Callable, Sequence

from atlas.tasks.automaton import IMPOSSIBLE, Automaton
from atlas.tasks.diagram import Diagram, Diagrams
from atlas.tasks.rm import ACCEPTED, REJECTED, RUNNING


def moment(diagrams: Diagrams, guard: Diagram) -> Automaton:
    """Wait until a guard holds."""
    step = diagrams.choose(guard, diagrams.leaf(1), diagrams.leaf(0))
    return Automaton(diagrams, (step, diagrams.leaf(1)), (RUNNING, ACCEPTED))


def rises(diagrams: Diagrams, guard: Diagram, times: int) -> Automaton:
    """Wait until a guard has become true several times, falling in between."""
    steps = []
    for u in range(2 * times - 1):
        awaited = guard if u % 2 == 0 else diagrams.negate(guard)
        steps.append(diagrams.choose(awaited, diagrams.leaf(u + 1), diagrams.leaf(u)))
    last = len(steps)
    return Automaton(diagrams, (*steps, diagrams.leaf(last)), (RUNNING,) * last + (ACCEPTED,))


def then(parts: Sequence[Automaton]) -> Automaton:
    """One after the other: each part begins with the label after the one that completed the part before."""
    diagrams = parts[0].diagrams
    starts = [sum(len(p.step) for p in parts[:n]) for n in range(len(parts) + 1)]
    steps: list[Diagram] = []
    outcome: list[int] = []
    for n, part in enumerate(parts):
        last = n == len(parts) - 1

        def place(v: int, part: Automaton = part, n: int = n, last: bool = last) -> int:
            return starts[n + 1] if part.outcome[v] == ACCEPTED and not last else starts[n] + v

        steps += diagrams.relabel(part.step, place)
        outcome += part.outcome
    return Automaton(diagrams, tuple(steps), tuple(outcome))


def product(parts: Sequence[Automaton], judge: Callable[[list[int]], int]) -> Automaton:
    """All parts side by side on the same labels; `judge` makes one outcome of theirs."""
    diagrams = parts[0].diagrams
    states: list[tuple[int, ...]] = [(0,) * len(parts)]
    number = {states[0]: 0}
    steps, outcome = [], []
    for state in states:
        outcome.append(judge([part.outcome[u] for part, u in zip(parts, state, strict=True)]))
        if outcome[-1] != RUNNING:
            steps.append(diagrams.leaf(number[state]))
            continue
        joint = diagrams.combine("tuple", lambda *us: us, *(p.step[u] for p, u in zip(parts, state, strict=True)))
        for successor in diagrams.values(joint):
            if successor not in number:
                number[successor] = len(states)
                states.append(successor)
        steps += diagrams.relabel([joint], lambda s: number[s])
    return Automaton(diagrams, tuple(steps), tuple(outcome))


def all_of(parts: Sequence[Automaton]) -> Automaton:
    """In any order; what several ask for may happen at one moment."""

    def judge(outcomes: list[int]) -> int:
        if REJECTED in outcomes:
            return REJECTED
        return ACCEPTED if all(o == ACCEPTED for o in outcomes) else RUNNING

    return product(parts, judge)


def any_of(parts: Sequence[Automaton]) -> Automaton:
    """Whichever is done first."""

    def judge(outcomes: list[int]) -> int:
        if ACCEPTED in outcomes:
            return ACCEPTED
        return REJECTED if all(o == REJECTED for o in outcomes) else RUNNING

    return product(parts, judge)


def first_begun(parts: Sequence[Automaton]) -> Automaton:
    """Only the part that moves first goes on; if several would move at the same moment, none does."""
    diagrams = parts[0].diagrams
    starts = [1 + sum(len(p.step) for p in parts[:n]) for n in range(len(parts))]

    def choose(*targets: int) -> int:
        moved = [start + v for start, v in zip(starts, targets, strict=True) if v != 0]
        return moved[0] if len(moved) == 1 else 0

    steps = [diagrams.combine(f"choose {starts}", choose, *(part.step[0] for part in parts))]
    for start, part in zip(starts, parts, strict=True):
        steps += diagrams.relabel(part.step, functools.partial(operator.add, start))
    return Automaton(diagrams, tuple(steps), (RUNNING, *(o for part in parts for o in part.outcome)))


def without(part: Automaton, avoided: Diagram) -> Automaton:
    """Fail where what is avoided holds before, or just when, the part is done."""
    diagrams, failed = part.diagrams, len(part.step)
    steps = [
        diagrams.choose(avoided, diagrams.leaf(failed), step) if outcome == RUNNING else step
        for step, outcome in zip(part.step, part.outcome, strict=True)
    ]
    return Automaton(diagrams, (*steps, diagrams.leaf(failed)), (*part.outcome, REJECTED))


def forbid(automaton: Automaton, care: Diagram) -> Automaton:
    """Mark labels outside `care` as impossible, so that guards and states may disregard them."""
    diagrams = automaton.diagrams
    steps = tuple(diagrams.choose(care, step, diagrams.leaf(IMPOSSIBLE)) for step in automaton.step)
    return Automaton(diagrams, steps, automaton.outcome)
