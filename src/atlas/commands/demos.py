"""`atlas demos`: plans of the prover as a data set."""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro

from atlas.commands.checks import require_positive, require_workers
from atlas.documents import require_file
from atlas.errors import AtlasError
from atlas.settings import require_seed
from atlas.words import plural


@dataclass(frozen=True)
class DemosArgs:
    """Solve problems, and write them with their plans to a file: demonstrations to learn from.

    The problems are those of a set, or drawn as a preset or a run draws them. Every plan is replayed in the world, and
    its last action completes the task. Problems without a plan are passed over and counted. Whatever was found is kept
    in FILE.parts until the file is whole: after a stop the same command goes on. `atlas.load_demos` reads the file.
    """

    source: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SET_OR_PRESET")]
    """A set (name, file or folder), a preset, or the folder of a run."""
    out: Path
    """The file to write (.npz)."""
    n: Annotated[int | None, tyro.conf.arg(aliases=["-n"])] = None
    """How many demonstrations; of a set, how many of its problems from the first on. A whole set if not given."""
    seed: int = 0
    """What a preset or run draws follows from it."""
    budget: int = 1500
    """How many nodes are searched before a problem is called unknown."""
    polish: int = 0
    """How many more to look for shorter plans."""
    workers: int = 0
    """Processes to search with; 0 takes one a core."""
    minari: str | None = None
    """Also write a data set in Minari's format, under this name, e.g. atlas/quick-v0 (needs the extra `minari`)."""
    json: bool = False
    """Print JSON."""


def demos_command(argv: list[str]) -> int:
    """Order, make, convert, print."""
    args = tyro.cli(DemosArgs, args=argv, prog="atlas demos")
    require_file(args.out, ".npz")
    require_seed(args.seed)
    require_workers(args.workers)
    require_positive(n=args.n, budget=args.budget)
    if args.polish < 0:
        raise AtlasError(f"--polish {args.polish} is not allowed: at least 0 is needed")
    from atlas.programs import keep_programs
    from atlas.runs.demos import load_demos, make, order, parts_folder, require_minari, to_minari
    from atlas.runs.display import bar

    if args.minari is not None:
        require_minari(args.minari)
    keep_programs()
    with bar("reading") as progress:
        asked = order(args.source, args.n, args.seed, args.budget, args.polish, progress)
    try:
        with bar("proving") as progress:
            made = make(asked, args.out, args.workers, progress)
    except KeyboardInterrupt:
        if (folder := parts_folder(args.out)).is_dir():
            print(f"atlas: what was found is in {folder}: the same command goes on from there", file=sys.stderr)
        raise
    if args.minari is not None:
        with bar("writing for Minari") as progress:
            to_minari(load_demos(args.out), args.minari, progress)
    if args.json:
        print(json.dumps(asdict(made) | {"path": str(made.path), "minari": args.minari}))
    else:
        size = args.out.stat().st_size / 1e6
        print(
            f"wrote {made.path}: {plural(made.demos, 'demonstration')} of {args.source}, "
            f"{made.mean_length:.1f} steps on average, {made.longest} at most, {size:.1f} MB"
        )
        without = ", ".join(f"{count:,} {verdict}" for verdict, count in made.tally.items() if verdict != "solvable")
        if without:
            print(f"  problems without one: {without}")
        if made.resumed:
            print(f"  {made.resumed:,} were there before")
        if args.minari is not None:
            print(f"  also in Minari: {args.minari}")
    return 0
