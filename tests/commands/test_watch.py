"""`atlas watch` as people and machines use it."""

import json
from pathlib import Path

import pytest
from PIL import Image

from atlas.cli import main
from atlas.evaluation.sets import Collection
from atlas.problems import stack
from atlas.runs.store import save_bulk
from fake_runs import fake_run, fake_set

PROBLEM = "name: '[red] ball'\nlevel: |\n  ########\n  ##or..##\n  ##..v.##\n  ########\ntask: go to a red ball\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_run(tmp_path_factory.mktemp("watch") / "run")


@pytest.fixture
def problem(tmp_path: Path) -> str:
    path = tmp_path / "ball.yaml"
    path.write_text(PROBLEM)
    return str(path)


def test_moments_are_printed_where_nothing_can_move(
    run: Path, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", str(run), problem, "--step-limit", "3"]) == 0
    out = capsys.readouterr().out
    assert "[red] ball   step 0   start   u0" in out
    assert out.count("expects a return of") == 3
    assert "forward" in out
    assert out.rstrip().splitlines()[-1].startswith("[red] ball: ")


def test_machines_get_json(run: Path, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(run), problem, "--step-limit", "4", "--seed", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ending"] in ("solved", "out of steps")
    assert len(told["moments"]) == told["steps"] + 1
    assert sum(told["moments"][0]["probabilities"].values()) == pytest.approx(1, abs=1e-3)


def test_a_film_can_be_written(run: Path, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(run), problem, "--step-limit", "3", "--film", str(tmp_path / "film.gif")]) == 0
    with Image.open(tmp_path / "film.gif") as film:
        assert film.n_frames == 4
    assert capsys.readouterr().out.endswith(f"wrote {tmp_path / 'film.gif'}\n")


def test_names_are_looked_up_among_the_hand_designed(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "balls.yaml").write_text(PROBLEM.replace("[red] ball", "red"))
    hand = Collection("hand", "", 1, lambda: tmp_path / "some", "")
    monkeypatch.setattr("atlas.evaluation.sets.named_sets", lambda: {"hand": hand})
    monkeypatch.chdir(tmp_path)
    for words in ("red", "hand:red", "some:red", "some/balls.yaml"):
        assert main(["watch", str(run), words, "--step-limit", "2"]) == 0
    assert main(["watch", str(run), "rad"]) == 2
    assert "did you mean red?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("problem", "words"),
    [("nix.yaml", "does not exist"), ("nix:a", "nor the name of a set"), ("level.txt", "without a task")],
)
def test_what_is_no_problem_is_said(
    run: Path,
    problem: str,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "level.txt").write_text("######\n##^.##\n######\n")
    assert main(["watch", str(run), problem]) == 2
    assert words in capsys.readouterr().err


def test_a_folder_without_a_run_is_said(problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(tmp_path), problem]) == 2
    assert "holds no run" in capsys.readouterr().err


def test_without_a_problem_a_held_out_one_is_played(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", str(run)]) == 2
    assert "keeps no held-out problems" in capsys.readouterr().err
    problems = fake_set(tmp_path / "set.yaml")
    save_bulk(stack(problems), run / "held_out.npz", {}, 0, [problem.name for problem in problems])
    assert main(["watch", str(run), "--seed", "1", "--step-limit", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["problem"] == problems[1].name
    (run / "held_out.npz").unlink()


def test_a_task_in_words_is_played_in_a_level_that_is_drawn_for_it(
    run: Path, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["watch", str(run), "--task", "go to a ball, please", "--rooms", "1", "--seed", "3", "--step-limit", "20"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert out.startswith("understood: Go to a ball.\nhere it is solvable: a plan of ")
    assert "go to a ball, please   step 0   start   u0" in out
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["understood"] == "Go to a ball."
    assert main(["watch", str(run), problem, "--task", "pick up all the balls", "--step-limit", "2"]) == 0
    assert "understood: Pick up a red ball." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--rooms", "2"], "--rooms is for the level that is drawn"),
        (["--task", "go to a bal"], "did you mean ball?"),
        (["--task", "go to a ball", "--rooms", "3"], "domain.rooms"),
    ],
)
def test_a_task_that_cannot_be_played_is_said(
    run: Path, words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", str(run), *words]) == 2
    assert complaint in capsys.readouterr().err
