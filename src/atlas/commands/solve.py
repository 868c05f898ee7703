"""`atlas solve`: can it be done, and how."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from atlas.config import RoomCount, TaskSampler
from atlas.errors import AtlasError

if TYPE_CHECKING:
    from atlas.runs.named import NamedProblem
    from atlas.solver.prove import Solution
    from atlas.types import Problem


@dataclass(frozen=True)
class Args:
    """Decide whether problems can be solved, with proof: a plan that the world accepts, or a reason why there is none.

    Of a file or set, or of problems drawn at random (--sampled), which are also put to the paper's cheaper check.
    """

    file: tyro.conf.Positional[Path | None] = None
    """A problem or a set: any file or folder that ATLAS reads."""
    name: str | None = None
    """Which problem of a set, by name."""
    index: int | None = None
    """Which problem of a set, by number from 0."""
    gif: Path | None = None
    """Write the plan of one problem as a film (.gif or .mp4)."""
    sampled: int | None = None
    """Draw so many problems instead, and tell which share can be solved."""
    pairing: Literal["independent", "level", "task"] = "independent"
    """Task and level apart, the task from what the level holds, or the level from what the task mentions."""
    tasks: TaskSampler = "sequential"
    """How tasks are drawn."""
    rooms: tuple[RoomCount, ...] = (1, 2, 4, 6)
    """Room counts of drawn levels."""
    seed: int = 0
    """Everything random follows from it."""
    step_limit: int = 512
    """A plan may take so many steps."""
    budget: int = 1500
    """How many nodes are searched before a problem is called unknown."""
    polish: int = 300
    """How many more to look for shorter plans (of drawn problems only the verdict counts)."""
    workers: int = 0
    """Processes to search with; 0 takes one a core for large sets and one for small ones."""
    json: bool = False
    """Print JSON."""


def main(argv: list[str]) -> int:
    """Solve, write, print."""
    args = tyro.cli(Args, args=argv, prog="atlas solve")
    if (args.file is None) == (args.sampled is None):
        raise AtlasError("give either a file or set of problems, or --sampled N to draw some")
    if args.sampled is not None:
        _solve_sampled(args, args.sampled)
    else:
        _solve_file(args)
    return 0


def _solve_file(args: Args) -> None:
    problems = _load(args)
    solutions = _solve(args, problems, args.polish, bound=True)
    if args.gif is not None:
        _write_film(args, problems, solutions)
    if args.json:
        rows = [_row(problem.name, solution) for problem, solution in zip(problems, solutions, strict=True)]
        print(json.dumps({"problems": rows, "total": _total(solutions)}))
    else:
        _print(problems, solutions)


def _load(args: Args) -> "list[NamedProblem]":
    from atlas.domains.minigrid.grid import Level
    from atlas.runs.choose import choose, load_any

    assert args.file is not None
    chosen = args.name is not None or args.index is not None
    found: Any = choose(args.file, args.name, args.index) if chosen else load_any(args.file)
    if isinstance(found, Level):
        raise AtlasError(f"{args.file}: holds a level without a task, so there is nothing to solve")
    return [found] if chosen else found


def _solve(args: Args, problems: "Sequence[Problem]", polish: int, bound: bool) -> "list[Solution]":
    from atlas.runs.progress import bar
    from atlas.solver.many import solve_many

    with bar("solving") as progress:
        return solve_many(problems, args.step_limit, args.budget, polish, bound, args.workers, progress)


def _row(name: str, solution: "Solution") -> dict[str, Any]:
    return {
        "name": name,
        "verdict": solution.verdict,
        "plan_length": solution.plan_length,
        "reason": solution.reason,
        "trivial": solution.trivial,
        "lower_bound": solution.lower_bound,
        "plan": None if solution.plan is None else list(solution.plan),
    }


def _total(solutions: "list[Solution]") -> dict[str, Any]:
    from atlas.solver.prove import counted

    return counted(solutions)


def _write_film(args: Args, problems: "list[NamedProblem]", solutions: "list[Solution]") -> None:
    from atlas.runs.films import save_episode

    if len(problems) > 1:
        raise AtlasError(f"{args.file}: holds {len(problems)} problems; choose one with --name or --index to film it")
    plan = solutions[0].plan
    if plan is None:
        raise AtlasError(f"{problems[0].name} has no plan to film: it is {solutions[0].verdict}: {solutions[0].reason}")
    assert args.gif is not None
    save_episode(problems[0], plan, args.gif)


def _print(problems: "list[NamedProblem]", solutions: "list[Solution]") -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    colour = {"solvable": "green", "unsolvable": "red", "unknown": "yellow"}
    table = Table(box=None, pad_edge=False)
    for heading in ("problem", "verdict", "steps", "why"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "steps" else "left")
    for problem, s in zip(problems, solutions, strict=True):
        steps = "" if s.plan_length is None else str(s.plan_length)
        table.add_row(problem.name, f"[{colour[s.verdict]}]{s.verdict}[/]", steps, s.reason)
    console.print(table)
    if len(problems) == 1 and solutions[0].plan:
        console.print(_spell(solutions[0].plan))
    if len(problems) > 1:
        console.print("\n" + _sum_up(_total(solutions)))


def _spell(plan: Sequence[int]) -> str:
    """A plan in words, repetitions counted."""
    from itertools import groupby

    from atlas.domains.minigrid.grid import ACTIONS

    runs = [(ACTIONS[action].replace("_", " "), len(list(group))) for action, group in groupby(plan)]
    return "\nplan: " + ", ".join(name if times == 1 else f"{name} x{times}" for name, times in runs)


def _sum_up(total: dict[str, Any]) -> str:
    parts = [f"{total[verdict]} {verdict}" for verdict in ("solvable", "unsolvable", "unknown")]
    if total["trivial"]:
        parts.append(f"{total['trivial']} trivial")
    mean = "" if total["mean_plan_length"] is None else f"; plans take {total['mean_plan_length']:.1f} steps on average"
    return f"{total['problems']} problems: {', '.join(parts)}{mean}"


def _solve_sampled(args: Args, n: int) -> None:
    import jax
    import numpy as np

    from atlas.sampling import sample_batch, settings
    from atlas.solver.relaxed import relaxed_many

    batch = jax.device_get(sample_batch(settings(args.pairing, args.tasks, args.rooms), n, args.seed))
    passed = relaxed_many(batch)
    problems = [jax.tree.map(lambda leaf, i=i: leaf[i], batch) for i in range(n)]
    solutions = _solve(args, problems, polish=0, bound=False)
    total = _total(solutions)
    report = {
        "sampled": n,
        "pairing": args.pairing,
        "tasks": args.tasks,
        "rooms": list(args.rooms),
        "seed": args.seed,
        "share_relaxed": float(np.mean(passed)),
        "share_proven": total["solvable"] / n,
        "share_unsolvable": total["unsolvable"] / n,
        "unknown": total["unknown"] / n,
        "trivial": total["trivial"] / n,
        "mean_plan_length": total["mean_plan_length"],
    }
    if args.json:
        print(json.dumps(report))
    else:
        _print_report(report)


def _print_report(report: dict[str, Any]) -> None:
    print(f"{report['sampled']} {report['tasks']} problems, {report['pairing']} pairing, seed {report['seed']}")
    for key, words in (
        ("share_relaxed", "solvable by the paper's check"),
        ("share_proven", "solvable, with a plan that was replayed"),
        ("share_unsolvable", "unsolvable, with proof"),
        ("unknown", "unknown"),
        ("trivial", "trivial (completed by the first label; counted as solvable)"),
    ):
        print(f"  {100 * report[key]:5.1f} %  {words}")
    if report["mean_plan_length"] is not None:
        print(f"  plans take {report['mean_plan_length']:.1f} steps on average")
