"""A forecast of a run before it starts: how long it takes, how much memory, how much disk.

Disk follows from the shapes of what is kept. Speed and memory are those of the last run with the same work on this
machine, if there was one; else memory is told from below, and nothing is said about speed. Nothing is guessed.
"""

import hashlib
import json
import math
import os
import resource
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import jax

from atlas.config import Config, RunConfig
from atlas.documents import parse_json, read_text
from atlas.errors import AtlasError
from atlas.fit import CALL_SECONDS
from atlas.runs.hosts import cores
from atlas.runs.retention import RetentionSchedule
from atlas.runs.store import cache_folder, write_whole
from atlas.settings import to_plain
from atlas.training import Trainer, without_shown
from atlas.words import clock, size

PICTURE: Final = 256_000
"""Bytes of a contact sheet and the problems on it, about."""
RECORD: Final = 1_000
"""Bytes of a line of metrics, about."""
ANCESTRY: Final = 200
"""Bytes that the lineage keeps of a problem in the buffer and of its ancestors, about."""
ENOUGH: Final = 30.0
"""Seconds of training whose speed is worth remembering."""
MOST_REMEMBERED: Final = 200


@dataclass(frozen=True)
class Forecast:
    """The expected cost of a run; None is not known."""

    seconds: float | None
    is_limit: bool
    """Whether it ends after these seconds because of its time limit."""
    memory: float | None
    """Bytes. Most of them are the compiler's, so they are known only of runs like one that was measured here."""
    is_first: bool
    """Whether no run like it was measured here: it is likely that its programs must still be compiled."""
    disk: float
    """Bytes, at most."""
    free: float
    """Bytes that are left on the disk."""

    def summary(self) -> str:
        """The forecast in one line."""
        unknown = "not known before it has run for a minute"
        time = f"how long is {unknown}"
        if self.seconds is not None:
            time = f"{clock(self.seconds)} of training, its limit" if self.is_limit else f"about {clock(self.seconds)}"
        if self.is_first:
            time += ", and the first time some minutes of compiling before it"
        memory = f"memory is {unknown}" if self.memory is None else f"about {size(self.memory)} of memory"
        disk = f"at most {size(self.disk)} of disk ({size(self.free)} free)"
        return f"expected: {time}; {memory}; {disk}"


def forecast(config: Config, trainer: Trainer, folder: Path) -> Forecast:
    """The expected cost of a new run with these settings."""
    known = _remembered().get(_key(config, trainer))
    run = config.run
    seconds = None if run.time_limit is None else 60 * run.time_limit
    is_limit = seconds is not None
    if known is not None:
        by_steps = known["start"] + run.total_steps / known["speed"]
        if by_steps < (seconds or math.inf):
            seconds, is_limit = by_steps, False
    shapes = trainer.shapes
    there = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    return Forecast(
        seconds=seconds,
        is_limit=is_limit,
        memory=None if known is None else known["memory"],
        is_first=known is None,
        disk=disk(config, size_of(without_shown(shapes)), size_of(shapes.policy), seconds) + size_of(shapes.shown),
        free=shutil.disk_usage(there).free,
    )


def disk(config: Config, state: int, policy: int, seconds: float | None) -> int:
    """Bytes that a run keeps at most, given the sizes of its state and its policy and how long it goes on."""
    run, shortest = config.run, min(filter(None, (config.env_steps(1, 0), config.env_steps(1, 1))))
    iterations = -(-run.total_steps // shortest)
    if seconds is not None and seconds / CALL_SECONDS < iterations:
        calls = math.ceil(seconds / CALL_SECONDS)
        checkpoints = 2 + math.ceil(seconds / run.checkpoint_every)
    else:
        calls = checkpoints = iterations + 1
    marks = RetentionSchedule(run.total_steps, config.longest_iteration, run.policies, run.keep_at)
    extra = len(run.keep_at)
    policies = min(run.policies, marks.count) + 2 + extra
    snapshots = min(run.snapshots, marks.count) + 2 + extra
    buffer = config.plan.buffer
    return (
        min(run.keep + 1, checkpoints) * state
        + policies * policy
        + snapshots * PICTURE
        + calls * RECORD
        + (0 if buffer is None else buffer.capacity * ANCESTRY)
    )


def size_of(shapes: Any) -> int:
    """Bytes of a tree of arrays, or of their shapes."""
    leaves = jax.tree.leaves(shapes)
    return sum(math.prod(leaf.shape) * (8 if _is_key(leaf) else leaf.dtype.itemsize) for leaf in leaves)


def _is_key(leaf: Any) -> bool:
    return bool(jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key))


# What earlier runs took


def remember(config: Config, trainer: Trainer, first: tuple[int, float], last: tuple[int, float]) -> None:
    """Note how fast a run was and how much memory it took, for the next one with the same work.

    `first` and `last`: the env steps and seconds after the first call of the compiled step and after the last.
    """
    steps, seconds = last[0] - first[0], last[1] - first[1]
    if seconds < ENOUGH or not steps:
        return
    known = _remembered()
    known.pop(key := _key(config, trainer), None)
    known[key] = {"start": first[1], "speed": steps / seconds, "memory": _peak()}
    with suppress(OSError):  # it is only a help
        write_whole(_file(), json.dumps(dict(list(known.items())[-MOST_REMEMBERED:])) + "\n")


def _remembered() -> dict[str, dict[str, float]]:
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError, AtlasError):
        told = parse_json(read_text(_file()))
        return {key: {name: float(one[name]) for name in ("start", "speed", "memory")} for key, one in told.items()}
    return {}


def _file() -> Path:
    return cache_folder() / "speeds.json"


def _key(config: Config, trainer: Trainer) -> str:
    """The same for runs that do the same work an iteration, on the same kind of machine."""
    run = config.run
    work = replace(config, run=RunConfig(num_envs=run.num_envs, rollout=run.rollout))
    where = [trainer.layout.shards, jax.process_count(), jax.devices()[0].device_kind, cores(), os.uname().nodename]
    text = json.dumps([to_plain(work), where, jax.__version__], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _peak() -> int:
    """Bytes of memory that this process had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
