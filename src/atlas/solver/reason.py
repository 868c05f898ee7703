"""Why a problem cannot be solved, as a sentence."""

from collections.abc import Iterable
from typing import Final

from atlas.domains.minigrid import bounds
from atlas.domains.minigrid.alphabet import ANY_STATE, DOOR_STATES, DOOR_TYPE, NAMES, PROPOSITIONS, Descriptor
from atlas.domains.minigrid.bounds import Reachable
from atlas.domains.minigrid.scene import Scene, codes_of
from atlas.solver.machine import Edge, Machine
from atlas.solver.outlook import Outlook
from atlas.vocabulary import ACCEPTED

MOST_CAUSES: Final = 3
"""How many of several causes are told."""


def why_unsolvable(outlook: Outlook) -> str:
    """What keeps every play from acceptance."""
    machine, within = outlook.machine, _by_state(outlook)
    useful = _leads_to_acceptance(machine)
    blocked = [
        (u, edge)
        for u in sorted(within)
        for edge in machine.edges[u]
        if edge.target in useful and not any(outlook.allows(edge, unlocked) for unlocked in within[u])
    ]
    if not blocked:
        return "no path of the task leads to acceptance"
    causes = dict.fromkeys(_cause(outlook, u, edge, within[u]) for u, edge in blocked)
    told = "; ".join(list(causes)[:MOST_CAUSES])
    return told + (f"; and {len(causes) - MOST_CAUSES} more" if len(causes) > MOST_CAUSES else "")


def _by_state(outlook: Outlook) -> dict[int, list[int]]:
    """The sets of unlocked doors with which each task state can be reached."""
    found: dict[int, list[int]] = {}
    for u, unlocked in outlook.stages:
        found.setdefault(u, []).append(unlocked)
    return found


def _leads_to_acceptance(machine: Machine) -> set[int]:
    useful = {u for u, outcome in enumerate(machine.outcome) if outcome == ACCEPTED}
    while more := {u for u, edges in enumerate(machine.edges) if any(e.target in useful for e in edges)} - useful:
        useful |= more
    return useful


def _cause(outlook: Outlook, u: int, edge: Edge, unlocked: Iterable[int]) -> str:
    """Why one guard can never hold in a task state."""
    reach = [outlook.within(doors) for doors in unlocked]
    for prop in edge.positive:
        if not any(bounds.satisfiable(within, (prop,), ()) for within in reach):
            return f"{NAMES[prop]} can never hold in u{u}: {_missing(outlook.scene, prop, reach)}"
    literals = [NAMES[prop] for prop in edge.positive] + [f"not {NAMES[prop]}" for prop in edge.negative]
    return f"in u{u} it can never be that {' and '.join(literals)}"


def _missing(scene: Scene, prop: int, reach: list[Reachable]) -> str:
    """What a proposition lacks."""
    things = PROPOSITIONS[prop].objects
    for thing in things:
        if not _exists(scene, thing):
            return f"there is no {_spoken(thing._replace(state=ANY_STATE))}"
    for thing in things:
        if not any(_at_hand(thing, within) for within in reach):
            return _out_of_reach(scene, thing)
    if len(things) == 2 and all(thing.type != DOOR_TYPE for thing in things):
        one = things[0] == things[1]
        return f"there is only one {_spoken(things[0])}" if one else "no two such objects can be reached"
    return "the two can never be seen side by side"


def _spoken(thing: Descriptor) -> str:
    return " ".join((*thing.attributes[::-1], thing.name.split("_")[0]))


def _exists(scene: Scene, thing: Descriptor) -> bool:
    """Whether the level holds such an object; a door's state may change."""
    codes = codes_of(thing if thing.type != DOOR_TYPE else Descriptor(thing.type, thing.colour))
    return scene.board(codes) != 0 or scene.carrying in codes


def _at_hand(thing: Descriptor, within: Reachable) -> bool:
    codes = codes_of(thing)
    return any(code in within.movable or code in within.doors for code in codes)


def _out_of_reach(scene: Scene, thing: Descriptor) -> str:
    if thing.type != DOOR_TYPE or thing.state == ANY_STATE:
        return f"no {_spoken(thing)} can be reached"
    door = _spoken(Descriptor(thing.type, thing.colour))
    if DOOR_STATES[thing.state] == "locked":
        locked = scene.board(codes_of(thing)) != 0
        return f"no {door} is within reach while it is still locked" if locked else f"no {door} is locked"
    unlocked = [codes_of(thing._replace(state=DOOR_STATES.index(state))) for state in ("closed", "open")]
    return f"no {door} can be {'reached' if any(map(scene.board, unlocked)) else 'unlocked'}"
