"""Means to an end: what to pick up, put down or toggle next so that a guard can come true.

Nothing is proven here. From what is missing (a door in the wrong state, an object out of reach, two objects apart) it
works back to things the agent can do now; the search tries them, follows what really happens and backtracks.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final, NamedTuple

from atlas.domains.minigrid.alphabet import CARRYING, FRONT
from atlas.domains.minigrid.board import Board, Facing, bits, meet, places
from atlas.domains.minigrid.grid import DOOR_CLOSED, DOOR_OPEN, KEY, NOTHING, PICK_UP, PUT_DOWN, TOGGLE, cell
from atlas.domains.minigrid.scene import CLOSED_CODES, DOOR_CODES, LOCKED_CODES, MOVABLE_CODES, Scene, meaning
from atlas.domains.minigrid.ways import FREE_HANDED, Ways

PUTTING_ASIDE, ADJUSTING = 3, 4
LAST_RESORT: Final = 60
"""Added to what is only tried when nothing better is left."""
FEW: Final = 6
"""Of many objects that would do, how many of the nearest are considered."""


class Deed(NamedTuple):
    """Something to do with a cell ahead."""

    cost: int
    """A guess at how many steps will be left afterwards."""
    action: int
    cell: int


Deeds = Iterator[Deed]


class Means:
    """What can be done in a scene from the ways in which the agent can stand."""

    def __init__(self, scene: Scene, standing: Facing, agent: int) -> None:
        self.scene, self.standing, self.agent = scene, standing, agent
        self.geometry = scene.geometry
        self.region = places(standing)
        self._ways = Ways(scene, self.region)

    def towards(self, positive: Iterable[int], negative: Iterable[int]) -> list[Deed]:
        """Deeds that help to make all of the positive and none of the negative propositions hold, best first."""
        best: dict[tuple[int, int], Deed] = {}
        for deed in self._towards(tuple(positive), tuple(negative)):
            known = best.get(deed[1:])
            if known is None or deed.cost < known.cost:
                best[deed[1:]] = deed
        return sorted(best.values())

    def _towards(self, positive: tuple[int, ...], negative: tuple[int, ...]) -> Deeds:
        missing = [prop for prop in positive if not self._places(self.scene.where(prop))]
        for prop in missing:
            yield from self._literal(prop)
        if missing:
            return
        holds = self._holding(positive, negative)
        yield from self._clear(holds, 0)
        if len(positive) > 1:
            for prop in positive:
                yield from self._bring_near(prop, tuple(p for p in positive if p != prop), negative)
        for prop in positive:
            yield from _later(self._literal(prop))
        if not holds or not positive:
            for prop in negative:
                yield from _later(self._undo(prop))

    def _places(self, where: Facing) -> Board:
        return places(where) & self.scene.floor

    def _holding(self, positive: tuple[int, ...], negative: tuple[int, ...]) -> Board:
        """The cells in which the guard would hold if the agent could stand there."""
        return places(self.scene.holding(positive, negative))

    def _apart(self, one: int, other: int) -> int:
        (a, b), (c, d) = self.geometry.place(one), self.geometry.place(other)
        return abs(a - c) + abs(b - d)

    def _nearest(self, cells: Iterable[int]) -> list[int]:
        return sorted(cells, key=lambda index: self._apart(self.agent, index))[:FEW]

    # One proposition at a time.

    def _literal(self, prop: int) -> Deeds:
        location, first, last = meaning(prop)
        if location == CARRYING:
            for index in self._nearest(bits(self.scene.board(first))):
                yield from self._take(index, 0)
        elif location == FRONT:
            if self.scene.carrying in first:
                yield from self._put_aside(0)
            for index in self._nearest(bits(self._fitting(first))):
                yield from self._bring_into(index, first, 0)
        else:
            yield from self._bring_together(first, last)

    def _fitting(self, codes: frozenset[int]) -> Board:
        """What fits, and the doors that might."""
        return sum(1 << i for i, code in self.scene.cells.items() if code in codes or self._might(code) & codes)

    def _might(self, code: int) -> frozenset[int]:
        """What a door can be made to be; nothing for objects and for doors whose key is nowhere."""
        key = cell(KEY, code & 7)
        has_key = self.scene.carrying == key or self.scene.board((key,)) != 0
        if code not in DOOR_CODES or (code in LOCKED_CODES and not has_key):
            return frozenset()
        return frozenset({cell(DOOR_CLOSED, code & 7), cell(DOOR_OPEN, code & 7)})

    def _bring_into(self, index: int, codes: frozenset[int], rest: int) -> Deeds:
        """Make a door fit, or find the way to what fits already."""
        code = self.scene.cells[index]
        if code in codes:
            yield from self._clear(self._places(self.geometry.facing(1 << index)), rest)
        elif code in LOCKED_CODES:
            yield from self._unlock(index, (), rest + (cell(DOOR_OPEN, code & 7) not in codes))
        else:
            yield from self._do(TOGGLE, index, rest)

    def _undo(self, prop: int) -> Deeds:
        """Make a proposition false where it holds."""
        location, first, last = meaning(prop)
        if location == CARRYING and self.scene.carrying in first:
            yield from self._put_aside(0)
        for index, code in list(self.scene.cells.items()):
            if code in first or code in last:
                if code in MOVABLE_CODES:
                    yield from self._take(index, PUTTING_ASIDE)
                elif code not in LOCKED_CODES:
                    yield from self._do(TOGGLE, index, 0)
                else:
                    yield from self._unlock(index, (), 0)

    # Several propositions at the same time.

    def _bring_near(self, prop: int, others: tuple[int, ...], negative: tuple[int, ...]) -> Deeds:
        """Make one proposition hold in view of where the others do."""
        stands = self.scene.holding(others, negative)
        location, first, last = meaning(prop)
        if location == CARRYING:
            yield from self._literal(prop)
        elif location == FRONT:
            yield from self._bring_to(first, self.geometry.in_front(stands))
        else:
            view = self.geometry.in_view(stands)
            mates = self._fitting(first | last) & view
            if self.scene.carrying in first | last:
                for mate in self._nearest(bits(mates)):
                    yield from self._put_beside(mate, first | last)
            yield from self._bring_to(first | last, view)

    def _bring_to(self, codes: frozenset[int], cells: Board) -> Deeds:
        """Bring one of several objects to one of several cells."""
        room = cells & self.scene.plain
        if self.scene.carrying in codes:
            for index in self._nearest(bits(room)):
                yield from self._do(PUT_DOWN, index, 2)
        elif room:
            for index in self._nearest(bits(self.scene.board(codes & MOVABLE_CODES))):
                away = min(self._apart(index, goal) for goal in bits(room))
                yield from self._carry(index, self.geometry.around(room) & self.scene.floor, away + 2)

    # Two objects side by side.

    def _bring_together(self, first: frozenset[int], last: frozenset[int]) -> Deeds:
        ones, others = self._fitting(first), self._fitting(last)
        for pair in self.scene.pairs(ones, others):
            for index in pair:
                if self.scene.cells[index] in DOOR_CODES - first - last:
                    yield from self._bring_into(index, first | last, 0)
        carried = self.scene.carrying
        if carried in first or carried in last:
            mates = (others if carried in first else 0) | (ones if carried in last else 0)
            for mate in self._nearest(bits(mates)):
                yield from self._put_beside(mate, first | last)
        for one, other in self._likely_pairs(ones, others):
            yield from self._fetch_for(one, other, first | last)

    def _likely_pairs(self, ones: Board, others: Board) -> list[tuple[int, int]]:
        """Objects to fetch, each with another to put it next to, in the order of the way that takes."""
        movable = self.scene.board(MOVABLE_CODES)
        pairs = [(one, other) for one in bits(ones & movable) for other in bits(others) if one != other]
        pairs += [(one, other) for one in bits(others & movable) for other in bits(ones) if one != other]
        return sorted(pairs, key=lambda pair: self._apart(self.agent, pair[0]) + self._apart(*pair))[:FEW]

    def _put_beside(self, mate: int, codes: frozenset[int]) -> Deeds:
        """Put what is carried next to something."""
        code = self.scene.cells[mate]
        fits = code in codes
        if not fits:
            yield from self._bring_into(mate, codes, ADJUSTING)
        around = self.geometry.around(1 << mate)
        if code not in LOCKED_CODES or fits:
            for index in bits(around & self.scene.plain):
                yield from self._do(PUT_DOWN, index, 0 if fits else ADJUSTING)
        for index in bits(around & self.scene.board(MOVABLE_CODES)):
            yield from _later(self._take(index, PUTTING_ASIDE))

    def _fetch_for(self, index: int, mate: int, codes: frozenset[int]) -> Deeds:
        """Fetch an object in order to put it next to another; a lock to be opened comes first."""
        code = self.scene.cells[mate]
        carry = self._apart(index, mate) + 2
        there = self._apart(mate, index) + 1
        if code in LOCKED_CODES and code not in codes:
            yield from self._unlock(mate, (), PUTTING_ASIDE + there + carry)
            return
        around = self.geometry.around(1 << mate)
        room = self.geometry.around(around & (self.scene.plain | 1 << index)) & self.scene.floor
        rest = carry if code in codes else carry + ADJUSTING
        yield from self._carry(index, room, rest)
        if not room & self.region:
            for occupant in bits(around & self.scene.board(MOVABLE_CODES) & ~(1 << index)):
                yield from self._take(occupant, PUTTING_ASIDE + rest)

    def _carry(self, index: int, goals: Board, rest: int, keys: tuple[int, ...] = ()) -> Deeds:
        """Fetch an object in order to carry it to one of the cells; what is in the way there has to go first."""
        ways = self._ways.first_blockers(goals, 1 << index, keys)
        hard = [(cost, first) for cost, first in ways if cost >= FREE_HANDED]
        for cost, first in hard:
            yield from self._pass(first, keys, cost + self._apart(first, index) + rest)
        rest += min((cost for cost, _ in ways), default=0)
        yield from self._take(index, rest + (LAST_RESORT if hard else 0), keys)

    # Single objects and doors. `rest` is what will be left to do afterwards.

    def _take(self, index: int, rest: int, keys: tuple[int, ...] = ()) -> Deeds:
        """Pick up one object, with empty hands. `keys` are colours that are being fetched already: no circles."""
        if self.scene.carrying == NOTHING and self._can_face(index):
            yield Deed(rest, PICK_UP, index)
        elif self._can_face(index):
            yield from self._put_aside(rest, index)
        else:
            full = 0 if self.scene.carrying == NOTHING else PUTTING_ASIDE
            yield from self._clear(self._places(self.geometry.facing(1 << index)), rest + full + 1, keys)

    def _do(self, action: int, index: int, rest: int, keys: tuple[int, ...] = ()) -> Deeds:
        """Do something with a cell, or clear the way to it."""
        if self._can_face(index):
            yield Deed(rest, action, index)
        else:
            yield from self._clear(self._places(self.geometry.facing(1 << index)), rest + 1, keys)

    def _unlock(self, door: int, keys: tuple[int, ...], rest: int) -> Deeds:
        colour = self.scene.cells[door] & 7
        key = cell(KEY, colour)
        if self.scene.carrying == key:
            yield from self._do(TOGGLE, door, rest, keys)
        elif colour not in keys:
            stands = self._places(self.geometry.facing(1 << door))
            for index in self._nearest(bits(self.scene.board((key,)))):
                yield from self._carry(index, stands, self._apart(index, door) + 1 + rest, (*keys, colour))

    def _can_face(self, index: int) -> bool:
        return places(meet(self.geometry.facing(1 << index), self.standing)) != 0

    # The way there.

    def _clear(self, goals: Board, rest: int, keys: tuple[int, ...] = ()) -> Deeds:
        """Deeds that open or clear a way to one of the cells; nothing if they can be reached or never will."""
        if goals and not goals & self.region:
            for cost, blocker in self._ways.first_blockers(goals, 0, keys):
                ahead = min(self._apart(blocker, goal) for goal in bits(goals))
                yield from self._pass(blocker, keys, cost + ahead + rest)

    def _pass(self, blocker: int, keys: tuple[int, ...], rest: int) -> Deeds:
        """Get past one thing."""
        code = self.scene.cells[blocker]
        if code in CLOSED_CODES:
            yield from [Deed(rest, TOGGLE, blocker)] if self._can_face(blocker) else []
        elif code in LOCKED_CODES:
            yield from self._unlock(blocker, keys, rest)
        elif self.scene.carrying != NOTHING:
            yield from self._put_aside(rest, blocker)
        elif self._can_face(blocker):
            yield Deed(rest + PUTTING_ASIDE, PICK_UP, blocker)

    # Hands that are full.

    def _put_aside(self, rest: int, towards: int | None = None) -> Deeds:
        """Put down what is carried where it does no harm."""
        for extra, index in self._asides:
            back = 0 if towards is None else self._apart(index, towards)
            yield Deed(extra + back + rest + 1, PUT_DOWN, index)

    @cached_property
    def _asides(self) -> list[tuple[int, int]]:
        """Places to put something down: quiet ones, then others away from doors, then any, the nearest first."""
        free = self.geometry.in_front(self.standing) & self.scene.plain
        doors = self.geometry.around(self.scene.board(DOOR_CODES))
        quiet = free & ~doors & ~self.geometry.around(self.scene.board(MOVABLE_CODES))
        boards = ((0, quiet), (2, free & ~doors), (8, free))
        return [(extra, index) for extra, board in boards for index in self._near(board)]

    def _near(self, board: Board) -> list[int]:
        """Two harmless cells of a set near the agent, or one that may be in the way."""
        chosen: list[int] = []
        ring = seen = 1 << self.agent
        while ring and len(chosen) < 2:
            ring = self.geometry.around(ring) & self.scene.floor & ~seen
            seen |= ring
            chosen += [index for index in bits(ring & board) if self._is_harmless(index)]
        return chosen[:2] or list(bits(board))[:1]

    def _is_harmless(self, index: int) -> bool:
        """Whether the cells around one stay joined by the eight cells about it when it is blocked."""
        ahead = self.geometry.ahead
        ring = [ahead[0], ahead[0] + ahead[1], ahead[1], ahead[1] + ahead[2]]
        ring += [ahead[2], ahead[2] + ahead[3], ahead[3], ahead[3] + ahead[0]]
        passable = self.scene.passable
        open_cells = [(passable >> (index + step)) & 1 for step in ring]
        # A side that is open and not joined to the next side by an open corner begins a part of its own.
        parts = sum(open_cells[i] and not (open_cells[i + 1] and open_cells[i + 2 & 7]) for i in (0, 2, 4, 6))
        return parts <= 1


def _later(deeds: Iterator[Deed], extra: int = LAST_RESORT) -> Iterator[Deed]:
    return (deed._replace(cost=deed.cost + extra) for deed in deeds)
