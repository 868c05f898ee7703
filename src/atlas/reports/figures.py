"""Charts of learning, diagnostics and curriculum: curves with bands over seeds, bars, shares."""

import io
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, Final, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from atlas.evaluation.statistics import CONFIDENCE, RESAMPLES, STATISTICS, Estimate, Statistic, bootstrap
from atlas.reports.reading import Group, Plain
from atlas.runs.store import write_whole
from atlas.words import counted, short

# Numbers over the course of training: one curve for runs of the same settings, with a band over their seeds.

MOST_POINTS: Final = 200
"""Curves of more points are averaged: nobody sees the difference, and pages stay small."""
RESAMPLES_OF_A_CURVE: Final = 400
"""How often the data is resampled for each point of a curve over problems."""

Value = Callable[[Plain], Any]
"""Takes a number out of a record; None where there is none."""


@dataclass(frozen=True, eq=False)
class Curve:
    """A line with the interval of 95 % around it; of a single run without one, low and high are the line."""

    x: np.ndarray
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


def at(*keys: str) -> Value:
    """The number under a path of keys, e.g. `at("held_out", "rooms_1")`."""

    def value(record: Plain) -> Any:
        found: Any = record
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        return found

    return value


@dataclass(frozen=True)
class Axis:
    """The axis that a curve runs over."""

    key: str
    """In the records."""
    title: str
    unit: float = 1.0
    """As the record counts it."""


STEPS: Final = Axis("steps", "env steps")
AXES: Final = (STEPS, Axis("seconds", "minutes", 60.0), Axis("trained", "updates"))
"""Env steps compare with papers, minutes with patience, updates (rollouts that were trained on) with optimisers."""


def curve(group: Group, value: Value, axis: Axis = STEPS) -> Curve | None:
    """A number over the course of training; None if no run has it."""
    return join([line for run in group.runs if (line := points(run.records, value, axis)) is not None])


def points(records: Sequence[Plain], value: Value, axis: Axis = STEPS) -> tuple[np.ndarray, np.ndarray] | None:
    """Positions at which the number is known, and the number there."""
    pairs: list[tuple[Any, Any]] = [(record.get(axis.key), value(record)) for record in records]
    known = [(float(at) / axis.unit, float(number)) for at, number in pairs if _is_number(at) and _is_number(number)]
    if not known:
        return None
    steps, numbers = np.array(known).T
    order = np.argsort(steps, kind="stable")
    return steps[order], numbers[order]


def _is_number(value: Any) -> bool:
    """Whether it is a number that can be drawn: neither infinite nor larger than floats are."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def join(lines: Sequence[tuple[np.ndarray, np.ndarray]]) -> Curve | None:
    """Lines of several runs as one curve, over the steps that all of them have reached."""
    if not lines:
        return None
    start, end = max(x[0] for x, _ in lines), min(x[-1] for x, _ in lines)
    grid = np.unique(np.concatenate([x for x, _ in lines]))
    grid = grid[(grid >= start) & (grid <= end)]
    if not len(grid):  # runs that never overlap have no common curve: the longest speaks for them
        lines = [max(lines, key=lambda line: float(line[0][-1]))]
        grid = lines[0][0]
    rows = np.stack([np.interp(grid, x, y) for x, y in lines])
    low, high = interval_of_mean(rows)
    return Curve(*_thinned(grid, rows.mean(0), low, high))


def interval_of_mean(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The interval of 95 % of the mean of `rows[runs, points]`, by resampled runs."""
    draws = rows[np.random.default_rng(0).integers(len(rows), size=(RESAMPLES, len(rows)))].mean(1)
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(draws, [tail, 100 - tail], axis=0)
    return low, high


def solve_rates(
    runs: Sequence[Plain], statistics: dict[str, Statistic], times: int = RESAMPLES_OF_A_CURVE
) -> dict[str, Curve]:
    """Statistics of runs x problems over env steps, with stratified bootstrap intervals over runs, from what
    `atlas eval --over-time` has written about several runs; empty if it has not kept the rates of single problems.

    Rates between two policies of a run are interpolated, and the points are those of the run that has fewest.
    """
    if not runs or not all(run.get("problems") and all("rates" in point for point in run["points"]) for run in runs):
        return {}
    shared = [name for name in runs[0]["problems"] if all(name in run["problems"] for run in runs)]
    start, end = max(run["points"][0]["steps"] for run in runs), min(run["points"][-1]["steps"] for run in runs)
    within = [[p["steps"] for p in run["points"] if start <= p["steps"] <= end] for run in runs]
    grid = np.array(min(within, key=len), float)
    if not len(grid) or not shared:
        return {}
    cube = np.stack([_rates_at(run, shared, grid) for run in runs])  # runs, points, problems
    attempts = min(int(run["set"].get("attempts", 1)) for run in runs)
    found = [bootstrap(statistics, cube[:, point], attempts, times=times) for point in range(len(grid))]
    return {name: Curve(grid, *columns_of([one[name] for one in found])) for name in statistics}


def columns_of(estimates: Sequence[Estimate]) -> np.ndarray:
    """`[3, estimates]`: values, and the ends of their intervals; the value itself where there is no interval."""
    value, low, high = np.array([(e.value, e.low, e.high) for e in estimates], float).T
    return np.stack([value, np.where(np.isnan(low), value, low), np.where(np.isnan(high), value, high)])


def _rates_at(run: Plain, names: Sequence[str], grid: np.ndarray) -> np.ndarray:
    """`[points, problems]`"""
    places = [run["problems"].index(name) for name in names]
    steps = np.array([point["steps"] for point in run["points"]], float)
    rates = np.array([point["rates"] for point in run["points"]], float)[:, places]
    return np.stack([np.interp(grid, steps, column) for column in rates.T], axis=1)


def _thinned(*columns: np.ndarray) -> list[np.ndarray]:
    """At most so many points, each the mean of its neighbours."""
    if len(columns[0]) <= MOST_POINTS:
        return list(columns)
    return [np.array([part.mean() for part in np.array_split(column, MOST_POINTS)]) for column in columns]


def keys(group: Group, *path: str) -> list[str]:
    """The names that occur under a path in any record: numbers in their order first, then words as they came."""
    found: dict[str, None] = {}
    for run in group.runs:
        for record in run.records:
            inner = at(*path)(record)
            found |= dict.fromkeys(inner) if isinstance(inner, dict) else {}
    return sorted(found, key=lambda name: (0, float(name)) if _is_numeral(name) else (1, 0.0))


def _is_numeral(name: str) -> bool:
    return name.replace(".", "", 1).isdecimal()


# Charts: how they look, and their forms as files (PNG, SVG, PDF) and as a part of the page.

INKS: Final = ("#3b82f6", "#f97316", "#10b981", "#e11d48", "#8b5cf6", "#ca8a04", "#06b6d4", "#84807a")
"""Colours of series: clear of each other on white and on black."""
FORMATS: Final = ("png", "svg", "pdf")
WIDTH: Final = 4.4
"""Inches: at this width words are readable on a phone."""
MOST_COLUMNS: Final = 3
"""Charts beside each other."""
Format = Literal["number", "share"]
Draw = Callable[[Axes], None]


@dataclass(frozen=True, eq=False)
class Chart:
    """A figure that can be drawn."""

    name: str
    """The name of its file."""
    title: str
    caption: str
    draw: Draw
    height: float = 2.9
    axis: str = ""
    """Which of the axes it has, if it is there for each of them."""


@dataclass(frozen=True, eq=False)
class Line:
    """A curve and how it is called."""

    label: str
    curve: Curve
    dashed: bool = False
    ink: int | None = None
    """Which colour; by default its place among the lines."""


@dataclass(frozen=True)
class Theme:
    """Colours of everything but the series."""

    ink: str
    grid: str
    ground: str


PAPER: Final = Theme("#22262b", "#d9dde2", "#ffffff")
PAGE: Final = Theme("#010203", "#040506", "#070809")
"""Stand for the page's own colours, which depend on the reader's theme."""


def drawn(charts: Chart | Sequence[Chart], theme: Theme, formats: Sequence[str]) -> list[bytes]:
    """Draw a chart, or several beside each other; files in the formats asked for."""
    panels = [charts] if isinstance(charts, Chart) else list(charts)
    columns = 2 if len(panels) == 4 else min(len(panels), MOST_COLUMNS)
    rows = -(-len(panels) // columns)
    style: Any = {
        "font.family": "DejaVu Sans", "font.size": 9.0, "axes.titlesize": 9.5, "axes.titleweight": "bold",
        "axes.titlelocation": "left", "svg.fonttype": "none", "svg.hashsalt": panels[0].name, "pdf.fonttype": 42,
        "text.parse_math": False, "text.color": theme.ink, "axes.labelcolor": theme.ink, "axes.edgecolor": theme.grid,
        "xtick.color": theme.ink, "ytick.color": theme.ink, "grid.color": theme.grid,
        "axes.facecolor": theme.ground, "figure.facecolor": theme.ground,
        "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True,
        "xtick.major.size": 0, "ytick.major.size": 0, "lines.linewidth": 1.6, "legend.frameon": False,
    }  # fmt: skip
    with matplotlib.rc_context(style):  # saving too: ticks are made while drawing
        height = max(chart.height for chart in panels)
        figure = Figure(figsize=(WIDTH * columns, height * rows), layout="constrained")
        FigureCanvasAgg(figure)
        for number, chart in enumerate(panels):
            axes = figure.add_subplot(rows, columns, number + 1)
            axes.set_title(chart.title)
            chart.draw(axes)
        _legends(figure)
        return [_bytes(figure, form) for form in formats]


def by_row(told: dict[str, Any], columns: int) -> dict[str, Any]:
    """The entries of a legend so that they are read row by row; matplotlib fills column by column."""
    labels = [label for first in range(columns) for label in list(told)[first::columns]]
    return {"handles": [told[label] for label in labels], "labels": labels, "ncols": columns}


def _legends(figure: Figure) -> None:
    """Below all axes, in as many columns as fit; below each, if they show different things."""
    told = [dict(zip(*axes.get_legend_handles_labels()[::-1], strict=True)) for axes in figure.axes]
    longest = max(told, key=len)

    def columns(labels: Iterable[str], width: float) -> int:
        return max(1, min(len(list(labels)), int(62 * width / WIDTH) // (max(map(len, labels)) + 6)))

    if all(one.keys() <= longest.keys() for one in told):
        if len(longest) > 1:
            size = by_row(longest, columns(longest, figure.get_figwidth()))
            figure.legend(**size, fontsize=8, handlelength=1.4, loc="outside lower center")
        return
    for axes, one in zip(figure.axes, told, strict=True):
        if one:
            size = by_row(one, columns(one, WIDTH))
            axes.legend(**size, fontsize=7, handlelength=1.4, loc="upper center", bbox_to_anchor=(0.5, -0.2))


def lines(series: Sequence[Line], form: Format = "number", floor: float | None = None, axis: Axis = STEPS) -> Draw:
    """Lines with bands over the course of training."""

    def draw(axes: Axes) -> None:
        for number, line in enumerate(series):
            ink = INKS[(number if line.ink is None else line.ink) % len(INKS)]
            x, style = line.curve.x, "--" if line.dashed else "-"
            axes.plot(x, line.curve.value, style, color=ink, label=line.label, marker="o" if len(x) < 3 else "", ms=4)
            if np.any(line.curve.high > line.curve.low):
                axes.fill_between(x, line.curve.low, line.curve.high, color=ink, alpha=0.18, linewidth=0)
        _horizontal(axes, axis)
        _vertical(axes, form, floor)

    return draw


def areas(labels: Sequence[str], x: np.ndarray, heights: np.ndarray, form: Format = "share") -> Draw:
    """Shares on top of each other over env steps; `heights[labels, points]`."""

    def draw(axes: Axes) -> None:
        inks = shades(len(labels))
        if len(x) > 1:
            axes.stackplot(x, heights, labels=labels, colors=inks, linewidth=0, alpha=0.9)
            axes.set_xlim(x[0], x[-1])
        else:
            below = np.cumsum(heights, 0) - heights
            for label, height, start, ink in zip(labels, heights, below, inks, strict=True):
                axes.bar([short(x[0])], height, bottom=start, label=label, color=ink, width=0.4)
        if len(x) > 1:
            _horizontal(axes, STEPS)
        _vertical(axes, form, 0.0)

    return draw


def shades(count: int) -> list[Any]:
    """Colours of neighbours in a stack: the series' own while they last, then a scale."""
    if count <= len(INKS):
        return list(INKS[:count])
    return [matplotlib.colormaps["turbo"](0.06 + 0.88 * n / (count - 1)) for n in range(count)]


def bars(groups: Sequence[str], kinds: Sequence[str], values: np.ndarray, low: np.ndarray, high: np.ndarray) -> Draw:
    """Bars with intervals, one cluster for each kind; arrays are `[groups, kinds]`."""

    def draw(axes: Axes) -> None:
        width = 0.8 / len(groups)
        for number, group in enumerate(groups):
            places = np.arange(len(kinds)) + (number - (len(groups) - 1) / 2) * width
            spread = np.abs(np.stack([values[number] - low[number], high[number] - values[number]]))
            ink = INKS[number % len(INKS)]
            axes.bar(places, values[number], 0.9 * width, color=ink, label=group, alpha=0.85)
            axes.errorbar(places, values[number], spread, fmt="none", ecolor=axes.xaxis.label.get_color(), lw=1.1)
        axes.set_xticks(range(len(kinds)), kinds)
        axes.grid(axis="x", visible=False)
        axes.set_ylim(0, max(1e-3, min(1.0, 1.15 * float(np.fmax(values, high).max()))))
        _vertical(axes, "share", None)

    return draw


def dots(groups: Sequence[str], rows: Sequence[str], values: np.ndarray, low: np.ndarray, high: np.ndarray) -> Draw:
    """A line for each row, a dot with an interval for each group in it; arrays are `[groups, rows]`."""

    def draw(axes: Axes) -> None:
        for number, group in enumerate(groups):
            places = np.arange(len(rows)) + (number - (len(groups) - 1) / 2) * 0.6 / len(groups)
            spread = np.abs(np.stack([values[number] - low[number], high[number] - values[number]]))
            style = {"fmt": "o", "ms": 3.5, "lw": 1.1, "color": INKS[number % len(INKS)]}
            axes.errorbar(values[number], places, xerr=spread, label=group, **style)  # type: ignore[arg-type]
        axes.set_yticks(range(len(rows)), rows, fontsize=8)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(-0.02, 1.02)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))

    return draw


def _horizontal(axes: Axes, axis: Axis) -> None:
    axes.set_xlabel(axis.title)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: short(x)))


def stacked(groups: Sequence[str], parts: dict[str, str], values: np.ndarray) -> Draw:
    """A bar of shares for each group; `values[groups, parts]`, parts with their colours."""

    def draw(axes: Axes) -> None:
        left = np.zeros(len(groups))
        for (part, ink), share in zip(parts.items(), values.T, strict=True):
            axes.barh(range(len(groups)), share, 0.6, left=left, color=ink, label=part)
            left = left + share
        axes.set_yticks(range(len(groups)), groups)
        axes.set_ylim(len(groups) - 0.5, -0.5)
        axes.set_xlim(0, 1)
        axes.grid(axis="y", visible=False)
        axes.xaxis.set_major_formatter(FuncFormatter(_per_cent))

    return draw


def _vertical(axes: Axes, form: Format, floor: float | None) -> None:
    axes.yaxis.set_major_locator(MaxNLocator(5))
    if form == "share":
        axes.yaxis.set_major_formatter(FuncFormatter(_per_cent))
    if floor is not None:
        axes.set_ylim(bottom=floor)


def _per_cent(share: float, _: Any) -> str:
    return f"{100 * share:.3g}%"


def inline_svg(chart: Chart) -> str:
    """The chart as a part of a page: scales with it, and follows its theme."""
    text = drawn(chart, PAGE, ("svg",))[0].decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    box = re.search(r'viewBox="([^"]*)"', text)
    assert box, "a figure tells its size"
    head = f'<svg viewBox="{box[1]}" role="img" aria-label="{escape(chart.title)}">'
    text = re.sub(r"<svg [^>]*>", lambda _: head, text, count=1)
    text = text.replace("'DejaVu Sans'", "system-ui").replace("xlink:href", "href")
    for mark, colour in ((PAGE.ink, "currentColor"), (PAGE.grid, "var(--line)"), (PAGE.ground, "none")):
        text = text.replace(mark, colour)
    return re.sub(r"\n\s*", "\n", text).strip()


def save_chart(chart: Chart, folder: Path) -> list[Path]:
    """Write a chart in every format."""
    return save_panels(chart.name, [chart], folder)


def save_panels(name: str, charts: Sequence[Chart], folder: Path) -> list[Path]:
    """Write charts beside each other, in every format."""
    paths = [folder / f"{name}.{form}" for form in FORMATS]
    for path, content in zip(paths, drawn(charts, PAPER, FORMATS), strict=True):
        write_whole(path, content)
    return paths


def _bytes(figure: Figure, form: str) -> bytes:
    buffer = io.BytesIO()
    undated: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    figure.savefig(buffer, format=form, dpi=200, metadata=undated.get(form))
    return buffer.getvalue()


# Charts of learning: held-out problems, evaluations over time, losses and other signs of health.

BAND: Final = (
    "In all curves over training, lines are means over seeds and bands their 95 % intervals, from seeds drawn again; "
    "of evaluations over time, problem by problem."
)
AGGREGATES: Final = {"mean": "mean", "iqm": "IQM", "median": "median"}
LOSSES: Final[dict[str, tuple[str, str, Format]]] = {
    "policy": ("Policy loss", "Mean over the minibatches of a rollout.", "number"),
    "value": ("Value loss", "Half the squared error of the values, clipped as configured.", "number"),
    "entropy": ("Entropy", "Of the policy, in nats; six equally likely actions have 1.79.", "number"),
    "cloning": ("Cloning loss", "Cross-entropy of the actions of plans that are shown; 0 where none are.", "number"),
    "kl": ("KL divergence", "Estimated divergence from the policy that acted.", "number"),
    "clipped": ("Clipped ratios", "Share of steps whose ratio left the clipping range.", "share"),
    "gradient_norm": ("Gradient norm", "Before clipping.", "number"),
    "explained_variance": (
        "Explained variance",
        "Of the targets by the values; 1 is all, 0 or less nothing.",
        "number",
    ),
}
"""Name in the records -> title, caption, form."""


def compared(groups: Sequence[Group], *path: str, axis: Axis = STEPS) -> list[Line]:
    """One line a group, of the number under a path of keys."""
    found = ((number, group, curve(group, at(*path), axis)) for number, group in enumerate(groups))
    return [Line(group.name, line, ink=number) for number, group, line in found if line is not None]


def held_out(groups: Sequence[Group]) -> Iterator[Chart]:
    """Solve rates on problems of a run's own kind that it never trains on: of all, and by stratum; over every axis."""
    for axis in AXES:
        suffix = "" if axis is STEPS else f"-over-{axis.title}"
        for chart in _held_out(groups, axis):
            yield replace(chart, name=chart.name + suffix, axis=axis.title)


def _held_out(groups: Sequence[Group], axis: Axis) -> Iterator[Chart]:
    limits = sorted({group.config.domain.step_limit for group in groups})
    within = f"within {' or '.join(map(str, limits))} steps"
    words = f"Share of held-out problems solved {within}."
    strata = sorted({key for group in groups for key in keys(group, "held_out") if key != "all"}, key=_value)
    if len(groups) == 1:
        series = [Line(_told(key), line) for key in strata if (line := curve(groups[0], at("held_out", key), axis))]
        everything = curve(groups[0], at("held_out", "all"), axis)
        series += [Line("all", everything, dashed=True, ink=7)] if everything else []
        if series:
            yield Chart("held-out", "Held-out problems", words, lines(series, "share", 0.0, axis))
        return
    for key in ("all", *(strata if len(strata) > 1 else ())):
        if series := compared(groups, "held_out", key, axis=axis):
            title = "Held-out problems" + (f", {_told(key)}" if key != "all" else "")
            yield Chart(f"held-out-{key.replace('_', '-')}", title, words, lines(series, "share", 0.0, axis))


def _value(key: str) -> int:
    """The 2 of `rooms_2`."""
    return int(key.rpartition("_")[2]) if key.rpartition("_")[2].isdecimal() else 0


def _told(key: str) -> str:
    """`2 rooms` for `rooms_2`."""
    return counted(_value(key), key.rpartition("_")[0])


def over_time(groups: Sequence[Group]) -> Iterator[Chart]:
    """Evaluations of the policies that were kept along the way: of one group a chart for each set, of several a chart
    for the IQM and one for the mean."""
    names = dict.fromkeys(name for group in groups for run in group.runs for name in run.over_time)
    for name in names:
        told = [[run.over_time[name] for run in group.runs if name in run.over_time] for group in groups]
        limit = next(one for runs in told for one in runs).get("set", {}).get("step_limit", "?")
        words = f"on the set {name} within {limit} steps, of policies kept on the way; bands are 95 % intervals."
        known = list(map(learning_curves, told))
        if len(groups) == 1:
            series = [Line(AGGREGATES[kind], line) for kind, line in known[0].items()]
            yield Chart(f"over-time-{name}", f"{name} over time", f"Solve rate {words}", lines(series, "share", 0.0))
            continue
        for kind in ("iqm", "mean"):
            series = [Line(groups[n].name, of[kind], ink=n) for n, of in enumerate(known) if kind in of]
            title = f"{AGGREGATES[kind]} of solve rates over runs x problems"
            draw = lines(series, "share", 0.0)
            yield Chart(f"over-time-{kind}-{name}", f"{name} over time, {AGGREGATES[kind]}", f"{title} {words}", draw)


def learning_curves(runs: Sequence[Plain]) -> dict[str, Curve]:
    """Mean, IQM and median over env steps. Files of older versions know the aggregates of a run alone: their curves
    are means over runs."""
    wanted = {kind: STATISTICS[kind] for kind in AGGREGATES}
    if found := solve_rates(runs, wanted):
        return found
    joined = {kind: join([line for run in runs if (line := points(run["points"], at(kind)))]) for kind in wanted}
    return {kind: line for kind, line in joined.items() if line is not None}


def diagnostics(groups: Sequence[Group]) -> Iterator[Chart]:
    """Losses, solve rates while training, the buffer and the speed."""
    for name, (title, words, form) in LOSSES.items():
        if series := compared(groups, "losses", name):
            yield Chart(f"loss-{name.replace('_', '-')}", title, words, lines(series, form))
    by_kind: tuple[tuple[str, str, Format, str], ...] = (
        ("solve_rate", "Solved while training", "share", "Share of episodes solved"),
        ("score", "Score", "number", "Mean score of the problems"),
    )
    for what, title, form, words in by_kind:
        yield from _by_kind(groups, what, title, form, words)
    if series := compared(groups, "buffer", "fill"):
        yield Chart("buffer", "Problems in the buffer", "How many problems it holds.", lines(series, "number", 0.0))
    if series := compared(groups, "steps_per_second"):
        yield Chart(
            "speed", "Speed", "Env steps a second, evaluation-only ones included.", lines(series, "number", 0.0)
        )


def _by_kind(groups: Sequence[Group], what: str, title: str, form: Format, words: str) -> Iterator[Chart]:
    """One chart with the kinds of batches as lines; of several groups one chart for each kind."""
    if len(groups) == 1:
        found = ((kind, curve(groups[0], at(what, kind))) for kind in keys(groups[0], what))
        series = [Line(kind, line) for kind, line in found if line is not None]
        caption = f"{words}, by kind of batch."
        if series:
            yield Chart(what.replace("_", "-"), title, caption, lines(series, form))
        return
    for kind in dict.fromkeys(key for group in groups for key in keys(group, what)):
        caption = f"{words}, {kind} problems."
        if series := compared(groups, what, kind):
            yield Chart(f"{what.replace('_', '-')}-{kind}", f"{title}: {kind}", caption, lines(series, form))


# Charts of what the teachers replayed: how large, how many solvable, how they were made, which were solved.

MEANS: Final = {
    "states": ("States", "States of the task, terminal ones included"),
    "paths": ("Paths", "Paths to acceptance in the task"),
    "path_length": ("Path length", "Transitions on a path to acceptance"),
    "edits": ("Edits", "Edits that made the problem from its parent, 0 for sampled ones"),
    "generation": ("Generation", "Sequences of edits since the problem was sampled"),
}
"""Name in the records -> title, what the mean is of."""
WEIGHTED: Final = "mean weighted by replay probability"
MOST_KINDS: Final = 12
"""Buckets told apart in a stack."""


def means(groups: Sequence[Group]) -> Iterator[Chart]:
    """The size of what is replayed, over time."""
    known = dict.fromkeys((*MEANS, *(name for group in groups for name in keys(group, "curriculum", "shares"))))
    for name in known:
        title, words = MEANS.get(name, (name.capitalize(), f"{name.capitalize()} of the level"))
        series = compared(groups, "curriculum", name)
        if any(
            one.curve.value.any() for one in series
        ):  # nothing but zeros, such as edits without a teacher that edits
            caption = f"{words}; {WEIGHTED}."
            yield Chart(f"curriculum-{name.replace('_', '-')}", title, caption, lines(series))


def solvable(groups: Sequence[Group]) -> Iterator[Chart]:
    """How many problems of the buffer can be solved, by the relaxed check."""
    series: list[Line] = []
    for number, group in enumerate(groups):
        prefix = f"{group.name}, " if len(groups) > 1 else ""
        for key, label in (("solvable", "buffer"), ("solvable_replayed", "replayed")):
            if (line := curve(group, at("curriculum", key))) is not None:
                series.append(Line(prefix + label, line, dashed=key != "solvable", ink=number))
    if series:
        words = "Share of problems that the relaxed check finds solvable: of the whole buffer, and of what is replayed."
        yield Chart("curriculum-solvable", "Solvable problems", words, lines(series, "share"))


def by_group(groups: Sequence[Group]) -> Iterator[Chart]:
    """Charts of many parts, one for each group: kinds and numbers of edits, shares of sizes, solved by size."""
    kinds = list(dict.fromkeys(name for group in groups for name in keys(group, "curriculum", "edit_kinds")))
    for group in groups:
        suffix = f"-{_file_name(group.name)}" if len(groups) > 1 else ""
        whose = f": {group.name}" if len(groups) > 1 else ""
        if drawn := _stack(group, "curriculum", "edit_kinds", names=kinds):
            words = "Share of each kind among the edits of the problems, weighted by replay probability."
            yield Chart(f"edit-kinds{suffix}", f"Edits by kind{whose}", words, drawn, 3.4)
        for what in keys(group, "curriculum", "shares"):
            title = "Edits by number" if what == "edits" else f"Shares of {what}"
            if drawn := _stack(group, "curriculum", "shares", what):
                words = f"Share of problems with so many {what}, weighted by replay probability."
                yield Chart(f"shares-{what}{suffix}", f"{title}{whose}", words, drawn, 3.2)
        for what in keys(group, "curriculum", "solved"):
            found = [
                (key, curve(group, at("curriculum", "solved", what, key)))
                for key in keys(group, "curriculum", "solved", what)
            ]
            series = [
                Line(f"{key} {what if key != '1' else what[:-1]}", line) for key, line in found if line is not None
            ]
            if series:
                words = f"Share of attempts at problems in the buffer that were solved, by number of {what}."
                yield Chart(f"solved-{what}{suffix}", f"Solved by {what}{whose}", words, lines(series, "share", 0.0))


def teachers(groups: Sequence[Group]) -> Iterator[Chart]:
    """Charts of what teachers have learnt themselves: how well predictions hold, which edits pay, what was heard."""
    if series := compared(groups, "teacher", "calibration_error"):
        words = "How far predicted solve rates are from what came of them: expected calibration error, over ten bins."
        yield Chart("calibration-error", "Calibration error", words, lines(series, "number", 0.0))
    for number, group in enumerate(groups):
        suffix = f"-{_file_name(group.name)}" if len(groups) > 1 else ""
        whose = f": {group.name}" if len(groups) > 1 else ""
        if (bins := _last_bins(group)) is not None:
            words = (
                "Predicted solve rates, and the share that was solved, at the end; dots are larger for more problems."
            )
            yield Chart(f"reliability{suffix}", f"Reliability{whose}", words, reliability(*bins, number), 3.6)
        if drawn := _stack(group, "teacher", "edit_weight"):
            words = "How often each kind of edit is made, as the bandit has learnt from the gains of children."
            yield Chart(f"edit-weights{suffix}", f"Edits that won{whose}", words, drawn, 3.4)
    if series := compared(groups, "teacher", "propositions_heard"):
        words = "Different propositions in tasks that were read off episodes lately."
        yield Chart("propositions-heard", "Propositions heard", words, lines(series, "number", 0.0))


def _last_bins(group: Group) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Count, predicted and solved by bin, over the last records of all runs; None where nothing is predicted."""
    found = []
    for run in group.runs:
        bins = [bins for record in run.records if isinstance(bins := at("teacher", "calibration")(record), dict)]
        if bins:
            found.append([bins[-1][key] for key in ("count", "predicted", "solved")])
    if not found:
        return None
    count, predicted, solved = np.sum(np.array(found, float), axis=0)
    return count, predicted, solved


def reliability(count: np.ndarray, predicted: np.ndarray, solved: np.ndarray, ink: int = 0) -> Draw:
    """Shares that were solved over predictions, by bin; the diagonal is perfect."""

    def draw(axes: Axes) -> None:
        some = count > 0
        x, y = predicted[some] / count[some], solved[some] / count[some]
        axes.axline((0, 0), slope=1, color=INKS[7], linewidth=1, linestyle="--")
        axes.plot(x, y, color=INKS[ink % len(INKS)])
        axes.scatter(x, y, s=10 + 120 * count[some] / count.max(initial=1.0), color=INKS[ink % len(INKS)])
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="predicted", ylabel="solved", aspect="equal")

    return draw


def _stack(group: Group, *path: str, names: Sequence[str] = ()) -> Draw | None:
    """Shares on top of each other; a bucket that a snapshot does not name was empty then. `names`: which, and in which
    order, so that charts of several groups have the same colours."""
    if not (own := keys(group, *path)):
        return None
    names = names or own
    rows = [curve(group, partial(_share, path, name)) for name in names]
    known = [(name, row) for name, row in zip(names, rows, strict=True) if row is not None]
    labels, heights = _few([name for name, _ in known], np.stack([row.value for _, row in known]))
    return areas([label.replace("_", " ") for label in labels], known[0][1].x, heights)


def _share(path: tuple[str, ...], name: str, record: Plain) -> float | None:
    shares = at(*path)(record)
    return shares.get(name, 0.0) if isinstance(shares, dict) else None


def _few(labels: list[str], heights: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Buckets that are numbers, where there are many, in a few ranges."""
    if len(labels) <= MOST_KINDS or not all(label.isdecimal() for label in labels):
        return labels, heights
    parts = np.array_split(np.arange(len(labels)), MOST_KINDS // 2)
    names = [labels[p[0]] if len(p) == 1 else f"{labels[p[0]]}–{labels[p[-1]]}" for p in parts]
    return names, np.stack([heights[p].sum(0) for p in parts])


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)


def charts(groups: Sequence[Group]) -> list[Chart]:
    """All of them."""
    return [*means(groups), *solvable(groups), *by_group(groups)]
