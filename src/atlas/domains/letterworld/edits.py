"""Small changes of maps, one row each. What an edit leaves in the lineage are places (row and column, packed) and a
cell: from where, to where, what.

No letter is ever there more often than the settings say; an edit never puts one under the agent, nor takes that one.
"""

import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Int, Int16, Int32, Integer, Key

from atlas.chance import edit_draws, pick
from atlas.domains.letterworld.grid import EMPTY, Level
from atlas.domains.letterworld.settings import LETTERS, SIZE, LetterWorldConfig
from atlas.types import Edit, pack_pair

Changed = tuple[Level, Int16[Array, "3"]]


def level_edits(config: LetterWorldConfig) -> tuple[Edit[Level], ...]:
    """The table, within the limits of the settings."""

    def missing(level: Level) -> Bool[Array, "13"]:
        """By code: the letters of which there may be more."""
        codes = jnp.arange(1 + len(LETTERS))
        count = jnp.sum(level.cells.reshape(1, -1) == codes[:, None], axis=1)
        allowed = jnp.array([False, *(letter in config.letters for letter in LETTERS)])
        return allowed & (count < config.copies)

    def move_agent(key: Key[Array, ""], level: Level) -> Changed:
        place = pick(edit_draws(key)[0], _free(level))
        return level.replace(position=jnp.stack(jnp.divmod(place, SIZE)).astype(jnp.int8)), _told(to=place)

    def move_letter(key: Key[Array, ""], level: Level) -> Changed:
        u = edit_draws(key)
        here, there = pick(u[0], _movable(level)), pick(u[1], _free(level))
        code = level.cells.reshape(-1)[here]
        return _put(level, (here, EMPTY), (there, code)), _told(here, there, code)

    def swap_letters(key: Key[Array, ""], level: Level) -> Changed:
        u, cells = edit_draws(key), level.cells.reshape(-1)
        here = pick(u[0], _movable(level) & _differ(level))
        there = pick(u[1], _movable(level) & (cells != cells[here]))
        return _put(level, (here, cells[there]), (there, cells[here])), _told(here, there)

    def add_letter(key: Key[Array, ""], level: Level) -> Changed:
        u = edit_draws(key)
        place, code = pick(u[0], _free(level)), pick(u[1], missing(level))
        return _put(level, (place, code)), _told(to=place, what=code)

    def remove_letter(key: Key[Array, ""], level: Level) -> Changed:
        place = pick(edit_draws(key)[0], _movable(level))
        return _put(level, (place, EMPTY)), _told(place, what=level.cells.reshape(-1)[place])

    def can_move(level: Level) -> Bool[Array, ""]:
        return jnp.any(_movable(level)) & jnp.any(_free(level))

    return (
        Edit("move_agent", lambda level: jnp.any(_free(level)), move_agent),
        Edit("move_letter", can_move, move_letter),
        Edit("swap_letters", lambda level: jnp.any(_differ(level)), swap_letters),
        Edit("add_letter", lambda level: jnp.any(_free(level)) & jnp.any(missing(level)), add_letter),
        Edit("remove_letter", lambda level: jnp.sum(_movable(level)) > 1, remove_letter),
    )


def _agent(level: Level) -> Bool[Array, "49"]:
    row, column = level.position.astype(jnp.int32)
    return jnp.arange(SIZE * SIZE) == row * SIZE + column


def _free(level: Level) -> Bool[Array, "49"]:
    """Empty cells without the agent."""
    return (level.cells.reshape(-1) == EMPTY) & ~_agent(level)


def _movable(level: Level) -> Bool[Array, "49"]:
    """Letters that the agent does not stand on."""
    return (level.cells.reshape(-1) != EMPTY) & ~_agent(level)


def _differ(level: Level) -> Bool[Array, "49"]:
    """All movable letters, if there are different ones among them."""
    cells, movable = level.cells.reshape(-1), _movable(level)
    lowest = jnp.min(jnp.where(movable, cells, jnp.uint8(255)))
    return movable & jnp.any(movable & (cells != lowest))


def _put(level: Level, *changes: tuple[Int[Array, ""], Integer[Array, ""] | int]) -> Level:
    cells = level.cells.reshape(-1)
    for place, code in changes:
        cells = cells.at[place].set(jnp.asarray(code, jnp.uint8))
    return level.replace(cells=cells.reshape(SIZE, SIZE))


def _told(
    at: Int32[Array, ""] | None = None, to: Int32[Array, ""] | None = None, what: Integer[Array, ""] | None = None
) -> Int16[Array, "3"]:
    places = [jnp.int32(-1) if place is None else pack_pair(*jnp.divmod(place, SIZE)) for place in (at, to)]
    return jnp.stack([*places, jnp.int32(-1) if what is None else what.astype(jnp.int32)]).astype(jnp.int16)
