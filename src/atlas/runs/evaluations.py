"""What `atlas eval` finds out, as plain values, and its files: `RUN/evaluations/<set>.json`.

A file holds the set, the result of each run (its problems one by one, and over all), and all runs together. One written
with `--over-time` holds a point for each policy that a run has kept.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np

from atlas.errors import AtlasError
from atlas.runs.batch import stack
from atlas.runs.pictures import write_whole
from atlas.runs.policy import Policy
from atlas.runs.problem_sets import ProblemSet
from atlas.statistics import ALPHAS, STATISTICS, Estimate, bootstrap, cvar, cvar_over_runs, drawn_again, wilson
from atlas.tasks import hrm, rm
from atlas.trials import Attempts

FOLDER: Final = "evaluations"
OVER_TIME: Final = "-over-time"
ENOUGH: Final = 2
"""CVaR needs so many attempts: some to rank by, others to average."""

Plain = dict[str, Any]


@dataclass(frozen=True)
class Terms:
    """How a set was put to policies."""

    attempts: int
    greedy: bool
    seed: int
    step_limit: int


def describe_set(chosen: ProblemSet, terms: Terms) -> Plain:
    """The set and the terms."""
    return {
        "name": chosen.name,
        "path": str(chosen.path),
        "hash": chosen.fingerprint,
        "problems": len(chosen.problems),
        **asdict(terms),
        "skipped": chosen.bad,
    }


def evaluation(
    chosen: ProblemSet, plan_lengths: Sequence[int | None], terms: Terms, results: Sequence[tuple[Policy, Attempts]]
) -> Plain:
    """All that is known about some runs on a set."""
    about = _about_problems(chosen, plan_lengths)
    runs = [_of_run(policy, attempts, about) for policy, attempts in results]
    solved = np.stack([attempts.solved for _, attempts in results])
    return {"set": describe_set(chosen, terms), "runs": runs, "together": _together(solved, about, terms)}


def _about_problems(chosen: ProblemSet, plan_lengths: Sequence[int | None]) -> list[Plain]:
    """What does not depend on who plays."""
    states = _count_states(chosen)
    return [
        {
            "name": problem.name,
            "tags": list(problem.tags),
            "rooms": int(problem.level.rooms),
            "states": count,
            "plan_length": length,
        }
        for problem, count, length in zip(chosen.problems, states, plan_lengths, strict=True)
    ]


def _count_states(chosen: ProblemSet) -> list[int]:
    """States of each task; of a hierarchy those of all its machines."""
    flat = [problem for problem in chosen.problems if isinstance(problem.task, rm.RewardMachine)]
    counted = iter(np.asarray(jax.jit(jax.vmap(rm.num_states))(stack(flat).task)).tolist() if flat else [])
    return [
        next(counted) if isinstance(problem.task, rm.RewardMachine) else _states_of_hierarchy(problem.task)
        for problem in chosen.problems
    ]


def _states_of_hierarchy(task: hrm.Hierarchy) -> int:
    return sum(int(rm.num_states(hrm.machine_of(task, number))) for number in range(task.size[0]))


def _of_run(policy: Policy, attempts: Attempts, about: list[Plain]) -> Plain:
    solved = attempts.solved
    rates = solved.mean(1)
    rows = [_of_problem(one, *both) for one, *both in zip(about, solved, attempts.steps, strict=True)]
    curve = cvar(solved) if solved.shape[1] >= ENOUGH else ()
    return {
        "run": str(policy.run),
        "path": str(policy.path),
        "iteration": policy.iteration,
        "steps": policy.steps,
        "seconds": policy.seconds,
        **{name: of(rates) for name, of in STATISTICS.items()},
        **_against_plans(rows),
        "by_tag": {tag: _pooled(solved[members]) for tag, members in _tags(about).items()},
        "cvar": [{"alpha": alpha, "value": float(value)} for alpha, value in zip(ALPHAS, curve, strict=False)],
        "problems": rows,
    }


def _of_problem(about: Plain, solved: np.ndarray, steps: np.ndarray) -> Plain:
    """One problem. Steps are those of attempts that succeeded."""
    estimate = wilson(int(solved.sum()), len(solved))
    return {
        **about,
        "attempts": len(solved),
        "solved": int(solved.sum()),
        "rate": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "mean_steps": float(steps[solved].mean()) if solved.any() else None,
    }


def _against_plans(rows: list[Plain]) -> Plain:
    """Mean steps of success and mean length of the prover's plans, both over the problems that were ever solved."""
    both = [(row["mean_steps"], row["plan_length"]) for row in rows if row["solved"] and row["plan_length"]]
    steps, plans = np.mean(both, axis=0).tolist() if both else (None, None)
    return {"mean_steps": steps, "mean_plan_length": plans}


def _tags(about: list[Plain]) -> dict[str, list[int]]:
    """The numbers of the problems that carry each tag."""
    found: dict[str, list[int]] = {}
    for number, one in enumerate(about):
        for tag in one["tags"]:
            found.setdefault(tag, []).append(number)
    return dict(sorted(found.items()))


def _pooled(solved: np.ndarray) -> Plain:
    """The share of attempts that succeeded."""
    estimate = wilson(int(solved.sum()), solved.size)
    return {"rate": estimate.value, "low": estimate.low, "high": estimate.high, "problems": len(solved)}


def _together(solved: np.ndarray, about: list[Plain], terms: Terms) -> Plain:
    """Over all runs; `solved[runs, problems, attempts]`."""
    rates = solved.mean(2)
    estimates = bootstrap(STATISTICS, rates, terms.attempts, terms.seed)
    curve = cvar_over_runs(solved, seed=terms.seed) if terms.attempts >= ENOUGH else []
    return {
        "runs": len(solved),
        "interval": drawn_again(len(solved), terms.attempts),
        **{name: asdict(estimate) for name, estimate in estimates.items()},
        "by_tag": {tag: _tag_together(solved[:, members], terms) for tag, members in _tags(about).items()},
        "cvar": [{"alpha": alpha, **asdict(point)} for alpha, point in zip(ALPHAS, curve, strict=False)],
    }


def _tag_together(solved: np.ndarray, terms: Terms) -> Plain:
    if len(solved) == 1:
        return _pooled(solved[0])
    found: Estimate = bootstrap({"mean": STATISTICS["mean"]}, solved.mean(2), terms.attempts, terms.seed)["mean"]
    return {"rate": found.value, "low": found.low, "high": found.high, "problems": solved.shape[1]}


def over_time(chosen: ProblemSet, terms: Terms, run: Path, results: Sequence[tuple[Policy, Attempts]]) -> Plain:
    """A run's policies through time on a set."""
    points = [
        {
            "iteration": policy.iteration,
            "steps": policy.steps,
            "seconds": policy.seconds,
            **{name: of(attempts.solved.mean(1)) for name, of in STATISTICS.items()},
        }
        for policy, attempts in results
    ]
    return {"set": describe_set(chosen, terms), "run": str(run), "points": points}


def evaluation_file(policy: Policy, name: str, given: Path) -> Path:
    """Where a result goes. That of a certain checkpoint, given by its path, is not what the run came to: it is kept
    apart."""
    folder = policy.run / FOLDER
    return (folder / f"at-{policy.iteration:09d}" if policy.path == given else folder) / f"{name}.json"


def over_time_file(run: Path, name: str) -> Path:
    """Where a curve goes."""
    return run / FOLDER / f"{name}{OVER_TIME}.json"


def write_evaluation(path: Path, content: Plain) -> None:
    """Write a file whole."""
    write_whole(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def read_evaluation(path: Path) -> Plain:
    """Read one back, of either kind."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise AtlasError(f"{path}: not a readable evaluation ({error})") from None
    if not isinstance(content, dict) or "set" not in content or not (content.get("runs") or content.get("points")):
        raise AtlasError(f"{path}: not an evaluation")
    return content
