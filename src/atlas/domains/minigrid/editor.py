"""Levels made by hand, cell by cell: brushes, moving, resizing, and rooms to start from."""

from typing import Final

import numpy as np

from atlas.domains.minigrid import grid
from atlas.domains.minigrid.grid import Level
from atlas.domains.minigrid.text import (
    MAX_COLS,
    MAX_ROWS,
    Agent,
    make_level,
    natural_cells,
    object_phrase,
)
from atlas.errors import LevelTextError, nearest
from atlas.types import Brush

DIRECTIONS: Final = ("up", "right", "down", "left")
NUMBERS: Final = {1: "one room", 2: "two rooms", 4: "four rooms", 6: "six rooms", 9: "nine rooms"}


def _brushes() -> dict[str, tuple[Brush, int]]:
    """Each brush by name, with the cell that it paints, or the direction of the agent."""
    found = [
        (Brush(name, name, (f"cell{code}",)), code)
        for name, code in (("floor", grid.FLOOR_CELL), ("wall", grid.WALL_CELL))
    ]
    for kind in (*grid.MOVABLE, *grid.DOORS):
        for colour in range(grid.NO_COLOUR):
            code = grid.cell(kind, colour)
            what, _, state = grid.KINDS[kind].partition("_")
            group = f"{state} {what}" if state else what
            name = " ".join(filter(None, (state, grid.COLOURS[colour], what)))
            found.append((Brush(name, group, (f"cell{code}",)), code))
    found += [
        (Brush(f"agent facing {words}", "agent", (f"cell{grid.FLOOR_CELL}", f"agent{to}")), to)
        for to, words in enumerate(DIRECTIONS)
    ]
    return {brush.name: (brush, code) for brush, code in found}


BRUSHES: Final = _brushes()


def paint(level: Level, brush: str, row: int, column: int) -> Level:
    """See `Surface.paint`. Where the agent stands only floor, an open door and the agent itself can be painted."""
    if brush not in BRUSHES:
        raise LevelTextError(f"'{brush}' is no brush{nearest(brush, BRUSHES)}")
    kind, code = BRUSHES[brush]
    cells, agent = _parts(level)
    _require_inside(cells, row, column)
    if kind.group == "agent":
        return _made(level, cells, _standing(cells, row, column, code))
    if (row, column) == agent[:2] and not _can_stand(code):
        raise LevelTextError("the agent stands here: move it first")
    cells[row, column] = code
    return _made(level, cells, agent)


def move(level: Level, source: tuple[int, int], target: tuple[int, int]) -> Level:
    """See `Surface.move`. A door leaves a wall behind, the rest floor; walls and floor cannot be moved."""
    cells, agent = _parts(level)
    for place in (source, target):
        _require_inside(cells, *place)
    if source == agent[:2]:
        return _made(level, cells, _standing(cells, *target, agent.direction))
    code = int(cells[source])
    if code >> 3 not in (*grid.MOVABLE, *grid.DOORS):
        raise LevelTextError(f"{_name(code)} cannot be moved: paint it")
    if source != target:
        is_door = code >> 3 in grid.DOORS
        if target == agent[:2] and not _can_stand(code):
            raise LevelTextError("the agent stands there: move it first")
        if cells[target] not in (grid.FLOOR_CELL, *[grid.WALL_CELL] * is_door):
            raise LevelTextError(f"there is no room: the cell holds {_name(int(cells[target]))}")
        cells[target], cells[source] = code, grid.WALL_CELL if is_door else grid.FLOOR_CELL
    return _made(level, cells, agent)


def resize(level: Level, rows: int, columns: int) -> Level:
    """See `Surface.resize`. The outer wall goes along if there is one; what is new is floor."""
    cells, agent = _parts(level)
    if not (3 <= rows <= MAX_ROWS and 3 <= columns <= MAX_COLS):
        raise LevelTextError(f"{rows}x{columns} is no size of a level: from 3x3 to {MAX_ROWS}x{MAX_COLS} is allowed")
    walled = all((edge == grid.WALL_CELL).all() for edge in (cells[0], cells[-1], cells[:, 0], cells[:, -1]))
    inner = cells[: cells.shape[0] - walled, : cells.shape[1] - walled][: rows - walled, : columns - walled]
    new = np.full((rows, columns), grid.FLOOR_CELL, np.uint8)
    new[: inner.shape[0], : inner.shape[1]] = inner
    if walled:
        new[0] = new[-1] = new[:, 0] = new[:, -1] = grid.WALL_CELL
    if not (agent.row < rows - walled and agent.column < columns - walled):
        raise LevelTextError("the agent stands where it would be cut off: move it first")
    return _made(level, new, agent)


def templates() -> dict[str, Level]:
    """See `Surface.templates`: the layouts of rooms with closed doors, and an empty hall."""
    found = {}
    for rooms, name in NUMBERS.items():
        cells = grid.blank(rooms)
        for number, place in enumerate(grid.door_places(rooms)):
            cells[place] = grid.cell(grid.DOOR_CLOSED, number % grid.NO_COLOUR)
        found[name] = make_level(cells, Agent(3, 3, grid.UP))
    hall = np.full((9, 13), grid.FLOOR_CELL, np.uint8)
    hall[0] = hall[-1] = hall[:, 0] = hall[:, -1] = grid.WALL_CELL
    return {**found, "hall": make_level(hall, Agent(4, 6, grid.UP))}


EXAMPLE: Final = {
    "level": """\
##########################
##..........##..........##
##..kr......##......sb..##
##......^...xr..........##
##..og......##....op....##
##..........##..........##
##########################""",
    "task": "pick up the red key, then open the red door, then go to the blue square, without going to the purple ball",
}
"""Two rooms and a key."""


def _parts(level: Level) -> tuple[np.ndarray, Agent]:
    row, column = np.asarray(level.position).tolist()
    return np.array(natural_cells(level)), Agent(row, column, int(level.direction))


def _made(level: Level, cells: np.ndarray, agent: Agent) -> Level:
    carried = int(level.carrying)
    return make_level(cells, agent, None if carried == grid.NOTHING else object_phrase(carried))


def _name(code: int) -> str:
    return "a wall" if code == grid.WALL_CELL else grid.cell_name(code).replace("_", " ")


def _can_stand(code: int) -> bool:
    return code == grid.FLOOR_CELL or code >> 3 == grid.DOOR_OPEN


def _standing(cells: np.ndarray, row: int, column: int, direction: int) -> Agent:
    if not _can_stand(int(cells[row, column])):
        raise LevelTextError(f"the agent cannot stand here: the cell holds {_name(int(cells[row, column]))}")
    return Agent(row, column, direction)


def _require_inside(cells: np.ndarray, row: int, column: int) -> None:
    rows, columns = cells.shape
    if not (0 <= row < rows and 0 <= column < columns):
        raise LevelTextError(f"there is no cell {row},{column}: the level has {rows} rows and {columns} columns")
