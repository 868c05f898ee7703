"""Small changes of levels (the paper, Appendix D), one row each.

What an edit leaves in the lineage are places (row and column, packed) and cells; see each edit.
Objects are counted in the grid: a carried one is left alone. A level that follows no layout keeps its walls.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int, Int16, Int32, Key, UInt8, UInt32

from atlas.chance import WORD, below, edit_draws, pack_rows, pick, pick_bit, pick_cell
from atlas.domains.minigrid.grid import (
    DOORS,
    FLOOR_CELL,
    INDEXED,
    MOVABLE,
    PITCH,
    ROOM_GRID,
    Layouts,
    Level,
    count_objects,
    kind_of,
    layouts,
)
from atlas.domains.minigrid.sample import door_cells, movable_cells
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.types import Edit, pack_pair

# Growing and shrinking a level by a row or a column of rooms: 1 - 2 - 4 - 6 - 9, alternately across and down.
#
# The agent's rooms stay, both of them if it stands in a doorway. New rooms come empty, with random doors; those count
# as objects, so a grown level never has too few. Neither edit leads to a room count that the settings lack.

BEFORE, AFTER = range(2)
"""The sides: left or above, right or below."""
_LADDER: Final = tuple(ROOM_GRID)


class _Step(NamedTuple):
    """What changes from one room count to another, indexed by the count before."""

    rooms: np.ndarray
    """`int32[INDEXED]`: the room count afterwards; 0 if there is none."""
    across: np.ndarray
    """`bool[INDEXED]`: a column of rooms is added or removed, not a row."""
    kept: np.ndarray
    """`int32[INDEXED]`: how far the smaller of the two levels extends that way, up to its outer wall."""


def _steps(table: Layouts, direction: int) -> _Step:
    """One step up (1) or down (-1) the ladder, within the room counts in use."""
    rooms, across, kept = np.zeros(INDEXED, np.int32), np.zeros(INDEXED, bool), np.zeros(INDEXED, np.int32)
    for place, here in enumerate(_LADDER):
        there = _LADDER[place + direction] if 0 <= place + direction < len(_LADDER) else 0
        if there and table.in_use[there]:
            axis = int(ROOM_GRID[here][0] == ROOM_GRID[there][0])
            rooms[here], across[here] = there, bool(axis)
            kept[here] = PITCH * min(ROOM_GRID[here][axis], ROOM_GRID[there][axis])
    return _Step(rooms, across, kept)


def can_add_rooms(table: Layouts, level: Level) -> Bool[Array, ""]:
    """Applicable if there is a larger room count in use and its object limits hold with the new doors."""
    rooms = jnp.asarray(_steps(table, 1).rooms)[level.rooms]
    movables = jnp.sum(_movable(level.cells), dtype=jnp.int32)
    count = movables + jnp.asarray(table.num_doors)[rooms]
    within = (count >= jnp.asarray(table.least)[rooms]) & (count <= jnp.asarray(table.most)[rooms])
    return (rooms > 0) & within


def add_rooms(
    table: Layouts, doors: UInt8[Array, "doors"], key: Key[Array, ""], level: Level
) -> tuple[Level, Int16[Array, "3"]]:
    """The level has grown to one side. Lineage: the side, the room count afterwards, none."""
    step = _steps(table, 1)
    rooms = jnp.asarray(step.rooms)[level.rooms]
    u = edit_draws(key)
    side = below(u[0], 2)
    cells, offset = _shifted(level.cells, jnp.asarray(step.across)[level.rooms], (side == BEFORE) * PITCH)
    content = kind_of(cells) >= MOVABLE[0]
    grown = jnp.where(content, cells, jnp.asarray(table.blank)[rooms]).reshape(-1)
    places = jnp.asarray(table.doors)[rooms]
    is_new = ~content.reshape(-1).at[places].get(mode="fill", fill_value=True)
    grown = grown.at[jnp.where(is_new, places, table.nowhere)].set(
        doors[below(u[1 : 1 + len(places)], doors.shape[0])], mode="drop"
    )
    return _moved(level, grown.reshape(cells.shape), offset, rooms), _rooms_changed(side, rooms)


def can_remove_rooms(table: Layouts, level: Level) -> Bool[Array, ""]:
    """Applicable if there is a side that may go."""
    return jnp.any(_removable(table, level))


def remove_rooms(table: Layouts, key: Key[Array, ""], level: Level) -> tuple[Level, Int16[Array, "3"]]:
    """The rooms on one side are gone; if too many objects are left, random ones go too. Lineage: as for `add_rooms`."""
    u = edit_draws(key)
    step = _steps(table, -1)
    rooms = jnp.asarray(step.rooms)[level.rooms]
    side = pick(u[0], _removable(table, level))
    cells, offset = _shifted(level.cells, jnp.asarray(step.across)[level.rooms], (side == BEFORE) * -PITCH)
    bare = jnp.asarray(table.blank)[rooms]
    is_door = jnp.zeros(table.nowhere, bool).at[jnp.asarray(table.doors)[rooms]].set(True, mode="drop")
    cells = jnp.where((bare == FLOOR_CELL) | is_door.reshape(cells.shape), cells, bare)
    room_left = jnp.asarray(table.most - table.num_doors)[rooms]
    return _moved(level, _thin_out(u[1:], cells, room_left), offset, rooms), _rooms_changed(side, rooms)


def _removable(table: Layouts, level: Level) -> Bool[Array, "sides"]:
    """Which sides may go: the agent is in a room that stays, and enough objects are left."""
    step = _steps(table, -1)
    rooms, across = jnp.asarray(step.rooms)[level.rooms], jnp.asarray(step.across)[level.rooms]
    agent = jnp.where(across, level.position[1], level.position[0]).astype(jnp.int32)
    movable = _movable(level.cells)
    along_rows, along_columns = jnp.sum(movable, axis=1, dtype=jnp.int32), jnp.sum(movable, axis=0, dtype=jnp.int32)
    before, after = PITCH, jnp.asarray(step.kept)[level.rooms]

    def kept(along: Int32[Array, "n"]) -> Int32[Array, "sides"]:
        place = jnp.arange(along.shape[0])
        return jnp.stack([jnp.sum(jnp.where(place > before, along, 0)), jnp.sum(jnp.where(place < after, along, 0))])

    count = jnp.where(across, kept(along_columns), kept(along_rows)) + jnp.asarray(table.num_doors)[rooms]
    stays = jnp.stack([agent > before, agent < after])
    return (rooms > 0) & stays & (count >= jnp.asarray(table.least)[rooms])


def _movable(cells: UInt8[Array, "rows cols"]) -> Bool[Array, "rows cols"]:
    kind = kind_of(cells)
    return (kind >= MOVABLE[0]) & (kind <= MOVABLE[-1])


def _shifted(
    cells: UInt8[Array, "rows cols"], across: Bool[Array, ""], by: Int32[Array, ""]
) -> tuple[UInt8[Array, "rows cols"], Int32[Array, "2"]]:
    """The picture moved right or down by -PITCH, 0 or PITCH cells, and by how much in rows and columns."""
    ways = [(0, 0), (PITCH, 0), (-PITCH, 0), (0, PITCH), (0, -PITCH)]
    rolled = jnp.stack([jnp.roll(cells, way, (0, 1)) for way in ways])
    way = jnp.where(by == 0, 0, jnp.where(across, 3, 1) + (by < 0))
    return rolled[way], jnp.asarray(ways, jnp.int32)[way]


def _thin_out(
    u: Float32[Array, "draws"], cells: UInt8[Array, "rows cols"], most: Int32[Array, ""]
) -> UInt8[Array, "rows cols"]:
    """Remove random movable objects until at most so many are left."""

    rows, cols = cells.shape

    def too_many(now: tuple[Int32[Array, ""], UInt32[Array, "rows"]]) -> Bool[Array, ""]:
        return jnp.sum(jax.lax.population_count(now[1])).astype(jnp.int32) > most

    def remove(now: tuple[Int32[Array, ""], UInt32[Array, "rows"]]) -> tuple[Array, Array]:
        number, kept = now
        row, column = jnp.divmod(pick_bit(u[number % u.shape[0]], kept), WORD)
        bit = jnp.left_shift(jnp.uint32(1), column.astype(jnp.uint32))
        return number + 1, jnp.where(jnp.arange(rows) == row, kept & ~bit, kept)

    _, kept = jax.lax.while_loop(too_many, remove, (jnp.int32(0), pack_rows(_movable(cells))))
    stays = (kept[:, None] >> jnp.arange(cols, dtype=jnp.uint32)[None]) & 1 == 1
    return jnp.where(_movable(cells) & ~stays, jnp.uint8(FLOOR_CELL), cells)


def _moved(level: Level, cells: UInt8[Array, "rows cols"], offset: Int32[Array, "2"], rooms: Int32[Array, ""]) -> Level:
    position = (level.position + offset).astype(jnp.int8)
    return level.replace(cells=cells, position=position, rooms=rooms.astype(jnp.int8))


def _rooms_changed(side: Int32[Array, ""], rooms: Int32[Array, ""]) -> Int16[Array, "3"]:
    return jnp.stack([side, rooms, jnp.int32(-1)]).astype(jnp.int16)


Changed = tuple[Level, Int16[Array, "3"]]


@dataclass(frozen=True, eq=False)
class Palette:
    """What may be placed, and where the limits are."""

    table: Layouts
    movables: UInt8[Array, "movables"]
    doors: UInt8[Array, "doors"]


def level_edits(config: MinigridConfig) -> tuple[Edit[Level], ...]:
    """The table of level edits under these settings."""
    palette = Palette(layouts(config), *jax.device_put((movable_cells(config), door_cells(config))))
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


def _places_changed(level: Level, at: Int32[Array, ""] | int, to: Int32[Array, ""] | int, what: Array | int) -> Array:
    """The record of an edit: two places (-1 for none) and a number."""
    columns = level.cells.shape[1]
    places = [jnp.where(jnp.asarray(p) < 0, -1, pack_pair(jnp.asarray(p) // columns, p % columns)) for p in (at, to)]
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
    arguments = _places_changed(level, _flat(level, level.position), to, direction)
    return level.replace(position=position, direction=direction), arguments


def can_move_object(_: Palette, level: Level) -> Bool[Array, ""]:
    return jnp.any(movable_at(level)) & jnp.any(_free(level))


def move_object(_: Palette, key: Key[Array, ""], level: Level) -> Changed:
    """A movable object lies on another free cell. Lineage: from, to, the object."""
    u = edit_draws(key)
    to, at = pick_cell(u[0], _free(level)), pick_cell(u[1], movable_at(level))
    thing = level.cells.reshape(-1)[at]
    cells = _put(_put(level.cells, at, FLOOR_CELL), to, thing)
    return level.replace(cells=cells), _places_changed(level, at, to, thing)


def can_add_object(palette: Palette, level: Level) -> Bool[Array, ""]:
    return (count_objects(level.cells) < jnp.asarray(palette.table.most)[level.rooms]) & jnp.any(_free(level))


def add_object(palette: Palette, key: Key[Array, ""], level: Level) -> Changed:
    """A random movable object lies on a free cell. Lineage: none, to, the object."""
    u = edit_draws(key)
    to = pick_cell(u[0], _free(level))
    thing = palette.movables[below(u[1], palette.movables.shape[0])]
    return level.replace(cells=_put(level.cells, to, thing)), _places_changed(level, -1, to, thing)


def can_remove_object(palette: Palette, level: Level) -> Bool[Array, ""]:
    return (count_objects(level.cells) > jnp.asarray(palette.table.least)[level.rooms]) & jnp.any(movable_at(level))


def remove_object(_: Palette, key: Key[Array, ""], level: Level) -> Changed:
    """A movable object is gone. Lineage: from, none, the object."""
    at = pick_cell(edit_draws(key)[1], movable_at(level))
    thing = level.cells.reshape(-1)[at]
    return level.replace(cells=_put(level.cells, at, FLOOR_CELL)), _places_changed(level, at, -1, thing)


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
    return level.replace(cells=_put(level.cells, at, thing)), _places_changed(level, at, -1, thing)
