"""How automata are put together: one after the other, all, any, the one begun first, again and again, without.

All take automata over the same pool of diagrams. Part automata keep their meaning: accepted once, they stay so.
"""

import functools
import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from atlas.errors import AtlasError
from atlas.tasks.rm import ACCEPT, ACCEPTED, REJECT, REJECTED, RUNNING, RewardMachine, Transition, machine

# Decision diagrams: functions from labels to values, shared and reduced, so that equal functions are equal numbers.
#
# A diagram asks about variables in ascending order and ends in a leaf. Variables are proposition ids (front ends may
# use larger numbers for variables of their own).

LEAF: Final = 1 << 40
"""Variable of a leaf: larger than any other, so that it is asked last."""

Diagram = int
Cube = tuple[int, ...]
"""A conjunction of signed literals, `variable + 1`."""


class Diagrams:
    """A pool of diagrams. The leaves False and True are always numbers 0 and 1."""

    def __init__(self) -> None:
        self.variable: list[int] = []
        self.low: list[Any] = []
        self.high: list[Any] = []
        self._known: dict[tuple[Any, ...], Diagram] = {}
        self._memo: dict[tuple[Any, ...], Diagram] = {}
        self._covers: dict[tuple[Diagram, Diagram], tuple[list[Cube], Diagram]] = {}
        self.leaf(False)
        self.leaf(True)

    def leaf(self, value: Hashable) -> Diagram:
        """The function that is `value` everywhere."""
        return self._intern((LEAF, type(value), value), LEAF, value, value)

    def node(self, variable: int, low: Diagram, high: Diagram) -> Diagram:
        """`high` where the variable holds, else `low`; both ask only about later variables."""
        return low if low == high else self._intern((variable, low, high), variable, low, high)

    def literal(self, variable: int) -> Diagram:
        """The function that tells whether a variable holds."""
        return self.node(variable, 0, 1)

    def _intern(self, key: tuple[Any, ...], variable: int, low: Any, high: Any) -> Diagram:
        if key not in self._known:
            self._known[key] = len(self.variable)
            self.variable.append(variable)
            self.low.append(low)
            self.high.append(high)
        return self._known[key]

    def value(self, root: Diagram) -> Any:
        """What a leaf holds."""
        return self.low[root]

    def is_leaf(self, root: Diagram) -> bool:
        return self.variable[root] == LEAF

    def split(self, root: Diagram, variable: int) -> tuple[Diagram, Diagram]:
        """The function where the variable does not hold, and where it does. No earlier variable may be asked."""
        return (self.low[root], self.high[root]) if self.variable[root] == variable else (root, root)

    def combine(self, name: str, function: Callable[..., Hashable], *roots: Diagram) -> Diagram:
        """Apply a function to the leaves of several diagrams. `name` must stand for one function in this pool."""
        key = (name, *roots)
        if key not in self._memo:
            variable = min(self.variable[r] for r in roots)
            if variable == LEAF:
                self._memo[key] = self.leaf(function(*(self.low[r] for r in roots)))
            else:
                lows, highs = zip(*(self.split(r, variable) for r in roots), strict=True)
                low, high = self.combine(name, function, *lows), self.combine(name, function, *highs)
                self._memo[key] = self.node(variable, low, high)
        return self._memo[key]

    def both(self, a: Diagram, b: Diagram) -> Diagram:
        """Conjunction of two yes-or-no functions."""
        if a == b or b == 1:
            return a
        if a == 1:
            return b
        return 0 if 0 in (a, b) else self.combine("and", lambda x, y: x and y, *sorted((a, b)))

    def negate(self, a: Diagram) -> Diagram:
        """The opposite of a yes-or-no function."""
        return 1 - a if a < 2 else self.combine("not", lambda x: not x, a)

    def either(self, a: Diagram, b: Diagram) -> Diagram:
        """Disjunction of two yes-or-no functions."""
        if a == b or b == 0:
            return a
        if a == 0:
            return b
        return 1 if 1 in (a, b) else self.combine("or", lambda x, y: x or y, *sorted((a, b)))

    def choose(self, condition: Diagram, yes: Diagram, no: Diagram) -> Diagram:
        """`yes` where the condition holds, else `no`."""
        if condition in (0, 1):
            return yes if condition else no
        return self.combine("choose", lambda c, y, n: y if c else n, condition, yes, no)

    def conjunction(self, cube: Iterable[int]) -> Diagram:
        """The function that tells whether all literals of a cube hold."""
        result = 1
        for literal in cube:
            holds = self.literal(abs(literal) - 1)
            result = self.both(result, holds if literal > 0 else self.negate(holds))
        return result

    def relabel(self, roots: Iterable[Diagram], values: Callable[[Any], Hashable]) -> list[Diagram]:
        """The functions with each value replaced."""
        memo: dict[Diagram, Diagram] = {}

        def walk(r: Diagram) -> Diagram:
            if r not in memo:
                if self.variable[r] == LEAF:
                    memo[r] = self.leaf(values(self.low[r]))
                else:
                    memo[r] = self.node(self.variable[r], walk(self.low[r]), walk(self.high[r]))
            return memo[r]

        return [walk(root) for root in roots]

    def equals(self, root: Diagram, value: Hashable) -> Diagram:
        """Where the function has this value."""
        key = ("equals", root, value)
        if key not in self._memo:
            if self.variable[root] == LEAF:
                self._memo[key] = int(self.low[root] == value)
            else:
                low, high = self.equals(self.low[root], value), self.equals(self.high[root], value)
                self._memo[key] = self.node(self.variable[root], low, high)
        return self._memo[key]

    def values(self, root: Diagram) -> list[Any]:
        """All values the function can take, each once, in the order of a walk that tries `holds` first."""
        seen: dict[Diagram, None] = {}
        stack = [root]
        while stack:
            r = stack.pop()
            if r not in seen:
                seen[r] = None
                if not self.is_leaf(r):
                    stack += [self.low[r], self.high[r]]
        return [self.low[r] for r in seen if self.is_leaf(r)]

    def cover(self, lower: Diagram, upper: Diagram) -> list[Cube]:
        """Few short cubes whose disjunction lies between two yes-or-no functions (irredundant sum of products)."""
        return self._cover(lower, upper)[0]

    def _cover(self, lower: Diagram, upper: Diagram) -> tuple[list[Cube], Diagram]:
        if lower == 0:
            return [], 0
        if upper == 1:
            return [()], 1
        if (lower, upper) not in self._covers:
            self._covers[lower, upper] = self._split_cover(lower, upper)
        return self._covers[lower, upper]

    def _split_cover(self, lower: Diagram, upper: Diagram) -> tuple[list[Cube], Diagram]:
        """Cubes that need the first variable to fail, to hold, and the rest, which do not care."""
        variable = min(self.variable[lower], self.variable[upper])
        lower_0, lower_1 = self.split(lower, variable)
        upper_0, upper_1 = self.split(upper, variable)
        cubes_0, covered_0 = self._cover(self.both(lower_0, self.negate(upper_1)), upper_0)
        cubes_1, covered_1 = self._cover(self.both(lower_1, self.negate(upper_0)), upper_1)
        rest_0 = self.both(lower_0, self.negate(covered_0))
        rest_1 = self.both(lower_1, self.negate(covered_1))
        cubes, covered = self._cover(self.either(rest_0, rest_1), self.both(upper_0, upper_1))
        cubes = [
            *((variable + 1, *cube) for cube in cubes_1),
            *cubes,
            *((-variable - 1, *cube) for cube in cubes_0),
        ]
        return cubes, self.node(variable, self.either(covered_0, covered), self.either(covered_1, covered))


def possible(diagrams: Diagrams, props: Iterable[int], implies: np.ndarray, excludes: np.ndarray) -> Diagram:
    """Which labels can occur, as far as implications and exclusions between the given propositions tell."""
    props = sorted(props)
    result = 1
    for i in props:
        for j in props:
            if i != j and implies[i, j]:
                result = diagrams.both(result, diagrams.negate(diagrams.conjunction((i + 1, -j - 1))))
            if i < j and excludes[i, j]:
                result = diagrams.both(result, diagrams.negate(diagrams.conjunction((i + 1, j + 1))))
    return result


# Deterministic automata over labels, one decision diagram a state: what English and LTLf are compiled through.

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


# How automata are put together: one after the other, all, any, the one begun first, again and again, without.
#
# All take automata over the same pool of diagrams. Part automata keep their meaning: accepted once, they stay so.


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
