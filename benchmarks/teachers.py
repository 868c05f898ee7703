"""Teachers at equal wall clock: one- and two-room problems sampled independently, several seeds, one core each.

`python benchmarks/teachers.py run` trains (an hour and a half at the default of 6 minutes and three seeds on one core,
half of it on two); `python benchmarks/teachers.py table` evaluates what it left, prints the table and draws the figure.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any, Final

import matplotlib.pyplot as plt
import numpy as np

from atlas.config import Config
from atlas.settings import load

Arms = dict[str, tuple[str, ...]]
"""What is compared: a name, and the arguments of `atlas train`."""
ARMS: Final[Arms] = {
    "accel": ("quick",),
    "plr": ("quick-plr",),
    "dr": ("quick-dr",),
    "dr-raw": ("quick-dr", "--student.ppo.normalise", "never"),
}
NAMES: Final = {"accel": "ACCEL", "plr": "PLR⊥", "dr": "DR", "dr-raw": "DR, advantages not normalised"}
ROOMS: Final = {"rooms_1": "one room", "rooms_2": "two rooms"}


def compare(
    doc: str | None,
    arms: Arms,
    name: str,
    seeds: int,
    minutes: float,
    show: Callable[[dict[str, list[Path]], Path], str],
) -> None:
    """The command of a comparison: `run` trains every arm; `table` lets `show` draw the figure and make the table."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("--folder", type=Path, default=Path("runs") / name)
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--minutes", type=float, default=minutes)
    parser.add_argument("--figure", type=Path, default=Path(f"docs/figures/{name}.svg"))
    args = parser.parse_args()
    if args.what == "run":
        train(args.folder, arms, args.seeds, args.minutes)
        return
    finished = {arm: sorted(args.folder.glob(f"{arm}-[0-9]*/summary.json")) for arm in arms}
    print(show({arm: [path.parent for path in paths] for arm, paths in finished.items() if paths}, args.figure))


def train(folder: Path, arms: Arms, seeds: int, minutes: float) -> None:
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


def evaluated(run: Path, problems: str, *more: str) -> Any:
    """What `atlas eval` says of a run on a set; it is asked only once."""
    name = Path(problems).stem + ("-over-time" if "--over-time" in more else "")
    kept = run / "evaluations" / f"{name}.json"
    if not kept.exists():
        command = [sys.executable, "-m", "atlas", "eval", str(run), "--problems", problems, *more]
        subprocess.run(command, check=True, stdout=sys.stderr)
    return json.loads(kept.read_text())


def exams(run: Path) -> list[dict[str, Any]]:
    """The records in which held-out problems were played."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if "held_out" in record]


def work(run: Path) -> tuple[float, float, int]:
    """Env steps played and trained on, in millions, and gradient steps."""
    config, last = load(Config, run / "config.yaml"), exams(run)[-1]
    trained, ppo = last["trained"] * config.run.num_envs, config.student.ppo
    return last["steps"] / 1e6, trained * config.run.rollout / 1e6, trained * ppo.epochs // ppo.minibatch_envs


def panels(titles: list[str], what: str, out: Path, draw: Callable[[Any, int], None]) -> None:
    """A figure of rates over the clock; `draw(panel, number)` fills each panel."""
    sides = plt.subplots(1, len(titles), figsize=(9, 3.4), sharey=True, layout="constrained")[1]
    for number, (side, title) in enumerate(zip(sides, titles, strict=True)):
        draw(side, number)
        side.set(title=title, xlabel="minutes on one core", ylim=(0, 100))
        side.grid(alpha=0.3)
    sides[0].set_ylabel(what)
    sides[-1].legend(frameon=False)
    out.parent.mkdir(parents=True, exist_ok=True)
    plt.savefig(out)


def show(runs: dict[str, list[Path]], out: Path) -> str:
    """One row a teacher: means over seeds, and the lowest and highest of them. In the figure thin lines are seeds,
    thick ones their mean."""

    def untrained(run: Path, room: str) -> float:
        return 100 * json.loads((run / "summary.json").read_text())["before"][room]

    def final(run: Path) -> list[float]:
        limit = str(load(Config, run / "config.yaml").domain.step_limit)
        more = ("--attempts", "4", "--step-limit", limit)
        tags = evaluated(run, str(run / "held_out.npz"), *more)["runs"][0]["by_tag"]
        return [100 * tags[room]["rate"] for room in ROOMS]

    def draw(side: Any, number: int) -> None:
        room = list(ROOMS)[number]
        for colour, (arm, own) in zip(("C0", "C1", "C3", "C7"), runs.items(), strict=False):
            lines = [
                [(0.0, untrained(run, room)), *((r["seconds"] / 60, 100 * r["held_out"][room]) for r in exams(run))]
                for run in own
            ]
            for line in lines:
                side.plot(*zip(*line, strict=True), colour, alpha=0.3, linewidth=1)
            minutes = np.linspace(0, min(line[-1][0] for line in lines), 24)
            mean = np.mean([np.interp(minutes, *zip(*line, strict=True)) for line in lines], axis=0)
            side.plot(minutes, mean, colour, linewidth=2.5, label=NAMES[arm])

    panels(list(ROOMS.values()), "held-out problems solved, %", out, draw)
    rows = [
        "| teacher | seeds | one room | two rooms | over untrained | env steps played | trained on | gradient steps |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for arm, own in runs.items():
        rates = np.array([final(run) for run in own])
        before = np.array([[untrained(run, room) for room in ROOMS] for run in own])
        each = [f"{r.mean():.0f} % ({r.min():.0f} to {r.max():.0f})" for r in rates.T]
        gain = ", ".join(f"{g:+.0f}" for g in (rates - before).mean(axis=0))
        steps, trained, gradients = np.mean([work(run) for run in own], axis=0)
        rows.append(
            f"| {NAMES[arm]} | {len(own)} | {each[0]} | {each[1]} | {gain} points | {steps:.1f} M | {trained:.1f} M "
            f"| {gradients:,.0f} |"
        )
    return "\n".join(rows)


if __name__ == "__main__":
    compare(__doc__, ARMS, "teachers", 3, 6.0, show)
