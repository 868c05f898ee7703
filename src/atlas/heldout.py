"""Problems that a run is examined on and never trained on: level-conditioned, solvable by the relaxed check."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from atlas.build import Parts, parts
from atlas.config import Config, PairingConfig
from atlas.evaluate import Examiner
from atlas.solve.relaxed import relaxed_many
from atlas.types import Problem

SEED = 0x5EED
"""Held-out problems are the same for every seed of a run."""
PER_SIZE = 128
"""Problems for each number of rooms."""
DRAWN = 4
"""Problems drawn for each one wanted."""


@dataclass(frozen=True)
class HeldOut:
    """A set of problems of a run's own size class, and how many rooms each has."""

    problems: Problem
    rooms: np.ndarray
    step_limit: int


def held_out(config: Config, per_size: int = PER_SIZE) -> HeldOut:
    """Draw a set: as many problems of each number of rooms, none of them trivial.

    A class in which solvable problems are rare may come out smaller.
    """
    made = parts(replace(config, pairing=PairingConfig(how="level")))
    wanted = per_size * len(config.domain.rooms)
    drawn = jax.jit(lambda key: made.sample(key, wanted * DRAWN))(jax.random.key(SEED))
    good = np.flatnonzero(_fit(made, drawn))
    rooms = np.asarray(drawn.level.rooms)[good]
    chosen = np.sort(np.concatenate([good[rooms == count][:per_size] for count in config.domain.rooms]))
    problems: Problem = jax.tree.map(lambda x: jnp.asarray(np.asarray(x)[chosen]), drawn)
    return HeldOut(problems, np.asarray(problems.level.rooms), config.domain.step_limit)


def _fit(made: Parts, drawn: Problem) -> np.ndarray:
    """Which problems may be used: not trivial, and solvable as far as the relaxed check can tell."""
    trivial = jax.jit(jax.vmap(lambda problem: made.world.trivial(problem, made.world.reset(problem))))(drawn)
    if made.config.tasks.sampler == "hierarchical":  # the check knows flat tasks only
        return ~np.asarray(trivial)
    return ~np.asarray(trivial) & relaxed_many(drawn)


class Exam:
    """A held-out set with the compiled function that plays it."""

    def __init__(self, made: Parts, chosen: HeldOut, attempts: int = 1) -> None:
        self.chosen = chosen
        self.attempts = attempts
        self.play = jax.jit(Examiner(made.world, made.student).attempt)

    def rates(self, params: Any, number: int) -> dict[str, float]:
        """Solve rates by number of rooms, and over all. `number` tells one exam from the next: it is the seed."""
        keys = jax.random.split(jax.random.key(number), self.attempts)
        solved = np.mean([np.asarray(self.play(key, params, self.chosen.problems)) for key in keys], axis=0)
        by_rooms = {f"rooms_{n}": float(solved[self.chosen.rooms == n].mean()) for n in np.unique(self.chosen.rooms)}
        return {"all": float(solved.mean()), **by_rooms}
