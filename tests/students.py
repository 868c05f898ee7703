"""Tiny students and the worlds they play in, shared by tests."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from atlas.config import NetworkConfig, TaskConfig
from atlas.domains.minigrid.domain import Minigrid
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.domains.minigrid.text import parse_level
from atlas.student.encode import Cells
from atlas.student.network import Student
from atlas.tasks.machine import ACCEPT, flat_task, hierarchy, machine
from atlas.tasks.packed import RewardMachines, pack
from atlas.tasks.sample import formalism
from atlas.types import Problem
from atlas.world import World

TINY = {
    "view": "dense", "embedding": 3, "filters": (4, 5, 6), "view_width": 8, "graph_layers": 1, "task_width": 8,
    "edge_width": 6, "action_embedding": 3, "recurrent": 10, "head_width": 9,
}  # fmt: skip
DOMAIN = Minigrid(MinigridConfig(rooms=(1,)))
CELLS = Cells(*DOMAIN.view_shape, DOMAIN.view_fields)
MAP_CELLS = Cells(*DOMAIN.map_shape, DOMAIN.map_fields)
SEQUENTIAL = formalism(TaskConfig(max_length=3), DOMAIN.vocabulary)[0]
BALL, SQUARE, KEY = (DOMAIN.vocabulary.ids[f"front_{name}"] + 1 for name in ("ball", "square", "key"))
HIERARCHY = pack(
    hierarchy(
        [
            machine([(0, 1, [-BALL], 0.0, 1), (1, ACCEPT, [SQUARE], 1.0)]),
            machine([(0, 1, [-SQUARE]), (1, ACCEPT, [-KEY])]),
        ]
    )
)
"""The call is soon made and soon returned from; the last step takes some luck."""


ROOM = """
    ##########
    ##......##
    ##..^.sr##
    ##......##
    ##########
"""


def student(**changes):
    """A student of a few hundred parameters, unless changed."""
    config = NetworkConfig(**{**TINY, **changes})
    cells = MAP_CELLS if config.map else CELLS
    return Student(config, cells, len(DOMAIN.actions), DOMAIN.vocabulary.features)


def views(cells, *lead, seed=0):
    """Random bytes that such views may have."""
    rng, view = np.random.default_rng(seed), np.zeros((*lead, cells.rows, cells.cols), np.uint8)
    for values in cells.fields:
        view = (view << (values - 1).bit_length()) | rng.integers(values, size=view.shape, dtype=np.uint8)
    return view


def paper():
    """The paper's network."""
    return Student(NetworkConfig(), CELLS, len(DOMAIN.actions), DOMAIN.vocabulary.features)


@cache
def world(hierarchical=False, step_limit=5):
    """One room; flat tasks have up to three transitions."""
    return World(DOMAIN, RewardMachines(sample=lambda *_: HIERARCHY) if hierarchical else SEQUENTIAL, step_limit)


@jax.jit
def draw(keys):
    """Level-conditioned problems of one room, one a key."""

    def one(key):
        key_level, key_task = jax.random.split(key)
        level = DOMAIN.sample(key_level)
        return Problem(level=level, task=SEQUENTIAL.sample(key_task, DOMAIN.possible(level)))

    return jax.vmap(one)(keys)


def pools(envs, pool, seed=0):
    """Flat problems, `[envs, pool]`."""
    flat = draw(jax.random.split(jax.random.key(seed), 18))
    return jax.tree.map(lambda leaf: leaf[: envs * pool].reshape(envs, pool, *leaf.shape[1:]), flat)


def problems(envs, hierarchical=False):
    """One an environment: look at a square, which is a turn away; the first environment looks at it already."""
    task = HIERARCHY if hierarchical else pack(flat_task([(0, ACCEPT, [SQUARE], 1.0)]))
    both = Problem(level=parse_level(ROOM), task=task), Problem(level=parse_level(ROOM.replace("^", ">")), task=task)
    return jax.tree.map(lambda other, first: jnp.stack([first] + [other] * (envs - 1)), *both)
