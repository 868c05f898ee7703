"""The predictor of solve rates against plain loops, and whether it learns who is solved."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.ued import scout

WEIGHTS, BATCH = 6, 40


def outcomes(seed, known=0.8):
    """Inputs, which were solved, and which of the outcomes are known."""
    random = np.random.default_rng(seed)
    inputs = np.concatenate([np.ones((BATCH, 1)), random.normal(size=(BATCH, WEIGHTS - 1))], 1).astype(np.float32)
    truth = random.normal(size=WEIGHTS)
    solved = (random.random(BATCH) < 1 / (1 + np.exp(-inputs @ truth))).astype(np.float32)
    return inputs, solved, random.random(BATCH) < known


def update_by_hand(mean, precision, inputs, solved, known, forget):
    """Newton's method, problem by problem."""
    count = len(mean)
    faded = [[forget * precision[i][j] + (1 - forget) * (i == j) for j in range(count)] for i in range(count)]
    now = list(mean)

    def rates():
        return [1 / (1 + math.exp(-sum(w * x for w, x in zip(now, row, strict=True)))) for row in inputs]

    def curvature():
        table = np.array(faded)
        for row, rate, is_known in zip(inputs, rates(), known, strict=True):
            if is_known:
                table = table + rate * (1 - rate) * np.outer(row, row)
        return table

    for _ in range(scout.NEWTON_STEPS):
        slope = np.array(faded) @ (np.array(now) - mean)
        for row, rate, is_known, target in zip(inputs, rates(), known, solved, strict=True):
            if is_known:
                slope = slope + (rate - target) * row
        now = list(np.array(now) - np.linalg.solve(curvature(), slope))
    return np.array(now), curvature()


@pytest.fixture(scope="module")
def update():
    return jax.jit(scout.update, static_argnames="forget")


def test_the_update_equals_the_loop(update):
    belief = scout.know_nothing(WEIGHTS)
    mean, precision = np.zeros(WEIGHTS), np.eye(WEIGHTS)
    for seed in range(3):
        inputs, solved, known = outcomes(seed)
        belief = update(belief, inputs, solved, known, forget=0.9)
        mean, precision = update_by_hand(mean, precision, inputs.astype(float), solved, known, 0.9)
        np.testing.assert_allclose(belief.mean, mean, atol=2e-3)
        np.testing.assert_allclose(belief.precision, precision, rtol=2e-3, atol=2e-3)


def test_what_is_not_known_teaches_nothing_and_is_forgotten_slowly(update):
    inputs, solved, _ = outcomes(1)
    belief = update(scout.know_nothing(WEIGHTS), inputs, solved, np.ones(BATCH, bool), forget=1.0)
    after = update(belief, inputs, 1 - solved, np.zeros(BATCH, bool), forget=1.0)
    np.testing.assert_allclose(after.mean, belief.mean, atol=1e-5)
    np.testing.assert_allclose(after.precision, belief.precision, rtol=1e-5)
    for _ in range(200):
        after = update(after, inputs, solved, np.zeros(BATCH, bool), forget=0.9)
    np.testing.assert_allclose(after.precision, np.eye(WEIGHTS), atol=1e-3)


def test_predictions_equal_the_formula(update):
    inputs, solved, known = outcomes(2)
    belief = update(scout.know_nothing(WEIGHTS), inputs, solved, known, forget=0.9)
    mean, deviation = scout.predict(belief, jnp.asarray(inputs))
    covariance = np.linalg.inv(np.asarray(belief.precision, float))
    np.testing.assert_allclose(mean, inputs @ np.asarray(belief.mean), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(deviation, [math.sqrt(row @ covariance @ row) for row in inputs], rtol=1e-3)
    for one, m, d in zip(scout.mean_rate(mean, deviation), mean, deviation, strict=True):
        drawn = np.random.default_rng(0).normal(m, d, 20_000)
        assert one == pytest.approx(float(np.mean(1 / (1 + np.exp(-drawn)))), abs=0.02)


def test_features_are_expanded_to_all_products():
    found = scout.expand(jnp.array([2.0, 3.0, 5.0]))
    assert sorted(found.tolist()) == sorted([1, 2, 3, 5, 4, 6, 10, 9, 15, 25])


def test_the_calibration_error_equals_the_loop():
    random = np.random.default_rng(3)
    kept = scout.Calibration(count=jnp.zeros(10), predicted=jnp.zeros(10), solved=jnp.zeros(10))
    bins = [[0.0, 0.0, 0.0] for _ in range(10)]
    for _ in range(3):
        predicted, solved = random.random(BATCH).astype(np.float32), (random.random(BATCH) < 0.4).astype(np.float32)
        known = random.random(BATCH) < 0.7
        kept = scout.compare(kept, jnp.asarray(predicted), jnp.asarray(solved), jnp.asarray(known), 0.9)
        bins = [[0.9 * x for x in one] for one in bins]
        for p, s, k in zip(predicted, solved, known, strict=True):
            if k:
                one = bins[min(int(p * 10), 9)]
                one[0], one[1], one[2] = one[0] + 1, one[1] + p, one[2] + s
    total = sum(count for count, _, _ in bins)
    expected = sum(count / total * abs(p / count - s / count) for count, p, s in bins if count)
    assert float(scout.calibration_error(kept)) == pytest.approx(expected, rel=1e-4)
