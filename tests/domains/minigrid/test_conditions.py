"""What a level makes possible against a plain twin, and levels that hold what is mentioned."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.domains.minigrid.alphabet import IDS, NAMES
from atlas.domains.minigrid.grid import BALL, BLUE, CELL_NAMES, DOORS, MOVABLE, NOTHING, RED, as_cell, cell
from atlas.domains.minigrid.sample import level_sampler, level_sampler_for, possible
from atlas.domains.minigrid.settings import MinigridConfig
from rules import count_objects, level_rules

CONFIG = MinigridConfig()
NUM = 256
COLOURS = ("red", "green", "blue", "purple", "yellow", "gray")


@pytest.fixture(scope="module")
def levels():
    drawn = jax.jit(jax.vmap(level_sampler(CONFIG)))(jax.random.split(jax.random.key(3), NUM))
    hands = [NOTHING, *(cell(kind, colour) for kind in MOVABLE for colour in (RED, BLUE))]
    give = jax.vmap(lambda level, thing: level.replace(carrying=thing))
    return jax.device_get(give(drawn, jnp.asarray(np.resize(np.array(hands, np.uint8), NUM))))


@pytest.fixture(scope="module")
def possibilities():
    return jax.jit(jax.vmap(possible))


def at(tree, i):
    return jax.tree.map(lambda x: x[i], tree)


def calls(name: str) -> set[str]:
    """Everything an object may be called: `door_red_locked` is also `door`, `door_red` and `door_locked`."""
    kind, *attributes = name.split("_")
    subsets = itertools.chain.from_iterable(itertools.combinations(attributes, n) for n in range(3))
    return {"_".join((kind, *subset)) for subset in subsets}


def possible_names(level) -> set[str]:
    """The twin: list all objects, let doors change as keys allow, then name everything that two of them can do."""
    names = [CELL_NAMES[int(code)] for code in [*level.cells.ravel(), level.carrying]]
    movable = [n for n in names if n.split("_")[0] in ("ball", "square", "key")]
    doors = set()
    for name in (n for n in names if n.startswith("door")):
        _, colour, state = name.split("_")
        doors.add(name)
        if state != "locked" or f"key_{colour}" in movable:
            doors |= {f"door_{colour}_open", f"door_{colour}_closed"}
    found = {f"front_{call}" for thing in [*movable, *doors] for call in calls(thing)}
    found |= {f"carrying_{call}" for thing in movable for call in calls(thing)}
    pairs = [*itertools.combinations(movable, 2), *itertools.product(movable, doors)]
    for one, other in pairs:
        found |= {f"next_{a}_{b}" for a in calls(one) for b in calls(other)}
        found |= {f"next_{b}_{a}" for a in calls(one) for b in calls(other)}
    return found & set(NAMES)


def test_possible_agrees_with_the_twin(levels, possibilities):
    masks = np.asarray(possibilities(levels))
    for i in range(NUM):
        assert {NAMES[p] for p in np.flatnonzero(masks[i])} == possible_names(at(levels, i))


def test_a_pair_needs_two_objects(levels, possibilities):
    cells = np.full_like(levels.cells, cell(1, 6))
    cells[0, 1, 1] = cells[1, 1, 1] = cells[1, 2, 2] = cell(BALL, RED)
    change = jax.vmap(lambda level, cells: level.replace(cells=cells, carrying=as_cell(NOTHING)))
    masks = possibilities(change(levels, jnp.asarray(cells)))
    for name in ("next_ball_red_ball_red", "next_ball_red_ball", "next_ball_ball"):
        assert not masks[0, IDS[name]]
        assert masks[1, IDS[name]]


@pytest.fixture(scope="module")
def sample_for():
    return jax.jit(jax.vmap(level_sampler_for(CONFIG)))


@pytest.fixture(scope="module")
def mentions():
    props = np.random.default_rng(0).integers(0, len(NAMES), (NUM, 5), dtype=np.int32)
    props[: NUM // 2, 2:] = -1
    return props


def batch_of(*names: str) -> jax.Array:
    props = [IDS[name] for name in names] + [-1] * (5 - len(names))
    return jnp.asarray(np.tile(np.array(props, np.int32), (NUM, 1)))


def test_levels_hold_what_is_mentioned(sample_for, mentions):
    drawn = jax.device_get(sample_for(jax.random.split(jax.random.key(0), NUM), jnp.asarray(mentions)))
    for i in range(NUM):
        level = at(drawn, i)
        level_rules(level, CONFIG)
        assert {NAMES[p] for p in mentions[i] if p >= 0} <= possible_names(level)
    assert set(drawn.rooms.tolist()) == {1, 2, 4, 6}


def test_unmentioned_attributes_are_random(sample_for):
    props = batch_of("front_ball")
    drawn = jax.device_get(sample_for(jax.random.split(jax.random.key(0), NUM), props))
    colours = drawn.cells[drawn.cells >> 3 == BALL] & 7
    assert set(colours) == set(range(6))
    agents = {tuple(p) for p in drawn.position[drawn.rooms == 1]}
    assert len(agents) > 15


def test_mentioned_objects_lie_anywhere(sample_for):
    """A lone gray key among random objects: each half of the room is as likely."""
    props = batch_of("front_key_gray", "front_door_gray_locked")
    drawn = jax.device_get(sample_for(jax.random.split(jax.random.key(0), NUM), props))
    six = drawn.cells[drawn.rooms == 6]
    above = (six[:, :6] == cell(5, 5)).sum()
    below = (six[:, 7:] == cell(5, 5)).sum()
    assert abs(above - below) < 4 * np.sqrt(above + below)
    doors = (six == cell(7, 5)).sum(0)
    assert (doors[doors > 0] > 5).all()
    assert (doors > 0).sum() == 7


def test_what_does_not_fit_is_left_out():
    config = MinigridConfig(rooms=(1,))
    props = jnp.array([IDS[f"front_ball_{c}"] for c in COLOURS] + [IDS["front_door_red_open"]])
    level = jax.device_get(jax.jit(level_sampler_for(config))(jax.random.key(0), props))
    level_rules(level, config)
    assert count_objects(level) == 5
    assert set((level.cells[level.cells >> 3 == BALL] & 7).tolist()) == {0, 1, 2, 3, 4}


def test_minimal_levels_hold_just_what_is_mentioned(mentions):
    sample = jax.jit(jax.vmap(level_sampler_for(CONFIG, minimal=True)))
    props = mentions.copy()
    props[:, 1:] = -1
    drawn = jax.device_get(sample(jax.random.split(jax.random.key(0), NUM), jnp.asarray(props)))
    for i in range(NUM):
        level, name = at(drawn, i), NAMES[props[i, 0]]
        level_rules(level, CONFIG)
        assert name in possible_names(level)
        assert int(level.rooms) == (2 if "door" in name else 1)
        assert np.isin(level.cells >> 3, DOORS + MOVABLE).sum() == (2 if "next" in name else 1)
