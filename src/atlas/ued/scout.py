"""Scout: which new problems are solved about half of the time is predicted, and those are trained on.

The predictor is a Bayesian logistic regression on cheap features of problems and their products. Outcomes of training
itself teach it, so nothing is played only to be scored. It forgets, because the student changes. A batch is chosen
among many candidates by p (1 - p), with p drawn from what the predictor believes (Thompson sampling), and a share of it
is taken as it comes. How well the predictions hold is counted on the way.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int32, Key

from atlas.struct import Struct
from atlas.types import Outcome, Proposal
from atlas.ued import ScoutConfig
from atlas.ued.supply import Supply, numbered, numbers_after, sampled

PRIOR_PRECISION: Final = 1.0
"""Of every weight of the predictor, before it has seen anything."""
NEWTON_STEPS: Final = 4
"""Towards the mode of the posterior; the start is the last mode, so few are enough."""
BINS: Final = 10
"""Of predictions, to see how well they hold."""


class Belief(Struct):
    """A Gaussian over the weights of a logistic regression."""

    mean: Float32[Array, "weights"]
    precision: Float32[Array, "weights weights"]


def know_nothing(weights: int) -> Belief:
    return Belief(mean=jnp.zeros(weights), precision=PRIOR_PRECISION * jnp.eye(weights))


def expand(features: Float32[Array, "features"]) -> Float32[Array, "weights"]:
    """1, the features, and the products of any two of them."""
    first, second = np.triu_indices(features.shape[0])
    return jnp.concatenate([jnp.ones(1), features, features[first] * features[second]])


def update(
    belief: Belief,
    inputs: Float32[Array, "batch weights"],
    solved: Float32[Array, "batch"],
    known: Bool[Array, "batch"],
    forget: float,
) -> Belief:
    """The belief after some outcomes, as far as they are known (Laplace's approximation around the mode).

    Before that its precision fades towards the prior's.
    """
    count = belief.mean.shape[0]
    precision = forget * belief.precision + (1 - forget) * PRIOR_PRECISION * jnp.eye(count)
    counts = known.astype(jnp.float32)

    def curvature(mean: Float32[Array, "weights"]) -> tuple[Array, Array]:
        rate = jax.nn.sigmoid(inputs @ mean)
        spread = counts * rate * (1 - rate)
        return rate, precision + (inputs * spread[:, None]).T @ inputs

    def newton(_: Array, mean: Float32[Array, "weights"]) -> Float32[Array, "weights"]:
        rate, hessian = curvature(mean)
        slope = precision @ (mean - belief.mean) + inputs.T @ (counts * (rate - solved))
        return mean - jnp.linalg.solve(hessian, slope)

    mean = jax.lax.fori_loop(0, NEWTON_STEPS, newton, belief.mean)
    return Belief(mean=mean, precision=curvature(mean)[1])


def predict(
    belief: Belief, inputs: Float32[Array, "batch weights"]
) -> tuple[Float32[Array, "batch"], Float32[Array, "batch"]]:
    """Mean and standard deviation of the logit of each problem's solve rate."""
    spread = jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(belief.precision), inputs.T, lower=True)
    return inputs @ belief.mean, jnp.sqrt(jnp.sum(spread**2, axis=0))


def mean_rate(mean: Float32[Array, "*n"], deviation: Float32[Array, "*n"]) -> Float32[Array, "*n"]:
    """The mean solve rate where its logit is Gaussian (MacKay's approximation)."""
    return jax.nn.sigmoid(mean / jnp.sqrt(1 + jnp.pi / 8 * deviation**2))


class Calibration(Struct):
    """Predictions and what came of them, by the size of the prediction; fading sums."""

    count: Float32[Array, "bins"]
    predicted: Float32[Array, "bins"]
    solved: Float32[Array, "bins"]


def compare(
    calibration: Calibration,
    predicted: Float32[Array, "batch"],
    solved: Float32[Array, "batch"],
    known: Bool[Array, "batch"],
    forget: float,
) -> Calibration:
    """Take in some predictions that were made before their outcomes."""
    bins = jnp.where(known, jnp.minimum((predicted * BINS).astype(jnp.int32), BINS - 1), BINS)

    def add(total: Float32[Array, "bins"], values: Array) -> Float32[Array, "bins"]:
        return (forget * total).at[bins].add(values, mode="drop")

    return Calibration(
        count=add(calibration.count, jnp.ones_like(predicted)),
        predicted=add(calibration.predicted, predicted),
        solved=add(calibration.solved, solved),
    )


def calibration_error(calibration: Calibration) -> Float32[Array, ""]:
    """Expected calibration error: how far predictions are from what came of them, by bin, weighted by their number."""
    apart = jnp.abs(calibration.predicted - calibration.solved)
    return jnp.sum(apart) / jnp.maximum(jnp.sum(calibration.count), 1.0)


class ScoutState(Struct):
    """What the predictor believes, how well it did, and a serial number that no problem has had yet."""

    belief: Belief
    calibration: Calibration
    next_number: Int32[Array, ""]


@dataclass(frozen=True)
class Scout:
    """Looks at many new problems and proposes the promising ones."""

    config: ScoutConfig
    supply: Supply
    rows: ClassVar[ScoutState] = ScoutState.unchecked(belief=False, calibration=False, next_number=False)

    def _inputs(self, problems: Any) -> Float32[Array, "batch weights"]:
        features = self.supply.features
        assert features is not None
        return jax.vmap(lambda problem: expand(features(problem)))(problems)

    def init(self, key: Key[Array, ""]) -> ScoutState:
        one = jax.eval_shape(lambda: self._inputs(self.supply.sample(jax.random.key(0), 1)))
        nothing = Calibration(count=jnp.zeros(BINS), predicted=jnp.zeros(BINS), solved=jnp.zeros(BINS))
        return ScoutState(belief=know_nothing(one.shape[1]), calibration=nothing, next_number=jnp.int32(0))

    def decide(self, key: Key[Array, ""], state: ScoutState) -> Bool[Array, ""]:
        return jnp.array(True)

    def propose(self, key: Key[Array, ""], state: ScoutState, train: bool) -> tuple[ScoutState, Proposal]:
        key_sample, key_rates, key_order = jax.random.split(key, 3)
        batch = self.supply.plan.num_train * self.supply.plan.pool
        as_they_come = round(self.config.uniform * batch)
        seen = sampled(key_sample, self.supply, batch * self.config.candidates, jnp.int32(0))
        mean, deviation = predict(state.belief, self._inputs(seen.problems))
        rate = jax.nn.sigmoid(mean + deviation * jax.random.normal(key_rates, mean.shape))
        worth = (rate * (1 - rate)).at[:as_they_come].set(-1.0)
        _, chosen = jax.lax.top_k(worth, batch - as_they_come)
        rows = jnp.concatenate([jnp.arange(as_they_come), chosen])
        rows = jax.random.permutation(key_order, rows)  # the first of each pool teaches the predictor
        proposal = jax.tree.map(lambda x: x[rows] if x.ndim else x, seen)
        proposal = proposal.replace(lineage=numbered(proposal.lineage, state.next_number))
        return state.replace(next_number=numbers_after(state.next_number, batch)), proposal

    def observe(self, state: ScoutState, proposal: Proposal, outcome: Outcome) -> ScoutState:
        assert outcome.first is not None
        inputs = self._inputs(proposal.problems)
        known = (outcome.first >= 0) & ~outcome.trivial
        solved, forget = (outcome.first == 1).astype(jnp.float32), self.config.forget
        predicted = mean_rate(*predict(state.belief, inputs))
        return state.replace(
            belief=update(state.belief, inputs, solved, known, forget),
            calibration=compare(state.calibration, predicted, solved, known, forget),
        )

    def memory(self, state: ScoutState) -> None:
        return None

    def tell(self, state: ScoutState) -> dict[str, Any]:
        """How well predictions hold: the expected calibration error, and the bins that it is made of."""
        error, bins = jax.device_get((jax.jit(calibration_error)(state.calibration), state.calibration))
        return {
            "calibration_error": float(error),
            "calibration": {name: [round(float(x), 4) for x in values] for name, values in vars(bins).items()},
        }
