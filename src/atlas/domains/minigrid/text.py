"""Levels as text: two characters a cell, drawn as they look from above.

    ##############      ##  wall          or  ball, red         -p  closed door, purple
    ##..or..##..##      ..  floor         sg  square, green     xp  locked door, purple
    ##....>.-p..##      ~~  outside       kb  key, blue         +p  open door, purple
    ##..kb..##sg##      ^. >. v. <.  the agent, on floor;  ^p  the agent on an open purple door
    ##############
    carrying: blue key

Colours are r(ed) g(reen) b(lue) p(urple) y(ellow) and a for gray. The last line is left out when the hands are
empty. Blanks read as outside too, and blank lines and a common indentation around the drawing are ignored.
"""

import dataclasses
import textwrap
from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from atlas.domains.minigrid import grid
from atlas.domains.minigrid.grid import FREE_FORM, FREE_FORM_OBJECTS, ROOM_GRID, Level, blank, door_places, size_of
from atlas.errors import AtlasError, LevelTextError, nearest

MAX_ROWS, MAX_COLS = size_of(max(ROOM_GRID))
MAX_OBJECTS: Final = FREE_FORM_OBJECTS[1]
"""Objects in the grid, doors included."""
MAX_DOORS: Final = len(door_places(max(ROOM_GRID)))

MOST_LETTERS: Final = 20_000
"""Of a drawing, blanks around it included."""

COLOUR_LETTERS: Final = "rgbpya"
"""By colour."""
OBJECT_LETTERS: Final = {
    grid.BALL: "o", grid.SQUARE: "s", grid.KEY: "k", grid.DOOR_CLOSED: "-", grid.DOOR_LOCKED: "x", grid.DOOR_OPEN: "+",
}  # fmt: skip
ARROWS: Final = "^>v<"
"""By direction."""
CARRYING: Final = "carrying:"

CELL_TEXT: Final = {
    grid.OUTSIDE_CELL: "~~",
    grid.FLOOR_CELL: "..",
    grid.WALL_CELL: "##",
    **{
        grid.cell(kind, colour): letter + COLOUR_LETTERS[colour]
        for kind, letter in OBJECT_LETTERS.items()
        for colour in range(grid.NO_COLOUR)
    },
}
_CELLS: Final = {text: code for code, text in CELL_TEXT.items()} | {"  ": grid.OUTSIDE_CELL}
_UNDER_AGENT: Final = {".": grid.FLOOR_CELL} | {
    letter: grid.cell(grid.DOOR_OPEN, colour) for colour, letter in enumerate(COLOUR_LETTERS)
}


class Agent(NamedTuple):
    """Where the agent was drawn."""

    row: int
    column: int
    direction: int


def parse_level(text: str, carrying: str | None = None) -> Level:
    """Read a level at its natural size; `carrying` may be given apart, e.g. `blue key`."""
    if len(text) > MOST_LETTERS:
        raise LevelTextError(f"the level has {len(text):,} letters: at most {MAX_ROWS}x{MAX_COLS} cells are allowed")
    lines, first_line, indent = _drawing(text)
    if lines and lines[-1].startswith(CARRYING):
        if carrying is not None:
            raise LevelTextError("what the agent carries is said twice", first_line + len(lines) - 1)
        carrying = lines.pop().removeprefix(CARRYING)
        _check_carrying(carrying, first_line + len(lines))
    rows: list[list[int]] = []
    agents: list[tuple[Agent, int, int]] = []
    for row, line in enumerate(lines):
        codes, found = _parse_row(line, row, first_line + row, indent)
        rows.append(codes)
        agents += [(agent, first_line + row, indent + 2 * agent.column + 1) for agent in found]
    return make_level(_rectangle(rows), _only_agent(agents), carrying)


def _drawing(text: str) -> tuple[list[str], int, int]:
    """The drawn lines without their surroundings, the number of the first, and the indentation that was taken off."""
    dedented = textwrap.dedent(text.expandtabs()).splitlines()
    inked = [i for i, line in enumerate(dedented) if line.strip()]
    if not inked:
        raise LevelTextError("the level is empty: draw it with two characters a cell, e.g. ## for a wall")
    original = text.expandtabs().splitlines()[inked[0]]
    lines = [line.rstrip() for line in dedented[inked[0] : inked[-1] + 1]]
    return lines, inked[0] + 1, len(original) - len(dedented[inked[0]])


def _check_carrying(words: str, line: int) -> None:
    try:
        parse_object(words)
    except LevelTextError as error:
        raise LevelTextError(error.problem, line) from None


def _parse_row(line: str, row: int, number: int, indent: int) -> tuple[list[int], list[Agent]]:
    codes, agents = [], []
    for column in range((len(line) + 1) // 2):
        pair = line[2 * column : 2 * column + 2]
        where = number, indent + 2 * column + 1
        if len(pair) < 2:
            raise LevelTextError(f"'{pair}' is half a cell: each cell takes two characters", *where)
        if pair[0] in ARROWS:
            agents.append(Agent(row, column, ARROWS.index(pair[0])))
            codes.append(_under_agent(pair, where))
        elif pair in _CELLS:
            codes.append(_CELLS[pair])
        else:
            raise LevelTextError(_what_is_wrong(pair), *where)
    return codes, agents


def _under_agent(pair: str, where: tuple[int, int]) -> int:
    if pair[1] not in _UNDER_AGENT:
        allowed = f"'{pair[0]}.' on floor, or a colour of {_letters(COLOUR_LETTERS)} for the open door it stands on"
        raise LevelTextError(f"'{pair}' is no agent: write {allowed}", *where)
    return _UNDER_AGENT[pair[1]]


def _what_is_wrong(pair: str) -> str:
    if pair[0] in OBJECT_LETTERS.values():
        return f"'{pair}' has no known colour: the second letter must be one of {_letters(COLOUR_LETTERS)}"
    objects = _letters(OBJECT_LETTERS.values())
    return f"'{pair}' is no cell: known are ## wall, .. floor, ~~ outside, arrows {ARROWS} and {objects} with a colour"


def _letters(letters: Iterable[str]) -> str:
    return " ".join(letters)


def _rectangle(rows: list[list[int]]) -> np.ndarray:
    """Rows of any length as one array, the rest outside."""
    cells = np.full((len(rows), max(map(len, rows), default=0)), grid.OUTSIDE_CELL, np.uint8)
    for row, codes in enumerate(rows):
        cells[row, : len(codes)] = codes
    return cells


def _only_agent(agents: list[tuple[Agent, int, int]]) -> Agent:
    if not agents:
        raise LevelTextError(f"the level has no agent: draw one of {_letters(ARROWS)} followed by a dot")
    if len(agents) > 1:
        raise LevelTextError("a second agent: a level has exactly one", *agents[1][1:])
    return agents[0][0]


def make_level(cells: np.ndarray, agent: Agent, carrying: str | None = None) -> Level:
    """A level from its parts, checked against what levels may be and cropped to its natural size; on the host, so that
    reading a file compiles nothing."""
    cells = cells[: _extent(cells, axis=1), : _extent(cells, axis=0)]
    _check(cells)
    return Level.unchecked(
        cells=cells,
        position=np.array([agent.row, agent.column], np.int8),
        direction=np.array(agent.direction, np.int8),
        carrying=np.array(grid.NOTHING if carrying is None else parse_object(carrying), np.uint8),
        rooms=np.array(count_rooms(cells), np.int8),
    )


def _check(cells: np.ndarray) -> None:
    rows, cols = cells.shape
    kinds = cells >> 3
    doors = int(np.isin(kinds, grid.DOORS).sum())
    objects = doors + int(np.isin(kinds, grid.MOVABLE).sum())
    if rows > MAX_ROWS or cols > MAX_COLS:
        raise LevelTextError(f"the level is {rows}x{cols}: at most {MAX_ROWS}x{MAX_COLS} cells are allowed")
    if doors > MAX_DOORS:
        raise LevelTextError(f"the level has {doors} doors: at most {MAX_DOORS} are allowed")
    if objects > MAX_OBJECTS:
        raise LevelTextError(f"the level has {objects} objects, doors included: at most {MAX_OBJECTS} are allowed")


def parse_object(text: str) -> int:
    """The cell of a movable object named in words: `blue key`, `key_blue`, `key blue` or `kb`; `nothing` for none."""
    words = text.replace("_", " ").replace("grey", "gray").split()
    if words in ([], ["nothing"], ["none"]):
        return grid.NOTHING
    for kind in grid.MOVABLE:
        for colour, name in enumerate(grid.COLOURS[: grid.NO_COLOUR]):
            code = grid.cell(kind, colour)
            if words in ([grid.KINDS[kind], name], [name, grid.KINDS[kind]], [CELL_TEXT[code]]):
                return code
    known = [object_phrase(grid.cell(kind, colour)) for kind in grid.MOVABLE for colour in range(grid.NO_COLOUR)]
    hint = nearest(" ".join(words), known) or "; say for example 'blue key'"
    raise LevelTextError(f"'{text.strip()}' cannot be carried: a ball, square or key of some colour can{hint}")


def object_phrase(code: int) -> str:
    """`blue key`."""
    kind, colour = divmod(int(code), 8)
    return f"{grid.COLOURS[colour]} {grid.KINDS[kind]}"


def count_rooms(cells: np.ndarray) -> int:
    """1, 2, 4, 6 or 9 if walls and doors stand exactly as in that layout; 0 for a free-form level."""
    for rooms in ROOM_GRID:
        if cells.shape == size_of(rooms):
            doorway = np.zeros(cells.shape, bool)
            doorway[tuple(np.array(door_places(rooms), int).reshape(-1, 2).T)] = True
            kinds = cells >> 3
            walled = (kinds == grid.WALL) == ((blank(rooms) == grid.WALL_CELL) & ~doorway)
            same = (np.isin(kinds, grid.DOORS) == doorway) & walled & (kinds != grid.OUTSIDE)
            return rooms if same.all() else FREE_FORM
    return FREE_FORM


def format_level(level: Level) -> str:
    """The drawing of a level, and what is carried on a last line."""
    carried = int(level.carrying)
    return format_cells(level) + (f"\n{CARRYING} {object_phrase(carried)}" if carried != grid.NOTHING else "")


def format_cells(level: Level) -> str:
    """The drawing alone."""
    cells = np.asarray(natural_cells(level))
    rows = [[CELL_TEXT[int(code)] for code in row] for row in cells]
    row, column = (int(i) for i in level.position)
    under = "." if cells[row, column] == grid.FLOOR_CELL else rows[row][column][1]
    rows[row][column] = ARROWS[int(level.direction)] + under
    return "\n".join("".join(row) for row in rows)


def natural_cells(level: Level) -> np.ndarray:
    """The cells without the padding below and to the right."""
    cells = np.asarray(level.cells)
    return cells[: _extent(cells, axis=1), : _extent(cells, axis=0)]


def _extent(cells: np.ndarray, axis: int) -> int:
    inked = np.flatnonzero((cells != grid.OUTSIDE_CELL).any(axis=axis))
    return int(inked[-1]) + 1 if inked.size else 0


def crop_level(level: Level) -> Level:
    """The level at its natural size."""
    return _with_cells(level, natural_cells(level))


def pad_level(level: Level, rows: int, cols: int) -> Level:
    """The level in an array of the given size."""
    cells = natural_cells(level)
    if cells.shape[0] > rows or cells.shape[1] > cols:
        raise AtlasError(f"a level of {cells.shape[0]}x{cells.shape[1]} does not fit into {rows}x{cols} cells")
    padded = np.full((rows, cols), grid.OUTSIDE_CELL, np.uint8)
    padded[: cells.shape[0], : cells.shape[1]] = cells
    return _with_cells(level, padded)


def _with_cells(level: Level, cells: np.ndarray) -> Level:
    """The level with other cells, on the host."""
    fields = {field.name: np.asarray(getattr(level, field.name)) for field in dataclasses.fields(level)}
    return Level.unchecked(**{**fields, "cells": cells})
