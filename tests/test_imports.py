"""Who may import whom: the picture in docs/architecture.md, kept true."""

import ast
import importlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import atlas

ROOT = Path(atlas.__file__).parent
PLAIN = {"errors", "plugins", "settings", "vocabulary"}
"""Without JAX."""
BASE = PLAIN | {"types", "struct", "config", "chance"}
ALLOWED: dict[str, set[str]] = {
    "vocabulary": set(),
    "errors": set(),
    "plugins": {"errors"},
    "words": set(),
    "struct": set(),
    "chance": set(),
    "devices": set(),
    "canvas": set(),
    "documents": {"errors"},
    "settings": {"errors", "documents", "domains"},  # a section finds its class by name in the table of domains
    "types": {"errors", "struct", "vocabulary"},
    "domains": {"errors", "plugins", "settings", "types", "vocabulary"},  # the table
    "config": PLAIN | {"domains", "ued"},
    "presets": PLAIN | {"config", "documents", "domains", "ued"},
    "tasks": BASE | {"canvas"},
    "domain": BASE | {"presets", "ued", "domains"},  # the half of a domain that training needs
    "surface": BASE
    | {"domain", "domains", "tasks", "world", "problems", "canvas", "documents", "evaluation", "programs", "proofs"},
    "proofs": BASE | {"domains", "problems", "programs", "tasks", "world"},
    "programs": {"plugins", "runs", "struct"},
    "world": BASE,
    "problems": BASE | {"domains", "tasks", "ued"},
    "ued": PLAIN | {"types", "struct"},
    "student": BASE | {"devices"},
    "rollout": BASE | {"world", "student", "devices"},
    "training": BASE | {"world", "student", "rollout", "ued", "devices"},
    "fit": BASE | {"training", "ued"},
    "build": BASE
    | {"devices", "domains", "fit", "problems", "rollout", "student", "tasks", "training", "ued", "world"},
    "environment": BASE | {"build", "domains", "presets", "problems", "student", "tasks", "world"},
    "show": BASE | {"canvas", "domains", "programs", "runs", "student", "tasks", "words", "world"},
    "evaluation": BASE
    | {"build", "documents", "domains", "problems", "runs", "student", "tasks", "ued", "words", "world"},
}
FREE = {
    *("__init__", "__main__", "api", "bench", "cli", "commands"),
    *("experiments", "gym", "reports", "runs", "studio", "testing"),
}
"""Parts that may import anything but one domain by name."""
SURFACE = {"authors", "babyai", "draw", "sets", "solver", "surface"}
"""What people need of a domain; the rest of its folder is what training needs."""
TOUCH_DISK = {"cli", "commands", "runs", "reports", "evaluation", "fit", "bench", "documents", "studio", "__main__"}


def part(path: Path) -> str:
    return _part(path.relative_to(ROOT).with_suffix("").parts)


def _part(names: Sequence[str]) -> str:
    """What the rules speak of: mostly the first name."""
    match tuple(names):
        case ("show", "canvas", *_):
            return "canvas"
        case ("domains", name, *_) if not (ROOT / "domains" / name).is_dir():
            return "domains"
        case ("domains", _, name, *_):
            return "surface" if name in SURFACE else "domain"
    return names[0]


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "atlas":
            inner = node.module.split(".")[1:]
            names |= {_part([*inner, alias.name]) for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {_part(a.name.split(".")[1:]) for a in node.names if a.name.startswith("atlas.")}
    return names


FILES = sorted(ROOT.rglob("*.py"))
JAXLESS = {
    "vocabulary", "errors", "show/canvas", "domains/minigrid/alphabet",
    *(f"tasks/{name}" for name in ("machine", "automata", "english", "explain", "ltlf", "formats", "check", "draw")),
    *(f"tasks/english/{name}" for name in ("lexicon", "commands", "phrases", "sentences", "steps")),
}  # fmt: skip
"""What people do with tasks: modules that need no JAX, and import none that does."""


def test_every_part_has_a_rule() -> None:
    assert set(map(part, FILES)) == {*ALLOWED, *FREE}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_the_table_names_a_domain(path: Path) -> None:
    if part(path) not in ("domains", "domain", "surface", "bench"):  # the benchmark measures Minigrid
        assert not imported(path) & {"domain", "surface"}


def test_no_module_hides_a_public_function() -> None:
    for path in FILES:
        if path.name != "__main__.py":
            importlib.import_module(
                ".".join(("atlas", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
            )
    for name in dir(atlas):
        assert callable(getattr(atlas, name)), name


def test_type_checkers_see_the_public_names() -> None:
    """They do not run the code that looks names up: the imports that they read name the same."""
    tree = ast.parse((ROOT / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert seen == atlas._PUBLIC
    assert sorted(atlas.__all__) == dir(atlas)


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


UNTIL_COMPILING = """
import json, os, sys
import atlas.evaluation.held_out
from atlas.cli import main
from atlas.training import Trainer

def loaded(*_):
    files = [name for name, module in sys.modules.items() if name.count(".") == 0 or not hasattr(module, "__path__")]
    print(json.dumps(files), file=sys.__stdout__, flush=True)
    os._exit(0)

Trainer.compiled_init = property(loaded)
atlas.evaluation.held_out.obtain = lambda *_: ()  # else they would be proven here, unless they are in the cache
atlas.evaluation.held_out.Exam = lambda *_: None
main(["train", sys.argv[2], "--folder", sys.argv[1], "--json"])
"""
MOST = {"quick-accel": 64, "quick": 67}
"""Modules of ours that training loads before it compiles; `quick` screens problems."""


@pytest.mark.parametrize("preset", MOST)
def test_training_loads_little_before_it_compiles(preset: str, tmp_path: Path) -> None:
    """No grammar, no pictures, no prover before something needs them."""
    command = [sys.executable, "-c", UNTIL_COMPILING, str(tmp_path / "run"), preset]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    modules = set(json.loads(done.stdout))
    ours = {name for name in modules if name.startswith("atlas.")}
    assert not {"PIL", "matplotlib"} & modules
    for word in ("english", "explain", "ltlf", "show", "prove", "surface", "problem_files"):
        assert not {name for name in ours if word in name.split(".")}
    assert len(ours) <= MOST[preset]


def test_what_people_do_with_tasks_needs_no_jax() -> None:
    for name in JAXLESS:
        path = ROOT / name / "__init__.py" if (ROOT / name).is_dir() else ROOT / f"{name}.py"
        modules = {
            name
            for node in ast.walk(ast.parse(path.read_text()))
            for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [])
            + ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [])
        }
        ours = {module.removeprefix("atlas.").replace(".", "/") for module in modules if module.startswith("atlas.")}
        assert not {"jax", "jaxtyping"} & modules, name
        assert ours <= JAXLESS | {"tasks", "domains", "ued"}, name
