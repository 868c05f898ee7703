"""Tasks in problem files: a text is English; a mapping says `english: …`, `ltlf: …` or `transitions: …`."""

import warnings
from typing import Any, Final

from atlas.errors import AtlasError, nearest
from atlas.tasks import explicit
from atlas.tasks.check import check
from atlas.tasks.english import english
from atlas.tasks.explain import explain, is_prose
from atlas.tasks.ltlf import ltlf
from atlas.tasks.names import machine_name
from atlas.tasks.place import TaskWarning
from atlas.tasks.view import view
from atlas.vocabulary import Vocabulary

_KINDS: Final = ("english", "ltlf", "transitions")


def parse_task(value: Any, vocabulary: Vocabulary) -> Any:
    """The machine or hierarchy that a YAML value describes.

    Refused: what cannot be read, cyclic calls, acceptance that no path leads to. Everything doubtful (guards that can
    hold at once or never, formulas that are not co-safe) is a `TaskWarning`.
    """
    if isinstance(value, str):
        return english(value, vocabulary)
    if not isinstance(value, dict):
        raise AtlasError("a task must be a sentence, or a mapping with one of " + ", ".join(_KINDS))
    kind = _kind(value)
    if kind == "transitions":
        return _checked(explicit.parse(value, vocabulary), vocabulary)
    if not isinstance(value[kind], str):
        raise AtlasError(f"{kind}: a text is needed")
    return (english if kind == "english" else ltlf)(value[kind], vocabulary)


def _checked(task: Any, vocabulary: Vocabulary) -> Any:
    """The task, if every machine has a path to acceptance; what else is odd about it becomes warnings."""
    seen = view(task)
    for number, machine in enumerate(seen.machines):
        if machine.edges and not machine.can_accept:
            name = "" if seen.is_flat else f"{machine_name(number)}: "
            raise AtlasError(f"{name}no path leads from u0 to uA, so the task could never be accepted")
    for finding in check(task, vocabulary):
        warnings.warn(finding.sentence, TaskWarning, stacklevel=3)
    return task


def _kind(value: dict[str, Any]) -> str:
    known = (*_KINDS, *explicit.KEYS)
    for key in value:
        if key not in known:
            raise AtlasError(
                f"'{key}' is not a key of a task{nearest(str(key), known) or '; known: ' + ', '.join(known)}"
            )
    kinds = [key for key in _KINDS if key in value]
    if len(kinds) != 1:
        raise AtlasError(f"a task needs one of {', '.join(_KINDS)}; here are {' and '.join(kinds) or 'none'}")
    return kinds[0]


def task_to_plain(task: Any, vocabulary: Vocabulary) -> dict[str, Any]:
    """The task as explicit transitions that YAML can hold: same states, rewards and calls when read back."""
    return explicit.to_plain(task, vocabulary)


def format_task(task: Any, vocabulary: Vocabulary) -> Any:
    """The shortest value that is read back as the same task: a sentence, short transitions, or explicit ones."""
    text = explain(task, vocabulary)
    if is_prose(text) and view(english(text, vocabulary)) == view(task):
        return text
    return explicit.to_short(task, vocabulary) or explicit.to_plain(task, vocabulary)
