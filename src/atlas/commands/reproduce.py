"""`atlas reproduce`: the figures and tables of the paper, one name each."""

import json
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

import tyro

from atlas.errors import AtlasError

if TYPE_CHECKING:
    from atlas.reports.reproduce import Drawing, Figure, Scale
    from atlas.runs.sweep import Job


@dataclass(frozen=True)
class ReproduceArgs:
    """Make a figure or table of the paper: train what is missing, evaluate it, draw it, write its table.

    Runs are shared by all figures of a scale. Given again, the command goes on where it was stopped; what is done is
    not done again.
    """

    figure: tyro.conf.Positional[str | None] = None
    """Its name; --list has them; `all` makes one after the other."""
    list: bool = False
    """List the figures and tables: what each is, what it needs, how long it takes."""
    scale: Literal["quick", "laptop", "paper"] = "quick"
    """How large the runs are: two minutes each, an hour each, or the paper's."""
    folder: Path | None = None
    """Where runs, sets and figures are kept; runs/reproduce/SCALE by default."""
    seeds: int | None = None
    """Runs of each method; 1, 3 or 5 by the scale."""
    minutes: float | None = None
    """Minutes of a run, instead of the scale's; compiling counts."""
    steps: int | None = None
    """Env steps of a run, however long they take, instead of minutes: the same for every method, as in the paper."""
    cvar: int | None = None
    """Problems in the sets for CVaR; 500, 2,000 or 10,000 by the scale."""
    problems: tuple[str, ...] = ()
    """Problems of the set hand, by name, for the figure that shows single ones; three by default."""
    parallel: int = 1
    """How many runs at a time."""
    retries: int = 1
    """How often a run that fails is tried again."""
    train: bool = True
    """Train and evaluate what is missing; without it, what is missing is named with the command that makes it."""
    slurm: Path | None = None
    """Hand what is missing to SLURM and return (needs submitit): a YAML file of what submitit is told, as under `slurm`
    in a sweep. Given again afterwards, without it, the command draws."""
    json: bool = False
    """Print JSON: the list, or the files that were written."""


def reproduce_command(argv: list[str]) -> int:
    """List, or train, evaluate and draw."""
    args = tyro.cli(ReproduceArgs, args=argv, prog="atlas reproduce")
    from atlas.reports.reproduce import FIGURES, SCALES, describe, find_figure

    scale = SCALES[args.scale]
    for name, least in (("seeds", 1), ("minutes", 0.01), ("steps", 1), ("cvar", 1), ("parallel", 1), ("retries", 0)):
        if (value := getattr(args, name)) is not None and value < least:
            raise AtlasError(f"--{name} {value} is not allowed: at least {least} is needed")
    if args.minutes is not None and args.steps is not None:
        raise AtlasError("--minutes and --steps cannot be given together: each says when a run ends")
    given = {name: getattr(args, name) for name in ("seeds", "minutes", "steps", "cvar")}
    scale = replace(scale, **{name: value for name, value in given.items() if value is not None})
    if args.list:
        rows = [describe(name, scale) for name in FIGURES]
        print(json.dumps(rows, indent=1, ensure_ascii=False)) if args.json else _print_list(rows, args.scale, scale)
        return 0
    if args.figure is None:
        raise AtlasError(f"name a figure or table: {', '.join(FIGURES)}, or all (--list tells more)")
    figures = FIGURES if args.figure == "all" else {args.figure: find_figure(args.figure)}
    _check_problems(args)
    folder = args.folder or Path("runs") / "reproduce" / args.scale
    made = _make(args, figures, scale, folder)
    if args.json:
        print(json.dumps(made if args.figure == "all" else made[0], indent=1, ensure_ascii=False))
    return 0


def _check_problems(args: ReproduceArgs) -> None:
    """Names that the set does not have are said before anything is trained."""
    from atlas.reports.reproduce import HAND
    from atlas.runs.problem_files import choose_problem

    for name in args.problems:
        choose_problem(f"{HAND}:{name}")


def _make(args: ReproduceArgs, figures: "dict[str, Figure]", scale: "Scale", folder: Path) -> list[dict[str, Any]]:
    """Train and evaluate what is missing, then draw: the files of each figure, with their captions.

    What can be drawn is drawn, whatever else is missing or failed.
    """
    from atlas.reports.reproduce import PROBLEMS, Material, groups_of, jobs_for, joined, unfinished
    from atlas.runs.sweep import Local, on_slurm

    def tell(sentence: str) -> None:
        if not args.json:
            print(sentence, flush=True)

    plans = {
        name: jobs_for(figure, scale, folder, _sets(figure, scale, folder, args, tell))
        for name, figure in figures.items()
    }
    every = joined(plans.values())
    failed: list[Job] = []
    if every and args.train:
        title = figures[args.figure].where if args.figure in figures else "all figures"
        done = sum(job.status() == "done" for job in every)
        tell(f"{title}: {len(every)} runs in {folder}, {done} of them done")
    if args.slurm is not None:
        numbers = on_slurm(every, folder, args.parallel, _slurm_settings(args.slurm))
        tell(f"handed to SLURM: {', '.join(numbers) or 'nothing, all is done'}")
        return [{"figure": name, "files": [], "captions": []} for name in figures]
    if args.train:
        before = signal.signal(signal.SIGTERM, _interrupt)
        try:
            failed = Local(args.parallel, args.retries, tell).run(every)
        finally:
            signal.signal(signal.SIGTERM, before)
    made: list[dict[str, Any]] = []
    left: list[str] = []
    for name, figure in figures.items():
        files: list[Path] = []
        captions: list[str] = []
        if any(job.status() != "done" for some in plans[name].values() for job in some):
            left.append(name)
            continue
        if figure.draw is None:
            tell(f"{figure.where}: {figure.about}")
        else:
            drawing = figure.draw(Material(groups_of(plans[name]), args.problems or PROBLEMS, args.scale))
            files = _write(name, drawing, folder / "figures")
            captions = list(dict.fromkeys(chart.caption for chart in drawing.charts))
            tell("\n".join([*captions, *(f"wrote {file}" for file in files)]))
        made.append({"figure": name, "files": list(map(str, files)), "captions": captions})
    if left:
        why = [f"{job.folder.name} failed ({job.complaint()}; more in {job.log})" for job in failed]
        raise AtlasError("\n".join([f"not drawn: {', '.join(left)}, because", *(why or unfinished(every))]))
    return made


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _sets(figure: "Figure", scale: "Scale", folder: Path, args: ReproduceArgs, tell: Any) -> dict[str, str]:
    """The paths of a figure's sampled sets at this scale; those not there yet are built. Whole sets go by their
    names."""
    from atlas.evaluation.sets import open_set, recipes, write_set
    from atlas.runs.display import bar

    found = {}
    for name, recipe in recipes().items():
        if name not in figure.sets:
            continue
        small = scale.cvar < recipe.count
        path = folder / "sets" / f"{name}-{scale.cvar}.npz" if small else recipe.path()
        found[name] = str(path) if small else name
        if not args.train or path.exists():
            continue
        tell(f"building {path}: this happens once")
        with bar(f"building {name}") as progress:
            if small:
                write_set(replace(recipe, count=scale.cvar), path, progress=progress)
            else:
                open_set(name, progress=progress)
    return found


def _slurm_settings(path: Path) -> dict[str, Any]:
    from atlas.documents import read_plain

    plain = read_plain(path)
    if not isinstance(plain, dict):
        raise AtlasError(f"{path}: a mapping of names and values is needed, as under `slurm` in a sweep")
    return plain


def _write(name: str, drawing: "Drawing", folder: Path) -> list[Path]:
    from atlas.reports.figures import save_panels
    from atlas.reports.tables import save_table
    from atlas.show.media import save_picture

    files = save_panels(name, drawing.charts, folder) if drawing.charts else []
    if drawing.picture is not None:
        save_picture(drawing.picture, folder / f"{name}.png")
        files.append(folder / f"{name}.png")
    for number, table in enumerate(drawing.tables):
        named = replace(table, name=name if number == 0 else f"{name}-{number + 1}")
        files += save_table(named, folder)
    return files


def _print_list(rows: list[dict[str, Any]], name: str, scale: "Scale") -> None:
    print(f"scale {name}: {scale.about}\n")
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        needs = f"{row['runs']} runs, {row['training']}" if row["runs"] else "no runs"
        sets = f", evaluated on {', '.join(row['sets'])}" if row["sets"] else ""
        print(f"{row['name']:<{width}}  {row['where']}: {row['about']}")
        print(f"{'':<{width}}  {needs}{sets}")
    print("\nTraining time is that of all runs of a figure one after the other; runs are shared between figures.")
