"""`atlas edit`: a problem before and after, the same for the same seed, and sentences where it cannot be."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import atlas
from atlas.cli import main
from atlas.tasks.machine import content_hash
from atlas.tasks.packed import unpack

TWO_ROOMS = "unspoken-key"


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["edit", *arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_level_edit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    png, out = tmp_path / "edit.png", tmp_path / "edited.yaml"
    made = told(capsys, f"hand:{TWO_ROOMS}", "--kind", "add_rooms", "--png", str(png), "--out", str(out))
    assert (made["before"]["rooms"], made["after"]["rooms"]) == (2, 4)
    assert made["before"]["task"] == made["after"]["task"]
    assert made["edits"][0].startswith("add_rooms(")
    (again,) = atlas.load(out)
    assert int(again.level.rooms) == 4
    with Image.open(png) as picture:
        assert picture.width > 1.5 * 13 * 32


def test_a_task_edit_and_its_seed(capsys: pytest.CaptureFixture[str]) -> None:
    first, same, other = (
        told(capsys, f"hand:{TWO_ROOMS}", "--kind", "switch_proposition", "--seed", seed) for seed in ("1", "1", "2")
    )
    assert first == same
    assert first["after"]["level"] == first["before"]["level"]
    assert first["after"]["task"] != first["before"]["task"]
    assert other["edits"] != first["edits"]


def test_several_edits_are_made_in_turn(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["edit", f"hand:{TWO_ROOMS}", "--kind", "remove_rooms", "add_state"]) == 0
    out = capsys.readouterr().out
    assert out.index("remove_rooms(") < out.index("add_state(")


def test_hindsight_cuts_the_task_where_a_plan_was_on_its_way() -> None:
    (problem,) = [one for one in atlas.load("problems/hand/02-two-rooms.yaml") if one.name == TWO_ROOMS]
    before, after = (atlas.edit(problem, f"hindsight_{way}").problem for way in ("preceding", "succeeding"))
    np.testing.assert_array_equal(before.level.cells, problem.level.cells)
    assert atlas.solve(before).verdict == atlas.solve(after).verdict == "solvable"
    assert len({content_hash(unpack(one.task)) for one in (problem, before, after)}) == 3
    states = [len(unpack(one.task).machines[0].states) for one in (problem, before, after)]
    assert states[1] + states[2] == states[0] + 1  # both hold the state that was reached


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["hand:unspoken-key"], "say what to change"),
        (["hand:unspoken-key", "--kind", "add_room"], "'add_room' is no kind of edit; did you mean add_rooms"),
        (["hand:unspoken-kee", "--kind", "add_rooms"], "no problem is called 'unspoken-kee'"),
        (["hand:behind-you", "--kind", "remove_rooms"], "remove_rooms does not apply to behind-you"),
        (["hand:corner-to-corner", "--kind", "move_agent"], "is larger than levels of 1, 2, 4 or 6 rooms"),
        (
            ["hand:behind-you", "--kind", "hindsight_preceding"],
            "hindsight needs a task that is solved in several steps",
        ),
        (["hand:behind-you", "--kind", "move_agent", "--seed", "-1"], "seed = -1 is not allowed"),
    ],
)
def test_what_cannot_be_done_is_a_sentence(arguments: list[str], words: str, capsys: Any) -> None:
    assert main(["edit", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_larger_levels_with_more_rooms(capsys: pytest.CaptureFixture[str]) -> None:
    made = told(capsys, "hand:corner-to-corner", "--kind", "move_agent", "--rooms", "1", "2", "4", "6", "9")
    assert made["after"]["rooms"] == 9
