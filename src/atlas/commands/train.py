"""`atlas resume`: go on with a run that was stopped."""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from atlas.config import Config
from atlas.errors import AtlasError
from atlas.presets import preset
from atlas.runs.hosts import Hosts
from atlas.settings import from_plain, load, to_plain

# `atlas train`: run an experiment.

DEFAULT = "quick"


@dataclass(frozen=True)
class TrainArgs:
    """Train a student on problems that a teacher proposes. Every setting of the preset can be changed."""

    config: Annotated[Config, tyro.conf.arg(name="")]
    """The settings; their defaults are the preset's."""
    preset: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PRESET")] = DEFAULT
    """A preset (`atlas presets` lists them) or a config file (.yaml)."""
    folder: Path | None = None
    """Where the run is kept; runs/PRESET by default."""
    overwrite: bool = False
    """Replace a run that is already there."""
    tensorboard: bool = False
    """Also write records for TensorBoard."""
    wandb: bool = False
    """Also send records to Weights & Biases."""
    json: bool = False
    """Print nothing but a summary as JSON at the end."""
    hosts: Annotated[Hosts, tyro.conf.arg(name="")] = field(default_factory=Hosts)
    """On which devices, and with which other hosts."""


def train_command(argv: list[str]) -> int:
    """Train, then say what came of it."""
    args = parse(argv)
    args.hosts.prepare()
    folder_path = args.folder or Path("runs") / Path(args.preset).stem

    from atlas.runs.folder import create
    from atlas.runs.hosts import join, layout, same_settings

    with join(args.hosts) as team:
        divided = layout(args.hosts)
        args.config.require_even(divided.shards)
        same_settings(team, args.config)
        if not team.leads:
            return stand_by(args.config, divided, team)
        folder, lock = create(folder_path, args.config, args.overwrite)
        try:
            if not args.json:
                where = "" if divided.shards == 1 else f" on {divided.shards} devices"
                print(f"{args.preset}{where}: compiling takes a while; the run is kept in {folder.path}", flush=True)
            return report(_go(folder, args, divided, team), args.json)
        finally:
            lock.release()


def parse(argv: list[str]) -> TrainArgs:
    """Arguments, with the settings of the preset they name as defaults."""
    name = argv[0] if argv and not argv[0].startswith("-") else DEFAULT
    config = load(Config, name) if name.endswith((".yaml", ".yml")) else preset(name).config
    args = tyro.cli(
        TrainArgs,
        args=argv,
        default=TrainArgs(config=config, preset=name),
        prog="atlas train",
        config=(tyro.conf.AvoidSubcommands,),
    )
    if args.preset != name:
        raise AtlasError(f"the preset comes first: `atlas train {args.preset} …`")
    return args


def stand_by(config: Config, divided: Any, team: Any) -> int:
    """Take part in what host 0 does."""
    from atlas.runs.run import follow

    follow(config, divided, team)
    return 0


def _go(folder: Any, args: TrainArgs, divided: Any, team: Any) -> Any:
    from atlas.runs.metrics import Sink, TensorBoard, WeightsAndBiases
    from atlas.runs.run import go

    sinks: list[Sink] = [TensorBoard(folder.path / "tensorboard")] if args.tensorboard else []
    sinks += [WeightsAndBiases(folder.path, folder.path.name, to_plain(args.config))] if args.wandb else []
    return go(folder, args.config, tuple(sinks), args.json, divided, team)


def report(result: Any, as_json: bool) -> int:
    """Before and after, where the pictures are, and how to go on."""
    if as_json:
        print(json.dumps(result.plain(), indent=2))
        return 0
    from rich.console import Console

    from atlas.runs.display import clock, short
    from atlas.runs.snapshots import latest_picture

    console = Console(highlight=False)
    console.print(f"\n{short(result.steps)} steps in {clock(result.seconds)}, {result.iteration:,} iterations")
    console.print(_before_and_after(result))
    picture = latest_picture(result.folder)
    if picture:
        print(f"pictures      {picture}")
    print(f"watch it      atlas watch {result.folder}")
    print(f"read about it atlas report {result.folder}")
    if result.stopped:
        print(f"stopped before the end; `atlas resume {result.folder}` goes on", file=sys.stderr)
    return 0


def _before_and_after(result: Any) -> Any:
    """Held-out solve rates by number of rooms, untrained and now."""
    from rich import box
    from rich.table import Table

    from atlas.runs.display import by_rooms

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("held-out problems solved")
    table.add_column("untrained", justify="right")
    table.add_column("now", justify="right")
    before, now = by_rooms(result.before), by_rooms(result.after)
    rows = [(words, before[words], now[words]) for words in before] if len(before) > 1 else []
    for words, untrained, rate in [*rows, ("all", result.before["all"], result.after["all"])]:
        table.add_row(words, f"{untrained:.0%}", f"[bold]{rate:.0%}[/]")
    return table


# `atlas resume`: go on with a run that was stopped.


@dataclass(frozen=True)
class ResumeArgs:
    """Go on with a run from its last checkpoint, bit for bit as if it had never stopped (on as many devices)."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of the run."""
    json: bool = False
    """Print nothing but a summary as JSON at the end."""
    hosts: Annotated[Hosts, tyro.conf.arg(name="")] = field(default_factory=Hosts)
    """On which devices, and with which other hosts; they need not be those it was started on."""


def resume_command(argv: list[str]) -> int:
    """Resume, then say what came of it."""
    args = tyro.cli(ResumeArgs, args=argv, prog="atlas resume")
    args.hosts.prepare()
    from atlas.runs.hosts import join, layout

    with join(args.hosts) as team:
        divided = layout(args.hosts)
        return _lead(args, divided, team) if team.leads else _follow(divided, team)


def _lead(args: ResumeArgs, divided: Any, team: Any) -> int:
    from atlas.runs.folder import reopen
    from atlas.runs.run import go

    folder, lock = reopen(args.run)
    try:
        config = folder.config()
        team.everyone(to_plain(config))
        return report(go(folder, config, (), args.json, divided, team), args.json)
    finally:
        lock.release()


def _follow(divided: Any, team: Any) -> int:
    """The folder is host 0's: it tells what the settings are."""
    return stand_by(from_plain(Config, team.everyone(None)[0]), divided, team)
