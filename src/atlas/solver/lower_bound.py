"""Fewest steps that any plan must take, by making everything easier than it is.

Here objects block no way, doors stand open unless they are locked and no key of their colour was ever picked up, and
what the agent has once come by it may have anywhere. What remains is that it must turn and walk to face (and pick up)
the objects its guards ask for, see both of two neighbours at some time, and look at doors where they are. The shortest
play in that easier world is a bound on every play in the real one.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from atlas.domains.minigrid.alphabet import CARRYING, FRONT
from atlas.domains.minigrid.board import NOWHERE, Board, Facing, join, less, meet
from atlas.domains.minigrid.grid import KEY, cell
from atlas.domains.minigrid.scene import DOOR_CODES, LOCKED_CODES, MOVABLE_CODES, Scene, meaning
from atlas.solver.machine import Edge, Machine
from atlas.solver.outlook import Outlook
from atlas.solver.roam import Stand, single
from atlas.vocabulary import ACCEPTED

MOST_NEEDS: Final = 6
"""How many needs are remembered; what goes beyond is waived, which only lowers the bound."""


class Need(NamedTuple):
    """What has to happen, at some time, before a proposition can hold."""

    seen: Facing
    """It is enough to have stood like this,"""
    grasped: Facing
    """or to have stood like this and picked up what is ahead."""


class Ease(NamedTuple):
    """An edge in the easier world."""

    target: int
    needs: int
    """Which needs must be met, as bits."""
    now: Facing
    """Where the agent must stand."""


class _Easier:
    """The easier world of one problem."""

    def __init__(self, scene: Scene, machine: Machine, outlook: Outlook) -> None:
        self.scene = scene
        self.open: Board = 0
        for _, unlocked in outlook.stages:
            self.open |= outlook.within(unlocked).region
        self.needs: list[Need] = []
        self._free: dict[int, Board] = {}
        alive = {u for u, _ in outlook.winning}
        self.edges = {
            u: [self._ease(edge) for edge in machine.edges[u] if edge.target in alive]
            for u in sorted(alive)
            if machine.is_running(u)
        }
        self._locks = [
            (board, self._bit(self._key(colour)))
            for colour, code in enumerate(LOCKED_CODES)
            if (board := scene.board((code,)) & self.open) and scene.carrying != cell(KEY, colour)
        ]
        self.goals = frozenset(u for u, outcome in enumerate(machine.outcome) if outcome == ACCEPTED)

    def _seeing_neighbours(self, first: frozenset[int], last: frozenset[int]) -> Facing:
        """Where two are seen that lie side by side from the start; a door may be in any state by then."""
        colours = {code & 7 for code in last & DOOR_CODES}
        others = last | {code for code in DOOR_CODES if code & 7 in colours}
        return self.scene.seeing_pairs(self.scene.board(first), self.scene.board(others))

    def _key(self, colour: int) -> Need:
        return Need(NOWHERE, self.scene.geometry.facing(self.scene.board((cell(KEY, colour),))))

    def free(self, met: int) -> Board:
        """Where the agent can walk, given the needs that are met."""
        found = self._free.get(met)
        if found is None:
            closed = sum(board for board, bit in self._locks if bit & ~met)
            found = self._free[met] = self.open & ~closed
        return found

    def _ease(self, edge: Edge) -> Ease:
        now: Facing = (self.open,) * 4
        needs = 0
        for prop in edge.positive:
            now = meet(now, self._now(prop))
            for need in self._find(prop):
                needs |= self._bit(need)
        return Ease(edge.target, needs, now)

    def _now(self, prop: int) -> Facing:
        """Where the agent must stand when a proposition holds: doors stay where they are."""
        location, _, last = meaning(prop)
        doors = {code & 7 for code in last if code in DOOR_CODES}
        if not doors:
            return (self.open,) * 4
        board = sum(1 << i for i, code in self.scene.cells.items() if code in DOOR_CODES and code & 7 in doors)
        return self.scene.geometry.facing(board) if location == FRONT else self.scene.geometry.seeing(board)

    def _bit(self, need: Need) -> int:
        if need not in self.needs:
            if len(self.needs) == MOST_NEEDS:
                return 0
            self.needs.append(need)
        return 1 << self.needs.index(need)

    def _find(self, prop: int) -> Iterator[Need]:
        """What must have happened before a proposition can hold."""
        location, first, last = meaning(prop)
        things = [self.scene.board(codes & MOVABLE_CODES) for codes in (first, last) if codes & MOVABLE_CODES]
        if not things or self.scene.carrying in first | last:
            return
        facing = self.scene.geometry.facing(things[0] | things[-1])
        if location == FRONT:
            yield Need(facing, NOWHERE)
        else:
            yield Need(NOWHERE if location == CARRYING else self._seeing_neighbours(first, last), facing)
        if location not in (FRONT, CARRYING):
            yield from (Need(self.scene.geometry.seeing(board), NOWHERE) for board in things)


Place = tuple[int, int]
"""A task state and the needs that are met, as bits."""


def lower_bound(scene: Scene, start: Stand, machine: Machine, outlook: Outlook) -> int:
    """Fewest steps from a stand to acceptance in the easier world; 0 if the task is accepted already."""
    world = _Easier(scene, machine, outlook)
    layer = _meet_needs(world, {(start.u, 0): single(start)})
    seen = dict(layer)
    steps = 0
    while not any(u in world.goals for u, _ in layer):
        steps += 1
        layer = _fresh(_step(world, layer), seen)
        if not layer:
            raise AssertionError("a problem that is not ruled out must be easy in the easier world")
    return steps


def _step(world: _Easier, layer: dict[Place, Facing]) -> dict[Place, Facing]:
    """One action later: walked, turned, stayed or picked something up, and then perhaps moved on in the task."""
    after: dict[Place, Facing] = {}
    for (u, met), standing in layer.items():
        _add(after, (u, met), _moved(world.scene.geometry.stride, world.free(met), standing))
        for number, need in enumerate(world.needs):
            _add(after, (u, met | 1 << number), meet(standing, need.grasped))
    after = _meet_needs(world, after)
    for (u, met), standing in list(after.items()):
        for ease in world.edges.get(u, ()):
            if ease.needs & ~met == 0:
                _add(after, (ease.target, met), meet(standing, ease.now))
    return after


def _moved(stride: int, free: Board, standing: Facing) -> Facing:
    up, right, down, left = standing
    return (
        ((up >> stride) & free) | left | right | up,
        ((right << 1) & free) | up | down | right,
        ((down << stride) & free) | left | right | down,
        ((left >> 1) & free) | up | down | left,
    )


def _meet_needs(world: _Easier, layer: dict[Place, Facing]) -> dict[Place, Facing]:
    """Take note of needs that are met by standing there. Having met more is never worse, so only that is kept."""
    for number, need in enumerate(world.needs):
        for (u, met), standing in list(layer.items()):
            if not met >> number & 1:
                _add(layer, (u, met | 1 << number), meet(standing, need.seen))
                layer[u, met] = less(standing, need.seen)
    return layer


def _add(layer: dict[Place, Facing], place: Place, standing: Facing) -> None:
    if any(standing):
        layer[place] = join(layer[place], standing) if place in layer else standing


def _fresh(layer: dict[Place, Facing], seen: dict[Place, Facing]) -> dict[Place, Facing]:
    """What was not reached before, nor with more needs met."""
    result = {}
    for (u, met), standing in layer.items():
        for (v, more), before in seen.items():
            if u == v and met & ~more == 0:
                standing = less(standing, before)
        if any(standing):
            result[u, met] = standing
    for place, standing in result.items():
        _add(seen, place, standing)
    return result
