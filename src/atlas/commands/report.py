"""`atlas report` and `atlas presets`: one page about runs; the experiments that have a name."""

import json
from dataclasses import dataclass
from pathlib import Path

import tyro

from atlas.commands.outputs import require_file, require_folder
from atlas.errors import AtlasError
from atlas.presets import preset, presets
from atlas.settings import dump, to_plain

# `atlas report`: one page about runs, and its figures and tables as files.


@dataclass(frozen=True)
class ReportArgs:
    """Write one page about one or several runs: learning curves, evaluations with intervals, what the teacher replayed,
    a gallery of its problems, the best and worst problems with an episode to watch, losses.

    The page needs no network and no server: open it in any browser, send it by mail. Runs of the same settings and
    different seeds share a curve; others are compared. What was not measured is left out, with the command that would
    measure it.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders."""
    out: Path = Path("report.html")
    """Where the page goes."""
    figures: Path | None = None
    """Also write every figure into this folder, as PNG, SVG and PDF."""
    tables: Path | None = None
    """Also write every table into this folder, as CSV and LaTeX."""
    episodes: int = 4
    """Episodes on each of the best and the worst problems; 0 plays none."""
    json: bool = False
    """Print JSON: the files that were written, and what was left out."""


def report_command(argv: list[str]) -> int:
    """Read, draw, write."""
    args = tyro.cli(ReportArgs, args=argv, prog="atlas report")
    if not args.runs:
        raise AtlasError("name at least one run folder: atlas report RUN")
    if args.out.suffix not in (".html", ".htm"):
        raise AtlasError(f"{args.out}: the page is HTML, so its name must end in .html")
    require_file(args.out)
    require_folder(args.figures)
    require_folder(args.tables)
    if not 0 <= args.episodes <= 1000:
        raise AtlasError(f"--episodes {args.episodes} is not allowed: from 0 to 1000")
    from atlas.reports.figures import save_chart
    from atlas.reports.page import Report, all_charts, page
    from atlas.reports.reading import group_runs, read_runs
    from atlas.reports.tables import save_table
    from atlas.runs.display import bar
    from atlas.runs.store import write_whole

    with bar("reading and drawing") as progress:
        report = Report(group_runs(read_runs(args.runs)), args.episodes)
        write_whole(args.out, page(report, progress))
    figures = [path for chart in all_charts(report) for path in save_chart(chart, args.figures)] if args.figures else []
    tables = [path for table in report.tables() for path in save_table(table, args.tables)] if args.tables else []
    told = {
        "page": str(args.out),
        "bytes": args.out.stat().st_size,
        "groups": {group.name: [str(run.path) for run in group.runs] for group in report.groups},
        "figures": list(map(str, figures)),
        "tables": list(map(str, tables)),
        "missing": report.missing,
    }
    print(json.dumps(told, indent=2) if args.json else _summary(args, report.missing, len(figures), len(tables)))
    return 0


def _summary(args: ReportArgs, missing: list[str], figures: int, tables: int) -> str:
    lines = [f"{args.out}: {args.out.stat().st_size / 1e6:.1f} MB, opens in any browser"]
    lines += [f"{args.figures}: {figures} figures"] if args.figures else []
    lines += [f"{args.tables}: {tables} tables"] if args.tables else []
    return "\n".join([*lines, *(f"  {sentence}" for sentence in missing)])


# `atlas presets`: what comes in the box.


@dataclass(frozen=True)
class PresetsArgs:
    """List the presets, one line each, or print one whole."""

    name: tyro.conf.Positional[str | None] = None
    """The preset to print as a config."""
    json: bool = False
    """Print JSON."""


def presets_command(argv: list[str]) -> int:
    """Print the list, or one config."""
    args = tyro.cli(PresetsArgs, args=argv, prog="atlas presets")
    if args.name is not None:
        config = preset(args.name).config
        print(json.dumps(to_plain(config), indent=2) if args.json else dump(config), end="\n" if args.json else "")
    elif args.json:
        print(json.dumps({name: entry.summary for name, entry in presets().items()}, indent=2))
    else:
        width = max(map(len, presets()))
        for name, entry in presets().items():
            print(f"{name:<{width}}  {entry.summary}")
    return 0
