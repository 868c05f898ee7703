"""One problem out of words on a command line: a file, SET:NAME, or the name of a hand-designed one."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import yaml

from atlas.domains import surface_for
from atlas.domains.minigrid import authors, grid, text
from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.domains.minigrid.grid import Level
from atlas.errors import AtlasError, nearest
from atlas.runs.documents import Document, read_documents
from atlas.runs.store import Bulk, load_bulk, write_whole
from atlas.struct import stacked
from atlas.tasks.formats import format_task, parse_task
from atlas.tasks.hrm import MAX_NODES, Hierarchy
from atlas.tasks.rm import UNUSED, RewardMachine
from atlas.types import About, NamedProblem, Problem

# YAML documents that remember where things stand, so that every complaint names file, line and column.


# Many problems as one: padded to a common size and stacked, so that they can be played side by side.

PADDING: Final = {"target": UNUSED, "call": UNUSED, "chain": UNUSED}
"""What fills the room that an array of a task does not need; 0 where nothing is said."""


def stack(problems: Sequence[Problem]) -> Problem:
    """A batch of problems. Levels and tasks take the largest size of any; flat tasks among hierarchies become such."""
    if not problems:
        raise AtlasError("there are no problems to stack")
    tasks = [problem.task for problem in problems]
    if any(isinstance(task, Hierarchy) for task in tasks):
        tasks = [_as_hierarchy(task) for task in tasks]
        _check_nodes(tasks)
    levels = stacked([problem.level for problem in problems], surface_for(problems[0]).domain.padding)
    return jax.tree.map(jnp.asarray, Problem.unchecked(level=levels, task=stacked(tasks, PADDING)))


def _as_hierarchy(task: RewardMachine | Hierarchy) -> Hierarchy:
    """A flat machine as the only machine of a hierarchy: every way out of a state is one plain edge."""
    if isinstance(task, Hierarchy):
        return task
    machine = {field.name: np.asarray(getattr(task, field.name))[None] for field in fields(task)}
    is_edge = machine["target"] != UNUSED
    edges = np.arange(is_edge.shape[-1], dtype=np.int8)
    return Hierarchy.unchecked(
        **machine,
        call=np.full_like(machine["target"], UNUSED),
        root=np.int8(0),
        chain=np.where(is_edge, edges, np.int8(UNUSED))[..., None],
    )


def _check_nodes(tasks: Sequence[Hierarchy]) -> None:
    machines, states = (max(task.size[axis] for task in tasks) for axis in (0, 1))
    if machines * states > MAX_NODES:
        raise AtlasError(
            f"together these tasks need {machines} machines x {states} states: at most {MAX_NODES} are possible in one "
            "batch, so play them in several, or flatten them"
        )


# Problems as files: `load`, `load_level`, `load_task`, `save`.
#
# One problem is one YAML document that a person can read and type:
#
#     name: fetch
#     level: |
#       ##############
#       ##kb......-r##
#       ##^.........##
#       ##############
#     carrying: green ball        # may be left out
#     task: pick up the blue key, then open the red door
#     tags: [keys, doors]         # may be left out
#     notes: The door is in view. # may be left out
#
# A task is English, or a mapping: `ltlf: …`, `english: …`, or `transitions: …`. A set is a file of several documents or
# a folder of files (names then come from the files). Bulk files (npz) and the authors' files are read by `load` too.

KEYS: Final = ("name", "level", "carrying", "task", "tags", "notes")
YAML_SUFFIXES: Final = (".yaml", ".yml")
SUFFIXES: Final = (*YAML_SUFFIXES, ".npz")


def load(path: Path | str, bad: list[str] | None = None) -> list[NamedProblem]:
    """All problems of a file, a set or a folder, with their names; no two are called the same.

    Where a list is given for what is bad, a file or document that cannot be read puts a sentence there, and the others
    are read.
    """
    path = _existing(path)
    problems = [problem for read in _readers(path) for problem in _read(read, bad)]
    if not problems:
        first = f" that can be read ({bad[0]})" if bad else ""
        raise AtlasError(f"{path}: holds no problems{first}")
    seen: dict[str, str] = {}
    for problem in problems:
        if problem.name in seen:
            raise AtlasError(f"{problem.source}: a problem in {seen[problem.name]} is called '{problem.name}' too")
        seen[problem.name] = problem.source
    return problems


Reader = Callable[[], "Iterable[NamedProblem | Reader]"]
"""Reads a part of a set: problems, or smaller parts to be read on their own."""


def _read(read: Reader, bad: list[str] | None) -> Iterator[NamedProblem]:
    """All problems of a part. Parts fail each for itself."""
    try:
        found = list(read())
    except (AtlasError, OSError) as error:
        if bad is None:
            raise
        bad.append(str(error))
        return
    for one in found:
        if isinstance(one, NamedProblem):
            yield one
        else:
            yield from _read(one, bad)


def _existing(path: Path | str) -> Path:
    path = Path(path)
    if not path.exists():
        raise AtlasError(f"{path} does not exist")
    return path


def _readers(path: Path, prefix: str = "") -> Iterator[Reader]:
    """What a path consists of."""
    if not path.is_dir():
        yield partial(_in_file, path, prefix + path.stem)
    elif authors.is_folder(path):
        for level in authors.levels_in_folder(path):
            yield partial(_from_level, level, prefix)
    else:
        for entry in sorted(path.iterdir()):
            if entry.is_dir() and not entry.name.startswith("."):
                yield from _readers(entry, f"{prefix}{entry.name}/")
            elif entry.suffix in SUFFIXES and not entry.name.startswith("."):
                yield partial(_in_file, entry, prefix + entry.stem)


def _in_file(path: Path, name: str) -> Iterable[NamedProblem | Reader]:
    if path.suffix == ".npz":
        return named(load_bulk(path), str(path))
    documents = read_documents(path)
    return [part for d in documents for part in _in_document(d, name if len(documents) == 1 else f"{name}-{d.number}")]


def named(bulk: Bulk, source: str = "") -> list[NamedProblem]:
    """The problems of a bulk file, one by one."""
    leaves, tree = jax.tree.flatten(bulk.problems)
    rows = zip(*(list(np.asarray(leaf)) for leaf in leaves), strict=True)
    bare = [jax.tree.unflatten(tree, [jnp.asarray(x) for x in row]) for row in rows]
    notes = bulk.notes or ("",) * len(bulk)
    return [
        NamedProblem(level=problem.level, task=problem.task, about=About(name, note, tags, source))
        for problem, name, tags, note in zip(bare, bulk.names, bulk.tags, notes, strict=True)
    ]


def _in_document(document: Document, name: str) -> Iterator[Reader]:
    if authors.is_list(document):
        for node in authors.list_entries(document):
            yield partial(_from_entry, document, node)
    elif authors.is_level(document):
        yield partial(_from_level, document.path)
    else:
        yield lambda: [_problem(document, name)]


def _from_level(level: Path, prefix: str = "") -> list[NamedProblem]:
    return [_from_pair(authors.pair_of_level(level), prefix)]


def _from_entry(document: Document, node: yaml.Node) -> list[NamedProblem]:
    return [_from_pair(authors.pair_of_entry(document, node))]


def _from_pair(pair: authors.Pair, prefix: str = "") -> NamedProblem:
    about = About(name=prefix + pair.name, source=str(pair.level))
    return NamedProblem(level=authors.read_pair_level(pair.level), task=load_task(pair.task), about=about)


def _problem(document: Document, name: str) -> NamedProblem:
    entries = _entries(document)
    for key in ("level", "task"):
        if key not in entries:
            document.fail(document.node, f"a problem needs a {key}")
    about = About(
        name=document.text(entries["name"], "name") if "name" in entries else name,
        notes=document.text(entries["notes"], "notes").strip() if "notes" in entries else "",
        tags=_tags(document, entries["tags"]) if "tags" in entries else (),
        source=str(document.path),
    )
    return NamedProblem(level=_level(document, entries), task=_task(document, entries["task"]), about=about)


def _entries(document: Document) -> dict[str, yaml.Node]:
    entries = document.entries()
    for key, node in entries.items():
        if key not in KEYS:
            hint = nearest(key, KEYS) or f"; known: {', '.join(KEYS)}"
            document.fail(node, f"'{key}' is not a key of a problem{hint}")
    return entries


def _tags(document: Document, node: yaml.Node) -> tuple[str, ...]:
    value = document.value(node)
    if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
        document.fail(node, "tags must be a list of words, e.g. [keys, maze]")
    return tuple(value)


def _level(document: Document, entries: dict[str, yaml.Node]) -> Level:
    drawing = document.text(entries["level"], "level")
    carrying = None
    if "carrying" in entries and document.value(entries["carrying"]) is not None:
        carrying = document.text(entries["carrying"], "carrying")
        with document.blame(entries["carrying"], "carrying"):
            text.parse_object(carrying)
    with document.blame(entries["level"], "level"):
        return text.parse_level(drawing, carrying)


def _task(document: Document, node: yaml.Node) -> Any:
    with document.blame(node, "task"):
        return parse_task(document.value(node), VOCABULARY)


def load_level(path: Path | str) -> Level:
    """The level of a problem file, a level file of the authors, or a drawing (`.txt`)."""
    path = _existing(path)
    if path.suffix == ".txt":
        try:
            return text.parse_level(path.read_text(encoding="utf-8"))
        except AtlasError as error:
            raise AtlasError(f"{path}, {error}") from None
    document = _only_document(path, "level")
    if authors.is_level(document):
        return authors.parse_level(document)
    entries = _entries(document)
    if "level" not in entries:
        document.fail(document.node, "there is no level in this file")
    return _level(document, entries)


def load_task(path: Path | str) -> Any:
    """The task of a problem file, a task file of the authors, or a file that holds nothing but a task."""
    document = _only_document(_existing(path), "task")
    if isinstance(document.node, yaml.ScalarNode) or authors.is_task(document):
        return _task(document, document.node)
    entries = _entries(document)
    if "task" not in entries:
        document.fail(document.node, "there is no task in this file")
    return _task(document, entries["task"])


def _only_document(path: Path, wanted: str) -> Document:
    if path.is_dir() or path.suffix == ".npz":
        raise AtlasError(f"{path}: a file with one {wanted} is needed")
    documents = read_documents(path)
    if len(documents) != 1:
        raise AtlasError(f"{path}: one {wanted} is needed, and the file holds {len(documents)} documents")
    return documents[0]


def save(problem: Problem | Level | Sequence[Problem | Level], path: Path | str) -> None:
    """Write a problem as a readable file; several as one file of many documents, or into a folder, one file each.

    Levels are written the same way, without a task.
    """
    path = Path(path)
    problems = [problem] if isinstance(problem, Problem | Level) else list(problem)
    if path.suffix in YAML_SUFFIXES:
        write_whole(path, "---\n".join(map(format_problem, problems)))
    elif path.suffix:
        raise AtlasError(f"{path}: problems are written to {' or '.join(YAML_SUFFIXES)} files, or into a folder")
    else:
        for number, name in enumerate(_file_names(problems)):
            write_whole(path / f"{name}.yaml", format_problem(problems[number]))


def _file_names(problems: Sequence[Problem | Level]) -> list[str]:
    """Names of problems where they have one, else numbers that sort."""
    width = len(str(len(problems)))
    names = [getattr(p, "name", "") or f"{i:0{width}d}" for i, p in enumerate(problems, start=1)]
    for name in names:
        if names.count(name) > 1:
            raise AtlasError(f"two problems are called '{name}': they cannot be written into one folder")
    return names


def format_problem(problem: Problem | Level) -> str:
    """A problem, or a level without a task, as a YAML document."""
    level, task = (problem, None) if isinstance(problem, Level) else (problem.level, problem.task)
    about = problem.about if isinstance(problem, NamedProblem) else About()
    carried = int(level.carrying)
    parts = [
        _line("name", about.name) if about.name else "",
        _line("tags", list(about.tags)) if about.tags else "",
        _line("notes", about.notes) if about.notes else "",
        "level: |\n" + "".join(f"  {line}\n" for line in text.format_cells(level).splitlines()),
        _line("carrying", text.object_phrase(carried)) if carried != grid.NOTHING else "",
        _line("task", format_task(task, VOCABULARY)) if task is not None else "",
    ]
    return "".join(parts)


def _line(key: str, value: Any) -> str:
    """One entry: text as a line or lines, lists and small mappings in brackets."""
    flow = False if isinstance(value, str) else None
    return yaml.safe_dump({key: value}, default_flow_style=flow, sort_keys=False, allow_unicode=True, width=100)


# One problem, or one level without a task, out of whatever file or set a command was given.


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


# One problem out of words on a command line: a file, SET:NAME, or the name of a hand-designed one.
