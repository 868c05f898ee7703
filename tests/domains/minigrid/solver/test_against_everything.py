"""Verdicts on small problems against every play there is."""

import random
import zlib

import numpy as np
import pytest

from atlas.domains.minigrid import grid
from atlas.domains.minigrid.alphabet import IDS, NAMES
from atlas.domains.minigrid.solver.prove import BUDGET, propose
from atlas.domains.minigrid.text import parse_level
from atlas.tasks.machine import ACCEPT, Task, flat_task
from atlas.types import Problem
from twins import worlds

LEVELS = {
    "one room": """
        ##########
        ##..or..##
        ##^.kb..##
        ##########
    """,
    "an object in the way": """
        ##############
        ##>.kb....sg##
        ##############
    """,
    "a locked door": """
        ############
        ##kr##or####
        ##^.xr..##
        ##########
    """,
    "a key that is locked away": """
        ############
        ##v.xrkr..##
        ##..##ob##
        ##########
    """,
    "two doors in a row": """
        ################
        ##>.-b..+rob..##
        ################
    """,
    "seen through a wall": """
        ############
        ##^.##orkb##
        ##..##..sg##
        ############
    """,
    "in a doorway, with full hands": """
        ############
        ##..<g..or##
        ##sg##..##
        ##########
        carrying: red key
    """,
    "a door nobody can open": """
        ##########
        ##^.orxb##
        ##..kr####
        ##########
    """,
    "two doors and a ball": """
        ##########
        ##^.ob-r##
        ##..+g..##
        ##########
    """,
    "nobody around": """
        ..or..
        ^...kb
    """,
}
PER_LEVEL = 30


def as_world(level) -> worlds.World:
    cells = np.asarray(level.cells)
    carried = int(level.carrying)
    return worlds.World(
        grid=tuple(tuple(grid.cell_name(code) for code in row) for row in cells.tolist()),
        position=tuple(np.asarray(level.position).tolist()),
        direction=int(level.direction),
        carrying=None if carried == grid.NOTHING else grid.cell_name(carried),
    )


def random_task(rng: random.Random, likely: list[int]) -> tuple[worlds.Task, Task]:
    """A small machine of any shape: parallel edges, cycles, conjunctions, negations, sometimes a trap."""
    states, accept, reject = rng.randint(1, 3), 100, 200
    edges = []
    for u in range(states):
        for _ in range(rng.choice([1, 1, 2])):
            props = [rng.choice(likely) if rng.random() < 0.9 else rng.randrange(len(NAMES)) for _ in range(4)]
            positive = props[: rng.choice([1, 1, 1, 2, 2, 3])]
            negative = props[3:] if rng.random() < 0.4 else []
            later = [u + 1 if u + 1 < states else accept] * 3 + [rng.randrange(states)]
            target = reject if rng.random() < 0.1 else rng.choice(later)
            edges.append((u, target, positive, [p for p in negative if p not in positive]))
    machine = flat_task(
        [(u, v, [p + 1 for p in yes] + [-p - 1 for p in no]) for u, v, yes, no in edges],
        {accept},
        {reject},
    )
    named = [(u, v, [NAMES[p] for p in yes], [NAMES[p] for p in no]) for u, v, yes, no in edges]
    return worlds.Task(named, {accept}, {reject}), machine


def likely_propositions(world: worlds.World) -> list[int]:
    """Mostly what can be seen in some play, and as much again that is about objects of the level."""
    things = {name for row in world.grid for name in row} | {world.carrying or "floor"}
    words = {word for name in things for word in name.split("_")}
    words |= {"closed", "open"} if "door" in words else set()
    about = [IDS[name] for name in NAMES if set(name.split("_")[1:]) <= words]
    seen = sorted(IDS[name] for name in worlds.everything_seen(world))
    return seen * (3 * len(about) // len(seen)) + about


def judged(name: str) -> set[str]:
    """Compare the verdicts on many random tasks in one level; which verdicts there were."""
    level = parse_level(LEVELS[name])
    world = as_world(level)
    rng = random.Random(zlib.crc32(name.encode()))
    likely = likely_propositions(world)
    verdicts = []
    for _ in range(PER_LEVEL):
        task, machine = random_task(rng, likely)
        found = propose(Problem(level=level, task=machine), polish=20)
        best = worlds.shortest(world, task)
        verdicts.append(found.verdict)
        if found.verdict == "solvable":
            assert found.plan is not None
            assert worlds.accepts(world, task, list(found.plan)), task
            assert best is not None
            assert found.lower_bound is not None
            assert found.lower_bound <= best <= len(found.plan)
        elif found.verdict == "unsolvable":
            assert best is None, (task, found.reason)
    return set(verdicts)


@pytest.mark.parametrize("name", LEVELS)
def test_verdicts_agree_with_every_play(name: str) -> None:
    assert judged(name) == {"solvable", "unsolvable"}


def test_a_limit_below_the_shortest_plan_is_never_called_solvable() -> None:
    level = parse_level(LEVELS["a locked door"])
    machine = flat_task([(0, ACCEPT, [IDS["carrying_ball_red"] + 1])])
    problem = Problem(level=level, task=machine)
    best = worlds.shortest(as_world(level), worlds.Task([(0, 9, ["carrying_ball_red"], [])], {9}, set()))
    assert best is not None
    found = propose(problem, step_limit=best)
    assert found.verdict == "solvable"
    assert len(found.plan or ()) == best
    assert propose(problem, step_limit=best - 1).verdict != "solvable"
    assert propose(problem, step_limit=3).verdict == "unsolvable"


def test_a_small_budget_is_kept() -> None:
    level = parse_level(LEVELS["a locked door"])
    task = flat_task([(0, ACCEPT, [IDS["carrying_ball_red"] + 1])])
    assert propose(Problem(level=level, task=task), budget=1).verdict == "unknown"
    assert propose(Problem(level=level, task=task), budget=BUDGET).verdict == "solvable"
