"""What a task pays: 1 into acceptance, 1 a move, or progress towards acceptance; and how far acceptance is.

The first two are numbers on the edges. Shaping is a difference of potentials, gamma * Phi(after) - Phi(before), and is
also due while a task waits where it is; so it is added by the formalism (`Shaped`), on top of sparse rewards.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32, Int, Int8, Int32

from atlas.struct import Struct
from atlas.tasks.machine import UNUSED
from atlas.tasks.packed import PackedTask, RewardMachines, TaskState
from atlas.vocabulary import ACCEPTED, RUNNING

# Paths: sequences of states (and calls) from the initial state to acceptance. Guards are not looked into, parallel
# edges count once, and a call stands for all paths of its callee.

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
    """The edges of a task, each pair of target and callee once."""

    target: Int8[Array, "machines states edges"]
    call: Int8[Array, "machines states edges"]
    used: Bool[Array, "machines states edges"]

    def ahead(self, values: Array) -> Array:
        """The value of the state that each edge leads to."""
        return values[jnp.arange(self.target.shape[0])[:, None, None], self.target]

    def inside(self, values: Array, plain: int) -> Array:
        """The value of the state that each call starts in; `plain` where there is no call."""
        return jnp.where(self.call != UNUSED, values[self.call, 0], plain)


def _edges(task: PackedTask) -> _Edges:
    target = task.target
    call = jnp.full_like(target, UNUSED) if task.call is None else task.call
    slots = jnp.arange(target.shape[2])
    earlier = (slots[None, :] < slots[:, None])[None, None]
    same = (target[..., :, None] == target[..., None, :]) & (call[..., :, None] == call[..., None, :])
    return _Edges(target, call, (target != UNUSED) & ~jnp.any(same & earlier, axis=-1))


def _root(task: PackedTask) -> Int8[Array, ""]:
    return jnp.int8(0) if task.root is None else task.root


def distances(task: PackedTask) -> Int32[Array, "machines states"]:
    """The fewest labels that lead from each state to acceptance of its own machine; FAR where there is no way."""
    edges = _edges(task)
    start = jnp.where(task.outcome == ACCEPTED, 0, FAR)

    def relax(_: Int[Array, ""], distance: Int32[Array, "machines states"]) -> Int32[Array, "machines states"]:
        cost = edges.inside(distance, 1) + edges.ahead(distance)
        return jnp.minimum(distance, jnp.min(jnp.where(edges.used, cost, FAR), axis=2))

    return jax.lax.fori_loop(0, start.size - 1, relax, start)


def count_paths(task: PackedTask) -> Paths:
    """Count and measure the paths to acceptance."""
    edges, root = _edges(task), _root(task)
    accepting = task.outcome == ACCEPTED
    start = accepting.astype(jnp.float32), jnp.zeros(accepting.shape, jnp.float32), jnp.where(accepting, 0, -FAR)

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

    once = jax.lax.fori_loop(0, accepting.size, lengthen, start)
    twice = jax.lax.fori_loop(0, accepting.size, lengthen, once)
    count, total, longest = (values[root, 0] for values in once)
    endless = ~(jnp.isfinite(count) & (count == twice[0][root, 0]))
    return Paths(
        count=jnp.where(endless, -1.0, count),
        shortest=distances(task)[root, 0],
        mean=jnp.where(endless, -1.0, total / jnp.maximum(count, 1.0)),
        longest=jnp.where(endless, -1, jnp.maximum(longest, 0)),
    )


# Rewards


def sparse(task: PackedTask) -> PackedTask:
    """1 on each edge into acceptance of the root, 0 elsewhere."""
    ends = jnp.take_along_axis(task.outcome[..., None], jnp.maximum(task.target, 0).astype(jnp.int32), axis=-2)
    accepts = (task.target != UNUSED) & (ends == ACCEPTED)
    if task.root is not None:
        accepts = accepts & (jnp.arange(task.target.shape[0]) == task.root)[:, None, None]
    return task.replace(reward=accepts.astype(jnp.float32))


def stepwise(task: PackedTask) -> PackedTask:
    """1 on each edge to another state, 0 on loops; edges that call pay nothing themselves, so a step pays 1 at most."""
    states = jax.lax.broadcasted_iota(jnp.int8, task.target.shape, 1)
    moves = (task.target != UNUSED) & (task.target != states)
    if task.call is not None:
        moves = moves & (task.call == UNUSED)
    return task.replace(reward=moves.astype(jnp.float32))


@dataclass(frozen=True)
class Shaped(RewardMachines):
    """Reward machines whose rewards are shaped by distance to acceptance: potential-based, so best policies stay
    best."""

    gamma: float = 1.0

    def advance(
        self, task: PackedTask, state: TaskState, holds: Bool[Array, "edges literals"]
    ) -> tuple[TaskState, Float32[Array, ""]]:
        """As the formalism does, with the difference of potentials added to the reward."""
        after, reward = super().advance(task, state, holds)
        table = distances(task)
        return after, reward + self.gamma * self.potential(task, after, table) - self.potential(task, state, table)

    def potential(
        self, task: PackedTask, state: TaskState, table: Int32[Array, "machines states"]
    ) -> Float32[Array, ""]:
        """Progress: 0 at the start, growing with each step closer to acceptance, below 0 farther off; 0 at the end.

        Because it is 0 at both ends, the discounted shaped return of a finished episode equals the sparse one.
        """
        nodes = self.nodes(state)
        left = jnp.sum(jnp.where(nodes != UNUSED, table.reshape(-1)[nodes], 0))
        whole = table[_root(task), 0]
        known = (self.outcome(task, state) == RUNNING) & (whole < FAR)
        return jnp.where(known, 1.0 - jnp.minimum(left, whole + table.size) / jnp.maximum(whole, 1), 0.0)


REWARDS: dict[str, Callable[[PackedTask], PackedTask]] = {
    "sparse": sparse, "stepwise": stepwise, "shaped": sparse, "outlook": sparse,
}  # fmt: skip
"""Name -> what puts its rewards on the edges of a task; `shaped` and `outlook` add to them while it is followed."""
