"""What is shown while a run goes on: rows that stay in place, and plain lines for logs."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

import atlas
from atlas.config import Config
from atlas.domains.minigrid.presets import TINY
from atlas.evaluation.statistics import SolveRates
from atlas.fit import Moment
from atlas.runs.display import Lines, Pace, Panel, left, rates, share_done
from atlas.runs.screen import Screen
from atlas.training import TrainState
from atlas.words import clock, short

NO_STATE = object.__new__(TrainState)
"""Nobody looks into it here."""
BEFORE = SolveRates(0.2, {"rooms": {1: 0.3, 2: 0.1}})
CURRICULUM = {"solvable": 0.5, "solvable_replayed": 0.75, "states": 2.3, "rooms": 1.4, "objects": 4.0}
CURRICULUM["shares"] = {"rooms": {"1": 0.6, "2": 0.4}, "objects": {"4": 1.0}, "states": {"2": 0.7, "3": 0.3}}


def moment(seconds=10.0, steps=1000, last=False, **record):
    basis = {"steps_per_second": 100.0, "solve_rate": {"new": 0.1, "replayed": 0.6}}
    buffer = {"buffer": {"fill": 16, "capacity": 32}}
    return Moment(NO_STATE, 5, 3, steps, seconds, last, basis | buffer | record)


def looked_on():
    losses = {"policy": -0.001, "value": 0.25, "entropy": 1.5}
    held_out = {"all": 0.5, "rooms_1": 0.7, "rooms_2": 0.3}
    return moment(held_out=held_out, curriculum=CURRICULUM, losses=losses)


TOLD = (
    "steps", "left", "new 10%", "replayed 60%", "50% (1 room 70%, 2 rooms 30%)", "16 of 32 problems", "50% solvable",
    "75% solvable; 2.3 states, 1.4 rooms, 4.0 objects", "policy -0.001, value 0.25, entropy 1.5",
)  # fmt: skip


def test_a_line_tells_it_all(capsys):
    lines = Lines(TINY, BEFORE)
    lines(looked_on())
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    for words in TOLD:
        assert words in printed


def test_lines_do_not_come_too_often(capsys):
    lines = Lines(TINY, BEFORE)
    for number in range(5):
        lines(moment(seconds=number, steps=number * 100))
    lines(moment(last=True))
    assert capsys.readouterr().out.count("\n") == 2


def test_every_line_has_the_same_fields(capsys):
    lines = Lines(TINY, BEFORE)
    told = [moment(), looked_on(), moment(solve_rate={"edited": 0.5}), moment(solve_rate={})]
    for one in told:
        lines.printed = -1000.0
        lines(one)
    printed = [line.split(" | ") for line in capsys.readouterr().out.splitlines()]
    names = [[field.split(" ")[0] for field in line[2:]] for line in printed]
    assert names == [["solved", "held", "buffer", "replayed", "losses"]] * 4
    assert printed[0][3:] == ["held out 20% (1 room 30%, 2 rooms 10%), untrained", "buffer 16 of 32 problems",
                              "replayed –", "losses –"]  # fmt: skip
    assert printed[1][3:] == printed[2][3:] == printed[3][3:]
    assert printed[3][2] == "solved new 10%, replayed 60%, edited 50%"


def test_a_run_that_goes_on_shows_its_last_exam(capsys):
    Lines(TINY, BEFORE, SolveRates(0.41, {"rooms": {1: 0.5, 2: 0.32}}))(moment())
    printed = capsys.readouterr().out
    assert "held out 41% (1 room 50%, 2 rooms 32%) |" in printed
    assert "untrained" not in printed


def wide_table():
    table = Table()
    for name in ("problem", "solved", "steps", "plan"):
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    table.add_row("there-and-back", "0.123", "1,234,567", "98.7654321")
    return table


def test_columns_are_dropped_before_figures_are_cut():
    for width in range(30, 80):
        screen = Screen(file=io.StringIO(), width=width)
        screen.print(wide_table())
        printed = screen.file.getvalue()
        assert "…" not in printed
        assert "0.123" in printed
        assert ("98.7654321" in printed) == ("plan" in printed)
        assert max(map(len, printed.splitlines())) <= width


def test_nothing_is_cut_where_nobody_looks(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    screen = Screen()
    screen.print("word " * 100)
    screen.print(wide_table())
    printed = capsys.readouterr().out
    assert printed.splitlines()[0].strip() == ("word " * 100).strip()
    assert "98.7654321" in printed


def test_standard_output_is_written_through_the_screen():
    allowed = {"gym/envs.py", "runs/display.py"}  # for a string; the error stream and the panel of a terminal
    root = Path(atlas.__file__).parent
    bare = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if re.search(r"(?<!\w)Console\((?!stderr)", path.read_text())
    }
    assert bare == allowed


@pytest.fixture
def panel():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    panel = Panel(TINY, "runs/tiny", BEFORE, console=console)
    yield panel
    panel.close()


def drawn(panel, moment):
    panel(moment)
    console = Console(file=io.StringIO(), width=100)
    console.print(panel.live.renderable)
    return console.file.getvalue()


def test_the_panel_keeps_its_height_and_what_it_knows(panel):
    pages = [drawn(panel, moment()), drawn(panel, looked_on()), drawn(panel, moment())]
    assert len({page.count("\n") for page in pages}) == 1
    assert len({len(line) for page in pages for line in page.splitlines()}) == 1
    assert "20% (1 room 30%, 2 rooms 10%), untrained" in pages[0]
    for words in TOLD:
        assert words in pages[1]
    for words in ("50% (1 room 70%, 2 rooms 30%)", "75% solvable", "policy -0.001", "50% solvable"):
        assert words in pages[2]


def test_a_teacher_without_memory_has_no_buffer_to_show():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    panel = Panel(Config(), "runs/dr", BEFORE, console=console)
    page = drawn(panel, looked_on())
    panel.close()
    assert "buffer" not in page
    assert "proposed" in page


def test_speed_is_that_of_the_last_half_minute():
    pace = Pace()
    assert pace(moment(seconds=10, steps=1000)) == pytest.approx(100)
    for seconds in range(11, 200):
        speed = pace(moment(seconds=seconds, steps=1000 + 50 * (seconds - 10)))
    assert speed == pytest.approx(50)


def test_speed_after_a_resume_does_not_count_what_was_before():
    pace = Pace()
    assert pace(moment(seconds=1000, steps=10**6)) == pytest.approx(100)
    assert pace(moment(seconds=1010, steps=10**6 + 2000)) == pytest.approx(200, rel=0.7)


def test_time_left_is_by_steps_or_by_the_clock():
    assert left(TINY, moment(steps=4_096 - 500), 100.0) == pytest.approx(5)
    limited = Config(run=TINY.run.__class__(time_limit=1.0))
    assert left(limited, moment(seconds=45.0), 1.0) == pytest.approx(15)
    assert share_done(limited, moment(seconds=45.0)) == pytest.approx(0.75)


def test_numbers_are_short():
    assert [short(x) for x in (3, 4_200, 12_345_678, 4.2e9)] == ["3", "4.2 k", "12.3 M", "4.2 G"]
    assert [clock(x) for x in (9, 309, 3909)] == ["0:09", "5:09", "1:05:09"]
    assert rates(SolveRates(0.5, {"rooms": {1: 0.5}})) == "50%"
