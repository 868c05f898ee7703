"""Export to DOT, which Graphviz draws."""

from typing import Any, Final

import numpy as np

from atlas.tasks.explain_words import Words
from atlas.tasks.names import literal_names, machine_name
from atlas.tasks.rm import ACCEPTED, REJECTED, RUNNING, UNUSED, Transition
from atlas.tasks.view import Machine, view
from atlas.vocabulary import Vocabulary

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
        lines += [f"  {inside}{line}" for line in _machine(number, machine, vocabulary, words)]
        lines += [] if seen.is_flat else ["  }"]
    return "\n".join([*lines, "}"]) + "\n"


def _machine(number: int, machine: Machine, vocabulary: Vocabulary, words: Words) -> list[str]:
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
