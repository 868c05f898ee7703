"""Look for mistakes in a set of problems: what cannot be read, cannot be done, is done already or is there twice."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from atlas.domains import name_for, surface_for, vocabulary_of
from atlas.errors import AtlasError
from atlas.runs.problem_files import SUFFIXES, Progress, choose_problem, foreign, load, locate
from atlas.settings import STEP_LIMIT
from atlas.tasks.check import TooInvolvedError, check, equivalent
from atlas.tasks.packed import unpack
from atlas.types import NamedProblem

Kind = Literal["malformed", "unsolvable", "trivial", "duplicate", "task", "unknown", "unreachable"]
ERRORS: Final = ("malformed", "unsolvable", "trivial", "duplicate")
"""Kinds that make a set unfit; the others are hints. Findings about tasks (`task`) have a severity of their own."""


@dataclass(frozen=True)
class Finding:
    """Something that the author of a set should know."""

    problem: str
    """The name of the problem, or the file that could not be read."""
    kind: Kind
    level: Literal["error", "warning"]
    sentence: str


def lint(
    path: Path | str, step_limit: int = STEP_LIMIT, workers: int = 1, progress: Progress = lambda done, total: None
) -> tuple[list[NamedProblem], list[Finding]]:
    """The problems of a set that can be read, and everything that is wrong with it, problem by problem.

    `progress` is told how many are read, and then how many are looked at.
    """
    place, name = locate(path)
    problems, findings = _read(place, set(), progress) if name is None else ([choose_problem(path)], [])
    options = {"step_limit": step_limit, "bound": False, "workers": workers, "progress": progress}
    solutions = surface_for(problems[0]).solve_many(problems, **options) if problems else []
    for problem, solution in zip(problems, solutions, strict=True):
        findings += look_at(problem, solution)
    known = Known()
    for problem in problems:
        findings += filter(None, [known.duplicate(problem)])
        known.add(problem)
    return problems, findings


def _finding(name: str, kind: Kind, sentence: str, level: Literal["error", "warning"] | None = None) -> Finding:
    return Finding(name, kind, level or ("error" if kind in ERRORS else "warning"), sentence)


def _read(path: Path, seen: set[Path], progress: Progress) -> tuple[list[NamedProblem], list[Finding]]:
    """All problems that can be read. A folder with a bad file is read file by file, so that the others are seen too.

    `seen`: the folders so far, since a link may lead back to where it lies.
    """
    try:
        return load(path, progress=progress), []
    except AtlasError as error:
        if not path.is_dir() or path.resolve() in seen:
            return [], [_finding(str(path), "malformed", str(error))]
        message = str(error)
    seen.add(path.resolve())
    problems: list[NamedProblem] = []
    findings: list[Finding] = []
    for part in _parts(path):
        some, wrong = _read(part, seen, progress)
        problems += some
        findings += wrong
    return problems, findings or [_finding(str(path), "malformed", message)]


def _parts(folder: Path) -> list[Path]:
    if theirs := foreign("is_folder", folder):
        return theirs.levels_in_folder(folder)
    return [p for p in sorted(folder.iterdir()) if not p.name.startswith(".") and (p.is_dir() or p.suffix in SUFFIXES)]


Found = tuple[Kind, str] | tuple[Kind, str, Literal["error", "warning"]]


def look_at(problem: NamedProblem, solution: Any) -> list[Finding]:
    """The mistakes of one problem, given the solver's verdict on it."""
    return [_finding(problem.name, *found) for found in _look_at(problem, solution)]


def _look_at(problem: NamedProblem, solution: Any) -> Iterator[Found]:
    for doubt in check(unpack(problem.task), vocabulary_of(name_for(problem))):
        yield "task", doubt.sentence, "error" if doubt.level == "error" else "warning"
    if solution.trivial:
        yield "trivial", solution.reason
    elif solution.verdict != "solvable":
        yield solution.verdict, solution.reason
    for hint in surface_for(problem).hints(problem):
        yield "unreachable", hint


def _same(one: NamedProblem, other: NamedProblem) -> bool:
    """Whether two tasks in one level mean the same, as far as that can be told in time."""
    try:
        return equivalent(unpack(one.task), unpack(other.task), vocabulary_of(name_for(one)))
    except TooInvolvedError:
        return False


class Known:
    """Problems by their levels, to find those that are there already."""

    def __init__(self, problems: Iterable[NamedProblem] = ()) -> None:
        self._by_level: dict[tuple[tuple[str, str], ...], list[NamedProblem]] = {}
        for problem in problems:
            self.add(problem)

    def _alike(self, problem: NamedProblem) -> list[NamedProblem]:
        return self._by_level.setdefault(tuple(surface_for(problem).format_level(problem.level).items()), [])

    def add(self, problem: NamedProblem) -> None:
        self._alike(problem).append(problem)

    def duplicate(self, problem: NamedProblem, besides: str | None = None) -> Finding | None:
        """A finding if a problem, besides that of a name, has the same level and a task that means the same."""
        for known in self._alike(problem):
            if known.name != besides and _same(known, problem):
                sentence = f"the same level as {known.name}, and a task that means the same"
                return _finding(problem.name, "duplicate", sentence)
        return None
