"""Two evaluations on one set, side by side: what changed, and how sure that is.

Problems are paired: both sides are resampled alike, so what makes a problem easy or hard for both cancels out. Where a
side has several runs, these are resampled, too.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.markup import escape
from rich.table import Table

from atlas.errors import AtlasError, listed
from atlas.evaluation.results import AGGREGATES, GREEDY, read_evaluation, results_of
from atlas.evaluation.statistics import RESAMPLES, STATISTICS, Estimate, Statistic, interval, wilson
from atlas.runs.folder import find, located
from atlas.runs.screen import Screen
from atlas.words import plural

Plain = dict[str, Any]
MOST_CHANGED: Final = 10
"""Problems that are shown unless all are asked for."""
USUAL: Final = "hand"
"""The set that is meant where there are several."""


def find_evaluations(paths: Sequence[Path], name: str | None) -> list[Plain]:
    """The evaluations that are meant: files, or of run folders those on one set that all of them have."""
    for path in paths:
        if not located(path).exists():
            raise AtlasError(f"{path} does not exist")
    runs = [path for path in paths if located(path).is_dir()]
    for run in runs:
        find(run)
    if name is None and len(runs) == 1:
        about = next(read_evaluation(path)["set"] for path in paths if path not in runs)
        name = f"{about.get('name')}{GREEDY * bool(about.get('greedy'))}"
    elif name is None and runs:
        names = [{name for name, file in results_of(run).items() if _is_whole(file)} for run in runs]
        for run, found in zip(runs, names, strict=True):
            if not found:
                raise AtlasError(f"{run} was not evaluated on any set: `atlas eval {run}` does it")
        shared = sorted(set.intersection(*names))
        if not shared:
            told = " and ".join(f"{run} on {', '.join(sorted(n))}" for run, n in zip(runs, names, strict=True))
            raise AtlasError(f"the runs were evaluated on different sets: {told}")
        if len(shared) > 1 and USUAL not in shared:
            raise AtlasError(f"the runs were evaluated on {listed(shared, 'and')}: choose with --problems")
        name = USUAL if USUAL in shared else shared[0]
    return [read_evaluation(_file(path, name)) for path in paths]


def _is_whole(file: Path) -> bool:
    """Whether a file is an evaluation that can be read, and not one over time."""
    try:
        return "runs" in read_evaluation(file)
    except AtlasError:
        return False


def _file(path: Path, name: str | None) -> Path:
    if not located(path).is_dir():
        return path
    file = results_of(path).get(str(name))
    if file is None:
        how = f"{str(name).removesuffix(GREEDY)}{' --greedy' * str(name).endswith(GREEDY)}"
        raise AtlasError(f"{path} was not evaluated on {name}: `atlas eval {path} --problems {how}` does it")
    return file


def compare(one: Plain, other: Plain, seed: int = 0) -> Plain:
    """The differences between two evaluations, `other` less `one`: over all, by tag and by problem."""
    for content in (one, other):
        if not content.get("runs"):
            raise AtlasError("an evaluation over time cannot be compared: evaluate the runs without --over-time")
    _require_same(one["set"], other["set"])
    rows = one["runs"][0]["problems"]
    names = [row["name"] for row in rows]
    rates = [_rates(content, names) for content in (one, other)]
    difference = _differences(STATISTICS, rates, np.arange(len(names)), seed)
    tags = {tag: np.array([tag in row["tags"] for row in rows]) for tag in sorted({t for r in rows for t in r["tags"]})}
    by_tag = {}
    for tag, members in tags.items():
        chosen = np.flatnonzero(members)
        means = {side: float(rate[:, chosen].mean()) for side, rate in zip(("one", "other"), rates, strict=True)}
        found = _differences({"mean": STATISTICS["mean"]}, rates, chosen, seed)["mean"]
        by_tag[tag] = {**means, **asdict(found), "problems": len(chosen)}
    sure = bool(one["set"].get("greedy") or other["set"].get("greedy"))
    before, after = (_pooled(content) for content in (one, other))
    changed = [_change(row["name"], row["tags"], before[row["name"]], after[row["name"]], sure) for row in rows]
    return {
        "set": {key: one["set"].get(key) for key in ("name", "hash", "problems", "step_limit")},
        "one": _side(one, rates[0]),
        "other": _side(other, rates[1]),
        "difference": {name: asdict(found) for name, found in difference.items()},
        "by_tag": by_tag,
        "problems": sorted(changed, key=lambda row: -abs(row["difference"])),
        "notes": _notes(one["set"], other["set"]),
    }


def _require_same(one: Plain, other: Plain) -> None:
    if one.get("hash") != other.get("hash"):
        told = " and ".join(f"{about.get('name')} ({str(about.get('hash'))[:12]})" for about in (one, other))
        raise AtlasError(f"the evaluations are on different problems, {told}: only the same set can be compared")
    if one.get("step_limit") != other.get("step_limit"):
        told = " and ".join(str(about.get("step_limit")) for about in (one, other))
        raise AtlasError(f"the step limits differ, {told}: evaluate both with the same --step-limit")


def _notes(one: Plain, other: Plain) -> list[str]:
    """Other differences between the two, in sentences."""
    notes = []
    for key, words in (("greedy", "greedy: {}"), ("attempts", "attempts at each problem: {}")):
        if one.get(key) != other.get(key):
            notes.append(f"the evaluations differ in {words.format(f'{one.get(key)} and {other.get(key)}')}".lower())
    return notes


def _rates(content: Plain, names: Sequence[str]) -> np.ndarray:
    """`float[runs, problems]`, in the order of the names."""
    tables = [{row["name"]: row["rate"] for row in run["problems"]} for run in content["runs"]]
    missing = sorted({name for table in tables for name in set(names) ^ set(table)})
    if missing:
        raise AtlasError(f"'{missing[0]}' is in one evaluation and not in the other: evaluate both again")
    return np.array([[table[name] for name in names] for table in tables], float)


def _differences(
    statistics: dict[str, Statistic], rates: Sequence[np.ndarray], chosen: np.ndarray, seed: int
) -> dict[str, Estimate]:
    """Statistics of the second side less those of the first on some problems, which are resampled."""
    rng = np.random.default_rng(seed)
    draws: dict[str, list[float]] = {name: [] for name in statistics}
    for _ in range(RESAMPLES):
        again = chosen[rng.integers(len(chosen), size=len(chosen))]
        one, other = (rate[rng.integers(len(rate), size=len(rate))][:, again] for rate in rates)
        for name, of in statistics.items():
            draws[name].append(of(other) - of(one))
    one, other = (rate[:, chosen] for rate in rates)
    return {
        name: interval(of(other) - of(one), np.array(draws[name]), least=-1.0, most=1.0)
        for name, of in statistics.items()
    }


def _pooled(content: Plain) -> dict[str, Estimate]:
    """The rate of each problem over the attempts of all runs, with Wilson's interval."""
    solved: Counter[str] = Counter()
    attempts: Counter[str] = Counter()
    for row in (row for run in content["runs"] for row in run["problems"]):
        solved[row["name"]] += row["solved"]
        attempts[row["name"]] += row["attempts"]
    return {name: wilson(solved[name], count) for name, count in attempts.items()}


def _change(name: str, tags: list[str], one: Estimate, other: Estimate, sure: bool) -> Plain:
    """One problem, with Newcombe's interval of the difference; none where a side leaves nothing to chance."""
    change = other.value - one.value
    told: Plain = {"name": name, "tags": tags, "one": one.value, "other": other.value, "difference": change}
    if sure or one.low is None or one.high is None or other.low is None or other.high is None:
        return told | {"low": None, "high": None}
    down = np.hypot(other.value - other.low, one.high - one.value)
    up = np.hypot(other.high - other.value, one.value - one.low)
    return told | {"low": float(change - down), "high": float(change + up)}


def _side(content: Plain, rates: np.ndarray) -> Plain:
    return {
        "runs": [run["run"] for run in content["runs"]],
        "iterations": [run.get("iteration") for run in content["runs"]],
        "attempts": content["set"].get("attempts"),
        "greedy": content["set"].get("greedy"),
        **{name: of(rates) for name, of in STATISTICS.items()},
    }


# For a terminal


def print_comparison(content: Plain, everything: bool) -> None:
    """Over all, by tag, and the problems that changed most."""
    console, about = Screen(), content["set"]
    console.print(
        f"[bold]{escape(str(about['name']))}[/]: {plural(about['problems'], 'problem')}, solved within "
        f"[bold]{about['step_limit']} steps[/], fingerprint {str(about['hash'])[:12]}"
    )
    for side in ("one", "other"):
        told = content[side]
        runs = ", ".join(
            f"{escape(run)}, iteration {n}" for run, n in zip(told["runs"], told["iterations"], strict=True)
        )
        console.print(f"{side:>5}: {runs}", soft_wrap=True)
    for note in content["notes"]:
        console.print(f"[yellow]{note}[/]")
    table = _table("over all")
    for name, words in AGGREGATES.items():
        found = content["difference"][name]
        table.add_row(words, *_cells(content["one"][name], content["other"][name], found, found["value"]))
    console.print("", table, sep="\n")
    if content["by_tag"]:
        table = _table("tag", "problems")
        for tag, found in sorted(content["by_tag"].items(), key=lambda item: -abs(item[1]["value"])):
            table.add_row(
                escape(tag), str(found["problems"]), *_cells(found["one"], found["other"], found, found["value"])
            )
        console.print("", table, sep="\n")
    changed = [row for row in content["problems"] if row["difference"]]
    shown = changed if everything else changed[:MOST_CHANGED]
    if shown:
        table = _table("problem")
        for row in shown:
            table.add_row(escape(row["name"]), *_cells(row["one"], row["other"], row, row["difference"]))
        console.print("", table, sep="\n")
    unchanged = len(content["problems"]) - len(changed)
    more = f"{len(changed) - len(shown)} more changed less (--all shows them); " if len(changed) > len(shown) else ""
    console.print(f"{more}{unchanged} did not change")
    console.print(
        "\n[dim]Differences are other less one, with 95 % intervals: over all and by tag from problems drawn again, "
        "the same for both sides (and runs, where there are several); of single problems Newcombe's.[/]"
    )


def _table(first: str, *more: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in (first, *more, "one", "other", "difference", "95 %"):
        table.add_column(heading, justify="left" if heading == first else "right", no_wrap=True, overflow="ellipsis")
    return table


def _cells(one: float, other: float, found: Plain, difference: float) -> tuple[str, str, str, str]:
    low, high = found["low"], found["high"]
    sure = low is not None and high is not None and (low > 0 or high < 0)
    colour = ("green" if difference > 0 else "red") if sure else "default"
    between = "" if low is None or high is None else f"[dim]{low:+.3f} – {high:+.3f}[/]"
    return f"{one:.3f}", f"{other:.3f}", f"[{colour}]{difference:+.3f}[/]", between
