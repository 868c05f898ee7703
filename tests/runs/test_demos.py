"""Demonstrations: every plan solves its problem, whatever stopped the making of them, and bad files are refused."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import atlas
import corridor
from atlas.cli import main
from atlas.domains.minigrid.grid import cell_name
from atlas.errors import AtlasError
from atlas.runs import demos as module
from atlas.runs.demos import Demos, load_demos, make, order, parts_folder, require_minari, to_minari
from atlas.runs.store import DEMONSTRATIONS, read, write

SET = """
name: fetch
level: |
  ##########
  ##>...kb##
  ##########
tags: [keys]
task: pick up the blue key
---
name: there already
level: |
  ##########
  ##....>.kb
  ##########
task: go to the blue key
---
name: hopeless
level: |
  ##########
  ##>...kb##
  ##########
task: pick up the red ball
---
name: doors
level: |
  ##############
  ##>...-g..or##
  ##############
task: open the green door, then pick up the red ball
"""


@pytest.fixture(scope="module", autouse=True)
def few(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Small pieces, a small domain, and no files elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        corridor.register(patch)
        patch.setattr(module, "PIECE", 8)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def problems(tmp_path: Path) -> Path:
    path = tmp_path / "some.yaml"
    path.write_text(SET)
    return path


@pytest.fixture(scope="module")
def made(few: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty demonstrations in the corridor."""
    path = tmp_path_factory.mktemp("made") / "corridor.npz"
    make(order("corridor-tiny", 20), path)
    return path


def by_hand(demos: Demos) -> None:
    """Every plan, and every moment of it, as `trace` tells them one by one."""
    moments = demos.transitions()
    assert moments.action.shape == demos.plans.shape
    for row in range(len(demos)):
        problem, plan = demos[row]
        start, *told = atlas.trace(problem, plan)
        assert len(told) == len(plan) == moments.valid[row].sum()
        assert told[-1].task_state == "uA"
        np.testing.assert_array_equal(moments.reward[row, : len(plan)], [record.reward for record in told])
        np.testing.assert_array_equal(moments.done[row, : len(plan)], [record.done for record in told])
        states = [f"u{node}" for node in moments.nodes[row, : len(plan), 0]]
        assert states == [record.task_state for record in (start, *told[:-1])]
        assert not moments.reward[row, len(plan) :].any()


def test_drawn_problems_have_plans_that_solve_them_in_any_domain(made: Path) -> None:
    demos = atlas.load_demos(made, domain="corridor")
    assert len(demos) == 20
    assert demos.plans.dtype == np.uint8
    by_hand(demos)
    shown = demos.transitions([3, 1])
    assert shown.view.shape == (2, demos.lengths[[3, 1]].max() + 1, 1, 3)
    problem, plan = demos[3]
    for moment, place in enumerate(np.cumsum([problem.level.position, *(2 * np.array(plan) - 1)])):
        place = np.clip(place, 0, len(problem.level.cells) - 1)
        assert shown.view[0, moment, 0, 1] == problem.level.cells[place]


def test_of_a_set_those_that_can_be_shown_keep_their_names(problems: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "some.npz"
    assert main(["demos", str(problems), "--out", str(out), "--workers", "1"]) == 0
    assert "2 demonstrations" in (said := capsys.readouterr().out)
    assert "1 trivial" in said
    assert "1 unsolvable" in said
    demos = load_demos(out)
    assert demos.names == ("fetch", "doors")
    assert demos.tags == (("keys",), ())
    by_hand(demos)
    moments = demos.transitions()
    for row in range(2):
        for moment, record in enumerate(atlas.trace(*demos[row])):
            assert record.view == [[cell_name(code) for code in line] for line in moments.view[row, moment].tolist()]
    assert not parts_folder(out).exists()


def test_stopped_or_killed_it_goes_on_where_it_was(tmp_path: Path, monkeypatch) -> None:
    whole, broken = tmp_path / "whole.npz", tmp_path / "broken.npz"
    asked = order("corridor-tiny", 30, seed=5)
    make(asked, whole)
    calls = []
    prove = module.prove

    def stops(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return prove(*arguments)

    monkeypatch.setattr(module, "prove", stops)
    with pytest.raises(KeyboardInterrupt):
        make(asked, broken)
    folder = parts_folder(broken)
    assert not broken.exists()
    assert sorted(file.name for file in folder.iterdir()) == ["000000.npz", "000001.npz"]
    (folder / ".000002.npz.abcd").write_bytes(b"half")  # as a kill leaves it
    (folder / "000000.npz").write_bytes(b"damaged")
    with pytest.raises(AtlasError, match="holds the beginning of other demonstrations"):
        make(order("corridor-tiny", 30, seed=6), broken)
    done = make(asked, broken)
    assert done.resumed > 0
    assert broken.read_bytes() == whole.read_bytes()
    assert not folder.exists()
    count = len(calls)
    assert make(asked, broken).resumed == 30  # it is there already
    assert len(calls) == count


def test_pieces_of_other_problems_are_not_joined(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "a.npz"
    asked = order("corridor-tiny", 5)
    monkeypatch.setattr(module, "checksum", lambda batch: len(calls.append(0) or calls))
    calls: list[int] = []
    with pytest.raises(AtlasError, match="drawn by another ATLAS"):
        make(asked, path)
    assert not path.exists()


def test_problems_without_end_and_without_plans(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(module, "HOPELESS", 2)
    monkeypatch.setattr(module, "accepted_after", lambda problems, plans, limit: np.zeros(len(plans), int))
    with pytest.raises(AtlasError, match=r"none of 16 problems has a plan.*refused by the world"):
        make(order("corridor-tiny", 5), tmp_path / "a.npz")


def test_bad_orders(problems: Path, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    out = str(tmp_path / "out.npz")
    for arguments, words in (
        (["corridor-tinny", "-n", "3", "--out", out], "did you mean corridor-tiny"),
        (["nowhere.yaml", "--out", out], "neither the name of a set or preset nor a file or folder"),
        ([str(problems), "-n", "5", "--out", out], "has 4 problems"),
        (["corridor-tiny", "--out", out], "say with -n how many"),
        (["corridor-tiny", "-n", "0", "--out", out], "more than 0"),
        (["corridor-tiny", "-n", "3", "--out", str(tmp_path / "out.yaml")], ".npz"),
        (["corridor-tiny", "-n", "3", "--out", str(tmp_path)], "ends in .npz"),
        (["corridor-tiny", "-n", "3", "--out", "/proc/out.npz"], "cannot write"),
        (["corridor-tiny", "-n", "3", "--workers", "-1", "--out", out], "--workers"),
        (["corridor-tiny", "-n", "3", "--polish", "-1", "--out", out], "--polish"),
        ([str(problems), "--seed", "1", "--out", out], "seed = 1"),
        (["corridor-tiny", "-n", "3", "--minari", "nameless", "--out", out], "is no name for Minari"),
    ):
        assert main(["demos", *arguments]) == 2
        assert words in capsys.readouterr().err
    assert not Path(out).exists()


def test_bad_files(made: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad.npz"
    header, arrays = read(made, DEMONSTRATIONS)
    header = {key: value for key, value in header.items() if key not in ("format", "version", "sha256")}

    def refused(words: str) -> None:
        with pytest.raises(AtlasError, match=words):
            load_demos(path)

    with pytest.raises(AtlasError, match="in the domain corridor, and minigrid is needed"):
        load_demos(made, domain="minigrid")
    refused("does not exist")
    path.write_bytes(made.read_bytes()[:-100])
    refused("not a readable file of demonstrations")
    changed = bytearray(made.read_bytes())
    changed[len(changed) // 3] ^= 1
    path.write_bytes(bytes(changed))
    refused("bad.npz")
    for name, value, words in (
        ("lengths", arrays["lengths"] * 0, "no plan for each problem"),
        ("lengths", arrays["lengths"] + 99, "no plan for each problem"),
        ("plans", arrays["plans"][:-1], "no plan for each problem"),
        ("plans", arrays["plans"] + 7, "there are 2 in the domain corridor"),
        ("level.position", arrays["level.position"] - 50, "a level that cannot be"),
        ("task.target", arrays["task.target"] + 99, "a task that cannot be"),
        ("level.cells", arrays["level.cells"][:-1], "does not fit the rest"),
    ):
        write(path, DEMONSTRATIONS, arrays | {name: value}, header)
        refused(words)
    write(path, DEMONSTRATIONS, arrays, header | {"domain": "chess"})
    refused("domain chess")
    write(path, DEMONSTRATIONS, arrays, header | {"names": ["only one"], "tags": [[]]})
    refused("1 names for 20 demonstrations")
    assert main(["sets", "verify", str(made)]) == 2  # and they are no set of problems


def test_minari_gets_the_same_episodes(made: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    demos = load_demos(made)
    to_minari(demos, "atlas/corridor-v0")
    import minari

    data = minari.load_dataset("atlas/corridor-v0")
    assert len(data) == 20
    assert data.total_steps == demos.lengths.sum()
    options = [one["options"] for one in data.storage.get_episode_metadata(range(20))]
    moments = demos.transitions()
    for row, episode in enumerate(data.iterate_episodes()):
        problem, plan = demos[row]
        assert tuple(episode.actions.tolist()) == plan
        np.testing.assert_array_equal(episode.observations["view"], moments.view[row, : len(plan) + 1])
        np.testing.assert_array_equal(episode.observations["task_state"], moments.nodes[row, : len(plan) + 1])
        assert episode.terminations.tolist() == [False] * (len(plan) - 1) + [True]
        assert episode.rewards.sum() == 1
        assert options[row]["mission"] == atlas.explain(problem)
        (tmp_path / "again.yaml").write_text(options[row]["problem"])
        assert atlas.trace(atlas.load(tmp_path / "again.yaml")[0], plan)[-1].task_state == "uA"
    with pytest.raises(AtlasError, match="has a data set atlas/corridor-v0 already"):
        require_minari("atlas/corridor-v0")
    with monkeypatch.context() as patch:
        patch.setattr(Demos, "transitions", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            to_minari(demos, "atlas/half-v0")
    assert "atlas/half-v0" not in minari.list_local_datasets()


def test_without_minari_there_is_a_sentence(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(AtlasError, match=re.escape("pip install 'atlas-ued[minari]'")):
        require_minari("atlas/some-v0")


def test_the_page_is_true(problems: Path, tmp_path: Path, monkeypatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "demos.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    fetch = SET.split("---\n")[0]
    problems.write_text("---\n".join(fetch.replace("fetch", f"fetch {number}") for number in range(4)))
    monkeypatch.chdir(tmp_path)
    assert main(["demos", str(problems), "--out", "demos.npz", "--workers", "1"]) == 0
    found: dict = {}
    exec(example, found)
    assert found["moments"].view.shape[0] == len(found["demos"]) == 4


COMMAND = [sys.executable, "-m", "atlas", "demos", "quick", "-n", "150", "--workers", "2", "--out"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_several_processes_stopped_and_resumed_give_the_same_file(number: int, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(module, "PIECE", 256)
    alone, many = tmp_path / "alone.npz", tmp_path / "many.npz"
    make(order("quick", 150), alone)
    start = subprocess.Popen(
        [*COMMAND, str(many)], start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    )
    parts = parts_folder(many)
    while start.poll() is None and len(list(parts.glob("*.npz"))) < 3:
        time.sleep(0.2)
    os.kill(start.pid, number)
    assert start.wait() != 0
    assert parts.is_dir()
    subprocess.run([*COMMAND, str(many)], check=True)
    assert many.read_bytes() == alone.read_bytes()
