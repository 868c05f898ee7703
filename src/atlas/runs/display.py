"""How a run looks while it goes on: a live panel in a terminal, plain lines elsewhere."""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel as Frame
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from atlas.config import Config
from atlas.evaluation.statistics import SolveRates
from atlas.words import clock, plural, short

if TYPE_CHECKING:
    from atlas.fit import Moment

LINE_SECONDS: Final = 10.0
"""Seconds between plain lines, at least."""
WINDOW: Final = 30.0
"""Seconds over which speed is averaged: iterations that only score are far quicker than those that train."""
WIDTH: Final = 92
"""Columns of the panel, at most."""


@contextmanager
def bar(words: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on the error stream, if that is a terminal. Yields `progress(done, total)`."""
    columns = (TextColumn(words), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(words, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def bar_or_lines(words: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar or, where there is no terminal, a line now and then. Yields `progress(done, total)`."""
    printed = time.monotonic()

    def line(done: int, total: int) -> None:
        nonlocal printed
        if time.monotonic() - printed >= LINE_SECONDS:
            printed = time.monotonic()
            print(f"{words} {done}/{total}", flush=True)

    if not sys.stderr.isatty():
        yield line
        return
    with bar(words) as progress:
        yield progress


class Pace:
    """Env steps a second, over the last half minute."""

    def __init__(self) -> None:
        self.seen: deque[tuple[float, int]] = deque()

    def __call__(self, moment: "Moment") -> float:
        if not self.seen:  # the first call has no other before it, but knows how fast it was
            self.seen.append((moment.seconds - 1.0, moment.steps - int(moment.record["steps_per_second"])))
        self.seen.append((moment.seconds, moment.steps))
        while len(self.seen) > 2 and moment.seconds - self.seen[1][0] >= WINDOW:
            self.seen.popleft()
        (then, before), (now, steps) = self.seen[0], self.seen[-1]
        return (steps - before) / max(now - then, 1e-9)


class Known:
    """The status of a run, row by row. A row keeps what was last known."""

    def __init__(self, config: Config, before: SolveRates, last: SolveRates | None = None) -> None:
        """`before`: solve rates of the untrained student; `last`: those of the last exam, if there was one."""
        self.config = config
        self.pace = Pace()
        self.record: dict[str, Any] = {} if last is None else {"held_out": last.plain()}
        self.rows = dict.fromkeys(rows(config), "") | {"held out": f"{rates(before)}, untrained"}
        self.rows |= facts(config, self.record)

    def learn(self, record: dict[str, Any]) -> None:
        """Take note of a new record: not every one has everything, nor every kind of batch."""
        from atlas.types import KINDS  # commands that only need a bar do without JAX

        kinds = self.record.get("solve_rate", {}) | record.get("solve_rate", {})
        self.record |= {**record, "solve_rate": {kind: kinds[kind] for kind in KINDS if kind in kinds}}
        self.rows |= {name: words for name, words in facts(self.config, self.record).items() if name in self.rows}


class Lines(Known):
    """One line now and then, for logs: every one with the same fields."""

    printed = -LINE_SECONDS

    def __call__(self, moment: "Moment") -> None:
        speed = self.pace(moment)
        self.learn(moment.record)
        if moment.last or "held_out" in moment.record or time.monotonic() - self.printed >= LINE_SECONDS:
            self.printed = time.monotonic()
            remains = clock(left(self.config, moment, speed))
            steps = f"{clock(moment.seconds)} ({remains} left) | {short(moment.steps)} steps, {short(speed)}/s"
            print(" | ".join([steps, *(f"{name} {words or '–'}" for name, words in self.rows.items())]), flush=True)

    def close(self) -> None:
        pass


class Panel(Known):
    """A frame that is drawn over and over. Its rows stay where they are."""

    def __init__(
        self,
        config: Config,
        title: str,
        before: SolveRates,
        last: SolveRates | None = None,
        console: Console | None = None,
    ) -> None:
        super().__init__(config, before, last)
        self.title, self.before = title, before
        console = console or Console()
        self.live = Live(Text(""), console=console, refresh_per_second=4, vertical_overflow="visible")
        self.live.start()

    def __call__(self, moment: "Moment") -> None:
        config, speed = self.config, self.pace(moment)
        self.learn(moment.record)

        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(ratio=1)
        total = f" of {short(config.run.total_steps)}" if config.run.time_limit is None else ""
        trained = f"{plural(moment.iteration, 'iteration')}, {moment.trained:,} of them trained"
        table.add_row("steps", Text(f"{short(moment.steps)}{total}, {short(speed)}/s   {trained}"))
        for name, words in self.rows.items():
            more = f"   (untrained {self.before.all:.0%})" if name == "held out" and "held_out" in self.record else ""
            table.add_row(name, Text((words or "…") + more, style="" if words else "dim"))
        bar = Table.grid(padding=(0, 2))
        bar.add_column(ratio=1)
        bar.add_column(no_wrap=True)
        times = f"{clock(moment.seconds)} gone, {clock(left(config, moment, speed))} left"
        bar.add_row(ProgressBar(total=1.0, completed=share_done(config, moment)), Text(times))
        width = min(WIDTH, self.live.console.width)
        frame = Frame(Group(bar, "", table), title=f"[bold]{self.title}[/]", title_align="left", width=width)
        self.live.update(frame, refresh=True)

    def close(self) -> None:
        self.live.stop()


def display(config: Config, title: str, before: SolveRates, last: SolveRates | None = None) -> Lines | Panel:
    """A panel in a terminal, else lines."""
    return Panel(config, title, before, last) if sys.stdout.isatty() else Lines(config, before, last)


def rows(config: Config) -> tuple[str, ...]:
    """The rows beside steps and time, in this order."""
    curriculum = ("buffer", "replayed") if config.plan.buffer else ("proposed",)
    return ("solved", "held out", *curriculum, "losses")


def facts(config: Config, record: dict[str, Any]) -> dict[str, str]:
    """The cells for a record, by row."""
    told: dict[str, str] = {}
    curriculum = record.get("curriculum", {})
    if record.get("solve_rate"):
        told["solved"] = ", ".join(f"{kind} {rate:.0%}" for kind, rate in record["solve_rate"].items())
    if "held_out" in record:
        told["held out"] = rates(SolveRates.read(record["held_out"]))
    if "buffer" in record:
        fill, capacity = record["buffer"]["fill"], record["buffer"]["capacity"]
        told["buffer"] = f"{fill:,} of {capacity:,} problems"
        told["buffer"] += f", {curriculum['solvable']:.0%} solvable" if "solvable" in curriculum else ""
    if "states" in curriculum:
        sizes = ("states", *(name for name in curriculum["shares"] if name not in ("states", "edits")))
        means = ", ".join(f"{curriculum[name]:.1f} {name}" for name in sizes)
        told["replayed" if config.plan.buffer else "proposed"] = (
            f"{curriculum['solvable_replayed']:.0%} solvable; {means}"
        )
    if "losses" in record:
        told["losses"] = ", ".join(f"{n} {record['losses'][n]:.3g}" for n in ("policy", "value", "entropy"))
    return told


def rates(held_out: SolveRates) -> str:
    """`50% (1 room 70%, 2 rooms 30%)`."""
    told = held_out.labelled()
    each = ", ".join(f"{words} {rate:.0%}" for words, rate in told.items())
    return f"{held_out.all:.0%} ({each})" if len(told) > 1 else f"{held_out.all:.0%}"


def share_done(config: Config, moment: "Moment") -> float:
    """How much of the run is over, by steps or by the clock."""
    by_clock = 0.0 if config.run.time_limit is None else moment.seconds / (60 * config.run.time_limit)
    return min(1.0, max(moment.steps / config.run.total_steps, by_clock))


def left(config: Config, moment: "Moment", speed: float) -> float:
    """Seconds until the run ends, if it goes on as it does."""
    by_steps = (config.run.total_steps - moment.steps) / max(speed, 1e-9)
    by_clock = float("inf") if config.run.time_limit is None else 60 * config.run.time_limit - moment.seconds
    return max(0.0, min(by_steps, by_clock))
