"""Reading run folders without failing: a file that is missing or damaged costs its part of the report only."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from atlas.config import BOOKKEEPING, Config
from atlas.errors import AtlasError
from atlas.evaluation.results import OVER_TIME, read_evaluation, results_of
from atlas.presets import presets
from atlas.runs.folder import RunFolder, find
from atlas.runs.metrics import read
from atlas.settings import flat, show, to_plain

FEW: Final = 8
"""A config that differs from a preset in more settings than this is one of its own."""

Plain = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Run:
    """All that a report needs to know of one run."""

    path: Path
    name: str
    config: Config
    records: list[Plain]
    """The lines of its metrics file, behind the exam of its untrained student where that is known."""
    untrained: float | None
    """The share of held-out problems that its untrained student solved, where it stopped to say so."""
    evaluations: dict[str, Plain]
    """By the name of the set."""
    over_time: dict[str, Plain]
    snapshots: tuple[Path, ...]
    notes: tuple[str, ...]
    """Sentences about what could not be read."""

    @property
    def last(self) -> Plain:
        """Its last record; empty if there is none."""
        return self.records[-1] if self.records else {}


@dataclass(frozen=True, eq=False)
class Group:
    """Runs of the same settings, which differ by their seeds: one curve in every figure."""

    name: str
    runs: tuple[Run, ...]

    @property
    def config(self) -> Config:
        """The settings they share."""
        return self.runs[0].config


def read_runs(paths: Sequence[Path]) -> list[Run]:
    """Every run once, under names that tell them apart."""
    unique = list(dict.fromkeys(Path(path) for path in paths))
    return [_read_run(path, name) for path, name in zip(unique, _names(unique), strict=True)]


def _read_run(path: Path, name: str) -> Run:
    folder = find(path)
    notes: list[str] = []
    told = _read_evaluations(results_of(path), notes)
    before = _untrained(folder)
    records = [
        record
        for record in read(folder.metrics_file)
        if isinstance(record.get("steps"), int | float) and isinstance(record.get("seconds", 0.0), int | float)
    ]
    if before and records and records[0]["steps"] > 0:
        records.insert(0, {"iteration": 0, "trained": 0, "steps": 0, "seconds": 0.0, "held_out": before})
    return Run(
        path=path,
        name=name,
        config=folder.config(),
        records=records,
        untrained=before.get("all"),
        evaluations={stem: content for stem, content in told.items() if content.get("runs")},
        over_time={stem.removesuffix(OVER_TIME): content for stem, content in told.items() if content.get("points")},
        snapshots=tuple(sorted(folder.snapshots.glob("*.npz"))),
        notes=tuple(notes),
    )


def _untrained(folder: RunFolder) -> dict[str, float]:
    """Shares of held-out problems that the untrained student solved, of all and by stratum."""
    before = folder.summary().get("before")
    known = before.items() if isinstance(before, dict) else ()
    return {key: float(rate) for key, rate in known if isinstance(rate, int | float)}


def _read_evaluations(files: dict[str, Path], notes: list[str]) -> dict[str, Plain]:
    """By the name of the set; what cannot be read is noted."""
    found = {}
    for name, file in files.items():
        try:
            found[name] = read_evaluation(file)
        except AtlasError as error:
            notes.append(str(error))
    return found


def _names(paths: Sequence[Path]) -> list[str]:
    """The last part of each path; as many parts as it takes to tell them apart."""
    parts = [path.resolve().parts for path in paths]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


def group_runs(runs: Iterable[Run]) -> list[Group]:
    """Runs of equal settings together, in the order in which they were given."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.config.experiment, []).append(run)
    names: list[str] = []
    for members in found.values():
        name = _group_name(members)
        names.append(name if name not in names else f"{name} ({len(names) + 1})")
    return [Group(name, tuple(members)) for name, members in zip(names, found.values(), strict=True)]


def _group_name(runs: Sequence[Run]) -> str:
    if len(runs) == 1:
        return runs[0].name
    first, last = min(run.name for run in runs), max(run.name for run in runs)
    same = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    shared = first[:same].rstrip("-_./ 0123456789").removesuffix("seed").rstrip("-_./ ")
    return shared or nearest_preset(runs[0].config)[0] or runs[0].config.plan.title


def nearest_preset(config: Config) -> tuple[str, list[str]]:
    """The preset that a config comes from, and what was changed, as `run.total_steps = 100`; an empty name if none."""
    own = flat(to_plain(config))
    best, fewest = "", [""] * (FEW + 1)
    for name, preset in presets().items():
        theirs = flat(to_plain(preset.config))
        keys = [key for key in own.keys() | theirs.keys() if own.get(key) != theirs.get(key)]
        changed = [f"{key} = {show(own.get(key))}" for key in sorted(keys) if key not in BOOKKEEPING]
        if len(changed) < len(fewest):
            best, fewest = name, changed
    return best, fewest if best else []
