"""Teachers on up to six rooms, an hour each: curves on the validation set and on the problems designed by hand.

`python benchmarks/laptop.py run` trains (each run on a core of its own); `python benchmarks/laptop.py table` lets every
policy that was kept on the way play both sets, prints the table and draws the figure.
"""

from pathlib import Path
from typing import Any, Final

from teachers import NAMES, compare, evaluated, panels, work

ARMS: Final = {name: (f"laptop-{name}",) for name in ("accel", "plr", "dr")}
SETS: Final = {"validation": "validation set", "hand": "designed by hand"}


def show(runs: dict[str, list[Path]], out: Path) -> str:
    """Solve rates over the clock; in the table the final ones with ten attempts a problem, and the work they took."""

    def draw(side: Any, number: int) -> None:
        for colour, (arm, (run, *_)) in zip(("C0", "C1", "C3"), runs.items(), strict=False):
            points = evaluated(run, list(SETS)[number], "--over-time")["points"]
            line = [(p["seconds"] / 60, 100 * p["mean"]) for p in points]
            side.plot(*zip(*line, strict=True), colour, linewidth=2, marker=".", label=NAMES[arm])

    panels(list(SETS.values()), "problems solved within 512 steps, %", out, draw)
    rows = ["| teacher | validation | 1 room | 2 | 4 | 6 | by hand | env steps played | trained on | gradient steps |"]
    rows.append("|---" * 10 + "|")
    for arm, (run, *_) in runs.items():
        validation, hand = (evaluated(run, problems)["runs"][0] for problems in SETS)
        rates = [validation["mean"], *(validation["by_tag"][f"rooms-{n}"]["rate"] for n in (1, 2, 4, 6)), hand["mean"]]
        steps, trained, gradients = work(run)
        told = " | ".join(f"{100 * rate:.0f} %" for rate in rates)
        rows.append(f"| {NAMES[arm]} | {told} | {steps:.0f} M | {trained:.1f} M | {gradients:,} |")
    return "\n".join(rows)


if __name__ == "__main__":
    compare(__doc__, ARMS, "laptop", 1, 60.0, show)
