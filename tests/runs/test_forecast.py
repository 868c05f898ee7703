"""What a run is expected to take, beside what it took."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import atlas
from atlas.build import build
from atlas.runs import forecast as told
from atlas.runs.store import cache_folder

STEPS = 2048


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return cache_folder()


@pytest.mark.slow
def test_the_disk_that_a_run_takes(cache: Path, tmp_path: Path) -> None:
    """Not more than was said, and not a small part of it either. In a process of its own: the number of devices can be
    chosen only before JAX has started."""
    run = tmp_path / "run"
    words = ("train", "tiny", "--folder", str(run), "--run.total-steps", str(STEPS), "--devices", "1")
    done = subprocess.run([sys.executable, "-m", "atlas", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    out = done.stdout
    assert out.count("expected: ") == 1
    config = atlas.configure("tiny", {"run.total_steps": STEPS})
    expected = told.forecast(config, build(config), run).disk
    took = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
    assert took / 1.2 < expected < 4 * took
    line = next(line for line in out.splitlines() if line.startswith("expected: "))
    assert "not known before it has run for a minute" in line
    assert "memory is not known" in line
    assert "of disk" in line


def test_time_and_memory_come_from_earlier_runs(cache: Path, tmp_path: Path) -> None:
    config = atlas.configure("tiny", {"run.total_steps": 1_000_000, "run.time_limit": None})
    trainer = build(config)
    first = told.forecast(config, trainer, tmp_path)
    assert first.seconds is None
    assert (first.memory, first.is_first) == (None, True)
    assert "minutes of compiling before it" in first.summary()
    assert "not known before it has run for a minute" in first.summary()
    told.remember(config, trainer, (10, 1.0), (1000, 2.0))  # too short to tell
    assert not cache.exists()
    told.remember(config, trainer, (1000, 20.0), (101_000, 120.0))
    then = told.forecast(config, trainer, tmp_path)
    assert then.seconds == pytest.approx(1020)
    assert (then.is_limit, then.is_first) == (False, False)
    assert "about 17:00; about" in then.summary()
    assert "compiling" not in then.summary()
    longer = atlas.configure("tiny", {"run.total_steps": 2_000_000, "run.time_limit": 1.0, "run.seed": 5})
    limited = told.forecast(longer, trainer, tmp_path)
    assert (limited.seconds, limited.is_limit) == (60.0, True)
    assert "1:00 of training, its limit" in limited.summary()
    other = atlas.configure("tiny", {"run.num_envs": 2 * config.run.num_envs, "run.time_limit": None})
    assert told.forecast(other, trainer, tmp_path).seconds is None  # other work
    (cache / "speeds.json").write_text(json.dumps({"a": 3}))
    assert told.forecast(config, trainer, tmp_path).seconds is None
