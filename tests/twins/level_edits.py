"""Level edits in plain Python, written from the rules: what applies, and what a change must look like."""

import numpy as np

from atlas.domains.minigrid.grid import (
    COLOURS,
    DOORS,
    FLOOR_CELL,
    KINDS,
    MOVABLE,
    NOTHING,
    cell,
    door_places,
    object_limits,
)
from atlas.domains.minigrid.settings import MinigridConfig

LARGER = {1: 2, 2: 4, 4: 6, 6: 9}
GRID = {1: (1, 1), 2: (1, 2), 4: (2, 2), 6: (2, 3), 9: (3, 3)}


def places(level, kinds) -> list[tuple[int, int]]:
    """Where cells of some kinds are."""
    return [(int(r), int(c)) for r, c in zip(*np.nonzero(np.isin(level.cells >> 3, kinds)), strict=True)]


def agent(level) -> tuple[int, int]:
    return int(level.position[0]), int(level.position[1])


def free(level) -> list[tuple[int, int]]:
    floor = [(int(r), int(c)) for r, c in zip(*np.nonzero(level.cells == FLOOR_CELL), strict=True)]
    return [place for place in floor if place != agent(level)]


def movables(level):
    return places(level, MOVABLE)


def doors(level):
    return places(level, DOORS)


def count(level) -> int:
    return len(movables(level)) + len(doors(level))


def choices(config: MinigridConfig, kinds) -> set[int]:
    return {cell(KINDS.index(kind), COLOURS.index(colour)) for kind in kinds for colour in config.colours}


def removals(level, config) -> dict[int, tuple[int, list[tuple[int, int]]]]:
    """Side (0 left or above, 1 right or below) -> room count afterwards and the movables that are left."""
    rooms = int(level.rooms)
    smaller = next((n for n, larger in LARGER.items() if larger == rooms and n in config.rooms), None)
    if smaller is None:
        return {}
    axis = 0 if GRID[rooms][0] != GRID[smaller][0] else 1
    extent = 6 * GRID[rooms][axis]
    possible = {}
    for side in (0, 1):
        low, high = (6, extent) if side == 0 else (0, extent - 6)
        if not low < agent(level)[axis] < high:
            continue
        left = [place for place in movables(level) if low < place[axis] < high]
        if len(left) + len(door_places(smaller)) >= object_limits(config)[smaller][0]:
            possible[side] = (smaller, left)
    return possible


def applies(name: str, level, config: MinigridConfig) -> bool:
    """Whether an edit is applicable."""
    rooms = int(level.rooms)
    least, most = object_limits(config)[rooms]
    if name == "move_agent":
        return bool(free(level))
    if name == "move_object":
        return bool(free(level)) and bool(movables(level))
    if name == "add_object":
        return bool(free(level)) and count(level) < most
    if name == "remove_object":
        return bool(movables(level)) and count(level) > least
    if name == "replace_object":
        kinds = choices(config, config.types)
        return any(kinds - {int(level.cells[place])} for place in movables(level))
    if name == "replace_door":
        kinds = choices(config, [f"door_{state}" for state in config.door_states])
        return any(kinds - {int(level.cells[place])} for place in doors(level) if place != agent(level))
    if name == "add_rooms":
        larger = LARGER.get(rooms)
        if larger not in config.rooms:
            return False
        low, high = object_limits(config)[larger]
        return low <= len(movables(level)) + len(door_places(larger)) <= high
    assert name == "remove_rooms"
    return bool(removals(level, config))


def code(place: tuple[int, int]) -> int:
    return 100 * place[0] + place[1]


def explains(name: str, before, after, arguments, config: MinigridConfig) -> None:
    """The change is what the name says, what the arguments say, and nothing else."""
    where, to, what = (int(a) for a in arguments)
    assert int(after.carrying) == int(before.carrying), "a carried object is left alone"
    if name in ("add_rooms", "remove_rooms"):
        assert what == -1
        assert to == int(after.rooms)
        (_added if name == "add_rooms" else _removed)(before, after, where, config)
        return
    assert int(after.rooms) == int(before.rooms)
    changed = {(int(r), int(c)) for r, c in zip(*np.nonzero(before.cells != after.cells), strict=True)}
    old = {code(place): int(before.cells[place]) for place in changed}
    new = {code(place): int(after.cells[place]) for place in changed}
    if name == "move_agent":
        assert changed == set()
        assert (where, to) == (code(agent(before)), code(agent(after)))
        assert where != to
        assert what == int(after.direction)
        return
    assert agent(after) == agent(before)
    assert int(after.direction) == int(before.direction)
    expected = {
        "move_object": ({where: what, to: FLOOR_CELL}, {where: FLOOR_CELL, to: what}),
        "add_object": ({to: FLOOR_CELL}, {to: what}),
        "remove_object": ({where: what}, {where: FLOOR_CELL}),
        "replace_object": ({where: old.get(where)}, {where: what}),
        "replace_door": ({where: old.get(where)}, {where: what}),
    }
    assert (old, new) == expected[name]
    kinds = DOORS if name == "replace_door" else MOVABLE
    assert {c >> 3 for c in [*old.values(), *new.values()] if c != FLOOR_CELL} <= set(kinds)
    if name.startswith(("add", "replace")):
        doors_ = [f"door_{state}" for state in config.door_states]
        assert what in choices(config, doors_ if name == "replace_door" else config.types)


def _shift(rooms: int, other: int, side: int) -> tuple[int, int]:
    """How far things move if the larger of two levels has more on the left or above."""
    if side == 1:
        return 0, 0
    return (6, 0) if GRID[rooms][0] != GRID[other][0] else (0, 6)


def _moved(level, kinds, shift) -> dict[tuple[int, int], int]:
    return {(r + shift[0], c + shift[1]): int(level.cells[r, c]) for r, c in places(level, kinds)}


def _added(before, after, side, config) -> None:
    assert int(after.rooms) == LARGER[int(before.rooms)]
    shift = _shift(int(before.rooms), int(after.rooms), side)
    assert _moved(after, MOVABLE, (0, 0)) == _moved(before, MOVABLE, shift), "new rooms are empty"
    kept = _moved(before, DOORS, shift)
    now = _moved(after, DOORS, (0, 0))
    assert kept.items() <= now.items()
    assert set(now) == set(door_places(int(after.rooms)))
    assert set(now.values()) - set(kept.values()) <= choices(config, [f"door_{s}" for s in config.door_states])
    assert agent(after) == tuple(np.add(agent(before), shift))


def _removed(before, after, side, config) -> None:
    assert LARGER[int(after.rooms)] == int(before.rooms)
    _, left = removals(before, config)[side]
    shift = tuple(-s for s in _shift(int(before.rooms), int(after.rooms), side))
    kept = {(r + shift[0], c + shift[1]): int(before.cells[r, c]) for r, c in left}
    now = _moved(after, MOVABLE, (0, 0))
    assert now.items() <= kept.items()
    most = object_limits(config)[int(after.rooms)][1] - len(door_places(int(after.rooms)))
    assert len(now) == min(len(kept), most), "dropped down to the maximum, and no further"
    assert _moved(after, DOORS, (0, 0)).items() <= _moved(before, DOORS, shift).items()
    assert agent(after) == tuple(np.add(agent(before), shift))
    assert int(after.carrying) == NOTHING or int(after.carrying) == int(before.carrying)
