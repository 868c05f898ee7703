"""Rollouts: what is stored is what happened, and what was predicted can be computed again."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import students
from atlas.errors import AtlasError
from atlas.rollout import Player
from atlas.student.network import Observation, log_prob_of, observations, sample_action
from atlas.world import restart

ENVS, POOL, STEPS, LIMIT = 6, 3, 20, 5
"""The limit divides the rollout's length: without luck, episodes end exactly at its edge."""
MODES = ("replay, bootstrapped", "pools with maps, carried over", "hierarchies with maps, two phases")
REPLAY, CARRIED, PHASES = MODES
MAPPED = (CARRIED, PHASES)
"""Where the student has a map of what it has seen."""


@cache
def player(mode):
    return Player(
        world=students.world(mode == PHASES, 7 if mode == CARRIED else LIMIT).with_map(mode in MAPPED),
        student=students.student(task_into_gru=mode != PHASES, map=mode in MAPPED),
        steps=STEPS,
        phases=2 if mode == PHASES else 1,
        bootstrap=mode == REPLAY,
    )


@cache
def initial(mode):
    return jax.jit(player(mode).student.init)(jax.random.key(7))


@cache
def connected():
    """Two rollouts, one going on where the other stopped."""
    who, params, pools = player(CARRIED), initial(CARRIED), students.pools(ENVS, POOL)
    play = jax.jit(who.play_pools)
    first, running = play(jax.random.key(1), params, pools, who.idle(pools))
    second, _ = play(jax.random.key(2), params, students.pools(ENVS, POOL, seed=1), running)
    return first, second


@cache
def rollout(mode):
    if mode == CARRIED:
        return connected()[1]
    return jax.jit(player(mode).play)(jax.random.key(0), initial(mode), students.problems(ENVS, mode == PHASES))


@pytest.fixture(scope="module", params=MODES)
def mode(request):
    return request.param


def test_what_was_predicted_while_acting_is_predicted_while_learning(mode):
    played, student = rollout(mode), player(mode).student
    experience = played.experience
    length = STEPS // len(experience.hidden)

    @jax.jit
    def again(params, noise, phase):
        tables = student.embed(params, noise, experience.graphs)
        seen = jax.tree.map(lambda leaf: leaf.reshape(-1, length, *leaf.shape[1:])[phase], observations(experience))
        logits, value = student.unroll(params, tables, seen, experience.hidden[phase])
        return jax.nn.log_softmax(logits), value

    for phase in range(len(experience.hidden)):
        part = slice(phase * length, (phase + 1) * length)
        log_probs, value = again(initial(mode), experience.noise, phase)
        log_prob = log_prob_of(log_probs, played.steps.action[part])
        np.testing.assert_allclose(np.exp(log_prob - played.steps.log_prob[part]), 1.0, atol=1e-5)
        np.testing.assert_allclose(value, played.steps.value[part], atol=1e-5)
    assert played.steps.done[-1].any() or mode == CARRIED
    assert played.steps.done[:-1].any()
    other = again(initial(mode), jax.random.split(jax.random.key(99), ENVS), 0)[1]
    assert not np.allclose(other, played.steps.value[:length], atol=1e-3)  # the noise matters


def test_episodes_start_where_others_end(mode):
    steps = rollout(mode).steps
    np.testing.assert_array_equal(steps.start[1:], steps.done[:-1])
    assert steps.start[0].all() != (mode == CARRIED)


def test_problems_of_a_pool_are_taken_in_turn():
    steps = connected()[0].steps
    np.testing.assert_array_equal(steps.entry, (np.cumsum(steps.start, 0) - 1) % POOL)


def test_views_are_those_of_the_problem_that_is_played():
    """With their maps, which begin anew with every episode."""
    world, steps, pools = player(CARRIED).world, connected()[0].steps, students.pools(ENVS, POOL)

    def live(pool, entries, starts, actions):
        def step(state, now):
            entry, start, action = now
            problem = jax.tree.map(lambda leaf: leaf[entry], pool)
            state = restart(start, world.reset(problem), state)
            shown = world.view(problem.task, state)
            return world.step(problem, state, action.astype(jnp.int32))[0], shown

        first = world.reset(jax.tree.map(lambda leaf: leaf[0], pool))
        return jax.lax.scan(step, first, (entries, starts, actions))[1]

    lived = jax.jit(jax.vmap(live, (0, 1, 1, 1), 1))(pools, steps.entry, steps.start, steps.action)
    np.testing.assert_array_equal(lived, steps.view)
    assert (steps.view >= 128).any()


def by_hand(env):
    """Live through one environment's replay rollout again, one step at a time, with the stored actions."""
    who, params, played = player(REPLAY), initial(REPLAY), rollout(REPLAY)
    world, student = who.world, who.student
    pick = lambda tree: jax.tree.map(lambda leaf: leaf[env], tree)  # noqa: E731
    problem, experience = pick(students.problems(ENVS)), played.experience

    @jax.jit
    def live(tables, actions):
        begin = world.reset(problem)

        def look(state, previous, start, hidden):
            view, nodes = world.domain.view(state.domain), world.formalism.nodes(state.task)
            seen = Observation(view=view, nodes=nodes, previous=previous, start=start)
            seen = jax.tree.map(lambda leaf: leaf[None], seen)
            return seen, *student.step(params, tables, seen, hidden)

        def step(carry, action):
            state, previous, start, hidden, unsolved = carry
            seen, hidden, _, value = look(state, previous, start, hidden)
            state, result = world.step(problem, state, action.astype(jnp.int32))
            after_it = look(state, action, jnp.array(False), hidden)[3]
            unsolved = restart(result.truncated, state, unsolved)
            after = (restart(result.done, begin, state), action, result.done, hidden, unsolved)
            return after, (seen, value, result, after_it)

        first = (begin, jnp.uint8(0), jnp.array(True), student.initial_hidden(1), begin)
        last, lived = jax.lax.scan(step, first, actions)
        return world.domain.as_level(last[0].domain), last, lived

    graphs = jax.tree.map(lambda leaf: leaf[env : env + 1], experience.graphs)
    tables = student.embed(params, experience.noise[env : env + 1], graphs)
    return live(tables, experience.steps.action[:, env])


def test_what_is_stored_is_what_happens_step_by_step():
    played = rollout(REPLAY)
    env = int(np.argmax(played.steps.accepted.any(0) & played.steps.truncated.any(0)))
    steps = jax.tree.map(lambda leaf: leaf[:, env], played.steps)
    level, (state, *_, unsolved), (seen, value, result, after_it) = by_hand(env)
    np.testing.assert_array_equal(seen.view[:, 0], steps.view)
    np.testing.assert_array_equal(seen.nodes[:, 0], steps.nodes)
    np.testing.assert_allclose(value[:, 0], steps.value, atol=1e-5)
    for name in ("reward", "done", "accepted", "truncated"):
        np.testing.assert_array_equal(getattr(result, name), getattr(steps, name))
    assert steps.truncated.any()
    assert steps.accepted.any()
    np.testing.assert_allclose(np.where(steps.truncated, after_it[:, 0], 0.0), steps.cut_value, atol=1e-5)
    np.testing.assert_allclose(after_it[-1, 0], played.experience.last_value[env], atol=1e-5)
    partial = jax.tree.map(lambda leaf: leaf[env], played.partial)
    assert partial.valid
    if state.time > 0:
        jax.tree.map(np.testing.assert_array_equal, partial.level, level)
    assert partial.task_state == (state if state.time > 0 else unsolved).task


def test_partial_progress_is_the_running_episode_or_the_last_that_was_cut():
    played = rollout(REPLAY)
    steps = played.steps
    for env in range(ENVS):
        running = not steps.done[-1, env]
        assert played.partial.valid[env] == (running or steps.truncated[:, env].any())


def test_carried_episodes_go_on():
    first, second = connected()
    limit = player(CARRIED).world.step_limit
    assert not first.steps.done[-1].all()
    for env in range(ENVS):
        assert second.steps.start[0, env] == first.steps.done[-1, env]
        if not second.steps.start[0, env]:
            lived = STEPS - np.flatnonzero(first.steps.start[:, env])[-1]
            end = np.flatnonzero(second.steps.done[:, env])[0]
            assert lived + end + 1 == limit or (lived + end + 1 < limit and second.steps.accepted[end, env])


def test_pools_that_a_byte_cannot_number_are_refused():
    huge = jax.tree.map(lambda leaf: jnp.zeros((1, 257, *leaf.shape[1:]), leaf.dtype), students.problems(1))
    with pytest.raises(AtlasError, match=r"pool of 257 .* at most 256"):
        player(CARRIED).play_pools(jax.random.key(0), initial(CARRIED), huge)


def test_a_stored_step_is_small():
    steps = rollout(REPLAY).steps
    stored = sum(leaf.nbytes for leaf in jax.tree.leaves(steps)) / (ENVS * STEPS)
    assert stored <= 60


def test_trivial_problems_are_told():
    played = rollout(REPLAY)
    world, problems = player(REPLAY).world, students.problems(ENVS)
    trivial = jax.jit(jax.vmap(lambda problem: world.trivial(problem, world.reset(problem))))(problems)
    np.testing.assert_array_equal(played.trivial[:, 0], trivial)
    assert trivial[0]
    assert not trivial[1:].any()


def test_actions_are_drawn_with_their_probabilities():
    logits = jnp.array([0.0, 1.0, -2.0, 0.5])
    chances = (jnp.arange(20_000) + 0.5) / 20_000
    actions, log_prob = sample_action(chances, jnp.broadcast_to(logits, (20_000, 4)))
    np.testing.assert_allclose(np.bincount(actions, minlength=4) / 20_000, jax.nn.softmax(logits), atol=1e-4)
    np.testing.assert_allclose(log_prob, jax.nn.log_softmax(logits)[actions], atol=1e-6)
