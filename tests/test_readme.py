"""What the README says is true: its commands, its snippets, its numbers, its pictures."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from PIL import Image

from atlas import cli
from atlas.runs.folder import zoo_names
from atlas.runs.zoo import read_card

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_every_command_is_told_of() -> None:
    for name in cli.COMMANDS:
        assert re.search(rf"atlas {name}\b", README), name


def test_links_lead_somewhere() -> None:
    """Of its pictures, which are HTML; `test_docs.py` follows the links of every page, and checks its commands."""
    places = re.findall(r'(?:src|href)="([^"#]+)"', README)
    for place in places:
        if not place.startswith("http"):
            assert (ROOT / place).exists(), place
    film = ROOT / "docs" / "figures" / "film.gif"
    assert "docs/figures/film.gif" in places
    assert film.stat().st_size < 2_000_000


def test_the_film_is_said_as_it_was_made() -> None:
    """The sentence beside the film is the one that `make film` takes."""
    task = re.search(r'TASK = "(.*)"', (ROOT / "docs" / "film.py").read_text())
    assert task is not None
    assert task[1] in README


def test_numbers_are_those_of_the_cards() -> None:
    rows = dict(re.findall(r"\| `zoo:(\w+)`\s*\| (.*) \|", README))
    assert set(rows) == {*zoo_names()}
    for name, row in rows.items():
        card, cells = read_card(name), [cell.strip() for cell in row.split("|")]
        for cell, key in zip(cells[-2:], ("validation", "hand"), strict=True):
            wanted = f"{card.sets[key]['mean']['value']:.0%}".replace("%", " %") if key in card.sets else "–"
            assert cell == wanted, name


def test_one_version() -> None:
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == version[1]
    log = (ROOT / "CHANGELOG.md").read_text()
    newest = re.search(r"^## (\d\S*) - (\S+)", log, re.MULTILINE)
    assert newest is not None
    assert (newest[1], newest[2]) == (version[1], str(citation["date-released"]))


@pytest.mark.slow
def test_the_python_lines_run(tmp_path: Path) -> None:
    """All blocks, one after the other, beside the problem that the README shows; training is cut to its first step."""
    shown = re.search(r"```yaml\n(.*?)```", README, re.DOTALL)
    assert shown is not None
    (tmp_path / "problem.yaml").write_text(shown[1])
    script = "import atlas\natlas.train = lambda *_, **__: None\n" + "\n".join(PYTHON)
    script += "\nassert label, 'a label that says nothing'\nassert plan is not None\n"
    (tmp_path / "readme.py").write_text("my_score = None\n" + script)
    done = subprocess.run([sys.executable, "readme.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_film_can_be_made_anew(tmp_path: Path) -> None:
    """With the arithmetic of another machine it may be another episode, but one that is solved."""
    script = [sys.executable, str(ROOT / "docs" / "film.py"), str(tmp_path / "film.gif")]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert "solved after" in done.stdout, done.stdout + done.stderr
    with Image.open(tmp_path / "film.gif") as film, Image.open(ROOT / "docs" / "figures" / "film.gif") as ours:
        assert film.size == ours.size
    assert (tmp_path / "film.gif").stat().st_size < 2_000_000


@pytest.mark.slow
def test_training_as_the_readme_says(tmp_path: Path) -> None:
    """The default preset, shortened: trained, watched, evaluated."""

    def run(*words: str) -> str:
        command = [sys.executable, "-m", "atlas", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    told = run("train", "quick", "--run.time-limit", "2", "--folder", "run")
    assert "expected: 2:00 of training, its limit" in told
    assert "watch it" in told
    assert "after" in run("watch", "run", "--task", "go to a ball")
    assert "mean" in run("eval", "run", "--problems", "hand", "--attempts", "1").lower()
