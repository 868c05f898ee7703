"""What is released: a wheel with everything in it, which fresh environments install and play from."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
VERSIONS = ("3.11", "3.12", "3.13")
SMOKE = (
    *("test_chance.py", "test_config.py", "test_documents.py", "test_world.py", "test_export.py"),
    *("tasks/test_ltlf.py", "tasks/test_machine.py", "domains/minigrid/test_dynamics.py", "runs/test_store.py"),
)
"""Tests that a wheel is tried with: the ones that need nothing beside it but pytest, Hypothesis, beartype and SciPy."""
BESIDE = ("pytest", "hypothesis", "beartype", "scipy")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def run(*command: object, **settings: object) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **settings)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_smoke_tests_are_there() -> None:
    for name in SMOKE:
        assert (ROOT / "tests" / name).is_file(), name


def test_constraints_cover_what_is_needed() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = dict(line.lower().replace("_", "-").split("==") for line in lines if not line.startswith("#"))
    for need in PROJECT["dependencies"]:
        assert re.split(r"[^\w-]", need)[0].lower() in pinned, need


def test_citation_and_workflow_are_what_their_schemas_ask_for() -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema"]
    run(*check, "vendor.citation-file-format", ROOT / "CITATION.cff")
    run(*check, "vendor.github-workflows", ROOT / ".github" / "workflows" / "test.yml")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT)
    return out


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    return next(dist.glob("*.whl"))


@pytest.mark.slow
def test_it_can_be_uploaded(dist: Path) -> None:
    told = run(sys.executable, "-m", "twine", "check", "--strict", *dist.iterdir())
    assert told.count("PASSED") == 2


@pytest.mark.slow
def test_everything_is_in_the_wheel(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "src" / "atlas"
    files = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    missing = [path for path in files if f"atlas/{path.relative_to(package).as_posix()}" not in inside]
    assert not missing
    for problem in (ROOT / "problems" / "hand").iterdir():
        assert f"atlas/hand/{problem.name}" in inside
    assert "atlas/py.typed" in inside
    assert not [name for name in inside if not name.startswith(("atlas/", "atlas_ued-"))]


@pytest.mark.slow
def test_the_source_archive_builds_the_same(dist: Path, wheel: Path, tmp_path: Path) -> None:
    run("tar", "xzf", next(dist.glob("*.tar.gz")), "-C", tmp_path)
    source = next(tmp_path.iterdir())
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path / "out", source)
    again = next((tmp_path / "out").glob("*.whl"))
    contents = [{i.filename: i.CRC for i in zipfile.ZipFile(path).infolist()} for path in (wheel, again)]
    assert contents[0] == contents[1]


def interpreter(version: str) -> str | None:
    """A Python of that version that starts; version managers put names on the path that lead nowhere."""
    found = shutil.which(f"python{version}")
    works = found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0
    return found if works else None


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_a_fresh_environment(version: str, wheel: Path, tmp_path: Path) -> None:
    """Installed without the source tree: a policy of the zoo plays and is evaluated, and tests pass against it."""
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no python{version} here")
    home = tmp_path / "venv"
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "XLA_FLAGS")}
    environment |= {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    run(python, "-m", "venv", home, env=environment)
    pip = [home / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*pip, wheel, *BESIDE, env=environment, cwd=tmp_path)
    atlas = home / "bin" / "atlas"
    for name in ("tests", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    told = json.loads(run(atlas, "info", "--json", env=environment, cwd=tmp_path))
    assert (told["atlas"], told["python"].rsplit(".", 1)[0]) == (PROJECT["version"], version)
    assert Path(told["path"]).is_relative_to(home)
    assert "solved after" in run(atlas, "watch", "zoo:quick", env=environment, cwd=tmp_path)
    asked = ("zoo:quick", "--problems", "validation", "--attempts", "1", "--out", "v.json", "--json")
    found = json.loads(run(atlas, "eval", *asked, env=environment, cwd=tmp_path))
    assert found["together"]["mean"]["value"] > 0.5
    tests = [tmp_path / "tests" / name for name in SMOKE]
    run(home / "bin" / "python", "-m", "pytest", "-m", "not slow", *tests, env=environment, cwd=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_finds_its_packages(version: str, wheel: Path, tmp_path: Path) -> None:
    """Pip's resolver, asked for another Python than this one; nothing is installed."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--target", tmp_path / "nowhere"]
    run(*pip, "--python-version", version, "--only-binary=:all:", "--ignore-installed", wheel)
