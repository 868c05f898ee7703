"""The table of layouts against the facts of the paper."""

import numpy as np
import pytest

from atlas.domains.minigrid.grid import (
    FLOOR_CELL,
    OUTSIDE_CELL,
    ROOM_GRID,
    WALL_CELL,
    blank,
    door_places,
    grid_shape,
    layouts,
    object_limits,
    size_of,
)
from atlas.domains.minigrid.settings import MinigridConfig, ObjectRanges
from atlas.settings import ConfigError

SIZES = {1: (7, 7), 2: (7, 13), 4: (13, 13), 6: (13, 19), 9: (19, 19)}
DOORS = {
    1: set(),
    2: {(3, 6)},
    4: {(6, 3), (6, 9), (3, 6), (9, 6)},
    6: {(6, 3), (6, 9), (6, 15), (3, 6), (9, 6), (3, 12), (9, 12)},
}
ONE_ROOM = """
#######
#.....#
#.....#
#.....#
#.....#
#.....#
#######
"""


@pytest.mark.parametrize("rooms", ROOM_GRID)
def test_sizes_and_doors(rooms):
    assert size_of(rooms) == SIZES[rooms]
    assert set(door_places(rooms)) == DOORS.get(rooms, set(door_places(rooms)))
    assert len(door_places(rooms)) == {1: 0, 2: 1, 4: 4, 6: 7, 9: 12}[rooms]


@pytest.mark.parametrize("rooms", ROOM_GRID)
def test_doors_lie_between_two_floors_of_different_rooms(rooms):
    cells = blank(rooms)
    for row, column in door_places(rooms):
        assert cells[row, column] == WALL_CELL
        across = [cells[row, column - 1], cells[row, column + 1]]
        along = [cells[row - 1, column], cells[row + 1, column]]
        assert sorted([across, along]) == sorted([[FLOOR_CELL] * 2, [WALL_CELL] * 2])


def test_one_room_is_walls_around_floor():
    drawn = [[WALL_CELL if c == "#" else FLOOR_CELL for c in line] for line in ONE_ROOM.split()]
    assert (blank(1) == np.array(drawn)).all()


def test_smaller_levels_sit_at_the_top_left():
    cells = blank(1, (13, 19))
    assert (cells[:7, :7] == blank(1)).all()
    assert (cells[7:] == OUTSIDE_CELL).all()
    assert (cells[:, 7:] == OUTSIDE_CELL).all()


def test_arrays_are_as_large_as_the_largest_level():
    assert grid_shape(MinigridConfig()) == (13, 19)
    assert grid_shape(MinigridConfig(rooms=(2, 1))) == (7, 13)
    assert grid_shape(MinigridConfig(rooms=(9,))) == (19, 19)


def test_tables_agree_with_the_functions():
    table = layouts(MinigridConfig())
    for rooms in (1, 2, 4, 6):
        assert (table.blank[rooms] == blank(rooms, table.shape)).all()
        cells = np.full(table.nowhere + 1, WALL_CELL)
        cells[table.floor[rooms]] = FLOOR_CELL
        rows, cols = size_of(rooms)
        assert (cells[:-1].reshape(table.shape)[:rows, :cols] == blank(rooms)).all()
        assert table.num_floor[rooms] == 25 * rooms
        assert table.num_doors[rooms] == len(door_places(rooms))
    assert table.most_movable == 13


def test_limits_are_those_of_the_settings():
    assert object_limits(MinigridConfig()) == {0: (1, 30), 1: (1, 5), 2: (1, 10), 4: (4, 15), 6: (7, 20), 9: (12, 30)}
    with pytest.raises(ConfigError, match="one_room"):
        ObjectRanges(one_room=(1, 25))
