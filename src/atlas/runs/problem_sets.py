"""Sets by name or path: the ones that come with ATLAS, the ones that are built on first use, and any file or folder."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from atlas.errors import AtlasError, nearest
from atlas.runs.bulk import Bulk, load_bulk, save_bulk
from atlas.runs.cache import cache_folder
from atlas.runs.named import NamedProblem
from atlas.runs.problem_files import load
from atlas.sets import HAND_FINGERPRINT, RECIPES, Built, Recipe, build, fingerprint
from atlas.solver.many import Progress, silent
from atlas.solver.prove import STEP_LIMIT

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
    """Steps that an attempt may take: what the file says (a run's own problems), else 512."""
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
        return _verified(_read(given, _built(recipe, progress), skip_bad), recipe.fingerprint)
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
    problems, about = bulk.named(str(path)), bulk.settings if isinstance(bulk.settings, dict) else {}
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


def _built(recipe: Recipe, progress: Progress) -> Path:
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
