"""What a task pays: 1 into acceptance, 1 a move, or progress towards acceptance.

The first two are numbers on the edges. Shaping is a difference of potentials, gamma * Phi(after) - Phi(before), and is
also due while a task waits where it is; so it is added by the formalism (`Shaped`), on top of sparse rewards.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32

from atlas.tasks.hrm import Hierarchy
from atlas.tasks.paths import FAR, call_distances, distances
from atlas.tasks.rm import ACCEPTED, RUNNING, UNUSED, RewardMachine
from atlas.types import Task, TaskState


def sparse(task: RewardMachine | Hierarchy) -> Any:
    """1 on each edge into acceptance (of the root, in a hierarchy), 0 elsewhere."""
    accepts = _leads_to(task, ACCEPTED)
    if isinstance(task, Hierarchy):
        accepts = accepts & (jnp.arange(task.target.shape[0]) == task.root)[:, None, None]
    return task.replace(reward=accepts.astype(jnp.float32))


def stepwise(task: RewardMachine | Hierarchy) -> Any:
    """1 on each edge to another state, 0 on loops; edges that call pay nothing themselves, so a step pays 1 at most."""
    states = jax.lax.broadcasted_iota(jnp.int8, task.target.shape, task.target.ndim - 2)
    moves = (task.target != UNUSED) & (task.target != states)
    if isinstance(task, Hierarchy):
        moves = moves & (task.call == UNUSED)
    return task.replace(reward=moves.astype(jnp.float32))


def _leads_to(task: RewardMachine | Hierarchy, outcome: int) -> Bool[Array, "..."]:
    """Which edges end in a state of some outcome."""
    ends = jnp.take_along_axis(task.outcome[..., None], jnp.maximum(task.target, 0).astype(jnp.int32), axis=-2)
    return (task.target != UNUSED) & (ends == outcome)


def potential(task: RewardMachine | Hierarchy, state: TaskState) -> Float32[Array, ""]:
    """Progress: 0 at the start, growing with each step closer to acceptance, below 0 farther off; 0 once it is over.

    Because it is 0 at both ends, the discounted shaped return of a finished episode equals the sparse one.
    """
    if isinstance(task, Hierarchy):
        table = call_distances(task)
        left = jnp.sum(jnp.where(state.nodes != UNUSED, table.reshape(-1)[state.nodes], 0))
        whole, outcome = table[task.root, 0], task.outcome.reshape(-1)[state.nodes[0]]
    else:
        table = distances(task)
        left, whole, outcome = table[state], table[0], task.outcome[state]
    known = (outcome == RUNNING) & (whole < FAR)
    return jnp.where(known, 1.0 - jnp.minimum(left, whole + table.size) / jnp.maximum(whole, 1), 0.0)


@dataclass(frozen=True)
class Shaped:
    """A formalism whose rewards are shaped by distance to acceptance: potential-based, so best policies stay best."""

    formalism: Any
    gamma: float

    def __getattr__(self, name: str) -> Any:
        return getattr(self.formalism, name)

    def advance(
        self, task: Task, state: TaskState, holds: Bool[Array, "edges literals"]
    ) -> tuple[TaskState, Float32[Array, ""]]:
        after, reward = self.formalism.advance(task, state, holds)
        return after, reward + self.gamma * potential(task, after) - potential(task, state)


REWARDS: dict[str, Callable[[Task], Task]] = {"sparse": sparse, "stepwise": stepwise, "shaped": sparse}
"""Name -> what puts its rewards on the edges of a task; `shaped` adds to them while the task is followed."""
