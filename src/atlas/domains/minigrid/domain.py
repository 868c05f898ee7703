"""Minigrid as a domain: the settings bound to the functions."""

from dataclasses import dataclass
from types import MappingProxyType

import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int, Int32, Key, UInt8

from atlas.domains.minigrid import alphabet, dynamics, explored, labels, sample
from atlas.domains.minigrid.alphabet import ANY_COLOUR, ANY_STATE, DOOR_STATES, PROPOSITIONS, TYPES, Descriptor
from atlas.domains.minigrid.edits import level_edits
from atlas.domains.minigrid.grid import (
    ACTIONS,
    COLOURS,
    DOOR_CLOSED,
    DOOR_LOCKED,
    KINDS,
    OUTSIDE,
    OUTSIDE_CELL,
    VIEW,
    WALL,
    Level,
    State,
    count_objects,
    kind_of,
)
from atlas.domains.minigrid.sample import level_sampler, level_sampler_for, minimal_bounds
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.types import Edit


@dataclass(frozen=True)
class Minigrid:
    """Levels of rooms, doors and objects."""

    config: MinigridConfig

    actions = ACTIONS
    vocabulary = alphabet.VOCABULARY
    view_shape = (VIEW, VIEW)
    view_fields = (len(KINDS), len(COLOURS))
    map_shape = explored.SHAPE
    map_fields = explored.FIELDS
    padding = MappingProxyType({"cells": OUTSIDE_CELL})

    @property
    def mask(self) -> np.ndarray:
        """`bool[889]`: the propositions that the colours, types and door states of the settings can make true."""
        return allowed(self.config)

    @property
    def edits(self) -> tuple[Edit[Level], ...]:
        """Changes of levels, each a row."""
        return level_edits(self.config)

    @property
    def strata(self) -> tuple[str, tuple[int, ...]]:
        """Solve rates are told by number of rooms; 0 stands for mazes."""
        return "rooms", ((0,) if self.config.walls else ()) + tuple(self.config.rooms)

    def measure(self, level: Level) -> dict[str, Int32[Array, ""]]:
        """Rooms (0 in free-form levels) and objects, doors included."""
        return {"rooms": level.rooms.astype(jnp.int32), "objects": count_objects(level.cells)}

    def features(self, level: Level, asked: Int[Array, "literals"]) -> dict[str, Float32[Array, ""]]:
        """Rooms, objects, doors, walls, and how far off the nearest things are that some propositions (-1: none) are
        about."""
        kinds = kind_of(level.cells)
        inside = jnp.maximum(jnp.sum(kinds != OUTSIDE), 1)
        far = labels.distances(level, asked) / 8.0
        return {
            "rooms": level.rooms.astype(jnp.float32) / 4,
            "objects": count_objects(level.cells).astype(jnp.float32) / 8,
            "closed doors": jnp.sum(kinds == DOOR_CLOSED) / 2,
            "locked doors": jnp.sum(kinds == DOOR_LOCKED) / 2,
            "walls": jnp.sum(kinds == WALL) / inside,
            "nearest thing": jnp.min(jnp.where(asked >= 0, far, 4.0), initial=4.0),
            "farthest thing": jnp.max(jnp.where(asked >= 0, far, 0.0), initial=0.0),
            "things to carry or to bring": jnp.sum(labels.is_handled(asked)) / 2,
        }

    def sample(self, key: Key[Array, ""]) -> Level:
        """Draw a level."""
        return level_sampler(self.config)(key, None)

    def sample_minimal(self, key: Key[Array, ""]) -> Level:
        """Draw a level of one room with one object."""
        return level_sampler(self.config)(key, minimal_bounds())

    def sample_for(self, key: Key[Array, ""], props: Int[Array, "mentions"], minimal: bool = False) -> Level:
        """Draw a level that holds what some propositions mention (-1: none), and nothing else if it is minimal."""
        return level_sampler_for(self.config, minimal)(key, props)

    def possible(self, level: Level) -> Bool[Array, "889"]:
        """Which propositions the objects of this level could make true."""
        return sample.possible(level)

    def reset(self, level: Level) -> State:
        """The state an episode starts in."""
        return dynamics.reset(level)

    def step(self, state: State, action: Int[Array, ""]) -> State:
        """The state after an action. Impossible actions change nothing."""
        return dynamics.step(state, action)

    def view(self, state: State) -> UInt8[Array, "5 5"]:
        """What the student sees."""
        return dynamics.view(state)

    def remember(self, seen: Bool[Array, "rows cols"] | None, state: State) -> Bool[Array, "rows cols"]:
        """What an agent has seen in an episode, with what it sees now."""
        return explored.remember(seen, state)

    def view_with_map(
        self,
        state: State,
        seen: Bool[Array, "rows cols"],
        wanted: Int[Array, "literals"],
        forbidden: Int[Array, "literals"],
    ) -> UInt8[Array, "cells 1"]:
        """What the student sees, and a map of what it has seen; what the wanted propositions are about is marked, what
        the forbidden ones are about has lost its colour."""
        return explored.view(state, seen, wanted, forbidden)

    def holds(self, state: State, props: Int[Array, "*asked"]) -> Bool[Array, "*asked"]:
        """Which of the asked propositions hold now."""
        return labels.holds(state, props)

    def as_level(self, state: State) -> Level:
        """The level that starts where this state is."""
        return dynamics.as_level(state)


def allowed(config: MinigridConfig) -> np.ndarray:
    """`bool[889]`: which propositions are about objects that the settings allow."""
    states = _door_states(config)
    fits = {thing: _allows(config, states, thing) for thing in alphabet.DESCRIPTORS}
    return np.array([all(fits[thing] for thing in about.objects) for about in PROPOSITIONS])


def _allows(config: MinigridConfig, states: set[str], thing: Descriptor) -> bool:
    colour = thing.colour == ANY_COLOUR or COLOURS[thing.colour] in config.colours
    if TYPES[thing.type] == "door":
        return colour and (thing.state == ANY_STATE or DOOR_STATES[thing.state] in states)
    return colour and TYPES[thing.type] in config.types


def _door_states(config: MinigridConfig) -> set[str]:
    """The states doors can be in sooner or later: they open and close, but only a key opens a locked one."""
    given: set[str] = set(config.door_states)
    opens = given != {"locked"} or "key" in config.types
    return given | {"open", "closed"} if opens else given
