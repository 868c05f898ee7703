"""Sampling for learnability: every so often many new problems are tried several times each; those with the highest
p (1 - p) are trained on until the next time, in turn with batches of new problems.

Each attempt of an evaluation is the first episode of an environment of its own, so a problem is tried as often as the
settings say, whatever the length of its episodes.
"""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Int32, Key

from atlas.types import REPLAYED, Lineage, Outcome, Problem, Proposal
from atlas.ued import SFLConfig, plr
from atlas.ued import buffer as buffers
from atlas.ued.buffer import Buffer
from atlas.ued.plr import PLRState
from atlas.ued.supply import Supply, numbered, numbers_after, sampled


class SFLState(PLRState):
    """The problems kept, and where in its cycle the teacher is."""

    phase: Int32[Array, ""]
    """Iterations since the last evaluation began."""


@dataclass(frozen=True)
class SFL:
    """Evaluate for some rounds, train for some iterations, and so on."""

    config: SFLConfig
    supply: Supply
    rows: ClassVar[SFLState] = SFLState.unchecked(buffer=buffers.ROWS, next_number=False, phase=False)

    def init(self, key: Key[Array, ""]) -> SFLState:
        return SFLState(**vars(plr.start(self.config, self.supply)), phase=jnp.int32(0))

    def decide(self, key: Key[Array, ""], state: SFLState) -> Bool[Array, ""]:
        return state.phase >= self.config.rounds

    def propose(self, key: Key[Array, ""], state: SFLState, train: bool) -> tuple[SFLState, Proposal]:
        plan, number = self.supply.plan, state.next_number
        key_kind, key_problems = jax.random.split(key)

        def replay(key: Key[Array, ""]) -> Proposal:
            return plr.replayed(key, state.buffer, plan.num_train, self.config.buffer)

        def new(key: Key[Array, ""]) -> Proposal:
            return sampled(key, self.supply, plan.num_train, number)

        if train:
            replays = jax.random.bernoulli(key_kind, self.config.replay_prob) & (buffers.fill(state.buffer) > 0)
            proposal = jax.lax.cond(replays, replay, new, key_problems)
        else:
            assert plan.num_eval is not None
            proposal = sampled(key_problems, self.supply, plan.num_eval // self.config.attempts, number)
            proposal = jax.tree.map(lambda x: jnp.repeat(x, self.config.attempts, 0) if x.ndim else x, proposal)
            proposal = proposal.replace(lineage=numbered(proposal.lineage, number))
        return state.replace(next_number=numbers_after(number, len(proposal.slots))), proposal

    def observe(self, state: SFLState, proposal: Proposal, outcome: Outcome) -> SFLState:
        phase = (state.phase + 1) % (self.config.rounds + self.config.every)
        scored = state.phase < self.config.rounds

        def keep_best(buffer: Buffer) -> Buffer:
            known = buffer.records
            anew = buffer.replace(records=known.replace(filled=known.filled & (state.phase > 0)))
            problems, lineage, tried = self._together(proposal, outcome)
            return buffers.insert(anew, problems, lineage, tried, self.config.buffer)

        def note(buffer: Buffer) -> Buffer:
            slots = jnp.where(proposal.kind == REPLAYED, proposal.slots, -1)
            records = buffers.update(buffer, slots, outcome).records
            return buffer.replace(records=records.replace(score=buffer.records.score))  # scores wait to be judged anew

        if self.supply.plan.num_eval != self.supply.plan.num_train:  # then the size of a batch tells what it was
            buffer = (keep_best if len(proposal.slots) == self.supply.plan.num_eval else note)(state.buffer)
        else:
            buffer = jax.lax.cond(scored, keep_best, note, state.buffer)
        return state.replace(buffer=buffer.replace(clock=buffer.clock + 1), phase=phase)

    def _together(self, proposal: Proposal, outcome: Outcome) -> tuple[Problem, Lineage, Outcome]:
        """The environments that tried the same problem as one, scored by their first episodes."""
        k = self.config.attempts
        assert outcome.first is not None
        first = outcome.first.reshape(-1, k)
        attempts, solves = jnp.sum(first >= 0, axis=1), jnp.sum(first == 1, axis=1)
        rate = solves / jnp.maximum(attempts, 1)
        one = jax.tree.map(lambda x: x[::k], outcome)
        told = one.replace(
            score=jnp.where(one.trivial, 0.0, rate * (1 - rate)),
            best_return=jnp.max(outcome.best_return.reshape(-1, k), axis=1),
            attempts=attempts.astype(jnp.int32),
            solves=solves.astype(jnp.int32),
        )
        problems, lineage = jax.tree.map(lambda x: x[::k], (proposal.problems, proposal.lineage))
        return problems, lineage, told

    def memory(self, state: SFLState) -> Buffer:
        return state.buffer
