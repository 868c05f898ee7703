"""Advantages against a plain loop over one environment at a time."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas.student.ppo import advantages

TIME, ENVS = 6, 2
compiled = jax.jit(advantages, static_argnames=("gamma", "lam"))


def by_loop(reward, value, done, cut_value, last_value, gamma, lam):
    """The definition: a discounted sum of errors up to the end of the episode."""
    result = np.zeros((TIME, ENVS))
    for env in range(ENVS):
        for t in range(TIME):
            weight = 1.0
            for s in range(t, TIME):
                following = last_value[env] if s == TIME - 1 else value[s + 1, env]
                if done[s, env]:
                    following = cut_value[s, env]
                result[t, env] += weight * (reward[s, env] + gamma * following - value[s, env])
                weight *= gamma * lam
                if done[s, env]:
                    break
    return result


@given(seed=st.integers(0, 10_000), ends=st.floats(0, 1), bootstrap=st.booleans())
def test_advantages_are_the_definition(seed, ends, bootstrap):
    rng = np.random.default_rng(seed)
    reward, value, cut = (rng.normal(size=(TIME, ENVS)).astype(np.float32) for _ in range(3))
    last = rng.normal(size=ENVS).astype(np.float32)
    done = rng.random((TIME, ENVS)) < ends
    cut = np.where(done & bootstrap, cut, 0).astype(np.float32)
    ours = compiled(reward, value, done, cut if bootstrap else None, last, gamma=0.9, lam=0.8)
    np.testing.assert_allclose(ours, by_loop(reward, value, done, cut, last, 0.9, 0.8), atol=1e-5)


@pytest.mark.parametrize("lam", [0.0, 1.0])
def test_extremes(lam):
    """Lambda 0 is the one-step error; lambda 1 without an end is the return minus the value."""
    rng = np.random.default_rng(0)
    reward, value = (rng.normal(size=(TIME, ENVS)).astype(np.float32) for _ in range(2))
    last, done = rng.normal(size=ENVS).astype(np.float32), np.zeros((TIME, ENVS), bool)
    ours = compiled(reward, value, done, None, last, gamma=0.9, lam=lam)
    after = np.concatenate([value[1:], last[None]])
    if lam == 0:
        expected = reward + 0.9 * after - value
    else:
        returns, expected = last, np.zeros_like(value)
        for t in reversed(range(TIME)):
            returns = reward[t] + 0.9 * returns
            expected[t] = returns - value[t]
    np.testing.assert_allclose(ours, expected, atol=1e-5)
