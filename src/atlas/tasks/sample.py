"""Samplers of tasks, by name. Each is jittable and takes the mask of propositions it may use."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Key

from atlas.config import TaskConfig
from atlas.tasks.labels import draw
from atlas.tasks.rm import ACCEPTED, RUNNING, UNUSED, RewardMachine, TaskSize
from atlas.types import Vocabulary

SampleFn = Callable[[Key[Array, ""], Bool[Array, "props"]], Any]
"""`(key, mask) -> task`."""


def sequential(key: Key[Array, ""], mask: Bool[Array, "props"], least: int, most: int) -> RewardMachine:
    """A sequence of `least` to `most` propositions, length and propositions uniform; 1 for the last of them."""
    key_length, key_props = jax.random.split(key)
    length = jax.random.randint(key_length, (), least, most + 1)
    props = draw(key_props, mask, most)
    states = jnp.arange(most + 1)
    before = states < length
    return RewardMachine(
        target=jnp.where(before, states + 1, UNUSED).astype(jnp.int8)[:, None],
        guard=jnp.where(before, jnp.append(props, 0) + 1, 0).astype(jnp.int16)[:, None, None],
        reward=(states == length - 1).astype(jnp.float32)[:, None],
        outcome=jnp.where(states == length, ACCEPTED, RUNNING).astype(jnp.int8),
    )


def _sequential(config: TaskConfig, vocabulary: Vocabulary) -> tuple[SampleFn, TaskSize]:
    def sample(key: Key[Array, ""], mask: Bool[Array, "props"]) -> RewardMachine:
        return sequential(key, mask, config.min_length, config.max_length)

    return sample, TaskSize(states=config.max_length + 1, edges=1, literals=1)


SAMPLERS: dict[str, Callable[[TaskConfig, Vocabulary], tuple[SampleFn, TaskSize]]] = {
    "sequential": _sequential,
}
"""Name -> what makes, from settings and a vocabulary, the sampler and the sizes of its tasks."""
