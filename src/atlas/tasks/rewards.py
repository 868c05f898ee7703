"""What a task pays: 1 into acceptance, 1 a move, or progress towards acceptance.

The first two are numbers on the edges. Shaping is a difference of potentials, gamma * Phi(after) - Phi(before), and is
also due while a task waits where it is; so it is added by the formalism (`Shaped`), on top of sparse rewards.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32, Int, Int8, Int32

from atlas.struct import Struct
from atlas.tasks.hrm import Hierarchy
from atlas.tasks.rm import ACCEPTED, RUNNING, UNUSED, RewardMachine
from atlas.types import Task, TaskState

# How many ways lead to acceptance and how long they are: for thousands of tasks at once.
#
# A path is a sequence of states (and calls) from the initial state to acceptance; guards are not looked into, and
# parallel edges count once. In a hierarchy a call stands for all paths of its callee.

FAR = 1 << 20
"""Distance of a state from which no path leads to acceptance."""


class Paths(Struct):
    """The paths from the initial state to acceptance."""

    count: Float32[Array, ""]
    """-1 if there is no end of them, because one can walk in circles."""
    shortest: Int32[Array, ""]
    """Edges (labels) on the shortest path; FAR if there is none."""
    mean: Float32[Array, ""]
    """Edges on a path, on average; 0 if there is none, -1 where there is no end of them."""
    longest: Int32[Array, ""]
    """0 if there is none, -1 where there is no end of them."""


class _Edges(NamedTuple):
    """The edges of a task, flat or not, each pair of state and callee once."""

    target: Int8[Array, "machines states edges"]
    call: Int8[Array, "machines states edges"]
    used: Bool[Array, "machines states edges"]
    accepting: Bool[Array, "machines states"]
    root: Int[Array, ""]

    def ahead(self, values: Array) -> Array:
        """The value of the state that each edge leads to."""
        return values[jnp.arange(self.target.shape[0])[:, None, None], self.target]

    def inside(self, values: Array, plain: int) -> Array:
        """The value of the state that each call starts in; `plain` where there is no call."""
        return jnp.where(self.call != UNUSED, values[self.call, 0], plain)


def _edges(task: RewardMachine | Hierarchy) -> _Edges:
    if isinstance(task, RewardMachine):
        target, outcome, root = task.target[None], task.outcome[None], jnp.int8(0)
        call = jnp.full(target.shape, UNUSED, jnp.int8)
    else:
        target, outcome, root, call = task.target, task.outcome, task.root, task.call
    slots = jnp.arange(target.shape[2])
    earlier = (slots[None, :] < slots[:, None])[None, None]
    same = (target[..., :, None] == target[..., None, :]) & (call[..., :, None] == call[..., None, :])
    used = (target != UNUSED) & ~jnp.any(same & earlier, axis=-1)
    return _Edges(target=target, call=call, used=used, accepting=outcome == ACCEPTED, root=root)


def _distances(edges: _Edges) -> Int32[Array, "machines states"]:
    start = jnp.where(edges.accepting, 0, FAR)

    def relax(_: Int[Array, ""], distance: Int32[Array, "machines states"]) -> Int32[Array, "machines states"]:
        cost = edges.inside(distance, 1) + edges.ahead(distance)
        return jnp.minimum(distance, jnp.min(jnp.where(edges.used, cost, FAR), axis=2))

    return jax.lax.fori_loop(0, start.size - 1, relax, start)


def distances(task: RewardMachine) -> Int32[Array, "states"]:
    """The fewest edges from each state to acceptance, whatever their guards; FAR where there is no way."""
    return _distances(_edges(task))[0]


def call_distances(task: Hierarchy) -> Int32[Array, "machines states"]:
    """The fewest labels that lead from each state to acceptance of its own machine; FAR where there is no way."""
    return _distances(_edges(task))


def count_paths(task: RewardMachine | Hierarchy) -> Paths:
    """Count and measure the paths to acceptance."""
    edges = _edges(task)
    rounds = edges.accepting.size
    none = jnp.zeros(edges.accepting.shape, jnp.float32)
    start = (edges.accepting.astype(jnp.float32), none, jnp.where(edges.accepting, 0, -FAR))

    def lengthen(_: Int[Array, ""], now: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        count, total, longest = now
        ways, ahead = edges.inside(count, 1), edges.ahead(count)
        steps = edges.inside(total, 1) * ahead + ways * edges.ahead(total)
        reach = edges.inside(longest, 1) + edges.ahead(longest)
        return (
            start[0] + jnp.sum(jnp.where(edges.used, ways * ahead, 0.0), axis=2),
            jnp.sum(jnp.where(edges.used, steps, 0.0), axis=2),
            jnp.maximum(start[2], jnp.max(jnp.where(edges.used, jnp.maximum(reach, -FAR), -FAR), axis=2)),
        )

    once = jax.lax.fori_loop(0, rounds, lengthen, start)
    twice = jax.lax.fori_loop(0, rounds, lengthen, once)
    count, total, longest = (values[edges.root, 0] for values in once)
    endless = ~(jnp.isfinite(count) & (count == twice[0][edges.root, 0]))
    return Paths(
        count=jnp.where(endless, -1.0, count),
        shortest=_distances(edges)[edges.root, 0],
        mean=jnp.where(endless, -1.0, total / jnp.maximum(count, 1.0)),
        longest=jnp.where(endless, -1, jnp.maximum(longest, 0)),
    )


# What a task pays: 1 into acceptance, 1 a move, or progress towards acceptance.
#
# The first two are numbers on the edges. Shaping is a difference of potentials, gamma * Phi(after) - Phi(before), and
# is
# also due while a task waits where it is; so it is added by the formalism (`Shaped`), on top of sparse rewards.


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
