"""The loop with a toy student: it ends when it should, and stopping and resuming changes nothing."""

import json
from dataclasses import fields, replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import toys
from atlas.build import build
from atlas.config import Config, PPOConfig, RunConfig, StudentConfig
from atlas.domains.minigrid.presets import PRESETS
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.fit import NotANumber, clock_share, fit
from atlas.runs.checkpoints import Checkpoints
from atlas.runs.metrics import JsonLines, read
from atlas.testing import toy_supply
from atlas.training import Trainer, TrainState
from atlas.ued import ACCELConfig, BufferConfig, teacher_of
from atlas.ued.scores import SCORES

NUM_ENVS, NUM_EVAL = 4, 6


def config(total_steps=1_200, **run):
    return Config(
        domain=MinigridConfig(step_limit=toys.STEP_LIMIT),
        teacher=ACCELConfig(replay_prob=0.7, num_eval=NUM_EVAL, buffer=BufferConfig(capacity=16)),
        student=StudentConfig(ppo=PPOConfig(minibatch_envs=2)),
        run=RunConfig(num_envs=NUM_ENVS, rollout=toys.ROLLOUT, total_steps=total_steps, **run),
    )


@cache
def trainer(spoil_at=None):
    plan = config().plan
    teacher = teacher_of(config().teacher, toy_supply(plan))
    return Trainer(teacher, plan, SCORES["maxmc"], **toys.student(spoil_at=spoil_at))


def start():
    return trainer().init(jax.random.key(0))


def plain(tree):
    return jax.tree.map(
        lambda x: np.asarray(jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x), tree
    )


@pytest.fixture(scope="module")
def whole():
    """A run that nobody interrupts, and what hooks saw."""
    seen = []
    state = fit(trainer(), config(), start(), [seen.append])
    return plain(state), seen


def test_a_run_ends_with_the_iteration_that_uses_up_its_steps(whole):
    state, seen = whole
    iterations, trained = int(state.iterations), int(state.trained)
    steps = config().env_steps(iterations, trained)
    assert steps == seen[-1].steps >= 1_200
    assert steps - 1_200 < toys.ROLLOUT * NUM_EVAL
    assert [moment.last for moment in seen] == [False] * (len(seen) - 1) + [True]


def test_env_steps_count_both_kinds_of_iterations():
    assert config().env_steps(10, 4) == toys.ROLLOUT * (4 * NUM_ENVS + 6 * NUM_EVAL)


def test_records_add_up(whole):
    state, seen = whole
    assert sum(sum(m.record["iterations"].values()) for m in seen) == int(state.iterations)
    assert seen[-1].record["buffer"]["capacity"] == 16
    assert all(0 <= rate <= 1 for m in seen for rate in m.record["solve_rate"].values())
    json.dumps([m.record for m in seen])


def test_stopping_and_resuming_changes_nothing(whole, tmp_path):
    """Bit for bit, through a checkpoint on disk, in stretches of one call each."""
    checkpoints = Checkpoints(tmp_path / "checkpoints", keep=1)
    state, stretches = start(), 0
    while config().env_steps(int(state.iterations), int(state.trained)) < config().run.total_steps:
        state = fit(trainer(), config(), state, stop=lambda: True)
        checkpoints.save(int(state.iterations), state, {})
        checkpoints.finish()
        state = checkpoints.restore_latest(jax.eval_shape(start))[1]
        stretches += 1
        if stretches == 4:
            state = fit(trainer(), config(), state)
    checkpoints.close()
    jax.tree.map(np.testing.assert_array_equal, plain(state), whole[0])


def test_a_resumed_run_does_not_compile_anew(tmp_path):
    """A state from a checkpoint has the types of a new one: the programs that were made for one take the other."""
    fresh = Trainer(trainer().teacher, trainer().plan, SCORES["maxmc"], **toys.student())
    state = fit(fresh, config(), fresh.compiled_init(jax.random.key(0)), stop=lambda: True)
    checkpoints = Checkpoints(tmp_path / "checkpoints", keep=1)
    checkpoints.save(1, state, {})
    checkpoints.finish()
    made = dict(fresh.compiled._started)
    state = fit(fresh, config(), checkpoints.restore_latest(fresh.shapes)[1], stop=lambda: True)
    checkpoints.close()
    assert int(state.iterations) == 2
    assert fresh.compiled._started == made


def test_compiling_beside_something_else_changes_nothing(whole):
    ahead = Trainer(trainer().teacher, trainer().plan, SCORES["maxmc"], **toys.student())
    ahead.compiled.start()
    state = ahead.compiled_init(jax.random.key(0))
    ahead.compiled.start()
    jax.tree.map(np.testing.assert_array_equal, plain(fit(ahead, config(), state)), whole[0])


def test_trouble_with_tracing_is_raised_at_once_and_with_the_compiler_where_the_step_is_called():
    def broken_score(played, record):
        raise ZeroDivisionError("a score that cannot be traced")

    broken = Trainer(trainer().teacher, trainer().plan, broken_score, **toys.student())
    with pytest.raises(ZeroDivisionError):
        broken.compiled.start()

    def no_memory():
        raise MemoryError

    broken.compiled.start(lambda name, lower: no_memory)
    with pytest.raises(MemoryError):
        fit(broken, config(), start())


@pytest.mark.parametrize("name", ["quick", "quick-plr", "quick-dr"])
def test_no_part_of_a_new_state_has_a_weak_type(name):
    """What comes out of a checkpoint has none, and would be another program."""
    leaves = jax.tree_util.tree_leaves_with_path(build(PRESETS[name].config).shapes)
    assert [jax.tree_util.keystr(path) for path, leaf in leaves if leaf.weak_type] == []


def test_a_run_stops_when_time_is_up():
    state = fit(trainer(), config(total_steps=10**9, time_limit=1e-9), start())
    assert int(state.iterations) == 1


def test_hooks_see_the_first_iteration_at_every_mark(whole):
    """However long the calls are, and without any effect on training."""
    seen, marks = [], [100, 350, 360, 900]

    def next_mark(steps):
        return next((mark for mark in marks if mark > steps), 10**9)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("atlas.fit.CALL_SECONDS", 1e9)
        state = fit(trainer(), config(), start(), [seen.append], next_mark=next_mark)
    jax.tree.map(np.testing.assert_array_equal, plain(state), whole[0])
    steps = np.array([0, *(moment.steps for moment in seen)])
    for mark in marks:
        first = steps[steps >= mark][0]
        assert first - mark < toys.ROLLOUT * NUM_EVAL


def test_time_spent_before_counts():
    seen = []
    fit(trainer(), config(total_steps=10**9, time_limit=2.0), start(), [seen.append], seconds=119.9999)
    assert len(seen) == 1
    assert seen[0].seconds >= 120


def test_what_hooks_take_to_compile_does_not_count():
    seen = []

    def compiling(moment):
        seen.append(moment.seconds)
        moment.uncharged.append(1000.0)

    fit(trainer(), config(total_steps=3 * toys.ROLLOUT * NUM_ENVS), start(), [compiling], seconds=5000.0)
    assert len(seen) > 1
    assert seen[1] < seen[0] - 900


def test_a_run_whose_time_is_up_is_left_as_it_is(whole):
    seen = []
    state, _ = trainer().compiled(start(), 1)
    fit(trainer(), config(total_steps=10**9, time_limit=2.0), state, [seen.append], seconds=120.0)
    assert not seen


def test_losses_that_are_no_numbers_end_training_before_any_hook_sees_the_state():
    seen = []
    with pytest.raises(NotANumber, match=r"iteration \d+ are not numbers"):
        fit(trainer(spoil_at=3), config(), start(), [seen.append])
    assert all(int(moment.trained) < 3 for moment in seen)


def test_records_beyond_the_checkpoint_are_forgotten(tmp_path):
    path = tmp_path / "metrics.jsonl"
    writer = JsonLines(path)
    for iteration in range(1, 6):
        writer.write({"iteration": iteration, "x": float("nan")})
    writer.close()
    path.write_text(path.read_text() + '{"iteration": 6, "half')
    again = JsonLines(path, iteration=3)
    again.write({"iteration": 4})
    again.close()
    assert [record["iteration"] for record in read(path)] == [1, 2, 3, 4]
    assert read(path)[0]["x"] is None


@pytest.mark.parametrize(
    ("minutes", "seconds", "share"), [(None, 1e9, 0.0), (2.0, 60.0, 0.5), (2.0, 1e9, 1.0)], ids=["none", "half", "over"]
)
def test_the_clock_runs_to_the_time_limit(minutes, seconds, share):
    assert clock_share(config(time_limit=minutes), seconds) == share


def test_annealing_counts_what_is_only_scored_and_the_clock():
    settings = config(total_steps=100 * toys.ROLLOUT * NUM_ENVS, time_limit=1.0)
    settings = replace(settings, student=StudentConfig(ppo=PPOConfig(minibatch_envs=2, anneal=True)))
    made = build(settings)

    others = dict.fromkeys({field.name for field in fields(TrainState)} - {"iterations", "trained", "clock"})

    def rate(clock):
        return made.anneal(
            TrainState.unchecked(**others, iterations=jnp.int32(30), trained=jnp.int32(10), clock=jnp.float32(clock))
        )

    left = 1 - (10 * NUM_ENVS + 20 * NUM_EVAL) / (100 * NUM_ENVS)
    np.testing.assert_allclose(rate(0.0), left, rtol=1e-5)
    np.testing.assert_allclose(rate(0.9), 0.1, rtol=1e-4)
    assert rate(1.0) == 0.0
    assert build(config()).anneal is None
