"""Tasks in English. What is written here, `english` reads back as an equivalent task.

A machine that is a sequence, with alternatives, choices, things in any order, repetitions or things to avoid, becomes a
sentence or two; every other one becomes numbered steps.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from atlas.errors import AtlasError
from atlas.tasks.english import english, gerund
from atlas.tasks.rm import ACCEPTED, REJECTED, RUNNING, UNUSED, Transition
from atlas.tasks.view import Machine, TaskView, view
from atlas.vocabulary import Vocabulary

# Literals and guards as phrases.

LASTING: Final = ("carry", "face")
"""Verbs for what goes on, where a vocabulary has them: `while carrying a key` rather than `while picking up a key`."""
_ARTICLE: Final = re.compile(r"\ban? ")


class Words:
    """How the propositions of a vocabulary are said."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.phrases, self.commands = vocabulary.phrases, vocabulary.commands

    def command(self, literal: int) -> str:
        """`go to a ball`."""
        return self.phrases[literal - 1]

    def doing(self, literal: int) -> str:
        """`carrying a ball`, `not putting a ball next to a key`."""
        phrase = self.phrases[abs(literal) - 1]
        verb, _, rest = phrase.partition(" ")
        article = _ARTICLE.search(phrase)
        noun = phrase[article.start() :] if article else rest
        for lasting in LASTING:
            if self.commands.get(f"{lasting} {_ARTICLE.sub('', noun)}") == abs(literal) - 1:
                verb, rest = lasting, noun
        return ("not " if literal < 0 else "") + gerund(verb) + " " + rest

    def guard(self, literals: Sequence[int]) -> str:
        """`go to a ball while picking up a key and not opening a door`."""
        first = next((x for x in literals if x > 0), None)
        rest = [x for x in literals if x > 0 and x != first] + [x for x in literals if x < 0]
        base = "wait" if first is None else self.command(first)
        return base + (" while " + " and ".join(map(self.doing, dict.fromkeys(rest))) if rest else "")


# Machines as sentences. A machine is cut where all its paths meet; each block between two cuts is one phrase.
#
# The phrases are proposals: `explain` keeps them only if they are read back as the same machine.


class _Block(NamedTuple):
    """What happens between two states that every path passes."""

    text: str
    end: int
    avoided: tuple[int, ...] = ()
    """Literals that fail the task meanwhile."""
    is_choice: bool = False
    is_list: bool = False
    """Whether `without` behind it would cover its last part only."""


def prose(machine: Machine, words: Words) -> str | None:
    """The machine in a sentence or two, or None if it loops or branches in a way that sentences do not."""
    if not machine.edges or _has_cycle(machine):
        return None
    blocks = _blocks(machine, 0, None, words, choices=True)
    return _sentences(blocks, words) if blocks else None


def _has_cycle(machine: Machine) -> bool:
    """Whether some state can be left and reached again (waiting for a fall, as in `twice`, is no cycle)."""
    open_states, done = set(), set()

    def visit(u: int) -> bool:
        if u in done:
            return False
        if u in open_states:
            return True
        open_states.add(u)
        found = any(visit(edge.target) for edge in machine.leaving(u))
        done.add(u)
        return found

    return visit(0)


def _blocks(machine: Machine, start: int, end: int | None, words: Words, choices: bool) -> list[_Block] | None:
    """The phrases from one state to another (to the end of the task if None)."""
    blocks: list[_Block] = []
    u = start
    while u != end and machine.outcome[u] == RUNNING:
        block = _block(machine, u, words, choices)
        if block is None:
            return None
        blocks.append(block)
        u = block.end
    return blocks if end in (u, None) else None


def _block(machine: Machine, u: int, words: Words, choices: bool) -> _Block | None:
    failing = [e for e in machine.leaving(u) if machine.outcome[e.target] == REJECTED]
    edges = [e for e in machine.leaving(u) if machine.outcome[e.target] != REJECTED]
    if any(len(e.literals) != 1 for e in failing) or not edges:
        return None
    avoided = tuple(e.literals[0] for e in failing)
    edges = [_without_negations(e, avoided) for e in edges]
    repeated = _repeated(machine, u, edges, words)
    if repeated:
        return repeated._replace(avoided=avoided)
    if len({e.target for e in edges}) == 1:
        text = _listed([words.guard(e.literals) for e in edges], "or")
        return _Block(text, edges[0].target, avoided, is_list=len(edges) > 1)
    joint = _in_any_order(machine, u, words, avoided)
    if joint:
        return joint
    return _choice(machine, edges, words) if choices and not avoided else None


def _without_negations(edge: Transition, avoided: tuple[int, ...]) -> Transition:
    """The edge without the negations that `without` implies."""
    return edge._replace(literals=tuple(x for x in edge.literals if -x not in avoided))


def _repeated(machine: Machine, u: int, edges: list[Transition], words: Words) -> _Block | None:
    """`A 3 times`: A, not A, A, not A, A."""
    if len(edges) != 1 or len(edges[0].literals) != 1:
        return None
    literal, end, times = edges[0].literals[0], edges[0].target, 1
    while True:
        fall = _only(machine, end, -literal)
        rise = None if fall is None else _only(machine, fall, literal)
        if rise is None:
            break
        end, times = rise, times + 1
    if times == 1 or literal < 0:
        return None
    return _Block(f"{words.command(literal)} {'twice' if times == 2 else f'{times} times'}", end)


def _only(machine: Machine, u: int, literal: int) -> int | None:
    """Where a state leads that has one edge (besides failing ones), with this literal."""
    edges = [e for e in machine.leaving(u) if machine.outcome[e.target] != REJECTED]
    if len(edges) == 1 and literal in edges[0].literals:
        return edges[0].target
    return None


def _in_any_order(machine: Machine, u: int, words: Words, avoided: tuple[int, ...]) -> _Block | None:
    """`A and B and C`: follow one order and take the rest on trust."""
    asked = sorted({x for e in machine.leaving(u) for x in e.literals if x > 0 and x not in avoided})
    end = u
    for n, literal in enumerate(asked):
        later = set(asked[n + 1 :])
        steps = [e for e in machine.leaving(end) if literal in e.literals and not later & set(e.literals)]
        if len(steps) != 1:
            return None
        end = steps[0].target
    return _Block(_listed([words.command(x) for x in asked], "and"), end, avoided, is_list=True)


def _choice(machine: Machine, edges: list[Transition], words: Words) -> _Block | None:
    """`either A, then B, or C`: branches up to the state where they meet."""
    ahead = _unavoidable(machine)
    meeting = set.intersection(*(ahead[e.target] for e in edges))
    if not meeting:
        return None
    end = max(meeting, key=lambda u: len(ahead[u]))
    branches = []
    for edge in edges:
        rest = _blocks(machine, edge.target, end, words, choices=False)
        first = next((x for x in edge.literals if x > 0), None)
        if rest is None or first is None or any(block.avoided or " or " in block.text for block in rest):
            return None
        branches.append(", then ".join([words.command(first), *(block.text for block in rest)]))
    return _Block("either " + ", or ".join(branches), end, is_choice=True)


def _unavoidable(machine: Machine) -> dict[int, set[int]]:
    """The states that every path from each state passes, itself included (rejecting ones are no way out)."""
    found: dict[int, set[int]] = {}

    def visit(u: int) -> set[int]:
        if u not in found:
            successors = {e.target for e in machine.leaving(u) if machine.outcome[e.target] != REJECTED}
            found[u] = {u}.union(set.intersection(*map(visit, successors)) if successors else ())
        return found[u]

    for u in machine.outcome:
        visit(u)
    return found


def _sentences(blocks: list[_Block], words: Words) -> str:
    avoided = set(blocks[0].avoided)
    whole = len(blocks) > 1 and bool(avoided) and all(set(b.avoided) == avoided and not b.is_choice for b in blocks)
    sentences: list[list[str]] = [[]]
    for block in blocks:
        if block.is_choice and sentences[-1]:
            sentences.append([])
        sentences[-1].append(block.text if whole else _limited(block, words))
        if block.is_choice:
            sentences.append([])
    texts = [", then ".join(parts) for parts in sentences if parts]
    if whole:
        texts[0] += ", without " + _avoiding(blocks[0], words)
    return " ".join(_sentence(text, n > 0) for n, text in enumerate(texts))


def _limited(block: _Block, words: Words) -> str:
    if not block.avoided:
        return block.text
    text = f"({block.text})" if block.is_list else block.text
    return f"{text} without {_avoiding(block, words)}"


def _avoiding(block: _Block, words: Words) -> str:
    return _listed([words.doing(x) for x in dict.fromkeys(block.avoided)], "or")


def _listed(phrases: list[str], word: str) -> str:
    """`A`, `A or B`, `A, B or C`."""
    return f" {word} ".join([", ".join(phrases[:-1])] * (len(phrases) > 1) + phrases[-1:])


def _sentence(text: str, follows: bool) -> str:
    return f"Then {text}." if follows else f"{text[0].upper()}{text[1:]}."


# Tasks in English. What is written here, `english` reads back as an equivalent task.
#
# A machine that is a sequence, with alternatives, choices, things in any order, repetitions or things to avoid,
# becomes a
# sentence or two; every other one becomes numbered steps.

_OUTCOMES: Final = {ACCEPTED: "finish", REJECTED: "fail"}


def explain(task: Any, vocabulary: Vocabulary) -> str:
    """The task in words: a sentence where one says it exactly, else numbered steps."""
    seen = view(task)
    root = seen.machines[seen.root]
    if called_machines(seen) == [seen.root] and _is_sparse(root):
        text = prose(root, Words(vocabulary))
        if text is not None and _says(text, seen, vocabulary):
            return text
    return steps(seen, vocabulary)


def _is_sparse(machine: Machine) -> bool:
    return all(e.reward == float(machine.outcome[e.target] == ACCEPTED) for e in machine.edges)


def _says(text: str, seen: TaskView, vocabulary: Vocabulary) -> bool:
    """Whether a text is read back as the same task."""
    try:
        return shape(view(english(text, vocabulary))) == shape(seen)
    except AtlasError:
        return False


def shape(seen: TaskView) -> list[Any]:
    """What is left of a task when the numbers of states are forgotten: equal shapes are equal tasks."""
    order = called_machines(seen)
    return [_machine_shape(seen.machines[m], order) for m in order]


def called_machines(seen: TaskView) -> list[int]:
    """The root, then all machines that it calls, directly or not, in their order."""
    found = {seen.root}
    agenda = [seen.root]
    while agenda:
        new = {e.call for e in seen.machines[agenda.pop()].edges if e.call != UNUSED} - found
        found |= new
        agenda += new
    return [seen.root, *sorted(found - {seen.root})]


def _machine_shape(machine: Machine, order: list[int]) -> list[Any]:
    states = [0]
    rows = []
    for u in states:
        for edge in _in_order(machine.leaving(u)):
            if edge.target not in states:
                states.append(edge.target)
            call = UNUSED if edge.call == UNUSED else order.index(edge.call)
            rows.append((states.index(u), states.index(edge.target), frozenset(edge.literals), edge.reward, call))
    return [rows, [machine.outcome[u] for u in states]]


def _in_order(edges: list[Transition]) -> list[Transition]:
    """Edges sorted by their guards, if no two of these can hold at once; else their order means something."""
    guards = [set(edge.literals) for edge in edges]
    apart = all(any(-x in b for x in a) for i, a in enumerate(guards) for b in guards[:i])
    return sorted(edges, key=lambda edge: sorted(edge.literals)) if apart else edges


def steps(seen: TaskView, vocabulary: Vocabulary) -> str:
    """The task as numbered steps, its machines as sections."""
    words = Words(vocabulary)
    _, *others = called_machines(seen)
    if not others:
        return "\n".join(_section(seen.machines[seen.root], words, {}, is_root=True))
    routines = {m: n for n, m in enumerate(others, start=1)}
    lines = ["Main task:", *_section(seen.machines[seen.root], words, routines, is_root=True)]
    for m in others:
        lines += [f"Routine {routines[m]}:", *_section(seen.machines[m], words, routines, is_root=False)]
    return "\n".join(lines)


def _section(machine: Machine, words: Words, routines: dict[int, int], is_root: bool) -> list[str]:
    if machine.outcome[0] != RUNNING:
        return [f"1. {_OUTCOMES[machine.outcome[0]].capitalize()}."]
    number = {u: n for n, u in enumerate(machine.running, start=1)}
    lines = []
    for u, n in number.items():
        edges = machine.leaving(u)
        alone = len(edges) > 1 and _exclude_each_other(edges)
        options = []
        for edge in edges:
            begin = words.command(_positive(edge)) if alone else words.guard(edge.literals)
            options.append(begin + _sequel(edge, machine, number, routines, is_root))
        text = ("either " if alone else "") + ", or ".join(options) if options else "stay here"
        lines.append(f"{n}. {text[0].upper()}{text[1:]}.")
    return lines


def _positive(edge: Transition) -> int:
    return next(x for x in edge.literals if x > 0)


def _exclude_each_other(edges: list[Transition]) -> bool:
    """Whether each guard is one proposition and the negation of all its siblings'."""
    if any(sum(x > 0 for x in edge.literals) != 1 for edge in edges):
        return False
    asked = [_positive(edge) for edge in edges]
    return all(
        set(edge.literals) == {asked[i], *(-p for j, p in enumerate(asked) if j != i)} for i, edge in enumerate(edges)
    )


def _sequel(edge: Transition, machine: Machine, number: dict[int, int], routines: dict[int, int], is_root: bool) -> str:
    """What follows once an edge's guard holds."""
    outcome = machine.outcome[edge.target]
    call = "" if edge.call == UNUSED else f" and do routine {routines[edge.call]}"
    where = _OUTCOMES.get(outcome) or f"continue with step {number[edge.target]}"
    if outcome == ACCEPTED and not is_root:
        where = "return"
    usual = float(outcome == ACCEPTED and is_root)
    reward = "" if edge.reward == usual else f" (reward {np.float32(edge.reward)})"
    return f"{call}, then {where}{reward}"


def is_prose(text: str) -> bool:
    """Whether an explanation is made of sentences, not of numbered steps."""
    return not text.startswith(("1.", "Main task:"))
