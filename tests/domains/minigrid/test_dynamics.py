"""The laws of the world. Thousands of transitions are compared with other implementations in tests/oracle."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.domains.minigrid import dynamics
from atlas.domains.minigrid.grid import (
    ACTIONS,
    CELL_NAMES,
    FORWARD,
    NOTHING,
    PICK_UP,
    PUT_DOWN,
    TOGGLE,
    TURN_LEFT,
    TURN_RIGHT,
    Level,
    State,
)
from twins import labels
from twins.random_states import AHEAD, random_levels, random_states

CODES = {name: code for code, name in CELL_NAMES.items()}
step = jax.jit(dynamics.step)
steps = jax.jit(jax.vmap(dynamics.step))
views = jax.jit(jax.vmap(dynamics.view))


def facing(ahead: str, carrying: str | None = None, under: str = "floor") -> State:
    """The agent at the left of a 3 x 3 level of floor, looking right at a cell."""
    cells = np.full((3, 3), CODES["floor"], np.uint8)
    cells[1, 0], cells[1, 1] = CODES[under], CODES[ahead]
    return dynamics.reset(
        Level(
            cells=jnp.asarray(cells),
            position=jnp.array([1, 0], jnp.int8),
            direction=jnp.int8(1),
            carrying=jnp.uint8(CODES[carrying] if carrying else NOTHING),
            rooms=jnp.int8(0),
        )
    )


def after(state: State, *actions: int) -> tuple[str, str | None, tuple[int, int]]:
    """The cell that was ahead, what is carried and where the agent is."""
    for action in actions:
        state = step(state, jnp.int32(action))
    carried = None if int(state.carrying) == NOTHING else CELL_NAMES[int(state.carrying)]
    return CELL_NAMES[int(dynamics.as_level(state).cells[1, 1])], carried, tuple(state.position.tolist())


HERE, THERE = (1, 0), (1, 1)


@pytest.mark.parametrize("ahead", CELL_NAMES.values())
def test_forward_moves_onto_floor_and_open_doors_only(ahead: str) -> None:
    walkable = ahead == "floor" or ahead.endswith("_open")
    assert after(facing(ahead), FORWARD) == (ahead, None, THERE if walkable else HERE)


@pytest.mark.parametrize("ahead", CELL_NAMES.values())
def test_empty_hands_pick_up_balls_squares_and_keys(ahead: str) -> None:
    movable = ahead.startswith(("ball", "square", "key"))
    assert after(facing(ahead), PICK_UP) == (("floor", ahead, HERE) if movable else (ahead, None, HERE))
    assert after(facing(ahead, "ball_red"), PICK_UP) == (ahead, "ball_red", HERE)


@pytest.mark.parametrize("ahead", CELL_NAMES.values())
def test_full_hands_put_down_on_plain_floor_only(ahead: str) -> None:
    expected = ("key_blue", None, HERE) if ahead == "floor" else (ahead, "key_blue", HERE)
    assert after(facing(ahead, "key_blue"), PUT_DOWN) == expected
    assert after(facing(ahead), PUT_DOWN) == (ahead, None, HERE)


@pytest.mark.parametrize("carrying", [None, "key_red", "key_blue", "ball_blue"])
@pytest.mark.parametrize("ahead", CELL_NAMES.values())
def test_toggle_opens_closes_and_unlocks_with_the_right_key(ahead: str, carrying: str | None) -> None:
    door, _, state = ahead.rpartition("_")
    unlocks = state == "locked" and carrying == door.replace("door", "key")
    becomes = {"closed": "open", "open": "closed", "locked": "open" if unlocks else "locked"}
    now = f"{door}_{becomes[state]}" if ahead.startswith("door") else ahead
    assert after(facing(ahead, carrying), TOGGLE) == (now, carrying, HERE)


def test_an_unlocked_door_never_locks_again() -> None:
    assert after(facing("door_red_locked", "key_red"), TOGGLE, TOGGLE)[0] == "door_red_closed"


def test_the_agent_walks_over_a_door_and_leaves_it_open() -> None:
    assert after(facing("floor", under="door_red_open"), FORWARD) == ("floor", None, THERE)
    assert after(facing("door_red_open"), FORWARD, FORWARD) == ("door_red_open", None, (1, 2))


def test_turning() -> None:
    state = facing("wall")
    for direction in (2, 3, 0, 1):
        state = step(state, jnp.int32(TURN_RIGHT))
        assert int(state.direction) == direction
    for direction in (0, 3, 2, 1):
        state = step(state, jnp.int32(TURN_LEFT))
        assert int(state.direction) == direction


def test_a_step_off_the_edge_changes_nothing() -> None:
    state = facing("floor")
    for action in (TURN_LEFT, FORWARD, FORWARD, FORWARD, PICK_UP, TOGGLE):
        state = step(state, jnp.int32(action))
    assert state.position.tolist() == [0, 0]
    assert int(dynamics.view(state)[AHEAD]) == CODES["outside"]


def test_state_and_level_are_two_forms_of_one_thing() -> None:
    states = random_states(0, 256)
    levels = random_levels(0, 256)
    for name, array in vars(jax.vmap(dynamics.as_level)(states)).items():
        np.testing.assert_array_equal(array, getattr(levels, name))
    again = jax.vmap(dynamics.reset)(jax.vmap(dynamics.as_level)(states))
    assert all(map(np.array_equal, jax.tree.leaves(again), jax.tree.leaves(states)))


def test_what_an_episode_can_and_cannot_change() -> None:
    """Rooms, outside, walls and the places of doors stay; objects are neither made nor lost."""
    states, rng = random_states(1, 256), np.random.default_rng(0)
    before = states
    for _ in range(60):
        states = steps(states, jnp.asarray(rng.integers(0, len(ACTIONS), 256), jnp.int32))
    was, now = np.asarray(before.cells), np.asarray(states.cells)
    still = (was >> 3 < 1) | (was >> 3 == 2)
    np.testing.assert_array_equal(now[still], was[still])
    np.testing.assert_array_equal(now >> 3 >= 6, was >> 3 >= 6)
    np.testing.assert_array_equal((now & 7)[was >> 3 >= 6], (was & 7)[was >> 3 >= 6])
    for i in range(256):
        assert sorted(_movables(now[i], states.carrying[i])) == sorted(_movables(was[i], before.carrying[i]))
    under = now[np.arange(256), 4 + np.asarray(states.position)[:, 0], 4 + np.asarray(states.position)[:, 1]]
    assert set((under >> 3).tolist()) <= {1, 8}
    assert (np.asarray(states.position) != np.asarray(before.position)).any(), "nobody moved: the test is empty"


def _movables(cells: np.ndarray, carrying: jax.Array) -> list[int]:
    everything = [*cells.ravel().tolist(), int(carrying)]
    return [code for code in everything if 3 <= code >> 3 <= 5]


def test_views_agree_with_the_twin() -> None:
    states = random_states(2, 1024)
    seen, levels = np.asarray(views(states)), jax.vmap(dynamics.as_level)(states)
    for i in range(1024):
        grid = [[CELL_NAMES[code] for code in row] for row in levels.cells[i].tolist()]
        carrying = CELL_NAMES[int(states.carrying[i])]
        expected = labels.view(grid, levels.position[i].tolist(), int(levels.direction[i]), carrying)
        assert [[CELL_NAMES[code] for code in row] for row in seen[i].tolist()] == expected


def test_a_level_is_small() -> None:
    levels = random_levels(4, 2, (13, 19))
    assert sum(leaf.nbytes for leaf in jax.tree.leaves(levels)) / 2 <= 600
