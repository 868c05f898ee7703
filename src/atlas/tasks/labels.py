"""Drawing propositions: uniformly from a mask."""

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Int, Key


def draw(key: Key[Array, ""], mask: Bool[Array, "props"], n: int) -> Int[Array, "{n}"]:
    """`n` propositions, independent and uniform over the mask (over all of them if the mask is empty)."""
    rank = jnp.cumsum(mask | ~jnp.any(mask), dtype=jnp.int32)
    wanted = jnp.floor(jax.random.uniform(key, (n,)) * rank[-1]).astype(jnp.int32)
    return jnp.searchsorted(rank, jnp.minimum(wanted, rank[-1] - 1), side="right")
