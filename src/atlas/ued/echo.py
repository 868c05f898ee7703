"""Echo: what came to hold in a level, one thing after the other, while the student played, is a task that can be done
in that level, whatever the student was asked to do; and so is any machine, up to the state to which it was taken.

Such problems are solvable by construction: replaying the same actions does them. Those that are heard are kept by how
rare their propositions are among all that was heard lately, times p (1 - p) for the solve rate p that is expected of
them, and replayed like any others. No solver is asked.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32, Int32, Key

from atlas.types import REPLAYED, Lineage, Outcome, Proposal, Record
from atlas.ued import EchoConfig, plr
from atlas.ued import buffer as buffers
from atlas.ued.buffer import Buffer
from atlas.ued.plr import PLRState
from atlas.ued.scores import expected_rate
from atlas.ued.supply import ECHO, Supply, numbers_after, sampled


class EchoState(PLRState):
    """The problems heard, and how often each proposition was lately."""

    heard: Float32[Array, "props"]


def rarity(heard: Float32[Array, "props"], asked: Int32[Array, "*n literals"]) -> Float32[Array, "*n"]:
    """Between 0 and 1: the mean of 1 / (1 + n) over the propositions of a task (-1: none), n times heard lately."""
    used = asked >= 0
    each = jnp.where(used, 1 / (1 + heard[jnp.maximum(asked, 0)]), 0.0)
    return jnp.sum(each, axis=-1) / jnp.maximum(jnp.sum(used, axis=-1), 1)


@dataclass(frozen=True)
class Echo:
    """Trains on what it heard, in turn with new problems that are only played; listens to both."""

    config: EchoConfig
    supply: Supply
    rows: ClassVar[EchoState] = EchoState.unchecked(buffer=buffers.ROWS, next_number=False, heard=False)

    def _asked(self, problems: Any) -> Int32[Array, "batch literals"]:
        mentions = self.supply.mentions
        assert mentions is not None
        return jax.vmap(mentions)(problems)

    def init(self, key: Key[Array, ""]) -> EchoState:
        return EchoState(**vars(plr.start(self.config, self.supply)), heard=jnp.zeros(self.supply.props))

    def decide(self, key: Key[Array, ""], state: EchoState) -> Bool[Array, ""]:
        return plr.wants_replay(key, state.buffer, self.config)

    def propose(self, key: Key[Array, ""], state: EchoState, train: bool) -> tuple[EchoState, Proposal]:
        batch, number = self.supply.plan.num_train, state.next_number
        if train:
            return state, plr.replayed(key, state.buffer, batch, self.config.buffer)
        return state.replace(next_number=numbers_after(number, batch)), sampled(key, self.supply, batch, number)

    def observe(self, state: EchoState, proposal: Proposal, outcome: Outcome) -> EchoState:
        echo = outcome.echo
        assert echo is not None
        batch = len(proposal.slots)
        slots = jnp.where(proposal.kind == REPLAYED, proposal.slots, -1)
        buffer = buffers.update(state.buffer, slots, outcome)
        asked = jnp.where(echo.valid[:, None], self._asked(echo.problems), -1)
        heard = (
            (self.config.forget * state.heard).at[jnp.where(asked >= 0, asked, len(state.heard))].add(1.0, mode="drop")
        )
        known = buffer.records
        tried = Record(best_return=known.best_return, attempts=known.attempts, solves=known.solves, prior=known.prior)
        worth = self._worth(heard, self._asked(buffer.problems), tried)
        buffer = buffer.replace(records=known.replace(score=jnp.where(known.filled, worth, known.score)))
        once = jnp.ones(batch, jnp.int32)  # the episode that it came from solves it
        newcomers = Outcome(
            score=self._worth(heard, asked, Record(best_return=jnp.ones(batch), attempts=once, solves=once)),
            best_return=jnp.ones(batch),
            attempts=echo.valid.astype(jnp.int32),
            solves=echo.valid.astype(jnp.int32),
            trivial=~echo.valid,
            partial=outcome.partial,
        )
        lineage = self._lineage(state, proposal.lineage)
        buffer = buffers.insert(buffer, echo.problems, lineage, newcomers, self.config.buffer)
        return EchoState(
            buffer=buffer.replace(clock=buffer.clock + 1),
            next_number=numbers_after(state.next_number, batch),
            heard=heard,
        )

    def _worth(self, heard: Float32[Array, "props"], asked: Int32[Array, "n literals"], tried: Record) -> Array:
        rate = expected_rate(tried)
        return rarity(heard, asked) * 4 * rate * (1 - rate)

    def _lineage(self, state: EchoState, parents: Lineage) -> Lineage:
        """Of problems that were read off those of a batch."""
        batch = len(parents.number)
        row = self.supply.edit_names.index(ECHO)
        return Lineage.unchecked(
            number=numbers_after(state.next_number, jnp.arange(batch, dtype=jnp.int32)),
            parent=parents.number,
            generation=parents.next_generation,
            edits=jnp.full_like(parents.edits, -1).at[:, 0].set(row),
            arguments=jnp.full_like(parents.arguments, -1),
        )

    def memory(self, state: EchoState) -> Buffer:
        return state.buffer

    def tell(self, state: EchoState) -> dict[str, Any]:
        """How many propositions were heard lately, at least once."""
        return {"propositions_heard": int(jax.device_get(jnp.sum(state.heard >= 0.5)))}
