"""LTLf: temporal logic over finite traces, compiled to machines by progression.

Operators, from loosest to tightest: `<->`, `->`, `|`, `&`, then `U` (until), `R` (release), `W` (weak until), `M`
(strong release), then `!`, `X` (next, there must be one), `N` or `WX` (next, if there is one), `F` or `<>` (at some
point), `G` or `[]` (always); and `true`, `false`, `last` (the trace ends here). `->` and the temporal operators group
to the right. Words work too: `not`, `and`, `or`, `implies`, `iff`.

A task is over the moment it is accepted, so formulas are read as co-safe: a trace is accepted as soon as it satisfies
the formula and so does everything that may follow; it is rejected as soon as nothing that may follow can satisfy it.
Formulas that also hold for traces which could still go wrong (`G front_ball`, `last`) get a warning.
"""

import re
import warnings
from collections.abc import Callable
from typing import Any, Final

from atlas.errors import AtlasError, Reader, TaskWarning, nearest
from atlas.tasks import automata
from atlas.tasks.automata import Automaton, Diagram, Diagrams
from atlas.tasks.machine import Task
from atlas.vocabulary import ACCEPTED, REJECTED, RUNNING, Vocabulary

Formula = tuple[Any, ...]
"""`(operator, *arguments)`: prop (an id), true, false, last, not, and, or, implies, iff, X, N, F, G, U, R, W, M."""

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<symbol><->|<=>|<>|\[\]|->|=>|&&?|\|\|?|!|~|\(|\)|∧|∨|¬|→|↔|□|◇)|(?P<word>[A-Za-z_][A-Za-z_0-9]*|[01])|(?P<bad>\S))"
)
_SAME: Final = {
    "~": "!", "¬": "!", "not": "!", "&&": "&", "∧": "&", "and": "&", "||": "|", "∨": "|", "or": "|", "=>": "->",
    "→": "->", "implies": "->", "<=>": "<->", "↔": "<->", "iff": "<->", "1": "true", "0": "false", "tt": "true",
    "ff": "false", "WX": "N", "[]": "G", "□": "G", "<>": "F", "◇": "F",
}  # fmt: skip
_UNARY: Final = {"!": "not", "X": "X", "N": "N", "F": "F", "G": "G"}
_BINARY: Final = {
    "<->": (1, "iff"), "->": (2, "implies"), "|": (3, "or"), "&": (4, "and"),
    "U": (5, "U"), "R": (5, "R"), "W": (5, "W"), "M": (5, "M"),
}  # fmt: skip
"""Operator -> how tightly it binds, and its name."""
_RIGHT: Final = frozenset({"implies", "U", "R", "W", "M"})
_SHORT: Final[dict[str, Callable[..., Formula]]] = {
    "last": lambda: ("not", ("X", ("true",))),
    "N": lambda a: ("not", ("X", ("not", a))),
    "F": lambda a: ("U", ("true",), a),
    "G": lambda a: ("not", ("U", ("true",), ("not", a))),
    "R": lambda a, b: ("not", ("U", ("not", a), ("not", b))),
    "W": lambda a, b: ("R", b, ("or", a, b)),
    "M": lambda a, b: ("U", b, ("and", a, b)),
}
"""Operators in terms of X and U."""
_END: Final = 1 << 20
"""The variable that asks whether the trace ends with this label: after all propositions, before all obligations."""
_MOST_STATES: Final = 2_000
"""Before minimisation."""


@automata.within_bounds
def ltlf(text: str, vocabulary: Vocabulary) -> Task:
    """The task of a formula. Guards leave out what the vocabulary says never happens at once."""
    progression = _Progression()
    automaton = progression.automaton(parse(text, vocabulary))
    text = text.strip()
    if not automaton.can_accept:
        raise AtlasError(
            f"'{text}' can never be accepted: nothing that happens in finite time settles it for good "
            "(to avoid something until a goal is reached, write U instead of G)"
        )
    if progression.not_co_safe:
        warnings.warn(
            f"'{text}' is not co-safe: it also holds for traces that could still go wrong later; those are not "
            "accepted, only ones after which it holds whatever follows",
            TaskWarning,
            stacklevel=2,
        )
    care = automata.possible(progression.diagrams, progression.props, vocabulary)
    if care == 1:
        return automata.to_task(automaton)
    possible = automata.minimise(automata.forbid(automaton, care))
    if not possible.can_accept:
        warnings.warn(
            f"'{text}' can never be accepted: it needs propositions at once that exclude each other",
            TaskWarning,
            stacklevel=2,
        )
        return automata.to_task(automaton)
    return automata.to_task(possible)


def parse(text: str, vocabulary: Vocabulary) -> Formula:
    """The formula that a text stands for."""
    parser = _Parser(text, vocabulary)
    formula = parser.expression()
    if parser.peek():
        hint = _operator_hint(parser.peek())
        parser.fail(f"an operator such as & or U is needed before '{parser.peek()}'" + (f"; {hint}" if hint else ""))
    return formula


class _Parser(Reader):
    """Precedence climbing over the tokens of one formula."""

    def __init__(self, text: str, vocabulary: Vocabulary) -> None:
        super().__init__(text, _TOKEN, "a formula")
        self.tokens = [token._replace(text=_SAME.get(token.text, token.text)) for token in self.tokens]
        self.vocabulary = vocabulary

    def expression(self, tightness: int = 1) -> Formula:
        left = self.unary()
        while self.peek() in _BINARY and _BINARY[self.peek()][0] >= tightness:
            level, name = _BINARY[self.take().text]
            left = (name, left, self.expression(level if name in _RIGHT else level + 1))
        return left

    def unary(self) -> Formula:
        token = self.take()
        if token.text in _UNARY:
            return (_UNARY[token.text], self.unary())
        if token.text == "(":
            inside = self.expression()
            if not self.skip(")"):
                self.fail("this bracket is never closed", token)
            return inside
        if token.text in ("true", "false", "last"):
            return (token.text,)
        if (prop := self.vocabulary.find(token.text)) is not None:
            return ("prop", prop)
        if not token.text:
            self.fail("the formula ends where a proposition or an operator is needed", token)
        if not re.match(r"[A-Za-z_]", token.text) or token.text in _BINARY:
            self.fail(f"'{token.text}' cannot stand here: a proposition is needed", token)
        hint = _operator_hint(token.text) or nearest(token.text.lower(), self.vocabulary.names).removeprefix("; ")
        hint = f"; {hint or 'propositions look like ' + ', '.join(self.vocabulary.names[:3])}"
        return self.fail(f"'{token.text}' is no proposition{hint}", token)


def _operator_hint(word: str) -> str:
    """What to write for an operator in the wrong case or in words; nothing for what is no operator."""
    own = {*_UNARY, *_BINARY, *_SAME, "true", "false", "last"}
    others = {"always": "G", "globally": "G", "eventually": "F", "finally": "F", "next": "X", "until": "U"}
    likely = next((w for w in (word.upper(), word.lower()) if w in own and w != word), others.get(word.lower()))
    return f"did you mean the operator {likely}?" if likely else ""


class _Progression:
    """Formulas as decision diagrams over propositions, then the end of the trace, then what the rest must satisfy.

    A state of the automaton is such a diagram once its propositions are answered: equal obligations are equal
    numbers, whatever they looked like.
    """

    def __init__(self) -> None:
        self.diagrams = Diagrams()
        self.obligations: dict[Formula, int] = {}
        """Formulas that the rest of a trace may have to satisfy, and the variable of each."""
        self.props: set[int] = set()
        self.not_co_safe = False
        self._now: dict[Formula, Diagram] = {}
        self._later: dict[Formula, Diagram] = {}
        self._unfolded: dict[Diagram, Diagram] = {}

    def automaton(self, formula: Formula) -> Automaton:
        """Explore the obligations that labels lead to; decide which are settled; minimise."""
        d = self.diagrams
        states: list[Diagram] = [-1]  # the first stands for the formula itself, before any label
        number: dict[Diagram, int] = {}
        steps: list[Diagram] = []
        start = self.now(formula)
        for state in states:
            step = start if state == -1 else self.unfold(d.split(state, _END)[0])
            for successor in d.values(step, leaves_from=_END):
                if successor not in number:
                    number[successor] = len(states)
                    states.append(successor)
            steps += d.relabel([step], number.__getitem__, leaves_from=_END)
            if len(states) > _MOST_STATES:
                raise AtlasError(f"the formula leads to more than {_MOST_STATES} states: split it into several tasks")
        holds = [False] + [d.split(state, _END)[1] == 1 for state in states[1:]]
        successors = [d.values(step) for step in steps]
        settled, hopeless = _always(holds, successors), _always([not h for h in holds], successors)
        self.not_co_safe = any(h and not s for h, s in zip(holds, settled, strict=True))
        outcome = [ACCEPTED if s else REJECTED if r else RUNNING for s, r in zip(settled, hopeless, strict=True)]
        return automata.minimise(Automaton(d, tuple(steps), (RUNNING, *outcome[1:])))

    def now(self, formula: Formula) -> Diagram:
        """What the formula asks of the current label and of the rest."""
        if formula not in self._now:
            d, (operator, *arguments) = self.diagrams, formula
            if operator == "prop":
                self.props.add(arguments[0])
                found = d.literal(arguments[0])
            elif operator == "X":
                found = d.node(_END, self.later(arguments[0]), 0)
            elif operator == "U":
                left, right = map(self.now, arguments)
                found = d.either(right, d.both(left, d.node(_END, self.later(formula), 0)))
            else:
                found = self.boolean(formula, self.now)
            self._now[formula] = found
        return self._now[formula]

    def later(self, formula: Formula) -> Diagram:
        """What the formula asks of a rest that is not empty, in terms of obligations."""
        if formula not in self._later:
            if formula[0] in ("prop", "X", "U"):
                variable = self.obligations.setdefault(formula, _END + 1 + len(self.obligations))
                self._later[formula] = self.diagrams.literal(variable)
            else:
                self._later[formula] = self.boolean(formula, self.later)
        return self._later[formula]

    def boolean(self, formula: Formula, translate: Callable[[Formula], Diagram]) -> Diagram:
        """Connectives, and the operators that are short for others."""
        d, (operator, *arguments) = self.diagrams, formula
        if operator in ("true", "false"):
            return int(operator == "true")
        if operator in _SHORT:
            return translate(_SHORT[operator](*arguments))
        left, *rest = map(translate, arguments)
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

    def unfold(self, root: Diagram) -> Diagram:
        """What a state asks of the next label: each obligation replaced by what it means there."""
        d = self.diagrams
        if root in (0, 1):
            return root
        if root not in self._unfolded:
            meaning = self.now(list(self.obligations)[d.variable[root] - _END - 1])
            self._unfolded[root] = d.choose(meaning, self.unfold(d.high[root]), self.unfold(d.low[root]))
        return self._unfolded[root]


def _always(good: list[bool], successors: list[list[int]]) -> list[bool]:
    """In which states a property holds now and for ever."""
    while True:
        still = [g and all(good[v] for v in successors[u]) for u, g in enumerate(good)]
        if still == good:
            return good
        good = still
