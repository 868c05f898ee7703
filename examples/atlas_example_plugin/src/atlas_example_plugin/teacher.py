"""The teacher itself: it remembers one batch."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from atlas.struct import Struct
from atlas.types import REPLAYED, Outcome, Proposal, Record
from atlas.ued.supply import Supply, numbers_after, sampled
from atlas_example_plugin import RehearsalConfig


class RehearsalState(Struct):
    """The batch that is rehearsed, and what comes next."""

    batch: Proposal
    left: Array
    """How often it is still to be trained on."""
    next_number: Array


@dataclass(frozen=True)
class Rehearsal:
    """Scores a batch of new problems, then trains on the best half of it."""

    config: RehearsalConfig
    supply: Supply
    rows: ClassVar[RehearsalState] = RehearsalState.unchecked(batch=False, left=False, next_number=False)

    def init(self, key: Array) -> RehearsalState:
        shapes = jax.eval_shape(
            lambda: self._best(sampled(key, self.supply, self.supply.plan.num_eval, jnp.int32(0)), None)
        )
        batch = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return RehearsalState(batch=batch, left=jnp.int32(0), next_number=jnp.int32(0))

    def decide(self, key: Array, state: RehearsalState) -> Array:
        return state.left > 0

    def propose(self, key: Array, state: RehearsalState, train: bool) -> tuple[RehearsalState, Proposal]:
        if train:
            return state, state.batch
        count = self.supply.plan.num_eval
        after = numbers_after(state.next_number, count)
        return state.replace(next_number=after), sampled(key, self.supply, count, state.next_number)

    def observe(self, state: RehearsalState, proposal: Proposal, outcome: Outcome) -> RehearsalState:
        if len(proposal.slots) == self.supply.plan.num_train:
            seen = Record(
                best_return=jnp.maximum(proposal.record.best_return, outcome.best_return),
                attempts=proposal.record.attempts + outcome.attempts,
                solves=proposal.record.solves + outcome.solves,
            )
            return state.replace(batch=proposal.replace(record=seen), left=state.left - 1)
        return state.replace(batch=self._best(proposal, outcome), left=jnp.int32(self.config.times))

    def memory(self, state: RehearsalState) -> None:
        return None

    def _best(self, proposal: Proposal, outcome: Outcome | None) -> Proposal:
        """As many problems as are trained on, those of the highest score, with what is known of them."""
        count = self.supply.plan.num_train
        score = jnp.zeros(len(proposal.slots)) if outcome is None else outcome.score
        chosen = jnp.argsort(-score)[:count]

        def take(tree: Any) -> Any:
            return jax.tree.map(lambda leaf: leaf[chosen], tree)

        record = proposal.record
        if outcome is not None:
            record = Record(best_return=outcome.best_return, attempts=outcome.attempts, solves=outcome.solves)
        return Proposal(
            kind=jnp.int8(REPLAYED),
            problems=take(proposal.problems),
            lineage=take(proposal.lineage),
            slots=jnp.arange(count, dtype=jnp.int32),
            record=take(record),
        )
