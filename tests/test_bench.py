"""`atlas bench`: the harness on work whose cost is known, and a guard against gross regressions.

The guard compares ratios inside one run, on whatever machine this is; seconds are never compared. Each factor is
several times looser than what was measured on a busy machine: it speaks up when something that took microseconds takes
milliseconds. The processes here compile as users' do, not as tests do.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from atlas import bench
from atlas.bench import Curve, Effort, Row, measure
from atlas.cli import main
from atlas.commands.bench import PARTS, cells, figure, growth_figure, growth_sentence, markdown, table

EFFORT = Effort(4, 0.0, 50, quick=True)
STEP = Row("step", "steps/s", 6.0, 5.0, 7.0, 2, 2.67, 1.5, "copy", 0.2, 0.2, 1 / 6)


@pytest.fixture(scope="module")
def ledger() -> dict[str, Any]:
    own = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    command = [sys.executable, "-m", "atlas", "bench", "world", "buffer", "--quick", "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=own)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def of(ledger: dict[str, Any], part: str, name: str) -> dict[str, Any]:
    return next(row for row in ledger["parts"][part]["rows"] if row["name"].startswith(name))


@pytest.mark.parametrize(
    ("part", "name", "least"),
    [
        ("world", "step, task 6 x 1 x 1", 0.02),
        ("world", "step, task 6 x 5 x 5", 0.01),
        ("buffer", "draw 512", 0.002),
        ("buffer", "enter 512", 0.002),
    ],
)
@pytest.mark.slow
def test_near_enough_to_a_memory_copy(ledger: dict[str, Any], part: str, name: str, least: float) -> None:
    assert of(ledger, part, name)["share"] > least


@pytest.mark.slow
def test_guards_cost_no_more_than_a_step(ledger: dict[str, Any]) -> None:
    """One proposition, beside a whole step that asks one: else the step hides work that nobody asked for."""
    assert of(ledger, "world", "guards, 1 ")["median"] > of(ledger, "world", "step, task 6 x 1 x 1")["median"] / 2


@pytest.mark.slow
def test_help_answers_at_once() -> None:
    """In a few times what the interpreter takes to start; importing JAX would be twenty times that."""

    def taken(*command: str) -> float:
        begin = time.perf_counter()
        subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - begin

    pairs = [(taken("-c", "pass"), taken("-m", "atlas", "--help")) for _ in range(5)]
    bare, helpful = (min(times) for times in zip(*pairs, strict=True))
    assert helpful < 10 * bare


@pytest.mark.slow
def test_the_ledger_as_json(ledger: dict[str, Any]) -> None:
    assert set(ledger) == {"machine", "quick", "parts"}
    assert ledger["quick"] is True
    assert {"processor", "cores", "memory_gb", "jax", "load_before"} <= set(ledger["machine"])
    assert list(ledger["parts"]) == ["world", "buffer"]
    for part in ledger["parts"].values():
        assert part["seconds"] > 0
        for row in part["rows"]:
            assert list(row) == list(asdict(STEP))
            assert row["low"] <= row["median"] <= row["high"]
            assert row["compile_seconds"] > 0
            assert row["repeats"] >= 3


def clocks(monkeypatch: pytest.MonkeyPatch, *walls: float) -> Effort:
    """Let calls take so long, in turn, on two cores."""
    turns = iter(walls)

    def clock(call: Any) -> tuple[float, float]:
        call()
        wall = next(turns)
        return wall, 2 * wall

    monkeypatch.setattr(bench, "clock", clock)
    return EFFORT._replace(least=len(walls))


def test_median_and_quartiles_of_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    effort = clocks(monkeypatch, 1.0, 2.0, 4.0, 5.0, 10.0)
    row = measure(effort, "step", "steps/s", lambda: calls.append(1), 100)
    assert (row.low, row.median, row.high, row.repeats) == (20.0, 25.0, 50.0, 5)
    assert row.processor == 12.5, "of two cores, half as much is done in a processor second"
    assert row.spread == (50 - 20) / 2 / 25
    assert len(calls) == 6, "the warm-up does not count"


def test_durations_are_not_turned_round(monkeypatch: pytest.MonkeyPatch) -> None:
    row = measure(clocks(monkeypatch, 0.010, 0.020, 0.030), "draw", "ms", lambda: None, warm=True)
    assert row.low < row.median < row.high
    assert row.median == pytest.approx(20.0)
    row = measure(clocks(monkeypatch, 3.0), "import", "s", lambda: None)
    assert (row.low, row.median, row.high, row.spread) == (3.0, 3.0, 3.0, 0.0)


def test_the_limit_is_timed_beside_each_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that slows down in the middle slows both: the share stays."""
    effort = clocks(monkeypatch, 8.0, 2.0, 8.0, 2.0, 56.0, 14.0, 56.0, 14.0)
    row = measure(effort._replace(least=4), "work", "s", lambda: None, limit=("copy", 3 * bench.COPIED))
    assert (row.limit, row.share, row.processor_share) == ("copy", 0.75, 0.75)


def test_enough_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    def repeats(wall: float, least: int | None = None) -> int:
        monkeypatch.setattr(bench, "clock", lambda call: (wall, wall))
        return measure(Effort(3, 1.0, 5, quick=True), "", "s", lambda: None, least=least).repeats

    assert repeats(10.0) == 3, "however long"
    assert repeats(0.3) == 4
    assert repeats(0.1) == 5, "never more than the most"
    assert repeats(10.0, least=1) == 1
    assert repeats(10.0, least=9) == 3, "a part may ask for fewer repeats, not for more"


def test_compiling_is_told() -> None:
    assert bench.timed(EFFORT, "double", "numbers/s", 3, lambda x: x * 2, jnp.arange(3)).compile_seconds > 0
    assert measure(EFFORT, "nothing", "s", lambda: None).compile_seconds is None
    assert bench.nbytes({"a": jnp.zeros((3, 5), jnp.int16), "b": jax.ShapeDtypeStruct((2,), jnp.float32)}) == 38


def test_parts_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(bench.PARTS) == list(PARTS)
    assert main(["bench", "x"]) == 2
    assert "there is no part 'x'; there are world, sampling" in capsys.readouterr().err
    assert main(["bench", "wrold"]) == 2
    assert capsys.readouterr().err == "atlas: there is no part 'wrold'; did you mean world?\n"
    assert main(["bench", "growth", "--figure", "growth.doc"]) == 2
    assert "must end in one of .svg, .png, .pdf" in capsys.readouterr().err


def test_nominal_operations_of_the_paper_network() -> None:
    """Three convolutions on 25 cells, a GRU of 512 over 1,744 inputs, two heads."""
    view = 25 * 4 * (32 * 32 + 32 * 64 + 64 * 64)
    memory = 3 * 512 * (25 * 64 + 16 + 128 + 512)
    heads = 2 * (512 * 256 + 256 * 256) + 256 * (6 + 1)
    paper = bench.shapes(bench.FULL)["paper"]
    assert bench.flops(paper) == 2 * (view + memory + heads)
    assert bench.update_flops(paper) == 12 * 64 * 256 * bench.flops(paper)


@pytest.mark.parametrize("effort", [bench.FULL, bench.QUICK])
def test_every_timed_experiment_is_a_valid_config(effort: Effort) -> None:
    for shape in bench.shapes(effort).values():
        for teacher, _, _ in bench.TEACHERS.values():
            assert bench.taught(shape, teacher, effort).teacher.name == teacher["name"]


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.0123, "0.012"), (1.234, "1.23"), (99.96, "100"), (456.7, "457"), (12_345, "12,300"), (2_634_567, "2.63 M")],
)
def test_figures_have_three_digits(value: float, words: str) -> None:
    assert figure(value) == words


def test_tables_leave_out_what_says_nothing() -> None:
    assert cells(STEP) == ("step", "6 steps/s", "± 17 %", "2.67", "1.5 s", "20 % copy")
    bare = bench.fact("a level", "bytes", 252)
    assert cells(bare) == ("a level", "252 bytes", "", "", "", "")
    assert [str(column.header) for column in table("memory", [bare]).columns] == ["", "median"]
    assert len(table("world", [STEP], width=200).columns) == 6
    assert len(table("world", [STEP], width=80).columns) == 5
    lines = markdown("world", [STEP, bare]).splitlines()
    assert [line.count("|") for line in lines] == 4 * [7]


def test_growth_is_told_by_what_was_measured() -> None:
    curve = Curve("doors", "a check", "exponential", ((1.0, 3.0), (2.0, 6.0), (4.0, 24.0)))
    assert growth_sentence(curve) == "Doors, a check: 1: 3 ms; 2: 6 ms (x 2); 4: 24 ms (x 4)."
    assert 2**curve.exponent == pytest.approx(2.0)
    power = Curve("batch", "a step", "power", tuple((n, 0.5 * n**1.5) for n in (64.0, 256.0, 4096.0)))
    assert power.exponent == pytest.approx(1.5)
    assert power.plain()["points"][0] == {"size": 64.0, "milliseconds": 256.0}
    assert growth_figure([curve, power], "png").startswith(b"\x89PNG")


def kept(path: Path, **medians: float) -> Path:
    """A ledger with these rows, as `--json` prints it."""
    units = {"step": "steps/s", "draw": "ms", "level": "bytes"}
    rows = [{**asdict(STEP), "name": name, "unit": units[name], "median": value} for name, value in medians.items()]
    machine = {"processor": f"the one of {path.stem}", "cores": 2, "load_before": 0.0}
    path.write_text(json.dumps({"machine": machine, "quick": True, "parts": {"world": {"seconds": 1.0, "rows": rows}}}))
    return path


def test_two_ledgers_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = kept(tmp_path / "old.json", step=2.0, draw=3.0, level=252.0)
    new = kept(tmp_path / "new.json", step=6.0, draw=2.0, level=252.0)
    both = ["bench", "--ledger", str(new), "--against", str(old)]
    assert main([*both, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["against"]
    assert told["machine"]["processor"] == "the one of old"
    assert [(row["name"], row["times"]) for row in told["rows"]] == [("step", 3.0), ("draw", 1.5), ("level", None)]
    assert main([*both, "--markdown"]) == 0
    said = capsys.readouterr().out
    assert "| step | 2 steps/s | 6 steps/s | 3.00 |" in said
    assert "| draw | 3 ms | 2 ms | 1.50 |" in said
    assert main(both) == 0
    assert "times as fast" in capsys.readouterr().out
    assert main(["bench", "buffer", *both[1:]]) == 0
    assert "the ledgers have no row in common" in capsys.readouterr().out


def test_a_ledger_alone_is_shown_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--ledger", str(kept(tmp_path / "one.json", step=6.0)), "--markdown"]) == 0
    assert f"| {' | '.join(cells(STEP))} |" in capsys.readouterr().out


@pytest.mark.parametrize("content", ["{}", "[1]", "nonsense", '{"parts": {"world": {"rows": [{}]}}, "machine": {}}'])
def test_what_is_no_ledger_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(content)
    assert main(["bench", "--against", str(path)]) == 2
    assert "other.json" in capsys.readouterr().err
    assert main(["bench", "--against", str(tmp_path / "none.json")]) == 2
