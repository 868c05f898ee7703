"""The search for a plan: walk freely, then do one thing with the cell ahead, and again.

A node is a moment in which the agent has just changed something. All walking from there is explored at once (`roam`),
the domain says which deeds might help (`means`), and the best-looking chain of deeds is followed first. Task states
that the outlook has given up are never entered.
"""

from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Final, NamedTuple

from atlas.domains.minigrid.means import Deed, Means
from atlas.domains.minigrid.scene import Scene
from atlas.solver.outlook import LOST, Outlook
from atlas.solver.roam import Leads, Roam, Stand, single
from atlas.vocabulary import ACCEPTED


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
