"""Levels obey the rules and their parts are drawn as stated."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from atlas.domains.minigrid.grid import DOOR_LOCKED, DOORS, FLOOR, KEY, MOVABLE, WALL, door_places, object_limits
from atlas.domains.minigrid.sample import MAZE_DOORS, Bounds, level_sampler, minimal_bounds
from atlas.domains.minigrid.settings import MinigridConfig, ObjectRanges
from atlas.settings import ConfigError
from rules import count_objects, level_rules

CONFIG = MinigridConfig()
NUM = 4096


@pytest.fixture(scope="module")
def sample_within():
    return jax.jit(jax.vmap(level_sampler(CONFIG)))


@pytest.fixture(scope="module")
def levels():
    sample = jax.jit(jax.vmap(level_sampler(CONFIG)))
    return jax.device_get(sample(jax.random.split(jax.random.key(0), NUM)))


def at(levels, i):
    return jax.tree.map(lambda x: x[i], levels)


def evenly(counts, expected=None):
    """A fair draw fails this once in a hundred thousand."""
    return stats.chisquare(counts, expected).pvalue > 1e-5


def test_levels_obey_every_rule(levels):
    for i in range(NUM):
        level_rules(at(levels, i), CONFIG)


def test_agent_starts_on_free_floor(levels):
    rows, cols = levels.position.T
    assert (levels.cells[np.arange(NUM), rows, cols] >> 3 == FLOOR).all()


def test_rooms_are_drawn_evenly(levels):
    assert evenly([np.sum(levels.rooms == n) for n in CONFIG.rooms])


@pytest.mark.parametrize("rooms", CONFIG.rooms)
def test_object_counts_are_drawn_evenly(levels, rooms):
    chosen = np.flatnonzero(levels.rooms == rooms)
    counts = [count_objects(at(levels, i)) for i in chosen]
    least, most = object_limits(CONFIG)[rooms]
    assert evenly([counts.count(n) for n in range(least, most + 1)])


def test_types_colours_and_directions_are_drawn_evenly(levels):
    kind, colour = levels.cells >> 3, levels.cells & 7
    for kinds in (MOVABLE, DOORS):
        cells = np.isin(kind, kinds)
        table = [[np.sum(cells & (kind == k) & (colour == c)) for c in range(6)] for k in kinds]
        assert evenly(np.ravel(table))
    assert evenly(np.bincount(levels.direction, minlength=4))


@pytest.mark.parametrize("rooms", CONFIG.rooms)
def test_positions_are_drawn_evenly(levels, rooms):
    chosen = levels.rooms == rooms
    cells, position = levels.cells[chosen], levels.position[chosen]
    inside = np.isin(cells >> 3, (FLOOR, *MOVABLE)).all(0)
    objects = np.isin(cells >> 3, MOVABLE).sum(0)[inside]
    assert evenly(objects)
    agents = np.zeros(cells.shape[1:], int)
    np.add.at(agents, tuple(position.T), 1)
    assert evenly(agents[inside])
    assert agents[~inside].sum() == 0


def test_bounds_can_be_given(sample_within):
    columns = jnp.array([[1, 5, 5], [2, 4, 7], [4, 8, 11], [6, 17, 20]])
    bounds = jax.vmap(lambda row: Bounds(rooms=row[0], least=row[1], most=row[2]))(columns)
    drawn = [jax.device_get(sample_within(jax.random.split(jax.random.key(i), 4), bounds)) for i in range(50)]
    for place, rooms in enumerate(bounds.rooms):
        counts = [count_objects(at(level, place)) for level in drawn]
        assert all(level.rooms[place] == rooms for level in drawn)
        assert min(counts) == bounds.least[place]
        assert max(counts) == bounds.most[place]


def test_minimal_levels_keep_the_array_size(levels, sample_within):
    bounds = jax.tree.map(lambda x: jnp.full(4, x), minimal_bounds())
    drawn = jax.device_get(sample_within(jax.random.split(jax.random.key(0), 4), bounds))
    assert drawn.cells.shape[1:] == levels.cells.shape[1:]
    for i in range(4):
        level_rules(at(drawn, i), CONFIG)
        assert (int(drawn.rooms[i]), count_objects(at(drawn, i))) == (1, 1)


@pytest.mark.parametrize(
    "config",
    [
        MinigridConfig(rooms=(9,)),
        MinigridConfig(rooms=(2,), colours=("gray", "red"), types=("key",), door_states=("locked",)),
        MinigridConfig(rooms=(1, 4), objects=ObjectRanges(one_room=(24, 24), four_rooms=(10, 30))),
    ],
    ids=["nine", "narrow", "crowded"],
)
def test_settings_restrict_levels(config):
    drawn = jax.device_get(jax.jit(jax.vmap(level_sampler(config)))(jax.random.split(jax.random.key(0), 256)))
    kinds = {1, 2, 0} | {3 + ["ball", "square", "key"].index(t) for t in config.types}
    kinds |= {6 + ["closed", "locked", "open"].index(s) for s in config.door_states}
    colours = {["red", "green", "blue", "purple", "yellow", "gray"].index(c) for c in config.colours}
    for i in range(256):
        level_rules(at(drawn, i), config)
    assert set(np.unique(drawn.cells >> 3)) <= kinds
    assert set(np.unique(drawn.cells & 7)) <= colours | {6}


def test_every_door_place_holds_a_door(levels):
    for rooms in CONFIG.rooms:
        cells = levels.cells[levels.rooms == rooms]
        for row, column in door_places(rooms):
            assert np.isin(cells[:, row, column] >> 3, DOORS).all()


# Mazes, traps, weights

VARIED = MinigridConfig(rooms=(4, 2), room_weights=(3, 1), walls=0.5, traps=0.5)


@pytest.fixture(scope="module")
def varied():
    sample = jax.jit(jax.vmap(level_sampler(VARIED)))
    return jax.device_get(sample(jax.random.split(jax.random.key(1), 1024)))


def test_mazes_traps_and_weights_are_as_frequent_as_the_settings_say(varied):
    mazes = varied.rooms == 0
    assert evenly([mazes.sum(), (~mazes).sum()])
    rooms = varied.rooms[~mazes]
    assert evenly([np.sum(rooms == 4), np.sum(rooms == 2)], [len(rooms) * 0.75, len(rooms) * 0.25])
    pairs = [_has_lock_and_key(cells) for cells in varied.cells[~mazes]]
    plain = jax.device_get(
        jax.jit(jax.vmap(level_sampler(MinigridConfig(rooms=(4,)))))(jax.random.split(jax.random.key(2), 512))
    )
    by_chance = np.mean([_has_lock_and_key(cells) for cells in plain.cells])
    assert np.mean(pairs) > 0.5 + 0.5 * by_chance - 0.25


def _has_lock_and_key(cells):
    kind, colour = cells >> 3, cells & 7
    return bool({*colour[kind == DOOR_LOCKED].tolist()} & {*colour[kind == KEY].tolist()})


def test_every_trap_has_a_locked_door_and_its_key():
    config = MinigridConfig(rooms=(2, 6), traps=1.0, walls=0.3)
    drawn = jax.device_get(jax.jit(jax.vmap(level_sampler(config)))(jax.random.split(jax.random.key(0), 256)))
    for i in range(256):
        level_rules(at(drawn, i), config)
        has_door = np.isin(drawn.cells[i] >> 3, DOORS).any()
        assert _has_lock_and_key(drawn.cells[i]) == has_door


def test_mazes_are_connected_and_bounded(varied):
    for i in np.flatnonzero(varied.rooms == 0):
        level_rules(at(varied, i), VARIED)
        walkable = np.isin(varied.cells[i] >> 3, (FLOOR, *MOVABLE, *DOORS))
        rows, cols = (
            np.flatnonzero((varied.cells[i] >> 3 != 0).any(1)),
            np.flatnonzero((varied.cells[i] >> 3 != 0).any(0)),
        )
        assert (len(rows), len(cols)) in {(13, 13), (7, 13)}
        assert not walkable[[0, len(rows) - 1]].any()
        assert not walkable[:, [0, len(cols) - 1]].any()
        reached = np.zeros_like(walkable)
        reached[tuple(varied.position[i])] = True
        for _ in range(walkable.sum()):
            grown = reached.copy()
            grown[1:] |= reached[:-1]
            grown[:-1] |= reached[1:]
            grown[:, 1:] |= reached[:, :-1]
            grown[:, :-1] |= reached[:, 1:]
            grown &= walkable
            if (grown == reached).all():
                break
            reached = grown
        assert (reached == walkable).all()
        assert np.isin(varied.cells[i] >> 3, DOORS).sum() <= MAZE_DOORS


def test_gaps_range_from_none_to_many(varied):
    walls = [(cells >> 3 == WALL).mean() for cells in varied.cells[varied.rooms == 0]]
    assert np.quantile(walls, 0.9) > 1.2 * np.quantile(walls, 0.1)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"room_weights": (1.0,)}, "as many as there are domain.rooms"),
        ({"room_weights": (0.0,) * 4}, "not all 0"),
        ({"traps": 0.1, "types": ("ball",)}, "locked doors and keys"),
        ({"walls": 1.5}, "at most 1"),
    ],
)
def test_settings_that_cannot_be(settings, words):
    with pytest.raises(ConfigError, match=words):
        MinigridConfig(**settings)
