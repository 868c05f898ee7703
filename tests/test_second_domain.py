"""A domain that the package has never heard of goes through the ordinary commands: nothing else knows Minigrid."""

import json

import pytest

import atlas
import corridor
from atlas.cli import main
from atlas.runs.problem_files import load


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A short training run in the corridor, stopped half way, resumed, evaluated and reported."""
    folder = tmp_path_factory.mktemp("corridor")
    with pytest.MonkeyPatch.context() as patch:
        corridor.register(patch)
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield folder / "run"


@pytest.fixture(scope="module")
def trained(run):
    assert main(["train", "corridor-tiny", "--folder", str(run), "--run.total-steps", "2048", "--json"]) == 0
    return run


def test_it_trains_and_is_examined_by_its_own_measure(trained):
    summary = json.loads((trained / "summary.json").read_text())
    assert set(summary["after"]) == {"all", "cells_5", "cells_7"}
    names = {problem.name.rsplit("-", 1)[0] for problem in load(trained / "held_out.npz")}
    assert "cells-5-length-1" in names


def test_it_is_resumed(trained, capsys):
    assert main(["resume", str(trained), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["iteration"] > 0


def test_it_is_evaluated(trained, tmp_path):
    held_out, out = str(trained / "held_out.npz"), tmp_path / "eval.json"
    assert main(["eval", str(trained), "--problems", held_out, "--attempts", "2", "--out", str(out)]) == 0
    found = json.loads(out.read_text())
    rows = found["runs"][0]["problems"]
    assert {row["cells"] for row in rows} == {5, 7}
    assert all(row["plan_length"] >= 1 for row in rows)


def test_it_is_watched(trained, capsys, tmp_path):
    assert main(["watch", str(trained), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told["moments"][0]["probabilities"]) == {"left", "right"}
    assert main(["watch", str(trained)]) == 0
    assert main(["watch", str(trained), "--film", str(tmp_path / "film.gif")]) == 0


def test_it_is_reported(trained, capsys):
    assert main(["report", str(trained), "--out", str(trained / "page.html")]) == 0
    page = (trained / "page.html").read_text()
    assert "corridor" in page
    assert "7 cells" in page


def test_its_problems_are_files_to_read_write_show_solve_and_lint(run, capsys, tmp_path):
    path = tmp_path / "problem.yaml"
    path.write_text("domain: corridor\ncorridor: wxywx\nstart: '1'\ntask: stand on the y, then stand on the w\n")
    problem = atlas.load(path)[0]
    atlas.save(problem, tmp_path / "again.yaml")
    assert "domain: corridor" in (tmp_path / "again.yaml").read_text()
    assert atlas.explain(problem) == "Stand on the y, then stand on the w."
    assert atlas.solve(problem).plan == (1, 1)
    assert atlas.trace(problem, ["right", "right"])[-1]["task_state"] == "uA"
    for command in (["show"], ["show", "--json"], ["solve"], ["lint"], ["trace", "--actions", "1,1"]):
        assert main([command[0], str(path), *command[1:]]) == 0
    path.write_text("domain: corridor\ncorridor: abc\ntask: stand on the y\n")
    assert main(["show", str(path)]) == 2
    assert "'abc' is no corridor" in capsys.readouterr().err
