"""Who may import whom: the picture in docs/architecture.md, kept true."""

import ast
from collections.abc import Sequence
from pathlib import Path

import pytest

import atlas

ROOT = Path(atlas.__file__).parent
BASE = {"types", "struct", "errors", "settings", "config", "chance", "vocabulary"}
ALLOWED = {
    "types": {"struct", "vocabulary"},
    "vocabulary": set(),
    "struct": set(),
    "chance": set(),
    "errors": set(),
    "settings": {"errors"},
    "devices": set(),
    "config": {"settings", "domains", "ued"},
    "presets": {"config", "domains", "errors", "settings"},
    "canvas": set(),
    "tasks": BASE | {"canvas"},
    "domains": BASE | {"canvas", "solver"},
    "solver": BASE | {"domains", "tasks", "world", "problems"},
    "world": BASE,
    "problems": BASE | {"ued"},
    "ued": {"types", "struct", "settings"},
    "student": BASE | {"devices"},
    "rollout": BASE | {"world", "student", "devices"},
    "evaluation": BASE,
    "training": BASE | {"world", "student", "rollout", "ued", "devices"},
}
"""A part not listed here may import anything (build, fit, cli, commands, runs, report, the public surface)."""

TOUCH_DISK = {"cli", "commands", "runs", "reports", "fit", "__main__"}


def part(path: Path) -> str:
    return _part(path.relative_to(ROOT).with_suffix("").parts)


def _part(names: Sequence[str]) -> str:
    """What rules speak of: the first name, but the canvas and the solver of a domain are parts of their own."""
    if tuple(names[:2]) == ("show", "canvas"):
        return "canvas"
    return "solver" if names[0] == "domains" and "solver" in names else names[0]


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "atlas":
            inner = node.module.split(".")[1:]
            names |= {_part([*inner, alias.name]) for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {a.name.split(".")[1] for a in node.names if a.name.startswith("atlas.")}
    return names


FILES = sorted(ROOT.rglob("*.py"))


def test_every_rule_is_about_a_part_that_exists() -> None:
    assert set(ALLOWED) | TOUCH_DISK <= set(map(part, FILES))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    own = part(path)
    if own in ALLOWED:
        assert imported(path) <= ALLOWED[own] | {own}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_the_edges_print_and_open_files(path: Path) -> None:
    if part(path) in TOUCH_DISK:
        return
    calls = [
        n.func.id
        for n in ast.walk(ast.parse(path.read_text()))
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
    ]
    assert "print" not in calls
    assert "open" not in calls


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_say_what_they_are_for(path: Path) -> None:
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text)) or path.name == "__init__.py", "say what it is for"
