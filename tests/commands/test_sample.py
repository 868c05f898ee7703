"""`atlas sample` and `atlas.sample`: drawn, shown, written, read again."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from PIL import Image

import atlas
from atlas.cli import main
from atlas.runs.store import load_bulk

ROOMS = ["--rooms", "1", "2"]


def assert_same(a: object, b: object) -> None:
    jax.tree.map(np.testing.assert_array_equal, a, b)


def test_problems_are_shown_and_follow_from_the_seed(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for seed in ("3", "3", "4"):
        assert main(["sample", "-n", "2", "--seed", seed, *ROOMS, "--json"]) == 0
        shown.append(json.loads(capsys.readouterr().out))
    assert shown[0] == shown[1]
    assert [p["level"] for p in shown[0]] != [p["level"] for p in shown[2]]
    assert [p["name"] for p in shown[0]] == ["sample-3-0", "sample-3-1"]
    assert {p["rooms"] for p in shown[0]} <= {1, 2}
    assert main(["sample", "-n", "2", "--seed", "3", *ROOMS]) == 0
    printed = capsys.readouterr().out
    for problem in shown[0]:
        assert problem["level"] in printed


@pytest.mark.parametrize("out", ["set.yaml", "folder", "set.npz"])
def test_what_is_written_is_what_was_drawn(tmp_path: Path, out: str) -> None:
    assert main(["sample", "-n", "2", "--seed", "3", *ROOMS, "--out", str(tmp_path / out)]) == 0
    drawn = atlas.sample(2, seed=3, rooms=(1, 2))
    read = atlas.load(tmp_path / out)
    assert len(read) == 2
    for a, b in zip(read, drawn, strict=True):
        if out.endswith(".npz"):
            assert a.level.cells.shape == (7, 13)
            assert int(a.level.rooms) == int(b.level.rooms)
        else:
            assert_same(a.bare(), b.bare())


def test_bulk_files_say_how_they_were_drawn(tmp_path: Path) -> None:
    arguments = ["-n", "2", "--seed", "3", *ROOMS, "--pairing", "level", "--out", str(tmp_path / "a.npz")]
    assert main(["sample", *arguments]) == 0
    read = load_bulk(tmp_path / "a.npz")
    assert read.seed == 3
    assert read.settings["pairing"]["how"] == "level"
    assert read.settings["domain"]["rooms"] == [1, 2]
    assert set(read.settings) == {"domain", "tasks", "pairing"}


def test_levels_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "-n",
        "2",
        *ROOMS,
        "--levels-only",
        "--out",
        str(tmp_path / "levels"),
        "--png",
        str(tmp_path / "a.png"),
    ]
    assert main(["sample", *arguments]) == 0
    assert capsys.readouterr().out == f"wrote {tmp_path / 'levels'}: 2 levels\nwrote {tmp_path / 'a.png'}: 2 levels\n"
    assert sorted(p.name for p in (tmp_path / "levels").iterdir()) == ["1.yaml", "2.yaml"]
    assert atlas.load_level(tmp_path / "levels" / "1.yaml").cells.shape in ((7, 7), (7, 13))
    with Image.open(tmp_path / "a.png") as image:
        assert image.width > 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-n", "0"], "-n 0 is not allowed: from 1 to 1,000,000"),
        (["--levels-only", "--out", "a.npz", "-n", "1", *ROOMS], "hold problems"),
        (["--out", "a.txt", "-n", "2", "--seed", "3", *ROOMS], "a.txt: a name that ends in .yaml, .yml or .npz"),
    ],
)
def test_mistakes_are_sentences(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sample", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_unknown_ways_to_pair_are_told() -> None:
    with pytest.raises(atlas.errors.AtlasError, match="one of independent, level, task"):
        atlas.sample(1, pairing="both")
