"""Statistics of attempts at problems: means with intervals, and the rate on the worst problems (CVaR). NumPy alone.

Rates stand in arrays `[runs, problems]`, single attempts in `bool[problems, attempts]`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Final

import numpy as np

from atlas.words import counted

CONFIDENCE: Final = 0.95
RESAMPLES: Final = 1000
"""How often the data is resampled for an interval."""
ALPHAS: Final = tuple(range(1, 101))
"""Per cent of the problems that count as the worst."""

Statistic = Callable[[np.ndarray], float]


@dataclass(frozen=True)
class Estimate:
    """A number, and the interval in which it lies with a confidence of 95 %; none where the data does not say."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class SolveRates:
    """The share of problems that were solved: of all, and by the values of a measure such as the number of rooms."""

    all: float
    by: dict[str, dict[int, float]] = field(default_factory=dict)

    def plain(self) -> dict[str, float]:
        """As records and summaries have it: `{"all": 0.4, "rooms_1": 0.5, …}`."""
        return {"all": self.all} | {f"{name}_{value}": rate for name, value, rate in self._each()}

    @classmethod
    def read(cls, plain: dict[str, float]) -> "SolveRates":
        """The inverse of `plain`."""
        by: dict[str, dict[int, float]] = {}
        for key, rate in plain.items():
            name, _, value = key.rpartition("_")
            if name:
                by.setdefault(name, {})[int(value)] = rate
        return cls(plain["all"], by)

    def labelled(self) -> dict[str, float]:
        """The parts in words: `{"1 room": 0.5, "2 rooms": 0.3}`."""
        return {counted(value, name): rate for name, value, rate in self._each()}

    def _each(self) -> Iterator[tuple[str, int, float]]:
        return ((name, value, rate) for name, rates in self.by.items() for value, rate in rates.items())


def mean(rates: np.ndarray) -> float:
    """The mean of all."""
    return float(np.mean(rates))


def median(rates: np.ndarray) -> float:
    """The median of all."""
    return float(np.median(rates))


def iqm(rates: np.ndarray) -> float:
    """The interquartile mean: of the middle half of all numbers.

    Where a quarter is no whole number of them, those at its edges count in part; else it is the 25 % trimmed mean.
    """
    ordered = np.sort(np.ravel(rates))
    edges = np.arange(len(ordered) + 1) / len(ordered)
    weight = np.diff(np.clip(edges, 0.25, 0.75))
    return float(np.dot(ordered, weight) / weight.sum())


STATISTICS: Final[dict[str, Statistic]] = {"mean": mean, "median": median, "iqm": iqm}


def wilson(solved: float, attempts: float) -> Estimate:
    """The share of attempts that were solved, with Wilson's interval: sensible also at 0 and 1."""
    z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
    rate, weight = solved / attempts, z * z / attempts
    centre = (rate + weight / 2) / (1 + weight)
    spread = z / (1 + weight) * np.sqrt(rate * (1 - rate) / attempts + weight / (4 * attempts))
    # Exact at the ends, where rounding would leave a hair's breadth.
    low = 0.0 if solved == 0 else float(centre - spread)
    high = 1.0 if solved == attempts else float(centre + spread)
    return Estimate(rate, low, high)


def interval(value: float, draws: np.ndarray, least: float = 0.0, most: float = 1.0) -> Estimate:
    """The bootstrap percentile interval of a statistic, shifted so that the mean of the draws is the value.

    Resampled data is noisier than the data, and statistics that depend on order (the median, the IQM) then lie
    elsewhere on average: without the move an interval need not hold its own value. Draws that are (nearly) all alike
    tell nothing, and give no interval.
    """
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(draws, [tail, 100 - tail]) + (value - np.mean(draws))
    low, high = max(least, min(low, value)), min(most, max(high, value))
    if high - low < 1e-12:
        return Estimate(value, None, None)
    return Estimate(value, float(low), float(high))


def resampling_unit(runs: int, attempts: int) -> str:
    """What is resampled for the intervals over all, in words: runs, attempts or problems."""
    if runs > 1:
        return "runs drawn again within each problem"
    return "attempts drawn again" if attempts > 1 else "problems drawn again"


def resampled(rates: np.ndarray, attempts: int, seed: int = 0, times: int = RESAMPLES) -> Iterator[np.ndarray]:
    """The data resampled: the runs of each problem with replacement (problems are strata).

    Of a single run nothing is known about other runs, so its attempts are resampled instead; of a single attempt at
    each problem nothing is known about other attempts, so the problems are.
    """
    rng = np.random.default_rng(seed)
    runs, problems = rates.shape
    for _ in range(times):
        if runs == attempts == 1:
            yield rates[:, rng.integers(problems, size=problems)]
        elif runs == 1:
            yield rng.binomial(attempts, rates) / attempts
        else:
            yield np.take_along_axis(rates, rng.integers(runs, size=rates.shape), axis=0)


def bootstrap(
    statistics: dict[str, Statistic], rates: np.ndarray, attempts: int, seed: int = 0, times: int = RESAMPLES
) -> dict[str, Estimate]:
    """Statistics of `rates[runs, problems]` with stratified bootstrap intervals over runs."""
    draws = [[of(again) for of in statistics.values()] for again in resampled(rates, attempts, seed, times)]
    columns = np.array(draws).T
    return {name: interval(of(rates), column) for (name, of), column in zip(statistics.items(), columns, strict=True)}


def worst(ranking: np.ndarray, rates: np.ndarray, alphas: tuple[float, ...] = ALPHAS) -> np.ndarray:
    """`float[alphas]`: the mean rate of the problems that rank lowest, alpha per cent of them.

    Where some problems of equal rank are more than are needed, all of them count, in equal part.
    """
    order = np.argsort(ranking, kind="stable")
    _, group = np.unique(ranking[order], return_inverse=True)
    shared = (np.bincount(group, rates[order]) / np.bincount(group))[group]
    below = np.concatenate([[0.0], np.cumsum(shared)])
    count = np.asarray(alphas) / 100 * len(rates)
    return np.interp(count, np.arange(len(below)), below) / count


def cvar(attempts: np.ndarray, alphas: tuple[float, ...] = ALPHAS) -> np.ndarray:
    """`float[alphas]`: the solve rate on the worst alpha per cent of problems, from `bool[problems, attempts]`.

    One half of the attempts ranks the problems and the other half is averaged, so that bad luck in the ranking is not
    counted again; then the other way round, which changes nothing on average and reduces the noise. At 100 per
    cent this is the mean. The fewer attempts rank the problems, the noisier the ranking and the higher the number: the
    paper ranks by 10.
    """
    count = attempts.shape[1]
    if count < 2:
        raise ValueError("two attempts a problem are needed: one to rank by, one to average")
    first, second = attempts[:, : count // 2].mean(1), attempts[:, count // 2 :].mean(1)
    share = (count // 2) / count
    return share * worst(second, first, alphas) + (1 - share) * worst(first, second, alphas)


RANKED_BY: Final = 10
"""Attempts that rank the problems in the paper's CVaR, and as many others are averaged."""

WORTH_SHOWING: Final = 4
"""Attempts a problem from which on CVaR is shown: with fewer it ranks by one, and says little but noise."""
TOO_FEW_FOR_CVAR: Final = f"CVaR needs at least {WORTH_SHOWING} attempts a problem."


def cvar_protocol(attempts: int) -> str:
    """How `cvar` uses so many attempts at a problem, in words."""
    half = attempts // 2
    few = f"; the paper's {RANKED_BY} + {RANKED_BY} rank better and give lower numbers" if half < RANKED_BY else ""
    by = "1 attempt" if half == 1 else f"{half} attempts"
    others = "other" if attempts - half == 1 else f"{attempts - half} others"
    return f"ranked by {by} a problem, mean of the {others}, and the other way round{few}"


def cvar_over_runs(
    attempts: np.ndarray, alphas: tuple[float, ...] = ALPHAS, seed: int = 0, times: int = RESAMPLES
) -> list[Estimate]:
    """The mean CVaR curve of `bool[runs, problems, attempts]`: intervals from resampled runs.

    For a single run, Wilson's interval of the attempts that were averaged (those of one half): resampled attempts would
    rank worse, and would give a rate of 0 no interval.
    """
    curves = np.stack([cvar(one, alphas) for one in attempts])
    if len(curves) > 1:
        return intervals_over_runs(curves, seed, times)
    problems, count = attempts.shape[1:]
    averaged = np.asarray(alphas) / 100 * problems * (count // 2)
    return [wilson(float(value * some), float(some)) for value, some in zip(curves[0], averaged, strict=True)]


def intervals_over_runs(curves: np.ndarray, seed: int = 0, times: int = RESAMPLES) -> list[Estimate]:
    """The mean of `float[runs, points]` over runs, with intervals from whole runs resampled."""
    runs = len(curves)
    draws = curves[np.random.default_rng(seed).integers(runs, size=(times, runs))].mean(1)
    return [interval(float(value), column) for value, column in zip(curves.mean(0), draws.T, strict=True)]
