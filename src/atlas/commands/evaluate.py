"""`atlas eval` and `atlas sets`: how good policies are, and the sets that they are compared on."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from atlas.commands.checks import require_positive, require_workers
from atlas.commands.inputs import DOMAIN
from atlas.documents import require_file, require_folder
from atlas.errors import AtlasError, nearest
from atlas.runs.folder import is_in_zoo
from atlas.settings import require_seed
from atlas.words import command, plural

# `atlas eval`: how good policies are on a set of problems, and where they fail.

if TYPE_CHECKING:
    from atlas.evaluation.play import Attempts, Evaluator
    from atlas.evaluation.results import Terms
    from atlas.evaluation.sets import ProblemSet
    from atlas.runs.policy import Policy

ATTEMPTS, ATTEMPTS_OVER_TIME = 20, 2
"""CVaR ranks problems by 10 attempts and averages 10 others."""


@dataclass(frozen=True)
class EvalArgs:
    """Play every problem of a set several times with one or more trained policies, without learning.

    Prints solve rates with 95 % intervals: by problem, by tag, over all (mean, median, interquartile mean) and on the
    worst problems (CVaR). Every run keeps its result in RUN/evaluations; that of a policy of the zoo goes to --out, or
    to evaluations/zoo-NAME in the current folder. Sizes come from the set: policies play
    problems larger than any they were trained on.
    """

    policies: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders, checkpoints (RUN/checkpoints/123), kept policies (RUN/policies/….npz), or policies that come with
    ATLAS (zoo:NAME; `atlas zoo` lists them)."""
    problems: str | None = None
    """The set: hand, cvar-sequential, cvar-dag, cvar-paper-dag, validation, dev, babyai, in LetterWorld
    letters-sequences, letters-reach-avoid, letters-parity, any file or folder that ATLAS reads, or SET:NAME. If not
    given, the first of the domain that the policies were trained in: hand, or letters-sequences."""
    attempts: int | None = None
    """Attempts at each problem; 20 (10 rank the problems for CVaR, 10 others are averaged), or 2 over time."""
    greedy: bool = False
    """Always take the likeliest action instead of drawing one. All attempts at a problem are then the same, so one is
    made, and the result is kept beside that of drawn actions."""
    seed: int = 0
    """Everything random follows from it."""
    step_limit: int | None = None
    """Steps that an attempt may take; the set's own (512) if not given."""
    which: Literal["last", "best"] = "last"
    """Which checkpoint of a run: the last one, or the best on its held-out problems."""
    over_time: bool = False
    """Evaluate all policies that a run has kept, and tell how it learnt."""
    points: int | None = None
    """With --over-time: at most so many of them, evenly over the run, the first and the last among them."""
    skip_bad: bool = False
    """Go on without files that cannot be read."""
    all: bool = False
    """Print every problem, not only the worst."""
    out: Path | None = None
    """Write everything to this file as well, as JSON."""
    json: bool = False
    """Print everything as JSON, and nothing else."""


def eval_command(argv: list[str]) -> int:
    """Play, count, write, print."""
    args = tyro.cli(EvalArgs, args=argv, prog="atlas eval")
    if not args.policies:
        raise AtlasError("no policy was given: name one or more run folders or checkpoints")
    require_seed(args.seed)
    require_positive(attempts=args.attempts, step_limit=args.step_limit, points=args.points)
    if args.points and not args.over_time:
        raise AtlasError("--points is for --over-time alone")
    require_file(args.out, ".json")
    from atlas.evaluation.results import results_folder
    from atlas.runs.policy import load_policy, policies_over_time, run_of
    from atlas.runs.store import remember_compiled

    for path in args.policies:
        if is_in_zoo(path) and args.out is None:
            require_folder(results_folder(path))
    remember_compiled()
    if args.over_time:
        kept = {path: policies_over_time(path, args.points) for path in args.policies}
        for path, files in kept.items():
            if not files:
                raise AtlasError(f"{path} has kept no policies: there is nothing in {run_of(path) / 'policies'}")
        _evaluate_over_time(args, kept)
    else:
        _evaluate(args, [load_policy(path, args.which) for path in args.policies])
    return 0


def _evaluate(args: EvalArgs, policies: "list[Policy]") -> None:
    from atlas.evaluation.results import by_experiment, evaluation, evaluation_file, print_evaluation, write_evaluation
    from atlas.runs.folder import called
    from atlas.runs.screen import wrote

    chosen, terms, evaluator = _prepare(args, policies, ATTEMPTS)
    results = [(policy, _attempts(evaluator, policy, called(policy.run))) for policy in policies]
    plans = _plan_lengths(chosen, max(terms.step_limit, chosen.step_limit))
    files: list[Path | None] = []
    for (policy, attempts), path in zip(results, args.policies, strict=True):
        content = evaluation(chosen, plans, terms, [(policy, attempts)])
        if not _goes_out(args, path):
            file = evaluation_file(policy, chosen.name, path, args.greedy)
            write_evaluation(file, content)
            files.append(file)
    if len(results) > 1:
        experiments = [evaluation(chosen, plans, terms, group) for group in by_experiment(results)]
        content = (
            experiments[0] if len(experiments) == 1 else {"set": experiments[0]["set"], "experiments": experiments}
        )
    if not _write_json(args, content):
        return
    for number, one in enumerate(content.get("experiments", [content])):
        print(end="\n" * (number > 0))
        print_evaluation(one, args.all)
    if "experiments" in content:
        told = "not averaged: their settings differ by more than the seed, or their seeds are the same"
        print(f"\n{told}; `{command('compare', *args.policies[:2])}` tells what differs")
    for written in [*files, args.out]:
        wrote(written)


def _evaluate_over_time(args: EvalArgs, kept: dict[Path, list[Path]]) -> None:
    from atlas.evaluation.results import over_time, over_time_file, print_curve, write_evaluation
    from atlas.runs.policy import load_policy, run_of

    loaded = {path: [load_policy(file) for file in files] for path, files in kept.items()}
    chosen, terms, evaluator = _prepare(
        args, [policy for some in loaded.values() for policy in some], ATTEMPTS_OVER_TIME
    )
    curves = []
    for path, policies in loaded.items():
        words = f"{path}, {{}} of {len(policies)}"
        pairs = [(p, _attempts(evaluator, p, words.format(n))) for n, p in enumerate(policies, start=1)]
        curve = over_time(chosen, terms, run_of(path), pairs)
        if not _goes_out(args, path):
            write_evaluation(over_time_file(path, chosen.name, args.greedy), curve)
        curves.append(curve)
    if _write_json(args, curves[0] if len(curves) == 1 else {"runs": curves}):
        for curve in curves:
            print_curve(curve)


def _goes_out(args: EvalArgs, path: Path) -> bool:
    """Whether a result goes to --out alone: that of a policy of the zoo, which has no run to keep it."""
    return args.out is not None and is_in_zoo(path)


def _prepare(args: EvalArgs, policies: "list[Policy]", attempts: int) -> "tuple[ProblemSet, Terms, Evaluator]":
    import sys

    from atlas.evaluation.play import Evaluator
    from atlas.evaluation.results import Terms
    from atlas.evaluation.sets import first_set, open_set
    from atlas.runs.display import bar

    given = args.problems if args.problems is not None else first_set(policies[0].config.domain.name)
    with bar("preparing problems") as progress:
        chosen = open_set(given, args.skip_bad, progress)
    for policy in policies:
        policy.require_domain(chosen.problems)
    for sentence in chosen.bad:
        print(f"atlas: skipped: {sentence}", file=sys.stderr)
    if args.greedy and args.attempts not in (None, 1):
        raise AtlasError(f"--attempts {args.attempts} and --greedy: greedy attempts at a problem are all the same")
    attempts = 1 if args.greedy else attempts if args.attempts is None else args.attempts
    limit = chosen.step_limit if args.step_limit is None else args.step_limit
    terms = Terms(attempts, args.greedy, args.seed, limit)
    return chosen, terms, Evaluator(chosen.problems, terms.attempts, terms.step_limit, terms.greedy, terms.seed)


def _attempts(evaluator: "Evaluator", policy: "Policy", words: str) -> "Attempts":
    from atlas.runs.display import bar

    with bar(words) as progress:
        return evaluator.of_student(policy.student, policy.params, progress)


def _plan_lengths(chosen: "ProblemSet", step_limit: int) -> "Sequence[int | None]":
    """How long the prover's plans are: as the set says, else found now."""
    from atlas.domains import surface_for
    from atlas.runs.display import bar

    if chosen.plan_lengths is not None:
        return chosen.plan_lengths
    with bar("proving") as progress:
        solutions = surface_for(chosen.problems[0]).solve_many(
            chosen.problems, step_limit=step_limit, bound=False, workers=0, progress=progress
        )
    return [solution.plan_length for solution in solutions]


def _write_json(args: EvalArgs, content: dict[str, Any]) -> bool:
    """Write the JSON if it is asked for; returns whether tables are to be printed as well."""
    from atlas.evaluation.results import write_evaluation

    if args.out is not None:
        write_evaluation(args.out, content)
    if args.json:
        print(json.dumps(content, ensure_ascii=False))
    return not args.json


# `atlas compare`: two policies on one set.


@dataclass(frozen=True)
class CompareArgs:
    """Tell what one policy does better or worse than another: over all, by tag, and the problems that changed most.

    Both must have been evaluated on the same set (`atlas eval`). Problems are paired, so the interval of the difference
    is narrower than those of the two numbers.
    """

    one: tyro.conf.Positional[Path]
    """A run folder, a policy of the zoo (zoo:NAME), or a file that `atlas eval` wrote."""
    other: tyro.conf.Positional[Path]
    """The same for the policy that it is compared with."""
    problems: str | None = None
    """The set, where runs were evaluated on several; hand if both were, else the only one they share."""
    seed: int = 0
    """What is drawn again follows from it."""
    all: bool = False
    """Print every problem that changed, not only those that changed most."""
    json: bool = False
    """Print JSON."""


def compare_command(argv: list[str]) -> int:
    """Read, compare, print."""
    args = tyro.cli(CompareArgs, args=argv, prog="atlas compare")
    from atlas.evaluation.compare import compare, find_evaluations, print_comparison
    from atlas.runs.display import bar

    with bar("comparing"):
        one, other = find_evaluations([args.one, args.other], args.problems)
        content = compare(one, other, args.seed)
    if args.json:
        print(json.dumps(content, ensure_ascii=False))
    else:
        print_comparison(content, args.all)
    return 0


# `atlas sets`: the sets that policies are compared on.

if TYPE_CHECKING:
    from atlas.evaluation.sets import ProblemSet


@dataclass(frozen=True)
class List:
    """List the sets that have a name."""

    domain: Annotated[str | None, DOMAIN] = None
    """Only those of minigrid, or of letterworld."""
    json: bool = False
    """Print JSON."""


@dataclass(frozen=True)
class Build:
    """Draw a set and certify every problem of it: solvable by a plan, not trivial, no two the same."""

    name: tyro.conf.Positional[str]
    """cvar-sequential, cvar-dag, cvar-paper-dag, validation, dev, babyai, letters-sequences, letters-reach-avoid or
    letters-parity."""
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
    """A file, a folder, SET:NAME, or the name of a set."""
    prove: bool = False
    """Prove every problem again, which takes minutes for large sets."""
    json: bool = False
    """Print JSON."""


SetsArgs = (
    Annotated[List, tyro.conf.subcommand("list")]
    | Annotated[Build, tyro.conf.subcommand("build")]
    | Annotated[Verify, tyro.conf.subcommand("verify")]
)


def sets_command(argv: list[str]) -> int:
    """List, build or verify."""
    chosen: Any = tyro.cli(
        SetsArgs,
        args=argv,
        prog="atlas sets",
        description="The sets that policies are compared on: drawn from a seed, certified, told apart by fingerprints.",
    )
    if isinstance(chosen, List):
        return _list(chosen)
    return _build(chosen) if isinstance(chosen, Build) else _verify(chosen)


def _list(args: List) -> int:
    from atlas.evaluation.sets import named_sets

    sets = named_sets(args.domain).values()
    rows = [(one.name, one.count, one.about, one.path(), one.fingerprint) for one in sets]
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

    from atlas.evaluation.sets import fingerprint, one_by_one, recipes, write_set
    from atlas.runs.display import bar

    known = recipes()
    if args.name not in known:
        hint = nearest(args.name, known) or f"; sets that can be built are {', '.join(known)}"
        raise AtlasError(f"there is no recipe for a set called '{args.name}'{hint}")
    recipe = known[args.name]
    require_seed(args.seed)
    require_workers(args.workers)
    require_file(args.out, ".npz")
    if args.seed != 0 and args.out is None:
        raise AtlasError(f"seed = {args.seed} makes another set than '{args.name}': say with --out where to write it")
    path = recipe.path() if args.out is None else args.out
    begun = time.monotonic()
    with bar(f"building {args.name}") as progress:
        built = write_set(recipe, path, args.seed, args.workers, progress)
    found, seconds = fingerprint(one_by_one(built.problems)), time.monotonic() - begun
    expected = found == recipe.fingerprint if args.seed == 0 else None
    if args.json:
        report = {"name": args.name, "path": str(path), "problems": recipe.count, "fingerprint": found}
        report |= {"seconds": seconds, "as_reported": expected}
        print(json.dumps(report | {key: told for key, told in built.settings.items() if key != "plan_lengths"}))
    else:
        from atlas.runs.screen import Screen, wrote

        wrote(path, f"{recipe.count:,} problems in {seconds:.0f} s, fingerprint {found}{_words(expected)}")
        if told := recipe.report(built.settings):
            Screen().print(*told, sep="\n")
    return 1 if expected is False else 0


def _words(expected: bool | None) -> str:
    if expected is None:
        return ""
    return ", as reported on" if expected else ": NOT the one that results are reported on"


def _verify(args: Verify) -> int:
    from atlas.evaluation.sets import open_set
    from atlas.runs.display import bar

    with bar("building") as progress:
        chosen = open_set(args.set, progress=progress)
    same = _duplicates(chosen)
    wrong = _unproven(chosen) if args.prove else []
    known = _known_as(chosen)
    if args.json:
        about = {"path": str(chosen.path), "problems": len(chosen.problems), "fingerprint": chosen.fingerprint}
        print(json.dumps(about | {"known_as": known, "duplicates": same, "proven": args.prove, "unproven": wrong}))
    else:
        print(f"{chosen.path}: {plural(len(chosen.problems), 'problem')}, fingerprint {chosen.fingerprint}")
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
    from atlas.evaluation.sets import identity

    seen: set[Any] = set()
    found = []
    for problem in chosen.problems:
        if (name := identity(problem)) in seen:
            found.append(problem.name)
        seen.add(name)
    return found


def _unproven(chosen: "ProblemSet") -> list[str]:
    from atlas.domains import surface_for
    from atlas.runs.display import bar

    with bar("proving") as progress:
        solutions = surface_for(chosen.problems[0]).solve_many(
            chosen.problems, step_limit=chosen.step_limit, bound=False, workers=0, progress=progress
        )
    return [problem.name for problem, found in zip(chosen.problems, solutions, strict=True) if not found.plan]


def _known_as(chosen: "ProblemSet") -> str | None:
    from atlas.evaluation.sets import named_sets

    return next((name for name, one in named_sets().items() if one.fingerprint == chosen.fingerprint), None)
