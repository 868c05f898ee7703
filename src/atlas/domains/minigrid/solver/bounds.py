"""What no play can do: task states that are lost, why a problem cannot be solved, and fewest steps of any plan.

Each comes from an abstraction that allows at least what the world allows, so what it rules out is impossible.
"""

from collections import Counter, deque
from collections.abc import Iterable
from itertools import combinations
from typing import Final, NamedTuple

from atlas.domains.minigrid.alphabet import (
    ANY_STATE,
    CARRYING,
    DOOR_STATES,
    DOOR_TYPE,
    FRONT,
    NAMES,
    NEXT,
    PROPOSITIONS,
    Descriptor,
)
from atlas.domains.minigrid.grid import DOOR_CLOSED, DOOR_OPEN, KEY, NOTHING, cell
from atlas.domains.minigrid.solver.boards import (
    DOOR_CODES,
    LOCKED_CODES,
    MOVABLE_CODES,
    NO_POSES,
    Board,
    Codes,
    Geometry,
    Poses,
    ProductState,
    Scene,
    add,
    bits,
    codes_of,
    intersect,
    join,
    meaning,
    minus,
    union,
)
from atlas.tasks.machine import Edge, Machine
from atlas.vocabulary import ACCEPTED, RUNNING

# Guards that cannot hold while only some doors are unlocked.
#
# Objects may be carried anywhere, doors opened and closed again, `next` is seen through walls, and what is out of reach
# is seen where it lies. What is kept: the agent is confined to a region, flooded through objects and doors that
# are not locked. An object beside the region is part of it, so one outside lies where it lay, and nothing can be put
# beside it. A door outside the region stays as it is.


class Reachable(NamedTuple):
    """What is within reach of the agent once some doors are unlocked."""

    geometry: Geometry
    region: Board
    """Where the agent, or an object it carries, can be."""
    movable: Counter[int]
    """How many objects of each kind and colour are within reach."""
    doors: dict[int, Board]
    """Doors that can be faced: where they are, by the states they can be in."""
    fixed_pairs: tuple[tuple[tuple[int, int], Poses], ...]
    """Kinds and colours of neighbours that are out of reach, and the poses from which they are seen."""
    openable: tuple[int, ...]
    """Cells of locked doors that can be unlocked next."""

    def doors_like(self, codes: Codes) -> Board:
        """Where doors are that can be in one of some states."""
        return join(self.doors[code] for code in codes if code in self.doors)


def reachable(scene: Scene, agent: int, unlocked: Board) -> Reachable:
    """What is within reach once the doors in these cells, locked at first, are unlocked."""
    geometry, cells = scene.geometry, scene.cells
    locked = scene.board(LOCKED_CODES) & ~unlocked
    region = geometry.flood(1 << agent, scene.floor & ~locked)
    movable = Counter(code for i, code in cells.items() if (region >> i) & 1 and code in MOVABLE_CODES)
    movable.update([scene.carrying] * (scene.carrying != NOTHING))
    beside = geometry.around(region)
    doors: dict[int, Board] = {}
    for index in bits(scene.board(DOOR_CODES) & (region | beside)):
        code = cells[index]
        stays_locked = (locked >> index) & 1
        for state in {code} if stays_locked else {cell(DOOR_CLOSED, code & 7), cell(DOOR_OPEN, code & 7)}:
            doors[state] = doors.get(state, 0) | 1 << index
    far = scene.board(MOVABLE_CODES) & ~region
    fixed_pairs = (
        ((cells[one], cells[other]), intersect(geometry.seeing_both(one, other), (region,) * 4))
        for one, other in scene.pairs(far, far | scene.board(DOOR_CODES))
    )
    return Reachable(
        geometry=geometry,
        region=region,
        movable=movable,
        doors=doors,
        fixed_pairs=tuple((pair, poses) for pair, poses in fixed_pairs if any(poses)),
        openable=tuple(i for i in bits(locked & beside) if cell(KEY, cells[i] & 7) in movable),
    )


def satisfiable(within: Reachable, literals: Iterable[int]) -> bool:
    """False only if no play can make a guard hold.

    There is one cell ahead and one pair of hands: all that is said about either must fit a single object, and what is
    carried lies nowhere. No pair is both required and forbidden.
    """
    must = [meaning(x - 1) for x in literals if x > 0]
    must_not = [meaning(-x - 1) for x in literals if x < 0]

    def candidates(where: int) -> Codes | None:
        """What the object ahead, or in hand, can be; None if nothing is asked about it."""
        wanted = [codes for location, codes, _ in must if location == where]
        unwanted = [codes for location, codes, _ in must_not if location == where]
        return frozenset.intersection(*wanted).difference(*unwanted) if wanted else None

    ahead, carried = candidates(FRONT), candidates(CARRYING)
    pairs, forbidden = ([(a, b) for where, a, b in said if where == NEXT] for said in (must, must_not))
    if carried is None:
        return _can_lie(within, ahead, pairs, forbidden)
    return any(
        _can_lie(within._replace(movable=within.movable - Counter([code])), ahead, pairs, forbidden)
        for code in carried
        if code in within.movable
    )


Pair = tuple[Codes, Codes]
"""What each of two neighbours may be."""


def _can_lie(within: Reachable, ahead: Codes | None, pairs: list[Pair], forbidden: list[Pair]) -> bool:
    """Whether one pose may have such an object ahead and see all the pairs."""
    poses: Poses = (within.region,) * 4
    if ahead is not None and not any(code in within.movable for code in ahead):
        poses = intersect(poses, within.geometry.facing(within.doors_like(ahead)))
    for pair in pairs:
        poses = intersect(poses, _may_see(within, pair, forbidden))
    if not any(poses):
        return False
    # What must be beside a door within reach: an object, or the agent itself (no codes). All need room at once.
    at_doors = [
        pair
        for pair in pairs
        if pair[1] <= DOOR_CODES and not any(_matches(fixed, pair) for fixed, _ in within.fixed_pairs)
    ]
    if ahead is not None and ahead <= DOOR_CODES:
        at_doors.append((frozenset(), ahead))
    return all(_have_room(within, one, other) for one, other in combinations(at_doors, 2))


def _may_see(within: Reachable, pair: Pair, forbidden: list[Pair]) -> Poses:
    """From where such neighbours may be seen: objects within reach anywhere, doors and all others where they are."""
    first, last = pair
    at_doors = 0
    for one in first & within.movable.keys():
        for other in last:
            if not any(_matches((one, other), wrong) for wrong in forbidden):
                if within.movable[other] > (one == other):
                    return (within.region,) * 4
                at_doors |= within.doors.get(other, 0)
    poses = within.geometry.seeing(at_doors)
    for fixed, seeing in within.fixed_pairs:
        if _matches(fixed, pair) and not any(_matches(fixed, wrong) for wrong in forbidden):
            poses = union(poses, seeing)
    return poses


def _matches(found: tuple[int, int], pair: Pair) -> bool:
    one, other = found
    return (one in pair[0] and other in pair[1]) or (other in pair[0] and one in pair[1])


def _have_room(within: Reachable, one: Pair, other: Pair) -> bool:
    """Whether two things can be beside their doors at once: in two cells, or as one object in one."""
    around, have = within.geometry.around, within.movable
    doors, other_doors = within.doors_like(one[1]), within.doors_like(other[1])
    two_cells = ((around(doors) | around(other_doors)) & within.region).bit_count() > 1
    if not (one[0] and other[0]):
        return two_cells
    if two_cells and any(have[b] > (a == b) for a in one[0] if a in have for b in other[0]):
        return True
    return any(code in have for code in one[0] & other[0]) and any(
        around(1 << a) & around(1 << b) & within.region
        for a in bits(doors)
        for b in bits(other_doors)
        if a != b or one[1] & other[1]
    )


AbstractState = tuple[int, Board]
"""A task state, and the cells of the doors that were unlocked so far."""
LOST: Final = 1 << 30
"""The distance of states from which acceptance is out of reach."""


class AbstractProduct:
    """The product of task states and sets of unlocked doors, with every edge that is not ruled out.

    A task state from which no path leads to acceptance in here is lost for certain.
    """

    def __init__(self, scene: Scene, machine: Machine, start: ProductState) -> None:
        self.scene, self.machine = scene, machine
        self._agent = start.cell
        self._locked = scene.board(LOCKED_CODES)
        self._within: dict[Board, Reachable] = {}
        self._allowed: dict[tuple[Board, tuple[int, ...]], bool] = {}
        self.entered_from: dict[AbstractState, list[AbstractState]] = {(start.u, 0): []}
        """The states that paths lead to, each with those it is entered from."""
        for state in (todo := [(start.u, 0)]):
            u, unlocked = state
            after = [(edge.target, unlocked) for edge in machine.leaving[u] if self.allows(edge, unlocked)]
            if machine.outcomes[u] == RUNNING:
                after += [(u, unlocked | 1 << door) for door in self.within(unlocked).openable]
            for successor in after:
                if successor not in self.entered_from:
                    self.entered_from[successor] = []
                    todo.append(successor)
                self.entered_from[successor].append(state)
        goals = [state for state in todo if machine.outcomes[state[0]] == ACCEPTED]
        self.distances = dict.fromkeys(goals, 0)
        """Fewest transitions to acceptance, of every state that is not lost; unlocking is free."""
        queue = deque(goals)
        while queue:
            state = queue.popleft()
            for before in self.entered_from[state]:
                step = int(before[0] != state[0])
                if self.distances[state] + step < self.distances.get(before, LOST):
                    self.distances[before] = self.distances[state] + step
                    (queue.append if step else queue.appendleft)(before)

    def distance(self, u: int, scene: Scene) -> int:
        """Fewest transitions to acceptance from a task state in a scene; LOST if there is no way."""
        return self.distances.get((u, self._locked & ~scene.board(LOCKED_CODES)), LOST)

    def within(self, unlocked: Board) -> Reachable:
        """What is within reach once these doors are unlocked."""
        found = self._within.get(unlocked)
        if found is None:
            found = self._within[unlocked] = reachable(self.scene, self._agent, unlocked)
        return found

    def allows(self, edge: Edge, unlocked: Board) -> bool:
        """Whether the guard of an edge is not ruled out."""
        found = self._allowed.get((unlocked, edge.literals))
        if found is None:
            found = satisfiable(self.within(unlocked), edge.literals)
            self._allowed[unlocked, edge.literals] = found
        return found


# The reason, as a sentence

MOST_CAUSES: Final = 3
"""How many of several causes are given."""


def why_unsolvable(product: AbstractProduct) -> str:
    """What keeps every play from acceptance."""
    machine = product.machine
    unlocked: dict[int, list[Board]] = {}
    for u, doors in product.entered_from:
        unlocked.setdefault(u, []).append(doors)
    useful = {u for u, outcome in enumerate(machine.outcomes) if outcome == ACCEPTED}
    while more := {edge.source for edge in machine.edges if edge.target in useful} - useful:
        useful |= more
    causes = dict.fromkeys(
        _why_never(product, edge, unlocked[u])
        for u in sorted(unlocked)
        for edge in machine.leaving[u]
        if edge.target in useful and not any(product.allows(edge, doors) for doors in unlocked[u])
    )
    if not causes:
        return "no path of the task leads to acceptance"
    rest = f"; and {len(causes) - MOST_CAUSES} more" if len(causes) > MOST_CAUSES else ""
    return "; ".join(list(causes)[:MOST_CAUSES]) + rest


def _why_never(product: AbstractProduct, edge: Edge, unlocked: Iterable[Board]) -> str:
    """Why the guard of an edge can never hold."""
    reach = [product.within(doors) for doors in unlocked]
    for prop in (x - 1 for x in edge.literals if x > 0):
        if not any(satisfiable(within, (prop + 1,)) for within in reach):
            return f"{NAMES[prop]} can never hold in u{edge.source}: {_what_is_missing(product.scene, prop, reach)}"
    literals = sorted(edge.literals, key=lambda x: x < 0)
    words = [NAMES[x - 1] if x > 0 else f"not {NAMES[-x - 1]}" for x in literals]
    return f"in u{edge.source} it can never be that {' and '.join(words)}"


def _what_is_missing(scene: Scene, prop: int, reach: list[Reachable]) -> str:
    things = PROPOSITIONS[prop].objects
    for thing in things:
        # A door's state may change.
        codes = codes_of(thing if thing.type != DOOR_TYPE else thing._replace(state=ANY_STATE))
        if not scene.board(codes) and scene.carrying not in codes:
            return f"there is no {_spoken(thing._replace(state=ANY_STATE))}"
    for thing in things:
        if not any(code in within.movable or code in within.doors for within in reach for code in codes_of(thing)):
            return _out_of_reach(scene, thing)
    if len(things) == 2 and all(thing.type != DOOR_TYPE for thing in things):
        one = things[0] == things[1]
        return f"there is only one {_spoken(things[0])}" if one else "no two such objects can be reached"
    return "the two can never be seen side by side"


def _out_of_reach(scene: Scene, thing: Descriptor) -> str:
    if thing.type != DOOR_TYPE or thing.state == ANY_STATE:
        return f"no {_spoken(thing)} can be reached"
    door = _spoken(thing._replace(state=ANY_STATE))
    if DOOR_STATES[thing.state] == "locked":
        locked = scene.board(codes_of(thing)) != 0
        return f"no {door} is within reach while it is still locked" if locked else f"no {door} is locked"
    unlocked = [codes_of(thing._replace(state=DOOR_STATES.index(state))) for state in ("closed", "open")]
    return f"no {door} can be {'reached' if any(map(scene.board, unlocked)) else 'unlocked'}"


def _spoken(thing: Descriptor) -> str:
    return " ".join((*thing.attributes[::-1], thing.name.split("_")[0]))


# Fewest steps
#
# In the relaxed world objects do not block. Doors are open, except locked ones until a key of that colour is held.
# Whatever the agent has once picked up counts as available anywhere. What remains is that it must turn and walk to face
# (and pick up) the objects that guards ask for, see both of two neighbours at some time, and look at doors where they
# are. The shortest play there is a bound on every play in the real world.

MOST_LANDMARKS: Final = 6
"""How many landmarks are tracked; dropping the others only lowers the bound."""


class Landmark(NamedTuple):
    """Something that must happen, at some time, before a proposition can hold. One of two things is enough."""

    seen: Poses
    """Being in one of these poses,"""
    picked: Poses
    """or picking up what is ahead in one of these."""


class _Relaxation:
    """The relaxed world of one problem."""

    def __init__(self, product: AbstractProduct) -> None:
        self.scene = scene = product.scene
        self.region = join(product.within(unlocked).region for _, unlocked in product.entered_from)
        self.landmarks: list[Landmark] = []
        alive = {u for u, _ in product.distances}
        self.edges = {
            u: [(e.target, *self._relax(e.literals)) for e in product.machine.leaving[u] if e.target in alive]
            for u in sorted(alive)
        }
        """The edges out of each task state: target, landmarks that must be met (as bits), poses."""
        self.locks = [
            (board, self._bit(Landmark(NO_POSES, scene.geometry.facing(scene.board((cell(KEY, colour),))))))
            for colour, code in enumerate(LOCKED_CODES)
            if (board := scene.board((code,)) & self.region) and scene.carrying != cell(KEY, colour)
        ]
        """Locked doors of each colour, and the landmark (as a bit) that opens them."""

    def _bit(self, landmark: Landmark) -> int:
        if landmark not in self.landmarks:
            if len(self.landmarks) == MOST_LANDMARKS:
                return 0
            self.landmarks.append(landmark)
        return 1 << self.landmarks.index(landmark)

    def _relax(self, literals: Iterable[int]) -> tuple[int, Poses]:
        """The landmarks of a guard as bits, and the poses in which it may hold."""
        scene, geometry = self.scene, self.scene.geometry
        needs, poses = 0, (self.region,) * 4
        for location, first, last in (meaning(x - 1) for x in literals if x > 0):
            doors = frozenset(code for code in DOOR_CODES if any(code & 7 == door & 7 for door in last & DOOR_CODES))
            if doors:  # they stay where they are, in one state or another
                board = scene.board(doors)
                poses = intersect(poses, geometry.facing(board) if location == FRONT else geometry.seeing(board))
            things = [scene.board(codes & MOVABLE_CODES) for codes in (first, last) if codes & MOVABLE_CODES]
            if not things or scene.carrying in first | last:
                continue
            facing = geometry.facing(join(things))
            if location == FRONT:
                needs |= self._bit(Landmark(facing, NO_POSES))
            elif location == CARRYING:
                needs |= self._bit(Landmark(NO_POSES, facing))
            else:
                lie_together = scene.seeing_pairs(scene.board(first), scene.board(last | doors))
                needs |= self._bit(Landmark(lie_together, facing))
                for board in things:
                    needs |= self._bit(Landmark(geometry.seeing(board), NO_POSES))
        return needs, poses

    def free(self, met: int) -> Board:
        """Where the agent can walk, given the landmarks that are met."""
        return self.region & ~join(board for board, bit in self.locks if bit & ~met)

    def meet(self, layer: dict[tuple[int, int], Poses]) -> None:
        """Note the landmarks that are met in some poses. Having met more is never worse, so only that is kept."""
        for number, landmark in enumerate(self.landmarks):
            for (u, met), poses in list(layer.items()):
                if not met >> number & 1:
                    add(layer, (u, met | 1 << number), intersect(poses, landmark.seen))
                    layer[u, met] = minus(poses, landmark.seen)


def lower_bound(product: AbstractProduct, start: ProductState) -> int:
    """Fewest steps to acceptance in the relaxed world: a breadth-first search over task state, landmarks and pose."""
    world = _Relaxation(product)
    layer = {(start.u, 0): start.poses}
    world.meet(layer)
    seen = dict(layer)
    steps = 0
    while not any(product.machine.outcomes[u] == ACCEPTED for u, _ in layer):
        steps += 1
        after: dict[tuple[int, int], Poses] = {}
        for (u, met), poses in layer.items():
            add(after, (u, met), product.scene.geometry.step(poses, world.free(met)))
            for number, landmark in enumerate(world.landmarks):
                add(after, (u, met | 1 << number), intersect(poses, landmark.picked))
        world.meet(after)
        for (u, met), poses in list(after.items()):
            for target, needs, where in world.edges.get(u, ()):
                if needs & ~met == 0:
                    add(after, (target, met), intersect(poses, where))
        layer = {}
        for (u, met), poses in after.items():
            for (v, more), before in seen.items():
                if u == v and met & ~more == 0:
                    poses = minus(poses, before)
            add(layer, (u, met), poses)
        for state, poses in layer.items():
            add(seen, state, poses)
        if not layer:
            raise AssertionError("a problem that is not ruled out must be possible in the relaxed world")
    return steps
