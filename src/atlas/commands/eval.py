"""`atlas eval`: how good policies are on a set of problems, and where they fail."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from atlas.errors import AtlasError

if TYPE_CHECKING:
    from atlas.runs.evaluations import Terms
    from atlas.runs.policy import Policy
    from atlas.runs.problem_sets import ProblemSet
    from atlas.trials import Attempts, Trials

ATTEMPTS, ATTEMPTS_OVER_TIME = 10, 2


@dataclass(frozen=True)
class Args:
    """Play every problem of a set several times with one or more trained policies, without learning.

    Prints solve rates with 95 % intervals: by problem, by tag, over all (mean, median, interquartile mean) and on the
    worst problems (CVaR). Every run keeps its result in RUN/evaluations. Sizes come from the set: policies play
    problems larger than any they were trained on.
    """

    policies: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders, checkpoints (RUN/checkpoints/123) or kept policies (RUN/policies/….npz)."""
    problems: str = "hand"
    """The set: hand, cvar-sequential, cvar-dag, validation, or any file or folder that ATLAS reads."""
    attempts: int | None = None
    """Attempts at each problem; 10, or 2 over time."""
    greedy: bool = False
    """Always take the likeliest action instead of drawing one."""
    seed: int = 0
    """Everything random follows from it."""
    step_limit: int | None = None
    """Steps that an attempt may take; the set's own (512) if not given."""
    which: Literal["last", "best"] = "last"
    """Which checkpoint of a run: the last one, or the best on its held-out problems."""
    over_time: bool = False
    """Evaluate all policies that a run has kept, and tell how it learnt."""
    skip_bad: bool = False
    """Go on without files that cannot be read."""
    all: bool = False
    """Print every problem, not only the worst."""
    json: Path | None = None
    """Write everything to this file as well (- for the standard output, and nothing else is printed)."""


def main(argv: list[str]) -> int:
    """Play, count, write, print."""
    args = tyro.cli(Args, args=argv, prog="atlas eval")
    if not args.policies:
        raise AtlasError("no policy was given: name one or more run folders or checkpoints")
    from atlas.runs.cache import remember_compiled
    from atlas.runs.policy import load_policy, policies_over_time

    remember_compiled()
    if args.over_time:
        kept = {path: policies_over_time(path) for path in args.policies}
        for path, files in kept.items():
            if not files:
                raise AtlasError(f"{path} has kept no policies: there is nothing in {path / 'policies'}")
        _evaluate_over_time(args, kept)
    else:
        _evaluate(args, [load_policy(path, args.which) for path in args.policies])
    return 0


def _evaluate(args: Args, policies: "list[Policy]") -> None:
    from atlas.runs.evaluation_tables import print_evaluation
    from atlas.runs.evaluations import evaluation, evaluation_file, write_evaluation

    chosen, terms, trials = _prepare(args, ATTEMPTS)
    results = [(policy, _attempts(trials, policy, str(policy.run))) for policy in policies]
    plans = _plan_lengths(chosen, max(terms.step_limit, chosen.step_limit))
    files = [evaluation_file(policy, chosen.name, given) for given, policy in zip(args.policies, policies, strict=True)]
    for file, pair in zip(files, results, strict=True):
        content = evaluation(chosen, plans, terms, [pair])
        write_evaluation(file, content)
    if len(results) > 1:
        content = evaluation(chosen, plans, terms, results)
    if _write_json(args, content):
        print_evaluation(content, args.all, files)


def _evaluate_over_time(args: Args, kept: dict[Path, list[Path]]) -> None:
    from atlas.runs.evaluation_tables import print_curve
    from atlas.runs.evaluations import over_time, over_time_file, write_evaluation
    from atlas.runs.policy import load_policy, run_of

    chosen, terms, trials = _prepare(args, ATTEMPTS_OVER_TIME)
    curves = []
    for path, files in kept.items():
        policies = [load_policy(file) for file in files]
        words = f"{path}, {{}} of {len(files)}"
        pairs = [(p, _attempts(trials, p, words.format(n))) for n, p in enumerate(policies, start=1)]
        curve = over_time(chosen, terms, run_of(path), pairs)
        write_evaluation(over_time_file(run_of(path), chosen.name), curve)
        curves.append(curve)
    if _write_json(args, curves[0] if len(curves) == 1 else {"runs": curves}):
        for curve in curves:
            print_curve(curve)


def _prepare(args: Args, attempts: int) -> "tuple[ProblemSet, Terms, Trials]":
    import sys

    from atlas.runs.evaluations import Terms
    from atlas.runs.problem_sets import open_set
    from atlas.runs.progress import bar
    from atlas.trials import Trials

    with bar("proving") as progress:
        chosen = open_set(args.problems, args.skip_bad, progress)
    for sentence in chosen.bad:
        print(f"atlas: skipped: {sentence}", file=sys.stderr)
    attempts = attempts if args.attempts is None else args.attempts
    limit = chosen.step_limit if args.step_limit is None else args.step_limit
    terms = Terms(attempts, args.greedy, args.seed, limit)
    return chosen, terms, Trials(chosen.problems, terms.attempts, terms.step_limit, terms.greedy, terms.seed)


def _attempts(trials: "Trials", policy: "Policy", words: str) -> "Attempts":
    from atlas.runs.progress import bar

    with bar(words) as progress:
        return trials.of_student(policy.student, policy.params, progress)


def _plan_lengths(chosen: "ProblemSet", step_limit: int) -> "Sequence[int | None]":
    """How long the prover's plans are: as the set says, else found now."""
    from atlas.runs.progress import bar
    from atlas.solver.many import solve_many

    if chosen.plan_lengths is not None:
        return chosen.plan_lengths
    with bar("proving") as progress:
        solutions = solve_many(chosen.problems, step_limit, bound=False, workers=0, progress=progress)
    return [solution.plan_length for solution in solutions]


def _write_json(args: Args, content: dict[str, Any]) -> bool:
    """Write what a machine wants; whether a person is still to be told."""
    import json

    from atlas.runs.evaluations import write_evaluation

    if args.json is None:
        return True
    if str(args.json) == "-":
        print(json.dumps(content, ensure_ascii=False))
        return False
    write_evaluation(args.json, content)
    return True
