"""Laws that every score obeys, and each against the loops one would write by hand."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.testing import BATCH, SCORE_LAWS, TIME, TOY_GAMMA, judge_with, known_before, random_rollout
from atlas.testing import toy_proposal as proposal
from atlas.ued import SCORE_NAMES
from atlas.ued.scores import SCORES


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


def discounted(played, env, steps):
    return sum(TOY_GAMMA**age * played["reward"][t, env] for age, t in enumerate(steps))


def by_hand(name, played, env, best, attempts, solves, prior, plan):
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
    if name == "posterior":
        rate = (solves + 2 * prior) / (attempts + 2)
        return rate * (1 - rate) if own else 0.0
    if name == "oracle":
        returns = [discounted(played, env, steps) for steps in own]
        best = TOY_GAMMA ** (plan - 1) if plan > 0 else max(returns, default=0.0)
        return max(best - mean(returns), 0.0) if solves and own else 0.0
    assert name == "constant", "a new score needs its loop here"
    return 1.0


@pytest.fixture(scope="module", params=list(SCORES))
def scoring(request):
    """A score's name, and `assess` with it."""
    return request.param, judge_with(SCORES[request.param])


def test_settings_know_the_names():
    assert list(SCORES.own) == list(SCORE_NAMES)


@pytest.mark.parametrize("law", SCORE_LAWS, ids=lambda law: law.__name__)
def test_law(scoring, law):
    law(scoring[1])


@pytest.mark.parametrize("seed", range(20))
def test_scores_equal_the_loops(scoring, seed):
    name, judge = scoring
    played = random_rollout(seed)
    slots, best, attempts, solves = known_before(seed)
    random = np.random.default_rng(seed)
    prior, plan = (
        table[np.maximum(slots, 0)] for table in (random.random(4).astype(np.float32), random.integers(-2, 9, 4))
    )
    offered = proposal(slots, best, attempts, solves, prior, plan)
    outcome = jax.device_get(judge(played, jnp.zeros(BATCH, bool), offered))
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
            prior[env],
            plan[env],
        )
        own = episodes(played, env)
        first = -1 if not own else int(played["accepted"][own[0][-1], env])
        assert outcome.first[env] == first
        assert outcome.discounted[env] == pytest.approx(mean(discounted(played, env, s) for s in own), abs=1e-5)
        assert outcome.score[env] == pytest.approx(expected, abs=1e-5)
