"""`atlas train` and `atlas resume`: run an experiment, go on with one that was stopped."""

import itertools
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import tyro

from atlas.commands.outputs import require_folder, require_memory
from atlas.config import Config
from atlas.errors import AtlasError
from atlas.presets import config_of
from atlas.runs.hosts import Hosts, join
from atlas.settings import changed
from atlas.words import clock, short

DEFAULT: Final = "quick"


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
    folder = args.folder or Path("runs") / Path(args.preset).stem
    require_memory(args.config.least_memory())
    require_folder(folder)
    with join(args.hosts) as team:
        from atlas.runs.run import train

        result = train(
            folder, args.config, team, args.hosts.devices, args.preset, args.overwrite, args.tensorboard, args.wandb,
            quiet=args.json,
        )  # fmt: skip
    return report(result, args.json)


def parse(argv: list[str]) -> TrainArgs:
    """Arguments, with the settings of the preset they name as defaults."""
    name = argv[0] if argv and not argv[0].startswith("-") else DEFAULT
    config = config_of(name)
    for section in ("teacher", "domain"):  # another kind has other settings, which the flags are then made from
        flag = f"--{section}.name"
        given = [b for a, b in itertools.pairwise(argv) if a == flag]
        given += [word.removeprefix(f"{flag}=") for word in argv if word.startswith(f"{flag}=")]
        for kind in given[-1:]:
            config = changed(config, {section: {"name": kind}})
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
    with join(args.hosts) as team:
        from atlas.runs.run import resume

        result = resume(args.run, team, args.hosts.devices, quiet=args.json)
    return report(result, args.json)


def report(result: Any, as_json: bool) -> int:
    """Before and after, where the pictures are, and how to go on. Hosts that only took part have nothing to say."""
    if result is None:
        return 0
    if as_json:
        print(json.dumps(result.plain(), indent=2))
        return 0
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from atlas.runs.folder import RunFolder

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("held-out problems solved")
    table.add_column("untrained", justify="right")
    table.add_column("now", justify="right")
    before, now = result.before.told(), result.after.told()
    rows = [(words, before[words], now[words]) for words in before] if len(before) > 1 else []
    for words, untrained, rate in [*rows, ("all", result.before.all, result.after.all)]:
        table.add_row(words, f"{untrained:.0%}", f"[bold]{rate:.0%}[/]")
    console = Console(highlight=False)
    console.print(f"\n{short(result.steps)} steps in {clock(result.seconds)}, {result.iteration:,} iterations")
    console.print(table)
    picture = RunFolder(result.folder).latest_picture
    if picture.exists():
        print(f"pictures      {picture}")
    print(f"watch it      atlas watch {result.folder}")
    print(f"read about it atlas report {result.folder}")
    if result.stopped:
        print(f"stopped before the end; `atlas resume {result.folder}` goes on", file=sys.stderr)
    return 0
