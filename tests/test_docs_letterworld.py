"""The examples of docs/letterworld.md: the problem is read, solved and written; the sentences and formulas mean the
same; the commands that draw something run."""

import re
import shlex
from pathlib import Path

import pytest

import atlas
from atlas.cli import main

PAGE = (Path(__file__).parent.parent / "docs" / "letterworld.md").read_text()
COMMANDS = [line for line in re.search(r"```\n(atlas .*?)```", PAGE, re.DOTALL)[1].splitlines() if line]
RUN = [line for line in COMMANDS if line.split()[1] in ("sample", "task", "sets")]


def test_the_problem_of_the_page(tmp_path):
    path = tmp_path / "problem.yaml"
    path.write_text(re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1])
    (problem,) = atlas.load(path)
    assert atlas.solve(problem).plan_length == 4
    atlas.save(problem, tmp_path / "again.yaml")
    (again,) = atlas.load(tmp_path / "again.yaml")
    assert (again.level.cells == problem.level.cells).all()
    assert atlas.explain(again) == atlas.explain(problem) == "Visit a, then visit b, without visiting c."
    formula = re.search(r"LTLf \(`(.*?)`\)", PAGE)[1]
    assert atlas.explain(atlas.ltlf(formula, domain="letterworld"), domain="letterworld") == atlas.explain(problem)


@pytest.mark.parametrize("line", RUN)
def test_commands_of_the_page(line, capsys):
    assert main(shlex.split(line)[1:]) == 0
    assert capsys.readouterr().out


def test_the_page_shows_what_there_is():
    assert {line.split()[1] for line in COMMANDS} >= {"sample", "play", "task", "solve", "edit", "sets", "train"}
