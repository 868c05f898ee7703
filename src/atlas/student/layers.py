"""Layers and the GRU. Parameters are structs, layers are functions, and every product goes through `product`."""

import math
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Bool, Float, Float32, Key, Shaped

from atlas.struct import Struct

Floats = Float32[Array, "..."]
Made = TypeVar("Made")
LONG = 2048
"""Samples a chunk of a long product on a CPU."""


class Dense(Struct):
    """A linear map and a bias."""

    kernel: Float32[Array, "inputs outputs"]
    bias: Float32[Array, "outputs"]


class Norm(Struct):
    """Scale and shift of layer normalisation."""

    scale: Float32[Array, "width"]
    shift: Float32[Array, "width"]


class Normals:
    """Normal random numbers handed out in order, so that a whole network is initialised by one call of the generator.

    Compiling such a call takes longer than running it, and a network would need thirty.
    """

    def __init__(self, numbers: Float32[Array, "count"] | None = None) -> None:
        """Without numbers it hands out zeros and only counts."""
        self.numbers, self.used = numbers, 0

    def take(self, *shape: int) -> Floats:
        """The next numbers, in this shape."""
        count = math.prod(shape)
        self.used += count
        if self.numbers is None:
            return jnp.zeros(shape)
        return self.numbers[self.used - count : self.used].reshape(shape)


def initialise(key: Key[Array, ""], make: Callable[[Normals], Made]) -> Made:
    """Call `make` with as many normal numbers as it takes."""
    counter = Normals()
    jax.eval_shape(lambda: make(counter))
    return make(Normals(jax.random.normal(key, (counter.used,))))


def lecun(normals: Normals, inputs: int, outputs: int) -> Float32[Array, "{inputs} {outputs}"]:
    """A kernel that keeps the variance of its inputs."""
    return normals.take(inputs, outputs) / math.sqrt(inputs)


def orthogonal(normals: Normals, scale: float, inputs: int, outputs: int) -> Float32[Array, "{inputs} {outputs}"]:
    """A kernel with orthogonal rows or columns, times a scale."""
    tall = normals.take(max(inputs, outputs), min(inputs, outputs))
    q, r = jnp.linalg.qr(tall)
    q = scale * q * jnp.sign(jnp.diagonal(r))[None]  # without the signs it would not be uniform
    return q if inputs >= outputs else q.T


def table(normals: Normals, rows: int, width: int) -> Float32[Array, "{rows} {width}"]:
    """An embedding table; rows have about unit length."""
    return normals.take(rows, width) / math.sqrt(width)


def linear(kernel: Float32[Array, "inputs outputs"]) -> Dense:
    """A layer with zero bias."""
    return Dense(kernel=kernel, bias=jnp.zeros(kernel.shape[1]))


def norm(width: int) -> Norm:
    """Scale 1, shift 0."""
    return Norm(scale=jnp.ones(width), shift=jnp.zeros(width))


def product(x: Float[Array, "*lead inputs"], kernel: Float[Array, "inputs outputs"], dtype: DTypeLike) -> Floats:
    """`x @ kernel`, multiplied in `dtype` and summed in float32. Leading axes are made one: over several the gradient
    of the kernel is half as fast on CPUs."""
    flat, kernel = x.reshape(-1, x.shape[-1]).astype(dtype), kernel.astype(dtype)
    result = jnp.dot(flat, kernel, preferred_element_type=jnp.float32)
    return result.reshape(*x.shape[:-1], kernel.shape[-1])


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def long_product(
    x: Float32[Array, "samples inputs"], kernel: Float32[Array, "inputs outputs"], dtype: DTypeLike
) -> Float32[Array, "samples outputs"]:
    """`product` for many thousand samples: on a CPU, chunks that fit the cache are faster.

    The gradient of the kernel is still one product over all samples: adding up chunks of it would cost more.
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


# A gated recurrent unit over whole sequences.
#
# Inputs are projected for all times at once, so only the recurrent product is left in the scan. The gradient is written
# by hand for one reason: differentiating the scan adds a whole kernel's gradient at every step, while here the backward
# scan carries nothing but the gradient of the hidden state, and the kernel's gradient is one product over all times.


class GRU(Struct):
    """Gates are side by side: reset, update, candidate."""

    inputs: Dense
    recurrent: Float32[Array, "width gates"]
    bias: Float32[Array, "width"]
    """Of the recurrent part of the candidate, inside the reset gate."""


def init_gru(normals: Normals, inputs: int, width: int) -> GRU:
    """Orthogonal recurrent kernels, one a gate; biases start at zero."""
    return GRU(
        inputs=linear(lecun(normals, inputs, 3 * width)),
        recurrent=jnp.concatenate([orthogonal(normals, 1.0, width, width) for _ in range(3)], -1),
        bias=jnp.zeros(width),
    )


def gru_inputs(params: GRU, x: Float32[Array, "*lead inputs"], dtype: DTypeLike) -> Float32[Array, "*lead gates"]:
    """The inputs' part of the gates before their nonlinearity."""
    flat = long_product(x.reshape(-1, x.shape[-1]), params.inputs.kernel, dtype)
    return plus(flat, params.inputs.bias).reshape(*x.shape[:-1], -1)


def gru_step(
    params: GRU,
    projected: Float32[Array, "envs gates"],
    start: Bool[Array, "envs"],
    hidden: Float32[Array, "envs width"],
    dtype: DTypeLike,
) -> Float32[Array, "envs width"]:
    """The next hidden state; it is reset to zeros where an episode starts."""
    split = tuple(jnp.split(projected, 3, -1))
    return _gates(params.recurrent, params.bias, split, _reset(start, hidden), dtype)[0]


def gru_unroll(
    params: GRU,
    projected: Float32[Array, "time envs gates"],
    start: Bool[Array, "time envs"],
    hidden: Float32[Array, "envs width"],
    dtype: DTypeLike,
) -> Float32[Array, "time envs width"]:
    """The hidden state after each step."""
    return _unroll(params.recurrent, params.bias, projected, start, hidden, dtype)


Bools = Bool[Array, "..."]
Inputs = tuple[Floats, ...]
"""The inputs' part of each gate."""
Gates = tuple[Floats, Floats, Floats, Floats]
"""Reset, update, candidate, and the recurrent part of the candidate."""
_Saved = tuple[Floats, Bools, Floats, Floats, Gates]


def _reset(start: Bool[Array, "*lead"], hidden: Float32[Array, "*lead width"]) -> Float32[Array, "*lead width"]:
    return jnp.where(start[..., None], 0.0, hidden)


def _gates(recurrent: Floats, bias: Floats, inputs: Inputs, before: Floats, dtype: DTypeLike) -> tuple[Floats, Gates]:
    """The hidden state after a step, and the gates, which its gradient needs."""
    to_reset, to_update, to_new = jnp.split(product(before, recurrent, dtype), 3, -1)
    recalled = plus(to_new, bias)
    reset = jax.nn.sigmoid(inputs[0] + to_reset)
    update = jax.nn.sigmoid(inputs[1] + to_update)
    new = jnp.tanh(inputs[2] + reset * recalled)
    return (1.0 - update) * new + update * before, (reset, update, new, recalled)


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def _unroll(
    recurrent: Floats, bias: Floats, projected: Floats, start: Bools, hidden: Floats, dtype: DTypeLike
) -> Floats:
    return _unroll_forward(recurrent, bias, projected, start, hidden, dtype)[0]


def _unroll_forward(
    recurrent: Floats, bias: Floats, projected: Floats, start: Bools, hidden: Floats, dtype: DTypeLike
) -> tuple[Floats, _Saved]:
    # Split before the scan: XLA's loops over a slice of a slice are several times slower on CPUs.
    inputs = tuple(jnp.split(projected, 3, -1))

    def forward(hidden: Floats, now: tuple[Inputs, Bools]) -> tuple[Floats, tuple[Floats, Gates]]:
        after, gates = _gates(recurrent, bias, now[0], _reset(now[1], hidden), dtype)
        return after, (after, gates)

    after, gates = jax.lax.scan(forward, hidden, (inputs, start))[1]
    return after, (recurrent, start, hidden, after, gates)


def _unroll_backward(dtype: DTypeLike, saved: _Saved, given: Floats) -> tuple[Floats, Floats, Floats, None, Floats]:
    """With `grad` the gradient of a hidden state, each gate's gradient is `grad` times a factor known beforehand."""
    recurrent, start, hidden, after, (reset, update, new, recalled) = saved
    before = _reset(start, jnp.concatenate([hidden[None], after[:-1]]))
    to_new = (1.0 - update) * (1.0 - new * new)
    factors = (to_new * recalled * reset * (1.0 - reset), (before - new) * update * (1.0 - update), to_new * reset)

    transposed = recurrent.T

    def backward(later: Floats, now: tuple[Floats, Inputs, Floats, Bools]) -> tuple[Floats, tuple[Floats, Floats]]:
        given, factors, update, start = now
        grad = later + given
        gates = jnp.concatenate([grad * factor for factor in factors], -1)
        return _reset(start, grad * update + product(gates, transposed, dtype)), (gates, grad)

    first, (gates, grad) = jax.lax.scan(backward, jnp.zeros_like(hidden), (given, factors, update, start), reverse=True)
    width = hidden.shape[-1]
    kernel = product(before.reshape(-1, width).T, gates.reshape(-1, 3 * width), dtype)
    projected = jnp.concatenate([gates[..., : 2 * width], grad * to_new], -1)
    return kernel, gates[..., 2 * width :].sum((0, 1)), projected, None, first


_unroll.defvjp(_unroll_forward, _unroll_backward)
