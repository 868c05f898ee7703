"""Verdicts with their plans and reasons, on problems a person can check and on the hardest that are sampled."""

import dataclasses
from collections import Counter

import jax
import numpy as np
import pytest

import atlas
from atlas.api import sample_batch, settings
from atlas.config import TaskConfig
from atlas.domains.minigrid import grid
from atlas.domains.minigrid.alphabet import IDS, VOCABULARY
from atlas.domains.minigrid.grid import ACTIONS, Level
from atlas.domains.minigrid.sample import possible
from atlas.domains.minigrid.solver.prove import solve_many
from atlas.domains.minigrid.text import parse_level
from atlas.errors import AtlasError
from atlas.proofs import Solution, accepted
from atlas.tasks.machine import ACCEPT, REJECT, Task, flat_task
from atlas.tasks.sample import formalism
from atlas.types import Problem

ROOM = """
############
##>.....or##
##..sg....##
##......kb##
############
"""
LOCKED = """
##############
##^.kr##..ob##
##....xr....##
##..sg##....##
##############
"""
SHUT = """
##############
##^...##..ob##
##....xr..kr##
##..sg##....##
##############
"""


def problem(drawing: str, task: str) -> Problem:
    return Problem(level=parse_level(drawing), task=atlas.english(task))


def test_a_plan_is_given_and_told() -> None:
    found = atlas.solve(problem(ROOM, "pick up the blue key, then put the blue key next to the red ball"))
    assert found.verdict == "solvable"
    assert found.plan is not None
    assert found.plan_length == len(found.plan)
    assert found.lower_bound is not None
    assert found.lower_bound <= len(found.plan)
    assert str(len(found.plan)) in found.reason
    records = atlas.trace(problem(ROOM, "pick up the blue key, then put the blue key next to the red ball"), found.plan)
    assert records[-1].task_state == "uA"
    assert not records[-2].done


@pytest.mark.parametrize(
    ("drawing", "task", "reason"),
    [
        (ROOM, "go to the red ball, then go to a yellow ball", "in u1: there is no yellow ball"),
        (ROOM, "open a door", "there is no door"),
        (ROOM, "put a ball next to a ball", "there is only one ball"),
        (SHUT, "pick up the blue ball", "no blue ball can be reached"),
        (SHUT, "open the red door", "no red door can be unlocked"),
        (LOCKED, "pick up the blue ball, then go to the locked red door", "locked"),
        (LOCKED, "go to a closed door, then go to a locked door", "locked"),
    ],
)
def test_what_cannot_be_done_has_a_reason(drawing: str, task: str, reason: str) -> None:
    found = atlas.solve(problem(drawing, task))
    assert found.verdict == "unsolvable"
    assert found.plan is None
    assert reason in found.reason


@pytest.mark.parametrize(
    "task",
    [
        "pick up the blue ball",
        "go to the locked red door, then pick up the blue ball, then go to the closed red door",
        "put the green square next to the blue ball",
        "put the red key next to the open red door",
    ],
)
def test_locks_are_opened_when_they_must_be(task: str) -> None:
    assert atlas.solve(problem(LOCKED, task)).verdict == "solvable"


FACING = """
########
##..or##
##..^.##
########
"""


def machine(*edges: tuple[int, int, list[str]]) -> Task:
    return flat_task([(u, v, [IDS[name] + 1 for name in names]) for u, v, names in edges])


def test_what_the_first_label_settles() -> None:
    level = parse_level(FACING)
    found = atlas.solve(Problem(level=level, task=machine((0, ACCEPT, ["front_ball"]))))
    assert (found.verdict, found.plan, found.trivial) == ("solvable", (), True)
    assert found.reason.startswith("trivial")
    trap = machine((0, REJECT, ["front_ball_red"]), (0, ACCEPT, ["front_key"]))
    found = atlas.solve(Problem(level=level, task=trap))
    assert (found.verdict, found.trivial) == ("unsolvable", False)
    assert "rejection" in found.reason


def test_the_way_must_not_lead_into_a_trap() -> None:
    """The short way passes in front of the ball, which must never be faced."""
    level = parse_level("""
        ##############
        ##>.....or..##
        ##..........##
        ##......kb..##
        ##############
    """)
    trap = machine((0, REJECT, ["front_ball"]), (0, ACCEPT, ["next_ball_key"]))
    found = atlas.solve(Problem(level=level, task=trap))
    assert found.verdict == "solvable"
    carry = machine((0, REJECT, ["front_ball"]), (0, ACCEPT, ["carrying_ball"]))
    assert atlas.solve(Problem(level=level, task=carry)).verdict != "solvable"


def test_an_object_in_a_corridor_is_moved_out_of_the_way() -> None:
    corridor = """
        ##################
        ##..##############
        ##>...obksor-r..##
        ##################
    """.replace("ks", "kg")
    assert atlas.solve(problem(corridor, "open the red door")).verdict == "solvable"


def test_plans_keep_to_the_step_limit() -> None:
    task = "pick up the blue ball"
    best = atlas.solve(problem(LOCKED, task))
    assert best.plan_length is not None
    assert atlas.solve(problem(LOCKED, task), step_limit=best.plan_length).verdict == "solvable"
    short = atlas.solve(problem(LOCKED, task), step_limit=5)
    assert short.verdict == "unsolvable"
    assert "only 5 are allowed" in short.reason
    with pytest.raises(AtlasError, match="step_limit = 0"):
        atlas.solve(problem(LOCKED, task), step_limit=0)


def test_plans_are_put_to_the_test_of_the_real_world() -> None:
    batch = [problem(ROOM, "go to the red ball")]
    plan = [ACTIONS.index("forward")] * 2
    assert accepted(batch, [plan], 512).tolist() == [True]
    assert accepted(batch, [plan[:1]], 512).tolist() == [False]
    assert accepted(batch, [plan], 1).tolist() == [False]


# Sampled problems: every plan is replayed by `solve_many`; a plan that failed would be called unknown.


def drawn(pairing: str, tasks: str, rooms: tuple[int, ...], n: int, length: int | None = None) -> list[Problem]:
    config = settings(pairing, tasks, rooms)
    if length is not None:
        config = dataclasses.replace(
            config, tasks=dataclasses.replace(config.tasks, min_length=length, max_length=length)
        )
    batch = jax.device_get(sample_batch(config, n, seed=4))
    return [jax.tree.map(lambda leaf, i=i: leaf[i], batch) for i in range(n)]


def lock(level: Level, count: int, rng: np.random.Generator) -> Level:
    """The level with so many of its doors locked and the others open."""
    cells = np.array(level.cells)
    doors = rng.permutation(np.argwhere(cells >> 3 >= grid.DOOR_CLOSED))
    for number, (row, col) in enumerate(doors):
        kind = grid.DOOR_LOCKED if number < count else grid.DOOR_OPEN
        cells[row, col] = grid.cell(kind, int(cells[row, col]) & 7)
    return Level.unchecked(**vars(level) | {"cells": cells})


def many_locks(count: int, n: int) -> list[Problem]:
    """Nine rooms with locked doors, and tasks about what they hold."""
    rng = np.random.default_rng(count)
    levels = [lock(p.level, count, rng) for p in drawn("level", "sequential", (9,), n)]
    masks = jax.jit(jax.vmap(possible))(jax.tree.map(lambda *x: np.stack(x), *levels))
    tasks, _ = formalism(TaskConfig(min_length=5), VOCABULARY)
    batch = jax.device_get(jax.jit(jax.vmap(tasks.sample))(jax.random.split(jax.random.key(1), n), masks))
    return [
        Problem.unchecked(level=level, task=jax.tree.map(lambda leaf, i=i: leaf[i], batch))
        for i, level in enumerate(levels)
    ]


@pytest.mark.parametrize("n", [24, pytest.param(2048, marks=pytest.mark.slow)])
def test_the_hardest_samples_are_decided(n: int) -> None:
    """Six rooms and five transitions, and eight locked doors: less than one in 200 may stay unknown."""
    for problems in (drawn("level", "sequential", (6,), n, length=5), many_locks(8, n)):
        total = Counter(s.verdict for s in solve_many(problems, bound=False))
        assert total["unknown"] <= n / 200
        assert total["solvable"] > n / 30
        assert total["unsolvable"] > n / 20


def test_twelve_locks_are_no_trouble() -> None:
    solutions = solve_many(many_locks(12, 8), budget=300, bound=False)
    assert sum(solution.verdict == "unknown" for solution in solutions) <= 1


@pytest.mark.parametrize("tasks", ["dag", "authors-dag", "cyclic", "hierarchical"])
def test_machines_of_every_kind_are_solved(tasks: str) -> None:
    total = Counter(s.verdict for s in solve_many(drawn("level", tasks, (1, 2), 12), budget=80, bound=False))
    assert total["unknown"] <= 3
    assert total["solvable"] >= 5


def test_many_processes_give_the_same_verdicts() -> None:
    problems = drawn("level", "sequential", (1, 2), 8)
    told: list[tuple[int, int]] = []
    found = solve_many(problems, workers=2, progress=lambda done, total: told.append((done, total)))
    assert found == solve_many(problems)
    assert told == [(i + 1, 8) for i in range(8)]


def test_a_plan_that_the_world_refuses_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "atlas.domains.minigrid.solver.prove.propose", lambda *_, **__: Solution("solvable", "", (0, 0))
    )
    assert atlas.solve(problem(ROOM, "pick up the blue key")).verdict == "unknown"


def test_shorter_plans_are_looked_for() -> None:
    problems = drawn("level", "sequential", (4,), 6, length=3)
    quick, polished = (solve_many(problems, polish=polish, bound=False) for polish in (0, 100))
    pairs = [(a.plan_length, b.plan_length) for a, b in zip(quick, polished, strict=True) if a.plan_length]
    assert all(b <= a for a, b in pairs)
    assert sum(b < a for a, b in pairs) > 0
