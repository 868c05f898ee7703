"""Experiments from Python: settings in one line, parts passed as values, policies, evaluations."""

import json
from dataclasses import dataclass
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import atlas
import corridor
from atlas import plugins
from atlas.cli import COMPILER_LOG, main
from atlas.domains.minigrid.presets import TINY
from atlas.errors import AtlasError
from atlas.evaluation.held_out import obtain
from atlas.evaluation.play import Evaluator
from atlas.settings import ConfigError
from atlas.show.episode import Episode, PolicyActor
from atlas.types import Edit
from atlas.ued import DRConfig
from atlas.ued.dr import DR


def hardness(played, record):
    """The share of episodes that were not solved."""
    return 1.0 - record.solves / jnp.maximum(record.attempts, 1)


def nothing(key, problem):
    return problem, jnp.full(3, -1, jnp.int16)


NOTHING = Edit("nothing", lambda problem: jnp.array(True), nothing)


@dataclass(frozen=True, kw_only=True)
class MineConfig(DRConfig):
    """Domain randomisation under another name."""

    name: Literal["mine"] = "mine"


def test_changes_by_full_name_and_by_section():
    config = atlas.configure("quick", {"run.time_limit": 1, "teacher.buffer.capacity": 64}, teacher={"name": "plr"})
    assert (config.run.time_limit, config.teacher.name, config.teacher.buffer.capacity) == (1, "plr", 64)
    assert atlas.configure("quick") == atlas.configure("quick", {})
    assert atlas.configure("quick", domain={"rooms": (1,)}).domain.rooms == (1,)
    assert atlas.configure("quick", teacher=DRConfig(pool=2)).teacher == DRConfig(pool=2)
    with pytest.raises(ConfigError, match=r"run\.tim_limit is not a setting; did you mean time_limit"):
        atlas.configure("quick", {"run.tim_limit": 1})
    with pytest.raises(ConfigError, match="one of dr, plr, accel"):
        atlas.configure("quick", teacher={"name": "plrr"})


@pytest.mark.parametrize(("set_by_user", "levels"), [(None, [3, 1]), ("1", [3, 1]), ("0", [])])
def test_the_compiler_raises_no_alarm_meanwhile(monkeypatch, set_by_user, levels):
    told = []
    monkeypatch.setattr("jaxlib.utils.absl_set_min_log_level", told.append)
    if set_by_user is None:
        monkeypatch.delenv(COMPILER_LOG, raising=False)
    else:
        monkeypatch.setenv(COMPILER_LOG, set_by_user)
    for function in (atlas.train, atlas.resume, atlas.evaluate):
        told.clear()
        with pytest.raises(AtlasError):
            function("there is none of this name")
        assert told == levels


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A short run with a score and an edit passed as values, stopped by a callback."""
    folder = tmp_path_factory.mktemp("experiments")
    seen = []

    def enough(moment):
        seen.append(moment)
        return True

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.setattr("atlas.runs.run.obtain", partial(obtain, per_size=4))
        result = atlas.train(
            TINY, folder / "run", score=hardness, edits=[NOTHING], callbacks=[enough], quiet=True
        )  # fmt: skip
        yield folder / "run", result, seen


@pytest.fixture
def forgotten():
    """As in another process: nothing was passed."""
    before = {kind: dict(some) for kind, some in plugins._given.items()}
    for some in plugins._given.values():
        some.clear()
    yield
    for kind, some in before.items():
        plugins._given[kind].clear()
        plugins._given[kind].update(some)


def test_callbacks_see_every_call_and_may_end_it(run):
    _, result, seen = run
    assert [moment.iteration for moment in seen][-1] == result.iteration
    assert seen[-1].record["steps"] == result.steps
    assert result.stopped
    assert len(seen) == 2, "the call after the one in which it was asked"


def test_values_are_named_in_the_folder(run):
    folder, *_ = run
    given = json.loads((folder / "given.json").read_text())
    assert given["scores"]["hardness"]["defined"].startswith("hardness in ")
    assert given["edits"]["nothing"]["defined"].startswith("nothing in ")
    assert "score: hardness" in (folder / "config.yaml").read_text()


def test_a_run_is_read_without_them_and_not_resumed(run, forgotten, capsys):
    folder, *_ = run
    assert atlas.load_policy(folder).config.teacher.score == "hardness"
    assert main(["resume", str(folder)]) == 2
    told = capsys.readouterr().err
    assert "the score 'hardness' was passed to" in told or "the edit 'nothing' was passed to" in told
    assert "pass it again, `atlas.resume(" in told


@pytest.mark.slow
def test_a_run_is_resumed_with_them(run, forgotten):
    folder, before, _ = run
    after = atlas.resume(folder, {"run.total_steps": before.steps + 1}, score=hardness, edits=[NOTHING], quiet=True)
    assert after.steps > before.steps
    assert not after.stopped


@pytest.mark.slow
def test_a_teacher_by_value_is_asked_for_and_its_run_can_be_read(run, forgotten, tmp_path, capsys):
    folder = tmp_path / "mine"
    config = atlas.configure("tiny", {"run.time_limit": 1e-4})
    atlas.train(config, folder, teacher=(MineConfig(pool=2), DR), quiet=True)
    plugins._given["teachers"].clear()
    policy = atlas.load_policy(folder)
    assert (policy.config.teacher.name, policy.config.plan.pool) == ("mine", 2)
    plugins._given["teachers"].clear()
    assert main(["resume", str(folder), "--run.time-limit", "1"]) == 2
    assert "the teacher 'mine' was passed to" in capsys.readouterr().err
    plugins._given["teachers"].clear()
    more = {"run.time_limit": None, "run.total_steps": 256}
    assert atlas.resume(folder, more, teacher=(MineConfig, DR), quiet=True).steps >= 256


def test_a_policy_acts_as_it_is_watched(run):
    """The likeliest actions are those that `atlas watch --greedy` takes."""
    policy, env = atlas.load_policy(run[0]), atlas.make(preset=TINY)
    problem, key = env.sample(jax.random.key(2)), jax.random.key(0)
    episode = Episode(problem, TINY.domain.step_limit)
    watched = PolicyActor(policy.student, policy.params, greedy=True)
    watched.begin(episode)
    watched.table = policy.student.embed(  # the same random node features
        policy.params,
        jax.random.split(jax.random.key(0))[0][None],
        jax.tree.map(lambda x: x[None, None], episode.graph),
    )
    seen, state = env.reset(key, problem)
    memory = None
    for _ in range(4):
        action, memory = policy.act(seen, memory)
        choice = watched.choose(episode)
        assert int(action) == choice.action
        episode.act(choice.action)
        seen, state, _, done, _ = env.step(key, state, action, problem)
        if done:
            break


@pytest.mark.slow
def test_a_policy_acts_for_many(run):
    policy, env = atlas.load_policy(run[0]), atlas.make(preset=TINY)
    problems = env.sample_many(jax.random.key(0), 3)
    seen, _ = jax.vmap(env.reset, (None, 0))(jax.random.key(0), problems)
    keys = jax.random.split(jax.random.key(1), 3)
    actions, _ = jax.vmap(policy.act)(seen, None, keys)
    alone = [policy.act(jax.tree.map(lambda x, i=i: x[i], seen), None, keys[i])[0] for i in range(3)]
    np.testing.assert_array_equal(actions, alone)


def test_evaluations_are_those_of_the_command(run):
    policy, some = atlas.load_policy(run[0]), atlas.sample(3, rooms=(1,), seed=1)
    found = atlas.evaluate(policy, some, attempts=3, step_limit=16, seed=2)
    expected = Evaluator(some, 3, 16, False, 2).of_student(policy.student, policy.params)
    np.testing.assert_array_equal(found.attempts.solved, expected.solved)
    assert found.names == tuple(one.name for one in some)
    assert found.mean == pytest.approx(expected.solved.mean())


def test_other_domains_are_told(run, monkeypatch):
    policy = atlas.load_policy(run[0])
    corridor.register(monkeypatch)
    env = atlas.make("corridor")
    problem, key = env.sample(jax.random.key(0)), jax.random.key(0)
    with pytest.raises(AtlasError, match="is a policy of the domain minigrid, and a problem is of the domain corridor"):
        atlas.evaluate(policy, [problem])
    with pytest.raises(AtlasError, match="a view of 1 x 3 is of another domain"):
        policy.act(env.reset(key, problem)[0])


def test_parts_that_do_not_fit_are_told(tmp_path):
    with pytest.raises(AtlasError, match="the teacher dr has no setting 'score'"):
        atlas.train(TINY, tmp_path / "a", teacher="dr", score=hardness)
    wrong = Edit(
        "wrong", lambda problem: jnp.array(True), lambda key, problem: (problem.level, jnp.zeros(3, jnp.int16))
    )
    with pytest.raises(AtlasError, match="the edit 'wrong' changes the form of a problem"):
        atlas.train(TINY, tmp_path / "b", edits=[wrong], quiet=True)
    plugins._given["edits"].pop("wrong")
    with pytest.raises(AtlasError, match="define it as a function"):
        atlas.train(TINY, tmp_path / "c", score=lambda played, record: record.best_return)


def test_help_and_version_tell():
    import pydoc

    assert atlas.__version__ == "0.2.0"
    page = pydoc.plain(pydoc.render_doc(atlas))
    for name in atlas.__all__:
        assert f" {name}(" in page


def test_pictures_in_notebooks(run):
    env = atlas.make(preset=TINY)
    problem, batch = atlas.sample(1, rooms=(1,))[0], env.sample_many(jax.random.key(0), 2)
    task = atlas.english("pick up a red ball")
    for shown in (problem, problem.level, problem.task, env.fit(problem), env.fit(problem).task, task):
        assert shown._repr_svg_().startswith("<svg"), type(shown)
    assert batch._repr_svg_() is None
    assert batch.level._repr_svg_() is None
    assert batch.task._repr_svg_() is None
