"""ACCEL: robust PLR that, after each replay, proposes edited children of what was just replayed.

ACCEL-0 is the same with a generator of the smallest problems.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Int32, Key

from atlas.config import ACCELConfig
from atlas.types import Outcome, Partial, Proposal
from atlas.ued import buffer as buffers
from atlas.ued.plr import PLR, PLRState
from atlas.ued.supply import edited


class ACCELState(PLRState):
    """As PLR's, and the parents of the next children."""

    edit_next: Bool[Array, ""]
    """The last iteration was a replay."""
    parents: Int32[Array, "batch"]
    """The slots replayed last. Nothing enters the buffer between a replay and its edits, so they stay valid."""
    partial: Partial
    """How far the student got on each of them."""


@dataclass(frozen=True)
class ACCEL(PLR):
    """Replay, then edit what was replayed, then decide anew."""

    config: ACCELConfig

    def init(self, key: Key[Array, ""]) -> ACCELState:
        start = super().init(key)
        batch = self.supply.num_envs
        return ACCELState(
            buffer=start.buffer,
            next_number=start.next_number,
            edit_next=jnp.array(False),
            parents=jnp.zeros(batch, jnp.int32),
            partial=jax.tree.map(lambda x: jnp.zeros((batch, *x.shape), x.dtype), self.supply.partial),
        )

    def replays(self, key: Key[Array, ""], state: ACCELState) -> Bool[Array, ""]:  # type: ignore[override]
        return super().replays(key, state) & ~state.edit_next

    def new(self, key: Key[Array, ""], state: ACCELState) -> Proposal:  # type: ignore[override]
        """Children right after a replay, else sampled problems."""
        return jax.lax.cond(state.edit_next, self.children, super().new, key, state)

    def children(self, key: Key[Array, ""], state: ACCELState) -> Proposal:
        """Edits of the problems replayed last."""
        problems, lineage, _ = buffers.take(state.buffer, state.parents)
        return edited(key, self.supply, (problems, lineage, state.partial), self.num_eval, state.next_number)

    def observe(self, state: ACCELState, proposal: Proposal, outcome: Outcome) -> ACCELState:  # type: ignore[override]
        state = super().observe(state, proposal, outcome)  # type: ignore[assignment]
        if len(proposal.slots) != self.supply.num_envs:  # replays have a batch of that size
            return state.replace(edit_next=jnp.array(False))
        replayed = proposal.slots[0] >= 0
        parents, partial = jax.tree.map(
            lambda new, old: jnp.where(replayed, new, old),
            (proposal.slots, outcome.partial),
            (state.parents, state.partial),
        )
        return state.replace(edit_next=replayed, parents=parents, partial=partial)
