"""Prioritised replay: new problems are scored and may enter a buffer; what it holds is replayed by priority.

PLR trains on both; robust PLR (PLR⊥) trains on replayed problems only, so new ones cost no gradient work.
"""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Int32, Key

from atlas.config import PLRConfig
from atlas.struct import Struct
from atlas.types import Outcome, Proposal
from atlas.ued import buffer as buffers
from atlas.ued.buffer import Buffer
from atlas.ued.supply import Supply, root, sampled


class PLRState(Struct):
    """The buffer, and a serial number that no problem has had yet."""

    buffer: Buffer
    next_number: Int32[Array, ""]


@dataclass(frozen=True)
class PLR:
    """Replays with a fixed probability once the buffer is filled enough; else proposes new problems."""

    config: PLRConfig
    supply: Supply
    pool: int = 1

    @property
    def score(self) -> str:
        return self.config.score

    @property
    def only_scores(self) -> bool:
        """Whether some iterations only score their problems."""
        return not self.config.train_on_new

    @property
    def num_train(self) -> int:
        """Problems in a batch of replayed ones."""
        return self.supply.num_envs

    @property
    def num_eval(self) -> int:
        """Problems in a batch of new ones."""
        if self.config.train_on_new:
            return self.supply.num_envs
        return self.config.num_eval or self.supply.num_envs

    def init(self, key: Key[Array, ""]) -> PLRState:
        lineage = root(jnp.int32(0), self.supply.max_edits)
        buffer = buffers.empty(self.config.buffer.capacity, self.supply.problem(), lineage)
        return PLRState(buffer=buffer, next_number=jnp.int32(0))

    def decide(self, key: Key[Array, ""], state: PLRState) -> Bool[Array, ""]:
        """Replays train; new problems only where the settings say so."""
        return jnp.array(True) if self.config.train_on_new else self.replays(key, state)

    def replays(self, key: Key[Array, ""], state: PLRState) -> Bool[Array, ""]:
        """Whether the next batch comes from the buffer."""
        settings = self.config.buffer
        enough = max(1, math.ceil(settings.min_fill * settings.capacity))
        return (buffers.fill(state.buffer) >= enough) & jax.random.bernoulli(key, self.config.replay_prob)

    def propose(self, key: Key[Array, ""], state: PLRState, train: bool) -> tuple[PLRState, Proposal]:
        if train and not self.config.train_on_new:
            return state, self.replay(key, state)
        made = state.replace(next_number=state.next_number + self.num_eval)
        if not train:
            return made, self.new(key, state)
        key_kind, key_problems = jax.random.split(key)
        return made, jax.lax.cond(self.replays(key_kind, state), self.replay, self.new, key_problems, state)

    def new(self, key: Key[Array, ""], state: PLRState) -> Proposal:
        """Problems that were never played."""
        return sampled(key, self.supply, self.num_eval, state.next_number)

    def replay(self, key: Key[Array, ""], state: PLRState) -> Proposal:
        """Problems from the buffer."""
        slots = buffers.sample(key, state.buffer, self.supply.num_envs, self.config.buffer)
        problems, lineage, record = buffers.take(state.buffer, slots)
        return Proposal(problems=problems, lineage=lineage, slots=slots, record=record)

    def observe(self, state: PLRState, proposal: Proposal, outcome: Outcome) -> PLRState:
        """Replayed problems get their records updated, the others may enter: where sizes differ they tell which."""
        buffer, new, size = state.buffer, proposal.slots < 0, len(proposal.slots)
        if size == self.num_train:
            buffer = buffers.update(buffer, proposal.slots, outcome)
        if size == self.num_eval:
            buffer = buffers.insert(buffer, proposal.problems, proposal.lineage, outcome, new, self.config.buffer)
        return state.replace(buffer=buffer.replace(clock=buffer.clock + 1))

    def memory(self, state: PLRState) -> Buffer:
        return state.buffer
