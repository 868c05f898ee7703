"""Problems as files: `load`, `load_level`, `load_task`, `save`, and `choose` for one out of many.

One problem is one YAML document that a person can read and type:

    name: fetch
    level: |
      ##############
      ##kb......-r##
      ##^.........##
      ##############
    carrying: green ball        # may be left out
    task: pick up the blue key, then open the red door
    tags: [keys, doors]         # may be left out
    notes: The door is in view. # may be left out

A task is English, or a mapping: `ltlf: …`, `english: …`, or `transitions: …`. A set is a file of several documents or a
folder of files (names then come from the files). Bulk files (npz) and the authors' files are read by `load` too.
"""

import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import jax
import yaml

from atlas.documents import Document, parse_documents, read_documents, read_text
from atlas.domains import DOMAINS, default_name, find, known_domain, name_for, surface_of, vocabulary_of
from atlas.errors import AtlasError, LevelNeededError, LevelTextError, TaskWarning, nearest
from atlas.runs.store import Bulk, load_bulk, write_whole
from atlas.tasks import packed
from atlas.tasks.formats import TASK_KEYS, format_task, parse_task
from atlas.tasks.machine import Task
from atlas.types import About, Level, NamedProblem, Problem, Surface

YAML_SUFFIXES: Final = (".yaml", ".yml")
SUFFIXES: Final = (*YAML_SUFFIXES, ".npz")


Reader = Callable[[], "Iterable[NamedProblem | Reader]"]
"""Reads a part of a set: problems, or smaller parts to be read on their own."""


@dataclass(frozen=True)
class _Ours:
    """Reads one of our documents, whose name is known before."""

    document: Document
    file_name: str
    """Its name where the file gives none."""

    @property
    def name(self) -> str:
        given = self.document.entries().get("name") if isinstance(self.document.node, yaml.MappingNode) else None
        return given.value if isinstance(given, yaml.ScalarNode) else self.file_name

    def __call__(self) -> list[NamedProblem]:
        return [_problem(self.document, self.file_name)]


Progress = Callable[[int, int], None]
"""Told how many parts of how many are read."""


def load(
    path: Path | str, bad: list[str] | None = None, progress: Progress = lambda done, total: None
) -> list[NamedProblem]:
    """All problems of a file, a set or a folder, with their names; no two are called the same.

    With a list `bad`, each file or document that cannot be read adds a sentence to it and is skipped; without, it is an
    error.
    """
    path = _existing(path)
    notes: list[str] = []
    return _load(path, _readers(path, notes), notes, bad, progress)


def _load(
    path: Path, readers: Iterable[Reader], notes: list[str], bad: list[str] | None, progress: Progress
) -> list[NamedProblem]:
    """Run all readers, which may put notes on other people's tasks into a list."""
    problems: list[NamedProblem] = []
    todo, done = deque(readers), 0
    while todo:
        try:
            found = list(todo.popleft()())
        except (AtlasError, OSError) as error:
            if bad is None:
                raise
            bad.append(str(error))
            found = []
        problems += [one for one in found if isinstance(one, NamedProblem)]
        todo.extendleft(reversed([one for one in found if not isinstance(one, NamedProblem)]))
        done += 1
        progress(done, done + len(todo))
    if not problems:
        first = f" that can be read ({bad[0]})" if bad else ""
        raise AtlasError(f"{path}: holds no problems{first}")
    _require_names((problem.name, problem.source) for problem in problems)
    if notes:
        count = f"{len(notes)} note{'s' * (len(notes) > 1)}"
        warnings.warn(f"{path}: {count} on tasks that others wrote; `atlas lint` lists them", TaskWarning, stacklevel=2)
    return problems


def _require_names(found: Iterable[tuple[str, str]]) -> None:
    """No two may have the same name; each comes with its source."""
    seen: dict[str, str] = {}
    for name, source in found:
        if name in seen:
            raise AtlasError(f"{source}: a problem in {seen[name]} is called '{name}' too")
        seen[name] = source


def _existing(path: Path | str) -> Path:
    path = Path(path)
    if not path.exists():
        raise AtlasError(f"{path} does not exist")
    return path


def _readers(path: Path, notes: list[str], prefix: str = "", seen: set[Path] | None = None) -> Iterator[Reader]:
    """The files of a path. Notes on tasks of other people's files are collected, not told one by one.

    `seen`: the folders so far, since a link may lead back to where it lies.
    """
    seen = set() if seen is None else seen
    if not path.is_dir():
        yield partial(_in_file, path, prefix + path.stem, notes)
        return
    if path.resolve() in seen:
        raise AtlasError(f"{path}: leads to a folder that is read already")
    seen.add(path.resolve())
    if theirs := foreign("is_folder", path):
        for level in theirs.levels_in_folder(path):
            yield partial(_from_pair, partial(theirs.pair_of_level, level), theirs, notes, prefix)
        return
    for entry in sorted(path.iterdir()):
        if entry.is_dir() and not entry.name.startswith("."):
            yield from _readers(entry, notes, f"{prefix}{entry.name}/", seen)
        elif entry.suffix in SUFFIXES and not entry.name.startswith("."):
            yield partial(_in_file, entry, prefix + entry.stem, notes)


def _in_file(path: Path, name: str, notes: list[str]) -> Iterable[NamedProblem | Reader]:
    if path.suffix == ".npz":
        return named(load_bulk(path), str(path))
    return _in_documents(read_documents(path), name, notes)


def _in_documents(documents: list[Document], name: str, notes: list[str]) -> list[Reader]:
    names = [name if len(documents) == 1 else f"{name}-{document.number}" for document in documents]
    return [part for pair in zip(documents, names, strict=True) for part in _in_document(*pair, notes)]


def named(bulk: Bulk, source: str = "") -> list[NamedProblem]:
    """The problems of a bulk file, one by one."""
    leaves, tree = jax.tree.flatten(jax.device_get(bulk.problems.level))
    levels = [jax.tree.unflatten(tree, row) for row in zip(*leaves, strict=True)]
    notes = bulk.notes or ("",) * len(bulk)
    rows = zip(levels, packed.unstack(bulk.problems.task), bulk.names, bulk.tags, notes, strict=True)
    return [
        NamedProblem(level=level, task=task, about=About(name, note, tags, source))
        for level, task, name, tags, note in rows
    ]


def foreign(test: str, subject: Any) -> Any:
    """The domain's module for other people's files whose test of that name accepts the subject, else None."""
    modules = (find(row.foreign) for row in DOMAINS.values() if row.foreign)
    return next((module for module in modules if getattr(module, test)(subject)), None)


def _in_document(document: Document, name: str, notes: list[str]) -> Iterator[Reader]:
    if theirs := foreign("is_list", document):
        for node in theirs.list_entries(document):
            yield partial(_from_pair, partial(theirs.pair_of_entry, document, node), theirs, notes)
    elif theirs := foreign("is_level", document):
        yield partial(_from_pair, partial(theirs.pair_of_level, document.path), theirs, notes)
    else:
        yield _Ours(document, name)


def _from_pair(find_pair: Callable[[], Any], theirs: Any, notes: list[str], prefix: str = "") -> list[NamedProblem]:
    pair = find_pair()
    about = About(name=prefix + pair.name, source=str(pair.level))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TaskWarning)
        task = load_task(pair.task)
    notes += [str(warning.message) for warning in caught]
    return [NamedProblem(level=theirs.read_pair_level(pair.level), task=task, about=about)]


def _problem(document: Document, name: str) -> NamedProblem:
    surface, entries = _entries(document)
    for key in (surface.level_keys[0], "task"):
        if key not in entries:
            document.fail(document.node, f"a problem needs a {key}")
    tags = document.value(entries["tags"]) if "tags" in entries else []
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        document.fail(entries["tags"], "tags must be a list of words, e.g. [keys, maze]")
    given = document.text(entries["name"], "name") if "name" in entries else name
    notes = document.text(entries["notes"], "notes").strip() if "notes" in entries else ""
    try:
        about = About(given, notes, tuple(tags), str(document.path))
    except AtlasError as error:
        document.fail(entries.get("name", document.node), str(error))
    level = _level(document, surface, entries)
    return NamedProblem(level=level, task=_task(document, entries["task"], name_for(level), level), about=about)


def _entries(document: Document) -> tuple[Surface, dict[str, yaml.Node]]:
    """The domain of a file, and its entries. The default domain need not be named."""
    entries = document.entries()
    domain = document.text(entries.pop("domain"), "domain") if "domain" in entries else default_name()
    try:
        surface = surface_of(known_domain(domain))
    except AtlasError as error:
        raise AtlasError(f"{document.path}: {error}") from None
    known = ("name", *surface.level_keys, "task", "tags", "notes")
    for key, node in entries.items():
        if key not in known:
            hint = nearest(key, known) or f"; known: {', '.join(known)}"
            document.fail(node, f"'{key}' is not a key of a problem{hint}")
    return surface, entries


def _level(document: Document, surface: Surface, entries: dict[str, yaml.Node]) -> Level:
    texts = {
        key: document.text(entries[key], key)
        for key in surface.level_keys
        if key in entries and (key == surface.level_keys[0] or document.value(entries[key]) is not None)
    }
    try:
        return surface.parse_level(texts)
    except LevelTextError as error:
        with document.blame(entries[error.key], error.key):
            raise


def _task(document: Document, node: yaml.Node, domain: str, level: Level | None = None) -> Task:
    value, vocabulary = document.value(node), vocabulary_of(domain)
    with document.blame(node, "task"):
        try:
            return parse_task(value, vocabulary)
        except LevelNeededError:
            if level is None:
                raise
            return parse_task(value, vocabulary, surface_of(domain).things(level))


def parse_problem(text: str, called: str = "the text") -> NamedProblem | Level:
    """The problem of a text as files hold it, or its level if there is no task; `called` is what sentences call it."""
    documents = parse_documents(text, Path(called))
    if len(documents) != 1:
        raise AtlasError(f"{called}: one problem is needed, and there are {len(documents)} documents")
    if "task" in documents[0].entries():
        return _problem(documents[0], "")
    surface, entries = _entries(documents[0])
    if surface.level_keys[0] not in entries:
        documents[0].fail(documents[0].node, f"a problem needs a {surface.level_keys[0]}")
    return _level(documents[0], surface, entries)


def load_level(path: Path | str) -> Level:
    """The level of a problem file, a level file of the authors, or a drawing (`.txt`)."""
    path = _existing(path)
    if path.suffix == ".txt":
        surface = surface_of(default_name())
        try:
            return surface.parse_level({surface.level_keys[0]: read_text(path)})
        except AtlasError as error:
            raise AtlasError(f"{path}, {error}") from None
    document = _only_document(path, "level")
    if theirs := foreign("is_level", document):
        return theirs.parse_level(document)
    surface, entries = _entries(document)
    if surface.level_keys[0] not in entries:
        document.fail(document.node, "there is no level in this file")
    return _level(document, surface, entries)


def load_task(path: Path | str, domain: str | None = None) -> Task:
    """The task of a problem file, a task file of the authors, or a file that holds nothing but a task.

    `domain`: whose propositions the last speaks of; a problem says so itself.
    """
    return read_task(path, domain)[0]


def read_task(path: Path | str, domain: str | None = None) -> tuple[Task, str]:
    """The same, and the domain of the task."""
    domain = known_domain(domain)
    document = _only_document(_existing(path), "task")
    if isinstance(document.node, yaml.ScalarNode) or any(map(document.has, TASK_KEYS)):
        return _task(document, document.node, domain), domain
    entries = document.entries()
    domain = document.text(entries["domain"], "domain") if "domain" in entries else default_name()
    surface, own = _entries(document)
    if "task" not in entries:
        document.fail(document.node, "there is no task in this file")
    level = _level(document, surface, own) if surface.level_keys[0] in own else None
    return _task(document, entries["task"], domain, level), domain


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
    problems = list(problem) if isinstance(problem, Sequence) else [problem]
    if path.suffix in YAML_SUFFIXES:
        write_whole(path, "---\n".join(map(format_problem, problems)))
    elif path.suffix:
        raise AtlasError(f"{path}: problems are written to {' or '.join(YAML_SUFFIXES)} files, or into a folder")
    else:
        width = len(str(len(problems)))  # problems without a name get numbers that sort
        names = [getattr(p, "name", "") or f"{i:0{width}d}" for i, p in enumerate(problems, start=1)]
        for name, times in Counter(names).items():
            if times > 1:
                raise AtlasError(f"two problems are called '{name}': they cannot be written into one folder")
            if any(part.startswith(".") or not part for part in name.split("/")):
                raise AtlasError(f"a problem is called '{name}', which is no name for a file in {path}")
        for one, name in zip(problems, names, strict=True):
            write_whole(path / f"{name}.yaml", format_problem(one))


def format_problem(problem: Problem | Level) -> str:
    """A problem, or a level without a task, as a YAML document."""
    level, task = (problem.level, packed.unpack(problem.task)) if isinstance(problem, Problem) else (problem, None)
    about, domain = problem.about if isinstance(problem, NamedProblem) else About(), name_for(level)
    drawing, *more = surface_of(domain).format_level(level).items()
    parts = [
        _line("name", about.name) if about.name else "",
        _line("domain", domain) if domain != default_name() else "",
        _line("tags", list(about.tags)) if about.tags else "",
        _line("notes", about.notes) if about.notes else "",
        f"{drawing[0]}: |\n" + "".join(f"  {line}\n" for line in drawing[1].splitlines()),
        *(_line(key, value) for key, value in more),
        _line("task", format_task(task, vocabulary_of(domain))) if task is not None else "",
    ]
    return "".join(parts)


def _line(key: str, value: Any) -> str:
    """One entry: text as a line or lines, lists and small mappings in brackets."""
    flow = False if isinstance(value, str) else None
    return yaml.safe_dump({key: value}, default_flow_style=flow, sort_keys=False, allow_unicode=True, width=100)


# One out of many


def locate(words: Path | str) -> tuple[Path, str | None]:
    """The path of a problem or set, and the name of the problem that is meant, if one is named.

    Any path; `SET` or `SET:NAME`, with a path or the name of a set (`hand`); or the name of a hand-designed problem.
    """
    path, words = Path(words), str(words)
    if path.exists():
        return path, None
    from atlas.evaluation.sets import find_set, named_sets  # nobody who gives a path waits for it

    sets = named_sets()
    if words in sets:
        return find_set(words), None
    before, _, name = words.rpartition(":")
    if before:
        return find_set(before), name
    if path.suffix or len(path.parts) > 1:
        raise AtlasError(f"{words} does not exist")
    return find_set(next(iter(sets))), words


def load_any(words: Path | str, progress: Progress = lambda done, total: None) -> list[NamedProblem] | Level:
    """All problems of a file or set (see `locate`); a file that holds a level alone gives that level."""
    path, name = locate(words)
    if name is not None:
        return [_one(path, words, name)]
    if path.suffix == ".txt":
        return load_level(path)
    if not path.is_file() or path.suffix not in YAML_SUFFIXES:
        return load(path, progress=progress)
    documents = read_documents(path)
    if _is_level(path, documents):
        return load_level(path)
    notes: list[str] = []
    return _load(path, [lambda: _in_documents(documents, path.stem, notes)], notes, None, progress)


def _is_level(path: Path, documents: list[Document]) -> bool:
    """Whether a file holds nothing but a level."""
    if len(documents) != 1:
        return False
    theirs = foreign("is_level", document := documents[0])
    return not theirs.has_task(path) if theirs else document.has("level") and not document.has("task")


def choose(words: Path | str, name: str | None = None, index: int | None = None) -> NamedProblem | Level:
    """The one problem that is meant: the only one, or that of a name or a number (from 0). `words` as in `locate`."""
    path, named = locate(words)
    if path.suffix == ".txt" or (
        path.is_file() and path.suffix in YAML_SUFFIXES and _is_level(path, read_documents(path))
    ):
        return load_level(path)
    return _one(path, words, named if named is not None else name, index)


def _one(path: Path, words: Path | str, name: str | None, index: int | None = None) -> NamedProblem:
    """One problem of a file or set; the others are not read where they can be told apart without."""
    notes: list[str] = []
    todo, found = deque(_readers(_existing(path), notes)), list[NamedProblem | _Ours]()
    while todo:
        reader = todo.popleft()
        parts = [reader] if isinstance(reader, _Ours) else list(reader())
        found += [one for one in parts if isinstance(one, NamedProblem | _Ours)]
        todo.extendleft(reversed([one for one in parts if not isinstance(one, NamedProblem | _Ours)]))
    names = [one.name for one in found]
    sources = [str(one.document.path) if isinstance(one, _Ours) else one.source for one in found]
    _require_names(zip(names, sources, strict=True))
    if not found:
        raise AtlasError(f"{path}: holds no problems")
    if name is not None:
        index = place_of(name, names, words)
    if index is None and len(found) > 1:
        raise AtlasError(f"{words}: holds {len(found)} problems; choose one with --name or --index")
    if index is not None and not -len(found) <= index < len(found):
        raise AtlasError(f"{words}: there is no problem {index}: they are numbered from 0 to {len(found) - 1}")
    chosen = found[index or 0]
    return chosen()[0] if isinstance(chosen, _Ours) else chosen


def choose_problem(words: Path | str, name: str | None = None, index: int | None = None) -> NamedProblem:
    """The same; a level without a task is refused."""
    found = choose(words, name, index)
    if not isinstance(found, NamedProblem):
        raise AtlasError(f"{words}: holds a level without a task, and one is needed here")
    return found


def place_of(name: str, names: list[str], where: Path | str) -> int:
    """The place of the problem of a name."""
    if name not in names:
        if str(where) == name:  # a bare word, which might have been meant for something else
            hint = nearest(name, names)
            raise AtlasError(f"{name} is neither a file nor the name of a set or of a hand-designed problem{hint}")
        hint = nearest(name, names) or f"; there are {', '.join(names[:8])}{' …' if len(names) > 8 else ''}"
        raise AtlasError(f"{where}: no problem is called '{name}'{hint}")
    return names.index(name)
