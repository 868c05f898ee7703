"""`atlas bench`: how fast everything is on this machine."""

import io
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import tyro

from atlas.documents import parse_json, read_text
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
class BenchArgs:
    """Measure how fast ATLAS is on this machine."""

    parts: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="[PART …]")] = ()
    """Which parts; all but growth if none is named (many minutes)."""
    quick: bool = False
    """Toy shapes and few repeats: does everything run? The numbers are not for comparing."""
    figure: Path = Path("growth.svg")
    """Where the figure of growth is written (.svg, .png or .pdf)."""
    against: Path | None = None
    """A ledger (what --json printed before, perhaps elsewhere): show both side by side at the end."""
    ledger: Path | None = None
    """Measure nothing: take the numbers from this ledger instead."""
    json: bool = False
    """Print everything as JSON, and nothing else."""
    markdown: bool = False
    """Print the tables in Markdown."""


def bench_command(argv: list[str]) -> int:
    """Measure, print, compare."""
    args = tyro.cli(BenchArgs, args=argv, prog="atlas bench", description=DESCRIPTION)
    known = (*PARTS, GROWTH)
    for name in args.parts:
        if name not in known:
            raise AtlasError(f"there is no part '{name}'{nearest(name, known) or '; there are ' + ', '.join(known)}")
    if args.figure.suffix not in FORMS:
        raise AtlasError(f"--figure {args.figure}: the name must end in one of {', '.join(FORMS)}")
    before = None if args.against is None else read_ledger(args.against)
    if args.ledger is not None:
        told = read_ledger(args.ledger)
        if args.parts:
            told["parts"] = {name: part for name, part in told["parts"].items() if name in args.parts}
    else:
        told = _measured(args)
    if before is not None:
        told["against"] = {"machine": before["machine"], "rows": compared(before, told)}
    if args.json:
        print(json.dumps(told, indent=2, ensure_ascii=False))
    else:
        _print_kept(told, args)
    return 0


def _measured(args: BenchArgs) -> dict[str, Any]:
    """Measure and, unless it is all to be JSON, print each part when it is there."""
    from atlas import bench
    from atlas.runs.screen import Screen

    bench.without_cache()
    machine, effort = bench.machine(), bench.QUICK if args.quick else bench.FULL
    console = Screen(markup=False, soft_wrap=args.markdown, quiet=args.json)
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
                console.print(table(f"{title} ({seconds:.0f} s)", rows, console.width))
    return measured


def read_ledger(path: Path) -> dict[str, Any]:
    """The ledger that `atlas bench --json` printed."""
    text = read_text(path)
    try:
        told = parse_json(text)
        for part in told["parts"].values():
            for row in part["rows"]:
                row["name"], row["unit"], float(row["median"])
        told["machine"]["processor"]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise AtlasError(f"{path}: not a ledger; `atlas bench --json > {path.name}` makes one") from None
    return dict(told)


def compared(before: dict[str, Any], now: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows that both ledgers have, and how many times as fast they have become; sizes have no speed."""
    rows = []
    for part, measured in now["parts"].items():
        earlier = {row["name"]: row for row in before["parts"].get(part, {"rows": []})["rows"]}
        for row in measured["rows"]:
            if (old := earlier.get(row["name"])) is None or old["unit"] != row["unit"]:
                continue
            medians, times = (float(old["median"]), float(row["median"])), None
            if all(medians) and (row["unit"].endswith("/s") or row["unit"] in ("s", "ms")):
                times = medians[1] / medians[0] if row["unit"].endswith("/s") else medians[0] / medians[1]
            rows.append(
                {"part": part, "name": row["name"], "unit": row["unit"], "before": medians[0], "now": medians[1]}
                | {"times": times}
            )
    return rows


def _print_kept(told: dict[str, Any], args: BenchArgs) -> None:
    """The parts of a ledger that was not measured now, and both ledgers side by side."""
    from atlas.runs.screen import Screen

    console = Screen(markup=False, soft_wrap=args.markdown)
    if args.ledger is not None and args.against is None:
        from atlas.bench import Row

        known = {field.name for field in fields(Row)}
        for name, part in told["parts"].items():
            rows = [Row(**{key: value for key, value in row.items() if key in known}) for row in part["rows"]]
            title = f"{name}: {PARTS.get(name, '')}"
            console.print(f"{markdown(title, rows)}\n" if args.markdown else table(title, rows, console.width))
    if "against" not in told:
        return
    machines = {"before": told["against"]["machine"], "now": told["machine"]}
    for when, machine in machines.items():
        load = f", load before {machine['load_before']:.1f}" if "load_before" in machine else ""
        console.print(f"{when:<7} {machine['processor']}, {machine.get('cores', '?')} cores{load}", soft_wrap=True)
    heads, lines = ("", "before", "now", "times as fast"), []
    for row in told["against"]["rows"]:
        times = "" if row["times"] is None else f"{row['times']:.2f}"
        lines.append(
            (row["name"], f"{figure(row['before'])} {row['unit']}", f"{figure(row['now'])} {row['unit']}", times)
        )
    if not lines:
        console.print("the ledgers have no row in common")
    elif args.markdown:
        console.print("\n".join(f"| {' | '.join(line)} |" for line in (heads, ("---", "---:", "---:", "---:"), *lines)))
    else:
        console.print(_columns("side by side", heads, lines))


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
    lines = list(map(cells, rows))
    shown = [n for n, head in enumerate(HEADERS) if any(line[n] for line in lines)]
    shown = [n for n in shown if width >= 96 or HEADERS[n] != "by processor"]
    return _columns(title, [HEADERS[n] for n in shown], [[line[n] for n in shown] for line in lines])


def _columns(title: str, heads: Sequence[str], lines: Sequence[Sequence[str]]) -> Any:
    """Words on the left, numbers on the right."""
    from rich import box
    from rich.table import Table

    made = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for n, head in enumerate(heads):
        made.add_column(head, justify="right" if n else "left", no_wrap=n > 0)
    for line in lines:
        made.add_row(*line)
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
