"""What every level and every task must obey, in plain numpy: laws that many tests share."""

import itertools

import jax.numpy as jnp
import numpy as np

from atlas.domains.minigrid.grid import (
    CELL_NAMES,
    DOOR_OPEN,
    DOORS,
    FLOOR,
    FLOOR_CELL,
    FREE_FORM,
    MOVABLE,
    NOTHING,
    OUTSIDE_CELL,
    ROOM_GRID,
    Level,
    blank,
    door_places,
    object_limits,
    size_of,
)
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.tasks.machine import UNUSED, hierarchy
from atlas.tasks.packed import PackedTask, chains, unpack
from atlas.vocabulary import ACCEPTED, RUNNING


def count_objects(level: Level) -> int:
    """Objects in the grid, doors included."""
    return int(np.isin(np.asarray(level.cells) >> 3, MOVABLE + DOORS).sum())


def level_rules(level: Level, config: MinigridConfig) -> None:
    """A level as the sampler, the edits and hindsight may make it."""
    cells, rooms = np.asarray(level.cells), int(level.rooms)
    assert set(np.unique(cells)) <= set(CELL_NAMES)
    if rooms == FREE_FORM:
        assert config.walls
    else:
        assert rooms in config.rooms
        _follows_layout(cells, rooms)
    _agent_stands_well(level)
    least, most = object_limits(config)[rooms]
    carried = int(level.carrying) != NOTHING
    assert least - carried <= count_objects(level) <= most


def free_form_rules(level: Level) -> None:
    """A level that follows no layout."""
    assert int(level.rooms) == FREE_FORM
    assert set(np.unique(np.asarray(level.cells))) <= set(CELL_NAMES)
    _agent_stands_well(level)


def _follows_layout(cells: np.ndarray, rooms: int) -> None:
    """Walls, doors and "outside" are where the layout has them, and inside the rooms are only movables."""
    assert rooms in ROOM_GRID
    rows, cols = size_of(rooms)
    bare = blank(rooms, cells.shape)
    inside = bare == FLOOR_CELL
    assert np.isin(cells[inside] >> 3, (FLOOR, *MOVABLE)).all()
    doors = np.zeros_like(inside)
    for place in door_places(rooms):
        doors[place] = True
    assert np.isin(cells[doors] >> 3, DOORS).all()
    assert (cells[~inside & ~doors] == bare[~inside & ~doors]).all()
    assert (cells[rows:] == OUTSIDE_CELL).all()
    assert (cells[:, cols:] == OUTSIDE_CELL).all()


def _agent_stands_well(level: Level) -> None:
    row, column = np.asarray(level.position)
    kind = int(level.cells[row, column]) >> 3
    assert kind in (FLOOR, DOOR_OPEN)
    assert 0 <= int(level.direction) < 4
    assert int(level.carrying) == NOTHING or int(level.carrying) >> 3 in MOVABLE


def task_rules(task: PackedTask) -> None:
    """A task as samplers, edits and hindsight may make it: every machine that is called obeys the rules of one, the
    others are blank; callees begin with one plain edge; rewards are sparse."""
    target, guard, outcome = (np.asarray(x) for x in (task.target, task.guard, task.outcome))
    call = np.full_like(target, UNUSED) if task.call is None else np.asarray(task.call)
    root = 0 if task.root is None else int(task.root)
    called = [root]
    for machine in called:
        called += sorted({int(c) for c in call[machine].ravel() if c != UNUSED} - {*called})
    for machine in range(target.shape[0]):
        if machine not in called:
            assert (target[machine] == UNUSED).all()
            assert (outcome[machine] == RUNNING).all()
            continue
        used = body_rules(target[machine], guard[machine], outcome[machine])
        siblings_differ(target[machine], guard[machine])
        assert ACCEPTED in outcome[machine][:used]
        if machine != root:
            assert (target[machine, 0] != UNUSED).sum() == 1
            assert (call[machine, 0] == UNUSED).all()
    ends = (target[root] != UNUSED) & (outcome[root][target[root]] == ACCEPTED)
    assert (np.asarray(task.reward[root]) == ends).all(), "sparse"
    assert np.asarray(task.reward).sum() == ends.sum()
    assert (call[target == UNUSED] == UNUSED).all()
    if task.chain is not None:
        hierarchy(unpack(task).machines, root)
        assert (task.chain == chains(jnp.asarray(target), jnp.asarray(call), *task.chain.shape[-2:])).all()


def body_rules(target: np.ndarray, guard: np.ndarray, outcome: np.ndarray) -> int:
    """One machine: states without gaps, all reached from the first, terminal ones without edges. How many there are."""
    reached, todo = {0}, [0]
    for u in todo:
        new = {int(t) for t in target[u] if t != UNUSED} - reached
        reached |= new
        todo += sorted(new)
    used = len(reached)
    assert reached == set(range(used)), "no gaps"
    assert (target[used:] == UNUSED).all()
    assert (outcome[used:] == RUNNING).all()
    assert (guard[target == UNUSED] == 0).all(), "empty slots are empty"
    assert (target[outcome != RUNNING] == UNUSED).all(), "the end is the end"
    assert outcome[0] == RUNNING
    assert ((target == UNUSED) | (target < used)).all()
    return used


def siblings_differ(target: np.ndarray, guard: np.ndarray) -> None:
    """Two edges out of one state exclude each other by a literal and its negation."""
    for u in range(target.shape[0]):
        edges = [set(guard[u, e][guard[u, e] != 0].tolist()) for e in range(target.shape[1]) if target[u, e] != UNUSED]
        for one, other in itertools.combinations(edges, 2):
            assert one & {-literal for literal in other}, (u, edges)
