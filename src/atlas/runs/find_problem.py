"""One problem out of words on a command line: a file, SET:NAME, or the name of a hand-designed one."""

from pathlib import Path
from typing import Final

from atlas.domains.minigrid.grid import Level
from atlas.errors import AtlasError
from atlas.runs.choose import choose
from atlas.runs.named import NamedProblem

HOMES: Final = (Path("problems"), Path(__file__).parents[3] / "problems")
"""Where sets lie that are called by a bare name: below the working folder, or beside the source."""
HAND: Final = "hand"


def find_problem(words: str) -> NamedProblem:
    """The problem that is meant: `FILE`, `SET:NAME` (a path, or the name of a set in `problems/`), or `NAME`."""
    path = Path(words)
    if path.exists():
        return _with_task(choose(path), words)
    found, _, name = words.rpartition(":")
    if found:
        return _with_task(choose(find_set(found), name), words)
    if path.suffix or len(path.parts) > 1:
        raise AtlasError(f"{words} does not exist")
    return _with_task(choose(find_set(HAND), name), words)


def find_set(words: str) -> Path:
    """A set by its path, or by its name in `problems/`, with or without its suffix."""
    homes = [home / words for home in HOMES]
    places = [Path(words), *homes, *(home.with_name(home.name + ".npz") for home in homes)]
    for place in places:
        if place.exists():
            return place
    raise AtlasError(f"there is no set {words}: give the path of a file or folder of problems, or a name in problems/")


def _with_task(found: NamedProblem | Level, words: str) -> NamedProblem:
    if isinstance(found, Level):
        raise AtlasError(f"{words}: holds a level without a task, and a policy needs one")
    return found
