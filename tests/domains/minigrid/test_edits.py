"""Level edits in the corners: doorways, carried objects, sides, and what is dropped."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from atlas.domains.minigrid.edits import level_edits
from atlas.domains.minigrid.grid import (
    BALL,
    DOOR_CLOSED,
    DOOR_OPEN,
    DOORS,
    MOVABLE,
    NOTHING,
    RED,
    Level,
    blank,
    cell,
    door_places,
)
from atlas.domains.minigrid.settings import MinigridConfig, ObjectRanges
from rules import count_objects, level_rules

CONFIG = MinigridConfig()
KEYS = 256


def level(rooms, agent, things=(), open_doors=(), carrying=NOTHING) -> Level:
    """Red balls at some places, closed red doors but for the open ones."""
    cells = blank(rooms, (13, 19))
    for place in door_places(rooms):
        cells[place] = cell(DOOR_OPEN if place in open_doors else DOOR_CLOSED, RED)
    for place in things:
        cells[place] = cell(BALL, RED)
    return Level(
        cells=jnp.asarray(cells),
        position=jnp.array(agent, jnp.int8),
        direction=jnp.int8(0),
        carrying=jnp.uint8(carrying),
        rooms=jnp.int8(rooms),
    )


@functools.cache
def edit(name, config=CONFIG):
    found = next(e for e in level_edits(config) if e.name == name)
    return jax.jit(found.applicable), jax.jit(jax.vmap(found.apply, (0, None)))


def applicable(name, level, config=CONFIG) -> bool:
    return bool(edit(name, config)[0](level))


def results(name, level, config=CONFIG):
    """What many keys make of a level."""
    return jax.device_get(edit(name, config)[1](jax.random.split(jax.random.key(1), KEYS), level))


def sides(name, level) -> set[int]:
    return set(results(name, level)[1][:, 0].tolist())


def test_a_door_is_not_shut_on_the_agent():
    doorway = level(2, (3, 6), open_doors=[(3, 6)])
    assert not applicable("replace_door", doorway)
    one_of_four = level(4, (3, 6), open_doors=[(3, 6)])
    after, _ = results("replace_door", one_of_four)
    assert (after.cells[:, 3, 6] == cell(DOOR_OPEN, RED)).all()


@pytest.mark.parametrize(
    ("rooms", "agent", "allowed"),
    [
        (2, (3, 2), {1}),
        (2, (3, 9), {0}),
        (2, (3, 6), set()),
        (4, (2, 9), {1}),
        (4, (9, 2), {0}),
        (4, (3, 6), {1}),
        (4, (6, 3), set()),
        (6, (3, 3), {1}),
        (6, (3, 9), {0, 1}),
        (6, (9, 15), {0}),
        (6, (3, 6), {1}),
        (6, (9, 12), {0}),
        (6, (6, 9), {0, 1}),
    ],
)
def test_the_rooms_of_the_agent_stay(rooms, agent, allowed):
    here = level(rooms, agent, things=[(1, 1), (1, 11)] if rooms == 2 else [], open_doors=[agent])
    assert applicable("remove_rooms", here) == bool(allowed)
    if allowed:
        assert sides("remove_rooms", here) == allowed


def test_a_room_without_objects_is_not_left_alone():
    assert not applicable("remove_rooms", level(2, (3, 2), things=[(1, 11)]))
    assert not applicable("remove_rooms", level(2, (3, 2), things=[(1, 11)], carrying=cell(BALL, RED)))
    assert applicable("remove_rooms", level(4, (2, 2)))


def test_both_sides_grow():
    assert sides("add_rooms", level(1, (3, 3), things=[(1, 1)])) == {0, 1}
    assert sides("add_rooms", level(2, (3, 3))) == {0, 1}


def test_too_many_objects_are_thinned_out_evenly():
    crowd = [(r, c) for r in (1, 2) for c in (1, 2, 3, 4)]
    after, _ = results("remove_rooms", level(2, (5, 5), things=crowd))
    left = np.isin(after.cells >> 3, MOVABLE)
    assert (left.sum((1, 2)) == 5).all()
    counts = [left[:, r, c].sum() for r, c in crowd]
    assert stats.chisquare(counts).pvalue > 1e-4
    pairs = [np.sum(left[:, 1, 1] & left[:, r, c]) for r, c in crowd[1:]]
    assert stats.chisquare(pairs).pvalue > 1e-4


def test_new_doors_are_drawn_evenly():
    after, _ = results("add_rooms", level(4, (3, 3)))
    doors = after.cells[np.isin(after.cells >> 3, DOORS)]
    counts = np.bincount(doors, minlength=72)
    new = [
        counts[cell(kind, colour)] - 4 * KEYS * ((kind, colour) == (DOOR_CLOSED, RED))
        for kind in DOORS
        for colour in range(6)
    ]
    assert sum(new) == 3 * KEYS
    assert stats.chisquare(new).pvalue > 1e-4


def test_objects_move_anywhere_free():
    after, arguments = results("move_object", level(1, (3, 3), things=[(1, 1), (5, 5)]))
    places = {divmod(int(to), 100) for to in arguments[:, 1]}
    inside = {(r, c) for r in range(1, 6) for c in range(1, 6)}
    assert places == inside - {(1, 1), (5, 5), (3, 3)}
    assert set(arguments[:, 0].tolist()) == {101, 505}
    assert (np.isin(after.cells >> 3, MOVABLE).sum((1, 2)) == 2).all()


def test_edits_stay_among_the_room_counts_in_use():
    config = MinigridConfig(rooms=(1, 4, 6))
    assert not applicable("add_rooms", level(1, (3, 3), things=[(1, 1)]), config)
    assert not applicable("remove_rooms", level(4, (3, 3)), config)
    assert applicable("remove_rooms", level(6, (3, 3)), config)


def test_growing_respects_other_limits():
    config = MinigridConfig(objects=ObjectRanges(two_rooms=(4, 5)))
    few, enough = level(1, (3, 3), things=[(1, 1)]), level(1, (3, 3), things=[(1, 1), (1, 2), (1, 3)])
    many = level(1, (3, 3), things=[(1, c) for c in range(1, 6)])
    assert [applicable("add_rooms", each, config) for each in (few, enough, many)] == [False, True, False]


def test_a_long_line_of_edits_stays_within_the_rules():
    edits = level_edits(CONFIG)

    def step(now, key):
        key_row, key_edit = jax.random.split(key)
        row = jax.random.randint(key_row, (), 0, len(edits))
        can = jnp.stack([e.applicable(now) for e in edits])[row]
        new, _ = jax.lax.switch(row, [e.apply for e in edits], key_edit, now)
        now = jax.tree.map(lambda a, b: jnp.where(can, a, b), new, now)
        return now, now

    start = level(1, (3, 3), things=[(1, 1)])
    _, seen = jax.jit(lambda keys: jax.lax.scan(step, start, keys))(jax.random.split(jax.random.key(0), 1000))
    seen = jax.device_get(seen)
    for i in range(1000):
        level_rules(jax.tree.map(lambda x, i=i: x[i], seen), CONFIG)
    assert set(seen.rooms.tolist()) == {1, 2, 4, 6}
    counts = [count_objects(jax.tree.map(lambda x, i=i: x[i], seen)) for i in range(1000)]
    assert max(counts) > 10
