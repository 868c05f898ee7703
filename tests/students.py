"""Tiny students and the worlds they play in, shared by tests."""

from functools import cache

import jax
import jax.numpy as jnp

from atlas.config import DomainConfig, NetworkConfig, TaskConfig
from atlas.domains.minigrid.domain import Minigrid
from atlas.domains.minigrid.grid import COLOURS, KINDS, VIEW
from atlas.student.network import Student
from atlas.student.view import Cells
from atlas.tasks.sample import formalism
from atlas.types import Problem
from atlas.world import World

CELLS = Cells(rows=VIEW, cols=VIEW, kinds=len(KINDS), colours=len(COLOURS))
TINY = {
    "view": "dense", "embedding": 3, "filters": (4, 5, 6), "view_width": 8, "graph_layers": 2, "task_width": 8,
    "edge_width": 6, "action_embedding": 3, "recurrent": 10, "head_width": 9,
}  # fmt: skip
DOMAIN = Minigrid(DomainConfig(rooms=(1,)))


def student(**changes):
    """A student of a few hundred parameters, unless changed."""
    config = NetworkConfig(**{**TINY, **changes})
    return Student(config, CELLS, DOMAIN.num_actions, DOMAIN.vocabulary.features)


def paper():
    """The paper's network."""
    return Student(NetworkConfig(), CELLS, DOMAIN.num_actions, DOMAIN.vocabulary.features)


@cache
def world(sampler="sequential", step_limit=5):
    """One room; `sequential` tasks have up to three transitions."""
    config = TaskConfig(sampler=sampler, max_length=3, states=4, machines=2)
    return World(DOMAIN, formalism(config, DOMAIN.vocabulary)[0], step_limit)


@cache
def problems(count, sampler="sequential", seed=0):
    """Level-conditioned problems of one room."""
    tasks = world(sampler).formalism

    def draw(key):
        key_level, key_task = jax.random.split(key)
        level = DOMAIN.sample(key_level)
        return Problem(level=level, task=tasks.sample(key_task, DOMAIN.possible(level)))

    return jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(seed), count))


def pools(envs, pool, sampler="sequential", seed=0):
    """As problems, `[envs, pool]`."""
    flat = problems(envs * pool, sampler, seed)
    return jax.tree.map(lambda leaf: jnp.reshape(leaf, (envs, pool, *leaf.shape[1:])), flat)
