"""Machines in the terminal: one line an edge, the words that `explain` uses, small coloured signs before them."""

from typing import Final

from atlas.tasks.explain import Words, hidden_negations, reward_words, shown_literals
from atlas.tasks.machine import NO_CALL, Edge, Machine, Node, Task, machine_name
from atlas.vocabulary import ACCEPTED, REJECTED, Vocabulary

HIDDEN: Final = "Negations that only keep the edges of a state apart are not shown."
_CODES: Final = {"red": "31", "green": "32", "blue": "34", "purple": "35", "yellow": "33", "gray": "90"}
_MARKS: Final = {ACCEPTED: " ✓", REJECTED: " ✗"}


class _Pen:
    """Colours, where they are wanted."""

    def __init__(self, colour: bool) -> None:
        self.colour = colour

    def __call__(self, text: str, *codes: str) -> str:
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if self.colour and text and any(codes) else text


def text_task(task: Task, vocabulary: Vocabulary, current: Node | None = None, colour: bool = False) -> str:
    """The task as text; the node `current` is marked with an arrow. With `colour` the text holds ANSI codes."""
    pen = _Pen(colour)
    lines: list[str] = []
    for m in [task.root, *(m for m in range(len(task.machines)) if m != task.root)]:
        if not task.is_flat:
            lines.append(pen(machine_name(m) + (" (root)" if m == task.root else ""), "1"))
        at = current[1] if current and current[0] == m else None
        lines += _machine(task.machines[m], vocabulary, at, pen, m == task.root)
    if any(hidden_negations(machine, u) for machine in task.machines for u in machine.running):
        lines.append(pen(HIDDEN, "2"))
    return "\n".join(lines)


def _machine(machine: Machine, vocabulary: Vocabulary, current: int | None, pen: _Pen, is_root: bool) -> list[str]:
    width = max(len(machine.name(u)) for u in machine.states)
    lines = []
    for u in machine.states:
        edges = machine.leaving[u]
        if not edges and machine.outcomes[u] in _MARKS and u not in (0, current):
            continue
        name = pen(machine.name(u).rjust(width), *(["1", "7"] if u == current else ["1"]))
        lead = ("▶ " if u == current else "→ " if u == 0 else "  ") + name
        if not edges:
            lines.append(lead + _MARKS.get(machine.outcomes[u], ""))
        for n, edge in enumerate(edges):
            start = f"{lead} ─" if n == 0 else " " * (width + 4)
            branch = "─" if len(edges) == 1 else "┬" if n == 0 else "└" if n == len(edges) - 1 else "├"
            lines.append(f"{start}{branch}─ {_edge(machine, edge, vocabulary, pen, is_root)}")
    return lines


def _edge(machine: Machine, edge: Edge, vocabulary: Vocabulary, pen: _Pen, is_root: bool) -> str:
    words, guard = Words(vocabulary), []
    for literal in shown_literals(machine, edge):
        signs = vocabulary.glyphs[abs(literal) - 1] if vocabulary.glyphs else ()
        glyphs = "".join(pen(glyph, _CODES.get(colour, "")) for glyph, colour in signs)
        text = words.command(literal) if literal > 0 else pen(words.doing(literal), "31")
        guard.append(f"{glyphs} {text}" if glyphs else text)
    call = "" if edge.call == NO_CALL else pen(f"{machine_name(edge.call)} | ", "1")
    outcome = machine.outcomes[edge.target]
    code = {ACCEPTED: "32", REJECTED: "31"}.get(outcome, "")
    target = pen(machine.name(edge.target) + _MARKS.get(outcome, ""), code)
    reward = reward_words(machine, edge, is_root)
    return f"{call}{' and '.join(guard) or 'always'} ──▶ {target}" + (f"  ({reward})" if reward else "")
