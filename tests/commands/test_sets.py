"""`atlas sets` as people and machines use it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from atlas.cli import main
from atlas.evaluation import sets
from atlas.runs.store import load_bulk

GOOD = """
name: {name}
level: |
  ##########
  ##>...kb##
  ##########
task: pick up the blue key
"""


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sets", "list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["problems"]) for row in found] == [
        ("hand", 150), ("cvar-sequential", 10_000), ("cvar-dag", 10_000), ("cvar-paper-dag", 10_000),
        ("validation", 300), ("dev", 300), ("babyai", 400), ("letters-sequences", 1000),
        ("letters-reach-avoid", 1000), ("letters-parity", 1000),
    ]  # fmt: skip
    assert main(["sets", "list"]) == 0
    assert "validation" in capsys.readouterr().out


@pytest.mark.slow
def test_build_and_verify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sets, "DRAWN", 2048)
    small = replace(sets.recipes()["cvar-dag"], count=20)
    monkeypatch.setattr(sets, "recipes", lambda: {"cvar-dag": small})
    path = tmp_path / "some.npz"
    assert main(["sets", "build", "cvar-dag", "--out", str(path), "--seed", "3", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["problems"], report["as_reported"]) == (20, None)
    kept = load_bulk(path)
    assert (kept.seed, kept.settings["set"], len(kept.settings["plan_lengths"])) == (3, "cvar-dag", 20)
    assert main(["sets", "verify", str(path), "--prove", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fingerprint"] == report["fingerprint"]
    assert (found["known_as"], found["duplicates"], found["unproven"]) == (None, [], [])
    path.write_bytes(path.read_bytes()[:-200])
    assert main(["sets", "verify", str(path)]) == 2
    assert "not a readable file" in capsys.readouterr().err


def test_verify_knows_the_hand_set_and_finds_twins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sets", "verify", "hand"]) == 0
    assert "the set hand that results are reported on" in capsys.readouterr().out
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(GOOD.format(name=name))
    assert main(["sets", "verify", str(tmp_path)]) == 1
    assert "the same as one before: b" in capsys.readouterr().out


def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, words in (
        (["build", "cvar-dgg"], "did you mean cvar-dag"),
        (["build", "validation", "--seed", "1"], "--out"),
        (["build", "validation", "--out", str(tmp_path / "a.yaml")], ".npz"),
        (["verify", "nowhere"], "neither a file or folder"),
    ):
        assert main(["sets", *arguments]) == 2
        assert words in capsys.readouterr().err
