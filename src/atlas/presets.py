"""Look presets (experiments with a name) up. Their tables are in `domains/*/presets.py` and in plug-ins."""

import warnings
from dataclasses import dataclass
from functools import partial

from atlas.config import Config, NetworkConfig, PPOConfig, RunConfig, StudentConfig, TaskConfig
from atlas.documents import read_plain
from atlas.domains import DOMAINS, find
from atlas.errors import AtlasError, nearest
from atlas.plugins import Table, require_kind
from atlas.settings import ConfigError, DomainSettings, changed, from_plain
from atlas.ued import ACCELConfig, BufferConfig, EditConfig


@dataclass(frozen=True)
class Preset:
    """A config and what it is for."""

    config: Config
    summary: str


def tiny(domain: DomainSettings) -> Config:
    """An experiment of seconds with all parts in it, for trying things out."""
    return Config(
        domain=domain,
        tasks=TaskConfig(max_length=2),
        teacher=ACCELConfig(
            replay_prob=0.8, num_eval=16, buffer=BufferConfig(capacity=32), edits=EditConfig(least=1, most=2)
        ),
        student=StudentConfig(
            network=NetworkConfig(
                view="dense", view_width=8, task_width=8, edge_width=8, recurrent=8, head_width=8, value_init=0.01
            ),
            ppo=PPOConfig(learning_rate=1e-3, epochs=1, minibatch_envs=4),
        ),
        run=RunConfig(
            num_envs=8, rollout=domain.step_limit, total_steps=4_096, snapshot_every=5.0, checkpoint_every=5.0
        ),
    )


INSTALLED: Table[Preset] = Table("presets", {}, partial(require_kind, kind=Preset, words="a Preset (atlas.presets)"))
"""Presets of other packages."""


def presets() -> dict[str, Preset]:
    """All presets of all domains, by name, then those of other packages."""
    own = {name: one for row in DOMAINS.values() for name, one in find(row.presets).items()}
    return own | {name: one for name, one in INSTALLED.items() if name not in own}


def config_of(name: str) -> Config:
    """The config of a preset, or of a file (.yaml). A file may start from a preset: `preset: quick`."""
    if not name.endswith((".yaml", ".yml")):
        return preset(name).config
    plain = read_plain(name)
    try:
        if not isinstance(plain, dict) or "preset" not in plain:
            config = from_plain(Config, plain)
            if "num_envs" not in plain.get("run", {}):
                warnings.warn(
                    f"{name} names no preset: what it leaves out is as in the paper (run.num_envs = "
                    f"{config.run.num_envs}); with `preset: quick` in it, it starts from that preset",
                    stacklevel=2,
                )
            return config
        return changed(preset(str(plain.pop("preset"))).config, plain)
    except AtlasError as error:
        raise ConfigError(f"{name}: {error}") from None


def preset(name: str) -> Preset:
    """Look a preset up, with a hint if there is none of that name. What is found among our own is found without a look
    at other packages, which may start from it."""
    for row in DOMAINS.values():
        if name in (own := find(row.presets)):
            return own[name]
    if name not in INSTALLED:
        raise AtlasError(f"there is no preset '{name}'{nearest(name, presets()) or '; `atlas presets` lists them'}")
    return INSTALLED[name]
