"""Sets of problems to put policies to: drawn and certified by a recipe, held out by a run, or read from files.

A drawn problem is kept only if the prover finds a plan that the world accepts, and never if its first label completes
it. Which problems are kept follows from the order in which they were drawn, so neither the number of processes nor the
machine matters.
"""

import contextlib
import hashlib
import json
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np

from atlas.build import Parts, parts
from atlas.config import Config, PairingConfig
from atlas.domains import DOMAINS, find, surface_of
from atlas.errors import AtlasError, nearest
from atlas.evaluation.play import Evaluator
from atlas.evaluation.statistics import SolveRates
from atlas.runs.store import cache_folder, load_bulk, save_bulk
from atlas.settings import STEP_LIMIT, ConfigError, from_plain, to_plain
from atlas.tasks.machine import content_hash
from atlas.tasks.packed import tables, unpack
from atlas.tasks.rewards import count_paths
from atlas.types import NamedProblem, Problem

Progress = Callable[[int, int], None]
"""Told how many problems of how many are done."""
Plan = Sequence[int]

RECIPE: Final = 1
"""Counts changes of how sets are drawn."""
DRAWN: Final = 16_384
"""Problems drawn at a time for a named set."""
SPARE: Final = 1.3
"""Problems that are put to the prover for each one needed: about one in six cannot be solved."""


def silent(done: int, total: int) -> None:
    """No progress is shown."""


# Drawing and certifying


def certified(
    drawn: Problem,
    kinds: Sequence[Hashable],
    wanted: Counter[Any],
    prove: Callable[[list[Problem]], Sequence[Plan | None]],
    seen: set[Any] | None = None,
) -> list[tuple[Any, Problem, Plan]]:
    """Of a batch the first problems of each kind that are proven solvable and not trivial, as many as are `wanted`.

    What is found is taken off `wanted`. With `seen`, problems that are the same as one before are passed over.
    """
    waiting: dict[Any, list[Problem]] = {}
    for kind, problem in zip(kinds, one_by_one(drawn), strict=True):
        if wanted[kind] > 0:
            if seen is not None:
                if (same := identity(problem)) in seen:
                    continue
                seen.add(same)
            waiting.setdefault(kind, []).append(problem)
    found: list[tuple[Any, Problem, Plan]] = []
    while True:
        chosen: list[tuple[Any, Problem]] = []
        for kind, problems in waiting.items():
            some = int(wanted[kind] * SPARE) + 1 if wanted[kind] else 0
            chosen += [(kind, problem) for problem in problems[:some]]
            del problems[:some]
        if not chosen:
            return found
        plans = prove([problem for _, problem in chosen])
        for (kind, problem), plan in zip(chosen, plans, strict=True):
            if plan and wanted[kind] > 0:  # a plan of no steps belongs to a trivial problem
                found.append((kind, problem, plan))
                wanted[kind] -= 1


def identity(problem: Problem) -> Any:
    """Equal for problems that are the same: level for level, and task for task whatever its states are called."""
    level = tuple(np.asarray(getattr(problem.level, f.name)).tobytes() for f in fields(problem.level))
    return level, content_hash(unpack(problem.task))


def fingerprint(problems: Iterable[Problem]) -> str:
    """SHA-256 of some problems in their order, whatever they are called and wherever they came from."""
    digest = hashlib.sha256()
    for problem in problems:
        task = tables(problem.task)._asdict()
        if task["call"] is None:  # the only machine needs no axis of its own
            task = {name: None if array is None else array[0] for name, array in task.items()}
        level = {field.name: getattr(problem.level, field.name) for field in fields(problem.level)}
        for name, array in (level | task).items():
            if array is not None:
                plain = np.ascontiguousarray(array)  # which gives a number an axis
                digest.update(f"{name} {plain.dtype.str} {plain.shape}".encode())
                digest.update(plain.tobytes())
    return digest.hexdigest()


def one_by_one(batch: Problem) -> Iterator[Problem]:
    """The problems of a batch."""
    leaves, tree = jax.tree.flatten(jax.device_get(batch))
    return (jax.tree.unflatten(tree, row) for row in zip(*leaves, strict=True))


def joined(problems: Sequence[Problem]) -> Problem:
    """A batch of problems of one size."""
    return jax.tree.map(lambda *rows: np.stack(rows), *problems)


# Named sets: each domain brings its own, either as files or as a recipe


@dataclass(frozen=True)
class Collection:
    """A set that comes as files."""

    name: str
    about: str
    count: int
    path: Callable[[], Path]
    fingerprint: str


@dataclass(frozen=True)
class Recipe:
    """A set that is drawn from a seed."""

    name: str
    about: str
    config: Config
    """How problems are drawn."""
    count: int
    kind_of: Callable[[Problem], Sequence[int]]
    """The kind of each problem of a batch, from 0 on; of each kind there are equally many. -1: of none."""
    kinds: int
    tags: Callable[[Problem], list[tuple[str, ...]]]
    """Words to group the problems of a batch by."""
    provenance: dict[str, Any]
    """More about how it is drawn, in plain values."""
    fingerprint: str
    """What `fingerprint` gives for the set drawn from seed 0: the one that results are reported on."""
    retired: dict[str, str] = field(default_factory=dict)
    """Fingerprints that a set of this name had before, each with the reason why it is no longer used."""

    def path(self) -> Path:
        """Where the set is kept once it was built. Another recipe gets another file."""
        return cache_folder() / "sets" / f"{self.name}-{self.fingerprint[:12]}.npz"


@dataclass(frozen=True, eq=False)
class Built:
    """A set and what is known about it."""

    problems: Problem
    """Batched."""
    names: tuple[str, ...]
    tags: tuple[tuple[str, ...], ...]
    seed: int
    settings: dict[str, Any]
    """Provenance in plain values: among others, how long the prover's plans are."""


def named_sets() -> dict[str, Collection | Recipe]:
    """All sets that have a name, of all domains."""
    return {one.name: one for row in DOMAINS.values() if row.sets for one in find(row.sets)}


def recipes() -> dict[str, Recipe]:
    """The sets that can be built."""
    return {name: one for name, one in named_sets().items() if isinstance(one, Recipe)}


def build(recipe: Recipe, seed: int = 0, workers: int = 0, progress: Progress = silent) -> Built:
    """Draw a set; none of its problems are the same. More than one worker (0: one a core) starts other processes."""
    surface = surface_of(recipe.config.domain.name)
    made = parts(recipe.config)
    sample = jax.jit(lambda key: made.sample(key, DRAWN))

    def prove(problems: list[Problem]) -> list[Plan | None]:
        solutions = surface.solve_many(problems, bound=False, workers=workers, progress=progress)
        return [solution.plan for solution in solutions]

    wanted = Counter(dict.fromkeys(range(recipe.kinds), recipe.count // recipe.kinds))
    found: list[tuple[int, Problem, Plan]] = []
    seen: set[Any] = set()
    drawn = 0
    while wanted.total() > 0:
        batch = sample(jax.random.key(zlib.crc32(f"{recipe.name} {seed} {drawn // DRAWN}".encode())))
        found += certified(batch, recipe.kind_of(jax.device_get(batch)), wanted, prove, seen)
        drawn += DRAWN
    found.sort(key=lambda one: one[0])
    problems = joined([problem for _, problem, _ in found])
    width = len(str(recipe.count - 1))
    return Built(
        problems=problems,
        names=tuple(f"{recipe.name}-{number:0{width}d}" for number in range(recipe.count)),
        tags=tuple(recipe.tags(problems)),
        seed=seed,
        settings={
            "set": recipe.name,
            "recipe": RECIPE,
            "atlas": version("atlas-ued"),
            **recipe.provenance,
            "drawn": drawn,
            "step_limit": STEP_LIMIT,
            "plan_lengths": [len(plan) for _, _, plan in found],
        },
    )


def write_set(recipe: Recipe, path: Path, seed: int = 0, workers: int = 0, progress: Progress = silent) -> Built:
    """Build a set and write it as one compressed file."""
    built = build(recipe, seed, workers, progress)
    save_bulk(built.problems, path, built.settings, seed, built.names, built.tags)
    return built


# Held-out problems: a run is examined on them and never trains on them

SEED: Final = 0x5EED
"""Held-out problems are the same for every seed of a run."""
PER_SIZE: Final = 128
"""Problems for each value of the domain's stratum (in Minigrid, each number of rooms)."""
HELD_OUT_DRAWN: Final = 1024
"""Problems drawn at a time."""
ROUNDS: Final = 6
"""How often they are drawn while some kind is still wanted."""
PATIENCE: Final = 4
"""Draws after which what was not found is replaced by other lengths."""
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
    """What the domain's levels are told apart by."""
    values: np.ndarray
    """Of the stratum, for each problem."""
    lengths: np.ndarray
    """Labels on the shortest way to acceptance."""
    step_limit: int

    def __len__(self) -> int:
        return len(self.values)


def held_out(config: Config, per_size: int = PER_SIZE) -> HeldOut:
    """Draw problems and prove them until there are enough of each kind, or time is better spent otherwise."""
    made = parts(replace(config, pairing=PairingConfig(how="level")))
    domain, tasks, limit = made.world.domain, config.tasks, config.domain.step_limit
    stratum, values = domain.strata
    longest = tasks.max_length if tasks.sampler == "sequential" else tasks.states - 1
    lengths = range(tasks.min_length if tasks.sampler == "sequential" else 1, longest + 1)
    shares = {length: len(range(place, per_size, len(lengths))) for place, length in enumerate(lengths)}
    wanted = Counter({(value, length): shares[length] for value in values for length in lengths})

    @jax.jit
    def draw(key: Any) -> tuple[Problem, Any, Any]:
        drawn = made.sample(key, HELD_OUT_DRAWN)
        shortest = jax.vmap(lambda task: count_paths(task).shortest)(drawn.task)
        return drawn, jax.vmap(lambda level: domain.measure(level)[stratum])(drawn.level), shortest

    def prove(problems: list[Problem]) -> list[Plan | None]:
        solutions = surface_of(config.domain.name).solve_many(problems, step_limit=limit, budget=EFFORT, bound=False)
        return [solution.plan for solution in solutions]

    found: list[tuple[Kind, Problem, Plan]] = []
    for number in range(ROUNDS):
        if number == PATIENCE:
            wanted = _rather(wanted)
        drawn, strata, shortest = jax.device_get(draw(jax.random.fold_in(jax.random.key(SEED), number)))
        kinds = list(zip(strata.tolist(), np.minimum(shortest, longest).tolist(), strict=True))
        found += certified(drawn, kinds, wanted, prove)
        if wanted.total() == 0:
            break
    if not found:
        raise AtlasError(f"no problem of this kind was found that can be solved in domain.step_limit = {limit} steps")
    found.sort(key=lambda one: one[0])
    of_stratum, of_length = np.array([kind for kind, _, _ in found]).T
    return HeldOut(joined([problem for _, problem, _ in found]), stratum, of_stratum, of_length, limit)


def _rather(wanted: Counter[Kind]) -> Counter[Kind]:
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
        self.evaluator = Evaluator(problems, attempts, chosen.step_limit, lanes=len(problems))

    def rates(self, params: Any, number: int) -> SolveRates:
        """Solve rates over all problems and by stratum. `number` is the seed of this exam."""
        solved = self.evaluator.of_student(self.student, params, seed=number).solved.mean(axis=1)
        values = self.chosen.values
        each = {int(value): float(solved[values == value].mean()) for value in np.unique(values)}
        return SolveRates(float(solved.mean()), {self.chosen.stratum: each})


def obtain(path: Path, config: Config, per_size: int = PER_SIZE) -> HeldOut:
    """The held-out problems of a run: its own file, else from the cache, else drawn and proven. Its file is there
    afterwards."""
    with contextlib.suppress(AtlasError, OSError):
        return read(path, config)
    what = {**_settings(config), "per_size": per_size, "seed": SEED, "version": version("atlas-ued")}
    name = hashlib.blake2b(json.dumps(what, sort_keys=True).encode(), digest_size=12).hexdigest()
    cached = cache_folder() / "held-out" / f"{name}.npz"
    chosen = None
    with contextlib.suppress(AtlasError, OSError):
        chosen = read(cached, config)
    if chosen is None:
        chosen = held_out(config, per_size)
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
    told = dict(kept.settings)
    with contextlib.suppress(ConfigError, KeyError):  # settings that there were not yet have their defaults
        told |= {name: to_plain(from_plain(type(getattr(config, name)), told[name])) for name in ("domain", "tasks")}
    if json.loads(json.dumps(told)) != json.loads(json.dumps(_settings(config))):
        raise AtlasError(f"{path}: these problems were drawn with other settings")

    def numbers(prefix: str) -> np.ndarray:
        return np.array([int(tag.removeprefix(prefix)) for tags in kept.tags for tag in tags if tag.startswith(prefix)])

    stratum = find(DOMAINS[config.domain.name].domain)(config.domain).strata[0]
    return HeldOut(kept.problems, stratum, numbers(f"{stratum}_"), numbers(LENGTH), config.domain.step_limit)


# Any set, by name or path


@dataclass(frozen=True, eq=False)
class ProblemSet:
    """Problems to put policies to."""

    name: str
    path: Path
    problems: list[NamedProblem]
    fingerprint: str
    plan_lengths: list[int] | None
    """How long the prover's plans are, where the file says."""
    step_limit: int
    """Steps that an attempt may take: what the file says (a run's own problems), else 512."""
    bad: list[str]
    """What could not be read, in sentences."""


def open_set(given: str, skip_bad: bool = False, progress: Progress = silent) -> ProblemSet:
    """A set by its name or its path; a folder that is called like a set needs a `./`.

    Named sets are compared with what they must be; those not there yet are built.
    """
    known = named_sets().get(given)
    if known is None:
        path = Path(given)
        if not path.exists():
            raise _no_set(given)
        found = _read(path.resolve().stem, path, skip_bad)
        for name, recipe in recipes().items():
            if found.fingerprint in recipe.retired:
                raise AtlasError(f"{path} is an earlier set called '{name}': {recipe.retired[found.fingerprint]}")
        return found
    if isinstance(known, Recipe) and not known.path().exists():
        print(f"atlas: building the set {known.name} into {known.path()}: this happens once", file=sys.stderr)
        write_set(known, known.path(), progress=progress)
    found = _read(given, known.path(), skip_bad)
    if found.fingerprint != known.fingerprint:
        raise AtlasError(
            f"{found.path} is not the set '{found.name}' that results are reported on: its fingerprint is "
            f"{found.fingerprint[:12]}…, not {known.fingerprint[:12]}…; to use it all the same, give it as a path"
        )
    return found


def _no_set(given: str) -> AtlasError:
    names = named_sets()
    hint = nearest(given, names) or f"; sets are called {', '.join(names)}"
    return AtlasError(f"{given} is neither a file or folder nor the name of a set{hint}")


def _read(name: str, path: Path, skip_bad: bool) -> ProblemSet:
    from atlas.runs.problem_files import load, named  # held-out problems need none of it

    if path.suffix == ".npz":
        bulk = load_bulk(path)
        about = bulk.settings if isinstance(bulk.settings, dict) else {}
        limit = about.get("step_limit") or about.get("domain", {}).get("step_limit", STEP_LIMIT)
        content = fingerprint(one_by_one(bulk.problems))
        return ProblemSet(name, path, named(bulk, str(path)), content, about.get("plan_lengths"), limit, [])
    bad: list[str] = []
    problems = load(path, bad)
    if bad and not skip_bad:
        raise AtlasError(f"{bad[0]}\n(--skip-bad goes on without what cannot be read)")
    return ProblemSet(name, path, problems, fingerprint(problems), None, STEP_LIMIT, bad)


def find_problem(words: str) -> NamedProblem:
    """The problem that is meant: `FILE`, `SET:NAME` (its path, or `hand` and the like), or `NAME`."""
    from atlas.runs.problem_files import choose

    path = Path(words)
    set_words, _, name = words.rpartition(":")
    if path.exists():
        found = choose(path)
    elif set_words:
        found = choose(find_set(set_words), name)
    elif path.suffix or len(path.parts) > 1:
        raise AtlasError(f"{words} does not exist")
    else:
        found = choose(find_set(next(iter(named_sets()))), name)
    if not isinstance(found, NamedProblem):
        raise AtlasError(f"{words}: holds a level without a task, and a policy needs one")
    return found


def find_set(words: str) -> Path:
    """Where a set lies: its path, or that of a set with a name. Nothing is built."""
    if Path(words).exists():
        return Path(words)
    known = named_sets().get(words)
    if known is None:
        raise _no_set(words)
    if not known.path().exists():
        raise AtlasError(f"the set {words} is not built yet: `atlas sets build {words}` does it")
    return known.path()
