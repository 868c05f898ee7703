"""Tasks as numbered steps: for machines that branch, loop or call each other.

    1. Go to a ball, then continue with step 2.
    2. Either pick up a key, then finish, or open a door, then continue with step 1.

A step waits until what it asks for holds. Its options are tried in the order in which they are written; after
`either`, nothing happens while several of them hold at the same moment. `continue with step n`, `finish` and
`fail` say what comes next: the next step if nothing is said. `(reward 0.5)` at the end of an option changes its
reward from the usual 1 for finishing and 0 otherwise. Several machines are sections; a routine may be done as
part of an option:

    Main task:
    1. Go to a ball and do routine 1, then finish.
    Routine 1:
    1. Pick up a key, then return.
"""

from dataclasses import dataclass
from typing import Any, Final

from atlas.tasks import hrm
from atlas.tasks.automaton import build
from atlas.tasks.diagram import Diagrams
from atlas.tasks.english_grammar import Guard, Reader
from atlas.tasks.place import fail
from atlas.tasks.rm import ACCEPT, ACCEPTED, REJECT, REJECTED, RUNNING, UNUSED, Transition, machine

_ENDS: Final = {"finish": ACCEPTED, "return": ACCEPTED, "fail": REJECTED}
NEXT_STEP: Final = 0


@dataclass(frozen=True)
class Option:
    """One way out of a step. `target` is the number of a step, NEXT_STEP, ACCEPT or REJECT."""

    guard: Guard
    routine: int | None
    target: int
    reward: float | None
    places: tuple[int, int]
    """Tokens that name the routine and the target, for errors."""


@dataclass(frozen=True)
class Step:
    """What to do at one state."""

    options: tuple[Option, ...]
    exclusive: bool
    outcome: int = RUNNING
    """Not RUNNING if the step only says `finish` or `fail`: only a whole task may be such."""


Section = dict[int, Step]
"""The steps of one machine by their numbers; the first is the initial one."""


def has_steps(reader: Reader) -> bool:
    """Whether a text is one of numbered steps."""
    return _heading(reader, "main", "task") or (reader.peek().isdigit() and reader.peek(1) in (".", ")", ":"))


def _heading(reader: Reader, *words: str) -> bool:
    return all(reader.peek(i) == word for i, word in enumerate(words)) and reader.peek(len(words)) == ":"


def parse(reader: Reader) -> Any:
    """The machine, or the hierarchy, that numbered steps describe."""
    sections: dict[int, Section] = {}
    reader.skip("main", "task", ":")
    sections[0] = _section(reader)
    while reader.peek() == "routine":
        reader.place += 1
        number = _number(reader, "the number of a routine")
        if number in sections:
            reader.fail(f"routine {number} is described twice")
        if not reader.skip(":"):
            reader.fail("a colon is needed after the name of a routine")
        sections[number] = _section(reader)
    if reader.peek():
        reader.fail(f"'{reader.peek()}' is not understood here; expected the number of a step, or 'Routine n:'")
    ended = _ended(reader, sections)
    if ended != RUNNING:
        return machine([], accepting=(0,)) if ended == ACCEPTED else machine([], rejecting=(0,))
    machines = [_transitions(reader, section, sections, number == 0) for number, section in sections.items()]
    return build(machines[0]) if len(machines) == 1 else hrm.hierarchy(machines)


def _ended(reader: Reader, sections: dict[int, Section]) -> int:
    """The outcome of a task that is over before it begins."""
    ends = [step.outcome for section in sections.values() for step in section.values() if step.outcome != RUNNING]
    if ends and (len(sections) > 1 or len(sections[0]) > 1):
        reader.fail("a step that only says 'finish' or 'fail' can only stand alone: it would ask for nothing")
    return ends[0] if ends else RUNNING


def _number(reader: Reader, what: str) -> int:
    if not reader.peek().isdigit():
        reader.fail(f"{what} is needed")
    reader.place += 1
    return int(reader.tokens[reader.place - 1].text)


def _section(reader: Reader) -> Section:
    steps: Section = {}
    while reader.peek().isdigit():
        number = _number(reader, "the number of a step")
        if number in steps or number == 0:
            reader.place -= 1
            reader.fail(f"there is already a step {number}" if number else "steps are numbered from 1")
        if not (reader.skip(".") or reader.skip(")") or reader.skip(":")):
            reader.fail("a full stop is needed after the number of a step")
        steps[number] = _step(reader)
    if not steps:
        reader.fail("a numbered step is needed")
    return steps


def _step(reader: Reader) -> Step:
    exclusive = reader.skip("either")
    options = []
    outcome = next((o for word, o in _ENDS.items() if reader.skip(word)), RUNNING)
    if outcome == RUNNING and not reader.skip("stay", "here"):
        options.append(_option(reader))
        while any(reader.skip(*way) for way in ((",", "or"), (";", "or"), ("or",))):
            options.append(_option(reader))
    if not reader.skip(".") and reader.peek() and not reader.peek().isdigit():
        reader.fail(f"'{reader.peek()}' is not understood here; expected then, and, or, or a full stop")
    return Step(tuple(options), exclusive, outcome)


def _option(reader: Reader) -> Option:
    guard = Guard(((),)) if reader.peek() == "do" else reader.moment()
    routine = None
    if _joined(reader, "do"):
        if not reader.skip("routine"):
            reader.fail("a routine is needed, as in 'do routine 1'")
        routine = _number(reader, "the number of a routine")
    named = reader.place - 1
    target = _target(reader)
    places = (named, reader.place - 1)
    return Option(guard, routine, target, _reward(reader), places)


def _joined(reader: Reader, *words: str) -> bool:
    """Step over words, with or without a comma, `and` or `then` before them."""
    before = ((), (",",), ("and",), ("then",), (",", "and"), (",", "then"), ("and", "then"), (",", "and", "then"))
    return any(reader.skip(*join, *words) for join in before)


def _target(reader: Reader) -> int:
    for words in (("continue", "with", "step"), ("go", "to", "step"), ("go", "back", "to", "step")):
        if _joined(reader, *words):
            return _number(reader, "the number of a step")
    for word, outcome in _ENDS.items():
        if _joined(reader, word):
            return ACCEPT if outcome == ACCEPTED else REJECT
    return NEXT_STEP


def _reward(reader: Reader) -> float | None:
    if not reader.skip("(", "reward"):
        return None
    try:
        reward = float(reader.peek())
    except ValueError:
        reader.fail("a number is needed as the reward")
    reader.place += 1
    if not reader.skip(")"):
        reader.fail("a closing bracket is needed after the reward")
    return reward


def _transitions(reader: Reader, section: Section, sections: dict[int, Section], is_root: bool) -> list[Transition]:
    state = {number: u for u, number in enumerate(section)}
    index = {number: m for m, number in enumerate(sections)}
    edges = []
    for number, step in section.items():
        for option, cubes in zip(step.options, _guards(step), strict=True):
            target = option.target
            if target == NEXT_STEP:
                target = number + 1 if number + 1 in state else ACCEPT
            _check(reader, option, target, section, sections)
            reward = float(target == ACCEPT and is_root) if option.reward is None else option.reward
            goal = target if target in (ACCEPT, REJECT) else state[target]
            call = UNUSED if option.routine is None else index[option.routine]
            edges += [Transition(state[number], goal, cube, reward, call) for cube in cubes]
    return edges


def _check(reader: Reader, option: Option, target: int, section: Section, sections: dict[int, Section]) -> None:
    routine, goal = (reader.tokens[place] for place in option.places)
    if target not in (ACCEPT, REJECT) and target not in section:
        fail(reader.text, goal.start, goal.end, f"there is no step {target}; the steps are {_listed(section)}")
    if option.routine is not None and (option.routine not in sections or option.routine == 0):
        known = _listed([n for n in sections if n])
        known = f"the routines are {known}" if known else "no routine is described"
        fail(reader.text, routine.start, routine.end, f"there is no routine {option.routine}; {known}")


def _listed(numbers: Any) -> str:
    return ", ".join(map(str, numbers))


def _guards(step: Step) -> list[tuple[tuple[int, ...], ...]]:
    """The cubes of each option; after `either` they exclude each other."""
    guards = [option.guard.cubes for option in step.options]
    if not step.exclusive:
        return guards
    if all(len(cubes) == 1 and len(cubes[0]) == 1 for cubes in guards):
        literals = [cubes[0][0] for cubes in guards]
        return [((x, *(-y for j, y in enumerate(literals) if j != i)),) for i, x in enumerate(literals)]
    return _exclusive(guards)


def _exclusive(guards: list[tuple[tuple[int, ...], ...]]) -> list[tuple[tuple[int, ...], ...]]:
    diagrams = Diagrams()
    functions = []
    for cubes in guards:
        function = 0
        for cube in cubes:
            function = diagrams.either(function, diagrams.conjunction(cube))
        functions.append(function)
    alone = []
    for i, function in enumerate(functions):
        for j, other in enumerate(functions):
            function = function if i == j else diagrams.both(function, diagrams.negate(other))
        alone.append(tuple(diagrams.cover(function, function)))
    return alone
