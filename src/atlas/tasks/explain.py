"""Tasks in English. What is written here, `english` reads back as an equivalent task.

A machine that is a sequence, with alternatives, choices, things in any order, repetitions or things to avoid, becomes a
sentence or two; every other one becomes numbered steps.
"""

from typing import Any, Final

import numpy as np

from atlas.errors import AtlasError
from atlas.tasks.english import english
from atlas.tasks.explain_prose import prose
from atlas.tasks.explain_words import Words
from atlas.tasks.rm import ACCEPTED, REJECTED, RUNNING, UNUSED, Transition
from atlas.tasks.view import Machine, TaskView, view
from atlas.vocabulary import Vocabulary

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
