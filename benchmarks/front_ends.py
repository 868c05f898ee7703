"""How fast words become tasks and back: LTLf of five propositions, English, explanations, drawings.

`python benchmarks/front_ends.py` prints a table; processor time says the same on a busy machine.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.tasks.draw import draw_task, svg_task
from atlas.tasks.english import english
from atlas.tasks.explain import explain
from atlas.tasks.ltlf import ltlf

FIVE = ("front_ball", "carrying_key", "front_door_open", "next_ball_key", "front_square")
FORMULAS = {
    "LTLf, five in any order": " & ".join(f"F {name}" for name in FIVE),
    "LTLf, five in sequence": " & X F (".join([f"F ({FIVE[0]}", *FIVE[1:]]) + ")" * 5,
    "LTLf, four while avoiding one": f"(!{FIVE[4]} U {FIVE[0]}) & " + " & ".join(f"F {name}" for name in FIVE[1:4]),
    "LTLf, nested until": " U (".join(FIVE) + ")" * 4,
}
SENTENCE = "go to a ball, then put the red key next to a locked door, then open the blue door"


class Cost(NamedTuple):
    """Milliseconds of one call, the best of several."""

    wall: float
    processor: float


def measure(call: Callable[[], Any], calls: int = 15) -> Cost:
    """The cost of a call once everything is imported."""
    call()
    costs = []
    for _ in range(calls):
        wall, processor = time.perf_counter(), time.process_time()
        call()
        costs.append((1e3 * (time.perf_counter() - wall), 1e3 * (time.process_time() - processor)))
    return Cost(*(min(column) for column in zip(*costs, strict=True)))


def measure_front_ends() -> dict[str, Cost]:
    """All measurements by name."""
    task = english(SENTENCE, VOCABULARY)
    calls: dict[str, Callable[[], Any]] = {
        name: lambda text=text: ltlf(text, VOCABULARY) for name, text in FORMULAS.items()
    }
    calls["English, three steps"] = lambda: english(SENTENCE, VOCABULARY)
    calls["explain it"] = lambda: explain(task, VOCABULARY)
    calls["draw it as SVG"] = lambda: svg_task(task, VOCABULARY)
    calls["draw it as a picture"] = lambda: draw_task(task, VOCABULARY)
    return {name: measure(call) for name, call in calls.items()}


if __name__ == "__main__":
    for name, cost in measure_front_ends().items():
        print(f"{name:<32} {cost.wall:8.2f} ms wall {cost.processor:8.2f} ms processor")
