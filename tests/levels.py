"""Levels of every kind, for tests of edits: sampled, played with, and free-form."""

import jax
import numpy as np

from atlas.domains.minigrid.grid import (
    BALL,
    BLUE,
    DOOR_OPEN,
    DOORS,
    FLOOR_CELL,
    FREE_FORM,
    KEY,
    MOVABLE,
    RED,
    WALL_CELL,
    Level,
    cell,
)
from atlas.domains.minigrid.sample import level_sampler
from atlas.domains.minigrid.settings import MinigridConfig


def varied_levels(config: MinigridConfig, num: int) -> Level:
    """A batch, as numpy: a third as sampled, a third as hindsight may leave them, a sixth free-form, the rest bare."""
    drawn = jax.jit(jax.vmap(level_sampler(config)))(jax.random.split(jax.random.key(11), num))
    fields = {name: np.array(value) for name, value in vars(jax.device_get(drawn)).items()}
    rng = np.random.default_rng(0)
    for i in range(num):
        one = {name: value[i] for name, value in fields.items()}
        [_leave, _leave, _free_form, _bare, _leave, _leave][i % 6](one, rng) if i % 3 else None
        for name, value in one.items():
            fields[name][i] = value
    return Level.unchecked(**fields)


def _leave(level: dict, rng: np.random.Generator) -> None:
    """The agent has picked something up and, if it can, stands in a doorway."""
    things = np.argwhere(np.isin(level["cells"] >> 3, MOVABLE))
    if len(things) and rng.random() < 0.7:
        row, column = things[rng.integers(len(things))]
        level["carrying"] = level["cells"][row, column]
        level["cells"][row, column] = FLOOR_CELL
    doors = np.argwhere(np.isin(level["cells"] >> 3, DOORS))
    if len(doors) and rng.random() < 0.7:
        row, column = doors[rng.integers(len(doors))]
        level["cells"][row, column] = cell(DOOR_OPEN, int(rng.integers(6)))
        level["position"] = np.array([row, column], np.int8)


def _free_form(level: dict, rng: np.random.Generator) -> None:
    """Walls and things anywhere."""
    things = [FLOOR_CELL] * 6 + [WALL_CELL] * 3 + [cell(BALL, RED), cell(KEY, BLUE), cell(DOOR_OPEN, RED)]
    density = rng.choice([3, len(things)])
    level["cells"] = rng.choice(np.array(things[-density:], np.uint8), level["cells"].shape)
    row, column = level["position"]
    level["cells"][row, column] = rng.choice([FLOOR_CELL, cell(DOOR_OPEN, BLUE)])
    level["rooms"] = np.int8(FREE_FORM)


def _bare(level: dict, rng: np.random.Generator) -> None:
    """Nothing but doors: what is left when the last object is carried."""
    kind = level["cells"] >> 3
    level["cells"][np.isin(kind, MOVABLE)] = FLOOR_CELL
    level["carrying"] = np.uint8(cell(BALL, RED))
