"""`atlas sample`, `show`, `solve` and `lint`: make problems, look at them, prove them, find mistakes in them."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby, product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from atlas.commands.checks import require_film, require_many, require_positive, require_workers, suffix_of
from atlas.commands.inputs import DOMAIN, subject
from atlas.config import TaskSampler
from atlas.documents import require_file
from atlas.errors import AtlasError
from atlas.settings import STEP_LIMIT, require_seed
from atlas.words import plural

SUFFIXES = (".yaml", ".yml", ".npz")

# `atlas sample`: draw problems, or levels alone.

if TYPE_CHECKING:
    from collections.abc import Sequence

    from atlas.show.problem import Subject


@dataclass(frozen=True)
class SampleArgs:
    """Draw problems and show them, or write them to a file or folder.

    The same seed gives the same problems.
    """

    n: Annotated[int, tyro.conf.arg(aliases=["-n"])] = 6
    """How many."""
    pairing: Literal["independent", "level", "task"] = "independent"
    """Task and level apart, the task from what the level holds, or the level from what the task mentions."""
    tasks: TaskSampler = "sequential"
    """How tasks are drawn."""
    domain: Annotated[str | None, DOMAIN] = None
    """minigrid (if not given) or letterworld."""
    rooms: tuple[int, ...] | None = None
    """Room counts of the levels; those of the domain's settings if not given."""
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


def sample_command(argv: list[str]) -> int:
    """Draw, write, print."""
    args = tyro.cli(SampleArgs, args=argv, prog="atlas sample")
    require_seed(args.seed)
    require_many(args.n, "-n")
    require_file(args.png, ".png")
    if args.out is not None and suffix_of(args.out, *SUFFIXES) == ".npz" and args.levels_only:
        raise AtlasError(f"{args.out}: .npz files hold problems; write levels into a folder")
    from atlas.runs.screen import Screen, wrote
    from atlas.show.problem import describe, portrait

    subjects = _draw(args)
    _write(subjects, args)
    console = Screen()
    if args.json:
        print(json.dumps([describe(subject) for subject in subjects], ensure_ascii=False))
    elif args.out or args.png:
        for file in (args.out, args.png):
            wrote(file, plural(len(subjects), "level" if args.levels_only else "problem"))
    else:
        for subject in subjects:
            console.print(portrait(subject, colour=console.color_system is not None), "", sep="\n")
    return 0


def _draw(args: SampleArgs) -> "Sequence[Subject]":
    from atlas.api import sample, sample_levels
    from atlas.programs import keep_programs

    keep_programs()
    if args.levels_only:
        return sample_levels(args.n, args.seed, args.rooms, args.domain)
    return sample(args.n, args.pairing, args.tasks, args.seed, args.rooms, args.solvable, args.domain)


def _write(subjects: "Sequence[Subject]", args: SampleArgs) -> None:
    if args.out is not None and args.out.suffix == ".npz":
        _write_bulk(args, args.out)
    elif args.out is not None:
        from atlas.runs.problem_files import save

        save(list(subjects), args.out)
    if args.png is not None:
        from atlas.show import media, problem

        columns = max(1, round(len(subjects) ** 0.5))
        media.save_picture(media.sheet([problem.small_picture(s) for s in subjects], columns), args.png)


def _write_bulk(args: SampleArgs, path: Path) -> None:
    from atlas.api import sample_batch, settings
    from atlas.runs.store import save_bulk
    from atlas.settings import to_plain

    config = settings(args.pairing, args.tasks, args.rooms, args.solvable, args.domain)
    drawn_by = {name: part for name, part in to_plain(config).items() if name in ("domain", "tasks", "pairing")}
    save_bulk(sample_batch(config, args.n, args.seed), path, drawn_by, args.seed)


# `atlas show`: look at a problem, a level or a set.

if TYPE_CHECKING:
    from atlas.show.problem import Subject


@dataclass(frozen=True)
class ShowArgs:
    """Show a problem: its level and its task. Of a set, list the problems, or show the one that is chosen."""

    file: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="PROBLEM")] = None
    """A file that ATLAS reads, SET:NAME for a problem of a set, or the name of a set or of a hand-designed problem. If
    not given, one is drawn."""
    domain: Annotated[str | None, DOMAIN] = None
    """Of a problem that is drawn: minigrid (if not given) or letterworld."""
    seed: int = 0
    """Of a problem that is drawn: another seed, another problem."""
    name: str | None = None
    """Which problem of a set, by name."""
    index: int | None = None
    """Which problem of a set, by number from 0."""
    png: Path | None = None
    """Also write a picture."""
    svg: Path | None = None
    """Also write a picture that scales."""
    json: bool = False
    """Print JSON: one object for each problem, in a list."""


def show_command(argv: list[str]) -> int:
    """Print, and write pictures where asked."""
    args = tyro.cli(ShowArgs, args=argv, prog="atlas show")
    require_file(args.png, ".png")
    require_file(args.svg, ".svg")
    from atlas.runs.screen import Screen, wrote
    from atlas.show.problem import describe, overview, portrait

    subjects = _subjects(args)
    _write_pictures(subjects, args)
    console = Screen()
    if args.json:
        print(json.dumps([describe(subject) for subject in subjects], ensure_ascii=False))
    elif len(subjects) > 1:
        console.print(overview(subjects))
    else:
        console.print(portrait(subjects[0], colour=console.color_system is not None))
        wrote(args.png)
        wrote(args.svg)
    return 0


def _subjects(args: ShowArgs) -> "list[Subject]":
    from atlas.runs.display import bar
    from atlas.runs.problem_files import choose, load_any

    if args.file is None or args.domain is not None:
        return [subject(args.file, args.name, args.index, args.domain, args.seed)]
    if args.name is not None or args.index is not None:
        return [choose(args.file, args.name, args.index)]
    with bar("reading") as progress:
        found = load_any(args.file, progress)
    return list(found) if isinstance(found, list) else [found]


def _write_pictures(subjects: "list[Subject]", args: ShowArgs) -> None:
    if not args.png and not args.svg:
        return
    if len(subjects) > 1:
        raise AtlasError(f"{args.file}: holds {len(subjects)} problems; choose one with --name or --index to draw it")
    from atlas.runs.store import write_whole
    from atlas.show import media, problem

    if args.png:
        media.save_picture(problem.picture(subjects[0]), args.png)
    if args.svg:
        write_whole(args.svg, problem.svg(subjects[0]))


# `atlas solve`: can it be done, and how.

if TYPE_CHECKING:
    from atlas.types import NamedProblem, Problem


@dataclass(frozen=True)
class SolveArgs:
    """Decide whether problems can be solved, with proof: a plan that the world accepts, or a reason why there is none.

    Of a file or set, or of problems drawn at random (--sampled), which are also put to the paper's cheaper check.
    """

    file: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="PROBLEM")] = None
    """A file that ATLAS reads, SET:NAME for a problem of a set, or the name of a set or of a hand-designed problem."""
    name: str | None = None
    """Which problem of a set, by name."""
    index: int | None = None
    """Which problem of a set, by number from 0."""
    film: Path | None = None
    """Write the plan of one problem as a film: .gif, or .mp4 (needs the extra `video`)."""
    sampled: int | None = None
    """Draw so many problems instead, and tell which share can be solved."""
    pairing: Literal["independent", "level", "task"] = "independent"
    """Task and level apart, the task from what the level holds, or the level from what the task mentions."""
    tasks: TaskSampler = "sequential"
    """How tasks are drawn."""
    domain: Annotated[str | None, DOMAIN] = None
    """Of drawn problems: minigrid (if not given) or letterworld."""
    rooms: tuple[int, ...] | None = None
    """Room counts of drawn levels; those of the domain's settings if not given."""
    batches: int = 1
    """Draw so many batches, and tell the mean share and its deviation over them."""
    length: tuple[int, ...] | None = None
    """Tell drawn problems apart by these numbers of transitions (sequential tasks) and by number of rooms."""
    objects: tuple[str, ...] | None = None
    """Tell drawn problems apart by how many objects there are, few, some or many, and by number of rooms."""
    proofs: bool = True
    """Prove what can be solved; without, drawn problems are put to the paper's check alone, which is fast."""
    seed: int = 0
    """Everything random follows from it."""
    step_limit: int = STEP_LIMIT
    """A plan may take so many steps."""
    budget: int = 1500
    """How many nodes are searched before a problem is called unknown."""
    polish: int = 300
    """How many more to look for shorter plans (of drawn problems only the verdict counts)."""
    workers: int = 0
    """Processes to search with; 0 takes one a core for large sets and one for small ones."""
    json: bool = False
    """Print JSON."""


def solve_command(argv: list[str]) -> int:
    """Solve, write, print."""
    args = tyro.cli(SolveArgs, args=argv, prog="atlas solve")
    if (args.file is None) == (args.sampled is None):
        raise AtlasError("give either a file or set of problems, or --sampled N to draw some")
    require_film(args.film)
    require_seed(args.seed)
    require_workers(args.workers)
    require_positive(step_limit=args.step_limit, budget=args.budget)
    if args.sampled is None:
        for flag, given in (
            ("--batches", args.batches != 1),
            ("--length", args.length is not None),
            ("--objects", args.objects is not None),
            ("--no-proofs", not args.proofs),
            ("--domain", args.domain is not None),
        ):
            if given:
                raise AtlasError(f"{flag} is for drawn problems: it needs --sampled N")
        _solve_file(args)
        return 0
    require_many(args.sampled, "--sampled")
    require_positive(batches=args.batches)
    if args.length is not None or args.objects is not None:
        _solve_cells(args, args.sampled)
    else:
        _solve_sampled(args, args.sampled)
    return 0


def _solve_file(args: SolveArgs) -> None:
    problems = _load(args)
    if args.film is not None and len(problems) > 1:
        raise AtlasError(f"{args.file}: holds {len(problems)} problems; choose one with --name or --index to film it")
    solutions = _solve(args, problems, args.polish, bound=True)
    if args.film is not None:
        _write_film(args, problems, solutions)
    if args.json:
        rows = [_row(problem.name, solution) for problem, solution in zip(problems, solutions, strict=True)]
        print(json.dumps({"problems": rows, "total": _total(solutions)}))
    else:
        from atlas.runs.screen import wrote

        _print(problems, solutions)
        wrote(args.film)


def _load(args: SolveArgs) -> "list[NamedProblem]":
    from atlas.runs.display import bar
    from atlas.runs.problem_files import choose, load_any
    from atlas.types import NamedProblem

    assert args.file is not None
    chosen = args.name is not None or args.index is not None
    with bar("reading") as progress:
        found: Any = choose(args.file, args.name, args.index) if chosen else load_any(args.file, progress)
    problems = found if isinstance(found, list) else [found]
    if not all(isinstance(problem, NamedProblem) for problem in problems):
        raise AtlasError(f"{args.file}: holds a level without a task, so there is nothing to solve")
    return problems


def _solve(args: SolveArgs, problems: "Sequence[Problem]", polish: int, bound: bool) -> list[Any]:
    from atlas.domains import surface_for
    from atlas.programs import keep_programs
    from atlas.runs.display import bar

    keep_programs()
    with bar("solving") as progress:
        return surface_for(problems[0]).solve_many(
            problems, step_limit=args.step_limit, budget=args.budget, polish=polish, bound=bound,
            workers=args.workers, progress=progress,
        )  # fmt: skip


def _row(name: str, solution: Any) -> dict[str, Any]:
    return {
        "name": name,
        "verdict": solution.verdict,
        "plan_length": solution.plan_length,
        "reason": solution.reason,
        "trivial": solution.trivial,
        "lower_bound": solution.lower_bound,
        "plan": None if solution.plan is None else list(solution.plan),
    }


def _total(solutions: list[Any]) -> dict[str, Any]:
    verdicts, lengths = [s.verdict for s in solutions], [len(s.plan) for s in solutions if s.plan is not None]
    return {
        "problems": len(solutions),
        **{verdict: verdicts.count(verdict) for verdict in ("solvable", "unsolvable", "unknown")},
        "trivial": sum(s.trivial for s in solutions),
        "mean_plan_length": sum(lengths) / len(lengths) if lengths else None,
    }


def _write_film(args: SolveArgs, problems: "list[NamedProblem]", solutions: list[Any]) -> None:
    from atlas.show.media import save_episode

    plan = solutions[0].plan
    if plan is None:
        raise AtlasError(f"{problems[0].name} has no plan to film: it is {solutions[0].verdict}: {solutions[0].reason}")
    assert args.film is not None
    save_episode(problems[0], plan, args.film)


def _print(problems: "list[NamedProblem]", solutions: list[Any]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from atlas.domains import domain_for
    from atlas.runs.screen import Screen

    console = Screen()
    colour = {"solvable": "green", "unsolvable": "red", "unknown": "yellow"}
    table = Table(box=None, pad_edge=False)
    for heading in ("problem", "verdict", "steps", "why"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "steps" else "left")
    for problem, s in zip(problems, solutions, strict=True):
        steps = "" if s.plan_length is None else str(s.plan_length)
        table.add_row(escape(problem.name), f"[{colour[s.verdict]}]{s.verdict}[/]", steps, escape(s.reason))
    console.print(table)
    if len(problems) == 1 and solutions[0].plan:
        console.print(_spell(solutions[0].plan, domain_for(problems[0]).actions))
    if len(problems) > 1:
        console.print("\n" + _sum_up(_total(solutions)))


def _spell(plan: Sequence[int], actions: Sequence[str]) -> str:
    """A plan in words, repetitions counted."""
    runs = [(actions[action].replace("_", " "), len(list(group))) for action, group in groupby(plan)]
    return "\nplan: " + ", ".join(name if times == 1 else f"{name} x{times}" for name, times in runs)


def _sum_up(total: dict[str, Any]) -> str:
    parts = [f"{total[verdict]} {verdict}" for verdict in ("solvable", "unsolvable", "unknown")]
    if total["trivial"]:
        parts.append(f"{total['trivial']} trivial")
    mean = "" if total["mean_plan_length"] is None else f"; plans take {total['mean_plan_length']:.1f} steps on average"
    return f"{total['problems']} problems: {', '.join(parts)}{mean}"


def _solve_sampled(args: SolveArgs, n: int) -> None:
    """Shares over all drawn problems: of one batch, or the mean over several."""
    import jax
    import numpy as np

    from atlas.api import sample_batch, settings
    from atlas.domains import domain_of, surface_of
    from atlas.evaluation.solvable import over_batches

    config = settings(args.pairing, args.tasks, args.rooms, domain=args.domain)
    drawn = [jax.device_get(sample_batch(config, n, args.seed + number)) for number in range(args.batches)]
    relaxed = over_batches("relaxed", [surface_of(config.domain.name).screen_many(batch) for batch in drawn])
    stratum, values = domain_of(config.domain).strata
    report: dict[str, Any] = {
        "sampled": n,
        "pairing": args.pairing,
        "tasks": args.tasks,
        stratum: list(values),
        "seed": args.seed,
        "share_relaxed": relaxed["share_relaxed"],
    }
    proven = {}
    if args.proofs:
        problems = [jax.tree.map(lambda leaf, i=i: leaf[i], batch) for batch in drawn for i in range(n)]
        solutions = _solve(args, problems, polish=0, bound=False)
        total = _total(solutions)
        proven = over_batches("proven", np.split(np.array([s.verdict == "solvable" for s in solutions]), args.batches))
        report |= {
            "share_proven": proven["share_proven"],
            **{
                name: total[key] / len(problems)
                for name, key in (("share_unsolvable", "unsolvable"), ("unknown", "unknown"), ("trivial", "trivial"))
            },
            "mean_plan_length": total["mean_plan_length"],
        }
    if args.batches > 1:
        report |= {"batches": args.batches} | relaxed | proven
    if args.json:
        print(json.dumps(report))
    else:
        _print_report(report)


def _print_report(report: dict[str, Any]) -> None:
    batches = f"{report['batches']} batches of " if "batches" in report else ""
    print(
        f"{batches}{report['sampled']} {report['tasks']} problems, {report['pairing']} pairing, seed {report['seed']}"
    )
    for key, words in (
        ("share_relaxed", "solvable by the cheap check"),
        ("share_proven", "solvable, with a plan that was replayed"),
        ("share_unsolvable", "unsolvable, with proof"),
        ("unknown", "unknown"),
        ("trivial", "trivial (completed by the first label; counted as solvable)"),
    ):
        if key in report:
            print(f"  {_percent(report[key], report.get(f'{key}_sd')):>5} %  {words}")
    if report.get("mean_plan_length") is not None:
        print(f"  plans take {report['mean_plan_length']:.1f} steps on average")


def _solve_cells(args: SolveArgs, n: int) -> None:
    """The paper's table: a row for each number of rooms and band of objects, a column for each length."""
    from atlas.api import settings
    from atlas.domains import domain_of
    from atlas.evaluation.solvable import cells_of, shares
    from atlas.runs.display import bar
    from atlas.settings import require

    require(n >= 1, "n", n, "at least 1")
    config, cells = cells_of(
        settings(args.pairing, args.tasks, args.rooms, domain=args.domain), args.length, args.objects
    )
    prove = (lambda problems: _solve(args, problems, polish=0, bound=False)) if args.proofs else None
    with bar("drawing") as progress:
        rows = shares(config, cells, n, args.batches, args.seed, prove, progress)
    stratum = domain_of(config.domain).strata[0]
    report = {
        "sampled": n, "batches": args.batches, "pairing": args.pairing, "tasks": args.tasks, "seed": args.seed,
        "cells": rows,
    }  # fmt: skip
    if args.json:
        print(json.dumps(report))
    else:
        _print_cells(report, stratum)


def _print_cells(report: dict[str, Any], stratum: str) -> None:
    from rich.table import Table

    from atlas.runs.screen import Screen

    console, rows = Screen(), report["cells"]
    kinds, bands, lengths = (list(dict.fromkeys(row[key] for row in rows)) for key in (stratum, "objects", "length"))
    for name, words in (("relaxed", "the paper's check"), ("proven", "proof")):
        if f"share_{name}" not in rows[0]:
            continue
        table = Table(box=None, pad_edge=False, title=f"solvable by {words}, %", title_justify="left")
        table.add_column(stratum, justify="right")
        if bands != [None]:
            table.add_column("objects")
        for length in lengths:
            table.add_column("any length" if length is None else f"length {length}", justify="right", no_wrap=True)
        shares = {(row[stratum], row["objects"], row["length"]): row for row in rows}
        for kind, band in product(kinds, bands):
            cells = [shares[kind, band, length] for length in lengths]
            told = [_percent(cell[f"share_{name}"], cell[f"share_{name}_sd"]) for cell in cells]
            table.add_row(str(kind), *([] if band is None else [band]), *told)
        console.print(table)
    each = f"{report['batches']} batches of {report['sampled']}" if report["batches"] > 1 else str(report["sampled"])
    console.print(f"{each} {report['tasks']} problems a cell, {report['pairing']} pairing, seed {report['seed']}")


def _percent(share: float, deviation: float | None) -> str:
    return f"{100 * share:.1f}" + ("" if deviation is None else f" ± {100 * deviation:.1f}")


# `atlas lint`: look for mistakes in a set of problems.

if TYPE_CHECKING:
    from atlas.evaluation.lint import Finding


@dataclass(frozen=True)
class LintArgs:
    """Look for problems that cannot be read, cannot be solved, are solved by the first label or are there twice.

    Also told, as warnings: objects out of reach, doubts about a task, and problems that could not be decided. The exit
    code is 1 if there are errors.
    """

    set: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SET")]
    """A file that ATLAS reads, SET:NAME for a problem of a set, or the name of a set or of a hand-designed problem."""
    step_limit: int = STEP_LIMIT
    """A plan may take so many steps."""
    workers: int = 0
    """Processes to search with; 0 takes one a core for large sets and one for small ones."""
    json: bool = False
    """Print JSON: the findings, and how many problems and errors there are."""


def lint_command(argv: list[str]) -> int:
    """Look, print, and fail if there are errors."""
    args = tyro.cli(LintArgs, args=argv, prog="atlas lint")
    require_workers(args.workers)
    require_positive(step_limit=args.step_limit)
    from atlas.evaluation.lint import lint
    from atlas.programs import keep_programs
    from atlas.runs.display import bar

    keep_programs()
    with bar("looking") as progress:
        problems, findings = lint(args.set, args.step_limit, args.workers, progress)
    errors = sum(finding.level == "error" for finding in findings)
    if args.json:
        rows = [asdict(finding) for finding in findings]
        print(json.dumps({"problems": len(problems), "errors": errors, "findings": rows}))
    else:
        _print_lint(findings, len(problems), errors)
    return 1 if errors else 0


def _print_lint(findings: "list[Finding]", problems: int, errors: int) -> None:
    from rich.markup import escape

    from atlas.runs.screen import Screen

    console = Screen(soft_wrap=True)
    for finding in findings:
        colour = "red" if finding.level == "error" else "yellow"
        console.print(f"{escape(finding.problem)}: [{colour}]{finding.kind}[/]: {escape(finding.sentence)}")
    warnings = len(findings) - errors
    console.print(f"{_count(problems, 'problem')}: {_count(errors, 'error')}, {_count(warnings, 'warning')}")


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"
