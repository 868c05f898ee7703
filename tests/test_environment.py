"""The environment to import, against the episodes that `atlas.trace` tells."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import atlas
import corridor
from atlas.build import parts
from atlas.environment import Playing, as_dict, from_dict
from atlas.errors import AtlasError
from atlas.tasks.packed import unpack
from atlas.world import action_number

STEPS = 24


@pytest.fixture(scope="module")
def env():
    return atlas.make(
        "minigrid", rooms=(1,), step_limit=9, tasks={"max_length": 2}, pairing={"how": "level"}, label=True
    )


@pytest.fixture(scope="module")
def batch(env):
    return jax.jit(env.sample_many, static_argnums=1)(jax.random.key(0), 6)


def one(tree, i):
    return jax.tree.map(lambda leaf: leaf[i], tree)


@pytest.fixture(scope="module")
def played(env, batch):
    """Every problem with random actions, compiled, mapped and scanned; what follows after the end does not matter."""

    def play(key, problem):
        start, state = env.reset(key, problem)
        actions = jax.random.randint(key, (STEPS,), 0, env.num_actions)

        def step(state, action):
            seen, state, reward, done, info = env.step(key, state, action, problem)
            return state, (seen, reward, done, info)

        return start, actions, jax.lax.scan(step, state, actions)[1]

    return jax.device_get(jax.jit(jax.vmap(play))(jax.random.split(jax.random.key(1), 6), batch))


def test_it_is_shown_in_a_line(env):
    assert repr(env) == "Environment(minigrid, rooms=(1,), step_limit=9, label=True)"
    assert repr(atlas.make(rooms=(1,), map=True)) == "Environment(minigrid, rooms=(1,), map=True)"


def test_episodes_are_those_that_trace_tells(env, batch, played):
    starts, actions, (seen, rewards, dones, infos) = played
    ends = set()
    for i in range(6):
        problem = one(batch, i)
        records = atlas.trace(problem, actions[i].tolist(), step_limit=9)
        np.testing.assert_array_equal(one(starts, i).view.shape, (5, 5))
        assert starts.previous[i] == env.num_actions
        names = {0: "u0"} | {n: f"u{n}" for n in range(8)}
        for t, record in enumerate(records[1:]):
            assert rewards[i, t] == record.reward
            assert dones[i, t] == record.done
            state = int(seen.task_state[i, t, 0])
            ended = int(seen.task.outcome[i, t, state])
            assert {0: names[state], 1: "uA", 2: "uR"}[ended] == record.task_state
            assert {env.propositions[p] for p in np.flatnonzero(infos["label"][i, t])} == record.label
            assert infos["accepted"][i, t] == (record.done and record.task_state == "uA")
            assert infos["truncated"][i, t] == (record.done and record.task_state not in ("uA", "uR"))
            assert seen.previous[i, t] == actions[i, t]
        assert dones[i, len(records) - 2]
        ends.add(records[-1].task_state == "uA")
    assert False in ends


def test_eager_calls_give_the_same(env, batch, played):
    starts, actions, (seen, rewards, _, _) = played
    problem, key = one(batch, 0), jax.random.key(0)
    observation, state = env.reset(key, problem)
    np.testing.assert_array_equal(observation.view, starts.view[0])
    observation, state, reward, _, _ = env.step(key, state, int(actions[0, 0]), problem)
    np.testing.assert_array_equal(observation.view, seen.view[0, 0])
    assert reward == rewards[0, 0]


def test_the_graph_is_the_task(env, batch, played):
    graph = one(played[0].task, 0)
    task = unpack(one(batch, 0).task)
    for edge in task.machines[0].edges:
        slots = np.flatnonzero(graph.target[edge.source] == edge.target)
        literals = {tuple(sorted(x for x in graph.guard[edge.source, slot].tolist() if x)) for slot in slots}
        assert tuple(sorted(edge.literals)) in literals


def test_an_episode_that_is_done_starts_again(env, batch):
    again, problem = atlas.AutoReset(env), one(batch, 0)
    first, state = again.reset(jax.random.key(0), problem)
    step = jax.jit(again.step)
    for _ in range(9):
        seen, state, _, done, info = step(jax.random.key(0), state, jnp.int32(1), problem)
        if done:
            break
    assert done
    jax.tree.map(np.testing.assert_array_equal, seen, first)
    assert int(state.world.time) == 0
    assert info["final_observation"].previous == 1
    assert again.num_actions == env.num_actions


def test_a_sampler_plays_problems_of_its_batch(env, batch):
    game = atlas.ProblemSampler(env)

    def play(key):
        _, state = game.reset(key, batch)

        def step(state, key):
            _, state, _, done, _ = game.step(key, state, jnp.int32(1), batch)
            return state, (done, state)

        return jax.lax.scan(step, state, jax.random.split(key, 64))[1]

    dones, states = jax.device_get(jax.jit(play)(jax.random.key(3)))
    assert isinstance(states, Playing)
    numbers = states.number
    assert len(set(numbers.tolist())) > 2
    for t in range(64):
        jax.tree.map(np.testing.assert_array_equal, one(states.problem, t), one(jax.device_get(batch), int(numbers[t])))
        assert (states.state.world.time[t] == 0) == dones[t]
    changed = np.flatnonzero(np.diff(numbers)) + 1
    assert dones[changed].all(), "only the end of an episode brings another problem"
    drawn = jax.eval_shape(game.reset, jax.random.key(0))[1]
    assert drawn.number.shape == ()


def test_observations_become_dicts_and_back(played):
    first = one(played[0], 0)
    jax.tree.map(np.testing.assert_array_equal, from_dict(as_dict(first)), first)
    with pytest.raises(AtlasError, match="the observation has no 'view'"):
        from_dict({"task": {"target": 1, "guard": 1, "outcome": 1}})


def test_problems_from_files_fit(env, batch):
    hand = atlas.sample(2, rooms=(1,), seed=3)
    assert env.stack(hand).level.cells.shape[0] == 2
    natural = env.fit(hand[0])
    padded = env.fit(hand[0], like=one(batch, 0))
    key = jax.random.key(0)
    first, second = env.reset(key, natural)[0], env.reset(key, padded)[0]
    np.testing.assert_array_equal(first.view, second.view)
    assert second.task.target.shape == env.reset(key, one(batch, 0))[0].task.target.shape
    large = atlas.sample(1, rooms=(6,), seed=3)[0]
    with pytest.raises(AtlasError, match="the level does not fit"):
        env.fit(large, like=one(batch, 0))


def test_mistakes_are_told(env, batch, monkeypatch):
    problem, key = one(batch, 0), jax.random.key(0)
    _, state = env.reset(key, problem)
    with pytest.raises(AtlasError, match="6 is no action; there are 0 forward"):
        env.step(key, state, 6, problem)
    with pytest.raises(AtlasError, match="-1 is no action"):
        env.step(key, state, jnp.int32(-1), problem)
    with pytest.raises(AtlasError, match=r"1\.5 is no action: a whole number is needed"):
        action_number(1.5, env.actions)
    with pytest.raises(AtlasError, match="'forwrad' is no action; did you mean forward"):
        env.step(key, state, "forwrad", problem)
    np.testing.assert_array_equal(
        env.step(key, state, "right", problem)[0].view, env.step(key, state, 1, problem)[0].view
    )
    with pytest.raises(AtlasError, match=r"`problem = env.fit\(problem\)`"):
        env.reset(key, atlas.sample(1)[0])
    with pytest.raises(AtlasError, match="'room' is no setting of an environment; did you mean rooms"):
        atlas.make(room=(1,))
    with pytest.raises(AtlasError, match="there is no domain 'minigird'; did you mean minigrid"):
        atlas.make("minigird")
    with pytest.raises(AtlasError, match="map = true is not allowed: LetterWorld makes no maps of what was seen"):
        atlas.make("letterworld", map=True)
    with pytest.raises(AtlasError, match="map = true is not allowed: LetterWorld makes no maps of what was seen"):
        parts(atlas.configure("quick-letters", student={"network": {"view": "dense", "map": True}}))
    corridor.register(monkeypatch)
    other = atlas.make("corridor")
    with pytest.raises(AtlasError, match="the problem is of the domain minigrid, and this environment of corridor"):
        other.reset(key, problem)
    with pytest.raises(AtlasError, match="'tiny' is of the domain minigrid, not of corridor"):
        atlas.make("corridor", "tiny")
    assert other.reset(key, other.sample(key))[0].view.shape == (1, 3)
