"""Rollouts: what is stored is what happened, and what was predicted can be computed again."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import students
from atlas.rollout import Player
from atlas.student.experience import draw_action, log_prob_of, observations

ENVS, POOL, STEPS = 6, 3, 20
MODES = ("replay", "pools", "carried", "bootstrap", "phases", "hierarchies")


@cache
def player(mode):
    """The step limit divides the rollout's length: without luck, episodes end exactly at its edge."""
    sampler = "hierarchical" if mode == "hierarchies" else "sequential"
    return Player(
        world=students.world(sampler, step_limit=5),
        student=students.student(task_into_gru=mode != "phases"),
        steps=STEPS,
        phases=2 if mode == "phases" else 1,
        bootstrap=mode == "bootstrap",
    )


def initial(student):
    return jax.jit(student.init)(jax.random.key(7))


@cache
def rollout(mode, seed=0):
    who = player(mode)
    params = initial(who.student)
    key = jax.random.key(seed)
    if mode not in ("pools", "carried"):
        sampler = "hierarchical" if mode == "hierarchies" else "sequential"
        return params, jax.jit(who.play)(key, params, students.problems(ENVS, sampler))
    pools = students.pools(ENVS, POOL)
    play = jax.jit(who.play_pools)
    running = who.idle(pools)
    if mode == "carried":  # an odd limit, so that episodes are cut in the middle
        who = Player(world=students.world(step_limit=7), student=who.student, steps=STEPS)
        play = jax.jit(who.play_pools)
        _, running = play(jax.random.key(seed + 1), params, pools, running)
        pools = students.pools(ENVS, POOL, seed=1)
    return params, play(key, params, pools, running)[0]


@pytest.fixture(scope="module", params=MODES)
def mode(request):
    return request.param


def test_what_was_predicted_while_acting_is_predicted_while_learning(mode):
    params, played = rollout(mode)
    student, experience = player(mode).student, played.experience
    seen = observations(experience)
    tables = student.embed(params, experience.noise, experience.graphs)
    length = STEPS // len(experience.hidden)
    for phase, hidden in enumerate(experience.hidden):
        part = slice(phase * length, (phase + 1) * length)
        window = jax.tree.map(lambda leaf, part=part: leaf[part], seen)
        logits, value = jax.jit(student.unroll)(params, tables, window, hidden)
        log_prob = log_prob_of(jax.nn.log_softmax(logits), played.steps.action[part])
        np.testing.assert_allclose(np.exp(log_prob - played.steps.log_prob[part]), 1.0, atol=1e-5)
        np.testing.assert_allclose(value, played.steps.value[part], atol=1e-5)
    assert played.steps.done[-1].any() or mode == "carried"
    assert played.steps.done[:-1].any()


def test_embeddings_differ_where_noise_does():
    params, played = rollout("replay")
    student, experience = player("replay").student, played.experience
    other = jax.random.split(jax.random.key(99), ENVS)
    a, b = (student.embed(params, keys, experience.graphs) for keys in (experience.noise, other))
    assert not np.allclose(a, b, atol=1e-3)


def test_episodes_start_where_others_end(mode):
    steps = rollout(mode)[1].steps
    np.testing.assert_array_equal(steps.start[1:], steps.done[:-1])
    if mode != "carried":
        assert steps.start[0].all()
    else:
        assert not steps.start[0].all()


def test_problems_of_a_pool_are_taken_in_turn():
    steps = rollout("pools")[1].steps
    np.testing.assert_array_equal(steps.entry, (np.cumsum(steps.start, 0) - 1) % POOL)


def test_episode_statistics_are_those_of_the_stored_steps(mode):
    played = rollout(mode)[1]
    steps = jax.device_get(played.steps)
    for env in range(ENVS):
        if mode == "carried":
            continue  # returns and lengths include what happened in the earlier rollout
        ends = np.flatnonzero(steps.done[:, env])
        begins = [0, *(ends[:-1] + 1)]
        returns = [steps.reward[a : b + 1, env].sum() for a, b in zip(begins, ends, strict=False)]
        episodes = jax.tree.map(lambda leaf, env=env: leaf[env], played.episodes)
        assert episodes.attempts == len(ends)
        assert episodes.solves == steps.accepted[:, env].sum()
        assert episodes.best_return == max(returns, default=-np.inf)
        np.testing.assert_allclose(episodes.total_return, sum(returns), atol=1e-6)
        assert episodes.total_length == (ends[-1] + 1 if len(ends) else 0)


def test_stored_steps_replay_in_the_world():
    """Step the world by hand with the stored actions: views, nodes, rewards, ends and partial progress agree."""
    world, problems = player("replay").world, students.problems(ENVS)
    played = rollout("replay")[1]
    steps = jax.device_get(played.steps)
    reset, step = jax.jit(world.reset), jax.jit(world.step)
    for env in range(ENVS):
        problem = jax.tree.map(lambda leaf, env=env: leaf[env], problems)
        state, unsolved = reset(problem), None
        for t in range(STEPS):
            np.testing.assert_array_equal(world.domain.view(state.domain), steps.view[t, env])
            np.testing.assert_array_equal(world.formalism.nodes(state.task), steps.nodes[t, env])
            state, result = step(problem, state, jnp.int32(steps.action[t, env]))
            for name in ("reward", "done", "accepted", "truncated"):
                assert getattr(result, name) == getattr(steps, name)[t, env]
            if result.truncated:
                unsolved = state
            state = reset(problem) if result.done else state
        unsolved = state if state.time > 0 else unsolved
        partial = jax.tree.map(lambda leaf, env=env: leaf[env], played.partial)
        assert partial.valid == (unsolved is not None)
        if unsolved is not None:
            level = world.domain.as_level(unsolved.domain)
            jax.tree.map(np.testing.assert_array_equal, partial.level, level)
            assert partial.task_state == unsolved.task


def test_carried_episodes_go_on():
    """Two connected rollouts of ten steps live through what one of twenty does, once noise and luck are the same."""
    student = students.student(task="index")  # no noise
    world, pools = students.world(step_limit=7), students.pools(ENVS, POOL)
    params = initial(student)
    half = Player(world=world, student=student, steps=10)
    play = jax.jit(half.play_pools)
    first, running = play(jax.random.key(0), params, pools, half.idle(pools))
    fresh = students.pools(ENVS, POOL, seed=1)
    second, _ = play(jax.random.key(1), params, fresh, running)
    for env in range(ENVS):
        if first.steps.done[-1, env]:
            assert second.steps.start[0, env]
            np.testing.assert_array_equal(
                world.domain.view(world.reset(jax.tree.map(lambda leaf, e=env: leaf[e, 0], fresh)).domain),
                second.steps.view[0, env],
            )
        else:
            assert not second.steps.start[0, env]
            ended = np.flatnonzero(second.steps.done[:, env])[0]
            begun = 10 - np.flatnonzero(first.steps.start[:, env])[-1]
            assert begun + ended + 1 <= 7
            assert second.steps.accepted[ended, env] or begun + ended + 1 == 7


def test_cut_episodes_are_worth_the_value_of_their_last_state():
    """The value in which a limit of five cuts is the value of the sixth step under a limit of six."""
    short = player("bootstrap")
    long = Player(world=students.world(step_limit=6), student=short.student, steps=6)
    params = initial(short.student)
    problems = students.problems(ENVS)
    brief = Player(world=short.world, student=short.student, steps=6, bootstrap=True)
    cut = jax.jit(brief.play)(jax.random.key(3), params, problems).steps
    whole = jax.jit(long.play)(jax.random.key(3), params, problems).steps
    assert cut.truncated[4].any()
    expected = np.where(cut.truncated[4], whole.value[5], 0.0)
    np.testing.assert_allclose(cut.cut_value[4], expected, atol=1e-6)
    np.testing.assert_array_equal(cut.cut_value[jnp.array([0, 1, 2, 3, 5])], 0.0)


def test_a_stored_step_is_small():
    steps = rollout("bootstrap")[1].steps
    stored = sum(leaf.nbytes for leaf in jax.tree.leaves(steps)) / (ENVS * STEPS)
    assert stored <= 60


def test_trivial_problems_are_told():
    played = rollout("replay")[1]
    world, problems = player("replay").world, students.problems(ENVS)
    starts = jax.vmap(world.reset)(problems)
    np.testing.assert_array_equal(played.trivial[:, 0], jax.vmap(world.trivial)(problems, starts))


def test_actions_are_drawn_with_their_probabilities():
    logits = jnp.array([0.0, 1.0, -2.0, 0.5])
    chances = (jnp.arange(20_000) + 0.5) / 20_000
    actions, log_prob = draw_action(chances, jnp.broadcast_to(logits, (20_000, 4)))
    np.testing.assert_allclose(np.bincount(actions, minlength=4) / 20_000, jax.nn.softmax(logits), atol=1e-4)
    np.testing.assert_allclose(log_prob, jax.nn.log_softmax(logits)[actions], atol=1e-6)
