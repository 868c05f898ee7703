"""Walking and turning only: every place and task state the agent can come to while it touches nothing.

All ways to stand are moved at once, one step a layer, as sets of cells; so the first layer in which something is
reached tells the fewest steps. The task moves with every step, exactly as in the world.
"""

from typing import NamedTuple

from atlas.domains.minigrid.board import NOWHERE, Board, Facing, join, less, meet, places
from atlas.domains.minigrid.grid import FORWARD, NOTHING, PICK_UP, PUT_DOWN, TURN_LEFT, TURN_RIGHT
from atlas.domains.minigrid.scene import Scene
from atlas.solver.machine import Machine

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
