"""`atlas eval` as people and machines use it."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atlas.cli import main
from atlas.evaluation.play import Attempts
from atlas.evaluation.results import Terms, by_experiment, evaluation, print_evaluation, read_evaluation
from atlas.evaluation.sets import ProblemSet, open_set
from atlas.runs.policy import Policy, load_policy
from atlas.ued import PLRConfig
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
        "CVaR needs at least 4 attempts a problem.",
        "wrote ",
    ):
        assert words in out
    assert "worst" not in out


def attempts_at(made: Path, count: int, trivial: list[int]) -> tuple[ProblemSet, Policy, Attempts]:
    """A set, a policy and attempts that nobody made: problem n is solved in n of 5 of them, trivial ones always."""
    chosen = open_set(str(made / "set.yaml"))
    solved = np.arange(count)[None] % 5 < np.arange(5)[:, None]
    flags = np.isin(np.arange(5), trivial)
    solved |= flags[:, None]
    played = Attempts(
        solved=solved,
        timed_out=~solved,
        steps=np.full((5, count), 3),
        place=np.zeros((5, count, 2), int),
        trivial=flags,
    )
    return chosen, load_policy(made / "one"), played


def test_trivial_problems_count_as_solved_and_are_left_out_of_cvar(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen, policy, played = attempts_at(made, 20, [1])
    content = evaluation(chosen, [3] * 5, Terms(20, False, 0, 9), [(policy, played)])
    (run,) = content["runs"]
    assert [row["trivial"] for row in run["problems"]] == [False, True, False, False, False]
    assert run["problems"][1]["rate"] == 1
    assert run["trivial"] == content["together"]["trivial"] == 1
    assert run["mean"] == pytest.approx((0 + 1 + 0.4 + 0.6 + 0.8) / 5)
    assert run["cvar"][-1]["value"] == pytest.approx((0 + 0.4 + 0.6 + 0.8) / 4)
    print_evaluation(content, True)
    out = " ".join(capsys.readouterr().out.split())
    assert "1 of 5 problems is trivial" in out
    assert "CVaR, ranked by 10 attempts a problem, mean of the 10 others" in out
    json.dumps(content, allow_nan=False)


def test_nothing_but_trivial_problems(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen, policy, played = attempts_at(made, 20, [0, 1, 2, 3, 4])
    content = evaluation(chosen, [0] * 5, Terms(20, False, 0, 9), [(policy, played)])
    assert content["together"]["mean"] == {"value": 1.0, "low": None, "high": None}
    assert content["together"]["cvar"] == content["runs"][0]["cvar"] == []
    print_evaluation(content, False)
    assert "worst 10 %" in capsys.readouterr().out


def test_only_seeds_of_one_experiment_are_averaged(made: Path) -> None:
    _, policy, played = attempts_at(made, 2, [])
    config = policy.config
    others = [
        replace(config, run=replace(config.run, seed=seed, keep=seed + 1), teacher=teacher)
        for seed, teacher in ((0, config.teacher), (0, PLRConfig()), (1, config.teacher), (0, config.teacher))
    ]
    results = [(replace(policy, config=other), played) for other in others]
    groups = by_experiment(results)
    assert [[results.index(one) for one in group] for group in groups] == [[0, 2], [1], [3]]


def test_problems_that_were_left_out_are_mentioned(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen, policy, played = attempts_at(made, 2, [])
    content = evaluation(replace(chosen, bad=["odd.yaml: x"]), [3] * 5, Terms(2, False, 0, 9), [(policy, played)])
    print_evaluation(content, False)
    assert "could not be read: odd.yaml: x." in capsys.readouterr().out


def test_greedy_attempts_are_one_and_kept_apart(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ten equal attempts counted as independent, and were written over the sampled evaluation."""
    problems, one = str(made / "set.yaml"), made / "one"
    sampled = one / "evaluations" / "set.json"
    sampled.parent.mkdir(exist_ok=True)
    before = sampled.read_text() if sampled.exists() else None
    arguments = ["eval", str(one), "--problems", problems, "--step-limit", "9", "--greedy"]
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["set"]["attempts"] == 1
    assert found["together"]["interval"] == "problems drawn again"
    assert found["together"]["cvar"] == []
    assert {row["low"] for row in found["runs"][0]["problems"]} == {None}
    assert read_evaluation(one / "evaluations" / "set-greedy.json")["runs"] == found["runs"]
    assert (sampled.read_text() if sampled.exists() else None) == before
    assert main([*arguments, "--attempts", "10"]) == 2
    assert "are all the same" in capsys.readouterr().err


def test_over_time(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [str(made / "one"), "--problems", str(made / "set.yaml"), "--step-limit", "9", "--over-time"]
    assert main(["eval", *arguments]) == 0
    kept = read_evaluation(made / "one" / "evaluations" / "set-over-time.json")
    assert kept["set"]["attempts"] == 2
    assert [point["iteration"] for point in kept["points"]] == [LAST]
    (point,) = kept["points"]
    assert {"steps", "seconds", "mean", "iqm", "median"} <= point.keys()
    assert len(point["rates"]) == len(kept["problems"]) == kept["set"]["problems"]
    assert sum(point["rates"]) / len(point["rates"]) == pytest.approx(point["mean"])
    assert f"{64 * LAST:,}" in capsys.readouterr().out


def complaint(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["eval", *arguments]) == 2
    return capsys.readouterr().err


def test_bad_input_is_a_sentence(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, problems = str(made / "one"), str(made / "set.yaml")
    assert "no policy was given" in complaint([], capsys)
    assert "does not exist" in complaint([str(tmp_path / "nowhere")], capsys)
    assert "holds no run" in complaint([str(tmp_path), "--problems", problems], capsys)
    assert "--attempts 0" in complaint([one, "--problems", problems, "--attempts", "0"], capsys)
    assert "neither a file or folder nor the name" in complaint([one, "--problems", "hend.x"], capsys)
    bare = Path(shutil.copytree(made / "one", tmp_path / "bare"))
    (bare / "config.yaml").unlink()
    assert "no config" in complaint([str(bare / "checkpoints" / str(LAST)), "--problems", problems], capsys)
    shutil.rmtree(bare / "policies")
    shutil.copy(made / "one" / "config.yaml", bare)
    assert "--points is for --over-time" in complaint([one, "--problems", problems, "--points", "3"], capsys)
    assert "--points 0" in complaint([one, "--problems", problems, "--over-time", "--points", "0"], capsys)
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
