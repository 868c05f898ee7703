"""Pairing: what the task asks for and what the level holds. Children: how many edits, which, and their lineage."""

import functools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from atlas import problems as problem_edits
from atlas.config import PairingConfig, TaskConfig
from atlas.domains.minigrid.domain import Minigrid
from atlas.domains.minigrid.grid import BALL, RED, cell
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.problems import NO_EDIT, batch_sampler, edit_names, editor, mentions
from atlas.tasks.sample import formalism
from atlas.types import Edit, Lineage, Partial
from atlas.ued import EditConfig
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
    assert np.all(problems.level.rooms > 0), "they are problems all the same"


def test_a_check_is_needed():
    with pytest.raises(ValueError, match="check"):
        batch_sampler(PairingConfig(solvable=True), DOMAIN, tasks("sequential"))


FULL = Minigrid(MinigridConfig())
TASKS, _ = formalism(TaskConfig(), FULL.vocabulary, mask=FULL.mask)
PARENTS, ROOM = 2048, 12
LEAST, MOST = 1, 3
NAMES = edit_names(FULL, TASKS)
FIRST_TASK, FIRST_HINDSIGHT = len(FULL.edits), len(NAMES) - 2


@functools.cache
def parents():
    """Problems, lineages, and partial progress: every third in state 1 with a ball in hand, where that runs."""
    problems = jax.jit(batch_sampler(PairingConfig(), FULL, TASKS), static_argnums=1)(jax.random.key(0), PARENTS)
    numbers = jnp.arange(PARENTS, dtype=jnp.int32)
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
    edit = editor(EditConfig(least=LEAST, most=MOST, **settings), FULL, TASKS)
    run = jax.jit(jax.vmap(edit))
    return jax.device_get(run(jax.random.split(jax.random.key(9), PARENTS), *parents()))


@pytest.mark.parametrize("size", [64, 100])
def test_in_groups_every_child_gets_the_edit_it_drew(size):
    """Toy edits of numbers; the last kind is drawn by nobody, a third of the children by none."""
    edits = [
        Edit(f"{n}", lambda x: True, lambda key, x, n=n: (x * 10 + n, jnp.full(3, n, jnp.int16))) for n in range(5)
    ]
    chosen = np.where(np.arange(size) % 3 == 0, NO_EDIT, np.random.default_rng(0).integers(0, 4, size)).astype(np.int32)
    items, none = jnp.arange(size), jnp.full((size, 3), -1, jnp.int16)
    keys = jax.random.split(jax.random.key(0), size)
    found = jax.jit(lambda chosen: problem_edits._Groups.by(chosen, 5).apply(0, edits, keys, items, none))(chosen)
    assert found[0].tolist() == [i if c == NO_EDIT else 10 * i + c for i, c in enumerate(chosen.tolist())]
    assert found[1][:, 0].tolist() == chosen.tolist()


@pytest.mark.slow
def test_groups_change_nothing(monkeypatch):
    """Against every edit computed for every child."""
    few = jax.tree.map(lambda x: x[:96], parents())
    keys = jax.random.split(jax.random.key(9), 96)
    edit = editor(EditConfig(least=LEAST, most=MOST), FULL, TASKS)
    grouped = jax.device_get(jax.jit(jax.vmap(edit))(keys, *few))
    monkeypatch.setattr(problem_edits, "FEW", 1000)
    edit = editor(EditConfig(least=LEAST, most=MOST), FULL, TASKS)
    jax.tree.map(np.testing.assert_array_equal, grouped, jax.device_get(jax.jit(jax.vmap(edit))(keys, *few)))


def counts(lineage) -> np.ndarray:
    return (lineage.edits != NO_EDIT).sum(1)


def test_children_obey_the_rules():
    problems, _ = children()
    for i in range(0, PARENTS, 4):
        level_rules(at(problems.level, i), FULL.config)
        task_rules(at(problems.task, i))


def test_the_number_of_edits_is_uniform_from_least_to_most():
    found = np.bincount(counts(children()[1]), minlength=ROOM + 1)
    assert found[LEAST : MOST + 1].sum() == PARENTS
    assert stats.chisquare(found[LEAST : MOST + 1]).pvalue > 1e-5


def test_the_lineage_tells_where_a_child_came_from():
    lineage = children()[1]
    assert (lineage.number == -1).all()
    assert (lineage.parent == np.arange(PARENTS) + 7).all()
    assert (lineage.generation == 3).all()
    used = lineage.edits != NO_EDIT
    assert (np.sort(~used, axis=1) == ~used).all(), "edits stand at the front"
    assert (lineage.arguments[~used] == -1).all()


def test_each_edit_is_drawn_uniformly_among_those_that_apply():
    problems, _, partial = parents()
    first = children()[1].edits[:, 0]
    names = [*FULL.edits, *TASKS.edits]
    can = jax.jit(
        jax.vmap(lambda p: [e.applicable(p.level if i < FIRST_TASK else p.task) for i, e in enumerate(names)])
    )
    can = np.array(can(problems)).T
    running = np.asarray(problems.task.outcome)[:, 0, 1] == 0
    looks_back = running & (np.asarray(partial.task_state) == 1) & np.asarray(partial.valid)
    can = np.concatenate([can, looks_back[:, None], looks_back[:, None]], axis=1)
    assert can[np.arange(PARENTS), first].all()
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


@pytest.mark.slow
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
        return np.any([(a != b).reshape(PARENTS, -1).any(1) for a, b in leaves], axis=0)

    row = np.where(counts(lineage) == 1, lineage.edits[:, 0], len(NAMES))
    assert not changed("task")[row < FIRST_TASK].any()
    assert changed("level")[row < FIRST_TASK].all()
    assert not changed("level")[(row >= FIRST_TASK) & (row < FIRST_HINDSIGHT)].any()
    assert changed("task")[(row >= FIRST_TASK) & (row < FIRST_HINDSIGHT)].all()


def test_where_nothing_applies_the_child_is_like_its_parent():
    never = Edit("never", lambda _: jnp.bool_(False), lambda key, item: (item, jnp.zeros(3, jnp.int16)))
    stubborn = replace(TASKS, edits=(never,))
    edit = editor(EditConfig(level=False, hindsight=False), FULL, stubborn)
    problem, lineage, partial = at(parents(), 0)
    child, new = jax.jit(edit)(jax.random.key(0), problem, lineage, partial)
    assert all((a == b).all() for a, b in zip(jax.tree.leaves(child), jax.tree.leaves(problem), strict=True))
    assert (new.edits == NO_EDIT).all()
    assert int(new.generation) == 3
