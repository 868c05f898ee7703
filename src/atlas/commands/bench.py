"""`atlas bench`: how fast everything is on this machine."""

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from atlas.bench.parts import GROWTH, PARTS, chosen
from atlas.bench.rows import FULL, QUICK, Effort, Row
from atlas.errors import AtlasError

if TYPE_CHECKING:
    from atlas.bench.growth import Curve

FORMS = (".svg", ".png", ".pdf")
PARTS_IN_WORDS = "\n".join(f"  {name}: {words}" for name, words in PARTS.items())
DESCRIPTION = f"""Measure how fast ATLAS is on this machine, part by part.

Each row is the median of several repeats after a warm-up, with half the distance of their quartiles as the spread, the
seconds it took to compile, and how much of the plain limit of the machine (a matrix product of the same operations, a
memory copy of the same bytes, timed beside each repeat) it reaches. Other programs should rest meanwhile.

{PARTS_IN_WORDS}
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
    names = chosen(args.parts)
    if args.figure.suffix not in FORMS:
        raise AtlasError(f"--figure {args.figure}: the name must end in one of {', '.join(FORMS)}")
    from atlas.bench.machine import describe, sentence
    from atlas.bench.timing import forget_compiled

    forget_compiled()
    machine = describe()
    _say(args, f"{sentence(machine)}\n")
    effort = QUICK if args.quick else FULL
    measured: dict[str, Any] = {"machine": machine, "quick": args.quick, "parts": {}}
    for name in names:
        if name == GROWTH:
            measured[GROWTH] = _growth(args, effort)
        else:
            measured["parts"][name] = _part(args, name, effort)
    if args.json:
        print(json.dumps(measured, indent=2, ensure_ascii=False))
    return 0


def _part(args: Args, name: str, effort: Effort) -> dict[str, Any]:
    """Measure a part and print its table."""
    from atlas.bench.parts import rows
    from atlas.bench.table import markdown, table

    begin = time.perf_counter()
    found: list[Row] = []
    with _progress(name) as tell:
        for row in rows(name, effort):
            found.append(row)
            tell(row.name)
    taken = time.perf_counter() - begin
    title = f"{name}: {PARTS[name]}"
    wide = shutil.get_terminal_size((120, 24)).columns
    _say(args, f"{markdown(title, found)}\n" if args.markdown else table(f"{title} ({taken:.0f} s)", found, wide))
    return {"seconds": taken, "rows": [row.plain() for row in found]}


def _growth(args: Args, effort: Effort) -> dict[str, Any]:
    """Measure all curves, write their figure, say a sentence for each axis."""
    from atlas.bench.growth import curves, sentences
    from atlas.bench.picture import picture

    begin = time.perf_counter()
    found: list[Curve] = []
    with _progress(GROWTH) as tell:
        for curve in curves(effort):
            found.append(curve)
            tell(f"{curve.axis}, {curve.work}")
    args.figure.parent.mkdir(parents=True, exist_ok=True)
    args.figure.write_bytes(picture(found, args.figure.suffix[1:]))
    said = sentences(found)
    for sentence in said:
        _say(args, f"- {sentence}")
    _say(args, f"\nfigure        {args.figure}")
    plain = [curve.plain() for curve in found]
    return {"seconds": time.perf_counter() - begin, "curves": plain, "sentences": said, "figure": str(args.figure)}


def _say(args: Args, words: Any) -> None:
    """To a person."""
    from rich.console import Console

    if args.json:
        return
    if isinstance(words, str):
        print(words, flush=True)
    else:
        Console(highlight=False, width=shutil.get_terminal_size((120, 24)).columns).print(words)


@contextmanager
def _progress(name: str) -> Iterator[Callable[[str], None]]:
    """A line on the error stream that tells what was measured last; silent where nobody looks on."""
    from rich.console import Console

    console = Console(stderr=True, quiet=not sys.stderr.isatty())
    begin, count = time.monotonic(), 0
    with console.status(f"{name}: compiling") as status:

        def tell(done: str) -> None:
            nonlocal count
            count += 1
            status.update(f"{name}: {count} rows in {time.monotonic() - begin:.0f} s, the last was {done}")

        yield tell
