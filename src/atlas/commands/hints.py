"""A hint at what to try next: a line after the result of a command, for people at a terminal."""

from collections.abc import Sequence
from typing import Final

from atlas.words import command

Line = tuple[str, ...]
FIRST_ARGUMENT: Final = "FIRST_ARGUMENT"
"""Stands for the first argument of the command that has just run."""
AFTER: Final[dict[str, tuple[Line, Line]]] = {
    "resume": (("watch", FIRST_ARGUMENT), ("zoo",)),
    "sweep": (("report", "RUN", "RUN", "--out", "report.html"), ("sweep", "--help")),
    "eval": (("report", FIRST_ARGUMENT, "--out", "report.html"), ("eval", "zoo:quick", "--problems", "hand")),
    "compare": (("report", FIRST_ARGUMENT, "--out", "report.html"), ("compare", "--help")),
    "report": (("watch", FIRST_ARGUMENT), ("zoo",)),
    "reproduce": (("report", "RUN", "--reference", "paper"), ("reproduce", "--list")),
    "lineage": (("report", FIRST_ARGUMENT, "--out", "report.html"), ("lineage", "--help")),
    "watch": (("eval", FIRST_ARGUMENT), ("zoo",)),
    "zoo": (("watch", "zoo:quick", "--task", "pick up a key, then go to a ball"),) * 2,
    "export": (("eval", FIRST_ARGUMENT, "--problems", "hand"), ("zoo",)),
    "sample": (("play",),) * 2,
    "show": (("solve", FIRST_ARGUMENT), ("play",)),
    "studio": (("watch", "zoo:quick"),) * 2,
    "edit": (("solve", FIRST_ARGUMENT), ("sample", "-n", "6")),
    "task": (("watch", "zoo:quick", "--task", FIRST_ARGUMENT), ("task", "--help")),
    "trace": (("play", FIRST_ARGUMENT), ("play",)),
    "play": (("solve", FIRST_ARGUMENT), ("watch", "zoo:quick")),
    "solve": (("watch", "zoo:laptop", FIRST_ARGUMENT), ("solve", "hand")),
    "demos": (("demos", "--help"),) * 2,
    "lint": (("solve", FIRST_ARGUMENT), ("sets", "list")),
    "sets": (("eval", "zoo:quick", "--problems", "hand"),) * 2,
    "bench": (("info",),) * 2,
    "info": (("zoo",),) * 2,
    "presets": (("train", FIRST_ARGUMENT), ("train", "quick")),
}
"""Command -> what to try after it: with an argument and without. `train` ends with such lines of its own."""


def after(name: str, arguments: Sequence[str]) -> str:
    """The line, or nothing: after help, JSON, and commands that say it themselves."""
    if name not in AFTER or {"-h", "--help", "--json"} & {*arguments}:
        return ""
    subject = arguments[0] if arguments and not arguments[0].startswith("-") else None
    with_subject, without = AFTER[name]
    line = without if subject is None else with_subject
    return f"try next: {command(*(subject if word == FIRST_ARGUMENT else word for word in line))}"
