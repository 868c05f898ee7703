"""The problem files of the paper's authors: two grids of characters a level, and the machines of a hierarchy.

A level is `levels/NAME.yaml`, its task `hrms/NAME.yaml`; or a YAML list of `{name, level_path, hrm_path}` pairs them,
with paths relative to the root of their repository. Unlike ours, a level's object and colour stand in two drawings.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import yaml

from atlas.documents import Document, read_documents
from atlas.domains.minigrid import grid
from atlas.domains.minigrid.grid import Level
from atlas.domains.minigrid.text import ARROWS, MOST_LETTERS, OBJECT_LETTERS, Agent, make_level
from atlas.errors import AtlasError, LevelTextError

LEVEL_KEYS: Final = ("obj_grid", "col_grid")
POCKET_KEYS: Final = ("obj_pocket", "col_pocket")
PAIR_KEYS: Final = ("level_path", "hrm_path")
OBJECTS: Final = {"#": grid.WALL} | {letter: kind for kind, letter in OBJECT_LETTERS.items()}
COLOURS: Final = {letter: colour for colour, letter in enumerate("rgbpy#")}


def is_level(document: Document) -> bool:
    """Whether a document is a level of theirs."""
    return _has_keys(document.node, LEVEL_KEYS)


def is_list(document: Document) -> bool:
    """Whether a document is a list of pairs of paths."""
    return isinstance(document.node, yaml.SequenceNode) and all(_has_keys(n, PAIR_KEYS) for n in document.node.value)


def _has_keys(node: yaml.Node, keys: tuple[str, ...]) -> bool:
    return isinstance(node, yaml.MappingNode) and {*keys} <= {
        key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)
    }


def parse_level(document: Document) -> Level:
    """Read a level. A cell is an object only if both its characters are known; all else is floor."""
    entries = document.entries()
    objects, colours = (_lines(document, entries[key], key) for key in LEVEL_KEYS)
    if len(objects) != len(colours):
        sentence = f"col_grid has {len(colours)} lines and obj_grid {len(objects)}: they must be equal"
        document.fail(entries["col_grid"], sentence)
    with document.blame(entries["obj_grid"], "obj_grid"):
        return make_level(_cells(objects, colours), _agent(objects), _pocket(entries))


def _lines(document: Document, node: yaml.Node, key: str) -> list[str]:
    text = document.text(node, key).strip("\n")
    if len(text) > MOST_LETTERS:
        document.fail(node, f"{key} has {len(text):,} letters: at most {MOST_LETTERS:,} are read")
    return text.split("\n")


def _cells(objects: list[str], colours: list[str]) -> np.ndarray:
    cells = np.full((len(objects), max(map(len, objects))), grid.FLOOR_CELL, np.uint8)
    for row, (letters, inks) in enumerate(zip(objects, colours, strict=True)):
        # A colour line may have lost trailing blanks; what it no longer says is no colour.
        for col, (letter, ink) in enumerate(zip(letters, inks.ljust(len(letters)), strict=False)):
            if letter in OBJECTS and ink in COLOURS:
                kind = OBJECTS[letter]
                cells[row, col] = grid.WALL_CELL if kind == grid.WALL else grid.cell(kind, COLOURS[ink])
    return cells


def _agent(objects: list[str]) -> Agent:
    found = [
        Agent(row, col, ARROWS.index(letter))
        for row, letters in enumerate(objects)
        for col, letter in enumerate(letters)
        if letter in ARROWS
    ]
    if len(found) != 1:
        raise LevelTextError(f"a level has exactly one agent ({' '.join(ARROWS)}), this one has {len(found)}")
    return found[0]


def _pocket(entries: dict[str, yaml.Node]) -> str | None:
    """What is carried. Nulls are written as block scalars, so what counts is whether the characters are known."""
    letter, ink = (str(entries[key].value).strip()[:9] if key in entries else "" for key in POCKET_KEYS)
    if OBJECTS.get(letter) in grid.MOVABLE and ink in COLOURS:
        return grid.cell_name(grid.cell(OBJECTS[letter], COLOURS[ink]))
    return None


@dataclass(frozen=True)
class Pair:
    """Where the two halves of a problem are."""

    name: str
    level: Path
    task: Path


def list_entries(document: Document) -> list[yaml.Node]:
    """The entries of a list, each for one pair."""
    assert isinstance(document.node, yaml.SequenceNode)
    return document.node.value


def pair_of_entry(document: Document, node: yaml.Node) -> Pair:
    """The pair that one entry of a list names."""
    entry = document.value(node)
    if not all(isinstance(entry[key], str) and entry[key] for key in PAIR_KEYS):
        document.fail(node, f"{' and '.join(PAIR_KEYS)} must be paths")
    level, task = (_find(document, node, entry[key]) for key in PAIR_KEYS)
    return Pair(str(entry.get("name", level.stem)), level, task)


def _find(document: Document, node: yaml.Node, relative: str) -> Path:
    found = next((f / relative for f in document.path.resolve().parents if (f / relative).is_file()), None)
    if found is None:
        document.fail(node, f"{relative} is not to be found below this folder or any folder above it")
    return found


def is_folder(path: Path) -> bool:
    """Whether a folder holds levels and tasks in their way."""
    return (path / "levels").is_dir() and (path / "hrms").is_dir()


def levels_in_folder(path: Path) -> list[Path]:
    """The level files of a folder."""
    return sorted((path / "levels").rglob("*.yaml"))


def pair_of_level(level: Path) -> Pair:
    """A level with the task that belongs to it by its name."""
    inner, task = _task_path(level)
    if not task.is_file():
        raise AtlasError(f"{level}: its task {task} does not exist")
    return Pair(str(inner.with_suffix("")), level, task)


def has_task(level: Path) -> bool:
    """Whether the task that belongs to a level is there."""
    return _task_path(level)[1].is_file()


def _task_path(level: Path) -> tuple[Path, Path]:
    """The path of a level below `levels`, and the path of its task, which is the same below `hrms`."""
    level = level.resolve()
    folder = next((above for above in level.parents if above.name == "levels"), level.parent)
    inner = level.relative_to(folder)
    return inner, folder.parent / "hrms" / inner


def read_pair_level(path: Path) -> Level:
    """A level file of theirs."""
    documents = read_documents(path)
    if len(documents) != 1 or not is_level(documents[0]):
        raise AtlasError(f"{path}: a level with {' and '.join(LEVEL_KEYS)} is needed here")
    return parse_level(documents[0])
