"""What levels look like: as shapes for pictures, as coloured text for terminals. Also small signs of propositions.

Levels look like Minigrid, the view of the agent lit up. One unit is one cell.
"""

import functools
from typing import Final

import numpy as np
from rich.text import Text as TerminalText

from atlas.domains.minigrid import alphabet, grid, text
from atlas.domains.minigrid.grid import Level
from atlas.show.canvas import (
    COLOURS,
    INK,
    PAGE,
    Circle,
    Drawing,
    Group,
    Line,
    Polygon,
    Rectangle,
    Shape,
    Sign,
    Symbol,
    Text,
    box,
    mixed,
)

FLOOR, SEAM, WALL, AGENT = "#16171b", "#3a3c42", "#686b72", "#ff4030"
"""Colours; the seam is the line between cells of floor."""
LIGHT: Final = 0.22
"""How much white lies over what the agent sees."""
STRIP: Final = 1.25
"""Height of the line below a level that tells what is carried."""
DOOR: Final = len(grid.KINDS)
"""A door of any state, in signs."""


def seen(level: Level) -> np.ndarray:
    """`bool[rows, cols]`: the cells of the level that lie in the agent's view."""
    rows, cols = text.natural_cells(level).shape
    ahead = np.array(grid.STEPS[int(level.direction)])
    aside = np.array(grid.STEPS[(int(level.direction) + 1) % 4])
    offsets = np.indices((rows, cols)).transpose(1, 2, 0) - np.asarray(level.position, int)
    far, wide = offsets @ ahead, offsets @ aside
    return (far >= 0) & (far < grid.VIEW) & (np.abs(wide) <= grid.VIEW // 2)


def level_drawing(level: Level, highlight: bool = True, strip: bool | None = None) -> Drawing:
    """The level as shapes; objects tell their names when pointed at.

    `strip`: a line below for what is carried; if not given, only when something is.
    """
    cells, carried = text.natural_cells(level), int(level.carrying)
    rows, cols = cells.shape
    shapes: list[Shape] = []
    for (row, col), code in np.ndenumerate(cells):
        if code != grid.OUTSIDE_CELL:
            shapes.append(cell_symbol(int(code), (float(col), float(row))))
    row, col = level.position.tolist()
    shapes.append(agent_symbol(int(level.direction), (float(col), float(row))))
    for row, col in np.argwhere(seen(level) & highlight & (cells != grid.OUTSIDE_CELL)).tolist():
        shapes.append(Rectangle((col, row), (1.0, 1.0), fill="#ffffff", opacity=LIGHT))
    if strip is False or (strip is None and carried == grid.NOTHING):
        return Drawing(tuple(shapes), (cols, rows))
    middle, words = rows + STRIP / 2, "nothing" if carried == grid.NOTHING else f"a {text.object_phrase(carried)}"
    if carried != grid.NOTHING:
        shapes.append(cell_symbol(carried, (0.25, middle - 0.5)))
    shapes.append(Text((0.25 if carried == grid.NOTHING else 1.5, middle), f"carrying {words}", 0.45))
    return Drawing(tuple(shapes), (cols, rows + STRIP))


def cell_symbol(code: int, at: tuple[float, float] = (0.0, 0.0)) -> Symbol:
    """A cell of the grid, named by its code."""
    is_object = code >> 3 in grid.MOVABLE + grid.DOORS
    return Symbol(f"cell{code}", _cell(code), at, grid.cell_name(code).replace("_", " ") if is_object else "")


def agent_symbol(direction: int, at: tuple[float, float] = (0.0, 0.0)) -> Symbol:
    """The agent: a triangle that points where it looks."""
    points = [(-0.34, 0.34), (0.0, -0.38), (0.34, 0.34)]
    for _ in range(direction):
        points = [(-y, x) for x, y in points]
    return Symbol(
        f"agent{direction}", (Polygon(tuple((x + 0.515, y + 0.515) for x, y in points), fill=AGENT),), at, "agent"
    )


def page_symbols() -> list[Symbol]:
    """All symbols that drawings of levels and signs use, for pages that define them once."""
    objects = [
        grid.cell(kind, colour) for kind in (*grid.MOVABLE, *grid.DOORS, DOOR) for colour in range(grid.NO_COLOUR + 1)
    ]
    codes = (grid.FLOOR_CELL, grid.WALL_CELL, *objects)
    return [*(Symbol(f"cell{code}", _cell(code)) for code in codes), *map(agent_symbol, range(4))]


@functools.cache
def _cell(code: int) -> tuple[Shape, ...]:
    """A cell from the ground up; objects of no colour are white."""
    kind, colour = divmod(code, 8)
    ink = COLOURS.get(grid.COLOURS[colour], PAGE)
    dark = mixed(ink, FLOOR, 0.55)
    shapes: list[Shape] = [box(0, 0, 1, 1, SEAM), box(0.03, 0.03, 1, 1, FLOOR)]
    frame = box(0.03, 0.03, 1, 1, ink)
    if kind == grid.WALL:
        shapes = [box(0, 0, 1, 1, WALL)]
    elif kind == grid.BALL:
        shapes += [Circle((0.515, 0.515), 0.32, fill=ink)]
    elif kind == grid.SQUARE:
        shapes += [box(0.215, 0.215, 0.815, 0.815, ink)]
    elif kind == grid.KEY:
        shapes += [box(0.52, 0.40, 0.64, 0.90, ink), box(0.38, 0.62, 0.52, 0.70, ink), box(0.38, 0.82, 0.52, 0.90, ink)]
        shapes += [Circle((0.58, 0.29), 0.2, fill=ink), Circle((0.58, 0.29), 0.085, fill=FLOOR)]
    elif kind == grid.DOOR_CLOSED:
        shapes += [frame, box(0.10, 0.10, 0.93, 0.93, FLOOR), box(0.16, 0.16, 0.87, 0.87, dark)]
        shapes += [Circle((0.73, 0.515), 0.075, fill=ink)]
    elif kind == grid.DOOR_LOCKED:
        shapes += [frame, box(0.10, 0.10, 0.93, 0.93, dark), Circle((0.515, 0.44), 0.19, fill=ink)]
        shapes += [Circle((0.515, 0.44), 0.105, fill=dark), box(0.29, 0.46, 0.74, 0.80, ink)]
        shapes += [Circle((0.515, 0.59), 0.06, fill=FLOOR), box(0.485, 0.59, 0.545, 0.73, FLOOR)]
    elif kind == grid.DOOR_OPEN:
        shapes += [frame, box(0.10, 0.10, 0.93, 0.93, FLOOR), box(0.10, 0.10, 0.22, 0.93, dark)]
    elif kind == DOOR:
        shapes += [frame, box(0.10, 0.10, 0.93, 0.93, dark)]
    return tuple(shapes)


# Signs of propositions


@functools.cache
def sign(prop: int) -> Sign:
    """A proposition: an arrow to what is ahead, a tray under what is carried, a bar between what lies side by side."""
    location, things = alphabet.PROPOSITIONS[prop]
    words, tiles = [], []
    for thing in things:
        kind = alphabet.TYPES[thing.type]
        is_door, any_state = thing.type == alphabet.DOOR_TYPE, thing.state == alphabet.ANY_STATE
        code = DOOR if is_door and any_state else grid.DOORS[thing.state] if is_door else grid.MOVABLE[thing.type]
        plate = Rectangle((0, 0), (1, 1), 0.08, fill=FLOOR)
        tile = Symbol(f"cell{8 * code + thing.colour}", _cell(8 * code + thing.colour))
        tiles.append((plate, Group((tile,), (0.05, 0.05), 0.92)))
        words.append(" ".join((*reversed(thing.attributes), kind)))
    shapes: tuple[Shape, ...]
    if location == alphabet.FRONT:
        arrow = Polygon(((0, 0.25), (0.4, 0.5), (0, 0.75)), fill=INK)
        shapes, width = (arrow, Group(tiles[0], (0.55, 0.0))), 1.55
    elif location == alphabet.CARRYING:
        tray = Line(((0.05, 0.5), (0.05, 1.0), (1.15, 1.0), (1.15, 0.5)), stroke=INK, width=0.1)
        shapes, width = (Group(tiles[0], (0.2, 0.05), 0.8), tray), 1.2
    else:
        bar = Line(((0.9, 0.5), (1.3, 0.5)), stroke=INK, width=0.14)
        shapes, width = (bar, *tiles[0], Group(tiles[1], (1.25, 0.0))), 2.25
    return Sign(" + ".join(words), Drawing(shapes, (width, 1.0)))


def legend() -> list[tuple[Drawing, str]]:
    """What levels hold, one of each, and the three kinds of propositions."""
    cells = {
        grid.cell(grid.KEY, 4): "key", grid.cell(grid.BALL, 0): "ball", grid.cell(grid.SQUARE, 2): "square",
        grid.cell(grid.DOOR_OPEN, 1): "open door", grid.cell(grid.DOOR_CLOSED, 1): "closed door",
        grid.cell(grid.DOOR_LOCKED, 1): "locked door", grid.WALL_CELL: "wall",
        grid.cell(grid.KEY, grid.NO_COLOUR): "a key of any colour",
    }  # fmt: skip
    signs = {
        "front_ball_red": "in front of a red ball",
        "carrying_ball_red": "carrying it",
        "next_ball_red_key_blue": "lying side by side",
    }
    pictures = [(Drawing((cell_symbol(code),), (1.0, 1.0)), words) for code, words in cells.items()]
    agent = Drawing((cell_symbol(grid.FLOOR_CELL), agent_symbol(1)), (1.0, 1.0))
    told = [(sign(alphabet.IDS[name]).picture, words) for name, words in signs.items()]
    return [(agent, "agent, looking right; what it sees is lit"), *pictures, *told]


# Terminals: two columns a cell, each on a ground of its own, for dark and light screens alike

GLYPHS: Final = {
    grid.BALL: "● ", grid.SQUARE: "■ ", grid.KEY: "o┬", grid.DOOR_CLOSED: " •", grid.DOOR_LOCKED: "××",
    grid.DOOR_OPEN: "[]",
}  # fmt: skip
ARROWS: Final = "▲▶▼◀"


def level_text(level: Level, highlight: bool = True) -> TerminalText:
    """The level in colours; what the agent sees is lit."""
    row, col = level.position.tolist()
    return _cells_text(text.natural_cells(level), seen(level) & highlight, (row, col, int(level.direction)))


def view_text(view: np.ndarray) -> TerminalText:
    """The 5x5 view as the agent has it: itself at the bottom centre, looking up."""
    row, col = grid.VIEW - 1, grid.VIEW // 2
    agent = (row, col, grid.UP) if view[row, col] == grid.NOTHING else None
    return _cells_text(view, np.zeros(view.shape, bool), agent)


def object_text(code: int) -> TerminalText:
    """One object with its name, for running text."""
    glyph, style = _cell_text(code, False, None)
    return TerminalText.assemble((glyph, style), f" {text.object_phrase(code)}")


def _cells_text(cells: np.ndarray, lit: np.ndarray, agent: tuple[int, int, int] | None) -> TerminalText:
    lines = [TerminalText(no_wrap=True) for _ in cells]
    for (row, col), code in np.ndenumerate(cells):
        faces = agent[2] if agent and agent[:2] == (row, col) else None
        lines[row].append(*_cell_text(int(code), bool(lit[row, col]), faces))
    return TerminalText("\n").join(lines)


def _cell_text(code: int, lit: bool, faces: int | None) -> tuple[str, str]:
    """The two characters of a cell and their style."""
    kind, colour = divmod(code, 8)
    ink = COLOURS.get(grid.COLOURS[colour], FLOOR)
    glyph, ground = GLYPHS.get(kind, "  "), FLOOR
    if kind == grid.OUTSIDE:
        return "  ", ""
    if kind == grid.WALL:
        ink = ground = WALL
    elif faces is not None:
        glyph, ink = f"{ARROWS[faces]} ", AGENT
    elif kind in (grid.DOOR_CLOSED, grid.DOOR_LOCKED):
        ink, ground = FLOOR, ink
    return glyph, f"bold {ink} on {mixed('#ffffff', ground, LIGHT) if lit else ground}"
