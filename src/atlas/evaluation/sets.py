"""Sets of problems to put policies to: drawn and certified by a recipe, or read from files.

A drawn problem is kept only if the prover finds a plan that the world accepts, and never if its first label completes
it. Which problems are kept follows from the order in which they were drawn, so neither the number of processes nor the
machine matters.
"""

import hashlib
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Protocol

import jax
import numpy as np

from atlas.config import Config
from atlas.domains import DOMAINS, find, known_domain, surface_of
from atlas.errors import AtlasError, nearest
from atlas.runs.store import cache_folder, load_bulk, save_bulk
from atlas.settings import STEP_LIMIT
from atlas.tasks.machine import content_hash
from atlas.tasks.packed import tables, unpack
from atlas.types import About, NamedProblem, Problem

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
    drawn: Iterable[tuple[Hashable, Problem]],
    wanted: Counter[Any],
    prove: Callable[[list[Problem]], Sequence[Plan | None]],
    seen: set[Any] | None = None,
) -> list[tuple[Any, Problem, Plan]]:
    """Keep the first `wanted[kind]` problems of each kind that are provably solvable and non-trivial; decrements
    `wanted`.

    With `seen`, duplicates of earlier problems are skipped.
    """
    waiting: dict[Any, list[Problem]] = {}
    for kind, problem in drawn:
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
    levels, tasks = [problem.level for problem in problems], [problem.task for problem in problems]
    level, task = (jax.tree.map(lambda *rows: np.stack(rows), *parts) for parts in (levels, tasks))
    return Problem.unchecked(level=level, task=task)


# Named sets: each domain brings its own, either as files or as a recipe


@dataclass(frozen=True)
class Collection:
    """A set that comes as files."""

    name: str
    about: str
    count: int
    path: Callable[[], Path]
    fingerprint: str


class Source(Protocol):
    """A source of problems for a set that is being built."""

    def draw(self) -> Iterable[tuple[int, Problem]]:
        """More problems of one size, each with its kind (from 0 on; -1: of none); others at every call."""

    def finish(
        self, problems: Sequence[Problem], plans: Sequence[Plan], progress: Progress
    ) -> tuple[list[About], dict[str, Any]]:
        """Names, tags and notes of those that were chosen, and what else the file tells about them."""


class Sampled:
    """Problems that are sampled as training samples them."""

    def __init__(self, recipe: "Recipe", seed: int) -> None:
        from atlas.build import parts  # a name can be looked up without it

        made = parts(recipe.config)
        self.recipe, self.seed, self.drawn = recipe, seed, 0
        self.sample = jax.jit(lambda key: made.sample(key, DRAWN))

    def draw(self) -> Iterable[tuple[int, Problem]]:
        words = f"{self.recipe.name} {self.seed} {self.drawn // DRAWN}"
        batch = jax.device_get(self.sample(jax.random.key(zlib.crc32(words.encode()))))
        self.drawn += DRAWN
        return zip(self.recipe.kind_of(batch), one_by_one(batch), strict=True)

    def finish(
        self, problems: Sequence[Problem], plans: Sequence[Plan], progress: Progress
    ) -> tuple[list[About], dict[str, Any]]:
        width = len(str(len(problems) - 1))
        abouts = [
            About(name=f"{self.recipe.name}-{number:0{width}d}", tags=tags)
            for number, tags in enumerate(self.recipe.tags(joined(problems)))
        ]
        return abouts, {"drawn": self.drawn}


def one_kind(batch: Problem) -> Sequence[int]:
    """Problems that are not told apart."""
    return [0] * len(jax.tree.leaves(batch)[0])


def no_tags(batch: Problem) -> list[tuple[str, ...]]:
    """Problems that are not grouped."""
    return [()] * len(jax.tree.leaves(batch)[0])


@dataclass(frozen=True)
class Recipe:
    """A set that is drawn from a seed."""

    name: str
    about: str
    config: Config
    """How problems are sampled; for another source, the domain alone counts."""
    count: int
    provenance: dict[str, Any]
    """More about how it is drawn, in plain values."""
    fingerprint: str
    """The `fingerprint` of the set drawn from seed 0, on which results are reported."""
    kind_of: Callable[[Problem], Sequence[int]] = one_kind
    """The kind of each problem of a batch, from 0 on; of each kind there are equally many. -1: of none."""
    kinds: int = 1
    tags: Callable[[Problem], list[tuple[str, ...]]] = no_tags
    """Words to group the problems of a batch by."""
    retired: dict[str, str] = field(default_factory=dict)
    """Fingerprints that a set of this name had before, each with the reason why it is no longer used."""
    source: Callable[["Recipe", int], Source] = Sampled
    """The source of its problems, given a seed."""
    report: Callable[[dict[str, Any]], Sequence[Any]] = lambda settings: ()
    """Report for people once it is built, beside its size: text and tables for `rich`, from `Built.settings`."""

    def path(self) -> Path:
        """The file in which the set is kept once it was built. Another recipe gets another file."""
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
    notes: tuple[str, ...] = ()
    """One for each problem, or none at all."""


def named_sets(domain: str | None = None) -> dict[str, Collection | Recipe]:
    """All sets that have a name, of all domains or of one."""
    rows = DOMAINS.values() if domain is None else [DOMAINS[known_domain(domain)]]
    return {one.name: one for row in rows if row.sets for one in find(row.sets)}


def first_set(domain: str) -> str:
    """The set that policies of a domain are put to where none is named."""
    known = named_sets(domain)
    if not known:
        raise AtlasError(f"{domain} has no sets with a name: say with --problems what to play")
    return next(iter(known))


def recipes() -> dict[str, Recipe]:
    """The sets that can be built."""
    return {name: one for name, one in named_sets().items() if isinstance(one, Recipe)}


def build(recipe: Recipe, seed: int = 0, workers: int = 0, progress: Progress = silent) -> Built:
    """Draw a set; none of its problems are the same. More than one worker (0: one a core) starts other processes."""
    surface = surface_of(recipe.config.domain.name)
    source = recipe.source(recipe, seed)
    verdicts: Counter[str] = Counter()

    def prove(problems: list[Problem]) -> list[Plan | None]:
        solutions = surface.solve_many(problems, bound=False, workers=workers, progress=progress)
        verdicts.update("trivial" if solution.trivial else solution.verdict for solution in solutions)
        return [solution.plan for solution in solutions]

    wanted = Counter(dict.fromkeys(range(recipe.kinds), recipe.count // recipe.kinds))
    found: list[tuple[int, Problem, Plan]] = []
    seen: set[Any] = set()
    while wanted.total() > 0:
        found += certified(source.draw(), wanted, prove, seen)
    found.sort(key=lambda one: one[0])
    _, problems, plans = zip(*found, strict=True)
    abouts, told = source.finish(problems, plans, progress)
    notes = tuple(about.notes for about in abouts)
    return Built(
        problems=joined(problems),
        names=tuple(about.name for about in abouts),
        tags=tuple(about.tags for about in abouts),
        seed=seed,
        settings={
            "set": recipe.name,
            "recipe": RECIPE,
            "atlas": version("atlas-ued"),
            **recipe.provenance,
            **told,
            "proven": dict(verdicts),
            "step_limit": STEP_LIMIT,
            "plan_lengths": [len(plan) for plan in plans],
        },
        notes=notes if any(notes) else (),
    )


def write_set(recipe: Recipe, path: Path, seed: int = 0, workers: int = 0, progress: Progress = silent) -> Built:
    """Build a set and write it as one compressed file."""
    built = build(recipe, seed, workers, progress)
    save_bulk(built.problems, path, built.settings, seed, built.names, built.tags, built.notes)
    return built


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
    """Problems that could not be read, a sentence each."""


def open_set(given: str, skip_bad: bool = False, progress: Progress = silent) -> ProblemSet:
    """A set by its name or its path; a folder that is called like a set needs a `./`.

    Named sets are compared with what they must be; those not there yet are built.
    """
    known = named_sets().get(given)
    if known is None:
        path, before, name = Path(given), *given.rpartition(":")[::2]
        if not path.exists() and before:
            whole = open_set(before, skip_bad, progress)
            names = [problem.name for problem in whole.problems]
            if name not in names:
                raise AtlasError(f"{before}: no problem is called '{name}'{nearest(name, names)}")
            place = names.index(name)
            one = [whole.problems[place]]
            plans = None if whole.plan_lengths is None else [whole.plan_lengths[place]]
            return replace(whole, name=name, problems=one, fingerprint=fingerprint(one), plan_lengths=plans)
        if not path.exists():
            raise _no_set(given)
        found = _read(path.resolve().stem, path, skip_bad, progress)
        for name, recipe in recipes().items():
            if found.fingerprint in recipe.retired:
                raise AtlasError(f"{path} is an earlier set called '{name}': {recipe.retired[found.fingerprint]}")
        return found
    if isinstance(known, Recipe) and not known.path().exists():
        print(f"atlas: building the set {known.name} into {known.path()}: this happens once", file=sys.stderr)
        write_set(known, known.path(), progress=progress)
    found = _read(given, known.path(), skip_bad, progress)
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


def _read(name: str, path: Path, skip_bad: bool, progress: Progress) -> ProblemSet:
    from atlas.runs.problem_files import load, named  # held-out problems need none of it

    if path.suffix == ".npz":
        bulk = load_bulk(path)
        about = bulk.settings if isinstance(bulk.settings, dict) else {}
        domain, plans = about.get("domain"), about.get("plan_lengths")
        limit = about.get("step_limit") or (domain.get("step_limit") if isinstance(domain, dict) else None)
        if plans is not None and (not isinstance(plans, list) or len(plans) != len(bulk)):
            raise AtlasError(f"{path}: plan_lengths must be a list with a number for each problem")
        if limit is not None and (type(limit) is not int or limit < 1):
            raise AtlasError(f"{path}: step_limit must be a whole number from 1 on")
        content = fingerprint(one_by_one(bulk.problems))
        return ProblemSet(name, path, named(bulk, str(path)), content, plans, limit or STEP_LIMIT, [])
    bad: list[str] = []
    problems = load(path, bad, progress)
    if bad and not skip_bad:
        raise AtlasError(f"{bad[0]}\n(--skip-bad goes on without what cannot be read)")
    return ProblemSet(name, path, problems, fingerprint(problems), None, STEP_LIMIT, bad)


def find_set(words: str) -> Path:
    """The path of a set, given by path or by name. Nothing is built."""
    if Path(words).exists():
        return Path(words)
    known = named_sets().get(words)
    if known is None:
        raise _no_set(words)
    if not known.path().exists():
        raise AtlasError(f"the set {words} is not built yet: `atlas sets build {words}` does it")
    return known.path()
