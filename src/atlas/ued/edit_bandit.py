"""A bandit over kinds of edits: those whose children gained in score over their parents are made more often.

Each child pays its gain to every edit that made it; old gains are forgotten. Weights are a softmax of the mean gain of
each kind, in units of the spread of all gains, mixed with a uniform share.
"""

from typing import Any, Final

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float32, Int8

from atlas.struct import Struct

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


def none_yet(kinds: int) -> Gains:
    return Gains(made=jnp.zeros(kinds), total=jnp.zeros(kinds), square=jnp.float32(0.0))


def observe(gains: Gains, edits: Int8[Array, "children max_edits"], gain: Float32[Array, "children"]) -> Gains:
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


def weights(gains: Gains, explore: float) -> Float32[Array, "edits"]:
    """How often each kind should be made; they sum to 1."""
    mean, overall, spread = mean_gains(gains)
    learnt = jax.nn.softmax(SHARPNESS * (mean - overall) / jnp.maximum(spread, TINY))
    return (1 - explore) * learnt + explore / len(mean)


def tell(gains: Gains, explore: float, names: tuple[str, ...]) -> dict[str, Any]:
    """For the record: weight and mean gain by kind."""
    chosen, mean = jax.device_get((weights(gains, explore), mean_gains(gains)[0]))
    return {
        "edit_weight": {name: float(w) for name, w in zip(names, chosen, strict=True)},
        "edit_gain": {name: float(g) for name, g in zip(names, mean, strict=True)},
    }
