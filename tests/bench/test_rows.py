"""The arithmetic of repeats, and the forms a row takes."""

import json
import math

import pytest

from atlas.bench.rows import FULL, QUICK, Clock, Effort, fact, milliseconds, per_second, quartiles, seconds, summarise
from atlas.bench.table import cells, figure, markdown, percent, table


def clocks(*walls: float) -> list[Clock]:
    return [Clock(wall, 2 * wall) for wall in walls]


def test_median_and_quartiles_of_a_rate() -> None:
    row = summarise("step", per_second(100, "steps"), clocks(1.0, 2.0, 4.0, 5.0, 10.0))
    assert (row.low, row.median, row.high) == (20.0, 25.0, 50.0)
    assert row.unit == "steps/s"
    assert row.repeats == 5
    assert row.processor == 12.5, "of two cores, half as much is done in a processor second"
    assert row.spread == (50 - 20) / 2 / 25


def test_durations_are_not_turned_round() -> None:
    row = summarise("draw", milliseconds(2), clocks(0.010, 0.020, 0.030))
    assert row.median == pytest.approx(10.0)
    assert row.low < row.median < row.high
    assert summarise("import", seconds(), clocks(3.0)).median == 3.0


def test_a_straggler_does_not_move_the_median() -> None:
    calm = summarise("step", per_second(1, "steps"), clocks(1.0, 1.1, 0.9, 1.0, 1.05))
    disturbed = summarise("step", per_second(1, "steps"), clocks(1.0, 1.1, 0.9, 1.0, 50.0))
    assert disturbed.median == pytest.approx(calm.median, rel=0.1)


def test_the_share_is_the_median_of_pairs() -> None:
    row = summarise("learn", seconds(), clocks(1.0, 2.0, 3.0), clocks(0.5, 0.8, 0.3), "product", 2.5)
    assert row.share == row.processor_share == 0.4
    assert (row.limit, row.compile_seconds) == ("product", 2.5)


def test_quartiles_of_one_value_are_itself() -> None:
    assert quartiles([3.0]) == (3.0, 3.0, 3.0)
    assert fact("a level", "bytes", 252).spread == 0.0


def test_enough_is_enough() -> None:
    effort = Effort(least=3, seconds=1.0, most=5)
    assert not effort.enough([10.0, 10.0]), "too few, however long"
    assert effort.enough([10.0, 10.0, 10.0])
    assert not effort.enough([0.1, 0.1, 0.1])
    assert effort.enough([0.1] * 5), "never more than the most"
    assert effort.enough([10.0], least=1)
    assert not effort.enough([10.0, 10.0], least=9), "a part may ask for fewer repeats, not for more"
    assert not FULL.quick
    assert QUICK.quick


def test_a_row_is_json() -> None:
    row = summarise("step", per_second(8, "steps"), clocks(1.0, 2.0), clocks(0.1, 0.6), "copy", 1.5)
    plain = json.loads(json.dumps(row.plain()))
    assert plain == {
        "name": "step", "unit": "steps/s", "median": 6.0, "low": 5.0, "high": 7.0, "repeats": 2,
        "processor": pytest.approx(8 / 3), "compile_seconds": 1.5, "limit": "copy", "share": pytest.approx(0.2),
        "processor_share": pytest.approx(0.2), "spread": pytest.approx(1 / 6),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.0123, "0.012"), (1.234, "1.23"), (99.96, "100"), (456.7, "457"), (12_345, "12,300"), (2_634_567, "2.63 M")],
)
def test_figures_have_three_digits(value: float, words: str) -> None:
    assert figure(value) == words


def test_shares_are_percent() -> None:
    assert percent(0.412) == "41 %"
    assert percent(0.0123) == "1.2 %"


def test_tables_leave_out_what_says_nothing() -> None:
    whole = summarise("step", per_second(8, "steps"), clocks(1.0, 2.0), clocks(0.1, 0.6), "copy", 1.5)
    assert cells(whole) == ("step", "6 steps/s", "± 17 %", "2.67", "1.5 s", "20 % copy")
    bare = fact("a level", "bytes", 252)
    assert cells(bare) == ("a level", "252 bytes", "", "", "", "")
    assert [str(column.header) for column in table("memory", [bare]).columns] == ["", "median"]
    assert len(table("world", [whole], width=200).columns) == 6
    assert len(table("world", [whole], width=80).columns) == 5
    lines = markdown("world", [whole, bare]).splitlines()
    assert len({line.count("|") for line in lines}) == 1
    assert len(lines) == 4
    assert not math.isnan(whole.median)
