"""Domain randomisation: always new problems, nothing remembered."""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Int32, Key

from atlas.config import DRConfig
from atlas.struct import Struct
from atlas.types import Outcome, Proposal
from atlas.ued.buffer import Buffer
from atlas.ued.supply import Supply, sampled


class DRState(Struct):
    """A count of the problems proposed so far."""

    next_number: Int32[Array, ""]


@dataclass(frozen=True)
class DR:
    """Proposes a pool of new problems for each environment, which takes the next whenever an episode ends."""

    config: DRConfig
    supply: Supply
    score: ClassVar[str] = "constant"
    only_scores: ClassVar[bool] = False
    """Every iteration trains."""

    @property
    def pool(self) -> int:
        return self.config.pool

    @property
    def num_train(self) -> int:
        return self.supply.num_envs * self.pool

    @property
    def num_eval(self) -> int:
        return self.num_train

    def init(self, key: Key[Array, ""]) -> DRState:
        return DRState(next_number=jnp.int32(0))

    def decide(self, key: Key[Array, ""], state: DRState) -> Bool[Array, ""]:
        return jnp.array(True)

    def propose(self, key: Key[Array, ""], state: DRState, train: bool) -> tuple[DRState, Proposal]:
        proposal = sampled(key, self.supply, self.num_train, state.next_number)
        return state.replace(next_number=state.next_number + self.num_train), proposal

    def observe(self, state: DRState, proposal: Proposal, outcome: Outcome) -> DRState:
        return state

    def memory(self, state: DRState) -> Buffer | None:
        return None
