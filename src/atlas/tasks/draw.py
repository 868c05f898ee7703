"""Tasks as drawings and as text for terminals.

Guards are rows of signs and words, negated ones in red and struck through. Negations that only keep sibling edges apart
(each sampled guard has them) are left out, and a line below says so; tooltips tell the whole guard.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from rich.text import Text as TerminalText

from atlas.show.canvas import (
    BAD,
    EDGE,
    GOOD,
    INK,
    LINE,
    LIT,
    PAGE,
    PALE,
    SOFT,
    Circle,
    Drawing,
    Group,
    Line,
    Point,
    Polygon,
    Rectangle,
    Shape,
    Signs,
    Text,
    text_width,
)
from atlas.tasks.english.phrases import Words
from atlas.tasks.machine import NO_CALL, Edge, Machine, Node, Task, machine_name
from atlas.vocabulary import ACCEPTED, REJECTED, RUNNING, Vocabulary

RADIUS, ICON, ROW, PADDING, MARGIN = 19.0, 19.0, 25.0, 6.0, 18.0
NODE: Final = (2 * RADIUS + 4, 2 * RADIUS + 4)
"""The room of a state."""
ACROSS, ALONG = 40.0, 12.0
"""Room between columns, and between the items of one."""
WORDS, SMALL = 11.0, 10.0
"""Sizes of text."""
_TERMINAL_COLOURS: Final = {"purple": "magenta", "gray": "bright_black"}
"""What terminals call colours, where they differ."""
HIDDEN: Final = "Negations that only keep the edges of a state apart are not shown."


def _hidden(machine: Machine, u: int) -> set[int]:
    """Literals that only keep the edges of a state apart: negations of what is asked for on its other edges."""
    literals = {x for edge in machine.leaving[u] for x in edge.literals}
    return {x for x in literals if x < 0 and -x in literals}


def _any_hidden(task: Task) -> bool:
    return any(_hidden(machine, u) for machine in task.machines for u in machine.running)


def _shown(machine: Machine, edge: Edge) -> Sequence[int]:
    """The literals of a guard without those that only keep it apart from its siblings."""
    hidden = _hidden(machine, edge.source)
    return [x for x in edge.literals if x not in hidden] or edge.literals


def _reward(machine: Machine, edge: Edge, is_root: bool) -> str:
    """`+0.5` where the reward is not the usual one: 1 into the root's acceptance, else 0."""
    return "" if edge.reward == machine.usual_reward(edge, is_root) else f"{np.float32(edge.reward):+g}"


def _root_first(task: Task) -> list[int]:
    return sorted(range(len(task.machines)), key=lambda m: m != task.root)


# Drawings


def task_drawing(
    task: Task, vocabulary: Vocabulary, signs: Signs | None = None, current: Node | None = None
) -> Drawing:
    """All machines below each other, the root first; `current` is highlighted. Without signs guards are only words."""
    shapes: list[Shape] = []
    width, y = 0.0, MARGIN
    for m in _root_first(task):
        if not task.is_flat:
            title = machine_name(m) + " (root)" * (m == task.root)
            shapes.append(Text((MARGIN, y + 8), title, 13, bold=True))
            y += 24
        state = current[1] if current is not None and current[0] == m else None
        drawn = machine_drawing(task.machines[m], vocabulary, signs, state, m == task.root)
        shapes.append(Group(drawn.shapes, (MARGIN, y)))
        width, y = max(width, drawn.size[0]), y + drawn.size[1] + MARGIN
    if _any_hidden(task):
        shapes.append(Text((MARGIN, y), HIDDEN, SMALL, SOFT))
        width, y = max(width, text_width(HIDDEN, SMALL)), y + MARGIN
    return Drawing(tuple(shapes), (width + 2 * MARGIN, y))


def machine_drawing(
    machine: Machine,
    vocabulary: Vocabulary,
    signs: Signs | None = None,
    current: int | None = None,
    is_root: bool = True,
    keyed: bool = False,
) -> Drawing:
    """One machine; `keyed`: its states (`u0`) and its edges by number (`e0`) have keys for the scripts of a page."""
    words = Words(vocabulary)
    labels = [_label(machine, edge, vocabulary, words, signs, is_root) for edge in machine.edges]
    place = {u: n for n, u in enumerate(machine.states)}
    links = [(place[edge.source], place[edge.target]) for edge in machine.edges]
    layout = arrange(len(place), links, [label.size for label in labels])
    shapes: list[Shape] = []
    for (source, target), route in zip(links, layout.routes, strict=True):
        if source == target:
            (x, y), (lx, ly) = route[0], route[2]
            shapes.append(_curve([_on_circle((x, y), (lx, ly - 30)), (lx, ly - 5)]))
            shapes += _arrow([(lx, ly + 5), _on_circle((x, y), (lx, ly + 30))])
        else:
            shapes += _arrow([_on_circle(route[0], route[1]), *route[1:-1], _on_circle(route[-1], route[-2])])
    for n, (label, (x, y)) in enumerate(zip(labels, layout.labels, strict=True)):
        corner = (x - label.size[0] / 2, y - label.size[1] / 2)
        shapes.append(Group(label.shapes, corner, key=f"e{n}" if keyed else ""))
    x, y = layout.nodes[0]
    shapes += _arrow([(x - RADIUS - 16, y), (x - RADIUS, y)])
    for u, centre in zip(machine.states, layout.nodes, strict=True):
        outcome = machine.outcomes[u]
        colour = {ACCEPTED: GOOD, REJECTED: BAD}.get(outcome, INK)
        lit = u == current
        disc = Circle(centre, RADIUS, fill=LIT if lit else PAGE, stroke=colour, width=3.5 if lit else 1.8)
        ring = (Circle(centre, RADIUS - 4, stroke=colour),) if outcome != RUNNING else ()
        name = Text(centre, machine.name(u), 12, colour, lit or outcome != RUNNING, "middle")
        meaning = {ACCEPTED: "accepting", REJECTED: "rejecting"}.get(outcome, "initial" if u == 0 else "running")
        told = f"{machine.name(u)}: {meaning}" + ", current" * lit
        shapes.append(Group((disc, *ring, name), title=told, key=machine.name(u) if keyed else ""))
    return Drawing((Group(tuple(shapes), (16, 2)),), (layout.size[0] + 18, layout.size[1] + 4))


def _label(
    machine: Machine, edge: Edge, vocabulary: Vocabulary, words: Words, signs: Signs | None, is_root: bool
) -> Drawing:
    """What stands on an edge: what is called, a row for each literal, the reward."""
    call = f"{machine_name(edge.call)} |" if edge.call != NO_CALL else ""
    literals, reward = _shown(machine, edge), _reward(machine, edge, is_root)
    height = ROW * max(1, len(literals)) + 4
    left = PADDING + (text_width(call, WORDS) + 10 if call else 0.0)
    shapes: list[Shape] = [Text((PADDING, height / 2), call, WORDS, bold=True)] if call else []
    right = left
    for n, x in enumerate(literals):
        sign, at, middle = signs(abs(x) - 1) if signs else None, left, 2 + ROW * (n + 0.5)
        told = ("not " if x < 0 else "") + (sign.words if sign else vocabulary.names[abs(x) - 1].replace("_", " "))
        if sign:
            shapes.append(Group(sign.picture.shapes, (left, middle - ICON / 2), ICON))
            at += ICON * sign.picture.size[0]
            if x < 0:
                shapes.append(Line(((left, middle + ICON / 2), (at, middle - ICON / 2)), stroke=BAD, width=2.2))
            at += 6
        shapes.append(Text((at, middle), told, WORDS, BAD if x < 0 else INK))
        right = max(right, at + text_width(told, WORDS))
    if not literals:
        shapes.append(Text((left, height / 2), "always", WORDS, SOFT))
        right = left + text_width("always", WORDS)
    if reward:
        right += 8 + text_width(reward, SMALL)
        shapes.append(Text((right, height / 2), reward, SMALL, GOOD, bold=True, anchor="end"))
    size = (right + PADDING, height)
    frame = Rectangle((0, 0), size, 5, fill=PALE, stroke=EDGE, width=1)
    title = f"{call} {words.cube(edge.literals)}".strip()
    return Drawing((Group((frame, *shapes), title=title),), size)


def _on_circle(centre: Point, towards: Point) -> Point:
    """Where a line meets a state: on the side it comes from, a little up or down."""
    (x, y), (tx, ty) = centre, towards
    rise = max(-0.75, min(0.75, (ty - y) / 120)) * RADIUS
    return (x + math.copysign(math.sqrt(RADIUS**2 - rise**2), tx - x), y + rise)


def _curve(points: Sequence[Point]) -> Line:
    return Line(tuple(points), curved=True, stroke=LINE, width=1.4)


def _arrow(points: Sequence[Point]) -> list[Shape]:
    (x0, _), (x, y) = points[-2:]
    back = math.copysign(9, x0 - x)
    head = Polygon(((x, y), (x + back, y - 4), (x + back, y + 4)), fill=LINE)
    return [_curve([*points[:-1], (x + back / 2, y)]), head]


class Layout(NamedTuple):
    """Centres of states and labels, the points that each edge passes, and the size of it all."""

    nodes: list[Point]
    labels: list[Point]
    routes: list[list[Point]]
    """Of each edge: the centre of the source, both sides of every column and of the label, the centre of the target."""
    size: Point


def arrange(count: int, links: Sequence[tuple[int, int]], labels: Sequence[Point]) -> Layout:
    """Where the states of a machine, the labels of its edges and their lines go, left to right.

    States stand in even columns, as far from the initial one as the longest path without cycles; labels stand in odd
    ones, next to the source. A long edge holds a place in every column that it crosses. In a column each item is as
    near to its neighbours on one side as those above it allow; sides take turns.
    """
    order = _topological(count, links)
    ranks = [0] * count
    for u in order:
        for source, target in links:
            if source == u and order.index(target) > order.index(u):
                ranks[target] = max(ranks[target], ranks[u] + 1)
    columns = [2 * rank for rank in ranks]
    sizes: list[Point] = [NODE] * count
    chains, label_items = list[list[int]](), list[int]()
    for (source, target), size in zip(links, labels, strict=True):
        step = 1 if ranks[target] >= ranks[source] else -1
        crossed = list(range(columns[source] + step, columns[target], step)) or [columns[source] + 1]
        label_items.append(len(columns))
        chains.append([source, *range(len(columns), len(columns) + len(crossed)), target])
        columns += crossed
        sizes += [size, *[(0.0, 6.0)] * (len(crossed) - 1)]
    before, after = [list[int]() for _ in columns], [list[int]() for _ in columns]
    for a, b in (pair for chain in chains for pair in pairwise(chain)):
        left, right = (a, b) if columns[a] < columns[b] else (b, a)
        after[left].append(right)
        before[right].append(left)
    stacks = [[i for i, column in enumerate(columns) if column == c] for c in range(max(columns) + 1)]
    ys = [0.0] * len(columns)
    for sweep in range(SWEEPS):
        rightwards = sweep % 2 == 0
        for stack in stacks if rightwards else stacks[::-1]:
            wishes = {}
            for i in stack:
                near = (before if rightwards else after)[i] or after[i] or before[i]
                wishes[i] = sum(ys[j] for j in near) / len(near) if near else ys[i]
            stack.sort(key=wishes.__getitem__)
            _settle(stack, wishes, ys, [height for _, height in sizes])
    widths = [max(sizes[i][0] for i in stack) for stack in stacks]
    middles = [sum(widths[:c]) + c * ACROSS + width / 2 for c, width in enumerate(widths)]
    top = min(y - size[1] / 2 for y, size in zip(ys, sizes, strict=True))
    centres = [(middles[column], y - top) for column, y in zip(columns, ys, strict=True)]
    routes = []
    for chain, label in zip(chains, label_items, strict=True):
        points = [centres[chain[0]]]
        for i in chain[1:-1]:
            x, y = centres[i]
            side = 1 if points[-1][0] < x else -1
            reach = [widths[columns[i]] / 2] + [sizes[i][0] / 2] * (i == label)
            points += [(x - side * half, y) for half in reach] + [(x + side * half, y) for half in reversed(reach)]
        routes.append([*points, centres[chain[-1]]])
    bottom = max(y + size[1] / 2 for (_, y), size in zip(centres, sizes, strict=True))
    return Layout(centres[:count], [centres[i] for i in label_items], routes, (middles[-1] + widths[-1] / 2, bottom))


SWEEPS: Final = 9


def _topological(count: int, links: Sequence[tuple[int, int]]) -> list[int]:
    """States so that edges lead onwards, except those that close a cycle."""
    left: list[int] = []
    entered: set[int] = set()

    def visit(u: int) -> None:
        if u not in entered:
            entered.add(u)
            for source, target in links:
                if source == u:
                    visit(target)
            left.append(u)

    for u in range(count):
        visit(u)
    return left[::-1]


def _settle(stack: Sequence[int], wishes: dict[int, float], ys: list[float], heights: Sequence[float]) -> None:
    """Place a column as near to the wishes as its order and heights allow: items in each other's way move as one."""
    runs: list[tuple[float, list[int]]] = []
    offsets, offset = {}, 0.0
    for n, i in enumerate(stack):
        offset += ALONG + (heights[stack[n - 1]] + heights[i]) / 2 if n else 0.0
        offsets[i] = offset
        start, run = wishes[i] - offset, [i]
        while runs and runs[-1][0] > start:
            higher, others = runs.pop()
            start = (higher * len(others) + start * len(run)) / (len(others) + len(run))
            run = others + run
        runs.append((start, run))
    for start, run in runs:
        for i in run:
            ys[i] = start + offsets[i]


# Terminals: one line an edge, the words that `explain` uses, small coloured signs before them

_MARKS: Final = {ACCEPTED: " ✓", REJECTED: " ✗"}
_STYLES: Final = {ACCEPTED: "green", REJECTED: "red"}


def task_text(task: Task, vocabulary: Vocabulary, current: Node | None = None, most: int | None = None) -> TerminalText:
    """The task as text; `current` is marked with an arrow. Where that takes more lines than `most` (2 or more), those
    of the current state come first, and the last says how many states are left out."""
    words = Words(vocabulary)
    lines: list[TerminalText] = []
    blocks: dict[Node, int] = {}
    for m in _root_first(task):
        machine = task.machines[m]
        if not task.is_flat:
            lines.append(TerminalText(machine_name(m) + " (root)" * (m == task.root), "bold"))
        width = max(len(machine.name(u)) for u in machine.states)
        for u in machine.states:
            edges, outcome, here = machine.leaving[u], machine.outcomes[u], current == (m, u)
            if not edges and outcome in _MARKS and u != 0 and not here:
                continue
            blocks[m, u] = len(lines)
            lead = TerminalText("▶ " if here else "→ " if u == 0 else "  ")
            lead.append(machine.name(u).rjust(width), "bold reverse" if here else "bold")
            if not edges:
                lines.append(lead.append(_MARKS.get(outcome, "")))
            for n, edge in enumerate(edges):
                branch = "─" if len(edges) == 1 else "┬" if n == 0 else "└" if n == len(edges) - 1 else "├"
                line = lead.append(" ─") if n == 0 else TerminalText(" " * (width + 4))
                line.append(f"{branch}─ ")
                if edge.call != NO_CALL:
                    line.append(f"{machine_name(edge.call)} | ", "bold")
                for k, x in enumerate(literals := _shown(machine, edge)):
                    line.append(" and " * (k > 0))
                    for glyph, colour in vocabulary.glyphs[abs(x) - 1] if vocabulary.glyphs else ():
                        line.append(glyph, _TERMINAL_COLOURS.get(colour, colour) or None)
                    line.append(" " * bool(vocabulary.glyphs))
                    line.append(words.command(x) if x > 0 else words.doing(x), "red" if x < 0 else None)
                line.append("always" * (not literals) + " ──▶ ")
                ending = machine.outcomes[edge.target]
                line.append(machine.name(edge.target) + _MARKS.get(ending, ""), _STYLES.get(ending))
                reward = _reward(machine, edge, m == task.root)
                lines.append(line.append(f"  ({reward})" if reward else ""))
    if _any_hidden(task):
        lines.append(TerminalText(HIDDEN, "dim"))
    if most is None or len(lines) <= most:
        return TerminalText("\n").join(lines)
    first = blocks.get(current, 0) if current is not None else 0
    shown = lines[first : first + most - 1]
    left = len(blocks) - sum(first <= start < first + most - 1 for start in blocks.values())
    more = TerminalText(f"… {left} more state{'s'[: left != 1]}", "dim")
    return TerminalText("\n", no_wrap=True, overflow="ellipsis").join([*shown, more])
