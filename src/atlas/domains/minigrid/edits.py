"""Small changes of levels (the paper, Appendix D), one row each.

What an edit leaves in the lineage are places, written `100 * row + column`, and cells; see each edit.
Objects are counted in the grid: a carried one is left alone. A level that follows no layout keeps its walls.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32, Int, Int16, Int32, Key, UInt8

from atlas.config import DomainConfig
from atlas.domains.minigrid.grid import DOORS, FLOOR_CELL, MOVABLE, Level, count_objects, kind_of
from atlas.domains.minigrid.layouts import Layouts, layouts
from atlas.domains.minigrid.rooms import add_rooms, can_add_rooms, can_remove_rooms, remove_rooms
from atlas.domains.minigrid.sample import door_cells, movable_cells
from atlas.draw import below, edit_draws, pick_cell
from atlas.types import Edit

Changed = tuple[Level, Int16[Array, "3"]]


@dataclass(frozen=True, eq=False)
class Palette:
    """What may be placed, and where the limits are."""

    table: Layouts
    movables: UInt8[Array, "movables"]
    doors: UInt8[Array, "doors"]


def level_edits(config: DomainConfig) -> tuple[Edit[Level], ...]:
    """The table of level edits under these settings."""
    palette = Palette(layouts(config), jnp.asarray(movable_cells(config)), jnp.asarray(door_cells(config)))
    rows: tuple[tuple[str, Callable[..., Any], Callable[..., Any]], ...] = (
        ("move_agent", can_move_agent, move_agent),
        ("move_object", can_move_object, move_object),
        ("add_object", can_add_object, add_object),
        ("remove_object", can_remove_object, remove_object),
        ("replace_object", can_replace_object, replace_object),
        ("replace_door", can_replace_door, replace_door),
        ("add_rooms", lambda p, level: can_add_rooms(p.table, level), lambda p, *a: add_rooms(p.table, p.doors, *a)),
        ("remove_rooms", lambda p, level: can_remove_rooms(p.table, level), lambda p, *a: remove_rooms(p.table, *a)),
    )
    return tuple(Edit(name, partial(applicable, palette), partial(apply, palette)) for name, applicable, apply in rows)


# Which cells are what.


def movable_at(level: Level) -> Bool[Array, "rows cols"]:
    """Where movable objects lie."""
    kind = kind_of(level.cells)
    return (kind >= MOVABLE[0]) & (kind <= MOVABLE[-1])


def door_at(level: Level) -> Bool[Array, "rows cols"]:
    """Where doors are."""
    return kind_of(level.cells) >= DOORS[0]


def _agent_at(level: Level) -> Bool[Array, "rows cols"]:
    rows, cols = level.cells.shape
    is_row, is_column = jnp.arange(rows) == level.position[0], jnp.arange(cols) == level.position[1]
    return is_row[:, None] & is_column[None, :]


def _free(level: Level) -> Bool[Array, "rows cols"]:
    """Floor without an object and without the agent."""
    return (level.cells == FLOOR_CELL) & ~_agent_at(level)


def _changeable(
    cells: UInt8[Array, "rows cols"], mask: Bool[Array, "rows cols"], choices: UInt8[Array, "n"]
) -> Bool[Array, "rows cols"]:
    """Where something else could stand: everywhere, unless there is but one choice."""
    return mask & (cells != choices[0]) if choices.shape[0] == 1 else mask


def _put(cells: UInt8[Array, "rows cols"], at: Int32[Array, ""], code: UInt8[Array, ""] | int) -> Array:
    flat = cells.reshape(-1).at[at].set(jnp.asarray(code, jnp.uint8), mode="drop")
    return flat.reshape(cells.shape)


def _other(u: Float32[Array, ""], choices: UInt8[Array, "n"], current: UInt8[Array, ""]) -> UInt8[Array, ""]:
    """One of the choices that is not the current one."""
    same = choices == current
    known = jnp.any(same)
    place = below(u, choices.shape[0] - known.astype(jnp.int32))
    return choices[jnp.where(known & (place >= jnp.argmax(same)), place + 1, place)]


def _arguments(level: Level, at: Int32[Array, ""] | int, to: Int32[Array, ""] | int, what: Array | int) -> Array:
    """The record of an edit: two places (-1 for none) and a number."""
    columns = level.cells.shape[1]
    places = [jnp.where(jnp.asarray(p) < 0, -1, 100 * (jnp.asarray(p) // columns) + p % columns) for p in (at, to)]
    return jnp.stack([*places, jnp.asarray(what, jnp.int32)]).astype(jnp.int16)


def _flat(level: Level, position: Int[Array, "2"]) -> Int32[Array, ""]:
    row, column = position.astype(jnp.int32)
    return row * level.cells.shape[1] + column


# The edits.


def can_move_agent(_: Palette, level: Level) -> Bool[Array, ""]:
    return jnp.any(_free(level))


def move_agent(_: Palette, key: Key[Array, ""], level: Level) -> Changed:
    """The agent stands on another free cell and looks anywhere. Lineage: from, to, direction."""
    u = edit_draws(key)
    to = pick_cell(u[0], _free(level))
    position = jnp.stack(jnp.divmod(to, level.cells.shape[1])).astype(jnp.int8)
    direction = below(u[1], 4).astype(jnp.int8)
    arguments = _arguments(level, _flat(level, level.position), to, direction)
    return level.replace(position=position, direction=direction), arguments


def can_move_object(_: Palette, level: Level) -> Bool[Array, ""]:
    return jnp.any(movable_at(level)) & jnp.any(_free(level))


def move_object(_: Palette, key: Key[Array, ""], level: Level) -> Changed:
    """A movable object lies on another free cell. Lineage: from, to, the object."""
    u = edit_draws(key)
    to, at = pick_cell(u[0], _free(level)), pick_cell(u[1], movable_at(level))
    thing = level.cells.reshape(-1)[at]
    cells = _put(_put(level.cells, at, FLOOR_CELL), to, thing)
    return level.replace(cells=cells), _arguments(level, at, to, thing)


def can_add_object(palette: Palette, level: Level) -> Bool[Array, ""]:
    return (count_objects(level.cells) < jnp.asarray(palette.table.most)[level.rooms]) & jnp.any(_free(level))


def add_object(palette: Palette, key: Key[Array, ""], level: Level) -> Changed:
    """A random movable object lies on a free cell. Lineage: none, to, the object."""
    u = edit_draws(key)
    to = pick_cell(u[0], _free(level))
    thing = palette.movables[below(u[1], palette.movables.shape[0])]
    return level.replace(cells=_put(level.cells, to, thing)), _arguments(level, -1, to, thing)


def can_remove_object(palette: Palette, level: Level) -> Bool[Array, ""]:
    return (count_objects(level.cells) > jnp.asarray(palette.table.least)[level.rooms]) & jnp.any(movable_at(level))


def remove_object(_: Palette, key: Key[Array, ""], level: Level) -> Changed:
    """A movable object is gone. Lineage: from, none, the object."""
    at = pick_cell(edit_draws(key)[1], movable_at(level))
    thing = level.cells.reshape(-1)[at]
    return level.replace(cells=_put(level.cells, at, FLOOR_CELL)), _arguments(level, at, -1, thing)


def can_replace_object(palette: Palette, level: Level) -> Bool[Array, ""]:
    return jnp.any(_changeable(level.cells, movable_at(level), palette.movables))


def replace_object(palette: Palette, key: Key[Array, ""], level: Level) -> Changed:
    """A movable object has become another one. Lineage: where, none, the new object."""
    return _replace(edit_draws(key), level, movable_at(level), palette.movables)


def _doors_to_replace(level: Level) -> Bool[Array, "rows cols"]:
    """Not the one the agent stands on: it would be shut in."""
    return door_at(level) & ~_agent_at(level)


def can_replace_door(palette: Palette, level: Level) -> Bool[Array, ""]:
    return jnp.any(_changeable(level.cells, _doors_to_replace(level), palette.doors))


def replace_door(palette: Palette, key: Key[Array, ""], level: Level) -> Changed:
    """A door has another colour or state, or both. Lineage: where, none, the new door."""
    return _replace(edit_draws(key), level, _doors_to_replace(level), palette.doors)


def _replace(
    u: Float32[Array, "draws"], level: Level, mask: Bool[Array, "rows cols"], choices: UInt8[Array, "n"]
) -> Changed:
    at = pick_cell(u[1], _changeable(level.cells, mask, choices))
    thing = _other(u[2], choices, level.cells.reshape(-1)[at])
    return level.replace(cells=_put(level.cells, at, thing)), _arguments(level, at, -1, thing)
