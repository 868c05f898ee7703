"""A gated recurrent unit over whole sequences.

Inputs are projected for all times at once, so only the recurrent product is left in the scan. The gradient is written
by hand for one reason: differentiating the scan adds a whole kernel's gradient at every step, while here the backward
scan carries nothing but the gradient of the hidden state, and the kernel's gradient is one product over all times.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Bool, Float32

from atlas.struct import Struct
from atlas.student.layers import Dense, Floats, Normals, lecun, linear, long_product, orthogonal, plus, product


class GRU(Struct):
    """Gates are side by side: reset, update, candidate."""

    inputs: Dense
    recurrent: Float32[Array, "width gates"]
    bias: Float32[Array, "width"]
    """Of the recurrent part of the candidate, inside the reset gate."""


def init(normals: Normals, inputs: int, width: int) -> GRU:
    """Orthogonal recurrent kernels, one a gate; biases start at zero."""
    return GRU(
        inputs=linear(lecun(normals, inputs, 3 * width)),
        recurrent=jnp.concatenate([orthogonal(normals, 1.0, width, width) for _ in range(3)], -1),
        bias=jnp.zeros(width),
    )


def project(params: GRU, x: Float32[Array, "*lead inputs"], dtype: DTypeLike) -> Float32[Array, "*lead gates"]:
    """What the inputs contribute to the gates."""
    flat = long_product(x.reshape(-1, x.shape[-1]), params.inputs.kernel, dtype)
    return plus(flat, params.inputs.bias).reshape(*x.shape[:-1], -1)


def step(
    params: GRU,
    projected: Float32[Array, "envs gates"],
    start: Bool[Array, "envs"],
    hidden: Float32[Array, "envs width"],
    dtype: DTypeLike,
) -> Float32[Array, "envs width"]:
    """The next hidden state; an episode starts from zeros."""
    split = tuple(jnp.split(projected, 3, -1))
    return _gates(params.recurrent, params.bias, split, _forget(start, hidden), dtype)[0]


def unroll(
    params: GRU,
    projected: Float32[Array, "time envs gates"],
    start: Bool[Array, "time envs"],
    hidden: Float32[Array, "envs width"],
    dtype: DTypeLike,
) -> Float32[Array, "time envs width"]:
    """The hidden state after each step."""
    # Split before the scan: XLA's loops over a slice of a slice are several times slower on CPUs.
    split = tuple(jnp.split(projected, 3, -1))
    return _unroll(params.recurrent, params.bias, split, start, hidden, dtype)


Bools = Bool[Array, "..."]
Inputs = tuple[Floats, ...]
"""What the inputs contribute to each gate."""
Gates = tuple[Floats, Floats, Floats, Floats]
"""Reset, update, candidate, and the recurrent part of the candidate."""
_Saved = tuple[Floats, Bools, Floats, Floats, Gates]


def _forget(start: Bool[Array, "*lead"], hidden: Float32[Array, "*lead width"]) -> Float32[Array, "*lead width"]:
    return jnp.where(start[..., None], 0.0, hidden)


def _gates(recurrent: Floats, bias: Floats, inputs: Inputs, before: Floats, dtype: DTypeLike) -> tuple[Floats, Gates]:
    """The hidden state after a step, and what its gradient needs."""
    to_reset, to_update, to_new = jnp.split(product(before, recurrent, dtype), 3, -1)
    recalled = plus(to_new, bias)
    reset = jax.nn.sigmoid(inputs[0] + to_reset)
    update = jax.nn.sigmoid(inputs[1] + to_update)
    new = jnp.tanh(inputs[2] + reset * recalled)
    return (1.0 - update) * new + update * before, (reset, update, new, recalled)


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def _unroll(recurrent: Floats, bias: Floats, inputs: Inputs, start: Bools, hidden: Floats, dtype: DTypeLike) -> Floats:
    return _unroll_forward(recurrent, bias, inputs, start, hidden, dtype)[0]


def _unroll_forward(
    recurrent: Floats, bias: Floats, inputs: Inputs, start: Bools, hidden: Floats, dtype: DTypeLike
) -> tuple[Floats, _Saved]:
    def forward(hidden: Floats, now: tuple[Inputs, Bools]) -> tuple[Floats, tuple[Floats, Gates]]:
        after, gates = _gates(recurrent, bias, now[0], _forget(now[1], hidden), dtype)
        return after, (after, gates)

    after, gates = jax.lax.scan(forward, hidden, (inputs, start))[1]
    return after, (recurrent, start, hidden, after, gates)


def _unroll_backward(dtype: DTypeLike, saved: _Saved, given: Floats) -> tuple[Floats, Floats, Inputs, None, Floats]:
    """With `grad` the gradient of a hidden state, each gate's gradient is `grad` times a factor known beforehand."""
    recurrent, start, hidden, after, (reset, update, new, recalled) = saved
    before = _forget(start, jnp.concatenate([hidden[None], after[:-1]]))
    to_new = (1.0 - update) * (1.0 - new * new)
    factors = (to_new * recalled * reset * (1.0 - reset), (before - new) * update * (1.0 - update), to_new * reset)

    transposed = recurrent.T

    def backward(later: Floats, now: tuple[Floats, Inputs, Floats, Bools]) -> tuple[Floats, Floats]:
        given, factors, update, start = now
        grad = later + given
        gates = jnp.concatenate([grad * factor for factor in factors], -1)
        return _forget(start, grad * update + product(gates, transposed, dtype)), grad

    first, grad = jax.lax.scan(backward, jnp.zeros_like(hidden), (given, factors, update, start), reverse=True)
    gates = [grad * factor for factor in factors]
    width = hidden.shape[-1]
    kernel = product(before.reshape(-1, width).T, jnp.concatenate(gates, -1).reshape(-1, 3 * width), dtype)
    return kernel, gates[2].sum((0, 1)), (gates[0], gates[1], grad * to_new), None, first


_unroll.defvjp(_unroll_forward, _unroll_backward)
