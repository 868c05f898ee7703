"""`atlas eval` as people and machines use it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from atlas.cli import main
from atlas.evaluation.results import read_evaluation
from fake_runs import TIMES, fake_run

LAST = TIMES[-1]
QUICK = ("--attempts", "2", "--step-limit", "9")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("eval")
    for name, seed in (("one", 0), ("two", 1)):
        shutil.rmtree(fake_run(folder / name, seed) / "evaluations")
    return folder


@pytest.fixture(scope="module")
def together(made: Path) -> dict[str, Any]:
    runs, problems = [str(made / "one"), str(made / "two")], str(made / "set.yaml")
    assert main(["eval", *runs, "--problems", problems, *QUICK, "--out", str(made / "out.json")]) == 0
    return json.loads((made / "out.json").read_text())


def test_everything_agreed_is_in_the_file(made: Path, together: dict[str, Any]) -> None:
    about = {"name": "set", "problems": 5, "step_limit": 9, "attempts": 2, "greedy": False, "seed": 0}
    assert about.items() <= together["set"].items()
    assert [Path(run["run"]).name for run in together["runs"]] == ["one", "two"]
    for run in together["runs"]:
        assert run["iteration"] == LAST
        assert {"mean", "median", "iqm", "by_tag", "cvar", "steps", "seconds"} <= run.keys()
        assert [point["alpha"] for point in run["cvar"]] == list(range(1, 101))
        assert run["cvar"][-1]["value"] == pytest.approx(run["mean"])
        for row in run["problems"]:
            assert row["low"] <= row["rate"] == row["solved"] / row["attempts"] <= row["high"]
            assert row["plan_length"] >= 1
            assert {"name", "tags", "rooms", "states", "mean_steps"} <= row.keys()
            assert row["solved"] + row["rejected"] + row["timed_out"] == row["attempts"]
            assert sum(row["stalled"].values()) == row["timed_out"]
    for name in ("mean", "median", "iqm"):
        assert together["together"][name].keys() == {"value", "low", "high"}


def test_every_run_keeps_its_own(made: Path, together: dict[str, Any]) -> None:
    for name, run in zip(("one", "two"), together["runs"], strict=True):
        kept = read_evaluation(made / name / "evaluations" / "set.json")
        assert kept["runs"] == [run]
        assert kept["together"]["mean"]["value"] == run["mean"]


def test_a_checkpoint_is_the_same_and_kept_apart(
    made: Path, together: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = made / "one" / "checkpoints" / str(LAST)
    assert main(["eval", str(checkpoint), "--problems", str(made / "set.yaml"), *QUICK, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["runs"][0]["problems"] == together["runs"][0]["problems"]
    assert (made / "one" / "evaluations" / f"at-{LAST:09d}" / "set.json").is_file()


def test_what_people_see(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(made / "one"), "--problems", str(made / "set.yaml"), *QUICK, "--all"]) == 0
    out = capsys.readouterr().out
    for words in (
        "5 problems x 2 attempts",
        "9 steps",
        "behind-you",
        "in-distribution",
        "IQM",
        "worst 10 %",
        "written",
    ):
        assert words in out


def test_over_time(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [str(made / "one"), "--problems", str(made / "set.yaml"), "--step-limit", "9", "--over-time"]
    assert main(["eval", *arguments]) == 0
    kept = read_evaluation(made / "one" / "evaluations" / "set-over-time.json")
    assert kept["set"]["attempts"] == 2
    assert [point["iteration"] for point in kept["points"]] == [LAST]
    assert {"steps", "seconds", "mean", "iqm", "median"} <= kept["points"][0].keys()
    assert f"{64 * LAST:,}" in capsys.readouterr().out


def complaint(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["eval", *arguments]) == 2
    return capsys.readouterr().err


def test_bad_input_is_a_sentence(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, problems = str(made / "one"), str(made / "set.yaml")
    assert "no policy was given" in complaint([], capsys)
    assert "does not exist" in complaint([str(tmp_path / "nowhere")], capsys)
    assert "holds no run" in complaint([str(tmp_path), "--problems", problems], capsys)
    assert "attempts = 0" in complaint([one, "--problems", problems, "--attempts", "0"], capsys)
    assert "neither a file or folder nor the name" in complaint([one, "--problems", "hend.x"], capsys)
    bare = Path(shutil.copytree(made / "one", tmp_path / "bare"))
    (bare / "config.yaml").unlink()
    assert "no config" in complaint([str(bare / "checkpoints" / str(LAST)), "--problems", problems], capsys)
    shutil.rmtree(bare / "policies")
    shutil.copy(made / "one" / "config.yaml", bare)
    assert "has kept no policies" in complaint([str(bare), "--problems", problems, "--over-time"], capsys)


def test_a_bad_file_in_a_set(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(made / "set.yaml", tmp_path / "good.yaml")
    (tmp_path / "worse.yaml").write_text("name: worse\nlevel: 3\n")
    arguments = [str(made / "one"), "--problems", str(tmp_path), *QUICK]
    assert "worse.yaml" in complaint(arguments, capsys)
    assert main(["eval", *arguments, "--skip-bad"]) == 0
    captured = capsys.readouterr()
    assert "skipped" in captured.err
    assert "worse.yaml" in captured.err
    assert "5 problems" in captured.out
