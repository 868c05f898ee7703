"""One transition at a time against Minigrid, the library BabyAI is made of, in what both worlds share.

They differ where boxes are toggled (Minigrid's fall open) and beyond the edge of the grid (Minigrid sees walls there
and cannot walk), so squares are not toggled here and every level has a wall around it.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.domains.minigrid import dynamics
from atlas.domains.minigrid.grid import ACTIONS, CELL_NAMES, Level, State
from twins.random_states import AHEAD, random_states

pytestmark = pytest.mark.oracle
pytest.importorskip("minigrid")

from minigrid.core.grid import Grid  # noqa: E402
from minigrid.core.mission import MissionSpace  # noqa: E402
from minigrid.core.world_object import Ball, Box, Door, Key, Wall, WorldObj  # noqa: E402
from minigrid.minigrid_env import MiniGridEnv  # noqa: E402

COUNT, ROWS, COLUMNS = 2048, 8, 9
THEIR_ACTIONS = {"forward": 2, "right": 1, "left": 0, "pick_up": 3, "put_down": 4, "toggle": 5}
steps = jax.jit(jax.vmap(dynamics.step))
views = jax.jit(jax.vmap(dynamics.view))


def to_object(name: str) -> WorldObj | None:
    """A cell as Minigrid's object."""
    kind, *rest = name.replace("gray", "grey").split("_")
    if kind == "floor":
        return None
    if kind in ("wall", "outside"):
        return Wall()
    if kind == "door":
        return Door(rest[0], is_open=rest[1] == "open", is_locked=rest[1] == "locked")
    return {"ball": Ball, "square": Box, "key": Key}[kind](rest[0])


def to_name(thing: WorldObj | None) -> str:
    """The inverse, but for "outside"."""
    if thing is None or thing.type == "wall":
        return "wall" if thing else "floor"
    colour = {"grey": "gray"}.get(thing.color, thing.color)
    if thing.type != "door":
        return f"{ {'box': 'square'}.get(thing.type, thing.type) }_{colour}"
    return f"door_{colour}_{'open' if thing.is_open else 'locked' if thing.is_locked else 'closed'}"


class Oracle(MiniGridEnv):
    """Minigrid with its state copied in."""

    def __init__(self) -> None:
        mission = MissionSpace(mission_func=lambda: "")
        super().__init__(
            mission, width=COLUMNS, height=ROWS, see_through_walls=True, agent_view_size=5, max_steps=10**9
        )

    def copy_in(self, names: list[list[str]], position: list[int], direction: int, carrying: str) -> None:
        self.grid = Grid(COLUMNS, ROWS)
        for row, line in enumerate(names):
            for column, name in enumerate(line):
                self.grid.set(column, row, to_object(name))
        self.agent_pos, self.agent_dir = (position[1], position[0]), (direction - 1) % 4
        self.carrying, self.step_count = to_object(carrying), 0

    def copy_out(self) -> tuple[list[list[str]], list[int], int, str]:
        names = [[to_name(self.grid.get(column, row)) for column in range(COLUMNS)] for row in range(ROWS)]
        position = [int(self.agent_pos[1]), int(self.agent_pos[0])]
        return names, position, (self.agent_dir + 1) % 4, to_name(self.carrying)

    def seen(self) -> list[list[str]]:
        grid, _ = self.gen_obs_grid()
        return [[to_name(grid.get(column, row)) for column in range(5)] for row in range(5)]


def plain(level: Level) -> list[tuple[list[list[str]], list[int], int, str]]:
    """Batched levels in the words of the oracle, where "outside" is wall."""
    words = np.array([CELL_NAMES.get(code, "") for code in range(256)])
    words[words == "outside"] = "wall"
    cells, carrying = words[np.asarray(level.cells)].tolist(), words[np.asarray(level.carrying)].tolist()
    return list(zip(cells, level.position.tolist(), level.direction.tolist(), carrying, strict=True))


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle()


@pytest.fixture(scope="module")
def states() -> State:
    return random_states(20, COUNT, (ROWS, COLUMNS), True)


@pytest.mark.parametrize("action", range(len(ACTIONS)), ids=ACTIONS)
def test_every_action_does_the_same(action: int, states: State, oracle: Oracle) -> None:
    before = plain(jax.vmap(dynamics.as_level)(states))
    after = plain(jax.vmap(dynamics.as_level)(steps(states, jnp.full(COUNT, action, jnp.int32))))
    fronts = [CELL_NAMES[code] for code in np.asarray(jax.vmap(dynamics.view)(states)[:, *AHEAD]).tolist()]
    changed = 0
    for was, now, front in zip(before, after, fronts, strict=True):
        if ACTIONS[action] == "toggle" and front.startswith("square"):
            continue
        oracle.copy_in(*was)
        oracle.step(THEIR_ACTIONS[ACTIONS[action]])
        assert oracle.copy_out() == now
        changed += was != now
    assert changed > 50, "hardly any state changed: the comparison would be empty"


def test_the_view_is_the_same(states: State, oracle: Oracle) -> None:
    words = {code: name.replace("outside", "wall") for code, name in CELL_NAMES.items()}
    for was, view in zip(plain(jax.vmap(dynamics.as_level)(states)), np.asarray(views(states)), strict=True):
        oracle.copy_in(*was)
        assert oracle.seen() == [[words[code] for code in row] for row in view.tolist()]
