"""Cheap draws are fair."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import TypeCheckError
from scipy import stats

from atlas.chance import below, pick, pick_cell, subset

EVEN = (np.arange(6000, dtype=np.float32) + 0.5) / 6000
"""Numbers spread evenly over [0, 1): counts are then exact, not random."""


def test_below_is_even_and_in_range():
    drawn = np.asarray(below(jnp.asarray(EVEN), 7))
    counts = np.bincount(drawn, minlength=7)
    assert len(counts) == 7
    assert counts.max() - counts.min() <= 1
    almost_one = jnp.float32(1 - 2**-24)
    assert all(int(below(almost_one, n)) == n - 1 for n in (1, 2, 3, 18, 150, 889))
    assert int(below(almost_one, 0)) == 0


@pytest.mark.parametrize("mask", [[1, 0, 1, 1, 0], [0, 0, 0, 0, 1], [1, 1, 1, 1, 1]])
def test_pick_is_even_over_the_true_places(mask):
    mask = np.array(mask, bool)
    counts = np.bincount(np.asarray(jax.vmap(pick, (0, None))(jnp.asarray(EVEN), jnp.asarray(mask))), minlength=5)
    assert (counts > 0).tolist() == mask.tolist()
    assert np.ptp(counts[mask]) <= 1


def test_pick_cell_is_even_over_the_true_cells():
    mask = np.random.default_rng(0).random((5, 8)) < 0.3
    mask[2] = False
    drawn = np.asarray(jax.vmap(pick_cell, (0, None))(jnp.asarray(EVEN), jnp.asarray(mask)))
    counts = np.bincount(drawn, minlength=40).reshape(5, 8)
    assert ((counts > 0) == mask).all()
    assert np.ptp(counts[mask]) <= 1


def test_nothing_to_pick():
    assert int(pick(jnp.float32(0.3), jnp.zeros(4, bool))) == 4


def test_every_subset_is_as_likely():
    u = jax.random.uniform(jax.random.key(0), (6000, 4))
    drawn = np.asarray(jax.jit(jax.vmap(subset, (0, None, None)))(u, jnp.int32(6), jnp.int32(3)))
    assert (drawn[:, 3:] == -1).all()
    kinds = list(itertools.combinations(range(6), 3))
    counts = [0] * len(kinds)
    for row in drawn:
        counts[kinds.index(tuple(sorted(row[:3])))] += 1
    assert stats.chisquare(counts).pvalue > 1e-5


def test_shapes_are_checked():
    """In the tests of every module that declares some: see `conftest.py`."""
    with pytest.raises(TypeCheckError):
        pick(jnp.float32(0.5), jnp.ones((2, 2), bool))
