"""Sweeps as files: which presets, with which seeds and settings. No JAX here.

    about: what it is for
    runs:
      - presets: [paper-plr, paper-accel]
        seeds: [0, 1, 2, 3, 4]
        settings: {student.ppo.entropy: [0.0, 0.01]}     # a list: one run for each

Optional sections: `slurm` (what submitit is told), `search` (settings and ranges for Optuna, instead of `runs`).
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from atlas.config import Config
from atlas.errors import AtlasError, nearest
from atlas.presets import preset
from atlas.settings import from_plain, load, show, to_plain


@dataclass(frozen=True)
class Planned:
    """One run of a sweep."""

    experiment: str
    """Preset and settings: what runs that differ in their seed alone have in common."""
    seed: int
    config: Config

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{self.experiment}-seed-{self.seed}".replace(" ", "-").replace("=", "-").replace("/", "-")


@dataclass(frozen=True)
class Search:
    """A search over settings instead of a grid."""

    preset: str
    trials: int
    seed: int
    settings: dict[str, dict[str, Any]]
    """Key -> {low, high, log} or {choices}."""


@dataclass(frozen=True)
class Sweep:
    """A sweep as its file has it."""

    name: str
    about: str
    runs: tuple[Planned, ...] = ()
    search: Search | None = None
    slurm: dict[str, Any] = field(default_factory=dict)


def read_sweep(path: Path) -> Sweep:
    """A sweep from its file, every config checked."""
    try:
        plain = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise AtlasError(f"{path} is not readable YAML: {' '.join(str(error).split())}") from None
    try:
        _known(plain, ("about", "runs", "search", "slurm"), "a sweep")
        if ("runs" in plain) == ("search" in plain):
            raise AtlasError("either `runs` or `search` is needed")
        runs = tuple(_distinct(run for grid in plain.get("runs", []) for run in _expand(grid)))
        search = _search(plain["search"]) if "search" in plain else None
        return Sweep(path.stem, str(plain.get("about", "")), runs, search, dict(plain.get("slurm") or {}))
    except AtlasError as error:
        raise AtlasError(f"{path}: {error}") from None


def _known(plain: Any, names: tuple[str, ...], what: str) -> None:
    if not isinstance(plain, dict):
        raise AtlasError(f"{what} needs keys: {', '.join(names)}")
    for key in plain:
        if key not in names:
            hint = nearest(str(key), names) or f"; known: {', '.join(names)}"
            raise AtlasError(f"{key} is not a key of {what}{hint}")


def _expand(grid: Any) -> Iterator[Planned]:
    """All combinations."""
    _known(grid, ("presets", "seeds", "settings"), "an entry of `runs`")
    settings = {key: _list(values) for key, values in (grid.get("settings") or {}).items()}
    for name in _list(grid.get("presets", [])) or _missing("presets"):
        for values in itertools.product(*settings.values()):
            chosen = dict(zip(settings, values, strict=True))
            several = {key: value for key, value in chosen.items() if len(settings[key]) > 1}
            words = [f"{key.rsplit('.', 1)[-1]}={show(value)}" for key, value in several.items()]
            for seed in _list(grid.get("seeds", 0)):
                config = changed(named(str(name)), {**chosen, "run.seed": seed})
                yield Planned(" ".join([Path(str(name)).stem, *words]), seed, config)


def _missing(key: str) -> list[Any]:
    raise AtlasError(f"`{key}` is needed in each entry of `runs`")


def _list(values: Any) -> list[Any]:
    return values if isinstance(values, list) else [values]


def _distinct(runs: Iterator[Planned]) -> Iterator[Planned]:
    seen: set[str] = set()
    for run in runs:
        if run.name in seen:
            raise AtlasError(f"two runs would be kept under the same name, {run.name}")
        seen.add(run.name)
        yield run


def named(name: str) -> Config:
    """A preset, or a config file."""
    return load(Config, name) if name.endswith((".yaml", ".yml")) else preset(name).config


def changed(config: Config, settings: dict[str, Any]) -> Config:
    """A config with some settings changed, by their full names."""
    plain = to_plain(config)
    for key, value in settings.items():
        *sections, last = key.split(".")
        section: Any = plain
        for name in sections:
            section = section.get(name) if isinstance(section, dict) else None
        if not isinstance(section, dict) or last not in section:
            raise AtlasError(f"{key} is not a setting of this preset{nearest(key, _keys(plain))}")
        section[last] = value
    return from_plain(Config, plain)


def _keys(plain: dict[str, Any], prefix: str = "") -> list[str]:
    return [
        name
        for key, value in plain.items()
        for name in (_keys(value, f"{prefix}{key}.") if isinstance(value, dict) else [prefix + key])
    ]


def _search(plain: Any) -> Search:
    _known(plain, ("preset", "trials", "seed", "settings"), "`search`")
    search = Search(
        str(plain.get("preset", "")), int(plain.get("trials", 20)), int(plain.get("seed", 0)), plain["settings"]
    )
    for key, space in search.settings.items():
        _known(space, ("low", "high", "log", "choices"), f"the range of {key}")
        if ("choices" in space) == ("low" in space and "high" in space):
            raise AtlasError(f"{key} needs either low and high, or choices")
        changed(named(search.preset), {key: space["choices"][0] if "choices" in space else space["low"]})
    return search
