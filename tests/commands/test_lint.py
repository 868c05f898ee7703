"""`atlas lint`: what is wrong with a set, and whether it may be used."""

import json
from pathlib import Path

import pytest

from atlas.cli import main

FETCH = """
level: |
  ############
  ##>...kb..##
  ##..or....##
  ############
task: pick up the blue key, then go to the red ball
"""
SAME = FETCH.replace(
    "pick up the blue key, then go to the red ball", "{ltlf: 'F(carrying_key_blue & X F front_ball_red)'}"
)
SHUT = """
level: |
  ############
  ##>...##or##
  ##kb..xr..##
  ############
task: pick up the blue key
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"a-fetch": FETCH, "b-same": SAME, "c-shut": SHUT}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    (tmp_path / "d-lost.yaml").write_text(FETCH.replace("pick up the blue key", "open a door"))
    (tmp_path / "e-seen.yaml").write_text(
        "level: |\n  ######\n  ##kb##\n  ##^.##\n  ######\ntask: {ltlf: F front_key}\n"
    )
    (tmp_path / "f-broken.yaml").write_text("level: nothing\n")
    return tmp_path


def findings(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict]:
    code = main(["lint", str(path), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_every_kind_of_mistake_is_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, told = findings(folder, capsys)
    kinds = {(Path(f["problem"]).stem, f["kind"]) for f in told["findings"] if f["kind"] != "task"}
    assert kinds == {
        ("b-same", "duplicate"),
        ("c-shut", "unreachable"),
        ("d-lost", "unsolvable"),
        ("e-seen", "trivial"),
        ("f-broken", "malformed"),
    }
    assert code == 1
    assert told["problems"] == 5
    assert told["errors"] == sum(f["level"] == "error" for f in told["findings"]) >= 4


def test_warnings_alone_do_not_fail(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, told = findings(folder / "c-shut.yaml", capsys)
    assert code == 0
    assert told["errors"] == 0
    assert "ball_red at (1, 4)" in told["findings"][0]["sentence"]


def test_people_read_one_line_a_finding(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", str(folder)]) == 1
    told = capsys.readouterr().out
    assert "b-same: duplicate: the same level as a-fetch, and a task that means the same" in told
    assert "d-lost: unsolvable: " in told
    assert told.splitlines()[-1].startswith("5 problems: ")
    assert main(["lint", str(folder / "a-fetch.yaml")]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 problem: no errors")


def test_a_set_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", str(tmp_path / "nowhere")]) == 2
    assert "nowhere does not exist" in capsys.readouterr().err


def test_one_problem_of_a_set_is_read_without_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "set.yaml").write_text(f"name: a\n{FETCH}---\nname: b\nlevel: nothing\ntask: nothing\n")
    assert main(["lint", f"{tmp_path / 'set.yaml'}:a"]) == 0
    assert "1 problem: no errors" in capsys.readouterr().out
