"""What a map of what was seen and rewards by the outlook are worth: held-out problems over env steps, by setting.

`python benchmarks/memory.py run --minutes 15` trains (each run on a core of its own); `python benchmarks/memory.py
table` prints the table and draws the figure. What `laptop` has now is left out of it, one thing after the other; plans
to imitate, which came later, are left out of all.
"""

from pathlib import Path
from typing import Any, Final

from teachers import Arms, compare, exams, panels

ROOMS: Final = ("--domain.walls", "0", "--domain.traps", "0", "--pairing.oversample", "4")
TASK_ONLY: Final = ("--tasks.reward", "shaped")
BEFORE: Final = ("laptop", "--student.cloning.plans", "0", "--student.ppo.normalise", "minibatch")
ARMS: Final[Arms] = {
    "wide": (*BEFORE, *ROOMS, *TASK_ONLY, "--student.network.no-map", "--student.network.recurrent", "256"),
    "map": (*BEFORE, *ROOMS, *TASK_ONLY),
    "outlook": (*BEFORE, *ROOMS),
    "mazes": (*BEFORE, *TASK_ONLY),
    "laptop": BEFORE,
}
NAMES: Final = {
    "wide": "no map, a GRU of 256",
    "map": "map",
    "outlook": "map and outlook",
    "mazes": "map, mazes and traps",
    "laptop": "map, outlook, mazes and traps",
}


def rooms_only(record: dict[str, Any]) -> float:
    """Mean rate over numbers of rooms: mazes, which not all runs have, are left out."""
    rates = [rate for name, rate in record["held_out"].items() if name.startswith("rooms_") and name != "rooms_0"]
    return 100 * sum(rates) / len(rates)


def show(runs: dict[str, list[Path]], out: Path) -> str:
    """Rates of the first seed over env steps, for all numbers of rooms and for six; the table has where runs ended."""

    def draw(side: Any, number: int) -> None:
        for colour, (arm, (run, *_)) in enumerate(runs.items()):
            rate = rooms_only if number == 0 else lambda record: 100 * record["held_out"]["rooms_6"]
            line = [(record["steps"] / 1e6, rate(record)) for record in exams(run)]
            side.plot(*zip(*line, strict=True), f"C{colour}", linewidth=2, label=NAMES[arm])

    panels(["1, 2, 4 and 6 rooms", "six rooms"], "held-out problems solved, %", out, draw, "env steps, M")
    rows = ["| | env steps | mazes | 1 room | 2 | 4 | 6 |", "|---" * 7 + "|"]
    for arm, (run, *_) in runs.items():
        last = exams(run)[-1]
        rates = [last["held_out"].get(f"rooms_{n}") for n in (0, 1, 2, 4, 6)]
        told = " | ".join("" if rate is None else f"{100 * rate:.0f} %" for rate in rates)
        rows.append(f"| {NAMES[arm]} | {last['steps'] / 1e6:.1f} M | {told} |")
    return "\n".join(rows)


if __name__ == "__main__":
    compare(__doc__, ARMS, "memory", 1, 15.0, show)
