"""Pairing: what the task asks for and what the level holds."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.config import PairingConfig, TaskConfig
from atlas.domains.minigrid.domain import Minigrid
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.problems import batch_sampler, mentions
from atlas.tasks.sample import formalism
from rules import count_objects, level_rules, task_rules
from twins.drawn import drawn as drawn_tasks
from twins.drawn import single

NUM = 128
COLOURS = ("red", "blue", "gray")
DOMAIN = Minigrid(MinigridConfig(colours=COLOURS, types=("ball", "key")))
HOW = ("independent", "level", "task")


@functools.cache
def tasks(name, minimal=False):
    return formalism(TaskConfig(sampler=name), DOMAIN.vocabulary, mask=DOMAIN.mask, smallest=minimal)[0]


@functools.cache
def drawn(name, how, minimal=False):
    """Problems, and for each the propositions that its task asks for and those that its level allows."""
    members = tasks(name, minimal)
    sample = batch_sampler(PairingConfig(how=how, minimal=minimal), DOMAIN, members)

    def look(key):
        problems = sample(key, NUM)
        asked = jax.vmap(lambda task: mentions(members.graph(task)))(problems.task)
        return problems, asked, jax.vmap(DOMAIN.possible)(problems.level)

    problems, asked, allowed = jax.device_get(jax.jit(look)(jax.random.key(1)))
    asked = [set(row[row >= 0].tolist()) for row in asked]
    return problems, asked, [set(np.flatnonzero(mask).tolist()) for mask in allowed]


def at(tree, i):
    return jax.tree.map(lambda x: x[i], tree)


@pytest.mark.parametrize("name", ["sequential", "dag"])
def test_level_conditioned_tasks_ask_for_what_the_level_allows(name):
    _, asked, allowed = drawn(name, "level")
    assert all(a and a <= p for a, p in zip(asked, allowed, strict=True))


def test_task_conditioned_levels_hold_what_the_task_asks_for():
    _, asked, allowed = drawn("sequential", "task")
    assert all(a and a <= p for a, p in zip(asked, allowed, strict=True))


@pytest.mark.parametrize("name", ["dag", "hierarchical"])
def test_mentions_are_what_guards_ask_for(name):
    for i in range(8):
        task = single(drawn_tasks(name), i)
        guard = np.asarray(task.guard)
        found = np.asarray(mentions(tasks(name).graph(task)))
        assert set(found[found >= 0].tolist()) == set((guard[guard > 0] - 1).tolist())


@pytest.mark.parametrize("how", HOW)
def test_problems_obey_the_rules_and_the_settings(how):
    problems, asked, _ = drawn("sequential", how)
    for i in range(NUM):
        level_rules(at(problems.level, i), DOMAIN.config)
        task_rules(at(problems.task, i))
        assert all(DOMAIN.mask[p] for p in asked[i])
    assert set((problems.level.cells & 7).ravel().tolist()) <= {0, 2, 5, 6}


def test_independent_tasks_do_not_care_about_the_level():
    _, asked, allowed = drawn("sequential", "independent")
    assert 0.05 < np.mean([a <= p for a, p in zip(asked, allowed, strict=True)]) < 0.6


@pytest.mark.parametrize("how", ["level", "task"])
def test_minimal_problems(how):
    problems, asked, allowed = drawn("sequential", how, minimal=True)
    shapes = [jax.tree.leaves(jax.tree.map(jnp.shape, p)) for p in (problems, drawn("sequential", how)[0])]
    assert shapes[0] == shapes[1]
    for i in range(NUM):
        assert int((problems.task.target[i] != -1).sum()) == 1
        task_rules(at(problems.task, i))
        level = at(problems.level, i)
        level_rules(level, DOMAIN.config)
        if how == "level":
            assert (int(level.rooms), count_objects(level)) == (1, 1)
    assert all(a <= p for a, p in zip(asked, allowed, strict=True))


def test_minimal_hierarchies():
    task = jax.jit(tasks("hierarchical", True).sample)(jax.random.key(0), jnp.asarray(DOMAIN.mask))
    assert task.size == single(drawn_tasks("hierarchical"), 0).size
    assert int((task.target != -1).sum()) == 1
    task_rules(task)


def few_rooms(problem):
    return problem.level.rooms <= 2


@pytest.fixture(scope="module")
def screened():
    sample = batch_sampler(PairingConfig(solvable=True, oversample=1), DOMAIN, tasks("sequential"), few_rooms)
    return jax.jit(sample, static_argnums=1)


def test_only_what_passes_the_check_is_kept(screened):
    problems = jax.device_get(screened(jax.random.key(0), NUM))
    assert set(problems.level.rooms.tolist()) == {1, 2}
    assert len(np.unique(problems.level.cells.reshape(NUM, -1), axis=0)) > NUM * 0.95, "none is kept twice"


def test_too_hard_a_check_does_not_hang():
    nothing = batch_sampler(
        PairingConfig(solvable=True, oversample=1), DOMAIN, tasks("sequential"), lambda problem: problem.level.rooms < 0
    )
    problems = jax.jit(nothing, static_argnums=1)(jax.random.key(0), 4)
    assert problems.level.rooms.shape == (4,)


def test_a_check_is_needed():
    with pytest.raises(ValueError, match="check"):
        batch_sampler(PairingConfig(solvable=True), DOMAIN, tasks("sequential"))
