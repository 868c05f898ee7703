"""`atlas play`: keys in, screens out."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from atlas.cli import main
from atlas.commands.episodes import Game, fitted, split_keys
from atlas.domains.minigrid import text
from atlas.domains.minigrid.alphabet import IDS
from atlas.tasks.machine import ACCEPT, flat_task
from atlas.types import Problem

LEVEL = text.parse_level("########\n##kb-r##\n##^...##\n########")
TASK = flat_task([
    (0, 1, [IDS["carrying_key"] + 1, -(IDS["front_ball"] + 1)]),
    (1, ACCEPT, [IDS["front_key_blue"] + 1], 1.0),
])  # fmt: skip


def screen(game: Game) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(game.screen())
    return console.file.getvalue()  # type: ignore[attr-defined]


def press(game: Game, *keys: str) -> None:
    for key in keys:
        game.press(key)


def test_a_whole_game() -> None:
    game = Game(Problem(level=LEVEL, task=TASK))
    shown = screen(game)
    for words in ("step 0", "front_key_blue", "▶ u0", "pick up a key", "nothing"):
        assert words in shown
    press(game, "p")
    assert "o┬ blue key" in screen(game)
    assert "▶ u1" in screen(game)
    press(game, "d")
    assert "the task is complete" in screen(game)
    assert game.total == 1.0
    press(game, "p", "x")
    assert game.episode.steps == 2, "nothing moves after the end"
    press(game, "r")
    assert (game.episode.steps, game.total) == (0, 0.0)
    press(game, "q")
    assert not game.running


def test_a_large_machine_is_cut_to_the_terminal() -> None:
    key, ball = IDS["carrying_key"] + 1, IDS["front_ball"] + 1
    chain = [(n, n + 1, [key if n % 2 == 0 else ball]) for n in range(30)]
    game = Game(Problem(level=LEVEL, task=flat_task([*chain, (30, ACCEPT, [key], 1.0)])))
    press(game, "p")
    console = Console(file=io.StringIO(), width=80, height=24)
    console.print(fitted(console, game.screen, 24))
    shown = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(shown) == 24
    assert "step 1" in shown[0]
    assert any("▶  u1 " in line for line in shown)
    assert any(line.startswith("… ") and line.endswith("more states") for line in shown)


def test_every_action_has_a_key() -> None:
    game = Game(LEVEL)
    press(game, *split_keys("\x1b[C\x1b[A\x1bOD \x1b[D"))
    record = game.episode.record
    assert record.position == (2, 2)
    assert record.direction == 3
    assert record.view[4][2] == "floor"
    assert text.format_level(game.episode.level).splitlines()[1] == "##kb+r##"
    assert "u0" not in screen(game)
    assert game.summary() == "5 steps, return 0"


def test_keys_that_arrive_together_are_told_apart() -> None:
    assert split_keys("p\x1b[A\x1bOC q") == ["p", "\x1b[A", "\x1bOC", " ", "q"]


def test_without_a_terminal_there_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "level.txt"
    path.write_text("^.")
    assert main(["play", str(path)]) == 2
    assert "play needs a terminal" in capsys.readouterr().err


def test_a_task_in_words_is_played_on_the_keyboard(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)

    @contextmanager
    def keys() -> Iterator[Iterator[str]]:
        yield iter("q")

    monkeypatch.setattr("atlas.commands.episodes._raw_terminal", keys)
    assert main(["play", "--task", "go to a red ball", "--rooms", "1"]) == 0
    out = capsys.readouterr().out
    assert "understood: Go to a red ball." in out
    assert "go to a red ball" in out
    assert out.endswith("0 steps, return 0, task in u0\n\ntry next: atlas watch zoo:quick\n")
