"""The search for a plan: walk freely, then do one thing with the cell ahead, and again.

A node is a moment in which the agent has just changed something. All walking from there is explored at once (`roam`),
the domain says which deeds might help (`means`), and the best-looking chain of deeds is followed first. Task states
that the outlook has given up are never entered.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import count
from typing import Final, NamedTuple

from atlas.domains.minigrid.alphabet import CARRYING, FRONT
from atlas.domains.minigrid.grid import (
    DOOR_CLOSED,
    DOOR_OPEN,
    FORWARD,
    KEY,
    NOTHING,
    PICK_UP,
    PUT_DOWN,
    TOGGLE,
    TURN_LEFT,
    TURN_RIGHT,
    cell,
)
from atlas.domains.minigrid.solver.boards import (
    CLOSED_CODES,
    DOOR_CODES,
    LOCKED_CODES,
    MOVABLE_CODES,
    NOWHERE,
    Board,
    Facing,
    Scene,
    bits,
    join,
    less,
    meaning,
    meet,
    places,
)
from atlas.domains.minigrid.solver.bounds import LOST, Machine, Outlook
from atlas.vocabulary import ACCEPTED

# Walking and turning only: every place and task state the agent can come to while it touches nothing.
#
# All ways to stand are moved at once, one step a layer, as sets of cells; so the first layer in which something is
# reached tells the fewest steps. The task moves with every step, exactly as in the world.

Layer = dict[int, Facing]
"""Ways to stand by task state."""
Exit = tuple[int, Facing]
"""A task state and where an edge leads into it."""


class Stand(NamedTuple):
    """A single way to stand, and the task state the agent stands there with."""

    cell: int
    direction: int
    u: int


class Leads:
    """Where the edges of a machine are satisfied in one scene."""

    def __init__(self, scene: Scene, machine: Machine) -> None:
        self.scene, self.machine = scene, machine
        self._exits: dict[int, list[Exit]] = {}

    def exits(self, u: int) -> list[Exit]:
        """Where each edge out of a state is taken: where its guard holds and no edge before it is satisfied."""
        found = self._exits.get(u)
        if found is None:
            found = self._exits[u] = self._find(u) if self.machine.is_running(u) else []
        return found

    def _find(self, u: int) -> list[Exit]:
        exits: list[Exit] = []
        taken = NOWHERE
        for edge in self.machine.edges[u]:
            fresh = less(self.scene.holding(edge.positive, edge.negative), taken)
            if any(fresh):
                exits.append((edge.target, fresh))
                taken = join(taken, fresh)
        return exits

    def after(self, stand: Stand) -> int:
        """The task state after seeing what is seen here."""
        for target, where in self.exits(stand.u):
            if (where[stand.direction] >> stand.cell) & 1:
                return target
        return stand.u

    def settle(self, layer: Layer) -> Layer:
        """All these ways to stand with the task state after seeing what is seen there."""
        settled: Layer = {}
        for u, standing in layer.items():
            for target, where in self.exits(u):
                _add(settled, target, meet(standing, where))
                standing = less(standing, where)
            _add(settled, u, standing)
        return settled


class Roam:
    """Everything within walking distance of some ways to stand, by number of steps.

    Task states in `lost` are not entered; the search ends with the first layer that enters a state in `goals`.
    """

    def __init__(self, leads: Leads, start: Layer, lost: frozenset[int], goals: frozenset[int]) -> None:
        self.leads = leads
        self.layers: list[Layer] = [start]
        self.seen: dict[int, list[Board]] = {u: list(standing) for u, standing in start.items()}
        self.goal: Stand | None = None
        layer = start
        self._find_goal(layer, goals)
        while layer and self.goal is None:
            layer = self._next(layer, lost)
            if layer:
                self.layers.append(layer)
                self._find_goal(layer, goals)

    def _next(self, layer: Layer, lost: frozenset[int]) -> Layer:
        """All ways to stand that are first reached one step later."""
        passable, stride = self.leads.scene.passable, self.leads.scene.geometry.stride
        fresh: dict[int, list[Board]] = {}
        for u, (up, right, down, left) in layer.items():
            turned, upright = up | down, left | right
            # Staying counts as well: what is seen may lead on from a task state that was just entered.
            moved = [
                ((up >> stride) & passable) | upright | up,
                ((right << 1) & passable) | turned | right,
                ((down << stride) & passable) | upright | down,
                ((left >> 1) & passable) | turned | left,
            ]
            for target, (a, b, c, d) in self.leads.exits(u):
                gone = [moved[0] & a, moved[1] & b, moved[2] & c, moved[3] & d]
                if gone[0] | gone[1] | gone[2] | gone[3]:
                    moved = [m ^ g for m, g in zip(moved, gone, strict=True)]
                    if target not in lost:
                        _merge(fresh, target, gone)
            _merge(fresh, u, moved)
        return {u: new for u, boards in fresh.items() if (new := self._note(u, boards))}

    def _note(self, u: int, boards: list[Board]) -> Facing | None:
        """What of it was not seen before, if anything; now it was."""
        seen = self.seen.setdefault(u, [0, 0, 0, 0])
        a, b, c, d = (board & ~old for board, old in zip(boards, seen, strict=True))
        if not (a | b | c | d):
            return None
        seen[0] |= a
        seen[1] |= b
        seen[2] |= c
        seen[3] |= d
        return a, b, c, d

    def _find_goal(self, layer: Layer, goals: frozenset[int]) -> None:
        for u in goals & layer.keys():
            self.goal = _first(layer[u], u)

    def standing(self, u: int) -> Facing:
        """All ways to stand in a task state."""
        up, right, down, left = self.seen[u]
        return up, right, down, left

    def nearest(self, u: int, wanted: Facing) -> tuple[int, Stand] | None:
        """The fewest steps to one of the wanted ways to stand in a task state, and which it is."""
        if places(meet(self.standing(u), wanted)):
            for steps, layer in enumerate(self.layers):
                if u in layer:
                    hit = meet(layer[u], wanted)
                    if any(hit):
                        return steps, _first(hit, u)
        return None

    def path(self, steps: int, goal: Stand) -> list[int]:
        """The actions that lead to a stand which is first reached after so many steps."""
        return self.trace(steps, goal)[0]

    def trace(self, steps: int, goal: Stand) -> tuple[list[int], Stand]:
        """The actions that lead to a stand, and where they start."""
        actions: list[int] = []
        for layer in reversed(self.layers[:steps]):
            action, goal = self._back(layer, goal)
            actions.append(action)
        return actions[::-1], goal

    def _back(self, layer: Layer, goal: Stand) -> tuple[int, Stand]:
        """A stand of the layer before from which one action leads to the goal."""
        cell, direction, u = goal
        ahead = self.leads.scene.geometry.ahead[direction]
        options = [
            (FORWARD, cell - ahead, direction),
            (TURN_RIGHT, cell, (direction - 1) % 4),
            (TURN_LEFT, cell, (direction + 1) % 4),
            # Hands that are full pick up nothing, empty ones put down nothing: that is how to wait.
            (PUT_DOWN if self.leads.scene.carrying == NOTHING else PICK_UP, cell, direction),
        ]
        for before, boards in layer.items():
            if self.leads.after(Stand(cell, direction, before)) == u:
                for action, source, heading in options:
                    if source >= 0 and (boards[heading] >> source) & 1:
                        return action, Stand(source, heading, before)
        raise AssertionError(f"no step leads to {goal}")


def single(stand: Stand) -> Facing:
    """One way to stand as a set."""
    bit = 1 << stand.cell
    up, right, down, left = (bit if d == stand.direction else 0 for d in range(4))
    return up, right, down, left


def _add(layer: Layer, u: int, standing: Facing) -> None:
    if any(standing):
        layer[u] = join(layer[u], standing) if u in layer else standing


def _merge(layer: dict[int, list[Board]], u: int, boards: list[Board]) -> None:
    old = layer.get(u)
    layer[u] = boards if old is None else [x | y for x, y in zip(old, boards, strict=True)]


def _first(boards: Facing, u: int) -> Stand:
    """One way to stand out of a set that is not empty."""
    direction = next(d for d in range(4) if boards[d])
    board = boards[direction]
    return Stand((board & -board).bit_length() - 1, direction, u)


# What stands in the way: the objects and doors that have to go first on the cheapest ways to a place.

OPENING, UNLOCKING, REMOVING, FETCHING = 1, 10, 10, 12
"""Rough costs of what stands in a way: opening a door, unlocking it, carrying an object off, fetching a key first."""
IMPASSABLE: Final = 1 << 20
FREE_HANDED: Final = 10
"""A way that costs as much needs hands that carry nothing else, sooner or later."""
ALTERNATIVES: Final = 3
"""How many first blockers are looked for."""

Keys = tuple[int, ...]
"""Colours of keys that cannot be fetched, since they are being fetched already."""


class Ways:
    """The ways out of a region of a scene."""

    def __init__(self, scene: Scene, region: Board) -> None:
        self.scene, self.region = scene, region
        self.geometry = scene.geometry
        self._known: dict[tuple[Board, Board, Keys], list[tuple[int, int]]] = {}
        self._known_costs: dict[Keys, dict[int, int]] = {}

    def first_blockers(self, goals: Board, ignored: Board, keys: Keys) -> list[tuple[int, int]]:
        """What stands first on the cheapest ways to the goals: (cost of the whole way, cell); none if a way is free.

        What is `ignored` is no obstacle.
        """
        asked = goals, ignored, keys
        if asked not in self._known:
            start = self.region
            if ignored & self.geometry.around(start):
                start |= self._beyond(ignored)
            self._known[asked] = [] if start & goals else self._search(start, goals, ignored, keys)
        return self._known[asked]

    def _search(self, start: Board, goals: Board, ignored: Board, keys: Keys) -> list[tuple[int, int]]:
        """Dijkstra's search over the things in the way; what can be walked between them is free."""
        blocking = self._blocking & ~ignored
        costs, best = self._costs(keys), dict[int, int]()
        heap: list[tuple[int, int, int]] = []

        def push(cost: int, board: Board, first: int | None) -> None:
            for index in bits(board):
                total = cost + costs[index]
                if total < best.get(index, IMPASSABLE):
                    best[index] = total
                    heappush(heap, (total, index, index if first is None else first))

        push(0, self.geometry.around(start) & blocking, None)
        found: dict[int, int] = {}
        while heap and len(found) < ALTERNATIVES:
            cost, index, first = heappop(heap)
            if cost == best[index]:
                area = self._beyond(1 << index)
                if area & goals:
                    found.setdefault(first, cost)
                else:
                    push(cost, self.geometry.around(area) & blocking, first)
        return [(cost, first) for first, cost in found.items()]

    def _costs(self, keys: Keys) -> dict[int, int]:
        """Roughly what it takes to get past each thing in the way."""
        found = self._known_costs.get(keys)
        if found is None:
            cells = self.scene.cells
            found = {index: self._cost(cells[index], keys) for index in bits(self._blocking)}
            self._known_costs[keys] = found
        return found

    def _cost(self, code: int, keys: Keys) -> int:
        if code in CLOSED_CODES:
            return OPENING
        if code not in LOCKED_CODES:
            return REMOVING
        key = cell(KEY, code & 7)
        if self.scene.carrying == key:
            return UNLOCKING
        exists = (code & 7) not in keys and self.scene.board((key,))
        return FETCHING + UNLOCKING if exists else IMPASSABLE

    @cached_property
    def _blocking(self) -> Board:
        """Everything that stands in a way and can be moved or opened."""
        return self.scene.floor & ~self.scene.passable

    @cached_property
    def _areas(self) -> list[Board]:
        """The parts of the floor that can be walked without touching anything."""
        areas, left = [], self.scene.passable
        while left:
            area = self.geometry.flood(left & -left, left)
            areas.append(area)
            left &= ~area
        return areas

    def _beyond(self, blockers: Board) -> Board:
        """Cells that can be walked to once some blockers are gone, and theirs."""
        around = self.geometry.around(blockers)
        for area in self._areas:
            if area & around:
                blockers |= area
        return blockers


# Means to an end: what to pick up, put down or toggle next so that a guard can come true.
#
# Nothing is proven here. From what is missing (a door in the wrong state, an object out of reach, two objects apart) it
# works back to things the agent can do now; the search tries them, follows what really happens and backtracks.

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


# The search for a plan: walk freely, then do one thing with the cell ahead, and again.
#
# A node is a moment in which the agent has just changed something. All walking from there is explored at once (`roam`),
# the domain says which deeds might help (`means`), and the best-looking chain of deeds is followed first. Task states
# that the outlook has given up are never entered.


class Style(NamedTuple):
    """What a search goes for when it chooses which chain of deeds to follow."""

    length: int
    """What a step costs."""
    transition: int
    """What a transition is worth."""
    strain: int
    """What it costs to leave the best-looking deed, for each that looks better."""
    share: float
    """Which part of the budget it gets."""
    ahead: bool = False
    """Whether to prepare for the transitions after the next."""


STYLES: Final = (
    Style(1, 60, 8, 0.3),
    Style(0, 400, 12, 0.2),
    Style(1, 60, 6, 0.2, ahead=True),
    Style(0, 60, 3, 0.2),
    Style(2, 40, 2, 0.1, ahead=True),
)
"""Tried in turn: what one kind of greed misses another often finds."""
POLISH: Final = (Style(2, 30, 0, 0.5), Style(1, 20, 1, 0.3), Style(3, 40, 4, 0.2))
"""Tried in turn for plans shorter than a known one."""
TYPICAL = 15
"""The guess when a transition was just made."""
BREADTH, BREADTH_AHEAD = 12, 4
"""Most deeds that are tried from one node, and towards a later transition."""


@dataclass(slots=True)
class Node:
    """A moment of a play in which something was just changed."""

    scene: Scene
    stand: Stand
    length: int
    """Steps so far."""
    left: int
    """A guess at the steps to the next transition."""
    strain: int
    """How often, and how far, the chain of deeds has left what looked best."""
    parent: "Node | None"
    actions: tuple[int, ...]
    """What was done since the parent."""

    def plan(self) -> list[int]:
        """All actions since the start."""
        parts: list[tuple[int, ...]] = []
        node: Node | None = self
        while node is not None:
            parts.append(node.actions)
            node = node.parent
        return [action for actions in reversed(parts) for action in actions]


class Search:
    """A bounded best-first search for one problem."""

    def __init__(self, outlook: Outlook, step_limit: int, style: Style) -> None:
        self.outlook, self.machine, self.step_limit, self.style = outlook, outlook.machine, step_limit, style
        self._accepting = frozenset(u for u, o in enumerate(self.machine.outcome) if o == ACCEPTED)
        self._alive = frozenset(u for u, _ in outlook.winning)
        self._heap: list[tuple[int, int, Node]] = []
        self._order = count()
        self._visited: dict[tuple[object, int], list[list[int]]] = {}
        self.expanded = 0

    def run(self, scene: Scene, start: Stand, budget: int) -> list[int] | None:
        """A plan, or None if none was found within the budget of nodes."""
        heappush(self._heap, (0, next(self._order), Node(scene, start, 0, TYPICAL, 0, None, ())))
        while self._heap and self.expanded < budget:
            node = heappop(self._heap)[-1]
            plan = self._expand(node)
            if plan is not None:
                return plan
        return None

    def _expand(self, node: Node) -> list[int] | None:
        """Walk from a node: either to acceptance, or to the deeds that follow it."""
        stand = node.stand
        if self._was_here(node):
            return None
        self.expanded += 1
        leads = Leads(node.scene, self.machine)
        lost = frozenset(u for u in range(len(self.machine.outcome)) if self.outlook.distance(u, node.scene) >= LOST)
        roam = Roam(leads, {stand.u: single(stand)}, lost, self._accepting)
        if roam.goal is not None:
            steps = len(roam.layers) - 1
            if node.length + steps <= self.step_limit:
                return node.plan() + roam.path(steps, roam.goal)
        self._visited.setdefault((node.scene.key, stand.u), []).append(roam.seen[stand.u])
        self._follow(node, roam)
        return None

    def _was_here(self, node: Node) -> bool:
        """Whether an earlier node in the same scene could have walked here."""
        cell, direction, u = node.stand
        return any((seen[direction] >> cell) & 1 for seen in self._visited.get((node.scene.key, u), ()))

    def _follow(self, node: Node, roam: Roam) -> None:
        """Queue what can be done from the task states within walking distance."""
        children = [self._child(node, roam, u, deed) for u in roam.seen for deed in self._deeds(node, roam, u)]
        hopeful = [(self._promise(child), child) for child in children if child is not None]
        hopeful.sort(key=lambda pair: pair[0])
        for rank, (promise, child) in enumerate(hopeful):
            child.strain = node.strain + self.style.strain * rank
            if promise < LOST and child.length < self.step_limit:
                heappush(self._heap, (promise + child.strain, next(self._order), child))

    def _child(self, node: Node, roam: Roam, u: int, deed: Deed) -> Node | None:
        """The moment after a deed, if it can be done."""
        reached = roam.nearest(u, node.scene.geometry.facing(1 << deed.cell))
        scene = node.scene.act(deed.action, deed.cell)
        if reached is None or scene is None:
            return None
        steps, stand = reached
        after = stand._replace(u=Leads(scene, self.machine).after(stand))
        actions = (*roam.path(steps, stand), deed.action)
        left = deed.cost if after.u == u else TYPICAL
        return Node(scene, after, node.length + len(actions), left, 0, node, actions)

    def _promise(self, node: Node) -> int:
        """A guess at the length of the whole plan, in which transitions count for more than they take."""
        distance = self.outlook.distance(node.stand.u, node.scene)
        guess = self.style.length * node.length + node.left + self.style.transition * distance
        return guess if distance < LOST else LOST

    def _deeds(self, node: Node, roam: Roam, u: int) -> list[Deed]:
        """What the domain suggests in one task state, best first."""
        means = Means(node.scene, roam.standing(u), node.stand.cell)
        edges = [edge for edge in self.machine.edges[u] if edge.target in self._alive]
        deeds = [deed for edge in edges for deed in means.towards(edge.positive, edge.negative)]
        if self.style.ahead:
            later = [edge for first in edges for edge in self.machine.edges[first.target] if edge.target in self._alive]
            for edge in dict.fromkeys(later):
                found = means.towards(edge.positive, edge.negative)[:BREADTH_AHEAD]
                deeds += [deed._replace(cost=deed.cost + TYPICAL) for deed in found]
        return sorted(deeds)[:BREADTH]
