"""LTLf: temporal logic over finite traces, compiled to machines by progression.

Operators: `! & | -> <->`, `X` (next, there must be one), `N` (next, if there is one), `F` (at some point), `G`
(always), `U` (until), `R` (release), `W` (weak until), `M` (strong release), `true`, `false`, `last` (the trace
ends here).

A task is over the moment it is accepted, so formulas are read as co-safe: a trace is accepted as soon as it satisfies
the formula and so does everything that may follow; it is rejected as soon as nothing that may follow can satisfy it.
Formulas that also hold for traces which could still go wrong (`G front_ball`, `last`) get a warning.
"""

import warnings
from collections.abc import Callable

from atlas.errors import AtlasError
from atlas.tasks.automaton import Automaton, accepts, minimise, to_machine
from atlas.tasks.compose import forbid
from atlas.tasks.diagram import Diagram, Diagrams, possible
from atlas.tasks.ltlf_parse import Formula, parse
from atlas.tasks.place import TaskWarning
from atlas.tasks.rm import ACCEPTED, REJECTED, RUNNING, RewardMachine
from atlas.vocabulary import Vocabulary

_END = 1 << 20
"""The variable that asks whether the trace ends with this label: after all propositions, before all obligations."""
_MOST_STATES = 2_000
"""Before minimisation."""


def ltlf(text: str, vocabulary: Vocabulary) -> RewardMachine:
    """The machine of a formula. Exact for all labels, also those that the vocabulary calls impossible."""
    progression = _Progression()
    try:
        automaton = progression.automaton(parse(text, vocabulary.ids))
    except RecursionError:
        raise AtlasError("the formula is nested too deeply: split it into several tasks") from None
    if not accepts(automaton):
        raise AtlasError(
            f"'{text.strip()}' can never be accepted: nothing that happens in finite time settles it for good "
            "(to avoid something until a goal is reached, write U instead of G)"
        )
    for sentence in _doubts(text.strip(), automaton, progression, vocabulary):
        warnings.warn(sentence, TaskWarning, stacklevel=2)
    return to_machine(automaton)


def _doubts(text: str, automaton: Automaton, progression: "_Progression", vocabulary: Vocabulary) -> list[str]:
    doubts = []
    if progression.not_co_safe:
        doubts.append(
            f"'{text}' is not co-safe: it also holds for traces that could still go wrong later; those are not "
            "accepted, only ones after which it holds whatever follows"
        )
    care = possible(progression.diagrams, progression.props, vocabulary.implies, vocabulary.excludes)
    if care != 1 and not accepts(forbid(automaton, care)):
        doubts.append(f"'{text}' can never be accepted: it needs propositions at once that exclude each other")
    return doubts


class _Progression:
    """Formulas as decision diagrams over propositions, then the end of the trace, then what the rest must satisfy.

    A state of the automaton is such a diagram once its propositions are answered: equal obligations are equal
    numbers, whatever they looked like.
    """

    def __init__(self) -> None:
        self.diagrams = Diagrams()
        self.obligations: dict[Formula, int] = {}
        self.formulas: list[Formula] = []
        self.props: set[int] = set()
        self.not_co_safe = False
        self._now: dict[Formula, Diagram] = {}
        self._later: dict[Formula, Diagram] = {}
        self._unfolded: dict[Diagram, Diagram] = {}

    def automaton(self, formula: Formula) -> Automaton:
        """Explore the obligations that labels lead to; decide which are settled; minimise."""
        start = self.now(formula)
        steps: list[Diagram] = []
        states: list[Diagram] = [-1]  # the first stands for the formula itself, before any label
        number: dict[Diagram, int] = {}
        for state in states:
            step = start if state == -1 else self.unfold(state)
            for successor in self.boundary(step):
                if successor not in number:
                    number[successor] = len(states)
                    states.append(successor)
            steps.append(self.to_leaves(step, number))
            if len(states) > _MOST_STATES:
                raise AtlasError(f"the formula leads to more than {_MOST_STATES} states: split it into several tasks")
        return minimise(Automaton(self.diagrams, tuple(steps), tuple(self.outcomes(states, steps))))

    def now(self, formula: Formula) -> Diagram:
        """What the formula asks of the current label and of the rest."""
        if formula not in self._now:
            self._now[formula] = self._expand(formula)
        return self._now[formula]

    def _expand(self, formula: Formula) -> Diagram:
        d, (operator, *arguments) = self.diagrams, formula
        if operator == "prop":
            self.props.add(arguments[0])
            return d.literal(arguments[0])
        if operator == "X":
            return d.node(_END, self.later(arguments[0]), 0)
        if operator == "U":
            left, right = map(self.now, arguments)
            return d.either(right, d.both(left, d.node(_END, self.later(formula), 0)))
        return self._boolean(formula, self.now)

    def later(self, formula: Formula) -> Diagram:
        """What the formula asks of a rest that is not empty, in terms of obligations."""
        if formula not in self._later:
            if formula[0] in ("prop", "X", "U"):
                self._later[formula] = self.diagrams.literal(self._obligation(formula))
            else:
                self._later[formula] = self._boolean(formula, self.later)
        return self._later[formula]

    def _obligation(self, formula: Formula) -> int:
        if formula not in self.obligations:
            self.obligations[formula] = _END + 1 + len(self.formulas)
            self.formulas.append(formula)
        return self.obligations[formula]

    def _boolean(self, formula: Formula, translate: Callable[[Formula], Diagram]) -> Diagram:
        """Connectives, and the operators that are short for others."""
        d, (operator, *arguments) = self.diagrams, formula
        if operator in ("true", "false"):
            return int(operator == "true")
        if operator in _SHORT:
            return translate(_SHORT[operator](*arguments))
        left, *rest = (translate(a) for a in arguments)
        if operator == "not":
            return d.negate(left)
        if operator == "and":
            return d.both(left, rest[0])
        if operator == "or":
            return d.either(left, rest[0])
        if operator == "implies":
            return d.either(d.negate(left), rest[0])
        assert operator == "iff"
        return d.choose(left, rest[0], d.negate(rest[0]))

    def unfold(self, state: Diagram) -> Diagram:
        """What a state asks of the next label: each obligation replaced by what it means there."""
        going_on, _ = self.diagrams.split(state, _END)
        return self._substitute(going_on)

    def _substitute(self, root: Diagram) -> Diagram:
        d = self.diagrams
        if d.is_leaf(root):
            return root
        if root not in self._unfolded:
            meaning = self.now(self.formulas[d.variable[root] - _END - 1])
            self._unfolded[root] = d.choose(meaning, self._substitute(d.high[root]), self._substitute(d.low[root]))
        return self._unfolded[root]

    def boundary(self, step: Diagram) -> list[Diagram]:
        """The states that a step can lead to: what is left below the propositions."""
        d = self.diagrams
        seen: dict[Diagram, None] = {}
        stack = [step]
        while stack:
            root = stack.pop()
            if root not in seen:
                seen[root] = None
                if d.variable[root] < _END:
                    stack += [d.low[root], d.high[root]]
        return [root for root in seen if d.variable[root] >= _END]

    def to_leaves(self, step: Diagram, number: dict[Diagram, int]) -> Diagram:
        """The step with state numbers where the states were."""
        d = self.diagrams
        memo: dict[Diagram, Diagram] = {}

        def walk(root: Diagram) -> Diagram:
            if root not in memo:
                if d.variable[root] >= _END:
                    memo[root] = d.leaf(number[root])
                else:
                    memo[root] = d.node(d.variable[root], walk(d.low[root]), walk(d.high[root]))
            return memo[root]

        return walk(step)

    def outcomes(self, states: list[Diagram], steps: list[Diagram]) -> list[int]:
        """Accepted where the formula holds now and whatever follows, rejected where it never can."""
        holds = [False] + [self.diagrams.split(s, _END)[1] == 1 for s in states[1:]]
        successors = [self.diagrams.values(step) for step in steps]
        settled = _always(holds, successors)
        hopeless = _always([not h for h in holds], successors)
        self.not_co_safe = any(h and not s for h, s in zip(holds, settled, strict=True))
        outcome = [ACCEPTED if s else REJECTED if r else RUNNING for s, r in zip(settled, hopeless, strict=True)]
        return [RUNNING, *outcome[1:]]


_SHORT: dict[str, Callable[..., Formula]] = {
    "last": lambda: ("not", ("X", ("true",))),
    "N": lambda a: ("not", ("X", ("not", a))),
    "F": lambda a: ("U", ("true",), a),
    "G": lambda a: ("not", ("U", ("true",), ("not", a))),
    "R": lambda a, b: ("not", ("U", ("not", a), ("not", b))),
    "W": lambda a, b: ("R", b, ("or", a, b)),
    "M": lambda a, b: ("U", b, ("and", a, b)),
}
"""Operators in terms of X and U."""


def _always(good: list[bool], successors: list[list[int]]) -> list[bool]:
    """In which states a property holds now and for ever."""
    changed = True
    while changed:
        still = [g and all(good[v] for v in successors[u]) for u, g in enumerate(good)]
        changed, good = still != good, still
    return good
