"""The view encoder is a stack of convolutions over embeddings, however it is computed."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import students
from atlas.student import encode
from atlas.student.layers import initialise

CONFIG = students.student(view="conv").config
SAMPLES = 300  # more than a chunk, and a multiple of a large enough divisor


def cells(samples, seed=0):
    rng = np.random.default_rng(seed)
    kinds, colours = (rng.integers(0, n, (samples, 5, 5)) for n in students.CELLS.fields)
    return jnp.asarray(8 * kinds + colours, jnp.uint8)


def initial(config):
    """With biases that matter."""

    @jax.jit
    def make(key):
        params = initialise(key, lambda normals: encode.init_view(normals, config, students.CELLS))
        return jax.tree.map(lambda leaf: leaf + 0.1 * jnp.sin(jnp.arange(float(leaf.size))).reshape(leaf.shape), params)

    return make(jax.random.key(0))


def embedded(params, seen):
    return jnp.concatenate([params.embeddings[0][seen >> 3], params.embeddings[1][seen & 7]], -1)


def by_flax(params, seen):
    x = embedded(params, seen)
    for layer in params.layers:
        width = x.shape[-1]
        kernel = layer.kernel.reshape(2, 2, width, -1)
        convolution = nn.Conv(kernel.shape[-1], (2, 2), padding="SAME")
        with jax.numpy_rank_promotion("allow"):
            x = nn.relu(convolution.apply({"params": {"kernel": kernel, "bias": layer.bias}}, x))
    return x.reshape(len(seen), -1)


def by_hand_dense(params, seen):
    flat = embedded(params, seen).reshape(len(seen), -1)
    return nn.relu(flat @ params.layers[0].kernel + params.layers[0].bias[None])


def by_hand_queries(params, seen):
    """Sample by sample and cell by cell: how well it fits each query of the task, added to the dense layer's input."""
    ask, answers = params.queries.ask, params.queries.answers

    def one(seen, task):
        asked = (task @ ask.kernel + ask.bias).reshape(QUERIES, -1)
        kinds = students.CELLS.fields[0]
        worth = asked[:, seen.reshape(-1) >> 3] + asked[:, kinds + (seen.reshape(-1) & 7)] + asked[:, -1:]
        flat = embedded(params, seen).reshape(-1) @ params.layers[0].kernel + params.layers[0].bias
        return nn.relu(flat + nn.relu(worth).reshape(-1) @ answers)

    return jax.vmap(one)(seen, TASKS)


QUERIES = 3
TASKS = jax.random.normal(jax.random.key(2), (SAMPLES, CONFIG.task_width))
WAYS = {
    "conv": ({"view": "conv"}, by_flax),
    "dense": ({"view": "dense"}, by_hand_dense),
    "queries": ({"view": "dense", "queries": QUERIES}, by_hand_queries),
}


@pytest.mark.parametrize("way", WAYS)
def test_features_and_gradients_are_those_of_the_plain_network(way):
    changes, plain = WAYS[way]
    config = students.student(**changes).config
    params, seen = initial(config), cells(SAMPLES)
    weights = jax.random.normal(jax.random.key(1), (SAMPLES, encode.width(config, students.CELLS)))

    def both(encode):
        def loss(params):
            features = encode(params, seen)
            return jnp.vdot(weights, features), features

        return jax.jit(jax.grad(loss, has_aux=True))(params)

    ours = lambda params, seen: encode.encode_view(params, config, seen, TASKS, jnp.float32)  # noqa: E731
    (gradient, features), (expected_gradient, expected) = both(ours), both(plain)
    np.testing.assert_allclose(features, expected, atol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3), gradient, expected_gradient)


def test_leading_axes_are_kept_and_every_cell_matters_by_kind_colour_and_place():
    params, seen = initial(CONFIG), cells(6)
    encoded = jax.jit(
        lambda seen: encode.encode_view(params, CONFIG, seen, jnp.zeros((*seen.shape[:-2], 1)), jnp.float32)
    )
    flat = encoded(seen)
    np.testing.assert_allclose(encoded(seen.reshape(2, 3, 5, 5)).reshape(6, -1), flat, atol=1e-6)
    for other in (seen ^ 1, seen ^ 8, jnp.flip(seen, 1), jnp.flip(seen, 2)):
        assert not np.allclose(encoded(other), flat, atol=1e-3)
