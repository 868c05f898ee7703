"""Tasks of every sampler, drawn once a test session: compiling a sampler takes longer than most tests."""

import functools

import jax
import numpy as np

from atlas.config import TaskConfig
from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.tasks.sample import SAMPLERS

COUNT = 64


@functools.cache
def sampled_tasks(name: str) -> list:
    """`COUNT` tasks of one sampler with its default settings, as numpy."""
    sample = SAMPLERS[name](TaskConfig(sampler=name), VOCABULARY)[0]
    keys = jax.random.split(jax.random.key(3), COUNT)
    batch = jax.jit(jax.vmap(sample, (0, None)))(keys, np.ones(len(VOCABULARY.names), bool))
    batch = jax.tree.map(np.asarray, batch)
    return [jax.tree.map(lambda x, i=i: x[i], batch) for i in range(COUNT)]
