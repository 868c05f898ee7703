"""`atlas train` and `atlas resume`: run an experiment, go on with one that was stopped."""

import itertools
import json
import sys
import warnings
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import tyro

from atlas import plugins
from atlas.commands.checks import require_memory
from atlas.config import Config
from atlas.documents import require_folder
from atlas.domains import DOMAINS, find
from atlas.errors import AtlasError
from atlas.presets import config_of
from atlas.runs.folder import RunFolder, unused
from atlas.runs.hosts import Hosts, cores, join
from atlas.settings import changed
from atlas.ued import TEACHERS, score_names
from atlas.words import clock, command, plural, short

DEFAULT: Final = "quick"


@dataclass(frozen=True)
class TrainArgs:
    """Train a student on problems that a teacher proposes. Every setting of the preset can be changed."""

    config: Annotated[Config, tyro.conf.arg(name="")]
    """The settings; their defaults are the preset's."""
    preset: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PRESET")] = DEFAULT
    """A preset (`atlas presets` lists them) or a config file (.yaml)."""
    folder: Path | None = None
    """Where the run is kept; by default runs/PRESET, or runs/PRESET-2 and so on if there is a run already."""
    init: Annotated[str | None, tyro.conf.arg(metavar="RUN")] = None
    """Begin with the weights of a policy, and nothing else of it: zoo:NAME (`atlas zoo` lists them), a run folder, a
    checkpoint or a kept policy (.npz). Its network and domain must be the same."""
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
    require_memory(args.config.least_memory())
    require_folder(args.folder or Path("runs"))
    if args.hosts.devices is not None and args.hosts.devices > 0:
        try:
            args.config.require_even(args.hosts.devices)
        except AtlasError as error:
            if args.hosts.devices <= (there := cores()):
                raise
            asked = f"--devices {args.hosts.devices} is more than this machine has cores ({there})"
            raise AtlasError(f"{asked}; {error}") from None
    with join(args.hosts) as team:
        from atlas.runs.run import train

        folder = args.folder or default_folder(args, say=team.is_leader and not args.json)
        result = train(
            folder, args.config, team, args.hosts.devices, args.preset, args.overwrite, args.tensorboard, args.wandb,
            quiet=args.json, init=args.init, keep_program=True,
        )  # fmt: skip
    return report(result, args.json)


def default_folder(args: TrainArgs, say: bool = False) -> Path:
    """runs/PRESET, with the seed if it is not the preset's; another one if that is taken and not to be replaced, which
    is said if `say`."""
    seed = args.config.run.seed
    with warnings.catch_warnings(action="ignore"):  # what there is to say about a file was said when it was first read
        usual = config_of(args.preset).run.seed
    name = Path(args.preset).stem + (f"-seed-{seed}" if seed != usual else "")
    path = Path("runs") / name
    free = path if args.overwrite else unused(path)
    if say and free != path:
        print(f"{path} is taken: this run is kept in {free}", flush=True)
    return free


def parse(argv: list[str]) -> TrainArgs:
    """Arguments, with the settings of the preset they name as defaults."""
    if any(word.split("=")[0] == "--out" for word in argv):
        raise AtlasError("--out is not an option of `atlas train`: `--folder FOLDER` says where the run is kept")
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
        description=_description() if {"-h", "--help"} & {*argv} else None,
        config=(tyro.conf.AvoidSubcommands,),
    )
    if args.preset != name:
        raise AtlasError(f"the preset comes first: `atlas train {args.preset} …`")
    return args


def _description() -> str:
    """What the command does, and what there is to choose from: other packages may bring more of it."""
    told = (
        f"{TrainArgs.__doc__}",
        f"Teachers (--teacher.name): {', '.join(TEACHERS)}. Scores (--teacher.score): {', '.join(score_names())}.",
        f"Domains (--domain.name): {', '.join(DOMAINS)}.",
        plugins.summary(),
    )
    return "\n\n".join(filter(None, told))


@dataclass(frozen=True)
class ResumeArgs:
    """Go on with a run from its last checkpoint, bit for bit as if it had never stopped (on as many devices).

    Settings of the section `run` can be changed: `atlas resume RUN --run.time-limit 30`. A run that is finished is left
    alone unless it is given more time or steps.
    """

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of the run."""
    config: Annotated[Config, tyro.conf.arg(name="")] = field(default_factory=Config)
    """The settings; their defaults are the run's."""
    from_iteration: Annotated[int | None, tyro.conf.arg(name="from", metavar="ITERATION")] = None
    """Go on from the checkpoint of this iteration, with other settings if you like. What came later is set aside."""
    from_scratch: bool = False
    """Begin anew, with other settings if you like. What was there is set aside."""
    tensorboard: bool = False
    """From now on also write records for TensorBoard; a run that did so goes on doing it."""
    wandb: bool = False
    """From now on also send records to Weights & Biases; a run that did so goes on doing it."""
    json: bool = False
    """Print nothing but a summary as JSON at the end."""
    hosts: Annotated[Hosts, tyro.conf.arg(name="")] = field(default_factory=Hosts)
    """On which devices, and with which other hosts; they need not be those it was started on."""


def resume_command(argv: list[str]) -> int:
    """Resume, then say what came of it."""
    kept = next((folder for argument in argv if (folder := RunFolder(Path(argument))).is_run()), None)
    config = Config() if kept is None else kept.config()  # hosts that only take part need not see the folder
    fields = [("config", ResumeArgs.__annotations__["config"], field(default=config))]
    kind = make_dataclass("Args", fields, bases=(ResumeArgs,), namespace={"__doc__": ResumeArgs.__doc__}, frozen=True)
    args: Any = tyro.cli(kind, args=argv, prog="atlas resume", config=(tyro.conf.AvoidSubcommands,))
    if kept is not None and args.run != kept.path:
        raise AtlasError(f"the run comes first: `atlas resume {args.run} …`")
    if args.from_scratch and args.from_iteration is not None:
        raise AtlasError("--from and --from-scratch are two ways to begin: give one of them")
    with join(args.hosts) as team:
        from atlas.runs.run import Start, resume

        result = resume(
            args.run, team, args.hosts.devices, args.config if kept else None,
            Start(args.from_iteration, args.from_scratch), args.tensorboard, args.wandb, quiet=args.json,
            keep_program=True,
        )  # fmt: skip
    return report(result, args.json)


def report(result: Any, as_json: bool) -> int:
    """Before and after, where the pictures are, and how to go on. Hosts that only took part have nothing to say."""
    if result is None:
        return 0
    if as_json:
        print(json.dumps(result.plain(), indent=2))
        return 0
    from rich import box
    from rich.table import Table

    from atlas.runs.screen import Screen

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("held-out problems solved")
    begun = RunFolder(result.folder).init_file.exists()
    table.add_column("at first" if begun else "untrained", justify="right")
    table.add_column("now", justify="right")
    before, now = result.before.labelled(), result.after.labelled()
    rows = [(words, before[words], now[words]) for words in before] if len(before) > 1 else []
    for words, untrained, rate in [*rows, ("all", result.before.all, result.after.all)]:
        table.add_row(words, f"{untrained:.0%}", f"[bold]{rate:.0%}[/]")
    console = Screen()
    console.print(f"\n{short(result.steps)} steps in {clock(result.seconds)}, {plural(result.iteration, 'iteration')}")
    console.print(table)
    picture = RunFolder(result.folder).latest_picture
    if picture.exists():
        print(f"pictures      {picture}")
    print(f"watch it      {command('watch', result.folder)}")
    print(f"read about it {command('report', result.folder)}")
    row = DOMAINS[RunFolder(result.folder).config().domain.name]
    if row.sets:
        print(f"examine it    {command('eval', result.folder, '--problems', find(row.sets)[0].name)}")
    if result.stopped:
        print(f"stopped before the end; `{command('resume', result.folder)}` goes on", file=sys.stderr)
    return 0
