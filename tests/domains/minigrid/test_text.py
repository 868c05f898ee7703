"""Levels as text: exact round trips, and sentences for what cannot be read."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas.domains.minigrid import grid, text
from atlas.errors import AtlasError

DRAWING = """
    ##########################
    ##..or......##..........##
    ##......^.......xp......##
    ##..........-b......sg..##
    ##..kb......##....+y....##
    ##..........##......ka..##
    ##########################
    carrying: blue key
"""


@st.composite
def levels(draw: st.DrawFn) -> grid.Level:
    """Any level that obeys the bounds, free-form mostly."""
    rows, cols = draw(st.integers(1, 19)), draw(st.integers(1, 19))
    plain = st.sampled_from([grid.FLOOR_CELL, grid.WALL_CELL, grid.OUTSIDE_CELL])
    cells = np.array(draw(st.lists(plain, min_size=rows * cols, max_size=rows * cols)), np.uint8)
    doors = [c for c in grid.CELL_NAMES if c >> 3 in grid.DOORS]
    things = [c for c in grid.CELL_NAMES if c >> 3 in grid.MOVABLE]
    for kinds, most in ((doors, 12), (things, 18)):
        for place, code in draw(
            st.lists(st.tuples(st.integers(0, rows * cols - 1), st.sampled_from(kinds)), max_size=most)
        ):
            cells[place] = code
    own = draw(st.integers(0, rows * cols - 1))
    cells[own] = draw(st.sampled_from([grid.FLOOR_CELL, grid.cell(grid.DOOR_OPEN, draw(st.integers(0, 5)))]))
    if sum(int(c >> 3 in grid.DOORS) for c in cells) > text.MAX_DOORS:
        cells[own] = grid.FLOOR_CELL
    agent = text.Agent(own // cols, own % cols, draw(st.integers(0, 3)))
    carrying = draw(st.sampled_from([None, *(grid.CELL_NAMES[c] for c in things)]))
    return text.make_level(cells.reshape(rows, cols), agent, carrying)


def assert_same(a: grid.Level, b: grid.Level) -> None:
    jax.tree.map(np.testing.assert_array_equal, a, b)


@given(levels())
def test_reading_what_was_written_gives_the_same_level(level: grid.Level) -> None:
    written = text.format_level(level)
    assert_same(text.parse_level(written), level)
    assert text.format_level(text.parse_level(written)) == written


@given(levels(), st.integers(0, 4))
def test_padding_and_cropping_are_inverse(level: grid.Level, more: int) -> None:
    rows, cols = level.cells.shape
    padded = text.pad_level(level, rows + more, cols + 1)
    assert padded.cells.shape == (rows + more, cols + 1)
    assert_same(text.crop_level(padded), level)
    assert text.format_level(padded) == text.format_level(level)


def test_a_drawing_means_what_it_shows() -> None:
    level = text.parse_level(DRAWING)
    assert level.cells.shape == (7, 13)
    assert level.position.tolist() == [2, 4]
    assert int(level.direction) == grid.UP
    assert int(level.carrying) == grid.cell(grid.KEY, grid.BLUE)
    names = {
        (r, c): grid.cell_name(int(level.cells[r, c])) for r, c in [(1, 2), (2, 8), (3, 6), (4, 9), (5, 10), (2, 6)]
    }
    assert list(names.values()) == [
        "ball_red", "door_purple_locked", "door_blue_closed", "door_yellow_open", "key_gray", "floor"
    ]  # fmt: skip


def test_the_agent_may_stand_on_an_open_door() -> None:
    level = text.parse_level("##vp##")
    assert grid.cell_name(int(level.cells[0, 1])) == "door_purple_open"
    assert int(level.direction) == grid.DOWN


def test_blanks_are_outside_and_natural_size_has_none_around() -> None:
    level = text.parse_level("##  ##\n^.    \n\n")
    assert level.cells.shape == (2, 3)
    assert text.format_level(level) == "##~~##\n^.~~~~"


def rooms_drawing(rows: int, cols: int) -> np.ndarray:
    """The layout of a room level with closed red doors, drawn by the rule of the paper: rooms of 5x5 inside."""
    cells = np.full((rows, cols), grid.FLOOR_CELL, np.uint8)
    cells[::6], cells[:, ::6] = grid.WALL_CELL, grid.WALL_CELL
    for r in range(rows):
        for c in range(cols):
            between_columns = c % 6 == 0 and 0 < c < cols - 1 and r % 6 == 3
            between_rows = r % 6 == 0 and 0 < r < rows - 1 and c % 6 == 3
            if between_columns or between_rows:
                cells[r, c] = grid.cell(grid.DOOR_CLOSED, grid.RED)
    return cells


@pytest.mark.parametrize(
    ("rows", "cols", "rooms", "doors"),
    [(7, 7, 1, 0), (7, 13, 2, 1), (13, 13, 4, 4), (13, 19, 6, 7), (19, 19, 9, 12), (13, 7, 0, 1)],
)
def test_rooms_are_recognised(rows: int, cols: int, rooms: int, doors: int) -> None:
    cells = rooms_drawing(rows, cols)
    assert (cells >> 3 == grid.DOOR_CLOSED).sum() == doors
    assert text.count_rooms(cells) == rooms
    for place in [(2, 2), (0, 2)]:
        other = cells.copy()
        other[place] = grid.WALL_CELL if cells[place] == grid.FLOOR_CELL else grid.FLOOR_CELL
        assert text.count_rooms(other) == 0


def test_the_doors_of_six_rooms_stand_where_the_paper_has_them() -> None:
    cells = rooms_drawing(13, 19)
    places = {(6, 3), (6, 9), (6, 15), (3, 6), (9, 6), (3, 12), (9, 12)}
    assert {(int(r), int(c)) for r, c in np.argwhere(cells >> 3 == grid.DOOR_CLOSED)} == places
    assert text.count_rooms(cells) == 6


@pytest.mark.parametrize("words", ["blue key", "key blue", "key_blue", "kb", " blue  key "])
def test_carried_objects_in_words(words: str) -> None:
    assert text.parse_object(words) == grid.cell(grid.KEY, grid.BLUE)


def test_grey_is_gray_and_nothing_is_nothing() -> None:
    assert text.parse_object("grey ball") == grid.cell(grid.BALL, grid.GRAY)
    assert text.parse_object("nothing") == grid.NOTHING
    assert int(text.parse_level("^.", carrying="grey ball").carrying) == grid.cell(grid.BALL, grid.GRAY)


def many(cell: str, count: int, *, width: int = 10) -> str:
    cells = cell * count
    return "\n".join(cells[i : i + 2 * width] for i in range(0, len(cells), 2 * width)) + "\n^."


@pytest.mark.parametrize(
    ("drawing", "line", "column", "words"),
    [
        ("##^.\n##oq", 2, 3, "no known colour"),
        ("\n\n    ##^.\n    ##?r", 4, 7, "is no cell"),
        ("##^.#", 1, 5, "half a cell"),
        ("^.##>.", 1, 5, "second agent"),
        ("##^o", 1, 3, "is no agent"),
        ("##..", 0, 0, "no agent"),
        ("  \n ", 0, 0, "empty"),
        ("##" * 20 + "\n^.", 0, 0, "2x20: at most 19x19"),
        (many("-r", 13), 0, 0, "13 doors: at most 12"),
        (many("or", 31), 0, 0, "31 objects, doors included: at most 30"),
        ("^.\ncarrying: red dor", 2, 0, "cannot be carried"),
    ],
)
def test_errors_name_the_place(drawing: str, line: int, column: int, words: str) -> None:
    with pytest.raises(text.LevelTextError, match=words) as caught:
        text.parse_level(drawing)
    assert (caught.value.line, caught.value.column) == (line, column)
    if line:
        assert str(caught.value).startswith(f"line {line}")


def test_carrying_may_not_be_said_twice() -> None:
    with pytest.raises(text.LevelTextError, match="twice"):
        text.parse_level("^.\ncarrying: red ball", carrying="red ball")


def test_a_level_that_does_not_fit_is_not_cut() -> None:
    with pytest.raises(AtlasError, match="1x3 does not fit into 1x2"):
        text.pad_level(text.parse_level("##^.##"), 1, 2)
