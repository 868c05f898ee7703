"""Run folders as training and evaluation leave them, made up in a second: for tests of what reads them."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from atlas.build import parts
from atlas.config import Config
from atlas.evaluation.statistics import STATISTICS, bootstrap, wilson, worst
from atlas.presets import preset
from atlas.problems import stack
from atlas.runs.checkpoints import Checkpoints
from atlas.runs.policy import save_parameters
from atlas.runs.problem_files import load, save
from atlas.runs.store import save_bulk
from atlas.settings import dump, to_plain
from atlas.struct import Struct
from atlas.types import NamedProblem

HAND = Path(__file__).parent.parent / "problems" / "hand" / "01-one-room.yaml"
NAMES = ("behind-you", "bring-together", "there-and-back", "colour-and-shape")
ODD_NAME = '<b>odd & "quoted"_%$'
TIMES = (1, 20, 40, 60, 80, 100)
KINDS = ("new", "replayed", "edited")
EDITS = ("move_agent", "add_object", "switch_proposition", "add_state", "hindsight_preceding")


class State(Struct):
    """Of a checkpoint, all that playing needs."""

    params: Any


def fake_run(path: Path, seed: int = 0, teacher_changes: dict[str, Any] | None = None, attempts: int = 10) -> Path:
    """A run with everything in it."""
    config = fake_config(seed, teacher_changes or {})
    path.mkdir(parents=True)
    (path / "config.yaml").write_text(dump(config))
    lines = [json.dumps(_record(config, iteration)) for iteration in TIMES]
    (path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    (path / "summary.json").write_text(json.dumps(_summary(path)))
    _policies(path, config)
    problems = fake_set(path.parent / "set.yaml")
    for iteration in TIMES[::2]:
        _snapshot(path, problems, iteration, config)
    (path / "evaluations").mkdir()
    _write_json(path / "evaluations" / "set.json", evaluation(path, problems, seed, attempts))
    _write_json(path / "evaluations" / "set-over-time.json", _over_time(path))
    return path


def fake_config(seed: int, teacher_changes: dict[str, Any]) -> Config:
    """The smallest preset."""
    config = preset("tiny").config
    return replace(config, run=replace(config.run, seed=seed), teacher=replace(config.teacher, **teacher_changes))


def fake_set(path: Path) -> list[NamedProblem]:
    """A few hand-designed problems, one of them with a name that needs care."""
    if not path.exists():
        chosen = {p.name: p for p in load(HAND) if p.name in NAMES}
        problems = [chosen[name] for name in NAMES]
        odd = problems[0].replace(about=replace(problems[0].about, name=ODD_NAME))
        save([*problems, odd], path)
    return load(path)


def _record(config: Config, iteration: int) -> dict[str, Any]:
    progress = iteration / TIMES[-1]
    wave = 0.02 * math.sin(iteration + config.run.seed)
    return {
        "iteration": iteration,
        "trained": iteration // 2,
        "steps": 64 * iteration,
        "seconds": 3.0 * iteration,
        "steps_per_second": 1000.0 + iteration,
        "iterations": dict.fromkeys(KINDS, 2.0),
        "solve_rate": {kind: 0.3 * progress + 0.1 * n for n, kind in enumerate(KINDS)},
        "score": dict.fromkeys(KINDS, 0.2 + wave),
        "trivial": dict.fromkeys(KINDS, 0.01),
        "losses": {
            "policy": 0.01 - wave, "value": 0.1 * (1 - progress), "entropy": 1.8 - progress, "kl": 0.002,
            "clipped": 0.05, "gradient_norm": 0.4, "explained_variance": progress - 0.2,
        },
        "buffer": {"fill": min(32, iteration), "capacity": 32},
        "held_out": {"all": 0.7 * progress + wave, "rooms_1": 0.9 * progress, "rooms_2": 0.5 * progress + wave},
        "curriculum": _curriculum(progress, wave),
    }  # fmt: skip


def _curriculum(progress: float, wave: float) -> dict[str, Any]:
    return {
        "problems": 32,
        "solvable": 0.4 + 0.5 * progress,
        "solvable_replayed": 0.5 + 0.4 * progress,
        "rooms": 1 + progress,
        "objects": 3 + 5 * progress,
        "states": 2 + 2 * progress + wave,
        "paths": 1 + progress,
        "path_length": 1 + 2 * progress,
        "edits": 8 * progress,
        "generation": 10 * progress,
        "shares": {
            "rooms": {"1": 1 - progress / 2, "2": progress / 2},
            "states": {"2": 1 - progress, "3": progress},
            "objects": {"1": 0.5, "4": 0.5},
            "edits": {"0": 1 - progress, "7": progress},
        },
        "edit_kinds": {name: 1 / len(EDITS) for name in EDITS},
        "solved": {"rooms": {"1": 0.8 * progress, "2": 0.4 * progress}, "states": {"2": 0.7, "3": 0.2}},
    }


def _summary(path: Path) -> dict[str, Any]:
    rates = {"all": 0.7, "rooms_1": 0.9, "rooms_2": 0.5}
    return {
        "folder": str(path), "iteration": TIMES[-1], "steps": 64 * TIMES[-1], "seconds": 300.0, "stopped": False,
        "before": dict.fromkeys(rates, 0.02), "after": rates,
    }  # fmt: skip


def _policies(path: Path, config: Config) -> None:
    params = parts(config).student.init(jax.random.key(config.run.seed))
    about = {"iteration": TIMES[-1], "steps": 64 * TIMES[-1], "seconds": 300.0}
    save_parameters(path / "policies" / f"{TIMES[-1]:09d}.npz", params, about)
    checkpoints = Checkpoints(path / "checkpoints", 1)
    checkpoints.save(TIMES[-1], State(params=params), about | {"before": {"all": 0.0}})
    checkpoints.close()


def _snapshot(path: Path, problems: list[NamedProblem], iteration: int, config: Config) -> None:
    examples = [
        {
            "probability": 0.5 / (n + 1), "score": 0.3, "attempts": 4, "solves": n % 3, "generation": n,
            "edits": [f"move agent to {n}", "<i>add</i> an object"][: n + 1] if n else [], "parent": n - 1,
        }
        for n in range(len(problems))
    ]  # fmt: skip
    settings = {
        "iteration": iteration, "steps": 64 * iteration, "seconds": 3.0 * iteration, "config": to_plain(config),
        "examples": examples,
    }  # fmt: skip
    save_bulk(stack(problems), path / "snapshots" / f"{iteration:09d}.npz", settings, config.run.seed)


def evaluation(path: Path, problems: list[NamedProblem], seed: int, attempts: int) -> dict[str, Any]:
    """What evaluating the run on the set would write."""
    solved = [(3 * n + seed) % (attempts + 1) for n in range(len(problems))]
    rows = [_row(problem, count, attempts) for problem, count in zip(problems, solved, strict=True)]
    rates = _column(rows)
    statistics = {name: of(rates) for name, of in STATISTICS.items()}
    curve = worst(rates[0], rates[0])
    tags = {tag: _tag(rows, tag) for tag in sorted({tag for row in rows for tag in row["tags"]})}
    intervals = {name: vars(e) for name, e in bootstrap(STATISTICS, rates, attempts, times=50).items()}
    points = [{"alpha": alpha, "value": float(value)} for alpha, value in enumerate(curve, start=1)]
    band = [point | {"low": 0.8 * point["value"], "high": min(1.0, 1.1 * point["value"])} for point in points]
    told = {
        "name": "set", "path": str(path.parent / "set.yaml"), "hash": "0" * 64, "problems": len(rows),
        "step_limit": 512, "attempts": attempts, "greedy": False, "seed": 0,
        "skipped": ["odd.yaml: there is no level"],
    }  # fmt: skip
    when = {"run": str(path), "iteration": TIMES[-1], "steps": 64 * TIMES[-1], "seconds": 300.0}
    run = when | {"problems": rows} | statistics | {"by_tag": tags, "cvar": points}
    return {"set": told, "runs": [run], "together": intervals | {"by_tag": tags, "cvar": band}}


def _column(rows: list[dict[str, Any]]) -> Any:
    import numpy as np

    return np.array([[row["rate"] for row in rows]])


def _row(problem: NamedProblem, solved: int, attempts: int) -> dict[str, Any]:
    share = wilson(solved, attempts)
    return {
        "name": problem.name, "tags": list(problem.tags), "rooms": int(problem.level.rooms), "states": 3,
        "attempts": attempts, "solved": solved, "rate": share.value, "low": share.low, "high": share.high,
        "mean_steps": 40.0 if solved else None, "plan_length": 12,
        "rejected": (attempts - solved) // 2, "timed_out": (attempts - solved + 1) // 2,
        "stalled": {"u1": (attempts - solved + 1) // 2} if solved < attempts else {},
    }  # fmt: skip


def _tag(rows: list[dict[str, Any]], tag: str) -> dict[str, Any]:
    tagged = [row for row in rows if tag in row["tags"]]
    share = wilson(sum(row["solved"] for row in tagged), sum(row["attempts"] for row in tagged))
    return {"rate": share.value, "low": share.low, "high": share.high, "problems": len(tagged)}


def _over_time(path: Path) -> dict[str, Any]:
    points = [
        {
            "iteration": t, "steps": 64 * t, "seconds": 3.0 * t, "mean": t / 150, "iqm": t / 150, "median": t / 150,
            "rates": [t / 150] * (len(NAMES) + 1),
        }
        for t in TIMES
    ]  # fmt: skip
    about = {"name": "set", "step_limit": 512, "attempts": 10}
    return {"set": about, "run": str(path), "problems": [*NAMES, ODD_NAME], "points": points}


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content))
