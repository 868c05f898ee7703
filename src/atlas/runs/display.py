"""How a run looks while it goes on: a live panel in a terminal, plain lines elsewhere."""

import sys
import time
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from atlas.config import Config
from atlas.fit import Moment

LINE_SECONDS = 10.0
"""Plain lines come at most so often."""


class Lines:
    """One line now and then, for logs."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.printed = -LINE_SECONDS

    def __call__(self, moment: Moment) -> None:
        if moment.last or "held_out" in moment.record or time.monotonic() - self.printed >= LINE_SECONDS:
            self.printed = time.monotonic()
            print("  ".join(f"{name} {value}" for name, value in facts(self.config, moment)), flush=True)

    def close(self) -> None:
        pass


class Panel:
    """A table that is drawn over and over."""

    def __init__(self, config: Config, title: str) -> None:
        self.config, self.title = config, title
        self.held_out = ""
        self.live = Live(console=Console(), refresh_per_second=4)
        self.live.start()

    def __call__(self, moment: Moment) -> None:
        rows = dict(facts(self.config, moment))
        self.held_out = rows.setdefault("held out", self.held_out)
        table = Table(title=self.title, title_justify="left", show_header=False, box=None, pad_edge=False)
        for name, value in rows.items():
            table.add_row(f"[dim]{name}[/dim]", value)
        self.live.update(table)

    def close(self) -> None:
        self.live.stop()


def display(config: Config, title: str) -> Lines | Panel:
    """What suits where the output goes."""
    return Panel(config, title) if sys.stdout.isatty() else Lines(config)


def facts(config: Config, moment: Moment) -> list[tuple[str, str]]:
    """What to tell of a moment."""
    record = moment.record
    told = [
        ("steps", f"{short(moment.steps)} of {short(config.run.total_steps)}"),
        ("steps/s", short(record["steps_per_second"])),
        ("time", f"{clock(moment.seconds)}, {clock(left(config, moment))} left"),
        ("iterations", f"{moment.iteration:,} ({moment.trained:,} trained)"),
    ]
    told += [(f"solved {kind}", f"{rate:.0%}") for kind, rate in record.get("solve_rate", {}).items()]
    if "buffer" in record:
        told.append(("buffer", f"{record['buffer']['fill'] / record['buffer']['capacity']:.0%}"))
    if "curriculum" in record:
        told.append(("replayed are", curriculum(record["curriculum"])))
    if "losses" in record:
        told.append(("losses", " ".join(f"{n} {record['losses'][n]:.3g}" for n in ("policy", "value", "entropy"))))
    if "held_out" in record:
        told.append(("held out", rates(record["held_out"])))
    return told


def curriculum(numbers: dict[str, Any]) -> str:
    """What is replayed, in a few words."""
    words = {
        "solvable": "solvable {:.0%}",
        "states": "states {:.1f}",
        "rooms": "rooms {:.1f}",
        "objects": "objects {:.1f}",
    }
    return ", ".join(form.format(numbers[name]) for name, form in words.items() if name in numbers)


def rates(held_out: dict[str, float]) -> str:
    """Solve rates by number of rooms."""
    rooms = [(name.removeprefix("rooms_"), rate) for name, rate in held_out.items() if name.startswith("rooms_")]
    each = ", ".join(f"{count} room{'s' * (count != '1')} {rate:.0%}" for count, rate in rooms)
    return f"{held_out['all']:.0%} ({each})" if len(rooms) > 1 else f"{held_out['all']:.0%}"


def left(config: Config, moment: Moment) -> float:
    """Seconds until the run ends, if it goes on as it does."""
    by_steps = (config.run.total_steps - moment.steps) / moment.record["steps_per_second"]
    by_clock = float("inf") if config.run.time_limit is None else 60 * config.run.time_limit - moment.seconds
    return max(0.0, min(by_steps, by_clock))


def short(number: float) -> str:
    """A large number in few letters: `4.2 G`, `310 k`."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


def clock(seconds: float) -> str:
    """`1:05:09` or `5:09`."""
    hours, rest = divmod(int(seconds), 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
