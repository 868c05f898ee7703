"""`atlas resume`: go on with a run that was stopped."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Args:
    """Go on with a run from its last checkpoint, bit for bit as if it had never stopped."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of the run."""
    json: bool = False
    """Print nothing but a summary as JSON at the end."""


def main(argv: list[str]) -> int:
    """Resume, then say what came of it."""
    args = tyro.cli(Args, args=argv, prog="atlas resume")
    from atlas.commands.train import report
    from atlas.runs.folder import reopen

    folder, lock = reopen(args.run)
    try:
        config = folder.config()
        from atlas.runs.running import go

        return report(go(folder, config, quiet=args.json), args.json)
    finally:
        lock.release()
