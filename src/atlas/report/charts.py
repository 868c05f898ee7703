"""Charts: how they look, and their forms as files (PNG, SVG, PDF) and as a part of the page."""

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from atlas.report.curves import Curve
from atlas.runs.display import short
from atlas.runs.pictures import write_whole

INKS: Final = ("#3b82f6", "#f97316", "#10b981", "#e11d48", "#8b5cf6", "#ca8a04", "#06b6d4", "#84807a")
"""Colours of series: clear of each other on white and on black."""
FORMATS: Final = ("png", "svg", "pdf")
WIDTH: Final = 4.4
"""Inches: at this width words are readable on a phone."""
Format = Literal["number", "share"]
Draw = Callable[[Axes], None]


@dataclass(frozen=True, eq=False)
class Chart:
    """A figure that can be drawn."""

    name: str
    """Of its file."""
    title: str
    caption: str
    draw: Draw
    height: float = 2.9


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


def drawn(chart: Chart, theme: Theme, formats: Sequence[str]) -> list[bytes]:
    """Draw a chart; its files in the formats asked for."""
    style: Any = {
        "font.family": "DejaVu Sans", "font.size": 9.0, "axes.titlesize": 9.5, "axes.titleweight": "bold",
        "axes.titlelocation": "left", "svg.fonttype": "none", "svg.hashsalt": chart.name, "pdf.fonttype": 42,
        "text.color": theme.ink, "axes.labelcolor": theme.ink, "axes.edgecolor": theme.grid,
        "xtick.color": theme.ink, "ytick.color": theme.ink, "grid.color": theme.grid,
        "axes.facecolor": theme.ground, "figure.facecolor": theme.ground,
        "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True,
        "xtick.major.size": 0, "ytick.major.size": 0, "lines.linewidth": 1.6, "legend.frameon": False,
    }  # fmt: skip
    with matplotlib.rc_context(style):  # saving too: ticks are made while drawing
        figure = Figure(figsize=(WIDTH, chart.height), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        axes.set_title(chart.title)
        chart.draw(axes)
        _legend(figure, axes)
        return [_bytes(figure, form) for form in formats]


def _legend(figure: Figure, axes: Axes) -> None:
    """Below the axes, in as many columns as fit."""
    handles, labels = axes.get_legend_handles_labels()
    if len(labels) < 2:
        return
    columns = max(1, min(len(labels), 62 // (max(map(len, labels)) + 6)))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=8, handlelength=1.4)


def lines(series: Sequence[Line], form: Format = "number", floor: float | None = None) -> Draw:
    """Lines with bands over env steps."""

    def draw(axes: Axes) -> None:
        for number, line in enumerate(series):
            ink = INKS[(number if line.ink is None else line.ink) % len(INKS)]
            x, style = line.curve.x, "--" if line.dashed else "-"
            axes.plot(x, line.curve.mean, style, color=ink, label=line.label, marker="o" if len(x) < 3 else "", ms=4)
            if np.any(line.curve.high > line.curve.low):
                axes.fill_between(x, line.curve.low, line.curve.high, color=ink, alpha=0.18, linewidth=0)
        _over_steps(axes)
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
            _over_steps(axes)
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
        axes.set_ylim(0, max(1e-3, min(1.0, 1.15 * float(high.max()))))
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


def _over_steps(axes: Axes) -> None:
    axes.set_xlabel("env steps")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda steps, _: short(steps) if steps else "0"))


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
    paths = [folder / f"{chart.name}.{form}" for form in FORMATS]
    for path, content in zip(paths, drawn(chart, PAPER, FORMATS), strict=True):
        write_whole(path, content)
    return paths


def _bytes(figure: Figure, form: str) -> bytes:
    buffer = io.BytesIO()
    undated: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    figure.savefig(buffer, format=form, dpi=200, metadata=undated.get(form))
    return buffer.getvalue()
