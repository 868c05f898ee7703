"""`atlas export`: a trained policy as one file that is played without JAX."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from atlas.documents import require_file
from atlas.words import short, size


@dataclass(frozen=True)
class ExportArgs:
    """Write a trained policy to one file (.npz): weights, settings and vocabulary, as plain arrays and JSON.

    It can be played without JAX and without ATLAS: `examples/numpy_player.py` does so with NumPy, and takes the same
    actions. `docs/export.md` says what is in the file.
    """

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """A run folder, a checkpoint, a kept policy (.npz), or zoo:NAME (`atlas zoo` lists them)."""
    out: Path
    """The file to write (.npz)."""
    which: Literal["last", "best"] = "last"
    """Which checkpoint of a run folder: the last, or the one with the best held-out solve rate."""
    json: bool = False
    """Print JSON."""


def export_command(argv: list[str]) -> int:
    """Load, write, say what was written."""
    args = tyro.cli(ExportArgs, args=argv, prog="atlas export")
    require_file(args.out, ".npz")
    from atlas.runs.display import bar
    from atlas.runs.export import export
    from atlas.runs.policy import load_policy
    from atlas.runs.screen import wrote

    with bar("loading"):
        policy = load_policy(args.run, args.which)
        parameters = export(policy, args.out)
    taken = args.out.stat().st_size
    if args.json:
        told = {"policy": str(args.run), "iteration": policy.iteration, "steps": policy.steps, "path": str(args.out)}
        print(json.dumps(told | {"parameters": parameters, "bytes": taken}))
    else:
        about = f"{args.run} after {short(policy.steps)} env steps, {parameters:,} parameters"
        wrote(args.out, f"{about}, {size(taken)}")
        print(f"play it with NumPy alone: python examples/numpy_player.py {args.out}")
    return 0
