"""The training step with a toy student: what happens in which iteration, for every teacher."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import toys
from atlas.testing import is_trivial, toy_supply
from atlas.training import NEVER, Trainer
from atlas.types import KINDS
from atlas.ued import ACCELConfig, BufferConfig, DRConfig, PLRConfig, teacher_of
from atlas.ued.scores import SCORES

NUM_ENVS, CAPACITY = 4, 16
BUFFER = BufferConfig(capacity=CAPACITY)
CONFIGS = {
    "dr": DRConfig(pool=3),
    "plr robust": PLRConfig(num_eval=6, buffer=BUFFER),
    "plr": PLRConfig(train_on_new=True, buffer=BUFFER),
    "accel": ACCELConfig(replay_prob=0.7, num_eval=6, buffer=BUFFER),
    "accel one shape": ACCELConfig(replay_prob=0.7, buffer=BUFFER),
}


@cache
def trainer(name, spoil_at=None):
    """A trainer with a toy student, whose update number `spoil_at` goes wrong."""
    config = CONFIGS[name]
    plan = config.plan(NUM_ENVS)
    teacher = teacher_of(config, toy_supply(plan))
    return Trainer(teacher, plan, SCORES[plan.score or "constant"], **toys.student(plan.pool, spoil_at))


@cache
def stepper(name, spoil_at=None):
    """One iteration as one program."""
    return jax.jit(trainer(name, spoil_at).step)


def history(name, iterations=40, seed=0):
    """States before and after, and metrics, of each iteration."""
    state = trainer(name).init(jax.random.key(seed))
    seen = []
    for _ in range(iterations):
        after, metrics = stepper(name)(state)
        seen.append((state, after, jax.device_get(metrics)))
        state = after
    return seen


@pytest.fixture(scope="module", params=list(CONFIGS))
def run(request):
    return request.param, history(request.param)


def kind(metrics):
    return KINDS[int(np.argmax(metrics.iterations))]


def test_parameters_change_exactly_when_the_teacher_trains(run):
    name, seen = run
    on_new = name in ("dr", "plr")
    for before, after, metrics in seen:
        changed = int(after.params["updates"]) - int(before.params["updates"])
        assert changed == metrics.trained == (on_new or kind(metrics) == "replayed")
        if not changed:
            jax.tree.map(np.testing.assert_array_equal, before.params, after.params)
            jax.tree.map(np.testing.assert_array_equal, before.optimiser, after.optimiser)


def test_each_teacher_has_its_kinds_of_iterations(run):
    name, seen = run
    kinds = {kind(metrics) for *_, metrics in seen}
    expected = {"dr": {"new"}, "plr robust": {"new", "replayed"}, "plr": {"new", "replayed"}}
    assert kinds == expected.get(name, set(KINDS))


def test_iterations_are_counted(run):
    _, seen = run
    final = seen[-1][1]
    assert int(final.iterations) == len(seen)
    assert int(final.trained) == sum(int(metrics.trained) for *_, metrics in seen) == int(final.params["updates"])


def test_metrics_count_problems_and_episodes(run):
    name, seen = run
    for *_, metrics in seen:
        sizes = {"dr": NUM_ENVS, "plr": NUM_ENVS, "accel one shape": NUM_ENVS}
        expected = sizes.get(name, NUM_ENVS if kind(metrics) == "replayed" else 6)
        assert metrics.problems.sum() == expected
        assert metrics.attempts.sum() == expected * (toys.ROLLOUT // toys.STEP_LIMIT)
        assert 0 <= metrics.solves.sum() <= metrics.attempts.sum()


@pytest.mark.slow
def test_episodes_that_a_small_pool_repeats_are_counted(monkeypatch):
    """Seven episodes of one step with three problems: the last four meet a problem again."""
    assert int(history("dr", 1)[0][2].repeats) == 0
    monkeypatch.setattr(toys, "STEP_LIMIT", 1)
    plan = CONFIGS["dr"].plan(NUM_ENVS)
    made = Trainer(teacher_of(CONFIGS["dr"], toy_supply(plan)), plan, SCORES["constant"], **toys.student(plan.pool))
    _, metrics = made.step(made.init(jax.random.key(0)))
    assert (int(metrics.repeats), int(metrics.attempts.sum())) == (4 * NUM_ENVS, 7 * NUM_ENVS)


def test_trivial_problems_never_enter(run):
    name, seen = run
    buffer = trainer(name).teacher.memory(seen[-1][1].teacher)
    if buffer is not None:
        kept = np.asarray(buffer.problems.level)[np.asarray(buffer.records.filled)]
        assert len(kept) > 0
        assert not is_trivial(kept).any()
        assert sum(metrics.trivial.sum() for *_, metrics in seen) > 0


def same(a, b):
    jax.tree.map(lambda x, y: np.testing.assert_array_equal(*map(plain, (x, y))), a, b)


def plain(leaf):
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


@pytest.mark.parametrize("name", CONFIGS)
def test_how_iterations_are_compiled_and_grouped_changes_nothing(name):
    """Several programs make the same state as one whole step, and the same seed gives the same state."""
    seen = history(name, iterations=11)
    many = trainer(name).compiled
    state = trainer(name).init(jax.random.key(0))
    state, first = many(state, jnp.int32(4))
    state, second = many(state, jnp.int32(7))
    same(state, seen[-1][1])
    total = np.sum([metrics.iterations for *_, metrics in seen], axis=0)
    np.testing.assert_array_equal(first.iterations + second.iterations, total)


def test_another_seed_gives_another_run():
    one, other = history("accel", 3)[-1][1], history("accel", 3, seed=1)[-1][1]
    assert not np.array_equal(one.params["noise"], other.params["noise"])


def test_the_first_loss_that_is_no_number_is_reported():
    spoilt = trainer("accel", spoil_at=2)
    _, metrics = spoilt.compiled(spoilt.init(jax.random.key(0)), 30)
    trained = [number for number, (*_, one) in enumerate(history("accel", 30), start=1) if int(one.trained)]
    assert int(metrics.bad) == trained[1]


def test_no_loss_is_bad_in_a_healthy_run(run):
    assert all(metrics.bad == NEVER for *_, metrics in run[1])


def test_the_average_begins_as_a_mean_and_then_forgets():
    teacher = teacher_of(DRConfig(), toy_supply(DRConfig().plan(NUM_ENVS)))
    plan = DRConfig().plan(NUM_ENVS)
    toy = toys.student(plan.pool)
    counts = {"init_student": lambda key: ({"updates": jnp.float32(0)}, ()), "learn": lambda key, params, *_: (
        {"updates": params["updates"] + 1}, (), toy["no_losses"])}  # fmt: skip
    play = {"play": lambda key, params, *rest: toy["play"](key, {"noise": jnp.zeros(3)}, *rest)}
    averaging = Trainer(teacher, plan, SCORES["constant"], **toy | counts | play, average=0.5)
    state, step = averaging.init(jax.random.key(0)), jax.jit(averaging.step)
    assert state.policy["updates"] == 0
    expected = 0.0
    for number in range(12):
        state, _ = step(state)
        keep = min(0.5, (number + 1) / (number + 10))
        expected = keep * expected + (1 - keep) * (number + 1)
        np.testing.assert_allclose(state.policy["updates"], expected, rtol=1e-5)
    assert state.params["updates"] == 12
    assert trainer("dr").init(jax.random.key(0)).average is None


def test_the_rate_follows_the_state():
    rates = []
    config = DRConfig()
    plan = config.plan(NUM_ENVS)
    toy = toys.student(plan.pool)

    def learn(key, params, optimiser, rollout, rate, lesson):
        return params | {"noise": jnp.full(3, rate)}, optimiser, toy["no_losses"]

    annealed = Trainer(
        teacher_of(config, toy_supply(plan)), plan, SCORES["constant"], **toy | {"learn": learn},
        anneal=lambda state: 1.0 - jnp.maximum(state.trained / 4, state.clock), by_clock=True,
    )  # fmt: skip
    state, step = annealed.init(jax.random.key(0)), jax.jit(annealed.step)
    for clock in (0.0, 0.1, 0.9):
        state, _ = step(annealed.with_clock(state, clock))
        rates.append(float(state.params["noise"][0]))
    np.testing.assert_allclose(rates, [1.0, 0.75, 0.1], rtol=1e-5)
