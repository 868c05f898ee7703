"""All teachers, several seeds, one core each: at equal wall clock and at equal env steps, in two tracks.

`python benchmarks/teachers.py all` trains, evaluates each run as it ends, prints the tables and draws the figures. It
can be stopped with Ctrl-C and called again: runs go on where they were, and what is finished is not done again. `run`
trains and evaluates, `table` evaluates and shows what there is. What the tables are made of is kept in
benchmarks/results, one small file a run: runs whose folders are gone, or that were made on another machine, still
count, and are not made again (`--results` and `--folder` name other folders, to begin anew).

In the *blind* track problems are sampled independently and no solver is asked; in the *informed* track tasks are
sampled for their levels and problems (children, too) pass the relaxed check. ACCEL's plain form takes part in both.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import Any, Final

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from atlas.config import Config
from atlas.runs.hosts import processor
from atlas.settings import load

Arms = dict[str, tuple[str, ...]]
"""What is compared: a name, and the arguments of `atlas train`."""
BLIND, INFORMED = "blind", "informed"
TRACKS: Final = {
    BLIND: ("accel", "plr", "dr", "dr-raw", "accel-posterior", "accel-mna", "accel-edits", "echo"),
    INFORMED: ("accel-informed", "dr-informed", "sfl", "scout", "accel-edits-informed", "accel-oracle"),
}
RIVALS: Final = {BLIND: "accel", INFORMED: "accel-informed"}
"""Whom the others of the track are compared with."""
NAMES: Final = {
    "accel": "ACCEL",
    "plr": "PLR⊥",
    "dr": "DR",
    "dr-raw": "DR, advantages not normalised",
    "accel-posterior": "ACCEL, posterior learnability",
    "accel-mna": "ACCEL, negative advantage",
    "accel-edits": "ACCEL, edits that learn",
    "echo": "Echo",
    "accel-informed": "ACCEL",
    "dr-informed": "DR",
    "sfl": "SFL",
    "scout": "Scout",
    "accel-edits-informed": "ACCEL, edits that learn",
    "accel-oracle": "ACCEL, oracle regret",
}
POINTS: Final = 9
"""Policies of each run that play the sets."""
PORTRAIT: Final = {
    "rooms": "rooms",
    "states": "states of the task",
    "solvable_replayed": "solvable, %",
    "solved": "solved, %",
}
"""What a curriculum is described by: names in the records."""


def arms_of(size: str, only: Sequence[str] = ()) -> Arms:
    """What runs at a size: all teachers where it is `quick`, else those that have a preset of that size."""
    from atlas.presets import presets

    known = presets()
    found: Arms = {}
    for arm in (arm for arms in TRACKS.values() for arm in arms):
        name = f"{size}-{arm.removesuffix('-raw')}"
        if name in known and (not only or arm in only):
            found[arm] = (name, *(("--student.ppo.normalise", "never") if arm.endswith("-raw") else ()))
    if unknown := set(only) - found.keys():
        raise SystemExit(f"there is no teacher {', '.join(sorted(unknown))} at size {size}")
    return found


def train(
    folder: Path,
    arms: Arms,
    seeds: int,
    minutes: float,
    more: Sequence[str] = (),
    cores: Sequence[int] = (),
    known: Callable[[str], bool] = lambda name: False,
    ended: Callable[[Path, int], None] = lambda run, core: None,
) -> None:
    """Every arm with every seed, each pinned to a core of its own; what was begun goes on, what is `known` is left
    out. `ended(run, core)` is called after each, before its core takes the next."""
    free: Queue[int] = Queue()
    for core in cores or sorted(os.sched_getaffinity(0)):
        free.put(core)

    def one(job: tuple[str, int]) -> None:
        arm, seed = job
        run = folder / f"{arm}-{seed}"
        core = free.get()
        command = [sys.executable, "-m", "atlas"]
        if list(run.glob("checkpoints/*/about")):
            command += ["resume", str(run), "--run.time-limit", str(minutes)]
        else:
            command += ["train", *arms[arm], "--run.seed", str(seed), "--run.time-limit", str(minutes), *more]
            command += ["--folder", str(run), "--overwrite"]
        try:
            with open(folder / f"{arm}-{seed}.log", "a") as log:
                subprocess.run(["taskset", "-c", str(core), *command], stdout=log, stderr=log, check=True)
            ended(run, core)
        finally:
            free.put(core)

    folder.mkdir(parents=True, exist_ok=True)
    jobs = [(arm, seed) for seed in range(seeds) for arm in arms if not known(f"{arm}-{seed}")]
    with ThreadPoolExecutor(free.qsize()) as pool:
        try:
            list(pool.map(one, jobs))
        except KeyboardInterrupt:  # the runs were interrupted with us, and save what they have
            pool.shutdown(wait=True, cancel_futures=True)
            raise SystemExit("stopped; the same command goes on") from None


def evaluated(run: Path, problems: str, *more: str, core: int | None = None) -> Any:
    """What `atlas eval` says of a run on a set; it is asked once, and again if the run went on."""
    name = Path(problems).stem + ("-over-time" if "--over-time" in more else "")
    kept = run / "evaluations" / f"{name}.json"
    if not kept.exists() or kept.stat().st_mtime < (run / "summary.json").stat().st_mtime:
        command = [] if core is None else ["taskset", "-c", str(core)]
        command += [sys.executable, "-m", "atlas", "eval", str(run), "--problems", problems, *more]
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


def panels(
    titles: list[str], what: str, out: Path, draw: Callable[[Any, int], None], over: str = "minutes on one core"
) -> None:
    """A figure of rates over the clock, or over something else; `draw(panel, number)` fills each panel."""
    sides = plt.subplots(1, len(titles), figsize=(4.5 * len(titles), 3.8), sharey=True, layout="constrained")[1]
    for number, (side, title) in enumerate(zip(np.atleast_1d(sides), titles, strict=True)):
        draw(side, number)
        side.set(title=title, xlabel=over, ylim=(0, 100))
        side.grid(alpha=0.3)
    np.atleast_1d(sides)[0].set_ylabel(what)
    np.atleast_1d(sides)[-1].legend(frameon=False, fontsize=7)
    out.parent.mkdir(parents=True, exist_ok=True)
    plt.savefig(out)
    plt.close()


def result(run: Path, sets: Sequence[str], core: int | None = None) -> dict[str, Any]:
    """All that tables and figures say of a run: how many attempts at each problem its policies solved, how much it
    played, and what its curriculum was like."""
    told = {}
    for one in sets:
        curve = evaluated(run, one, "--over-time", "--points", str(POINTS), core=core)
        attempts = int(curve["set"].get("attempts", 1))
        points = [
            {"steps": p["steps"], "seconds": p["seconds"], "solved": [round(attempts * x) for x in p["rates"]]}
            for p in curve["points"]
        ]
        told[Path(one).stem] = {"attempts": attempts, "points": points}
    played, trained, updates = work(run)
    seen = exams(run)
    portrait = {
        key: [[record["steps"], round(value, 3)] for record in seen if (value := portrayed(record, key)) is not None]
        for key in PORTRAIT
    }
    return {
        "processor": processor(), "minutes": load(Config, run / "config.yaml").run.time_limit,
        "played": played, "trained": trained, "updates": updates, "portrait": portrait, "sets": told,
    }  # fmt: skip


def keep(run: Path, kept: Path, sets: Sequence[str], core: int | None = None) -> None:
    """Write down the result of a run that has come to its end."""
    if not json.loads((run / "summary.json").read_text())["stopped"]:
        kept.mkdir(parents=True, exist_ok=True)
        (kept / f"{run.name}.json").write_text(json.dumps(result(run, sets, core), separators=(",", ":")) + "\n")


def kept_result(file: Path, sets: Sequence[str]) -> dict[str, Any] | None:
    """What was written down of a run; None if that is nothing, or if it has not played all of the sets."""
    one: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"sets": {}}
    return None if {Path(name).stem for name in sets} - one["sets"].keys() else one


def results(folder: Path, kept: Path, arms: Arms, sets: Sequence[str]) -> "list[Arm]":
    """The results of all runs that have come to their end, in this folder or before."""
    for run in (run for runs in finished(folder, arms).values() for run in runs):
        if kept_result(kept / f"{run.name}.json", sets) is None:
            keep(run, kept, sets)
    found = []
    for arm in arms:
        files = sorted(kept.glob(f"{arm}-[0-9]*.json"))
        runs = [one for file in files if (one := kept_result(file, sets))]
        found += [Arm(arm, runs)] if runs else []
    if found:
        require_length(kept, found[0].runs[0]["minutes"])
    return found


def require_length(kept: Path, minutes: float) -> None:
    """An end with a sentence if results of runs of another length are kept: they could not be compared."""
    for file in sorted(kept.glob("*.json")):
        if (other := json.loads(file.read_text())["minutes"]) != minutes:
            raise SystemExit(
                f"{file} is of a run of {other:g} minutes, not {minutes:g}: give `--minutes {other:g}`, or "
                "other folders with `--results` and `--folder`"
            )


@dataclass(frozen=True, eq=False)
class Arm:
    """A teacher and the results of its runs."""

    name: str
    runs: list[dict[str, Any]]

    @property
    def steps(self) -> float:
        """Env steps that all of its runs have made."""
        return min(one["points"][-1]["steps"] for run in self.runs for one in run["sets"].values())

    def attempts(self, problems: str) -> int:
        """Attempts at each problem of a set."""
        return int(self.runs[0]["sets"][problems]["attempts"])

    def lines(self, problems: str) -> list[list[tuple[float, float]]]:
        """Minutes and the share that was solved, of each run."""
        points = [run["sets"][problems]["points"] for run in self.runs]
        return [[(p["seconds"] / 60, float(np.mean(self._rates(problems, p)))) for p in line] for line in points]

    def rates(self, problems: str, steps: float | None = None) -> np.ndarray:
        """`[runs, problems]`: at the end, or at so many env steps, between two policies in proportion."""

        def at(points: list[dict[str, Any]]) -> np.ndarray:
            known = np.array([point["steps"] for point in points], float)
            table = np.stack([self._rates(problems, point) for point in points])
            return table[-1] if steps is None else np.array([np.interp(steps, known, column) for column in table.T])

        return np.stack([at(run["sets"][problems]["points"]) for run in self.runs])

    def _rates(self, problems: str, point: dict[str, Any]) -> np.ndarray:
        return np.array(point["solved"]) / self.attempts(problems)


def difference(one: np.ndarray, other: np.ndarray) -> str:
    """The mean of one side less that of the other (`[runs, problems]`), in points: `+5 (1 to 9)`, with a 95 % interval
    by Welch's t over runs. The problems of a run share its luck, so runs are what is counted."""
    a, b = 100 * one.mean(axis=1), 100 * other.mean(axis=1)
    told = f"{round(a.mean() - b.mean()):+d}"
    if min(len(a), len(b)) < 2:
        return told
    low, high = stats.ttest_ind(a, b, equal_var=False).confidence_interval()
    return f"{told} ({round(low)} to {round(high)})"


def table(arms: list[Arm], problems: str, track: str) -> str:
    """How the teachers of a track do on a set, one row each: the mean, and in brackets each run. Equal env steps: as
    many as the slowest run has made."""
    rival = next((arm for arm in arms if arm.name == RIVALS[track]), None)
    steps = min(arm.steps for arm in arms)
    columns = ("equal time", "less ACCEL", "equal env steps", "less ACCEL", "env steps played", "trained on")
    rows = [f"Set: {problems}; track: {track}; equal env steps are {steps / 1e6:.1f} M.", ""]
    rows += ["| " + " | ".join(("teacher", *columns)) + " |", "|---" * (len(columns) + 1) + "|"]
    for arm in arms:
        cells = []
        for when in (None, steps):
            rates = arm.rates(problems, when)
            each = ", ".join(f"{100 * rate:.0f}" for rate in rates.mean(axis=1))
            cells.append(f"{100 * rates.mean():.0f} % ({each})")
            cells.append(difference(rates, rival.rates(problems, when)) if rival and rival is not arm else "")
        played, trained = (np.mean([run[what] for run in arm.runs]) for what in ("played", "trained"))
        rows.append("| " + " | ".join((NAMES[arm.name], *cells, f"{played:.1f} M", f"{trained:.1f} M")) + " |")
    return "\n".join(rows)


def curves(arms: list[Arm], sets: Sequence[str], out: Path) -> None:
    """Solve rates over the clock; thin lines are seeds, thick ones their mean."""

    def draw(side: Any, number: int) -> None:
        for colour, arm in enumerate(arms):
            lines = [[(minutes, 100 * rate) for minutes, rate in line] for line in arm.lines(sets[number])]
            for line in lines:
                side.plot(*zip(*line, strict=True), f"C{colour}", alpha=0.3, linewidth=1)
            minutes = np.linspace(0, min(line[-1][0] for line in lines), 24)
            middle = np.mean([np.interp(minutes, *zip(*line, strict=True)) for line in lines], axis=0)
            side.plot(minutes, middle, f"C{colour}", linewidth=2.2, label=NAMES[arm.name])

    panels(list(sets), "problems solved, %", out, draw)


def portraits(arms: list[Arm], out: Path) -> None:
    """What the teachers trained on, side by side: rooms, states, solvable share, how much of it was solved."""
    sides = plt.subplots(1, len(PORTRAIT), figsize=(3.4 * len(PORTRAIT), 3.4), layout="constrained")[1]
    for side, (key, title) in zip(sides, PORTRAIT.items(), strict=True):
        for colour, arm in enumerate(arms):
            points = [(steps / 1e6, value) for steps, value in arm.runs[0]["portrait"][key]]
            if points:
                side.plot(*zip(*points, strict=True), f"C{colour}", label=NAMES[arm.name])
        side.set(title=title, xlabel="env steps, M", **({"ylim": (0, 105)} if title.endswith("%") else {}))
        side.grid(alpha=0.3)
    sides[-1].legend(frameon=False, fontsize=7)
    out.parent.mkdir(parents=True, exist_ok=True)
    plt.savefig(out)
    plt.close()


def portrayed(record: dict[str, Any], key: str) -> float | None:
    """One number of a portrait; None where the record does not have it."""
    if key == "solved":
        rates = record.get("solve_rate", {})
        value = rates.get("replayed", rates.get("new"))
        return None if value is None else 100 * value
    value = record.get("curriculum", {}).get(key)
    return value if value is None or not key.startswith("solvable") else 100 * value


def compare(
    doc: str | None,
    arms: Arms,
    name: str,
    seeds: int,
    minutes: float,
    show: Callable[[dict[str, list[Path]], Path], str],
) -> None:
    """The command of a small comparison: `run` trains every arm; `table` lets `show` draw the figure and make the
    table."""
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
    print(show(finished(args.folder, arms), args.figure))


def finished(folder: Path, arms: Arms) -> dict[str, list[Path]]:
    """The runs of each arm that have come to their end, or were stopped on the way."""
    found = {arm: sorted(path.parent for path in folder.glob(f"{arm}-[0-9]*/summary.json")) for arm in arms}
    return {arm: runs for arm, runs in found.items() if runs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("all", "run", "table"))
    parser.add_argument("--size", choices=("quick", "laptop"), default="quick")
    parser.add_argument("--only", nargs="+", default=(), help="some of the teachers, e.g. accel echo")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, help="of each run; 4 at size quick, 20 at size laptop")
    parser.add_argument(
        "--cores", type=int, nargs="+", default=(), help="cores to use, one for each run; all if not given"
    )
    parser.add_argument("--sets", nargs="+", default=("validation", "hand"), help="sets of problems, by name or file")
    parser.add_argument("--folder", type=Path, help="of the runs; runs/teachers-SIZE if not given")
    parser.add_argument("--out", type=Path, default=Path("docs/figures"), help="where figures go")
    parser.add_argument(
        "--results", type=Path, default=Path("benchmarks/results"), help="where the results of runs are kept"
    )
    parser.add_argument(
        "--set", nargs="+", default=(), metavar="KEY=VALUE", help="settings of all runs, e.g. run.num_envs=8"
    )
    args = parser.parse_args()
    folder = args.folder or Path("runs") / f"teachers-{args.size}"
    kept = args.results / f"teachers-{args.size}"
    arms = arms_of(args.size, args.only)
    if args.what != "table":
        more = [part for one in args.set for part in (f"--{one.partition('=')[0]}", one.partition("=")[2])]
        minutes = args.minutes or {"quick": 4.0, "laptop": 20.0}[args.size]
        require_length(kept, minutes)
        train(
            folder, arms, args.seeds, minutes, more, args.cores,
            known=lambda name: kept_result(kept / f"{name}.json", args.sets) is not None,
            ended=lambda run, core: keep(run, kept, args.sets, core),
        )  # fmt: skip
    if args.what == "run":
        return
    names = [Path(one).stem for one in args.sets]
    everything = results(folder, kept, arms, args.sets)
    for track, members in TRACKS.items():
        if known := [arm for arm in everything if arm.name in members]:
            print(*(table(known, one, track) for one in names), sep="\n\n", end="\n\n")
            curves(known, names, args.out / f"teachers-{args.size}-{track}.svg")
            portraits(known, args.out / f"teachers-{args.size}-{track}-curricula.svg")


if __name__ == "__main__":
    main()
