"""Random levels, and levels and propositions fitted to each other: what a level allows, what a task needs."""

from collections.abc import Callable
from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int, Int32, Key, UInt8

from atlas.chance import below, pick, subset
from atlas.domains.minigrid.alphabet import ANY_STATE, DESCRIPTORS, DOOR_TYPE, PROPOSITIONS, Descriptor
from atlas.domains.minigrid.grid import (
    BALL,
    COLOURS,
    DOOR_CLOSED,
    DOOR_LOCKED,
    DOOR_OPEN,
    KEY,
    KINDS,
    NOTHING,
    Layouts,
    Level,
    as_cell,
    cell,
    layouts,
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


def draw_bounds(u: Float32[Array, ""], table: Layouts) -> Bounds:
    """A room count, each as likely as the other, with the limits of the table."""
    rooms = jnp.asarray(table.rooms)[below(u, len(table.rooms))]
    return Bounds(rooms=rooms, least=jnp.asarray(table.least)[rooms], most=jnp.asarray(table.most)[rooms])


def minimal_bounds() -> Bounds:
    """One room with one object."""
    return Bounds(rooms=jnp.int32(1), least=jnp.int32(1), most=jnp.int32(1))


def level_sampler(config: MinigridConfig) -> Callable[[Key[Array, ""], Bounds | None], Level]:
    """`sample(key, bounds=None)`: a level by the settings, or within other bounds. Arrays have one size throughout."""
    table = layouts(config)
    movables, doors = jnp.asarray(movable_cells(config)), jnp.asarray(door_cells(config))

    def sample(key: Key[Array, ""], bounds: Bounds | None = None) -> Level:
        key_objects, key_place = jax.random.split(key)
        # One call for many numbers: XLA compiles each call anew, and that takes longer than all the rest.
        u = jax.random.uniform(key_objects, (2 + table.most_movable + table.doors.shape[1],))
        bounds = draw_bounds(u[0], table) if bounds is None else bounds
        count = bounds.least + below(u[1], bounds.most - bounds.least + 1)
        movable = movables[below(u[2 : 2 + table.most_movable], len(movables))]
        door = doors[below(u[2 + table.most_movable :], len(doors))]
        return furnish(key_place, table, bounds.rooms, count, movable, door)

    return sample


def furnish(
    key: Key[Array, ""],
    table: Layouts,
    rooms: Int[Array, ""],
    count: Int[Array, ""],
    movable: UInt8[Array, "objects"],
    door: UInt8[Array, "doors"],
) -> Level:
    """Put the given doors and so many objects in all, doors included, into empty rooms, and the agent beside them."""
    u = jax.random.uniform(key, (2 + movable.shape[0],))
    floor = jnp.asarray(table.floor)[rooms]
    num_floor = jnp.asarray(table.num_floor)[rooms]
    agent = below(u[0], num_floor)
    places = _places(u[2:], num_floor, agent, count - jnp.asarray(table.num_doors)[rooms])
    where = jnp.where(places >= 0, floor[places], table.nowhere)
    where = jnp.concatenate([where, jnp.asarray(table.doors)[rooms]])
    cells = jnp.asarray(table.blank)[rooms].reshape(-1)
    cells = cells.at[where].set(jnp.concatenate([movable, door]), mode="drop")
    return Level(
        cells=cells.reshape(table.shape),
        position=jnp.stack(jnp.divmod(floor[agent], table.shape[1])).astype(jnp.int8),
        direction=below(u[1], 4).astype(jnp.int8),
        carrying=as_cell(NOTHING),
        rooms=rooms.astype(jnp.int8),
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
        return furnish(key_place, table, rooms, jnp.minimum(count, most), movable, door)

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
