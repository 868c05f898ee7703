"""Encoders: the view as matrix products, the task as a graph network with one embedding a state."""

from dataclasses import dataclass
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Float32, Int, Int16, Key, UInt8

from atlas.config import NetworkConfig
from atlas.errors import AtlasError
from atlas.struct import Struct
from atlas.student.layers import (
    Dense,
    Floats,
    Norm,
    Normals,
    dense,
    in_chunks,
    lecun,
    linear,
    norm,
    normalise,
    orthogonal,
    plus,
    product,
    table,
)
from atlas.types import Graph
from atlas.vocabulary import REJECTED

# The view
#
# A cell is a byte with one or several fields (in Minigrid kind and colour), whose embeddings are concatenated. On CPUs
# the gradients of lookups (scatter) and of convolutions are many times slower than the same maths as products, so
#
# - the embedding is folded into the first layer: a cell is a row of bits (one-hot codes of its fields) and the first
#   kernel is multiplied by the embedding tables beforehand;
# - a 2x2 convolution is a product of concatenated 2x2 patches with the kernel;
# - samples go through the convolutions a few hundred at a time and are recomputed in the backward pass: the patches of
#   a whole minibatch (several hundred MB) would wait for memory, a few hundred samples stay in the cache.

GAIN = 2.0**0.5
CHUNK = 256
"""Samples a chunk of the convolutions on a CPU."""


@dataclass(frozen=True)
class Cells:
    """Shape of a view and fields of a cell: all that a student knows of a domain."""

    rows: int
    cols: int
    fields: tuple[int, ...]
    """Number of values of each field of a cell's byte; the last field has the lowest bits."""


class View(Struct):
    """Parameters of the view encoder."""

    embeddings: tuple[Float32[Array, "_values embedding"], ...]
    """One table for each field of a cell."""
    layers: tuple[Dense, ...]
    """Three convolutions (kernels of 2 * 2 * inputs rows), or one layer over the whole view."""
    queries: "Queries | None" = None


class Queries(Struct):
    """What the task asks about each cell of a view."""

    ask: Dense
    """From the embedding of the task state: for each query a weight of every code of a cell, and a bias."""
    answers: Float32[Array, "cells_and_queries width"]
    """Takes the answers of all cells into the dense layer."""


def init_view(normals: Normals, config: NetworkConfig, cells: Cells) -> View:
    """Random parameters."""
    inside = len(cells.fields) * config.embedding
    widths = (inside, *config.filters)
    shapes = [(4 * inputs, outputs) for inputs, outputs in pairwise(widths)]
    if config.view == "dense":
        shapes = [(cells.rows * cells.cols * inside, config.view_width)]
    return View(
        embeddings=tuple(table(normals, values, config.embedding) for values in cells.fields),
        layers=tuple(linear(orthogonal(normals, GAIN, *shape)) for shape in shapes),
        queries=_init_queries(normals, config, cells) if config.queries else None,
    )


def _init_queries(normals: Normals, config: NetworkConfig, cells: Cells) -> Queries:
    asked = config.queries * (sum(cells.fields) + 1)
    answers = orthogonal(normals, GAIN, cells.rows * cells.cols * config.queries, config.view_width)
    return Queries(ask=linear(lecun(normals, config.task_width, asked)), answers=answers)


def width(config: NetworkConfig, cells: Cells) -> int:
    """Features of a view."""
    return config.view_width if config.view == "dense" else cells.rows * cells.cols * config.filters[-1]


def encode_view(
    params: View,
    config: NetworkConfig,
    view: UInt8[Array, "*lead rows cols"],
    task: Float32[Array, "*lead width"],
    dtype: DTypeLike,
) -> Float32[Array, "*lead features"]:
    """Features of views, seen with the task in mind if it may ask about their cells."""
    *lead, rows, cols = view.shape
    flat = view.reshape(-1, rows, cols)
    if config.view == "dense":
        features = _encode_dense(params, flat, task.reshape(len(flat), -1), dtype)
    else:
        features = in_chunks(jax.checkpoint(lambda part: _convolve(params, part, dtype)), flat, CHUNK)
    return features.reshape(*lead, -1)


def cell_bits(
    view: UInt8[Array, "samples rows cols"], fields: tuple[int, ...]
) -> Float32[Array, "samples rows cols bits"]:
    """Each cell as the one-hot codes of its fields, side by side."""
    parts, shift = [], 0
    for values in reversed(fields):
        width = (values - 1).bit_length()
        value = (view >> shift) & ((1 << width) - 1)
        parts.append(value[..., None] == jnp.arange(values, dtype=jnp.uint8)[None, None, None])
        shift += width
    return jnp.concatenate(parts[::-1], -1).astype(jnp.float32)


def _folded(params: View) -> Floats:
    """The first kernel with the embeddings multiplied in: one row a bit of a cell."""
    embedding, outputs = params.embeddings[0].shape[1], params.layers[0].kernel.shape[1]
    by_cell = params.layers[0].kernel.reshape(-1, len(params.embeddings), embedding, outputs)
    parts = [jnp.einsum("ke,ceo->cko", codes, by_cell[:, part]) for part, codes in enumerate(params.embeddings)]
    return jnp.concatenate(parts, 1).reshape(-1, outputs)


def _encode_dense(
    params: View, view: UInt8[Array, "samples rows cols"], task: Float32[Array, "samples width"], dtype: DTypeLike
) -> Float32[Array, "samples features"]:
    bits = cell_bits(view, tuple(map(len, params.embeddings)))
    features = plus(product(bits.reshape(len(view), -1), _folded(params), dtype), params.layers[0].bias)
    if params.queries is not None:
        answers = _answers(params.queries, bits.reshape(len(view), -1, bits.shape[-1]), task, dtype)
        features = features + product(answers.reshape(len(view), -1), params.queries.answers, dtype)
    return jax.nn.relu(features)


def _answers(
    params: Queries,
    cells: Float32[Array, "samples cells bits"],
    task: Float32[Array, "samples width"],
    dtype: DTypeLike,
) -> Float32[Array, "samples queries cells"]:
    """How well each cell fits each query of the task; 0 where it does not."""
    asked = dense(params.ask, task, dtype).reshape(len(cells), -1, cells.shape[-1] + 1)
    fits = jnp.einsum("sqb,scb->sqc", asked[..., :-1], cells)
    return jax.nn.relu(fits + asked[..., -1:])


def _convolve(params: View, view: UInt8[Array, "samples rows cols"], dtype: DTypeLike) -> Floats:
    first = params.layers[0].replace(kernel=_folded(params))
    x = cell_bits(view, tuple(map(len, params.embeddings)))
    for layer in (first, *params.layers[1:]):
        x = jax.nn.relu(dense(layer, _patches(x), dtype))
    return x.reshape(len(view), -1)


def _patches(x: Float32[Array, "samples rows cols width"]) -> Float32[Array, "samples rows cols patch"]:
    """Each cell with its neighbours to the right, below and below right; zeros beyond the edge (SAME padding)."""
    _, rows, cols, _ = x.shape
    padded = jnp.pad(x, ((0, 0), (0, 1), (0, 1), (0, 0)))
    corners = [padded[:, down : down + rows, right : right + cols] for down in (0, 1) for right in (0, 1)]
    return jnp.concatenate(corners, -1)


# The task
#
# The embedding depends on the task and the parameters, not on time: it is computed once a rollout and once a minibatch
# as a table with a row for each node; a step only looks up the row of its task state.
#
# Edges are reversed: a node gathers from the nodes its edges lead to, so it knows what lies ahead. Two sums are done
# before any parameter is used, because they are linear: the literals of an edge are added up as codes, and a node's
# mean over its edges is a product with the matrix of edge counts.
#
# Hierarchies are encoded through their calls: the graph holds the states of all machines, a call leads to the state
# after it and into the callee, and the embedding of a stack is the sum of its rows. The flat form would be exact too,
# but it can be exponentially larger, and machines that are called twice would be learnt twice.

REJECTING = 0.1**0.5
"""Scale, at the start, of what is added to rejecting nodes."""
INDEX_STATES = 16
"""Most states that the *index* ablation can tell apart."""


class Structured(Struct):
    """Literals by their features: the objects, and the location."""

    objects: Float32[Array, "codes edge"]
    location: Float32[Array, "edge_and_places edge"]
    """Applied to the embedded objects concatenated with the location."""


class Bound(Structured):
    """Literals by their features, each object embedded on its own before they are added up: which colour belongs to
    which shape is kept."""


class Independent(Struct):
    """An embedding for each literal: negative ones, true, positive ones."""

    rows: Float32[Array, "literals edge"]


class Layer(Struct):
    """One round of message passing."""

    self: Dense
    neighbours: Float32[Array, "width width"]
    edges: Float32[Array, "edge width"]
    """Together with `neighbours`, the kernel on the concatenation of neighbour and edge."""
    norm: Norm


class GraphEncoder(Struct):
    """Parameters of the task encoder."""

    literals: Structured | Bound | Independent
    edge: Float32[Array, "edge edge"]
    """Applied to the sum of an edge's literals."""
    rejecting: Float32[Array, "width"]
    """Added to rejecting nodes: they have no edges, and would look like accepting ones."""
    layers: tuple[Layer, ...]
    output: Dense


class IndexEncoder(Struct):
    """Ablation: an embedding of the number of the state, whatever the task."""

    rows: Dense


Encoder = GraphEncoder | IndexEncoder


def init_task(normals: Normals, config: NetworkConfig, features: np.ndarray) -> Encoder:
    """Random parameters. `features` of the propositions are groups of bits, the location first."""
    width, edge = config.task_width, config.edge_width
    if config.task == "index":
        return IndexEncoder(rows=linear(lecun(normals, INDEX_STATES, width)))
    return GraphEncoder(
        literals=_init_literals(normals, config, features),
        edge=lecun(normals, edge, edge),
        rejecting=REJECTING * normals.take(width),
        layers=tuple(_init_layer(normals, width, edge) for _ in range(config.graph_layers)),
        output=linear(lecun(normals, width, width)),
    )


def _init_literals(normals: Normals, config: NetworkConfig, features: np.ndarray) -> Structured | Bound | Independent:
    props, _, codes = features.shape
    edge = config.edge_width
    if config.literals == "independent":
        return Independent(rows=table(normals, 2 * props + 1, edge))
    kind = Bound if config.literals == "bound" else Structured
    return kind(objects=lecun(normals, codes, edge), location=lecun(normals, edge + _places(features), edge))


def _init_layer(normals: Normals, width: int, edge: int) -> Layer:
    message = lecun(normals, width + edge, width)
    return Layer(
        self=linear(lecun(normals, width, width)),
        neighbours=message[:width],
        edges=message[width:],
        norm=norm(width),
    )


def _places(features: np.ndarray) -> int:
    """Codes of the location; the rest of its row is padding."""
    return int(np.flatnonzero(features[:, 0].any(0)).max()) + 1


def noise(key: Key[Array, ""], nodes: int, config: NetworkConfig) -> Float32[Array, "{nodes} width"]:
    """The random features that tell nodes apart."""
    return config.node_noise**0.5 * jax.random.normal(key, (nodes, config.task_width))


def encode_task(
    params: Encoder, config: NetworkConfig, features: np.ndarray, key: Key[Array, ""], graph: Graph, dtype: DTypeLike
) -> Float32[Array, "nodes width"]:
    """The embedding of every node of one task. The key fixes the random node features.

    A node gathers the mean over its edges, each a label and the node it leads to. Of a linear function of these nobody
    can tell which label leads where: with `edge` messages each edge is rectified before the mean.
    """
    nodes = graph.target.shape[0]
    if isinstance(params, IndexEncoder):
        return _numbered(params, nodes, dtype)
    x = noise(key, nodes, config)
    x = x + jnp.where((graph.outcome == REJECTED)[:, None], params.rejecting[None], 0.0)
    weight, edges = _weights(graph.target), _edges(params, features, graph, dtype)
    if config.messages == "mean":
        leads_to, mean = _adjacency(graph.target), product((edges * weight).sum(1), params.edge, dtype)
    else:
        leads_to, edges = jax.nn.one_hot(graph.target, nodes), product(edges, params.edge, dtype)
    for layer in params.layers:
        if config.messages == "mean":
            gathered = product(product(leads_to, x, dtype), layer.neighbours, dtype) + product(mean, layer.edges, dtype)
        else:
            ahead = product(product(leads_to, x, dtype), layer.neighbours, dtype)
            gathered = (jax.nn.relu(ahead + product(edges, layer.edges, dtype)) * weight).sum(1)
        x = jax.nn.relu(normalise(layer.norm, dense(layer.self, x, dtype) + gathered))
    return dense(params.output, x, dtype)


def _numbered(params: IndexEncoder, nodes: int, dtype: DTypeLike) -> Float32[Array, "nodes width"]:
    if nodes > INDEX_STATES:
        raise AtlasError(
            f"the task has {nodes} states, but the index encoder tells at most {INDEX_STATES} apart: "
            "use task = graph, or smaller tasks"
        )
    return dense(params.rows, jnp.eye(INDEX_STATES)[:nodes], dtype)


def _adjacency(target: Int[Array, "nodes edges"]) -> Float32[Array, "nodes nodes"]:
    """The share of a node's edges that lead to each node; zeros for nodes without edges."""
    nodes = target.shape[0]
    count = jax.nn.one_hot(target, nodes).sum(1)  # an unused slot, -1, is a row of zeros
    return count / jnp.maximum(count.sum(1, keepdims=True), 1.0)


def _weights(target: Int[Array, "nodes edges"]) -> Float32[Array, "nodes edges 1"]:
    """The share of each edge among those that leave a node; 0 for unused slots."""
    used = (target >= 0).astype(jnp.float32)
    return (used / jnp.maximum(used.sum(1, keepdims=True), 1.0))[:, :, None]


def _edges(
    params: GraphEncoder, features: np.ndarray, graph: Graph, dtype: DTypeLike
) -> Float32[Array, "nodes edges edge"]:
    """The embedded literals of each edge, summed."""
    if isinstance(params.literals, Independent):
        return _independent(params.literals, graph.guard)
    if isinstance(params.literals, Bound):
        return _bound(params.literals, features, graph.guard, dtype)
    return _structured(params.literals, features, graph.guard, dtype)


def _structured(
    params: Structured, features: np.ndarray, guard: Int16[Array, "nodes edges literals"], dtype: DTypeLike
) -> Float32[Array, "nodes edges edge"]:
    """The sum of the signed features of an edge's literals, embedded; summed first, because the embedding is linear."""
    objects, places = jnp.asarray(features[:, 1:].sum(1)), jnp.asarray(features[:, 0, : _places(features)])
    prop, sign = jnp.maximum(jnp.abs(guard) - 1, 0), jnp.sign(guard).astype(jnp.float32)[..., None]
    summed_objects, summed_places = (sign * objects[prop]).sum(2), (sign * places[prop]).sum(2)
    both = jnp.concatenate([product(summed_objects, params.objects, dtype), summed_places], -1)
    return product(both, params.location, dtype)


def _bound(
    params: Bound, features: np.ndarray, guard: Int16[Array, "nodes edges literals"], dtype: DTypeLike
) -> Float32[Array, "nodes edges edge"]:
    """The sum of an edge's embedded literals, each with its sign; unused object groups are zeros, and stay so."""
    objects, places = jnp.asarray(features[:, 1:]), jnp.asarray(features[:, 0, : _places(features)])
    prop, sign = jnp.maximum(jnp.abs(guard) - 1, 0), jnp.sign(guard).astype(jnp.float32)[..., None]
    embedded = jax.nn.relu(product(objects[prop], params.objects, dtype)).sum(-2)
    both = jnp.concatenate([(sign * embedded).sum(2), (sign * places[prop]).sum(2)], -1)
    return product(both, params.location, dtype)


def _independent(
    params: Independent, guard: Int16[Array, "nodes edges literals"]
) -> Float32[Array, "nodes edges edge"]:
    """The sum of the literals' embeddings; for an empty guard that of *true*."""
    true = params.rows.shape[0] // 2
    rows = jnp.where((guard != 0)[..., None], params.rows[true + guard.astype(jnp.int32)], 0.0).sum(2)
    return jnp.where(jnp.all(guard == 0, -1)[..., None], params.rows[true][None, None], rows)


def look_up(rows: Float32[Array, "nodes width"], at: Int[Array, "*lead depth"]) -> Float32[Array, "*lead width"]:
    """The sum of some rows of a table; -1 is no row."""
    return jnp.where((at >= 0)[..., None], rows[at], 0.0).sum(-2)
