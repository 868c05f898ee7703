"""Against gross regressions: ratios inside one run, on whatever machine this is. Seconds are never compared.

Each factor is several times looser than what was measured on a busy machine: it speaks up when something that took
microseconds takes milliseconds, and stays quiet otherwise. The processes here compile as users' do, not as tests do.
"""

import json
import os
import subprocess
import sys
import time
from typing import Any

import pytest


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    own = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    command = [sys.executable, "-m", "atlas", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=own)


@pytest.fixture(scope="module")
def ledger() -> dict[str, Any]:
    result = run("bench", "world", "buffer", "--quick", "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def share(ledger: dict[str, Any], part: str, name: str) -> float:
    return next(row["share"] for row in ledger["parts"][part]["rows"] if row["name"].startswith(name))


@pytest.mark.parametrize(
    ("part", "name", "least"),
    [
        ("world", "step, task 6 x 1 x 1", 0.02),
        ("world", "step, task 6 x 5 x 5", 0.01),
        ("buffer", "draw 512", 0.002),
        ("buffer", "enter 512", 0.002),
    ],
)
def test_near_enough_to_a_memory_copy(ledger: dict[str, Any], part: str, name: str, least: float) -> None:
    assert share(ledger, part, name) > least


def test_the_ledger_as_json(ledger: dict[str, Any]) -> None:
    assert set(ledger) == {"machine", "quick", "parts"}
    assert ledger["quick"] is True
    assert {"processor", "cores", "jax", "load_before"} <= set(ledger["machine"])
    assert list(ledger["parts"]) == ["world", "buffer"]
    for part in ledger["parts"].values():
        assert part["seconds"] > 0
        for row in part["rows"]:
            assert row["low"] <= row["median"] <= row["high"]
            assert row["compile_seconds"] > 0
            assert row["repeats"] >= 3


def test_guards_cost_no_more_than_a_step(ledger: dict[str, Any]) -> None:
    """One proposition, beside a whole step that asks one: else the step hides work that nobody asked for."""
    rates = {row["name"]: row["median"] for row in ledger["parts"]["world"]["rows"]}
    step = next(rate for name, rate in rates.items() if name.startswith("step, task 6 x 1 x 1"))
    guard = next(rate for name, rate in rates.items() if name.startswith("guards, 1 "))
    assert guard > step / 2


def test_help_answers_at_once() -> None:
    """In a few times what the interpreter takes to start; importing JAX would be twenty times that."""

    def taken(*command: str) -> float:
        begin = time.perf_counter()
        subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - begin

    pairs = [(taken("-c", "pass"), taken("-m", "atlas", "--help")) for _ in range(5)]
    bare, helpful = (min(times) for times in zip(*pairs, strict=True))
    assert helpful < 10 * bare
