"""Public functions that need to know what a proposition of Minigrid is."""

from collections.abc import Iterable
from typing import Any

from atlas.tasks.follow import Followed, Label
from atlas.types import Problem
from atlas.vocabulary import Vocabulary


def follow(task: Any, labels: Iterable[Label], vocabulary: Vocabulary | None = None) -> list[Followed]:
    """Follow a task (or that of a problem) through labels: one record for each, from the initial state on.

    A label is the set of propositions that hold, by name (`front_ball_red`) or id. It is taken as given: name what it
    implies too (`front_ball`), if the task asks for it.
    """
    from atlas.tasks import follow as following

    inner = task.task if isinstance(task, Problem) else task
    return following.follow(inner, labels, vocabulary or minigrid_vocabulary())


def english(text: str) -> Any:
    """The task that English words describe: a machine, or a hierarchy if they speak of routines."""
    from atlas.tasks.english import english as read

    return read(text, minigrid_vocabulary())


def ltlf(text: str) -> Any:
    """The machine of an LTLf formula, read as co-safe."""
    from atlas.tasks.ltlf import ltlf as read

    return read(text, minigrid_vocabulary())


def explain(task: Any) -> str:
    """A task (or that of a problem) in English that `english` reads back."""
    from atlas.tasks.explain import explain as say

    return say(task.task if isinstance(task, Problem) else task, minigrid_vocabulary())


def minigrid_vocabulary() -> Vocabulary:
    """The 889 propositions of Minigrid."""
    from atlas.domains.minigrid.alphabet import VOCABULARY

    return VOCABULARY
