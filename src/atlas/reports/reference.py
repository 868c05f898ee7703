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
RATES: Final = "Dotted: what the authors reached at the paper's scale, on their own 150 problems."
SIZES: Final = "Dotted: where the authors' runs began and ended, at the paper's scale."
SHARES: Final = "Dotted: what the authors found on the way, at the paper's scale."

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
    end = 1.05 * max(
        (record["steps"] for group in groups for run in group.runs for record in run.records[-1:]), default=0
    )
    draw: list[Callable[[Any], None] | None] = []
    words = RATES
    if chart.name == f"aggregate-{SET}":
        draw = [_over_bar(n, len(groups), kind, reached) for n, reached in known for kind in AGGREGATES]
    elif chart.name == f"over-time-{SET}" and known:
        draw = [_level(place, getattr(known[0][1], kind)) for place, kind in enumerate(("mean", "iqm"))]
    elif kind in ("over-time-iqm", "over-time-mean") and name == SET:
        draw = [_level(n, getattr(reached, kind.rpartition("-")[2])) for n, reached in known]
        if kind.endswith("mean"):
            draw += [_points(n, reached.learning, end) for n, reached in known]
    elif chart.name == "curriculum-solvable":
        draw, words = [_points(n, reached.solvable, end) for n, reached in known], SHARES
    elif kind == "curriculum":
        draw, words = [_level(n, of.get(name)) for n, reached in known for of in (reached.start, reached.end)], SIZES
    told = [one for one in draw if one is not None]
    if not told:
        return chart

    def with_reference(axes: Any) -> None:
        chart.draw(axes)
        for one in told:
            one(axes)
        axes.plot([], [], ":", color="#84807a", label="authors")

    return replace(chart, caption=f"{chart.caption} {words}", draw=with_reference)


def _over_bar(number: int, groups: int, kind: str, reached: PublishedResult) -> Callable[[Any], None] | None:
    """A dotted line over the bar of a group."""
    if (value := getattr(reached, kind, None)) is None:
        return None

    def draw(axes: Any) -> None:
        width = 0.8 / groups
        place = list(AGGREGATES).index(kind) + (number - (groups - 1) / 2) * width
        axes.hlines(value, place - width / 2, place + width / 2, colors=axes.xaxis.label.get_color(), ls=":")
        axes.set_ylim(top=min(1.0, max(axes.get_ylim()[1], 1.05 * value)))

    return draw


def _level(number: int, level: float | None) -> Callable[[Any], None] | None:
    """A line across where a curve of theirs began or ended."""
    if level is None:
        return None

    def draw(axes: Any) -> None:
        axes.axhline(level, ls=":", lw=1.2, color=INKS[number % len(INKS)])
        axes.set_ylim(top=max(axes.get_ylim()[1], 1.05 * level))

    return draw


def _points(number: int, points: Points, end: float) -> Callable[[Any], None] | None:
    """Points of a curve of theirs, as far as ours reach."""
    if not (within := [point for point in points if point[0] <= end]):
        return None
    return lambda axes: axes.plot(
        *zip(*within, strict=True), ":", marker="x", ms=4, lw=1.2, color=INKS[number % len(INKS)]
    )


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
