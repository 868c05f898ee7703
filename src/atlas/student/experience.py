"""What a student has lived through, in the form it learns from."""

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32, Int8, Int32, Integer, Key, UInt8

from atlas.struct import Struct
from atlas.student.network import Observation
from atlas.types import Graph


class Transitions(Struct):
    """One step of each environment, or a rollout of them (`[time, envs, …]`); in bytes where bytes will do."""

    view: UInt8[Array, "*lead rows cols"]
    nodes: Int8[Array, "*lead depth"]
    """Where the task stood, as nodes of its own graph; -1 unused."""
    entry: UInt8[Array, "*lead"]
    """Which problem of the pool was played."""
    start: Bool[Array, "*lead"]
    """The first step of an episode."""
    action: UInt8[Array, "*lead"]
    log_prob: Float32[Array, "*lead"]
    value: Float32[Array, "*lead"]
    """As predicted while acting."""
    reward: Float32[Array, "*lead"]
    done: Bool[Array, "*lead"]
    accepted: Bool[Array, "*lead"]
    truncated: Bool[Array, "*lead"]
    cut_value: Float32[Array, "*lead"] | None
    """Value of the state in which a cut episode stood at its end, 0 elsewhere. Only where truncation bootstraps."""


class Experience(Struct):
    """A rollout as far as learning is concerned."""

    steps: Transitions
    graphs: Graph
    """The tasks, batched `[envs, pool]`. Never stored per step."""
    noise: Key[Array, "envs"]
    """Fixes the random node features: the same while learning as while acting."""
    previous: UInt8[Array, "envs"]
    """The action before the first step (it counts where an episode was carried over)."""
    hidden: Float32[Array, "phases envs memory"]
    """The memory before the first step of each phase."""
    last_value: Float32[Array, "envs"]
    """Value of the state after the last step."""


ENVS_AXIS = Experience.unchecked(steps=1, graphs=0, noise=0, previous=0, hidden=1, last_value=0)
"""Which axis counts environments."""


def observations(experience: Experience) -> Observation:
    """What the student saw at each step, as it saw it."""
    steps = experience.steps
    return Observation(
        view=steps.view,
        nodes=table_rows(steps.nodes, steps.entry, experience.graphs.outcome.shape[-1]),
        previous=jnp.concatenate([experience.previous[None], steps.action[:-1]]),
        start=steps.start,
    )


def table_rows(
    nodes: Integer[Array, "*lead depth"], entry: Integer[Array, "*lead"], size: int
) -> Int32[Array, "*lead depth"]:
    """Rows of nodes in the table of a whole pool, whose tasks have `size` nodes each."""
    first = entry.astype(jnp.int32)[..., None] * size
    return jnp.where(nodes >= 0, first + nodes.astype(jnp.int32), -1)


def draw_action(
    chance: Float32[Array, "envs"], logits: Float32[Array, "envs actions"]
) -> tuple[Int32[Array, "envs"], Float32[Array, "envs"]]:
    """The action on which a uniform number falls, and the logarithm of its probability."""
    log_probs = jax.nn.log_softmax(logits)
    below = jnp.cumsum(jnp.exp(log_probs), -1)[:, :-1]
    action = jnp.sum(chance[:, None] >= below, -1, dtype=jnp.int32)
    return action, log_prob_of(log_probs, action)


def log_prob_of(log_probs: Float32[Array, "*lead actions"], action: Integer[Array, "*lead"]) -> Float32[Array, "*lead"]:
    """The entry of the action taken; a product with its one-hot, so that the gradient is no scatter."""
    return jnp.sum(log_probs * jax.nn.one_hot(action, log_probs.shape[-1]), -1)
