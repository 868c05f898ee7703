"""What a teacher replays, counted by a plain loop over the same problems."""

import dataclasses
from collections import defaultdict

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.build import build, observer, parts
from atlas.domains.minigrid import grid
from atlas.domains.minigrid.presets import TINY
from atlas.domains.minigrid.solver.relaxed import relaxed_many
from atlas.tasks.packed import count_states, unpack, unstack
from atlas.ued import DRConfig
from atlas.ued.curriculum import SAMPLE, ancestry, examples
from rules import count_objects

SEED = 7


@pytest.fixture(scope="module")
def observed():
    """A tiny run after some iterations, and the one who looks on."""
    trainer = build(TINY)
    state, _ = trainer.compiled(jax.jit(trainer.init)(jax.random.key(0)), jnp.int32(16))
    return observer(parts(TINY), trainer), state


@pytest.fixture(scope="module")
def seen(observed):
    looking_on, state = observed
    return looking_on.look(state.teacher, SEED)


@pytest.fixture(scope="module")
def record(observed, seen):
    return observed[0].measure(seen, SEED)


def one(tree, i):
    return jax.tree.map(lambda x: x[i], tree)


def test_only_what_is_in_the_buffer_is_seen(observed, seen):
    _, state = observed
    assert len(seen) == int(state.teacher.buffer.records.filled.sum())
    assert seen.probability.sum() == pytest.approx(1.0)


def test_the_numbers_are_means_by_probability(seen, record):
    totals, shares = defaultdict(float), defaultdict(lambda: defaultdict(float))
    for i, p in enumerate(seen.probability):
        problem, lineage = one(seen.problems, i), one(seen.lineage, i)
        machine = unpack(problem.task).flat
        told = {
            "rooms": int(problem.level.rooms),
            "objects": count_objects(problem.level),
            "states": len(machine.outcomes),
            "edits": int((lineage.edits >= 0).sum()),
            "generation": int(lineage.generation),
        }
        for name, value in told.items():
            totals[name] += p * value
            shares[name][str(value)] += p
    assert {name: record[name] for name in totals} == pytest.approx(dict(totals))
    for name in ("rooms", "objects", "states", "edits"):
        assert record["shares"][name] == pytest.approx(dict(shares[name]))
        assert sum(record["shares"][name].values()) == pytest.approx(1.0)


def test_how_much_is_solved_is_told_by_bucket(seen, record):
    for rooms, rate in record["solved"]["rooms"].items():
        here = (np.asarray(seen.problems.level.rooms) == int(rooms)) & (seen.attempts > 0)
        expected = np.average(seen.solves[here] / seen.attempts[here], weights=seen.probability[here])
        assert rate == pytest.approx(expected)


def test_the_share_of_solvable_problems_is_that_of_the_relaxed_check(seen, record):
    passes = relaxed_many(seen.problems)
    margin = 4 * 0.5 / np.sqrt(SAMPLE)
    assert record["solvable"] == pytest.approx(passes.mean(), abs=margin)
    assert record["solvable_replayed"] == pytest.approx(seen.probability @ passes, abs=margin)


def test_kinds_of_edits_share_out_all_edits(observed, record):
    assert set(record["edit_kinds"]) <= set(observed[0].edit_names)
    assert sum(record["edit_kinds"].values()) == pytest.approx(1.0)


def test_a_sequence_has_one_path_as_long_as_its_edges(record):
    assert record["paths"] == 1.0
    assert record["path_length"] == pytest.approx(record["states"] - 1, abs=0.1)


def test_looking_on_changes_nothing_and_repeats_itself(observed, record):
    looking_on, state = observed
    before = jax.tree.map(np.array, jax.tree.map(jax.random.key_data, state.key))
    assert looking_on.measure(looking_on.look(state.teacher, SEED), SEED) == record
    assert np.array_equal(before, jax.random.key_data(state.key))


def test_examples_are_different_and_the_likeliest_come_first(seen):
    some = examples(seen, SEED, 8)
    assert len(some) == 8
    assert np.all(np.diff(some.probability) <= 0)
    assert len(set(some.lineage.number.tolist())) == 8
    assert len(examples(seen, SEED, 10_000)) == len(seen)


def test_examples_are_copies(seen):
    some = examples(seen, SEED, 4)
    pairs = zip(jax.tree.leaves(some.problems), jax.tree.leaves(seen.problems), strict=True)
    assert not any(np.shares_memory(a, b) for a, b in pairs)


def test_an_empty_buffer_is_told_as_such():
    trainer = build(TINY)
    looking_on = observer(parts(TINY), trainer)
    nothing = looking_on.look(jax.jit(trainer.init)(jax.random.key(0)).teacher, SEED)
    assert looking_on.measure(nothing, SEED) == {"problems": 0}


@pytest.mark.slow
def test_without_memory_new_problems_are_looked_at():
    config = dataclasses.replace(TINY, teacher=DRConfig())
    trainer = build(config)
    looking_on = observer(parts(config), trainer)
    seen = looking_on.look(trainer.teacher.init(jax.random.key(0)), SEED)
    record = looking_on.measure(seen, SEED)
    assert record["problems"] == SAMPLE
    assert record["edit_kinds"] == {}
    assert record["solved"] == {"rooms": {}, "states": {}}
    assert record["rooms"] == pytest.approx(1.5, abs=0.1)


@pytest.mark.slow
def test_counting_works_for_hierarchies():
    from atlas.api import sample_batch, settings

    problems = jax.tree.map(np.asarray, sample_batch(settings("independent", "hierarchical", (1,)), 16, 0))
    expected = [sum(len(m.outcomes) for m in task.machines if m.edges) for task in unstack(problems.task)]
    assert jax.vmap(count_states)(problems.task).tolist() == expected
    counts = [count_objects(one(problems.level, i)) for i in range(16)]
    assert grid.count_objects(np.asarray(problems.level.cells)).tolist() == counts


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("move_agent", (101, 203, 1), "move_agent(to 2,3, facing right)"),
        ("move_object", (101, 203, 24), "move_object(red ball from 1,1 to 2,3)"),
        ("add_object", (-1, 203, 42), "add_object(blue key at 2,3)"),
        ("replace_door", (304, -1, 58), "replace_door(locked blue door at 3,4)"),
        ("add_rooms", (0, 2, -1), "add_rooms(before, 2 rooms now)"),
        ("remove_rooms", (1, 1, -1), "remove_rooms(after, 1 room left)"),
        ("add_state", (0, 0, 3), "add_state(at the start: "),
        ("remove_state", (102, 101, -1), "remove_state(m1.u2)"),
        ("hindsight_preceding", (1, -1, -1), "hindsight_preceding(end where u1 is reached)"),
        ("of_mine", (4, -1, 5), "of_mine(4, 5)"),
    ],
)
def test_edits_are_told_in_words(observed, name, arguments, words):
    assert observed[0].tell_edit(name, arguments).startswith(words)


def test_every_edit_of_a_run_can_be_told(observed, seen):
    told = [observed[0].tell_edits(one(seen.lineage, i)) for i in range(len(seen))]
    assert any(told)
    assert all(words.endswith(")") for edits in told for words in edits)


def test_where_a_problem_came_from_is_a_sentence():
    assert ancestry({"parent": -1, "generation": 0, "edits": []}) == "sampled"
    edited = {"parent": 12, "generation": 2, "edits": ["add_object(red ball at 1,1)"]}
    assert ancestry(edited) == "edited from problem 12 (generation 2): add_object(red ball at 1,1)"
