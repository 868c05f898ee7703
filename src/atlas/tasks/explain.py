"""Tasks in English. What is written here, `english` reads back as an equivalent task.

A machine that is a sequence, with alternatives, choices, things in any order, repetitions or things to avoid, becomes a
sentence or two; every other one becomes numbered steps.
"""

import functools
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from atlas.errors import AtlasError, listed
from atlas.tasks import check
from atlas.tasks.english import english
from atlas.tasks.english.phrases import Phrase, Words, say
from atlas.tasks.machine import NO_CALL, Edge, Machine, Task
from atlas.vocabulary import ACCEPTED, REJECTED, RUNNING, Vocabulary

MOST_LINES: Final = 40
"""Numbered steps beyond which a task is only summed up."""
MOST_LETTERS: Final = 400
"""Of a task in one line."""
_TOO_LARGE: Final = "Too large"
_OUTCOMES: Final = {ACCEPTED: "finish", REJECTED: "fail"}


@functools.lru_cache(maxsize=4096)
def explain(task: Task, vocabulary: Vocabulary) -> str:
    """The task in words: a sentence where one says it exactly, else numbered steps."""
    root, words = task.machines[task.root], Words(vocabulary)
    is_sparse = all(edge.reward == root.usual_reward(edge) for edge in root.edges)
    if is_sparse and not task.called and root.edges and not _has_cycle(root):
        blocks = _blocks(root, 0, None, words, choices=True)
        if blocks:
            text = _sentences(blocks, words)
            if all(block.is_certain for block in blocks) or _says(text, task, vocabulary):
                return text
    text = steps(task, vocabulary)
    return text if text.count("\n") < MOST_LINES else f"{_summary(task, vocabulary)} A drawing shows it all."


def _capital(text: str) -> str:
    """With a capital letter, also behind a bracket."""
    start = int(text.startswith("("))
    return text[:start] + text[start].upper() + text[start + 1 :]


def is_prose(text: str) -> bool:
    """Whether an explanation is made of sentences, not of numbered steps or a summary."""
    return not text.startswith(("1.", "Main task:", _TOO_LARGE))


def in_one_line(task: Task, vocabulary: Vocabulary, phrase: Phrase | None = None) -> str:
    """The task in one line: as it is explained, as it was said (`phrase`) if that takes sentences, or in outline."""
    text = explain(task, vocabulary)
    if not is_prose(text) and phrase is not None:
        text = say(phrase, Words(vocabulary))
        text = f"{_capital(text)}."
    if (is_prose(text) or phrase is not None) and len(text) <= MOST_LETTERS:
        return text
    return _summary(task, vocabulary, _TOO_LARGE if len(text) > MOST_LETTERS else "Too involved")


def _summary(task: Task, vocabulary: Vocabulary, opening: str = _TOO_LARGE) -> str:
    """How large the task is, and a shortest way to the end."""
    states, edges = sum(len(m.states) for m in task.machines), sum(len(m.edges) for m in task.machines)
    size = f"{opening} for a sentence: {states} state{'s'[: states != 1]}, {edges} transition{'s'[: edges != 1]}"
    size += "" if task.is_flat else f", {len(task.machines)} machines"
    try:
        trace = next(iter(check.examples(task, vocabulary)[0]), None)
    except AtlasError:
        trace = None
    if trace is None:
        return size + "."
    words = Words(vocabulary)
    way = (words.cube([p + 1 for p in check.most_specific(label, vocabulary)]) for label in trace)
    return f"{size}. A shortest way to the end: {', then '.join(way)}."


def _says(text: str, task: Task, vocabulary: Vocabulary) -> bool:
    """Whether a text is read back as the same task."""
    try:
        return shape(english(text, vocabulary), vocabulary) == shape(task, vocabulary)
    except AtlasError:
        return False


def shape(task: Task, vocabulary: Vocabulary | None = None) -> list[Any]:
    """What is left of a task when the numbers of states are forgotten: equal shapes are equal tasks.

    With a vocabulary also the order of edges that it says are never satisfied at once.
    """

    def apart(one: Edge, other: Edge) -> bool:
        if any(-x in other.literals for x in one.literals):
            return True
        pairs = ((x - 1, y - 1) for x in one.literals for y in other.literals if x > 0 and y > 0)
        return vocabulary is not None and any(vocabulary.excludes[pair] for pair in pairs)

    order = [task.root, *task.called]
    shapes = []
    for machine in (task.machines[m] for m in order):
        rows = []
        for u in (states := [0]):
            edges = machine.leaving[u]
            if all(apart(a, b) for i, a in enumerate(edges) for b in edges[:i]):
                edges = tuple(sorted(edges, key=lambda e: sorted(e.literals)))  # else their order means something
            for edge in edges:
                if edge.target not in states:
                    states.append(edge.target)
                call = NO_CALL if edge.call == NO_CALL else order.index(edge.call)
                rows.append((states.index(u), states.index(edge.target), frozenset(edge.literals), edge.reward, call))
        shapes.append((rows, [machine.outcomes[u] for u in states]))
    return shapes


# Sentences. A machine is cut where all its paths meet; each block between two cuts is one phrase. Where the words might
# say another machine, `explain` reads them back.


class _Block(NamedTuple):
    """What happens between two states that every path passes."""

    text: str
    end: int
    avoided: tuple[int, ...] = ()
    """Literals that fail the task meanwhile."""
    is_choice: bool = False
    is_list: bool = False
    """Whether `without` behind it would cover its last part only."""
    is_certain: bool = False
    """Whether the words say exactly this machine: single commands, and choices between branches of these."""
    literal: int = 0
    """The one thing that it waits for, if it is one."""


def _has_cycle(machine: Machine) -> bool:
    """Whether some state can be left and reached again."""
    open_states, done = set[int](), set[int]()

    def visit(u: int) -> bool:
        if u in done or u in open_states:
            return u not in done
        open_states.add(u)
        found = any(visit(edge.target) for edge in machine.leaving[u])
        done.add(u)
        return found

    return visit(0)


def _blocks(machine: Machine, start: int, end: int | None, words: Words, choices: bool) -> list[_Block] | None:
    """The phrases from one state to another (to the end of the task if None); None if sentences do not branch so."""
    blocks: list[_Block] = []
    u = start
    while u != end and machine.outcomes[u] == RUNNING:
        block = _block(machine, u, words, choices)
        if block is None:
            return None
        held = blocks[-1].literal if blocks else 0
        edges = [set(edge.literals) - {-x for x in block.avoided} for edge in _ahead(machine, u)]
        if held and edges == [{-held}]:
            block = block._replace(text=f"stop {words.doing(held)}")
        if held and block.avoided == (-held,) and block.literal:
            block = _Block(f"keep {words.doing(held)} until {words.doing(block.literal)}", block.end)
        blocks.append(block)
        u = block.end
    return blocks if end in (u, None) else None


def _ahead(machine: Machine, u: int) -> list[Edge]:
    """The edges out of a state that do not fail the task."""
    return [edge for edge in machine.leaving[u] if machine.outcomes[edge.target] != REJECTED]


def _block(machine: Machine, u: int, words: Words, choices: bool) -> _Block | None:
    failing = [edge.literals for edge in machine.leaving[u] if machine.outcomes[edge.target] == REJECTED]
    if any(len(literals) != 1 for literals in failing):
        return None
    avoided = tuple(literals[0] for literals in failing)
    # negations of what is avoided are part of what `without` says
    edges = [e._replace(literals=tuple(x for x in e.literals if -x not in avoided)) for e in _ahead(machine, u)]
    if not edges:
        return None
    if len(edges) == 1 and len(edges[0].literals) == 1 and (literal := edges[0].literals[0]) > 0:
        end, times = edges[0].target, 1
        while (rise := _only(machine, _only(machine, end, -literal), literal)) is not None:
            end, times = rise, times + 1
        if times > 1:
            return _Block(f"{words.command(literal)} {'twice' if times == 2 else f'{times} times'}", end, avoided)
        return _Block(words.command(literal), end, avoided, is_certain=not avoided, literal=literal)
    if len({e.target for e in edges}) == 1:
        text = words.guard(tuple(e.literals for e in edges))
        return _Block(text, edges[0].target, avoided, is_list=len(edges) > 1)
    joint = _in_any_order(machine, u, words, avoided)
    if joint:
        return joint
    return _choice(machine, edges, words) if choices and not avoided else None


def _only(machine: Machine, u: int | None, literal: int) -> int | None:
    """Where a state leads that has one edge (besides failing ones), with this literal."""
    edges = [] if u is None else _ahead(machine, u)
    return edges[0].target if len(edges) == 1 and literal in edges[0].literals else None


def _in_any_order(machine: Machine, u: int, words: Words, avoided: tuple[int, ...]) -> _Block | None:
    """`A and B and C`: follow one order and take the rest on trust."""
    asked = sorted({x for edge in machine.leaving[u] for x in edge.literals if x > 0 and x not in avoided})
    end = u
    for n, literal in enumerate(asked):
        later = set(asked[n + 1 :])
        ways = [e for e in machine.leaving[end] if literal in e.literals and not later.intersection(e.literals)]
        if len(ways) != 1:
            return None
        end = ways[0].target
    return _Block(words.commands_of(asked, "and"), end, avoided, is_list=True)


def _choice(machine: Machine, edges: list[Edge], words: Words) -> _Block | None:
    """`either A, then B, or C`: branches up to the state where they meet."""
    unavoidable: dict[int, set[int]] = {}

    def passed(u: int) -> set[int]:
        """The states that every path from a state passes, itself included; rejecting ones are no way out."""
        if u not in unavoidable:
            later = [passed(edge.target) for edge in _ahead(machine, u)]
            unavoidable[u] = {u}.union(set.intersection(*later) if later else ())
        return unavoidable[u]

    meeting = set.intersection(*(passed(edge.target) for edge in edges))
    if not meeting:
        return None
    end = max(meeting, key=lambda u: len(passed(u)))
    branches, rests = [], []
    for edge in edges:
        rest = _blocks(machine, edge.target, end, words, choices=False)
        first = next((x for x in edge.literals if x > 0), None)
        if rest is None or first is None or any(block.avoided or " or " in block.text for block in rest):
            return None
        branches.append(", then ".join([words.command(first), *(block.text for block in rest)]))
        rests.append(rest)
    # branches that end alike would share states, as the smallest machine does
    last = [rest[-1].text for rest in rests if rest]
    certain = all(block.is_certain for rest in rests for block in rest) and len(set(last)) == len(last)
    text = "either " + ", or ".join(branches)
    return _Block(text, end, is_choice=True, is_certain=certain and _exclude_each_other(edges))


def _exclude_each_other(edges: Sequence[Edge]) -> bool:
    """Whether each guard is one proposition and the negation of all its siblings'."""
    asked = [x for edge in edges for x in edge.literals if x > 0]
    return len(asked) == len(edges) and all(
        set(edge.literals) == {asked[i], *(-x for x in asked[:i] + asked[i + 1 :])} for i, edge in enumerate(edges)
    )


def _sentences(blocks: list[_Block], words: Words) -> str:
    def avoiding(block: _Block) -> str:
        return listed([words.doing(x) for x in dict.fromkeys(block.avoided)])

    avoided = set(blocks[0].avoided)
    several = len(blocks) > 1 or blocks[0].is_list
    whole = several and bool(avoided) and all(set(b.avoided) == avoided and not b.is_choice for b in blocks)
    sentences: list[list[str]] = [[]]
    for block in blocks:
        text = block.text
        if block.avoided and not whole:
            text = (f"({text})" if block.is_list else text) + f" without {avoiding(block)}"
        if block.is_choice:
            sentences += [[text], []]
        else:
            sentences[-1].append(text)
    texts = [", then ".join(parts) for parts in sentences if parts]
    if whole:
        texts[0] += ", without " + avoiding(blocks[0])
    return " ".join(f"Then {text}." if n else f"{_capital(text)}." for n, text in enumerate(texts))


# Numbered steps


def steps(task: Task, vocabulary: Vocabulary) -> str:
    """The task as numbered steps, its machines as sections."""
    words = Words(vocabulary)
    routines = {m: n for n, m in enumerate(task.called, start=1)}
    lines = ["Main task:"] * bool(routines) + _section(task.machines[task.root], words, routines, is_root=True)
    for m, n in routines.items():
        lines += [f"Routine {n}:", *_section(task.machines[m], words, routines, is_root=False)]
    return "\n".join(lines)


def _section(machine: Machine, words: Words, routines: dict[int, int], is_root: bool) -> list[str]:
    if machine.outcomes[0] != RUNNING:
        return [f"1. {_OUTCOMES[machine.outcomes[0]].capitalize()}."]
    number = {u: n for n, u in enumerate(machine.running, start=1)}
    lines = []
    for u, n in number.items():
        edges = machine.leaving[u]
        alone = len(edges) > 1 and _exclude_each_other(edges)
        options = []
        for edge in edges:
            asked = words.command(max(edge.literals)) if alone else words.cube(edge.literals)
            call = "" if edge.call == NO_CALL else f" and do routine {routines[edge.call]}"
            outcome = machine.outcomes[edge.target]
            where = _OUTCOMES.get(outcome) or f"continue with step {number[edge.target]}"
            where = "return" if outcome == ACCEPTED and not is_root else where
            usual = edge.reward == machine.usual_reward(edge, is_root)
            reward = "" if usual else f" (reward {np.float32(edge.reward)})"
            options.append(f"{asked}{call}, then {where}{reward}")
        text = ("either " if alone else "") + ", or ".join(options) if options else "stay here"
        lines.append(f"{n}. {_capital(text)}.")
    return lines
