"""YAML documents that remember where things stand, so that every complaint names file, line and column."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from atlas.errors import AtlasError, LevelTextError

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Safe: it makes plain values only, and never runs anything."""


@dataclass(frozen=True, eq=False)
class Document:
    """One document of a YAML file."""

    path: Path
    number: int
    """Its place in the file, from 1."""
    node: yaml.Node
    lines: list[str]
    """The whole file, for columns inside block scalars."""

    def entries(self) -> dict[str, yaml.Node]:
        """The keys of a mapping with their values as nodes."""
        if not isinstance(self.node, yaml.MappingNode):
            self.fail(self.node, "a mapping with keys such as name, level and task is needed")
        found: dict[str, yaml.Node] = {}
        for key, value in self.node.value:
            if key.value in found:
                self.fail(key, f"the key '{key.value}' is given twice")
            found[key.value] = value
        return found

    def has(self, key: str) -> bool:
        """Whether it is a mapping with this key."""
        return isinstance(self.node, yaml.MappingNode) and any(k.value == key for k, _ in self.node.value)

    def value(self, node: yaml.Node | None = None) -> Any:
        """A node as plain Python values."""
        return yaml.SafeLoader("").construct_document(node or self.node)

    def text(self, node: yaml.Node, key: str) -> str:
        """A node that must be text."""
        if not isinstance(node, yaml.ScalarNode) or not isinstance(value := self.value(node), str):
            self.fail(node, f"{key} must be text")
        return value

    def fail(self, node: yaml.Node, sentence: str) -> NoReturn:
        """Complain about a node."""
        raise AtlasError(f"{_place(self.path, node.start_mark)}: {sentence}")

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
    try:
        source = path.read_text(encoding="utf-8")
        nodes = [node for node in yaml.compose_all(source, Loader=Loader) if node is not None]
    except UnicodeDecodeError:
        raise AtlasError(f"{path}: not a text file in UTF-8") from None
    except yaml.MarkedYAMLError as error:
        where = _place(path, error.problem_mark) if error.problem_mark else str(path)
        raise AtlasError(f"{where}: not readable YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise AtlasError(f"{path}: not readable YAML: {' '.join(str(error).split())}") from None
    return [Document(path, i, node, source.splitlines()) for i, node in enumerate(nodes, start=1)]


def _place(path: Path, mark: Any) -> str:
    return f"{path}, line {mark.line + 1}, column {mark.column + 1}"
