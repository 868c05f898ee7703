"""Sets that are drawn: certified, without repetition, balanced, and the same every time."""

from collections import Counter
from dataclasses import replace

import jax
import numpy as np
import pytest

from atlas.domains.minigrid.grid import Level, count_objects
from atlas.domains.minigrid.sets import BANDS
from atlas.domains.minigrid.solver.prove import solve_many
from atlas.evaluation import sets
from atlas.evaluation.sets import Built, build, fingerprint, identity, one_by_one, recipes
from atlas.types import Problem
from atlas.vocabulary import ACCEPTED

RECIPES = recipes()
SMALL = replace(RECIPES["cvar-dag"], count=20)


@pytest.fixture(autouse=True)
def draw_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sets, "DRAWN", 2048)


@pytest.fixture(scope="module")
def built() -> Built:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sets, "DRAWN", 2048)
        return build(SMALL, seed=3, workers=1)


def test_every_problem_is_solvable_and_none_is_trivial(built: Built) -> None:
    solutions = solve_many(list(one_by_one(built.problems)), bound=False)
    assert [len(found.plan or ()) for found in solutions] == built.settings["plan_lengths"]
    assert min(built.settings["plan_lengths"]) >= 1


def test_no_two_are_the_same_and_all_have_names_and_tags(built: Built) -> None:
    assert len({identity(problem) for problem in one_by_one(built.problems)}) == SMALL.count
    assert len({*built.names}) == len(built.tags) == SMALL.count
    for problem, tags in zip(one_by_one(built.problems), built.tags, strict=True):
        assert f"rooms-{int(problem.level.rooms)}" in tags


@pytest.mark.slow
def test_the_seed_says_it_all(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sets, "SPARE", 3.0)  # how many are proven at a time is no part of the recipe
    again, other = build(SMALL, seed=3, workers=1), build(SMALL, seed=4, workers=1)
    assert fingerprint(one_by_one(again.problems)) == fingerprint(one_by_one(built.problems))
    assert fingerprint(one_by_one(other.problems)) != fingerprint(one_by_one(built.problems))


def test_a_fingerprint_tells_one_cell_of_one_level(built: Built) -> None:
    problems = list(one_by_one(built.problems))
    cells = np.array(problems[7].level.cells)
    cells[1, 1] ^= 1
    level = Level.unchecked(**{**vars(problems[7].level), "cells": cells})
    changed = Problem.unchecked(level=level, task=problems[7].task)
    assert fingerprint([*problems[:7], changed, *problems[8:]]) != fingerprint(problems)
    assert fingerprint(problems[::-1]) != fingerprint(problems)
    assert fingerprint(jax.tree.map(jax.numpy.asarray, problem) for problem in problems) == fingerprint(problems)


@pytest.mark.slow
def test_validation_is_balanced(monkeypatch: pytest.MonkeyPatch) -> None:
    made = build(replace(RECIPES["validation"], count=60), seed=1, workers=1)
    rooms, objects = np.asarray(made.problems.level.rooms), count_objects(np.asarray(made.problems.level.cells))
    lengths = np.argmax(np.asarray(made.problems.task.outcome)[:, 0] == ACCEPTED, axis=1)
    bands = [
        next(n for n, (low, high) in enumerate(BANDS[r]) if low <= o <= high)
        for r, o in zip(rooms.tolist(), objects.tolist(), strict=True)
    ]
    cells = Counter(zip(rooms.tolist(), bands, lengths.tolist(), strict=True))
    assert len(cells) == 4 * 3 * 5
    assert {*cells.values()} == {1}


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_the_sets_that_results_are_reported_on(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert sets.DRAWN == 16_384
    assert fingerprint(one_by_one(build(RECIPES[name], workers=1).problems)) == RECIPES[name].fingerprint
