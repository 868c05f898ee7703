"""Sets by name or path: the ones that come with ATLAS, the ones that are built on first use, and any file or folder."""

import contextlib
import hashlib
import itertools
import json
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Literal

import jax
import numpy as np

from atlas.api import sample_batch, settings
from atlas.build import Parts, parts
from atlas.config import Config, PairingConfig
from atlas.domains import domain_of
from atlas.domains.minigrid import grid
from atlas.domains.minigrid.grid import Level
from atlas.domains.minigrid.settings import RoomCount
from atlas.domains.minigrid.solver.prove import BUDGET, Progress, accepted, propose, silent, solve_many
from atlas.errors import AtlasError, nearest
from atlas.evaluation.play import Examiner
from atlas.runs.problem_files import choose, load, named
from atlas.runs.store import Bulk, cache_folder, load_bulk, save_bulk
from atlas.settings import STEP_LIMIT, to_plain
from atlas.tasks.identity import content_hash
from atlas.tasks.rewards import count_paths
from atlas.tasks.rm import ACCEPTED, num_states
from atlas.types import NamedProblem, Problem

# The sets of problems that policies are compared on: how each is made, and how to tell that it is the right one.
#
# *hand* comes with ATLAS as text. The others are drawn from a seed: level-conditioned, each problem proven solvable
# by a
# plan that the world accepts, none completed by its first label, no two the same. Which problems are kept follows from
# the order in which they were drawn, so neither the number of processes nor the machine matters.

RECIPE: Final = 1
"""Counts changes of how sets are drawn."""
DRAWN: Final = 16_384
"""Problems drawn at a time."""
SPARE: Final = 1.3
"""Problems that are put to the prover for each one needed: about one in six cannot be solved."""
ROOMS: Final[tuple[RoomCount, ...]] = (1, 2, 4, 6)
LENGTHS: Final = range(1, 6)
BANDS: Final = {
    1: ((1, 2), (3, 4), (5, 5)),
    2: ((1, 3), (4, 7), (8, 10)),
    4: ((4, 7), (8, 11), (12, 15)),
    6: ((7, 10), (11, 16), (17, 20)),
}
"""Few, some or many objects, doors included, by number of rooms."""
BAND_NAMES: Final = ("few", "some", "many")
PER_CELL: Final = 5


@dataclass(frozen=True)
class Recipe:
    """How a set is drawn."""

    name: str
    about: str
    tasks: Literal["sequential", "dag"]
    count: int
    balanced: bool
    """As many problems of each number of rooms, band of objects and length; else as they come."""
    fingerprint: str
    """What `fingerprint` gives for the set drawn from seed 0: the one that results are reported on."""

    @property
    def quota(self) -> int:
        """Problems in each cell."""
        return PER_CELL if self.balanced else self.count


RECIPES: Final = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            name="cvar-sequential",
            about="problems with sequential tasks, as training draws them",
            tasks="sequential",
            count=10_000,
            balanced=False,
            fingerprint="6740fba3dfb4f51174ed170d2b49e725038e23b9286e4a4df31882cad458ba9d",
        ),
        Recipe(
            name="cvar-dag",
            about="problems whose tasks are acyclic graphs, as training draws them",
            tasks="dag",
            count=10_000,
            balanced=False,
            fingerprint="36b94148153d6d8e74570bc4fa129e4951e4ff95416e70f70b7cc3f17370685e",
        ),
        Recipe(
            name="validation",
            about="sequential problems, five for each number of rooms, band of objects and length",
            tasks="sequential",
            count=300,
            balanced=True,
            fingerprint="048be214f91254fa685e1e5cb19c168add151cac9270157cee3be3515f6b23c1",
        ),
    )
}
HAND_FINGERPRINT: Final = "b2baaa1ec91ec5229146ae9557b48802bd3d77c11f0a5234c65b6da42e0b6608"
"""Of the problems in `hand`."""


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


@dataclass(frozen=True, eq=False)
class _Found:
    """A certified problem."""

    cell: int
    problem: Problem
    plan_length: int


def build(recipe: Recipe, seed: int = 0, workers: int = 0, progress: Progress = silent) -> Built:
    """Draw a set. More than one worker (0: one a core) starts other Python processes; see `solve_many`.

    Of every cell the first problems that can be certified are kept, in the order in which they were drawn.
    """
    kept: dict[int, list[_Found]] = {cell: [] for cell in range(recipe.count // recipe.quota)}
    seen: set[Any] = set()
    drawn = 0
    while any(len(found) < recipe.quota for found in kept.values()):
        waiting = _draw(recipe, seed, drawn // DRAWN, seen)
        drawn += DRAWN
        while chosen := list(_next(recipe, kept, waiting)):
            for found in _certified(chosen, workers, progress):
                if len(kept[found.cell]) < recipe.quota:
                    kept[found.cell].append(found)
    return _built(recipe, seed, [found for cell in kept.values() for found in cell], drawn)


Waiting = dict[int, list[Problem]]
"""Problems that were drawn and not yet looked at, by cell."""


def _draw(recipe: Recipe, seed: int, turn: int, seen: set[Any]) -> Waiting:
    """New problems, none of which was seen before, by cell."""
    config = settings("level", recipe.tasks, ROOMS)
    batch = sample_batch(config, DRAWN, zlib.crc32(f"{recipe.name} {seed} {turn}".encode()))
    waiting: Waiting = {}
    for cell, problem in zip(_cells(recipe, batch), one_by_one(batch), strict=True):
        if cell >= 0 and (same := identity(problem)) not in seen:
            seen.add(same)
            waiting.setdefault(int(cell), []).append(problem)
    return waiting


def identity(problem: Problem) -> Any:
    """Equal for problems that are the same: level for level, and task for task whatever its states are called."""
    level = problem.level
    return tuple(np.asarray(getattr(level, f.name)).tobytes() for f in fields(level)), content_hash(problem.task)


def _cells(recipe: Recipe, batch: Problem) -> np.ndarray:
    """`int[batch]`: the cell that each problem belongs to; -1 if none."""
    rooms, objects = np.asarray(batch.level.rooms), grid.count_objects(np.asarray(batch.level.cells))
    if not recipe.balanced:
        return np.zeros(len(rooms), int)
    lengths = np.argmax(np.asarray(batch.task.outcome) == ACCEPTED, axis=1)
    cells = np.full(len(rooms), -1)
    for number, (count, band, length) in enumerate(itertools.product(ROOMS, range(len(BAND_NAMES)), LENGTHS)):
        low, high = BANDS[count][band]
        cells[(rooms == count) & (objects >= low) & (objects <= high) & (lengths == length)] = number
    return cells


def _next(recipe: Recipe, kept: dict[int, list[_Found]], waiting: Waiting) -> Iterator[tuple[int, Problem]]:
    """The problems to look at next: some more than each cell still needs."""
    for cell, problems in waiting.items():
        needed = recipe.quota - len(kept[cell])
        some = int(needed * SPARE) + 1 if needed else 0
        yield from ((cell, problem) for problem in problems[:some])
        del problems[:some]


def _certified(chosen: Sequence[tuple[int, Problem]], workers: int, progress: Progress) -> Iterator[_Found]:
    """Those that are proven solvable and not trivial, in order."""
    problems = [problem for _, problem in chosen]
    solutions = solve_many(problems, bound=False, workers=workers, progress=progress)
    for (cell, problem), solution in zip(chosen, solutions, strict=True):
        if solution.plan:  # a plan of no steps belongs to a trivial problem
            yield _Found(cell, problem, len(solution.plan))


def _built(recipe: Recipe, seed: int, found: list[_Found], drawn: int) -> Built:
    problems: Problem = jax.tree.map(lambda *rows: np.stack(rows), *[one.problem for one in found])
    width = len(str(recipe.count - 1))
    about = {
        "set": recipe.name,
        "recipe": RECIPE,
        "atlas": version("atlas-ued"),
        "pairing": "level",
        "tasks": recipe.tasks,
        "rooms": list(ROOMS),
        "balanced": recipe.balanced,
        "drawn": drawn,
        "step_limit": STEP_LIMIT,
        "budget": BUDGET,
        "plan_lengths": [one.plan_length for one in found],
    }
    return Built(
        problems=problems,
        names=tuple(f"{recipe.name}-{number:0{width}d}" for number in range(recipe.count)),
        tags=tuple(_tags(recipe, problems)),
        seed=seed,
        settings=about,
    )


def _tags(recipe: Recipe, problems: Problem) -> Iterator[tuple[str, ...]]:
    objects = grid.count_objects(np.asarray(problems.level.cells))
    states = np.asarray(jax.vmap(num_states)(problems.task))
    for rooms, count, number in zip(np.asarray(problems.level.rooms).tolist(), objects.tolist(), states, strict=True):
        tags: tuple[str, ...] = (f"rooms-{rooms}", f"states-{number}")
        yield (*tags, f"objects-{_band(rooms, count)}") if recipe.balanced else tags


def _band(rooms: int, objects: int) -> str:
    return next(name for name, (_, high) in zip(BAND_NAMES, BANDS[rooms], strict=True) if objects <= high)


def fingerprint(problems: Iterable[Problem]) -> str:
    """SHA-256 of some problems in their order, whatever they are called and wherever they came from."""
    digest = hashlib.sha256()
    for problem in problems:
        for half in (problem.level, problem.task):
            for field in fields(half):
                array = np.ascontiguousarray(getattr(half, field.name))
                digest.update(f"{field.name} {array.dtype.str} {array.shape}".encode())
                digest.update(array.tobytes())
    return digest.hexdigest()


def one_by_one(batch: Problem) -> Iterator[Problem]:
    """The problems of a batch."""
    leaves, tree = jax.tree.flatten(jax.device_get(batch))
    return (jax.tree.unflatten(tree, row) for row in zip(*leaves, strict=True))


# Problems that a run is examined on and never trained on: each proven solvable, none trivial, all sizes alike.
#
# Tasks are drawn from what their level holds. Every number of rooms has equally many problems and, within it, every
# length of task, as far as such problems can be found.

SEED: Final = 0x5EED
"""Held-out problems are the same for every seed of a run."""
PER_SIZE: Final = 128
"""Problems for each number of rooms."""
DRAWN_heldout: Final = 1024
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
    draw = jax.jit(lambda key: made.sample(key, DRAWN_heldout))
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
    return Counter(
        {(rooms, length): shares[length] for rooms in domain_of(config.domain).strata[1] for length in lengths}
    )


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
    found: list[tuple[int, Problem, tuple[int, ...]]] = []
    for row, kind in enumerate(kinds):
        if left[kind] > 0:
            problem = jax.tree.map(lambda x, row=row: x[row], drawn)
            plan = propose(problem, step_limit, EFFORT).plan
            if plan:
                found.append((row, problem, plan))
                left[kind] -= 1
    verdicts = accepted([problem for _, problem, _ in found], [plan for _, _, plan in found], step_limit)
    return [row for (row, _, _), is_accepted in zip(found, verdicts, strict=True) if is_accepted]


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


# Held-out problems on disk: with the run they belong to, and in a cache that starts the next run of their kind.

LENGTH: Final = "length_"


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
    kinds = list(zip(chosen.rooms.tolist(), chosen.lengths.tolist(), strict=True))
    names = [f"rooms-{rooms}-length-{length}-{number:03d}" for number, (rooms, length) in enumerate(kinds)]
    tags = [(f"rooms_{rooms}", f"{LENGTH}{length}") for rooms, length in kinds]
    save_bulk(chosen.problems, path, _settings(config), SEED, names, tags)


def read(path: Path, config: Config) -> HeldOut:
    """A set that was kept. One of other settings is refused."""
    kept = load_bulk(path)
    if kept.settings != json.loads(json.dumps(_settings(config))):
        raise AtlasError(f"{path}: these problems were drawn with other settings")
    lengths = np.array([int(tag.removeprefix(LENGTH)) for tags in kept.tags for tag in tags if tag.startswith(LENGTH)])
    return HeldOut(kept.problems, np.asarray(kept.problems.level.rooms), lengths, config.domain.step_limit)


# Sets by name or path: the ones that come with ATLAS, the ones that are built on first use, and any file or folder.

HAND: Final = "hand"
NAMES: Final = (HAND, *RECIPES)


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
    """Steps that an attempt may take: what the file says (a run's own problems), else STEP_LIMIT."""
    bad: list[str]
    """What could not be read, in sentences."""


def hand_folder() -> Path:
    """The problems designed by hand: inside an installed package, or beside the source."""
    inside, beside = Path(__file__).parents[1] / HAND, Path(__file__).parents[3] / "problems" / HAND
    folder = inside if inside.is_dir() else beside
    if not folder.is_dir():
        raise AtlasError(f"the problems designed by hand are neither in {inside} nor in {beside}")
    return folder


def open_set(given: str, skip_bad: bool = False, progress: Progress = silent) -> ProblemSet:
    """A set by its name or its path; a folder that is called like a set needs a `./`.

    Named sets are compared with what they must be; those not there yet are built.
    """
    if given == HAND:
        return _verified(_read(HAND, hand_folder(), skip_bad), HAND_FINGERPRINT)
    if given in RECIPES:
        recipe = RECIPES[given]
        return _verified(_read(given, _built_problem_sets(recipe, progress), skip_bad), recipe.fingerprint)
    path = Path(given)
    if not path.exists():
        hint = nearest(given, NAMES) or f"; sets are called {', '.join(NAMES)}"
        raise AtlasError(f"{given} is neither a file or folder nor the name of a set{hint}")
    return _read(path.resolve().stem, path, skip_bad)


def _read(name: str, path: Path, skip_bad: bool) -> ProblemSet:
    if path.suffix == ".npz":
        return _from_bulk(name, path, load_bulk(path))
    bad: list[str] = []
    problems = load(path, bad)
    if bad and not skip_bad:
        raise AtlasError(f"{bad[0]}\n(--skip-bad goes on without what cannot be read)")
    return ProblemSet(name, path, problems, fingerprint(problems), None, STEP_LIMIT, bad)


def _from_bulk(name: str, path: Path, bulk: Bulk) -> ProblemSet:
    problems, about = named(bulk, str(path)), bulk.settings if isinstance(bulk.settings, dict) else {}
    limit = about.get("step_limit") or about.get("domain", {}).get("step_limit", STEP_LIMIT)
    return ProblemSet(name, path, problems, fingerprint(problems), about.get("plan_lengths"), limit, [])


def _verified(found: ProblemSet, expected: str) -> ProblemSet:
    """A named set, if it is the one that results are reported on."""
    if found.fingerprint != expected:
        raise AtlasError(
            f"{found.path} is not the set '{found.name}' that results are reported on: its fingerprint is "
            f"{found.fingerprint[:12]}…, not {expected[:12]}…; to use it all the same, give it as a path"
        )
    return found


def built_path(recipe: Recipe) -> Path:
    """Where the set of a recipe is kept once it was built. Another recipe gets another file."""
    return cache_folder() / "sets" / f"{recipe.name}-{recipe.fingerprint[:12]}.npz"


def _built_problem_sets(recipe: Recipe, progress: Progress) -> Path:
    path = built_path(recipe)
    if not path.exists():
        print(f"atlas: building the set {recipe.name} into {path}: this happens once", file=sys.stderr)
        write_set(recipe, path, progress=progress)
    return path


def write_set(recipe: Recipe, path: Path, seed: int = 0, workers: int = 0, progress: Progress = silent) -> Built:
    """Build a set and write it as one compressed file."""
    built = build(recipe, seed, workers, progress)
    save_bulk(built.problems, path, built.settings, seed, built.names, built.tags)
    return built


def find_problem(words: str) -> NamedProblem:
    """The problem that is meant: `FILE`, `SET:NAME` (its path, or `hand` and the like), or `NAME`."""
    path = Path(words)
    if path.exists():
        return _with_task(choose(path), words)
    found, _, name = words.rpartition(":")
    if found:
        return _with_task(choose(find_set(found), name), words)
    if path.suffix or len(path.parts) > 1:
        raise AtlasError(f"{words} does not exist")
    return _with_task(choose(find_set(HAND), name), words)


def find_set(words: str) -> Path:
    """Where a set lies: its path, or that of a set with a name. Nothing is built."""
    if Path(words).exists():
        return Path(words)
    if words == HAND:
        return hand_folder()
    if words in RECIPES and built_path(RECIPES[words]).exists():
        return built_path(RECIPES[words])
    if words in RECIPES:
        raise AtlasError(f"the set {words} is not built yet: `atlas sets build {words}` does it")
    hint = nearest(words, NAMES) or f"; sets are called {', '.join(NAMES)}"
    raise AtlasError(f"{words} is neither a file or folder nor the name of a set{hint}")


def _with_task(found: NamedProblem | Level, words: str) -> NamedProblem:
    if isinstance(found, Level):
        raise AtlasError(f"{words}: holds a level without a task, and a policy needs one")
    return found
