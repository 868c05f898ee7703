"""A trained policy out of a run folder, a checkpoint, or a file of parameters alone.

A run keeps complete checkpoints of its last and best states, and the parameters alone through time
(`policies/000000123.npz`). Both are tables of arrays by name, and both need the run's config to be played.
"""

import io
import json
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import jax
import numpy as np

from atlas.build import parts
from atlas.config import Config
from atlas.errors import AtlasError
from atlas.runs.checkpoints import (
    RATE,
    CheckpointError,
    OtherConfigError,
    Table,
    from_table,
    read_table,
    require_same,
    shapes,
    to_table,
)
from atlas.runs.folder import RunFolder, find
from atlas.runs.pictures import write_whole
from atlas.student.network import Params, Student

FORMAT: Final = "atlas parameters"
VERSION: Final = 1
PARAMS: Final = ".params"
"""Where a checkpoint keeps the parameters."""


@dataclass(frozen=True, eq=False)
class Policy:
    """A student with its parameters, and when in a run it was like this."""

    config: Config
    student: Student
    params: Params
    iteration: int
    steps: int
    """Env steps it was trained for."""
    seconds: float
    path: Path
    """The run folder, checkpoint or file it came from."""

    @property
    def run(self) -> Path:
        """The folder of its run."""
        return run_of(self.path)


def load_policy(path: Path | str, which: Literal["last", "best"] = "last") -> Policy:
    """The policy of a run folder (`which` of its checkpoints), of one checkpoint, or of a `policies/*.npz`."""
    path = Path(path)
    config = _config(path)
    if path.suffix == ".npz":
        table, about = load_parameters(path)
        return _policy(path, config, table, about)
    if _is_checkpoint(path):
        return _from_checkpoint(path, config)
    return _from_run(RunFolder(run_of(path)), config, which)


def policies_over_time(run: Path | str) -> list[Path]:
    """The files of parameters that a run has kept, in the order of training."""
    return sorted((run_of(Path(run)) / "policies").glob("*.npz"))


def run_of(path: Path) -> Path:
    """The run folder that a checkpoint, a file of parameters, or a run folder itself belongs to."""
    if path.suffix == ".npz" or _is_checkpoint(path):
        return path.parent.parent
    return path.parent if path.name == "checkpoints" else path


def _is_checkpoint(path: Path) -> bool:
    """Whether a folder is one checkpoint: not by its name alone, for a run may be called `1` too."""
    return (path / "about").is_dir() or (path.name.isdigit() and path.parent.name == "checkpoints")


def _config(path: Path) -> Config:
    """The settings of the run, without which parameters are but numbers."""
    if not path.exists():
        raise AtlasError(f"{path} does not exist: a run folder, a checkpoint or a policy (npz) is needed")
    folder = RunFolder(run_of(path))
    if folder.path != path and not folder.is_run():
        raise AtlasError(f"{path} has no config: {folder.config_file} is needed to know its network")
    if not folder.is_run() and folder.checkpoints.is_dir():
        raise AtlasError(f"{path} has checkpoints but no config: {folder.config_file} is needed to know the network")
    return find(folder.path).config()


def _from_run(folder: RunFolder, config: Config, which: Literal["last", "best"]) -> Policy:
    """The last (or best) checkpoint that is whole; damaged ones are passed over with a sentence."""
    numbers = sorted((int(p.name) for p in folder.checkpoints.glob("*") if p.name.isdigit()), reverse=True)
    if which == "best":
        rates = {number: _rate(folder.checkpoints / str(number)) for number in numbers}
        numbers.sort(key=lambda number: (rates[number], number), reverse=True)
    for number in numbers:
        try:
            return _from_checkpoint(folder.checkpoints / str(number), config)
        except OtherConfigError:
            raise
        except CheckpointError as error:
            print(f"atlas: {error}; taking another", file=sys.stderr)
    raise AtlasError(f"{folder.path} holds no usable checkpoint: nothing to play with yet")


def _rate(checkpoint: Path) -> float:
    """The held-out solve rate that was written down with a checkpoint; -1 if none was."""
    try:
        about = json.loads((checkpoint / "about" / "metadata").read_text())
        return float(about.get(RATE, -1.0))
    except (OSError, ValueError, AttributeError):
        return -1.0


def _from_checkpoint(path: Path, config: Config) -> Policy:
    table, about = read_table(path, PARAMS)
    return _policy(path, config, {name.removeprefix(PARAMS): array for name, array in table.items()}, about)


def _policy(path: Path, config: Config, table: Table, about: dict[str, Any]) -> Policy:
    student = parts(config).student
    like = jax.eval_shape(student.init, jax.random.key(0))
    expected = {name: f"{leaf.dtype}{list(leaf.shape)}" for name, leaf in _leaves(like)}
    require_same(path, shapes(table), expected)
    return Policy(
        config=config,
        student=student,
        params=from_table(table, like),
        iteration=int(about.get("iteration", 0)),
        steps=int(about.get("steps", 0)),
        seconds=float(about.get("seconds", 0.0)),
        path=path,
    )


def _leaves(tree: Any) -> Iterator[tuple[str, Any]]:
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        yield jax.tree_util.keystr(path), leaf


def save_parameters(path: Path | str, params: Any, about: dict[str, Any]) -> None:
    """Write parameters alone, by name, with a description: at least iteration, steps and seconds."""
    header = json.dumps({"format": FORMAT, "version": VERSION, **about})
    stored: dict[str, Any] = {**to_table(params), "header": np.array(header)}
    buffer = io.BytesIO()
    np.savez(buffer, **stored)  # random numbers: compression would gain a tenth and cost seconds
    write_whole(path, buffer.getvalue())


def load_parameters(path: Path | str) -> tuple[Table, dict[str, Any]]:
    """What `save_parameters` wrote: arrays by name, and the description. Nothing in the file is executed."""
    try:
        with np.load(path, allow_pickle=False) as file:
            table = {name: file[name] for name in file.files}
        about = json.loads(str(table.pop("header")))
    except (ValueError, KeyError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise AtlasError(f"{path}: not a readable file of parameters ({error})") from None
    if about.get("format") != FORMAT:
        raise AtlasError(f"{path}: not a file of parameters")
    if about.get("version") != VERSION:
        raise AtlasError(f"{path}: version {about.get('version')} of the format; this ATLAS reads version {VERSION}")
    return table, about
