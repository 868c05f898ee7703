"""Held-out problems and the exam on them: problems of a run's own kind that it is examined on and never trains on."""

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

from atlas.build import Parts, jit_for, parts
from atlas.config import Config, PairingConfig
from atlas.domains import domain_of, surface_of
from atlas.errors import AtlasError
from atlas.evaluation.play import Evaluator
from atlas.evaluation.sets import Plan, Progress, certified, joined, one_by_one, silent
from atlas.evaluation.statistics import SolveRates
from atlas.runs.store import cache_folder, load_bulk, save_bulk
from atlas.settings import ConfigError, from_plain, to_plain
from atlas.tasks.rewards import count_paths
from atlas.types import Problem

SEED: Final = 0x5EED
"""Held-out problems are the same for every seed of a run."""
PER_SIZE: Final = 128
"""Problems for each value of the domain's stratum (in Minigrid, each number of rooms), at most."""
PER_ENV: Final = 2
"""… and for each environment: a run that is only tried out should not wait for its exam."""
DRAWN: Final = 1024
"""Problems drawn at a time."""
ROUNDS: Final = 6
"""How often they are drawn while some kind is still wanted."""
PATIENCE: Final = 4
"""Rounds after which lengths that were not found are replaced by others."""
PROVEN: Final = 32
"""Problems that are put to the prover at a time."""
EFFORT: Final = 100
"""Nodes searched for a plan: problems that need more are left out."""
LENGTH: Final = "length_"

Kind = tuple[int, int]
"""The value of the stratum, and the length of the task."""


@dataclass(frozen=True)
class HeldOut:
    """Problems of a run's own kind, as many of each stratum and, within it, of each length as can be found."""

    problems: Problem
    stratum: str
    """Name of the measure by which the domain's levels are stratified, e.g. `rooms`."""
    values: np.ndarray
    """Stratum value of each problem."""
    lengths: np.ndarray
    """Labels on the shortest way to acceptance."""
    step_limit: int

    def __len__(self) -> int:
        return len(self.values)


def problems_per_size(config: Config) -> int:
    """How many held-out problems a run has for each value of the stratum."""
    return min(PER_SIZE, PER_ENV * config.run.num_envs)


def held_out(config: Config, per_size: int, progress: Progress = silent) -> HeldOut:
    """Draw problems and prove them until there are enough of each kind, or ROUNDS rounds are used up.

    `progress` is called with how many of how many were found.
    """
    made = parts(replace(config, pairing=PairingConfig(how="level")))
    domain, limit = made.world.domain, config.domain.step_limit
    stratum, values = domain.strata
    lengths = config.tasks.lengths
    shares = {length: len(range(place, per_size, len(lengths))) for place, length in enumerate(lengths)}
    wanted = Counter({(value, length): shares[length] for value in values for length in lengths})

    @jit_for(config, "few calls")
    def draw(number: Any) -> tuple[Problem, Any, Any]:
        drawn = made.sample(jax.random.fold_in(jax.random.key(SEED), number), DRAWN)
        shortest = jax.vmap(lambda task: count_paths(task).shortest)(drawn.task)
        return drawn, jax.vmap(lambda level: domain.measure(level)[stratum])(drawn.level), shortest

    surface, goal = surface_of(config.domain.name), wanted.total()

    def prove(problems: list[Problem]) -> list[Plan | None]:
        """A plan for each, if one is found; some at a time, so that there is progress to tell of."""
        plans: list[Plan | None] = []
        for start in range(0, len(problems), PROVEN):
            some = problems[start : start + PROVEN]
            solutions = surface.solve_many(some, step_limit=limit, budget=EFFORT, bound=False)
            plans += [solution.plan for solution in solutions]
            progress(min(goal, goal - wanted.total() + sum(map(bool, plans))), goal)
        return plans

    found: list[tuple[Kind, Problem, Plan]] = []
    for number in range(ROUNDS):
        if number == PATIENCE:
            wanted = _substitutes(wanted)
        drawn, strata, shortest = jax.device_get(draw(np.uint32(number)))
        kinds = list(zip(strata.tolist(), np.minimum(shortest, lengths[-1]).tolist(), strict=True))
        found += certified(zip(kinds, one_by_one(drawn), strict=True), wanted, prove)
        if wanted.total() == 0:
            break
    if not found:
        raise AtlasError(f"no problem of this kind was found that can be solved in domain.step_limit = {limit} steps")
    found.sort(key=lambda one: one[0])
    of_stratum, of_length = np.array([kind for kind, _, _ in found]).T
    return HeldOut(joined([problem for _, problem, _ in found]), stratum, of_stratum, of_length, limit)


def _substitutes(wanted: Counter[Kind]) -> Counter[Kind]:
    """Other lengths in place of those that cannot be found, so that there are as many problems of each stratum."""
    instead: Counter[Kind] = Counter()
    for value in {value for value, _ in wanted}:
        missing = sum(count for kind, count in wanted.items() if kind[0] == value)
        found = [kind for kind, count in wanted.items() if kind[0] == value and count == 0]
        instead.update({kind: len(range(place, missing, len(found))) for place, kind in enumerate(found)})
    return instead


class Exam:
    """A held-out set and the evaluator that plays it."""

    def __init__(self, made: Parts, chosen: HeldOut, attempts: int = 1) -> None:
        self.student, self.chosen = made.student, chosen
        problems = list(one_by_one(chosen.problems))
        jit, jit_once = (jit_for(made.config, effort) for effort in ("best", "few calls"))
        self.evaluator = Evaluator(
            problems, attempts, chosen.step_limit, lanes=len(problems), jit=jit, jit_once=jit_once
        )

    def rates(self, params: Any, number: int) -> SolveRates:
        """Solve rates over all problems and by stratum. `number` is the seed of this exam."""
        solved = self.evaluator.of_student(self.student, params, seed=number).solved.mean(axis=1)
        values = self.chosen.values
        each = {int(value): float(solved[values == value].mean()) for value in np.unique(values)}
        return SolveRates(float(solved.mean()), {self.chosen.stratum: each})


def obtain(path: Path, config: Config, progress: Progress = silent, per_size: int | None = None) -> HeldOut:
    """The held-out problems of a run: its own file, else from the cache, else drawn and proven. Its file is there
    afterwards."""
    with contextlib.suppress(AtlasError, OSError):
        return read(path, config)
    per_size = per_size or problems_per_size(config)
    what = {**_settings(config), "per_size": per_size, "seed": SEED, "version": version("atlas-ued")}
    name = hashlib.blake2b(json.dumps(what, sort_keys=True).encode(), digest_size=12).hexdigest()
    cached = cache_folder() / "held-out" / f"{name}.npz"
    chosen = None
    with contextlib.suppress(AtlasError, OSError):
        chosen = read(cached, config)
    if chosen is None:
        chosen = held_out(config, per_size, progress)
        with contextlib.suppress(OSError):  # a cache that cannot be written is no reason not to train
            write(cached, chosen, config)
    write(path, chosen, config)
    return chosen


def _settings(config: Config) -> dict[str, Any]:
    return {"domain": to_plain(config.domain), "tasks": to_plain(config.tasks), "gamma": config.student.ppo.gamma}


def write(path: Path, chosen: HeldOut, config: Config) -> None:
    """Keep a set, its problems named and tagged by kind."""
    kinds, stratum = list(zip(chosen.values.tolist(), chosen.lengths.tolist(), strict=True)), chosen.stratum
    names = [f"{stratum}-{value}-length-{length}-{number:03d}" for number, (value, length) in enumerate(kinds)]
    tags = [(f"{stratum}_{value}", f"{LENGTH}{length}") for value, length in kinds]
    save_bulk(chosen.problems, path, _settings(config), SEED, names, tags)


def read(path: Path, config: Config) -> HeldOut:
    """A set that was kept. One of other settings is refused."""
    kept = load_bulk(path)
    told = dict(kept.settings) if isinstance(kept.settings, dict) else {}
    with contextlib.suppress(ConfigError, KeyError):  # settings that there were not yet have their defaults
        told |= {name: to_plain(from_plain(type(getattr(config, name)), told[name])) for name in ("domain", "tasks")}
    if json.loads(json.dumps(told)) != json.loads(json.dumps(_settings(config))):
        raise AtlasError(f"{path}: these problems were drawn with other settings")

    def numbers(prefix: str) -> np.ndarray:
        return np.array([int(tag.removeprefix(prefix)) for tags in kept.tags for tag in tags if tag.startswith(prefix)])

    stratum = domain_of(config.domain).strata[0]
    return HeldOut(kept.problems, stratum, numbers(f"{stratum}_"), numbers(LENGTH), config.domain.step_limit)
