"""The bandit over kinds of edits: sums against loops, and who wins."""

import jax.numpy as jnp
import numpy as np
import pytest

from atlas.ued import accel

KINDS = 5


def children(seed, size=30, edits=3):
    random = np.random.default_rng(seed)
    return random.integers(-1, KINDS, (size, edits)).astype(np.int8), random.normal(size=size).astype(np.float32)


def test_sums_equal_the_loop():
    kept, made, total, square = accel.no_gains(KINDS), [0.0] * KINDS, [0.0] * KINDS, 0.0
    for seed in range(3):
        edits, gain = children(seed)
        kept = accel.gains_after(kept, jnp.asarray(edits), jnp.asarray(gain))
        made, total = [accel.FORGET * x for x in made], [accel.FORGET * x for x in total]
        square *= accel.FORGET
        for row, worth in zip(edits, gain, strict=True):
            for kind in row[row >= 0]:
                made[kind], total[kind], square = made[kind] + 1, total[kind] + worth, square + worth**2
    np.testing.assert_allclose(kept.made, made, rtol=1e-5)
    np.testing.assert_allclose(kept.total, total, rtol=1e-4, atol=1e-4)
    assert float(kept.square) == pytest.approx(square, rel=1e-4)


def test_weights_are_uniform_at_first_and_never_below_the_uniform_share():
    np.testing.assert_allclose(accel.edit_weights(accel.no_gains(KINDS), 0.25), np.full(KINDS, 1 / KINDS), rtol=1e-6)
    kept = accel.gains_after(accel.no_gains(KINDS), jnp.zeros((50, 1), jnp.int8), jnp.linspace(-1.0, 3.0, 50))
    chosen = np.asarray(accel.edit_weights(kept, 0.25))
    assert chosen.sum() == pytest.approx(1.0, abs=1e-5)
    assert np.all(chosen >= 0.25 / KINDS - 1e-6)


def test_the_kind_that_gains_wins():
    kept = accel.no_gains(KINDS)
    for seed in range(20):
        edits, gain = children(seed, edits=1)
        kept = accel.gains_after(kept, jnp.asarray(edits), jnp.asarray(gain + 2.0 * (edits[:, 0] == 3)))
    assert int(np.argmax(accel.edit_weights(kept, 0.25))) == 3
