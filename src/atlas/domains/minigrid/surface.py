"""Minigrid for people: levels as text, moments and edits in words, solutions."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from jax import Array
from jaxtyping import Bool

from atlas.domains.minigrid import grid, text
from atlas.domains.minigrid.domain import Minigrid
from atlas.domains.minigrid.edits import BEFORE
from atlas.domains.minigrid.grid import Level, State
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.domains.minigrid.solver import bounds
from atlas.domains.minigrid.solver.boards import DOOR_CODES, MOVABLE_CODES, read_scene
from atlas.domains.minigrid.solver.prove import Solution, solve_many
from atlas.domains.minigrid.solver.relaxed import relaxed, relaxed_many
from atlas.errors import LevelTextError
from atlas.types import Problem

DIRECTIONS = ("up", "right", "down", "left")


class MinigridSurface:
    """See `atlas.types.Surface`."""

    domain = Minigrid(MinigridConfig())
    level_type = Level
    level_keys = ("level", "carrying")

    def parse_level(self, texts: Mapping[str, str]) -> Level:
        """A drawing, and perhaps what is carried."""
        if "carrying" in texts:
            try:
                text.parse_object(texts["carrying"])
            except LevelTextError as error:
                raise LevelTextError(error.problem, key="carrying") from None
        return text.parse_level(texts["level"], texts.get("carrying"))

    def format_level(self, level: Level) -> dict[str, str]:
        carried = int(level.carrying)
        hands = {} if carried == grid.NOTHING else {"carrying": text.object_phrase(carried)}
        return {"level": text.format_cells(level), **hands}

    def crop(self, level: Level) -> Level:
        return text.crop_level(level)

    def pad(self, level: Level) -> Level:
        return text.pad_level(level, text.MAX_ROWS, text.MAX_COLS)

    def describe(self, level: Level) -> dict[str, Any]:
        rows, cols = text.natural_cells(level).shape
        return {
            "rows": rows,
            "cols": cols,
            "rooms": int(level.rooms),
            "objects": int(grid.count_objects(np.asarray(level.cells))),
            "level": text.format_cells(level),
            "carrying": _in_hands(int(level.carrying)),
        }

    def observe(self, state: State) -> dict[str, Any]:
        """`position` (row, column), `direction` (0-3), `carrying`, and `view` as rows of names, the agent at the bottom
        centre looking up."""
        row, column = np.asarray(state.position).tolist()
        view = np.asarray(self.domain.view(state)).tolist()
        return {
            "position": (row, column),
            "direction": int(state.direction),
            "carrying": _in_hands(int(state.carrying)),
            "view": [[grid.cell_name(code) for code in line] for line in view],
        }

    def edit_words(self, name: str, arguments: Sequence[int]) -> str:
        first, second, third = arguments
        side = "before" if first == BEFORE else "after"
        words: dict[str, Callable[[], str]] = {
            "move_agent": lambda: f"to {_place(second)}, facing {DIRECTIONS[third]}",
            "move_object": lambda: f"{_thing(third)} from {_place(first)} to {_place(second)}",
            "add_object": lambda: f"{_thing(third)} at {_place(second)}",
            "remove_object": lambda: f"{_thing(third)} from {_place(first)}",
            "replace_object": lambda: f"{_thing(third)} at {_place(first)}",
            "replace_door": lambda: f"{_thing(third)} at {_place(first)}",
            "add_rooms": lambda: f"{side}, {second} rooms now",
            "remove_rooms": lambda: f"{side}, {second} {'rooms' if second > 1 else 'room'} left",
        }
        return words[name]()

    def screen(self, settings: MinigridConfig) -> Callable[[Problem], Bool[Array, ""]]:
        """The relaxed check of the paper, with room for all doors that these levels can have."""
        return partial(relaxed, locks=max(len(grid.door_places(rooms)) for rooms in settings.rooms))

    def screen_many(self, problems: Problem) -> np.ndarray:
        return relaxed_many(problems)

    def solve_many(self, problems: Sequence[Problem], **options: Any) -> list[Solution]:
        return solve_many(problems, **options)

    def hints(self, problem: Problem) -> list[str]:
        """Objects that the agent can never stand in front of."""
        lost = _unreachable(problem.level)
        return [f"out of reach, whatever is unlocked: {', '.join(lost)}"] if lost else []


def _in_hands(code: int) -> str | None:
    return None if code == grid.NOTHING else grid.cell_name(code)


def _place(code: int) -> str:
    return f"{code // 100},{code % 100}"


def _thing(code: int) -> str:
    """A cell in words: `locked red door`."""
    kind, colour = divmod(code, 8)
    name, _, door_state = grid.KINDS[kind].partition("_")
    return " ".join(filter(None, (door_state, grid.COLOURS[colour], name)))


def _unreachable(level: Level) -> list[str]:
    """Names and places of the objects and doors that the agent can never stand in front of."""
    scene, agent, _ = read_scene(level)
    opened = 0
    while more := bounds.reachable(scene, agent, opened).openable:
        opened |= sum(1 << door for door in more)
    region = bounds.reachable(scene, agent, opened).region
    near = region | scene.geometry.around(region)
    things = sorted((i, code) for i, code in scene.cells.items() if code in MOVABLE_CODES | DOOR_CODES)
    return [f"{grid.cell_name(code)} at {scene.geometry.place(i)}" for i, code in things if not near >> i & 1]
