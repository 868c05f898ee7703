"""Import from HOA: deterministic automata with state-based or transition-based Büchi acceptance.

Such automata judge runs that never end, while a task is over when it is accepted. So a state accepts once every run
from it is accepted, and rejects once none is (a label without an edge ends the run and rejects). Other accepting
runs, which go on for ever without being settled, are not accepted; a warning says so.
"""

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import numpy as np

from atlas.errors import AtlasError, TaskWarning, fail, nearest
from atlas.tasks import hrm, rm
from atlas.tasks.automata import MOST_STATES, Cube, Diagram, Diagrams, build
from atlas.tasks.check import check
from atlas.tasks.english import english
from atlas.tasks.explain import Words, explain, is_prose
from atlas.tasks.flatten import flatten
from atlas.tasks.ltlf import ltlf
from atlas.tasks.names import ACCEPTING_NAME, REJECTING_NAME, literal_names, machine_name
from atlas.tasks.rm import ACCEPT, ACCEPTED, REJECT, REJECTED, RUNNING, UNUSED, RewardMachine, Transition
from atlas.tasks.view import Machine, view
from atlas.vocabulary import Vocabulary

# Tasks as explicit transitions, the shape of the authors' task files:
#
#     root: m0
#     transitions:
#       m0:
#         u0:
#           u1: {reward: 0.0, edges: [{call: leaf, formula: [front_ball]}]}
#           uA: {reward: 1.0, edges: [{call: m1, formula: [front_key, -front_ball]}]}
#       m1: …
#
# `u0` is initial, `uA` accepts, `uR` rejects; `-` negates. Edges to one target share its reward unless they have one of
# their own; without any it is 1 into the root's `uA`, else 0. For a flat task the machine may be left out, and an edge
# may be a proposition, a list of literals (all of them), or a list of such lists (any of them):
#
#     transitions:
#       u0: {u1: front_ball, uA: [front_key, -front_ball]}
#       u1: {uA: [[front_door], [carrying_key, -front_ball]]}

KEYS: Final = ("root", "transitions", "alphabet")
LEAF: Final = "leaf"
"""What an edge calls that calls nothing."""
_TERMINAL: Final = {ACCEPTING_NAME: ACCEPT, REJECTING_NAME: REJECT}


def parse(value: dict[str, Any], vocabulary: Vocabulary) -> Any:
    """A machine or a hierarchy from the mapping that holds `transitions`."""
    machines = _mapping(value["transitions"], "transitions")
    if not machines:
        _fail("transitions", "at least one transition is needed")
    is_short = all(re.fullmatch(r"u(\d+|A|R)", str(name)) for name in machines)
    places = {machine_name(0): "transitions"} if is_short else {name: f"transitions.{name}" for name in machines}
    machines = {machine_name(0): machines} if is_short else machines
    numbers = {_index(name, "m", f"transitions.{name}"): name for name in machines}
    root = _index(value.get("root", machine_name(min(numbers))), "m", "root")
    if root not in numbers:
        _fail("root", f"there is no machine {machine_name(root)}; there are {', '.join(map(str, machines))}")
    lists: list[list[Transition]] = [[] for _ in range(max(numbers) + 1)]
    for number, name in numbers.items():
        lists[number] = list(_machine(machines[name], places[name], number == root, vocabulary))
        _check_calls(lists[number], numbers, places[name])
    if len(numbers) == 1 and all(edge.call == UNUSED for edge in lists[root]):
        return rm.machine(lists[root])
    return hrm.hierarchy(lists, root)


def _check_calls(edges: list[Transition], numbers: dict[int, str], place: str) -> None:
    for edge in edges:
        if edge.call != UNUSED and edge.call not in numbers:
            _fail(place, f"{machine_name(edge.call)} is called, but not described")


def _machine(value: Any, where: str, is_root: bool, vocabulary: Vocabulary) -> Iterator[Transition]:
    for source, targets in _mapping(value, where).items():
        u = _state(source, f"{where}.{source}")
        if u in (ACCEPT, REJECT) and targets:
            _fail(f"{where}.{source}", "nothing follows once a task is accepted or rejected")
        for target, edges in _mapping(targets or {}, f"{where}.{source}").items():
            place = f"{where}.{source}.{target}"
            v = _state(target, place)
            usual = float(v == ACCEPT and is_root)
            for literals, reward, call in _edges(edges, usual, place, vocabulary):
                yield Transition(u, v, literals, reward, call)


def _edges(
    value: Any, usual: float, place: str, vocabulary: Vocabulary
) -> Iterator[tuple[tuple[int, ...], float, int]]:
    """Literals, reward and callee of each edge to one target, in the long form or the short one."""
    if not isinstance(value, dict):
        yield from ((literals, usual, UNUSED) for literals in _formulas(value, place, vocabulary))
        return
    _known_keys(value, ("reward", "edges"), place)
    shared = _reward(value.get("reward", usual), place)
    edges = value.get("edges")
    if not isinstance(edges, list) or not edges:
        _fail(place, "'edges' must be a list of at least one edge")
    for number, edge in enumerate(edges):
        at = f"{place}.edges[{number}]"
        _known_keys(_mapping(edge, at), ("call", "formula", "reward"), at)
        call = edge.get("call", LEAF)
        callee = UNUSED if call == LEAF else _index(call, "m", f"{at}.call")
        for literals in _formulas(edge.get("formula") or [], f"{at}.formula", vocabulary):
            yield literals, _reward(edge.get("reward", shared), at), callee


def _formulas(value: Any, place: str, vocabulary: Vocabulary) -> list[tuple[int, ...]]:
    """One conjunction, or several where a list of lists is given."""
    if isinstance(value, str):
        return [(_literal(value, place, vocabulary),)]
    if not isinstance(value, list):
        _fail(place, "a proposition, a list of literals, or a mapping with 'reward' and 'edges' is needed")
    if value and all(isinstance(part, list) for part in value):
        return [formula for i, part in enumerate(value) for formula in _formulas(part, f"{place}[{i}]", vocabulary)]
    return [tuple(_literal(part, place, vocabulary) for part in value)]


def _literal(value: Any, place: str, vocabulary: Vocabulary) -> int:
    if not isinstance(value, str):
        _fail(place, f"{value!r} is no literal: the name of a proposition is needed, with '-' before it to negate it")
    name = value.strip().lstrip("-~!").strip()
    if name not in vocabulary.ids:
        _fail(place, f"'{name}' is no proposition{nearest(name, vocabulary.names)}")
    return (vocabulary.ids[name] + 1) * (-1 if value.strip()[0] in "-~!" else 1)


def _state(name: Any, place: str) -> int:
    return _TERMINAL[name] if name in _TERMINAL else _index(name, "u", place, "uA or uR")


def _index(name: Any, letter: str, place: str, others: str = "") -> int:
    match = re.fullmatch(rf"{letter}(\d+)", str(name))
    if not match:
        _fail(
            place, f"'{name}' is no name: {' or '.join(filter(None, [f'{letter}0, {letter}1, …', others]))} is needed"
        )
    if int(match[1]) >= MOST_STATES - 2:
        _fail(place, f"{name} is too large a number: at most {letter}{MOST_STATES - 3} is possible")
    return int(match[1])


def _reward(value: Any, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        _fail(place, f"the reward {value!r} is no number")
    return float(value)


def _mapping(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        _fail(place, "a mapping is needed")
    return value


def _known_keys(value: dict[str, Any], known: tuple[str, ...], place: str) -> None:
    for key in value:
        if key not in known:
            _fail(place, f"'{key}' is not known here{nearest(str(key), known) or '; known: ' + ', '.join(known)}")


def _fail(place: str, sentence: str) -> NoReturn:
    raise AtlasError(f"{place}: {sentence}")


def to_plain(task: Any, vocabulary: Vocabulary) -> dict[str, Any]:
    """The task as a mapping that YAML can hold and `parse` reads back: same states, rewards and calls."""
    seen = view(task)
    return {
        "root": machine_name(seen.root),
        "transitions": {machine_name(m): _plain_machine(x, vocabulary) for m, x in enumerate(seen.machines)},
    }


def _plain_machine(machine: Machine, vocabulary: Vocabulary) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for edge in machine.edges:
        targets = plain.setdefault(machine.name(edge.source), {})
        target = targets.setdefault(machine.name(edge.target), {"reward": edge.reward, "edges": []})
        call = LEAF if edge.call == UNUSED else machine_name(edge.call)
        entry: dict[str, Any] = {"call": call, "formula": literal_names(edge.literals, vocabulary.names)}
        if edge.reward != target["reward"]:
            entry["reward"] = edge.reward
        target["edges"].append(entry)
    return plain


def to_short(task: Any, vocabulary: Vocabulary) -> dict[str, Any] | None:
    """The short form of a flat task with the usual rewards, else None."""
    seen = view(task)
    machine = seen.machines[0]
    if not seen.is_flat or any(e.reward != float(machine.outcome[e.target] == ACCEPTED) for e in machine.edges):
        return None
    plain: dict[str, dict[str, Any]] = {}
    for edge in machine.edges:
        formulas = plain.setdefault(machine.name(edge.source), {}).setdefault(machine.name(edge.target), [])
        formulas.append(literal_names(edge.literals, vocabulary.names))
    for targets in plain.values():
        for target, formulas in targets.items():
            if len(formulas) == 1:
                targets[target] = formulas[0][0] if len(formulas[0]) == 1 else formulas[0]
    return {"transitions": plain}


# Tasks in problem files: a text is English; a mapping says `english: …`, `ltlf: …` or `transitions: …`.

_KINDS: Final = ("english", "ltlf", "transitions")


def parse_task(value: Any, vocabulary: Vocabulary) -> Any:
    """The machine or hierarchy that a YAML value describes.

    Refused: what cannot be read, cyclic calls, acceptance that no path leads to. Everything doubtful (guards that can
    hold at once or never, formulas that are not co-safe) is a `TaskWarning`.
    """
    if isinstance(value, str):
        return english(value, vocabulary)
    if not isinstance(value, dict):
        raise AtlasError("a task must be a sentence, or a mapping with one of " + ", ".join(_KINDS))
    kind = _kind(value)
    if kind == "transitions":
        return _checked(parse(value, vocabulary), vocabulary)
    if not isinstance(value[kind], str):
        raise AtlasError(f"{kind}: a text is needed")
    return (english if kind == "english" else ltlf)(value[kind], vocabulary)


def _checked(task: Any, vocabulary: Vocabulary) -> Any:
    """The task, if every machine has a path to acceptance; what else is odd about it becomes warnings."""
    seen = view(task)
    for number, machine in enumerate(seen.machines):
        if machine.edges and not machine.can_accept:
            name = "" if seen.is_flat else f"{machine_name(number)}: "
            raise AtlasError(f"{name}no path leads from u0 to uA, so the task could never be accepted")
    for finding in check(task, vocabulary):
        warnings.warn(finding.sentence, TaskWarning, stacklevel=3)
    return task


def _kind(value: dict[str, Any]) -> str:
    known = (*_KINDS, *KEYS)
    for key in value:
        if key not in known:
            raise AtlasError(
                f"'{key}' is not a key of a task{nearest(str(key), known) or '; known: ' + ', '.join(known)}"
            )
    kinds = [key for key in _KINDS if key in value]
    if len(kinds) != 1:
        raise AtlasError(f"a task needs one of {', '.join(_KINDS)}; here are {' and '.join(kinds) or 'none'}")
    return kinds[0]


def task_to_plain(task: Any, vocabulary: Vocabulary) -> dict[str, Any]:
    """The task as explicit transitions that YAML can hold: same states, rewards and calls when read back."""
    return to_plain(task, vocabulary)


def format_task(task: Any, vocabulary: Vocabulary) -> Any:
    """The shortest value that is read back as the same task: a sentence, short transitions, or explicit ones."""
    text = explain(task, vocabulary)
    if is_prose(text) and view(english(text, vocabulary)) == view(task):
        return text
    return to_short(task, vocabulary) or to_plain(task, vocabulary)


# Export to DOT, which Graphviz draws.

_SHAPES: Final = {
    RUNNING: "",
    ACCEPTED: ", shape=doublecircle, color=darkgreen",
    REJECTED: ", shape=doublecircle, color=red",
}


def to_dot(task: Any, vocabulary: Vocabulary) -> str:
    """The task as a graph for Graphviz: a cluster a machine, words as tooltips."""
    seen = view(task)
    words = Words(vocabulary)
    lines = ["digraph task {", "  rankdir=LR;", '  node [shape=circle, fontname="sans-serif"];']
    lines.append('  edge [fontname="sans-serif", fontsize=10];')
    for number, machine in enumerate(seen.machines):
        inside = "" if seen.is_flat else "  "
        if not seen.is_flat:
            root = " (root)" if number == seen.root else ""
            lines += [f"  subgraph cluster_{number} {{", f'    label="{machine_name(number)}{root}";']
        lines += [f"  {inside}{line}" for line in _machine_dot(number, machine, vocabulary, words)]
        lines += [] if seen.is_flat else ["  }"]
    return "\n".join([*lines, "}"]) + "\n"


def _machine_dot(number: int, machine: Machine, vocabulary: Vocabulary, words: Words) -> list[str]:
    lines = [f'start_{number} [shape=point, label=""];', f"start_{number} -> {_node(number, 0)};"]
    for u, outcome in machine.outcome.items():
        lines.append(f'{_node(number, u)} [label="{machine.name(u)}"{_SHAPES[outcome]}];')
    for edge in machine.edges:
        ends = f"{_node(number, edge.source)} -> {_node(number, edge.target)}"
        tip = words.guard(edge.literals)
        lines.append(f'{ends} [label="{_label(edge, vocabulary)}", tooltip="{tip}", labeltooltip="{tip}"];')
    return lines


def _node(machine: int, state: int) -> str:
    return f"m{machine}_u{state}"


def _label(edge: Transition, vocabulary: Vocabulary) -> str:
    names = [name.replace("-", "¬") for name in literal_names(edge.literals, vocabulary.names)]
    text = "\\n".join(names) or "true"
    if edge.call != UNUSED:
        text = f"{machine_name(edge.call)} | {text}"
    return text + (f"\\n/ {np.float32(edge.reward):g}" if edge.reward else "")


# Export to HOA (Hanoi omega-automata, version 1), which other tools read.
#
# There a task is a deterministic, complete Büchi automaton: staying is an edge, acceptance a marked state that is never
# left. Rewards have no place in HOA; a header of our own lists them, which other tools skip. Hierarchies are flattened.

REWARDS = "atlas-rewards"
"""The header that lists the reward of each edge that leaves a running state, in the order of the body."""


def to_hoa(task: Any, vocabulary: Vocabulary, name: str = "") -> str:
    """The task as an automaton in HOA."""
    machine = view(task if isinstance(hrm.old(task), RewardMachine) else flatten(task)).machines[0]
    props = sorted({abs(x) - 1 for edge in machine.edges for x in edge.literals})
    states = machine.reachable()
    body: list[str] = []
    rewards: list[float] = []
    for number, u in enumerate(states):
        mark = " {0}" if machine.outcome[u] == ACCEPTED else ""
        body.append(f'State: {number} "{machine.name(u)}"{mark}')
        for label, target, reward in _hoa_edges(machine, u, props):
            body.append(f"[{label}] {states.index(target)}")
            rewards += [reward] * (machine.outcome[u] == RUNNING)
    return "\n".join([*_header(name, states, props, rewards, vocabulary), "--BODY--", *body, "--END--"]) + "\n"


def _header(name: str, states: list[int], props: list[int], rewards: list[float], vocabulary: Vocabulary) -> list[str]:
    quoted = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return [
        "HOA: v1",
        *([f'name: "{quoted}"'] if name else []),
        f"States: {len(states)}",
        "Start: 0",
        " ".join([f"AP: {len(props)}", *(f'"{vocabulary.names[p]}"' for p in props)]),
        "acc-name: Buchi",
        "Acceptance: 1 Inf(0)",
        "properties: trans-labels explicit-labels state-acc deterministic complete",
        " ".join([f"{REWARDS}:", *(f'"{np.float32(r)}"' for r in rewards)]),
    ]


def _hoa_edges(machine: Machine, u: int, props: list[int]) -> list[tuple[str, int, float]]:
    """Label, target and reward of each edge, made to exclude each other; then the loop of staying."""
    if machine.outcome[u] != RUNNING:
        return [("t", u, 0.0)]
    diagrams = Diagrams()
    left: Diagram = 1
    labels: dict[tuple[int, float], Diagram] = {}
    for edge in machine.leaving(u):
        guard = diagrams.conjunction(edge.literals)
        ends = (edge.target, edge.reward)
        labels[ends] = diagrams.either(labels.get(ends, 0), diagrams.both(guard, left))
        left = diagrams.both(left, diagrams.negate(guard))
    labels[u, 0.0] = diagrams.either(labels.pop((u, 0.0), 0), left)
    return [
        (_label_hoa(diagrams.cover(label, label), props), target, reward)
        for (target, reward), label in labels.items()
        if label
    ]


def _label_hoa(cubes: list[Cube], props: list[int]) -> str:
    conjunctions = [
        "&".join(("" if x > 0 else "!") + str(props.index(abs(x) - 1)) for x in cube) or "t" for cube in cubes
    ]
    return " | ".join(conjunctions)


# Import from HOA: deterministic automata with state-based or transition-based Büchi acceptance.
#
# Such automata judge runs that never end, while a task is over when it is accepted. So a state accepts once every run
# from it is accepted, and rejects once none is (a label without an edge ends the run and rejects). Other accepting
# runs, which go on for ever without being settled, are not accepted; a warning says so.

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
    return _machine_hoa_read(reader)


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


def _machine_hoa_read(reader: _Reader) -> RewardMachine:
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
