"""Cloning: plans are shown as the world would show them, imitated, and forgotten in time."""

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import students
from atlas.build import build, parts
from atlas.config import CloningConfig, PPOConfig
from atlas.domains.minigrid.presets import TINY
from atlas.domains.minigrid.solver.prove import solve_many
from atlas.errors import AtlasError
from atlas.evaluation.sets import one_by_one
from atlas.proofs import transitions
from atlas.rollout import SHOWN, Demonstrations, Player
from atlas.student import ppo
from atlas.training import TrainState

ENVS, STEPS, LIMIT = 4, 16, 12
CONFIG = PPOConfig(learning_rate=3e-3, minibatch_envs=2, epochs=2, entropy=0.0)


@cache
def player():
    return Player(students.world(step_limit=LIMIT), students.student(), STEPS)


@cache
def shown():
    """Problems of one room that have a plan, and their plans."""
    batch = students.draw(jax.random.split(jax.random.key(3), 24))
    found = solve_many(list(one_by_one(batch)), step_limit=LIMIT, bound=False)
    rows = np.array([row for row, one in enumerate(found) if one.plan and not one.trivial and len(one.plan) <= LIMIT])
    plans = np.zeros((len(rows), LIMIT), np.uint8)
    for place, row in enumerate(rows):
        plans[place, : len(found[row].plan)] = found[row].plan
    lengths = np.array([len(found[row].plan) for row in rows], np.int32)
    problems = jax.tree.map(lambda leaf: np.asarray(leaf)[rows], batch)
    return Demonstrations.unchecked(problems=problems, plans=plans, count=np.int32(len(rows))), lengths


@cache
def lesson(wanted=True):
    follow = jax.jit(player().demonstrate, static_argnums=3)
    return follow(jax.random.key(1), shown()[0], jnp.bool_(wanted), ENVS)


def test_there_is_something_to_show():
    assert shown()[0].count >= SHOWN


def test_plans_are_shown_as_a_replay_shows_them():
    """Row by row: plans one behind the other, with the views, task states, actions and starts of their replay."""
    demos, lengths = shown()
    key_choose, _ = jax.random.split(jax.random.key(1))
    chosen = np.asarray(jax.random.randint(key_choose, (ENVS, SHOWN), 0, int(demos.count)))
    told, nodes = lesson(), lesson().graphs.outcome.shape[-1]
    for env in range(ENVS):
        rows = chosen[env]
        replay = transitions(jax.tree.map(lambda leaf: leaf[rows], demos.problems), demos.plans[rows], lengths[rows])  # noqa: B023
        moments = [(place % SHOWN, t) for place in range(STEPS) for t in range(lengths[rows[place % SHOWN]])][:STEPS]
        for time, (place, t) in enumerate(moments):
            np.testing.assert_array_equal(told.seen.view[time, env], replay.view[place, t])
            assert told.seen.nodes[time, env, 0] == place * nodes + replay.nodes[place, t, 0]
            assert told.action[time, env] == replay.action[place, t]
            assert told.seen.start[time, env] == (t == 0)
            if t:
                assert told.seen.previous[time, env] == replay.action[place, t - 1]


def test_nothing_is_shown_that_is_not_wanted():
    assert not np.any(lesson(False).seen.view)
    assert not np.any(lesson(False).action)


@cache
def learner():
    """One update on a rollout, with a lesson of some weight."""
    who = ppo.Learner(students.student(), CONFIG, ppo.optimiser(CONFIG))

    @jax.jit
    def run(params, state, weight):
        pools = jax.tree.map(lambda leaf: leaf[:, None], students.problems(ENVS))
        experience = player().play_pools(jax.random.key(1), params, pools)[0].experience
        taught = who.learn(jax.random.key(2), params, state, experience, None, (weight, lesson()))
        return taught, who.learn(jax.random.key(2), params, state, experience)

    params = jax.jit(students.student().init)(jax.random.key(0))
    return run, params, who.init(params)


def test_without_a_weight_a_lesson_changes_nothing():
    run, *start = learner()
    (params, _, losses), (plain, _, others) = run(*start, jnp.float32(0.0))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), params, plain
    )  # rounded otherwise
    assert losses.cloning == 0
    assert others.cloning is None


def test_plans_are_imitated():
    run, *state = learner()
    found = []
    for _ in range(30):
        (*state, losses), _ = run(*state, jnp.float32(1.0))
        found.append(float(losses.cloning))
    assert found[0] == pytest.approx(np.log(len(students.DOMAIN.actions)), abs=0.3)  # as good as chance at first
    assert found[-1] < 0.6 * found[0]


def test_the_gradient_is_that_of_the_cross_entropy_as_a_plain_mean():
    """Against a student that acts step by step."""
    student, told = students.student(), lesson()
    params = jax.jit(student.init)(jax.random.key(0))
    tables = student.embed(params, told.noise, told.graphs)
    hidden, total = student.initial_hidden(ENVS), 0.0
    for time in range(STEPS):
        seen = jax.tree.map(lambda leaf: leaf[time], told.seen)  # noqa: B023
        hidden, logits, _ = student.step(params, tables, seen, hidden)
        chances = jax.nn.softmax(logits)
        total -= float(jnp.sum(jnp.log(chances[jnp.arange(ENVS), told.action[time]])))
    flat, unravel = ravel_pytree(params)
    who = ppo.Learner(student, CONFIG, ppo.optimiser(CONFIG))
    found, _ = who._cloning(jnp.float32(0.5), told, jnp.arange(ENVS), unravel)(flat)
    assert found == pytest.approx(total / (ENVS * STEPS), rel=1e-4)


WITH_PLANS = dataclasses.replace(
    TINY, student=dataclasses.replace(TINY.student, cloning=CloningConfig(plans=8, weight=2.0, until=0.25))
)


@cache
def trainer():
    return build(WITH_PLANS, made=parts(WITH_PLANS))


def weight(iterations, clock, count=8):
    others = dict.fromkeys(vars(trainer().shapes))
    shown = jax.tree.map(lambda leaf: jnp.full(leaf.shape, 0 if leaf.ndim else count, leaf.dtype), trainer().shown)
    told = {"iterations": jnp.int32(iterations), "trained": jnp.int32(iterations), "clock": clock, "shown": shown}
    state = TrainState.unchecked(**others | told)
    return float(jax.jit(lambda state: trainer().lesson(jax.random.key(0), state)[0])(state))


@pytest.mark.parametrize(
    ("share", "clock", "expected"),
    [(0.0, None, 2.0), (0.125, None, 1.0), (0.25, None, 0.0), (0.9, None, 0.0), (0.0, 0.125, 1.0), (0.125, 0.5, 0.0)],
)
def test_the_weight_falls_to_zero_by_env_steps_or_by_the_clock(share, clock, expected):
    run = WITH_PLANS.run
    iterations = round(share * run.total_steps / (run.num_envs * run.rollout))
    found = weight(iterations, None if clock is None else jnp.float32(clock))
    assert found == pytest.approx(expected, abs=0.02)


def test_there_is_no_weight_before_there_are_plans():
    assert weight(0, None, count=0) == 0.0


def test_a_domain_without_a_prover_is_refused(monkeypatch):
    monkeypatch.setattr("atlas.build.surface_of", lambda name: object())
    with pytest.raises(AtlasError, match=r"student\.cloning\.plans = 8 needs the plans of a prover"):
        build(WITH_PLANS)
