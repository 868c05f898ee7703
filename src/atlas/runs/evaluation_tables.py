"""An evaluation as people read it in a terminal."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from atlas.statistics import wilson

Plain = dict[str, Any]
WORST: Final = 15
"""Problems that are shown unless all are asked for."""
SHOWN_ALPHAS: Final = (1, 5, 10, 20, 50)
ONE_ALPHA: Final = 10
WIDE: Final = 110
"""Columns of a terminal that has room for tags."""
AGGREGATES: Final = {"iqm": "IQM", "mean": "mean", "median": "median"}


def print_evaluation(content: Plain, everything: bool, files: Sequence[Path]) -> None:
    """The set and the terms, the problems (worst first), the tags, and over all."""
    console = Console(highlight=False)
    rows = _over_runs(content["runs"])
    console.print(_headline(content))
    console.print(_problems(rows if everything else rows[:WORST], console.width >= WIDE))
    if not everything and len(rows) > WORST:
        left = rows[WORST:]
        console.print(f"… and {len(left)} more, solved at {_span(left)} (--all shows them)")
    if content["together"]["by_tag"]:
        console.print("", _tags(content["together"]["by_tag"]), sep="\n")
    console.print("", _overall(content), "", _runs(content["runs"]), sep="\n")
    console.print("", _notes(content), sep="\n")
    for file in files:
        console.print(f"written to {file}", soft_wrap=True)


def _headline(content: Plain) -> str:
    about = content["set"]
    how = "greedy" if about["greedy"] else "sampled actions"
    return (
        f"[bold]{escape(about['name'])}[/]: {about['problems']} problems x {about['attempts']} attempts, solved within "
        f"[bold]{about['step_limit']} steps[/], {how}, seed {about['seed']}, fingerprint {about['hash'][:12]}\n"
    )


def _over_runs(runs: list[Plain]) -> list[Plain]:
    """The problems, worst first, with the attempts of all runs."""
    rows = []
    for same in zip(*(run["problems"] for run in runs), strict=True):
        solved, attempts = (sum(row[key] for row in same) for key in ("solved", "attempts"))
        found = wilson(solved, attempts)
        steps = [row["mean_steps"] for row in same if row["mean_steps"] is not None]
        mean_steps = float(np.mean(steps)) if steps else None
        rows.append({**same[0], "rate": found.value, "low": found.low, "high": found.high, "mean_steps": mean_steps})
    return sorted(rows, key=lambda row: row["rate"])


def _span(rows: list[Plain]) -> str:
    low, high = _percent(rows[0]["rate"]), _percent(rows[-1]["rate"])
    return low if low == high else f"{low} to {high}"


def _percent(rate: float) -> str:
    return f"{100 * rate:.0f} %"


def _interval(low: float, high: float) -> str:
    return f"[dim]{100 * low:.0f} – {100 * high:.0f}[/]"


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        left = heading in ("problem", "tags", "tag", "run", "over all", "")
        table.add_column(heading, justify="left" if left else "right", no_wrap=True, overflow="ellipsis")
    return table


def _problems(rows: list[Plain], wide: bool) -> Table:
    """A row for each problem; its tags where there is room for them."""
    headings = ("problem", "solved", "95 %", "rooms", "states", "steps", "plan", "tags")
    table = _table(*headings[: None if wide else -1])
    for row in rows:
        colour = "red" if row["rate"] < 0.25 else "yellow" if row["rate"] < 0.75 else "green"
        cells = (
            escape(row["name"]),
            f"[{colour}]{_percent(row['rate'])}[/]",
            _interval(row["low"], row["high"]),
            str(row["rooms"] or "–"),
            str(row["states"]),
            "–" if row["mean_steps"] is None else f"{row['mean_steps']:.0f}",
            str(row["plan_length"] or "–"),
            f"[dim]{escape(' '.join(_told(row['tags'])))}[/]",
        )
        table.add_row(*cells[: len(table.columns)])
    return table


def _told(tags: list[str]) -> list[str]:
    """Tags that say more than the other columns do."""
    return [tag for tag in tags if not tag.startswith(("rooms-", "states-"))]


def _tags(by_tag: Plain) -> Table:
    table = _table("tag", "problems", "solved", "95 %")
    for tag, found in sorted(by_tag.items(), key=lambda item: item[1]["rate"]):
        rate, between = _percent(found["rate"]), _interval(found["low"], found["high"])
        table.add_row(escape(tag), str(found["problems"]), rate, between)
    return table


def _overall(content: Plain) -> Table:
    """Every number over all problems and runs, with its interval."""
    together = content["together"]
    curve = {point["alpha"]: point for point in together["cvar"]}
    rows = {words: together[name] for name, words in AGGREGATES.items()}
    rows |= {f"worst {alpha} %": curve[alpha] for alpha in SHOWN_ALPHAS if alpha in curve}
    table = _table("over all", "solved", "95 %")
    for words, found in rows.items():
        table.add_row(words, f"[bold]{found['value']:.3f}[/]", f"[dim]{found['low']:.3f} – {found['high']:.3f}[/]")
    return table


def _runs(runs: list[Plain]) -> Table:
    """A row for each run."""
    table = _table("run", *AGGREGATES.values(), f"worst {ONE_ALPHA} %", "steps", "plan")
    for run in runs:
        worst = [f"{point['value']:.3f}" for point in run["cvar"] if point["alpha"] == ONE_ALPHA]
        name = f"{Path(run['run']).name}, iteration {run['iteration']}"
        steps = (run["mean_steps"], run["mean_plan_length"])
        table.add_row(
            escape(name),
            *(f"{run[name]:.3f}" for name in AGGREGATES),
            *(worst or ["–"]),
            *("–" if number is None else f"{number:.1f}" for number in steps),
        )
    return table


def _notes(content: Plain) -> str:
    drawn = content["together"]["interval"]
    return (
        f"[dim]Intervals: of single problems Wilson's, over all from {drawn}. Worst: CVaR, ranked by one half of the "
        "attempts and averaged over the other. Steps: of attempts that succeeded, beside the prover's plans for the "
        "same problems.[/]"
    )


def print_curve(curve: Plain) -> None:
    """How a run did on a set through time."""
    console = Console(highlight=False)
    about = curve["set"]
    console.print(
        f"[bold]{escape(curve['run'])}[/] on [bold]{escape(about['name'])}[/]: {about['problems']} problems x "
        f"{about['attempts']} attempts, solved within [bold]{about['step_limit']} steps[/]"
    )
    table = _table("iteration", "env steps", "minutes", *AGGREGATES.values(), "")
    for point in curve["points"]:
        table.add_row(
            str(point["iteration"]),
            f"{point['steps']:,}",
            f"{point['seconds'] / 60:.1f}",
            *(f"{point[name]:.3f}" for name in AGGREGATES),
            "█" * round(30 * point["mean"]),
        )
    console.print(table, "", sep="\n")
