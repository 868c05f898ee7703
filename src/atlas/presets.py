"""Experiments with a name. Each domain brings its own."""

from dataclasses import dataclass

from atlas.config import Config
from atlas.domains import DOMAINS, find
from atlas.errors import AtlasError, nearest
from atlas.settings import load


@dataclass(frozen=True)
class Preset:
    """A config and what it is for."""

    config: Config
    summary: str


def presets() -> dict[str, Preset]:
    """All presets of all domains, by name."""
    return {name: one for row in DOMAINS.values() for name, one in find(row.presets).items()}


def preset(name: str) -> Preset:
    """Look a preset up, with a hint if there is none of that name."""
    known = presets()
    if name not in known:
        raise AtlasError(f"there is no preset '{name}'{nearest(name, known) or '; `atlas presets` lists them'}")
    return known[name]


def named(name: str) -> Config:
    """The config of a preset, or of a config file."""
    return load(Config, name) if name.endswith((".yaml", ".yml")) else preset(name).config
