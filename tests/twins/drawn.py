"""Batches of tasks from every sampler, each drawn and compiled once for all tests."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from atlas.config import TaskConfig
from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.tasks.rewards import count_paths
from atlas.tasks.sample import formalism

BATCH = 4096
MASKS = {
    "all": list(VOCABULARY.names),
    "red": [name for name in VOCABULARY.names if "red" in name],
    "balls": ["front_ball", "front_ball_red", "carrying_ball_red", "carrying_ball"],
    "one": ["front_key_blue"],
    "none": [],
}
"""Which propositions a sampler may use."""


@functools.cache
def sampler(name):
    """The jitted sampler of a batch, and the sizes it promises."""
    made, size = formalism(TaskConfig(sampler=name), VOCABULARY)
    return jax.jit(jax.vmap(made.sample, (0, None))), size


def mask_of(which):
    """One of the masks, as booleans."""
    mask = np.zeros(len(VOCABULARY.names), bool)
    mask[[VOCABULARY.ids[name] for name in MASKS[which]]] = True
    return jnp.asarray(mask)


@functools.cache
def drawn(name, which="all", seed=0):
    """A batch of tasks, as numpy arrays."""
    keys = jax.random.split(jax.random.key(seed), BATCH)
    return jax.tree.map(np.asarray, sampler(name)[0](keys, mask_of(which)))


@functools.cache
def paths(name, which="all"):
    """How many paths each task of a batch has, and how long they are."""
    return jax.tree.map(np.asarray, _count(drawn(name, which)))


_count = jax.jit(jax.vmap(count_paths))


def single(batch, i):
    """One task of a batch."""
    return jax.tree.map(lambda leaf: jax.device_put(leaf[i]), batch)
