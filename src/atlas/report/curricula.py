"""Charts of what the teachers replayed: how large, how many solvable, how they were made, which were solved."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np

from atlas.report.charts import Chart, Draw, Line, areas, lines
from atlas.report.curves import at, curve, keys
from atlas.report.learning import compared
from atlas.report.reading import Group, Plain

MEANS: Final = {
    "states": ("States", "States of the task, terminal ones included"),
    "rooms": ("Rooms", "Rooms of the level"),
    "objects": ("Objects", "Objects in the level, doors included"),
    "paths": ("Paths", "Paths to acceptance in the task"),
    "path_length": ("Path length", "Transitions on a path to acceptance"),
    "edits": ("Edits", "Edits that made the problem from its parent, 0 for sampled ones"),
    "generation": ("Generation", "Sequences of edits since the problem was sampled"),
}
"""Name in the records -> title, what the mean is of."""
WEIGHTED: Final = "mean weighted by replay probability"
MOST_KINDS: Final = 12
"""Buckets told apart in a stack."""


def means(groups: Sequence[Group]) -> Iterator[Chart]:
    """The size of what is replayed, over time."""
    for name, (title, words) in MEANS.items():
        if series := compared(groups, "curriculum", name):
            caption = f"{words}; {WEIGHTED}."
            yield Chart(f"curriculum-{name.replace('_', '-')}", title, caption, lines(series))


def solvable(groups: Sequence[Group]) -> Iterator[Chart]:
    """How many problems of the buffer can be solved, by the relaxed check."""
    series: list[Line] = []
    for number, group in enumerate(groups):
        prefix = f"{group.name}, " if len(groups) > 1 else ""
        for key, label in (("solvable", "buffer"), ("solvable_replayed", "replayed")):
            if (line := curve(group, at("curriculum", key))) is not None:
                series.append(Line(prefix + label, line, dashed=key != "solvable", ink=number))
    if series:
        words = "Share of problems that the relaxed check finds solvable: of the whole buffer, and of what is replayed."
        yield Chart("curriculum-solvable", "Solvable problems", words, lines(series, "share"))


def by_group(groups: Sequence[Group]) -> Iterator[Chart]:
    """What has many parts, a chart for each group: kinds and numbers of edits, shares of sizes, solved by size."""
    for group in groups:
        suffix = f"-{_file_name(group.name)}" if len(groups) > 1 else ""
        whose = f": {group.name}" if len(groups) > 1 else ""
        if drawn := _stack(group, "curriculum", "edit_kinds"):
            words = "Share of each kind among the edits of the problems, weighted by replay probability."
            yield Chart(f"edit-kinds{suffix}", f"Edits by kind{whose}", words, drawn, 3.4)
        for what, title in (
            ("edits", "Edits by number"),
            ("rooms", "Shares of rooms"),
            ("states", "Shares of states"),
            ("objects", "Shares of objects"),
        ):
            if drawn := _stack(group, "curriculum", "shares", what):
                words = f"Share of problems with so many {what}, weighted by replay probability."
                yield Chart(f"shares-{what}{suffix}", f"{title}{whose}", words, drawn, 3.2)
        for what in ("rooms", "states"):
            found = [
                (key, curve(group, at("curriculum", "solved", what, key)))
                for key in keys(group, "curriculum", "solved", what)
            ]
            series = [
                Line(f"{key} {what if key != '1' else what[:-1]}", line) for key, line in found if line is not None
            ]
            if series:
                words = f"Share of attempts at problems in the buffer that were solved, by number of {what}."
                yield Chart(f"solved-{what}{suffix}", f"Solved by {what}{whose}", words, lines(series, "share", 0.0))


def _stack(group: Group, *path: str) -> Draw | None:
    """Shares on top of each other; a bucket that a snapshot does not name was empty then."""
    names = keys(group, *path)
    if not names:
        return None
    rows = [curve(group, partial(_share, path, name)) for name in names]
    known = [(name, row) for name, row in zip(names, rows, strict=True) if row is not None]
    labels, heights = _few([name for name, _ in known], np.stack([row.mean for _, row in known]))
    return areas([label.replace("_", " ") for label in labels], known[0][1].x, heights)


def _share(path: tuple[str, ...], name: str, record: Plain) -> float | None:
    shares = at(*path)(record)
    return shares.get(name, 0.0) if isinstance(shares, dict) else None


def _few(labels: list[str], heights: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Buckets that are numbers, where there are many, in a few ranges."""
    if len(labels) <= MOST_KINDS or not all(label.isdecimal() for label in labels):
        return labels, heights
    parts = np.array_split(np.arange(len(labels)), MOST_KINDS // 2)
    names = [labels[p[0]] if len(p) == 1 else f"{labels[p[0]]}–{labels[p[-1]]}" for p in parts]
    return names, np.stack([heights[p].sum(0) for p in parts])


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)


def charts(groups: Sequence[Group]) -> list[Chart]:
    """All of them."""
    return [*means(groups), *solvable(groups), *by_group(groups)]
