"""Proximal policy optimisation of a recurrent student."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.flatten_util import ravel_pytree
from jaxtyping import Bool, Float32, Int32, Key, UInt8

from atlas.config import PPOConfig
from atlas.devices import ALONE, REPLICATED, Layout
from atlas.struct import Struct
from atlas.student.network import (
    ENVS_AXIS,
    LESSON_AXIS,
    Experience,
    Lesson,
    Observation,
    Params,
    Student,
    log_prob_of,
    observations,
)
from atlas.types import Graph


def advantages(
    reward: Float32[Array, "time envs"],
    value: Float32[Array, "time envs"],
    done: Bool[Array, "time envs"],
    cut_value: Float32[Array, "time envs"] | None,
    last_value: Float32[Array, "envs"],
    gamma: float,
    lam: float,
) -> Float32[Array, "time envs"]:
    """Generalised advantage estimation (GAE).

    `last_value` is the value of the state after the last step; it is used where no episode ended there. `cut_value`
    holds the value of the last state of truncated episodes (0 elsewhere); without it truncation counts as termination.
    """
    following = jnp.concatenate([value[1:], last_value[None]])
    following = jnp.where(done, 0.0 if cut_value is None else cut_value, following)
    errors = reward + gamma * following - value

    def back(later: Float32[Array, "envs"], now: tuple[Array, Array]) -> tuple[Array, Array]:
        error, done = now
        advantage = error + gamma * lam * jnp.where(done, 0.0, later)
        return advantage, advantage

    return jax.lax.scan(back, jnp.zeros_like(last_value), (errors, done), reverse=True)[1]


Scalar = Float32[Array, ""]


class Losses(Struct):
    """Losses and statistics: means over all minibatches of a rollout."""

    policy: Scalar
    value: Scalar
    entropy: Scalar
    kl: Scalar
    """Estimated divergence from the policy that acted."""
    clipped: Scalar
    """Share of steps whose ratio was outside the clipping range."""
    gradient_norm: Scalar
    """Before clipping."""
    explained_variance: Scalar
    """Of the targets, by the values predicted while acting."""
    cloning: Scalar | None = None
    """Cross-entropy of the actions of plans that were shown, 0 where none were. None: there is no cloning."""


class _Sequences(Struct):
    """Observations, actions and targets; `[time, envs]`."""

    seen: Observation
    action: UInt8[Array, "time envs"]
    log_prob: Float32[Array, "time envs"]
    value: Float32[Array, "time envs"]
    advantage: Float32[Array, "time envs"]
    target: Float32[Array, "time envs"]


class _Batch(Struct):
    """A minibatch: whole sequences of some environments."""

    steps: _Sequences
    graphs: Graph
    noise: Key[Array, "envs"]
    hidden: Float32[Array, "envs memory"]


def optimiser(config: PPOConfig) -> optax.GradientTransformation:
    """Adam after clipping by global norm."""
    clip = optax.clip_by_global_norm(config.max_grad_norm)
    return optax.chain(clip, optax.adam(config.learning_rate, eps=config.adam_eps))


SCALE_DECAY: Final = 0.98
"""Of the running scale of advantages, at each rollout."""
SMALLEST_SCALE: Final = 0.02
"""Advantages are never divided by less: where nothing is ever solved, noise would become a signal."""


class LearnerState(Struct):
    """What learning keeps from one update to the next, beside the parameters."""

    adam: Any
    scale: Scalar | None
    """Mean square of advantages, as a running average; negative before the first rollout. None: not used."""


@dataclass(frozen=True)
class Learner:
    """Learns from experience."""

    student: Student
    config: PPOConfig
    optimiser: optax.GradientTransformation
    layout: Layout = ALONE
    """How environments are sharded over devices."""

    def init(self, params: Params) -> LearnerState:
        """The state before the first update."""
        scale = jnp.float32(-1.0) if self.config.normalise == "running" else None
        return LearnerState(adam=self.optimiser.init(params), scale=scale)

    def learn(
        self,
        key: Key[Array, ""],
        params: Params,
        state: LearnerState,
        experience: Experience,
        rate: Scalar | None = None,
        lesson: tuple[Scalar, Lesson] | None = None,
    ) -> tuple[Params, LearnerState, Losses]:
        """All phases, epochs and minibatches of one rollout. Every minibatch takes equally many environments from each
        shard, so that none has to move; gradients and statistics are those of the whole minibatch. `rate` multiplies
        the learning rate. `lesson`: plans to imitate, as many rows as there are environments, and with which weight."""
        shown = None if lesson is None else (REPLICATED, LESSON_AXIS)
        inputs = (REPLICATED, REPLICATED, REPLICATED, ENVS_AXIS, REPLICATED, shown)
        learn = self.layout.shard_map(self._learn, inputs, REPLICATED)
        return learn(key, params, state, experience, rate, lesson)

    def _learn(
        self,
        key: Key[Array, ""],
        params: Params,
        state: LearnerState,
        experience: Experience,
        rate: Scalar | None,
        lesson: tuple[Scalar, Lesson] | None,
    ) -> tuple[Params, LearnerState, Losses]:
        """`learn` on one shard."""
        steps = self._sequences(experience)
        if state.scale is not None:
            square = self.layout.mean(jnp.mean(jnp.square(steps.advantage)))
            running = jnp.where(state.scale < 0, square, SCALE_DECAY * state.scale + (1.0 - SCALE_DECAY) * square)
            state = state.replace(scale=running)
            scale = jnp.maximum(jnp.sqrt(running), SMALLEST_SCALE)
            steps = steps.replace(advantage=steps.advantage / scale)  # targets are made already
        plan = self._plan(key, experience.last_value.shape[0])
        # Gradient steps work on one long vector: with kernels of its own for every layer Adam takes long to compile.
        flat, unravel = ravel_pytree(params)
        adam = _map_params(lambda moment: ravel_pytree(moment)[0], state.adam)

        def update(state: tuple[Array, Any], turn: tuple[Array, Array]) -> tuple[tuple[Array, Any], Losses]:
            batch = self._select(experience, steps, *turn)
            clone = None if lesson is None else self._cloning(*lesson, turn[1], unravel)
            flat, adam, losses = self._update(*state, lambda flat: self._loss(unravel(flat), batch), rate, clone)
            return (flat, adam), losses

        (flat, adam), losses = jax.lax.scan(update, (flat, adam), plan)
        adam = _map_params(lambda _, moment: unravel(moment), state.adam, adam)
        mean = self.layout.mean(jax.tree.map(jnp.mean, losses))
        explained = explained_variance(steps.value, steps.target, self.layout)
        return unravel(flat), state.replace(adam=adam), mean.replace(explained_variance=explained)

    def _sequences(self, experience: Experience) -> _Sequences:
        """Advantages and targets, from the values predicted while acting."""
        steps, config = experience.steps, self.config
        advantage = advantages(
            steps.reward, steps.value, steps.done, steps.cut_value,
            experience.last_value, config.gamma, config.gae_lambda,
        )  # fmt: skip
        return _Sequences(
            seen=observations(experience),
            action=steps.action,
            log_prob=steps.log_prob,
            value=steps.value,
            advantage=advantage,
            target=advantage + steps.value,
        )

    def _plan(
        self, key: Key[Array, ""], envs: int
    ) -> tuple[Int32[Array, "updates"], Int32[Array, "updates minibatch"]]:
        """The phase and the environments of each gradient step: every environment once an epoch."""
        config, shards = self.config, self.layout.shards
        keys = self.layout.local(jax.random.split(key, (config.phases * config.epochs, shards)))
        orders = jax.vmap(lambda key: jax.random.permutation(key, envs))(keys)
        chosen = orders.reshape(-1, config.minibatch_envs // shards).astype(jnp.int32)
        phase = jnp.repeat(jnp.arange(config.phases, dtype=jnp.int32), len(chosen) // config.phases)
        return phase, chosen

    def _select(
        self, experience: Experience, steps: _Sequences, phase: Int32[Array, ""], chosen: Int32[Array, "minibatch"]
    ) -> _Batch:
        """The sequences of some environments in one phase."""
        length = steps.action.shape[0] // self.config.phases

        def part(leaf: Array) -> Array:
            return jax.lax.dynamic_slice_in_dim(leaf, phase * length, length)[:, chosen]

        return _Batch(
            steps=jax.tree.map(part, steps),
            graphs=jax.tree.map(lambda leaf: leaf[chosen], experience.graphs),
            noise=experience.noise[chosen],
            hidden=experience.hidden[phase, chosen],
        )

    def _update(
        self,
        flat: Float32[Array, "size"],
        adam: Any,
        loss: Callable[[Float32[Array, "size"]], tuple[Scalar, Losses]],
        rate: Scalar | None,
        clone: Callable[[Float32[Array, "size"]], tuple[Scalar, Float32[Array, "size"]]] | None,
    ) -> tuple[Float32[Array, "size"], Any, Losses]:
        """One gradient step."""
        (_, losses), gradient = jax.value_and_grad(loss, has_aux=True)(flat)
        if clone is not None:
            cross_entropy, more = clone(flat)
            losses, gradient = losses.replace(cloning=cross_entropy), gradient + more
        gradient = self.layout.mean(gradient)
        updates, adam = self.optimiser.update(gradient, adam, flat)
        if rate is not None:
            updates = rate * updates
        return flat + updates, adam, losses.replace(gradient_norm=jnp.linalg.norm(gradient))

    def _loss(self, params: Params, batch: _Batch) -> tuple[Scalar, Losses]:
        """The loss that is minimised, and its parts."""
        config, steps = self.config, batch.steps
        tables = self.student.embed(params, batch.noise, batch.graphs)
        logits, value = self.student.unroll(params, tables, steps.seen, batch.hidden)
        log_probs = jax.nn.log_softmax(logits)
        log_ratio = log_prob_of(log_probs, steps.action) - steps.log_prob
        policy = policy_loss(log_ratio, self._normalised(steps.advantage), config.clip)
        critic = value_loss(value, steps.value, steps.target, config.value_clip)
        entropy = -jnp.mean(jnp.sum(jnp.exp(log_probs) * log_probs, -1))
        losses = Losses(
            policy=policy,
            value=critic,
            entropy=entropy,
            kl=jnp.mean(jnp.expm1(log_ratio) - log_ratio),
            clipped=jnp.mean((jnp.abs(jnp.expm1(log_ratio)) > config.clip).astype(jnp.float32)),
            gradient_norm=jnp.float32(0),
            explained_variance=jnp.float32(0),
        )
        return policy + config.value_coefficient * critic - config.entropy * entropy, losses

    def _cloning(
        self,
        weight: Scalar,
        lesson: Lesson,
        chosen: Int32[Array, "minibatch"],
        unravel: Callable[[Float32[Array, "size"]], Params],
    ) -> Callable[[Float32[Array, "size"]], tuple[Scalar, Float32[Array, "size"]]]:
        """What some rows of a lesson add to a gradient step: their cross-entropy, and its weighted gradient. Without a
        weight nothing is computed."""

        def loss(flat: Float32[Array, "size"]) -> Scalar:
            params = unravel(flat)
            seen, action = jax.tree.map(lambda leaf: leaf[:, chosen], (lesson.seen, lesson.action))
            graphs = jax.tree.map(lambda leaf: leaf[chosen], lesson.graphs)
            tables = self.student.embed(params, lesson.noise[chosen], graphs)
            logits, _ = self.student.unroll(params, tables, seen, self.student.initial_hidden(len(chosen)))
            return -jnp.mean(log_prob_of(jax.nn.log_softmax(logits), action))

        def imitate(flat: Float32[Array, "size"]) -> tuple[Scalar, Float32[Array, "size"]]:
            cross_entropy, gradient = jax.value_and_grad(loss)(flat)
            return cross_entropy, weight * gradient

        return lambda flat: jax.lax.cond(weight > 0, imitate, lambda flat: (jnp.zeros(()), jnp.zeros_like(flat)), flat)

    def _normalised(self, advantage: Float32[Array, "time envs"]) -> Float32[Array, "time envs"]:
        if self.config.normalise != "minibatch":
            return advantage
        mean, variance = moments(advantage, self.layout)
        return (advantage - mean) / (jnp.sqrt(variance) + 1e-8)


def _map_params(function: Callable[..., Any], *trees: Any) -> Any:
    """Map the parts of the first tree that are shaped like all parameters; others stay as the last tree has them."""

    def whole(part: Any) -> bool:
        return isinstance(part, Params)

    return jax.tree.map(lambda *parts: function(*parts) if whole(parts[0]) else parts[-1], *trees, is_leaf=whole)


def moments(x: Float32[Array, "time envs"], layout: Layout = ALONE) -> tuple[Scalar, Scalar]:
    """Mean and variance over all devices."""
    mean = layout.mean(jnp.mean(x))
    return mean, layout.mean(jnp.mean(jnp.square(x - mean)))


def policy_loss(log_ratio: Float32[Array, "time envs"], advantage: Float32[Array, "time envs"], clip: float) -> Scalar:
    """The clipped surrogate objective, negated."""
    ratio = jnp.exp(log_ratio)
    return -jnp.mean(jnp.minimum(ratio * advantage, jnp.clip(ratio, 1.0 - clip, 1.0 + clip) * advantage))


def value_loss(
    value: Float32[Array, "time envs"],
    before: Float32[Array, "time envs"],
    target: Float32[Array, "time envs"],
    clip: float | None,
) -> Scalar:
    """Half the squared error; with a clip, the larger of it and that of the value clipped around `before`."""
    error = jnp.square(value - target)
    if clip is not None:
        near = before + jnp.clip(value - before, -clip, clip)
        error = jnp.maximum(error, jnp.square(near - target))
    return 0.5 * jnp.mean(error)


def explained_variance(
    value: Float32[Array, "time envs"], target: Float32[Array, "time envs"], layout: Layout = ALONE
) -> Scalar:
    """1 - Var(target - value) / Var(target); 0 where the targets do not vary."""
    variance, unexplained = moments(target, layout)[1], moments(target - value, layout)[1]
    return jnp.where(variance > 0, 1.0 - unexplained / jnp.maximum(variance, 1e-12), 0.0)
