"""Teachers on up to six rooms, an hour each: curves on the validation set and on the problems designed by hand.

`python benchmarks/laptop.py run` trains (each run on a core of its own); `python benchmarks/laptop.py table` lets every
policy that was kept on the way play both sets, prints the table and draws the figure.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import matplotlib.pyplot as plt
from teachers import finish, train, work

ARMS: Final = {name: (f"laptop-{name}",) for name in ("accel", "plr", "dr")}
NAMES: Final = {"accel": "ACCEL", "plr": "PLR⊥", "dr": "DR"}
SETS: Final = {"validation": "validation set", "hand": "designed by hand"}
SHOWN: Final = ("rooms-1", "rooms-2", "rooms-4", "rooms-6")


def ask(run: Path, problems: str, *more: str) -> None:
    """Evaluate, unless the answer is there already."""
    suffix = "-over-time" if more else ""
    if not (run / "evaluations" / f"{problems}{suffix}.json").exists():
        command = [sys.executable, "-m", "atlas", "eval", str(run), "--problems", problems, *more]
        subprocess.run(command, check=True, stdout=sys.stderr)


def answer(run: Path, name: str) -> Any:
    return json.loads((run / "evaluations" / f"{name}.json").read_text())


def points(run: Path, problems: str) -> list[tuple[float, float]]:
    """Minutes and mean solve rate of each policy that was kept."""
    ask(run, problems, "--over-time")
    return [(p["seconds"] / 60, 100 * p["mean"]) for p in answer(run, f"{problems}-over-time")["points"]]


def row(arm: str, run: Path) -> str:
    """Final rates with ten attempts a problem, and the work that they took."""
    for problems in SETS:
        ask(run, problems)
    final = {problems: answer(run, problems)["runs"][0] for problems in SETS}
    rates = [final["validation"]["mean"], *(final["validation"]["by_tag"][tag]["rate"] for tag in SHOWN)]
    rates.append(final["hand"]["mean"])
    steps, trained, gradients = work(run)
    cells = [f"{100 * rate:.0f} %" for rate in rates]
    return f"| {NAMES[arm]} | {' | '.join(cells)} | {steps:.0f} M | {trained:.1f} M | {gradients:,} |"


def table(runs: dict[str, Path]) -> str:
    head = "| teacher | validation | 1 room | 2 | 4 | 6 | by hand | env steps played | trained on | gradient steps |"
    return "\n".join([head, "|---" * 10 + "|", *(row(arm, run) for arm, run in runs.items())])


def figure(runs: dict[str, Path], out: Path) -> None:
    """Mean solve rates over the clock."""
    sides = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")[1]
    for side, (problems, title) in zip(sides, SETS.items(), strict=True):
        for colour, (arm, run) in zip(("C0", "C1", "C3"), runs.items(), strict=False):
            side.plot(*zip(*points(run, problems), strict=True), colour, linewidth=2, marker=".", label=NAMES[arm])
        side.set_title(title)
    finish(sides, "problems solved within 512 steps, %", out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("--folder", type=Path, default=Path("runs/laptop"))
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--figure", type=Path, default=Path("docs/figures/laptop.svg"))
    args = parser.parse_args()
    if args.what == "run":
        train(args.folder, ARMS, 1, args.minutes)
        return
    runs = {arm: args.folder / f"{arm}-0" for arm in ARMS if (args.folder / f"{arm}-0" / "summary.json").exists()}
    figure(runs, args.figure)
    print(table(runs))


if __name__ == "__main__":
    main()
