"""`atlas compare`: differences worked by hand, on evaluations that nobody made."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atlas.cli import main
from atlas.evaluation.compare import compare

TAGS = (["keys"], ["keys", "doors"], ["doors"], [])


def side(*solved: list[int], attempts: int = 20, **about: Any) -> dict[str, Any]:
    """An evaluation: for each run how many attempts at each of four problems succeeded."""
    runs = [
        {
            "run": f"runs/{number}", "iteration": 7,
            "problems": [
                {"name": f"p{n}", "tags": tags, "solved": count, "attempts": attempts, "rate": count / attempts}
                for n, (count, tags) in enumerate(zip(row, TAGS, strict=True))
            ],
        }
        for number, row in enumerate(solved)
    ]  # fmt: skip
    told = {"name": "hand", "hash": "a" * 64, "problems": 4, "step_limit": 512, "attempts": attempts, "greedy": False}
    return {"set": told | about, "runs": runs}


def test_differences_by_hand() -> None:
    found = compare(side([0, 10, 20, 5]), side([10, 10, 20, 0]))
    assert found["one"]["mean"] == pytest.approx(35 / 80)
    assert found["other"]["mean"] == pytest.approx(40 / 80)
    assert found["difference"]["mean"]["value"] == pytest.approx(5 / 80)
    assert found["difference"]["iqm"]["value"] == pytest.approx((0.5 + 0.5) / 2 - (0.25 + 0.5) / 2)
    assert [row["name"] for row in found["problems"]] == ["p0", "p3", "p1", "p2"]
    assert found["problems"][0]["difference"] == 0.5
    expected = {"one": 0.25, "other": 0.5, "value": 0.25, "low": 0.0, "high": 0.5, "problems": 2}
    assert found["by_tag"]["keys"] == pytest.approx(expected, abs=0.03)
    assert found["notes"] == []


def test_pairing_narrows_the_interval() -> None:
    """Problems of all kinds, each a little better: the mean is hardly known, the difference is."""
    rng = np.random.default_rng(0)
    rates = rng.random(300)

    def evaluation(shift: float) -> dict[str, Any]:
        content = side([0, 0, 0, 0])
        content["runs"][0]["problems"] = [
            {"name": str(n), "tags": [], "solved": 0, "attempts": 20, "rate": min(1.0, rate + shift)}
            for n, rate in enumerate(rates)
        ]
        return content

    found = compare(evaluation(0.0), evaluation(0.05))["difference"]["mean"]
    assert 0.04 < found["low"] <= found["value"] <= found["high"] < 0.05
    again = compare(evaluation(0.0), evaluation(0.0))["difference"]["mean"]
    assert again == {"value": 0.0, "low": None, "high": None}


def test_a_problems_interval_is_newcombes() -> None:
    """56 of 70 against 48 of 80: the example of Newcombe (1998), method 10."""
    one, other = side([48, 0, 0, 0], attempts=80), side([56, 0, 0, 0], attempts=70)
    row = compare(one, other)["problems"][0]
    assert (row["difference"], row["low"], row["high"]) == pytest.approx((0.2, 0.0524, 0.3339), abs=1e-4)


def test_several_runs_are_drawn_again() -> None:
    one, other = side([0, 5, 10, 20], [0, 5, 10, 20]), side([5, 10, 15, 20], [20, 20, 20, 20])
    found = compare(one, other)
    assert found["difference"]["mean"]["value"] == pytest.approx((50 + 80) / 160 - 35 / 80)
    assert found["problems"][0]["other"] == pytest.approx(25 / 40)


def write(folder: Path, name: str, content: dict[str, Any]) -> Path:
    file = folder / "evaluations" / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text("")
    file.write_text(json.dumps(content))
    return file


def test_runs_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    file = write(one, "hand", side([0, 10, 20, 5]))
    write(other, "hand", side([10, 10, 20, 0]))
    write(other, "more", side([0, 0, 0, 0]))
    for paths in ((one, other), (file, other)):
        assert main(["compare", *map(str, paths), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["difference"]["mean"]["value"] == pytest.approx(5 / 80)
    assert main(["compare", str(one), str(other)]) == 0
    out = capsys.readouterr().out
    for words in ("hand: 4 problems", "+0.500", "keys", "2 did not change"):
        assert words in out


def test_what_cannot_be_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    write(one, "hand", side([0, 10, 20, 5]))

    def complaint(*more: str) -> str:
        assert main(["compare", str(one), str(other), *more]) == 2
        return capsys.readouterr().err

    assert "other does not exist" in complaint()
    other.mkdir()
    assert "holds no run" in complaint()
    (other / "config.yaml").write_text("")
    assert f"`atlas eval {other}` does it" in complaint()
    write(other, "mine", side([0, 0, 0, 0]))
    assert "different sets" in complaint()
    assert f"`atlas eval {other} --problems hand` does it" in complaint("--problems", "hand")
    write(other, "hand", side([0, 0, 0, 0], hash="b" * 64))
    assert "different problems, hand (aaaaaaaaaaaa) and hand (bbbbbbbbbbbb)" in complaint()
    write(other, "hand", side([0, 0, 0, 0], step_limit=128))
    assert "the step limits differ, 512 and 128" in complaint()
    less = copy.deepcopy(side([0, 0, 0, 0]))
    del less["runs"][0]["problems"][2]
    write(other, "hand", less)
    assert "'p2' is in one evaluation and not in the other" in complaint()


def test_other_terms_are_told() -> None:
    found = compare(side([0, 10, 20, 5]), side([1, 1, 1, 0], attempts=1, greedy=True))
    assert found["notes"] == [
        "the evaluations differ in greedy: false and true",
        "the evaluations differ in attempts at each problem: 20 and 1",
    ]
    assert {row["low"] for row in found["problems"]} == {None}
