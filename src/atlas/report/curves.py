"""Numbers over the course of training: one curve for runs of the same settings, with a band over their seeds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from atlas.report.reading import Group, Plain

MOST_POINTS: Final = 200
"""Curves of more points are averaged: nobody sees the difference, and pages stay small."""

Value = Callable[[Plain], Any]
"""Takes a number out of a record; None where there is none."""


@dataclass(frozen=True, eq=False)
class Curve:
    """A line with a band: the mean over runs, and the range from the lowest to the highest of them."""

    x: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def at(*keys: str) -> Value:
    """The number under a path of keys, e.g. `at("held_out", "rooms_1")`."""

    def value(record: Plain) -> Any:
        found: Any = record
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        return found

    return value


def curve(group: Group, value: Value) -> Curve | None:
    """A number over env steps; None if no run has it."""
    return join([line for run in group.runs if (line := points(run.records, value)) is not None])


def points(records: Sequence[Plain], value: Value, x: str = "steps") -> tuple[np.ndarray, np.ndarray] | None:
    """Where the number is known, and the number there."""
    pairs = [(record[x], value(record)) for record in records]
    known = [(float(at), float(number)) for at, number in pairs if _is_number(number)]
    if not known:
        return None
    steps, numbers = np.array(known).T
    order = np.argsort(steps, kind="stable")
    return steps[order], numbers[order]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value))


def join(lines: Sequence[tuple[np.ndarray, np.ndarray]]) -> Curve | None:
    """Lines of several runs as one curve, over the steps that all of them have reached."""
    if not lines:
        return None
    start, end = max(x[0] for x, _ in lines), min(x[-1] for x, _ in lines)
    grid = np.unique(np.concatenate([x for x, _ in lines]))
    grid = grid[(grid >= start) & (grid <= end)]
    if not len(grid):  # runs that never overlap have no common curve: the longest speaks for them
        lines = [max(lines, key=lambda line: float(line[0][-1]))]
        grid = lines[0][0]
    rows = np.stack([np.interp(grid, x, y) for x, y in lines])
    x, mean, low, high = _thinned(grid, rows.mean(0), rows.min(0), rows.max(0))
    return Curve(x, mean, low, high)


def _thinned(*columns: np.ndarray) -> list[np.ndarray]:
    """At most so many points, each the mean of its neighbours."""
    if len(columns[0]) <= MOST_POINTS:
        return list(columns)
    return [np.array([part.mean() for part in np.array_split(column, MOST_POINTS)]) for column in columns]


def keys(group: Group, *path: str) -> list[str]:
    """The names that occur under a path in any record: numbers in their order first, then words as they came."""
    found: dict[str, None] = {}
    for run in group.runs:
        for record in run.records:
            inner = at(*path)(record)
            found |= dict.fromkeys(inner) if isinstance(inner, dict) else {}
    return sorted(found, key=lambda name: (0, float(name)) if _is_numeral(name) else (1, 0.0))


def _is_numeral(name: str) -> bool:
    return name.replace(".", "", 1).isdecimal()
