"""`atlas resume`: go on with a run that was stopped."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from atlas.config import Config
from atlas.runs.hosts import Hosts
from atlas.settings import from_plain, to_plain


@dataclass(frozen=True)
class Args:
    """Go on with a run from its last checkpoint, bit for bit as if it had never stopped (on as many devices)."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of the run."""
    json: bool = False
    """Print nothing but a summary as JSON at the end."""
    hosts: Annotated[Hosts, tyro.conf.arg(name="")] = field(default_factory=Hosts)
    """On which devices, and with which other hosts; they need not be those it was started on."""


def main(argv: list[str]) -> int:
    """Resume, then say what came of it."""
    args = tyro.cli(Args, args=argv, prog="atlas resume")
    args.hosts.prepare()
    from atlas.runs.team import join, layout

    with join(args.hosts) as team:
        divided = layout(args.hosts)
        return _lead(args, divided, team) if team.leads else _follow(divided, team)


def _lead(args: Args, divided: Any, team: Any) -> int:
    from atlas.commands.train import report
    from atlas.runs.folder import reopen
    from atlas.runs.running import go

    folder, lock = reopen(args.run)
    try:
        config = folder.config()
        team.everyone(to_plain(config))
        return report(go(folder, config, (), args.json, divided, team), args.json)
    finally:
        lock.release()


def _follow(divided: Any, team: Any) -> int:
    """The folder is host 0's: it tells what the settings are."""
    from atlas.commands.train import stand_by

    return stand_by(from_plain(Config, team.everyone(None)[0]), divided, team)
