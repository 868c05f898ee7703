"""Every domain goes through the ordinary commands, also one that the package has never heard of: nothing else knows
Minigrid."""

import json

import pytest

import atlas
import corridor
from atlas.cli import main
from atlas.domains import DOMAINS, domain_of, settings_class
from atlas.runs.problem_files import load

CASES = {
    "minigrid": ("tiny", {"rooms_1", "rooms_2"}, "forward", "2 rooms"),
    "letterworld": ("tiny-letters", {"letters_24"}, "up", "letters"),
    "corridor": ("corridor-tiny", {"cells_5", "cells_7"}, "left", "7 cells"),
}
"""Its smallest preset, what held-out problems are told by, one of its actions, words on the page of a report."""


def test_no_domain_is_left_out():
    assert set(DOMAINS) <= set(CASES)


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[] if name == "corridor" else [pytest.mark.slow]) for name in CASES],
)  # the others have tests of their own
def case(request, tmp_path_factory):
    """A domain, and the folder of a run in it."""
    folder = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        corridor.register(patch)
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield request.param, folder / "run"


@pytest.fixture(scope="module")
def trained(case):
    """A short training run, stopped half way."""
    name, run = case
    assert main(["train", CASES[name][0], "--folder", str(run), "--run.total-steps", "2048", "--json"]) == 0
    return run


def test_it_trains_and_is_examined_by_its_own_measure(case, trained):
    strata = CASES[case[0]][1]
    summary = json.loads((trained / "summary.json").read_text())
    assert set(summary["after"]) == {"all", *strata}
    names = {problem.name.rsplit("-", 1)[0] for problem in load(trained / "held_out.npz")}
    assert {f"{stratum.replace('_', '-')}-length-1" for stratum in strata} <= names


def test_it_is_resumed(trained, capsys):
    assert main(["resume", str(trained), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["iteration"] > 0


def test_it_is_evaluated(case, trained, tmp_path):
    held_out, out = str(trained / "held_out.npz"), tmp_path / "eval.json"
    assert main(["eval", str(trained), "--problems", held_out, "--attempts", "2", "--out", str(out)]) == 0
    rows = json.loads(out.read_text())["runs"][0]["problems"]
    assert {f"{key}_{row[key]}" for row in rows for key in ("rooms", "letters", "cells") if key in row} == CASES[
        case[0]
    ][1]
    assert all(row["plan_length"] >= 1 for row in rows)


def test_it_is_watched(case, trained, capsys, tmp_path):
    assert main(["watch", str(trained), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert CASES[case[0]][2] in told["moments"][0]["probabilities"]
    assert main(["watch", str(trained), "--step-limit", "4"]) == 0
    assert ("carrying" in capsys.readouterr().out) == (case[0] == "minigrid")
    assert main(["watch", str(trained), "--step-limit", "4", "--film", str(tmp_path / "film.gif")]) == 0


def test_it_is_reported(case, trained):
    assert main(["report", str(trained), "--out", str(trained / "page.html")]) == 0
    page = (trained / "page.html").read_text()
    assert case[0] in page.lower()
    assert CASES[case[0]][3] in page


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "corridor" else [pytest.mark.slow]) for name in CASES]
)
def test_its_problems_are_drawn_shown_solved_and_edited(monkeypatch, tmp_path, name, capsys):
    corridor.register(monkeypatch)
    path = tmp_path / "problem.yaml"
    assert main(["sample", "-n", "1", "--pairing", "level", "--domain", name, "--out", str(path)]) == 0
    edit = domain_of(settings_class(name)()).edits[0].name
    for command in (["show", "--json"], ["solve"], ["trace", "--actions", "1,1"], ["edit", "--kind", edit]):
        assert main([command[0], str(path), *command[1:]]) == 0
    assert main(["solve", "--sampled", "4", "--domain", name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["unknown"] == 0.0
    assert main(["sample", "--domain", name, "--rooms", "1", "-n", "1"]) == (0 if name == "minigrid" else 2)


def test_its_problems_are_files_to_read_write_show_solve_and_lint(monkeypatch, capsys, tmp_path):
    corridor.register(monkeypatch)
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
