"""A world as sets of cells, for searching: where each kind of object lies, what is carried, where propositions hold.

While the agent only walks, nothing in here changes; so the places where a proposition holds are worked out once a
scene. This is a second telling of `dynamics` and `alphabet`; tests hold the two against each other, and every plan that
is found here is replayed there.
"""

from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import Final

import numpy as np

from atlas.domains.minigrid import grid
from atlas.domains.minigrid.alphabet import ANY_COLOUR, ANY_STATE, CARRYING, DOOR_TYPE, FRONT, PROPOSITIONS, Descriptor
from atlas.domains.minigrid.grid import (
    BALL,
    DOOR_CLOSED,
    DOOR_LOCKED,
    DOOR_OPEN,
    DOORS,
    KEY,
    MOVABLE,
    NOTHING,
    PICK_UP,
    PUT_DOWN,
    STEPS,
    TOGGLE,
    VIEW,
    Level,
    cell,
)

# Sets of cells as whole numbers, so that a search moves all places at once with a few shifts.
#
# Cells are numbered row by row. Rows are padded by the width of the view, so that a shift never carries a cell into
# another row where it could be mistaken for one of its own; and there is a margin before the first.

Board = int
"""A set of cells."""
Facing = tuple[Board, Board, Board, Board]
"""A set of (cell, direction): the cells for each direction."""
NOWHERE: Final[Facing] = (0, 0, 0, 0)


def bits(board: Board) -> Iterator[int]:
    """The index of each cell of a set, ascending."""
    while board:
        low = board & -board
        yield low.bit_length() - 1
        board ^= low


def meet(one: Facing, other: Facing) -> Facing:
    """What is in both sets."""
    return one[0] & other[0], one[1] & other[1], one[2] & other[2], one[3] & other[3]


def join(one: Facing, other: Facing) -> Facing:
    """What is in either set."""
    return one[0] | other[0], one[1] | other[1], one[2] | other[2], one[3] | other[3]


def less(one: Facing, other: Facing) -> Facing:
    """What is in the first set and not in the other."""
    return one[0] & ~other[0], one[1] & ~other[1], one[2] & ~other[2], one[3] & ~other[3]


def places(standing: Facing) -> Board:
    """The cells of a set, whatever the direction."""
    return standing[0] | standing[1] | standing[2] | standing[3]


class Geometry:
    """The shape of a grid, and what can be seen from where in it."""

    def __init__(self, rows: int, cols: int) -> None:
        self.rows, self.cols = rows, cols
        self.stride = cols + VIEW - 1
        self.ahead = tuple(row * self.stride + col for row, col in STEPS)
        """Change of a cell's index with one step, by direction."""
        self.whole: Board = sum(((1 << cols) - 1) << self.index(row, 0) for row in range(rows))
        self._offsets = [_view(self.ahead[d], self.ahead[(d + 1) % 4]) for d in range(4)]
        """What is seen, by direction, as changes of the index."""
        self._pairs: dict[tuple[int, int], Facing] = {}
        self._singles: dict[int, Facing] = {}

    def index(self, row: int, col: int) -> int:
        """The index of a cell."""
        return (row + 1) * self.stride + col + 1

    def place(self, index: int) -> tuple[int, int]:
        """Row and column of a cell."""
        row, col = divmod(index, self.stride)
        return row - 1, col - 1

    def around(self, board: Board) -> Board:
        """The cells above, below, left and right of a set."""
        stride = self.stride
        return (board << 1) | (board >> 1) | (board << stride) | (board >> stride)

    def flood(self, seed: Board, within: Board) -> Board:
        """The cells of `within` that paths lead to from the seed, and the seed."""
        stride, reached, edge = self.stride, seed, seed
        while edge:
            edge = ((edge << 1) | (edge >> 1) | (edge << stride) | (edge >> stride)) & within & ~reached
            reached |= edge
        return reached

    def facing(self, board: Board) -> Facing:
        """Where to stand, and in which direction, to have a cell of the set ahead."""
        stride = self.stride
        return board << stride, board >> 1, board >> stride, board << 1

    def in_front(self, standing: Facing) -> Board:
        """The cells ahead of the given ways to stand."""
        up, right, down, left = standing
        return (up >> self.stride) | (right << 1) | (down << self.stride) | (left >> 1)

    def in_view(self, standing: Facing) -> Board:
        """The cells that can be seen from some of the given ways to stand, the own cell left out."""
        seen = 0
        for direction, offsets in enumerate(self._offsets):
            for offset in offsets:
                board = standing[direction]
                seen |= board << offset if offset >= 0 else board >> -offset
        return seen & self.whole

    def seeing_pair(self, one: int, other: int) -> Facing:
        """Where to stand to see both of two cells (the own cell does not count)."""
        found = self._pairs.get((one, other))
        if found is None:
            found = self._pairs[one, other] = meet(self._seeing(one), self._seeing(other))
        return found

    def seeing(self, board: Board) -> Facing:
        """Where to stand to see a cell of a set."""
        seen = NOWHERE
        for index in bits(board):
            seen = join(seen, self._seeing(index))
        return seen

    def _seeing(self, index: int) -> Facing:
        found = self._singles.get(index)
        if found is None:
            up, right, down, left = (
                sum(1 << index - offset for offset in offsets if offset <= index) & self.whole
                for offsets in self._offsets
            )
            found = self._singles[index] = (up, right, down, left)
        return found


def _view(forward: int, sideways: int) -> list[int]:
    """The cells of the view, for one direction, without the agent's own."""
    return [
        ahead * forward + aside * sideways
        for ahead in range(VIEW)
        for aside in range(-(VIEW // 2), VIEW // 2 + 1)
        if (ahead, aside) != (0, 0)
    ]


@lru_cache(maxsize=64)
def geometry(rows: int, cols: int) -> Geometry:
    """The one geometry of each shape, with what it has worked out."""
    return Geometry(rows, cols)


# A world as sets of cells, for searching: where each kind of object lies, what is carried, where propositions hold.
#
# While the agent only walks, nothing in here changes; so the places where a proposition holds are worked out once a
# scene. This is a second telling of `dynamics` and `alphabet`; tests hold the two against each other, and every plan
# that
# is found here is replayed there.

COLOURS: Final = range(grid.NO_COLOUR)
MOVABLE_CODES: Final = frozenset(cell(kind, colour) for kind in MOVABLE for colour in COLOURS)
CLOSED_CODES: Final = tuple(cell(DOOR_CLOSED, colour) for colour in COLOURS)
LOCKED_CODES: Final = tuple(cell(DOOR_LOCKED, colour) for colour in COLOURS)
OPEN_CODES: Final = tuple(cell(DOOR_OPEN, colour) for colour in COLOURS)
DOOR_CODES: Final = frozenset(CLOSED_CODES + LOCKED_CODES + OPEN_CODES)


def codes_of(thing: Descriptor) -> frozenset[int]:
    """The cells that fit a descriptor."""
    colours = COLOURS if thing.colour == ANY_COLOUR else (thing.colour,)
    if thing.type != DOOR_TYPE:
        return frozenset(cell(BALL + thing.type, colour) for colour in colours)
    kinds = DOORS if thing.state == ANY_STATE else (DOORS[thing.state],)
    return frozenset(cell(kind, colour) for kind in kinds for colour in colours)


@cache
def meaning(prop: int) -> tuple[int, frozenset[int], frozenset[int]]:
    """Location of a proposition, and the cells that fit its first and its last object."""
    location, objects = PROPOSITIONS[prop]
    return location, codes_of(objects[0]), codes_of(objects[-1])


class Scene:
    """One arrangement of objects and doors. Changing it makes a new one."""

    __slots__ = ("_boards", "_where", "carrying", "cells", "floor", "geometry", "key", "passable")

    def __init__(self, geometry: Geometry, floor: Board, boards: dict[int, Board], carrying: int) -> None:
        self.geometry = geometry
        self.floor = floor
        """Every cell that is neither wall nor outside."""
        self._boards = boards
        self.carrying = carrying
        self.cells = {index: code for code, board in boards.items() for index in bits(board)}
        """The objects and doors, by cell."""
        self.passable = floor
        for code, board in boards.items():
            if code not in OPEN_CODES:
                self.passable &= ~board
        self.key = (frozenset(boards.items()), carrying)
        """Equal for equal scenes of one level."""
        self._where: dict[int, Facing] = {}

    def board(self, codes: frozenset[int] | tuple[int, ...]) -> Board:
        """Where objects of these kinds and colours lie."""
        boards = self._boards
        if len(codes) < len(boards):
            found = 0
            for code in codes:
                if code in boards:
                    found |= boards[code]
            return found
        return sum(board for code, board in boards.items() if code in codes)

    @property
    def plain(self) -> Board:
        """Where something can be put down: floor without anything on it."""
        return self.passable & ~self.board(OPEN_CODES)

    def where(self, prop: int) -> Facing:
        """All ways to stand in which a proposition holds, as far as what can be seen goes."""
        found = self._where.get(prop)
        if found is None:
            found = self._where[prop] = self._find(prop)
        return found

    def holding(self, positive: Iterable[int], negative: Iterable[int]) -> Facing:
        """All ways to stand in which all of the positive and none of the negative propositions hold."""
        holds = (self.floor,) * 4
        for prop in positive:
            holds = meet(holds, self.where(prop))
        for prop in negative:
            holds = less(holds, self.where(prop))
        return holds

    def _find(self, prop: int) -> Facing:
        location, first, last = meaning(prop)
        if location == CARRYING:
            return (self.floor,) * 4 if self.carrying in first else NOWHERE
        if location == FRONT:
            board = self.board(first)
            return self.geometry.facing(board) if board else NOWHERE
        return self.seeing_pairs(self.board(first), self.board(last))

    def seeing_pairs(self, first: Board, last: Board) -> Facing:
        """All ways to stand in which a pair of neighbours out of two sets is seen."""
        seeing = NOWHERE
        for one, other in self.pairs(first, last):
            seeing = join(seeing, self.geometry.seeing_pair(one, other))
        return seeing

    def pairs(self, first: Board, last: Board) -> list[tuple[int, int]]:
        """Neighbouring cells of which one is in the first set and the other in the last."""
        if not (first and last):
            return []
        stride = self.geometry.stride
        beside = (first & (last >> 1)) | (last & (first >> 1))
        below = (first & (last >> stride)) | (last & (first >> stride))
        return [(i, i + 1) for i in bits(beside)] + [(i, i + stride) for i in bits(below)]

    def act(self, action: int, ahead: int) -> "Scene | None":
        """The scene after picking up, putting down or toggling with a cell ahead; None if nothing happens."""
        code = self.cells.get(ahead)
        if action == PICK_UP and code in MOVABLE_CODES and self.carrying == NOTHING:
            return self._changed(ahead, code, None, code)
        if action == PUT_DOWN and self.carrying != NOTHING and code is None and (self.floor >> ahead) & 1:
            return self._changed(ahead, None, self.carrying, NOTHING)
        if action == TOGGLE and code in DOOR_CODES:
            toggled = self._toggled(code)
            return self._changed(ahead, code, toggled, self.carrying) if toggled != code else None
        return None

    def _toggled(self, code: int) -> int:
        kind, colour = divmod(code, 8)
        if kind == DOOR_LOCKED:
            return cell(DOOR_OPEN, colour) if self.carrying == cell(KEY, colour) else code
        return cell(DOOR_CLOSED if kind == DOOR_OPEN else DOOR_OPEN, colour)

    def _changed(self, index: int, old: int | None, new: int | None, carrying: int) -> "Scene":
        boards = dict(self._boards)
        if old is not None:
            boards[old] ^= 1 << index
            if not boards[old]:
                del boards[old]
        if new is not None:
            boards[new] = boards.get(new, 0) | (1 << index)
        return Scene(self.geometry, self.floor, boards, carrying)


def read_scene(level: Level) -> tuple[Scene, int, int]:
    """The scene of a level, the index of the agent's cell and its direction."""
    cells = np.asarray(level.cells)
    row, col = (int(x) for x in np.asarray(level.position))
    scene = scene_of(cells, int(level.carrying))
    return scene, scene.geometry.index(row, col), int(level.direction)


def scene_of(cells: np.ndarray, carrying: int) -> Scene:
    """The scene of a picture of cells."""
    shape = geometry(*cells.shape)
    kinds = cells >> 3
    solid = (kinds == grid.WALL) | (kinds == grid.OUTSIDE)
    boards: dict[int, Board] = {}
    for row, col in np.argwhere(kinds > grid.WALL).tolist():
        code = int(cells[row, col])
        boards[code] = boards.get(code, 0) | (1 << shape.index(row, col))
    return Scene(shape, _floor(cells.shape, solid.tobytes()), boards, carrying)


@lru_cache(maxsize=256)
def _floor(shape: tuple[int, int], solid: bytes) -> Board:
    """The cells that are neither wall nor outside; few layouts make up most levels."""
    indices = geometry(*shape).index
    return sum(1 << indices(*divmod(place, shape[1])) for place, filled in enumerate(solid) if not filled)
