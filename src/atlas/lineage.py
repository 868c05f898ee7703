"""What edits did, in words: `add_object(red ball at 3,4)`."""

from collections.abc import Callable, Sequence
from typing import Any

from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.domains.minigrid.grid import COLOURS, KINDS
from atlas.domains.minigrid.rooms import BEFORE
from atlas.editing import PRECEDING, SUCCEEDING
from atlas.tasks.edits import END, START
from atlas.tasks.hierarchy_edits import MACHINE_FACTOR
from atlas.tasks.names import machine_name
from atlas.types import Lineage

DIRECTIONS = ("up", "right", "down", "left")


def tell_edits(lineage: Lineage, names: Sequence[str]) -> list[str]:
    """The edits that made one problem from its parent, in order; none if it was sampled."""
    made = zip(lineage.edits.tolist(), lineage.arguments.tolist(), strict=True)
    return [tell_edit(names[row], arguments) for row, arguments in made if row >= 0]


def tell_edit(name: str, arguments: Sequence[int]) -> str:
    """One edit: its name, and what it drew."""
    first, second, third = arguments
    details: dict[str, Callable[[], str]] = {
        "move_agent": lambda: f"to {_place(second)}, facing {DIRECTIONS[third]}",
        "move_object": lambda: f"{_thing(third)} from {_place(first)} to {_place(second)}",
        "add_object": lambda: f"{_thing(third)} at {_place(second)}",
        "remove_object": lambda: f"{_thing(third)} from {_place(first)}",
        "replace_object": lambda: f"{_thing(third)} at {_place(first)}",
        "replace_door": lambda: f"{_thing(third)} at {_place(first)}",
        "add_rooms": lambda: f"{_side(first)}, {second} rooms now",
        "remove_rooms": lambda: f"{_side(first)}, {second} {'rooms' if second > 1 else 'room'} left",
        "switch_proposition": lambda: f"at {_state(first)}: {_proposition(second)} to {_proposition(third)}",
        "add_state": lambda: f"{_where(first, second)}: {_proposition(third)}",
        "remove_state": lambda: _state(first),
        PRECEDING: lambda: f"end where {_state(first)} is reached",
        SUCCEEDING: lambda: f"start where {_state(first)} was reached",
    }
    detail = details.get(name, lambda: ", ".join(str(x) for x in arguments if x != -1))
    return f"{name}({detail()})"


def ancestry(example: dict[str, Any]) -> str:
    """A sentence on where an example of a snapshot came from."""
    if example["parent"] < 0:
        return "sampled"
    age = example["generation"]
    made = ", ".join(example["edits"]) or "no edit that applied"
    return f"edited from problem {example['parent']:,} (generation {age}): {made}"


def _place(code: int) -> str:
    return f"{code // 100},{code % 100}"


def _thing(code: int) -> str:
    kind, colour = divmod(code, 8)
    name, _, door_state = KINDS[kind].partition("_")
    return " ".join(filter(None, (door_state, COLOURS[colour], name)))


def _side(side: int) -> str:
    return "before" if side == BEFORE else "after"


def _state(code: int) -> str:
    machine, state = divmod(code, MACHINE_FACTOR)
    return f"{machine_name(machine)}.u{state}" if machine else f"u{state}"


def _where(state: int, where: int) -> str:
    return {START: "at the start", END: "at the end"}.get(where, f"at {_state(state)}")


def _proposition(number: int) -> str:
    return VOCABULARY.names[number] if 0 <= number < len(VOCABULARY.names) else "?"
