"""Follow a task through labels and tell, in names, where it stands after each."""

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32

from atlas.errors import AtlasError, nearest
from atlas.tasks.hrm import Hierarchies, old
from atlas.tasks.names import machine_name, state_name
from atlas.tasks.rm import ACCEPTED, REJECTED, UNUSED, RewardMachine, RewardMachines
from atlas.types import TaskState
from atlas.vocabulary import Vocabulary

Label = Iterable[str | int] | str
"""The propositions that hold, by name or id; those left out do not."""


@dataclass(frozen=True)
class Followed:
    """Where a task stands after a label. Fields can also be looked up like keys: `record["state"]`."""

    machine: str
    """The machine that is active, as in `m0`."""
    state: str
    """Its state, as in `u2`, `uA`, `uR`."""
    stack: list[str]
    """Where each open call returns to, the outermost first, as in `m0:u2`."""
    reward: float
    """What the label earned."""
    accepted: bool
    rejected: bool

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def keys(self) -> Iterator[str]:
        """The names of the fields, so that `dict(record)` works."""
        return (field.name for field in fields(self))


def follow(task: Any, labels: Iterable[Label], vocabulary: Vocabulary) -> list[Followed]:
    """One record for each label, from the initial state on. Labels are taken as given, not closed under implication."""
    task = old(task)
    rows = [label_row(label, vocabulary) for label in labels]
    formalism = _formalism(isinstance(task, RewardMachine))
    state, records = formalism.initial(task), []
    for row in rows:
        state, reward = _step(formalism, task, state, row)
        records.append(_record(task, state, float(reward)))
    return records


def label_row(label: Label, vocabulary: Vocabulary) -> np.ndarray:
    """A label as one boolean for each proposition; an error tells unknown ones."""
    row = np.zeros(len(vocabulary.names), bool)
    for proposition in [label] if isinstance(label, str) else label:
        row[proposition_id(proposition, vocabulary)] = True
    return row


def proposition_id(proposition: str | int, vocabulary: Vocabulary) -> int:
    """The id of a proposition that was given by name or id."""
    if isinstance(proposition, str):
        if proposition not in vocabulary.ids:
            raise AtlasError(f"'{proposition}' is not a proposition{nearest(proposition, vocabulary.ids)}")
        return vocabulary.ids[proposition]
    if not 0 <= proposition < len(vocabulary.names):
        raise AtlasError(f"{proposition} is not a proposition: ids go from 0 to {len(vocabulary.names) - 1}")
    return int(proposition)


@functools.cache
def _formalism(flat: bool) -> Any:
    return RewardMachines(_draws_nothing) if flat else Hierarchies(_draws_nothing)


def _draws_nothing(key: Any, mask: Any) -> Any:
    raise AtlasError("no tasks are drawn while one is followed")


@functools.partial(jax.jit, static_argnums=0)
def _step(
    formalism: Any, task: Any, state: TaskState, label: Bool[Array, "props"]
) -> tuple[TaskState, Float32[Array, ""]]:
    asked = jnp.abs(formalism.guards(task, state)) - 1
    return formalism.advance(task, state, label[jnp.maximum(asked, 0)])


def _record(task: Any, state: TaskState, reward: float) -> Followed:
    outcome = np.asarray(task.outcome).reshape(-1, task.size.states)
    nodes = [int(state)] if isinstance(task, RewardMachine) else [int(n) for n in state.nodes if n != UNUSED]
    places = [divmod(node, task.size.states) for node in nodes]
    named = [(machine_name(m), state_name(u, int(outcome[m, u]))) for m, u in places]
    ended = outcome[places[0]]
    return Followed(
        machine=named[0][0],
        state=named[0][1],
        stack=[f"{machine}:{u}" for machine, u in reversed(named[1:])],
        reward=reward,
        accepted=bool(ended == ACCEPTED),
        rejected=bool(ended == REJECTED),
    )
