"""Laws that every score obeys, and each against the loops one would write by hand."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.types import Lineage, Partial, Problem, Proposal, Record
from atlas.ued.scores import SCORES, Played, assess

TIME, BATCH = 12, 7


def episodes(played, env):
    """The finished episodes of one environment, as lists of time steps."""
    found, current = [], []
    for t in range(TIME):
        current.append(t)
        if played["done"][t, env]:
            found.append(current)
            current = []
    return found


def mean(numbers):
    numbers = list(numbers)
    return math.fsum(numbers) / len(numbers) if numbers else 0.0


def by_hand(name, played, env, best, attempts, solves):
    own = episodes(played, env)
    value, advantage = played["value"][:, env], played["advantage"][:, env]
    if name == "maxmc":
        return mean(mean(best - value[t] for t in steps) for steps in own)
    if name == "pvl":
        return mean(mean(max(advantage[t], 0.0) for t in steps) for steps in own)
    if name == "l1":
        return mean(mean(abs(advantage[t]) for t in steps) for steps in own)
    if name == "learnability":
        share = solves / attempts if attempts else 0.0
        return share * (1 - share)
    if name == "mna":
        return mean(sum(max(-advantage[t], 0.0) for t in steps) for steps in own) if solves else 0.0
    assert name == "constant", "a new score needs its loop here"
    return 1.0


def random_rollout(seed, finish=0.25):
    random = np.random.default_rng(seed)
    done = random.random((TIME, BATCH)) < finish
    return {
        "value": random.normal(size=(TIME, BATCH)).astype(np.float32),
        "advantage": random.normal(size=(TIME, BATCH)).astype(np.float32),
        "reward": random.random((TIME, BATCH)).round(2).astype(np.float32),
        "done": done,
        "accepted": done & (random.random((TIME, BATCH)) < 0.5),
    }


def proposal(slots, best, attempts, solves):
    def lineage(number):
        return Lineage(
            number=number,
            parent=jnp.int32(-1),
            generation=jnp.int16(0),
            edits=jnp.zeros(1, jnp.int8),
            arguments=jnp.zeros((1, 3), jnp.int16),
        )

    return Proposal(
        kind=jnp.int8(0),
        problems=Problem(level=jnp.zeros(BATCH), task=jnp.zeros(BATCH)),
        lineage=jax.vmap(lineage)(jnp.arange(BATCH, dtype=jnp.int32)),
        slots=jnp.asarray(slots, jnp.int32),
        record=Record(
            best_return=jnp.asarray(best, jnp.float32),
            attempts=jnp.asarray(attempts, jnp.int32),
            solves=jnp.asarray(solves, jnp.int32),
        ),
    )


@pytest.fixture(scope="module", params=list(SCORES))
def scoring(request):
    """A score's name, and `assess` with it."""

    def judge(played, trivial, offered):
        one = Partial(level=jnp.uint8(0), task_state=jnp.int8(0), valid=jnp.array(False))
        partial = jax.tree.map(lambda x: jnp.broadcast_to(x, (BATCH,)), one)
        return assess(SCORES[request.param], Played(**played), trivial, partial, offered)

    return request.param, jax.jit(judge)


def known_before(seed):
    """Slots with copies and new problems among them, and what was known of each."""
    random = np.random.default_rng(seed)
    slots = random.integers(-1, 4, BATCH)
    table_best, table_attempts = random.random(4).astype(np.float32) * 3, random.integers(1, 9, 4)
    table_solves = random.integers(0, table_attempts + 1)
    new = slots < 0
    best = np.where(new, -np.inf, table_best[slots])
    return slots, best, np.where(new, 0, table_attempts[slots]), np.where(new, 0, table_solves[slots])


@pytest.mark.parametrize("seed", range(20))
def test_scores_equal_the_loops(scoring, seed):
    name, judge = scoring
    played = random_rollout(seed)
    slots, best, attempts, solves = known_before(seed)
    outcome = jax.device_get(judge(played, jnp.zeros(BATCH, bool), proposal(slots, best, attempts, solves)))
    returns = [
        [sum(played["reward"][t, env] for t in steps) for steps in episodes(played, env)] for env in range(BATCH)
    ]
    finished = [len(episodes(played, env)) for env in range(BATCH)]
    solved = [int(played["accepted"][:, env].sum()) for env in range(BATCH)]
    np.testing.assert_array_equal(outcome.attempts, finished)
    np.testing.assert_array_equal(outcome.solves, solved)
    for env in range(BATCH):
        assert outcome.best_return[env] == pytest.approx(max(returns[env], default=-np.inf), abs=1e-5)
        copies = [other for other in range(BATCH) if other == env or slots[other] == slots[env] >= 0]
        best_ever = max([best[env], *(r for other in copies for r in returns[other])])
        expected = by_hand(
            name,
            played,
            env,
            best_ever,
            attempts[env] + sum(finished[other] for other in copies),
            solves[env] + sum(solved[other] for other in copies),
        )
        assert outcome.score[env] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("finish", [0.0, 0.3, 1.0])
def test_scores_are_finite_and_trivial_problems_score_nothing(scoring, finish):
    _, judge = scoring
    trivial = jnp.arange(BATCH) % 2 == 0
    new = np.full(BATCH, -1), np.full(BATCH, -np.inf), np.zeros(BATCH), np.zeros(BATCH)
    outcome = jax.device_get(judge(random_rollout(0, finish), trivial, proposal(*new)))
    assert np.all(np.isfinite(outcome.score))
    assert np.all(outcome.score[::2] == 0)


def test_steps_after_the_last_finished_episode_do_not_count(scoring):
    _, judge = scoring
    played = random_rollout(3)
    played["done"][-4:] = False
    changed = {**played, "value": played["value"].copy(), "advantage": played["advantage"].copy()}
    changed["value"][-4:] += 100.0
    changed["advantage"][-4:] -= 100.0
    offered = proposal(*known_before(3))
    before, after = (judge(p, jnp.zeros(BATCH, bool), offered).score for p in (played, changed))
    np.testing.assert_array_equal(before, after)
