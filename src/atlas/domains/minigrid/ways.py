"""What stands in the way: the objects and doors that have to go first on the cheapest ways to a place."""

from functools import cached_property
from heapq import heappop, heappush
from typing import Final

from atlas.domains.minigrid.board import Board, bits
from atlas.domains.minigrid.grid import KEY, cell
from atlas.domains.minigrid.scene import CLOSED_CODES, LOCKED_CODES, Scene

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
