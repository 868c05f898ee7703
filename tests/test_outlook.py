"""Rewards shaped by the outlook: what a finished episode pays stays, and no way left is mostly right."""

import dataclasses
import functools
import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.build import build, parts
from atlas.config import Config, PairingConfig, TaskConfig
from atlas.domains import surface_of
from atlas.domains.minigrid.alphabet import IDS
from atlas.domains.minigrid.domain import Minigrid
from atlas.domains.minigrid.grid import ACTIONS, COLOURS, DOOR_LOCKED, TOGGLE
from atlas.domains.minigrid.presets import TINY
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.domains.minigrid.solver.relaxed import NO_WAY, Relaxed, screen
from atlas.domains.minigrid.text import parse_level
from atlas.environment import make
from atlas.errors import AtlasError
from atlas.evaluation.sets import one_by_one
from atlas.presets import config_of
from atlas.settings import from_plain
from atlas.tasks.machine import ACCEPT, REJECT, TaskSize, flat_task, hierarchy, machine
from atlas.tasks.packed import RewardMachines, pack
from atlas.types import Guide, Problem
from atlas.ued import DRConfig
from atlas.vocabulary import ACCEPTED, RUNNING
from atlas.world import World

GAMMA = 0.9
STEPS = 48
SURFACE = surface_of("minigrid")


def shaped(domain: MinigridConfig) -> World:
    """A world whose rewards the outlook shapes; episodes are never cut."""
    return World(Minigrid(domain), RewardMachines(), 10**6, guide=screen(domain), gamma=GAMMA)


@functools.cache
def player(domain: MinigridConfig) -> Any:
    """Plays problems twice over, with shaping and without: rewards of both, until an action (-1) that is none."""
    world = shaped(domain)
    plain = dataclasses.replace(world, guide=None)

    def one(problem: Problem, actions: jax.Array) -> tuple[Any, ...]:
        def step(states: Any, action: jax.Array) -> tuple[Any, Any]:
            (shaping, told), (bare, told_plain) = (
                each.step(problem, state, action) for each, state in zip((world, plain), states, strict=True)
            )
            same = [told.done == told_plain.done, told.accepted == told_plain.accepted]
            goes_on = action >= 0
            kept = jax.tree.map(lambda a, b: jnp.where(goes_on, a, b), (shaping, bare), states)
            rewards = jnp.where(goes_on, jnp.stack([told.reward, told_plain.reward]), 0.0)
            return kept, (rewards, jnp.stack(same).all())

        start = world.reset(problem)
        (last, _), (rewards, same) = jax.lax.scan(step, (start, plain.reset(problem)), actions)
        outcome = world.formalism.outcome(problem.task, last.task)
        ends = (world._potential(problem.task, start), world._potential(problem.task, last))
        return rewards, same.all(), outcome, *ends

    return jax.jit(jax.vmap(one))


def returns(domain: MinigridConfig, problems: Problem, actions: np.ndarray) -> tuple[np.ndarray, ...]:
    """Discounted returns with shaping and without, how the task ended, and the potentials of the start and the end."""
    rewards, same, outcome, start, end = jax.device_get(player(domain)(problems, actions))
    assert same.all(), "shaping changes nothing but rewards"
    discount = GAMMA ** np.arange(actions.shape[1])
    with_it, without = np.moveaxis(discount[None, :, None] * rewards, 2, 0).sum(2)
    steps = (actions >= 0).sum(1)
    return with_it, without, outcome, start, GAMMA**steps * end


def require_same_return(domain: MinigridConfig, problems: Problem, actions: np.ndarray) -> np.ndarray:
    """What shaping adds is what the potentials of start and end say; the end of a finished task has none."""
    with_it, without, outcome, start, end = returns(domain, problems, actions)
    np.testing.assert_allclose(with_it, without + end - start, atol=1e-5)
    assert not end[outcome != RUNNING].any()
    np.testing.assert_allclose(without[outcome == ACCEPTED] > 0, True)
    return outcome


DOMAIN = MinigridConfig(rooms=(1, 2), traps=0.5)


@functools.cache
def drawn(sampler: Any, n: int = 64) -> Problem:
    """Problems about what is in their levels. None is over or under way at the start, none begins with a key."""
    tasks = TaskConfig(sampler=sampler, max_length=2, states=4)
    made = parts(Config(domain=DOMAIN, tasks=tasks, pairing=PairingConfig(how="level")))
    problems = jax.device_get(made.sample(jax.random.key(1), 2 * n))
    start = jax.jit(jax.vmap(made.world.reset))(problems)
    fresh = np.flatnonzero(np.asarray(start.task) == 0)[:n]
    assert len(fresh) == n
    return jax.tree.map(lambda leaf: leaf[fresh], problems)


def padded(plans: list[Any]) -> np.ndarray:
    """Actions of one length, -1 behind them."""
    return np.stack([np.resize([*plan, *[-1] * STEPS], STEPS) for plan in plans]).astype(np.int32)


@pytest.mark.parametrize("sampler", ["sequential", "reach-avoid"])
def test_random_episodes_pay_what_they_pay_without_shaping(sampler: str) -> None:
    problems = drawn(sampler)
    actions = np.random.default_rng(0).integers(len(ACTIONS), size=(64, STEPS), dtype=np.int32)
    *_, start, _ = returns(DOMAIN, problems, actions)
    assert not start.any(), "progress begins with 0"
    ends = Counter(require_same_return(DOMAIN, problems, actions).tolist())
    assert len(ends) == (2 if sampler == "sequential" else 3), "some are accepted, some rejected, some go on"


def test_plans_pay_what_they_pay_without_shaping() -> None:
    problems = drawn("sequential")
    solutions = SURFACE.solve_many(list(one_by_one(problems)), bound=False)
    plans = [solution.plan or () for solution in solutions]
    outcome = require_same_return(DOMAIN, problems, padded(plans))
    whole = [0 < len(plan) <= STEPS for plan in plans]
    np.testing.assert_array_equal(outcome == ACCEPTED, whole)
    assert 20 < sum(whole) < 64


# Hand-written problems

KEYS = """
    ################
    ##..>.kgxgor..##
    ################
"""
"""A green door, its key, and a ball behind the door."""
SIZE = TaskSize(1, 4, 2, 2)


def problem(*edges: tuple[int, int, list[str]], level: str = KEYS) -> Problem:
    """A machine from (source, target, names of propositions), which pays 1 on acceptance."""
    numbered = [(u, v, [IDS[name] + 1 for name in names], float(v == ACCEPT)) for u, v, names in edges]
    return Problem(level=parse_level(level), task=pack(flat_task(numbered), SIZE))


WORLD = shaped(DOMAIN)
BALL = problem((0, ACCEPT, ["front_ball"]))
PLAN = ("pick_up", "forward", "toggle", "forward")
reset, act = jax.jit(WORLD.reset), jax.jit(WORLD.step)


def rewards(posed: Problem, *actions: str) -> list[float]:
    state, paid = reset(posed), []
    for action in actions:
        state, told = act(posed, state, jnp.int32(ACTIONS.index(action)))
        paid.append(float(told.reward))
    return paid


def test_each_step_pays_the_difference_of_potentials() -> None:
    expected = [GAMMA * 0.25, GAMMA * 0.25 - 0.25, GAMMA * 0.5 - 0.25, 1 - 0.5]
    assert rewards(BALL, *PLAN) == pytest.approx(expected)
    assert sum(GAMMA**t * paid for t, paid in enumerate(expected)) == pytest.approx(GAMMA**3)


def test_rejection_takes_back_what_was_paid() -> None:
    avoid = problem((0, ACCEPT, ["front_ball"]), (0, REJECT, ["front_door_green_open"]))
    paid = rewards(avoid, *PLAN)
    assert paid == pytest.approx([GAMMA * 0.25, GAMMA * 0.25 - 0.25, -0.25, 0.0])
    assert sum(GAMMA**t * reward for t, reward in enumerate(paid)) == pytest.approx(0, abs=1e-6)


def test_what_the_level_begins_with_is_not_paid() -> None:
    """The first label is a step of two, and the key in hand half a step of two."""
    begun = problem((0, 1, ["front_key"]), (1, ACCEPT, ["carrying_key"]))
    assert rewards(begun, "pick_up") == pytest.approx([1 - 0.5])
    held = problem((0, ACCEPT, ["front_ball"]), level=KEYS.replace("kg", "..") + "    carrying: green key")
    paid = rewards(held, "forward", "toggle", "forward")
    assert paid == pytest.approx([GAMMA * 0.25 - 0.25, GAMMA * 0.5 - 0.25, 1 - 0.5])
    assert sum(GAMMA**t * reward for t, reward in enumerate(paid)) == pytest.approx(GAMMA**2 - 0.25)


def test_a_task_that_is_over_pays_nothing_more() -> None:
    assert rewards(BALL, *PLAN, "pick_up", "put_down")[len(PLAN) :] == [0.0, 0.0]
    assert rewards(problem((0, ACCEPT, ["front_key"])), "forward") == [0.0], "it was over before the first step"


def test_without_a_guide_there_is_no_outlook() -> None:
    plain = dataclasses.replace(WORLD, guide=None)
    state = plain.reset(BALL)
    paid = []
    for action in PLAN:
        state, told = plain.step(BALL, state, jnp.int32(ACTIONS.index(action)))
        paid.append(float(told.reward))
    assert paid == [0.0, 0.0, 0.0, 1.0]
    assert state.outlook is None
    for reward in ("sparse", "stepwise", "shaped"):
        world = parts(dataclasses.replace(TINY, tasks=TaskConfig(reward=reward, max_length=2))).world
        assert world.guide is None
        assert world.gamma == 1.0


def test_the_check_of_minigrid_is_a_guide() -> None:
    assert isinstance(screen(DOMAIN), Guide)
    config = dataclasses.replace(TINY, tasks=TaskConfig(reward="outlook", max_length=2))
    world = parts(config).world
    assert world.guide == Relaxed(1, False)
    assert world.gamma == config.student.ppo.gamma
    assert world.with_map(True).guide == world.guide


ROOM = """
    ##############
    ##..........##
    ##..>.sr....##
    ##......or..##
    ##..........##
    ##..........##
    ##############
"""


def test_an_environment_plays_levels_of_any_size() -> None:
    """Small ones are flooded. Where only rooms are expected, free-form levels of the size of rooms have no outlook."""
    made = [make(rooms=(2,), walls=walls, tasks={"reward": "outlook"}).world.guide for walls in (0.0, 0.5)]
    guides = [jax.jit(guide.outlook) for guide in made if guide is not None]
    walled = ROOM.replace("......or", "....####")
    expected = {KEYS: ([2, 1], [2, 1]), ROOM: ([1, 1], [1, 1]), walled: ([NO_WAY] * 2, [NO_WAY] * 2)}
    expected[ROOM.replace("sr..", "##..")] = [NO_WAY] * 2, [1, 1]
    for drawing, found in expected.items():
        posed = problem((0, ACCEPT, ["front_ball"]), level=drawing)
        assert [guide(posed).left[0].tolist() for guide in guides] == list(found)


def test_tasks_that_call_others_keep_their_rewards() -> None:
    ball, key = IDS["front_ball"] + 1, IDS["carrying_key"] + 1
    root, callee = machine([(0, 1, [-ball], 0.0, 1), (1, ACCEPT, [ball], 1.0)]), machine([(0, ACCEPT, [key])])
    nested = pack(hierarchy([root, callee]))
    posed = Problem(level=parse_level(KEYS), task=nested)
    state, paid = reset(posed), []
    for action in (*PLAN, "toggle"):
        state, told = act(posed, state, jnp.int32(ACTIONS.index(action)))
        paid.append((float(told.reward), bool(told.accepted)))
    assert paid == [(0.0, False)] * 3 + [(1.0, True), (0.0, False)]


# Training

SETTINGS = """
preset: tiny
domain: {traps: 0.5}
tasks: {reward: outlook}
student: {network: {map: true}}
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    path: Path = tmp_path_factory.mktemp("outlook") / "config.yaml"
    path.write_text(SETTINGS)
    return config_of(str(path))


def test_a_file_asks_for_it(config: Config) -> None:
    assert config.tasks.reward == "outlook"
    assert config.student.network.map
    assert config.domain == dataclasses.replace(TINY.domain, traps=0.5)


def test_a_student_with_a_map_is_trained_by_it(config: Config) -> None:
    trainer = build(config)
    state, metrics = trainer.compiled(jax.jit(trainer.init)(jax.random.key(0)), jnp.int32(4))
    assert int(state.iterations) == 4
    assert int(metrics.bad) == -1
    assert int(metrics.trained) > 0
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((metrics.losses, state.params)))


@pytest.mark.parametrize("teacher", [DRConfig(pool=2), DRConfig(pool=2, carry=True)], ids=["pool", "carry"])
def test_episodes_that_go_on_keep_their_outlook(config: Config, teacher: DRConfig) -> None:
    trainer = build(dataclasses.replace(config, teacher=teacher))
    start = jax.eval_shape(trainer.init, jax.random.key(0))
    after, _ = jax.eval_shape(trainer.step, start)
    shapes, expected = ([(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree)] for tree in (after, start))
    assert shapes == expected


# Mistakes


def test_a_domain_that_tells_no_distances_is_told_in_a_sentence() -> None:
    config = from_plain(Config, {"domain": {"name": "letterworld"}, "tasks": {"reward": "outlook"}})
    with pytest.raises(AtlasError, match=r"tasks\.reward = outlook is not allowed: the check of letterworld tells no"):
        parts(config)


# How often there is a way where the outlook sees none

MANY, LONG = 6144, 192
VARIED = MinigridConfig(traps=0.5, walls=0.1)
HARD = {
    name: Config(domain=VARIED, tasks=TaskConfig(sampler=name), pairing=PairingConfig(how="level"))
    for name in ("sequential", "authors-dag")
}


@functools.cache
def losing(name: str) -> Any:
    """For problems of a kind, each with actions: whether all was lost on the way, and the problem that was left when it
    was."""
    world = parts(HARD[name]).world
    guide = screen(VARIED)

    def one(problem: Problem, actions: jax.Array) -> tuple[jax.Array, Problem]:
        known = guide.outlook(problem)
        # Progress is also -1 where twice as much is left as at the start: not if 1 is left wherever there is a way.
        near = known.replace(left=jnp.where(known.left == NO_WAY, NO_WAY, 1).astype(jnp.uint8))

        def is_lost(state: Any) -> jax.Array:
            running = world.formalism.outcome(problem.task, state.task) == RUNNING
            return running & (guide.progress(near, state.task, state.domain) == -1.0)

        def step(state: Any, action: jax.Array) -> tuple[Any, None]:
            goes_on = (action >= 0) & ~is_lost(state)
            after, _ = world.step(problem, state, action)
            return jax.tree.map(lambda a, b: jnp.where(goes_on, a, b), after, state), None

        start = world.reset(problem)
        last, _ = jax.lax.scan(step, start, actions)
        task, fits = world.formalism.suffix(problem.task, last.task)
        lost = (known.left[0, 0] < NO_WAY) & is_lost(last) & fits
        return lost, Problem(level=world.domain.as_level(last.domain), task=task)

    return jax.jit(jax.vmap(one))


def unlocking(problem: Problem, rng: np.random.Generator) -> Problem:
    """To stand before a locked door with its key: one more action unlocks it. Without a door there is nothing to do."""
    cells = np.asarray(problem.level.cells)
    locked = cells[cells >> 3 == DOOR_LOCKED] & 7
    colour = COLOURS[rng.choice(locked)] if len(locked) else "gray"
    wanted = [IDS[f"carrying_key_{colour}"] + 1, IDS[f"front_door_{colour}_locked"] + 1]
    return problem.replace(task=pack(flat_task([(0, ACCEPT, wanted)])))


def plans(problems: list[Problem]) -> list[tuple[int, ...]]:
    return [solution.plan or () for solution in SURFACE.solve_many(problems, budget=100, bound=False)]


def lost_on_the_way(name: str, rng: np.random.Generator) -> list[Problem]:
    """What was left of problems of a kind where all was lost, each at most once: actions at random, after the beginning
    of a plan, and after a door was unlocked that perhaps should not be."""
    problems = jax.device_get(parts(HARD[name]).sample(jax.random.key(10), MANY))
    some, left = list(one_by_one(problems)), {}
    begun = [plan[: rng.integers(len(plan) + 1)] for plan in plans(some[: MANY // 8])]
    unlocked = [(*plan, TOGGLE) for plan in plans([unlocking(one, rng) for one in some])]
    for first in ([], begun, unlocked):
        known = itertools.chain(first, itertools.repeat(()))
        actions = [[*next(known), *rng.integers(len(ACTIONS), size=LONG)][:LONG] for _ in range(MANY)]
        lost, rest = jax.device_get(losing(name)(problems, np.array(actions, np.int32)))
        left = {number: one for number, one in enumerate(one_by_one(rest)) if lost[number]} | left
    return list(left.values())


@pytest.mark.slow
def test_where_the_outlook_sees_no_way_there_is_hardly_ever_one() -> None:
    rng, total = np.random.default_rng(1), Counter[str]()
    for name in HARD:
        left = lost_on_the_way(name, rng)
        verdicts = Counter(solution.verdict for solution in SURFACE.solve_many(left, budget=600, bound=False))
        print(f"{name}: {len(left)} of {MANY} problems were lost, by the outlook; by the prover {dict(verdicts)}")
        total += verdicts
    assert total.total() >= 300
    assert total["solvable"] < 0.005 * total.total()
