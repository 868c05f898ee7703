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
from atlas.tasks.packed import count_states, unpack
from atlas.tasks.sample import SAMPLERS
from atlas.vocabulary import REJECTED
from twins.drawn import BATCH, drawn, mask_of, paths, sampler, single

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


@pytest.mark.parametrize(("weights", "shares"), [((1, 0, 0), (1, 0, 0, 0)), ((1, 2, 4), (1, 2, 2, 4))])
def test_trees_of_machines_follow_the_weights_of_their_partitions(weights, shares):
    """Partitions of three by their number of summands: 3; 2 + 1 and 1 + 2; 1 + 1 + 1."""
    keys = jax.random.split(jax.random.key(4), 4000)
    parents = np.asarray(jax.jit(jax.vmap(lambda key: sample.sample_tree(key, 4, weights)))(keys))
    found = collections.Counter(map(tuple, parents.tolist()))
    counts = [found[tree] for tree in [(-1, 0, 0, 0), (-1, 0, 0, 1), (-1, 0, 1, 1), (-1, 0, 1, 2)]]
    if 0 in shares:
        assert counts == [4000, 0, 0, 0]
    else:
        assert stats.chisquare(counts, 4000 * np.array(shares) / sum(shares)).pvalue > 0.001


def test_a_prior_weighs_propositions():
    pick = sample.picker(("front_*=3", "carrying_*=0", "front_key*=0"), VOCABULARY)
    task = jax.jit(jax.vmap(lambda key: sample.sample_sequence(key, jnp.ones(889, bool), 5, 5, SIZE, pick)))(
        jax.random.split(jax.random.key(6), 2000)
    )
    counts = np.bincount(np.asarray(task.guard)[:, 0, :5, 0, 0].ravel() - 1, minlength=889)
    weight = np.ones(889)
    for number, name in enumerate(VOCABULARY.names):
        if name.startswith("front_"):
            weight[number] = 0 if name.startswith("front_key") else 3
        elif name.startswith("carrying_"):
            weight[number] = 0
    assert not counts[weight == 0].any()
    used = weight > 0
    assert stats.chisquare(counts[used], counts.sum() * weight[used] / weight.sum()).pvalue > 0.001
    assert sample.picker((), VOCABULARY) is pick_member


def test_a_prior_that_leaves_nothing_of_a_mask_is_passed_over():
    pick = sample.picker(("*=0", "front_ball=1"), VOCABULARY)
    mask = jnp.zeros(889, bool).at[VOCABULARY.ids["carrying_key"]].set(True)
    task = sample.sample_sequence(jax.random.key(0), mask, 1, 1, SIZE, pick)
    assert int(task.guard[0, 0, 0, 0]) == VOCABULARY.ids["carrying_key"] + 1


SIZE = SAMPLERS["sequential"](TaskConfig(), VOCABULARY)[1]


@pytest.mark.parametrize("prior", ["front_bal=2", "*=0"])
def test_a_prior_that_fits_nothing_is_refused(prior):
    with pytest.raises(ConfigError, match=r"tasks\.prior"):
        sample.picker((prior,), VOCABULARY)


@pytest.mark.parametrize(
    "bad", [{"prior": ("front_*",)}, {"prior": ("front_*=-1",)}, {"prior": ("=3",)}, {"prior": ("a=nan",)},
            {"partitions": (1.0,)}, {"partitions": (0.0, 0.0)}, {"matrix_reach": 0.0}, {"call_weight": -1.0}]
)  # fmt: skip
def test_settings_of_samplers_are_checked(bad):
    with pytest.raises(ConfigError, match=rf"tasks\.{next(iter(bad))} = "):
        TaskConfig(**bad)


def test_the_markov_matrix_can_be_shaped():
    uniforms = jnp.asarray(np.random.default_rng(0).uniform(0.01, 1, (6, 6)), jnp.float32)
    plain = np.asarray(sample.dag_matrix(uniforms))
    assert sample.shaped(sample.dag_matrix, 1.0, 1.0) is sample.dag_matrix
    squared = np.asarray(sample.shaped(sample.dag_matrix, 2.0, 0.5)(uniforms))
    for u, v in zip(*np.triu_indices(6, 1), strict=True):
        assert squared[u, v] == pytest.approx(plain[u, v] ** 2 * 0.5 ** (v - u - 1), rel=1e-5)
    assert not np.tril(squared).any()
    even = np.asarray(sample.shaped(sample.cyclic_matrix, 0.0, 1.0)(uniforms))
    assert {*even[0, 1:5].tolist()} == {1.0}


@pytest.mark.slow
def test_calls_follow_their_weight():
    def share(weight):
        config = TaskConfig(sampler="hierarchical", machines=2, structure="sequential", call_weight=weight)
        draw, _ = SAMPLERS["hierarchical"](config, VOCABULARY)
        batch = jax.jit(jax.vmap(lambda key: draw(key, jnp.ones(889, bool))))(jax.random.split(jax.random.key(1), 500))
        root = np.asarray(batch.call)[:, 0]
        return (root != UNUSED).sum() / (np.asarray(batch.target)[:, 0] != UNUSED).sum()

    assert share(0.0) == 0
    assert share(1.0) < share(4.0) < share(100.0)


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


def test_a_mixture_draws_what_its_members_draw_each_as_often_as_it_is_named():
    task = drawn("mixed")
    has_choice = ((task.target != UNUSED).sum(axis=3) > 1).any(axis=(1, 2))
    forbids = (task.outcome == REJECTED).any(axis=(1, 2))
    keys = jax.vmap(lambda key: jax.random.split(key)[1])(jax.random.split(jax.random.key(0), BATCH))
    members = {name: sampler(name)[0](keys, mask_of("all")) for name in ("sequential", "reach-avoid", "dag")}
    assert forbids.mean() == pytest.approx(1 / 3, abs=0.03)
    for i in range(200):
        own = unpack(single(task, i))
        kinds = [name for name, batch in members.items() if own == unpack(single(batch, i))]
        assert kinds, "a mixture draws nothing of its own"
        assert ("reach-avoid" in kinds) == bool(forbids[i])
        assert has_choice[i] <= ("sequential" not in kinds)


@pytest.mark.parametrize(
    ("mix", "words"),
    [
        ((), "tasks.mix = .* is not allowed: one or more of sequential, .* are needed"),
        (("dag", "hierarchical"), "tasks.mix = hierarchical is not allowed: one of sequential, .* is needed"),
        (("mixed",), "tasks.mix = mixed is not allowed"),
    ],
)
def test_what_cannot_be_mixed_is_a_sentence(mix, words):
    with pytest.raises(ConfigError, match=words):
        TaskConfig(sampler="mixed", mix=mix)


@pytest.mark.parametrize(
    ("mix", "lengths"), [(("sequential",), range(2, 4)), (("reach-avoid", "dag"), range(1, 6)), (("dag",), range(1, 6))]
)
def test_a_mixture_is_as_long_as_its_members(mix, lengths):
    config = TaskConfig(sampler="mixed", mix=mix, min_length=2, max_length=3)
    assert config.lengths == lengths
