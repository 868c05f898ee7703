"""Real processes that are killed, stopped and resumed end where an undisturbed one ends, bit for bit."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CONFIG = """
domain: {rooms: [1], step_limit: 8}
tasks: {max_length: 1}
teacher: {name: plr, num_eval: 16, buffer: {capacity: 32}}
student:
  network: {view: dense, view_width: 8, task_width: 8, edge_width: 8, recurrent: 8, head_width: 8, graph_layers: 1}
  ppo: {epochs: 1, minibatch_envs: 4}
run: {num_envs: 8, rollout: 8, total_steps: 1000000, snapshot_every: 1000.0, checkpoint_every: 0.2}
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder for runs; programs are compiled once for all of them."""
    folder = tmp_path_factory.mktemp("survival")
    (folder / "config.yaml").write_text(CONFIG)
    return folder


def atlas(place: Path, *arguments: str) -> subprocess.Popen:
    environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(place / "compiled")}
    command = [sys.executable, "-m", "atlas", *arguments]
    return subprocess.Popen(
        command, cwd=place, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def final_digest(run: Path) -> str:
    last = max((p for p in (run / "checkpoints").iterdir() if p.name.isdigit()), key=lambda p: int(p.name))
    about = json.loads((last / "about" / "metadata").read_text())
    assert about["steps"] >= 1_000_000
    return about["digest"]


@pytest.fixture(scope="module")
def undisturbed(place):
    process = atlas(place, "train", "config.yaml", "--folder", "undisturbed")
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    return final_digest(place / "undisturbed")


def start_and_wait_for_checkpoints(place: Path, name: str, count: int) -> subprocess.Popen:
    process = atlas(place, "train", "config.yaml", "--folder", name)
    deadline = time.monotonic() + 600
    saved = place / name / "checkpoints"
    while not saved.is_dir() or sum(p.name.isdigit() and p.name != "0" for p in saved.iterdir()) < count:
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process


def resume(place: Path, name: str) -> str:
    process = atlas(place, "resume", name)
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    return output


@pytest.mark.parametrize("delay", [0.0, 0.3])
def test_a_killed_run_resumes_as_if_nothing_had_happened(place, undisturbed, delay):
    name = f"killed-{delay}"
    process = start_and_wait_for_checkpoints(place, name, 2)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.wait()
    resume(place, name)
    assert final_digest(place / name) == undisturbed
    iterations = [json.loads(line)["iteration"] for line in (place / name / "metrics.jsonl").read_text().splitlines()]
    assert iterations == sorted(set(iterations))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_asked_to_stop_saves_and_leaves(place, undisturbed, number):
    name = f"stopped-{number.name}"
    process = start_and_wait_for_checkpoints(place, name, 1)
    process.send_signal(number)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert f"atlas resume {name}` goes on" in output
    assert "Traceback" not in output
    resume(place, name)
    assert final_digest(place / name) == undisturbed


def test_a_run_in_use_is_refused(place):
    process = start_and_wait_for_checkpoints(place, "busy", 1)
    second = atlas(place, "resume", "busy")
    output, _ = second.communicate(timeout=120)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert second.returncode == 2
    assert "in use by another process" in output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_while_it_compiles_a_signal_ends_a_run_within_seconds(place, undisturbed, number):
    name = f"early-{number.name}"
    process = atlas(place, "train", "config.yaml", "--folder", name)
    while not (place / name / "checkpoints" / "0").exists():  # then it compiles the training step
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.05)
    started = time.monotonic()
    process.send_signal(number)
    output, _ = process.communicate(timeout=120)
    assert time.monotonic() - started < 5
    assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGTERM)
    assert "Traceback" not in output
    resume(place, name)
    assert final_digest(place / name) == undisturbed
