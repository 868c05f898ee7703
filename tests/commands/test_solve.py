"""`atlas solve` as people and machines use it."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import atlas
from atlas.api import settings
from atlas.cli import main
from atlas.domains.minigrid.grid import count_objects
from atlas.evaluation import solvable
from atlas.vocabulary import ACCEPTED

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
    assert capsys.readouterr().out.endswith(f"wrote {film}\n")
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


def test_shares_over_batches(capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["solve", "--sampled", "24", "--pairing", "level", "--rooms", "1", "2", "--no-proofs"]
    shares = []
    for seed in ("3", "4"):
        assert main([*ask, "--seed", seed, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert "share_proven" not in told
        shares.append(told["share_relaxed"])
    assert main([*ask, "--seed", "3", "--batches", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["batches"] == 2
    assert told["share_relaxed"] == pytest.approx(np.mean(shares))
    assert told["share_relaxed_sd"] == pytest.approx(np.std(shares, ddof=1))
    assert main([*ask, "--seed", "3", "--batches", "2"]) == 0
    mean, deviation = (f"{100 * told[key]:.1f}" for key in ("share_relaxed", "share_relaxed_sd"))
    assert f"{mean} ± {deviation} %  solvable by the cheap check" in capsys.readouterr().out


def test_shares_by_cell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(solvable, "DRAWN", 2048)
    ask = ["solve", "--sampled", "40", "--batches", "2", "--no-proofs", "--pairing", "level", "--rooms", "1", "2"]
    assert main([*ask, "--length", "1", "3", "--objects", "few", "many", "--json"]) == 0
    cells = json.loads(capsys.readouterr().out)["cells"]
    kinds = [(cell["rooms"], cell["objects"], cell["length"]) for cell in cells]
    assert kinds == [(rooms, band, length) for rooms in (1, 2) for band in ("few", "many") for length in (1, 3)]
    for cell in cells:
        if cell["rooms"] == 1:
            assert (cell["share_relaxed"], cell["share_relaxed_sd"]) == (1.0, 0.0)  # no door can be in the way
        else:
            assert 0.5 < cell["share_relaxed"] < 1
    monkeypatch.setenv("COLUMNS", "60")
    assert main([*ask, "--length", "1", "3", "--objects", "few", "many"]) == 0
    printed = [line.split("  ") for line in capsys.readouterr().out.splitlines()[2:6]]
    told = [f"{100 * cell['share_relaxed']:.1f} ± {100 * cell['share_relaxed_sd']:.1f}" for cell in cells]
    assert [[word.strip() for word in line if word] for line in printed] == [
        [rooms, band, *told[2 * n : 2 * n + 2]]
        for n, (rooms, band) in enumerate([("1", "few"), ("1", "many"), ("2", "few"), ("2", "many")])
    ]


def test_cells_hold_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solvable, "DRAWN", 2048)
    seen = []
    domain = SimpleNamespace(screen_many=lambda batch: seen.append(batch) or np.ones(len(batch.level.rooms), bool))
    monkeypatch.setattr(solvable, "surface_of", lambda name: domain)
    config, cells = solvable.cells_of(settings("level", "sequential", (1, 2)), [1, 3], ["few", "many"])
    assert (config.tasks.min_length, config.tasks.max_length) == (1, 3)
    chosen = solvable.Cell(2, "many", 3)
    assert chosen in cells
    (row,) = solvable.shares(config, [chosen], 30, 2, 0)
    assert row["share_relaxed"] == 1
    rooms = np.concatenate([batch.level.rooms for batch in seen])
    objects = np.concatenate([count_objects(batch.level.cells) for batch in seen])
    lengths = np.concatenate([np.argmax(batch.task.outcome[:, 0] == ACCEPTED, axis=1) for batch in seen])
    assert len(rooms) == 60
    assert {*rooms.tolist()} == {2}
    assert {*objects.tolist()} == {8, 9, 10}
    assert {*lengths.tolist()} == {3}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--length", "1", "--tasks", "dag"], "--length needs --tasks sequential"),
        (["--objects", "fev"], "--objects fev is not known; did you mean few?"),
        (["--objects", "few", "--rooms", "9"], "--objects few says nothing of 9 rooms"),
        (["--length", "0"], "tasks.min_length = 0"),
        (["--batches", "0"], "--batches 0 is not allowed"),
    ],
)
def test_cells_that_there_are_not(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", "--sampled", "4", "--no-proofs", *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{}", "--no-proofs"], "--no-proofs is for drawn problems"),
        ([], "give either a file or set of problems, or --sampled N"),
        (["{}", "--sampled", "4"], "give either"),
        (["{}", "--film", "x.gif"], "holds 3 problems; choose one"),
        (["{}", "--name", "fetc"], "did you mean fetch"),
        (["nowhere.yaml"], "nowhere.yaml does not exist"),
        (["{}", "--step-limit", "0"], "--step-limit 0 is not allowed"),
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
