"""Problems to measure with, made by hand so that they are the same whatever the samplers do."""

import jax
import jax.numpy as jnp
import numpy as np

from atlas.domains.minigrid.grid import DOORS, FLOOR_CELL, MOVABLE, NOTHING, Level, blank, cell, door_places
from atlas.tasks.machine import TaskSize
from atlas.tasks.packed import PackedTask
from atlas.types import Problem

OBJECTS = {1: 5, 2: 7, 4: 10, 6: 13, 9: 18}
"""Movable objects, by number of rooms."""


def problems(batch: int, size: TaskSize, rooms: int = 6) -> Problem:
    """Levels of so many rooms with tasks of a size."""
    rng = np.random.default_rng(0)
    return Problem(level=levels(rng, batch, rooms), task=tasks(rng, batch, size))


def levels(rng: np.random.Generator, batch: int, rooms: int = 6) -> Level:
    """Every door of any kind, and a number of objects that suits the rooms."""
    cells = np.repeat(blank(rooms)[None], batch, 0)
    position = np.zeros((batch, 2), np.int8)
    for grid, place in zip(cells, position, strict=True):
        free = rng.permutation(np.argwhere(grid == FLOOR_CELL))
        for row, column in door_places(rooms):
            grid[row, column] = cell(int(rng.choice(DOORS)), int(rng.integers(6)))
        for row, column in free[1 : OBJECTS[rooms] + 1]:
            grid[row, column] = cell(int(rng.choice(MOVABLE)), int(rng.integers(6)))
        place[:] = free[0]
    return jax.vmap(Level)(
        cells=jnp.asarray(cells),
        position=jnp.asarray(position),
        direction=jnp.asarray(rng.integers(0, 4, batch), jnp.int8),
        carrying=jnp.full(batch, NOTHING, jnp.uint8),
        rooms=jnp.full(batch, rooms, jnp.int8),
    )


def tasks(rng: np.random.Generator, batch: int, size: TaskSize) -> PackedTask:
    """Flat tasks: every edge leads to the next state, and the last one accepts."""
    shape, states = (batch, *size[:4]), size.states
    chain = np.where(np.arange(states) < states - 1, np.arange(states) + 1, -1)
    guard = rng.integers(1, 890, shape) * rng.choice([-1, 1], shape)
    guard[..., 0] = abs(guard[..., 0])  # one positive literal on each edge, so that tasks take a while
    return PackedTask.unchecked(
        target=jnp.asarray(np.broadcast_to(chain[:, None], shape[:4]), jnp.int8),
        guard=jnp.asarray(guard, jnp.int16),
        reward=jnp.asarray(np.broadcast_to(chain[:, None] == states - 1, shape[:4]), jnp.float32),
        outcome=jnp.asarray(np.broadcast_to(chain == -1, shape[:3]), jnp.int8),
    )
