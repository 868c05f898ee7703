"""Pictures of levels: the right thing in the right place, in every format."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.domains.minigrid import draw, dynamics, grid, text
from atlas.domains.minigrid.alphabet import IDS, NAMES
from atlas.show import canvas

LEVEL = jax.tree.map(
    jnp.asarray,
    text.parse_level("""
    ################
    ##or..sg..kb..##
    ##......>.....##
    ##-p..xy..+a..##
    ################
    carrying: green ball
"""),
)
TILE = 20
GOLDEN = Path(__file__).parents[2] / "golden"


def centre(image: np.ndarray, row: int, col: int) -> str:
    return "#" + bytes(image[TILE * row + TILE // 2, TILE * col + TILE // 2]).hex()


def test_pixels_show_the_cells() -> None:
    image = np.asarray(canvas.pixels(draw.level_drawing(LEVEL, highlight=False), TILE))
    assert image.shape == (TILE * 5 + round(1.25 * TILE), TILE * 8, 3)
    assert centre(image, 0, 0) == draw.WALL
    assert centre(image, 1, 2) == draw.FLOOR
    assert centre(image, 1, 1) == canvas.COLOURS["red"]
    assert centre(image, 1, 3) == canvas.COLOURS["green"]
    assert centre(image, 2, 4) == draw.AGENT


def test_cells_that_look_alike_are_equal() -> None:
    drawings = [draw.level_drawing(one_cell(code), highlight=False) for code in grid.CELL_NAMES]
    assert len({canvas.pixels(drawing, TILE).tobytes() for drawing in drawings}) == len(grid.CELL_NAMES)


def one_cell(code: int) -> grid.Level:
    """A level that shows one cell beside the agent (and a wall, so that outside is not cropped)."""
    return text.make_level(np.array([[code, grid.FLOOR_CELL, grid.WALL_CELL]], np.uint8), text.Agent(0, 1, 0))


@pytest.mark.parametrize("direction", range(4))
def test_the_lit_cells_are_those_in_view(direction: int) -> None:
    """Mark one cell at a time: it changes the view iff it is lit."""
    level = LEVEL.replace(direction=jnp.int8(direction))
    own = tuple(level.position.tolist())
    places = np.array([place for place in np.ndindex(*level.cells.shape) if place != own])
    views = jax.jit(jax.vmap(lambda place: marked_view(level, place)))(places)
    plain = np.asarray(dynamics.view(dynamics.reset(level)))
    changed = (np.asarray(views) != plain[None]).any(axis=(1, 2))
    np.testing.assert_array_equal(changed, draw.seen(level)[tuple(places.T)])


def marked_view(level: grid.Level, place: jax.Array) -> jax.Array:
    mark = grid.as_cell(grid.cell(grid.SQUARE, grid.YELLOW))
    return dynamics.view(dynamics.reset(level.replace(cells=level.cells.at[place[0], place[1]].set(mark))))


def test_the_strip_is_there_when_something_is_carried_or_on_request() -> None:
    empty = LEVEL.replace(carrying=jnp.uint8(grid.NOTHING))
    assert draw.level_drawing(empty).size == (8, 5)
    assert draw.level_drawing(empty, strip=True).size == draw.level_drawing(LEVEL).size == (8, 6.25)


def test_svg_is_well_formed_and_names_objects() -> None:
    root = ET.fromstring(canvas.svg(draw.level_drawing(LEVEL)))
    svg = "{http://www.w3.org/2000/svg}"
    titles = [title.text for title in root.iter(f"{svg}title")]
    assert sorted(titles) == sorted([
        "ball red", "square green", "key blue", "door purple closed", "door yellow locked", "door gray open",
        "agent", "ball green",
    ])  # fmt: skip
    assert len(root.findall(f"{svg}use")) == 5 * 8 + 2, "cells, the agent, what is carried"
    assert len(root.findall(f"{svg}rect")) == 1 + int(draw.seen(LEVEL).sum())
    symbols = {symbol.get("id") for symbol in root.findall(f"{svg}defs/{svg}g")}
    used = {use.get("href", "")[1:] for use in root.iter(f"{svg}use")}
    assert used == symbols
    assert used <= {symbol.name for symbol in draw.page_symbols()}


def test_svg_looks_as_it_did_when_a_person_last_looked() -> None:
    """Drawn anew when the looks change on purpose; then look at it."""
    assert canvas.svg(draw.level_drawing(LEVEL), 32) == (GOLDEN / "level.svg").read_text()


def test_terminal_drawing_has_two_columns_a_cell() -> None:
    lines = draw.level_text(LEVEL).plain.split("\n")
    assert [len(line) for line in lines] == [2 * 8] * 5
    assert lines[2][2 * 4] == "▶"
    assert lines[1][2] == "●"


def test_terminal_view_shows_the_agent_unless_it_carries() -> None:
    view = np.asarray(dynamics.view(dynamics.reset(LEVEL)))
    assert "▲" not in draw.view_text(view).plain
    assert re.search("●", draw.view_text(view).plain.split("\n")[-1])


def test_every_proposition_has_a_sign() -> None:
    signs = [draw.sign(prop) for prop in range(len(NAMES))]
    assert len({sign.picture for sign in signs}) == len(signs)
    assert draw.sign(IDS["front_door_red_locked"]).words == "locked red door"
    assert draw.sign(IDS["next_ball_key_blue"]).words == "ball + blue key"
    shared = {symbol.name for symbol in draw.page_symbols()}
    assert {symbol.name for sign in signs for symbol in canvas.symbols(sign.picture.shapes)} <= shared
