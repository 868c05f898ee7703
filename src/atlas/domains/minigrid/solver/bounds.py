"""Why a problem cannot be solved, as a sentence."""

import functools
import itertools
import operator
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from atlas.domains.minigrid.alphabet import (
    ANY_STATE,
    CARRYING,
    DOOR_STATES,
    DOOR_TYPE,
    FRONT,
    NAMES,
    PROPOSITIONS,
    Descriptor,
)
from atlas.domains.minigrid.grid import DOOR_CLOSED, DOOR_OPEN, KEY, NOTHING, cell
from atlas.domains.minigrid.solver.boards import (
    DOOR_CODES,
    LOCKED_CODES,
    MOVABLE_CODES,
    Board,
    Facing,
    Geometry,
    Scene,
    bits,
    codes_of,
    join,
    meaning,
    meet,
)
from atlas.tasks.packed import unpack
from atlas.vocabulary import ACCEPTED, RUNNING

# A flat task as plain Python values, for searches that follow it millions of times.


class Edge(NamedTuple):
    """A way from one task state to another. Its guard is split by sign; propositions by id."""

    target: int
    positive: tuple[int, ...]
    negative: tuple[int, ...]


class Machine(NamedTuple):
    """The edges that leave each state, in the order in which they are tried, and the outcome of each state."""

    edges: tuple[tuple[Edge, ...], ...]
    outcome: tuple[int, ...]

    def is_running(self, u: int) -> bool:
        """Whether the task goes on in a state."""
        return self.outcome[u] == RUNNING


def read_machine(task: Any) -> Machine:
    """The flat machine of a task."""
    flat = unpack(task).flat
    edges = tuple(tuple(_edge(edge.target, edge.literals) for edge in leaving) for leaving in flat.leaving)
    return Machine(edges, flat.outcomes)


def _edge(target: int, literals: tuple[int, ...]) -> Edge:
    positive = tuple(dict.fromkeys(x - 1 for x in literals if x > 0))
    return Edge(target, positive, tuple(dict.fromkeys(-x - 1 for x in literals if x < 0)))


# What can never be: propositions that no play can make true while a given set of doors is unlocked.
#
# The opposite of a plan. It may allow too much, never too little, and so it must allow whatever the world does: objects
# are carried anywhere, doors are opened and closed again, `next` is seen through walls, things out of reach are seen
# where they lie. What is denied here is impossible, whatever the agent does.
#
# Why nothing is forgotten: with the doors of a situation unlocked the agent is confined to a region, which is flooded
# through objects and free doors. An object beside that region is part of it; so an object outside lies where it lay,
# and
# nothing can be put beside it. A door outside the region stays as it is.

Pair = tuple[int, int]
"""The cells (kind and colour) of two neighbours."""


class Reachable(NamedTuple):
    """What the agent can come by in a situation."""

    geometry: Geometry
    region: Board
    """Where the agent, or an object it carries, can be."""
    movable: dict[int, int]
    """How many objects of each kind and colour are within reach."""
    doors: dict[int, Board]
    """Doors that can be stood in front of: where they are, by the states they can be in."""
    fixed_pairs: tuple[tuple[Pair, Facing], ...]
    """Neighbours out of reach, and from where they can be seen."""
    openable: tuple[int, ...]
    """Cells of locked doors that can be unlocked next."""


def reachable(scene: Scene, agent: int, opened: Board) -> Reachable:
    """What the agent can come by once the doors in these cells, locked at first, are unlocked."""
    geometry = scene.geometry
    locked = scene.board(LOCKED_CODES) & ~opened
    region = geometry.flood(1 << agent, scene.floor & ~locked)
    movable: dict[int, int] = {} if scene.carrying == NOTHING else {scene.carrying: 1}
    for index, code in scene.cells.items():
        if (region >> index) & 1 and code in MOVABLE_CODES:
            movable[code] = movable.get(code, 0) + 1
    beside = geometry.around(region)
    doors: dict[int, Board] = {}
    for index in bits(scene.board(DOOR_CODES) & (region | beside)):
        for state in _states(scene.cells[index], (opened >> index) & 1 != 0):
            doors[state] = doors.get(state, 0) | 1 << index
    openable = tuple(i for i in bits(locked & beside) if cell(KEY, scene.cells[i] & 7) in movable)
    return Reachable(geometry, region, movable, doors, tuple(_fixed_pairs(scene, region)), openable)


def _states(code: int, is_unlocked: bool) -> set[int]:
    """A door in all states it can be in."""
    if code in LOCKED_CODES and not is_unlocked:
        return {code}
    colour = code & 7
    return {cell(DOOR_CLOSED, colour), cell(DOOR_OPEN, colour)}


def _fixed_pairs(scene: Scene, region: Board) -> Iterator[tuple[Pair, Facing]]:
    """Neighbours of which at least the movable one is out of reach, if they can be seen from the region."""
    far = scene.board(MOVABLE_CODES) & ~region
    for one, other in scene.pairs(far, far | scene.board(DOOR_CODES)):
        seeing = meet(scene.geometry.seeing_pair(one, other), (region,) * 4)
        if any(seeing):
            yield (scene.cells[one], scene.cells[other]), seeing


def satisfiable(within: Reachable, positive: Iterable[int], negative: Iterable[int]) -> bool:
    """False only if no play can make all of the positive and none of the negative propositions true at once.

    There is one cell ahead and one pair of hands: all that is said about either must fit a single object, and what is
    carried lies nowhere. Each pair that must be seen must not be one that must not be seen.
    """
    must = [meaning(prop) for prop in positive]
    must_not = [meaning(prop) for prop in negative]
    carried = _candidates(must, must_not, CARRYING)
    if carried is None:
        return _lies(within, must, must_not)
    return any(_lies(_without(within, code), must, must_not) for code in carried if code in within.movable)


Meaning = tuple[int, frozenset[int], frozenset[int]]


def _lies(within: Reachable, must: list[Meaning], must_not: list[Meaning]) -> bool:
    """Whether all that must be ahead and side by side could be, seen from one way to stand."""
    stands: Facing = (within.region,) * 4
    ahead = _candidates(must, must_not, FRONT)
    if ahead is not None and not any(code in within.movable for code in ahead):
        stands = meet(stands, within.geometry.facing(_board(within, ahead)))
    shunned = [(first, last) for location, first, last in must_not if location not in (FRONT, CARRYING)]
    for location, first, last in must:
        if location not in (FRONT, CARRYING):
            stands = meet(stands, _seeing(within, first, last, shunned))
    return any(stands) and not _crowded(within, must, ahead)


class _AtDoor(NamedTuple):
    """Something that must be beside a door: an object of some kind, or (no codes) the agent."""

    codes: frozenset[int]
    states: frozenset[int]
    doors: Board


def _crowded(within: Reachable, must: list[Meaning], ahead: frozenset[int] | None) -> bool:
    """Whether two things must be beside doors and there is no room for both: not two cells, not two objects."""
    beside = [(first, last) for where, first, last in must if _is_at_door(within, where, first, last)]
    if ahead is not None and ahead <= DOOR_CODES:
        beside.append((frozenset(), ahead))
    wanted = [_AtDoor(codes, states, _board(within, states)) for codes, states in beside]
    return any(not _have_room(within, one, other) for one, other in itertools.combinations(wanted, 2))


def _is_at_door(within: Reachable, where: int, first: frozenset[int], last: frozenset[int]) -> bool:
    """Whether a proposition needs an object within reach beside a door within reach."""
    is_fixed = any(_fits(pair, (first, last)) for pair, _ in within.fixed_pairs)
    return where not in (FRONT, CARRYING) and last <= DOOR_CODES and not is_fixed


def _board(within: Reachable, codes: frozenset[int]) -> Board:
    return _all(within.doors[code] for code in codes if code in within.doors)


def _have_room(within: Reachable, one: _AtDoor, other: _AtDoor) -> bool:
    """Whether two things could be beside their doors at once: in two cells, or as one object in one."""
    around = within.geometry.around
    two_cells = ((around(one.doors) | around(other.doors)) & within.region).bit_count() > 1
    if not (one.codes and other.codes):
        return two_cells
    have = within.movable
    two_objects = any(have.get(b, 0) > (a == b) for a in one.codes if a in have for b in other.codes)
    if two_cells and two_objects:
        return True
    if not any(code in have for code in one.codes & other.codes):
        return False
    same_door = bool(one.states & other.states)
    return any(
        around(1 << a) & around(1 << b) & within.region
        for a in bits(one.doors)
        for b in bits(other.doors)
        if a != b or same_door
    )


def _all(boards: Iterable[Board]) -> Board:
    return functools.reduce(operator.or_, boards, 0)


def _candidates(must: list[Meaning], must_not: list[Meaning], where: int) -> frozenset[int] | None:
    """What the object ahead, or in hand, could be; None if nothing is asked about it."""
    wanted = [codes for location, codes, _ in must if location == where]
    if not wanted:
        return None
    return frozenset.intersection(*wanted).difference(*(codes for location, codes, _ in must_not if location == where))


def _without(within: Reachable, code: int) -> Reachable:
    """What is left when one object is in the agent's hands."""
    movable = dict(within.movable)
    movable[code] -= 1
    if not movable[code]:
        del movable[code]
    return within._replace(movable=movable)


def _seeing(
    within: Reachable, first: frozenset[int], last: frozenset[int], shunned: list[tuple[frozenset[int], frozenset[int]]]
) -> Facing:
    """From where two neighbours that fit could be seen: objects within reach anywhere, doors and the rest in place."""

    def is_fine(pair: Pair) -> bool:
        return not any(_fits(pair, codes) for codes in shunned)

    at_doors = 0
    for one in first & within.movable.keys():
        for other in last:
            if is_fine((one, other)):
                if within.movable.get(other, 0) > (one == other):
                    return (within.region,) * 4
                at_doors |= within.doors.get(other, 0)
    stands = within.geometry.seeing(at_doors)
    for pair, seeing in within.fixed_pairs:
        if _fits(pair, (first, last)) and is_fine(pair):
            stands = join(stands, seeing)
    return stands


def _fits(pair: Pair, codes: tuple[frozenset[int], frozenset[int]]) -> bool:
    one, other = pair
    return (one in codes[0] and other in codes[1]) or (other in codes[0] and one in codes[1])


# What a task can still become: the product of task states and sets of unlocked doors, with everything allowed that the
# world might allow. A task state from which no path here leads to acceptance is lost for certain.

Stage = tuple[int, Board]
"""A task state and the cells of the doors that were unlocked so far."""
LOST: Final = 1 << 30
"""The distance of stages from which acceptance is out of reach."""


class Outlook:
    """How many transitions at least lie between a stage and acceptance, for all stages a play can come to."""

    def __init__(self, scene: Scene, agent: int, machine: Machine, start: int) -> None:
        self.scene, self.machine = scene, machine
        self._agent = agent
        self._locked = scene.board(LOCKED_CODES)
        self._within: dict[Board, Reachable] = {}
        self._allowed: dict[tuple[Board, Edge], bool] = {}
        self.stages: dict[Stage, list[Stage]] = {}
        """Every stage that is not ruled out, with the stages it is entered from."""
        self._explore((start, 0))
        self.winning = self._measure()
        """The stages that are not lost, with their distances."""

    def distance(self, u: int, scene: Scene) -> int:
        """Fewest transitions to acceptance from a task state in a scene; LOST if there is no way."""
        return self.winning.get((u, self._locked & ~scene.board(LOCKED_CODES)), LOST)

    def within(self, unlocked: Board) -> Reachable:
        """What is within reach once these doors are unlocked."""
        found = self._within.get(unlocked)
        if found is None:
            found = self._within[unlocked] = reachable(self.scene, self._agent, unlocked)
        return found

    def allows(self, edge: Edge, unlocked: Board) -> bool:
        """Whether the guard of an edge is not ruled out."""
        found = self._allowed.get((unlocked, edge))
        if found is None:
            found = satisfiable(self.within(unlocked), edge.positive, edge.negative)
            self._allowed[unlocked, edge] = found
        return found

    def _explore(self, start: Stage) -> None:
        self.stages[start] = []
        todo = deque([start])
        while todo:
            stage = todo.popleft()
            for after in self._successors(stage):
                if after not in self.stages:
                    self.stages[after] = []
                    todo.append(after)
                self.stages[after].append(stage)

    def _successors(self, stage: Stage) -> list[Stage]:
        u, unlocked = stage
        if not self.machine.is_running(u):
            return []
        after = [(edge.target, unlocked) for edge in self.machine.edges[u] if self.allows(edge, unlocked)]
        return after + [(u, unlocked | 1 << door) for door in self.within(unlocked).openable]

    def _measure(self) -> dict[Stage, int]:
        """Distances by a search backwards; unlocking is free."""
        goals = [stage for stage in self.stages if self.machine.outcome[stage[0]] == ACCEPTED]
        distance = dict.fromkeys(goals, 0)
        todo = deque(goals)
        while todo:
            stage = todo.popleft()
            for before in self.stages[stage]:
                step = int(before[0] != stage[0])
                if distance[stage] + step < distance.get(before, LOST):
                    distance[before] = distance[stage] + step
                    (todo.append if step else todo.appendleft)(before)
        return distance


# Why a problem cannot be solved, as a sentence.

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
        if not any(satisfiable(within, (prop,), ()) for within in reach):
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
