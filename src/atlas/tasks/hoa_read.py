"""Import from HOA: deterministic automata with state-based or transition-based Büchi acceptance.

Such automata judge runs that never end, while a task is over when it is accepted. So a state accepts once every run
from it is accepted, and rejects once none is (a label without an edge ends the run and rejects). Other accepting
runs, which go on for ever without being settled, are not accepted; a warning says so.
"""

import re
import warnings
from dataclasses import dataclass, field
from typing import Final, NoReturn

from atlas.errors import AtlasError, nearest
from atlas.tasks.automaton import build
from atlas.tasks.diagram import Diagram, Diagrams
from atlas.tasks.hoa import REWARDS
from atlas.tasks.place import TaskWarning, fail
from atlas.tasks.rm import ACCEPT, ACCEPTED, REJECT, REJECTED, RUNNING, RewardMachine, Transition
from atlas.vocabulary import Vocabulary

_TOKEN: Final = re.compile(
    r"\s*(?:/\*.*?\*/\s*)*(?:(?P<string>\"(?:\\.|[^\"\\])*\")|(?P<mark>--[A-Z]+--)|(?P<header>[A-Za-z_][\w-]*:)"
    r"|(?P<int>\d+)|(?P<word>@?[A-Za-z_][\w-]*)|(?P<sign>[\[\](){}&|!]))",
    re.DOTALL,
)


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


@dataclass
class _Edge:
    label: Diagram
    target: int
    marked: bool


@dataclass
class _State:
    marked: bool
    edges: list[_Edge] = field(default_factory=list)


def from_hoa(text: str, vocabulary: Vocabulary) -> RewardMachine:
    """The task that an automaton stands for. Rewards are 1 into acceptance unless our own header says otherwise."""
    reader = _Reader(text, vocabulary)
    reader.header()
    reader.body()
    return _machine(reader)


class _Reader:
    """A place in the tokens of a HOA text, and what was read so far."""

    def __init__(self, text: str, vocabulary: Vocabulary) -> None:
        self.text, self.vocabulary = text, vocabulary
        self.tokens = _tokens(text)
        self.place = 0
        self.diagrams = Diagrams()
        self.props: list[int] = []
        self.aliases: dict[str, Diagram] = {}
        self.start: int | None = None
        self.states: dict[int, _State] = {}
        self.rewards: list[float] | None = None
        self.always: bool | None = None
        """Whether the acceptance is `t` or `f`, which hold for every run and none."""

    def peek(self) -> _Token:
        return self.tokens[self.place]

    def take(self, text: str | None = None, kind: str | None = None) -> _Token:
        token = self.peek()
        if (text is not None and token.text != text) or (kind is not None and token.kind != kind):
            self.fail(f"{text or {'int': 'a number', 'string': 'a quoted name'}.get(kind or '', kind)} is needed here")
        self.place += 1
        return token

    def fail(self, sentence: str) -> NoReturn:
        fail(self.text, self.peek().start, self.peek().end, sentence)

    def header(self) -> None:
        self.take("HOA:")
        if self.take().text != "v1":
            self.place -= 1
            self.fail("only version v1 of HOA is understood")
        while self.peek().text != "--BODY--":
            name = self.take(kind="header").text
            self.item(name)
            while self.peek().kind not in ("header", "mark", "end"):
                self.place += 1
            if self.peek().kind == "end":
                self.fail("--BODY-- is missing")
        self.place += 1

    def item(self, name: str) -> None:
        if name == "Start:":
            if self.start is not None:
                self.fail("several initial states: only one is possible")
            self.start = int(self.take(kind="int").text)
            if self.peek().text == "&":
                self.fail("alternating automata are not understood: one initial state is needed")
        elif name == "AP:":
            for _ in range(int(self.take(kind="int").text)):
                self.props.append(self.proposition())
        elif name == "Alias:":
            alias = self.take(kind="word").text
            self.aliases[alias] = self.label()
        elif name == "Acceptance:":
            self.acceptance()
        elif name == f"{REWARDS}:":
            self.rewards = []
            while self.peek().kind == "string":
                self.rewards.append(float(self.take().text.strip('"')))
        elif name[0].isupper() and name != "States:":
            self.place -= 1
            self.fail(f"the header {name[:-1]} is not understood, and may not be skipped")

    def proposition(self) -> int:
        name = self.peek().text.strip('"')
        if name not in self.vocabulary.ids:
            self.fail(f"'{name}' is no proposition{nearest(name, self.vocabulary.names)}")
        self.take(kind="string")
        return self.vocabulary.ids[name]

    def acceptance(self) -> None:
        start = self.place
        sets = int(self.take(kind="int").text)
        formula = ""
        while self.peek().kind not in ("header", "mark", "end"):
            formula += self.take().text
        if formula in ("t", "f"):
            self.always = formula == "t"
        elif (sets, formula) != (1, "Inf(0)"):
            self.place = start
            self.fail("this acceptance is not understood; 'Acceptance: 1 Inf(0)' (Büchi), '0 t' or '0 f' is needed")

    def label(self) -> Diagram:
        """A disjunction."""
        result = self.conjunction()
        while self.peek().text == "|":
            self.take()
            result = self.diagrams.either(result, self.conjunction())
        return result

    def conjunction(self) -> Diagram:
        result = self.atom()
        while self.peek().text == "&":
            self.take()
            result = self.diagrams.both(result, self.atom())
        return result

    def atom(self) -> Diagram:
        token = self.take()
        if token.text == "!":
            return self.diagrams.negate(self.atom())
        if token.text == "(":
            inside = self.label()
            self.take(")")
            return inside
        if token.text in ("t", "f"):
            return int(token.text == "t")
        if token.text in self.aliases:
            return self.aliases[token.text]
        if token.kind == "int" and int(token.text) < len(self.props):
            return self.diagrams.literal(self.props[int(token.text)])
        self.place -= 1
        return self.fail(f"'{token.text}' is no label: t, f, an alias or 0 to {len(self.props) - 1} is needed")

    def body(self) -> None:
        while self.peek().text == "State:":
            self.take()
            shared = self.bracketed()
            number = int(self.take(kind="int").text)
            if self.peek().kind == "string":
                self.take()
            state = self.states[number] = _State(marked=self.marks())
            while self.peek().text not in ("State:", "--END--", ""):
                self.edge(state, shared)
        self.take("--END--")

    def edge(self, state: _State, shared: Diagram | None) -> None:
        label = self.bracketed()
        if label is None:
            label = self.implicit(len(state.edges)) if shared is None else shared
        target = int(self.take(kind="int").text)
        if self.peek().text == "&":
            self.fail("alternating automata are not understood: one target is needed")
        taken = _Edge(label, target, self.marks() or state.marked)
        if any(self.diagrams.both(label, e.label) and e.target != target for e in state.edges):
            self.fail("the automaton is not deterministic: this edge and an earlier one hold for the same label")
        state.edges.append(taken)

    def bracketed(self) -> Diagram | None:
        if self.peek().text != "[":
            return None
        self.take()
        label = self.label()
        self.take("]")
        return label

    def implicit(self, number: int) -> Diagram:
        """The label of an edge that has none written: the edges stand for all labels in turn."""
        return self.diagrams.conjunction(p + 1 if number >> i & 1 else -p - 1 for i, p in enumerate(self.props))

    def marks(self) -> bool:
        if self.peek().text != "{":
            return False
        self.take()
        found = False
        while self.peek().kind == "int":
            found = self.take().text == "0" or found
        self.take("}")
        return found


def _tokens(text: str) -> list[_Token]:
    tokens = []
    place, end = 0, len(text.rstrip())
    while place < end:
        match = _TOKEN.match(text, place)
        if match is None:
            start = place + len(text[place:]) - len(text[place:].lstrip())
            fail(text, start, start + 1, f"'{text[start]}' means nothing in HOA")
        kind = match.lastgroup or ""
        tokens.append(_Token(kind, match[kind], match.start(kind), match.end(kind)))
        place = match.end()
    return [*tokens, _Token("end", "", end, end + 1)]


def _machine(reader: _Reader) -> RewardMachine:
    if reader.start is None:
        raise AtlasError("the automaton has no initial state: a header 'Start: 0' is needed")
    for state in reader.states.values():
        for edge in state.edges:
            if edge.target not in reader.states:
                raise AtlasError(f"an edge leads to state {edge.target}, which is not described")
    if reader.start not in reader.states:
        raise AtlasError(f"the initial state {reader.start} is not described")
    outcome = _outcomes(reader)
    if outcome[reader.start] == ACCEPTED:
        return build([Transition(0, ACCEPT, (), 1.0)])
    if outcome[reader.start] == REJECTED or ACCEPTED not in outcome.values():
        raise AtlasError("the automaton never settles that a run is accepted, so the task could never be accepted")
    order = [reader.start, *(u for u in sorted(reader.states) if u != reader.start)]
    number = {u: {ACCEPTED: ACCEPT, REJECTED: REJECT}.get(outcome[u], n) for n, u in enumerate(order)}
    return build(_transitions(reader, order, number, outcome))


def _outcomes(reader: _Reader) -> dict[int, int]:
    """What is settled in each state."""
    states, d = reader.states, reader.diagrams
    complete = {u: _union(d, s) == 1 for u, s in states.items()}
    always = reader.always
    marked = {u: always is not False and all(e.marked or always for e in s.edges) for u, s in states.items()}
    good = _always({u: complete[u] and marked[u] for u in states}, states)
    hopeful = {u for u in states if any(_can_loop(v, states, always) for v in _reach(u, states))}
    if any(u not in good for u in hopeful if _can_loop(u, states, always)):
        warnings.warn("some runs are accepted only because they never end; those are not accepted", TaskWarning, 3)
    return {u: ACCEPTED if u in good else RUNNING if u in hopeful else REJECTED for u in states}


def _union(diagrams: Diagrams, state: _State) -> Diagram:
    result = 0
    for edge in state.edges:
        result = diagrams.either(result, edge.label)
    return result


def _always(holds: dict[int, bool], states: dict[int, _State]) -> set[int]:
    """States where something holds on every run, now and for ever."""
    good = {u for u in states if holds[u]}
    while True:
        still = {u for u in good if all(e.target in good for e in states[u].edges)}
        if still == good:
            return good
        good = still


def _reach(start: int, states: dict[int, _State]) -> set[int]:
    found, agenda = {start}, [start]
    while agenda:
        new = {e.target for e in states[agenda.pop()].edges if e.label} - found
        found |= new
        agenda += new
    return found


def _can_loop(u: int, states: dict[int, _State], always: bool | None) -> bool:
    """Whether a run can take an accepting edge out of this state again and again."""
    if always is False:
        return False
    return any((e.marked or always) and e.label and u in _reach(e.target, states) for e in states[u].edges)


def _transitions(
    reader: _Reader, order: list[int], number: dict[int, int], outcome: dict[int, int]
) -> list[Transition]:
    rewards = iter(reader.rewards or [])
    edges: list[Transition] = []
    for u in order:
        if outcome[u] != RUNNING:
            continue
        state = reader.states[u]
        for edge in state.edges:
            reward = next(rewards, float(outcome[edge.target] == ACCEPTED))
            if edge.target != u or reward != 0:
                cubes = reader.diagrams.cover(edge.label, edge.label)
                edges += [Transition(number[u], number[edge.target], cube, reward) for cube in cubes]
        dead = reader.diagrams.negate(_union(reader.diagrams, state))
        edges += [Transition(number[u], REJECT, cube) for cube in reader.diagrams.cover(dead, dead)]
    return edges
