"""The hand-designed set: every problem proven, none like another, and every tag true of its level and task."""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from itertools import pairwise
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import atlas
from atlas.domains.minigrid import alphabet, grid
from atlas.domains.minigrid.alphabet import Descriptor, Proposition
from atlas.domains.minigrid.grid import object_limits
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.domains.minigrid.solver.boards import codes_of
from atlas.domains.minigrid.solver.prove import propose
from atlas.proofs import Solution, accepted
from atlas.settings import STEP_LIMIT
from atlas.tasks.machine import Machine
from atlas.tasks.packed import unpack
from atlas.types import NamedProblem
from atlas.vocabulary import REJECTED
from symmetry import likeness
from twins.paths import simple_paths

FOLDER = Path(__file__).parents[2] / "problems" / "hand"
VERBS = ("go-to", "pick-up", "put-next", "open")
WALLS = ("maze", "spiral", "corridor")
SPECIFIED = ("fully-specified", "over-specified", "under-specified")
CAPABILITIES = (
    *VERBS, *WALLS, *SPECIFIED, "any-order", "branching", "long", "avoid", "distractors", "clutter", "exploration",
    "decoy", "blocked", "key-behind-door", "stay-locked", "myopic", "patrol", "choice",
)  # fmt: skip
ROOMS = (0, 1, 2, 4, 6, 9)
DISTRIBUTIONS = ("in-distribution", "out-of-distribution")
Place = tuple[int, int]

PROBLEMS = atlas.load(FOLDER)


@cache
def proof(number: int) -> Solution:
    return propose(PROBLEMS[number], polish=0, bound=False)


def tagged(*tags: str) -> list[NamedProblem]:
    return [problem for problem in PROBLEMS if set(tags) & set(problem.tags)]


def each(*tags: str) -> pytest.MarkDecorator:
    """A test for each problem with one of the tags; for all if none is given."""
    return pytest.mark.parametrize("problem", tagged(*tags) if tags else PROBLEMS, ids=lambda problem: problem.name)


def root(problem: NamedProblem) -> Machine:
    return unpack(problem.task).machines[0]


def asked(problem: NamedProblem) -> list[Proposition]:
    """What edges that do not fail the task ask for."""
    machine = root(problem)
    edges = [edge for edge in machine.edges if machine.outcomes[edge.target] != REJECTED]
    return [alphabet.PROPOSITIONS[literal - 1] for edge in edges for literal in edge.literals if literal > 0]


def is_asked(problem: NamedProblem, code: int) -> bool:
    """Whether the task speaks of an object."""
    return any(code in codes_of(thing) for about in asked(problem) for thing in about.objects)


def objects(problem: NamedProblem, kinds: Iterable[int]) -> dict[Place, int]:
    cells = np.asarray(problem.level.cells)
    return {(int(r), int(c)): int(cells[r, c]) for r, c in np.argwhere(np.isin(cells >> 3, list(kinds)))}


def changed(problem: NamedProblem, cells: dict[Place, int]) -> NamedProblem:
    after = np.array(problem.level.cells)
    for place, code in cells.items():
        after[place] = code
    level = jax.tree.map(jnp.asarray, problem.level)
    return problem.replace(level=level.replace(cells=jnp.asarray(after)))


def can_be_solved(problem: NamedProblem) -> bool:
    return propose(problem, budget=600, bound=False).verdict == "solvable"


def within_reach(problem: NamedProblem, obstacles: tuple[int, ...]) -> set[Place]:
    """Cells the agent can walk to if these kinds of cells stop it, and those beside them."""
    kinds = np.asarray(problem.level.cells) >> 3
    row, column = (int(x) for x in problem.level.position)
    found = {(row, column)}
    todo = list(found)
    while todo:
        row, column = todo.pop()
        beside = {(row + down, column + right) for down, right in grid.STEPS} - found
        fresh = [place for place in beside if kinds[place] not in (grid.WALL, grid.OUTSIDE, *obstacles)]
        found.update(fresh)
        todo += fresh
    return found | {(r + down, c + right) for r, c in found for down, right in grid.STEPS}


def test_there_are_150_with_names_and_notes() -> None:
    assert len(PROBLEMS) == 150
    for problem in PROBLEMS:
        assert set(problem.name) <= set("abcdefghijklmnopqrstuvwxyz-")
        assert problem.notes.endswith(".")
        assert "\n" not in problem.notes


def test_every_problem_is_proven_and_none_is_trivial() -> None:
    solutions = [proof(number) for number in range(len(PROBLEMS))]
    bad = [(p.name, s.reason) for p, s in zip(PROBLEMS, solutions, strict=True) if s.verdict != "solvable" or s.trivial]
    assert not bad


def test_the_world_accepts_every_plan() -> None:
    plans = [proof(number).plan or () for number in range(len(PROBLEMS))]
    verdicts = accepted(PROBLEMS, plans, STEP_LIMIT)
    assert [problem.name for problem, fine in zip(PROBLEMS, verdicts, strict=True) if not fine] == []


def test_difficulty_ranges_from_easy_to_hard() -> None:
    lengths = sorted(len(proof(number).plan or ()) for number in range(len(PROBLEMS)))
    assert lengths[15] <= 20
    assert lengths[75] >= 35
    assert lengths[-15] >= 90


def test_no_two_are_alike() -> None:
    names: dict[tuple[str, str], list[str]] = {}
    for problem in PROBLEMS:
        names.setdefault(likeness(problem), []).append(problem.name)
    assert [alike for alike in names.values() if len(alike) > 1] == []


def test_every_capability_and_number_of_rooms_comes_at_least_six_times() -> None:
    counts = Counter(tag for problem in PROBLEMS for tag in problem.tags)
    for tag in (*CAPABILITIES, *DISTRIBUTIONS, *(f"rooms-{n}" for n in ROOMS)):
        assert counts[tag] >= 6, tag
    known = {*CAPABILITIES, *DISTRIBUTIONS}
    assert {tag for tag in counts if not tag.startswith(("rooms-", "states-"))} == known


@each()
def test_size_verbs_and_distribution_are_as_tagged(problem: NamedProblem) -> None:
    numbers = [tag for tag in problem.tags if tag.startswith(("rooms-", "states-"))]
    assert numbers == [f"rooms-{int(problem.level.rooms)}", f"states-{len(root(problem).states)}"]
    assert [tag for tag in problem.tags if tag in VERBS] == verbs(problem)
    assert [tag for tag in problem.tags if tag in DISTRIBUTIONS] == [DISTRIBUTIONS[not is_in_distribution(problem)]]
    assert len(set(problem.tags)) == len(problem.tags)
    assert len(set(problem.tags) & set(SPECIFIED)) <= 1


def verbs(problem: NamedProblem) -> list[str]:
    names = [about.name for about in asked(problem)]
    tests: tuple[Callable[[str], bool], ...] = (
        lambda name: name.startswith("front") and not name.endswith("open"),
        lambda name: name.startswith("carrying"),
        lambda name: name.startswith("next"),
        lambda name: name.startswith("front") and name.endswith("open"),
    )
    return [verb for verb, test in zip(VERBS, tests, strict=True) if any(map(test, names))]


def is_in_distribution(problem: NamedProblem) -> bool:
    """Whether the sequential sampler could have drawn it: layout, number of objects, empty hands, a short chain."""
    level, machine, config = problem.level, root(problem), MinigridConfig()
    if int(level.rooms) not in config.rooms:
        return False
    least, most = object_limits(config)[int(level.rooms)]
    number = len(objects(problem, grid.MOVABLE + grid.DOORS))
    on_floor = int(level.cells[tuple(level.position.tolist())]) == grid.FLOOR_CELL
    chain = all((e.source, e.target, len(e.literals)) == (u, u + 1, 1) for u, e in enumerate(machine.edges))
    plain = len(machine.edges) <= 5 and all(e.literals[0] > 0 for e in machine.edges)
    return least <= number <= most and on_floor and int(level.carrying) == grid.NOTHING and chain and plain


@each()
def test_shape_of_the_task_is_as_tagged(problem: NamedProblem) -> None:
    machine = root(problem)
    onward = [edge.source for edge in machine.edges if machine.outcomes[edge.target] != REJECTED]
    assert ("avoid" in problem.tags) == (REJECTED in machine.outcomes)
    assert ("long" in problem.tags) == (min(map(len, simple_paths(machine))) - 1 > 5)
    assert bool({"any-order", "branching"} & set(problem.tags)) == (len(set(onward)) < len(onward))


@each()
def test_needed_keys_and_obstacles_that_the_task_leaves_out_make_it_under_specified(problem: NamedProblem) -> None:
    unsaid = [place for place, code in objects(problem, [grid.KEY]).items() if not is_asked(problem, code)]
    needs_key = bool(unsaid) and not can_be_solved(changed(problem, dict.fromkeys(unsaid, grid.FLOOR_CELL)))
    assert ("under-specified" in problem.tags) == (needs_key or "blocked" in problem.tags)


@each()
def test_objects_are_in_the_way_where_tagged(problem: NamedProblem) -> None:
    shut_in = within_reach(problem, ()) - within_reach(problem, grid.MOVABLE)
    assert ("blocked" in problem.tags) == bool(shut_in & objects(problem, grid.MOVABLE + grid.DOORS).keys())


@each()
def test_needed_keys_lie_behind_doors_where_tagged(problem: NamedProblem) -> None:
    near = within_reach(problem, (grid.DOOR_CLOSED, grid.DOOR_LOCKED))
    locks = {code % 8 for code in objects(problem, [grid.DOOR_LOCKED]).values()}
    keys = objects(problem, [grid.KEY]).items()
    far = [place for place, code in keys if place not in near and code % 8 in locks]
    needed = bool(far) and not can_be_solved(changed(problem, dict.fromkeys(far, grid.FLOOR_CELL)))
    assert ("key-behind-door" in problem.tags) == needed


@each("stay-locked", "myopic", "choice")
def test_one_lock_that_could_be_opened_spoils_the_task_if_it_is(problem: NamedProblem) -> None:
    keys = {code % 8 for code in objects(problem, [grid.KEY]).values()}
    locks = {place: code % 8 for place, code in objects(problem, [grid.DOOR_LOCKED]).items() if code % 8 in keys}
    opened = [changed(problem, {place: grid.cell(grid.DOOR_OPEN, colour)}) for place, colour in locks.items()]
    assert "stay-locked" in problem.tags
    assert not all(map(can_be_solved, opened))


@each("choice")
def test_choices_are_between_locks_of_one_colour(problem: NamedProblem) -> None:
    locks = Counter(objects(problem, [grid.DOOR_LOCKED]).values())
    assert any(number > 1 and is_asked(problem, code) for code, number in locks.items())


@each("patrol")
def test_patrols_ask_for_doors_one_after_the_other(problem: NamedProblem) -> None:
    assert len(asked(problem)) >= 4
    assert all(about.name.startswith("front_door") for about in asked(problem))


@each("fully-specified")
def test_fully_specified_tasks_need_no_lock_that_they_do_not_speak_of(problem: NamedProblem) -> None:
    colours = {thing.colour for about in asked(problem) for thing in about.objects if thing.type == alphabet.DOOR_TYPE}
    unsaid = [place for place, code in objects(problem, [grid.DOOR_LOCKED]).items() if code % 8 not in colours]
    assert can_be_solved(changed(problem, dict.fromkeys(unsaid, grid.WALL_CELL)))


@each("over-specified")
def test_over_specified_tasks_ask_for_a_step_that_the_next_contains(problem: NamedProblem) -> None:
    steps = [(about.location, about.objects[0]) for about in asked(problem)]
    assert any(contains(later, earlier) for earlier, later in pairwise(steps))


def contains(later: tuple[int, Descriptor], earlier: tuple[int, Descriptor]) -> bool:
    """To take something, or to change the state of a door, one has to face it."""
    same = later[1]._replace(state=alphabet.ANY_STATE) == earlier[1]._replace(state=alphabet.ANY_STATE)
    return same and earlier[0] == alphabet.FRONT and later[0] in (alphabet.FRONT, alphabet.CARRYING)


@each("exploration")
def test_nothing_that_is_asked_for_is_in_the_first_view(problem: NamedProblem) -> None:
    seen = {name for row in atlas.trace(problem, [])[0].view for name in row}
    assert not any(is_asked(problem, code) for code, name in grid.CELL_NAMES.items() if name in seen)


@each("distractors", "clutter")
def test_there_is_much_to_see_and_much_of_no_use(problem: NamedProblem) -> None:
    movable = objects(problem, grid.MOVABLE).values()
    assert "clutter" not in problem.tags or len(movable) >= 8
    assert "distractors" not in problem.tags or sum(not is_asked(problem, code) for code in movable) >= 4


@each(*WALLS)
def test_mazes_fork_and_spirals_do_not(problem: NamedProblem) -> None:
    open_cells = (np.asarray(problem.level.cells) >> 3 != grid.WALL).astype(int)
    ways = [
        open_cells[r - 1, c] + open_cells[r + 1, c] + open_cells[r, c - 1] + open_cells[r, c + 1]
        for r, c in np.argwhere(open_cells[1:-1, 1:-1]) + 1
    ]
    assert int(problem.level.rooms) == 0
    assert "maze" not in problem.tags or max(ways) > 2
    assert "spiral" not in problem.tags or max(ways) == 2


def test_same_level_appears_only_where_tasks_are_compared() -> None:
    levels: dict[str, list[NamedProblem]] = {}
    for problem in PROBLEMS:
        levels.setdefault(likeness(problem)[0], []).append(problem)
    shared = [problem for alike in levels.values() if len(alike) > 1 for problem in alike]
    assert {Path(problem.source).stem for problem in shared} == {"12-specification"}
