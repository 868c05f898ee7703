"""`atlas sweep`: many runs from one file."""

import json
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import tyro

from atlas.errors import AtlasError
from atlas.runs.sweep import Evaluation, Job, Local, jobs_of, on_slurm, read_sweep, results, search
from atlas.words import plural, short


@dataclass(frozen=True)
class SweepArgs:
    """Carry out all runs of a sweep. Given again, it goes on where it was stopped and tries again what failed."""

    sweep: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="SWEEP")]
    """A sweep file (.yaml): presets, seeds and settings; sweeps/ has the paper's."""
    folder: Path | None = None
    """Where its runs are kept; runs/SWEEP by default."""
    parallel: int = 1
    """How many runs at a time."""
    retries: int = 1
    """How often a run that fails is tried again."""
    slurm: bool = False
    """Hand the runs to SLURM and return (needs submitit)."""
    judge: str | None = None
    """Judge runs by their mean solve rate on this set (validation, or any file or folder) instead of by the held-out
    problems they solve at the end: each is evaluated when it is trained."""
    list: bool = False
    """Start nothing: show what there is to do, and the results so far."""
    json: bool = False
    """Print nothing but the results, as JSON."""


def sweep_command(argv: list[str]) -> int:
    """Run what is not done yet, then show what came of it. Fails if a run failed."""
    args = tyro.cli(SweepArgs, args=argv, prog="atlas sweep")
    for name, least in (("parallel", 1), ("retries", 0)):
        if getattr(args, name) < least:
            raise AtlasError(f"--{name} {getattr(args, name)} is not allowed: at least {least} is needed")
    sweep = read_sweep(args.sweep)
    folder = args.folder or Path("runs") / sweep.name
    if sweep.search is not None and (args.slurm or args.list):
        raise AtlasError("a search decides as it goes: --slurm and --list are for sweeps with `runs`")

    if args.judge is not None:
        from atlas.evaluation.sets import open_set
        from atlas.runs.display import bar

        with bar("building") as progress:  # a bad name is said, and a set not there yet is built, before all else
            open_set(args.judge, progress=progress)
    judge = () if args.judge is None else (Evaluation(args.judge),)

    def tell(sentence: str) -> None:
        if not args.json:
            print(sentence, flush=True)

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if sweep.about:
        tell(f"{sweep.name}: {sweep.about}")
    local = Local(args.parallel, args.retries, tell)
    # Runs that are going on are asked to save and stop, which may take a while.
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    failed: list[Job] = []
    try:
        if sweep.search is not None:
            jobs = search(sweep.search, folder, local, judge)
            failed = [job for job in jobs if job.status() != "done"]
        else:
            jobs = jobs_of(sweep.runs, folder, judge)
            done = sum(job.status() == "done" for job in jobs)
            tell(f"{plural(len(jobs), 'run')} in {folder}, {done} of them done")
            if args.slurm:
                numbers = on_slurm(jobs, folder, args.parallel, sweep.slurm)
                tell(f"handed to SLURM: {', '.join(numbers) or 'nothing, all is done'}")
            elif not args.list:
                failed = local.run(jobs)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    rows = results(jobs, failed)
    print(json.dumps(rows, indent=2)) if args.json else _show(rows, failed, args.judge)
    return 1 if failed else 0


def _show(rows: list[dict[str, Any]], failed: list[Job], judge: str | None) -> None:
    """The table at the end."""
    from rich import box
    from rich.table import Table

    from atlas.runs.screen import Screen

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("experiment")
    for name in ("done", "steps", f"{judge or 'held out'}, mean", "lowest", "highest"):
        table.add_column(name, justify="right")
    for row in rows:
        rates = ["" if row[name] is None else f"{row[name]:.1%}" for name in ("mean", "lowest", "highest")]
        steps = short(row["steps"]) if row["done"] else ""
        table.add_row(row["experiment"], f"{row['done']} of {row['runs']}", steps, *rates)
    Screen().print(table)
    for job in failed:
        print(f"failed: {job.folder.name} ({job.complaint()}); more in {job.log}", file=sys.stderr)
