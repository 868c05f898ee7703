"""`atlas show`: look at a problem, a level or a set."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from atlas.errors import AtlasError

if TYPE_CHECKING:
    from atlas.runs.portrait import Subject


@dataclass(frozen=True)
class Args:
    """Show a problem: its level and its task. Of a set, list the problems, or show the one that is chosen."""

    file: tyro.conf.Positional[Path]
    """A problem, a set or a level: any file that ATLAS reads."""
    name: str | None = None
    """Which problem of a set, by name."""
    index: int | None = None
    """Which problem of a set, by number from 0."""
    png: Path | None = None
    """Also write a picture."""
    svg: Path | None = None
    """Also write a picture that scales."""
    json: bool = False
    """Print JSON: one object for each problem, in a list."""


def main(argv: list[str]) -> int:
    """Print, and write pictures where asked."""
    args = tyro.cli(Args, args=argv, prog="atlas show")
    from rich.console import Console

    from atlas.runs.portrait import describe, overview, portrait

    subjects = _subjects(args)
    _write_pictures(subjects, args)
    console = Console(highlight=False)
    if args.json:
        print(json.dumps([describe(subject) for subject in subjects], ensure_ascii=False))
    elif len(subjects) > 1:
        console.print(overview(subjects))
    else:
        console.print(portrait(subjects[0], colour=console.color_system is not None))
    return 0


def _subjects(args: Args) -> "list[Subject]":
    from atlas.runs.choose import choose, load_any

    if args.name is not None or args.index is not None:
        return [choose(args.file, args.name, args.index)]
    found = load_any(args.file)
    return list(found) if isinstance(found, list) else [found]


def _write_pictures(subjects: "list[Subject]", args: Args) -> None:
    from atlas.runs import pictures, portrait

    if (args.png or args.svg) and len(subjects) > 1:
        raise AtlasError(f"{args.file}: holds {len(subjects)} problems; choose one with --name or --index to draw it")
    if args.png:
        pictures.save_picture(portrait.picture(subjects[0]), args.png)
    if args.svg:
        pictures.write_whole(args.svg, portrait.svg(subjects[0]))
