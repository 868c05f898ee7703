"""Words to tasks and back: LTLf of five propositions, English, explanations, drawings."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

from atlas.bench.rows import Effort, Row, milliseconds
from atlas.bench.timing import measure
from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.domains.minigrid.draw import sign
from atlas.show import canvas
from atlas.tasks.draw import task_drawing
from atlas.tasks.english import english
from atlas.tasks.explain import explain
from atlas.tasks.ltlf import ltlf
from atlas.tasks.packed import unpack

FIVE = ("front_ball", "carrying_key", "front_door_open", "next_ball_key", "front_square")
FORMULAS = {
    "LTLf, five in any order": " & ".join(f"F {name}" for name in FIVE),
    "LTLf, five in sequence": " & X F (".join([f"F ({FIVE[0]}", *FIVE[1:]]) + ")" * 5,
    "LTLf, four while avoiding one": f"(!{FIVE[4]} U {FIVE[0]}) & " + " & ".join(f"F {name}" for name in FIVE[1:4]),
    "LTLf, nested until": " U (".join(FIVE) + ")" * 4,
}
SENTENCE = "go to a ball, then put the red key next to a locked door, then open the blue door"


def rows(effort: Effort) -> Iterator[Row]:
    """One call each, once everything is imported."""
    task = english(SENTENCE, VOCABULARY)
    calls: dict[str, Callable[[], Any]] = {
        name: functools.partial(ltlf, text, VOCABULARY) for name, text in FORMULAS.items()
    }
    calls["English, three steps"] = lambda: english(SENTENCE, VOCABULARY)
    calls["explain it"] = lambda: explain(task, VOCABULARY)
    calls["draw it as SVG"] = lambda: canvas.svg(task_drawing(unpack(task), VOCABULARY, sign))
    calls["draw it as a picture"] = lambda: canvas.pixels(task_drawing(unpack(task), VOCABULARY, sign), 2.0)
    for name, call in calls.items():
        yield measure(name, milliseconds(), call, effort)
