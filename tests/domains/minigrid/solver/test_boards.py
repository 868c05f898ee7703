"""The world as sets of cells against the world as arrays: what is seen, what can be done, what is impossible."""

import jax
import numpy as np
import pytest

from atlas.domains.minigrid import dynamics, labels
from atlas.domains.minigrid.alphabet import IDS, NAMES
from atlas.domains.minigrid.grid import PICK_UP, PUT_DOWN, TOGGLE, Level
from atlas.domains.minigrid.solver import bounds
from atlas.domains.minigrid.solver.boards import bits, geometry, read_scene
from atlas.domains.minigrid.text import parse_level
from twins.random_states import random_levels

LEVELS, STANDS, ASKED = 24, 5, 60

label_of = jax.jit(jax.vmap(lambda level: labels.label(dynamics.reset(level))))
act = jax.jit(jax.vmap(lambda level, action: dynamics.as_level(dynamics.step(dynamics.reset(level), action))))


def one(levels: Level, i: int) -> Level:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[i], levels)


def elsewhere(levels: Level, seed: int) -> Level:
    """The same levels with the agent on some cell where it can stand."""
    rng = np.random.default_rng(seed)
    position, direction = np.array(levels.position), rng.integers(0, 4, len(levels.direction)).astype(np.int8)
    for i in range(len(position)):
        scene, _, _ = read_scene(one(levels, i))
        position[i] = scene.geometry.place(int(rng.choice(list(bits(scene.passable)))))
    fields = {name: np.asarray(value) for name, value in vars(levels).items()}
    return Level.unchecked(**fields | {"position": position, "direction": direction})


@pytest.fixture(scope="module")
def levels() -> Level:
    return random_levels(5, LEVELS)


def test_propositions_hold_where_the_label_says(levels: Level) -> None:
    rng = np.random.default_rng(0)
    for seed in range(STANDS):
        placed = elsewhere(levels, seed)
        labels = np.asarray(label_of(placed))
        for i in range(LEVELS):
            scene, cell, direction = read_scene(one(placed, i))
            asked = {*np.flatnonzero(labels[i]).tolist(), *rng.integers(0, len(NAMES), ASKED).tolist()}
            wrong = [NAMES[p] for p in asked if (scene.holds(p)[direction] >> cell & 1) != labels[i, p]]
            assert not wrong


@pytest.mark.parametrize("action", [PICK_UP, PUT_DOWN, TOGGLE])
def test_manipulations_change_what_the_dynamics_change(levels: Level, action: int) -> None:
    changed = 0
    for seed in range(STANDS):
        placed = elsewhere(levels, 100 + seed)
        after = jax.device_get(act(placed, np.full(LEVELS, action)))
        for i in range(LEVELS):
            scene, cell, direction = read_scene(one(placed, i))
            result = scene.act(action, cell + scene.geometry.ahead[direction])
            expected, _, _ = read_scene(one(after, i))
            assert (result or scene).key == expected.key
            assert (result or scene).passable == expected.passable
            changed += result is not None
    assert changed > 5


def test_cells_are_numbered_with_room_around_them() -> None:
    shape = geometry(3, 4)
    indices = [shape.index(row, col) for row in range(3) for col in range(4)]
    assert [shape.place(index) for index in indices] == [(row, col) for row in range(3) for col in range(4)]
    assert list(bits(shape.whole)) == indices
    corner = 1 << shape.index(0, 0)
    assert list(bits(shape.around(corner) & shape.whole)) == [shape.index(0, 1), shape.index(1, 0)]
    assert shape.flood(corner, shape.whole) == shape.whole


def can_hold(drawing: str, *names: str) -> bool:
    scene, agent, _ = read_scene(parse_level(drawing))
    literals = [-IDS[name[1:]] - 1 if name[0] == "-" else IDS[name] + 1 for name in names]
    return bounds.satisfiable(bounds.reachable(scene, agent, 0), literals)


SEALED = """
##########
##^.##or##
##..##kb##
##..##..##
##########
"""
OPEN = """
############
##^...or..##
##..sg..ob##
############
"""


@pytest.mark.parametrize(
    ("drawing", "names", "possible"),
    [
        (SEALED, ["front_ball"], False),
        (SEALED, ["next_ball_red_key_blue"], True),
        (SEALED, ["next_ball_red_key_blue", "-next_ball_key"], False),
        (SEALED, ["carrying_key"], False),
        (OPEN, ["front_ball", "-front_ball_red"], True),
        (OPEN, ["front_ball", "-front_ball_red", "-front_ball_blue"], False),
        (OPEN, ["front_ball", "front_square"], False),
        (OPEN, ["carrying_square", "front_square"], False),
        (OPEN, ["carrying_ball", "front_ball"], True),
        (OPEN, ["next_ball_ball"], True),
        (OPEN, ["next_ball_ball", "carrying_ball"], False),
        (OPEN, ["next_ball_red_ball_red"], False),
        (OPEN, ["front_door"], False),
    ],
)
def test_what_can_never_be(drawing: str, names: list[str], possible: bool) -> None:
    assert can_hold(drawing, *names) == possible


def test_doors_too_far_apart_are_never_seen_at_once() -> None:
    hall = "\n".join(["#" * 28, "##^.or" + ".." * 10 + "ob##", "##-r" + "####" * 4 + "##+b" + "####", "#" * 28])
    near, far = ("front_ball", "next_ball_door_red"), ("front_door_red", "next_ball_door_blue")
    assert can_hold(hall, *near)
    assert not can_hold(hall, *far)
