"""A whole tiny run in this process: what it leaves behind, and that trouble with the disk is a sentence."""

import dataclasses
import errno
import functools
import json
import shutil

import jax
import numpy as np
import pytest
from orbax.checkpoint import CheckpointManager
from PIL import Image

from atlas.build import build, parts
from atlas.cli import main
from atlas.commands.train import report
from atlas.domains.minigrid.presets import TINY
from atlas.errors import AtlasError
from atlas.evaluation.held_out import Exam
from atlas.evaluation.statistics import SolveRates
from atlas.runs import run as running
from atlas.runs import snapshots
from atlas.runs.checkpoints import Checkpoints, load_parameters
from atlas.runs.folder import SNAPSHOTS, create
from atlas.runs.metrics import JsonLines, read
from atlas.runs.problem_files import load
from atlas.runs.store import load_bulk, to_arrays
from atlas.show import media

STEPS = 1_536
CURRICULUM = {
    "problems", "solvable", "solvable_replayed", "rooms", "objects", "states", "paths", "path_length", "edits",
    "generation", "shares", "edit_kinds", "solved",
}  # fmt: skip


def settings(**run):
    return dataclasses.replace(TINY, run=dataclasses.replace(TINY.run, total_steps=STEPS, **run))


OFTEN = {"snapshot_every": 1e-6, "checkpoint_every": 1e-6}
SELDOM = {"snapshot_every": 1e6, "checkpoint_every": 1e6}


@pytest.fixture(scope="module", autouse=True)
def compiled_once(tmp_path_factory):
    """One trainer and one small exam for all runs of this file; iterations one by one, so that there is much to see."""
    made, trainer = parts(TINY), build(TINY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(running, "build", lambda *_: trainer)
        patch.setattr(running, "parts", lambda *_: made)
        patch.setattr(running, "obtain", functools.partial(running.obtain, per_size=4))
        exams = []

        def examine(made, chosen):
            exams[:] = exams or [Exam(made, chosen)]
            return exams[0]

        patch.setattr(running, "Exam", examine)
        patch.setattr("atlas.fit.CALL_SECONDS", 1e-9)
        yield


def train(path, **run):
    folder, lock = create(path, settings(**run))
    try:
        return running.go(folder, folder.config(), quiet=True)
    finally:
        lock.release()


def digest(path):
    last = max((p for p in (path / "checkpoints").iterdir() if p.name.isdigit()), key=lambda p: int(p.name))
    about = json.loads((last / "about" / "metadata").read_text())
    assert about["steps"] >= STEPS
    return about["digest"]


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """A run that is looked at all the time."""
    path = tmp_path_factory.mktemp("runs") / "watched"
    train(path, **OFTEN)
    return path


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The same run, left alone until its end."""
    path = tmp_path_factory.mktemp("runs") / "alone"
    train(path, **SELDOM)
    return path


def test_being_watched_changes_nothing(watched, alone):
    assert digest(watched) == digest(alone)


def test_every_snapshot_has_its_record_and_its_files(watched):
    records = [record for record in read(watched / "metrics.jsonl") if "curriculum" in record]
    assert len(records) > 5
    full = [record for record in records if record["curriculum"]["problems"]]
    assert all(set(record["curriculum"]) == CURRICULUM for record in full)
    assert all({"all", "rooms_1", "rooms_2"} == set(record["held_out"]) for record in records)
    stems = {name: sorted(p.stem for p in (watched / name).glob("0*")) for name in SNAPSHOTS}
    assert stems["policies"] == [f"{record['iteration']:09d}" for record in records]
    assert stems["snapshots"] == stems["gallery"] == [f"{record['iteration']:09d}" for record in full]


def test_the_examples_of_a_snapshot_tell_where_they_came_from(watched):
    path = sorted((watched / "snapshots").glob("*.npz"))[-1]
    kept = load_bulk(path)
    facts = kept.settings["examples"]
    assert set(kept.settings) == {"iteration", "steps", "seconds", "config", "examples"}
    assert len(facts) == len(kept) > 0
    assert sum(fact["probability"] for fact in facts) <= 1 + 1e-6
    assert any(fact["edits"] and fact["parent"] >= 0 for fact in facts)
    problems = load(path)
    assert all("Replayed with probability" in problem.notes for problem in problems)
    assert any("edited from problem" in problem.notes for problem in problems)


def test_a_snapshot_can_be_shown(watched, capsys):
    path = sorted((watched / "snapshots").glob("*.npz"))[-1]
    assert main(["show", str(path), "--index", "0"]) == 0
    assert "Replayed with probability" in " ".join(capsys.readouterr().out.split())


def test_the_last_policy_is_the_one_in_the_last_checkpoint(watched):
    last = sorted((watched / "policies").glob("*.npz"))[-1]
    table, about = load_parameters(last)
    assert about["iteration"] == int(last.stem)
    checkpoints = Checkpoints(watched / "checkpoints", keep=1)
    state = checkpoints.restore_latest(jax.eval_shape(build(TINY).init, jax.random.key(0)))[1]
    checkpoints.close()
    kept = to_arrays(state.params)
    assert kept.keys() == table.keys()
    assert all(np.array_equal(kept[name], table[name]) for name in kept)


def test_the_latest_picture_is_the_last_one(watched):
    pictures = sorted((watched / "gallery").glob("0*.png"))
    assert (watched / "gallery" / "latest.png").read_bytes() == pictures[-1].read_bytes()
    with Image.open(pictures[-1]) as picture:
        assert picture.width > 1000


def full_disk(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("what", ["metrics", "snapshot", "checkpoint"])
def test_a_full_disk_is_a_sentence_and_the_run_can_go_on(what, alone, tmp_path, monkeypatch, capsys):
    path = tmp_path / "run"
    calls = []

    def full_later(real):
        def write(*args, **kwargs):
            calls.append(1)
            return real(*args, **kwargs) if len(calls) <= 4 else full_disk()

        return write

    target, name = {
        "metrics": (JsonLines, "write"),
        "snapshot": (snapshots, "save_bulk"),
        "checkpoint": (CheckpointManager, "save"),
    }[what]
    with monkeypatch.context() as patch:
        patch.setattr(snapshots.Snapshots, "_draw", lambda *_: None)
        patch.setattr(target, name, full_later(getattr(target, name)))
        with pytest.raises(AtlasError, match="the disk is full") as caught:
            train(path, **OFTEN)
    assert "\n" not in str(caught.value)
    assert "kept" in str(caught.value)
    assert any(p.name.isdigit() for p in (path / "checkpoints").iterdir())
    monkeypatch.setattr(snapshots.Snapshots, "_draw", lambda *_: None)
    assert main(["resume", str(path), "--json"]) == 0
    assert digest(path) == digest(alone)
    iterations = [record["iteration"] for record in read(path / "metrics.jsonl")]
    assert iterations == sorted(set(iterations))


def test_a_picture_that_fails_is_one_sentence_and_training_goes_on(alone, tmp_path, monkeypatch, capsys):
    def fail(*_):
        raise ZeroDivisionError("no room")

    monkeypatch.setattr(media, "contact_sheet", fail)
    train(tmp_path / "run", **OFTEN)
    complaints = capsys.readouterr().err.splitlines()
    assert complaints == ["atlas: the gallery could not be drawn (ZeroDivisionError: no room); training goes on"]
    assert digest(tmp_path / "run") == digest(alone)


def test_going_back_forgets_later_snapshots(watched, tmp_path):
    shutil.copytree(watched, tmp_path / "run")
    folder = running.RunFolder(tmp_path / "run")
    folder.drop_snapshots(9)
    for name in SNAPSHOTS:
        assert all(int(p.stem) <= 9 for p in (folder.path / name).glob("0*"))
    assert folder.latest_picture.exists()
    assert any((folder.path / "policies").iterdir())


def test_the_end_is_told(watched, capsys):
    summary = json.loads((watched / "summary.json").read_text())
    rates = {when: SolveRates.read(summary[when]) for when in ("before", "after")}
    result = running.Result(**summary | rates | {"folder": watched})
    assert result.plain() == summary
    assert report(result, as_json=False) == 0
    told = capsys.readouterr().out
    for words in ("untrained", "1 room", "2 rooms", "gallery/latest.png", "atlas watch", "atlas report"):
        assert words in told
