"""What people see of a problem: in the terminal, as a picture, as plain values for JSON."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from PIL import Image
from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from atlas.domains.minigrid import grid, render, terminal, text
from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.domains.minigrid.grid import Level
from atlas.tasks.bridge import unpack
from atlas.tasks.draw import draw_task, svg_task
from atlas.tasks.explain import explain, is_prose
from atlas.tasks.formats import format_task
from atlas.tasks.machine import Node, Task
from atlas.tasks.terminal import text_task
from atlas.types import About, Problem

Subject = Problem | Level
TASK_SCALE: Final = 1 / 24
"""Size of a drawn task per pixel of a tile: its icons come out a little smaller than the objects of the level."""


def parts(subject: Subject) -> tuple[Level, Task | None, About]:
    """The level, the task if there is one, and what is known about them."""
    if isinstance(subject, Level):
        return subject, None, About()
    return subject.level, unpack(subject.task), getattr(subject, "about", About())


def describe(subject: Subject) -> dict[str, Any]:
    """Plain values, as JSON has them."""
    level, task, about = parts(subject)
    carried = int(level.carrying)
    rows, cols = text.natural_cells(level).shape
    told = {
        "name": about.name,
        "rows": rows,
        "cols": cols,
        "rooms": int(level.rooms),
        "objects": int(grid.count_objects(np.asarray(level.cells))),
        "level": text.format_cells(level),
        "carrying": None if carried == grid.NOTHING else grid.cell_name(carried),
        "tags": list(about.tags),
        "notes": about.notes,
    }
    if task is not None:
        told |= {"task": format_task(task, VOCABULARY), "english": explain(task, VOCABULARY)}
    return told


def portrait(subject: Subject, colour: bool = True) -> RenderableType:
    """One problem for the terminal; without colours the level is drawn in letters."""
    level, task, about = parts(subject)
    rows: list[RenderableType] = []
    if about.name or about.tags:
        tags = f"  [dim]{escape(' '.join(about.tags))}[/]" if about.tags else ""
        rows.append(f"[bold]{escape(about.name)}[/]{tags}")
    rows += [escape(about.notes)] if about.notes else []
    rows += [""] if rows else []
    rows.append(terminal.level_text(level) if colour else Text(text.format_level(level)))
    if colour and int(level.carrying) != grid.NOTHING:
        carried = Table.grid(padding=(0, 1))
        carried.add_row("carrying", terminal.object_text(int(level.carrying)))
        rows.append(carried)
    if task is not None:
        rows += ["", *task_rows(task, colour=colour)]
    return Group(*rows)


def task_rows(task: Any, current: Node | None = None, colour: bool = True) -> list[RenderableType]:
    """A task for the terminal: in a sentence, if one says it, and as a machine with the current state marked."""
    task = unpack(task)
    words = explain(task, VOCABULARY)
    machine = Text.from_ansi(text_task(task, VOCABULARY, current, colour))
    return [escape(words), "", machine] if is_prose(words) else [machine]


def overview(subjects: Sequence[Subject]) -> Table:
    """A set, one line a problem."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column, side in (("", "right"), ("name", "left"), ("size", "right"), ("rooms", "right"), ("objects", "right")):
        table.add_column(column, justify=side, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("states", justify="right")
    table.add_column("task")
    for number, subject in enumerate(subjects):
        level, task, about = parts(subject)
        rows, cols = text.natural_cells(level).shape
        objects = int(grid.count_objects(np.asarray(level.cells)))
        states = sum(len(machine.states) for machine in task.machines) if task is not None else 0
        table.add_row(
            str(number), escape(about.name), f"{rows}x{cols}", str(int(level.rooms) or "-"), str(objects),
            str(states or ""), escape(explain(task, VOCABULARY)) if task is not None else "",
        )  # fmt: skip
    return table


def picture(subject: Subject, tile: int = 32) -> Image.Image:
    """One problem as an image: name and task in words above, the level and the task drawn below."""
    level, task, _ = parts(subject)
    drawn = draw_task(task, VOCABULARY, scale=TASK_SCALE * tile) if task is not None else None
    return render.frame(level, drawn, caption(subject), tile)


def small_picture(subject: Subject, tile: int = 24) -> Image.Image:
    """One problem as a small image: the level alone is drawn, the task only told."""
    return render.frame(parts(subject)[0], caption=caption(subject), tile=tile)


def caption(subject: Subject) -> str:
    """Name and task in words, if a sentence or two say it."""
    _, task, about = parts(subject)
    words = explain(task, VOCABULARY) if task is not None else ""
    return ": ".join(part for part in (about.name, words if is_prose(words) else "") if part)


def svg(subject: Subject, tile: int = 32) -> str:
    """One problem as SVG text: the level, and the task beside it."""
    level, task, _ = parts(subject)
    drawings = [render.svg_level(level, tile)] + ([svg_task(task, VOCABULARY)] if task is not None else [])
    return render.svg_row(drawings)
