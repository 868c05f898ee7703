"""From the cells in sight to features, arranged as matrix products.

A cell is a byte, `8 * kind + colour`; its two embeddings are concatenated. On CPUs the gradients of lookups
(scatter) and of convolutions are many times slower than the same maths as products, so

- the embedding is folded into the first layer: a cell is a row of bits (its kind, its colour) and the first kernel is
  multiplied by the embedding tables beforehand;
- a 2x2 convolution is a product of concatenated 2x2 patches with the kernel;
- samples go through the convolutions a few hundred at a time and are computed again in the backward pass: the patches
  of a whole minibatch (several hundred MB) would wait for memory, a few hundred samples stay in the cache.
"""

from dataclasses import dataclass
from itertools import pairwise

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Float32, UInt8

from atlas.config import NetworkConfig
from atlas.struct import Struct
from atlas.student.layers import Dense, Floats, Normals, dense, in_chunks, linear, orthogonal, plus, product, table

GAIN = 2.0**0.5
CHUNK = 256
"""Samples that go through the convolutions at once on a CPU."""


@dataclass(frozen=True)
class Cells:
    """What a view is made of. A student knows no domain, so it is told."""

    rows: int
    cols: int
    kinds: int
    colours: int


class View(Struct):
    """Parameters of the view encoder."""

    kinds: Float32[Array, "kinds embedding"]
    colours: Float32[Array, "colours embedding"]
    layers: tuple[Dense, ...]
    """Three convolutions (kernels of 2 * 2 * inputs rows), or one layer over the whole view."""


def init(normals: Normals, config: NetworkConfig, cells: Cells) -> View:
    """Random parameters."""
    widths = (2 * config.embedding, *config.filters)
    shapes = [(4 * inputs, outputs) for inputs, outputs in pairwise(widths)]
    if config.view == "dense":
        shapes = [(cells.rows * cells.cols * 2 * config.embedding, config.view_width)]
    return View(
        kinds=table(normals, cells.kinds, config.embedding),
        colours=table(normals, cells.colours, config.embedding),
        layers=tuple(linear(orthogonal(normals, GAIN, *shape)) for shape in shapes),
    )


def width(config: NetworkConfig, cells: Cells) -> int:
    """How many features a view has."""
    return config.view_width if config.view == "dense" else cells.rows * cells.cols * config.filters[-1]


def encode(
    params: View, config: NetworkConfig, view: UInt8[Array, "*lead rows cols"], dtype: DTypeLike
) -> Float32[Array, "*lead features"]:
    """Features of views."""
    *lead, rows, cols = view.shape
    flat = view.reshape(-1, rows, cols)
    if config.view == "dense":
        features = _encode_dense(params, flat, dtype)
    else:
        features = in_chunks(jax.checkpoint(lambda part: _convolve(params, part, dtype)), flat, CHUNK)
    return features.reshape(*lead, -1)


def _bits(
    view: UInt8[Array, "samples rows cols"], kinds: int, colours: int
) -> Float32[Array, "samples rows cols bits"]:
    """Each cell as the one-hot of its kind beside the one-hot of its colour."""
    kind, colour = view >> 3, view & 7
    parts = [
        value[..., None] == jnp.arange(count, dtype=jnp.uint8)[None, None, None]
        for value, count in ((kind, kinds), (colour, colours))
    ]
    return jnp.concatenate(parts, -1).astype(jnp.float32)


def _folded(params: View) -> Floats:
    """The first kernel with the embeddings multiplied in: its rows are bits of cells instead of embeddings."""
    embedding, outputs = params.kinds.shape[1], params.layers[0].kernel.shape[1]
    by_cell = params.layers[0].kernel.reshape(-1, 2, embedding, outputs)
    parts = [
        jnp.einsum("ke,ceo->cko", codes, by_cell[:, part]) for part, codes in enumerate((params.kinds, params.colours))
    ]
    return jnp.concatenate(parts, 1).reshape(-1, outputs)


def _encode_dense(params: View, view: UInt8[Array, "samples rows cols"], dtype: DTypeLike) -> Floats:
    bits = _bits(view, len(params.kinds), len(params.colours)).reshape(len(view), -1)
    return jax.nn.relu(plus(product(bits, _folded(params), dtype), params.layers[0].bias))


def _convolve(params: View, view: UInt8[Array, "samples rows cols"], dtype: DTypeLike) -> Floats:
    first = params.layers[0].replace(kernel=_folded(params))
    x = _bits(view, len(params.kinds), len(params.colours))
    for layer in (first, *params.layers[1:]):
        x = jax.nn.relu(dense(layer, _patches(x), dtype))
    return x.reshape(len(view), -1)


def _patches(x: Float32[Array, "samples rows cols width"]) -> Float32[Array, "samples rows cols patch"]:
    """Each cell with its neighbours to the right, below and below right; zeros beyond the edge (SAME padding)."""
    _, rows, cols, _ = x.shape
    padded = jnp.pad(x, ((0, 0), (0, 1), (0, 1), (0, 0)))
    corners = [padded[:, down : down + rows, right : right + cols] for down in (0, 1) for right in (0, 1)]
    return jnp.concatenate(corners, -1)
