"""Minigrid for people: levels as text, moments and edits in words, solutions."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atlas.domains.minigrid import dynamics, editor, grid, text
from atlas.domains.minigrid.editor import DIRECTIONS
from atlas.domains.minigrid.edits import BEFORE
from atlas.domains.minigrid.grid import Level, State
from atlas.domains.shared import GridSurface, place_name
from atlas.errors import LevelTextError
from atlas.programs import Program
from atlas.types import Brush, Problem

if TYPE_CHECKING:
    from rich.text import Text as TerminalText


class MinigridSurface(GridSurface):
    """See `atlas.types.Surface`."""

    draw = "atlas.domains.minigrid.draw"
    solver = "atlas.domains.minigrid.solver.prove"
    level_type = Level
    level_keys = ("level", "carrying")
    carries = True

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

    def sound(self, levels: Level) -> np.ndarray:
        cells, place = np.asarray(levels.cells), np.asarray(levels.position)
        carried, facing = np.asarray(levels.carrying), np.asarray(levels.direction)
        inside: np.ndarray = np.all((place >= 0) & (place < cells.shape[1:]), axis=1)
        row, column = np.where(inside[:, None], place, 0).T
        under = cells[np.arange(len(cells)), row, column]
        held = (carried == grid.NOTHING) | np.isin(carried, [c for c in text.CELL_TEXT if c >> 3 in grid.MOVABLE])
        return (
            _CAN_BE[cells].all((1, 2))
            & inside
            & ((under == grid.FLOOR_CELL) | np.isin(under >> 3, grid.DOOR_OPEN))
            & (facing >= 0)
            & (facing < len(DIRECTIONS))
            & held
            & np.isin(np.asarray(levels.rooms), [grid.FREE_FORM, *grid.ROOM_GRID])
        )

    def things(self, level: Level) -> list[str]:
        """`red ball`, `locked blue door`, …: the objects and doors, and what is carried."""
        codes = [*np.asarray(level.cells).flatten().tolist(), int(level.carrying)]
        return [_thing(code) for code in codes if code // 8 in grid.MOVABLE + grid.DOORS]

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

    def overview(self, level: Level) -> dict[str, str]:
        told = self.describe(level)
        size = f"{told['rows']}x{told['cols']}"
        return {"size": size, "rooms": str(told["rooms"] or "-"), "objects": str(told["objects"])}

    def observe(self, state: State) -> dict[str, Any]:
        """`position` (row, column), `direction` (0-3), `carrying`, and `view` as rows of names, the agent at the bottom
        centre looking up."""
        row, column = np.asarray(state.position).tolist()
        view = np.asarray(_view(state)).tolist()
        return {
            "position": (row, column),
            "direction": int(state.direction),
            "carrying": _in_hands(int(state.carrying)),
            "view": [[grid.cell_name(code) for code in line] for line in view],
        }

    def moment(self, observed: Mapping[str, Any]) -> dict[str, str]:
        return {
            "at": "{},{}".format(*observed["position"]),
            "facing": DIRECTIONS[observed["direction"]],
            "carrying": observed["carrying"] or "",
        }

    def edit_words(self, name: str, arguments: Sequence[int]) -> str | None:
        first, second, third = arguments
        side = "before" if first == BEFORE else "after"
        words: dict[str, Callable[[], str]] = {
            "move_agent": lambda: f"to {place_name(second)}, facing {DIRECTIONS[third]}",
            "move_object": lambda: f"{_thing(third)} from {place_name(first)} to {place_name(second)}",
            "add_object": lambda: f"{_thing(third)} at {place_name(second)}",
            "remove_object": lambda: f"{_thing(third)} from {place_name(first)}",
            "replace_object": lambda: f"{_thing(third)} at {place_name(first)}",
            "replace_door": lambda: f"{_thing(third)} at {place_name(first)}",
            "add_rooms": lambda: f"{side}, {second} rooms now",
            "remove_rooms": lambda: f"{side}, {second} {'rooms' if second > 1 else 'room'} left",
        }
        return words[name]() if name in words else None

    def tiles(self, level: Level) -> dict[str, Any]:
        from atlas.domains.minigrid.draw import seen

        cells, carried = text.natural_cells(level), int(level.carrying)
        held = {} if carried == grid.NOTHING else {"held": carried, "holding": text.object_phrase(carried)}
        return {
            "cols": cells.shape[1],
            "cells": cells.flatten().tolist(),
            "at": np.asarray(level.position).tolist(),
            "to": int(level.direction),
            "lit": np.flatnonzero(seen(level) & (cells != grid.OUTSIDE_CELL)).tolist(),
            **held,
        }

    def view_tiles(self, view: np.ndarray) -> dict[str, Any]:
        """The agent at the bottom centre, looking up; its own cell shows what it carries."""
        rows, columns = view.shape
        at = [rows - 1, columns // 2]
        cells = view.flatten().tolist()
        carried = cells[at[0] * columns + at[1]]
        cells[at[0] * columns + at[1]] = grid.FLOOR_CELL
        held = {} if carried == grid.NOTHING else {"held": carried, "holding": text.object_phrase(carried)}
        return {"cols": columns, "cells": cells, "at": at, "to": grid.UP, "lit": [], **held}

    def brushes(self) -> list[Brush]:
        return [brush for brush, _ in editor.BRUSHES.values()]

    def paint(self, level: Level, brush: str, row: int, column: int) -> Level:
        return editor.paint(level, brush, row, column)

    def move(self, level: Level, source: tuple[int, int], target: tuple[int, int]) -> Level:
        return editor.move(level, source, target)

    def resize(self, level: Level, rows: int, columns: int) -> Level:
        return editor.resize(level, rows, columns)

    def templates(self) -> dict[str, Level]:
        return editor.templates()

    def example(self) -> dict[str, str]:
        return editor.EXAMPLE

    def holding(self, level: Level) -> "TerminalText | None":
        from atlas.domains.minigrid.draw import object_text

        carried = int(level.carrying)
        return None if carried == grid.NOTHING else object_text(carried)

    keys = (
        {
            "up": grid.FORWARD, "right": grid.TURN_RIGHT, "left": grid.TURN_LEFT,
            "p": grid.PICK_UP, "d": grid.PUT_DOWN, " ": grid.TOGGLE,
        },
        "↑ forward  ← → turn  p pick up  d put down  space toggle",
    )  # fmt: skip

    def screen_many(self, problems: Problem) -> np.ndarray:
        from atlas.domains.minigrid.solver.relaxed import relaxed_many

        return relaxed_many(problems)

    def hints(self, problem: Problem) -> list[str]:
        """Objects that the agent can never stand in front of."""
        lost = _unreachable(problem.level)
        return [f"out of reach, whatever is unlocked: {', '.join(lost)}"] if lost else []


_CAN_BE = np.isin(np.arange(256), list(text.CELL_TEXT))
"""By byte, whether it is a cell: looking up is quicker than comparing."""
_view = Program("minigrid view", lambda: dynamics.view)


def _in_hands(code: int) -> str | None:
    return None if code == grid.NOTHING else grid.cell_name(code)


def _thing(code: int) -> str:
    """A cell in words: `locked red door`."""
    kind, colour = divmod(code, 8)
    name, _, door_state = grid.KINDS[kind].partition("_")
    return " ".join(filter(None, (door_state, grid.COLOURS[colour], name)))


def _unreachable(level: Level) -> list[str]:
    """Names and places of the objects and doors that the agent can never stand in front of."""
    from atlas.domains.minigrid.solver import bounds
    from atlas.domains.minigrid.solver.boards import DOOR_CODES, MOVABLE_CODES, read_scene

    scene, agent, _ = read_scene(level)
    opened = 0
    while more := bounds.reachable(scene, agent, opened).openable:
        opened |= sum(1 << door for door in more)
    region = bounds.reachable(scene, agent, opened).region
    near = region | scene.geometry.around(region)
    things = sorted((i, code) for i, code in scene.cells.items() if code in MOVABLE_CODES | DOOR_CODES)
    return [f"{grid.cell_name(code)} at {scene.geometry.place(i)}" for i, code in things if not near >> i & 1]
