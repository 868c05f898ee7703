"""The view encoder is a stack of convolutions over embeddings, however it is computed."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import students
from atlas.student import view
from atlas.student.layers import initialise

CONFIG = students.student(view="conv").config
SAMPLES = 300  # more than a chunk, and a multiple of a large enough divisor


def cells(samples, seed=0):
    rng = np.random.default_rng(seed)
    kinds, colours = (rng.integers(0, n, (samples, 5, 5)) for n in (students.CELLS.kinds, students.CELLS.colours))
    return jnp.asarray(8 * kinds + colours, jnp.uint8)


def initial(config):
    params = jax.jit(lambda key: initialise(key, lambda normals: view.init(normals, config, students.CELLS)))(
        jax.random.key(0)
    )
    biases = [0.1 * jax.random.normal(jax.random.key(n), layer.bias.shape) for n, layer in enumerate(params.layers)]
    return params.replace(
        layers=tuple(layer.replace(bias=bias) for layer, bias in zip(params.layers, biases, strict=True))
    )


def embedded(params, seen):
    return jnp.concatenate([params.kinds[seen >> 3], params.colours[seen & 7]], -1)


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


WAYS = {"conv": by_flax, "dense": by_hand_dense}


@pytest.mark.parametrize("way", WAYS)
def test_features_and_gradients_are_those_of_the_plain_network(way):
    config = students.student(view=way).config
    params, seen = initial(config), cells(SAMPLES)
    weights = jax.random.normal(jax.random.key(1), (SAMPLES, view.width(config, students.CELLS)))

    def loss(encode):
        return lambda params: jnp.vdot(weights, encode(params, seen))

    ours = lambda params, seen: view.encode(params, config, seen, jnp.float32)  # noqa: E731
    np.testing.assert_allclose(jax.jit(ours)(params, seen), WAYS[way](params, seen), atol=1e-5)
    gradients = [jax.jit(jax.grad(loss(encode)))(params) for encode in (ours, WAYS[way])]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3), *gradients)


def test_leading_axes_are_kept():
    params, seen = initial(CONFIG), cells(12)
    flat = view.encode(params, CONFIG, seen, jnp.float32)
    nested = view.encode(params, CONFIG, seen.reshape(3, 4, 5, 5), jnp.float32)
    np.testing.assert_array_equal(nested.reshape(12, -1), flat)


def test_a_colour_matters_and_so_does_its_place():
    params, seen = initial(CONFIG), cells(1)
    encode = lambda seen: np.asarray(view.encode(params, CONFIG, seen, jnp.float32))  # noqa: E731
    recoloured = seen.at[0, 2, 2].set(seen[0, 2, 2] ^ 1)
    assert not np.allclose(encode(seen), encode(recoloured))
    assert not np.allclose(encode(seen), encode(jnp.flip(seen, 1)))
