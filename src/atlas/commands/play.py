"""`atlas play`: a problem on the keyboard, in the terminal."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import tyro

from atlas.errors import AtlasError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from atlas.domains.minigrid.grid import Level
    from atlas.replay import Episode
    from atlas.types import Problem


@dataclass(frozen=True)
class Args:
    """Play a problem, or walk through a level without a task, with the keyboard.

    Keys: up goes forward, left and right turn, p picks up, d puts down, space toggles a door, r restarts, q quits.
    """

    file: tyro.conf.Positional[Path]
    """A problem, a set or a level: any file that ATLAS reads."""
    name: str | None = None
    """Which problem of a set, by name."""
    index: int | None = None
    """Which problem of a set, by number from 0."""


FORWARD, RIGHT, LEFT, PICK_UP, PUT_DOWN, TOGGLE = range(6)
KEYS: Final = {
    "\x1b[A": FORWARD, "\x1bOA": FORWARD, "\x1b[C": RIGHT, "\x1bOC": RIGHT, "\x1b[D": LEFT, "\x1bOD": LEFT,
    "p": PICK_UP, "d": PUT_DOWN, " ": TOGGLE,
}  # fmt: skip
"""What a terminal sends -> action."""
QUIT: Final = ("q", "\x03", "\x04")
HELP: Final = "↑ forward  ← → turn  p pick up  d put down  space toggle  r restart  q quit"


def main(argv: list[str]) -> int:
    """Play until q."""
    args = tyro.cli(Args, args=argv, prog="atlas play")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise AtlasError("play needs a terminal to read keys from; `atlas trace FILE --actions …` replays without one")
    from atlas.runs.choose import choose

    game = Game(choose(args.file, args.name, args.index))
    with _raw_terminal() as keys:
        _show(game.screen())
        for key in keys:
            game.press(key)
            if not game.running:
                break
            _show(game.screen())
    print(game.summary())
    return 0


class Game:
    """A problem being played: keys in, screens out."""

    def __init__(self, subject: "Problem | Level") -> None:
        self.subject = subject
        self.running = True
        self.episode: Episode
        self.total: float
        self._restart()

    def _restart(self) -> None:
        from atlas.replay import Episode

        self.episode, self.total = Episode(self.subject), 0.0

    def press(self, key: str) -> None:
        """React to a key; unknown ones do nothing, and nothing moves after the end."""
        if key in QUIT:
            self.running = False
        elif key == "r":
            self._restart()
        elif key in KEYS and not self.episode.record.done:
            self.total += self.episode.act(KEYS[key]).reward

    def screen(self) -> "RenderableType":
        """Everything there is to see."""
        from rich.console import Group
        from rich.table import Table

        from atlas.domains.minigrid import terminal

        record = self.episode.record
        sides = Table.grid(padding=(0, 3))
        sides.add_row(terminal.level_text(self.episode.level), self._panel())
        label = "  ".join(_label(record.label)) or "nothing"
        return Group(self._title(), "", sides, "", f"[bold]label[/]  {label}", *self._progress(), "", f"[dim]{HELP}[/]")

    def _title(self) -> str:
        from rich.markup import escape

        name = getattr(self.subject, "name", "")
        return f"[bold]{escape(name) or 'level'}[/]   step {self.episode.steps}   return {self.total:g}"

    def _panel(self) -> "RenderableType":
        from rich.console import Group

        from atlas.domains.minigrid import terminal, text

        carried = self.episode.record.carrying
        hands = terminal.object_text(text.parse_object(carried)) if carried else "nothing"
        return Group("view", terminal.view_text(self.episode.view), "", "carrying", hands)

    def _progress(self) -> "list[RenderableType]":
        """The task with its current state marked, and how it ended."""
        from atlas.runs.portrait import task_rows
        from atlas.types import Problem

        if not isinstance(self.subject, Problem):
            return []
        rows = ["", *task_rows(self.subject.task, self.episode.place)]
        return rows + (["", f"{self._ending()}   r plays again"] if self.episode.record.done else [])

    def _ending(self) -> str:
        """How the episode ended, in words."""
        state = (self.episode.record.task_state or "").split(":")[-1]
        words = {"uA": "[bold green]done: the task is complete[/]", "uR": "[bold red]over: the task has failed[/]"}
        return words.get(state, "[bold red]over: out of steps[/]")

    def summary(self) -> str:
        """One line to leave on the screen."""
        return f"{self.episode.steps} steps, return {self.total:g}" + (
            f", task in {self.episode.record.task_state}" if self.episode.record.task_state else ""
        )


def _label(label: frozenset[str]) -> list[str]:
    from atlas.replay import most_specific

    return most_specific(label)


def _show(screen: Any) -> None:
    """Draw from the top left; what the last screen left below is wiped."""
    from rich.console import Console

    console = Console(highlight=False)
    with console.capture() as capture:
        console.print(screen)
    lines = "\x1b[K\r\n".join(capture.get().splitlines())
    sys.stdout.write(f"\x1b[H{lines}\x1b[K\x1b[J")
    sys.stdout.flush()


@contextmanager
def _raw_terminal() -> Iterator[Iterator[str]]:
    """Single keys instead of lines, on a screen of its own; the terminal is put back whatever happens."""
    import termios
    import tty

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    try:
        tty.setraw(number)
        sys.stdout.write("\x1b[?1049h\x1b[?25l")
        yield _keys(number)
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)
        sys.stdout.write("\x1b[?25h\x1b[?1049l")
        sys.stdout.flush()


def _keys(number: int) -> Iterator[str]:
    """Keys as they are pressed, until the input ends."""
    import os

    while data := os.read(number, 64):
        yield from split_keys(data.decode(errors="ignore"))


def split_keys(data: str) -> list[str]:
    """What a terminal sent at once, key by key: an arrow is several characters."""
    return re.findall(r"\x1b[\[O].|.", data, re.DOTALL)
