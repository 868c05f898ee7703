"""LetterWorld as a domain: the laws of the world, sampling.

The map is a torus: whoever leaves it on one side comes in on the other. A state holds the map with a border of half its
size, the opposite sides repeated, so that what the agent sees, the whole map with itself in the middle, is one slice.
"""

from dataclasses import dataclass
from types import MappingProxyType

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Int, Int32, Key, UInt8

from atlas.domains.letterworld.alphabet import VOCABULARY
from atlas.domains.letterworld.edits import level_edits
from atlas.domains.letterworld.grid import ACTIONS, BORDER, EMPTY, MOVES, Level, State
from atlas.domains.letterworld.settings import LETTERS, SIZE, LetterWorldConfig
from atlas.types import Edit


@dataclass(frozen=True)
class LetterWorld:
    """A torus of letters."""

    config: LetterWorldConfig

    actions = ACTIONS
    vocabulary = VOCABULARY
    view_shape = (SIZE, SIZE)
    view_fields = (1 + len(LETTERS),)
    padding = MappingProxyType({"cells": EMPTY})

    @property
    def mask(self) -> np.ndarray:
        """`bool[12]`: the letters of the settings."""
        return np.array([letter in self.config.letters for letter in LETTERS])

    @property
    def edits(self) -> tuple[Edit[Level], ...]:
        """Changes of maps, each a row."""
        return level_edits(self.config)

    @property
    def strata(self) -> tuple[str, tuple[int, ...]]:
        """All sampled maps hold as many letters."""
        return "letters", (len(self.config.letters) * self.config.copies,)

    def measure(self, level: Level) -> dict[str, Int32[Array, ""]]:
        """How many cells have a letter."""
        return {"letters": jnp.sum(level.cells != EMPTY, dtype=jnp.int32)}

    def sample(self, key: Key[Array, ""]) -> Level:
        """Each letter as often as the settings say and the agent on an empty cell, all at random places."""
        return _scattered(key, jnp.asarray(_codes(self.config)))

    def sample_minimal(self, key: Key[Array, ""]) -> Level:
        """One letter and the agent."""
        key_letter, key_places = jax.random.split(key)
        return _scattered(key_places, jax.random.choice(key_letter, jnp.asarray(_codes(self.config)), (1,)))

    def sample_for(self, key: Key[Array, ""], props: Int[Array, "mentions"], minimal: bool = False) -> Level:
        """Draw a map; sampled ones hold every letter there is. A minimal one holds each that is mentioned once."""
        if not minimal:
            return self.sample(key)
        letters = jnp.arange(len(LETTERS))
        wanted = jnp.any(props[None, :] == letters[:, None], axis=1)
        return _scattered(key, jnp.where(wanted, 1 + letters, EMPTY).astype(jnp.uint8))

    def possible(self, level: Level) -> Bool[Array, "12"]:
        """The letters on the map."""
        return jnp.any(level.cells.reshape(1, -1) == jnp.arange(1, 1 + len(LETTERS))[:, None], axis=1)

    def reset(self, level: Level) -> State:
        """The state an episode starts in."""
        return State(cells=jnp.pad(level.cells, BORDER, mode="wrap"), position=level.position)

    def step(self, state: State, action: Int[Array, ""]) -> State:
        """The agent on the cell beside its own."""
        return state.replace(position=(state.position + jnp.asarray(MOVES)[action]) % jnp.int8(SIZE))

    def view(self, state: State) -> UInt8[Array, "7 7"]:
        """The whole map, the agent's own cell in the middle."""
        row, column = state.position.astype(jnp.int32)
        return jax.lax.dynamic_slice(state.cells, (row, column), (SIZE, SIZE))

    def holds(self, state: State, props: Int[Array, "*asked"]) -> Bool[Array, "*asked"]:
        """Which of the asked letters the agent stands on."""
        row, column = state.position.astype(jnp.int32) + BORDER
        return state.cells[row, column].astype(jnp.int32) == props + 1

    def as_level(self, state: State) -> Level:
        """The level that starts where this state is."""
        return Level(cells=state.cells[BORDER:-BORDER, BORDER:-BORDER], position=state.position)


def _codes(config: LetterWorldConfig) -> np.ndarray:
    """The letters of a sampled map."""
    return np.repeat([1 + LETTERS.index(letter) for letter in config.letters], config.copies).astype(np.uint8)


def _scattered(key: Key[Array, ""], letters: UInt8[Array, "letters"]) -> Level:
    """Letters on random cells of an empty map, and the agent on another cell."""
    places = jax.random.permutation(key, SIZE * SIZE)
    cells = jnp.zeros(SIZE * SIZE, jnp.uint8).at[places[: len(letters)]].set(letters)
    agent = jnp.stack(jnp.divmod(places[-1], SIZE)).astype(jnp.int8)
    return Level(cells=cells.reshape(SIZE, SIZE), position=agent)
