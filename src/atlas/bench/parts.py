"""The parts of the ledger, by name. A new one is a file beside this one with `rows(effort)`, and its row here."""

import importlib
from collections.abc import Iterator, Sequence
from typing import Final

from atlas.bench.rows import Effort, Row
from atlas.errors import AtlasError, nearest

PARTS: Final[dict[str, str]] = {
    "world": "a step of the world, the view, guards",
    "sampling": "levels, tasks, problems of each kind; edited children",
    "language": "LTLf and English to tasks and back",
    "solving": "the relaxed check, the prover",
    "buffer": "drawing from the teacher's buffer and entering it",
    "student": "acting and learning, paper and small network",
    "training": "a whole iteration of each teacher, paper and small network",
    "evaluation": "attempts at a set of problems",
    "startup": "help, imports, the first iteration after the command",
    "memory": "peak memory of a paper-size run; bytes a problem and a transition",
}
"""Part -> what it measures. Its code is `atlas.bench.<name>.rows(effort)`."""

GROWTH: Final = "growth"
"""How cost grows with size: curves instead of rows, so it runs only when it is named."""


def chosen(names: Sequence[str]) -> list[str]:
    """The parts that were asked for, each once; all but growth if none was."""
    known = (*PARTS, GROWTH)
    for name in names:
        if name not in known:
            raise AtlasError(f"there is no part '{name}'{nearest(name, known) or '; there are ' + ', '.join(known)}")
    return list(dict.fromkeys(names)) or list(PARTS)


def rows(part: str, effort: Effort) -> Iterator[Row]:
    """Measure a part, row by row."""
    return importlib.import_module(f"atlas.bench.{part}").rows(effort)
