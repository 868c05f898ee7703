"""`atlas report` and `atlas presets`: one page about runs; the experiments that have a name."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

from atlas.presets import preset, presets
from atlas.settings import dump, to_plain
from atlas.words import plural

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
    reference: Literal["paper"] | None = None
    """Draw what the paper's authors reached beside it, as dotted lines and in a table."""
    json: bool = False
    """Print JSON: the files that were written, and what was left out."""


def report_command(argv: list[str]) -> int:
    """Read, draw, write."""
    args = tyro.cli(ReportArgs, args=argv, prog="atlas report")
    from atlas.reports.page import write_report
    from atlas.runs.display import bar

    with bar("reading and drawing") as progress:
        told = write_report(
            args.runs, args.out, args.figures, args.tables, args.episodes, args.reference is not None, progress
        )
    print(json.dumps(told, indent=2) if args.json else _summary(args, told))
    return 0


def _summary(args: ReportArgs, told: dict[str, Any]) -> str:
    lines = [f"wrote {args.out}: {told['bytes'] / 1e6:.1f} MB, opens in any browser"]
    lines += [f"wrote {args.figures}: {plural(len(told['figures']), 'file')}"] if args.figures else []
    lines += [f"wrote {args.tables}: {plural(len(told['tables']), 'file')}"] if args.tables else []
    return "\n".join([*lines, *(f"  {sentence}" for sentence in told["missing"])])


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
