"""Generalised advantage estimation."""

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32


def advantages(
    reward: Float32[Array, "time envs"],
    value: Float32[Array, "time envs"],
    done: Bool[Array, "time envs"],
    cut_value: Float32[Array, "time envs"] | None,
    last_value: Float32[Array, "envs"],
    gamma: float,
    lam: float,
) -> Float32[Array, "time envs"]:
    """How much better each action turned out than the value predicted before it.

    `last_value` is the value of the state after the last step; it counts where no episode ended there. `cut_value`
    holds the value of the state in which a cut episode stood at its end (0 elsewhere); without it a cut episode is
    worth nothing more.
    """
    following = jnp.concatenate([value[1:], last_value[None]])
    following = jnp.where(done, 0.0 if cut_value is None else cut_value, following)
    errors = reward + gamma * following - value

    def back(later: Float32[Array, "envs"], now: tuple[Array, Array]) -> tuple[Array, Array]:
        error, done = now
        advantage = error + gamma * lam * jnp.where(done, 0.0, later)
        return advantage, advantage

    return jax.lax.scan(back, jnp.zeros_like(last_value), (errors, done), reverse=True)[1]
