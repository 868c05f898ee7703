"""The whole network: size, options, and that every parameter can learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import students
from atlas.student.network import Observation
from atlas.types import Graph
from atlas.vocabulary import REJECTED

TIME, ENVS, POOL, NODES = 5, 3, 2, 3
OPTIONS = {
    "dense": {},
    "convolutions, independent literals, task past the GRU": {
        "view": "conv", "literals": "independent", "task_into_gru": False,
    },
    "index, bf16": {"task": "index", "bf16": True},
    "queries, edge messages, bound literals": {"queries": 2, "messages": "edge", "literals": "bound"},
    "a map": {"map": True},
}  # fmt: skip


def graphs():
    """Every node leads to the next; the last rejects."""
    chain = jnp.array([[1, 2], [2, -1], [-1, -1]], jnp.int8)
    guard = jnp.array([[5, -300], [70, 0], [0, 0]], jnp.int16)[..., None]
    one = Graph(target=chain, guard=guard, outcome=jnp.array([0, 0, REJECTED], jnp.int8))
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (ENVS, POOL, *leaf.shape)), one)


def seen(student):
    rng = np.random.default_rng(0)
    nodes = np.stack([rng.integers(0, POOL * NODES, (TIME, ENVS)), rng.integers(-1, NODES, (TIME, ENVS))], -1)
    return Observation(
        view=jnp.asarray(students.views(student.cells, TIME, ENVS)),
        nodes=jnp.asarray(nodes, jnp.int32),
        previous=jnp.asarray(rng.integers(0, 6, (TIME, ENVS)), jnp.uint8),
        start=jnp.asarray(rng.random((TIME, ENVS)) < 0.3),
    )


def run(student, params):
    tables = student.embed(params, jax.random.split(jax.random.key(1), ENVS), graphs())
    return student.unroll(params, tables, seen(student), student.initial_hidden(ENVS))


@pytest.fixture(scope="module", params=OPTIONS)
def made(request):
    """A student, parameters, and from one compilation: a gradient, logits, values, and the same by single steps."""
    student = students.student(**OPTIONS[request.param])

    def loss(params):
        logits, value = run(student, params)
        return jnp.mean(jax.nn.log_softmax(logits)[..., 0]) + jnp.mean(jnp.square(value - 1.0)), (logits, value)

    def step(params, tables):
        def one(hidden, now):
            hidden, logits, value = student.step(params, tables, now, hidden)
            return hidden, (logits, value)

        return jax.lax.scan(one, student.initial_hidden(ENVS), seen(student))[1]

    @jax.jit
    def everything(key):
        params = student.init(key)
        tables = student.embed(params, jax.random.split(jax.random.key(1), ENVS), graphs())
        return params, *jax.grad(loss, has_aux=True)(params), step(params, tables)

    return student, *everything(jax.random.key(0))


def test_the_papers_network_has_the_papers_size():
    params = jax.eval_shape(students.paper().init, jax.random.key(0))
    assert abs(sum(leaf.size for leaf in jax.tree.leaves(params)) / 4.12e6 - 1) < 0.02


def test_every_parameter_can_learn(made):
    for path, leaf in jax.tree_util.tree_leaves_with_path(made[2]):
        assert np.isfinite(leaf).all(), path
        assert np.abs(leaf).max() > 0, path


def test_acting_is_learning_step_by_step(made):
    student, _, _, learnt, acted = made
    tolerance = 0.02 if student.config.bf16 else 1e-5
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=tolerance), acted, learnt)


def test_parameters_stay_float32_and_start_close_to_uniform(made):
    _, params, _, (logits, value), _ = made
    assert {leaf.dtype for leaf in jax.tree.leaves((params, logits, value))} == {jnp.dtype(jnp.float32)}
    assert np.abs(logits).max() < 1.0


def test_the_value_starts_as_large_as_asked():
    def value(scale):
        student = students.student(value_init=scale)
        return student.init(jax.random.key(0)).critic.output.kernel

    np.testing.assert_allclose(np.linalg.norm(value(1.0)), 1.0, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(value(0.01)), 0.01, rtol=1e-5)


def test_memory_and_previous_action_are_forgotten_at_a_start():
    student = students.student()
    params = jax.jit(student.init)(jax.random.key(0))
    tables = jax.random.normal(jax.random.key(1), (ENVS, POOL * NODES, student.config.task_width))
    now = jax.tree.map(lambda leaf: leaf[0], seen(student))
    step = jax.jit(student.step)

    def after(start, previous, memory):
        look = now.replace(start=jnp.full(ENVS, start), previous=jnp.full(ENVS, previous, jnp.uint8))
        return np.asarray(step(params, tables, look, jnp.full((ENVS, 10), memory))[0])

    np.testing.assert_array_equal(after(True, 1, 0.5), after(True, 4, -0.5))
    assert not np.allclose(after(False, 1, 0.5), after(False, 4, 0.5))
    assert not np.allclose(after(False, 1, 0.5), after(False, 1, -0.5))
    assert not np.allclose(after(False, 1, 0.0), after(True, 1, 0.0))
