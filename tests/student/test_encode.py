"""The task encoder against a plain loop over nodes and edges, written from the paper's equations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import students
from atlas.errors import AtlasError
from atlas.student import encode
from atlas.student.layers import initialise
from atlas.types import Graph
from atlas.vocabulary import ACCEPTED, REJECTED, RUNNING

FEATURES = students.DOMAIN.vocabulary.features
PROPS = len(FEATURES)
NODES, EDGES, LITERALS = 4, 3, 2
KINDS = ("structured", "bound", "independent")


def config(**changes):
    return students.student(graph_layers=2, **changes).config


def initial(settings):
    """With biases, scales and shifts that matter."""

    @jax.jit
    def make(key):
        params = initialise(key, lambda normals: encode.init_task(normals, settings, FEATURES))
        return jax.tree.map(lambda leaf: leaf + 0.1 * jnp.sin(jnp.arange(float(leaf.size))).reshape(leaf.shape), params)

    return make(jax.random.key(0))


PARAMS = {kind: initial(config(literals=kind)) for kind in KINDS}


def encoder(settings):
    return jax.jit(lambda params, key, graph: encode.encode_task(params, settings, FEATURES, key, graph, jnp.float32))


ENCODE = {messages: encoder(config(messages=messages)) for messages in ("mean", "edge")}
encode_jit = ENCODE["mean"]

noise_jit = jax.jit(lambda key: encode.noise(key, NODES, config()))


def random_graph(seed):
    rng = np.random.default_rng(seed)
    used = rng.random((NODES, EDGES)) < 0.6
    literals = rng.integers(-PROPS, PROPS + 1, (NODES, EDGES, LITERALS)) * (rng.random((NODES, EDGES, LITERALS)) < 0.7)
    return Graph(
        target=jnp.asarray(np.where(used, rng.integers(0, NODES, (NODES, EDGES)), -1), jnp.int8),
        guard=jnp.asarray(np.where(used[..., None], literals, 0), jnp.int16),
        outcome=jnp.asarray(rng.integers(0, 3, NODES), jnp.int8),
    )


def literal_embedding(params, literal):
    """One literal, as the paper's figure builds it."""
    if isinstance(params, encode.Independent):
        return params.rows[PROPS + literal]
    location, *objects = FEATURES[abs(literal) - 1]
    embedded = [thing @ params.objects for thing in objects]
    summed = sum(np.maximum(one, 0.0) for one in embedded) if isinstance(params, encode.Bound) else sum(embedded)
    return np.sign(literal) * (np.concatenate([summed, location[:3]]) @ params.location)


def edge_embedding(params, guard):
    literals = [int(literal) for literal in guard if literal != 0]
    if not literals and isinstance(params.literals, encode.Independent):
        literals = [0]  # the row of *true*
    return sum((literal_embedding(params.literals, x) for x in literals), np.zeros(len(params.edge))) @ params.edge


def by_loop(params, noise, graph, messages="mean"):
    """Node by node, edge by edge."""
    rectified = (lambda x: np.maximum(x, 0.0)) if messages == "edge" else lambda x: x
    x = [noise[u] + (params.rejecting if graph.outcome[u] == REJECTED else 0) for u in range(NODES)]
    for layer in params.layers:
        kernel = np.concatenate([layer.neighbours, layer.edges])
        following = []
        for u in range(NODES):
            sent = [
                rectified(np.concatenate([x[target], edge_embedding(params, guard)]) @ kernel)
                for target, guard in zip(graph.target[u], graph.guard[u], strict=True)
                if target >= 0
            ]
            gathered = np.mean(sent, 0) if sent else 0.0
            both = x[u] @ layer.self.kernel + layer.self.bias + gathered
            centred = (both - both.mean()) / np.sqrt(both.var() + 1e-6)
            following.append(np.maximum(centred * layer.norm.scale + layer.norm.shift, 0.0))
        x = following
    return np.stack(x) @ params.output.kernel + params.output.bias


@pytest.mark.parametrize(
    ("kind", "messages"), [("structured", "mean"), ("independent", "mean"), ("structured", "edge")]
)
@given(seed=st.integers(0, 10_000))
def test_the_encoder_is_the_papers_equations(kind, messages, seed):
    """With `edge` messages, each is rectified before the mean."""
    params, key, graph = PARAMS[kind], jax.random.key(seed), random_graph(seed)
    noise = noise_jit(key)
    host = jax.device_get((params, noise, graph))
    np.testing.assert_allclose(ENCODE[messages](params, key, graph), by_loop(*host, messages), atol=2e-4)


@pytest.mark.parametrize("messages", ENCODE)
def test_only_edge_messages_tell_which_label_leads_where(messages):
    """From a node one label leads to acceptance and the other to rejection; then the other way round."""

    def fork(first, second):
        guard = jnp.array([[[first], [second]], [[0], [0]], [[0], [0]]], jnp.int16)
        target = jnp.array([[1, 2], [-1, -1], [-1, -1]], jnp.int8)
        return Graph(target=target, guard=guard, outcome=jnp.array([RUNNING, ACCEPTED, REJECTED], jnp.int8))

    one, other = (
        ENCODE[messages](PARAMS["structured"], jax.random.key(0), fork(*labels)) for labels in [(5, 9), (9, 5)]
    )
    assert np.allclose(one[0], other[0], atol=1e-5) == (messages == "mean")


def chain(last):
    """0 -> 1, and node 1 has some outcome."""
    return Graph(
        target=jnp.array([[1], [-1]], jnp.int8),
        guard=jnp.array([[[5]], [[0]]], jnp.int16),
        outcome=jnp.array([RUNNING, last], jnp.int8),
    )


def test_only_bound_literals_say_which_colour_belongs_to_which_shape():
    names = ("next_ball_red_key_blue", "next_ball_blue_key_red")
    one, other = (students.DOMAIN.vocabulary.ids[name] + 1 for name in names)
    for kind, told_apart in (("structured", False), ("bound", True)):
        a, b = (literal_embedding(jax.device_get(PARAMS[kind].literals), literal) for literal in (one, other))
        assert np.allclose(a, b, atol=1e-5) != told_apart


def test_avoiding_is_not_reaching():
    accept, reject = (encode_jit(PARAMS["structured"], jax.random.key(0), chain(o)) for o in (ACCEPTED, REJECTED))
    assert not np.allclose(accept[0], reject[0], atol=1e-3)


def test_a_node_knows_what_lies_ahead_as_far_as_there_are_layers():
    def line(last_literal):
        guard = jnp.array([5, 6, last_literal, 0], jnp.int16)[:, None, None]
        return Graph(target=jnp.array([1, 2, 3, -1], jnp.int8)[:, None], guard=guard, outcome=jnp.zeros(4, jnp.int8))

    params = PARAMS["structured"]
    one, other = (encode_jit(params, jax.random.key(0), line(literal)) for literal in (7, -300))
    assert len(params.layers) == 2
    assert not np.allclose(one[1], other[1], atol=1e-3)  # two edges ahead
    np.testing.assert_array_equal(one[0], other[0])  # three
    np.testing.assert_array_equal(one[3], other[3])  # behind


def test_noise_has_the_papers_variance():
    noise = encode.noise(jax.random.key(0), 100, config(task_width=100))
    np.testing.assert_allclose(np.var(noise), 0.1, rtol=0.05)


def test_index_sees_the_number_of_the_state_and_nothing_else():
    params = initial(config(task="index"))
    keys = jax.random.split(jax.random.key(0))
    a, b = (encode_jit(params, key, random_graph(n)) for n, key in enumerate(keys))
    np.testing.assert_array_equal(a, b)
    assert len({tuple(row) for row in np.asarray(a).round(4).tolist()}) == NODES


def test_index_refuses_more_states_than_it_can_tell_apart():
    params = initial(config(task="index"))
    graph = jax.tree.map(lambda leaf: jnp.resize(leaf, (17, *leaf.shape[1:])), random_graph(0))
    with pytest.raises(AtlasError, match=r"17 states.*at most 16"):
        encode.encode_task(params, config(), FEATURES, jax.random.key(0), graph, jnp.float32)


def test_looking_up_adds_rows():
    rows = jnp.arange(12.0).reshape(4, 3)
    at = jnp.array([[2, -1], [0, 3], [-1, -1]])
    found = encode.look_up(rows, at)
    np.testing.assert_allclose(found, [rows[2], rows[0] + rows[3], jnp.zeros(3)])
