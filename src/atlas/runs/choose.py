"""One problem, or one level without a task, out of whatever file or set a command was given."""

from pathlib import Path

from atlas.domains.minigrid.grid import Level
from atlas.errors import AtlasError, nearest
from atlas.runs import authors
from atlas.runs.documents import read_documents
from atlas.runs.named import NamedProblem
from atlas.runs.problem_files import YAML_SUFFIXES, load, load_level


def load_any(path: Path | str) -> list[NamedProblem] | Level:
    """All problems of a file or set; a file that holds a level alone gives that level."""
    path = Path(path)
    return load_level(path) if is_level_alone(path) else load(path)


def is_level_alone(path: Path) -> bool:
    """Whether a file holds a level and no task."""
    if path.suffix == ".txt":
        return True
    if not path.is_file() or path.suffix not in YAML_SUFFIXES:
        return False
    documents = read_documents(path)
    if len(documents) != 1:
        return False
    if authors.is_level(documents[0]):
        return not authors.has_task(path)
    return documents[0].has("level") and not documents[0].has("task")


def choose(path: Path | str, name: str | None = None, index: int | None = None) -> NamedProblem | Level:
    """The one problem that is meant: the only one, or that of a name or a number (from 0)."""
    found = load_any(path)
    if isinstance(found, Level):
        return found
    if name is not None:
        return _by_name(found, name, path)
    if index is not None:
        if not -len(found) <= index < len(found):
            raise AtlasError(f"{path}: there is no problem {index}: they are numbered from 0 to {len(found) - 1}")
        return found[index]
    if len(found) > 1:
        raise AtlasError(f"{path}: holds {len(found)} problems; choose one with --name or --index")
    return found[0]


def _by_name(problems: list[NamedProblem], name: str, path: Path | str) -> NamedProblem:
    for problem in problems:
        if problem.name == name:
            return problem
    names = [problem.name for problem in problems]
    hint = nearest(name, names) or f"; there are {', '.join(names[:8])}{' …' if len(names) > 8 else ''}"
    raise AtlasError(f"{path}: no problem is called '{name}'{hint}")
