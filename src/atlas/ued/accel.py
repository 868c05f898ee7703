"""ACCEL: PLR that, after each replay, proposes edited children of what was just replayed.

ACCEL-0 is the same with a generator of the smallest problems. With `edits.learn` a bandit chooses among kinds of edits
by what their children gained in score.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32, Int8, Int32, Key

from atlas.struct import Struct
from atlas.types import EDITED, REPLAYED, Outcome, Partial, Proposal
from atlas.ued import ACCELConfig, plr
from atlas.ued import buffer as buffers
from atlas.ued.buffer import Buffer
from atlas.ued.plr import PLRState
from atlas.ued.scores import expected_rate
from atlas.ued.supply import Supply, edited, sampled

# A bandit over kinds of edits: those whose children gained in score over their parents are made more often. Each child
# pays its gain to every edit that made it; old gains are forgotten. Weights are a softmax of the mean gain of each
# kind, in units of the spread of all gains, mixed with a uniform share.

FORGET: Final = 0.98
"""What is kept of gains from one batch of children to the next."""
SHARPNESS: Final = 4.0
"""How much more likely a kind becomes whose mean gain is one standard deviation above the others: e to this power."""
DOUBT: Final = 8.0
"""So many edits of the mean gain are added to each kind: what was hardly tried is taken for average."""
TINY: Final = 1e-6


class Gains(Struct):
    """Gains in score by kind of edit: sums that decay."""

    made: Float32[Array, "edits"]
    total: Float32[Array, "edits"]
    square: Float32[Array, ""]
    """Of the gains of all edits."""


def no_gains(kinds: int) -> Gains:
    return Gains(made=jnp.zeros(kinds), total=jnp.zeros(kinds), square=jnp.float32(0.0))


def gains_after(gains: Gains, edits: Int8[Array, "children max_edits"], gain: Float32[Array, "children"]) -> Gains:
    """Take in a batch of children: the rows of the edits that made each (-1 unused), and what it gained."""
    used = edits >= 0
    each = jnp.where(used, gain[:, None], 0.0)
    rows = jnp.where(used, edits, len(gains.made)).astype(jnp.int32)
    return Gains(
        made=(FORGET * gains.made).at[rows].add(1.0, mode="drop"),
        total=(FORGET * gains.total).at[rows].add(each, mode="drop"),
        square=FORGET * gains.square + jnp.sum(each**2),
    )


def mean_gains(gains: Gains) -> tuple[Float32[Array, "edits"], Float32[Array, ""], Float32[Array, ""]]:
    """The mean gain of each kind, of all edits, and the standard deviation of gains."""
    count = jnp.maximum(jnp.sum(gains.made), 1.0)
    overall = jnp.sum(gains.total) / count
    spread = jnp.sqrt(jnp.maximum(gains.square / count - overall**2, 0.0))
    return (gains.total + DOUBT * overall) / (gains.made + DOUBT), overall, spread


def edit_weights(gains: Gains, explore: float) -> Float32[Array, "edits"]:
    """How often each kind should be made; they sum to 1."""
    mean, overall, spread = mean_gains(gains)
    learnt = jax.nn.softmax(SHARPNESS * (mean - overall) / jnp.maximum(spread, TINY))
    return (1 - explore) * learnt + explore / len(mean)


def tell_gains(gains: Gains, explore: float, names: tuple[str, ...]) -> dict[str, Any]:
    """For the record: weight and mean gain by kind."""
    chosen, mean = jax.device_get((edit_weights(gains, explore), mean_gains(gains)[0]))
    return {
        "edit_weight": {name: float(w) for name, w in zip(names, chosen, strict=True)},
        "edit_gain": {name: float(g) for name, g in zip(names, mean, strict=True)},
    }


# The teacher


class ACCELState(PLRState):
    """As PLR's, and the parents of the next children."""

    edit_next: Bool[Array, ""]
    """The last iteration was a replay."""
    parents: Int32[Array, "batch"]
    """The slots replayed last. Nothing enters the buffer between a replay and its edits, so they stay valid."""
    partial: Partial
    """How far the student got on each of them."""
    gains: Gains | None
    """What kinds of edits were worth; None where nobody learns it."""


@dataclass(frozen=True)
class ACCEL:
    """Replay, then edit what was replayed, then decide anew."""

    config: ACCELConfig
    supply: Supply
    rows: ClassVar[ACCELState] = ACCELState.unchecked(
        buffer=buffers.ROWS, next_number=False, edit_next=False, parents=False, partial=True, gains=False
    )

    def init(self, key: Key[Array, ""]) -> ACCELState:
        batch = self.supply.plan.num_train
        return ACCELState(
            **vars(plr.start(self.config, self.supply)),
            edit_next=jnp.array(False),
            parents=jnp.zeros(batch, jnp.int32),
            partial=jax.tree.map(lambda x: jnp.zeros((batch, *x.shape), x.dtype), self.supply.partial),
            gains=no_gains(len(self.supply.edit_names)) if self.config.edits.learn else None,
        )

    def decide(self, key: Key[Array, ""], state: ACCELState) -> Bool[Array, ""]:
        if self.config.train_on_new:
            return jnp.array(True)
        return plr.wants_replay(key, state.buffer, self.config) & ~state.edit_next

    def propose(self, key: Key[Array, ""], state: ACCELState, train: bool) -> tuple[ACCELState, Proposal]:
        plan, number = self.supply.plan, state.next_number
        batch = plan.num_eval or plan.num_train

        def children(key: Key[Array, ""]) -> Proposal:
            problems, lineage, record = buffers.take(state.buffer, state.parents)
            parents = (problems, lineage, state.partial)
            chances = None if state.gains is None else edit_weights(state.gains, self.config.edits.explore)
            return edited(key, self.supply, parents, batch, number, expected_rate(record), chances)

        def new(key: Key[Array, ""]) -> Proposal:
            return sampled(key, self.supply, batch, number)

        def fresh(key: Key[Array, ""]) -> Proposal:
            return jax.lax.cond(state.edit_next, children, new, key)

        return plr.propose(key, state, train, self.config, plan.num_train, fresh, ~state.edit_next)

    def observe(self, state: ACCELState, proposal: Proposal, outcome: Outcome) -> ACCELState:
        if state.gains is not None:
            learnt = gains_after(state.gains, proposal.lineage.edits, self._gain(state, proposal, outcome))
            made = proposal.kind == EDITED
            kept = jax.tree.map(lambda new, old: jnp.where(made, new, old), learnt, state.gains)
            state = state.replace(gains=kept)
        state = plr.observe(state, proposal, outcome, self.config)
        if len(proposal.slots) != len(state.parents):  # a batch of another size was no replay
            return state.replace(edit_next=jnp.array(False))
        replayed = proposal.kind == REPLAYED
        parents, partial = jax.tree.map(
            lambda new, old: jnp.where(replayed, new, old),
            (proposal.slots, outcome.partial),
            (state.parents, state.partial),
        )
        return state.replace(edit_next=replayed, parents=parents, partial=partial)

    def _gain(self, state: ACCELState, proposal: Proposal, outcome: Outcome) -> Float32[Array, "batch"]:
        """What each child scores above its parent. Screening mixes the turns up, so parents are known by number."""
        slots, numbers = state.parents, state.buffer.lineage.number[state.parents]
        mine = proposal.lineage.parent[:, None] == numbers[None, :]
        return outcome.score - state.buffer.records.score[slots[jnp.argmax(mine, axis=1)]]

    def memory(self, state: ACCELState) -> Buffer:
        return state.buffer

    def tell(self, state: ACCELState) -> dict[str, Any]:
        """Which edits were worth it, where that is learnt."""
        if state.gains is None:
            return {}
        return tell_gains(state.gains, self.config.edits.explore, self.supply.edit_names)
