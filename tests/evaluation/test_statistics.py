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
    cvar_protocol,
    interval,
    iqm,
    resampled,
    resampling_unit,
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


def test_runs_that_agree_tell_nothing_of_other_runs() -> None:
    """Strata: problems differ, runs do not; an interval of no width would claim what nobody knows."""
    x = np.tile([0.0, 0.3, 1.0, 0.8], (5, 1))
    for found in bootstrap(STATISTICS, x, attempts=10, times=100).values():
        assert (found.low, found.high) == (None, None)


@given(
    some.arrays(np.int64, st.tuples(st.integers(1, 4), st.integers(1, 12)), elements=st.integers(0, 6)),
    st.integers(0, 3),
)
def test_every_interval_holds_its_value_and_has_a_width(solved: np.ndarray, seed: int) -> None:
    for found in bootstrap(STATISTICS, solved / 6, attempts=6, seed=seed, times=60).values():
        if found.low is not None and found.high is not None:
            assert 0 <= found.low <= found.value <= found.high <= 1
            assert found.low < found.high


def test_an_interval_is_moved_to_its_value() -> None:
    """Draws of a biased statistic lie beside the value: 52 of 100 points of a CVaR curve lay outside of theirs."""
    found = interval(0.5, np.array([0.6, 0.7, 0.8] * 100))
    assert (found.low, found.high) == pytest.approx((0.4, 0.6))


def test_of_one_run_the_attempts_are_drawn_again() -> None:
    x = np.full((1, 100), 0.5)
    found = bootstrap(STATISTICS, x, attempts=10, times=2000)["mean"]
    sd = np.sqrt(0.25 / 1000)
    assert (found.low, found.high) == pytest.approx((0.5 - 1.96 * sd, 0.5 + 1.96 * sd), abs=0.004)


def test_of_one_attempt_the_problems_are_drawn_again() -> None:
    x = np.array([[0.0, 1.0] * 50])
    found = bootstrap(STATISTICS, x, attempts=1, times=2000)["mean"]
    assert (found.low, found.high) == pytest.approx((0.5 - 1.96 * 0.05, 0.5 + 1.96 * 0.05), abs=0.02)
    assert [resampling_unit(*case) for case in ((2, 1), (1, 2), (1, 1))] == [
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


def plain_cvar(attempts: list[list[int]], alpha: float, ranked_by: int) -> float:
    """The paper's protocol in plain words: rank by the first attempts, average the others of the worst problems."""
    rows = [(sum(row[:ranked_by]), sum(row[ranked_by:]) / (len(row) - ranked_by)) for row in attempts]
    wanted, total = alpha / 100 * len(rows), 0.0
    left = wanted
    for rank in sorted({rank for rank, _ in rows}):
        same = [rate for other, rate in rows if other == rank]
        taken = min(left, len(same))
        total, left = total + taken * sum(same) / len(same), left - taken
    return total / wanted


@given(some.arrays(bool, st.tuples(st.integers(1, 12), st.sampled_from([2, 4, 20]))), st.sampled_from([1, 10, 37, 100]))
def test_cvar_is_what_a_plain_twin_says(attempts: np.ndarray, alpha: int) -> None:
    half = attempts.shape[1] // 2
    swapped = np.concatenate([attempts[:, half:], attempts[:, :half]], axis=1)
    twin = [plain_cvar(both.astype(int).tolist(), alpha, half) for both in (attempts, swapped)]
    assert cvar(attempts, (alpha,)) == pytest.approx([sum(twin) / 2])


def simulated(rng: np.random.Generator, count: int) -> np.ndarray:
    """Attempts of a policy whose rates are known: most problems are solved, some hardly ever."""
    return rng.random((len(TRUE_RATES), count)) < TRUE_RATES[:, None]


TRUE_RATES = np.random.default_rng(7).beta(0.45, 0.2, 10_000)
WORST = (1, 2, 5, 10)


def test_cvar_on_a_policy_whose_rates_are_known() -> None:
    """Ranked by 10 the worst are nearer to the truth than ranked by 5, and as the authors' one-way protocol has it."""
    rng = np.random.default_rng(3)
    truth = np.array([np.sort(TRUE_RATES)[: 100 * alpha].mean() for alpha in WORST])
    attempts = [simulated(rng, 20) for _ in range(4)]
    by_ten = np.mean([cvar(one, WORST) for one in attempts], axis=0)
    by_five = np.mean([cvar(one[:, :10], WORST) for one in attempts], axis=0)
    theirs = np.mean([[plain_cvar(one.astype(int).tolist(), alpha, 10) for alpha in WORST] for one in attempts], axis=0)
    assert by_ten == pytest.approx(theirs, abs=0.004)
    assert (truth < by_ten).all()
    assert (by_ten < by_five).all()
    assert (by_ten - truth < 0.65 * (by_five - truth)).all()


def test_the_interval_of_one_runs_cvar_holds_what_other_attempts_give() -> None:
    rng = np.random.default_rng(4)
    few = TRUE_RATES[:1000, None]
    curves = [cvar_over_runs(rng.random((1, 1000, 20)) < few[None]) for _ in range(200)]
    expected = np.mean([[point.value for point in curve] for curve in curves], axis=0)
    inside = np.array([[p.low <= e <= p.high for p, e in zip(c, expected, strict=True)] for c in curves])  # type: ignore[operator]
    assert inside.mean(axis=0).min() > 0.9
    for curve in curves[:5]:
        assert all(0 <= p.low <= p.value <= p.high <= 1 and p.low < p.high for p in curve)  # type: ignore[operator]


def test_the_protocol_in_words() -> None:
    assert cvar_protocol(20) == "ranked by 10 attempts a problem, mean of the 10 others, and the other way round"
    assert "ranked by 2 attempts a problem, mean of the 3 others" in cvar_protocol(5)
    assert "the paper's 10 + 10" in cvar_protocol(5)
    assert "ranked by 1 attempt a problem, mean of the other, and" in cvar_protocol(2)


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
