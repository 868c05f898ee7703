"""`atlas sample`: draw problems, or levels alone."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from atlas.config import RoomCount, TaskSampler
from atlas.errors import AtlasError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from atlas.runs.portrait import Subject


@dataclass(frozen=True)
class Args:
    """Draw problems and show them, or write them to a file or folder.

    The same seed gives the same problems.
    """

    n: Annotated[int, tyro.conf.arg(aliases=["-n"])] = 6
    """How many."""
    pairing: Literal["independent", "level", "task"] = "independent"
    """Task and level apart, the task from what the level holds, or the level from what the task mentions."""
    tasks: TaskSampler = "sequential"
    """How tasks are drawn."""
    rooms: tuple[RoomCount, ...] = (1, 2, 4, 6)
    """Room counts of the levels."""
    seed: int = 0
    """Everything random follows from it."""
    solvable: bool = False
    """Keep only problems that the relaxed check calls solvable."""
    levels_only: bool = False
    """Draw levels without tasks."""
    out: Path | None = None
    """Write them: into one .yaml file, into a compressed .npz file, or into a folder, one file each."""
    png: Path | None = None
    """Write one picture of them all."""
    json: bool = False
    """Print JSON: one object for each, in a list."""


def main(argv: list[str]) -> int:
    """Draw, write, print."""
    args = tyro.cli(Args, args=argv, prog="atlas sample")
    from rich.console import Console

    from atlas.runs.portrait import describe, portrait

    subjects = _draw(args)
    _write(subjects, args)
    console = Console(highlight=False)
    if args.json:
        print(json.dumps([describe(subject) for subject in subjects], ensure_ascii=False))
    elif args.out or args.png:
        console.print(f"{len(subjects)} {'levels' if args.levels_only else 'problems'} written")
    else:
        for subject in subjects:
            console.print(portrait(subject, colour=console.color_system is not None), "", sep="\n")
    return 0


def _draw(args: Args) -> "Sequence[Subject]":
    from atlas.sampling import sample, sample_levels

    if args.levels_only:
        return sample_levels(args.n, args.seed, args.rooms)
    return sample(args.n, args.pairing, args.tasks, args.seed, args.rooms, args.solvable)


def _write(subjects: "Sequence[Subject]", args: Args) -> None:
    from atlas.domains.minigrid.render import sheet
    from atlas.runs import pictures, portrait
    from atlas.runs.problem_files import save

    if args.out is not None and args.out.suffix == ".npz":
        _write_bulk(args, args.out)
    elif args.out is not None:
        save(list(subjects), args.out)
    if args.png is not None:
        columns = max(1, round(len(subjects) ** 0.5))
        pictures.save_picture(sheet([portrait.small_picture(s) for s in subjects], columns), args.png)


def _write_bulk(args: Args, path: Path) -> None:
    from atlas.runs.bulk import save_bulk
    from atlas.sampling import sample_batch, settings
    from atlas.settings import to_plain

    if args.levels_only:
        raise AtlasError(f"{path}: .npz files hold problems; write levels into a folder")
    config = settings(args.pairing, args.tasks, args.rooms, args.solvable)
    drawn_by = {name: part for name, part in to_plain(config).items() if name in ("domain", "tasks", "pairing")}
    save_bulk(sample_batch(config, args.n, args.seed), path, drawn_by, args.seed)
