"""One problem out of words on a command line: a file, SET:NAME, or the name of a hand-designed one."""

from pathlib import Path

from atlas.domains.minigrid.grid import Level
from atlas.errors import AtlasError, nearest
from atlas.runs.choose import choose
from atlas.runs.named import NamedProblem
from atlas.runs.problem_sets import HAND, NAMES, built_path, hand_folder
from atlas.sets import RECIPES


def find_problem(words: str) -> NamedProblem:
    """The problem that is meant: `FILE`, `SET:NAME` (its path, or `hand` and the like), or `NAME`."""
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
    """Where a set lies: its path, or that of a set with a name. Nothing is built."""
    if Path(words).exists():
        return Path(words)
    if words == HAND:
        return hand_folder()
    if words in RECIPES and built_path(RECIPES[words]).exists():
        return built_path(RECIPES[words])
    if words in RECIPES:
        raise AtlasError(f"the set {words} is not built yet: `atlas sets build {words}` does it")
    hint = nearest(words, NAMES) or f"; sets are called {', '.join(NAMES)}"
    raise AtlasError(f"{words} is neither a file or folder nor the name of a set{hint}")


def _with_task(found: NamedProblem | Level, words: str) -> NamedProblem:
    if isinstance(found, Level):
        raise AtlasError(f"{words}: holds a level without a task, and a policy needs one")
    return found
