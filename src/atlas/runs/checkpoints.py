"""A trained policy out of a run folder, a checkpoint, or a file of parameters alone.

A run keeps complete checkpoints of its last and best states, and the parameters alone through time
(`policies/000000123.npz`). Both are tables of arrays by name, and both need the run's config to be played.
"""

import contextlib
import hashlib
import io
import json
import logging
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint.checkpoint_managers import PreservationContext

from atlas.build import parts
from atlas.config import Config
from atlas.errors import AtlasError
from atlas.runs.folder import RunFolder, find
from atlas.runs.store import write_whole
from atlas.student.network import Params, Student

# Complete states on disk, through Orbax: atomic, written in the background, checked when they are read.
#
# A checkpoint is a flat table of arrays by name, so it can be compared with what a config asks for before anything is
# restored. A digest of its content tells a damaged one from a good one.

Tree = TypeVar("Tree")
Table = dict[str, np.ndarray]
RATE = "solve_rate"
"""What the best checkpoint is best in: the held-out solve rate, where one was measured."""


class CheckpointError(AtlasError):
    """A checkpoint that is missing, damaged, of another config, or cannot be written."""


def to_table(tree: Any) -> Table:
    """A copy of every array by its name in the tree; random keys as their raw data.

    It must be a copy: the training step reuses the memory of the state it is given.
    """
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path): np.array(_raw(leaf)) for path, leaf in leaves}


def from_table(table: Table, like: Tree) -> Tree:
    """The inverse of `to_table`, for a tree whose arrays have these names, shapes and types."""

    def leaf(path: Any, expected: Any) -> Any:
        array = jnp.array(table[jax.tree_util.keystr(path)])
        return jax.random.wrap_key_data(array) if _is_key(expected) else array

    return jax.tree_util.tree_map_with_path(leaf, like)


def blank_table(like: Any) -> Table:
    """The table of a tree of these shapes, all zeros."""
    return to_table(jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), jax.eval_shape(_raw_tree, like)))


def _is_key(leaf: Any) -> bool:
    return bool(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def _raw(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def shapes(table: Table) -> dict[str, str]:
    """Type and shape of each array, as text: `float32[9, 16]`."""
    return {name: f"{array.dtype}{list(array.shape)}" for name, array in table.items()}


def _digest(table: Table) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name, array in sorted(table.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data if array.size else b"")
    return digest.hexdigest()


@dataclass
class KeepLastAndBest:
    """Which checkpoints stay: the last few, and the best one."""

    last: int
    rates: dict[int, float] = field(default_factory=dict)

    def best(self) -> int | None:
        return max(self.rates, key=lambda step: (self.rates[step], step), default=None)

    def should_preserve(self, checkpoints: Sequence[Any], *, context: PreservationContext) -> list[bool]:
        steps = [checkpoint.step for checkpoint in checkpoints]
        kept = {*steps[-self.last :], self.best()}
        return [step in kept for step in steps]


class Checkpoints:
    """The checkpoints of one run, numbered by iteration."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder = folder
        self.policy = KeepLastAndBest(keep)
        logging.getLogger("absl").setLevel(logging.CRITICAL)  # what goes wrong is raised, too, and told as a sentence
        with _sentences(folder):
            folder.mkdir(parents=True, exist_ok=True)
            options = ocp.CheckpointManagerOptions(
                preservation_policy=self.policy,
                cleanup_tmp_directories=True,
                enable_async_checkpointing=True,
                create=False,
                multiprocessing_options=_writer(),
            )
            self.manager = ocp.CheckpointManager(folder.absolute(), options=options)
        for step in self.steps():
            with contextlib.suppress(CheckpointError):
                self._note_rate(step, self.about(step))

    def steps(self) -> list[int]:
        """Iterations at which there is a checkpoint, in ascending order."""
        return sorted(self.manager.all_steps())

    def save(self, iteration: int, state: Any, about: dict[str, Any]) -> None:
        """Write a checkpoint in the background; the one before it is finished first. Saving twice does nothing."""
        if iteration in self.steps():
            return
        table = to_table(state)
        about = {**about, "iteration": iteration, "digest": _digest(table), "arrays": shapes(table)}
        arguments = ocp.args.Composite(state=ocp.args.StandardSave(table), about=ocp.args.JsonSave(about))
        with _sentences(self.folder):
            self.manager.wait_until_finished()
            self.manager.save(iteration, args=arguments, force=True)
        self._note_rate(iteration, about)

    def _note_rate(self, iteration: int, about: dict[str, Any]) -> None:
        if isinstance(about.get(RATE), int | float):
            self.policy.rates[iteration] = float(about[RATE])

    def about(self, iteration: int) -> dict[str, Any]:
        """What was written down with a checkpoint."""
        try:
            restored = self.manager.restore(iteration, args=ocp.args.Composite(about=ocp.args.JsonRestore()))
            about = restored.about
            json.dumps(about)
        except Exception as error:
            raise CheckpointError(f"{self.folder / str(iteration)} is damaged ({_first_line(error)})") from error
        if not isinstance(about, dict) or not {"digest", "arrays"} <= about.keys():
            raise CheckpointError(f"{self.folder / str(iteration)} is damaged (its description is incomplete)")
        return about

    def restore(self, iteration: int, like: Tree) -> Tree:
        """Read one checkpoint. Fails with a sentence if it is damaged or was made by another config."""
        where = self.folder / str(iteration)
        about = self.about(iteration)
        expected = blank_table(like)
        require_same(where, about["arrays"], shapes(expected))
        try:
            request = ocp.args.Composite(state=ocp.args.StandardRestore(expected))
            table = {
                name: np.asarray(array) for name, array in self.manager.restore(iteration, args=request).state.items()
            }
        except Exception as error:
            raise CheckpointError(f"{where} is damaged ({_first_line(error)})") from error
        if _digest(table) != about["digest"]:
            raise CheckpointError(f"{where} is damaged (its content is not what was written)")
        return from_table(table, like)

    def restore_latest(self, like: Tree) -> tuple[int, Tree, list[str]]:
        """The last good checkpoint, and a sentence for each damaged one that was passed over and put aside."""
        passed: list[str] = []
        for iteration in reversed(self.steps()):
            try:
                state = self.restore(iteration, like)
            except OtherConfigError:
                raise
            except CheckpointError as error:
                passed.append(f"{error}; going back to the one before")
                self._put_aside(iteration)
                continue
            return iteration, state, passed
        raise CheckpointError(". ".join([*passed, f"{self.folder} holds no usable checkpoint"]))

    def _put_aside(self, iteration: int) -> None:
        aside = self.folder.parent / "damaged"
        aside.mkdir(exist_ok=True)
        target = aside / str(iteration)
        while target.exists():
            target = target.with_name(target.name + "-again")
        (self.folder / str(iteration)).rename(target)
        self.policy.rates.pop(iteration, None)
        self.manager.reload()

    def finish(self) -> None:
        """Wait until everything is on disk."""
        with _sentences(self.folder):
            self.manager.wait_until_finished()

    def close(self) -> None:
        """Finish and let go."""
        self.finish()
        self.manager.close()


def read_table(where: Path, prefix: str = "") -> tuple[Table, dict[str, Any]]:
    """All arrays of one checkpoint whose names start so, and its description. For readers: nothing is cleaned up.

    The content is compared with its digest, so everything is read.
    """
    try:
        about = json.loads((where / "about" / "metadata").read_text())
        wanted = {name: _zeros(shape) for name, shape in about["arrays"].items()}
        with ocp.Checkpointer(ocp.StandardCheckpointHandler()) as reader:
            found = reader.restore(where.absolute() / "state", args=ocp.args.StandardRestore(wanted))
        table = {name: np.asarray(array) for name, array in found.items()}
        good = _digest(table) == about["digest"]
    except Exception as error:
        raise CheckpointError(f"{where} is damaged ({_first_line(error)})") from error
    if not good:
        raise CheckpointError(f"{where} is damaged (its content is not what was written)")
    return {name: array for name, array in table.items() if name.startswith(prefix)}, about


def _zeros(shape: str) -> np.ndarray:
    """An array of a type and shape as `shapes` writes them: `float32[9, 16]`."""
    dtype, _, lengths = shape.rstrip("]").partition("[")
    return np.zeros([int(length) for length in lengths.split(",") if length], np.dtype(dtype))


def _writer() -> ocp.options.MultiprocessingOptions:
    """This process alone writes, and waits for no other."""
    here = jax.process_index()
    return ocp.options.MultiprocessingOptions(primary_host=here, active_processes={here})


class OtherConfigError(CheckpointError):
    """The arrays of a checkpoint are not those that the config asks for."""


def _raw_tree(tree: Any) -> Any:
    return jax.tree.map(_raw, tree)


def require_same(where: Path, found: dict[str, str], expected: dict[str, str]) -> None:
    """Name the first array in which a checkpoint and a config differ."""
    for name in sorted(found.keys() | expected.keys()):
        if found.get(name) != expected.get(name):
            raise OtherConfigError(
                f"{where} was made by another config: {name.lstrip('.')} is {found.get(name, 'not there')}, "
                f"and {expected.get(name, 'not there')} with these settings"
            )


def _first_line(error: Exception) -> str:
    return (
        f"{type(error).__name__}: {str(error).strip().splitlines()[0][:120]}"
        if str(error).strip()
        else type(error).__name__
    )


@contextlib.contextmanager
def _sentences(folder: Path) -> Iterator[None]:
    """Trouble with the disk as one sentence; what was written before stays good."""
    try:
        yield
    except (OSError, ValueError) as error:
        full = "No space left" in str(error) or "RESOURCE_EXHAUSTED" in str(error)
        reason = "the disk is full" if full else _first_line(error)
        raise CheckpointError(
            f"cannot write a checkpoint to {folder}: {reason}; earlier checkpoints are kept"
        ) from error


# A trained policy out of a run folder, a checkpoint, or a file of parameters alone.
#
# A run keeps complete checkpoints of its last and best states, and the parameters alone through time
# (`policies/000000123.npz`). Both are tables of arrays by name, and both need the run's config to be played.

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


FORMER_NAMES: Final = {".view.kinds": ".view.embeddings[0]", ".view.colours": ".view.embeddings[1]"}
"""Names of parameters in policies saved by version 0.1 -> names now."""


def _policy(path: Path, config: Config, table: Table, about: dict[str, Any]) -> Policy:
    student = parts(config).student
    like = jax.eval_shape(student.init, jax.random.key(0))
    table = {FORMER_NAMES.get(name, name): array for name, array in table.items()}
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
