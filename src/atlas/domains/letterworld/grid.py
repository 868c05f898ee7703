"""Maps of LetterWorld: a torus of cells, each empty or with a letter."""

from typing import ClassVar, Final

import numpy as np
from jax import Array
from jaxtyping import Int8, UInt8

from atlas.domains.letterworld.settings import SIZE
from atlas.struct import Struct
from atlas.vocabulary import Pictured

EMPTY: Final = 0
"""A cell without a letter. The others are letters by their number, from 1 on."""
BORDER: Final = SIZE // 2
ACTIONS: Final = ("up", "right", "down", "left")
MOVES: Final = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)], np.int8)
"""(row, column) change of each action."""


class Level(Struct, Pictured):
    """A map and where the agent starts."""

    domain: ClassVar[str] = "letterworld"
    cells: UInt8[Array, "7 7"]
    position: Int8[Array, "2"]
    """Row and column."""


class State(Struct):
    """A moment of an episode: only the agent moves."""

    cells: UInt8[Array, "13 13"]
    """The map with its border."""
    position: Int8[Array, "2"]
    """Row and column in the map."""
