"""PPO in one file on an environment of ATLAS, all of it compiled: rollouts, learning and the problems to play.

    python examples/ppo.py

A feed-forward agent learns to follow short instructions in one room: it sees what is around it, and the edges that
leave the current state of its task. Every update plays problems that were never seen before.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

import atlas

SETTINGS = {"rooms": (1,), "step_limit": 64, "tasks": {"max_length": 2}, "pairing": {"how": "level"}}
ENVS, STEPS, POOL, EPOCHS, MINIBATCHES = 256, 64, 1024, 4, 8
GAMMA, LAMBDA, CLIP, ENTROPY, RATE = 0.97, 0.9, 0.2, 0.01, 7e-4


class Transition(NamedTuple):
    inputs: jax.Array
    action: jax.Array
    log_prob: jax.Array
    value: jax.Array
    reward: jax.Array
    done: jax.Array
    accepted: jax.Array


def inputs_of(env, seen):
    """One vector: the cells in view, the previous action, and what the edges out of the current state ask for."""
    node = seen.task_state[0]
    guard, target = seen.task.guard[node].astype(jnp.int32), seen.task.target[node]
    features = env.features.reshape(len(env.propositions), -1)[jnp.abs(guard) - 1]
    asked = jnp.sum(jnp.sign(guard)[..., None] * features, 1) * (target >= 0)[:, None]
    wins = (seen.task.outcome[target] == 1) & (target >= 0)
    previous = jax.nn.one_hot(seen.previous, env.num_actions + 1)
    return jnp.concatenate([env.cells(seen.view).ravel(), previous, asked.ravel(), wins.astype(jnp.float32)])


def init_layers(key, sizes, gain=1.0):
    keys = jax.random.split(key, len(sizes) - 1)
    scales = [2**0.5] * (len(sizes) - 2) + [gain]
    layer = jax.nn.initializers.orthogonal
    return [
        (layer(scale)(k, (a, b)), jnp.zeros(b))
        for k, a, b, scale in zip(keys, sizes[:-1], sizes[1:], scales, strict=True)
    ]


def forward(layers, x):
    for weights, bias in layers[:-1]:
        x = jax.nn.relu(x @ weights + bias[None])
    return x @ layers[-1][0] + layers[-1][1][None]


def think(params, inputs):
    return jax.nn.log_softmax(forward(params["actor"], inputs)), forward(params["critic"], inputs)[:, 0]


def make_train(updates):
    env = atlas.make("minigrid", **SETTINGS)
    game = atlas.ProblemSampler(env)
    look = jax.vmap(partial(inputs_of, env))
    reset, step = jax.vmap(game.reset, (0, None)), jax.vmap(game.step, (0, 0, 0, None))
    adam = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(RATE, eps=1e-5))

    def loss_of(params, batch, advantage, target):
        log_probs, value = think(params, batch.inputs)
        log_prob = jnp.take_along_axis(log_probs, batch.action[:, None], 1)[:, 0]
        ratio = jnp.exp(log_prob - batch.log_prob)
        scaled = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        actor = -jnp.minimum(ratio * scaled, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * scaled).mean()
        entropy = -jnp.sum(jnp.exp(log_probs) * log_probs, 1).mean()
        return actor + 0.5 * jnp.square(value - target).mean() - ENTROPY * entropy

    def update(carry, key):
        params, optimiser, seen, state = carry
        key_pool, key_play, key_learn = jax.random.split(key, 3)
        pool = env.sample_many(key_pool, POOL)

        def play(carry, key):
            seen, state = carry
            key_act, key_step = jax.random.split(key)
            inputs = look(seen)
            log_probs, value = think(params, inputs)
            action = jax.random.categorical(key_act, log_probs)
            log_prob = jnp.take_along_axis(log_probs, action[:, None], 1)[:, 0]
            seen, state, reward, done, info = step(jax.random.split(key_step, ENVS), state, action, pool)
            return (seen, state), Transition(inputs, action, log_prob, value, reward, done, info["accepted"])

        (seen, state), played = jax.lax.scan(play, (seen, state), jax.random.split(key_play, STEPS))

        def gae(carry, now):
            gain, value = carry
            going = 1.0 - now.done
            gain = now.reward + GAMMA * value * going - now.value + GAMMA * LAMBDA * going * gain
            return (gain, now.value), gain

        last = think(params, look(seen))[1]
        _, advantages = jax.lax.scan(gae, (jnp.zeros(ENVS), last), played, reverse=True)

        def epoch(carry, key):
            order = jax.random.permutation(key, ENVS * STEPS).reshape(MINIBATCHES, -1)
            flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (played, advantages, advantages + played.value))

            def minibatch(carry, rows):
                params, optimiser = carry
                gradient = jax.grad(loss_of)(params, *jax.tree.map(lambda x: x[rows], flat))
                change, optimiser = adam.update(gradient, optimiser)
                return (optax.apply_updates(params, change), optimiser), None

            return jax.lax.scan(minibatch, carry, order)[0], None

        (params, optimiser), _ = jax.lax.scan(epoch, (params, optimiser), jax.random.split(key_learn, EPOCHS))
        solved = played.accepted.sum() / jnp.maximum(played.done.sum(), 1)
        return (params, optimiser, seen, state), solved

    @jax.jit
    def train(key):
        key_pool, key_reset, key_actor, key_critic, key_updates = jax.random.split(key, 5)
        seen, state = reset(jax.random.split(key_reset, ENVS), env.sample_many(key_pool, POOL))
        width = look(seen).shape[1]
        params = {
            "actor": init_layers(key_actor, (width, 128, 128, env.num_actions), 0.01),
            "critic": init_layers(key_critic, (width, 128, 128, 1)),
        }
        carry = params, adam.init(params), seen, state
        (params, *_), solved = jax.lax.scan(update, carry, jax.random.split(key_updates, updates))
        return params, solved

    return train


def main(updates=100, seed=0):
    """Train; gives the share of episodes that were solved, by update."""
    _, solved = make_train(updates)(jax.random.key(seed))
    return jax.device_get(solved)


if __name__ == "__main__":
    solved = main()
    print(
        f"episodes solved: {solved[:5].mean():.0%} in the first five updates, {solved[-5:].mean():.0%} in the last five"
    )
