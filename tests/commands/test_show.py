"""`atlas show` as people and machines use it."""

import json
from pathlib import Path

import pytest
from PIL import Image

import atlas
from atlas.cli import main

PROBLEM = """
name: fetch
tags: [keys]
notes: Mind [the] door.
level: |
  ############
  ##kb....-r##
  ##^.......##
  ############
carrying: green ball
task: pick up the blue key, then open the red door
"""


@pytest.fixture
def problem(tmp_path: Path) -> str:
    path = tmp_path / "fetch.yaml"
    path.write_text(PROBLEM)
    return str(path)


@pytest.fixture
def several(tmp_path: Path) -> str:
    path = tmp_path / "set.yaml"
    path.write_text("---".join([PROBLEM, PROBLEM.replace("name: fetch", "name: other")]))
    return str(path)


def test_a_problem_without_colours_shows_what_can_be_typed(problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", problem]) == 0
    shown = capsys.readouterr().out
    assert "##kb....-r##\n##^.......##" in shown
    assert "carrying: green ball" in shown
    assert "Mind [the] door." in shown
    assert "Pick up a blue key, then go to an open red door." in shown


def test_pictures_are_written(problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", problem, "--png", str(tmp_path / "a.png"), "--svg", str(tmp_path / "a.svg")]) == 0
    assert f"wrote {tmp_path / 'a.png'}\nwrote {tmp_path / 'a.svg'}\n" in capsys.readouterr().out
    with Image.open(tmp_path / "a.png") as image:
        assert image.width > 6 * 32
    assert (tmp_path / "a.svg").read_text().startswith("<svg ")


def test_a_set_is_listed_and_one_of_it_shown(several: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", several]) == 0
    listed = capsys.readouterr().out
    assert "fetch" in listed
    assert "other" in listed
    assert "####" not in listed
    assert main(["show", several, "--name", "other"]) == 0
    assert "####" in capsys.readouterr().out


def test_json_tells_everything(several: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", several, "--index", "1", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["name"], told["rows"], told["cols"], told["objects"]) == ("other", 4, 6, 2)
    assert told["carrying"] == "ball_green"
    assert told["level"].splitlines()[1] == "##kb....-r##"


def test_a_level_without_a_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "level.txt"
    path.write_text("##or##\n##^.##\n")
    assert main(["show", str(path), "--svg", str(tmp_path / "a.svg")]) == 0
    assert capsys.readouterr().out == f"##or##\n##^.##\nwrote {tmp_path / 'a.svg'}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--png", "a.png"], "holds 2 problems; choose one"),
        (["--name", "fetsh"], "did you mean fetch"),
        (["--index", "7"], "numbered from 0 to 1"),
    ],
)
def test_mistakes_are_sentences(
    several: str, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", several, *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_a_problem_is_drawn_by_a_program_that_is_kept(
    problem: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    called: list[str] = []
    monkeypatch.setattr("atlas.programs.keep_programs", lambda: called.append("keep"))
    monkeypatch.setattr("atlas.api.sample", lambda *_, **__: [called.append("sample"), *atlas.load(problem)][1:])
    assert main(["show"]) == 0
    assert called == ["keep", "sample"]
