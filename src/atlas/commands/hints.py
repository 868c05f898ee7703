"""What to try next: a line after the result of a command, for people at a terminal."""

from collections.abc import Sequence
from typing import Final

from atlas.words import command

Line = tuple[str, ...]
IT: Final = "IT"
"""Stands for what the command was about: its first argument."""
AFTER: Final[dict[str, tuple[Line, Line]]] = {
    "resume": (("watch", IT), ("zoo",)),
    "sweep": (("report", "RUN", "RUN", "--out", "report.html"), ("sweep", "--help")),
    "eval": (("report", IT, "--out", "report.html"), ("eval", "zoo:quick", "--problems", "hand")),
    "compare": (("report", IT, "--out", "report.html"), ("compare", "--help")),
    "report": (("watch", IT), ("zoo",)),
    "reproduce": (("report", "RUN", "--reference", "paper"), ("reproduce", "--list")),
    "lineage": (("report", IT, "--out", "report.html"), ("lineage", "--help")),
    "watch": (("eval", IT), ("zoo",)),
    "zoo": (("watch", "zoo:quick", "--task", "pick up a key, then go to a ball"),) * 2,
    "export": (("eval", IT, "--problems", "hand"), ("zoo",)),
    "sample": (("play",),) * 2,
    "show": (("solve", IT), ("play",)),
    "studio": (("watch", "zoo:quick"),) * 2,
    "edit": (("solve", IT), ("sample", "-n", "6")),
    "task": (("watch", "zoo:quick", "--task", IT), ("task", "--help")),
    "trace": (("play", IT), ("play",)),
    "play": (("solve", IT), ("watch", "zoo:quick")),
    "solve": (("watch", "zoo:laptop", IT), ("solve", "hand")),
    "demos": (("demos", "--help"),) * 2,
    "lint": (("solve", IT), ("sets", "list")),
    "sets": (("eval", "zoo:quick", "--problems", "hand"),) * 2,
    "bench": (("info",),) * 2,
    "info": (("zoo",),) * 2,
    "presets": (("train", IT), ("train", "quick")),
}
"""Command -> what to try after it: with an argument and without. `train` ends with such lines of its own."""


def after(name: str, arguments: Sequence[str]) -> str:
    """The line, or nothing: after help, JSON, and commands that say it themselves."""
    if name not in AFTER or {"-h", "--help", "--json"} & {*arguments}:
        return ""
    subject = arguments[0] if arguments and not arguments[0].startswith("-") else None
    with_subject, without = AFTER[name]
    line = without if subject is None else with_subject
    return f"try next: {command(*(subject if word == IT else word for word in line))}"
