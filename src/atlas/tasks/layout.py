"""Layered layout of small graphs, left to right: where nodes, edge labels and bends go. No external programs.

States stand in even layers, the labels of edges in odd ones, so that a label has room of its own. Edges that would
lead back are turned around for the layout. Long edges get a bend in every layer they cross. Layers are ordered by a few
sweeps of barycentres that keep the order with the fewest crossings; then every layer is moved as close to its
neighbours as its order and the heights of its items allow (isotonic regression). Lines are straight inside layers and
bend between them, so that they never pass behind a label.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

Point = tuple[float, float]
Size = tuple[float, float]
"""Width and height."""
_SWEEPS = 12
_BEND: Size = (0.0, 6.0)


class Link(NamedTuple):
    """An edge to be laid out."""

    source: int
    target: int
    label: Size


class Gaps(NamedTuple):
    """Room between layers and between the items of one layer."""

    across: float = 40.0
    along: float = 12.0


_GAPS = Gaps()


@dataclass(frozen=True)
class Layout:
    """Centres of nodes and labels, the points each edge passes from source to target, and the size of it all."""

    nodes: list[Point]
    labels: list[Point]
    routes: list[list[Point]]
    """Of each edge: the centre of the source, both sides of every layer and of the label, the centre of the target."""
    size: Size


@dataclass
class _Item:
    """A node, a label or a bend: something that takes room in a layer."""

    layer: int
    size: Size
    before: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)
    y: float = 0.0


def arrange(nodes: Sequence[Size], links: Sequence[Link], gaps: Gaps = _GAPS) -> Layout:
    """Lay out a graph whose node 0 comes first."""
    ranks = _ranks(len(nodes), links)
    items = [_Item(2 * rank, size) for rank, size in zip(ranks, nodes, strict=True)]
    chains = [_chain(items, link, ranks) for link in links]
    layers = _order(items)
    _place(items, layers, gaps.along)
    xs, widths = _columns(items, layers, gaps.across)
    top = min((item.y - item.size[1] / 2 for item in items), default=0.0)
    centres = [(xs[item.layer], item.y - top) for item in items]
    bottom = max((y + item.size[1] / 2 for (_, y), item in zip(centres, items, strict=True)), default=0.0)
    right = max((x + item.size[0] / 2 for (x, _), item in zip(centres, items, strict=True)), default=0.0)
    return Layout(
        nodes=centres[: len(nodes)],
        labels=[centres[label] for _, label in chains],
        routes=[_route(centres, items, widths, chain, label) for chain, label in chains],
        size=(right, bottom),
    )


def _ranks(count: int, links: Sequence[Link]) -> list[int]:
    """The layer of each node: the longest way from node 0 along edges that do not lead back."""
    back = _back_edges(count, links)
    forward = [
        (link.target, link.source) if i in back else (link.source, link.target)
        for i, link in enumerate(links)
        if link.source != link.target
    ]
    ranks = [0] * count
    for _ in range(count):
        for source, target in forward:
            ranks[target] = max(ranks[target], ranks[source] + 1)
    return ranks


def _back_edges(count: int, links: Sequence[Link]) -> set[int]:
    """Edges that close a cycle, as a walk in depth from node 0 meets them."""
    state = [0] * count  # 0 not seen, 1 on the way, 2 done
    back: set[int] = set()

    def visit(u: int) -> None:
        state[u] = 1
        for i, link in enumerate(links):
            if link.source == u and link.target != u:
                if state[link.target] == 1:
                    back.add(i)
                elif state[link.target] == 0:
                    visit(link.target)
        state[u] = 2

    for u in range(count):
        if state[u] == 0:
            visit(u)
    return back


def _chain(items: list[_Item], link: Link, ranks: list[int]) -> tuple[list[int], int]:
    """Add the label and the bends of an edge; the items it passes from source to target, and which is the label.

    The label stands in the layer next to the source. A loop goes to its label and comes back.
    """
    source, target = link.source, link.target
    low, high = sorted((2 * ranks[source], 2 * ranks[target]))
    if low == high:
        high = low + 1
        label_layer = high
    else:
        label_layer = low + 1 if ranks[source] < ranks[target] else high - 1
    first = len(items)
    inner = list(range(low + 1, high + (source == target)))
    for layer in inner:
        items.append(_Item(layer, link.label if layer == label_layer else _BEND))
    middle = list(range(first, len(items)))
    start, end = (source, target) if ranks[source] <= ranks[target] else (target, source)
    path = [start, *middle, *([end] if start != end else [])]
    for a, b in pairwise(path):
        items[a].after.append(b)
        items[b].before.append(a)
    ordered = path if start == source else path[::-1]
    return (ordered if source != target else [source, *middle, source]), first + inner.index(label_layer)


def _order(items: list[_Item]) -> list[list[int]]:
    """The order of items in each layer that crosses the fewest lines, among those that sweeps of barycentres give."""
    layers: list[list[int]] = [[] for _ in range(max((item.layer for item in items), default=-1) + 1)]
    for number, item in enumerate(items):
        layers[item.layer].append(number)
    best, fewest = [list(layer) for layer in layers], _crossings(items, layers)
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        for n in range(len(layers)) if forward else reversed(range(len(layers))):
            _sort_layer(items, layers, n, forward)
        crossings = _crossings(items, layers)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layers], crossings
    return best


def _sort_layer(items: list[_Item], layers: list[list[int]], n: int, forward: bool) -> None:
    place = {number: i for layer in layers for i, number in enumerate(layer)}

    def barycentre(number: int) -> float:
        neighbours = items[number].before if forward else items[number].after
        if not neighbours:
            return float(place[number])
        return sum(place[v] for v in neighbours) / len(neighbours)

    layers[n].sort(key=barycentre)


def _crossings(items: list[_Item], layers: list[list[int]]) -> int:
    total = 0
    for layer in layers[1:]:
        place = {number: i for i, number in enumerate(layers[items[layer[0]].layer - 1])} if layer else {}
        ends = [(place[u], i) for i, v in enumerate(layer) for u in items[v].before if u in place]
        total += sum((a - c) * (b - d) < 0 for n, (a, b) in enumerate(ends) for c, d in ends[:n])
    return total


def _place(items: list[_Item], layers: list[list[int]], gap: float) -> None:
    """Heights: start packed, then pull every layer towards its neighbours, in turns."""
    for layer in layers:
        _settle(items, layer, [0.0] * len(layer), gap)
    for sweep in range(2 * _SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wishes = []
            for number in layer:
                item = items[number]
                side = item.before if sweep % 2 == 0 else item.after
                neighbours = side or item.before + item.after
                wishes.append(sum(items[v].y for v in neighbours) / len(neighbours) if neighbours else item.y)
            _settle(items, layer, wishes, gap)


def _settle(items: list[_Item], layer: list[int], wishes: list[float], gap: float) -> None:
    """Put the items of a layer, in their order and without overlap, as near to where they wish as can be."""
    offsets, offset = [], 0.0
    for n, number in enumerate(layer):
        height = items[number].size[1]
        if n > 0:
            offset += (items[layer[n - 1]].size[1] + height) / 2 + gap
        offsets.append(offset)
    level = _isotonic([wish - o for wish, o in zip(wishes, offsets, strict=True)])
    for number, y, o in zip(layer, level, offsets, strict=True):
        items[number].y = y + o


def _isotonic(values: list[float]) -> list[float]:
    """The non-decreasing sequence nearest to the given one in squares (pool adjacent violators)."""
    pools: list[tuple[float, int]] = []
    for value in values:
        pools.append((value, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (a, n), (b, m) = pools[-2], pools[-1]
            pools[-2:] = [((a * n + b * m) / (n + m), n + m)]
    return [value for value, count in pools for _ in range(count)]


def _columns(items: list[_Item], layers: list[list[int]], gap: float) -> tuple[list[float], list[float]]:
    """The centre and the width of each layer."""
    widths = [max((items[number].size[0] for number in layer), default=0.0) for layer in layers]
    starts = [sum(widths[:n]) + n * gap for n in range(len(widths))]
    return [start + width / 2 for start, width in zip(starts, widths, strict=True)], widths


def _route(centres: list[Point], items: list[_Item], widths: list[float], chain: list[int], label: int) -> list[Point]:
    """The points of an edge: straight through every layer, up to its label and on from the other side of it."""
    points = [centres[chain[0]]]
    for previous, number in pairwise(chain[:-1]):
        x, y = centres[number]
        side = 1 if centres[previous][0] < x else -1
        reach = [widths[items[number].layer] / 2] + [items[number].size[0] / 2] * (number == label)
        points += [(x - side * half, y) for half in reach] + [(x + side * half, y) for half in reversed(reach)]
    return [*points, centres[chain[-1]]]
