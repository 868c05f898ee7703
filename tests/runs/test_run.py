"""A whole tiny run in this process: what it leaves behind, and that trouble with the disk is a sentence."""

import dataclasses
import errno
import functools
import json
import shutil
import sys
import time
import types
from contextlib import nullcontext

import jax
import numpy as np
import pytest
from orbax.checkpoint import CheckpointManager
from PIL import Image

from atlas.build import build
from atlas.cli import main
from atlas.commands.train import report
from atlas.domains.minigrid.presets import TINY
from atlas.errors import AtlasError
from atlas.evaluation.statistics import SolveRates
from atlas.fit import NotANumber
from atlas.runs import run as running
from atlas.runs import snapshots
from atlas.runs.checkpoints import Checkpoints
from atlas.runs.folder import SNAPSHOTS, RunFolder, create
from atlas.runs.metrics import JsonLines, read
from atlas.runs.policy import load_parameters
from atlas.runs.problem_files import load
from atlas.runs.store import load_bulk, to_arrays
from atlas.show import media
from same_trainer import same_trainer

STEPS = 1_024
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
    with same_trainer(TINY, tmp_path_factory.mktemp("cache")):
        yield


def train(path, **run):
    folder, lock = create(path, settings(**run))
    try:
        return running.train_as_leader(folder, folder.config(), quiet=True)
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


@pytest.mark.slow
def test_being_watched_changes_nothing(watched, alone):
    assert digest(watched) == digest(alone)


def test_every_snapshot_has_its_record_and_its_files(watched):
    records = [record for record in read(watched / "metrics.jsonl") if "curriculum" in record]
    assert len(records) > 5
    full = [record for record in records if record["curriculum"]["problems"]]
    assert all(set(record["curriculum"]) == CURRICULUM for record in full)
    assert all({"all", "rooms_1", "rooms_2"} == set(record["held_out"]) for record in records)
    kept = {kind: running.RunFolder(watched).iterations(kind) for kind in SNAPSHOTS}
    assert kept["snapshots"] == kept["gallery"]
    assert set(kept["snapshots"]) <= {record["iteration"] for record in full}


def test_policies_and_snapshots_are_kept_at_env_steps(watched, alone):
    """The same ones whether the run is looked at all the time or never."""
    steps = {0: 0} | {record["iteration"]: record["steps"] for record in read(watched / "metrics.jsonl")}
    for kind in SNAPSHOTS:
        assert running.RunFolder(watched).iterations(kind) == running.RunFolder(alone).iterations(kind)
    kept = [steps[iteration] for iteration in running.RunFolder(watched).iterations("policies")]
    marks = [STEPS * part // 8 for part in range(9)]
    assert kept == [min(at for at in steps.values() if at >= mark) for mark in marks]
    assert all(load_parameters(path)[1]["steps"] in kept for path in (watched / "policies").glob("*.npz"))
    last = kept[-1]
    assert {steps[iteration] for iteration in running.RunFolder(watched).iterations("snapshots")} <= set(kept)
    assert steps[running.RunFolder(watched).iterations("snapshots")[-1]] == last


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


# Going on


@pytest.fixture
def stopped(watched, tmp_path):
    """A copy of the run that was watched, as if it had been killed after its last checkpoint but one."""
    path = tmp_path / "stopped"
    shutil.copytree(watched, path)
    (path / "summary.json").unlink()
    last = max(saved(path))
    shutil.rmtree(path / "checkpoints" / str(last))
    return path


def saved(path):
    return sorted(int(p.name) for p in (path / "checkpoints").iterdir() if p.name.isdigit())


def content(path):
    return {p: p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file() and p.name != "lock"}


def spoil(path):
    for victim in (path / "checkpoints").rglob("d/*"):
        victim.write_bytes(victim.read_bytes()[: victim.stat().st_size // 2])


def test_a_run_says_on_how_many_devices_it_is(alone):
    told = json.loads((alone / "devices.json").read_text())
    assert told == {"devices": 1, "hosts": 1, "platform": "cpu"}
    assert RunFolder(alone).devices() == 1


def test_a_run_has_a_checkpoint_from_the_start(alone, tmp_path, monkeypatch):
    def end(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "compile_step", end)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "run", **SELDOM)
    assert saved(tmp_path / "run") == [0]
    monkeypatch.undo()
    assert main(["resume", str(tmp_path / "run"), "--json"]) == 0
    assert digest(tmp_path / "run") == digest(alone)


def test_a_run_that_is_stopped_before_its_first_look_compiles_none(alone, tmp_path, monkeypatch):
    """Whoever presses Ctrl-C waits for the iteration, not for the compiler; and what was trained is saved."""
    monkeypatch.setattr(running, "stop_on_signals", lambda: nullcontext(lambda: True))
    monkeypatch.setattr(running, "Snapshots", None)
    path = tmp_path / "run"
    result = train(path, **OFTEN)
    assert result.stopped
    assert saved(path) == [0, 1]
    assert "held_out" in read(RunFolder(path).metrics_file)[-1]
    monkeypatch.undo()
    assert main(["resume", str(path), "--json"]) == 0
    assert digest(path) == digest(alone)


def test_a_run_with_a_history_never_starts_over_by_itself(stopped, alone, capsys):
    spoil(stopped)
    before = content(stopped)
    for _ in range(2):
        assert main(["resume", str(stopped), "--json"]) == 2
        told = capsys.readouterr().err
        assert "holds no usable checkpoint; nothing was changed" in told
        assert f"`atlas resume {stopped} --from-scratch` sets everything aside and begins anew" in told
        assert content(stopped) == before
    shutil.rmtree(stopped / "checkpoints")
    assert main(["resume", str(stopped), "--json"]) == 2
    assert "has no checkpoint left to go on from" in capsys.readouterr().err
    assert (stopped / "metrics.jsonl").read_bytes() == before[stopped / "metrics.jsonl"]


def test_a_run_that_goes_on_compiles_beside_its_preparations_but_not_in_vain(stopped, watched, monkeypatch, capsys):
    done, obtain = [], running.obtain
    monkeypatch.setattr(running.build().compiled, "start", lambda kept=None: done.append("obtain" if kept else "make"))
    monkeypatch.setattr(running, "remember_compiled", lambda: True)
    monkeypatch.setattr(running, "obtain", lambda *a: done.append("prepare") or obtain(*a))
    monkeypatch.setattr(running, "fit", lambda *_: None)
    monkeypatch.setattr(running, "compile_step", lambda _, state: state)
    assert main(["resume", str(stopped), "--json"]) == 0
    assert done == ["obtain", "prepare"]
    (stopped / "summary.json").unlink()
    spoil(stopped)
    assert main(["resume", str(stopped), "--json"]) == 2
    assert "holds no usable checkpoint" in capsys.readouterr().err
    over = stopped.with_name("over")
    shutil.copytree(watched, over)
    (over / "summary.json").unlink()
    assert main(["resume", str(over), "--json"]) == 0
    assert done == ["obtain", "prepare", "prepare"]


def test_a_run_whose_preparation_fails_stays_where_it_was(stopped, monkeypatch):
    def fail(*_):
        raise AtlasError("no problem of this kind was found")

    before = content(stopped)
    monkeypatch.setattr(running, "obtain", fail)
    assert main(["resume", str(stopped), "--from", str(saved(stopped)[0]), "--student.ppo.gamma", "0.9"]) == 2
    assert content(stopped) == before


def test_beginning_anew_sets_everything_aside(stopped, alone):
    before = content(stopped)
    seldom = ["--run.snapshot-every", "1e6", "--run.checkpoint-every", "1e6"]
    assert main(["resume", str(stopped), "--from-scratch", *seldom, "--json"]) == 0
    assert digest(stopped) == digest(alone)
    after = content(stopped / "aside" / "1")
    kept = {
        p.relative_to(stopped): data
        for p, data in before.items()
        if p.name not in ("held_out.npz", "latest.png", "devices.json")
    }
    assert kept == {p.relative_to(stopped / "aside" / "1"): data for p, data in after.items()}


def test_a_finished_run_is_left_alone(watched, capsys):
    before = content(watched)
    assert main(["resume", str(watched)]) == 0
    told = capsys.readouterr()
    assert f"is finished and was left alone; `atlas resume {watched} --run.total-steps {2 * STEPS}`" in told.err
    assert "untrained" in told.out
    assert content(watched) == before


def test_a_finished_run_goes_on_if_it_is_given_more(watched, tmp_path, capsys):
    path = tmp_path / "run"
    shutil.copytree(watched, path)
    assert main(["resume", str(path), "--run.total-steps", str(STEPS + 128), "--run.keep", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] >= STEPS + 128
    assert running.RunFolder(path).config().run.total_steps == STEPS + 128
    (change,) = read(path / "changes.jsonl")
    assert change["settings"] == {"run.total_steps": [STEPS, STEPS + 128], "run.keep": [3, 2]}
    assert change["iteration"] == read(watched / "metrics.jsonl")[-1]["iteration"]


def test_a_run_that_was_killed_before_its_summary_only_lacks_that(watched, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(watched, path)
    (path / "summary.json").unlink()
    assert main(["resume", str(path), "--json"]) == 0
    first, again = (json.loads((p / "summary.json").read_text()) for p in (watched, path))
    assert first | {"folder": "", "seconds": 0} == again | {"folder": "", "seconds": 0}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--student.ppo.learning-rate", "1e-5"], "student.ppo.learning_rate can only change from a point that you"),
        (["--run.seed", "7"], "run.seed cannot change as a run goes on"),
        (["--from", "1", "--run.num-envs", "4"], "run.num_envs cannot change as a run goes on"),
        (["--from", "12345"], "has no checkpoint of iteration 12345; there are: "),
        (["--from", "1", "--from-scratch"], "give one of them"),
        (
            ["--run.time-limit", "1e-6"],
            "run.time_limit = 1e-06 is not allowed: it is for the whole run",
        ),
    ],
)
def test_what_cannot_change_is_a_sentence_and_changes_nothing(stopped, flags, words, capsys):
    before = content(stopped)
    assert main(["resume", str(stopped), *flags]) == 2
    assert words in capsys.readouterr().err
    assert content(stopped) == before


def test_from_an_earlier_checkpoint_with_other_settings(stopped, capsys):
    first, *_, last = saved(stopped)
    rate = running.RunFolder(stopped).config().student.ppo.learning_rate
    flags = ["--from", str(first), "--student.ppo.learning-rate", "1e-5"]
    assert main(["resume", str(stopped), *flags]) == 0
    assert f"goes on at iteration {first}" in capsys.readouterr().out
    (change,) = read(stopped / "changes.jsonl")
    assert change["iteration"] == first
    assert change["settings"] == {"student.ppo.learning_rate": [rate, 1e-5]}
    assert running.RunFolder(stopped).config().student.ppo.learning_rate == 1e-5
    aside = stopped / "aside" / "1"
    assert change["set_aside"] == str(aside)
    assert last in saved(aside)
    assert all(int(p.stem) > first for p in (aside / "policies").iterdir())
    iterations = [record["iteration"] for record in read(stopped / "metrics.jsonl")]
    assert iterations == sorted(set(iterations))


def test_losses_that_are_no_numbers_end_with_a_command_that_goes_on(stopped, monkeypatch, capsys):
    def spoilt(*_):
        raise NotANumber("the losses of iteration 9 are not numbers")

    monkeypatch.setattr(running, "fit", spoilt)
    last = max(saved(stopped))
    assert main(["resume", str(stopped)]) == 2
    command = f"`atlas resume {stopped} --from {last} --student.ppo.learning-rate 0.0005` goes on"
    assert command in capsys.readouterr().err


@pytest.mark.parametrize("begun", [False, True])
def test_compiling_is_not_charged_to_the_time_limit(stopped, tmp_path, monkeypatch, begun):
    given = []

    def slow(trainer, state):
        time.sleep(0.5)
        return state

    monkeypatch.setattr(running, "compile_step", slow)
    monkeypatch.setattr(running, "fit", lambda *arguments: given.append(arguments[5]))
    if begun:
        spent = json.loads((stopped / "checkpoints" / str(max(saved(stopped))) / "about" / "metadata").read_text())
        assert main(["resume", str(stopped), "--json"]) == 0
        assert given == [spent["seconds"]]
    else:
        train(tmp_path / "run", **SELDOM)
        assert given == [0.0]


class Recorder:
    """Stands in for TensorBoard's writer and for a W&B run."""

    def __init__(self, opened, *arguments, **settings):
        opened.append(settings | {"arguments": arguments})
        self.log = lambda record: None
        self.add_scalar = lambda *_: None
        self.define_metric = lambda *_, **__: None
        self.close = self.finish = lambda: None


def test_sinks_are_remembered(stopped, monkeypatch, capsys):
    boards, projects = [], []
    fakes = {
        "tensorboardX": types.SimpleNamespace(SummaryWriter=functools.partial(Recorder, boards)),
        "wandb": types.SimpleNamespace(init=functools.partial(Recorder, projects), Settings=dict),
    }
    for name, fake in fakes.items():
        monkeypatch.setitem(sys.modules, name, fake)
    assert main(["resume", str(stopped), "--tensorboard", "--wandb", "--json"]) == 0
    assert main(["resume", str(stopped), "--run.total-steps", str(STEPS + 128), "--json"]) == 0
    assert len(boards) == len(projects) == 2
    assert projects[0]["id"] == projects[1]["id"]
    assert projects[1]["resume"] == "allow"
    assert boards[1]["purge_step"] > STEPS


def test_the_end_is_told(watched, capsys):
    summary = json.loads((watched / "summary.json").read_text())
    rates = {when: SolveRates.read(summary[when]) for when in ("before", "after")}
    result = running.Result(**summary | rates | {"folder": watched})
    assert result.plain() == summary
    assert report(result, as_json=False) == 0
    told = capsys.readouterr().out
    for words in (
        "untrained",
        "1 room",
        "2 rooms",
        "gallery/latest.png",
        "atlas watch",
        "atlas report",
        "--problems hand",
    ):
        assert words in told
