"""Deterministic automata over labels, one decision diagram a state: what English and LTLf are compiled through.

They are combined (one after the other, all of them, any of them, the one begun first, one without another) over one
pool of diagrams. A part that has accepted stays accepted.
"""

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from atlas.errors import AtlasError
from atlas.tasks.machine import ACCEPT, MAX_STATES, REJECT, Edge, Machine, Task, machine
from atlas.vocabulary import ACCEPTED, REJECTED, RUNNING, Vocabulary

LEAF: Final = 1 << 40
"""Variable of a leaf: larger than any other, so that it is asked last."""

Diagram = int
Cube = tuple[int, ...]
"""A conjunction of signed literals, `variable + 1`."""

MOST_WORK: Final = 250_000
"""Steps that compiling one task may take, about a second: what needs more would hardly fit into a machine."""
Read = TypeVar("Read", bound=Callable[..., Any])


def within_bounds(read: Read) -> Read:
    """A front end whose texts may be nested too deeply: that is a mistake like others."""

    @functools.wraps(read)
    def bounded(*arguments: Any, **options: Any) -> Any:
        try:
            return read(*arguments, **options)
        except RecursionError:
            raise AtlasError("the task is nested too deeply: split it into several tasks") from None

    return bounded  # type: ignore[return-value]


class Diagrams:
    """A pool of decision diagrams: functions from labels to values, reduced and shared, so that equal functions are
    equal numbers. The leaves False and True are 0 and 1.

    A diagram asks about variables in ascending order and ends in a leaf. Variables are proposition ids; front ends may
    use larger numbers for variables of their own.
    """

    def __init__(self) -> None:
        self.variable: list[int] = []
        self.low: list[Any] = []
        """Where the variable does not hold; the value of a leaf."""
        self.high: list[Any] = []
        self._known: dict[tuple[Any, ...], Diagram] = {}
        self._memo: dict[tuple[Any, ...], Diagram] = {}
        self._covers: dict[tuple[Diagram, Diagram], tuple[list[Cube], Diagram]] = {}
        self._work = 0
        self.leaf(False)
        self.leaf(True)

    def count(self, steps: int) -> None:
        """Take note of work done with the pool; too much of it is a mistake of the task's."""
        self._work += steps
        if self._work > MOST_WORK:
            raise AtlasError("the task is too involved to be worked out: split it into several tasks")

    def leaf(self, value: Hashable) -> Diagram:
        """The function that is `value` everywhere."""
        return self._intern((LEAF, type(value), value), LEAF, value, value)

    def node(self, variable: int, low: Diagram, high: Diagram) -> Diagram:
        """`high` where the variable holds, else `low`; both ask only about later variables."""
        return low if low == high else self._intern((variable, low, high), variable, low, high)

    def _intern(self, key: tuple[Any, ...], variable: int, low: Any, high: Any) -> Diagram:
        if key not in self._known:
            self._known[key] = len(self.variable)
            self.variable.append(variable)
            self.low.append(low)
            self.high.append(high)
        return self._known[key]

    def literal(self, variable: int) -> Diagram:
        """The function that tells whether a variable holds."""
        return self.node(variable, 0, 1)

    def split(self, root: Diagram, variable: int) -> tuple[Diagram, Diagram]:
        """The function where the variable does not hold, and where it does. No earlier variable may be asked."""
        return (self.low[root], self.high[root]) if self.variable[root] == variable else (root, root)

    def combine(self, name: Hashable, function: Callable[..., Hashable], *roots: Diagram) -> Diagram:
        """Apply a function to the leaves of several diagrams. `name` must stand for one function in this pool."""
        key = (name, *roots)
        if key not in self._memo:
            self.count(len(roots))
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

    def disjunction(self, cubes: Iterable[Cube]) -> Diagram:
        """The function that tells whether one of several cubes holds."""
        result = 0
        for cube in cubes:
            result = self.either(result, self.conjunction(cube))
        return result

    def relabel(
        self, roots: Iterable[Diagram], value: Callable[[Any], Hashable], leaves_from: int = LEAF
    ) -> list[Diagram]:
        """The functions with each value replaced. What asks about variables from `leaves_from` on counts as a value."""
        memo: dict[Diagram, Diagram] = {}

        def walk(r: Diagram) -> Diagram:
            if r not in memo:
                if self.variable[r] >= leaves_from:
                    memo[r] = self.leaf(value(self.low[r] if leaves_from == LEAF else r))
                else:
                    memo[r] = self.node(self.variable[r], walk(self.low[r]), walk(self.high[r]))
            return memo[r]

        relabelled = [walk(root) for root in roots]
        self.count(len(memo) + len(relabelled))
        return relabelled

    def values(self, root: Diagram, leaves_from: int = LEAF) -> list[Any]:
        """All values the function can take (see `relabel`), each once, by a search that tries `holds` first."""
        seen: dict[Diagram, None] = {}
        stack = [root]
        while stack:
            r = stack.pop()
            if r not in seen:
                seen[r] = None
                if self.variable[r] < leaves_from:
                    stack += [self.low[r], self.high[r]]
        self.count(len(seen))
        return [self.low[r] if leaves_from == LEAF else r for r in seen if self.variable[r] >= leaves_from]

    def equals(self, root: Diagram, value: Hashable) -> Diagram:
        """Where the function has this value."""
        return self.combine(("equals", value), lambda x: x == value, root)

    def cover(self, lower: Diagram, upper: Diagram) -> list[Cube]:
        """Few short cubes whose disjunction lies between two yes-or-no functions (irredundant sum of products)."""
        return self._cover(lower, upper)[0]

    def _cover(self, lower: Diagram, upper: Diagram) -> tuple[list[Cube], Diagram]:
        """The cubes, and their disjunction: those that need the first variable to hold or to fail, and the rest."""
        if lower == 0:
            return [], 0
        if upper == 1:
            return [()], 1
        if (lower, upper) not in self._covers:
            variable = min(self.variable[lower], self.variable[upper])
            (lower_0, lower_1), (upper_0, upper_1) = self.split(lower, variable), self.split(upper, variable)
            cubes_0, covered_0 = self._cover(self.both(lower_0, self.negate(upper_1)), upper_0)
            cubes_1, covered_1 = self._cover(self.both(lower_1, self.negate(upper_0)), upper_1)
            rest_0 = self.both(lower_0, self.negate(covered_0))
            rest_1 = self.both(lower_1, self.negate(covered_1))
            cubes, covered = self._cover(self.either(rest_0, rest_1), self.both(upper_0, upper_1))
            self.count(1 + len(cubes_0) + len(cubes_1) + len(cubes))
            self._covers[lower, upper] = (
                [
                    *((variable + 1, *cube) for cube in cubes_1),
                    *cubes,
                    *((-variable - 1, *cube) for cube in cubes_0),
                ],
                self.node(variable, self.either(covered_0, covered), self.either(covered_1, covered)),
            )
        return self._covers[lower, upper]


def possible(diagrams: Diagrams, props: Iterable[int], vocabulary: Vocabulary) -> Diagram:
    """Which labels can occur, as far as implications and exclusions between the given propositions tell."""
    props = sorted(props)
    result = 1
    for i in props:
        for j in props:
            if i != j and vocabulary.implies[i, j]:
                result = diagrams.both(result, diagrams.negate(diagrams.conjunction((i + 1, -j - 1))))
            if i < j and vocabulary.excludes[i, j]:
                result = diagrams.both(result, diagrams.negate(diagrams.conjunction((i + 1, j + 1))))
    return result


IMPOSSIBLE: Final = -1
"""Where a step leads on labels that cannot occur: guards may or may not cover them."""


@dataclass(frozen=True)
class Automaton:
    """State 0 is the initial one; `step[u]` maps a label to the next state. Steps of terminal states mean nothing."""

    diagrams: Diagrams
    step: tuple[Diagram, ...]
    outcome: tuple[int, ...]
    enter: Diagram | None = None
    """For parts that ask what held just before they begin: maps the label that completed the part before to the state
    in which this one starts. Otherwise it starts in state 0."""

    def successors(self, u: int) -> list[int]:
        """The states that one possible label leads to from a running state; none from others."""
        if self.outcome[u] != RUNNING:
            return []
        return [v for v in self.diagrams.values(self.step[u]) if v != IMPOSSIBLE]

    @property
    def can_accept(self) -> bool:
        """Whether some possible labels lead to acceptance."""
        found = [0]
        for u in found:
            found += [v for v in self.successors(u) if v not in found]
        return any(self.outcome[u] == ACCEPTED for u in found)


def minimise(automaton: Automaton) -> Automaton:
    """The smallest automaton with the same outcomes, its states numbered in breadth-first order."""
    diagrams, outcome = automaton.diagrams, automaton.outcome
    group, count = list(outcome), 0
    while len(set(group)) != count:  # tell apart states of a group that some label leads to different groups
        count = len(set(group))
        steps = diagrams.relabel(automaton.step, lambda v: IMPOSSIBLE if v == IMPOSSIBLE else group[v])  # noqa: B023
        numbers: dict[tuple[int, int], int] = {}
        group = [
            numbers.setdefault((g, s if o == RUNNING else 0), len(numbers))
            for g, s, o in zip(group, steps, outcome, strict=True)
        ]
    number, members = {group[0]: 0}, [0]
    for u in members:
        for v in automaton.successors(u):
            if group[v] not in number:
                number[group[v]] = len(members)
                members.append(v)
    kept = [automaton.step[u] if outcome[u] == RUNNING else diagrams.leaf(u) for u in members]
    steps = diagrams.relabel(kept, lambda v: IMPOSSIBLE if v == IMPOSSIBLE else number[group[v]])
    return Automaton(diagrams, tuple(steps), tuple(outcome[u] for u in members))


def to_task(automaton: Automaton) -> Task:
    """The automaton as a flat task: few and short guards, reward 1 into acceptance. Terminal states come last."""
    diagrams = automaton.diagrams
    names = {u: {ACCEPTED: ACCEPT, REJECTED: REJECT}.get(o, u) for u, o in enumerate(automaton.outcome)}
    edges = []
    for u, step in enumerate(automaton.step):
        for v in automaton.successors(u):
            if v != u:
                taken = diagrams.equals(step, v)
                cubes = diagrams.cover(taken, diagrams.either(taken, diagrams.equals(step, IMPOSSIBLE)))
                edges += [Edge(u, names[v], cube, float(automaton.outcome[v] == ACCEPTED)) for cube in cubes]
    return Task((machine_without_gaps(edges),))


def machine_without_gaps(edges: Iterable[Edge]) -> Machine:
    """A machine from edges whose running states are numbered with gaps, which are closed."""
    edges = list(edges)
    running = sorted({0} | {u for e in edges for u in (e.source, e.target) if u >= 0})
    if len(running) + 2 > MAX_STATES:
        raise AtlasError(f"the task needs {len(running) + 2} states; at most {MAX_STATES} are possible")
    number = {u: n for n, u in enumerate(running)} | {ACCEPT: ACCEPT, REJECT: REJECT}
    return machine(e._replace(source=number[e.source], target=number[e.target]) for e in edges)


# How automata are put together


def moment(diagrams: Diagrams, guard: Diagram, times: int = 1) -> Automaton:
    """Wait until a guard holds; or until it has become true several times, falling in between."""
    steps = []
    for u in range(2 * times - 1):
        awaited = guard if u % 2 == 0 else diagrams.negate(guard)
        steps.append(diagrams.choose(awaited, diagrams.leaf(u + 1), diagrams.leaf(u)))
    last = len(steps)
    return Automaton(diagrams, (*steps, diagrams.leaf(last)), (RUNNING,) * last + (ACCEPTED,))


def then(parts: Sequence[Automaton]) -> Automaton:
    """One after the other: each part begins with the label after the one that completed the part before."""
    diagrams = parts[0].diagrams
    steps: list[Diagram] = []
    outcome: list[int] = []
    for n, part in enumerate(parts):
        start, end, last = len(steps), len(steps) + len(part.step), n == len(parts) - 1
        enter = None if last else parts[n + 1].enter
        if enter is None:
            place = {v: end if o == ACCEPTED and not last else start + v for v, o in enumerate(part.outcome)}
            steps += diagrams.relabel(part.step, place.__getitem__)
        else:
            done = frozenset(v for v, o in enumerate(part.outcome) if o == ACCEPTED)
            follow = _after(done, start)
            (begun,) = diagrams.relabel([enter], end.__add__)
            steps += [diagrams.combine(("then", done, start), follow, step, begun) for step in part.step]
        outcome += part.outcome
    return Automaton(diagrams, tuple(steps), tuple(outcome), parts[0].enter)


def _after(done: frozenset[int], start: int) -> Callable[[int, int], int]:
    return lambda v, begun: begun if v in done else start + v


def all_of(parts: Sequence[Automaton]) -> Automaton:
    """In any order; what several ask for may happen at one moment."""
    return _product(parts, decisive=REJECTED, common=ACCEPTED)


def any_of(parts: Sequence[Automaton]) -> Automaton:
    """Whichever is done first."""
    return _product(parts, decisive=ACCEPTED, common=REJECTED)


def _product(parts: Sequence[Automaton], decisive: int, common: int) -> Automaton:
    """All parts side by side on the same labels: one `decisive` outcome decides, `common` must be that of all."""
    diagrams = parts[0].diagrams
    states: list[tuple[int, ...]] = [(0,) * len(parts)]
    number = {states[0]: 0}
    enter = None
    if any(part.enter is not None for part in parts):
        starts = [diagrams.leaf(0) if part.enter is None else part.enter for part in parts]
        joint = diagrams.combine("tuple", lambda *us: us, *starts)
        for state in diagrams.values(joint):
            if state not in number:
                number[state] = len(states)
                states.append(state)
        (enter,) = diagrams.relabel([joint], number.__getitem__)
    steps, outcome = [], []
    for state in states:
        ends = [part.outcome[u] for part, u in zip(parts, state, strict=True)]
        outcome.append(decisive if decisive in ends else common if set(ends) == {common} else RUNNING)
        if outcome[-1] != RUNNING:
            steps.append(diagrams.leaf(number[state]))
            continue
        joint = diagrams.combine("tuple", lambda *us: us, *(p.step[u] for p, u in zip(parts, state, strict=True)))
        for successor in diagrams.values(joint):
            if successor not in number:
                number[successor] = len(states)
                states.append(successor)
        steps += diagrams.relabel([joint], number.__getitem__)
    return Automaton(diagrams, tuple(steps), tuple(outcome), enter)


def first_begun(parts: Sequence[Automaton]) -> Automaton:
    """Only the part that moves first goes on; if several would move at the same moment, none does."""
    diagrams = parts[0].diagrams
    starts = [1 + sum(len(p.step) for p in parts[:n]) for n in range(len(parts))]

    def choose(*targets: int) -> int:
        moved = [start + v for start, v in zip(starts, targets, strict=True) if v != 0]
        return moved[0] if len(moved) == 1 else 0

    steps = [diagrams.combine(("choose", *starts), choose, *(part.step[0] for part in parts))]
    for start, part in zip(starts, parts, strict=True):
        steps += diagrams.relabel(part.step, start.__add__)
    return Automaton(diagrams, tuple(steps), (RUNNING, *(o for part in parts for o in part.outcome)))


def without(part: Automaton, avoided: Diagram) -> Automaton:
    """Fail where what is avoided holds before, or just when, the part is done."""
    diagrams, failed = part.diagrams, len(part.step)
    steps = [
        diagrams.choose(avoided, diagrams.leaf(failed), step) if outcome == RUNNING else step
        for step, outcome in zip(part.step, part.outcome, strict=True)
    ]
    return Automaton(diagrams, (*steps, diagrams.leaf(failed)), (*part.outcome, REJECTED), part.enter)


def fall(diagrams: Diagrams, guard: Diagram) -> Automaton:
    """Wait until a guard that held holds no more."""
    held = diagrams.choose(guard, diagrams.leaf(1), diagrams.leaf(0))
    steps = (held, diagrams.choose(guard, diagrams.leaf(1), diagrams.leaf(2)), diagrams.leaf(2))
    return Automaton(diagrams, steps, (RUNNING, RUNNING, ACCEPTED), enter=held)


def rise(diagrams: Diagrams, guard: Diagram) -> Automaton:
    """Wait until a guard that did not hold does."""
    absent = diagrams.choose(guard, diagrams.leaf(0), diagrams.leaf(1))
    steps = (absent, diagrams.choose(guard, diagrams.leaf(2), diagrams.leaf(1)), diagrams.leaf(2))
    return Automaton(diagrams, steps, (RUNNING, RUNNING, ACCEPTED), enter=absent)


def keep(diagrams: Diagrams, guard: Diagram, until: Diagram) -> Automaton:
    """Wait until a guard holds; from then on fail where it holds no more before something else does."""
    d = diagrams
    begun = d.choose(guard, d.leaf(1), d.leaf(0))
    going = d.choose(until, d.leaf(2), d.choose(guard, d.leaf(1), d.leaf(3)))
    return Automaton(d, (begun, going, d.leaf(2), d.leaf(3)), (RUNNING, RUNNING, ACCEPTED, REJECTED), enter=begun)


def branch(condition: Diagram, yes: Automaton, no: Automaton | None) -> Automaton:
    """One part if the first label satisfies a condition, else the other, or nothing if there is no other."""
    diagrams, offset = yes.diagrams, 1 + len(yes.step)
    other = Automaton(diagrams, (diagrams.leaf(0),), (ACCEPTED,)) if no is None else no
    steps = [*diagrams.relabel(yes.step, (1).__add__), *diagrams.relabel(other.step, offset.__add__)]
    first = diagrams.choose(condition, steps[0], steps[len(yes.step)])
    return Automaton(diagrams, (first, *steps), (RUNNING, *yes.outcome, *other.outcome))


@dataclass(frozen=True)
class Rule:
    """What must be true as long as a part goes on: it fails where `automaton` rejects, and is only done while the rule
    is in one of the states `good`. A rule is never accepted by itself."""

    automaton: Automaton
    good: frozenset[int]


def ban(diagrams: Diagrams, avoided: Diagram, until: Diagram = 0, after: Diagram = 1) -> Rule:
    """Fail where something holds; only after something else, only until a third thing."""
    d = diagrams
    waiting = d.choose(after, d.leaf(1), d.leaf(0)) if after != 1 else d.leaf(0)
    active = d.choose(until, d.leaf(2), d.choose(avoided, d.leaf(3), d.leaf(1)))
    steps = (active if after == 1 else waiting, active, d.leaf(2), d.leaf(3))
    return Rule(Automaton(d, steps, (RUNNING, RUNNING, RUNNING, REJECTED)), frozenset({0, 1, 2}))


def hold(diagrams: Diagrams, guard: Diagram, until: Diagram = 0, required: bool = True) -> Rule:
    """Once a guard holds it must go on to, until something else holds; it must have begun, if it is required."""
    d = diagrams
    begun = d.choose(guard, d.leaf(1), d.leaf(0))
    going = d.choose(until, d.leaf(2), d.choose(guard, d.leaf(1), d.leaf(3)))
    steps = (begun, going, d.leaf(2), d.leaf(3))
    good = frozenset({1, 2} if required else {0, 1, 2})
    return Rule(Automaton(d, steps, (RUNNING, RUNNING, RUNNING, REJECTED)), good)


def at_most(diagrams: Diagrams, guard: Diagram, times: int) -> Rule:
    """Fail where a guard becomes true more often than this."""
    counted = moment(diagrams, guard, times + 1)
    outcome = (*counted.outcome[:-1], REJECTED)
    return Rule(Automaton(diagrams, counted.step, outcome), frozenset(range(len(outcome) - 1)))


def whenever(diagrams: Diagrams, condition: Diagram, answer: Diagram) -> Rule:
    """Each time the condition holds, the answer must hold then or later."""
    d = diagrams
    idle = d.choose(answer, d.leaf(0), d.choose(condition, d.leaf(1), d.leaf(0)))
    return Rule(Automaton(d, (idle, d.choose(answer, d.leaf(0), d.leaf(1))), (RUNNING, RUNNING)), frozenset({0}))


def ruled(part: Automaton, rules: Sequence[Rule]) -> Automaton:
    """The part under rules: done when it is done and all rules are satisfied at the moment."""
    diagrams = part.diagrams
    stays = tuple(
        step if o == RUNNING else diagrams.leaf(u)
        for u, (step, o) in enumerate(zip(part.step, part.outcome, strict=True))
    )
    every = [replace(part, step=stays), *(rule.automaton for rule in rules)]
    states: list[tuple[int, ...]] = [(0,) * len(every)]
    number = {states[0]: 0}
    steps, outcome = [], []
    for state in states:
        ends = [one.outcome[u] for one, u in zip(every, state, strict=True)]
        satisfied = all(u in rule.good for rule, u in zip(rules, state[1:], strict=True))
        outcome.append(REJECTED if REJECTED in ends else ACCEPTED if ends[0] == ACCEPTED and satisfied else RUNNING)
        if outcome[-1] != RUNNING:
            steps.append(diagrams.leaf(number[state]))
            continue
        joint = diagrams.combine("tuple", lambda *us: us, *(p.step[u] for p, u in zip(every, state, strict=True)))
        for successor in diagrams.values(joint):
            if successor not in number:
                number[successor] = len(states)
                states.append(successor)
        steps += diagrams.relabel([joint], number.__getitem__)
    return Automaton(diagrams, tuple(steps), tuple(outcome))


def forbid(automaton: Automaton, care: Diagram) -> Automaton:
    """Mark labels outside `care` as impossible, so that guards and states may disregard them."""
    diagrams = automaton.diagrams
    steps = tuple(diagrams.choose(care, step, diagrams.leaf(IMPOSSIBLE)) for step in automaton.step)
    return Automaton(diagrams, steps, automaton.outcome)
