"""The distributions that samplers promise."""

import collections
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from atlas.chance import bit_set, contains, pick_member
from atlas.config import TaskConfig
from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.settings import ConfigError
from atlas.tasks import sample
from atlas.tasks.machine import UNUSED
from atlas.tasks.packed import count_states
from atlas.tasks.sample import SAMPLERS
from twins.drawn import drawn, paths

MANY = 8192


def test_sequences_are_uniform_in_length_and_propositions():
    task = drawn("sequential")
    lengths = np.asarray(jax.vmap(count_states)(task)) - 1
    assert stats.chisquare(np.bincount(lengths, minlength=6)[1:]).pvalue > 0.001
    guard = np.asarray(task.guard)
    assert stats.chisquare(np.bincount(guard[guard > 0] - 1, minlength=889)).pvalue > 0.001


def test_authors_dag_has_the_measured_distribution():
    found = paths("authors-dag")
    share = lambda n: float(np.mean(found.count == n))  # noqa: E731
    assert share(1) == pytest.approx(0.58, abs=0.02)
    assert share(2) == pytest.approx(0.41, abs=0.02)
    assert share(4) == pytest.approx(0.01, abs=0.005)
    assert share(1) + share(2) + share(4) == 1.0
    assert found.mean.mean() == pytest.approx(2.8, abs=0.05)


def test_authors_dag_chooses_the_direct_edge_one_time_in_five():
    how = sample.Walks(sample.authors_matrix, states=6, edges=5, steps=6, restart=0.0, most=1)
    graphs = jax.jit(jax.vmap(lambda key: sample.sample_graph(key, how)))(jax.random.split(jax.random.key(1), MANY))
    assert float(jnp.mean(graphs[:, 0, 5])) == pytest.approx(0.2, abs=0.015)
    assert float(jnp.sum(graphs[:, 0])) == MANY


def plain_walks(rng, kind, states=6, steps=6, restart=0.5, most=2):
    """The union of walks, as the paper tells it."""
    weights = rng.uniform(size=(states, states))
    if kind == "dag":
        weights = np.triu(weights, 1)
    else:
        weights[:, -1] = 0
        np.fill_diagonal(weights, 0)
    edges = set()
    for number in range(most):
        if number and rng.uniform() >= restart:
            break
        u = 0
        for step in range(steps):
            row = weights[u] / weights[u].sum()
            v = states - 1 if step == steps - 1 else int(rng.choice(states, p=row))
            edges.add((u, v))
            u = v
            if v == states - 1:
                break
    return edges


@pytest.mark.parametrize("kind", ["dag", "cyclic"])
def test_walks_are_distributed_like_plain_ones(kind):
    rng = np.random.default_rng(0)
    plain = [plain_walks(rng, kind) for _ in range(4000)]
    is_edge = np.asarray(drawn(kind).target)[:, 0] != UNUSED
    edges = is_edge.sum(axis=(1, 2))
    assert edges.mean() == pytest.approx(np.mean([len(e) for e in plain]), abs=0.1)
    widest = [max(collections.Counter(u for u, _ in e).values()) for e in plain]
    assert is_edge.sum(axis=2).max(axis=1).mean() == pytest.approx(np.mean(widest), abs=0.05)
    states = [len({u for edge in e for u in edge}) for e in plain]
    counts = np.asarray(jax.vmap(count_states)(drawn(kind)))
    assert counts.mean() == pytest.approx(np.mean(states), abs=0.1)
    assert (paths(kind).count >= 1).all() if kind == "dag" else (paths(kind).count == -1).mean() > 0.5


def test_short_walks_are_led_to_acceptance_and_full_states_take_no_more_edges():
    for matrix, forward in ((sample.dag_matrix, True), (sample.cyclic_matrix, False), (sample.sequential_matrix, True)):
        how = sample.Walks(matrix, states=8, edges=2, steps=4, restart=0.9, most=5, forward=forward)
        draw = jax.jit(jax.vmap(functools.partial(sample.sample_graph, walks=how)))
        graphs = np.asarray(draw(jax.random.split(jax.random.key(2), 500)))
        assert graphs[:, :, -1].any(axis=1).all()
        assert not graphs[:, -1].any()
        assert graphs.sum(axis=2).max() <= how.size.edges == 2
        assert graphs.sum(axis=(1, 2)).max() <= how.num_edges


def test_the_bits_of_a_set_are_picked_alike():
    members = [0, 31, 32, 40, 63, 64, 100]
    bits = bit_set(jnp.zeros(101, bool).at[jnp.array(members)].set(True))
    grid = (jnp.arange(700) + 0.5) / 700
    picked = np.asarray(jax.jit(jax.vmap(pick_member, (0, None)))(grid, bits))
    assert collections.Counter(picked.tolist()) == dict.fromkeys(members, 100)
    assert jax.jit(pick_member)(jnp.float32(0.3), jnp.zeros(4, jnp.uint32)) == sample.NO_LABEL
    assert np.asarray(jax.jit(contains)(bits, jnp.arange(101))).nonzero()[0].tolist() == members


def test_trees_of_machines_are_uniform_ordered_partitions():
    keys = jax.random.split(jax.random.key(4), 4000)
    parents = np.asarray(jax.jit(jax.vmap(lambda key: sample.sample_tree(key, 4)))(keys))
    partitions = collections.Counter(map(tuple, parents.tolist()))
    assert set(partitions) == {(-1, 0, 0, 0), (-1, 0, 0, 1), (-1, 0, 1, 1), (-1, 0, 1, 2)}
    assert stats.chisquare(list(partitions.values())).pvalue > 0.001


def test_called_machines_start_with_one_plain_edge():
    task = drawn("hierarchical")
    called = (task.target[:, 1:] != UNUSED).any(axis=(2, 3))
    first = (task.target[:, 1:, 0] != UNUSED).sum(axis=2)
    assert (first == called).all()
    assert (task.call[:, 1:, 0] == UNUSED).all()
    assert (task.target[:, 1:] != 0).all(), "and never come back to it"
    used = np.stack([(task.call == m).any(axis=(1, 2, 3)) for m in (1, 2)], axis=1)
    assert (used == called).all(), "machines that nothing calls are dropped"
    assert used.any(axis=1).mean() > 0.6, "most hierarchies have calls"


def test_deep_hierarchies_are_refused_where_a_node_would_not_fit_a_byte():
    with pytest.raises(ConfigError, match="machines x states = 192 is not allowed: at most 127"):
        SAMPLERS["hierarchical"](TaskConfig(sampler="hierarchical", machines=8, states=24), VOCABULARY)
