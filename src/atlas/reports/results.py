"""Evaluations of runs on sets: groups side by side, as tables and charts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from atlas.evaluation.results import stratum_of
from atlas.evaluation.statistics import (
    STATISTICS,
    TOO_FEW_FOR_CVAR,
    WORTH_SHOWING,
    Estimate,
    bootstrap,
    cvar_protocol,
    intervals_over_runs,
    mean,
)
from atlas.reports.figures import AGGREGATES, INKS, Chart, bars, dots, stacked
from atlas.reports.reading import Group, Plain, Run
from atlas.reports.tables import Cell, Number, Table

ALPHA_TICKS: Final = (1, 2, 5, 10, 20, 50, 100)


@dataclass(frozen=True, eq=False)
class Result:
    """The results of a group's runs on a set."""

    group: Group
    entries: list[tuple[Run, Plain]]
    """Each run with its part of the evaluation."""
    attempts: int

    @cached_property
    def problems(self) -> list[Plain]:
        """The rows of the first run that all others have too."""
        shared = set.intersection(*({row["name"] for row in entry["problems"]} for _, entry in self.entries))
        return [row for row in self.entries[0][1]["problems"] if row["name"] in shared]

    @cached_property
    def rates(self) -> np.ndarray:
        """`[runs, problems]`"""
        by_name = [{row["name"]: row["rate"] for row in entry["problems"]} for _, entry in self.entries]
        return np.array([[rates[row["name"]] for row in self.problems] for rates in by_name], float)

    @cached_property
    def aggregates(self) -> dict[str, Estimate]:
        """Mean, median and IQM with intervals."""
        return bootstrap(STATISTICS, self.rates, self.attempts)

    @cached_property
    def by_tag(self) -> dict[str, tuple[Estimate, int]]:
        """The mean rate of the problems with each tag, with its interval, and how many there are.

        Of a single run the interval is that of its attempts, as the evaluation has it: drawing few attempts again
        would make a rate of 0 look certain.
        """
        told = self.entries[0][1].get("by_tag")
        if len(self.entries) == 1 and told:
            return {
                tag: (Estimate(one["rate"], one["low"], one["high"]), one["problems"])
                for tag, one in sorted(told.items(), key=lambda item: natural(item[0]))
            }
        tags = sorted({tag for row in self.problems for tag in row.get("tags", ())}, key=natural)
        found = {}
        for tag in tags:
            chosen = [n for n, row in enumerate(self.problems) if tag in row["tags"]]
            estimate = bootstrap({"mean": mean}, self.rates[:, chosen], self.attempts)["mean"]
            found[tag] = (estimate, len(chosen))
        return found

    def cvar(self) -> tuple[np.ndarray, list[Estimate]] | None:
        """The curve over alpha, in per cent; its band from resampled runs, or as the evaluation had it."""
        curves = [{point["alpha"]: point["value"] for point in entry.get("cvar") or ()} for _, entry in self.entries]
        alphas = sorted(set.intersection(*map(set, curves)))
        if not alphas:
            return None
        rows = np.array([[known[alpha] for alpha in alphas] for known in curves], float)
        if len(rows) == 1:
            return np.array(alphas), [_band(self.entries[0][1], alpha, rows[0, n]) for n, alpha in enumerate(alphas)]
        return np.array(alphas), intervals_over_runs(rows)


def _band(entry: Plain, alpha: float, value: float) -> Estimate:
    """The interval that the evaluation has; one that does not hold its value (older files have such) is not shown."""
    told = entry.get("cvar_band", {}).get(alpha, {})
    low, high = told.get("low"), told.get("high")
    if low is None or high is None or not low <= value <= high or low == high:
        low = high = None
    return Estimate(float(value), low, high)


@dataclass(frozen=True, eq=False)
class Evaluated:
    """One set, and what every group reached on it."""

    name: str
    about: Plain
    results: list[Result]

    @property
    def limit(self) -> str:
        """The step limit in words."""
        return f"{self.about.get('step_limit', '?')} steps"

    @property
    def trivial(self) -> int:
        """How many problems their first label completes."""
        return max(sum(bool(row.get("trivial")) for row in result.problems) for result in self.results)


def evaluated(groups: Sequence[Group]) -> list[Evaluated]:
    """All sets that any run was evaluated on."""
    names = dict.fromkeys(name for group in groups for run in group.runs for name in run.evaluations)
    found = []
    for name in names:
        results = [result for group in groups if (result := _result(group, name)) is not None]
        if results:
            run = results[0].entries[0][0]
            found.append(Evaluated(name, run.evaluations[name]["set"], results))
    return found


def _result(group: Group, name: str) -> Result | None:
    entries = [
        (run, entry)
        for run in group.runs
        if name in run.evaluations and (entry := _own_entry(run, run.evaluations[name])) is not None
    ]
    if not entries:
        return None
    attempts = entries[0][0].evaluations[name]["set"].get("attempts", 10)
    return Result(group, entries, int(attempts))


def _own_entry(run: Run, evaluation: Plain) -> Plain | None:
    """The part of an evaluation that is about this run: by its folder, or the only one there is."""
    entries = [entry for entry in evaluation["runs"] if entry.get("problems")]
    own = [entry for entry in entries if run.path.resolve().name in Path(str(entry.get("run", ""))).parts]
    chosen = own or (entries if len(entries) == 1 else [])
    if not chosen:
        return None
    if len(evaluation["runs"]) > 1:
        return chosen[0]
    band = {point["alpha"]: point for point in evaluation.get("together", {}).get("cvar") or ()}
    return chosen[0] | {"cvar_band": band}


def natural(name: str) -> tuple[str, int]:
    """Sorts `rooms-9` before `rooms-10`."""
    stem, _, number = name.rpartition("-")
    return (stem, int(number)) if number.isdecimal() else (name, 0)


def charts(one: Evaluated) -> Iterator[Chart]:
    """CVaR, aggregates and tags."""
    names = [result.group.name for result in one.results]
    within = f"within {one.limit}, {one.about.get('attempts', '?')} attempts a problem"
    curves = [
        (number, result.group.name, curve) for number, result in enumerate(one.results) if (curve := result.cvar())
    ]
    attempts = int(one.about.get("attempts", 10))
    too_few = bool(curves) and attempts < WORTH_SHOWING
    if curves and not too_few:
        protocol = cvar_protocol(attempts)
        left_out = f" Without the {one.trivial} that the first label completes." if one.trivial else ""
        words = f"CVaR: mean solve rate on the worst share of problems, within {one.limit}; {protocol}.{left_out}"
        yield Chart(f"cvar-{one.name}", f"CVaR, {one.name}", words, _cvar(curves))
    values, low, high = _arrays([[result.aggregates[kind] for kind in AGGREGATES] for result in one.results])
    solved = f" {one.trivial} that the first label completes count as solved." if one.trivial else ""
    words = f"Solve rates {within}; intervals of 95 % by stratified bootstrap.{solved}"
    words += f" {TOO_FEW_FOR_CVAR}" * too_few
    yield Chart(
        f"aggregate-{one.name}",
        f"Solve rate, {one.name}",
        words,
        bars(names, list(AGGREGATES.values()), values, low, high),
    )
    yield from _failures(one)
    tags = sorted({tag for result in one.results for tag in result.by_tag}, key=natural)
    if tags:
        empty = (Estimate(np.nan, np.nan, np.nan), 0)
        values, low, high = _arrays([[result.by_tag.get(tag, empty)[0] for tag in tags] for result in one.results])
        draw = dots(names, tags, values, low, high)
        yield Chart(
            f"tags-{one.name}", f"By tag, {one.name}", f"Mean solve rate {within}.", draw, 1.2 + 0.18 * len(tags)
        )


ENDINGS: Final = {"solved": "#10b981", "rejected": "#e11d48", "out of time": "#84807a"}
"""How an attempt can end, and the colour of each."""


def _failures(one: Evaluated) -> Iterator[Chart]:
    """How attempts ended: solved, rejected, out of time. Evaluations of before this was noted have no such chart."""
    known = [result for result in one.results if all("timed_out" in row for row in result.problems)]
    if not known:
        return
    counts = np.array([_endings(result) for result in known], float)
    words = "How attempts ended: solved, in a rejecting state, or at the step limit. The table of problems says where."
    shares = counts / counts.sum(1, keepdims=True)
    draw = stacked([result.group.name for result in known], ENDINGS, shares)
    yield Chart(f"endings-{one.name}", f"Endings, {one.name}", words, draw, 1.3 + 0.35 * len(known))


def _endings(result: Result) -> list[int]:
    rows = [row for _, entry in result.entries for row in entry["problems"]]
    return [sum(row.get(key, 0) for row in rows) for key in ("solved", "rejected", "timed_out")]


def _stalls(row: Plain) -> str | None:
    """The task states in which attempts ran out of time, e.g. `u1 6, u0 2`; `rejected 3` beside it."""
    if "timed_out" not in row:
        return None
    places = [f"{state} {count}" for state, count in row.get("stalled", {}).items()]
    return ", ".join([*places, *([f"rejected {row['rejected']}"] if row["rejected"] else [])])


def _arrays(estimates: Sequence[Sequence[Estimate]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    value, low, high = np.array([[(e.value, e.low, e.high) for e in row] for row in estimates], float).transpose(
        2, 0, 1
    )
    return value, low, high


def _cvar(curves: Sequence[tuple[int, str, tuple[np.ndarray, list[Estimate]]]]) -> Any:
    def draw(axes: Any) -> None:
        for number, name, (alphas, estimates) in curves:
            (value,), (low,), (high,) = _arrays([estimates])
            ink = INKS[number % len(INKS)]
            axes.plot(alphas, value, color=ink, label=name)
            axes.fill_between(alphas, low, high, color=ink, alpha=0.18, linewidth=0)
        axes.set_xlabel("worst share of problems, α (logarithmic)")
        axes.set_ylim(bottom=0)
        axes.set_xscale("log")
        axes.set_xlim(1, 100)
        axes.set_xticks(ALPHA_TICKS, [f"{share}%" for share in ALPHA_TICKS])
        axes.minorticks_off()
        axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.3g}%")

    return draw


def tables(one: Evaluated) -> list[Table]:
    """Aggregates, tags and problems, each with a column a group."""
    names = tuple(result.group.name for result in one.results)
    within = f"{one.name}, within {one.limit}"
    made = [
        Table(
            f"aggregate-{one.name}", f"Solve rate on {within}, with 95 % intervals.", ("", *names),
            [(label, *(_estimate(r.aggregates[kind]) for r in one.results)) for kind, label in AGGREGATES.items()],
        )
    ]  # fmt: skip
    tags = sorted({tag for result in one.results for tag in result.by_tag}, key=natural)
    if tags:
        made.append(
            Table(
                f"tags-{one.name}", f"Solve rate by tag on {within}, with 95 % intervals.", ("tag", "problems", *names),
                [_tag_row(tag, one.results) for tag in tags],
            )
        )  # fmt: skip
    return [*made, _problem_table(one, names, within)]


def _estimate(of: Estimate) -> Number:
    return Number(of.value, of.low, of.high)


def _tag_row(tag: str, results: Sequence[Result]) -> tuple[Cell, ...]:
    count = max(result.by_tag[tag][1] for result in results if tag in result.by_tag)
    return tag, count, *(_estimate(r.by_tag[tag][0]) if tag in r.by_tag else None for r in results)


def _problem_table(one: Evaluated, names: tuple[str, ...], within: str) -> Table:
    """The paper's per-problem table: a row a problem, the solve rate of each group with its deviation over runs."""
    rows = {row["name"]: row for result in reversed(one.results) for row in result.problems}
    rates = [_problem_rates(result) for result in one.results]
    steps = any(row.get("mean_steps") is not None for row in rows.values())
    plan = any(row.get("plan_length") is not None for row in rows.values())
    stratum = stratum_of(next(iter(rows.values()), {}))
    stalls = any(_stalls(row) for row in rows.values())
    optional = {"steps": steps, "plan": plan, "failed in": stalls}
    columns = ("problem", "tags", stratum, "states", *(name for name, known in optional.items() if known), *names)
    body: list[tuple[Cell, ...]] = []
    for name, row in rows.items():
        values = (_rounded(row.get("mean_steps")), row.get("plan_length"), _stalls(row))
        extras = [value for value, known in zip(values, optional.values(), strict=True) if known]
        about = (name, " ".join(row.get("tags", ())), row.get(stratum), row.get("states"))
        body.append((*about, *extras, *(r.get(name) for r in rates)))
    return Table(f"problems-{one.name}", f"Solve rate by problem on {within}.", columns, body)


def _rounded(steps: float | None) -> float | None:
    return None if steps is None else round(float(steps), 1)


def _problem_rates(result: Result) -> dict[str, Number]:
    """Each problem's rate: with its deviation over runs, or of a single run with the interval of its attempts."""
    if len(result.entries) == 1:
        return {row["name"]: Number(row["rate"], row.get("low"), row.get("high")) for row in result.problems}
    means, spreads = result.rates.mean(0), result.rates.std(0, ddof=1)
    return {
        row["name"]: Number(float(mean), spread=float(spread))
        for row, mean, spread in zip(result.problems, means, spreads, strict=True)
    }
