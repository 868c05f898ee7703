"""Uniform choices from one random number each, without sorting; sets of bits."""

from typing import Any, Final, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Float32, Int, Int32, Key, UInt32

WORD: Final = 32
"""Bits of a word."""
EDIT_DRAWS: Final = 16
ArrayT = TypeVar("ArrayT", Array, np.ndarray)


def edit_draws(key: Key[Array, ""]) -> Float32[Array, "16"]:
    """The random numbers of one edit. Every edit gets the same number of them from the same key, so that the compiler
    merges the calls where all edits are computed."""
    return jax.random.uniform(key, (EDIT_DRAWS,))


def below(u: Float32[Array, "*n"], count: Int[Array, "*n"] | int) -> Int32[Array, "*n"]:
    """An integer in 0 … count - 1 from a number in [0, 1); 0 if the count is 0."""
    return jnp.floor(u * jnp.asarray(count, jnp.float32)).astype(jnp.int32)


def pick(u: Float32[Array, ""], mask: Bool[Array, "n"]) -> Int32[Array, ""]:
    """Index of a true entry, uniform; n if there is none."""
    rank = below(u, jnp.sum(mask, dtype=jnp.int32))
    return jnp.sum(jnp.cumsum(mask, dtype=jnp.int32) <= rank, dtype=jnp.int32)


def pick_cell(u: Float32[Array, ""], mask: Bool[Array, "rows cols"]) -> Int32[Array, ""]:
    """`pick` on a grid of at most WORD columns; a flat index."""
    row, column = jnp.divmod(pick_bit(u, pack_rows(mask)), WORD)
    return row * mask.shape[1] + column


def pack_rows(mask: Bool[Array, "rows cols"]) -> UInt32[Array, "rows"]:
    """Each row as the bits of one word, the first column lowest."""
    places = jnp.arange(mask.shape[1], dtype=jnp.uint32)[None]
    return jnp.sum(mask.astype(jnp.uint32) << places, axis=1, dtype=jnp.uint32)


def pick_bit(u: Float32[Array, ""], words: UInt32[Array, "words"]) -> Int32[Array, ""]:
    """Index of a set bit, uniform; there must be one."""
    sizes = jax.lax.population_count(words).astype(jnp.int32)
    ends = jnp.cumsum(sizes)
    rank = below(u, ends[-1])
    word = jnp.minimum(jnp.sum(ends <= rank, dtype=jnp.int32), words.shape[0] - 1)
    return word * WORD + _nth_bit(words[word], rank - (ends[word] - sizes[word]))


def bit_set(mask: Bool[ArrayT, "*batch n"]) -> UInt32[ArrayT, "*batch words"]:
    """A mask as a set of bits, WORD to a word. Of a NumPy array it is one, and nothing is compiled."""
    xp: Any = np if isinstance(mask, np.ndarray) else jnp
    padded = xp.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, -mask.shape[-1] % WORD)])
    bits = padded.reshape(*mask.shape[:-1], padded.shape[-1] // WORD, WORD).astype(xp.uint32)
    shifts = xp.arange(WORD, dtype=xp.uint32).reshape((1,) * mask.ndim + (WORD,))
    return xp.sum(bits << shifts, axis=-1, dtype=xp.uint32)


def pick_member(u: Float[Array, ""], words: UInt32[Array, "words"]) -> Int[Array, ""]:
    """A member of a bit set, uniform; -1 if it is empty."""
    return jnp.where(jnp.any(words != 0), pick_bit(u, words), -1)


def pick_weighted(u: Float[Array, ""], words: UInt32[Array, "words"], weights: Float32[Array, "n"]) -> Int[Array, ""]:
    """A member of a bit set of numbers below n, in proportion to its weight; -1 if none has any."""
    ends = jnp.cumsum(jnp.where(contains(words, jnp.arange(weights.shape[0])), weights, 0.0))
    chosen = jnp.minimum(jnp.sum(ends <= u * ends[-1]), weights.shape[0] - 1)
    return jnp.where(ends[-1] > 0, chosen, -1)


def contains(words: UInt32[Array, "words"], member: Int[Array, "..."]) -> Bool[Array, "..."]:
    """Which of some numbers are in a bit set."""
    return (words[member // WORD] >> (member % WORD).astype(jnp.uint32)) & 1 == 1


def union(sets: UInt32[Array, "n words"]) -> UInt32[Array, "words"]:
    """The union of some bit sets."""
    return jax.lax.reduce(sets, jnp.uint32(0), jax.lax.bitwise_or, (0,))


def _nth_bit(word: UInt32[Array, ""], n: Int32[Array, ""]) -> Int32[Array, ""]:
    """Index of the n-th set bit (from 0), by bisection."""
    place = jnp.int32(0)
    for width in (16, 8, 4, 2, 1):
        low = (word >> place.astype(jnp.uint32)) & jnp.uint32((1 << width) - 1)
        count = jax.lax.population_count(low).astype(jnp.int32)
        above = n >= count
        n = jnp.where(above, n - count, n)
        place = jnp.where(above, place + width, place)
    return place


def subset(u: Float32[Array, "most"], total: Int32[Array, ""], count: Int32[Array, ""]) -> Int32[Array, "most"]:
    """`count` different numbers below `total`, every subset equally likely, padded with -1 (Floyd's algorithm)."""
    most = u.shape[0]

    def add(i: Int32[Array, ""], chosen: Int32[Array, "most"]) -> Int32[Array, "most"]:
        last = total - count + i
        drawn = below(u[i], last + 1)
        new = jnp.where(jnp.any(chosen == drawn), last, drawn)
        return chosen.at[i].set(jnp.where(i < count, new, -1))

    return jax.lax.fori_loop(0, most, add, jnp.full(most, -1, jnp.int32))
