"""Laws that every teacher obeys, with problems that are mere numbers: a teacher may not look into them."""

import dataclasses
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import toys
from atlas.config import ACCELConfig, BufferConfig, DRConfig, PLRConfig
from atlas.types import Outcome, Proposal
from atlas.ued.teachers import TEACHERS

NUM_ENVS, NUM_EVAL, CAPACITY = 4, 6, 16
BUFFER = BufferConfig(capacity=CAPACITY, min_fill=0.5)
CONFIGS = {
    "dr": DRConfig(pool=3),
    "plr robust": PLRConfig(num_eval=NUM_EVAL, buffer=BUFFER),
    "plr": PLRConfig(train_on_new=True, buffer=BUFFER),
    "accel": ACCELConfig(replay_prob=0.7, num_eval=NUM_EVAL, buffer=BUFFER),
    "accel equal": ACCELConfig(replay_prob=0.7, buffer=dataclasses.replace(BUFFER, replacement=False)),
    "accel few children": ACCELConfig(replay_prob=0.7, num_eval=2, buffer=BUFFER),
    "accel on new": ACCELConfig(replay_prob=0.7, train_on_new=True, buffer=BUFFER),
}


SUPPLY = toys.supply(NUM_ENVS)


class Iteration(NamedTuple):
    """One iteration as an onlooker sees it."""

    train: bool
    before: Any
    proposal: Proposal
    outcome: Outcome
    after: Any


def outcome_of(key, problems, envs):
    """Scores and counts that depend on the problem alone, a fifth of them trivial."""
    number = problems.level[:envs]
    return Outcome(
        score=(number % 1009).astype(jnp.float32),
        best_return=(number % 2).astype(jnp.float32),
        attempts=jnp.full(envs, 2, jnp.int32),
        solves=(number % 3).astype(jnp.int32),
        trivial=toys.is_trivial(number),
        partial=toys.progress(envs),
    )


@cache
def compiled(name):
    """A teacher, its decision and one whole iteration."""
    config = CONFIGS[name]
    teacher = TEACHERS[config.name](config, SUPPLY)

    @partial(jax.jit, static_argnames="train")
    def iterate(key, state, train):
        proposed, proposal = teacher.propose(key, state, train)
        outcome = outcome_of(key, proposal.problems, len(proposal.slots) // teacher.pool)
        return proposal, outcome, teacher.observe(proposed, proposal, outcome)

    return teacher, jax.jit(teacher.decide), iterate


def history(name, iterations=60, seed=0):
    """A teacher at work."""
    teacher, decide, iterate = compiled(name)
    state = teacher.init(jax.random.key(seed))
    seen = []
    for key in jax.random.split(jax.random.key(seed + 1), iterations):
        key_decide, key_propose = jax.random.split(key)
        train = bool(decide(key_decide, state))
        proposal, outcome, after = iterate(key_propose, state, train)
        seen.append(Iteration(train, *jax.device_get((state, proposal, outcome, after))))
        state = after
    return teacher, seen


@pytest.fixture(scope="module", params=list(CONFIGS))
def worked(request):
    return request.param, *history(request.param)


def kind(iteration):
    if iteration.proposal.slots[0] >= 0:
        return "replay"
    return "edit" if iteration.proposal.lineage.parent[0] >= 0 else "new"


def test_every_teacher_is_here():
    assert {config.name for config in CONFIGS.values()} == set(TEACHERS)


def test_batches_have_the_promised_size(worked):
    _, teacher, seen = worked
    for iteration in seen:
        expected = NUM_ENVS * teacher.pool if iteration.train else teacher.num_eval
        assert all(len(leaf) == expected for leaf in jax.tree.leaves(iteration.proposal))


def test_new_problems_have_serial_numbers_of_their_own(worked):
    _, _, seen = worked
    numbers = np.concatenate([i.proposal.lineage.number for i in seen if kind(i) != "replay"])
    assert len(np.unique(numbers)) == len(numbers)


def test_the_same_seed_gives_the_same_history(worked):
    name, _, seen = worked
    again = history(name, iterations=20)[1]
    jax.tree.map(np.testing.assert_array_equal, seen[:20], again)


def test_dr_never_replays_and_always_trains(worked):
    name, _, seen = worked
    if name == "dr":
        assert all(i.train and kind(i) == "new" for i in seen)


def test_only_robust_teachers_keep_from_training_on_new_problems(worked):
    name, teacher, seen = worked
    if name == "dr":
        return
    on_new = teacher.config.train_on_new
    assert all(i.train == (on_new or kind(i) == "replay") for i in seen)
    assert {"replay", "new"} <= {kind(i) for i in seen}


def test_replay_waits_until_the_buffer_is_filled_enough(worked):
    _, _, seen = worked
    for i in seen:
        if kind(i) == "replay":
            assert i.before.buffer.records.filled.sum() >= BUFFER.min_fill * CAPACITY
            assert i.before.buffer.records.filled[i.proposal.slots].all()


def test_replayed_problems_are_those_in_the_buffer(worked):
    _, _, seen = worked
    for i in seen:
        if kind(i) == "replay":
            buffer, slots = i.before.buffer, i.proposal.slots
            np.testing.assert_array_equal(buffer.problems.level[slots], i.proposal.problems.level)
            np.testing.assert_array_equal(buffer.records.attempts[slots], i.proposal.record.attempts)
            np.testing.assert_array_equal(buffer.lineage.number[slots], i.proposal.lineage.number)


def test_accel_edits_right_after_each_replay_and_never_else(worked):
    name, _, seen = worked
    kinds = [kind(i) for i in seen]
    for before, now in pairwise(kinds):
        assert (now == "edit") == (before == "replay" and name.startswith("accel"))
    assert kinds[0] == "new"


def test_children_come_from_the_replayed_batch_in_turn(worked):
    _, _, seen = worked
    for replayed, now in pairwise(seen):
        if kind(now) == "edit":
            turn = np.arange(len(now.proposal.slots)) % NUM_ENVS
            parents = replayed.proposal
            np.testing.assert_array_equal(now.proposal.lineage.parent, parents.lineage.number[turn])
            np.testing.assert_array_equal(now.proposal.lineage.generation, parents.lineage.generation[turn] + 1)
            np.testing.assert_array_equal(now.proposal.problems.level, parents.problems.level[turn] + 2)


def test_trivial_problems_never_enter(worked):
    _, teacher, seen = worked
    for i in seen:
        buffer = teacher.memory(i.after)
        if buffer is not None:
            kept = buffer.problems.level[buffer.records.filled]
            assert not np.any(toys.is_trivial(kept))
    assert any(i.outcome.trivial.any() for i in seen)


def test_iterations_are_counted(worked):
    _, teacher, seen = worked
    buffer = teacher.memory(seen[-1].after)
    assert buffer is None or buffer.clock == len(seen)


def test_replays_happen_as_often_as_asked():
    _, seen = history("plr robust", iterations=400, seed=3)
    ready = [i for i in seen if i.before.buffer.records.filled.sum() >= BUFFER.min_fill * CAPACITY]
    share = np.mean([kind(i) == "replay" for i in ready])
    assert share == pytest.approx(0.5, abs=4 * np.sqrt(0.25 / len(ready)))
