"""The sets of LetterWorld problems that policies are compared on: the task families of the literature, on maps that
hold every letter twice. All are drawn from a seed, equally many for each length of the task.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from atlas.config import Config, TaskConfig
from atlas.domains.letterworld.settings import LetterWorldConfig
from atlas.evaluation.sets import Recipe
from atlas.types import Problem
from atlas.vocabulary import ACCEPTED

LENGTHS: Final = range(1, 6)
COUNT: Final = 200
"""Problems of each length."""


def _lengths(problems: Problem) -> Any:
    return np.argmax(np.asarray(problems.task.outcome)[:, 0] == ACCEPTED, axis=1)


def _kinds(batch: Problem) -> Sequence[int]:
    return (_lengths(batch) - LENGTHS[0]).tolist()


def _tags(problems: Problem) -> list[tuple[str, ...]]:
    return [(f"length-{length}",) for length in _lengths(problems)]


def _recipe(name: str, about: str, tasks: TaskConfig, fingerprint: str) -> Recipe:
    return Recipe(
        name=name,
        about=about,
        config=Config(domain=LetterWorldConfig(), tasks=tasks),
        count=COUNT * len(LENGTHS),
        kind_of=_kinds,
        kinds=len(LENGTHS),
        tags=_tags,
        provenance={"domain": "letterworld", "tasks": tasks.sampler, "max_avoid": tasks.max_avoid},
        fingerprint=fingerprint,
    )


SETS: Final = (
    _recipe(
        "letters-sequences", "problems of LetterWorld: one to five letters in order",
        TaskConfig(max_length=LENGTHS[-1]), "44b3af604d186d2036bd88b688d35c8254e357993814f4109ecea5f8d30a6562",
    ),
    _recipe(
        "letters-reach-avoid", "problems of LetterWorld: one to five letters in order, another forbidden before each",
        TaskConfig(sampler="reach-avoid", max_length=LENGTHS[-1]),
        "9810f880cb79f1083b524846e65841141943875d50b86e0621361ef52684d1c7",
    ),
    _recipe(
        "letters-parity", "problems of LetterWorld: one to five letters in order, each undone by another",
        TaskConfig(sampler="parity", max_length=LENGTHS[-1]),
        "e2f717967629c8c4eabd4f96ed19cd6f081fe2e89a2769941676a922de90f9e3",
    ),
)  # fmt: skip
