"""One transition at a time against XLand-MiniGrid, whose rules of movement, objects and doors are ours too."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.domains.minigrid import dynamics
from atlas.domains.minigrid.grid import ACTIONS, BORDER, CELL_NAMES, FLOOR_CELL, NOTHING, State, kind_of
from twins.random_states import AHEAD, random_states

pytestmark = pytest.mark.oracle
xland = pytest.importorskip("xminigrid")

from xminigrid.core.actions import take_action  # noqa: E402
from xminigrid.core.constants import Colors, Tiles  # noqa: E402
from xminigrid.core.observation import transparent_field_of_view  # noqa: E402
from xminigrid.types import AgentState  # noqa: E402

COUNT = 4096
SEEDS = (10, 11)


def _tile(name: str) -> tuple[int, int]:
    """How XLand writes a cell."""
    plain = {
        "outside": (Tiles.EMPTY, Colors.EMPTY),
        "floor": (Tiles.FLOOR, Colors.BLACK),
        "wall": (Tiles.WALL, Colors.GREY),
    }
    if name in plain:
        return plain[name]
    kind, colour, *state = name.upper().split("_")
    return getattr(Tiles, "_".join([kind, *state])), getattr(Colors, {"GRAY": "GREY"}.get(colour, colour))


TILES = np.zeros((256, 2), np.uint8)
for code, name in CELL_NAMES.items():
    TILES[code] = _tile(name)


def to_xland(state: State) -> tuple[jax.Array, AgentState]:
    """Our state as XLand's. The border comes along: XLand's indices wrap around at the edge of a grid."""
    pocket = jnp.where(state.carrying == NOTHING, jnp.zeros(2, jnp.uint8), jnp.asarray(TILES)[state.carrying])
    agent = AgentState(
        position=state.position.astype(jnp.int32) + BORDER, direction=state.direction.astype(jnp.int32), pocket=pocket
    )
    return jnp.asarray(TILES)[state.cells], agent


def both_step(state: State, action: jax.Array) -> tuple[tuple, tuple]:
    grid, agent = to_xland(state)
    theirs_grid, theirs_agent, _ = take_action(grid, agent, action)
    return to_xland(dynamics.step(state, action)), (theirs_grid, theirs_agent)


def both_views(state: State) -> tuple[jax.Array, jax.Array]:
    """XLand leaves the agent's own cell as it is; in ours it shows what is carried."""
    grid, agent = to_xland(state)
    theirs = transparent_field_of_view(grid, agent, 5, 5)
    return jnp.asarray(TILES)[dynamics.view(state)], theirs.at[4, 2].set(jnp.asarray(TILES)[state.carrying])


all_step = jax.jit(jax.vmap(both_step))
all_views = jax.jit(jax.vmap(both_views))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("action", range(len(ACTIONS)), ids=ACTIONS)
def test_every_action_does_the_same(action: int, seed: int) -> None:
    states = random_states(seed, COUNT)
    ours, theirs = all_step(states, jnp.full(COUNT, action, jnp.int32))
    for mine, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_array_equal(mine, other)
    before, after = (_rows(tree) for tree in (jax.vmap(to_xland)(states), ours))
    assert (before != after).any(axis=1).mean() > 0.03, "hardly any state changed: the comparison would be empty"


def _rows(tree: Any) -> np.ndarray:
    """Everything about each state, one row a state."""
    return np.concatenate([np.asarray(leaf).reshape(COUNT, -1) for leaf in jax.tree.leaves(tree)], axis=1)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_view_is_the_same(seed: int) -> None:
    np.testing.assert_array_equal(*all_views(random_states(seed, COUNT)))


def test_the_states_cover_what_matters() -> None:
    states = random_states(SEEDS[0], COUNT)
    front = np.asarray(jax.vmap(dynamics.view)(states)[:, *AHEAD])
    assert set(front.tolist()) == set(CELL_NAMES), "every cell stands in front of some agent"
    assert len(set(np.asarray(states.carrying).tolist())) == 19, "every object is carried by some, nothing by others"
    rows, columns = (np.asarray(states.position) + BORDER).T
    under = np.asarray(states.cells)[np.arange(COUNT), rows, columns]
    assert (under != FLOOR_CELL).sum() > 500, "many stand on an open door"
    locked = np.asarray(kind_of(jnp.asarray(front))) == 7
    fits = np.asarray(states.carrying) == 8 * 5 + (front & 7)
    assert (locked & fits).sum() > 20, "some carry the key of the locked door ahead"
