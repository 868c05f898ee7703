"""What every level and every task must obey, in plain numpy: laws that many tests share."""

import numpy as np

from atlas.config import DomainConfig
from atlas.domains.minigrid.grid import (
    CELL_NAMES,
    DOOR_OPEN,
    DOORS,
    FLOOR,
    FLOOR_CELL,
    MOVABLE,
    NOTHING,
    OUTSIDE_CELL,
    Level,
)
from atlas.domains.minigrid.layouts import FREE_FORM, ROOM_GRID, blank, door_places, object_limits, size_of


def count_objects(level: Level) -> int:
    """Objects in the grid, doors included."""
    return int(np.isin(np.asarray(level.cells) >> 3, MOVABLE + DOORS).sum())


def level_rules(level: Level, config: DomainConfig) -> None:
    """A level as the sampler, the edits and hindsight may make it."""
    cells, rooms = np.asarray(level.cells), int(level.rooms)
    assert set(np.unique(cells)) <= set(CELL_NAMES)
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
