"""Teachers at equal wall clock: one- and two-room problems sampled independently, several seeds, one core each.

`python benchmarks/teachers.py run` trains (an hour and a half at the default of 6 minutes and three seeds on one core,
half of it on two); `python benchmarks/teachers.py table` evaluates what it left, prints the table and draws the figure.
"""

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any, Final

import matplotlib.pyplot as plt
import numpy as np

from atlas.config import Config
from atlas.settings import load

ARMS: Final[dict[str, tuple[str, ...]]] = {
    "accel": ("quick",),
    "plr": ("quick-plr",),
    "dr": ("quick-dr",),
    "dr-raw": ("quick-dr", "--student.ppo.normalise", "never"),
}
NAMES: Final = {"accel": "ACCEL", "plr": "PLR⊥", "dr": "DR", "dr-raw": "DR, advantages not normalised"}
ROOMS: Final = ("rooms_1", "rooms_2")


def train(folder: Path, arms: dict[str, tuple[str, ...]], seeds: int, minutes: float) -> None:
    """Every arm with every seed, each pinned to a core of its own."""
    cores: Queue[int] = Queue()
    for core in sorted(os.sched_getaffinity(0)):
        cores.put(core)

    def one(job: tuple[str, int]) -> None:
        arm, seed = job
        core = cores.get()
        command = [sys.executable, "-m", "atlas", "train", *arms[arm], "--run.seed", str(seed)]
        command += ["--run.time-limit", str(minutes), "--folder", str(folder / f"{arm}-{seed}"), "--overwrite"]
        with open(folder / f"{arm}-{seed}.log", "w") as log:
            subprocess.run(["taskset", "-c", str(core), *command], stdout=log, stderr=log, check=True)
        cores.put(core)

    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(cores.qsize()) as pool:
        list(pool.map(one, [(arm, seed) for seed in range(seeds) for arm in arms]))


def curve(run: Path) -> list[dict[str, Any]]:
    """The records in which held-out problems were played."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if "held_out" in record]


def work(run: Path) -> tuple[float, float, int]:
    """Env steps played and trained on, in millions, and gradient steps."""
    config, last = load(Config, run / "config.yaml"), curve(run)[-1]
    trained = last["trained"] * config.run.num_envs * config.run.rollout
    ppo = config.student.ppo
    return last["steps"] / 1e6, trained / 1e6, last["trained"] * ppo.epochs * config.run.num_envs // ppo.minibatch_envs


def untrained(run: Path) -> dict[str, float]:
    """Solve rates before the first iteration."""
    rates: dict[str, float] = json.loads((run / "summary.json").read_text())["before"]
    return rates


def final_rates(run: Path, attempts: int) -> list[float]:
    """Solve rates of the last policy on the held-out problems, by number of rooms."""
    kept = run / "evaluations" / "held_out.json"
    if not kept.exists():
        command = [sys.executable, "-m", "atlas", "eval", str(run), "--problems", str(run / "held_out.npz")]
        limit = str(load(Config, run / "config.yaml").domain.step_limit)
        subprocess.run([*command, "--attempts", str(attempts), "--step-limit", limit], check=True, stdout=sys.stderr)
    tags = json.loads(kept.read_text())["runs"][0]["by_tag"]
    return [100 * tags[room]["rate"] for room in ROOMS]


def table(folder: Path, attempts: int) -> str:
    """One row a teacher: means over seeds, and the lowest and highest of them."""
    rows = [
        "| teacher | seeds | one room | two rooms | over untrained | env steps played | trained on | gradient steps |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for arm, runs in groups(folder).items():
        rates = np.array([final_rates(run, attempts) for run in runs])
        before = np.array([[100 * untrained(run)[room] for room in ROOMS] for run in runs])
        each = [f"{r.mean():.0f} % ({r.min():.0f} to {r.max():.0f})" for r in rates.T]
        gain = ", ".join(f"{g:+.0f}" for g in (rates - before).mean(axis=0))
        steps, trained, gradients = np.mean([work(run) for run in runs], axis=0)
        rows.append(
            f"| {NAMES[arm]} | {len(runs)} | {each[0]} | {each[1]} | {gain} points | {steps:.1f} M | {trained:.1f} M "
            f"| {gradients:,.0f} |"
        )
    return "\n".join(rows)


def groups(folder: Path) -> dict[str, list[Path]]:
    """The finished runs of each arm."""
    found = {arm: sorted(folder.glob(f"{arm}-[0-9]*/summary.json")) for arm in ARMS}
    return {arm: [path.parent for path in paths] for arm, paths in found.items() if paths}


def figure(folder: Path, out: Path) -> None:
    """Held-out solve rates over the clock: thin lines are seeds, thick ones their mean."""
    sides = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")[1]
    for side, room, title in zip(sides, ROOMS, ("one room", "two rooms"), strict=True):
        for colour, (arm, runs) in zip(("C0", "C1", "C3", "C7"), groups(folder).items(), strict=False):
            starts = [(0.0, 100 * untrained(run)[room]) for run in runs]
            later = [[(r["seconds"] / 60, 100 * r["held_out"][room]) for r in curve(run)] for run in runs]
            lines = [[start, *line] for start, line in zip(starts, later, strict=True)]
            for line in lines:
                side.plot(*zip(*line, strict=True), colour, alpha=0.3, linewidth=1)
            minutes = np.linspace(0, min(line[-1][0] for line in lines), 24)
            mean = np.mean([np.interp(minutes, *zip(*line, strict=True)) for line in lines], axis=0)
            side.plot(minutes, mean, colour, linewidth=2.5, label=NAMES[arm])
        side.set_title(title)
    finish(sides, "held-out problems solved, %", out)


def finish(sides: Any, what: str, out: Path) -> None:
    """Label both sides of a figure of rates over the clock, and write it."""
    for side in sides:
        side.set(xlabel="minutes on one core", ylim=(0, 100))
        side.grid(alpha=0.3)
    sides[0].set_ylabel(what)
    sides[1].legend(frameon=False)
    out.parent.mkdir(parents=True, exist_ok=True)
    plt.savefig(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("--folder", type=Path, default=Path("runs/teachers"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("--attempts", type=int, default=4)
    parser.add_argument("--figure", type=Path, default=Path("docs/figures/teachers.svg"))
    args = parser.parse_args()
    if args.what == "run":
        train(args.folder, ARMS, args.seeds, args.minutes)
    else:
        figure(args.folder, args.figure)
        print(table(args.folder, args.attempts))


if __name__ == "__main__":
    main()
