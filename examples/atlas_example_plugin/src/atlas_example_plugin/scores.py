"""A score: how large the largest error of the critic was in finished episodes."""

import jax
import jax.numpy as jnp
from jax import Array

from atlas.types import Record
from atlas.ued.scores import Played


def surprise(played: Played, record: Record) -> Array:
    """The largest absolute advantage in any finished episode; 0 without one."""
    finished = jnp.flip(jax.lax.cummax(jnp.flip(played.done.astype(jnp.int8), 0), axis=0), 0) > 0
    return jnp.max(jnp.where(finished, jnp.abs(played.advantage), 0.0), axis=0)
