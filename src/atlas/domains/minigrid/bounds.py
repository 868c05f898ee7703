"""What can never be: propositions that no play can make true while a given set of doors is unlocked.

The opposite of a plan. It may allow too much, never too little, and so it must allow whatever the world does: objects
are carried anywhere, doors are opened and closed again, `next` is seen through walls, things out of reach are seen
where they lie. What is denied here is impossible, whatever the agent does.

Why nothing is forgotten: with the doors of a situation unlocked the agent is confined to a region, which is flooded
through objects and free doors. An object beside that region is part of it; so an object outside lies where it lay, and
nothing can be put beside it. A door outside the region stays as it is.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from atlas.domains.minigrid.alphabet import CARRYING, FRONT
from atlas.domains.minigrid.board import Board, bits
from atlas.domains.minigrid.grid import DOOR_CLOSED, DOOR_OPEN, KEY, NOTHING, cell
from atlas.domains.minigrid.scene import (
    CLOSED_CODES,
    DOOR_CODES,
    LOCKED_CODES,
    MOVABLE_CODES,
    OPEN_CODES,
    Scene,
    meaning,
)

Pair = tuple[int, int]
"""The cells (kind and colour) of two neighbours."""


class Reachable(NamedTuple):
    """What the agent can come by in a situation."""

    region: Board
    """Where the agent, or an object it carries, can be."""
    movable: dict[int, int]
    """How many objects of each kind and colour are within reach."""
    doors: frozenset[int]
    """Doors that can be stood in front of, in the states they can be in."""
    fixed_pairs: frozenset[Pair]
    """Neighbours out of reach that can be seen from somewhere."""
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
    doors: set[int] = set()
    for index in bits(scene.board(DOOR_CODES) & (region | beside)):
        doors |= _states(scene.cells[index], (opened >> index) & 1 != 0)
    openable = tuple(i for i in bits(locked & beside) if cell(KEY, scene.cells[i] & 7) in movable)
    return Reachable(region, movable, frozenset(doors), frozenset(_fixed_pairs(scene, region)), openable)


def _states(code: int, is_unlocked: bool) -> set[int]:
    """A door in all states it can be in."""
    if code in LOCKED_CODES and not is_unlocked:
        return {code}
    colour = code & 7
    return {cell(DOOR_CLOSED, colour), cell(DOOR_OPEN, colour)}


def _fixed_pairs(scene: Scene, region: Board) -> Iterator[Pair]:
    """Neighbours of which at least the movable one is out of reach, if they can be seen from the region."""
    far = scene.board(MOVABLE_CODES) & ~region
    doors = scene.board(CLOSED_CODES) | scene.board(LOCKED_CODES) | scene.board(OPEN_CODES)
    for one, other in scene.pairs(far, far | doors):
        if any(seen & region for seen in scene.geometry.seeing_pair(one, other)):
            yield scene.cells[one], scene.cells[other]


def satisfiable(within: Reachable, positive: Iterable[int], negative: Iterable[int]) -> bool:
    """False only if no play can make all of the positive and none of the negative propositions true at once.

    There is one cell ahead and one pair of hands: all that is said about either must fit a single object. Each pair
    that must be seen must not be one that must not be seen.
    """
    must = [meaning(prop) for prop in positive]
    must_not = [meaning(prop) for prop in negative]
    return (
        _one_object(within, must, must_not, FRONT)
        and _one_object(within, must, must_not, CARRYING)
        and all(
            _some_pair(within, first, last, must_not)
            for location, first, last in must
            if location not in (FRONT, CARRYING)
        )
    )


Meaning = tuple[int, frozenset[int], frozenset[int]]


def _one_object(within: Reachable, must: list[Meaning], must_not: list[Meaning], where: int) -> bool:
    wanted = [codes for location, codes, _ in must if location == where]
    if not wanted:
        return True
    shunned = [codes for location, codes, _ in must_not if location == where]
    candidates = frozenset.intersection(*wanted).difference(*shunned)
    return any(code in within.movable or (where == FRONT and code in within.doors) for code in candidates)


def _some_pair(within: Reachable, first: frozenset[int], last: frozenset[int], must_not: list[Meaning]) -> bool:
    shunned = [(one, other) for location, one, other in must_not if location not in (FRONT, CARRYING)]
    return any(not any(_fits(pair, s) for s in shunned) for pair in _pairs(within, first, last))


def _pairs(within: Reachable, first: frozenset[int], last: frozenset[int]) -> Iterator[Pair]:
    """All pairs of neighbours that could be seen and fit."""
    for one in first & within.movable.keys():
        for other in last:
            if other in within.doors or within.movable.get(other, 0) > (one == other):
                yield one, other
    yield from (pair for pair in within.fixed_pairs if _fits(pair, (first, last)))


def _fits(pair: Pair, codes: tuple[frozenset[int], frozenset[int]]) -> bool:
    one, other = pair
    return (one in codes[0] and other in codes[1]) or (other in codes[0] and one in codes[1])
