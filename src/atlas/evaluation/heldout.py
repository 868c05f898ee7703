"""The held-out problems of a run: never trained on, each proven solvable, none trivial, all kinds alike.

Tasks are drawn from what their level holds. Every value of the domain's main measure (such as the number of rooms) has
equally many problems and, within it, every length of task, as far as such problems can be found. A set is kept with its
run, and in a cache for the next run of its kind.
"""

import contextlib
import hashlib
import json
from collections import Counter
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np

from atlas.build import Parts, parts
from atlas.config import Config, PairingConfig
from atlas.domains import domain_of
from atlas.errors import AtlasError
from atlas.evaluation.play import Examiner
from atlas.evaluation.statistics import SolveRates
from atlas.runs.store import cache_folder, load_bulk, save_bulk
from atlas.settings import to_plain
from atlas.tasks.rewards import count_paths
from atlas.types import Problem

SEED: Final = 0x5EED
"""Held-out problems are the same for every seed of a run."""
PER_SIZE: Final = 128
"""Problems for each value of the measure."""
DRAWN: Final = 1024
"""Problems drawn at a time."""
ROUNDS: Final = 6
"""How often they are drawn while some kind is still wanted."""
PATIENCE: Final = 4
"""Draws after which what was not found is replaced by other lengths."""
EFFORT: Final = 100
"""Nodes searched for a plan: problems that need more are left out."""


Kind = tuple[int, int]
"""Value of the measure, and length of the task."""


@dataclass(frozen=True)
class HeldOut:
    """Problems of a run's own size class, and of which kind each is."""

    problems: Problem
    measure: str
    """What its problems are told apart by, as in `rooms`."""
    values: np.ndarray
    """The measure of each problem."""
    lengths: np.ndarray
    """Labels on the shortest way to acceptance."""
    step_limit: int

    def __len__(self) -> int:
        return len(self.values)


def held_out(config: Config, per_size: int = PER_SIZE) -> HeldOut:
    """Sample problems and prove them until there are enough of each kind, or time is better spent otherwise."""
    made = parts(replace(config, pairing=PairingConfig(how="level")))
    sample = jax.jit(lambda key: made.sample(key, DRAWN))
    shortest = jax.jit(jax.vmap(lambda task: count_paths(task).shortest))
    measure, values = made.world.domain.strata
    measured = jax.jit(jax.vmap(lambda level: made.world.domain.measure(level)[measure]))
    wanted = _quotas(config, values, per_size)
    found: list[tuple[Kind, Problem]] = []
    for number in range(ROUNDS):
        if number == PATIENCE:
            wanted = _rather(wanted)
        drawn = jax.tree.map(np.asarray, sample(jax.random.fold_in(jax.random.key(SEED), number)))
        lengths = np.minimum(np.asarray(shortest(drawn.task)), _longest(config))
        kinds = list(zip(np.asarray(measured(drawn.level)).tolist(), lengths.tolist(), strict=True))
        for row in _proven(drawn, kinds, wanted, config.domain.step_limit):
            found.append((kinds[row], jax.tree.map(lambda x, row=row: x[row], drawn)))
            wanted[kinds[row]] -= 1
        if wanted.total() == 0:
            break
    limit = config.domain.step_limit
    if not found:
        raise AtlasError(f"no problem of this kind was found that can be solved in domain.step_limit = {limit} steps")
    found.sort(key=lambda pair: pair[0])
    problems: Problem = jax.tree.map(lambda *rows: np.stack(rows), *(problem for _, problem in found))
    measures, lengths = np.array([kind for kind, _ in found]).T
    return HeldOut(problems, measure, measures, lengths, limit)


def _longest(config: Config) -> int:
    """Lengths are clipped to this."""
    tasks = config.tasks
    return tasks.max_length if tasks.sampler == "sequential" else tasks.states - 1


def _quotas(config: Config, values: tuple[int, ...], per_size: int) -> Counter[Kind]:
    """How many problems of each kind are wanted."""
    least = config.tasks.min_length if config.tasks.sampler == "sequential" else 1
    lengths = range(least, _longest(config) + 1)
    shares = {length: len(range(place, per_size, len(lengths))) for place, length in enumerate(lengths)}
    return Counter({(value, length): shares[length] for value in values for length in lengths})


def _rather(wanted: Counter[Kind]) -> Counter[Kind]:
    """Other lengths in place of those that cannot be found, so that every value keeps its number of problems."""
    instead: Counter[Kind] = Counter()
    for value in {value for value, _ in wanted}:
        missing = sum(count for kind, count in wanted.items() if kind[0] == value)
        found = [kind for kind, count in wanted.items() if kind[0] == value and count == 0]
        instead.update({kind: len(range(place, missing, len(found))) for place, kind in enumerate(found)})
    return instead


def _proven(drawn: Problem, kinds: list[Kind], wanted: Counter[Kind], step_limit: int) -> list[int]:
    """The rows that are solvable but not trivial, as many of each kind as are wanted."""
    from atlas.domains.minigrid.solver.prove import accepted, propose  # training does without the prover

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


class Exam:
    """A held-out set with the compiled function that plays it."""

    def __init__(self, made: Parts, chosen: HeldOut, attempts: int = 1) -> None:
        self.chosen = chosen
        self.attempts = attempts
        self.play = jax.jit(Examiner(made.world, made.student).attempt)

    def rates(self, params: Any, number: int) -> SolveRates:
        """The share of problems solved. `number` tells one exam from the next: it is the seed."""
        keys = jax.random.split(jax.random.key(number), self.attempts)
        solved = np.mean([np.asarray(self.play(key, params, self.chosen.problems)) for key in keys], axis=0)
        values = self.chosen.values
        by_value = {int(value): float(solved[values == value].mean()) for value in np.unique(values)}
        return SolveRates(float(solved.mean()), {self.chosen.measure: by_value})


def obtain(path: Path, config: Config, per_size: int = PER_SIZE) -> HeldOut:
    """The held-out problems of a run: its own file, else from the cache, else drawn and proven. Its file is there
    afterwards."""
    with contextlib.suppress(AtlasError, OSError):
        return read(path, config)
    cached = cache_folder() / "held-out" / f"{fingerprint_held_out(config, per_size)}.npz"
    chosen = None
    with contextlib.suppress(AtlasError, OSError):
        chosen = read(cached, config)
    if chosen is None:
        chosen = held_out(config, per_size)
        with contextlib.suppress(OSError):  # a cache that cannot be written is no reason not to train
            write(cached, chosen, config)
    write(path, chosen, config)
    return chosen


def fingerprint_held_out(config: Config, per_size: int) -> str:
    """What a held-out set depends on, as a name."""
    what = {**_settings(config), "per_size": per_size, "seed": SEED, "version": version("atlas-ued")}
    return hashlib.blake2b(json.dumps(what, sort_keys=True).encode(), digest_size=12).hexdigest()


def _settings(config: Config) -> dict[str, Any]:
    return {"domain": to_plain(config.domain), "tasks": to_plain(config.tasks), "gamma": config.student.ppo.gamma}


def write(path: Path, chosen: HeldOut, config: Config) -> None:
    """Keep a set, its problems named and tagged by kind."""
    kinds = list(zip(chosen.values.tolist(), chosen.lengths.tolist(), strict=True))
    names = [f"{chosen.measure}-{value}-length-{length}-{number:03d}" for number, (value, length) in enumerate(kinds)]
    tags = [(f"{chosen.measure}_{value}", f"length_{length}") for value, length in kinds]
    save_bulk(chosen.problems, path, _settings(config), SEED, names, tags)


def read(path: Path, config: Config) -> HeldOut:
    """A set that was kept. One of other settings is refused."""
    kept = load_bulk(path)
    if kept.settings != json.loads(json.dumps(_settings(config))):
        raise AtlasError(f"{path}: these problems were drawn with other settings")
    domain = domain_of(config.domain)
    measure, _ = domain.strata
    values = np.asarray(jax.vmap(lambda level: domain.measure(level)[measure])(kept.problems.level))
    lengths = np.array([int(tag.removeprefix("length_")) for *_, tag in kept.tags])
    return HeldOut(kept.problems, measure, values, lengths, config.domain.step_limit)
