"""Complete states of a run on disk, through Orbax, and the trained policies that come out of them.

Orbax writes checkpoints in the background, each whole or not at all, and removes old ones. It does not notice a flipped
bit, so a digest of the arrays and one of the description are kept with each. A run also keeps the parameters alone
through time (`policies/000000123.npz`). Both are arrays by name, and both need the run's config to be played.
"""

import contextlib
import hashlib
import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jax import Array
from jaxtyping import Float32, Int32, Key
from orbax.checkpoint.checkpoint_managers import AnyPreservationPolicy, LatestN, PreservationContext

from atlas import environment
from atlas.build import parts
from atlas.config import Config
from atlas.domains import name_for
from atlas.errors import AtlasError, listed
from atlas.runs import store
from atlas.runs.folder import RunFolder, called, find, located
from atlas.runs.store import Arrays, blank_arrays, from_arrays, sync, to_arrays
from atlas.settings import differences, show
from atlas.struct import Struct
from atlas.student.network import Observation, Params, Student, sample_action
from atlas.types import Problem

Tree = TypeVar("Tree")
RATE: Final = "solve_rate"
"""What the best checkpoint is best in: the held-out solve rate, where one was measured."""
POLICIES: Final = (".average", ".params")
"""The names of parameters in a checkpoint begin so; a running average is what counts where there is one."""
FORMER_NAMES: Final = {".view.kinds": ".view.embeddings[0]", ".view.colours": ".view.embeddings[1]"}
"""Names of parameters in version 0.1 -> names now."""
ADDED: Final = {".records.birth": 0.0, ".records.prior": 0.5, ".records.discounted": 0.0, ".records.plan": 0}
"""Ends of names of arrays that earlier versions did not have -> what they are filled with."""
UNSEALED: Final = {"seconds", "steps", "before", RATE, "iteration", "digest"}
"""Descriptions of version 0.1 had no digest of their own, and no other keys."""


class CheckpointError(AtlasError):
    """A checkpoint that is missing, damaged, of another config, or cannot be written."""


class OtherConfigError(CheckpointError):
    """The arrays of a checkpoint are not those that the config asks for."""


@dataclass(frozen=True)
class Best:
    """Preserves the checkpoint with the highest held-out solve rate, the latest of several."""

    folder: Path

    def should_preserve(self, checkpoints: Sequence[Any], *, context: PreservationContext) -> list[bool]:
        rates = {checkpoint.step: solve_rate(self.folder / str(checkpoint.step)) for checkpoint in checkpoints}
        best = max(rates, key=lambda step: (rates[step], step), default=None)
        return [step == best and rates[step] >= 0 for step in rates]


class Checkpoints:
    """The checkpoints of one run, numbered by iteration."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder = folder
        logging.getLogger("absl").setLevel(logging.CRITICAL)  # what goes wrong is raised, too
        with _sentences(folder):
            folder.mkdir(parents=True, exist_ok=True)
            options = ocp.CheckpointManagerOptions(
                preservation_policy=AnyPreservationPolicy([LatestN(keep), Best(folder)]),
                cleanup_tmp_directories=True,
                enable_async_checkpointing=True,
                create=False,
                multiprocessing_options=_this_process(),
                async_options=ocp.AsyncOptions(post_finalization_callback=self._reach_disk),
            )
            self.manager = ocp.CheckpointManager(folder.absolute(), options=options)

    def steps(self) -> list[int]:
        """Iterations at which there is a checkpoint, in ascending order."""
        return sorted(self.manager.all_steps())

    def save(self, iteration: int, state: Any, about: dict[str, Any]) -> None:
        """Write a checkpoint in the background; the one before it is finished first. Saving twice does nothing."""
        if iteration in self.steps():
            return
        arrays = to_arrays(state)
        about = {**about, "iteration": iteration, "digest": _digest(arrays)}
        about["seal"] = _seal(about)
        arguments = ocp.args.Composite(state=ocp.args.StandardSave(arrays), about=ocp.args.JsonSave(about))
        with _sentences(self.folder):
            self.manager.save(iteration, args=arguments, force=True)

    def _reach_disk(self) -> None:
        """A checkpoint has reached the disk before it gets its name, and before an older one is removed."""
        for written in self.folder.glob("*.orbax-checkpoint-tmp*"):
            sync(written, inside=True)
        sync(self.folder)

    def about(self, iteration: int) -> dict[str, Any]:
        """The description that was saved with a checkpoint."""
        return _about(self.folder / str(iteration))

    def restore(self, iteration: int, like: Tree) -> Tree:
        """Read one checkpoint. Fails with a sentence if it is damaged or was made by another config."""
        where = self.folder / str(iteration)
        return _fitted(where, _read(where)[0], like)

    def restore_latest(self, like: Tree) -> tuple[int, Tree, list[str]]:
        """The last good checkpoint, and a sentence for each damaged one that was passed over and put aside. If none is
        good, all stay where they are."""
        passed: dict[int, str] = {}
        for iteration in reversed(self.steps()):
            try:
                state = self.restore(iteration, like)
            except OtherConfigError:
                raise
            except CheckpointError as error:
                passed[iteration] = str(error)
                continue
            for damaged in passed:
                self._put_aside(damaged)
            return iteration, state, [f"{told}; going back to the one before" for told in passed.values()]
        raise CheckpointError(". ".join([*passed.values(), f"{self.folder} holds no usable checkpoint"]))

    def _put_aside(self, iteration: int) -> None:
        target = self.folder.parent / "damaged" / str(iteration)
        target.parent.mkdir(exist_ok=True)
        while target.exists():
            target = target.with_name(target.name + "-again")
        (self.folder / str(iteration)).rename(target)
        self.manager.reload()

    def finish(self) -> None:
        """Wait until everything is on disk."""
        with _sentences(self.folder):
            self.manager.wait_until_finished()

    def close(self) -> None:
        """Finish, and release what Orbax holds."""
        self.finish()
        self.manager.close()


def _read(where: Path) -> tuple[Arrays, dict[str, Any]]:
    """All arrays of one checkpoint and its description, compared with its digest."""
    about, alone = _about(where), _this_process()
    try:
        handler = ocp.StandardCheckpointHandler(multiprocessing_options=alone)
        with ocp.Checkpointer(handler, multiprocessing_options=alone) as reader:
            found = reader.restore(where.absolute() / "state")
        arrays = {name: np.asarray(array) for name, array in found.items()}
    except Exception as error:
        raise CheckpointError(f"{where} is damaged ({_first_line(error)})") from error
    if _digest(arrays) != about["digest"]:
        raise CheckpointError(f"{where} is damaged (its content is not what was written)")
    return arrays, about


def _about(where: Path) -> dict[str, Any]:
    try:
        about = json.loads((where / "about" / "metadata").read_text())
    except Exception as error:
        raise CheckpointError(f"{where} is damaged ({_first_line(error)})") from error
    if not isinstance(about, dict) or "digest" not in about:
        raise CheckpointError(f"{where} is damaged (its description is incomplete)")
    unsealed = {name: value for name, value in about.items() if name != "seal"}
    if about.get("seal") != _seal(unsealed) and not unsealed.keys() == about.keys() <= UNSEALED:
        raise CheckpointError(f"{where} is damaged (its description is not what was written)")
    return about


def _seal(about: dict[str, Any]) -> str:
    """A digest of a description."""
    return hashlib.blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=16).hexdigest()


def solve_rate(where: Path) -> float:
    """The held-out solve rate that was saved with a checkpoint; -1 if none was."""
    with contextlib.suppress(CheckpointError, ValueError, TypeError):
        return float(_about(where).get(RATE, -1.0))
    return -1.0


def _fitted(where: Path, arrays: Arrays, like: Tree) -> Tree:
    """Arrays by name as a tree; the first that does not fit is named.

    Axes of length 1 do not count: the tasks of version 0.1 had no axis for machines.
    """
    for former, now in FORMER_NAMES.items():
        arrays = {name.replace(former, now): array for name, array in arrays.items()}
    expected = blank_arrays(like)
    for name in expected.keys() - arrays.keys():  # records that buffers of earlier versions did not have
        if (added := next((value for end, value in ADDED.items() if name.endswith(end)), None)) is not None:
            arrays[name] = np.full_like(expected[name], added)
    for name in sorted(arrays.keys() | expected.keys()):
        found, wanted = (table.get(name) for table in (arrays, expected))
        if found is None or wanted is None or _kind(found) != _kind(wanted):
            told = ["not there" if x is None else f"{x.dtype}{list(x.shape)}" for x in (found, wanted)]
            raise OtherConfigError(
                f"{called(where)} was made by another config: {name.lstrip('.')} is {told[0]}, and {told[1]} with "
                "these settings (or by another version of ATLAS: then its policies can be played, and training starts "
                "anew)"
            )
    return from_arrays({name: array.reshape(expected[name].shape) for name, array in arrays.items()}, like)


def _kind(array: np.ndarray) -> tuple[np.dtype, list[int]]:
    return array.dtype, [length for length in array.shape if length != 1]


def _digest(arrays: Arrays) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _this_process() -> ocp.options.MultiprocessingOptions:
    """Read and write without waiting for other processes: only host 0 has the folder."""
    here = jax.process_index()
    return ocp.options.MultiprocessingOptions(primary_host=here, active_processes={here})


def _first_line(error: Exception) -> str:
    return ": ".join([type(error).__name__, *(line[:120] for line in str(error).strip().splitlines()[:1])])


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


# Policies


class Memory(Struct):
    """What a policy carries through an episode."""

    table: Float32[Array, "1 nodes width"]
    """The embedding of every state of the task."""
    hidden: Float32[Array, "1 width_of_memory"]


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

    @property
    def name(self) -> str:
        """What people call it: where it came from, or `zoo:NAME`."""
        return called(self.path)

    def require_domain(self, problems: Iterable[Problem]) -> None:
        """Fail with a sentence if one of the problems is of another domain than those it was trained on."""
        for problem in problems:
            if (name := name_for(problem)) != (own := self.config.domain.name):
                what = f"'{what}'" if (what := getattr(problem, "name", "")) else "a problem"
                raise AtlasError(f"{self.name} is a policy of the domain {own}, and {what} is of the domain {name}")

    def require_fit(self, config: Config) -> None:
        """Fail with a sentence unless a run with these settings can begin with its weights."""
        require_same_network(self.name, self.config, config)
        _fitted(self.path, to_arrays(self.params), jax.eval_shape(parts(config).student.init, jax.random.key(0)))

    def act(
        self,
        observation: environment.Observation | Mapping[str, Any],
        memory: Memory | None = None,
        key: Key[Array, ""] | None = None,
    ) -> tuple[Int32[Array, ""], Memory]:
        """The action for an observation of `atlas.make` or of Gymnasium, and what is to be passed with the next one.

        An episode begins without memory. With a key the action is drawn, without one the likeliest is taken. Pure: it
        can be compiled, and mapped over environments.
        """
        if isinstance(observation, Mapping):
            observation = environment.from_dict(observation)
        cells = self.student.cells
        if observation.view.shape[-2:] != (cells.rows, cells.cols):
            raise AtlasError(
                f"{self.name} is a policy of the domain {self.config.domain.name} and sees {cells.rows} x {cells.cols} "
                f"cells: a view of {' x '.join(map(str, observation.view.shape))} is of another domain"
            )
        return self._act(observation, memory, key)

    @cached_property
    def _act(self) -> Callable[..., tuple[Int32[Array, ""], Memory]]:
        def act(seen: environment.Observation, memory: Memory | None, key: Any) -> tuple[Int32[Array, ""], Memory]:
            key_noise, key_act = jax.random.split(jax.random.key(0) if key is None else key)
            first = seen.previous == self.student.num_actions
            if memory is None:
                graph = jax.tree.map(lambda leaf: leaf[None, None], seen.task)
                table = self.student.embed(self.params, key_noise[None], graph)
                memory = Memory(table=table, hidden=self.student.initial_hidden(1))
            look = Observation(
                view=seen.view[None],
                nodes=seen.task_state[None],
                previous=seen.previous[None].astype(jnp.uint8),
                start=first[None],
            )
            hidden, logits, _ = self.student.step(self.params, memory.table, look, memory.hidden)
            drawn = (
                jnp.argmax(logits, -1) if key is None else sample_action(jax.random.uniform(key_act, (1,)), logits)[0]
            )
            return drawn[0].astype(jnp.int32), memory.replace(hidden=hidden)

        return jax.jit(act)


def load_policy(path: Path | str, which: Literal["last", "best"] = "last") -> Policy:
    """The policy of a run folder (`which` of its checkpoints), of one checkpoint, of a `policies/*.npz`, or one that
    comes with ATLAS (`zoo:quick`).

    Damaged checkpoints of a run are passed over with a sentence. Of a run without checkpoints it is the last policy.
    """
    path = located(path)
    if not path.exists():
        raise AtlasError(f"{path} does not exist: a run folder, a checkpoint or a policy (npz) is needed")
    folder = RunFolder(run_of(path))
    if folder.path != path and not folder.is_run():
        raise AtlasError(f"{path} has no config: {folder.config_file} is needed to know its network")
    if not folder.is_run() and folder.checkpoints.is_dir():
        raise AtlasError(f"{path} has checkpoints but no config: {folder.config_file} is needed to know the network")
    config = find(folder.path).config()
    if path.suffix == ".npz":
        return _policy(path, config, *load_parameters(path))
    if _is_checkpoint(path):
        return _from_checkpoint(path, config)
    found = sorted((p for p in folder.checkpoints.glob("*") if p.name.isdigit()), key=lambda p: int(p.name))
    if which == "best":
        found.sort(key=solve_rate)
    for checkpoint in reversed(found):
        try:
            return _from_checkpoint(checkpoint, config)
        except OtherConfigError:
            raise
        except CheckpointError as error:
            print(f"atlas: {error}; taking another", file=sys.stderr)
    if not found and (kept := policies_over_time(folder.path)):
        return _policy(kept[-1], config, *load_parameters(kept[-1]))
    raise AtlasError(f"{folder.path} holds no usable checkpoint: nothing to play with yet")


def require_same_network(name: str, there: Config, here: Config) -> None:
    """Fail with a sentence unless networks of both settings can have the same weights."""
    domains = there.domain.name, here.domain.name
    if domains[0] != domains[1]:
        raise AtlasError(f"{name} is of the domain {domains[0]}, and the new run of the domain {domains[1]}")
    found = differences(there.student.network, here.student.network)
    told = [
        f"student.network.{key} is {show(own)} there and {show(wanted)} here" for key, (own, wanted) in found.items()
    ]
    if told:
        raise AtlasError(f"{name} has another network: {listed(told, 'and')}")


def policies_over_time(run: Path | str) -> list[Path]:
    """The files of parameters that a run has kept, in the order of training."""
    return sorted((run_of(Path(run)) / "policies").glob("*.npz"))


def run_of(path: Path) -> Path:
    """The run folder that a checkpoint, a file of parameters, a run folder itself or `zoo:NAME` belongs to."""
    path = located(path)
    if path.suffix == ".npz" or _is_checkpoint(path):
        return path.parent.parent
    return path.parent if path.name == "checkpoints" else path


def _is_checkpoint(path: Path) -> bool:
    """Whether a folder is one checkpoint: not by its name alone, for a run may be called `1` too."""
    return (path / "about").is_dir() or (path.name.isdigit() and path.parent.name == "checkpoints")


def _from_checkpoint(path: Path, config: Config) -> Policy:
    arrays, about = _read(path)
    prefix = next((prefix for prefix in POLICIES if any(name.startswith(prefix) for name in arrays)), POLICIES[-1])
    params = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    return _policy(path, config, params, about)


def _policy(path: Path, config: Config, arrays: Arrays, about: dict[str, Any]) -> Policy:
    student = parts(config).student
    return Policy(
        config=config,
        student=student,
        params=_fitted(path, arrays, jax.eval_shape(student.init, jax.random.key(0))),
        iteration=int(about.get("iteration", 0)),
        steps=int(about.get("steps", 0)),
        seconds=float(about.get("seconds", 0.0)),
        path=path,
    )


def fitted_parameters(path: Path, like: Tree) -> Tree:
    """The parameters of a file as a tree; fails with a sentence if they are of another network."""
    return _fitted(path, load_parameters(path)[0], like)


def save_parameters(path: Path | str, params: Any, about: dict[str, Any]) -> None:
    """Write parameters alone, with a description: at least iteration, steps and seconds."""
    arrays = to_arrays(params)
    store.write(path, store.PARAMETERS, arrays, about, compress=False)  # random numbers: it would gain a tenth


def load_parameters(path: Path | str) -> tuple[Arrays, dict[str, Any]]:
    """What `save_parameters` wrote: arrays by name, and the description. What was rounded to half precision is widened
    again."""
    about, arrays = store.read(path, store.PARAMETERS)
    wide = {name: array.astype(np.float32) for name, array in arrays.items() if array.dtype == np.float16}
    return arrays | wide, about
