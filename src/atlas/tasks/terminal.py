"""Machines in the terminal: one line an edge, the words that `explain` uses, small coloured signs before them."""

from typing import Any

from atlas.tasks.draw import HIDDEN, Place, hidden_negations, reward_words, shown_literals
from atlas.tasks.explain import Words
from atlas.tasks.icons import ICONS, IconTable, sign_of
from atlas.tasks.names import machine_name
from atlas.tasks.rm import ACCEPTED, REJECTED, UNUSED, Transition
from atlas.tasks.view import Machine, view
from atlas.vocabulary import Vocabulary

_GLYPHS = {"ball": "●", "square": "■", "key": "⚷", "door": "▯"}
_CODES = {"red": "31", "green": "32", "blue": "34", "purple": "35", "yellow": "33", "gray": "90"}
_MARKS = {ACCEPTED: " ✓", REJECTED: " ✗"}


class _Pen:
    """Colours, where they are wanted."""

    def __init__(self, colour: bool) -> None:
        self.colour = colour

    def __call__(self, text: str, *codes: str) -> str:
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if self.colour and text and any(codes) else text


def text_task(
    task: Any,
    vocabulary: Vocabulary,
    current: Place | None = None,
    colour: bool = False,
    icons: IconTable = ICONS,
) -> str:
    """The task as text; `current` is marked with an arrow. With `colour` the text holds ANSI codes."""
    seen = view(task)
    pen = _Pen(colour)
    lines: list[str] = []
    for m in [seen.root, *(m for m in range(len(seen.machines)) if m != seen.root)]:
        if not seen.is_flat:
            lines.append(pen(machine_name(m) + (" (root)" if m == seen.root else ""), "1"))
        at = current if seen.is_flat else current[1] if isinstance(current, tuple) and current[0] == m else None
        lines += _machine(seen.machines[m], vocabulary, at, pen, icons, m == seen.root)
    if any(hidden_negations(machine, u) for machine in seen.machines for u in machine.running):
        lines.append(pen(HIDDEN, "2"))
    return "\n".join(lines)


def _machine(
    machine: Machine, vocabulary: Vocabulary, current: Any, pen: _Pen, icons: IconTable, is_root: bool
) -> list[str]:
    width = max(len(machine.name(u)) for u in machine.outcome)
    lines = []
    for u in machine.outcome:
        edges = machine.leaving(u)
        if not edges and machine.outcome[u] in _MARKS and u not in (0, current):
            continue
        name = pen(machine.name(u).rjust(width), *(["1", "7"] if u == current else ["1"]))
        lead = ("▶ " if u == current else "→ " if u == 0 else "  ") + name
        if not edges:
            lines.append(lead + _MARKS.get(machine.outcome[u], ""))
        for n, edge in enumerate(edges):
            start = f"{lead} ─" if n == 0 else " " * (width + 4)
            branch = "─" if len(edges) == 1 else "┬" if n == 0 else "└" if n == len(edges) - 1 else "├"
            lines.append(f"{start}{branch}─ {_edge(machine, edge, vocabulary, pen, icons, is_root)}")
    return lines


def _edge(
    machine: Machine, edge: Transition, vocabulary: Vocabulary, pen: _Pen, icons: IconTable, is_root: bool
) -> str:
    call = pen(f"{machine_name(edge.call)} | ", "1") if edge.call != UNUSED else ""
    guard = " and ".join(_literal(x, vocabulary, pen, icons) for x in shown_literals(machine, edge)) or "always"
    outcome = machine.outcome[edge.target]
    code = {ACCEPTED: "32", REJECTED: "31"}.get(outcome, "")
    target = pen(machine.name(edge.target) + _MARKS.get(outcome, ""), code)
    reward = reward_words(machine, edge, is_root)
    return f"{call}{guard} ──▶ {target}" + (f"  ({reward})" if reward else "")


def _literal(literal: int, vocabulary: Vocabulary, pen: _Pen, icons: IconTable) -> str:
    words = Words(vocabulary)
    sign = sign_of(abs(literal) - 1, vocabulary, icons)
    things = sign.things if sign else ()
    glyphs = "".join(pen(_GLYPHS.get(thing.kind, "◆"), _CODES.get(thing.colour, "")) for thing in things)
    text = words.command(literal) if literal > 0 else pen(words.doing(literal), "31")
    return f"{glyphs} {text}" if glyphs else text
