"""README, docs and notebooks say what is true: links lead somewhere, commands, flags and settings exist, examples run.

`docs/generated.py` writes some pages; here they are compared with what the commands and settings say themselves.
"""

import contextlib
import functools
import importlib.util
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest
import yaml

import atlas
import atlas.testing
from atlas.cli import COMMANDS, main
from atlas.config import Config
from atlas.domains import DOMAINS, settings_class
from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.errors import TaskWarning
from atlas.presets import presets
from atlas.runs.folder import ZOO
from atlas.settings import flat, to_plain
from atlas.tasks.explain import shape
from atlas.tasks.formats import parse_task
from atlas.ued import TEACHERS
from goldens import flags

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "docs/tutorials/*.md", "docs/reference/*.md", "examples/*/*.md")
    for path in ROOT.glob(pattern)
)


def words_of(path: Path) -> str:
    """A page as Markdown; of a notebook its text, and its code in fences."""
    if path.suffix == ".md":
        return path.read_text()
    cells = json.loads(path.read_text())["cells"]
    texts = [("".join(cell["source"]), cell["cell_type"] == "code") for cell in cells]
    return "\n\n".join(f"```python\n{text}\n```" if code else text for text, code in texts)


def blocks(path: Path, *kinds: str) -> list[tuple[str, str]]:
    """The fenced blocks of some languages: language and content."""
    found = re.findall(r"^```(\w*)\n(.*?)^```", words_of(path), re.DOTALL | re.MULTILINE)
    return [(kind, text) for kind, text in found if kind in kinds]


def load(name: str):
    """A module of the docs folder, which is no package."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


named = pytest.mark.parametrize("path", [*PAGES, *NOTEBOOKS], ids=lambda path: str(path.relative_to(ROOT)))


# Links and names


def slug(heading: str) -> str:
    """The anchor that forges give to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@named
def test_links_lead_somewhere(path):
    text = re.sub(r"^```.*?^```", "", words_of(path), flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        place, _, anchor = link.partition("#")
        target = (path.parent / place).resolve() if place else path
        assert target.exists(), f"{path.name} links to {link}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            assert anchor in map(slug, headings), f"{path.name} links to {link}: there is no such heading"


@named
def test_files_that_are_named_are_there(path):
    for name in re.findall(r"`((?:src|docs|tests|examples|benchmarks|problems|sweeps)/[\w./-]+)`", words_of(path)):
        there = (ROOT / name).exists() or (path.parent / name).exists()
        assert there or re.search(r"[A-Z]{4}", name), f"{path.name} speaks of {name}"  # NAME stands for a name


@functools.cache
def help_of(name: str) -> str:
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.suppress(SystemExit):
        main([*name.split(), "--help"])
    return told.getvalue()


def known_flags(words: list[str]) -> set[str]:
    """The flags that a command line may have; a preset or a teacher brings its own."""
    if words[0] in ("sets", "zoo") and len(words) > 1 and words[1] in ("list", "build", "verify", "add"):
        return set(flags(help_of(" ".join(words[:2]))))
    found = set(flags(help_of(words[0])))
    if words[0] in ("train", "resume"):
        found |= {f"--{key.replace('_', '-')}" for key in all_settings()}
    return found


@functools.cache
def all_settings() -> frozenset[str]:
    """The full names of all settings of all teachers and domains."""
    configs = [Config(teacher=row.settings()) for row in TEACHERS.values()]
    configs += [Config(domain=settings_class(name)()) for name in DOMAINS]
    return frozenset(key for config in configs for key in flat(to_plain(config)))


def lines_of(path: Path) -> list[list[str]]:
    """The command lines of a page, in blocks of code and in sentences, without comments and what they are piped to."""
    text = words_of(path)
    found = re.findall(r"`atlas ([a-z][^`\n]*)`", text)
    fences = "".join(re.findall(r"^```.*?^```", text, re.DOTALL | re.MULTILINE))
    found += re.findall(r"^(?:\$ |!|.* && )?atlas ([a-z].*)$", fences, re.MULTILINE)
    found += re.findall(r"^    (?:.* && )?atlas ([a-z].*)$", text, re.MULTILINE)
    found = [re.split(r" #|\s{2,}| && | \| |;", line)[0].rstrip(" …,.") for line in found]
    return [shlex.split(line) if line.count('"') % 2 == 0 else line.split() for line in found]


@named
def test_commands_flags_presets_and_policies_exist(path):
    if path.name == "CHANGELOG.md":
        return  # speaks of what was
    for words in lines_of(path):
        assert words[0] in COMMANDS, f"{path.name}: there is no `atlas {words[0]}`"
        for word in words[1:]:
            flag = word.partition("=")[0]
            if re.fullmatch(r"--[a-z][\w.-]*", flag) and flag not in ("--help", "--debug"):
                assert flag in known_flags(words), f"{path.name}: `atlas {' '.join(words)}` has no {flag}"
        if words[0] == "train" and len(words) > 1 and re.fullmatch(r"[a-z][a-z0-9-]+", words[1]):
            known = {*presets(), "rehearsal-tiny", "mine"}
            assert words[1] in known, f"{path.name}: there is no preset {words[1]}"
    for policy in re.findall(r"zoo:([a-z]\w*)", words_of(path)):
        assert (ZOO / policy).exists() or path.name in ("zoo.md",), f"{path.name}: there is no zoo:{policy}"


# What is generated, and what is checked against the code


def test_every_command_and_flag_is_in_the_reference():
    page = load("generated").commands_page()
    for name in COMMANDS:
        _, _, section = page.partition(f"## `atlas {name}`\n")
        section = re.split(r"^## ", section, flags=re.MULTILINE)[0]
        assert section, name
        written = {*re.findall(r"-{1,2}[a-zA-Z][\w-]*", " ".join(re.findall(r"^`(.*)`$", section, re.MULTILINE)))}
        for flag in flags(help_of(name)):
            if flag.startswith("-") and "." not in flag and flag not in ("-h", "--help"):
                assert {flag, flag.replace("--no-", "--"), flag.replace("--", "--no-", 1)} & written, f"{name} {flag}"


def test_every_setting_is_in_the_reference():
    page = load("generated").settings_page()
    assert "dataclass" not in page
    missing = {key for key in all_settings() if not key.endswith(".name") and f"`{key}`\n" not in page}
    assert not missing
    for name in (*TEACHERS, *DOMAINS):
        assert f".name: {name}`" in page


def test_every_preset_is_in_the_reference():
    page = load("generated").presets_page()
    assert all(f"`{name}`\n: {one.summary}" in page for name, one in presets().items())


def test_every_extra_is_told():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    told = re.findall(r"^\| `(\w+)` \|", (DOCS / "install.md").read_text(), re.MULTILINE)
    assert sorted(told) == sorted(extras)


def test_every_public_name_is_in_the_reference():
    page = (DOCS / "reference" / "api.md").read_text()
    assert not [name for name in atlas.__all__ if not re.search(rf"\.\. auto\w+:: atlas\.{name}$", page, re.MULTILINE)]
    laws = [name for name in dir(atlas.testing) if name.startswith("check_")]
    assert sorted(re.findall(r"atlas\.testing\.(check_\w+)", page)) == laws


def test_every_page_is_in_the_index():
    index = (DOCS / "index.md").read_text()
    listed = {line for block in re.findall(r"```\{toctree\}\n(.*?)```", index, re.DOTALL) for line in block.split()}
    pages = {str(path.relative_to(DOCS).with_suffix("")) for path in PAGES if path.is_relative_to(DOCS)}
    notebooks = {f"notebooks/{path.stem}" for path in NOTEBOOKS}
    assert listed >= (pages | notebooks) - {"index"}


def test_the_pictures_of_the_tour_are_made_by_its_commands():
    pictures = load("pictures")
    shown = set(re.findall(r"\]\(pictures/(\S+)\)", (DOCS / "tour.md").read_text()))
    assert shown == {*pictures.commands(), *pictures.PAGES}
    files = list((DOCS / "pictures").iterdir())
    assert {path.name for path in files} == shown
    assert sum(path.stat().st_size for path in files) < 3_000_000


# Tasks


TASK_PAGES = (DOCS / "tasks.md", DOCS / "tutorials" / "write-a-task.md")
TASKS = [
    (kind, text)
    for page in TASK_PAGES
    for kind, block in blocks(page, "english", "steps", "ltlf", "yaml")
    for text in (block.splitlines() if kind in ("english", "ltlf") else [block])
]


def read(kind: str, text: str):
    if kind == "yaml":
        return parse_task(yaml.safe_load(text), VOCABULARY)
    return atlas.ltlf(text) if kind == "ltlf" else atlas.english(text)


@pytest.mark.parametrize(("kind", "text"), TASKS)
def test_tasks_are_read_and_explained(kind, text):
    with warnings.catch_warnings():
        warnings.simplefilter("error", TaskWarning)
        task = read(kind, text)
    assert shape(atlas.english(atlas.explain(task))) == shape(task)


def test_there_are_tasks_of_every_kind():
    assert {kind for kind, _ in TASKS} == {"english", "steps", "ltlf", "yaml"}


# Problems and commands


def test_the_problem_of_the_page_about_letters(tmp_path):
    path, page = tmp_path / "problem.yaml", DOCS / "letterworld.md"
    path.write_text(blocks(page, "yaml")[0][1])
    (problem,) = atlas.load(path)
    assert atlas.solve(problem).plan_length == 4
    atlas.save(problem, tmp_path / "again.yaml")
    (again,) = atlas.load(tmp_path / "again.yaml")
    assert (again.level.cells == problem.level.cells).all()
    assert atlas.explain(again) == atlas.explain(problem) == "Visit a, then visit b, without visiting c."
    formula = re.search(r"LTLf \(`(.*?)`\)", page.read_text())[1]
    assert atlas.explain(atlas.ltlf(formula, domain="letterworld"), domain="letterworld") == atlas.explain(problem)


LETTERS = [words for words in lines_of(DOCS / "letterworld.md") if words[0] in ("sample", "task", "sets")]


@pytest.mark.parametrize("words", LETTERS, ids=" ".join)
def test_commands_of_the_page_about_letters(words, capsys):
    assert main(words) == 0
    assert capsys.readouterr().out


def test_the_problem_of_the_tutorial_as_its_commands_take_it(tmp_path, monkeypatch, capsys):
    page = DOCS / "tutorials" / "draw-a-problem.md"
    monkeypatch.chdir(tmp_path)
    Path("fetch.yaml").write_text(blocks(page, "yaml")[0][1])
    for words in lines_of(page):
        if words[0] in ("show", "solve", "trace"):
            assert main(words) == 0
    assert "solvable" in capsys.readouterr().out
    Path("fetch.yaml").write_text(Path("fetch.yaml").read_text().replace("kb", ".."))
    assert main(["solve", "fetch.yaml"]) == 0
    assert "unsolvable" in capsys.readouterr().out, "the page says so"


# Python


FAST = {"plugins", "write-a-task", "draw-a-problem"}
SCRIPTS = [path for path in PAGES if path.is_relative_to(DOCS) and blocks(path, "python")]
EXCERPTS = {
    "tasks": "a translator of one's own",
    "export": "a policy that was written to a file",
    "demos": "a file of demonstrations",
    "babyai": "an extra",
}
"""Pages whose Python needs something that is not there, and what; other tests run the like."""


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=() if path.stem in FAST else pytest.mark.slow, id=path.stem)
        for path in SCRIPTS
        if path.stem not in EXCERPTS
    ],
)
def test_pages_run(path, tmp_path, monkeypatch):
    """All Python blocks of a page, one after the other, as one script."""
    script = tmp_path / "page.py"
    script.write_text("\n".join(text for _, text in blocks(path, "python")))
    monkeypatch.chdir(tmp_path)
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "XLA_FLAGS": ""}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", load("pictures").commands())
def test_commands_of_the_tour(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("pictures").mkdir()
    assert main(load("pictures").commands()[name]) == 0
    assert Path("pictures", name).stat().st_size > 1000


# Notebooks and the site


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_small_and_were_run(path):
    notebook = json.loads(path.read_text())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert "pip install" in "".join(code[0]["source"]), "the first cell installs, for Colab"
    assert all(cell["execution_count"] for cell in code), "its outputs are kept"
    kinds = {output["output_type"] for cell in code for output in cell["outputs"]}
    assert "error" not in kinds
    assert path.stat().st_size < 600_000
    assert "Colab" in words_of(path)
    for line in re.findall(r"/(?:home|root|work|tmp|Users)/\S*", path.read_text()):
        pytest.fail(f"a path of the machine that ran it: {line}")


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path, tmp_path, monkeypatch):
    """From the first cell to the last, with trainings of seconds."""
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("ATLAS_NOTEBOOK_STEPS", "2048")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=1800, kernel_name="python3", resources={"metadata": {"path": tmp_path}})
    client.execute()


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-d", str(tmp_path / "kept")]
    done = subprocess.run([*command, str(DOCS), str(tmp_path / "html")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = {path.relative_to(tmp_path / "html").with_suffix("") for path in (tmp_path / "html").rglob("*.html")}
    expected = {path.relative_to(DOCS).with_suffix("") for path in PAGES if path.is_relative_to(DOCS)}
    assert expected <= pages
    text = "".join(path.read_text() for path in (tmp_path / "html").rglob("*.html"))
    assert not re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(?:https?:)?//', text), "something is loaded"
