"""What only real packages and a real SLURM can show. Each test is skipped, with a message, where its part is missing.

`pip install 'atlas-ued[search,slurm,tensorboard,wandb]'` brings the packages, `tests/slurm/one-node.sh install` SLURM.
"""

import json
import os
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from atlas.cli import main
from atlas.runs.metrics import read
from atlas.runs.sweep import execute, jobs_of, read_sweep

pytestmark = pytest.mark.slow
CONFIG = """
domain: {rooms: [1], step_limit: 8}
tasks: {max_length: 1}
teacher: {name: plr, num_eval: 16, buffer: {capacity: 32}}
student:
  network: {view: dense, view_width: 8, task_width: 8, edge_width: 8, recurrent: 8, head_width: 8, graph_layers: 1}
  ppo: {epochs: 1, minibatch_envs: 4}
run: {num_envs: 8, rollout: 8, total_steps: 2000, snapshot_every: 1000.0, checkpoint_every: 0.2}
"""
PATIENCE = 600


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("real")
    (folder / "config.yaml").write_text(CONFIG)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.setenv("WANDB_MODE", "offline")
        yield folder


def test_a_search_with_optuna_goes_on_where_it_was(place):
    optuna = pytest.importorskip("optuna", reason="optuna is not installed")
    text = """
search:
  preset: config.yaml
  trials: TRIALS
  settings:
    student.ppo.entropy: {low: 0.0001, high: 0.1, log: true}
    student.ppo.epochs: {low: 1, high: 2}
    student.ppo.normalise: {choices: [minibatch, never]}
"""
    for trials in (1, 3):
        (place / "search.yaml").write_text(text.replace("TRIALS", str(trials)))
        assert main(["sweep", "search.yaml", "--folder", "search"]) == 0
        study = optuna.load_study(study_name="search", storage=f"sqlite:///{place / 'search' / 'study.db'}")
        assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * trials
    for trial in study.trials:
        summary = json.loads((place / "search" / f"trial-{trial.number:04d}" / "summary.json").read_text())
        assert summary["after"]["all"] == trial.value
    assert len({trial.params["student.ppo.entropy"] for trial in study.trials}) == 3


@pytest.fixture
def sweep(place):
    (place / "pair.yaml").write_text("runs:\n  - presets: [config.yaml]\n    seeds: [0, 1]\n")
    return place / "pair.yaml"


def test_submitit_carries_out_jobs(place, sweep):
    submitit = pytest.importorskip("submitit", reason="submitit is not installed")
    jobs = jobs_of(read_sweep(sweep).runs, place / "handed")
    executor = submitit.LocalExecutor(folder=place / "handed" / "logs")
    executor.update_parameters(timeout_min=10)
    for handed in executor.map_array(execute, jobs):
        handed.result()
    assert [job.status() for job in jobs] == ["done", "done"]
    finished = [job.folder.joinpath("summary.json").stat().st_mtime_ns for job in jobs]
    for handed in executor.map_array(execute, jobs):
        handed.result()
    assert [job.folder.joinpath("summary.json").stat().st_mtime_ns for job in jobs] == finished


def atlas(*arguments):
    done = subprocess.run([sys.executable, "-m", "atlas", *arguments], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_tensorboard_reads_what_was_written(place):
    pytest.importorskip("tensorboardX", reason="tensorboardX is not installed")
    reader = pytest.importorskip("tensorboardX.proto.event_pb2", reason="tensorboardX is not installed")
    atlas("train", "config.yaml", "--folder", "board", "--tensorboard", "--json")
    atlas("resume", "board", "--run.total-steps", "4000", "--json")
    values = {}
    for file in sorted((place / "board" / "tensorboard").iterdir(), key=lambda p: p.stat().st_mtime):
        for event in records(file.read_bytes(), reader):
            for value in event.summary.value:
                values.setdefault(value.tag, {})[event.step] = value.simple_value
    told = {record["steps"]: record for record in read(place / "board" / "metrics.jsonl")}
    assert max(told) >= 4000
    assert set(values["seconds"]) == set(told)
    for steps, record in told.items():
        assert values["iteration"][steps] == record["iteration"]
        assert values["seconds"][steps] == pytest.approx(record["seconds"], rel=1e-5)


def records(data, reader):
    """The events of a file of TensorBoard: length, checksum, content, checksum."""
    while data:
        length = int.from_bytes(data[:8], "little")
        yield reader.Event.FromString(data[12 : 12 + length])
        data = data[16 + length :]


def test_weights_and_biases_reads_what_was_written(place):
    pytest.importorskip("wandb", reason="wandb is not installed")
    from wandb.proto.wandb_internal_pb2 import Record

    atlas("train", "config.yaml", "--folder", "weights", "--wandb", "--json")
    atlas("resume", "weights", "--run.total-steps", "4000", "--json")
    stretches = sorted((place / "weights" / "wandb").glob("offline-run-*/*.wandb"))
    assert len(stretches) == 2
    assert len({path.stem for path in stretches}) == 1  # the same run, continued
    found = {}
    for path in stretches:
        for data in logged(path.read_bytes()):
            record = Record.FromString(data)
            if record.WhichOneof("record_type") == "history":
                items = {
                    item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item
                }
                found[items["steps"]] = items
    told = {record["steps"]: record for record in read(place / "weights" / "metrics.jsonl")}
    assert set(found) == set(told)
    for steps, record in told.items():
        assert found[steps]["iteration"] == record["iteration"]


def logged(data):
    """The records of a file of Weights & Biases: a log as LevelDB writes it, in blocks, behind a header of 7 bytes."""
    assert data.startswith(b":W&B")
    place, parts = 7, []
    while place + 7 <= len(data):
        left = 32768 - place % 32768
        if left < 7:  # no record begins in the last bytes of a block
            place += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, place)
        parts.append(data[place + 7 : place + 7 + length])
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part; 2 and 3 are others
            yield b"".join(parts)
            parts = []


SCRIPT = Path(__file__).parents[1] / "slurm" / "one-node.sh"


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """A SLURM of one node for the time of the tests."""
    if shutil.which("slurmctld") is None or shutil.which("munged") is None:
        pytest.skip(f"SLURM is not installed: `{SCRIPT.relative_to(SCRIPT.parents[2])} install`")
    if os.geteuid() != 0:
        pytest.skip("SLURM's daemons need root")
    folder = tmp_path_factory.mktemp("slurm")
    started = subprocess.run([SCRIPT, "start", folder], capture_output=True, text=True, timeout=120)
    try:
        assert started.returncode == 0, started.stdout + started.stderr
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SLURM_CONF", started.stdout.strip())
            yield folder
    finally:
        subprocess.run([SCRIPT, "stop", folder], check=True, timeout=60)


def test_a_sweep_is_carried_out_by_slurm(place, sweep, slurm, capsys):
    pytest.importorskip("submitit", reason="submitit is not installed")
    sweep.write_text(sweep.read_text() + "slurm: {timeout_min: 10, cpus_per_task: 1}\n")
    command = ["sweep", str(sweep), "--folder", "clustered"]
    assert main([*command, "--slurm", "--parallel", "2"]) == 0
    assert "handed to SLURM: " in capsys.readouterr().out
    jobs = jobs_of(read_sweep(sweep).runs, place / "clustered")
    deadline = time.monotonic() + PATIENCE
    while any(job.status() != "done" for job in jobs):
        assert time.monotonic() < deadline, [p.read_text()[-2000:] for p in (place / "clustered").rglob("*.err")]
        time.sleep(1)
    assert main([*command, "--slurm"]) == 0
    assert "nothing, all is done" in capsys.readouterr().out


def test_srun_starts_processes_that_find_each_other(place, slurm):
    command = ["srun", "--ntasks", "2", "--overcommit", sys.executable, "-m", "atlas", "train", "config.yaml"]
    done = subprocess.run([*command, "--folder", "stepped"], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "on 2 devices" in done.stdout
    assert json.loads((place / "stepped" / "summary.json").read_text())["stopped"] is False
