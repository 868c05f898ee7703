"""The figure of how cost grows: one panel for each axis."""

import io
import math

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from atlas.bench.growth import Curve
from atlas.reports.figures import INKS

ACROSS = 3
"""Panels in a row."""


def picture(curves: list[Curve], form: str) -> bytes:
    """Milliseconds over size, both on logarithmic scales but for doors; a file of this form (svg, png, pdf)."""
    axes = list(dict.fromkeys(curve.axis for curve in curves))
    down = math.ceil(len(axes) / ACROSS)
    figure = Figure(figsize=(3.4 * ACROSS, 3.0 * down), layout="constrained")
    FigureCanvasAgg(figure)
    sides = list(figure.subplots(down, ACROSS, squeeze=False).flat)
    for unused in sides[len(axes) :]:
        unused.set_visible(False)
    for axis, side in zip(axes, sides, strict=False):
        own = [curve for curve in curves if curve.axis == axis]
        for ink, curve in zip(INKS, own, strict=False):
            exponent = f"×{2**curve.exponent:.2f} each" if curve.law == "exponential" else f"n^{curve.exponent:.2f}"
            side.plot(*zip(*curve.points, strict=True), "o-", color=ink, label=f"{curve.work}: {exponent}")
        side.set(
            yscale="log", xscale="linear" if own[0].law == "exponential" else "log", xlabel=axis, ylabel="milliseconds"
        )
        sizes = sorted({size for curve in own for size, _ in curve.points})
        side.set_xticks(sizes, [f"{size:,.0f}" if size < 10_000 else f"{size / 1000:.0f}k" for size in sizes])
        side.minorticks_off()
        side.grid(alpha=0.3)
        side.margins(y=0.25)
        side.legend(frameon=False, fontsize="x-small")
        side.spines[["top", "right"]].set_visible(False)
    made = io.BytesIO()
    figure.savefig(made, format=form, dpi=150)
    return made.getvalue()
