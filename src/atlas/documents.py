"""Reading files within bounds: bytes, text, JSON, and YAML that remembers where things stand; and whether a file can be
written.

Whatever a file holds, reading it takes little time and memory or ends with a sentence that names file, line and column.
"""

import json
import math
import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn, cast

import yaml

from atlas.errors import AtlasError, LevelTextError, is_printable, listed

MOST_BYTES: Final = 1 << 26
"""Most bytes of a text file."""
MOST_NODES: Final = 100_000
"""Values in one YAML document, those that aliases repeat counted each time."""
MOST_DEPTH: Final = 32
"""Lists and mappings inside each other."""
MOST_LETTERS: Final = 1_000_000
"""Most letters of one value."""
LARGEST: Final = 1 << 63
"""Whole numbers are smaller."""
Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG: Final = "tag:yaml.org,2002:"
_RESOLVER: Final[Any] = yaml.resolver.Resolver()
_NUMBERS: Final[Any] = yaml.constructor.SafeConstructor()


# Files


def read_bytes(path: Path | str, most: int = MOST_BYTES) -> bytes:
    """The content of a regular file."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe that nobody writes to would keep us waiting
    try:
        about = os.fstat(number)
        if not stat.S_ISREG(about.st_mode):
            kind = "a folder" if stat.S_ISDIR(about.st_mode) else "no regular file"
            raise AtlasError(f"{path}: is {kind}: a file is needed")
        if about.st_size > most:
            raise AtlasError(f"{path}: is larger than {most >> 20} MB, the most that is read")
        with os.fdopen(number, "rb", closefd=False) as file:
            return file.read(about.st_size)
    finally:
        os.close(number)


def read_text(path: Path | str, most: int = MOST_BYTES) -> str:
    """The content of a text file."""
    try:
        return read_bytes(path, most).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise AtlasError(f"{path}: not a text file in UTF-8") from None


def parse_json(text: str) -> Any:
    """The value of a JSON text; anything that keeps it from being read is a ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("lists or objects are nested too deeply") from None


def require_file(path: Path | None, *suffixes: str) -> None:
    """Fail unless a file of this name can be written; with suffixes, unless its name ends in one of them."""
    if path is None:
        return
    if suffixes and path.suffix.lower() not in suffixes:
        raise AtlasError(f"{path}: a name that ends in {listed(list(suffixes))} is needed")
    if path.is_dir():
        raise AtlasError(f"{path}: is a folder, and a file is to be written")
    _require_place(path, path.absolute().parent)


def require_folder(path: Path | None) -> None:
    """Fail unless files can be written into a folder of this name, which is made if it is not there."""
    if path is not None:
        _require_place(path, path.absolute())


def _require_place(path: Path, folder: Path) -> None:
    import tempfile  # few that read documents check where to write

    there = next(place for place in (folder, *folder.parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            return
    except OSError as error:
        raise AtlasError(
            f"{path}: cannot write to {there}: {(error.strerror or 'it cannot be used').lower()}"
        ) from None


# YAML


@dataclass(frozen=True, eq=False)
class Document:
    """One document of a YAML file."""

    path: Path
    number: int
    """Its place in the file, from 1."""
    node: yaml.Node
    lines: list[str]
    """The whole file, for columns inside block scalars; all documents share one list."""

    def entries(self) -> dict[str, yaml.Node]:
        """The keys of a mapping with their values as nodes."""
        if not isinstance(self.node, yaml.MappingNode):
            self.fail(self.node, "a mapping with keys such as name, level and task is needed")
        for key, _ in self.node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.fail(key, "a key must be a word")
        return {key.value: value for key, value in self.node.value}

    def has(self, key: str) -> bool:
        """Whether it is a mapping with this key."""
        return isinstance(self.node, yaml.MappingNode) and any(k.value == key for k, _ in self.node.value)

    def value(self, node: yaml.Node | None = None) -> Any:
        """A node as plain Python values: mappings, lists, text, finite numbers, true, false and null."""
        node = self.node if node is None else node
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item) for item in node.value]
        if isinstance(node, yaml.MappingNode):
            found: dict[Any, Any] = {}
            for key, inner in node.value:
                name = self.value(key)
                if isinstance(name, dict | list):
                    self.fail(key, "a key must be a word")
                if key.tag == _TAG + "merge":  # `<<` adds the entries of another mapping, or of several
                    more = self.value(inner)
                    for other in more if isinstance(more, list) else [more]:
                        if not isinstance(other, dict):
                            self.fail(inner, "a mapping is needed after <<")
                        found = other | found
                else:
                    found[name] = self.value(inner)
            return found
        kind, text = node.tag.removeprefix(_TAG), node.value
        if kind in ("str", "merge", "timestamp", "value"):
            return text
        try:
            if kind == "null":
                return None
            if kind == "bool":
                return _NUMBERS.construct_yaml_bool(node)
            number = _NUMBERS.construct_yaml_int(node) if kind == "int" else _NUMBERS.construct_yaml_float(node)
        except (ValueError, KeyError, IndexError):
            self.fail(node, f"'{text[:40]}' is not to be read as {kind}")
        if not (abs(number) < LARGEST if kind == "int" else math.isfinite(number)):
            self.fail(node, f"{text} is no number to work with: a finite one below 2^63 is needed")
        return number

    def text(self, node: yaml.Node, key: str) -> str:
        """A node that must be text."""
        if not isinstance(node, yaml.ScalarNode) or not isinstance(value := self.value(node), str):
            self.fail(node, f"{key} must be text")
        return value

    def fail(self, node: yaml.Node, sentence: str) -> NoReturn:
        """Complain about a node."""
        _fail(self.path, node.start_mark, sentence)

    @contextmanager
    def blame(self, node: yaml.Node, key: str) -> Iterator[None]:
        """Give the file and the place to errors and warnings that arise from reading a node."""
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                yield
            for warning in caught:
                place = _place(self.path, node.start_mark)
                warnings.warn(f"{place}: {key}: {warning.message}", warning.category, stacklevel=4)
        except LevelTextError as error:
            if not error.line or getattr(node, "style", None) != "|":
                self.fail(node, f"{key}: {error}")
            line = node.start_mark.line + error.line
            written, read = self.lines[line], node.value.splitlines()[error.line - 1]
            column = f", column {written.find(read) + error.column}" if error.column else ""
            raise AtlasError(f"{self.path}, line {line + 1}{column}: {error.problem}") from None
        except AtlasError as error:
            self.fail(node, f"{key}: {error}")


def read_documents(path: Path) -> list[Document]:
    """All documents of a YAML file, empty ones left out."""
    return parse_documents(read_text(path), path)


def parse_documents(source: str, path: Path) -> list[Document]:
    """All documents of a YAML text, empty ones left out; `path` is what sentences call it."""
    lines = source.splitlines()
    try:
        return [Document(path, i, node, lines) for i, node in enumerate(_compose(path, source), start=1)]
    except yaml.MarkedYAMLError as error:
        where = _place(path, error.problem_mark) if error.problem_mark else str(path)
        raise AtlasError(f"{where}: not readable YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise AtlasError(f"{path}: not readable YAML: {' '.join(str(error).split())}") from None


def read_plain(path: Path | str) -> Any:
    """The plain values of a YAML file of one document; None if it is empty."""
    documents = read_documents(Path(path))
    if len(documents) > 1:
        documents[1].fail(documents[1].node, "a second document: one is needed here")
    return documents[0].value() if documents else None


@dataclass(eq=False)
class _Open:
    """A list or mapping whose end has not come yet."""

    node: Any
    anchor: str | None
    begun: int
    """How many values there were before it."""
    key: yaml.Node | None = None
    """In a mapping, the key whose value comes next."""
    names: set[str] = field(default_factory=set)


def _compose(path: Path, source: str) -> Iterator[yaml.Node]:
    """The root of each document. Aliases are kept within bounds here, and no key may be given twice."""
    known: dict[str, tuple[yaml.Node, int]] = {}
    """The node that an anchor names, and how many values it holds."""
    opened: list[_Open] = []
    values = 0
    for event in cast(Iterator[Any], yaml.parse(source, Loader=Loader)):
        if isinstance(event, yaml.DocumentStartEvent):
            known, values = {}, 0
        if not isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
            continue
        size = 1
        if isinstance(event, yaml.CollectionEndEvent):
            done = opened.pop()
            node, size = done.node, 0
            node.end_mark = event.end_mark
            if done.anchor is not None:
                known[done.anchor] = (node, values - done.begun)
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in known:
                _fail(path, event.start_mark, f"*{event.anchor} names nothing that is complete before it")
            node, size = known[event.anchor]
        elif isinstance(event, yaml.ScalarEvent):
            node = _scalar(path, event)
            if event.anchor is not None:
                known[event.anchor] = (node, 1)
        else:
            kind: Any = yaml.SequenceNode if isinstance(event, yaml.SequenceStartEvent) else yaml.MappingNode
            usual, start = _TAG + ("seq" if kind is yaml.SequenceNode else "map"), cast(Any, event)
            if start.tag not in (None, "!", usual):
                _fail(path, event.start_mark, f"the tag {start.tag} is not known")
            opened.append(_Open(kind(usual, [], event.start_mark, None, start.flow_style), event.anchor, values))
            values += 1
            if len(opened) > MOST_DEPTH:
                _fail(path, event.start_mark, f"more than {MOST_DEPTH} lists or mappings inside each other")
            continue
        values += size
        if values > MOST_NODES:
            _fail(path, event.start_mark, f"a document of more than {MOST_NODES:,} values, repeated ones included")
        if not opened:
            if not _is_empty(node):
                yield node
        elif isinstance(opened[-1].node, yaml.SequenceNode):
            opened[-1].node.value.append(node)
        elif (key := opened[-1].key) is None:
            if isinstance(node, yaml.ScalarNode):
                if node.value in opened[-1].names:
                    _fail(path, event.start_mark, f"the key '{node.value}' is given twice")
                opened[-1].names.add(node.value)
            opened[-1].key = node
        else:
            opened[-1].node.value.append((key, node))
            opened[-1].key = None


def _scalar(path: Path, event: Any) -> yaml.ScalarNode:
    text = event.value
    if len(text) > MOST_LETTERS:
        _fail(path, event.start_mark, f"a value of more than {MOST_LETTERS:,} letters")
    if not is_printable(text):
        _fail(path, event.start_mark, f"{text[:40]!r} has control characters in it")
    tag = event.tag
    if tag is None or tag == "!":
        tag = _RESOLVER.resolve(yaml.ScalarNode, text, event.implicit) if len(text) <= 80 else _TAG + "str"
    if tag.removeprefix(_TAG) not in ("str", "null", "bool", "int", "float", "timestamp", "merge", "value"):
        _fail(path, event.start_mark, f"the tag {tag} is not known")
    return yaml.ScalarNode(tag, text, event.start_mark, event.end_mark, style=event.style)


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.value == "" and node.style is None


def _fail(path: Path, mark: Any, sentence: str) -> NoReturn:
    raise AtlasError(f"{_place(path, mark)}: {sentence}")


def _place(path: Path, mark: Any) -> str:
    return f"{path}, line {mark.line + 1}, column {mark.column + 1}"
