"""Means, intervals and CVaR: worked by hand, and against scipy."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as some

from atlas.evaluation.statistics import (
    STATISTICS,
    Estimate,
    bootstrap,
    cvar,
    cvar_over_runs,
    drawn_again,
    iqm,
    resampled,
    wilson,
    worst,
)

rates = some.arrays(float, st.integers(1, 40), elements=st.floats(0, 1))


def test_iqm_by_hand() -> None:
    assert iqm(np.array([0.0, 0.2, 0.4, 1.0])) == pytest.approx(0.3)  # the middle two
    assert iqm(np.array([0.0, 0.5, 1.0])) == pytest.approx(0.5)
    # Of five, a quarter is 1.25: the middle one counts whole, its neighbours three quarters.
    assert iqm(np.array([0.0, 0.1, 0.4, 0.9, 1.0])) == pytest.approx((0.75 * 0.1 + 0.4 + 0.75 * 0.9) / 2.5)
    assert iqm(np.array([0.7])) == pytest.approx(0.7)


@given(some.arrays(float, st.integers(1, 10).map(lambda n: 4 * n), elements=st.floats(0, 1)))
def test_iqm_is_the_trimmed_mean_where_quarters_are_whole(x: np.ndarray) -> None:
    assert iqm(x) == pytest.approx(scipy.stats.trim_mean(x, 0.25))


@given(rates)
def test_iqm_lies_between_the_quartiles_and_ignores_order(x: np.ndarray) -> None:
    assert x.min() - 1e-9 <= iqm(x) <= x.max() + 1e-9
    assert iqm(x[::-1]) == pytest.approx(iqm(x))


@given(st.integers(1, 200), st.data())
def test_wilson_agrees_with_scipy(attempts: int, data: st.DataObject) -> None:
    solved = data.draw(st.integers(0, attempts))
    expected = scipy.stats.binomtest(solved, attempts).proportion_ci(0.95, "wilson")
    found = wilson(solved, attempts)
    assert found.value == solved / attempts
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_bootstrap_agrees_with_scipy_on_one_problem() -> None:
    """With one stratum it is the plain bootstrap."""
    x = np.array([[0.1], [0.3], [0.35], [0.6], [0.9], [0.2], [0.7], [0.5]])
    expected = scipy.stats.bootstrap((x[:, 0],), np.mean, n_resamples=20_000, method="percentile", rng=0)
    found = bootstrap(STATISTICS, x, attempts=10, times=20_000)["mean"]
    assert found.value == pytest.approx(x.mean())
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval), abs=0.01)


def test_bootstrap_draws_runs_within_each_problem() -> None:
    x = np.arange(12, dtype=float).reshape(3, 4)
    for again in resampled(x, attempts=1, times=50):
        for problem in range(4):
            assert {*again[:, problem]} <= {*x[:, problem]}


def test_runs_that_agree_leave_no_doubt_and_problems_add_none() -> None:
    """Strata: problems differ, runs do not, so the interval is a point."""
    x = np.tile([0.0, 0.3, 1.0, 0.8], (5, 1))
    for found in bootstrap(STATISTICS, x, attempts=10, times=100).values():
        assert found.low == pytest.approx(found.value) == pytest.approx(found.high)


def test_of_one_run_the_attempts_are_drawn_again() -> None:
    x = np.full((1, 100), 0.5)
    found = bootstrap(STATISTICS, x, attempts=10, times=2000)["mean"]
    sd = np.sqrt(0.25 / 1000)
    assert (found.low, found.high) == pytest.approx((0.5 - 1.96 * sd, 0.5 + 1.96 * sd), abs=0.004)


def test_of_one_attempt_the_problems_are_drawn_again() -> None:
    x = np.array([[0.0, 1.0] * 50])
    found = bootstrap(STATISTICS, x, attempts=1, times=2000)["mean"]
    assert (found.low, found.high) == pytest.approx((0.5 - 1.96 * 0.05, 0.5 + 1.96 * 0.05), abs=0.02)
    assert [drawn_again(*case) for case in ((2, 1), (1, 2), (1, 1))] == [
        "runs drawn again within each problem", "attempts drawn again", "problems drawn again"
    ]  # fmt: skip


def test_same_seed_same_interval() -> None:
    x = np.random.default_rng(1).random((3, 20))
    assert bootstrap(STATISTICS, x, 10, seed=3, times=50) == bootstrap(STATISTICS, x, 10, seed=3, times=50)


def test_the_worst_by_hand() -> None:
    ranking, values = np.array([0.9, 0.1, 0.5, 0.3]), np.array([1.0, 0.2, 0.6, 0.0])
    # Worst first: problems 1, 3, 2, 0 with rates 0.2, 0.0, 0.6, 1.0.
    found = worst(ranking, values, (25, 50, 75, 100, 60, 10))
    assert found == pytest.approx([0.2, 0.1, 0.8 / 3, 0.45, (0.2 + 0.0 + 0.4 * 0.6) / 2.4, 0.2])


def test_problems_that_rank_the_same_share() -> None:
    ranking, values = np.array([0.5, 0.0, 0.5, 0.5]), np.array([1.0, 0.4, 0.0, 0.2])
    assert worst(ranking, values, (50,)) == pytest.approx([(0.4 + 0.4) / 2])
    assert worst(ranking[::-1], values[::-1], (50,)) == pytest.approx([(0.4 + 0.4) / 2])


@given(some.arrays(bool, st.tuples(st.integers(1, 20), st.integers(2, 11))))
def test_cvar_at_100_per_cent_is_the_mean(attempts: np.ndarray) -> None:
    assert cvar(attempts, (100,)) == pytest.approx([attempts.mean()])


def test_cvar_ranks_and_averages_apart() -> None:
    """Luck is not counted twice: where all problems are alike, the worst are as good as the rest."""
    attempts = np.random.default_rng(0).random((4000, 10)) < 0.5
    found = cvar(attempts, (10, 50, 100))
    assert found == pytest.approx([0.5, 0.5, 0.5], abs=0.03)
    naive = np.sort(attempts.mean(1))[:400].mean()
    assert naive < 0.3


def test_cvar_by_hand() -> None:
    attempts = np.array([[1, 0], [0, 0], [1, 1], [0, 1]], bool)
    # Ranked by the first attempt the worst half is problems 1 and 3, with 0 and 1 in the second; ranked by the second
    # it is problems 0 and 1, with 1 and 0 in the first.
    assert cvar(attempts, (50,)) == pytest.approx([0.5])
    with pytest.raises(ValueError, match="two attempts"):
        cvar(attempts[:, :1])


def test_cvar_over_runs() -> None:
    rng = np.random.default_rng(2)
    difficulty = rng.random((1, 50, 1))
    attempts = rng.random((4, 50, 6)) < difficulty
    found = cvar_over_runs(attempts, (10, 100), times=200)
    curves = np.stack([cvar(one, (10, 100)) for one in attempts])
    assert [estimate.value for estimate in found] == pytest.approx(curves.mean(0))
    assert found[0].value < found[1].value
    for estimate, curve in zip(found, curves.T, strict=True):
        assert curve.min() <= estimate.low <= estimate.value <= estimate.high <= curve.max()
    alone = cvar_over_runs(attempts[:1], (100,), times=200)[0]
    assert isinstance(alone, Estimate)
    assert alone.low < alone.value < alone.high
