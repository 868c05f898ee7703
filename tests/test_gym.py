"""Gymnasium's environments: its own checker, and the same episodes as elsewhere."""

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import atlas
import atlas.gym
import corridor
import students
from atlas.build import parts
from atlas.domains.minigrid.explored import MARK
from atlas.environment import from_dict
from atlas.errors import AtlasError
from atlas.show.episode import Episode

ID = "atlas/Minigrid-v0"


@pytest.fixture(scope="module")
def problem():
    """One that has a plan of a few steps."""
    some = atlas.sample(16, rooms=(1,), pairing="level", seed=5)
    plans = [atlas.solve(one).plan for one in some]
    return next(one for one, plan in zip(some, plans, strict=True) if plan and len(plan) < 12)


@pytest.fixture(scope="module")
def drawn():
    env = gymnasium.make(ID, preset="tiny", render_mode="ansi", label=True)
    yield env
    env.close()


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_gymnasium_finds_nothing_wrong(drawn):
    check_env(drawn.unwrapped, skip_render_check=True)


def test_every_domain_has_an_id(monkeypatch):
    corridor.register(monkeypatch)
    assert {"minigrid": ID, "corridor": "atlas/Corridor-v0"}.items() <= atlas.gym.ids().items()
    atlas.gym.register()
    assert "atlas/Corridor-v0" in gymnasium.registry
    env = gymnasium.make("atlas/Corridor-v0")
    told, _ = env.reset(seed=0)
    assert told["mission"].startswith("Stand on")
    gymnasium.registry.pop("atlas/Corridor-v0")


def test_a_seed_gives_the_same_problem(drawn):
    first, again, other = (drawn.reset(seed=seed)[0] for seed in (1, 1, 2))
    assert first["mission"] == again["mission"]
    np.testing.assert_array_equal(first["task"]["guard"], again["task"]["guard"])
    assert first["mission"] != other["mission"] or not np.array_equal(first["view"], other["view"])


def test_text_shows_level_and_task(drawn):
    told, info = drawn.reset(seed=1)
    shown = drawn.render()
    assert told["mission"] in shown
    assert "#" in shown
    assert info["task_state"] == "u0"
    assert isinstance(info["label"], frozenset)


def test_the_solution_solves_and_records_agree(problem):
    env = gymnasium.make(ID, problem=problem, solution=True, label=True, render_mode="rgb_array")
    told, info = env.reset(seed=0)
    assert told["mission"] == atlas.explain(problem)
    records = atlas.trace(problem, info["solution"])
    assert info["label"] == records[0].label
    for action, record in zip(info["solution"], records[1:], strict=True):
        told, reward, terminated, truncated, info = env.step(action)
        assert (reward, terminated, info["task_state"]) == (record.reward, record.done, record.task_state)
        assert info["label"] == record.label
        assert not truncated
    assert terminated
    assert info["accepted"]
    assert reward == 1.0
    picture = env.render()
    assert picture.dtype == np.uint8
    assert picture.shape[2] == 3
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 5


def test_a_certain_problem_can_be_asked_for(drawn, problem):
    told, _ = drawn.reset(options={"problem": problem})
    assert told["mission"] == atlas.explain(problem)
    assert drawn.observation_space.contains(told)
    with pytest.raises(AtlasError, match="a problem is needed"):
        drawn.reset(options={"problem": 3})


def test_mistakes_are_told(drawn, monkeypatch):
    drawn.reset(seed=0)
    with pytest.raises(AtlasError, match="6 is no action; there are 0 forward"):
        drawn.step(6)
    with pytest.raises(AtlasError, match=r"2\.5 is no action: a whole number is needed"):
        drawn.step(2.5)
    with pytest.raises(AtlasError, match="there is no preset 'tniy'; did you mean tiny"):
        gymnasium.make(ID, preset="tniy")
    corridor.register(monkeypatch)
    other = atlas.make("corridor")
    with pytest.raises(AtlasError, match="the problem is of the domain corridor, and this environment of minigrid"):
        gymnasium.make(ID, problem=other.sample(jax.random.key(0)))


@pytest.fixture(scope="module")
def envs():
    return gymnasium.make_vec(ID, num_envs=3, preset="tiny", pool=4, label=True)


def walk(envs, seed, steps=20):
    told, infos = envs.reset(seed=seed)
    random = np.random.default_rng(seed)
    seen = [(told, None, None, None, infos)]
    for _ in range(steps):
        seen.append(envs.step(random.integers(0, 6, 3)))
    return seen


def test_many_are_played_side_by_side(envs):
    ended = 0
    for told, reward, terminated, truncated, infos in walk(envs, 0):
        assert envs.observation_space.contains(told)
        assert len(infos["task_state"]) == 3
        if reward is None:
            continue
        over = terminated | truncated
        ended += int(over.sum())
        assert not (terminated & truncated).any()
        assert ("final_obs" in infos) == over.any()
        assert np.all((told["previous_action"] == 6) == over), "the next episode has begun"
        assert np.all(np.array(infos["accepted"]) <= terminated)
    assert ended > 4, "so problems were drawn anew"


def test_the_same_seed_gives_the_same_episodes(envs):
    first, again, other = walk(envs, 0), walk(envs, 0), walk(envs, 1)
    for (a, *_), (b, *_) in zip(first, again, strict=True):
        jax.tree.map(np.testing.assert_array_equal, a | {"mission": 0}, b | {"mission": 0})
        assert a["mission"] == b["mission"]
    assert any(a[0]["mission"] != c[0]["mission"] for a, c in zip(first, other, strict=True))


def test_each_of_them_plays_as_one_alone(envs):
    """The first episode of each, replayed in the plain environment."""
    env = envs.unwrapped.game.env
    told, _ = envs.reset(seed=4)
    problems, keys = envs.unwrapped._playing.problem, jax.random.key(0)
    states = [env.reset(keys, jax.tree.map(lambda leaf, i=i: leaf[i], problems))[1] for i in range(3)]
    alive, random = [True] * 3, np.random.default_rng(4)
    for _ in range(6):
        actions = random.integers(0, 6, 3)
        told, reward, terminated, truncated, infos = envs.step(actions)
        for i in range(3):
            if not alive[i]:
                continue
            one = jax.tree.map(lambda leaf, i=i: leaf[i], problems)
            seen, states[i], expected, done, _ = env.step(keys, states[i], int(actions[i]), one)
            alive[i] = not bool(done)
            source = infos["final_obs"] if done else told
            assert reward[i] == expected
            assert (terminated | truncated)[i] == bool(done)
            np.testing.assert_array_equal(source["view"][i], seen.view)


def test_mistakes_with_many_are_told(envs):
    envs.reset(seed=0)
    with pytest.raises(AtlasError, match="3 whole numbers are needed as actions"):
        envs.step([0, 1])
    with pytest.raises(AtlasError, match="9 is no action"):
        envs.step([0, 1, 9])


@pytest.mark.parametrize("tasks", ["sequential", pytest.param("hierarchical", marks=pytest.mark.slow)])
def test_a_view_with_its_map_is_the_same_wherever_it_is_shown(tasks):
    """In training, in the environment to import, in Gymnasium's, and in an episode that is watched: byte for byte."""
    some = atlas.sample(8, "level", tasks, rooms=(4,), seed=2)
    plans = [atlas.solve(one).plan or () for one in some]
    chosen, plan = max(zip(some, plans, strict=True), key=lambda pair: len(pair[1]))
    student = students.student(map=True)
    config = atlas.configure("tiny", domain={"rooms": [4]}, student={"network": {"map": True}})
    world, env = parts(config).world, atlas.make("minigrid", rooms=(4,), map=True)
    game, episode = gymnasium.make(ID, problem=chosen, map=True), Episode(chosen)
    problem, key = env.fit(chosen), jax.random.key(0)
    (made, playing), state = jax.jit(env.reset)(key, problem), jax.jit(world.reset)(problem)
    told, _ = game.reset(seed=0)
    look, step, move = jax.jit(world.view), jax.jit(world.step), jax.jit(env.step)
    marked = 0
    for action in (*plan, 0):
        shown = np.asarray(look(problem.task, state))
        assert shown.dtype == made.view.dtype == told["view"].dtype == episode.view_for(student).dtype == np.uint8
        for other in (made.view, told["view"], episode.view_for(student)):
            np.testing.assert_array_equal(other, shown)
        marked += int((shown >= MARK).sum())
        if episode.record.done:
            break
        made, playing, *_ = move(key, playing, np.int32(action), problem)
        told, *_ = game.step(action)
        state, _ = step(problem, state, np.int32(action))
        episode.act(action)
    assert marked > 0
    assert episode.record.done
    assert game.observation_space.contains(told)


def test_policies_understand_what_is_told(drawn):
    told, _ = drawn.reset(seed=3)
    seen = from_dict(told)
    assert seen.view.shape == (5, 5)
    assert int(seen.previous) == 6
