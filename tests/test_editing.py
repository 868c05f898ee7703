"""Children: how many edits, which, in what order, and what the lineage says."""

import functools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from atlas.config import PairingConfig, TaskConfig
from atlas.domains.minigrid.domain import Minigrid
from atlas.domains.minigrid.grid import BALL, RED, cell
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.problems import NO_EDIT, batch_sampler, edit_names, editor
from atlas.tasks.sample import formalism
from atlas.types import Edit, Lineage, Partial
from atlas.ued import EditConfig
from rules import level_rules, task_rules

DOMAIN = Minigrid(MinigridConfig())
TASKS, _ = formalism(TaskConfig(), DOMAIN.vocabulary, mask=DOMAIN.mask)
NUM, ROOM = 2048, 12
LEAST, MOST = 1, 3
NAMES = edit_names(DOMAIN, TASKS)
FIRST_TASK, FIRST_HINDSIGHT = len(DOMAIN.edits), len(NAMES) - 2


@functools.cache
def parents():
    """Problems, lineages, and partial progress: every third in state 1 with a ball in hand, where that runs."""
    problems = jax.jit(batch_sampler(PairingConfig(), DOMAIN, TASKS), static_argnums=1)(jax.random.key(0), NUM)
    numbers = jnp.arange(NUM, dtype=jnp.int32)
    lineage = jax.vmap(
        lambda n: Lineage(
            number=n + 7,
            parent=jnp.int32(-1),
            generation=jnp.int16(2),
            edits=jnp.full(ROOM, -1, jnp.int8),
            arguments=jnp.full((ROOM, 3), -1, jnp.int16),
        )
    )(numbers)
    partial = jax.vmap(
        lambda n, p: Partial(
            level=p.level.replace(carrying=jnp.uint8(cell(BALL, RED))),
            task_state=(n % 3 == 0).astype(jnp.int8),
            valid=n % 2 == 0,
        )
    )(numbers, problems)
    return problems, lineage, partial


@functools.cache
def children(**settings):
    edit = editor(EditConfig(least=LEAST, most=MOST, **settings), DOMAIN, TASKS)
    run = jax.jit(jax.vmap(edit))
    return jax.device_get(run(jax.random.split(jax.random.key(9), NUM), *parents()))


def at(tree, i):
    return jax.tree.map(lambda x: x[i], tree)


def counts(lineage) -> np.ndarray:
    return (lineage.edits != NO_EDIT).sum(1)


def test_children_obey_the_rules():
    problems, _ = children()
    for i in range(0, NUM, 4):
        level_rules(at(problems.level, i), DOMAIN.config)
        task_rules(at(problems.task, i))


def test_the_number_of_edits_is_uniform_from_least_to_most():
    found = np.bincount(counts(children()[1]), minlength=ROOM + 1)
    assert found[LEAST : MOST + 1].sum() == NUM
    assert stats.chisquare(found[LEAST : MOST + 1]).pvalue > 1e-5


def test_the_lineage_tells_where_a_child_came_from():
    lineage = children()[1]
    assert (lineage.number == -1).all()
    assert (lineage.parent == np.arange(NUM) + 7).all()
    assert (lineage.generation == 3).all()
    used = lineage.edits != NO_EDIT
    assert (np.sort(~used, axis=1) == ~used).all(), "edits stand at the front"
    assert (lineage.arguments[~used] == -1).all()


def test_each_edit_is_drawn_uniformly_among_those_that_apply():
    problems, _, partial = parents()
    first = children()[1].edits[:, 0]
    names = [*DOMAIN.edits, *TASKS.edits]
    can = jax.jit(
        jax.vmap(lambda p: [e.applicable(p.level if i < FIRST_TASK else p.task) for i, e in enumerate(names)])
    )
    can = np.array(can(problems)).T
    running = np.asarray(problems.task.outcome)[:, 0, 1] == 0
    looks_back = running & (np.asarray(partial.task_state) == 1) & np.asarray(partial.valid)
    can = np.concatenate([can, looks_back[:, None], looks_back[:, None]], axis=1)
    assert can[np.arange(NUM), first].all()
    expected = (can / can.sum(1, keepdims=True)).sum(0)
    found = np.bincount(first, minlength=len(NAMES))
    assert stats.chisquare(found, expected).pvalue > 1e-5


def test_hindsight_comes_first_or_not_at_all():
    edits = children()[1].edits
    assert (edits[:, 0] >= FIRST_HINDSIGHT).sum() > 20
    assert (edits[:, 1:] < FIRST_HINDSIGHT).all()


def test_hindsight_changes_what_it_says():
    problems, _, _ = parents()
    after, lineage = children()
    before = NAMES.index("hindsight_preceding")
    chosen = np.flatnonzero((lineage.edits[:, 0] >= FIRST_HINDSIGHT) & (counts(lineage) == 1))
    assert len(chosen) > 10
    for i in chosen:
        parent, child = at(jax.device_get(problems), i), at(after, i)
        length = int((parent.task.target != -1).sum())
        asked = parent.task.guard[0, :length, 0, 0].tolist()
        kept = int((child.task.target != -1).sum())
        preceding = lineage.edits[i, 0] == before
        assert child.task.guard[0, :kept, 0, 0].tolist() == (asked[:1] if preceding else asked[1:])
        assert int(child.level.carrying) == (int(parent.level.carrying) if preceding else cell(BALL, RED))
        assert lineage.arguments[i, 0].tolist() == [1, -1, -1]


@pytest.mark.parametrize(
    ("settings", "allowed"),
    [
        ({"task": False, "hindsight": False}, range(FIRST_TASK)),
        ({"level": False}, range(FIRST_TASK, len(NAMES))),
    ],
    ids=["levels", "tasks and hindsight"],
)
def test_kinds_can_be_switched_off(settings, allowed):
    problems, lineage = children(**settings)
    assert set(np.unique(lineage.edits)) - {NO_EDIT} == set(allowed)
    if "level" in settings:
        assert (problems.level.cells == np.asarray(parents()[0].level.cells)).all()
    else:
        assert (problems.task.guard == np.asarray(parents()[0].task.guard)).all()


def test_one_edit_changes_one_half():
    after, lineage = children()
    parent = jax.device_get(parents()[0])

    def changed(which):
        leaves = zip(*(jax.tree.leaves(getattr(p, which)) for p in (after, parent)), strict=True)
        return np.any([(a != b).reshape(NUM, -1).any(1) for a, b in leaves], axis=0)

    row = np.where(counts(lineage) == 1, lineage.edits[:, 0], len(NAMES))
    assert not changed("task")[row < FIRST_TASK].any()
    assert changed("level")[row < FIRST_TASK].all()
    assert not changed("level")[(row >= FIRST_TASK) & (row < FIRST_HINDSIGHT)].any()
    assert changed("task")[(row >= FIRST_TASK) & (row < FIRST_HINDSIGHT)].all()


def test_where_nothing_applies_the_child_is_like_its_parent():
    never = Edit("never", lambda _: jnp.bool_(False), lambda key, item: (item, jnp.zeros(3, jnp.int16)))
    stubborn = replace(TASKS, edits=(never,))
    edit = editor(EditConfig(level=False, hindsight=False), DOMAIN, stubborn)
    problem, lineage, partial = at(parents(), 0)
    child, new = jax.jit(edit)(jax.random.key(0), problem, lineage, partial)
    assert all((a == b).all() for a, b in zip(jax.tree.leaves(child), jax.tree.leaves(problem), strict=True))
    assert (new.edits == NO_EDIT).all()
    assert int(new.generation) == 3
