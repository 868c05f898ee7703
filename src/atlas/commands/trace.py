"""`atlas trace`: replay actions, tell what happens."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

if TYPE_CHECKING:
    from rich.table import Table

    from atlas.replay import Record


@dataclass(frozen=True)
class Args:
    """Replay a list of actions in a problem, or in a level without a task, and tell every moment.

    Actions are 0 forward, 1 right, 2 left (turns), 3 pick_up, 4 put_down, 5 toggle. The first line is the start, after
    the task has seen the first label. Nothing follows the end of an episode.
    """

    file: tyro.conf.Positional[Path]
    """A problem, a set or a level: any file that ATLAS reads."""
    actions: str = ""
    """Actions by number or name, separated by commas: 0,0,3 or forward,forward,pick_up."""
    name: str | None = None
    """Which problem of a set, by name."""
    index: int | None = None
    """Which problem of a set, by number from 0."""
    film: Path | None = None
    """Also write the episode as a film: .gif, or .mp4 (needs the extra `video`)."""
    json: bool = False
    """Print JSON: a list of records."""


def main(argv: list[str]) -> int:
    """Replay and print."""
    args = tyro.cli(Args, args=argv, prog="atlas trace")
    from rich.console import Console

    from atlas.replay import action_number, trace
    from atlas.runs.choose import choose

    subject = choose(args.file, args.name, args.index)
    actions = [action_number(word) for word in args.actions.replace(",", " ").split()]
    records = trace(subject, actions)
    if args.film:
        from atlas.runs.films import save_episode

        save_episode(subject, actions, args.film)
    if args.json:
        print(json.dumps([record.plain() for record in records]))
    else:
        Console(highlight=False).print(_table(records, actions))
    return 0


def _table(records: "list[Record]", actions: list[int]) -> "Table":
    from rich import box
    from rich.table import Table

    from atlas.domains.minigrid.grid import ACTIONS
    from atlas.replay import most_specific

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("", "action", "at", "facing", "carrying", "task", "reward", "label"):
        table.add_column(column, overflow="fold")
    for step, record in enumerate(records):
        table.add_row(
            str(step),
            ACTIONS[actions[step - 1]] if step else "start",
            "{},{}".format(*record.position),
            ("up", "right", "down", "left")[record.direction],
            record.carrying or "",
            (record.task_state or "") + (" done" if record.done else ""),
            f"{record.reward:g}" if record.reward else "",
            " ".join(most_specific(record.label)),
        )
    return table
