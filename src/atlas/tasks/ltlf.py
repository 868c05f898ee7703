"""LTLf: temporal logic over finite traces, compiled to machines by progression.

Operators: `! & | -> <->`, `X` (next, there must be one), `N` (next, if there is one), `F` (at some point), `G`
(always), `U` (until), `R` (release), `W` (weak until), `M` (strong release), `true`, `false`, `last` (the trace
ends here).

A task is over the moment it is accepted, so formulas are read as co-safe: a trace is accepted as soon as it satisfies
the formula and so does everything that may follow; it is rejected as soon as nothing that may follow can satisfy it.
Formulas that also hold for traces which could still go wrong (`G front_ball`, `last`) get a warning.
"""

import re
import warnings
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from atlas.errors import AtlasError, TaskWarning, fail, nearest
from atlas.tasks.automata import Automaton, Diagram, Diagrams, accepts, forbid, minimise, possible, to_machine
from atlas.tasks.rm import ACCEPTED, REJECTED, RUNNING, RewardMachine
from atlas.vocabulary import Vocabulary

# The text of LTLf formulas. From loosest to tightest: `<->`, `->`, `|`, `&`, then U R W M, then ! X N F G.
#
# `->` and the temporal operators group to the right. Words work too: `not`, `and`, `or`, `implies`, `iff`.

Formula = tuple[Any, ...]
"""`(operator, *arguments)`: prop (an id), true, false, last, not, and, or, implies, iff, X, N, F, G, U, R, W, M."""

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<symbol><->|<=>|->|=>|&&?|\|\|?|!|~|\(|\)|∧|∨|¬|→|↔)|(?P<word>[A-Za-z_][A-Za-z_0-9]*|[01])|(?P<bad>\S))"
)
_SAME: Final = {
    "~": "!", "¬": "!", "not": "!", "&&": "&", "∧": "&", "and": "&", "||": "|", "∨": "|", "or": "|", "=>": "->",
    "→": "->", "implies": "->", "<=>": "<->", "↔": "<->", "iff": "<->", "1": "true", "0": "false", "tt": "true",
    "ff": "false", "WX": "N",
}  # fmt: skip
_UNARY: Final = {"!": "not", "X": "X", "N": "N", "F": "F", "G": "G"}
_BINARY: Final = {
    "<->": (1, "iff"), "->": (2, "implies"), "|": (3, "or"), "&": (4, "and"),
    "U": (5, "U"), "R": (5, "R"), "W": (5, "W"), "M": (5, "M"),
}  # fmt: skip
"""Operator -> how tightly it binds, and its name."""
_RIGHT: Final = frozenset({"implies", "U", "R", "W", "M"})
_CONSTANTS: Final = ("true", "false", "last")


class _Token(NamedTuple):
    text: str
    start: int
    end: int


class _Parser:
    """Precedence climbing over the tokens of one formula."""

    def __init__(self, text: str, ids: dict[str, int]) -> None:
        self.text, self.ids = text, ids
        self.tokens = _tokens(text)
        self.place = 0

    def peek(self) -> _Token:
        return self.tokens[self.place]

    def take(self) -> _Token:
        self.place += 1
        return self.tokens[self.place - 1]

    def expression(self, tightness: int = 1) -> Formula:
        left = self.unary()
        while (operator := self.peek().text) in _BINARY and _BINARY[operator][0] >= tightness:
            self.take()
            level, name = _BINARY[operator]
            left = (name, left, self.expression(level if name in _RIGHT else level + 1))
        return left

    def unary(self) -> Formula:
        token = self.take()
        if token.text in _UNARY:
            return (_UNARY[token.text], self.unary())
        if token.text == "(":
            inside = self.expression()
            if self.peek().text != ")":
                fail(self.text, token.start, token.end, "this bracket is never closed")
            self.take()
            return inside
        if token.text in _CONSTANTS:
            return (token.text,)
        if token.text in self.ids:
            return ("prop", self.ids[token.text])
        return self.unexpected(token)

    def unexpected(self, token: _Token) -> Formula:
        if not token.text:
            fail(self.text, token.start, token.end, "the formula ends where a proposition or an operator is needed")
        if not re.match(r"[A-Za-z_]", token.text) or token.text in _BINARY:
            fail(self.text, token.start, token.end, f"'{token.text}' cannot stand here: a proposition is needed")
        hint = nearest(token.text, self.ids) or "; propositions look like " + ", ".join(list(self.ids)[:3])
        fail(self.text, token.start, token.end, f"'{token.text}' is no proposition{hint}")


def _tokens(text: str) -> list[_Token]:
    tokens = []
    end = len(text.rstrip())
    place = 0
    while place < end:
        match = _TOKEN.match(text, place)
        assert match is not None  # every character is matched by `bad` at the latest
        kind = match.lastgroup or "bad"
        if kind == "bad":
            fail(text, match.start(kind), match.end(kind), f"'{match[kind]}' means nothing in a formula")
        tokens.append(_Token(_SAME.get(match[kind], match[kind]), match.start(kind), match.end(kind)))
        place = match.end()
    return [*tokens, _Token("", end, end + 1)]


def parse(text: str, ids: dict[str, int]) -> Formula:
    """The formula that a text stands for. `ids` maps names of propositions to their ids."""
    parser = _Parser(text, ids)
    formula = parser.expression()
    rest = parser.peek()
    if rest.text:
        fail(text, rest.start, rest.end, f"an operator such as & or U is needed before '{rest.text}'")
    return formula


# LTLf: temporal logic over finite traces, compiled to machines by progression.
#
# Operators: `! & | -> <->`, `X` (next, there must be one), `N` (next, if there is one), `F` (at some point), `G`
# (always), `U` (until), `R` (release), `W` (weak until), `M` (strong release), `true`, `false`, `last` (the trace
# ends here).
#
# A task is over the moment it is accepted, so formulas are read as co-safe: a trace is accepted as soon as it satisfies
# the formula and so does everything that may follow; it is rejected as soon as nothing that may follow can satisfy it.
# Formulas that also hold for traces which could still go wrong (`G front_ball`, `last`) get a warning.

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
