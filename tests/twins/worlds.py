"""The world in plain Python, and every play in it: the true state space, searched to its end.

Slow and obvious; shares nothing with atlas. Cells are names, positions (row, column), a task is a list of edges
(source, target, positive names, negative names) that are tried in order, with sets of accepting and rejecting states.
"""

import functools
from collections import deque
from typing import NamedTuple

from twins import labels

STEPS = [(-1, 0), (0, 1), (1, 0), (0, -1)]
MOVABLE = ("ball", "square", "key")


class World(NamedTuple):
    """One moment, without the task."""

    grid: tuple[tuple[str, ...], ...]
    position: tuple[int, int]
    direction: int
    carrying: str | None


class Task(NamedTuple):
    edges: list[tuple[int, int, list[str], list[str]]]
    accepting: set[int]
    rejecting: set[int]


@functools.cache
def step(world: World, action: int) -> World:
    """0 forward, 1 right, 2 left, 3 pick up, 4 put down, 5 toggle."""
    row, column = (a + b for a, b in zip(world.position, STEPS[world.direction], strict=True))
    inside = 0 <= row < len(world.grid) and 0 <= column < len(world.grid[0])
    ahead = world.grid[row][column] if inside else "outside"
    kind, *rest = ahead.split("_")
    if action == 0 and (ahead == "floor" or ahead.endswith("_open")):
        return world._replace(position=(row, column))
    if action in (1, 2):
        return world._replace(direction=(world.direction + (1 if action == 1 else -1)) % 4)
    if action == 3 and kind in MOVABLE and world.carrying is None:
        return _put(world, row, column, "floor")._replace(carrying=ahead)
    if action == 4 and world.carrying and ahead == "floor":
        return _put(world, row, column, world.carrying)._replace(carrying=None)
    if action == 5 and kind == "door":
        colour, state = rest
        if state == "locked" and world.carrying != f"key_{colour}":
            return world
        return _put(world, row, column, f"door_{colour}_{'closed' if state == 'open' else 'open'}")
    return world


def _put(world: World, row: int, column: int, thing: str) -> World:
    rows = [list(line) for line in world.grid]
    rows[row][column] = thing
    return world._replace(grid=tuple(map(tuple, rows)))


@functools.cache
def label(world: World) -> frozenset[str]:
    """What holds now."""
    return frozenset(labels.label(labels.view(world.grid, world.position, world.direction, world.carrying)))


def follow(task: Task, u: int, world: World) -> int:
    """The task state after what is seen now."""
    if u in task.accepting or u in task.rejecting:
        return u
    seen = label(world)
    for source, target, positive, negative in task.edges:
        if source == u and seen.issuperset(positive) and not seen.intersection(negative):
            return target
    return u


def everything_seen(world: World) -> set[str]:
    """All propositions that hold in some moment of some play."""
    seen, todo = {world}, [world]
    for here in todo:
        fresh = {step(here, action) for action in range(6)} - seen
        seen |= fresh
        todo += fresh
    return set().union(*map(label, seen))


def shortest(world: World, task: Task) -> int | None:
    """How many steps the shortest plan takes, by trying everything; None if there is no plan of any length."""
    start = (world, follow(task, 0, world))
    steps = {start: 0}
    todo = deque([start])
    while todo:
        world, u = moment = todo.popleft()
        if u in task.accepting:
            return steps[moment]
        if u in task.rejecting:
            continue
        for action in range(6):
            there = step(world, action)
            after = (there, follow(task, u, there))
            if after not in steps:
                steps[after] = steps[moment] + 1
                todo.append(after)
    return None


def accepts(world: World, task: Task, plan: list[int]) -> bool:
    """Whether a plan ends with the task accepted, and not before its last step."""
    u = follow(task, 0, world)
    for action in plan:
        if u in task.accepting:
            return False
        world = step(world, action)
        u = follow(task, u, world)
    return u in task.accepting
