"""Learning: the losses, the plan of minibatches, nothing changes without a reason, and a bandit is learnt."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

import students
from atlas.config import PPOConfig
from atlas.domains.minigrid.domain import Minigrid
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.rollout import Player
from atlas.student import ppo
from atlas.student.encode import Cells
from atlas.student.network import Student
from atlas.tasks.machine import flat_task
from atlas.tasks.packed import RewardMachines, pack
from atlas.types import Problem
from atlas.world import World

ENVS, STEPS = 6, 20
STILL = 1e-20
"""A learning rate that changes nothing."""
CONFIG = PPOConfig(learning_rate=STILL, minibatch_envs=2, epochs=2, phases=2, truncation="bootstrap")


@cache
def learnt():
    """Parameters before, all that learning gives, and what it learnt from: pools of two, two phases."""
    student = students.student()
    player = Player(students.world(), student, STEPS, phases=2, bootstrap=True)
    learner = ppo.Learner(student, CONFIG, ppo.optimiser(CONFIG))

    @jax.jit
    def run(params, pools):
        experience = player.play_pools(jax.random.key(1), params, pools)[0].experience
        state = learner.init(params)
        return params, *learner.learn(jax.random.key(2), params, state, experience), experience

    return run(jax.jit(student.init)(jax.random.key(0)), students.pools(ENVS, 2))


def test_at_unchanged_parameters_every_ratio_is_one():
    before, after, _, losses, _ = learnt()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), before, after)
    assert 0 <= losses.kl < 1e-9
    assert losses.clipped == 0
    assert abs(losses.policy) < 1e-5  # the mean of normalised advantages
    assert losses.gradient_norm > 0
    assert 0 < losses.entropy <= np.log(6) + 1e-6


def test_the_value_loss_is_the_error_of_the_values_predicted_while_acting():
    *_, losses, experience = learnt()
    steps = experience.steps
    advantage = ppo.advantages(
        steps.reward, steps.value, steps.done, steps.cut_value, experience.last_value, CONFIG.gamma, CONFIG.gae_lambda
    )
    np.testing.assert_allclose(losses.value, 0.5 * np.mean(np.square(advantage)), rtol=1e-4)
    target = advantage + steps.value
    expected = 1 - np.var(advantage) / np.var(target)
    np.testing.assert_allclose(losses.explained_variance, expected, rtol=1e-3, atol=1e-3)


def test_every_environment_is_learnt_from_once_an_epoch():
    learner = ppo.Learner(students.student(), CONFIG, ppo.optimiser(CONFIG))
    phase, chosen = learner._plan(jax.random.key(0), ENVS)
    assert len(chosen) == CONFIG.phases * CONFIG.epochs * (ENVS // CONFIG.minibatch_envs)
    np.testing.assert_array_equal(phase, np.repeat([0, 1], len(phase) // 2))
    for epoch in np.asarray(chosen).reshape(-1, ENVS):
        assert sorted(epoch) == list(range(ENVS))


def test_a_ratio_out_of_range_earns_nothing_more():
    log_ratio = jnp.log(jnp.array([[0.5, 0.5, 1.5, 1.5, 1.1]]))
    advantage = jnp.array([[1.0, -1.0, 1.0, -1.0, 2.0]])
    expected = -np.mean([0.5, -0.8, 1.2, -1.5, 2.2])
    np.testing.assert_allclose(ppo.policy_loss(log_ratio, advantage, 0.2), expected, rtol=1e-6)
    gradient = jax.grad(ppo.policy_loss)(log_ratio, advantage, 0.2)
    np.testing.assert_array_equal(gradient != 0, [[True, False, False, True, True]])


def test_the_value_moves_no_further_than_its_clip():
    value, before, target = jnp.array([[1.0, 1.0]]), jnp.array([[0.0, 0.9]]), jnp.array([[1.0, 2.0]])
    np.testing.assert_allclose(ppo.value_loss(value, before, target, 0.2), 0.5 * np.mean([0.64, 1.0]), rtol=1e-6)
    np.testing.assert_allclose(ppo.value_loss(value, before, target, None), 0.5 * np.mean([0.0, 1.0]), rtol=1e-6)


def test_the_rate_multiplies_what_a_rollout_changes():
    student = students.student()
    config = PPOConfig(learning_rate=1e-3, minibatch_envs=ENVS, epochs=1)
    player = Player(students.world(), student, STEPS)
    learner = ppo.Learner(student, config, ppo.optimiser(config))

    @jax.jit
    def run(params, pools):
        experience = player.play_pools(jax.random.key(1), params, pools)[0].experience
        rates = (None, jnp.float32(1.0), jnp.float32(0.25), jnp.float32(0.0))
        key, state = jax.random.key(2), learner.init(params)
        return [learner.learn(key, params, state, experience, rate)[0] for rate in rates]

    before = student.init(jax.random.key(0))
    usual, whole, quarter, none = run(before, students.pools(ENVS, 1))
    jax.tree.map(np.testing.assert_array_equal, before, none)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-7), usual, whole)
    jax.tree.map(lambda a, b, c: np.testing.assert_allclose(a - b, 0.25 * (c - b), atol=1e-6), quarter, before, whole)


def test_the_running_scale_of_advantages_remembers_and_has_a_floor():
    student = students.student()
    config = PPOConfig(learning_rate=STILL, minibatch_envs=ENVS, epochs=1, normalise="running")
    player = Player(students.world(), student, STEPS)
    learner = ppo.Learner(student, config, ppo.optimiser(config))

    @jax.jit
    def run(pools, scale):
        params = student.init(jax.random.key(0))
        rollout = player.play_pools(jax.random.key(1), params, pools)[0]
        state = learner.init(params).replace(scale=scale)
        steps = rollout.experience.steps
        advantage = ppo.advantages(
            steps.reward, steps.value, steps.done, steps.cut_value, rollout.experience.last_value,
            config.gamma, config.gae_lambda,
        )  # fmt: skip
        return learner.learn(jax.random.key(2), params, state, rollout.experience)[1:], advantage

    pools = students.pools(ENVS, 1)
    assert learner.init(student.init(jax.random.key(0))).scale == -1.0
    (first, losses), advantage = run(pools, jnp.float32(-1.0))
    square = np.mean(np.square(advantage))
    np.testing.assert_allclose(first.scale, square, rtol=1e-5)
    np.testing.assert_allclose(-losses.policy, np.mean(advantage) / max(np.sqrt(square), 0.02), rtol=1e-3, atol=1e-6)
    (later, losses), _ = run(pools, jnp.float32(4.0))
    np.testing.assert_allclose(later.scale, 0.98 * 4.0 + 0.02 * square, rtol=1e-5)
    np.testing.assert_allclose(-losses.policy, np.mean(advantage) / np.sqrt(later.scale), rtol=1e-3, atol=1e-6)
    (_, losses), _ = run(pools, jnp.float32(0.0))
    floor = max(np.sqrt(0.02 * square), ppo.SMALLEST_SCALE)
    np.testing.assert_allclose(-losses.policy, np.mean(advantage) / floor, rtol=1e-3, atol=1e-6)


def test_advantages_that_do_not_vary_teach_nothing():
    learner = ppo.Learner(students.student(), PPOConfig(), ppo.optimiser(PPOConfig()))
    np.testing.assert_array_equal(learner._normalised(jnp.full((3, 2), 0.7)), 0.0)


class Bandit(Minigrid):
    """A level is a number, shown as the colour of the only cell; what holds is that the last action was that number."""

    num_actions = 4

    def sample(self, key):
        return jax.random.randint(key, (), 0, 4)

    def reset(self, level):
        return jnp.stack([level, jnp.int32(-1)])

    def step(self, state, action):
        return state.at[1].set(action.astype(jnp.int32))

    def view(self, state):
        return state[0].astype(jnp.uint8)[None, None]

    def holds(self, state, props):
        return jnp.broadcast_to(state[0] == state[1], props.shape)

    def as_level(self, state):
        return state[0]


def test_a_bandit_is_learnt_in_seconds():
    """Four arms, the right one written on the wall: the share of pulls that pay rises from a quarter to nearly all."""
    envs, steps, updates = 32, 8, 80
    task = pack(flat_task([(0, 1, [1], 1.0)], accepting=(1,)))
    world = World(Bandit(MinigridConfig()), RewardMachines(sample=lambda *_: task), 1)
    network = students.student(view_width=16, recurrent=16, head_width=16, value_init=0.01).config
    student = Student(network, Cells(1, 1, (1, 4)), 4, students.DOMAIN.vocabulary.features)
    config = PPOConfig(learning_rate=5e-3, minibatch_envs=16, epochs=2)
    player, learner = Player(world, student, steps), ppo.Learner(student, config, ppo.optimiser(config))
    tasks = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (envs, *leaf.shape)), task)

    def update(state, key):
        key_level, key_play, key_learn = jax.random.split(key, 3)
        levels = jax.vmap(world.domain.sample)(jax.random.split(key_level, envs))
        rollout = player.play(key_play, state[0], Problem(level=levels, task=tasks))
        *state, _ = learner.learn(key_learn, *state, rollout.experience)
        return tuple(state), rollout.steps.accepted.sum() / rollout.steps.done.sum()

    def run(key):
        params = student.init(key)
        return jax.lax.scan(update, (params, learner.init(params)), jax.random.split(key, updates))[1]

    solved = jax.jit(run)(jax.random.key(0))
    assert solved[0] < 0.5
    assert solved[-5:].mean() > 0.9
