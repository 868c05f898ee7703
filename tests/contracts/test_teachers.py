"""Laws that every teacher obeys, with problems that are mere numbers: a teacher may not look into them."""

import dataclasses
import json
from functools import cache, partial
from itertools import pairwise
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.cli import main
from atlas.domains.minigrid.presets import TINY
from atlas.evaluation.held_out import obtain
from atlas.runs.store import from_arrays, to_arrays
from atlas.settings import dump, setting
from atlas.struct import Struct
from atlas.testing import NUM_ENVS, TEACHER_LAWS, Work
from atlas.types import KINDS, REPLAYED, Proposal
from atlas.ued import (
    TEACHERS,
    ACCELConfig,
    BufferConfig,
    DRConfig,
    EchoConfig,
    EditConfig,
    Plan,
    PLRConfig,
    Row,
    ScoutConfig,
    SFLConfig,
    TeacherConfig,
)
from atlas.ued.supply import root, sampled

NUM_EVAL, CAPACITY = 6, 16
BUFFER = BufferConfig(capacity=CAPACITY, min_fill=0.5)
CONFIGS = {
    "dr": DRConfig(pool=3),
    "plr robust": PLRConfig(num_eval=NUM_EVAL, buffer=BUFFER),
    "plr": PLRConfig(train_on_new=True, buffer=BUFFER),
    "accel": ACCELConfig(replay_prob=0.7, num_eval=NUM_EVAL, buffer=BUFFER),
    "accel equal": ACCELConfig(replay_prob=0.7, buffer=dataclasses.replace(BUFFER, replacement=False)),
    "accel few children": ACCELConfig(replay_prob=0.7, num_eval=2, buffer=BUFFER),
    "accel on new": ACCELConfig(replay_prob=0.7, train_on_new=True, buffer=BUFFER),
    "accel that learns edits": ACCELConfig(
        replay_prob=0.7, num_eval=NUM_EVAL, buffer=BUFFER, edits=EditConfig(learn=True, screen=True)
    ),
    "scout": ScoutConfig(pool=2),
    "sfl": SFLConfig(
        every=3, rounds=2, attempts=2, num_eval=NUM_EVAL, buffer=dataclasses.replace(BUFFER, min_fill=0.0)
    ),
    "sfl equal": SFLConfig(every=3, rounds=1, attempts=2, buffer=dataclasses.replace(BUFFER, min_fill=0.0)),
    "echo": EchoConfig(buffer=BUFFER),
}


@cache
def work(name):
    return Work(CONFIGS[name])


@pytest.fixture(scope="module", params=list(CONFIGS))
def worked(request):
    return request.param, work(request.param).teacher, work(request.param).seen


@pytest.mark.parametrize("law", TEACHER_LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("name", CONFIGS)
def test_law(name, law):
    law(work(name))


@pytest.mark.parametrize("name", CONFIGS)
def test_numbers_do_not_overflow(name):
    """Two billion problems are three hours on a GPU; a child of a negative number would look like nobody's."""
    one = work(name)
    state = one.teacher.init(jax.random.key(0)).replace(next_number=jnp.int32(2**31 - 7))
    children = 0
    for key in jax.random.split(jax.random.key(1), 40):
        train = bool(one.decide(key, state))
        proposal, _, state = one.iterate(key, state, train)
        assert np.all(np.asarray(proposal.lineage.number) >= 0)
        if KINDS[int(proposal.kind)] == "edited":
            children += len(proposal.slots)
            assert np.all(np.asarray(proposal.lineage.parent) >= 0)
    assert 0 <= int(state.next_number) < 2**31 - 7
    assert children or not name.startswith("accel")


def test_generations_do_not_overflow():
    old = root(jnp.int32(0), 1)
    for generation, after in ((0, 1), (2**15 - 2, 2**15 - 1), (2**15 - 1, 2**15 - 1)):
        assert int(old.replace(generation=jnp.int16(generation)).next_generation) == after


@pytest.mark.parametrize("name", CONFIGS)
def test_a_teacher_goes_on_the_same_from_its_arrays(name):
    """As after a checkpoint."""
    one, key = work(name), jax.random.key(9)
    state = one.seen[30].after
    again = from_arrays(to_arrays(state), jax.eval_shape(lambda: one.teacher.init(key)))
    train = one.seen[31].train
    jax.tree.map(np.testing.assert_array_equal, *(jax.device_get(one.iterate(key, s, train)) for s in (state, again)))


@pytest.mark.parametrize("name", CONFIGS)
def test_what_a_teacher_tells_is_plain(name):
    tell = getattr(work(name).teacher, "tell", dict)
    told = tell(work(name).seen[-1].after) if tell is not dict else {}
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert bool(told) == (name in ("scout", "echo", "accel that learns edits"))


def test_screened_children_pass_the_check_as_far_as_there_are_enough():
    for one in work("accel that learns edits").seen:
        if one.kind == "edited":
            passed = one.proposal.problems.level % 7 != 0
            assert np.all(passed[:-1] >= passed[1:])
            assert passed.mean() > 0.5


def test_sfl_keeps_the_most_learnable_and_forgets_them_at_the_next_evaluation():
    teacher, seen = work("sfl").teacher, work("sfl").seen
    rounds, every = teacher.config.rounds, teacher.config.every
    for number, one in enumerate(seen):
        phase = number % (rounds + every)
        assert one.train == (phase >= rounds)
        records = one.after.buffer.records
        if phase == 0:
            assert set(one.after.buffer.lineage.number[records.filled]) <= set(one.proposal.lineage.number)
        if phase < rounds:
            first = one.outcome.first.reshape(-1, teacher.config.attempts)
            np.testing.assert_array_equal(first.min(1), first.max(1))  # equal problems have equal outcomes here
            np.testing.assert_array_equal(np.unique(one.proposal.problems.level).size, len(first))
        assert np.all(records.attempts[records.filled] >= teacher.config.attempts)


def test_every_teacher_is_here():
    assert {config.name for config in CONFIGS.values()} == set(TEACHERS)


def test_rows_are_a_prefix_of_the_state(worked):
    """True exactly where the first axis counts problems: those are what devices divide."""
    _, teacher, seen = worked
    divided = jax.tree.map(lambda rows, part: jax.tree.map(lambda _: rows, part), teacher.rows, seen[-1].after)
    payload = {"problems", "lineage", "partial"}
    for path, rows in jax.tree_util.tree_leaves_with_path(divided):
        assert rows == bool(payload & {key.name for key in path}), path


def test_dr_never_replays_and_always_trains(worked):
    name, _, seen = worked
    if name == "dr":
        assert all(i.train and i.kind == "new" for i in seen)


@pytest.mark.parametrize(
    ("name", "share"), [("dr", 1.0), ("plr robust", 0.5), ("plr", 1.0), ("accel", 0.7 / 1.7), ("accel on new", 1.0)]
)
def test_the_share_of_iterations_that_train(name, share):
    """Once the buffer is filled enough: of PLR⊥ the probability of a replay, of ACCEL as many edits come on top."""
    one = work(name)
    memories = [(i.train, one.teacher.memory(i.before)) for i in one.history(400, seed=3)]
    ready = [train for train, memory in memories if memory is None or memory.records.filled.mean() >= BUFFER.min_fill]
    assert abs(np.mean(ready) - share) <= 4 * np.sqrt(0.25 / len(ready))


def test_only_robust_teachers_keep_from_training_on_new_problems(worked):
    _, teacher, seen = worked
    if not isinstance(teacher.config, PLRConfig):
        return
    on_new = teacher.config.train_on_new
    assert all(i.train == (on_new or i.kind == "replayed") for i in seen)
    assert {"replayed", "new"} <= {i.kind for i in seen}


def test_replay_waits_until_the_buffer_is_filled_enough(worked):
    _, _, seen = worked
    for i in seen:
        if i.kind == "replayed":
            assert i.before.buffer.records.filled.sum() >= worked[1].config.buffer.min_fill * CAPACITY
            assert i.before.buffer.records.filled[i.proposal.slots].all()


def test_accel_edits_right_after_each_replay_and_never_else(worked):
    name, _, seen = worked
    kinds = [i.kind for i in seen]
    for before, now in pairwise(kinds):
        assert (now == "edited") == (before == "replayed" and name.startswith("accel"))
    assert kinds[0] == "new"


def test_children_come_from_the_replayed_batch_in_turn(worked):
    _, _, seen = worked
    for replayed, now in pairwise(seen):
        if now.kind == "edited" and not worked[1].config.edits.screen:
            turn = np.arange(len(now.proposal.slots)) % NUM_ENVS
            parents = replayed.proposal
            np.testing.assert_array_equal(now.proposal.lineage.parent, parents.lineage.number[turn])
            np.testing.assert_array_equal(now.proposal.lineage.generation, parents.lineage.generation[turn] + 1)
            np.testing.assert_array_equal(now.proposal.problems.level, parents.problems.level[turn] + 2)


def test_trivial_problems_are_among_them(worked):
    assert any(i.outcome.trivial.any() for i in worked[2])


def test_iterations_are_counted(worked):
    _, teacher, seen = worked
    buffer = teacher.memory(seen[-1].after)
    assert buffer is None or buffer.clock == len(seen)


# A teacher from outside: a settings class, a teacher and a row, and everything works with it.


@dataclasses.dataclass(frozen=True, kw_only=True)
class AgainConfig(TeacherConfig):
    """New problems are scored, then all of them are trained on, a few times over."""

    name: Literal["again"] = "again"
    """Which teacher."""
    times: int = setting(2, at_least=1)
    """How often."""

    def plan(self, num_envs, minimal=False):
        return Plan(title="Again", num_train=num_envs, num_eval=num_envs, score="learnability")


class AgainState(Struct):
    heard: Proposal
    left: jax.Array


class Again:
    rows = AgainState.unchecked(heard=True, left=False)

    def __init__(self, config, supply):
        self.config, self.supply = config, supply

    def init(self, key):
        shapes = jax.eval_shape(lambda: self._new(jax.random.key(0)))
        return AgainState(heard=jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes), left=jnp.int32(0))

    def _new(self, key):
        return sampled(key, self.supply, self.supply.plan.num_train, jnp.int32(0))

    def decide(self, key, state):
        return state.left > 0

    def propose(self, key, state, train):
        slots = jnp.arange(self.supply.plan.num_train, dtype=jnp.int32)
        proposal = state.heard.replace(kind=jnp.int8(REPLAYED), slots=slots) if train else self._new(key)
        return state, proposal

    def observe(self, state, proposal, outcome):
        left = jnp.where(proposal.kind == REPLAYED, state.left - 1, self.config.times)
        return AgainState(heard=proposal, left=left)

    def memory(self, state):
        return None


@pytest.fixture
def again(monkeypatch, tmp_path):
    """The row, and a tiny experiment in a file."""
    monkeypatch.setitem(TEACHERS, "again", Row(AgainConfig, Again))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("atlas.runs.run.obtain", partial(obtain, per_size=4))
    run = dataclasses.replace(TINY.run, time_limit=1e-4)  # one call of the compiled step
    path = tmp_path / "again.yaml"
    path.write_text(dump(dataclasses.replace(TINY, teacher=AgainConfig(times=3), run=run)))
    return path


@pytest.mark.slow
def test_a_teacher_from_outside_is_a_settings_class_a_teacher_and_a_row(again, tmp_path, capsys):
    folder, problems = tmp_path / "run", tmp_path / "problems.yaml"
    assert main(["train", str(again), "--folder", str(folder), "--teacher.times", "1"]) == 0
    assert main(["resume", str(folder), "--run.time-limit", "1", "--run.total-steps", "65", "--json"]) == 0
    assert main(["sample", "-n", "2", "--rooms", "1", "--out", str(problems)]) == 0
    assert main(["eval", str(folder), "--problems", str(problems), "--attempts", "2"]) == 0
    assert main(["report", str(folder), "--out", str(tmp_path / "report.html")]) == 0
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [record["iterations"]["replayed"] for record in records] == [0, 1]
    assert [record["trained"] for record in records] == [0, 1]
    assert "Again keeps no problems" in (tmp_path / "report.html").read_text()
    assert "proposed" in capsys.readouterr().out
