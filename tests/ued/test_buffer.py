"""The batched buffer against its slow twin, and the statistics of what it draws."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.types import Lineage, Outcome, Partial, Problem
from atlas.ued import BufferConfig
from atlas.ued import buffer as buffers
from atlas.ued.buffer import fingerprint
from twins.buffer import Newcomer, SlowBuffer

CAPACITY, BATCH = 9, 6
CONFIGS = {
    "rank": BufferConfig(capacity=CAPACITY),
    "cold rank": BufferConfig(capacity=CAPACITY, temperature=0.3, staleness=0.4),
    "proportional": BufferConfig(capacity=CAPACITY, prioritisation="proportional", temperature=2.0),
    "topk": BufferConfig(capacity=CAPACITY, prioritisation="topk", top=4),
    "without duplicates": BufferConfig(capacity=CAPACITY, deduplicate=True),
    "no staleness": BufferConfig(capacity=CAPACITY, staleness=0.0),
}


insert = jax.jit(buffers.insert, static_argnames="config")
update = jax.jit(buffers.update)
sample = jax.jit(buffers.sample, static_argnames=("batch", "config"))


@partial(jax.jit, static_argnames="config")
def priorities(buffer, config):
    return buffers.priorities(buffer.records, buffer.clock, config)


@partial(jax.jit, static_argnames=("batch", "config"))
def sample_often(keys, buffer, batch, config):
    return jax.vmap(lambda key: buffers.sample(key, buffer, batch, config))(keys)


def problem(number):
    """A problem that stands for a number: all the buffer may do is keep it."""
    number = jnp.asarray(number, jnp.int32)
    return Problem(level=number.astype(jnp.uint8)[..., None], task=(number * 7).astype(jnp.int16))


def lineage(number):
    """The lineage of a sampled problem, or of a row of them."""

    def of_one(number):
        return Lineage(
            number=number,
            parent=jnp.int32(-1),
            generation=jnp.int16(0),
            edits=jnp.zeros(1, jnp.int8),
            arguments=jnp.zeros((1, 3), jnp.int16),
        )

    number = jnp.asarray(number, jnp.int32)
    return of_one(number) if number.ndim == 0 else jax.vmap(of_one)(number)


def partial_progress(size):
    one = Partial(level=jnp.uint8(0), task_state=jnp.int8(0), valid=jnp.array(False))
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (size,)), one)


def outcome(score, best_return=None, attempts=None, solves=None, trivial=None):
    size = len(score)
    nothing = jnp.zeros(size, jnp.int32)
    return Outcome(
        score=jnp.asarray(score, jnp.float32),
        best_return=jnp.zeros(size) if best_return is None else jnp.asarray(best_return, jnp.float32),
        attempts=nothing + 1 if attempts is None else jnp.asarray(attempts, jnp.int32),
        solves=nothing if solves is None else jnp.asarray(solves, jnp.int32),
        trivial=jnp.zeros(size, bool) if trivial is None else jnp.asarray(trivial, bool),
        partial=partial_progress(size),
    )


def empty(capacity=CAPACITY):
    return buffers.empty(capacity, problem(0), lineage(0))


def holding(scores, capacity=None, config=CONFIGS["rank"]):
    """A buffer that holds problems 0, 1, … with these scores."""
    scores = np.asarray(scores, np.float32)
    start = empty(capacity or len(scores))
    numbers = jnp.arange(len(scores))
    return insert(start, problem(numbers), lineage(numbers), outcome(scores), config)


def compare(fast, slow):
    fast = jax.device_get(fast)
    records = fast.records
    np.testing.assert_array_equal(records.filled, [entry is not None for entry in slow.slots])
    for slot in slow.filled():
        entry = slow.slots[slot]
        assert int(fast.lineage.number[slot]) == entry.name[1]
        assert int(fast.problems.level[slot, 0]) == entry.name[0]
        assert float(records.score[slot]) == pytest.approx(entry.score, abs=1e-6)
        for name in ("best_return", "attempts", "solves", "last_seen"):
            assert float(getattr(records, name)[slot]) == pytest.approx(getattr(entry, name)), name


class NamedByContent(SlowBuffer):
    """Names are (content, serial number): duplicates are equal in the first."""

    def _without_repeats(self, welcome):
        known = {self.slots[i].name[0] for i in self.filled()}
        kept = []
        for newcomer in welcome:
            if newcomer.name[0] not in known:
                known.add(newcomer.name[0])
                kept.append(newcomer)
        return kept


@pytest.mark.parametrize("name", CONFIGS)
def test_the_buffer_does_what_its_twin_does(name):
    config = CONFIGS[name]
    fast = empty()
    slow = NamedByContent(
        CAPACITY, config.prioritisation, config.temperature, config.top, config.staleness, config.deduplicate
    )
    random = np.random.default_rng(0)
    for iteration in range(120):
        scores = random.normal(0.3, 1.0, BATCH).round(random.integers(1, 5)).astype(np.float32)
        best, attempts = random.random(BATCH).astype(np.float32), random.integers(0, 4, BATCH)
        solves = random.integers(0, attempts + 1)
        columns = (scores, best, attempts, solves)
        if iteration % 3 == 2:
            slots = random.choice([-1, *slow.filled()], BATCH)
            fast = update(fast, jnp.asarray(slots, jnp.int32), outcome(*columns))
            slow.update([(int(s), *v) for s, *v in zip(slots, *(x.tolist() for x in columns), strict=True)])
        else:
            contents, numbers = random.integers(0, 30, BATCH), iteration * BATCH + np.arange(BATCH)
            trivial = random.random(BATCH) < 0.1
            fast = insert(fast, problem(contents), lineage(numbers), outcome(*columns, trivial), config)
            newcomers = [
                Newcomer((int(c), int(n)), *values)
                for c, n, *values in zip(contents, numbers, *(x.tolist() for x in (*columns, trivial)), strict=True)
            ]
            slow.insert(newcomers)
        fast, slow.clock = fast.replace(clock=fast.clock + 1), slow.clock + 1
        compare(fast, slow)
        np.testing.assert_allclose(priorities(fast, config), slow.priorities(), atol=1e-6)


@pytest.mark.parametrize("name", CONFIGS)
def test_priorities_are_a_distribution_over_filled_slots(name):
    config = CONFIGS[name]
    buffer = holding([0.5, -1.0, 0.0, 2.0], CAPACITY, config).replace(clock=jnp.int32(3))
    weights = priorities(buffer, config)
    assert float(weights.sum()) == pytest.approx(1.0, abs=1e-6)
    assert np.all(np.asarray(weights)[4:] == 0)


@pytest.mark.parametrize("replacement", [True, False])
def test_draws_follow_the_priorities(replacement):
    config = dataclasses.replace(CONFIGS["rank"], replacement=replacement)
    buffer = holding(np.linspace(1, 0, 7), CAPACITY).replace(clock=jnp.int32(2))
    weights = np.asarray(priorities(buffer, config), np.float64)
    draws = np.asarray(sample_often(jax.random.split(jax.random.key(0), 40_000), buffer, 1, config))[:, 0]
    shares = np.bincount(draws, minlength=CAPACITY) / len(draws)
    assert np.all(shares[weights == 0] == 0)
    spread = np.sqrt(weights * (1 - weights) / len(draws))
    assert np.all(np.abs(shares - weights) <= 4.5 * spread)


def test_without_replacement_nothing_comes_twice():
    config = dataclasses.replace(CONFIGS["rank"], replacement=False)
    buffer = holding(np.linspace(1, 0, 7), CAPACITY)
    draws = sample_often(jax.random.split(jax.random.key(1), 200), buffer, 5, config)
    assert all(len(set(row)) == 5 and max(row) < 7 for row in np.asarray(draws).tolist())


def test_a_batch_larger_than_the_buffer_repeats_problems_in_turn():
    config = dataclasses.replace(CONFIGS["rank"], replacement=False)
    buffer = holding([0.1, 0.2, 0.3], CAPACITY)
    row = np.asarray(sample(jax.random.key(2), buffer, 20, config))
    counts = np.bincount(row, minlength=CAPACITY)
    assert sorted(counts[:3]) == [6, 7, 7]
    assert counts[3:].sum() == 0


def test_the_second_of_two_draws_without_replacement_leaves_the_first_aside():
    """P(first = a, second = b) = p_a p_b / (1 - p_a): Gumbel keys draw one after the other."""
    config = dataclasses.replace(CONFIGS["no staleness"], replacement=False)
    buffer = holding([0.9, 0.5, 0.1], CAPACITY)
    p = np.asarray(priorities(buffer, config), np.float64)[:3]
    pairs = np.asarray(sample_often(jax.random.split(jax.random.key(3), 30_000), buffer, 2, config))
    for a in range(3):
        for b in set(range(3)) - {a}:
            share = np.mean((pairs[:, 0] == a) & (pairs[:, 1] == b))
            assert share == pytest.approx(p[a] * p[b] / (1 - p[a]), abs=0.013)


def test_rank_weights_are_one_over_rank():
    config = CONFIGS["no staleness"]
    buffer = holding([0.1, 0.9, 0.5])
    weights = np.asarray(priorities(buffer, config))
    by_number = weights[np.argsort(buffer.lineage.number)]
    np.testing.assert_allclose(by_number, np.array([1 / 3, 1, 1 / 2]) / (1 + 1 / 2 + 1 / 3), rtol=1e-6)


def test_staleness_counts_iterations_since_a_problem_was_seen():
    config = dataclasses.replace(CONFIGS["rank"], staleness=1.0)
    buffer = holding([0.1, 0.2, 0.3]).replace(clock=jnp.int32(4))
    buffer = update(buffer, jnp.array([1], jnp.int32), outcome([0.2])).replace(clock=jnp.int32(6))
    weights = priorities(buffer, config)
    np.testing.assert_allclose(weights, np.array([6, 2, 6]) / 14, rtol=1e-6)


def test_best_of_fifty_thousand_fills_about_nine_per_cent():
    config = BufferConfig(staleness=0.0)
    buffer = holding(np.random.default_rng(0).permutation(50_000), config=config)
    weights = priorities(buffer, config)
    assert float(weights.max()) == pytest.approx(0.088, abs=0.001)


def test_fingerprints_tell_problems_apart():
    random = np.random.default_rng(0)
    level = random.integers(0, 64, (4_000, 5, 7), dtype=np.uint8)
    task = random.integers(-900, 900, (4_000, 3), dtype=np.int16)
    prints = jax.jit(jax.vmap(fingerprint))
    first = np.asarray(prints(Problem(level=level, task=task)))
    assert len(np.unique(first[:, 0])) >= 3_998
    assert len(np.unique(first, axis=0)) == 4_000
    np.testing.assert_array_equal(first, prints(Problem(level=level.copy(), task=task.copy())))
    level[:, 2, 3] ^= 1
    assert np.all(np.asarray(prints(Problem(level=level, task=task))) != first)


def test_swapped_cells_have_another_fingerprint():
    one = Problem(level=jnp.arange(8, dtype=jnp.uint8), task=jnp.array([True, False]))
    other = Problem(level=one.level.at[jnp.array([0, 4])].set(jnp.array([4, 0], jnp.uint8)), task=one.task)
    assert not np.array_equal(fingerprint(one), fingerprint(other))
