"""The map of what was seen, against its twin, and that it holds nothing else."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from atlas.domains.minigrid import dynamics, explored
from atlas.domains.minigrid.alphabet import IDS, VOCABULARY
from atlas.domains.minigrid.grid import (
    ACTIONS,
    CELL_NAMES,
    FLOOR_CELL,
    KEY,
    NOTHING,
    RED,
    ROOM_GRID,
    WALL,
    Level,
    State,
    cell,
)
from atlas.domains.minigrid.sample import level_sampler
from atlas.domains.minigrid.settings import MinigridConfig
from twins import maps
from twins.random_states import random_levels

SIDE = 19
"""Of the grids: nine rooms fit."""
DRAWN, FREE, STEPS, ASKED = 12, 6, 20, 3
WALKS = DRAWN + FREE
CODES = np.array(sorted(CELL_NAMES), np.uint8)
OFTEN = np.array([0.5, 0.12, 0.12, 0.08, 0.08, 0.1])
"""How often each action is taken: mostly the agent walks on."""

show = jax.jit(jax.vmap(lambda state, seen, about: explored.view(state, seen, *about)))


@cache
def walks() -> tuple[State, Any, np.ndarray, np.ndarray]:
    """Random walks in levels of one to nine rooms and in crowded ones without any: states, what was seen, what was
    wanted and forbidden (`[walks, moments, 2, propositions]`) and what was shown; `[walks, moments]`."""
    draw = jax.jit(jax.vmap(level_sampler(MinigridConfig(rooms=tuple(ROOM_GRID)))))
    drawn, free = draw(jax.random.split(jax.random.key(0), DRAWN)), random_levels(3, FREE, (SIDE, SIDE))
    levels = jax.tree.map(lambda *parts: jnp.concatenate(parts), drawn, free)
    random = np.random.default_rng(0)
    actions = random.choice(len(ACTIONS), (WALKS, STEPS), p=OFTEN)
    about = random.integers(-1, len(VOCABULARY.names), (WALKS, STEPS + 1, 2, ASKED))
    about[random.random(about.shape) < 0.3] = -1

    def walk(level: Level, actions: jax.Array, about: jax.Array) -> Any:
        def act(now: Any, given: Any) -> Any:
            state = dynamics.step(now[0], given[0])
            seen = explored.remember(now[1], state)
            return (state, seen), (state, seen, explored.view(state, seen, *given[1]))

        state = dynamics.reset(level)
        start = state, explored.remember(None, state)
        _, later = jax.lax.scan(act, start, (actions, about[1:]))
        first = (*start, explored.view(*start, *about[0]))
        return jax.tree.map(lambda one, rest: jnp.concatenate([one[None], rest]), first, later)

    states, seen, shown = jax.device_get(jax.jit(jax.vmap(walk))(levels, jnp.asarray(actions), jnp.asarray(about)))
    return states, seen, about, shown


def decoded(shown: np.ndarray) -> list[tuple[bool, str]]:
    """Whether each cell is marked, and its name."""
    codes = shown.reshape(-1).tolist()
    things = {code: name.split("_") for code, name in CELL_NAMES.items() if "_" in name}
    forbidden = {
        code | explored.FORBIDDEN: "_".join([kind, "forbidden", *state]) for code, (kind, _, *state) in things.items()
    }
    names = CELL_NAMES | forbidden | {explored.UNSEEN: "unseen"}
    return [(code >= explored.MARK, names[code % explored.MARK]) for code in codes]


def ways_of(shown: np.ndarray) -> list[tuple[str, int] | None]:
    """First steps and distances."""
    firsts = ("ahead", "right", "left", "behind")
    return [(firsts[code // 8 - 1], code % 8) if code else None for code in shown.reshape(-1).tolist()]


def told_as(steps: int) -> int:
    """How a distance is told: by the power of two that it reaches, 32 at most."""
    return min(steps.bit_length(), 6)


def test_the_map_is_the_twins() -> None:
    states, _, about, shown = walks()
    grids = states.cells[:, :, 4:-4, 4:-4]
    told, taken, longest = set(), set(), 0
    for walk in range(WALKS):
        memory: dict[tuple[int, int], str] = {}
        for t in range(STEPS + 1):
            grid = [[CELL_NAMES[code] for code in row] for row in grids[walk, t].tolist()]
            where = states.position[walk, t].tolist(), int(states.direction[walk, t])
            memory = maps.remember(memory, grid, *where)
            asked = [[VOCABULARY.names[prop] for prop in props if prop >= 0] for props in about[walk, t].tolist()]
            carrying = CELL_NAMES[int(states.carrying[walk, t])]
            expected = maps.picture(memory, grid, *where, carrying, *asked)
            assert decoded(shown[walk, t, :-4]) == expected, (walk, t)
            ways = maps.ways(memory, tuple(where[0]), where[1], carrying, *asked)
            assert ways_of(shown[walk, t, -4:]) == [way and (way[0], told_as(way[1])) for way in ways], (walk, t)
            taken |= {(kind, way and way[0]) for kind, way in enumerate(ways)}
            longest = max(longest, *(way[1] for way in ways if way))
            told |= {
                (where[1], marked or "forbidden" in name, place < 25) for place, (marked, name) in enumerate(expected)
            }
            told |= {(where[1], "forbidden" in name, place < 25) for place, (_, name) in enumerate(expected)}
    assert len(taken) == 4 * 5, "ways to everything, in all directions, or none"
    assert longest >= 8
    assert len(told) == 4 * 2 * 2, "marked or not, in the view and on the map, in all four directions"
    moved = (states.position[:, 1:] != states.position[:, :-1]).any(-1).sum(1)
    assert set(states.rooms[:, 0].tolist()) == {0, *ROOM_GRID}
    assert moved.max() >= 8


def test_what_was_seen_grows_and_is_what_was_in_view() -> None:
    states, seen, _, _ = walks()
    assert (seen[:, 0].sum((1, 2)) == 25).all()
    assert (seen[:, 1:] >= seen[:, :-1]).all()
    for t in range(STEPS + 1):
        for walk in range(WALKS):
            now = maps.in_sight(states.position[walk, t].tolist(), int(states.direction[walk, t]))
            new = seen[walk, t] & ~seen[walk, t - 1] if t else seen[walk, t]
            assert {(row - 4, column - 4) for row, column in np.argwhere(new).tolist()} <= now
            assert all(seen[walk, t, row + 4, column + 4] for row, column in now)


def with_cells(states: State, cells: np.ndarray) -> State:
    return State.unchecked(**vars(states) | {"cells": cells})


def test_what_was_never_seen_does_not_matter() -> None:
    """Walls, objects and floor at random wherever nobody has looked."""
    states, seen, about, shown = walks()
    random = np.random.default_rng(1)
    for t in (0, STEPS // 2, STEPS):
        now: State = jax.tree.map(lambda leaf, t=t: leaf[:, t], states)
        other = random.choice(CODES, now.cells.shape)
        hidden = with_cells(now, np.where(seen[:, t], now.cells, other))
        assert (hidden.cells != now.cells).any((1, 2)).all()
        np.testing.assert_array_equal(show(hidden, seen[:, t], about[:, t]), shown[:, t])
        changed = with_cells(now, np.where(seen[:, t], other, now.cells))
        assert (np.asarray(show(changed, seen[:, t], about[:, t])) != shown[:, t]).any((1, 2)).all()


def test_the_map_reaches_from_corner_to_corner_of_nine_rooms() -> None:
    """One key, in a corner or near the middle; the agent in any of the corners, looking anywhere."""
    corners = [(row, column) for row in (0, SIDE - 1) for column in (0, SIDE - 1)]
    for key_place in [*corners, (8, 11)]:
        agents = [(corner, facing) for corner in corners if corner != key_place for facing in range(4)]
        agents = [agents[number % len(agents)] for number in range(WALKS)]
        cells = np.full((WALKS, SIDE, SIDE), FLOOR_CELL, np.uint8)
        cells[:, *key_place] = cell(KEY, RED)
        levels = Level.unchecked(
            cells=cells,
            position=np.array([place for place, _ in agents], np.int8),
            direction=np.array([facing for _, facing in agents], np.int8),
            carrying=np.full(WALKS, NOTHING, np.uint8),
            rooms=np.zeros(WALKS, np.int8),
        )
        states = jax.vmap(dynamics.reset)(levels)
        red, key = cell(KEY, RED), IDS["front_key"]
        for props, expected in (
            ((-1, -1), red),
            ((key, -1), red + explored.MARK),
            ((-1, key), red | explored.FORBIDDEN),
        ):
            about = np.full((WALKS, 2, ASKED), -1)
            about[:, :, 1] = props
            shown = show(states, np.ones(states.cells.shape, bool), about)
            assert ((shown[:, 25:-4] == expected).sum((1, 2)) == 1).all()


def test_ways_follow_a_long_corridor() -> None:
    """It winds through the level, with a key at its end; the agent is anywhere on it, looking anywhere."""
    lines = [[(row, column) for column in range(SIDE)] for row in range(0, SIDE, 2)]
    ends = [(row, (SIDE - 1) * (number % 2 == 0)) for number, row in enumerate(range(1, SIDE, 2))]
    path = []
    for number, line in enumerate(lines):
        path += line[:: -1 if number % 2 else 1] + ends[number : number + 1]
    places = np.linspace(0, len(path) - 2, WALKS).round().astype(int).tolist()
    cells = np.full((WALKS, SIDE, SIDE), cell(WALL), np.uint8)
    cells[:, *np.transpose(path)] = FLOOR_CELL
    cells[:, *path[-1]] = cell(KEY, RED)
    facing = np.arange(WALKS) % 4
    levels = Level.unchecked(
        cells=cells,
        position=np.array([path[place] for place in places], np.int8),
        direction=facing.astype(np.int8),
        carrying=np.full(WALKS, NOTHING, np.uint8),
        rooms=np.zeros(WALKS, np.int8),
    )
    states = jax.vmap(dynamics.reset)(levels)
    shown = np.asarray(show(states, np.ones(states.cells.shape, bool), np.full((WALKS, 2, ASKED), -1)))
    for place, looks, bytes_ in zip(places, facing.tolist(), shown[:, -4:], strict=True):
        heading = maps.HEADINGS.index(tuple(np.subtract(path[place + 1], path[place]).tolist()))
        turn = ("ahead", "right", "behind", "left")[(heading - looks) % 4]
        assert ways_of(bytes_) == [None, None, (turn, told_as(len(path) - 2 - place)), None]
    assert len(path) > 150


def test_every_proposition_marks_what_it_is_about() -> None:
    for name, words in zip(VOCABULARY.names, explored.ASKED.tolist(), strict=True):
        found = {CELL_NAMES[code] for code in CODES.tolist() if words[code // 32] >> (code % 32) & 1}
        assert found == {one for one in CELL_NAMES.values() if maps.asked(one, maps.things_of(name))}, name
