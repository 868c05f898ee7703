"""A fingerprint of a problem's content: equal problems have equal ones, different problems practically never."""

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import UInt32

from atlas.types import Problem

SEEDS = (0x243F6A88, 0x85A308D3)
"""Two independent hashes of 32 bits: among 50,000 problems the chance of any clash is below one in 10^9."""


def fingerprint(problem: Problem) -> UInt32[Array, "2"]:
    """Hash the bytes of one problem, lineage apart."""
    words = _words(problem)
    places = jnp.arange(len(words), dtype=jnp.uint32)
    return jnp.stack([_mix(jnp.sum(_mix(words ^ _mix(places + jnp.uint32(seed))))) for seed in SEEDS])


def _words(tree: Problem) -> UInt32[Array, "words"]:
    """All leaves as one row of 32-bit words, padded with zeros."""
    leaves = [_bytes(leaf) for leaf in jax.tree.leaves(tree)]
    row = jnp.concatenate(leaves)
    padded = jnp.pad(row, (0, -len(row) % 4))
    return jax.lax.bitcast_convert_type(padded.reshape(-1, 4), jnp.uint32)


def _bytes(leaf: Array) -> Array:
    if leaf.dtype == jnp.bool_:
        leaf = leaf.astype(jnp.uint8)
    return jax.lax.bitcast_convert_type(leaf, jnp.uint8).reshape(-1)


def _mix(x: Array) -> Array:
    """A bijection of 32-bit words in which every input bit moves about half of the output bits."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)
