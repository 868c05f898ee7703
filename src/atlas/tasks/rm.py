"""Flat reward machines, stored by their out-edges."""

from typing import Final, NamedTuple

from jax import Array
from jaxtyping import Float32, Int8, Int16

from atlas.struct import Struct

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
