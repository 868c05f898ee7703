"""`atlas sets`: the sets that policies are compared on."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from atlas.errors import AtlasError, nearest

if TYPE_CHECKING:
    from atlas.runs.problem_sets import ProblemSet


@dataclass(frozen=True)
class List:
    """List the sets that have a name."""

    json: bool = False
    """Print JSON."""


@dataclass(frozen=True)
class Build:
    """Draw a set and certify every problem of it: solvable by a plan, not trivial, no two the same."""

    name: tyro.conf.Positional[str]
    """cvar-sequential, cvar-dag or validation."""
    out: Path | None = None
    """Where to write it (.npz); the cache, where `atlas eval` looks for it, if not given."""
    seed: int = 0
    """Results are reported on the sets of seed 0."""
    workers: int = 0
    """Processes to search with; 0 takes one a core."""
    json: bool = False
    """Print JSON."""


@dataclass(frozen=True)
class Verify:
    """Check that a set is whole, and whether it is one that results are reported on. The exit code says so."""

    set: tyro.conf.Positional[str]
    """A file, a folder, or the name of a set."""
    prove: bool = False
    """Prove every problem again, which takes minutes for large sets."""
    json: bool = False
    """Print JSON."""


Command = (
    Annotated[List, tyro.conf.subcommand("list")]
    | Annotated[Build, tyro.conf.subcommand("build")]
    | Annotated[Verify, tyro.conf.subcommand("verify")]
)


def main(argv: list[str]) -> int:
    """List, build or verify."""
    chosen: Any = tyro.cli(
        Command,
        args=argv,
        prog="atlas sets",
        description="The sets that policies are compared on: drawn from a seed, certified, told apart by fingerprints.",
    )
    if isinstance(chosen, List):
        return _list(chosen)
    return _build(chosen) if isinstance(chosen, Build) else _verify(chosen)


def _list(args: List) -> int:
    from atlas.runs.problem_sets import HAND, built_path, hand_folder
    from atlas.sets import HAND_FINGERPRINT, RECIPES

    rows = [(HAND, 150, "designed by hand, to compare policies on", hand_folder(), HAND_FINGERPRINT)]
    rows += [(r.name, r.count, r.about, built_path(r), r.fingerprint) for r in RECIPES.values()]
    if args.json:
        keys = ("name", "problems", "about", "path", "fingerprint")
        plain = [{**dict(zip(keys, row, strict=True)), "path": str(row[3]), "built": row[3].exists()} for row in rows]
        print(json.dumps(plain))
        return 0
    for name, count, about, path, fingerprint in rows:
        place = path if path.exists() else f"not built yet: `atlas sets build {name}`, or on first use"
        print(f"{name}\n  {count:,} {about.removeprefix('problems ')}\n  {fingerprint[:12]}  {place}")
    return 0


def _build(args: Build) -> int:
    import time

    from atlas.runs.problem_sets import built_path, write_set
    from atlas.runs.progress import bar
    from atlas.sets import RECIPES, fingerprint, one_by_one

    if args.name not in RECIPES:
        hint = nearest(args.name, RECIPES) or f"; sets that can be built are {', '.join(RECIPES)}"
        raise AtlasError(f"there is no recipe for a set called '{args.name}'{hint}")
    recipe = RECIPES[args.name]
    if args.seed != 0 and args.out is None:
        raise AtlasError(f"seed = {args.seed} makes another set than '{args.name}': say with --out where to write it")
    path = built_path(recipe) if args.out is None else args.out
    if path.suffix != ".npz":
        raise AtlasError(f"{path}: a set is written to a .npz file")
    begun = time.monotonic()
    with bar(f"building {args.name}") as progress:
        built = write_set(recipe, path, args.seed, args.workers, progress)
    found, seconds = fingerprint(one_by_one(built.problems)), time.monotonic() - begun
    expected = found == recipe.fingerprint if args.seed == 0 else None
    if args.json:
        report = {"name": args.name, "path": str(path), "problems": recipe.count, "fingerprint": found}
        print(json.dumps(report | {"seconds": seconds, "as_reported": expected, "drawn": built.settings["drawn"]}))
    else:
        print(f"{path}: {recipe.count:,} problems in {seconds:.0f} s, fingerprint {found}{_words(expected)}")
    return 1 if expected is False else 0


def _words(expected: bool | None) -> str:
    if expected is None:
        return ""
    return ", as reported on" if expected else ": NOT the one that results are reported on"


def _verify(args: Verify) -> int:
    from atlas.runs.problem_sets import open_set
    from atlas.runs.progress import bar

    with bar("building") as progress:
        chosen = open_set(args.set, progress=progress)
    same = _duplicates(chosen)
    wrong = _unproven(chosen) if args.prove else []
    known = _known_as(chosen)
    if args.json:
        about = {"path": str(chosen.path), "problems": len(chosen.problems), "fingerprint": chosen.fingerprint}
        print(json.dumps(about | {"known_as": known, "duplicates": same, "proven": args.prove, "unproven": wrong}))
    else:
        print(f"{chosen.path}: {len(chosen.problems):,} problems, fingerprint {chosen.fingerprint}")
        print(
            f"  {f'the set {known} that results are reported on' if known else 'no set that results are reported on'}"
        )
        print(f"  {f'the same as one before: {_some(same)}' if same else 'no two are the same'}")
        if args.prove:
            print(f"  {f'not proven: {_some(wrong)}' if wrong else 'all proven solvable, none trivial'}")
    return 1 if same or wrong else 0


def _some(names: list[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _duplicates(chosen: "ProblemSet") -> list[str]:
    from atlas.sets import identity

    seen: set[Any] = set()
    found = []
    for problem in chosen.problems:
        if (name := identity(problem)) in seen:
            found.append(problem.name)
        seen.add(name)
    return found


def _unproven(chosen: "ProblemSet") -> list[str]:
    from atlas.runs.progress import bar
    from atlas.solver.many import solve_many

    with bar("proving") as progress:
        solutions = solve_many(chosen.problems, chosen.step_limit, bound=False, workers=0, progress=progress)
    return [problem.name for problem, found in zip(chosen.problems, solutions, strict=True) if not found.plan]


def _known_as(chosen: "ProblemSet") -> str | None:
    from atlas.runs.problem_sets import HAND
    from atlas.sets import HAND_FINGERPRINT, RECIPES

    known = {HAND_FINGERPRINT: HAND} | {recipe.fingerprint: recipe.name for recipe in RECIPES.values()}
    return known.get(chosen.fingerprint)
