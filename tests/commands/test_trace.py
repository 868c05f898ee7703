"""`atlas trace` as people and machines use it."""

import json
from pathlib import Path

import pytest
from PIL import Image

from atlas.cli import main
from atlas.errors import AtlasError
from atlas.world import action_numbers

PROBLEM = """
level: |
  ########
  ##kb..##
  ##^...##
  ########
task: pick up a key, then go to a key
"""
ACTIONS = "3,pick_up put_down"


@pytest.fixture
def problem(tmp_path: Path) -> str:
    path = tmp_path / "keys.yaml"
    path.write_text(PROBLEM)
    return str(path)


def test_json_has_a_record_for_the_start_and_each_action(problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", problem, "--actions", ACTIONS, "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert [r["task_state"] for r in records] == ["u0", "u1", "u1", "uA"]
    assert [r["reward"] for r in records] == [0, 0, 0, 1]
    assert [r["done"] for r in records] == [False, False, False, True]
    assert records[0]["position"] == [2, 1]
    assert records[0]["label"] == ["front_key", "front_key_blue"]
    assert records[1]["carrying"] == "key_blue"
    assert records[1]["view"][4][2] == "key_blue"


def test_people_get_a_table(problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", problem, "--actions", ACTIONS]) == 0
    shown = capsys.readouterr().out
    assert "put_down" in shown
    assert "uA" in shown
    assert "carrying_key_blue" in shown


def test_a_plan_is_read_as_solve_prints_it(problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", problem]) == 0
    plan = capsys.readouterr().out.split("plan: ")[1].strip()
    assert "pick up" in plan
    assert main(["trace", problem, "--actions", plan, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[-1]["task_state"] == "uA"


def test_names_with_spaces_and_repetitions() -> None:
    actions = ("forward", "right", "left", "pick_up", "put_down", "toggle")
    assert action_numbers("right, Pick up x2 forward x3,2, put_down", actions) == [1, 3, 3, 0, 0, 0, 2, 4]
    with pytest.raises(AtlasError, match="'x3' is no action"):
        action_numbers("x3", actions)
    with pytest.raises(AtlasError, match="from x1 to x512"):
        action_numbers("left x0", actions)


def test_a_film_has_a_frame_for_each_record(problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", problem, "--actions", "1,1,1", "--film", str(tmp_path / "a.gif")]) == 0
    with Image.open(tmp_path / "a.gif") as film:
        assert film.n_frames == 4
    assert capsys.readouterr().out.endswith(f"wrote {tmp_path / 'a.gif'}\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--actions", "0,9"], "9 is no action; there are 0 forward"), (["--actions", "jump"], "'jump' is no action")],
)
def test_mistakes_are_sentences(
    problem: str, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", problem, *arguments]) == 2
    assert words in capsys.readouterr().err


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["trace", "--help"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    for option in ("--actions", "--name", "--index", "--film", "--json"):
        assert option in shown
