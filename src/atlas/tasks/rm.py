"""Flat reward machines, stored by their out-edges."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32, Int, Int8, Int16, Key

from atlas.struct import Struct
from atlas.types import Edit, Graph

RUNNING, ACCEPTED, REJECTED = range(3)
UNUSED: Final = -1
"""Target of an edge slot that holds no edge."""


class TaskSize(NamedTuple):
    """Static sizes that a batch of machines is padded to."""

    states: int
    edges: int
    """Edges out of one state."""
    literals: int
    """Literals on one edge."""


class RewardMachine(Struct):
    """States are numbered from 0, the initial one. Terminal states have no edges.

    A literal is `proposition + 1`, negative if negated; 0 is an unused slot. A guard is the conjunction of its
    literals, so an edge with no literal is always satisfied. Parallel edges make a disjunction.
    """

    target: Int8[Array, "states edges"]
    """Where each edge leads; UNUSED for an empty slot."""
    guard: Int16[Array, "states edges literals"]
    reward: Float32[Array, "states edges"]
    outcome: Int8[Array, "states"]
    """RUNNING, ACCEPTED or REJECTED."""

    @property
    def size(self) -> TaskSize:
        """The sizes it is padded to."""
        return TaskSize(*self.guard.shape[-3:])


def satisfied(guard: Int16[Array, "edges literals"], holds: Bool[Array, "edges literals"]) -> Bool[Array, "edges"]:
    """Which guards hold, given which of their propositions do."""
    return jnp.all((guard == 0) | (holds == (guard > 0)), axis=-1)


def advance(
    task: RewardMachine, u: Int8[Array, ""], holds: Bool[Array, "edges literals"]
) -> tuple[Int8[Array, ""], Float32[Array, ""]]:
    """Follow the first satisfied edge out of `u`, or stay with reward 0."""
    enabled = satisfied(task.guard[u], holds) & (task.target[u] != UNUSED)
    edge = jnp.argmax(enabled)
    moves = enabled[edge]
    return jnp.where(moves, task.target[u, edge], u), jnp.where(moves, task.reward[u, edge], 0.0)


@dataclass(frozen=True)
class RewardMachines:
    """The formalism of flat machines. How tasks are drawn and edited is handed in."""

    sample: Callable[[Key[Array, ""], Bool[Array, "props"]], RewardMachine]
    edits: tuple[Edit[Any], ...] = ()

    def initial(self, task: RewardMachine) -> Int8[Array, ""]:
        return jnp.int8(0)

    def guards(self, task: RewardMachine, state: Int8[Array, ""]) -> Int16[Array, "edges literals"]:
        return task.guard[state]

    def advance(
        self, task: RewardMachine, state: Int8[Array, ""], holds: Bool[Array, "edges literals"]
    ) -> tuple[Int8[Array, ""], Float32[Array, ""]]:
        return advance(task, state, holds)

    def outcome(self, task: RewardMachine, state: Int8[Array, ""]) -> Int8[Array, ""]:
        return task.outcome[state]

    def graph(self, task: RewardMachine) -> Graph:
        return Graph(target=task.target, guard=task.guard, outcome=task.outcome)

    def nodes(self, state: Int8[Array, ""]) -> Int[Array, "depth"]:
        return state.astype(jnp.int32)[None]
