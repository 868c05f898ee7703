"""When two problems are alike: equal but for colours, mirroring and rotation.

Nothing in the world prefers a colour or a side, so such problems are one problem drawn twice.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from atlas.domains.minigrid import grid
from atlas.domains.minigrid.alphabet import PROPOSITIONS, Descriptor, Proposition
from atlas.domains.minigrid.grid import Level
from atlas.domains.minigrid.text import natural_cells
from atlas.tasks.machine import content_hash
from atlas.tasks.packed import pack, unpack
from atlas.types import Problem

Names = dict[int, int]
"""Colours by the order in which a drawing shows them: old -> new."""
_IDS = {(about.location, tuple(sorted(about.objects))): number for number, about in enumerate(PROPOSITIONS)}


def likeness(problem: Problem) -> tuple[str, str]:
    """A name for a problem that it shares with those alike, and practically with no other: of level and task."""
    carried = int(problem.level.carrying)
    drawings = [_relabelled(cells, agent, carried) for cells, agent in _turned(problem.level)]
    least = min(drawing for drawing, _ in drawings)
    tasks = {_task_name(pack(problem.task), names) for drawing, names in drawings if drawing == least}
    return least, min(tasks)


def _turned(level: Level) -> Iterator[tuple[np.ndarray, tuple[int, int, int]]]:
    """The cells and the agent's row, column and direction in all eight symmetries."""
    cells = natural_cells(level)
    agent = np.zeros(cells.shape, np.int8)
    agent[tuple(int(x) for x in level.position)] = 1
    for mirrored, turns in itertools.product((False, True), range(4)):
        direction = int(level.direction)
        picture, place = (np.fliplr(x) if mirrored else x for x in (cells, agent))
        direction = -direction if mirrored else direction
        picture, place = np.rot90(picture, turns), np.rot90(place, turns)
        row, column = np.argwhere(place)[0].tolist()
        yield picture, (row, column, (direction - turns) % len(grid.STEPS))


def _relabelled(cells: np.ndarray, agent: tuple[int, int, int], carried: int) -> tuple[str, Names]:
    """A drawing with colours numbered as they come, as text; and these numbers."""
    codes = [*cells.ravel().tolist(), carried]
    seen = dict.fromkeys(code % 8 for code in codes if code % 8 < grid.NO_COLOUR)
    names = {colour: number for number, colour in enumerate(seen)}
    renamed = bytes(code - code % 8 + names.get(code % 8, code % 8) for code in codes)
    return f"{cells.shape} {agent} {renamed.hex()}", names


def _task_name(task: Any, names: Names) -> str:
    """A name of a task in renamed colours; those that the level lacks may be named in any order."""
    used = {abs(int(literal)) - 1 for literal in np.unique(np.asarray(task.guard)) if literal}
    colours = {thing.colour for prop in used for thing in PROPOSITIONS[prop].objects} - {grid.NO_COLOUR}
    orders = itertools.permutations(sorted(colours - names.keys()))
    ways = [names | {colour: len(names) + n for n, colour in enumerate(order)} for order in orders]
    return min(content_hash(unpack(_renamed(task, used, way))) for way in ways)


def _renamed(task: Any, used: set[int], names: Names) -> Any:
    literal = np.arange(-len(PROPOSITIONS), len(PROPOSITIONS) + 1)
    for prop in used:
        number = 1 + _proposition(PROPOSITIONS[prop], names)
        literal[len(PROPOSITIONS) + 1 + prop], literal[len(PROPOSITIONS) - 1 - prop] = number, -number
    guard = np.asarray(task.guard)
    renamed = literal[guard.astype(int) + len(PROPOSITIONS)].astype(guard.dtype)
    return task.replace(guard=jax.device_put(renamed))


def _proposition(about: Proposition, names: Names) -> int:
    things = (Descriptor(x.type, names.get(x.colour, x.colour), x.state) for x in about.objects)
    return _IDS[about.location, tuple(sorted(things))]
