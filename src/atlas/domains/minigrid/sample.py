"""Random levels, and levels and propositions fitted to each other: what a level allows, what a task needs."""

from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int, Int32, Key, UInt8, UInt32

from atlas.chance import below, pick, subset
from atlas.domains.minigrid.alphabet import ANY_STATE, DESCRIPTORS, DOOR_TYPE, PROPOSITIONS, Descriptor
from atlas.domains.minigrid.grid import (
    BALL,
    COLOURS,
    DOOR_CLOSED,
    DOOR_LOCKED,
    DOOR_OPEN,
    FLOOR_CELL,
    FREE_FORM,
    INDEXED,
    KEY,
    KINDS,
    NOTHING,
    OUTSIDE_CELL,
    ROOM_GRID,
    WALL_CELL,
    Layouts,
    Level,
    as_cell,
    cell,
    layouts,
    size_of,
)
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.struct import Struct

# Drawing levels at random.
#
# Every choice is one random number, so a level costs a few dozen of them; nothing is sorted.


class Bounds(Struct):
    """The limits of one sampled level, as traced values."""

    rooms: Int[Array, ""]
    least: Int[Array, ""]
    """Fewest objects, doors included."""
    most: Int[Array, ""]


def movable_cells(config: MinigridConfig) -> np.ndarray:
    """`uint8[n]`: every movable object that the settings allow."""
    return np.array([cell(KINDS.index(t), COLOURS.index(c)) for t in config.types for c in config.colours], np.uint8)


def door_cells(config: MinigridConfig) -> np.ndarray:
    """`uint8[n]`: every door that the settings allow."""
    kinds = [KINDS.index(f"door_{state}") for state in config.door_states]
    return np.array([cell(kind, COLOURS.index(c)) for kind in kinds for c in config.colours], np.uint8)


def draw_bounds(u: Float32[Array, ""], table: Layouts, weights: tuple[float, ...] = ()) -> Bounds:
    """A room count with the limits of the table; each is as likely as the other unless weights say otherwise."""
    if weights:
        ends = np.cumsum(weights, dtype=np.float32) / np.sum(weights, dtype=np.float32)
        place = jnp.minimum(jnp.sum(u >= ends, dtype=jnp.int32), len(weights) - 1)
    else:
        place = below(u, len(table.rooms))
    rooms = jnp.asarray(table.rooms)[place]
    return Bounds(rooms=rooms, least=jnp.asarray(table.least)[rooms], most=jnp.asarray(table.most)[rooms])


def minimal_bounds() -> Bounds:
    """One room with one object."""
    return Bounds(rooms=jnp.int32(1), least=jnp.int32(1), most=jnp.int32(1))


def level_sampler(config: MinigridConfig) -> Callable[[Key[Array, ""], Bounds | None], Level]:
    """`sample(key, bounds=None)`: a level by the settings, or one of rooms within other bounds. Arrays have one size
    throughout."""
    table = layouts(config)
    movables, doors = jnp.asarray(movable_cells(config)), jnp.asarray(door_cells(config))
    order = np.argsort(config.rooms)
    weights = tuple(config.room_weights[i] for i in order) if config.room_weights else ()

    def sample(key: Key[Array, ""], bounds: Bounds | None = None) -> Level:
        varied = bounds is None and (config.walls or config.traps)
        key_objects, key_place, *more = jax.random.split(key, 4 if varied else 2)
        # One call for many numbers: XLA compiles each call anew, and that takes longer than all the rest.
        u = jax.random.uniform(key_objects, (2 + table.most_movable + table.doors.shape[1],))
        bounds = draw_bounds(u[0], table, weights) if bounds is None else bounds
        count = bounds.least + below(u[1], bounds.most - bounds.least + 1)
        movable = movables[below(u[2 : 2 + table.most_movable], len(movables))]
        door = doors[below(u[2 + table.most_movable :], len(doors))]
        ground = rooms_ground(table, bounds.rooms)
        if varied:
            key_maze, key_trap = more
            ground, count = _maybe_maze(key_maze, config.walls, table, ground, count)
            movable, door, count = _maybe_trap(key_trap, config, ground, movable, door, count)
        return furnish(key_place, table, ground, count, movable, door)

    return sample


class Ground(Struct):
    """An empty level: its cells, and where objects and doors may go. Places are flat indices into the grid."""

    rooms: Int32[Array, ""]
    """What `Level.rooms` will say."""
    cells: UInt8[Array, "cells"]
    floor: Int32[Array, "places"]
    num_floor: Int32[Array, ""]
    doors: Int32[Array, "doors"]
    """Beyond the grid where there is none."""
    num_doors: Int32[Array, ""]


def rooms_ground(table: Layouts, rooms: Int[Array, ""]) -> Ground:
    """Empty rooms."""
    return Ground(
        rooms=rooms.astype(jnp.int32),
        cells=jnp.asarray(table.blank)[rooms].reshape(-1),
        floor=jnp.asarray(table.floor)[rooms],
        num_floor=jnp.asarray(table.num_floor)[rooms],
        doors=jnp.asarray(table.doors)[rooms],
        num_doors=jnp.asarray(table.num_doors)[rooms],
    )


def furnish(
    key: Key[Array, ""],
    table: Layouts,
    ground: Ground,
    count: Int[Array, ""],
    movable: UInt8[Array, "objects"],
    door: UInt8[Array, "doors"],
) -> Level:
    """Put the given doors and so many objects in all, doors included, on empty ground, and the agent beside them."""
    u = jax.random.uniform(key, (2 + movable.shape[0],))
    agent = below(u[0], ground.num_floor)
    places = _places(u[2:], ground.num_floor, agent, count - ground.num_doors)
    where = jnp.where(places >= 0, ground.floor[places], table.nowhere)
    where = jnp.concatenate([where, ground.doors])
    cells = ground.cells.at[where].set(jnp.concatenate([movable, door]), mode="drop")
    return Level(
        cells=cells.reshape(table.shape),
        position=jnp.stack(jnp.divmod(ground.floor[agent], table.shape[1])).astype(jnp.int8),
        direction=below(u[1], 4).astype(jnp.int8),
        carrying=as_cell(NOTHING),
        rooms=ground.rooms.astype(jnp.int8),
    )


# Mazes: junctions lie two cells apart, and the cells between them are passages or walls. A random walk that steps back
# when it is stuck visits every junction, which makes long corridors; then some of the walls are taken away.

MAZE_DOORS: Final = 3
"""Most doors of a maze."""
MAZE_SPACING: Final = 4
"""Junctions for each movable object, at the least: objects stand in the way."""


def _maybe_maze(
    key: Key[Array, ""], share: float, table: Layouts, ground: Ground, count: Int[Array, ""]
) -> tuple[Ground, Int[Array, ""]]:
    """A maze of the same size instead of the rooms, with a chance; and how many objects it gets."""
    key_chance, key_maze = jax.random.split(key)
    maze = maze_ground(key_maze, table, ground.rooms)
    fewer = jnp.minimum(count, maze.num_doors + jnp.minimum(maze.num_floor // MAZE_SPACING, table.most_movable))
    chosen = jax.random.uniform(key_chance) < share
    places = max(len(maze.floor), len(ground.floor))
    maze, ground = (
        one.replace(floor=jnp.pad(one.floor, (0, places - len(one.floor)), constant_values=table.nowhere))
        for one in (maze, ground)
    )
    return jax.tree.map(lambda a, b: jnp.where(chosen, a, b), (maze, fewer), (ground, count))


def maze_ground(key: Key[Array, ""], table: Layouts, rooms: Int[Array, ""]) -> Ground:
    """A maze as large as a level of so many rooms. All of it is connected, but for doors."""
    sizes = np.array([size_of(n) if n in ROOM_GRID else (1, 1) for n in range(INDEXED)])
    rows, cols = table.shape
    height, width = (jnp.asarray(sizes // 2)[rooms, axis] for axis in range(2))
    down, across = rows // 2, cols // 2
    key_walk, key_gaps, key_doors = jax.random.split(key, 3)
    right, below_ = _corridors(key_walk, height, width, down, across)
    row, col = np.divmod(np.arange(down * across), across)
    exists = jnp.asarray((row < height) & (col < width))
    u = jax.random.uniform(key_gaps, (2, down * across))
    gaps = jnp.square(jax.random.uniform(jax.random.fold_in(key_gaps, 1)))
    right |= (u[0] < gaps) & exists & (col + 1 < width)
    below_ |= (u[1] < gaps) & exists & (row + 1 < height)

    def interleave(one: Bool[Array, "a b"], other: Bool[Array, "a b"], axis: int) -> Bool[Array, "c d"]:
        shape = [side * (2 if i == axis else 1) for i, side in enumerate(one.shape)]
        return jnp.stack([one, other], axis + 1).reshape(shape)

    junction, beside, beneath = (x.reshape(down, across) for x in (exists, right, below_))
    is_floor = interleave(interleave(junction, beside, 1), interleave(beneath, jnp.zeros_like(beneath), 1), 0)
    is_floor = jnp.pad(is_floor, ((1, rows - 1 - 2 * down), (1, cols - 1 - 2 * across)))
    inside = (np.arange(rows)[:, None] < 2 * height + 1) & (np.arange(cols)[None] < 2 * width + 1)
    cells = jnp.where(is_floor, FLOOR_CELL, jnp.where(inside, WALL_CELL, OUTSIDE_CELL)).astype(jnp.uint8)
    # Doors: some of the passages, in random order.
    places = np.concatenate([(2 * row + 1) * cols + 2 * col + 2, (2 * row + 2) * cols + 2 * col + 1])
    u = jax.random.uniform(key_doors, (1 + len(places),))
    slots = table.doors.shape[1]
    num_doors = jnp.minimum(below(u[0], MAZE_DOORS + 1), slots)
    score, order = jax.lax.top_k(jnp.where(jnp.concatenate([right, below_]), u[1:], -1.0), slots)
    is_door = (np.arange(slots) < num_doors) & (score >= 0)
    number = np.arange(down * across)
    return Ground(
        rooms=jnp.int32(FREE_FORM),
        cells=cells.reshape(-1),
        floor=jnp.asarray((2 * (number // width) + 1) * cols + 2 * (number % width) + 1, jnp.int32),
        num_floor=(height * width).astype(jnp.int32),
        doors=jnp.where(is_door, jnp.asarray(places, jnp.int32)[order], table.nowhere),
        num_doors=jnp.sum(is_door, dtype=jnp.int32),
    )


def _corridors(
    key: Key[Array, ""], height: Int[Array, ""], width: Int[Array, ""], down: int, across: int
) -> tuple[Bool[Array, "junctions"], Bool[Array, "junctions"]]:
    """Which junctions are joined to the one on their right, and to the one below: a tree over height x width of them,
    in a grid of down x across."""
    junctions, steps = down * across, jnp.asarray([-across, 1, across, -1])
    words = np.arange(-(-junctions // 32))  # sets of junctions are bits: the walk is ten times as fast with them

    def only(at: Int[Array, ""], there: Bool[Array, ""]) -> UInt32[Array, "words"]:
        """The set of one junction, or of none."""
        return jnp.where(there & (words == at // 32), jnp.uint32(1) << (at % 32).astype(jnp.uint32), jnp.uint32(0))

    def holds(some: UInt32[Array, "words"], at: Int[Array, "*n"]) -> Bool[Array, "*n"]:
        return (some[at // 32] >> (at % 32).astype(jnp.uint32)) & 1 == 1

    def walk(state: Any, u: Float32[Array, ""]) -> tuple[Any, None]:
        at, seen, low, high, right, below_ = state  # low and high: bits of the way that led to a junction
        row, col = jnp.divmod(at, across)
        within = jnp.stack([row > 0, col + 1 < width, row + 1 < height, col > 0])
        can = within & ~holds(seen, jnp.clip(at + steps, 0, junctions - 1))
        moves = jnp.any(can)
        way = jnp.minimum(pick(u, can), 3)
        came = holds(low, at) + 2 * holds(high, at)
        to = jnp.where(moves, at + steps[way], jnp.where(at == start, at, at - steps[came]))
        return (
            to,
            seen | only(to, moves),
            low | only(to, moves & (way % 2 == 1)),
            high | only(to, moves & (way >= 2)),
            right | only(at, moves & (way == 1)) | only(to, moves & (way == 3)),
            below_ | only(at, moves & (way == 2)) | only(to, moves & (way == 0)),
        ), None

    key_start, key_walk = jax.random.split(key)
    first = below(jax.random.uniform(key_start), height * width)
    start = first // width * across + first % width
    nothing = jnp.zeros(len(words), jnp.uint32)
    state = (start, only(start, jnp.array(True)), nothing, nothing, nothing, nothing)
    draws = jax.random.uniform(key_walk, (2 * junctions,))
    (_, _, _, _, right, below_), _ = jax.lax.scan(walk, state, draws)
    return holds(right, jnp.arange(junctions)), holds(below_, jnp.arange(junctions))


def _maybe_trap(
    key: Key[Array, ""],
    config: MinigridConfig,
    ground: Ground,
    movable: UInt8[Array, "objects"],
    door: UInt8[Array, "doors"],
    count: Int[Array, ""],
) -> tuple[UInt8[Array, "objects"], UInt8[Array, "doors"], Int[Array, ""]]:
    """With a chance, one of the doors is locked and one of the objects is its key."""
    u = jax.random.uniform(key, (3,))
    chosen = (u[0] < config.traps) & (ground.num_doors > 0)
    colours = np.array([COLOURS.index(colour) for colour in config.colours], np.uint8)
    colour = jnp.asarray(colours)[below(u[1], len(colours))]
    is_door = chosen & (np.arange(door.shape[0]) == below(u[2], ground.num_doors))
    is_key = chosen & (np.arange(movable.shape[0]) == 0)
    return (
        jnp.where(is_key, cell(KEY, 0) + colour, movable),
        jnp.where(is_door, cell(DOOR_LOCKED, 0) + colour, door),
        jnp.where(chosen, jnp.maximum(count, ground.num_doors + 1), count),
    )


def _places(
    u: Float32[Array, "objects"], num_floor: Int32[Array, ""], agent: Int32[Array, ""], count: Int32[Array, ""]
) -> Int32[Array, "objects"]:
    """`count` different floor cells, none of them the agent's, by number; -1 for objects that are not placed."""
    chosen = subset(u, num_floor - 1, count)
    return jnp.where(chosen >= 0, chosen + (chosen >= agent), -1)


# Levels and propositions fitted to each other: what a level allows, and levels that hold what a task mentions.
#
# An object is numbered by its kind and colour here (`kind * colours + colour`), NO_OBJECT is none.

NUM_COLOURS: Final = len(COLOURS) - 1
OBJECT_KINDS: Final = tuple(range(BALL, DOOR_OPEN + 1))
"""Every kind of object there is: three movable, then doors in three states."""

OBJECTS: Final = np.array([cell(kind, colour) for kind in OBJECT_KINDS for colour in range(NUM_COLOURS)], np.uint8)
"""The cell of each object."""
NO_OBJECT: Final = len(OBJECTS)


def _fits(thing: Descriptor, kind: int, colour: int) -> bool:
    is_door = kind >= DOOR_CLOSED
    state = kind - DOOR_CLOSED if is_door else ANY_STATE
    return thing.covers(Descriptor(DOOR_TYPE if is_door else kind - BALL, colour, state))


FITS: Final = np.array([[_fits(thing, *divmod(int(code), 8)) for code in OBJECTS] for thing in DESCRIPTORS], np.int32)
"""`[descriptors, objects]`: which objects each descriptor names."""


def _meet(one: Descriptor, other: Descriptor) -> int:
    """The descriptor of what fits both, as a row of FITS; one past the last if nothing does."""
    both = FITS[DESCRIPTORS.index(one)] * FITS[DESCRIPTORS.index(other)]
    rows = np.flatnonzero((both == FITS).all(1))
    return int(rows[0]) if len(rows) and both.any() else len(DESCRIPTORS)


_PAIRS: Final = [(about.objects[0], about.objects[-1]) for about in PROPOSITIONS]
_FIRST: Final = np.array([DESCRIPTORS.index(one) for one, _ in _PAIRS])
_SECOND: Final = np.array([DESCRIPTORS.index(other) for _, other in _PAIRS])
_IS_PAIR: Final = np.array([len(about.objects) == 2 for about in PROPOSITIONS])
_BOTH: Final = np.array(
    [_meet(*pair) if is_pair else len(DESCRIPTORS) for pair, is_pair in zip(_PAIRS, _IS_PAIR, strict=True)]
)
"""What is counted twice when the two of a pair are counted apart."""


def count_by_kind(level: Level) -> Int32[Array, "kinds colours"]:
    """How many objects of each kind and colour there are, a carried one included."""
    codes = jnp.append(level.cells.reshape(-1), level.carrying)
    bins = jnp.zeros(8 * len(KINDS), jnp.int32).at[codes].add(1)
    return bins.reshape(len(KINDS), 8)[BALL:, :NUM_COLOURS]


def possible(level: Level) -> Bool[Array, "props"]:
    """Which propositions the objects of this level could make true, wherever they lie.

    A pair needs two objects. Doors stay locked unless there is a key of their colour, and any other door can be open
    or closed; a locked one is needed where a proposition says so.
    """
    fitting = jnp.append(_count_fitting(_in_time(count_by_kind(level))), 0)
    first, second, both = (fitting[index] for index in (_FIRST, _SECOND, _BOTH))
    return jnp.where(jnp.asarray(_IS_PAIR), first * second > both, first > 0)


def _count_fitting(counts: Int32[Array, "kinds colours"]) -> Int32[Array, "descriptors"]:
    """How many objects fit each descriptor: FITS times the counts, as sums (XLA would redo a product at every use)."""
    of_any_colour = jnp.concatenate([counts, jnp.sum(counts, axis=1, keepdims=True)], axis=1)
    movables, doors = jnp.split(of_any_colour, [DOOR_CLOSED - BALL])
    return jnp.concatenate([movables, doors, jnp.sum(doors, axis=0, keepdims=True)]).reshape(-1)


def _in_time(counts: Int32[Array, "kinds colours"]) -> Int32[Array, "kinds colours"]:
    """The counts once every door that can be opened has been seen open and closed as well."""
    closed, locked, opened, key = (kind - BALL for kind in (DOOR_CLOSED, DOOR_LOCKED, DOOR_OPEN, KEY))
    free = counts[closed] + counts[opened] + jnp.where(counts[key] > 0, counts[locked], 0)
    return counts.at[jnp.array([closed, opened])].set(free)


class Demand(Struct):
    """The objects a level needs so that it holds what a task mentions."""

    movable: Int32[Array, "objects"]
    """By number; NO_OBJECT in the places left over."""
    door: Int32[Array, "doors"]


def level_sampler_for(config: MinigridConfig, minimal: bool = False) -> Callable[..., Level]:
    """`sample(key, props)`: a level that holds instances of all the mentioned propositions (-1: none).

    Unspecified attributes are drawn at random, one object may serve several propositions, the rest is filled up with
    random objects. The room count is drawn among those with enough doors and room for the objects. Where there is
    none, the largest is taken and what does not fit is left out. `minimal` takes the smallest and fills up nothing.
    """
    table = layouts(config)
    usual = np.isin(OBJECTS, np.concatenate([movable_cells(config), door_cells(config)]))

    def sample(key: Key[Array, ""], props: Int[Array, "mentions"]) -> Level:
        key_demand, key_fill, key_place = jax.random.split(key, 3)
        demand = _demand(key_demand, props, table, jnp.asarray(usual))
        u = jax.random.uniform(key_fill, (2 + demand.movable.shape[0] + demand.door.shape[0], 2))
        needed, doors = jnp.sum(demand.movable != NO_OBJECT), jnp.sum(demand.door != NO_OBJECT)
        rooms = _draw_rooms(u[0, 0], table, needed, doors, minimal)
        least = jnp.maximum(jnp.asarray(table.least)[rooms], jnp.asarray(table.num_doors)[rooms] + needed)
        most = jnp.asarray(table.most)[rooms]
        count = least if minimal else least + below(u[1, 0], jnp.maximum(most - least, 0) + 1)
        split = 2 + demand.movable.shape[0]
        movable = _fill(u[2:split, 0], demand.movable, jnp.asarray(movable_cells(config)))
        door = _fill(u[split:, 0], demand.door, jnp.asarray(door_cells(config)))
        # The places behind those that will be used are not shuffled: what is demanded must stay among them.
        movable = _shuffle(u[2:split, 1], movable, jnp.minimum(count, most) - jnp.asarray(table.num_doors)[rooms])
        door = _shuffle(u[split:, 1], door, jnp.asarray(table.num_doors)[rooms])
        return furnish(key_place, table, rooms_ground(table, rooms), jnp.minimum(count, most), movable, door)

    return sample


def _demand(
    key: Key[Array, ""], props: Int[Array, "mentions"], table: Layouts, usual: Bool[Array, "objects"]
) -> Demand:
    """Go through the propositions and add what is not there yet."""
    fits = jnp.pad(jnp.asarray(FITS), ((0, 1), (0, 1)))

    def serve(demand: Demand, turn: tuple[Int[Array, ""], Float32[Array, "2"]]) -> tuple[Demand, None]:
        prop, u = turn
        things = jnp.concatenate([demand.movable, demand.door])
        descriptors = jnp.stack([jnp.asarray(table_)[prop] for table_ in (_FIRST, _SECOND, _BOTH)])
        first, second, both = jnp.sum(fits[descriptors[:, None], things[None]], axis=1)
        is_pair = jnp.asarray(_IS_PAIR)[prop]
        wants_first = (prop >= 0) & (first == 0)
        wants_second = (prop >= 0) & is_pair & ((second == 0) | ((first > 0) & (first * second == both)))
        demand = _add(demand, wants_first, _instance(u[0], fits[descriptors[0], :-1] > 0, usual))
        return _add(demand, wants_second, _instance(u[1], fits[descriptors[1], :-1] > 0, usual)), None

    nothing = Demand(
        movable=jnp.full(table.most_movable, NO_OBJECT, jnp.int32),
        door=jnp.full(table.doors.shape[1], NO_OBJECT, jnp.int32),
    )
    return jax.lax.scan(serve, nothing, (props, jax.random.uniform(key, (props.shape[0], 2))))[0]


def _instance(
    u: Float32[Array, ""], fitting: Bool[Array, "objects"], usual: Bool[Array, "objects"]
) -> Int32[Array, ""]:
    """One of the fitting objects; one that the settings draw, if there is any."""
    return pick(u, jnp.where(jnp.any(fitting & usual), fitting & usual, fitting))


def _add(demand: Demand, wanted: Bool[Array, ""], thing: Int32[Array, ""]) -> Demand:
    """Append an object to the movables or the doors; if there is no place left it is left out."""
    is_door = thing >= (DOOR_CLOSED - BALL) * NUM_COLOURS

    def append(things: Int32[Array, "n"], adds: Bool[Array, ""]) -> Int32[Array, "n"]:
        end = jnp.sum(things != NO_OBJECT)
        return jnp.where(adds & (jnp.arange(things.shape[0]) == end), thing, things)

    return Demand(movable=append(demand.movable, wanted & ~is_door), door=append(demand.door, wanted & is_door))


def _draw_rooms(
    u: Float32[Array, ""], table: Layouts, movables: Int32[Array, ""], doors: Int32[Array, ""], smallest: bool
) -> Int32[Array, ""]:
    """One of the room counts with enough doors and places; the largest if there is none."""
    choices = jnp.asarray(table.rooms)
    fits = jnp.asarray(table.num_doors)[choices] >= doors
    fits &= jnp.asarray(table.most - table.num_doors)[choices] >= movables
    place = jnp.argmax(fits) if smallest else pick(u, fits)
    return choices[jnp.where(jnp.any(fits), place, choices.shape[0] - 1)]


def _fill(u: Float32[Array, "n"], things: Int32[Array, "n"], usual: UInt8[Array, "choices"]) -> UInt8[Array, "n"]:
    """Cells of the demanded objects, then random ones."""
    demanded = jnp.asarray(OBJECTS)[jnp.minimum(things, NO_OBJECT - 1)]
    return jnp.where(things != NO_OBJECT, demanded, usual[below(u, usual.shape[0])])


def _shuffle(u: Float32[Array, "n"], cells: UInt8[Array, "n"], used: Int32[Array, ""]) -> UInt8[Array, "n"]:
    """The first `used` cells in random order: places are filled in an order that is not uniform."""
    return cells[jnp.argsort(jnp.where(jnp.arange(u.shape[0]) < used, u, 2.0))]
