"""Tasks in files: YAML values, DOT for Graphviz and HOA, all of them both ways.

In YAML a text is English, and a mapping says `english: …`, `ltlf: …` or `transitions: …`. Explicit transitions have the
shape of the authors' task files:

    root: m0
    transitions:
      m0:
        u0:
          u1: {reward: 0.0, edges: [{call: leaf, formula: [front_ball]}]}
          uA: {reward: 1.0, edges: [{call: m1, formula: [front_key, -front_ball]}]}
      m1: …

`u0` is initial, `uA` accepts, `uR` rejects; `-` negates. Edges to one target share its reward unless they have one of
their own; without any it is 1 into the root's `uA`, else 0. For a flat task the machine may be left out, and an edge
may be a proposition, a list of literals (all of them), or a list of such lists (any of them):

    transitions:
      u0: {u1: front_ball, uA: [front_key, -front_ball]}
      u1: {uA: [[front_door], [carrying_key, -front_ball]]}
"""

import functools
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import numpy as np

from atlas.errors import AtlasError, Reader, TaskWarning, nearest
from atlas.tasks.automata import Diagram, Diagrams, machine_without_gaps, within_bounds
from atlas.tasks.check import check
from atlas.tasks.english import english
from atlas.tasks.english.phrases import Words
from atlas.tasks.explain import explain, is_prose
from atlas.tasks.ltlf import ltlf
from atlas.tasks.machine import (
    ACCEPT,
    MAX_STATES,
    NO_CALL,
    REJECT,
    Edge,
    Task,
    flat_task,
    hierarchy,
    literal_names,
    machine,
    machine_name,
)
from atlas.vocabulary import ACCEPTED, REJECTED, RUNNING, Vocabulary

TASK_KEYS: Final = ("english", "ltlf", "transitions")
"""How a task can be written; one of them is needed."""
_KEYS: Final = (*TASK_KEYS, "root", "alphabet")
_LEAF: Final = "leaf"
"""Stands for the callee of an edge that calls no machine."""


def parse_task(value: Any, vocabulary: Vocabulary, things: Sequence[str] | None = None) -> Task:
    """The task that a YAML value describes. `things`: what is in the level, for `all` and `every`.

    Refused: what cannot be read, cyclic calls, acceptance of the root that no path leads to. Everything doubtful
    (guards that can hold at once or never, machines that never return, formulas that are not co-safe) is a
    `TaskWarning`.
    """
    if isinstance(value, str):
        return english(value, vocabulary, things)
    if not isinstance(value, dict):
        raise AtlasError("a task must be a sentence, or a mapping with one of " + ", ".join(TASK_KEYS))
    for key in value:
        if key not in _KEYS:
            known = nearest(str(key), _KEYS) or "; known: " + ", ".join(_KEYS)
            raise AtlasError(f"'{key}' is not a key of a task{known}")
    kinds = [key for key in TASK_KEYS if key in value]
    if len(kinds) != 1:
        raise AtlasError(f"a task needs one of {', '.join(TASK_KEYS)}; here are {' and '.join(kinds) or 'none'}")
    (kind,) = kinds
    if kind == "transitions":
        return _transitions(value, vocabulary)
    if not isinstance(value[kind], str):
        raise AtlasError(f"{kind}: a text is needed")
    return ltlf(value[kind], vocabulary) if kind == "ltlf" else english(value[kind], vocabulary, things)


def format_task(task: Task, vocabulary: Vocabulary) -> Any:
    """The shortest value that is read back as the same task: a sentence, short transitions, or explicit ones."""

    def named(task: Task) -> list[Any]:
        return [(one.edges, [one.name(u) for u in one.states]) for one in task.machines]

    text = explain(task, vocabulary)
    if is_prose(text) and named(english(text, vocabulary)) == named(task):
        return text
    return _to_short(task, vocabulary) or to_plain(task, vocabulary)


def to_plain(task: Task, vocabulary: Vocabulary) -> dict[str, Any]:
    """The task as explicit transitions that YAML can hold: same states, rewards and calls when read back."""
    machines: dict[str, Any] = {}
    for m, one in enumerate(task.machines):
        plain = machines[machine_name(m)] = dict[str, Any]()
        for edge in one.edges:
            targets = plain.setdefault(one.name(edge.source), {})
            target = targets.setdefault(one.name(edge.target), {"reward": edge.reward, "edges": []})
            call = _LEAF if edge.call == NO_CALL else machine_name(edge.call)
            entry: dict[str, Any] = {"call": call, "formula": literal_names(edge.literals, vocabulary.names)}
            if edge.reward != target["reward"]:
                entry["reward"] = edge.reward
            target["edges"].append(entry)
    return {"root": machine_name(task.root), "transitions": machines}


def _to_short(task: Task, vocabulary: Vocabulary) -> dict[str, Any] | None:
    """The short form of a flat task with the usual rewards, else None."""
    one = task.machines[0]
    if not task.is_flat or any(edge.reward != one.usual_reward(edge) for edge in one.edges):
        return None
    plain: dict[str, dict[str, Any]] = {}
    for edge in one.edges:
        formulas = plain.setdefault(one.name(edge.source), {}).setdefault(one.name(edge.target), [])
        formulas.append(literal_names(edge.literals, vocabulary.names))
    for targets in plain.values():
        for target, formulas in targets.items():
            if len(formulas) == 1:
                targets[target] = formulas[0][0] if len(formulas[0]) == 1 else formulas[0]
    return {"transitions": plain}


# Explicit transitions


def draft(value: dict[str, Any], vocabulary: Vocabulary) -> Task:
    """The machines of explicit transitions, whether or not they can ever accept: what is drawn while it is made."""
    machines = _mapping(value["transitions"], "transitions")
    if not machines:
        _fail("transitions", "at least one transition is needed")
    places = {name: f"transitions.{name}" for name in machines}
    if all(re.fullmatch(r"u([0-9]+|A|R)", str(name)) for name in machines):
        machines, places = {machine_name(0): machines}, {machine_name(0): "transitions"}
    numbers = {_index(name, "m", f"transitions.{name}"): name for name in machines}
    root = _index(value.get("root", machine_name(min(numbers))), "m", "root")
    if root not in numbers:
        _fail("root", f"there is no machine {machine_name(root)}; there are {', '.join(map(str, machines))}")
    lists: list[list[Edge]] = [[] for _ in range(max(numbers) + 1)]
    for number, name in numbers.items():
        lists[number] = list(_edges(machines[name], places[name], number == root, vocabulary))
        for edge in lists[number]:
            if edge.call != NO_CALL and edge.call not in numbers:
                _fail(places[name], f"{machine_name(edge.call)} is called, but not described")
    if len(numbers) == 1 and all(edge.call == NO_CALL for edge in lists[root]):
        lists, root = [lists[root]], 0
    return hierarchy([machine(edges) for edges in lists], root)


def _transitions(value: dict[str, Any], vocabulary: Vocabulary) -> Task:
    task = draft(value, vocabulary)
    numbers = {m for m, one in enumerate(task.machines) if one.edges or m in task.called}
    if task.root not in task.can_accept:
        needed = [m for m in (*task.called, task.root) if not task.machines[m].can_accept(numbers)]
        name = "" if task.is_flat else f"{machine_name(min(needed))}: "
        raise AtlasError(f"{name}no path leads from u0 to uA, so the task could never be accepted")
    for number in sorted(numbers - task.can_accept) if not task.is_flat else ():
        sentence = f"{machine_name(number)}: no path leads from u0 to uA, so a call of it never returns"
        warnings.warn(sentence, TaskWarning, stacklevel=3)
    for finding in check(task, vocabulary):
        warnings.warn(finding.sentence, TaskWarning, stacklevel=3)
    return task


def _edges(value: Any, where: str, is_root: bool, vocabulary: Vocabulary) -> Iterator[Edge]:
    """The edges of one machine, in the long form or the short one."""

    def state(name: Any, place: str) -> int:
        return {"uA": ACCEPT, "uR": REJECT}[name] if name in ("uA", "uR") else _index(name, "u", place, "uA or uR")

    def reward(value: Any, place: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            _fail(place, f"the reward {value!r} is no number")
        return float(value)

    for source, targets in _mapping(value, where).items():
        u = state(source, f"{where}.{source}")
        if u in (ACCEPT, REJECT) and targets:
            _fail(f"{where}.{source}", "nothing follows once a task is accepted or rejected")
        for target, edges in _mapping(targets or {}, f"{where}.{source}").items():
            place = f"{where}.{source}.{target}"
            v = state(target, place)
            usual = float(v == ACCEPT and is_root)
            if not isinstance(edges, dict):
                yield from (Edge(u, v, literals, usual) for literals in _formulas(edges, place, vocabulary))
                continue
            _known_keys(edges, ("reward", "edges"), place)
            shared = reward(edges.get("reward", usual), place)
            entries = edges.get("edges")
            if not isinstance(entries, list) or not entries:
                _fail(place, "'edges' must be a list of at least one edge")
            for number, entry in enumerate(entries):
                at = f"{place}.edges[{number}]"
                _known_keys(_mapping(entry, at), ("call", "formula", "reward"), at)
                call = entry.get("call", _LEAF)
                callee = NO_CALL if call == _LEAF else _index(call, "m", f"{at}.call")
                for literals in _formulas(entry.get("formula") or [], f"{at}.formula", vocabulary):
                    yield Edge(u, v, literals, reward(entry.get("reward", shared), at), callee)


def _formulas(value: Any, place: str, vocabulary: Vocabulary) -> list[tuple[int, ...]]:
    """One conjunction, or several where a list of lists is given."""

    def literal(text: Any) -> int:
        if not isinstance(text, str):
            _fail(
                place, f"{text!r} is no literal: the name of a proposition is needed, with '-' before it to negate it"
            )
        name = text.strip().lstrip("-~!").strip()
        prop = vocabulary.find(name)
        if prop is None:
            _fail(place, f"'{name}' is no proposition{nearest(name, vocabulary.names)}")
        return (prop + 1) * (-1 if text.strip()[0] in "-~!" else 1)

    if isinstance(value, str):
        return [(literal(value),)]
    if not isinstance(value, list):
        _fail(place, "a proposition, a list of literals, or a mapping with 'reward' and 'edges' is needed")
    if value and all(isinstance(part, list) for part in value):
        return [formula for i, part in enumerate(value) for formula in _formulas(part, f"{place}[{i}]", vocabulary)]
    return [tuple(map(literal, value))]


def _index(name: Any, letter: str, place: str, others: str = "") -> int:
    match = re.fullmatch(rf"{letter}(0|[1-9][0-9]*)", str(name))
    if not match:
        known = " or ".join(filter(None, [f"{letter}0, {letter}1, …", others]))
        _fail(place, f"'{str(name)[:80]}' is no name: {known} is needed")
    if len(match[1]) > 9 or int(match[1]) >= MAX_STATES - 2:
        _fail(place, f"{name} is too large a number: at most {letter}{MAX_STATES - 3} is possible")
    return int(match[1])


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


# DOT


def to_dot(task: Task, vocabulary: Vocabulary) -> str:
    """The task as a graph for Graphviz: a cluster a machine, words as tooltips."""
    shapes = {ACCEPTED: ", shape=doublecircle, color=darkgreen", REJECTED: ", shape=doublecircle, color=red"}
    words = Words(vocabulary)
    lines = ["digraph task {", "  rankdir=LR;", '  node [shape=circle, fontname="sans-serif"];']
    lines.append('  edge [fontname="sans-serif", fontsize=10];')
    for m, one in enumerate(task.machines):
        inside = [f'start_{m} [shape=point, label=""];', f"start_{m} -> m{m}_u0;"]
        inside += [f'm{m}_u{u} [label="{one.name(u)}"{shapes.get(one.outcomes[u], "")}];' for u in one.states]
        for edge in one.edges:
            names = [name.replace("-", "¬") for name in literal_names(edge.literals, vocabulary.names)]
            call = "" if edge.call == NO_CALL else f"{machine_name(edge.call)} | "
            reward = f"\\n/ {_short(edge.reward)}" if edge.reward else ""
            label, tip = call + ("\\n".join(names) or "true") + reward, words.cube(edge.literals)
            ends = f"m{m}_u{edge.source} -> m{m}_u{edge.target}"
            inside.append(f'{ends} [label="{label}", tooltip="{tip}", labeltooltip="{tip}"];')
        if task.is_flat:
            lines += [f"  {line}" for line in inside]
        else:
            title = machine_name(m) + (" (root)" if m == task.root else "")
            lines += [f"  subgraph cluster_{m} {{", f'    label="{title}";', *(f"    {line}" for line in inside), "  }"]
    return "\n".join([*lines, "}"]) + "\n"


def _short(reward: float) -> str:
    """A reward in few digits, but none too few."""
    text = f"{np.float32(reward):g}"
    return text if np.float32(text) == np.float32(reward) else str(np.float32(reward))


@within_bounds
def from_dot(text: str, vocabulary: Vocabulary) -> Task:
    """The task that a graph as `to_dot` writes it stands for.

    States are nodes called (by their label, or else by their name) u0, the initial one, u1, …, uA and uR. The label of
    an edge is its literals, one a line, `¬`, `-` or `!` before those that are negated, or `true`; `m1 | ` before them
    calls a machine, `/ 0.5` behind them is the reward. A cluster is a machine, called m0, m1, … by its label; that of
    the root has `(root)` behind its name. Nodes of the shape `point` and what leaves them are decoration.
    """
    graph = _DotReader(text)
    lists: dict[int, list[Edge]] = {}
    root = 0
    for cluster, title in graph.clusters.items():
        name, _, rest = title.partition(" ")
        number = 0 if cluster == "" else _index(name, "m", f"cluster {cluster}")
        root = number if rest.strip() == "(root)" else root
        if number in lists:
            raise AtlasError(f"two clusters are called {name}")
        lists[number] = [
            _dot_edge(graph, source, target, label, vocabulary)
            for owner, source, target, label in graph.edges
            if owner == cluster and graph.shapes.get(source) != "point"
        ]
    lists = {number: edges for number, edges in lists.items() if edges or len(lists) == 1}
    if not lists or set(lists) != set(range(len(lists))):
        raise AtlasError("the graph needs machines m0, m1, … with a transition each, none left out")
    if len(lists) == 1 and all(edge.call == NO_CALL for edge in lists[0]):
        return Task((machine(lists[0]),))
    return hierarchy([machine(lists[number]) for number in sorted(lists)], root)


def _dot_edge(graph: "_DotReader", source: str, target: str, label: str, vocabulary: Vocabulary) -> Edge:
    place = f"{source} -> {target}"

    def state(node: str) -> int:
        name = graph.labels.get(node, node)
        return {"uA": ACCEPT, "uR": REJECT}[name] if name in ("uA", "uR") else _index(name, "u", place, "uA or uR")

    call, found, rest = label.partition(" | ")
    lines = [line.strip() for line in (rest if found else label).replace("\\n", "\n").split("\n") if line.strip()]
    reward = 0.0
    if lines and lines[-1].startswith("/"):
        try:
            reward = float(lines.pop()[1:])
        except ValueError:
            _fail(place, "the reward behind '/' is no number")
    names = [re.sub(r"^\s*[¬!]\s*", "-", line) for line in lines if line != "true"]
    if not lines:
        _fail(place, "a label is needed: the names of propositions, or 'true'")
    callee = _index(call.strip(), "m", place) if found else NO_CALL
    return Edge(state(source), state(target), _formulas(names, place, vocabulary)[0], reward, callee)


class _DotReader(Reader):
    """Nodes and edges of a graph, as far as tasks need them."""

    TOKEN: Final = re.compile(
        r"\s*(?:(?P<comment>/\*.*?\*/|//[^\n]*|\#[^\n]*)|(?P<string>\"(?:\\.|[^\"\\])*\")|(?P<arrow>->)|(?P<mark>[\[\]{};,=])"
        r"|(?P<word>[\w.¬]+)|(?P<bad>\S))",
        re.DOTALL,
    )

    def __init__(self, text: str) -> None:
        super().__init__(text, self.TOKEN, "a DOT graph", MOST_HOA)
        self.labels: dict[str, str] = {}
        self.shapes: dict[str, str] = {}
        self.edges: list[tuple[str, str, str, str]] = []
        """The cluster, the source, the target and the label."""
        self.clusters: dict[str, str] = {"": ""}
        """The label of each; without a name for what stands in none."""
        self.skip("strict")
        if not self.skip("digraph"):
            self.fail("a graph that begins with 'digraph' is needed")
        if self.peek() != "{":
            self.take()
        self.statements("")
        if self.peek():
            self.fail("one graph is enough")
        if len(self.clusters) > 1 and not any(owner == "" for owner, *_ in self.edges):
            del self.clusters[""]

    def name(self) -> str:
        kind = self.tokens[self.place].kind
        if kind not in ("word", "string"):
            self.fail("a name is needed here")
        token = self.take().text
        return token[1:-1].replace('\\"', '"') if kind == "string" else token

    def statements(self, cluster: str) -> None:
        if not self.skip("{"):
            self.fail("a '{' is needed here")
        while not self.skip("}"):
            if not self.peek():
                self.fail("a '}' is missing")
            if self.skip(";"):
                continue
            if self.skip("subgraph"):
                name = self.name()
                self.clusters[name] = ""
                self.statements(name)
                continue
            one = self.name()
            if self.skip("="):
                value = self.name()
                if one == "label":
                    self.clusters[cluster] = value
            elif self.skip("->"):
                other = self.name()
                self.edges.append((cluster, one, other, self.attributes().get("label", "")))
                if len(self.edges) > MOST_EDGES:
                    self.fail(f"the graph has more than {MOST_EDGES:,} edges")
            else:
                found = self.attributes()
                if one not in ("node", "edge", "graph"):
                    self.labels[one] = found.get("label", one)
                    self.shapes[one] = found.get("shape", "")

    def attributes(self) -> dict[str, str]:
        """`[label="u0", shape=circle]`."""
        found: dict[str, str] = {}
        while self.skip("["):
            while not self.skip("]"):
                if self.skip(",") or self.skip(";"):
                    continue
                key = self.name()
                if not self.skip("="):
                    self.fail("a '=' is needed here")
                found[key] = self.name()
        return found


# HOA (Hanoi omega-automata, version 1), which other tools read. There a task is a deterministic, complete Büchi
# automaton: staying is an edge, acceptance a marked state that is never left. Rewards have no place in HOA; a header of
# our own lists them, which other tools skip. Hierarchies are flattened.

MOST_HOA: Final = 200_000
"""Letters of an automaton."""
MOST_EDGES: Final = 2_000
_REWARDS: Final = "atlas-rewards"
"""The header that lists the reward of each edge that leaves a running state, in the order of the body."""


def to_hoa(task: Task, vocabulary: Vocabulary, name: str = "") -> str:
    """The task as an automaton in HOA."""
    one = task.flat
    props = sorted({abs(x) - 1 for edge in one.edges for x in edge.literals})
    body: list[str] = []
    rewards: list[float] = []
    for number, u in enumerate(one.reachable):
        body.append(f'State: {number} "{one.name(u)}"' + " {0}" * (one.outcomes[u] == ACCEPTED))
        if one.outcomes[u] != RUNNING:
            body.append(f"[t] {number}")
            continue
        diagrams, left = Diagrams(), 1
        labels: dict[tuple[int, float], Diagram] = {}
        for edge in one.leaving[u]:  # made to exclude each other; then the loop of staying
            guard, ends = diagrams.conjunction(edge.literals), (edge.target, edge.reward)
            labels[ends] = diagrams.either(labels.get(ends, 0), diagrams.both(guard, left))
            left = diagrams.both(left, diagrams.negate(guard))
        labels[u, 0.0] = diagrams.either(labels.pop((u, 0.0), 0), left)
        for (target, reward), label in labels.items():
            cubes = [
                "&".join(("" if x > 0 else "!") + str(props.index(abs(x) - 1)) for x in cube) or "t"
                for cube in diagrams.cover(label, label)
            ]
            if cubes:
                body.append(f"[{' | '.join(cubes)}] {one.reachable.index(target)}")
                rewards.append(reward)
    quoted = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    header = [
        "HOA: v1",
        *([f'name: "{quoted}"'] if name else []),
        f"States: {len(one.reachable)}",
        "Start: 0",
        " ".join([f"AP: {len(props)}", *(f'"{vocabulary.names[p]}"' for p in props)]),
        "acc-name: Buchi",
        "Acceptance: 1 Inf(0)",
        "properties: trans-labels explicit-labels state-acc deterministic complete",
        " ".join([f"{_REWARDS}:", *(f'"{np.float32(r)}"' for r in rewards)]),
    ]
    return "\n".join([*header, "--BODY--", *body, "--END--"]) + "\n"


@within_bounds
def from_hoa(text: str, vocabulary: Vocabulary) -> Task:
    """The task that a deterministic automaton with state-based or transition-based Büchi acceptance stands for.

    Such automata judge runs that never end, while a task is over when it is accepted. So a state accepts once every run
    from it is accepted, and rejects once none is (a label without an edge ends the run and rejects). Other accepting
    runs, which go on for ever without being settled, are not accepted; a warning says so. Rewards are 1 into acceptance
    unless our own header says otherwise.
    """
    automaton = _HoaReader(text, vocabulary)
    states, d, start = automaton.states, automaton.diagrams, automaton.start
    if start is None:
        raise AtlasError("the automaton has no initial state: a header 'Start: 0' is needed")
    for target in (target for state in states.values() for _, target, _ in state.edges):
        if target not in states:
            raise AtlasError(f"an edge leads to state {target}, which is not described")
    if start not in states:
        raise AtlasError(f"the initial state {start} is not described")

    leaves = {u: d.negate(_any(d, [label for label, _, _ in state.edges])) for u, state in states.items()}
    outcome = _settled(automaton, leaves)
    if outcome[start] == ACCEPTED:
        return flat_task([Edge(0, ACCEPT, (), 1.0)])
    if outcome[start] == REJECTED or ACCEPTED not in outcome.values():
        raise AtlasError("the automaton never settles that a run is accepted, so the task could never be accepted")
    order = [start, *(u for u in sorted(states) if u != start)]
    number = {u: {ACCEPTED: ACCEPT, REJECTED: REJECT}.get(outcome[u], n) for n, u in enumerate(order)}
    rewards = iter(automaton.rewards)
    edges: list[Edge] = []
    for u in order:
        if outcome[u] == RUNNING:
            for label, target, _ in states[u].edges:
                reward = next(rewards, float(outcome[target] == ACCEPTED))
                if target != u or reward != 0:
                    edges += [Edge(number[u], number[target], cube, reward) for cube in d.cover(label, label)]
            edges += [Edge(number[u], REJECT, cube) for cube in d.cover(leaves[u], leaves[u])]
    return Task((machine_without_gaps(edges),))


def _any(diagrams: Diagrams, labels: list[Diagram]) -> Diagram:
    result = 0
    for label in labels:
        result = diagrams.either(result, label)
    return result


@dataclass
class _HoaState:
    marked: bool
    edges: list[tuple[Diagram, int, bool]] = field(default_factory=list)
    """Label, target, and whether taking it counts for acceptance."""


def _settled(automaton: "_HoaReader", leaves: dict[int, Diagram]) -> dict[int, int]:
    """The outcome of each state: ACCEPTED once every run is accepted, REJECTED once none can be."""
    states, always = automaton.states, automaton.always

    def counts(marked: bool) -> bool:
        return marked if always is None else always

    @functools.cache
    def reach(u: int) -> set[int]:
        found = {u}
        for v in (todo := [u]):
            new = {target for label, target, _ in states[v].edges if label} - found
            found |= new
            todo += new
        return found

    good = {u for u, s in states.items() if leaves[u] == 0 and all(counts(marked) for *_, marked in s.edges)}
    while worse := {u for u in good if any(target not in good for _, target, _ in states[u].edges)}:
        good -= worse
    loops = {
        u
        for u, state in states.items()
        if any(counts(marked) and label and u in reach(target) for label, target, marked in state.edges)
    }
    if loops - good:
        warnings.warn("some runs are accepted only because they never end; those are not accepted", TaskWarning, 3)
    return {u: ACCEPTED if u in good else RUNNING if reach(u) & loops else REJECTED for u in states}


class _HoaReader(Reader):
    """The automaton that a HOA text describes."""

    TOKEN: Final = re.compile(
        r"\s*(?:(?P<comment>/\*.*?\*/)|(?P<string>\"(?:\\.|[^\"\\])*\")|(?P<mark>--[A-Z]+--)|(?P<header>[A-Za-z_][\w-]*:)"
        r"|(?P<int>\d+)|(?P<word>@?[A-Za-z_][\w-]*)|(?P<sign>[\[\](){}&|!])|(?P<bad>\S))",
        re.DOTALL,
    )

    def __init__(self, text: str, vocabulary: Vocabulary) -> None:
        super().__init__(text, self.TOKEN, "HOA", MOST_HOA)
        self.vocabulary = vocabulary
        self.diagrams = Diagrams()
        self.props: list[int] = []
        self.aliases: dict[str, Diagram] = {}
        self.start: int | None = None
        self.states: dict[int, _HoaState] = {}
        self.rewards: list[float] = []
        self.edges = 0
        self.always: bool | None = None
        """Whether the acceptance is `t` or `f`, which hold for every run and none."""
        self.header()
        self.body()

    @property
    def kind(self) -> str:
        return self.tokens[self.place].kind

    def expect(self, text: str) -> None:
        if not self.skip(text):
            self.fail(f"{text} is needed here")

    def expect_kind(self, kind: str) -> str:
        if self.kind != kind:
            self.fail({"int": "a number", "string": "a quoted name"}.get(kind, kind) + " is needed here")
        return self.take().text

    def integer(self) -> int:
        if self.kind == "int" and len(self.peek()) > 9:
            self.fail("this number is too large")
        return int(self.expect_kind("int"))

    def header(self) -> None:
        self.expect("HOA:")
        if not self.skip("v1"):
            self.fail("only version v1 of HOA is understood")
        while not self.skip("--BODY--"):
            name = self.expect_kind("header")
            self.item(name)
            while self.kind not in ("header", "mark", "end"):
                self.place += 1
            if self.kind == "end":
                self.fail("--BODY-- is missing")

    def item(self, name: str) -> None:
        if name == "Start:":
            if self.start is not None:
                self.fail("several initial states: only one is possible")
            self.start = self.integer()
            if self.peek() == "&":
                self.fail("alternating automata are not understood: one initial state is needed")
        elif name == "AP:":
            for _ in range(self.integer()):
                name = self.peek().strip('"')
                prop = self.vocabulary.find(name)
                if prop is None:
                    self.fail(f"'{name}' is no proposition{nearest(name, self.vocabulary.names)}")
                self.expect_kind("string")
                self.props.append(prop)
        elif name == "Alias:":
            alias = self.expect_kind("word")
            self.aliases[alias] = self.label()
        elif name == "Acceptance:":
            start, sets, formula = self.place, self.integer(), ""
            while self.kind not in ("header", "mark", "end"):
                formula += self.take().text
            if formula in ("t", "f"):
                self.always = formula == "t"
            elif (sets, formula) != (1, "Inf(0)"):
                self.place = start
                self.fail("this acceptance is not understood; 'Acceptance: 1 Inf(0)' (Büchi), '0 t' or '0 f' is needed")
        elif name == f"{_REWARDS}:":
            while self.kind == "string":
                try:
                    self.rewards.append(float(self.peek().strip('"')))
                except ValueError:
                    self.fail("a number is needed as the reward")
                self.place += 1
        elif name[0].isupper() and name != "States:":
            self.place -= 1
            self.fail(f"the header {name[:-1]} is not understood, and may not be skipped")

    def label(self) -> Diagram:
        result = self.conjunction()
        while self.skip("|"):
            result = self.diagrams.either(result, self.conjunction())
        return result

    def conjunction(self) -> Diagram:
        result = self.atom()
        while self.skip("&"):
            result = self.diagrams.both(result, self.atom())
        return result

    def atom(self) -> Diagram:
        kind, token = self.kind, self.take()
        if token.text == "!":
            return self.diagrams.negate(self.atom())
        if token.text == "(":
            inside = self.label()
            self.expect(")")
            return inside
        if token.text in ("t", "f"):
            return int(token.text == "t")
        if token.text in self.aliases:
            return self.aliases[token.text]
        if kind == "int" and len(token.text) <= 9 and int(token.text) < len(self.props):
            return self.diagrams.literal(self.props[int(token.text)])
        return self.fail(f"'{token.text}' is no label: t, f, an alias or 0 to {len(self.props) - 1} is needed", token)

    def body(self) -> None:
        while self.skip("State:"):
            shared = self.bracketed()
            number = self.integer()
            if number in self.states:
                self.fail(f"state {number} is described twice")
            if self.kind == "string":
                self.place += 1
            state = self.states[number] = _HoaState(self.marks())
            while self.peek() not in ("State:", "--END--", ""):
                self.edge(state, shared)
        self.expect("--END--")

    def edge(self, state: _HoaState, shared: Diagram | None) -> None:
        label = self.bracketed()
        if label is None and shared is None:  # the edges stand for all labels in turn
            bits = enumerate(self.props)
            label = self.diagrams.conjunction(p + 1 if len(state.edges) >> i & 1 else -p - 1 for i, p in bits)
        label = shared if label is None else label
        assert label is not None
        target = self.integer()
        if self.peek() == "&":
            self.fail("alternating automata are not understood: one target is needed")
        marked = self.marks() or state.marked
        if any(self.diagrams.both(label, other) and goal != target for other, goal, _ in state.edges):
            self.fail("the automaton is not deterministic: this edge and an earlier one hold for the same label")
        self.edges += 1
        if self.edges > MOST_EDGES:
            self.fail(f"the automaton has more than {MOST_EDGES:,} edges")
        state.edges.append((label, target, marked))

    def bracketed(self) -> Diagram | None:
        if not self.skip("["):
            return None
        label = self.label()
        self.expect("]")
        return label

    def marks(self) -> bool:
        """Whether `{0}`, perhaps among others, comes next."""
        found = False
        if self.skip("{"):
            while self.kind == "int":
                found |= self.take().text == "0"
            self.expect("}")
        return found
