"""Problems that a run is examined on and never trained on: each proven solvable, none trivial, all sizes alike.

Tasks are drawn from what their level holds. Every number of rooms has equally many problems and, within it, every
length of task, as far as such problems can be found.
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Final

import jax
import numpy as np

from atlas.build import Parts, parts
from atlas.config import Config, PairingConfig
from atlas.errors import AtlasError
from atlas.evaluate import Examiner
from atlas.solver.prove import propose
from atlas.solver.verify import accepted
from atlas.tasks.paths import count_paths
from atlas.types import Problem

SEED: Final = 0x5EED
"""Held-out problems are the same for every seed of a run."""
PER_SIZE: Final = 128
"""Problems for each number of rooms."""
DRAWN: Final = 1024
"""Problems drawn at a time."""
ROUNDS: Final = 6
"""How often they are drawn while some kind is still wanted."""
PATIENCE: Final = 4
"""Draws after which what was not found is replaced by other lengths."""
EFFORT: Final = 100
"""Nodes searched for a plan: problems that need more are left out."""

Kind = tuple[int, int]
"""Rooms and length of the task."""


@dataclass(frozen=True)
class HeldOut:
    """A set of problems of a run's own size class, and of which kind each is."""

    problems: Problem
    rooms: np.ndarray
    lengths: np.ndarray
    """Labels on the shortest way to acceptance."""
    step_limit: int

    def __len__(self) -> int:
        return len(self.rooms)


def held_out(config: Config, per_size: int = PER_SIZE) -> HeldOut:
    """Draw problems and prove them until there are enough of each kind, or time is better spent otherwise."""
    made = parts(replace(config, pairing=PairingConfig(how="level")))
    draw = jax.jit(lambda key: made.sample(key, DRAWN))
    shortest = jax.jit(jax.vmap(lambda task: count_paths(task).shortest))
    wanted = _quotas(config, per_size)
    found: list[tuple[Kind, Problem]] = []
    for number in range(ROUNDS):
        if number == PATIENCE:
            wanted = _rather(wanted)
        drawn = jax.tree.map(np.asarray, draw(jax.random.fold_in(jax.random.key(SEED), number)))
        lengths = np.minimum(np.asarray(shortest(drawn.task)), _longest(config))
        kinds = list(zip(drawn.level.rooms.tolist(), lengths.tolist(), strict=True))
        for row in _proven(drawn, kinds, wanted, config.domain.step_limit):
            found.append((kinds[row], jax.tree.map(lambda x, row=row: x[row], drawn)))
            wanted[kinds[row]] -= 1
        if wanted.total() == 0:
            break
    return _together(found, config)


def _longest(config: Config) -> int:
    """The length from which on tasks are not told apart."""
    tasks = config.tasks
    return tasks.max_length if tasks.sampler == "sequential" else tasks.states - 1


def _quotas(config: Config, per_size: int) -> Counter[Kind]:
    """How many problems of each kind are wanted."""
    tasks = config.tasks
    least = tasks.min_length if tasks.sampler == "sequential" else 1
    lengths = range(least, _longest(config) + 1)
    shares = {length: len(range(place, per_size, len(lengths))) for place, length in enumerate(lengths)}
    return Counter({(rooms, length): shares[length] for rooms in config.domain.rooms for length in lengths})


def _rather(wanted: Counter[Kind]) -> Counter[Kind]:
    """Ask for other lengths in place of those that cannot be found, so that there are as many of each room count."""
    instead: Counter[Kind] = Counter()
    for rooms in {rooms for rooms, _ in wanted}:
        missing = sum(count for kind, count in wanted.items() if kind[0] == rooms)
        found = [kind for kind, count in wanted.items() if kind[0] == rooms and count == 0]
        instead.update({kind: len(range(place, missing, len(found))) for place, kind in enumerate(found)})
    return instead


def _proven(drawn: Problem, kinds: list[Kind], wanted: Counter[Kind], step_limit: int) -> list[int]:
    """The rows that are solvable but not trivial, as many of each kind as are wanted."""
    left = Counter(wanted)
    plans: dict[int, tuple[int, ...]] = {}
    for row, kind in enumerate(kinds):
        if left[kind] > 0:
            plan = propose(jax.tree.map(lambda x, row=row: x[row], drawn), step_limit, EFFORT).plan
            if plan:
                plans[row] = plan
                left[kind] -= 1
    rows = np.array(list(plans), int)
    verdicts = accepted(jax.tree.map(lambda x: x[rows], drawn), list(plans.values()), step_limit)
    return rows[verdicts].tolist()


def _together(found: list[tuple[Kind, Problem]], config: Config) -> HeldOut:
    limit = config.domain.step_limit
    if not found:
        raise AtlasError(f"no problem of this kind was found that can be solved in domain.step_limit = {limit} steps")
    found = sorted(found, key=lambda pair: pair[0])
    rooms, lengths = np.array([kind for kind, _ in found]).T
    problems: Problem = jax.tree.map(lambda *rows: np.stack(rows), *(problem for _, problem in found))
    return HeldOut(problems, rooms, lengths, limit)


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
