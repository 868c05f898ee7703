"""Which share of the problems that a sampler draws can be solved, over several batches and by cell: the tables of the
paper's Appendix E.3.

A cell is a value of the domain's stratum (the number of rooms), a band of objects and a length of the task, each or any
of them. Problems are drawn as the settings say and sorted into cells: within a cell they are as likely as if they had
been drawn for it alone, and one compiled sampler serves all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final

import jax
import numpy as np

from atlas.build import parts
from atlas.config import Config
from atlas.domains import DOMAINS, domain_of, find, surface_of
from atlas.errors import AtlasError, nearest
from atlas.evaluation.sets import Progress, one_by_one, silent
from atlas.tasks.packed import count_states
from atlas.types import Problem

DRAWN: Final = 16_384
"""Problems drawn at a time."""
FRUITLESS: Final = 100
"""Draws in a row that may leave a cell as it is before it is given up."""

Plain = dict[str, Any]
Prove = Callable[[list[Problem]], Sequence[Any]]
"""A verdict with proof for each problem."""


@dataclass(frozen=True)
class Cell:
    """Problems of one kind; None: of any."""

    value: int | None = None
    """The domain's stratum value, e.g. the number of rooms."""
    band: str | None = None
    """How many objects."""
    length: int | None = None
    """Transitions of a sequential task."""


def cells_of(config: Config, lengths: Sequence[int] | None, bands: Sequence[str] | None) -> tuple[Config, list[Cell]]:
    """The cells that are asked for, and settings that draw no task of another length."""
    if lengths and config.tasks.sampler != "sequential":
        raise AtlasError(f"--length needs --tasks sequential: {config.tasks.sampler} tasks have no single length")
    ranges = _bands(config.domain.name)
    for band in bands or ():
        if band not in ranges:
            raise AtlasError(f"--objects {band} is not known{nearest(band, ranges) or f'; there are {_some(ranges)}'}")
    values = domain_of(config.domain).strata[1]
    for band, value in product(bands or (), values):
        if value not in ranges[band]:
            known = _some(ranges[band])
            raise AtlasError(f"--objects {band} says nothing of {value} rooms: bands are for {known}; choose --rooms")
    if lengths:
        tasks = replace(config.tasks, min_length=min(lengths), max_length=max(lengths))
        config = replace(config, tasks=tasks)
    any_band: Sequence[str | None] = bands or [None]
    any_length: Sequence[int | None] = lengths or [None]
    return config, [Cell(*one) for one in product(values, any_band, any_length)]


def _bands(name: str) -> dict[str, dict[int, tuple[int, int]]]:
    place = DOMAINS[name].bands
    return find(place) if place else {}


def _some(words: Any) -> str:
    return ", ".join(map(str, words)) or "none"


def shares(
    config: Config,
    cells: Sequence[Cell],
    count: int,
    batches: int,
    seed: int,
    prove: Prove | None = None,
    progress: Progress = silent,
) -> list[Plain]:
    """For each cell the share of solvable problems: mean and deviation over batches of so many problems each.

    By the paper's check, and with `prove` also by proof.
    """
    stratum = domain_of(config.domain).strata[0]
    rows = []
    for cell, (passed, problems) in _draw(config, cells, batches * count, seed, prove is not None, progress).items():
        row: Plain = {stratum: cell.value, "objects": cell.band, "length": cell.length}
        row |= over_batches("relaxed", np.split(passed, batches))
        if prove is not None:
            verdicts = np.array([solution.verdict for solution in prove(problems)])
            row |= over_batches("proven", np.split(verdicts == "solvable", batches))
            row["unknown"] = float(np.mean(verdicts == "unknown"))
        rows.append(row)
    return rows


def over_batches(name: str, passed: Sequence[np.ndarray]) -> Plain:
    """The mean share and its deviation over batches (of one batch there is none)."""
    found = [float(np.mean(batch)) for batch in passed]
    deviation = float(np.std(found, ddof=1)) if len(found) > 1 else None
    return {f"share_{name}": float(np.mean(found)), f"share_{name}_sd": deviation}


def _draw(
    config: Config, cells: Sequence[Cell], wanted: int, seed: int, keep: bool, progress: Progress
) -> dict[Cell, tuple[np.ndarray, list[Problem]]]:
    """Draw the `wanted` first problems of each cell: which of them pass the paper's check, and with `keep` the problems
    themselves."""
    domain, ranges = domain_of(config.domain), _bands(config.domain.name)
    stratum, made, surface = domain.strata[0], parts(config), surface_of(config.domain.name)

    @jax.jit
    def draw(key: Any) -> tuple[Problem, Any, Any]:
        problems = made.sample(key, DRAWN)
        return problems, jax.vmap(domain.measure)(problems.level), jax.vmap(count_states)(problems.task)

    def members(cell: Cell, measures: Any, states: np.ndarray) -> np.ndarray:
        chosen = np.ones(DRAWN, bool) if cell.value is None else measures[stratum] == cell.value
        if cell.band is not None and cell.value is not None:
            low, high = ranges[cell.band][cell.value]
            chosen &= (measures["objects"] >= low) & (measures["objects"] <= high)
        return np.flatnonzero(chosen if cell.length is None else chosen & (states == cell.length + 1))

    passed = {cell: np.zeros(0, bool) for cell in cells}
    kept: dict[Cell, list[Problem]] = {cell: [] for cell in cells}
    number = fruitless = 0
    while missing := [cell for cell in cells if len(passed[cell]) < wanted]:
        problems, measures, states = jax.device_get(draw(jax.random.fold_in(jax.random.key(seed), number)))
        places = {cell: members(cell, measures, states)[: wanted - len(passed[cell])] for cell in missing}
        rows = np.concatenate(list(places.values()))
        some: Problem = jax.tree.map(lambda leaf, rows=rows: leaf[rows], problems)
        ends = np.cumsum([len(found) for found in places.values()])
        verdicts = np.split(surface.screen_many(some), ends[:-1]) if len(rows) else [np.zeros(0, bool)] * len(missing)
        for cell, verdict in zip(missing, verdicts, strict=True):
            passed[cell] = np.concatenate([passed[cell], verdict])
            if keep and len(places[cell]):
                kept[cell] += one_by_one(jax.tree.map(lambda leaf, at=places[cell]: leaf[at], problems))
        number, fruitless = number + 1, 0 if all(map(len, places.values())) else fruitless + 1
        if fruitless >= FRUITLESS:
            cell = min(missing, key=lambda one: len(passed[one]))
            raise AtlasError(f"only {len(passed[cell])} of {number * DRAWN:,} problems were of the kind {cell}")
        progress(sum(map(len, passed.values())), wanted * len(cells))
    return {cell: (passed[cell], kept[cell]) for cell in cells}
