"""Layers as plain data: parameters are structs, layers are functions, and every product goes through `product`."""

import math
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Float, Float32, Key, Shaped

from atlas.struct import Struct

Floats = Float32[Array, "..."]
Made = TypeVar("Made")
LONG = 2048
"""Samples of a long product that are multiplied at once on a CPU."""


class Dense(Struct):
    """A linear map and a bias."""

    kernel: Float32[Array, "inputs outputs"]
    bias: Float32[Array, "outputs"]


class Norm(Struct):
    """Scale and shift after layer normalisation."""

    scale: Float32[Array, "width"]
    shift: Float32[Array, "width"]


class Normals:
    """Normal numbers handed out in order, so that one draw serves a whole network.

    XLA takes longer to compile a draw than to make it, and a network would need thirty.
    """

    def __init__(self, numbers: Float32[Array, "count"] | None = None) -> None:
        """Without numbers it hands out zeros and only counts."""
        self.numbers, self.used = numbers, 0

    def take(self, *shape: int) -> Floats:
        """The next ones, in some shape."""
        count = math.prod(shape)
        self.used += count
        if self.numbers is None:
            return jnp.zeros(shape)
        return self.numbers[self.used - count : self.used].reshape(shape)


def initialise(key: Key[Array, ""], make: Callable[[Normals], Made]) -> Made:
    """What `make` makes of normal numbers."""
    counter = Normals()
    jax.eval_shape(lambda: make(counter))
    return make(Normals(jax.random.normal(key, (counter.used,))))


def lecun(normals: Normals, inputs: int, outputs: int) -> Float32[Array, "{inputs} {outputs}"]:
    """A linear map that keeps the variance of its inputs."""
    return normals.take(inputs, outputs) / math.sqrt(inputs)


def orthogonal(normals: Normals, scale: float, inputs: int, outputs: int) -> Float32[Array, "{inputs} {outputs}"]:
    """A linear map with orthogonal rows or columns, times a scale."""
    tall = normals.take(max(inputs, outputs), min(inputs, outputs))
    q, r = jnp.linalg.qr(tall)
    q = scale * q * jnp.sign(jnp.diagonal(r))[None]  # without the signs some rotations would be likelier than others
    return q if inputs >= outputs else q.T


def table(normals: Normals, rows: int, width: int) -> Float32[Array, "{rows} {width}"]:
    """An embedding whose rows have about unit length."""
    return normals.take(rows, width) / math.sqrt(width)


def linear(kernel: Float32[Array, "inputs outputs"]) -> Dense:
    """A layer whose bias is zero."""
    return Dense(kernel=kernel, bias=jnp.zeros(kernel.shape[1]))


def norm(width: int) -> Norm:
    """Layer normalisation that changes nothing more at first."""
    return Norm(scale=jnp.ones(width), shift=jnp.zeros(width))


def product(x: Float[Array, "*lead inputs"], kernel: Float[Array, "inputs outputs"], dtype: DTypeLike) -> Floats:
    """`x @ kernel`, multiplied in `dtype` and summed in float32."""
    return jnp.dot(x.astype(dtype), kernel.astype(dtype), preferred_element_type=jnp.float32)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def long_product(
    x: Float32[Array, "samples inputs"], kernel: Float32[Array, "inputs outputs"], dtype: DTypeLike
) -> Float32[Array, "samples outputs"]:
    """`product` for many thousand samples: faster on a CPU in parts that fit the cache.

    The gradient of the kernel is one product over all samples nevertheless: adding up parts of it would cost more.
    """
    return in_chunks(lambda part: product(part, kernel, dtype), x, LONG)


def _long_product_forward(x: Floats, kernel: Floats, dtype: DTypeLike) -> tuple[Floats, tuple[Floats, Floats]]:
    return long_product(x, kernel, dtype), (x, kernel)


def _long_product_backward(dtype: DTypeLike, saved: tuple[Floats, Floats], given: Floats) -> tuple[Floats, Floats]:
    x, kernel = saved
    return in_chunks(lambda part: product(part, kernel.T, dtype), given, LONG), product(x.T, given, dtype)


long_product.defvjp(_long_product_forward, _long_product_backward)


def in_chunks(function: Callable[[Array], Floats], x: Shaped[Array, "samples ..."], limit: int) -> Floats:
    """Apply a function to at most `limit` samples at a time on a CPU; accelerators take all at once."""
    samples = len(x)
    chunk = max(size for size in range(1, limit + 1) if samples % size == 0)
    if samples <= limit or chunk < limit // 4 or jax.default_backend() != "cpu":
        return function(x)
    parts = jax.lax.map(function, x.reshape(samples // chunk, chunk, *x.shape[1:]))
    return parts.reshape(samples, *parts.shape[2:])


def plus(x: Float32[Array, "*lead width"], bias: Float32[Array, "width"]) -> Float32[Array, "*lead width"]:
    """Add a bias to the last axis."""
    return x + jnp.broadcast_to(bias, x.shape)


def dense(layer: Dense, x: Float[Array, "*lead inputs"], dtype: DTypeLike) -> Floats:
    """Linear map and bias."""
    return plus(product(x, layer.kernel, dtype), layer.bias)


def normalise(layer: Norm, x: Float32[Array, "*lead width"]) -> Float32[Array, "*lead width"]:
    """Layer normalisation over the last axis."""
    standard = jax.nn.standardize(x, axis=-1, epsilon=1e-6)
    return plus(standard * jnp.broadcast_to(layer.scale, x.shape), layer.shift)
