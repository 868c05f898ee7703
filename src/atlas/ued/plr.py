"""Prioritised level replay: new problems are scored and may enter a buffer; what it holds is replayed by priority.

PLR trains on both; robust PLR (PLR⊥) trains on replayed problems only, so new ones cost no gradient work. What PLR does
with its buffer are functions, so that other teachers can build on them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Int32, Key

from atlas.struct import Struct
from atlas.types import REPLAYED, Outcome, Proposal
from atlas.ued import BufferConfig, EchoConfig, PLRConfig, SFLConfig
from atlas.ued import buffer as buffers
from atlas.ued.buffer import Buffer
from atlas.ued.supply import Supply, numbers_after, root, sampled


class PLRState(Struct):
    """The buffer, and a serial number that no problem has had yet."""

    buffer: Buffer
    next_number: Int32[Array, ""]


State = TypeVar("State", bound=PLRState)


def start(config: PLRConfig | EchoConfig | SFLConfig, supply: Supply) -> PLRState:
    """An empty buffer."""
    lineage = root(jnp.int32(0), supply.plan.max_edits)
    buffer = buffers.empty(config.buffer.capacity, supply.problem(), lineage)
    return PLRState(buffer=buffer, next_number=jnp.int32(0))


def wants_replay(key: Key[Array, ""], buffer: Buffer, config: PLRConfig | EchoConfig) -> Bool[Array, ""]:
    """Chance decides, once the buffer is filled enough."""
    enough = max(1, math.ceil(config.buffer.min_fill * config.buffer.capacity))
    return (buffers.fill(buffer) >= enough) & jax.random.bernoulli(key, config.replay_prob)


def replayed(key: Key[Array, ""], buffer: Buffer, batch: int, config: BufferConfig) -> Proposal:
    """Problems of the buffer, sampled by priority."""
    slots = buffers.sample(key, buffer, batch, config)
    problems, lineage, record = buffers.take(buffer, slots)
    return Proposal(kind=jnp.int8(REPLAYED), problems=problems, lineage=lineage, slots=slots, record=record)


def propose(
    key: Key[Array, ""],
    state: State,
    train: bool,
    config: PLRConfig,
    num_train: int,
    fresh: Callable[[Key[Array, ""]], Proposal],
    may_replay: bool | Bool[Array, ""] = True,
) -> tuple[State, Proposal]:
    """Replayed problems if `train`, else `fresh(key)` to be scored only. Where new problems are trained on as well
    (`train_on_new`), chance decides between the two; `may_replay` can rule a replay out."""

    def replay(key: Key[Array, ""]) -> Proposal:
        return replayed(key, state.buffer, num_train, config.buffer)

    if train and not config.train_on_new:
        return state, replay(key)
    if train:
        key_kind, key_problems = jax.random.split(key)
        replays = wants_replay(key_kind, state.buffer, config) & may_replay
        proposal = jax.lax.cond(replays, replay, fresh, key_problems)
    else:
        proposal = fresh(key)
    return state.replace(next_number=numbers_after(state.next_number, len(proposal.slots))), proposal


def observe(state: State, proposal: Proposal, outcome: Outcome, config: PLRConfig) -> State:
    """The records of replayed problems are updated; others may enter the buffer."""
    buffer = jax.lax.cond(
        proposal.kind == REPLAYED,
        lambda buffer: buffers.update(buffer, proposal.slots, outcome),
        lambda buffer: buffers.insert(
            buffer, proposal.problems, proposal.lineage, outcome, config.buffer, proposal.record.prior
        ),
        state.buffer,
    )
    return state.replace(buffer=buffer.replace(clock=buffer.clock + 1))


@dataclass(frozen=True)
class PLR:
    """Replays, or proposes new problems."""

    config: PLRConfig
    supply: Supply
    rows: ClassVar[PLRState] = PLRState.unchecked(buffer=buffers.ROWS, next_number=False)

    def init(self, key: Key[Array, ""]) -> PLRState:
        return start(self.config, self.supply)

    def decide(self, key: Key[Array, ""], state: PLRState) -> Bool[Array, ""]:
        return jnp.array(True) if self.config.train_on_new else wants_replay(key, state.buffer, self.config)

    def propose(self, key: Key[Array, ""], state: PLRState, train: bool) -> tuple[PLRState, Proposal]:
        plan = self.supply.plan

        def new(key: Key[Array, ""]) -> Proposal:
            return sampled(key, self.supply, plan.num_eval or plan.num_train, state.next_number)

        return propose(key, state, train, self.config, plan.num_train, new)

    def observe(self, state: PLRState, proposal: Proposal, outcome: Outcome) -> PLRState:
        return observe(state, proposal, outcome, self.config)

    def memory(self, state: PLRState) -> Buffer:
        return state.buffer
