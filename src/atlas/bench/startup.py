"""Start-up: help, imports, and how long after `atlas train` the first iteration is done."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from atlas.bench.rows import Clock, Effort, Row, fact, seconds, summarise
from atlas.errors import AtlasError

PATIENCE: Final = 600.0
"""Seconds after which a run that does not begin is given up."""


def rows(effort: Effort) -> Iterator[Row]:
    """Every row is a process of its own, and what is kept between processes goes to a folder of its own."""
    repeats = 3 if effort.quick else 5
    for name, code in {
        "python, nothing imported": "pass",
        "atlas --help": "from atlas.cli import main; main(['--help'])",
        "import jax": "import jax",
        "import all that training needs": "import atlas.runs.run",
    }.items():
        yield _processes(name, code, repeats)
    preset = "tiny" if effort.quick else "quick"
    with tempfile.TemporaryDirectory() as folder:
        yield first_iteration(preset, Path(folder), "a", "nothing kept from before")
        yield first_iteration(preset, Path(folder), "b", "programs and held-out problems kept")


def _processes(name: str, code: str, repeats: int) -> Row:
    """Whole processes, the first one left out."""
    clocks = [_process(code) for _ in range(repeats + 1)][1:]
    return summarise(name, seconds(), clocks)


def _process(code: str) -> Clock:
    begin, used = time.perf_counter(), os.times()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    now = os.times()
    children = now.children_user + now.children_system - used.children_user - used.children_system
    return Clock(time.perf_counter() - begin, children)


def first_iteration(preset: str, folder: Path, run: str, words: str) -> Row:
    """From the command to the first record of the run, held-out problems and the first exam included."""
    command = [sys.executable, "-m", "atlas", "train", preset, "--folder", str(folder / run)]
    command += ["--run.snapshot-every", "100000", "--run.checkpoint-every", "100000"]
    own = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    begin = time.perf_counter()
    process = subprocess.Popen(
        [*command, "--json"], env={**own, "XDG_CACHE_HOME": str(folder / "cache")},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        _wait_for_record(process, folder / run / "metrics.jsonl")
        taken = time.perf_counter() - begin
    finally:
        process.kill()
        process.wait()
    return fact(f"first iteration of `atlas train {preset}`, {words}", "s", taken)


def _wait_for_record(process: "subprocess.Popen[str]", metrics: Path) -> None:
    begin = time.monotonic()
    while time.monotonic() - begin < PATIENCE:
        with suppress(OSError, ValueError, IndexError):
            json.loads(metrics.read_text().splitlines()[0])
            return
        if process.poll() is not None:
            said = (process.stderr.read() if process.stderr else "").strip().splitlines() or ["nothing"]
            raise AtlasError(f"the run that was to be timed did not begin; the last it said was: {said[-1]}")
        time.sleep(0.05)
    raise AtlasError(f"the run that was to be timed did not begin within {PATIENCE:.0f} s")
