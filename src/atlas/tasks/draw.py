"""Drawings of machines: SVG, pictures and terminal text share one layout and one way to label edges.

Guards are rows of icons and words, negated ones in red and struck through. Negations that only keep sibling edges apart
(each sampled guard has them) are left out and a line below says so; tooltips tell the whole guard.
"""

import dataclasses
import math
from typing import NamedTuple

from PIL import Image

from atlas.tasks.explain import Words, hidden_negations, reward_words, shown_literals
from atlas.tasks.icons import ICONS, IconTable, Sign, draw_sign, sign_of, sign_width
from atlas.tasks.layout import Link, arrange
from atlas.tasks.machine import NO_CALL, Edge, Machine, Node, Task, machine_name
from atlas.tasks.shapes import (
    Box,
    Circle,
    Curve,
    Group,
    Ink,
    Line,
    Point,
    Polygon,
    Shape,
    Text,
    text_width,
    to_image,
    to_svg,
)  # fmt: skip
from atlas.tasks.terminal import HIDDEN
from atlas.vocabulary import ACCEPTED, REJECTED, RUNNING, Vocabulary

RADIUS, ICON, ROW, PADDING, MARGIN = 19.0, 18.0, 25.0, 6.0, 18.0
INK, SOFT, RED, GREEN, LIGHT = "#212529", "#868e96", "#e03131", "#2f9e44", "#fff3bf"
WORDS, SMALL = 11.0, 10.0


class _Row(NamedTuple):
    """One literal of a guard."""

    sign: Sign | None
    words: str
    negated: bool

    @property
    def width(self) -> float:
        icons = sign_width(self.sign, ICON) + 6 if self.sign else 0.0
        return icons + text_width(self.words, WORDS)


class _Label(NamedTuple):
    """What stands on an edge."""

    rows: tuple[_Row, ...]
    call: str
    reward: str
    title: str

    @property
    def size(self) -> Point:
        rows = [row.width for row in self.rows] or [text_width("always", WORDS)]
        call = text_width(self.call, WORDS) + 10 if self.call else 0.0
        reward = text_width(self.reward, SMALL) + 8 if self.reward else 0.0
        return (max(rows) + call + reward + 2 * PADDING, ROW * max(1, len(self.rows)) + 4)


def svg_task(task: Task, vocabulary: Vocabulary, current: Node | None = None, icons: IconTable = ICONS) -> str:
    """The task as an SVG document; `current` is highlighted."""
    shapes, size = _drawing(task, vocabulary, current, icons)
    return to_svg(shapes, size)


def draw_task(
    task: Task, vocabulary: Vocabulary, current: Node | None = None, scale: float = 2.0, icons: IconTable = ICONS
) -> Image.Image:
    """The task as a picture; `current` is highlighted."""
    shapes, size = _drawing(task, vocabulary, current, icons)
    return to_image(shapes, size, scale)


def _drawing(task: Task, vocabulary: Vocabulary, current: Node | None, icons: IconTable) -> tuple[list[Shape], Point]:
    """All machines below each other, the root first."""
    order = [task.root, *(m for m in range(len(task.machines)) if m != task.root)]
    shapes: list[Shape] = []
    width, y = 0.0, MARGIN
    for m in order:
        if not task.is_flat:
            title = machine_name(m) + (" (root)" if m == task.root else "")
            shapes.append(Text((MARGIN, y + 8), title, 13, INK, bold=True, centred=False))
            y += 24
        at = current[1] if current and current[0] == m else None
        drawn, size = _machine(task.machines[m], vocabulary, at, icons, m == task.root)
        shapes += [_moved(shape, MARGIN, y) for shape in drawn]
        width, y = max(width, size[0]), y + size[1] + MARGIN
    if any(hidden_negations(machine, u) for machine in task.machines for u in machine.running):
        width = max(width, text_width(HIDDEN, SMALL))
        shapes.append(Text((MARGIN, y), HIDDEN, SMALL, SOFT, centred=False))
        y += MARGIN
    return shapes, (width + 2 * MARGIN, y)


def _machine(
    machine: Machine, vocabulary: Vocabulary, current: int | None, icons: IconTable, is_root: bool
) -> tuple[list[Shape], Point]:
    states = [*machine.reachable, *(u for u in machine.states if u not in machine.reachable)]
    number = {u: n for n, u in enumerate(states)}
    labels = [_label(machine, edge, vocabulary, icons, is_root) for edge in machine.edges]
    links = [
        Link(number[edge.source], number[edge.target], label.size)
        for edge, label in zip(machine.edges, labels, strict=True)
    ]
    layout = arrange([(2 * RADIUS + 4, 2 * RADIUS + 4)] * len(states), links)
    shapes: list[Shape] = []
    for link, route in zip(links, layout.routes, strict=True):
        shapes += _edge(route, is_loop=link.source == link.target)
    for label, centre in zip(labels, layout.labels, strict=True):
        shapes.append(_draw_label(label, centre))
    x, y = layout.nodes[0]
    shapes += _arrow((x - RADIUS - 16, y), (x - RADIUS, y))
    for u in states:
        shapes.append(_state(machine, u, layout.nodes[number[u]], is_current=u == current))
    shapes = [_moved(shape, 16, 2) for shape in shapes]
    return shapes, (layout.size[0] + 18, layout.size[1] + 4)


def _label(machine: Machine, edge: Edge, vocabulary: Vocabulary, icons: IconTable, is_root: bool) -> _Label:
    rows = []
    for x in shown_literals(machine, edge):
        sign = sign_of(abs(x) - 1, vocabulary, icons)
        words = sign.words if sign else vocabulary.names[abs(x) - 1].replace("_", " ")
        rows.append(_Row(sign, ("not " if x < 0 else "") + words, x < 0))
    call = f"{machine_name(edge.call)} |" if edge.call != NO_CALL else ""
    title = " ".join(filter(None, [call, Words(vocabulary).guard(edge.literals)]))
    return _Label(tuple(rows), call, reward_words(machine, edge, is_root), title)


def _draw_label(label: _Label, centre: Point) -> Group:
    (x, y), (width, height) = centre, label.size
    left, top = x - width / 2, y - height / 2
    shapes: list[Shape] = [Box((left, top), (width, height), 5, Ink(fill="#f8f9fa", stroke="#ced4da", width=1))]
    at = left + PADDING
    if label.call:
        shapes.append(Text((at, y), label.call, WORDS, INK, bold=True, centred=False))
        at += text_width(label.call, WORDS) + 10
    for n, row in enumerate(label.rows):
        shapes += _draw_row(row, (at, top + 2 + ROW * (n + 0.5)))
    if not label.rows:
        shapes.append(Text((at, y), "always", WORDS, SOFT, centred=False))
    if label.reward:
        room = text_width(label.reward, SMALL)
        shapes.append(Text((left + width - PADDING - room / 2, y), label.reward, SMALL, GREEN, bold=True))
    return Group(label.title, tuple(shapes))


def _draw_row(row: _Row, left: Point) -> list[Shape]:
    x, y = left
    shapes: list[Shape] = []
    if row.sign:
        width = sign_width(row.sign, ICON)
        shapes += draw_sign(row.sign, left, ICON)
        if row.negated:
            shapes.append(Line(((x, y + 0.5 * ICON), (x + width, y - 0.5 * ICON)), Ink(stroke=RED, width=2.2)))
        x += width + 6
    return [*shapes, Text((x, y), row.words, WORDS, RED if row.negated else INK, centred=False)]


def _state(machine: Machine, u: int, centre: Point, is_current: bool) -> Group:
    outcome = machine.outcomes[u]
    colour = {ACCEPTED: GREEN, REJECTED: RED}.get(outcome, INK)
    fill = LIGHT if is_current else "#ffffff"
    shapes: list[Shape] = [Circle(centre, RADIUS, Ink(fill=fill, stroke=colour, width=3.5 if is_current else 1.8))]
    if outcome != RUNNING:
        shapes.append(Circle(centre, RADIUS - 4, Ink(stroke=colour, width=1.5)))
    shapes.append(Text(centre, machine.name(u), 12, colour, bold=is_current or outcome != RUNNING))
    meaning = {ACCEPTED: "accepting", REJECTED: "rejecting"}.get(outcome, "initial" if u == 0 else "running")
    return Group(f"{machine.name(u)}: {meaning}" + (", current" if is_current else ""), tuple(shapes))


def _edge(route: list[Point], is_loop: bool) -> list[Shape]:
    """The lines of an edge, up to its label and on to its target."""
    if is_loop:
        (x, y), (lx, ly) = route[0], route[2]
        out, back = _on_circle((x, y), (lx, ly - 30)), _on_circle((x, y), (lx, ly + 30))
        return [_curve([out, (lx, ly - 5)]), *_arrow_curve([(lx, ly + 5), back])]
    start, end = _on_circle(route[0], route[1]), _on_circle(route[-1], route[-2])
    return _arrow_curve([start, *route[1:-1], end])


def _on_circle(centre: Point, towards: Point) -> Point:
    """Where a line meets a state: on the side it comes from, a little up or down."""
    (x, y), (tx, ty) = centre, towards
    rise = max(-0.75, min(0.75, (ty - y) / 120)) * RADIUS
    side = 1 if tx > x else -1
    return (x + side * math.sqrt(RADIUS**2 - rise**2), y + rise)


def _curve(points: list[Point]) -> Curve:
    return Curve(tuple(points), Ink(stroke="#495057", width=1.4))


def _arrow_curve(points: list[Point]) -> list[Shape]:
    (x0, _), (x1, y1) = points[-2], points[-1]
    side = 1 if x1 > x0 else -1
    return [_curve([*points[:-1], (x1 - 6 * side, y1)]), _head((x1, y1), side)]


def _arrow(start: Point, end: Point) -> list[Shape]:
    return _arrow_curve([start, end])


def _head(tip: Point, side: int) -> Polygon:
    x, y = tip
    return Polygon(((x, y), (x - 9 * side, y - 4), (x - 9 * side, y + 4)), Ink(fill="#495057"))


def _moved(shape: Shape, dx: float, dy: float) -> Shape:
    def move(point: Point) -> Point:
        return (point[0] + dx, point[1] + dy)

    if isinstance(shape, Group):
        return Group(shape.title, tuple(_moved(inner, dx, dy) for inner in shape.shapes))
    if isinstance(shape, Circle):
        return dataclasses.replace(shape, centre=move(shape.centre))
    if isinstance(shape, Box):
        return dataclasses.replace(shape, corner=move(shape.corner))
    if isinstance(shape, Text):
        return dataclasses.replace(shape, place=move(shape.place))
    return dataclasses.replace(shape, points=tuple(map(move, shape.points)))
