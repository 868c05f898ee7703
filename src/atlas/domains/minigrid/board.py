"""Sets of cells as whole numbers, so that a search moves all places at once with a few shifts.

Cells are numbered row by row. Rows are padded by the width of the view, so that a shift never carries a cell into
another row where it could be mistaken for one of its own; and there is a margin before the first.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from atlas.domains.minigrid.grid import STEPS, VIEW

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
