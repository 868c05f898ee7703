"""Held-out problems on disk: with the run they belong to, and in a cache that starts the next run of their kind."""

import contextlib
import hashlib
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np

from atlas.config import Config
from atlas.errors import AtlasError
from atlas.heldout import PER_SIZE, SEED, HeldOut, held_out
from atlas.runs.bulk import load_bulk, save_bulk
from atlas.runs.cache import cache_folder
from atlas.settings import to_plain

LENGTH: Final = "length_"


def obtain(path: Path, config: Config, per_size: int = PER_SIZE) -> HeldOut:
    """The held-out problems of a run: its own file, else from the cache, else drawn and proven. Its file is there
    afterwards."""
    with contextlib.suppress(AtlasError, OSError):
        return read(path, config)
    cached = cache_folder() / "held-out" / f"{fingerprint(config, per_size)}.npz"
    chosen = None
    with contextlib.suppress(AtlasError, OSError):
        chosen = read(cached, config)
    if chosen is None:
        chosen = held_out(config, per_size)
        with contextlib.suppress(OSError):  # a cache that cannot be written is no reason not to train
            write(cached, chosen, config)
    write(path, chosen, config)
    return chosen


def fingerprint(config: Config, per_size: int) -> str:
    """What a held-out set depends on, as a name."""
    what = {**_settings(config), "per_size": per_size, "seed": SEED, "version": version("atlas-ued")}
    return hashlib.blake2b(json.dumps(what, sort_keys=True).encode(), digest_size=12).hexdigest()


def _settings(config: Config) -> dict[str, Any]:
    return {"domain": to_plain(config.domain), "tasks": to_plain(config.tasks), "gamma": config.student.ppo.gamma}


def write(path: Path, chosen: HeldOut, config: Config) -> None:
    """Keep a set, its problems named and tagged by kind."""
    kinds = list(zip(chosen.rooms.tolist(), chosen.lengths.tolist(), strict=True))
    names = [f"rooms-{rooms}-length-{length}-{number:03d}" for number, (rooms, length) in enumerate(kinds)]
    tags = [(f"rooms_{rooms}", f"{LENGTH}{length}") for rooms, length in kinds]
    save_bulk(chosen.problems, path, _settings(config), SEED, names, tags)


def read(path: Path, config: Config) -> HeldOut:
    """A set that was kept. One of other settings is refused."""
    kept = load_bulk(path)
    if kept.settings != json.loads(json.dumps(_settings(config))):
        raise AtlasError(f"{path}: these problems were drawn with other settings")
    lengths = np.array([int(tag.removeprefix(LENGTH)) for tags in kept.tags for tag in tags if tag.startswith(LENGTH)])
    return HeldOut(kept.problems, np.asarray(kept.problems.level.rooms), lengths, config.domain.step_limit)
