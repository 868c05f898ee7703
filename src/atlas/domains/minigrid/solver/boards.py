"""A level as sets of cells, for search: where objects lie, what is carried, where each proposition holds.

A set of cells is a whole number with one bit a cell, so that a few shifts move all poses of a search at once. This
repeats `dynamics` and `labels` in another form: tests compare the two, and plans found here are replayed there.
"""

from collections.abc import Collection, Iterable, Iterator
from functools import cache, lru_cache, reduce
from operator import or_
from typing import Final, NamedTuple, TypeVar

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

Board = int
"""A set of cells. Cells are numbered row by row (`Geometry.index`)."""
Poses = tuple[Board, Board, Board, Board]
"""A set of poses (cell, direction): the cells for each direction."""
NO_POSES: Final[Poses] = (0, 0, 0, 0)


def bits(board: Board) -> Iterator[int]:
    """The index of each cell of a set, ascending."""
    while board:
        low = board & -board
        yield low.bit_length() - 1
        board ^= low


def join(boards: Iterable[Board]) -> Board:
    """The union of sets of cells."""
    return reduce(or_, boards, 0)


def intersect(one: Poses, other: Poses) -> Poses:
    """The poses in both sets."""
    return one[0] & other[0], one[1] & other[1], one[2] & other[2], one[3] & other[3]


def union(one: Poses, other: Poses) -> Poses:
    """The poses in either set."""
    return one[0] | other[0], one[1] | other[1], one[2] | other[2], one[3] | other[3]


def minus(one: Poses, other: Poses) -> Poses:
    """The poses in the first set and not in the other."""
    return one[0] & ~other[0], one[1] & ~other[1], one[2] & ~other[2], one[3] & ~other[3]


def cells_of(poses: Poses) -> Board:
    """The cells of some poses, whatever the direction."""
    return poses[0] | poses[1] | poses[2] | poses[3]


Key = TypeVar("Key")


def add(layer: dict[Key, Poses], key: Key, poses: Poses) -> None:
    """Add poses to those of a key, if there are any."""
    if any(poses):
        layer[key] = union(layer[key], poses) if key in layer else poses


class ProductState(NamedTuple):
    """A pose, and the state of the task in it."""

    cell: int
    direction: int
    u: int

    @property
    def poses(self) -> Poses:
        """The pose as a set."""
        up, right, down, left = (1 << self.cell if d == self.direction else 0 for d in range(4))
        return up, right, down, left


class Geometry:
    """The shape of a grid, and what can be seen from where in it.

    Rows are padded by the width of the view and there is a margin before the first, so that no shift moves a cell of
    the view into another row.
    """

    def __init__(self, rows: int, cols: int) -> None:
        self.stride = cols + VIEW - 1
        self.ahead = tuple(row * self.stride + col for row, col in STEPS)
        """Change of a cell's index with one step, by direction."""
        self.whole: Board = sum(((1 << cols) - 1) << self.index(row, 0) for row in range(rows))
        self._view = [
            [
                depth * self.ahead[direction] + aside * self.ahead[(direction + 1) % 4]
                for depth in range(VIEW)
                for aside in range(-(VIEW // 2), VIEW // 2 + 1)
                if (depth, aside) != (0, 0)
            ]
            for direction in range(4)
        ]
        """The cells in view but the agent's own, by direction, as changes of the index."""
        self._seeing: dict[int, Poses] = {}

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
        reached, fringe = seed, seed
        while fringe:
            fringe = self.around(fringe) & within & ~reached
            reached |= fringe
        return reached

    def step(self, poses: Poses, free: Board) -> Poses:
        """The poses after one step forward into a free cell, a turn, or waiting."""
        up, right, down, left = poses
        vertical, horizontal = up | down, left | right
        return (
            ((up >> self.stride) & free) | horizontal | up,
            ((right << 1) & free) | vertical | right,
            ((down << self.stride) & free) | horizontal | down,
            ((left >> 1) & free) | vertical | left,
        )

    def facing(self, board: Board) -> Poses:
        """The poses that have a cell of the set ahead."""
        return board << self.stride, board >> 1, board >> self.stride, board << 1

    def in_front(self, poses: Poses) -> Board:
        """The cells ahead of some poses."""
        up, right, down, left = poses
        return (up >> self.stride) | (right << 1) | (down << self.stride) | (left >> 1)

    def in_view(self, poses: Poses) -> Board:
        """The cells that are seen from some of the poses, the agent's own left out."""
        seen = join(
            board << offset if offset >= 0 else board >> -offset
            for board, offsets in zip(poses, self._view, strict=True)
            for offset in offsets
        )
        return seen & self.whole

    def seeing(self, board: Board) -> Poses:
        """The poses from which a cell of the set is seen; the agent's own does not count."""
        return reduce(union, map(self._seeing_one, bits(board)), NO_POSES)

    def seeing_both(self, one: int, other: int) -> Poses:
        """The poses from which both of two cells are seen."""
        return intersect(self._seeing_one(one), self._seeing_one(other))

    def _seeing_one(self, index: int) -> Poses:
        found = self._seeing.get(index)
        if found is None:
            up, right, down, left = (
                sum(1 << index - offset for offset in offsets if offset <= index) & self.whole for offsets in self._view
            )
            found = self._seeing[index] = (up, right, down, left)
        return found


@lru_cache(maxsize=64)
def geometry(rows: int, cols: int) -> Geometry:
    """The geometry of a shape, shared by all levels of it."""
    return Geometry(rows, cols)


COLOURS: Final = range(grid.NO_COLOUR)
MOVABLE_CODES: Final = frozenset(cell(kind, colour) for kind in MOVABLE for colour in COLOURS)
CLOSED_CODES: Final = tuple(cell(DOOR_CLOSED, colour) for colour in COLOURS)
LOCKED_CODES: Final = tuple(cell(DOOR_LOCKED, colour) for colour in COLOURS)
OPEN_CODES: Final = tuple(cell(DOOR_OPEN, colour) for colour in COLOURS)
DOOR_CODES: Final = frozenset(CLOSED_CODES + LOCKED_CODES + OPEN_CODES)

Codes = frozenset[int]
"""Kinds and colours of cells (their bytes)."""


def codes_of(thing: Descriptor) -> Codes:
    """The cells that fit a descriptor."""
    colours = COLOURS if thing.colour == ANY_COLOUR else (thing.colour,)
    if thing.type != DOOR_TYPE:
        return frozenset(cell(BALL + thing.type, colour) for colour in colours)
    kinds = DOORS if thing.state == ANY_STATE else (DOORS[thing.state],)
    return frozenset(cell(kind, colour) for kind in kinds for colour in colours)


@cache
def meaning(prop: int) -> tuple[int, Codes, Codes]:
    """Location of a proposition, and the cells that fit its first and its last object."""
    location, objects = PROPOSITIONS[prop]
    return location, codes_of(objects[0]), codes_of(objects[-1])


class Scene:
    """One arrangement of objects and doors; it stays the same while the agent walks. Manipulating makes a new one."""

    __slots__ = ("_boards", "_holds", "carrying", "cells", "floor", "geometry", "key", "passable")

    def __init__(self, geometry: Geometry, floor: Board, boards: dict[int, Board], carrying: int) -> None:
        self.geometry = geometry
        self.floor = floor
        """Every cell that is neither wall nor outside."""
        self._boards = boards
        self.carrying = carrying
        self.cells = {index: code for code, board in boards.items() for index in bits(board)}
        """The objects and doors, by cell."""
        self.passable = floor & ~join(board for code, board in boards.items() if code not in OPEN_CODES)
        self.key = (frozenset(boards.items()), carrying)
        """Equal for equal scenes of one level."""
        self._holds: dict[int, Poses] = {}

    def board(self, codes: Collection[int]) -> Board:
        """Where objects of these kinds and colours lie."""
        boards = self._boards
        if len(codes) < len(boards):
            return join(boards[code] for code in codes if code in boards)
        return join(board for code, board in boards.items() if code in codes)

    @property
    def vacant(self) -> Board:
        """Where something can be put down: floor without anything on it."""
        return self.passable & ~self.board(OPEN_CODES)

    def holds(self, prop: int) -> Poses:
        """All poses in which a proposition holds."""
        found = self._holds.get(prop)
        if found is None:
            location, first, last = meaning(prop)
            if location == CARRYING:
                found = (self.floor,) * 4 if self.carrying in first else NO_POSES
            elif location == FRONT:
                found = self.geometry.facing(self.board(first))
            else:
                found = self.seeing_pairs(self.board(first), self.board(last))
            self._holds[prop] = found
        return found

    def guard_region(self, literals: Iterable[int]) -> Poses:
        """All poses in which a guard holds, given its signed literals."""
        region: Poses = (self.floor,) * 4
        for literal in literals:
            holds = self.holds(abs(literal) - 1)
            region = intersect(region, holds) if literal > 0 else minus(region, holds)
        return region

    def seeing_pairs(self, first: Board, last: Board) -> Poses:
        """All poses from which a pair of neighbours out of two sets is seen."""
        return reduce(union, (self.geometry.seeing_both(*pair) for pair in self.pairs(first, last)), NO_POSES)

    def pairs(self, first: Board, last: Board) -> list[tuple[int, int]]:
        """Neighbouring cells of which one is in the first set and the other in the last."""
        stride = self.geometry.stride
        beside = (first & (last >> 1)) | (last & (first >> 1))
        below = (first & (last >> stride)) | (last & (first >> stride))
        return [(i, i + 1) for i in bits(beside)] + [(i, i + stride) for i in bits(below)]

    def act(self, action: int, ahead: int) -> "Scene | None":
        """The scene after picking up, putting down or toggling with a cell ahead; None if nothing happens."""
        old, new, carrying = self.cells.get(ahead), None, self.carrying
        if action == PICK_UP and old in MOVABLE_CODES and carrying == NOTHING:
            carrying = old
        elif action == PUT_DOWN and carrying != NOTHING and old is None and (self.floor >> ahead) & 1:
            new, carrying = carrying, NOTHING
        elif action == TOGGLE and old in DOOR_CODES and (old not in LOCKED_CODES or carrying == cell(KEY, old & 7)):
            new = cell(DOOR_CLOSED if old in OPEN_CODES else DOOR_OPEN, old & 7)
        else:
            return None
        boards = dict(self._boards)
        if old is not None:
            boards[old] ^= 1 << ahead
            if not boards[old]:
                del boards[old]
        if new is not None:
            boards[new] = boards.get(new, 0) | (1 << ahead)
        return Scene(self.geometry, self.floor, boards, carrying)


def read_scene(level: Level) -> tuple[Scene, int, int]:
    """The scene of a level, the index of the agent's cell and its direction."""
    cells = np.asarray(level.cells)
    kinds = cells >> 3
    shape = geometry(*cells.shape)
    boards: dict[int, Board] = {}
    for row, col in np.argwhere(kinds > grid.WALL).tolist():
        code = int(cells[row, col])
        boards[code] = boards.get(code, 0) | (1 << shape.index(row, col))
    solid = (kinds == grid.WALL) | (kinds == grid.OUTSIDE)
    scene = Scene(shape, _floor(cells.shape, solid.tobytes()), boards, int(level.carrying))
    row, col = np.asarray(level.position).tolist()
    return scene, shape.index(row, col), int(level.direction)


@lru_cache(maxsize=256)
def _floor(shape: tuple[int, int], solid: bytes) -> Board:
    """The cells that are neither wall nor outside; few layouts make up most levels."""
    indices = geometry(*shape).index
    return sum(1 << indices(*divmod(place, shape[1])) for place, filled in enumerate(solid) if not filled)
