"""`atlas solve` as people and machines use it."""

import json
from pathlib import Path

import pytest
from PIL import Image

import atlas
from atlas.cli import main

SET = """
name: fetch
level: |
  ##########
  ##>...kb##
  ##......##
  ##########
task: pick up the blue key
---
name: hopeless
level: |
  ##########
  ##>...kb##
  ##########
task: pick up the red ball
---
name: done
level: |
  ########
  ##..kb##
  ##..^.##
  ########
task:
  transitions:
    u0: {uA: front_key}
"""


@pytest.fixture
def problems(tmp_path: Path) -> str:
    path = tmp_path / "set.yaml"
    path.write_text(SET)
    return str(path)


def test_json_tells_each_problem_and_the_total(problems: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", problems, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    rows = {row["name"]: row for row in told["problems"]}
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "fetch": "solvable", "hopeless": "unsolvable", "done": "solvable",
    }  # fmt: skip
    assert rows["fetch"]["plan_length"] == len(rows["fetch"]["plan"]) == 2
    assert "there is no red ball" in rows["hopeless"]["reason"]
    assert rows["hopeless"]["plan_length"] is None
    assert rows["done"]["trivial"]
    total = told["total"]
    assert (total["problems"], total["solvable"], total["unsolvable"], total["unknown"]) == (3, 2, 1, 0)
    plan = rows["fetch"]["plan"]
    assert atlas.trace(atlas.load(problems)[0], plan)[-1].task_state == "uA"


def test_people_see_a_table(problems: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", problems]) == 0
    told = capsys.readouterr().out
    assert "3 problems: 2 solvable, 1 unsolvable, 0 unknown, 1 trivial" in " ".join(told.split())
    assert main(["solve", problems, "--name", "fetch"]) == 0
    assert "plan: forward, pick up" in capsys.readouterr().out


def test_a_plan_can_be_filmed(problems: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    film = tmp_path / "plan.gif"
    assert main(["solve", problems, "--index", "0", "--film", str(film)]) == 0
    assert Image.open(film).n_frames == 3
    capsys.readouterr()
    assert main(["solve", problems, "--name", "hopeless", "--film", str(film)]) == 2
    assert "has no plan to film" in capsys.readouterr().err


def test_sampled_problems_are_counted_in_fractions(capsys: pytest.CaptureFixture[str]) -> None:
    ask = [
        "solve",
        "--sampled",
        "24",
        "--pairing",
        "level",
        "--tasks",
        "sequential",
        "--rooms",
        "1",
        "2",
        "--seed",
        "3",
    ]
    assert main([*ask, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["share_proven"] + told["share_unsolvable"] + told["unknown"] == pytest.approx(1)
    assert 0.5 < told["share_relaxed"] <= 1
    assert told["unknown"] == 0
    assert (told["sampled"], told["pairing"], told["tasks"], told["seed"]) == (24, "level", "sequential", 3)
    assert main(ask) == 0
    assert f"{100 * told['share_proven']:5.1f} %  solvable, with a plan" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give either a file or set of problems, or --sampled N"),
        (["{}", "--sampled", "4"], "give either"),
        (["{}", "--film", "x.gif"], "holds 3 problems; choose one"),
        (["{}", "--name", "fetc"], "did you mean fetch"),
        (["nowhere.yaml"], "nowhere.yaml does not exist"),
        (["{}", "--step-limit", "0"], "step_limit = 0"),
    ],
)
def test_mistakes_are_sentences(
    problems: str, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["solve", *(argument.format(problems) for argument in arguments)]) == 2
    assert words in capsys.readouterr().err


def test_a_level_without_a_task_cannot_be_solved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "level.txt"
    path.write_text("########\n##>...##\n########\n")
    assert main(["solve", str(path)]) == 2
    assert "without a task" in capsys.readouterr().err
