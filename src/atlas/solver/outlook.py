"""What a task can still become: the product of task states and sets of unlocked doors, with everything allowed that the
world might allow. A task state from which no path here leads to acceptance is lost for certain.
"""

from collections import deque
from typing import Final

from atlas.domains.minigrid import bounds
from atlas.domains.minigrid.board import Board
from atlas.domains.minigrid.bounds import Reachable
from atlas.domains.minigrid.scene import LOCKED_CODES, Scene
from atlas.solver.machine import Edge, Machine
from atlas.vocabulary import ACCEPTED

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
            found = self._within[unlocked] = bounds.reachable(self.scene, self._agent, unlocked)
        return found

    def allows(self, edge: Edge, unlocked: Board) -> bool:
        """Whether the guard of an edge is not ruled out."""
        found = self._allowed.get((unlocked, edge))
        if found is None:
            found = bounds.satisfiable(self.within(unlocked), edge.positive, edge.negative)
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
