"""A problem for a task that somebody asks for in words: a level is drawn that affords it, and it is proven solvable."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax
import numpy as np

from atlas.domains import domain_of, name_for, surface_for, surface_of, vocabulary_of
from atlas.errors import AtlasError, LevelNeededError, listed
from atlas.settings import STEP_LIMIT, DomainSettings
from atlas.tasks.english import Reading, read
from atlas.tasks.explain import in_one_line
from atlas.tasks.machine import Task
from atlas.types import About, Level, NamedProblem
from atlas.vocabulary import Vocabulary

DRAWN: Final = 64
"""Levels that are drawn before it is said that none affords the task."""
MOST_LETTERS: Final = 60
"""Most letters in the name of a problem."""


@dataclass(frozen=True)
class ProblemFromText:
    """A problem, and how the words were understood."""

    problem: NamedProblem
    understood: str
    """The task in one line."""
    notes: tuple[str, ...]
    """Other readings of the words."""
    plan: Sequence[int] | None
    """Actions that solve it; None where no plan was found."""
    verdict: str
    """The prover's verdict, in words."""


def problem_from_text(
    words: str, settings: DomainSettings, seed: int = 0, step_limit: int = STEP_LIMIT
) -> ProblemFromText:
    """A problem for a task in words, in a level of some settings; the same seed draws the same one."""
    vocabulary, domain, surface = vocabulary_of(settings.name), domain_of(settings), surface_of(settings.name)
    try:
        reading = read(words, vocabulary)
    except LevelNeededError:  # what `all` means is read in each level anew
        reading = None
    props = [] if reading is None else mentioned(reading.task)
    keys = jax.random.split(jax.random.key(np.uint32(seed)), DRAWN)
    if props:
        padded = np.full(max(8, 1 << (len(props) - 1).bit_length()), -1, np.int32)
        padded[: len(props)] = [p if domain.mask[p] else -1 for p in props]
        levels = jax.jit(jax.vmap(domain.sample_for, in_axes=(0, None)))(keys, padded)
    else:
        levels = jax.jit(jax.vmap(domain.sample))(keys)

    levels, reasons = jax.device_get(levels), list[str]()
    for number in range(DRAWN):
        level = surface.crop(jax.tree.map(lambda leaf, n=number: leaf[n], levels))
        try:
            found = reading or read(words, vocabulary, surface.things(level))
        except LevelNeededError as error:
            reasons.append(str(error))
            continue
        problem = _problem(words, level, found)
        (solution,) = surface.solve_many([problem], step_limit=step_limit, bound=False)
        if solution.plan:  # one of no steps is for a task that is done before anything is
            return _from_text(problem, found, vocabulary, solution)
        reasons.append(solution.reason)
    lacking = listed([vocabulary.names[p] for p in props if not domain.mask[p]], "and")
    why = f"its levels never have {lacking}" if lacking else max(reversed(reasons), key=reasons.count)
    raise AtlasError(f"'{words}': none of {DRAWN} levels that were drawn affords it: {why}")


def problem_in_level(words: str, level: Level, step_limit: int = STEP_LIMIT) -> ProblemFromText:
    """A task in words, in a level that is given, whatever the prover says about it."""
    vocabulary, surface = vocabulary_of(name_for(level)), surface_for(level)
    reading = read(words, vocabulary, surface.things(level))
    problem = _problem(words, level, reading)
    (solution,) = surface.solve_many([problem], step_limit=step_limit, bound=False)
    return _from_text(problem, reading, vocabulary, solution)


def mentioned(task: Task) -> list[int]:
    """The propositions that a task asks for or forbids; negated ones need nothing to be there."""
    return list(dict.fromkeys(x - 1 for m in task.machines for edge in m.edges for x in edge.literals if x > 0))


def _problem(words: str, level: Level, reading: Reading) -> NamedProblem:
    name = " ".join(words.split())
    name = name if len(name) <= MOST_LETTERS else name[: MOST_LETTERS - 2] + " …"
    return NamedProblem(level=level, task=reading.task, about=About(name=name))


def _from_text(problem: NamedProblem, reading: Reading, vocabulary: Vocabulary, solution: Any) -> ProblemFromText:
    understood = in_one_line(reading.task, vocabulary, reading.phrase)
    return ProblemFromText(problem, understood, reading.notes, solution.plan, f"{solution.verdict}: {solution.reason}")
