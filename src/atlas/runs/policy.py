"""Trained policies: out of a checkpoint, a file of parameters (`policies/000000123.npz`), or the zoo.

A run keeps checkpoints, and the parameters alone through time. Both are arrays by name, and both need the run's config
to be played.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float32, Int32, Key

from atlas import environment
from atlas.build import parts
from atlas.config import Config
from atlas.domains import name_for
from atlas.errors import AtlasError, listed
from atlas.runs import store
from atlas.runs.checkpoints import CheckpointError, OtherConfigError, fitted, read_checkpoint, solve_rate
from atlas.runs.folder import RunFolder, called, find, located
from atlas.runs.retention import spread
from atlas.runs.store import Arrays, to_arrays
from atlas.settings import differences, show
from atlas.struct import Struct
from atlas.student.network import Observation, Params, Student, sample_action
from atlas.types import Problem

Tree = TypeVar("Tree")
POLICIES: Final = (".average", ".params")
"""The names of parameters in a checkpoint begin so; a running average is what counts where there is one."""


class Memory(Struct):
    """The state of a policy during an episode."""

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
        """Its name for people: where it came from, or `zoo:NAME`."""
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
        fitted(self.path, to_arrays(self.params), jax.eval_shape(parts(config).student.init, jax.random.key(0)))

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
            shape = " x ".join(map(str, observation.view.shape))
            own = self.student.config.map
            hint = f", or {'lacks its' if own else 'has a'} map of what was seen (`atlas.make(map={own})`)"
            raise AtlasError(
                f"{self.name} is a policy of the domain {self.config.domain.name} and sees {cells.rows} x {cells.cols} "
                f"cells: a view of {shape} is of another domain{hint}"
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


def policies_over_time(run: Path | str, points: int | None = None) -> list[Path]:
    """The files of parameters that a run has kept, in the order of training; at most so many, evenly over the run."""
    kept = sorted((run_of(Path(run)) / "policies").glob("*.npz"))
    return [kept[i] for i in spread(len(kept), points)] if kept and points else kept


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
    arrays, about = read_checkpoint(path)
    prefix = next((prefix for prefix in POLICIES if any(name.startswith(prefix) for name in arrays)), POLICIES[-1])
    params = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    return _policy(path, config, params, about)


def _policy(path: Path, config: Config, arrays: Arrays, about: dict[str, Any]) -> Policy:
    student = parts(config).student
    return Policy(
        config=config,
        student=student,
        params=fitted(path, arrays, jax.eval_shape(student.init, jax.random.key(0))),
        iteration=int(about.get("iteration", 0)),
        steps=int(about.get("steps", 0)),
        seconds=float(about.get("seconds", 0.0)),
        path=path,
    )


def fitted_parameters(path: Path, like: Tree) -> Tree:
    """The parameters of a file as a tree; fails with a sentence if they are of another network."""
    return fitted(path, load_parameters(path)[0], like)


def save_parameters(path: Path | str, params: Any, about: dict[str, Any]) -> None:
    """Write parameters alone, with a description: at least iteration, steps and seconds."""
    arrays = to_arrays(params)
    store.write(path, store.PARAMETERS, arrays, about, compress=False)  # random numbers: it would gain a tenth


def load_parameters(path: Path | str) -> tuple[Arrays, dict[str, Any]]:
    """Read a file that `save_parameters` wrote: arrays by name, and the description. Weights that were rounded to half
    precision are widened again."""
    about, arrays = store.read(path, store.PARAMETERS)
    wide = {name: array.astype(np.float32) for name, array in arrays.items() if array.dtype == np.float16}
    return arrays | wide, about
