"""`atlas bench`: how fast everything is on this machine."""

import io
import json
import math
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import tyro

from atlas.errors import AtlasError, nearest

if TYPE_CHECKING:
    from atlas.bench import Curve, Row

PARTS: Final = {
    "world": "a step of the world, the view, guards",
    "sampling": "levels, tasks, problems of each kind; edited children",
    "language": "LTLf and English to tasks and back",
    "solving": "the relaxed check, the prover",
    "buffer": "drawing from the teacher's buffer and entering it",
    "student": "acting and learning, paper and small network",
    "training": "a whole iteration of each teacher, paper and small network",
    "evaluation": "attempts at a set of problems",
    "startup": "help, imports, the first iteration after the command",
    "memory": "peak memory of a paper-size run; bytes a problem and a transition",
}
"""Part -> what it measures. `atlas.bench.PARTS` has the functions: it imports JAX, and `--help` must answer at once."""
GROWTH: Final = "growth"
FORMS: Final = (".svg", ".png", ".pdf")
HEADERS: Final = ("", "median", "spread", "by processor", "compile", "of its limit")
DESCRIPTION = f"""Measure how fast ATLAS is on this machine, part by part.

Each row is the median of several repeats after a warm-up, with half the distance of their quartiles as the spread, the
seconds it took to compile, and how much of the plain limit of the machine (a matrix product of the same operations, a
memory copy of the same bytes, timed beside each repeat) it reaches. Other programs should rest meanwhile.

{chr(10).join(f"  {name}: {words}" for name, words in PARTS.items())}
  {GROWTH}: how cost grows with batch, buffer, states, doors and grid; a figure. Runs only when it is named."""


@dataclass(frozen=True)
class Args:
    """Measure how fast ATLAS is on this machine."""

    parts: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="[PART …]")] = ()
    """Which parts; all but growth if none is named (many minutes)."""
    quick: bool = False
    """Toy shapes and few repeats: does everything run? The numbers are not for comparing."""
    figure: Path = Path("growth.svg")
    """Where the figure of growth is written (.svg, .png or .pdf)."""
    json: bool = False
    """Print everything as JSON, and nothing else."""
    markdown: bool = False
    """Print the tables in Markdown."""


def bench_command(argv: list[str]) -> int:
    """Measure, print."""
    args = tyro.cli(Args, args=argv, prog="atlas bench", description=DESCRIPTION)
    known = (*PARTS, GROWTH)
    for name in args.parts:
        if name not in known:
            raise AtlasError(f"there is no part '{name}'{nearest(name, known) or '; there are ' + ', '.join(known)}")
    if args.figure.suffix not in FORMS:
        raise AtlasError(f"--figure {args.figure}: the name must end in one of {', '.join(FORMS)}")
    from rich.console import Console

    from atlas import bench

    bench.without_cache()
    machine, effort = bench.machine(), bench.QUICK if args.quick else bench.FULL
    width = shutil.get_terminal_size((120, 24)).columns
    console = Console(highlight=False, markup=False, soft_wrap=args.markdown, width=width, quiet=args.json)
    busy = " (others are using it: rates are too low)" if machine["load_before"] > 0.3 else ""
    console.print(
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB; jax {machine['jax']} on "
        f"{machine['backend']}, python {machine['python']}; load before {machine['load_before']:.1f}{busy}\n",
        soft_wrap=True,
    )
    measured: dict[str, Any] = {"machine": machine, "quick": args.quick, "parts": {}}
    for name in dict.fromkeys(args.parts) or PARTS:
        begin = time.perf_counter()
        if name == GROWTH:
            curves = list(_shown(name, bench.growth(effort)))
            sentences = list(map(growth_sentence, curves))
            args.figure.parent.mkdir(parents=True, exist_ok=True)
            args.figure.write_bytes(growth_figure(curves, args.figure.suffix[1:]))
            measured[name] = {
                "seconds": time.perf_counter() - begin,
                "curves": [curve.plain() for curve in curves],
                "sentences": sentences,
                "figure": str(args.figure),
            }
            console.print("\n".join(f"- {sentence}" for sentence in sentences), soft_wrap=True)
            console.print(f"\nfigure        {args.figure}", soft_wrap=True)
        else:
            rows = list(_shown(name, bench.PARTS[name](effort)))
            seconds, title = time.perf_counter() - begin, f"{name}: {PARTS[name]}"
            measured["parts"][name] = {"seconds": seconds, "rows": [asdict(row) for row in rows]}
            if args.markdown:
                console.print(f"{markdown(title, rows)}\n", soft_wrap=True)
            else:
                console.print(table(f"{title} ({seconds:.0f} s)", rows, width))
    if args.json:
        print(json.dumps(measured, indent=2, ensure_ascii=False))
    return 0


Measured = TypeVar("Measured", "Row", "Curve")


def _shown(part: str, found: Iterator[Measured]) -> Iterator[Measured]:
    """The same, while a line on the error stream tells what was measured last; silent where nobody looks on."""
    from rich.console import Console

    begin = time.monotonic()
    with Console(stderr=True, quiet=not sys.stderr.isatty()).status(f"{part}: compiling") as status:
        for number, one in enumerate(found, 1):
            status.update(f"{part}: {number} rows in {time.monotonic() - begin:.0f} s, the last was {one.name}")
            yield one


def table(title: str, rows: Sequence["Row"], width: int = 120) -> Any:
    """One part. Empty columns are left out; on a narrow terminal, so is processor time."""
    from rich import box
    from rich.table import Table

    lines = list(map(cells, rows))
    made = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    shown = [n for n, head in enumerate(HEADERS) if any(line[n] for line in lines)]
    shown = [n for n in shown if width >= 96 or HEADERS[n] != "by processor"]
    for n in shown:
        made.add_column(HEADERS[n], justify="right" if n else "left", no_wrap=n > 0)
    for line in lines:
        made.add_row(*(line[n] for n in shown))
    return made


def markdown(title: str, rows: Sequence["Row"]) -> str:
    """The same for a document."""
    lines = [f"| {title} | {' | '.join(HEADERS[1:])} |", "|---" + "|---:" * (len(HEADERS) - 1) + "|"]
    return "\n".join(lines + [f"| {' | '.join(cells(row))} |" for row in rows])


def cells(row: "Row") -> tuple[str, ...]:
    """The columns of a row; empty where there is nothing to say."""
    unit = "" if row.unit.endswith("/s") else f" {row.unit}"
    share = row.share and 100 * row.share
    return (
        row.name,
        f"{figure(row.median)} {row.unit}",
        f"± {100 * row.spread:.0f} %" if row.repeats > 1 else "",
        "" if row.processor is None else f"{figure(row.processor)}{unit}",
        "" if row.compile_seconds is None else f"{row.compile_seconds:.1f} s",
        "" if share is None else f"{share:.0f} % {row.limit}" if share >= 10 else f"{share:.2g} % {row.limit}",
    )


def figure(value: float) -> str:
    """Three digits that count."""
    if value >= 1e6:
        return f"{figure(value / 1e6)} M"
    if value >= 1000:
        return f"{round(value, 3 - len(str(int(value)))):,.0f}"
    return f"{value:.3g}" if value >= 1 else f"{value:.2g}"


def growth_sentence(curve: "Curve") -> str:
    """The milliseconds at each size, and how many times those at the size before."""
    told = []
    for number, (size, milliseconds) in enumerate(curve.points):
        ratio = f" (x {milliseconds / curve.points[number - 1][1]:.2g})" if number else ""
        told.append(f"{size:,.0f}: {figure(milliseconds)} ms{ratio}")
    return f"{curve.axis[0].upper()}{curve.axis[1:]}, {curve.work}: {'; '.join(told)}."


def growth_figure(curves: Sequence["Curve"], form: str) -> bytes:
    """Milliseconds over size, a panel an axis; both scales are logarithmic but for doors."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    axes = list(dict.fromkeys(curve.axis for curve in curves))
    across, down = 3, math.ceil(len(axes) / 3)
    made = Figure(figsize=(3.4 * across, 3.0 * down), layout="constrained")
    FigureCanvasAgg(made)
    for number, panel in enumerate(made.subplots(down, across, squeeze=False).flat):
        panel.set_visible(number < len(axes))
        own = [curve for curve in curves if curve.axis == axes[number]] if number < len(axes) else []
        for curve in own:
            panel.plot(*zip(*curve.points, strict=True), "o-", label=curve.work)
            panel.set(yscale="log", xscale="log" if curve.law == "power" else "linear", xlabel=curve.axis)
        sizes = sorted({size for curve in own for size, _ in curve.points})
        panel.set_xticks(sizes, [f"{size:,.0f}" if size < 10_000 else f"{size / 1000:.0f}k" for size in sizes])
        panel.set_ylabel("milliseconds")
        panel.minorticks_off()
        panel.grid(alpha=0.3)
        panel.margins(y=0.25)
        panel.legend(frameon=False, fontsize="x-small") if own else None
        panel.spines[["top", "right"]].set_visible(False)
    written = io.BytesIO()
    made.savefig(written, format=form, dpi=150)
    return written.getvalue()
