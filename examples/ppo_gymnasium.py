"""PPO in one file on a vector environment of Gymnasium: plain loops and NumPy outside, a small JAX network inside.

    python examples/ppo_gymnasium.py

Nothing but Gymnasium's interface is used: observations are dicts of arrays, and an episode that ends is followed by the
next one in the same step.
"""

from functools import partial

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax

import atlas.gym  # noqa: F401 - registers the environments

SETTINGS = {
    "rooms": (1,), "step_limit": 48, "colours": ("red", "blue"), "types": ("ball", "square"),
    "tasks": {"max_length": 1}, "pairing": {"how": "level"},
}  # fmt: skip
ENVS, STEPS, EPOCHS, MINIBATCHES = 64, 64, 4, 4
GAMMA, LAMBDA, CLIP, ENTROPY, RATE = 0.97, 0.9, 0.2, 0.01, 1e-3
WIDTH, CODES = 128, 32


def init(key, space, actions):
    """A table of codes for bytes, one for literals, and two heads of two layers."""
    low, high = -1024, 1024
    seen, edges = int(np.prod(space["view"].shape)), space["task"]["guard"].shape[1]
    inputs = (seen + edges) * CODES + actions + 1
    keys = iter(jax.random.split(key, 8))

    def dense(a, b, gain=2**0.5):
        return jax.nn.initializers.orthogonal(gain)(next(keys), (a, b)), jnp.zeros(b)

    return {
        "cells": jax.random.normal(next(keys), (256, CODES)) / CODES**0.5,
        "literals": jax.random.normal(next(keys), (high - low, CODES)) / CODES**0.5,
        "actor": [dense(inputs, WIDTH), dense(WIDTH, WIDTH), dense(WIDTH, actions, 0.01)],
        "critic": [dense(inputs, WIDTH), dense(WIDTH, WIDTH), dense(WIDTH, 1, 1.0)],
    }


def think(params, seen, actions):
    """Log-probabilities and values of a batch of observations."""
    batch = len(seen["view"])
    node = jnp.maximum(seen["task_state"][:, 0], 0).astype(jnp.int32)
    guard = seen["task"]["guard"][jnp.arange(batch), node].astype(jnp.int32)
    edges = jnp.sum(jnp.where((guard != 0)[..., None], params["literals"][guard + 1024], 0.0), 2)
    cells = params["cells"][seen["view"].astype(jnp.int32)]
    previous = jax.nn.one_hot(seen["previous_action"], actions + 1)
    x = jnp.concatenate([cells.reshape(batch, -1), edges.reshape(batch, -1), previous], 1)

    def head(layers, x):
        for weights, bias in layers[:-1]:
            x = jnp.tanh(x @ weights + bias[None])
        return x @ layers[-1][0] + layers[-1][1][None]

    return jax.nn.log_softmax(head(params["actor"], x)), head(params["critic"], x)[:, 0]


def main(updates=120, seed=0):
    """Train; gives the share of episodes that were solved, by update."""
    envs = gymnasium.make_vec("atlas/Minigrid-v0", num_envs=ENVS, **SETTINGS)
    actions = int(envs.single_action_space.n)
    key, key_init = jax.random.split(jax.random.key(seed))
    params = init(key_init, envs.single_observation_space, actions)
    adam = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(RATE, eps=1e-5))
    optimiser = adam.init(params)

    @jax.jit
    def act(params, key, seen):
        log_probs, value = think(params, seen, actions)
        action = jax.random.categorical(key, log_probs)
        return action, jnp.take_along_axis(log_probs, action[:, None], 1)[:, 0], value

    def loss_of(params, batch):
        log_probs, value = think(params, batch["seen"], actions)
        log_prob = jnp.take_along_axis(log_probs, batch["action"][:, None], 1)[:, 0]
        ratio = jnp.exp(log_prob - batch["log_prob"])
        gain = (batch["advantage"] - batch["advantage"].mean()) / (batch["advantage"].std() + 1e-8)
        actor = -jnp.minimum(ratio * gain, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * gain).mean()
        entropy = -jnp.sum(jnp.exp(log_probs) * log_probs, 1).mean()
        return actor + 0.5 * jnp.square(value - batch["target"]).mean() - ENTROPY * entropy

    @jax.jit
    def learn(params, optimiser, batch):
        change, optimiser = adam.update(jax.grad(loss_of)(params, batch), optimiser)
        return optax.apply_updates(params, change), optimiser

    def numbers(seen):
        return {name: seen[name] for name in ("view", "task", "task_state", "previous_action")}

    random, shares = np.random.default_rng(seed), []
    seen, _ = envs.reset(seed=seed)
    for _ in range(updates):
        steps, solved, ended = [], 0, 0
        for _ in range(STEPS):
            key, key_act = jax.random.split(key)
            now = numbers(seen)
            action, log_prob, value = map(np.asarray, act(params, key_act, now))
            seen, reward, terminated, truncated, info = envs.step(action)
            done = terminated | truncated
            solved, ended = solved + int(info["accepted"].sum()), ended + int(done.sum())
            steps.append((now, action, log_prob, value, reward.astype(np.float32), done))
        now, action, log_prob, value, reward, done = (
            jax.tree.map(lambda *rows: np.stack(rows), *column) for column in zip(*steps, strict=True)
        )
        advantage, gain = np.zeros_like(reward), np.zeros(ENVS, np.float32)
        ahead = np.asarray(act(params, key, numbers(seen))[2])
        for t in reversed(range(STEPS)):
            going = 1.0 - done[t]
            gain = reward[t] + GAMMA * ahead * going - value[t] + GAMMA * LAMBDA * going * gain
            advantage[t], ahead = gain, value[t]
        batch = {
            "seen": now,
            "action": action,
            "log_prob": log_prob,
            "advantage": advantage,
            "target": advantage + value,
        }
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), batch)
        for _ in range(EPOCHS):
            for rows in random.permutation(ENVS * STEPS).reshape(MINIBATCHES, -1):
                params, optimiser = learn(params, optimiser, jax.tree.map(partial(np.take, indices=rows, axis=0), flat))
        shares.append(solved / max(ended, 1))
    envs.close()
    return np.array(shares)


if __name__ == "__main__":
    shares = main()
    print(
        f"episodes solved: {shares[:10].mean():.0%} in the first ten updates, {shares[-10:].mean():.0%} in the last ten"
    )
