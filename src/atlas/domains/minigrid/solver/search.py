"""The search for a plan: walk, manipulate the cell ahead, walk again.

A node is a moment in which the agent has just manipulated something. A breadth-first search explores all walking from
there at once (`Walk`), subgoal analysis says which manipulations may help next (`Subgoals`), and the most promising
sequence of them is followed first. Task states that the abstract product rules out are never entered. `exhaust` tries
all manipulations instead, for problems that are small enough.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import count
from typing import Final, Literal, NamedTuple

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
    NO_POSES,
    Board,
    Codes,
    Poses,
    ProductState,
    Scene,
    add,
    bits,
    cells_of,
    intersect,
    join,
    meaning,
    minus,
    union,
)
from atlas.domains.minigrid.solver.bounds import LOST, AbstractProduct
from atlas.tasks.machine import Machine
from atlas.vocabulary import ACCEPTED

# Walking

Layer = dict[int, Poses]
"""Poses by task state."""


class GuardRegions(dict[int, list[tuple[int, Poses]]]):
    """Where the edges out of each task state are taken in one scene: targets and poses, worked out on demand.

    An edge is taken where its guard holds and that of no earlier edge does.
    """

    def __init__(self, scene: Scene, machine: Machine) -> None:
        super().__init__()
        self.scene, self.machine = scene, machine

    def __missing__(self, u: int) -> list[tuple[int, Poses]]:
        self[u] = regions = list[tuple[int, Poses]]()
        taken = NO_POSES
        for edge in self.machine.leaving[u]:
            region = minus(self.scene.guard_region(edge.literals), taken)
            if any(region):
                regions.append((edge.target, region))
                taken = union(taken, region)
        return regions

    def advance(self, state: ProductState) -> int:
        """The task state after the label of a pose."""
        for target, region in self[state.u]:
            if (region[state.direction] >> state.cell) & 1:
                return target
        return state.u

    def advance_all(self, layer: Layer) -> Layer:
        """All poses with the task states after their labels."""
        after: Layer = {}
        for u, poses in layer.items():
            for target, region in self[u]:
                add(after, target, intersect(poses, region))
                poses = minus(poses, region)
            add(after, u, poses)
        return after


class Walk:
    """Every product state within walking distance of some others, by number of steps: a breadth-first search.

    Task states that are `lost` are not entered; the search ends with the first layer that holds an accepting one.
    """

    def __init__(self, scene: Scene, product: AbstractProduct, start: Layer) -> None:
        self.scene = scene
        self.regions = GuardRegions(scene, product.machine)
        outcomes = product.machine.outcomes
        lost = {u for u in range(len(outcomes)) if product.distance(u, scene) >= LOST}
        self.layers: list[Layer] = []
        self.seen: Layer = dict(start)
        self.goal: ProductState | None = None
        layer = start
        while layer:
            self.layers.append(layer)
            for u in layer:
                if outcomes[u] == ACCEPTED:
                    self.goal = _some_pose(layer[u], u)
                    return
            moved: Layer = {}
            for u, poses in layer.items():
                # Waiting counts as a step: the label may lead on from a task state that was just entered.
                poses = scene.geometry.step(poses, scene.passable)
                for target, region in self.regions[u]:
                    taken = intersect(poses, region)
                    if any(taken):
                        poses = minus(poses, taken)
                        if target not in lost:
                            add(moved, target, taken)
                add(moved, u, poses)
            layer = {}
            for u, poses in moved.items():
                before = self.seen.get(u, NO_POSES)
                new = minus(poses, before)
                if any(new):
                    layer[u] = new
                    self.seen[u] = union(before, new)

    def nearest(self, u: int, wanted: Poses) -> tuple[int, ProductState] | None:
        """The fewest steps to one of some poses in a task state, and which it is."""
        if any(intersect(self.seen[u], wanted)):
            for steps, layer in enumerate(self.layers):
                if u in layer and any(hit := intersect(layer[u], wanted)):
                    return steps, _some_pose(hit, u)
        return None

    def trace(self, steps: int, goal: ProductState) -> tuple[list[int], ProductState]:
        """The actions that lead to a product state of a layer, and where they start."""
        actions: list[int] = []
        for layer in reversed(self.layers[:steps]):
            action, goal = self._back(layer, goal)
            actions.append(action)
        return actions[::-1], goal

    def _back(self, layer: Layer, goal: ProductState) -> tuple[int, ProductState]:
        """An action and a product state of the layer before from which it leads to the goal."""
        cell, direction, u = goal
        sources = [
            (FORWARD, cell - self.scene.geometry.ahead[direction], direction),
            (TURN_RIGHT, cell, (direction - 1) % 4),
            (TURN_LEFT, cell, (direction + 1) % 4),
            # To wait is to put down nothing, or to pick something up with full hands.
            (PUT_DOWN if self.scene.carrying == NOTHING else PICK_UP, cell, direction),
        ]
        for before, poses in layer.items():
            if self.regions.advance(ProductState(cell, direction, before)) == u:
                for action, source, heading in sources:
                    if source >= 0 and (poses[heading] >> source) & 1:
                        return action, ProductState(source, heading, before)
        raise AssertionError(f"no step leads to {goal}")


def _some_pose(poses: Poses, u: int) -> ProductState:
    direction = next(d for d in range(4) if poses[d])
    board = poses[direction]
    return ProductState((board & -board).bit_length() - 1, direction, u)


# Obstacles: the objects and doors that must be moved or opened first on the cheapest ways to a place

OPENING, UNLOCKING, REMOVING, FETCHING = 1, 10, 10, 12
"""Rough costs: opening a door, unlocking one, carrying an object off, fetching a key."""
IMPASSABLE: Final = 1 << 20
FREE_HANDED: Final = 10
"""A way that costs as much needs hands that carry nothing else, sooner or later."""
ALTERNATIVES: Final = 3
"""How many first obstacles are looked for."""

Keys = tuple[int, ...]
"""Colours of keys that are being fetched already: nothing may wait for itself."""


class Obstacles:
    """What blocks the ways out of a region of a scene."""

    def __init__(self, scene: Scene, region: Board) -> None:
        self.scene, self.region = scene, region
        self._first: dict[tuple[Board, Board, Keys], list[tuple[int, int]]] = {}
        self._costs: dict[Keys, dict[int, int]] = {}
        self._all: Board = scene.floor & ~scene.passable

    def first(self, goals: Board, ignored: Board, keys: Keys) -> list[tuple[int, int]]:
        """The first obstacle of each of the cheapest ways to the goals: (cost of the whole way, cell).

        None if a way is free. What is `ignored` is no obstacle.
        """
        asked = goals, ignored, keys
        if asked not in self._first:
            start = self.region
            if ignored & self.scene.geometry.around(start):
                start |= self._beyond(ignored)
            self._first[asked] = [] if start & goals else self._search(start, goals, ignored, keys)
        return self._first[asked]

    def _search(self, start: Board, goals: Board, ignored: Board, keys: Keys) -> list[tuple[int, int]]:
        """Dijkstra's algorithm over obstacles; walking between them is free."""
        around, obstacles = self.scene.geometry.around, self._all & ~ignored
        if keys not in self._costs:
            self._costs[keys] = {index: self._cost(self.scene.cells[index], keys) for index in bits(self._all)}
        costs, best = self._costs[keys], dict[int, int]()
        heap: list[tuple[int, int, int]] = []

        def push(cost: int, board: Board, first: int | None) -> None:
            for index in bits(board):
                total = cost + costs[index]
                if total < best.get(index, IMPASSABLE):
                    best[index] = total
                    heappush(heap, (total, index, index if first is None else first))

        push(0, around(start) & obstacles, None)
        found: dict[int, int] = {}
        while heap and len(found) < ALTERNATIVES:
            cost, index, first = heappop(heap)
            if cost == best[index]:
                area = self._beyond(1 << index)
                if area & goals:
                    found.setdefault(first, cost)
                else:
                    push(cost, around(area) & obstacles, first)
        return [(cost, first) for first, cost in found.items()]

    def _cost(self, code: int, keys: Keys) -> int:
        """Roughly what it takes to get past an object or a door."""
        if code in CLOSED_CODES:
            return OPENING
        if code not in LOCKED_CODES:
            return REMOVING
        key = cell(KEY, code & 7)
        if self.scene.carrying == key:
            return UNLOCKING
        exists = (code & 7) not in keys and self.scene.board((key,))
        return FETCHING + UNLOCKING if exists else IMPASSABLE

    def _beyond(self, obstacles: Board) -> Board:
        """The cells of some obstacles, and what can be walked to from there once they are gone."""
        around = self.scene.geometry.around(obstacles)
        return obstacles | join(area for area in self._areas if area & around)

    @cached_property
    def _areas(self) -> list[Board]:
        """The parts of the floor that can be walked without touching anything."""
        areas, left = [], self.scene.passable
        while left:
            area = self.scene.geometry.flood(left & -left, left)
            areas.append(area)
            left &= ~area
        return areas


# Subgoals: what to pick up, put down or toggle next so that a guard can come to hold
#
# Nothing is proven here. From what is missing (a door in the wrong state, an object out of reach, two objects apart)
# this works back to what the agent can do now; the search tries it, follows what really happens and backtracks.

PUTTING_ASIDE, ADJUSTING = 3, 4
"""Rough costs: putting down what is carried, changing the state of a door in the end."""
LAST_RESORT: Final = 60
"""Added to the cost of what is only tried when nothing better is left."""
FEW: Final = 6
"""Of many objects that fit, how many of the nearest are considered."""


class Manipulation(NamedTuple):
    """Something to do with a cell ahead."""

    cost: int
    """A guess at the steps that will be left afterwards."""
    action: int
    cell: int


Manipulations = Iterator[Manipulation]


class Subgoals:
    """What can be manipulated in a scene from the poses that the agent can walk to, and to what end."""

    def __init__(self, scene: Scene, poses: Poses, agent: int) -> None:
        self.scene, self.poses, self.agent = scene, poses, agent
        self.geometry = scene.geometry
        self.region = cells_of(poses)
        self._obstacles = Obstacles(scene, self.region)

    def manipulations(self, literals: tuple[int, ...]) -> list[Manipulation]:
        """Manipulations that help to make a guard hold, best first."""
        best: dict[tuple[int, int], Manipulation] = {}
        for found in self._achieve_guard(literals):
            known = best.get(found[1:])
            if known is None or found.cost < known.cost:
                best[found[1:]] = found
        return sorted(best.values())

    def _achieve_guard(self, literals: tuple[int, ...]) -> Manipulations:
        positive = [x for x in literals if x > 0]
        missing = [x for x in positive if not self._cells(self.scene.holds(x - 1))]
        for literal in missing:
            yield from self._achieve(literal - 1)
        if missing:
            return
        region = cells_of(self.scene.guard_region(literals))
        yield from self._clear(region, 0)
        if len(positive) > 1:
            for literal in positive:
                yield from self._achieve_near(literal - 1, [x for x in literals if x != literal])
        for literal in positive:
            yield from _as_last_resort(self._achieve(literal - 1))
        if not region or not positive:
            for literal in literals:
                if literal < 0:
                    yield from _as_last_resort(self._undo(-literal - 1))

    def _cells(self, poses: Poses) -> Board:
        return cells_of(poses) & self.scene.floor

    def _apart(self, one: int, other: int) -> int:
        (a, b), (c, d) = self.geometry.place(one), self.geometry.place(other)
        return abs(a - c) + abs(b - d)

    def _nearest(self, board: Board) -> list[int]:
        return sorted(bits(board), key=lambda index: self._apart(self.agent, index))[:FEW]

    # One proposition

    def _achieve(self, prop: int) -> Manipulations:
        location, first, last = meaning(prop)
        if location == CARRYING:
            for index in self._nearest(self.scene.board(first)):
                yield from self._pick_up(index, 0)
        elif location == FRONT:
            if self.scene.carrying in first:
                yield from self._put_aside(0)
            for index in self._nearest(self._fitting(first)):
                yield from self._make_fit(index, first, 0)
        else:
            yield from self._bring_together(first, last)

    def _fitting(self, codes: Codes) -> Board:
        """The objects and doors that fit, and the doors that can be made to: by toggling or with a key."""
        board = self.scene.board(codes)
        for index in bits(self.scene.board(DOOR_CODES) & ~board):
            colour = self.scene.cells[index] & 7
            key = cell(KEY, colour)
            opens = self.scene.cells[index] not in LOCKED_CODES or self.scene.carrying == key
            if not codes.isdisjoint((cell(DOOR_CLOSED, colour), cell(DOOR_OPEN, colour))):
                board |= (1 << index) * (opens or self.scene.board((key,)) != 0)
        return board

    def _make_fit(self, index: int, codes: Codes, rest: int) -> Manipulations:
        """Bring a door into one of some states, or clear the way to what fits already."""
        code = self.scene.cells[index]
        if code in codes:
            yield from self._clear(self._cells(self.geometry.facing(1 << index)), rest)
        elif code in LOCKED_CODES:
            yield from self._unlock(index, (), rest + (cell(DOOR_OPEN, code & 7) not in codes))
        else:
            yield from self._manipulate(TOGGLE, index, rest)

    def _undo(self, prop: int) -> Manipulations:
        """Make a proposition false where it holds."""
        location, first, last = meaning(prop)
        if location == CARRYING and self.scene.carrying in first:
            yield from self._put_aside(0)
        for index in bits(self.scene.board(first | last)):
            code = self.scene.cells[index]
            if code in MOVABLE_CODES:
                yield from self._pick_up(index, PUTTING_ASIDE)
            elif code in LOCKED_CODES:
                yield from self._unlock(index, (), 0)
            else:
                yield from self._manipulate(TOGGLE, index, 0)

    # Several propositions at once

    def _achieve_near(self, prop: int, others: list[int]) -> Manipulations:
        """Make one proposition hold where the other literals of its guard do."""
        poses = self.scene.guard_region(others)
        location, first, last = meaning(prop)
        if location == CARRYING:
            yield from self._achieve(prop)
        elif location == FRONT:
            yield from self._bring_to(first, self.geometry.in_front(poses))
        else:
            view = self.geometry.in_view(poses)
            if self.scene.carrying in first | last:
                for mate in self._nearest(self._fitting(first | last) & view):
                    yield from self._put_beside(mate, first | last)
            yield from self._bring_to(first | last, view)

    def _bring_to(self, codes: Codes, cells: Board) -> Manipulations:
        """Bring one of some objects to one of some cells."""
        room = cells & self.scene.vacant
        if self.scene.carrying in codes:
            for index in self._nearest(room):
                yield from self._manipulate(PUT_DOWN, index, 2)
        elif room:
            for index in self._nearest(self.scene.board(codes & MOVABLE_CODES)):
                away = min(self._apart(index, goal) for goal in bits(room))
                yield from self._fetch(index, self.geometry.around(room) & self.scene.floor, away + 2)

    # Two objects side by side

    def _bring_together(self, first: Codes, last: Codes) -> Manipulations:
        codes, carried, movable = first | last, self.scene.carrying, self.scene.board(MOVABLE_CODES)
        ones, others = self._fitting(first), self._fitting(last)
        for pair in self.scene.pairs(ones, others):
            for index in pair:
                if self.scene.cells[index] in DOOR_CODES - codes:
                    yield from self._make_fit(index, codes, 0)
        if carried in codes:
            for mate in self._nearest((others if carried in first else 0) | (ones if carried in last else 0)):
                yield from self._put_beside(mate, codes)
        # Objects to fetch, each with another to put it next to, those first that take the shortest way.
        pairs = [(one, other) for one in bits(ones & movable) for other in bits(others) if one != other]
        pairs += [(one, other) for one in bits(others & movable) for other in bits(ones) if one != other]
        pairs.sort(key=lambda pair: self._apart(self.agent, pair[0]) + self._apart(*pair))
        for one, other in pairs[:FEW]:
            yield from self._fetch_for(one, other, codes)

    def _put_beside(self, mate: int, codes: Codes) -> Manipulations:
        """Put what is carried next to something."""
        code = self.scene.cells[mate]
        fits = code in codes
        if not fits:
            yield from self._make_fit(mate, codes, ADJUSTING)
        around = self.geometry.around(1 << mate)
        if code not in LOCKED_CODES or fits:
            for index in bits(around & self.scene.vacant):
                yield from self._manipulate(PUT_DOWN, index, 0 if fits else ADJUSTING)
        for index in bits(around & self.scene.board(MOVABLE_CODES)):
            yield from _as_last_resort(self._pick_up(index, PUTTING_ASIDE))

    def _fetch_for(self, index: int, mate: int, codes: Codes) -> Manipulations:
        """Fetch an object in order to put it next to another; a lock that must be opened comes first."""
        code = self.scene.cells[mate]
        rest = self._apart(index, mate) + 2
        if code in LOCKED_CODES and code not in codes:
            yield from self._unlock(mate, (), PUTTING_ASIDE + self._apart(mate, index) + 1 + rest)
            return
        around = self.geometry.around(1 << mate)
        room = self.geometry.around(around & (self.scene.vacant | 1 << index)) & self.scene.floor
        rest += 0 if code in codes else ADJUSTING
        yield from self._fetch(index, room, rest)
        if not room & self.region:
            for occupant in bits(around & self.scene.board(MOVABLE_CODES) & ~(1 << index)):
                yield from self._pick_up(occupant, PUTTING_ASIDE + rest)

    def _fetch(self, index: int, goals: Board, rest: int, keys: Keys = ()) -> Manipulations:
        """Fetch an object in order to carry it to one of some cells; obstacles on the way there come first."""
        ways = self._obstacles.first(goals, 1 << index, keys)
        hard = [(cost, first) for cost, first in ways if cost >= FREE_HANDED]
        for cost, first in hard:
            yield from self._get_past(first, keys, cost + self._apart(first, index) + rest)
        rest += min((cost for cost, _ in ways), default=0)
        yield from self._pick_up(index, rest + (LAST_RESORT if hard else 0), keys)

    # Single objects and doors. `rest` guesses the steps that are left afterwards.

    def _can_face(self, index: int) -> bool:
        return any(intersect(self.geometry.facing(1 << index), self.poses))

    def _pick_up(self, index: int, rest: int, keys: Keys = ()) -> Manipulations:
        if self.scene.carrying == NOTHING:
            yield from self._manipulate(PICK_UP, index, rest, keys)
        elif self._can_face(index):
            yield from self._put_aside(rest, index)
        else:
            yield from self._clear(self._cells(self.geometry.facing(1 << index)), rest + PUTTING_ASIDE + 1, keys)

    def _manipulate(self, action: int, index: int, rest: int, keys: Keys = ()) -> Manipulations:
        """Do something with a cell, or clear the way to it."""
        if self._can_face(index):
            yield Manipulation(rest, action, index)
        else:
            yield from self._clear(self._cells(self.geometry.facing(1 << index)), rest + 1, keys)

    def _unlock(self, door: int, keys: Keys, rest: int) -> Manipulations:
        colour = self.scene.cells[door] & 7
        key = cell(KEY, colour)
        if self.scene.carrying == key:
            yield from self._manipulate(TOGGLE, door, rest, keys)
        elif colour not in keys:
            goals = self._cells(self.geometry.facing(1 << door))
            for index in self._nearest(self.scene.board((key,))):
                yield from self._fetch(index, goals, self._apart(index, door) + 1 + rest, (*keys, colour))

    def _clear(self, goals: Board, rest: int, keys: Keys = ()) -> Manipulations:
        """Open or clear a way to one of some cells; nothing if they can be reached or never will."""
        if goals and not goals & self.region:
            for cost, obstacle in self._obstacles.first(goals, 0, keys):
                ahead = min(self._apart(obstacle, goal) for goal in bits(goals))
                yield from self._get_past(obstacle, keys, cost + ahead + rest)

    def _get_past(self, obstacle: int, keys: Keys, rest: int) -> Manipulations:
        code = self.scene.cells[obstacle]
        if code in LOCKED_CODES:
            yield from self._unlock(obstacle, keys, rest)
        elif code not in CLOSED_CODES and self.scene.carrying != NOTHING:
            yield from self._put_aside(rest, obstacle)
        elif self._can_face(obstacle):
            is_door = code in CLOSED_CODES
            yield Manipulation(rest + PUTTING_ASIDE * (not is_door), TOGGLE if is_door else PICK_UP, obstacle)

    def _put_aside(self, rest: int, towards: int | None = None) -> Manipulations:
        """Put down what is carried where it does no harm, on the way to some cell."""
        for extra, index in self._asides:
            back = 0 if towards is None else self._apart(index, towards)
            yield Manipulation(extra + back + rest + 1, PUT_DOWN, index)

    @cached_property
    def _asides(self) -> list[tuple[int, int]]:
        """Cells to put something down in, with their costs: away from all else, away from doors, or any.

        Of each, two cells near the agent that block no way, else one that may.
        """
        free = self.geometry.in_front(self.poses) & self.scene.vacant
        no_doors = free & ~self.geometry.around(self.scene.board(DOOR_CODES))
        quiet = no_doors & ~self.geometry.around(self.scene.board(MOVABLE_CODES))
        found: list[tuple[int, int]] = []
        for extra, board in ((0, quiet), (2, no_doors), (8, free)):
            chosen: list[int] = []
            ring = seen = 1 << self.agent
            while ring and len(chosen) < 2:
                ring = self.geometry.around(ring) & self.scene.floor & ~seen
                seen |= ring
                chosen += [index for index in bits(ring & board) if self._blocks_nothing(index)]
            found += [(extra, index) for index in chosen[:2] or list(bits(board))[:1]]
        return found

    def _blocks_nothing(self, index: int) -> bool:
        """Whether the cells around one stay joined, by the eight cells about it, when it is blocked."""
        up, right, down, left = self.geometry.ahead
        ring = (up, up + right, right, right + down, down, down + left, left, left + up)
        is_open = [(self.scene.passable >> (index + step)) & 1 for step in ring]
        # A side that is open and not joined to the next side by an open corner begins a part of its own.
        return sum(is_open[i] and not (is_open[i + 1] and is_open[i + 2 & 7]) for i in (0, 2, 4, 6)) <= 1


def _as_last_resort(found: Manipulations) -> Manipulations:
    return (one._replace(cost=one.cost + LAST_RESORT) for one in found)


# Best-first search


class Weights(NamedTuple):
    """How a search ranks sequences of manipulations."""

    length: int
    """Cost of a step taken."""
    transition: int
    """Cost of a transition of the task that is still to be made."""
    discrepancy: int
    """Cost of not taking the best-looking manipulation, for each that looks better."""
    share: float
    """Part of the budget that it gets."""
    lookahead: bool = False
    """Whether to prepare for the transitions after the next."""


PORTFOLIO: Final = (
    Weights(1, 60, 8, 0.3),
    Weights(0, 400, 12, 0.2),
    Weights(1, 60, 6, 0.2, lookahead=True),
    Weights(0, 60, 3, 0.2),
    Weights(2, 40, 2, 0.1, lookahead=True),
)
"""Tried in turn: what one misses another often finds."""
SHORTENING: Final = (Weights(2, 30, 0, 0.5), Weights(1, 20, 1, 0.3), Weights(3, 40, 4, 0.2))
"""Tried in turn for plans shorter than a known one."""
TYPICAL = 15
"""The guess at the steps to the next transition when one was just made."""
BREADTH, BREADTH_AHEAD = 12, 4
"""Most manipulations that are tried from one node, and towards a later transition."""


@dataclass(slots=True)
class Node:
    """A moment of a play in which something was just manipulated."""

    scene: Scene
    state: ProductState
    length: int
    """Steps so far."""
    discrepancy: int
    parent: "Node | None"
    actions: tuple[int, ...]
    """What was done since the parent."""

    def plan(self) -> list[int]:
        """All actions since the start."""
        parts, node = [self.actions], self.parent
        while node is not None:
            parts.append(node.actions)
            node = node.parent
        return [action for actions in reversed(parts) for action in actions]


class Search:
    """A best-first search for a plan, bounded by a number of nodes."""

    def __init__(self, product: AbstractProduct, step_limit: int, weights: Weights) -> None:
        self.product, self.machine, self.step_limit, self.weights = product, product.machine, step_limit, weights
        self._alive = frozenset(u for u, _ in product.distances)
        self.expanded = 0

    def run(self, start: ProductState, budget: int) -> list[int] | None:
        """A plan, or None if none was found within the budget."""
        order = count()
        heap = [(0, next(order), Node(self.product.scene, start, 0, 0, None, ()))]
        visited: dict[tuple[object, int], list[Poses]] = {}
        while heap and self.expanded < budget:
            node = heappop(heap)[-1]
            cell, direction, u = node.state
            known = visited.setdefault((node.scene.key, u), [])
            if any((poses[direction] >> cell) & 1 for poses in known):
                continue  # an earlier node of the same scene could have walked here
            self.expanded += 1
            walk = Walk(node.scene, self.product, {u: node.state.poses})
            steps = len(walk.layers) - 1
            if walk.goal is not None and node.length + steps <= self.step_limit:
                return node.plan() + walk.trace(steps, walk.goal)[0]
            known.append(walk.seen[u])
            children = sorted(self._children(node, walk), key=lambda pair: pair[0])
            for rank, (promise, child) in enumerate(children):
                child.discrepancy = node.discrepancy + self.weights.discrepancy * rank
                if child.length < self.step_limit:
                    heappush(heap, (promise + child.discrepancy, next(order), child))
        return None

    def _children(self, node: Node, walk: Walk) -> Iterator[tuple[int, Node]]:
        """The nodes after each manipulation that is worth trying, with a guess at the cost of the whole plan."""
        for u in walk.seen:
            for cost, action, index in self._manipulations(node, walk, u):
                reached = walk.nearest(u, node.scene.geometry.facing(1 << index))
                scene = node.scene.act(action, index)
                if reached is None or scene is None:
                    continue
                steps, state = reached
                after = state._replace(u=GuardRegions(scene, self.machine).advance(state))
                distance = self.product.distance(after.u, scene)
                if distance < LOST:
                    actions = (*walk.trace(steps, state)[0], action)
                    child = Node(scene, after, node.length + len(actions), 0, node, actions)
                    left = cost if after.u == u else TYPICAL
                    yield self.weights.length * child.length + left + self.weights.transition * distance, child

    def _manipulations(self, node: Node, walk: Walk, u: int) -> list[Manipulation]:
        """What may help in one task state, best first."""
        subgoals = Subgoals(node.scene, walk.seen[u], node.state.cell)
        edges = [edge for edge in self.machine.leaving[u] if edge.target in self._alive]
        found = [one for edge in edges for one in subgoals.manipulations(edge.literals)]
        if self.weights.lookahead:
            later = [edge for first in edges for edge in self.machine.leaving[first.target]]
            for _, literals in dict.fromkeys((e.target, e.literals) for e in later if e.target in self._alive):
                some = subgoals.manipulations(literals)[:BREADTH_AHEAD]
                found += [one._replace(cost=one.cost + TYPICAL) for one in some]
        return sorted(found)[:BREADTH]


# Exhaustive search
#
# Every object picked up and put down everywhere, every door toggled, until nothing new comes up. Only small problems
# come to an end within the budget, but for those the answer is certain. A node is a scene with all the product states
# that were new when it came up, so walking costs no nodes.

HOPELESS: Final = 20
"""How many times more scenes than the budget are too many to begin with."""


@dataclass(slots=True)
class Arrangement:
    """A scene, what is within walking distance in it, and how it came about."""

    walk: Walk
    parent: "Arrangement | None"
    action: int
    """The manipulation that led here from the parent."""

    def plan_to(self, steps: int, goal: ProductState) -> list[int]:
        """All actions from the start to a product state that is reached here after so many steps."""
        actions, entry = self.walk.trace(steps, goal)
        if self.parent is None:
            return actions
        before = self.parent.walk
        for u in before.seen:
            state = entry._replace(u=u)
            if self.walk.regions.advance(state) == entry.u and (reached := before.nearest(u, state.poses)):
                return [*self.parent.plan_to(*reached), self.action, *actions]
        raise AssertionError("an arrangement does not follow from its parent")


def exhaust(
    product: AbstractProduct, start: ProductState, step_limit: int, budget: int
) -> list[int] | Literal["impossible"] | None:
    """A plan, or the certainty that there is none of any length, or None if the budget did not suffice."""
    if _count_scenes(product) > HOPELESS * budget:
        return None
    seen: dict[tuple[object, int], Poses] = {}
    todo: deque[tuple[Scene, Layer, Arrangement | None, int]] = deque(
        [(product.scene, {start.u: start.poses}, None, 0)]
    )
    is_complete = True
    while todo and budget > 0:
        scene, layer, parent, action = todo.popleft()
        fresh: Layer = {}
        for u, poses in layer.items():
            add(fresh, u, minus(poses, seen.get((scene.key, u), NO_POSES)))
        if not fresh:
            continue
        budget -= 1
        node = Arrangement(Walk(scene, product, fresh), parent, action)
        walk = node.walk
        if walk.goal is not None:
            plan = node.plan_to(len(walk.layers) - 1, walk.goal)
            if len(plan) <= step_limit:
                return plan
            is_complete = False
            continue
        for u, poses in walk.seen.items():
            add(seen, (scene.key, u), poses)
        hands = (PICK_UP, scene.board(MOVABLE_CODES)) if scene.carrying == NOTHING else (PUT_DOWN, scene.vacant)
        for kind, board in (hands, (TOGGLE, scene.board(DOOR_CODES))):
            for index in bits(board):
                facing: Layer = {}
                for u, poses in walk.seen.items():
                    add(facing, u, intersect(poses, scene.geometry.facing(1 << index)))
                changed = scene.act(kind, index) if facing else None
                if changed is not None:
                    after = GuardRegions(changed, product.machine).advance_all(facing)
                    alive = {u: poses for u, poses in after.items() if product.distance(u, changed) < LOST}
                    todo.append((changed, alive, node, kind))
    return "impossible" if is_complete and not todo else None


def _count_scenes(product: AbstractProduct) -> int:
    """Roughly how many scenes manipulations can lead to."""
    scene = product.scene
    within = product.within(join(unlocked for _, unlocked in product.entered_from))
    doors = (scene.board(DOOR_CODES) & (within.region | scene.geometry.around(within.region))).bit_count()
    return within.region.bit_count() ** within.movable.total() * 2**doors
