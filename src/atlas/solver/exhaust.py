"""Try everything: every object picked up and put down everywhere, every door toggled, until nothing new comes up.

Only small problems come to an end within the budget, but for those the answer is certain. A node is an arrangement of
objects with all the ways to stand that were new when it came up, so walking costs no nodes.
"""

import functools
import operator
from collections import deque
from dataclasses import dataclass
from typing import Final, Literal

from atlas.domains.minigrid.board import NOWHERE, Board, Facing, bits, join, less, meet, places
from atlas.domains.minigrid.grid import NOTHING, PICK_UP, PUT_DOWN, TOGGLE
from atlas.domains.minigrid.scene import DOOR_CODES, MOVABLE_CODES, Scene
from atlas.solver.outlook import LOST, Outlook
from atlas.solver.roam import Layer, Leads, Roam, Stand, single
from atlas.vocabulary import ACCEPTED

HOPELESS: Final = 20
"""How many times more arrangements than the budget are too many to begin with."""


@dataclass(slots=True)
class Arrangement:
    """A scene, what is within walking distance in it, and how it came about."""

    scene: Scene
    roam: Roam
    parent: "Arrangement | None"
    action: int
    """The deed that led here from the parent."""

    def plan_to(self, steps: int, goal: Stand) -> list[int]:
        """All actions from the start to a stand that is reached here after so many steps."""
        actions, entry = self.roam.trace(steps, goal)
        if self.parent is None:
            return actions
        before, taken = self.parent.roam, Leads(self.scene, self.roam.leads.machine)
        for u in before.seen:
            stand = entry._replace(u=u)
            if taken.after(stand) == entry.u and (reached := before.nearest(u, single(stand))):
                return [*self.parent.plan_to(*reached), self.action, *actions]
        raise AssertionError("an arrangement does not follow from its parent")


Possibility = tuple[Scene, Layer, Arrangement | None, int]
"""A scene, the ways to stand in which it is entered, where it comes from and by which deed."""


def exhaust(
    outlook: Outlook, scene: Scene, start: Stand, step_limit: int, budget: int
) -> list[int] | Literal["impossible"] | None:
    """A plan, or the certainty that there is none of any length, or None if the budget did not suffice."""
    if _count(scene, outlook) > HOPELESS * budget:
        return None
    seen: dict[tuple[object, int], Facing] = {}
    todo: deque[Possibility] = deque([(scene, {start.u: single(start)}, None, 0)])
    accepting = frozenset(u for u, outcome in enumerate(outlook.machine.outcome) if outcome == ACCEPTED)
    is_over = True
    while todo and budget > 0:
        here, layer, parent, action = todo.popleft()
        fresh = _unseen(seen, here, layer)
        if not fresh:
            continue
        budget -= 1
        lost = frozenset(u for u in range(len(outlook.machine.outcome)) if outlook.distance(u, here) >= LOST)
        node = Arrangement(here, Roam(Leads(here, outlook.machine), fresh, lost, accepting), parent, action)
        if node.roam.goal is not None:
            plan = node.plan_to(len(node.roam.layers) - 1, node.roam.goal)
            if len(plan) <= step_limit:
                return plan
            is_over = False
            continue
        for u in node.roam.seen:
            seen[here.key, u] = join(node.roam.standing(u), seen.get((here.key, u), NOWHERE))
        todo.extend(_deeds(outlook, node, lost))
    return "impossible" if is_over and not todo else None


def _count(scene: Scene, outlook: Outlook) -> int:
    """Roughly how many arrangements there are."""
    within = outlook.within(functools.reduce(operator.or_, (unlocked for _, unlocked in outlook.stages)))
    doors = (scene.board(DOOR_CODES) & (within.region | scene.geometry.around(within.region))).bit_count()
    return within.region.bit_count() ** sum(within.movable.values()) * 2**doors


def _unseen(seen: dict[tuple[object, int], Facing], scene: Scene, layer: Layer) -> Layer:
    """The ways to stand that did not come up before in the same arrangement."""
    new = {u: less(standing, seen.get((scene.key, u), NOWHERE)) for u, standing in layer.items()}
    return {u: standing for u, standing in new.items() if any(standing)}


def _deeds(outlook: Outlook, node: Arrangement, lost: frozenset[int]) -> list[Possibility]:
    """Everything that can be done with a cell ahead."""
    found: list[Possibility] = []
    for action, board in _targets(node.scene):
        for cell in bits(board):
            facing = node.scene.geometry.facing(1 << cell)
            layer = {u: meet(node.roam.standing(u), facing) for u in node.roam.seen}
            if not any(places(standing) for standing in layer.values()):
                continue
            scene = node.scene.act(action, cell)
            if scene is not None:
                after = Leads(scene, outlook.machine).settle(layer)
                kept = {u: standing for u, standing in after.items() if outlook.distance(u, scene) < LOST}
                found.append((scene, kept, node, action))
    return found


def _targets(scene: Scene) -> list[tuple[int, Board]]:
    hands = (PICK_UP, scene.board(MOVABLE_CODES)) if scene.carrying == NOTHING else (PUT_DOWN, scene.plain)
    return [hands, (TOGGLE, scene.board(DOOR_CODES))]
