"""Domain randomisation: always new problems, nothing remembered."""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Int32, Key

from atlas.struct import Struct
from atlas.types import Outcome, Proposal
from atlas.ued import DRConfig
from atlas.ued.supply import Supply, numbers_after, sampled


class DRState(Struct):
    """How many problems were proposed so far."""

    next_number: Int32[Array, ""]


@dataclass(frozen=True)
class DR:
    """Proposes a pool of new problems for each environment, which moves on to the next one of its pool whenever an
    episode ends: see `_autoreset` in `rollout`."""

    config: DRConfig
    supply: Supply
    rows: ClassVar[DRState] = DRState.unchecked(next_number=False)

    def init(self, key: Key[Array, ""]) -> DRState:
        return DRState(next_number=jnp.int32(0))

    def decide(self, key: Key[Array, ""], state: DRState) -> Bool[Array, ""]:
        return jnp.array(True)

    def propose(self, key: Key[Array, ""], state: DRState, train: bool) -> tuple[DRState, Proposal]:
        batch = self.supply.plan.num_train * self.supply.plan.pool
        proposal = sampled(key, self.supply, batch, state.next_number)
        return state.replace(next_number=numbers_after(state.next_number, batch)), proposal

    def observe(self, state: DRState, proposal: Proposal, outcome: Outcome) -> DRState:
        return state

    def memory(self, state: DRState) -> None:
        return None
