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
from atlas.student.layers import Dense, Floats, Normals, dense, lecun, linear, orthogonal, plus, product

UNROLL = 4
"""Steps of the scan that are compiled together."""


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
    return dense(params.inputs, x, dtype)


def step(
    params: GRU,
    projected: Float32[Array, "envs gates"],
    start: Bool[Array, "envs"],
    hidden: Float32[Array, "envs width"],
    dtype: DTypeLike,
) -> Float32[Array, "envs width"]:
    """The next hidden state; an episode starts from zeros."""
    return _gates(params.recurrent, params.bias, projected, _forget(start, hidden), dtype)[0]


def unroll(
    params: GRU,
    projected: Float32[Array, "time envs gates"],
    start: Bool[Array, "time envs"],
    hidden: Float32[Array, "envs width"],
    dtype: DTypeLike,
) -> Float32[Array, "time envs width"]:
    """The hidden state after each step."""
    return _unroll(params.recurrent, params.bias, projected, start, hidden, dtype)


def _forget(start: Bool[Array, "*lead"], hidden: Float32[Array, "*lead width"]) -> Float32[Array, "*lead width"]:
    return jnp.where(start[..., None], 0.0, hidden)


Bools = Bool[Array, "..."]
Gates = tuple[Floats, Floats, Floats, Floats]
"""Reset, update, candidate, and the recurrent part of the candidate."""
_Saved = tuple[Floats, Bools, Floats, Floats, Gates]


def _gates(
    recurrent: Floats, bias: Floats, projected: Floats, before: Floats, dtype: DTypeLike
) -> tuple[Floats, Gates]:
    """The hidden state after a step, and what its gradient needs."""
    reset_in, update_in, new_in = jnp.split(projected, 3, -1)
    reset_rec, update_rec, new_rec = jnp.split(product(before, recurrent, dtype), 3, -1)
    recalled = plus(new_rec, bias)
    reset = jax.nn.sigmoid(reset_in + reset_rec)
    update = jax.nn.sigmoid(update_in + update_rec)
    new = jnp.tanh(new_in + reset * recalled)
    return (1.0 - update) * new + update * before, (reset, update, new, recalled)


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def _unroll(
    recurrent: Floats, bias: Floats, projected: Floats, start: Bools, hidden: Floats, dtype: DTypeLike
) -> Floats:
    def forward(hidden: Floats, inputs: tuple[Floats, Bools]) -> tuple[Floats, Floats]:
        after, _ = _gates(recurrent, bias, inputs[0], _forget(inputs[1], hidden), dtype)
        return after, after

    return jax.lax.scan(forward, hidden, (projected, start), unroll=UNROLL)[1]


def _unroll_forward(
    recurrent: Floats, bias: Floats, projected: Floats, start: Bools, hidden: Floats, dtype: DTypeLike
) -> tuple[Floats, _Saved]:
    def forward(hidden: Floats, inputs: tuple[Floats, Bools]) -> tuple[Floats, tuple[Floats, Gates]]:
        after, gates = _gates(recurrent, bias, inputs[0], _forget(inputs[1], hidden), dtype)
        return after, (after, gates)

    after, gates = jax.lax.scan(forward, hidden, (projected, start), unroll=UNROLL)[1]
    return after, (recurrent, start, hidden, after, gates)


def _unroll_backward(dtype: DTypeLike, saved: _Saved, given: Floats) -> tuple[Floats, Floats, Floats, None, Floats]:
    """With `grad` the gradient of a hidden state, each gate's gradient is `grad` times a factor known beforehand."""
    recurrent, start, hidden, after, (reset, update, new, recalled) = saved
    before = _forget(start, jnp.concatenate([hidden[None], after[:-1]]))
    to_new = (1.0 - update) * (1.0 - new * new)
    to_reset = to_new * recalled * reset * (1.0 - reset)
    to_update = (before - new) * update * (1.0 - update)
    factors = jnp.concatenate([to_reset, to_update, to_new * reset], -1)

    def backward(later: Floats, inputs: tuple[Floats, Floats, Floats, Bools]) -> tuple[Floats, Floats]:
        given, factors, update, start = inputs
        grad = later + given
        earlier = grad * update + product(jnp.tile(grad, 3) * factors, recurrent.T, dtype)
        return _forget(start, earlier), grad

    first, grad = jax.lax.scan(
        backward, jnp.zeros_like(hidden), (given, factors, update, start), reverse=True, unroll=UNROLL
    )
    gates = jnp.tile(grad, 3) * factors
    width = hidden.shape[-1]
    flat = (before.reshape(-1, width).T, gates.reshape(-1, 3 * width))
    projected = jnp.concatenate([gates[..., : 2 * width], grad * to_new], -1)
    return product(*flat, dtype), gates[..., 2 * width :].sum((0, 1)), projected, None, first


_unroll.defvjp(_unroll_forward, _unroll_backward)
