"""The paper's published results, to be drawn beside those of our runs.

Their solve rates are on their 150 hand-designed problems, after training at the paper's scale with five seeds: they
show where a method ends up, and are no target for a small run on other problems.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from atlas.config import Config
from atlas.presets import preset
from atlas.reports.figures import AGGREGATES, INKS, Chart
from atlas.reports.reading import Group
from atlas.reports.results import Evaluated
from atlas.reports.tables import Cell, Number, Table

SET: Final = "hand"
"""Our counterpart of the set that they report on."""
CAPTION: Final = "Dotted: what the authors reached at the paper's scale, solve rates on their own 150 problems."

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class PublishedResult:
    """The published result of one of the paper's experiments."""

    iqm: float
    mean: float | None = None
    learning: Points = ()
    """Mean solve rate at env steps on the way."""
    solvable: Points = ()
    """Share of solvable problems in the buffer at env steps."""
    start: dict[str, float] = field(default_factory=dict)
    end: dict[str, float] = field(default_factory=dict)
    """Mean sizes of what is replayed at the start and at the end."""


def _sizes(states: float, rooms: float, objects: float) -> dict[str, float]:
    return {"states": states, "rooms": rooms, "objects": objects}


PUBLISHED: Final = {
    "paper-dr": PublishedResult(0.000, 0.015),
    "paper-plr": PublishedResult(
        0.894, 0.731, ((0.21e9, 0.235), (0.42e9, 0.329), (1.05e9, 0.472), (2.1e9, 0.611)), ((1.05e9, 0.40),),
        end=_sizes(3.6, 5.5, 16.1),
    ),
    "paper-accel": PublishedResult(
        0.889, 0.723, ((0.21e9, 0.259), (0.42e9, 0.376), (1.05e9, 0.526), (2.1e9, 0.629)), ((1.05e9, 0.97),),
        start=_sizes(3.2, 3.3, 8.3), end=_sizes(5.2, 5.6, 15.3),
    ),
    "paper-accel0": PublishedResult(0.907, 0.738),
    "paper-dr-level": PublishedResult(0.916, 0.748),
    "paper-plr-level": PublishedResult(0.876, 0.718),
    "paper-accel-level": PublishedResult(0.917, 0.744),
    "paper-accel0-level": PublishedResult(0.914, 0.752),
    "paper-dag-dr": PublishedResult(0.000),
    "paper-dag-plr": PublishedResult(0.525, 0.513),
    "paper-dag-dr-level": PublishedResult(0.851),
    "paper-dag-plr-level": PublishedResult(0.742),
    "paper-plr-index": PublishedResult(0.403),
    "paper-plr-myopic": PublishedResult(0.931),
    "paper-plr-independent-literals": PublishedResult(0.663),
    "paper-plr-pvl": PublishedResult(0.567),
    "paper-accel-pvl": PublishedResult(0.306),
    "paper-accel-edits-1": PublishedResult(0.498),
    "paper-accel-edits-3": PublishedResult(0.739),
    "paper-accel-edits-20": PublishedResult(0.901),
    "paper-accel-l": PublishedResult(0.772),
    "paper-accel-t": PublishedResult(0.590),
}  # fmt: skip
"""Published results by preset."""


def counterpart(config: Config) -> str | None:
    """The paper's experiment that a config repeats at any scale: the same teacher, problems and ablation."""
    return _by_traits().get(_traits(config))


@functools.cache
def _by_traits() -> dict[tuple[Any, ...], str]:
    return {_traits(preset(name).config): name for name in PUBLISHED}


def _traits(config: Config) -> tuple[Any, ...]:
    """The settings that tell the paper's experiments apart. The number of edits that make a child counts only where
    it is fixed."""
    plan, network, edits = config.plan, config.student.network, config.plan.edits
    kinds = edits and (edits.level, edits.task, edits.hindsight, edits.least if edits.least == edits.most else None)
    return (
        config.teacher.name, plan.score, kinds, config.pairing.how, config.pairing.minimal, config.tasks.sampler,
        network.task, network.graph_layers == 1, network.literals,
    )  # fmt: skip


def referenced(chart: Chart, groups: Sequence[Group]) -> Chart:
    """A chart with the authors' numbers in it, where they told any of what it shows."""
    known = [(n, PUBLISHED[name]) for n, group in enumerate(groups) if (name := counterpart(group.config))]
    kind, _, name = chart.name.rpartition("-")
    draw: list[Callable[[Any], None]] = []
    if chart.name == f"aggregate-{SET}":
        draw = [_over_bar(n, len(groups), kind, reached) for n, reached in known for kind in AGGREGATES]
    elif chart.name == f"over-time-{SET}" and known:
        draw = [_levels(place, getattr(known[0][1], kind), ()) for place, kind in enumerate(("mean", "iqm"))]
    elif kind in ("over-time-iqm", "over-time-mean") and name == SET:
        points = [reached.learning if kind.endswith("mean") else () for _, reached in known]
        finals = [getattr(reached, kind.rpartition("-")[2]) for _, reached in known]
        draw = [_levels(n, final, p) for (n, _), final, p in zip(known, finals, points, strict=True)]
    elif chart.name == "curriculum-solvable":
        draw = [_levels(n, None, reached.solvable) for n, reached in known]
    elif kind == "curriculum":
        draw = [_levels(n, of.get(name), ()) for n, reached in known for of in (reached.start, reached.end)]
    if not draw:
        return chart

    def with_reference(axes: Any) -> None:
        chart.draw(axes)
        for one in draw:
            one(axes)
        axes.plot([], [], ":", color="#84807a", label="authors")

    return replace(chart, caption=f"{chart.caption} {CAPTION}", draw=with_reference)


def _over_bar(number: int, groups: int, kind: str, reached: PublishedResult) -> Callable[[Any], None]:
    """A dotted line over the bar of a group."""

    def draw(axes: Any) -> None:
        value, width = getattr(reached, kind, None), 0.8 / groups
        if value is not None:
            place = list(AGGREGATES).index(kind) + (number - (groups - 1) / 2) * width
            axes.hlines(value, place - width / 2, place + width / 2, colors=axes.xaxis.label.get_color(), ls=":")
            axes.set_ylim(top=min(1.0, max(axes.get_ylim()[1], 1.05 * value)))

    return draw


def _levels(number: int, level: float | None, points: Points) -> Callable[[Any], None]:
    """A published curve: its final value as a line across, and its points as far as ours reach."""

    def draw(axes: Any) -> None:
        ink, end = INKS[number % len(INKS)], axes.dataLim.x1
        within = [point for point in points if point[0] <= 1.05 * end]
        if level is not None:
            axes.axhline(level, ls=":", lw=1.2, color=ink)
        if within:
            axes.plot(*zip(*within, strict=True), ":", marker="x", ms=4, lw=1.2, color=ink)

    return draw


def reference_table(groups: Sequence[Group], sets: Sequence[Evaluated]) -> Table:
    """Each group beside its counterpart in the paper."""
    ours = {result.group: result.aggregates for one in sets if one.name == SET for result in one.results}
    rows: list[tuple[Cell, ...]] = []
    for group in groups:
        if (name := counterpart(group.config)) is None:
            continue
        own = {kind: Number(e.value, e.low, e.high) for kind, e in ours.get(group, {}).items()}
        theirs = [
            None if value is None else Number(value, digits=3) for value in (PUBLISHED[name].iqm, PUBLISHED[name].mean)
        ]
        rows.append((group.name, name, own.get("iqm"), theirs[0], own.get("mean"), theirs[1]))
    columns = ("run", "in the paper", "IQM", "authors' IQM", "mean", "authors' mean")
    title = f"Beside the authors' results: ours on {SET}, theirs on their own 150 problems at the paper's scale."
    return Table(f"reference-{SET}", title, columns, rows)


def without_counterpart(groups: Sequence[Group]) -> list[str]:
    """A sentence for each group that the paper has no number for."""
    words = "repeats no experiment that the authors gave a number for, so it has no reference lines."
    return [f"{group.name} {words}" for group in groups if counterpart(group.config) is None]
