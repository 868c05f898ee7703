"""Uniform choices, made cheap: one random number each, no sort, no permutation."""

from typing import Final

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32, Int, Int32, Key

EDIT_DRAWS: Final = 16


def edit_draws(key: Key[Array, ""]) -> Float32[Array, "16"]:
    """The random numbers of one edit: more than most need, and the same for all, so that where every edit is tried in
    turn with one key the compiler draws (and compiles the drawing) once."""
    return jax.random.uniform(key, (EDIT_DRAWS,))


def below(u: Float32[Array, "*n"], count: Int[Array, "*n"] | int) -> Int32[Array, "*n"]:
    """A whole number in 0 … count - 1 from a number in [0, 1); 0 if the count is 0."""
    return jnp.floor(u * jnp.asarray(count, jnp.float32)).astype(jnp.int32)


def pick(u: Float32[Array, ""], mask: Bool[Array, "n"]) -> Int32[Array, ""]:
    """One of the true places, all equally likely; n if there is none."""
    rank = below(u, jnp.sum(mask, dtype=jnp.int32))
    return jnp.sum(jnp.cumsum(mask, dtype=jnp.int32) <= rank, dtype=jnp.int32)


def pick_cell(u: Float32[Array, ""], mask: Bool[Array, "rows cols"]) -> Int32[Array, ""]:
    """As `pick` for a grid, as a flat index: first the row, then the place in it, so that no long sum is needed."""
    in_row = jnp.sum(mask, axis=1, dtype=jnp.int32)
    rank = below(u, jnp.sum(in_row))
    row = jnp.minimum(jnp.sum(jnp.cumsum(in_row) <= rank, dtype=jnp.int32), mask.shape[0] - 1)
    before = jnp.sum(jnp.where(jnp.arange(mask.shape[0]) < row, in_row, 0))
    column = jnp.sum(jnp.cumsum(mask[row], dtype=jnp.int32) <= rank - before, dtype=jnp.int32)
    return row * mask.shape[1] + column


def subset(u: Float32[Array, "most"], total: Int32[Array, ""], count: Int32[Array, ""]) -> Int32[Array, "most"]:
    """`count` different numbers below `total`, every subset equally likely; -1 in the places left over (Floyd)."""
    most = u.shape[0]

    def add(i: Int32[Array, ""], chosen: Int32[Array, "most"]) -> Int32[Array, "most"]:
        last = total - count + i
        drawn = below(u[i], last + 1)
        new = jnp.where(jnp.any(chosen == drawn), last, drawn)
        return chosen.at[i].set(jnp.where(i < count, new, -1))

    return jax.lax.fori_loop(0, most, add, jnp.full(most, -1, jnp.int32))
