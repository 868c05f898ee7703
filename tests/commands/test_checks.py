"""Look before you work: what cannot be written, made or meant is told before anything is begun."""

from pathlib import Path

import pytest

from atlas.cli import main

PROBLEM = "level: |\n  ########\n  ##^.or##\n  ########\ntask: go to a red ball\n"

REFUSED = [
    (["sample", "--out", "{}/x.doc"], "a name that ends in .yaml, .yml or .npz, or a folder, is needed"),
    (["sample", "--out", "{}/file/x.yaml"], "cannot write to"),
    (["sample", "--png", "{}/x.jpg"], "a name that ends in .png is needed"),
    (["sample", "--seed", "4294967296"], "seed = 4294967296 is not allowed"),
    (["sample", "--seed", "-1"], "seed = -1 is not allowed"),
    (["sample", "-n", "0"], "-n 0 is not allowed"),
    (["sample", "-n", "1000000001"], "-n 1000000001 is not allowed"),
    (["sample", "--levels-only", "--out", "{}/x.npz"], ".npz files hold problems"),
    (["show", "{}/problem.yaml", "--svg", "{}"], "a name that ends in .svg is needed"),
    (["show", "{}/problem.yaml", "--png", "{}/folder.png"], "is a folder, and a file is to be written"),
    (["trace", "{}/problem.yaml", "--film", "{}/x.doc"], "films end in .gif or .mp4"),
    (["trace", "{}/problem.yaml", "--film", "{}/file/x.gif"], "cannot write to"),
    (["solve", "{}/problem.yaml", "--workers", "-3"], "--workers -3 is not allowed"),
    (["solve", "{}/problem.yaml", "--step-limit", "0"], "--step-limit 0 is not allowed"),
    (["solve", "--sampled", "-4"], "--sampled -4 is not allowed"),
    (["solve", "{}/problem.yaml", "--film", "{}/x.avi"], "films end in"),
    (["lint", "{}/problem.yaml", "--workers", "-3"], "--workers -3 is not allowed"),
    (["watch", "{}/run", "--film", "{}/x.avi"], "films end in"),
    (["watch", "{}/run", "--fps", "inf"], "--fps inf is not allowed"),
    (["watch", "{}/run", "--index", "3"], "name the set before them"),
    (["eval", "{}/run", "--out", "{}/x.yaml"], "a name that ends in .json is needed"),
    (["eval", "{}/run", "--attempts", "0"], "--attempts 0 is not allowed"),
    (["eval", "{}/run", "--seed", "99999999999"], "seed = 99999999999 is not allowed"),
    (["report", "{}/run", "--out", "{}/file/x.html"], "cannot write to"),
    (["report", "{}/run", "--out", "{}/x.html", "--figures", "{}/file"], "cannot write to"),
    (["report", "{}/run", "--out", "{}/x.html", "--episodes", "-1"], "--episodes -1 is not allowed"),
    (["sets", "build", "cvar-dag", "--out", "{}/x.yaml"], "a name that ends in .npz is needed"),
    (["sets", "build", "cvar-dag", "--out", "{}/x.npz", "--workers", "-1"], "--workers -1 is not allowed"),
    (["task", "go to a ball", "--png", "{}/x.svg"], "a name that ends in .png is needed"),
    (["task", "go to a ball", "--scale", "inf", "--png", "{}/x.png"], "--scale inf is not possible"),
    (["train", "quick", "--folder", "{}/new", "--run.seed", "4294967296"], "run.seed = 4294967296 is not allowed"),
    (["train", "quick", "--folder", "{}/new", "--student.ppo.learning-rate", "inf"], "a finite number is needed"),
    (["train", "{}/binary.yaml", "--folder", "{}/new"], "binary.yaml: not a text file in UTF-8"),
    (["train", "quick", "--out", "{}/new"], "`--folder FOLDER` says where the run is kept"),
    (["train", "quick", "--folder", "{}/new", "--devices", "3"], "a multiple of the number of devices, 3, is needed"),
    (
        ["train", "quick", "--folder", "{}/new", "--devices", "9999"],
        "--devices 9999 is more than this machine has cores",
    ),
    (["train", "quick", "--folder", "{}/file/new"], "cannot write to"),
    (["train", "paper-accel", "--folder", "{}/new", "--run.num-envs", "1073741824"], "run.num_envs = 1,073,741,824"),
]


@pytest.mark.parametrize(("arguments", "words"), REFUSED, ids=[" ".join(a) for a, _ in REFUSED])
def test_a_sentence_comes_first(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "problem.yaml").write_text(PROBLEM)
    (tmp_path / "binary.yaml").write_bytes(bytes(range(256)))
    before = sorted(tmp_path.rglob("*"))
    assert main([word.format(tmp_path) for word in arguments]) == 2
    complained = capsys.readouterr().err
    assert words in complained
    assert "internal error" not in complained
    assert sorted(tmp_path.rglob("*")) == before


def test_a_missing_ffmpeg_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import imageio_ffmpeg

    def missing() -> str:
        raise RuntimeError("No ffmpeg exe could be found.")

    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", missing)
    (tmp_path / "problem.yaml").write_text(PROBLEM)
    assert main(["solve", str(tmp_path / "problem.yaml"), "--film", str(tmp_path / "x.mp4")]) == 2
    assert "MP4 films need ffmpeg" in capsys.readouterr().err


NAMED = [("show", []), ("trace", ["--actions", "1"]), ("solve", []), ("lint", [])]
WORDS = ("hand:behind-you", "behind-you", "{}/set.yaml:b")


@pytest.mark.parametrize("words", [WORDS[2], *(pytest.param(one, marks=pytest.mark.slow) for one in WORDS[:2])])
@pytest.mark.parametrize("command", NAMED, ids=lambda one: one[0])
def test_one_problem_of_a_set_is_named_alike_everywhere(
    command: tuple[str, list[str]], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "set.yaml").write_text(f"name: a\n{PROBLEM}---\nname: b\n{PROBLEM}")
    assert main([command[0], words.format(tmp_path), *command[1], "--json"]) == 0
    assert capsys.readouterr().out
    assert main([command[0], words.format(tmp_path).replace("behind-you", "nobody").replace(":b", ":nobody")]) == 2
    told = "no problem is called 'nobody'" if ":" in words else "nobody is neither a file nor the name of a set"
    assert told in capsys.readouterr().err
