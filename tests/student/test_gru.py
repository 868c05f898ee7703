"""The recurrent unit: Flax's cell, step by step, with memory cleared where episodes start; and its gradient."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.student import layers
from atlas.student.layers import initialise

TIME, ENVS, INPUTS, WIDTH = 4, 3, 5, 4
KEYS = jax.random.split(jax.random.key(0), 5)
X = jax.random.normal(KEYS[0], (TIME, ENVS, INPUTS))
HIDDEN = jax.random.normal(KEYS[1], (ENVS, WIDTH))
START = jax.random.uniform(KEYS[2], (TIME, ENVS)) < 0.3


@pytest.fixture(scope="module")
def params():
    made = jax.jit(lambda: initialise(KEYS[3], lambda normals: layers.init_gru(normals, INPUTS, WIDTH)))()
    noise = jax.random.normal(KEYS[4], (4 * WIDTH,))
    return made.replace(bias=noise[:WIDTH], inputs=made.inputs.replace(bias=noise[WIDTH:]))


def by_flax(params, x, hidden):
    """A loop over Flax's cell."""
    kernels = {"i": jnp.split(params.inputs.kernel, 3, -1), "h": jnp.split(params.recurrent, 3, -1)}
    tree = {side + gate: {"kernel": kernels[side][n]} for side in "ih" for n, gate in enumerate("rzn")}
    for n, gate in enumerate("rzn"):
        tree["i" + gate]["bias"] = jnp.split(params.inputs.bias, 3)[n]
    tree["hn"]["bias"] = params.bias
    seen = []
    for t in range(TIME):
        hidden = jnp.where(START[t][:, None], 0.0, hidden)
        with jax.numpy_rank_promotion("allow"):
            hidden, _ = nn.GRUCell(WIDTH).apply({"params": tree}, hidden, x[t])
        seen.append(hidden)
    return jnp.stack(seen)


def ours(params, x, hidden):
    return layers.gru_unroll(params, layers.gru_inputs(params, x, jnp.float32), START, hidden, jnp.float32)


@pytest.fixture(scope="module")
def results(params):
    """Sequences, and gradients of a weighted sum of them: ours, and those of the plain loop."""
    weights = jax.random.normal(jax.random.key(9), (TIME, ENVS, WIDTH))

    def both(unroll):
        def loss(*args):
            sequence = unroll(*args)
            return jnp.vdot(weights, sequence), sequence

        return jax.jit(jax.grad(loss, argnums=(0, 1, 2), has_aux=True))(params, X, HIDDEN)

    return both(ours), both(by_flax)


def test_it_is_a_gru(results):
    assert START.any()
    (_, sequence), (_, expected) = results
    np.testing.assert_allclose(sequence, expected, atol=1e-5)


def test_gradients_are_those_of_the_plain_loop(results):
    (gradient, _), (expected, _) = results
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), gradient, expected)


def test_steps_are_the_sequence(params, results):
    hidden, (_, sequence) = HIDDEN, results[0]
    step = jax.jit(
        lambda x, start, hidden: layers.gru_step(
            params, layers.gru_inputs(params, x, jnp.float32), start, hidden, jnp.float32
        )
    )
    for t in range(TIME):
        hidden = step(X[t], START[t], hidden)
        np.testing.assert_allclose(hidden, sequence[t], atol=1e-6)
