"""Growing and shrinking a level by a row or a column of rooms: 1 - 2 - 4 - 6 - 9, alternately across and down.

The agent's rooms stay, both of them if it stands in a doorway. New rooms come empty, with random doors, which count as
objects; so the fewest objects a level may hold are there. Neither edit leads to a room count that the settings lack.
"""

from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int16, Int32, Key, UInt8, UInt32

from atlas.domains.minigrid.grid import FLOOR_CELL, MOVABLE, Level, kind_of
from atlas.domains.minigrid.layouts import INDEXED, PITCH, ROOM_GRID, Layouts
from atlas.draw import WORD, below, edit_draws, pack_rows, pick, pick_bit

BEFORE, AFTER = range(2)
"""The sides: left or above, right or below."""
_LADDER: Final = tuple(ROOM_GRID)


class _Step(NamedTuple):
    """What changes from one room count to another, indexed by the first."""

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
    return _moved(level, grown.reshape(cells.shape), offset, rooms), _arguments(side, rooms)


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
    return _moved(level, _thin_out(u[1:], cells, room_left), offset, rooms), _arguments(side, rooms)


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


def _arguments(side: Int32[Array, ""], rooms: Int32[Array, ""]) -> Int16[Array, "3"]:
    return jnp.stack([side, rooms, jnp.int32(-1)]).astype(jnp.int16)
