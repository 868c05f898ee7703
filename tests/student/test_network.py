"""The whole network: size, options, and that every parameter can learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import students
from atlas.student.network import Observation, count
from atlas.types import REJECTED, Graph

TIME, ENVS, POOL, NODES = 5, 3, 2, 3
OPTIONS = {
    "dense": {},
    "convolutions": {"view": "conv"},
    "independent literals": {"literals": "independent"},
    "index": {"task": "index"},
    "myopic": {"graph_layers": 1},
    "task past the GRU": {"task_into_gru": False},
    "bf16": {"bf16": True},
}


def graphs():
    """Every node leads to the next; the last rejects."""
    chain = jnp.array([[1, 2], [2, -1], [-1, -1]], jnp.int8)
    guard = jnp.array([[5, -300], [70, 0], [0, 0]], jnp.int16)[..., None]
    one = Graph(target=chain, guard=guard, outcome=jnp.array([0, 0, REJECTED], jnp.int8))
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (ENVS, POOL, *leaf.shape)), one)


def seen():
    rng = np.random.default_rng(0)
    view = 8 * rng.integers(0, 9, (TIME, ENVS, 5, 5)) + rng.integers(0, 7, (TIME, ENVS, 5, 5))
    nodes = np.stack([rng.integers(0, POOL * NODES, (TIME, ENVS)), rng.integers(-1, NODES, (TIME, ENVS))], -1)
    return Observation(
        view=jnp.asarray(view, jnp.uint8),
        nodes=jnp.asarray(nodes, jnp.int32),
        previous=jnp.asarray(rng.integers(0, 6, (TIME, ENVS)), jnp.uint8),
        start=jnp.asarray(rng.random((TIME, ENVS)) < 0.3),
    )


def run(student, params):
    tables = student.embed(params, jax.random.split(jax.random.key(1), ENVS), graphs())
    return student.unroll(params, tables, seen(), student.initial_hidden(ENVS))


@pytest.fixture(scope="module", params=OPTIONS)
def made(request):
    student = students.student(**OPTIONS[request.param])
    return student, jax.jit(student.init)(jax.random.key(0))


def test_the_papers_network_has_the_papers_size():
    params = jax.eval_shape(students.paper().init, jax.random.key(0))
    assert abs(count(params) / 4.12e6 - 1) < 0.02


def test_every_parameter_can_learn(made):
    student, params = made

    def loss(params):
        logits, value = run(student, params)
        return jnp.mean(jax.nn.log_softmax(logits)[..., 0]) + jnp.mean(jnp.square(value - 1.0))

    gradient = jax.jit(jax.grad(loss))(params)
    for path, leaf in jax.tree_util.tree_leaves_with_path(gradient):
        assert np.isfinite(leaf).all(), path
        assert np.abs(leaf).max() > 0, path


def test_acting_is_learning_step_by_step(made):
    student, params = made
    tables = student.embed(params, jax.random.split(jax.random.key(1), ENVS), graphs())
    logits, value = jax.jit(student.unroll)(params, tables, seen(), student.initial_hidden(ENVS))
    hidden, step = student.initial_hidden(ENVS), jax.jit(student.step)
    tolerance = 0.02 if student.config.bf16 else 1e-5
    for t in range(TIME):
        now = jax.tree.map(lambda leaf, t=t: leaf[t], seen())
        hidden, logits_now, value_now = step(params, tables, now, hidden)
        np.testing.assert_allclose(logits_now, logits[t], atol=tolerance)
        np.testing.assert_allclose(value_now, value[t], atol=tolerance)


def test_parameters_stay_float32_and_start_small(made):
    student, params = made
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(params))
    logits, _ = run(student, params)
    assert logits.dtype == jnp.float32
    assert np.abs(logits).max() < 1.0  # close to uniform


def test_the_value_starts_as_large_as_asked():
    small, large = (
        run(student, jax.jit(student.init)(jax.random.key(0)))[1]
        for student in (students.student(value_init=0.01), students.student(value_init=1.0))
    )
    np.testing.assert_allclose(large, 100 * small, rtol=1e-3, atol=1e-5)


def test_memory_and_previous_action_are_forgotten_at_a_start():
    student = students.student()
    params = jax.jit(student.init)(jax.random.key(0))
    tables = student.embed(params, jax.random.split(jax.random.key(1), ENVS), graphs())
    now = jax.tree.map(lambda leaf: leaf[0], seen())
    step = jax.jit(student.step)

    def after(start, previous, memory):
        seen = now.replace(start=jnp.full(ENVS, start), previous=jnp.full(ENVS, previous, jnp.uint8))
        return np.asarray(step(params, tables, seen, jnp.full((ENVS, 10), memory))[0])

    np.testing.assert_array_equal(after(True, 1, 0.5), after(True, 4, -0.5))
    assert not np.allclose(after(False, 1, 0.5), after(False, 4, 0.5))
    assert not np.allclose(after(False, 1, 0.5), after(False, 1, -0.5))
    assert not np.allclose(after(False, 1, 0.0), after(True, 1, 0.0))
