"""Checkpoints: complete states of a run on disk, through Orbax. Resuming a run is `run.resume`.

Orbax writes checkpoints in the background, each whole or not at all, and removes old ones. It does not notice a flipped
bit, so a digest of the arrays and one of the description are kept with each. `runs/policy.py` reads policies out of
them.
"""

import contextlib
import functools
import hashlib
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import jax
import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint.checkpoint_managers import AnyPreservationPolicy, LatestN, PreservationContext

from atlas.documents import parse_json, read_text
from atlas.errors import AtlasError
from atlas.runs.folder import called
from atlas.runs.store import Arrays, blank_arrays, from_arrays, sync, to_arrays

Tree = TypeVar("Tree")
RATE: Final = "solve_rate"
"""The key of the held-out solve rate in a description: the best checkpoint is the one with the highest."""
FORMER_NAMES: Final = {".view.kinds": ".view.embeddings[0]", ".view.colours": ".view.embeddings[1]"}
"""Names of parameters in version 0.1 -> names now."""
CLOCK: Final = ".clock"
"""There only while a schedule follows the clock: a run goes on with a time limit that it did not have, or without."""
ADDED: Final = {
    ".records.birth": 0.0,
    ".records.prior": 0.5,
    ".records.discounted": 0.0,
    ".records.plan": 0,
    CLOCK: 0.0,
}
"""Ends of names of arrays that earlier versions or settings did not have -> what they are filled with."""
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
        _say_it_once()
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
        return fitted(where, read_checkpoint(where)[0], like)

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


def read_checkpoint(where: Path) -> tuple[Arrays, dict[str, Any]]:
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
        about = parse_json(read_text(where / "about" / "metadata"))
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


def fitted(where: Path, arrays: Arrays, like: Tree) -> Tree:
    """Arrays by name as a tree; the first that does not fit is named.

    Axes of length 1 do not count: the tasks of version 0.1 had no axis for machines.
    """
    for former, now in FORMER_NAMES.items():
        arrays = {name.replace(former, now): array for name, array in arrays.items()}
    expected = blank_arrays(like)
    if CLOCK not in expected:
        arrays.pop(CLOCK, None)
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


@functools.cache
def _say_it_once() -> None:
    """What goes wrong with a write is raised. Orbax also logs it, and for each write that is still under way when a run
    ends because of it TensorStore tells that its event loop is closed: nobody needs to see that."""
    for name in ("absl", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    usual = sys.unraisablehook

    def unless_late(told: "sys.UnraisableHookArgs") -> None:
        if told.object is not None or str(told.exc_value) != "Event loop is closed":
            usual(told)

    sys.unraisablehook = unless_late


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
