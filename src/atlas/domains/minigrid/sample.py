"""Drawing levels at random.

Every choice is one random number, so a level costs a few dozen of them; nothing is sorted.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float32, Int, Int32, Key, UInt8

from atlas.config import DomainConfig
from atlas.domains.minigrid.grid import COLOURS, KINDS, NOTHING, Level, as_cell, cell
from atlas.domains.minigrid.layouts import Layouts, layouts
from atlas.draw import below, subset
from atlas.struct import Struct


class Bounds(Struct):
    """What a level shall look like, as values that may differ from one call to the next."""

    rooms: Int[Array, ""]
    least: Int[Array, ""]
    """Fewest objects, doors included."""
    most: Int[Array, ""]


def movable_cells(config: DomainConfig) -> np.ndarray:
    """`uint8[n]`: every movable object that the settings allow."""
    return np.array([cell(KINDS.index(t), COLOURS.index(c)) for t in config.types for c in config.colours], np.uint8)


def door_cells(config: DomainConfig) -> np.ndarray:
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


def level_sampler(config: DomainConfig) -> Callable[[Key[Array, ""], Bounds | None], Level]:
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
