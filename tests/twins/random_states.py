"""Random worlds for tests: crowded, with agents everywhere an agent can be."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from atlas.domains.minigrid import dynamics
from atlas.domains.minigrid.grid import (
    DOOR_OPEN,
    DOORS,
    FLOOR_CELL,
    MOVABLE,
    NOTHING,
    OUTSIDE_CELL,
    WALL_CELL,
    Level,
    State,
    cell,
)

OBJECTS = np.array([cell(kind, colour) for kind in MOVABLE for colour in range(6)], np.uint8)
DOOR_CELLS = np.array([cell(kind, colour) for kind in DOORS for colour in range(6)], np.uint8)
AHEAD = (dynamics.OWN_ROW - 1, dynamics.OWN_COLUMN)
"""Where a view shows the cell in front of the agent."""

_reset = jax.jit(jax.vmap(dynamics.reset))


@lru_cache
def random_levels(seed: int, count: int, shape: tuple[int, int] = (13, 19), walled: bool = False) -> Level:
    """Levels of all sizes up to `shape`, with far more objects and doors than any sampler would give.

    Few colours in some of them, so that keys fit doors and pairs repeat. `walled` puts a wall around each.
    """
    rng = np.random.default_rng(seed)
    levels = [_random_level(rng, shape, walled) for _ in range(count)]
    cells, position, direction, carrying = (np.stack(column) for column in zip(*levels, strict=True))
    return jax.vmap(Level)(
        cells=jnp.asarray(cells),
        position=jnp.asarray(position, jnp.int8),
        direction=jnp.asarray(direction, jnp.int8),
        carrying=jnp.asarray(carrying, jnp.uint8),
        rooms=jnp.zeros(count, jnp.int8),
    )


def random_states(seed: int, count: int, shape: tuple[int, int] = (13, 19), walled: bool = False) -> State:
    """The states that `random_levels` start in."""
    return _reset(random_levels(seed, count, shape, walled))


def _random_level(rng: np.random.Generator, shape: tuple[int, int], walled: bool):
    rows, columns = rng.integers(4, shape[0] + 1), rng.integers(4, shape[1] + 1)
    colours = rng.permutation(6)[: rng.integers(1, 7)]
    share = rng.dirichlet([2, 0.5, 1.5, 1])
    kinds = rng.choice(4, (rows, columns), p=share)
    objects, doors = (_draw(rng, cells, colours, (rows, columns)) for cells in (OBJECTS, DOOR_CELLS))
    inside = np.choose(kinds, [np.uint8(FLOOR_CELL), np.uint8(WALL_CELL), objects, doors])
    if walled:
        inside[[0, -1]], inside[:, [0, -1]] = WALL_CELL, WALL_CELL
    edge = int(walled)
    position = rng.integers(edge, rows - edge), rng.integers(edge, columns - edge)
    inside[position] = rng.choice([FLOOR_CELL, cell(DOOR_OPEN, int(rng.choice(colours)))])
    cells = np.full(shape, OUTSIDE_CELL, np.uint8)
    cells[:rows, :columns] = inside
    carrying = NOTHING if rng.random() < 0.4 else _draw(rng, OBJECTS, colours, ())
    return cells, np.array(position), rng.integers(4), carrying


def _draw(rng: np.random.Generator, cells: np.ndarray, colours: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return rng.choice(cells[np.isin(cells & 7, colours)], shape)
