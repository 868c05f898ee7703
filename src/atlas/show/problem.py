"""Views of a problem: in the terminal, as a picture, as plain values for JSON."""

import typing
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import jax
import numpy as np
from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text as TerminalText

from atlas.domains import default_name, name_for, surface_for, surface_of, vocabulary_of
from atlas.show import canvas
from atlas.show.canvas import Drawing
from atlas.tasks.draw import task_drawing, task_text
from atlas.tasks.explain import explain, is_prose
from atlas.tasks.formats import format_task
from atlas.tasks.machine import Node, Task
from atlas.tasks.packed import PackedTask, unpack
from atlas.types import About, Level, Problem
from atlas.vocabulary import Vocabulary

if TYPE_CHECKING:
    from PIL.Image import Image

Subject = Any
"""A problem, or a level without a task."""
TILE: Final = 32.0
"""Size of a cell in drawings of problems; other lengths follow from it."""
TASK_SCALE: Final = TILE / 24
"""Size of a task beside a level: its signs come out a little smaller than the objects of the level."""
PAGE_SHAPE: Final = 1.8
"""Width over height of the page that a picture should fill best."""


def parts(subject: Subject) -> tuple[Level, Task | None, About]:
    """The level, the task if there is one, and what is known about them."""
    if isinstance(subject, Problem):
        return subject.level, unpack(subject.task), getattr(subject, "about", About())
    return subject, None, About()


def describe(subject: Subject) -> dict[str, Any]:
    """Plain values, as JSON has them."""
    level, task, about = parts(subject)
    told = {"name": about.name, **surface_for(level).describe(level), "tags": list(about.tags), "notes": about.notes}
    if task is not None:
        vocabulary = vocabulary_of(name_for(level))
        told |= {"task": format_task(task, vocabulary), "english": explain(task, vocabulary)}
    return told


# Terminals


def portrait(subject: Subject, colour: bool = True) -> RenderableType:
    """One problem for the terminal; without colours the level is drawn in letters."""
    level, task, about = parts(subject)
    rows: list[RenderableType] = []
    if about.name or about.tags:
        tags = f"  [dim]{escape(' '.join(about.tags))}[/]" if about.tags else ""
        rows.append(f"[bold]{escape(about.name)}[/]{tags}")
    rows += [escape(about.notes)] if about.notes else []
    rows += [""] if rows else []
    rows += level_rows(level, colour)
    if task is not None:
        rows += ["", *task_rows(task, vocabulary_of(name_for(level)))]
    return Group(*rows)


def level_rows(level: Level, colour: bool = True) -> list[RenderableType]:
    """A level for the terminal, and what the agent holds; without colours in letters."""
    surface = surface_for(level)
    if not colour:
        first, *more = surface.format_level(level).items()
        return [TerminalText("\n".join([first[1], *(f"{key}: {value}" for key, value in more)]))]
    held = surface.holding(level)
    if held is None:
        return [surface.terminal(level)]
    row = Table.grid(padding=(0, 1))
    row.add_row("carrying", held)
    return [surface.terminal(level), row]


SHORT: Final = 160
"""Letters of a sentence that a small terminal has room for: two lines."""


def task_rows(
    task: Any, vocabulary: Vocabulary, current: Node | None = None, most: int | None = None
) -> list[RenderableType]:
    """A task for the terminal: in a sentence, if one says it, and as a machine with the current state marked. With
    `most` lines of that, a long sentence is left out, too."""
    task = unpack(task)
    words = explain(task, vocabulary)
    machine = task_text(task, vocabulary, current, most)
    told = is_prose(words) and (most is None or len(words) <= SHORT)
    return [escape(words), "", machine] if told else [machine]


def overview(subjects: Sequence[Subject]) -> Table:
    """A set, one line a problem."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("name", no_wrap=True)
    for column in surface_for(subjects[0]).overview(parts(subjects[0])[0]):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("states", justify="right")
    table.add_column("task")
    for number, subject in enumerate(subjects):
        level, task, about = parts(subject)
        words, states = "", ""
        if task is not None:
            words = explain(task, vocabulary_of(name_for(level)))
            states = str(sum(len(machine.states) for machine in task.machines))
        columns = surface_for(level).overview(level).values()
        table.add_row(str(number), escape(about.name), *columns, states, escape(words))
    return table


# Pictures


def drawing(
    level: Level,
    task: Any = None,
    caption: str = "",
    current: Node | None = None,
    strip: bool | None = None,
    panel: Drawing | None = None,
) -> Drawing:
    """The level, beside or below it its task, whichever makes the better page, and a caption above both.

    `strip` as in `Surface.drawing`; `panel` stands right beside the level.
    """
    surface, gap = surface_for(level), TILE / 2
    placed = [(canvas.scaled(surface.drawing(level, strip), TILE), (gap, gap))]
    if panel is not None:
        placed.append((panel, (placed[0][0].size[0] + 2 * gap, gap)))
    width, height = canvas.arranged(placed).size
    if task is not None:
        drawn = canvas.scaled(
            task_drawing(unpack(task), vocabulary_of(name_for(level)), surface.sign, current), TASK_SCALE
        )
        shared = Drawing((canvas.Symbol("task", drawn.shapes, size=drawn.size),), drawn.size)
        beside = max((width + drawn.size[0]) / PAGE_SHAPE, height, drawn.size[1])
        below = max(max(width, drawn.size[0]) / PAGE_SHAPE, height + drawn.size[1])
        placed.append((shared, (width + gap, gap) if beside <= below else (gap, height + gap)))
    width = max(11 * TILE, canvas.arranged(placed).size[0] + gap)
    lines = canvas.wrap(caption, width - 2 * gap, gap)
    words = tuple(canvas.Text((gap, gap + TILE * (0.25 + 0.75 * n)), line, gap) for n, line in enumerate(lines))
    page = canvas.arranged([(one, (x, y + 0.75 * TILE * len(lines))) for one, (x, y) in placed], margin=gap)
    return Drawing((*words, *page.shapes), (width, page.size[1]))


def picture(subject: Subject) -> "Image":
    """One problem as an image: name and task in words above, the level and the task drawn below."""
    return canvas.pixels(_captioned(subject, with_task=True))


def small_picture(subject: Subject) -> "Image":
    """One problem as a small image: the level alone is drawn, the task only told."""
    return canvas.pixels(_captioned(subject, with_task=False), 0.75)


def svg(subject: Subject) -> str:
    """One problem as SVG text, like `picture`."""
    return canvas.svg(_captioned(subject, with_task=True))


def notebook_svg(subject: Any) -> str | None:
    """A problem, a level or a task as SVG; None for a batch of them, or one that is being traced: they have no picture.

    A task alone does not say which domain it is of: it is drawn with the signs of the default one.
    """
    if isinstance(subject, Task | PackedTask):
        if isinstance(subject, PackedTask) and not _is_one(subject):
            return None
        name = default_name()
        return canvas.svg(task_drawing(unpack(subject), vocabulary_of(name), surface_of(name).sign))
    whole = isinstance(subject, Problem)
    some = [subject.level, subject.task] if whole else [subject]
    return svg(subject) if all(isinstance(one, Task) or _is_one(one) for one in some) else None


def _is_one(tree: Any) -> bool:
    """Whether the arrays of a struct have the axes that are declared, and are not traced."""
    hints = typing.get_type_hints(type(tree))
    fields = {name: value for name, value in vars(tree).items() if value is not None}
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(fields)):
        return False
    kinds = {
        name: [kind for kind in (hints[name], *typing.get_args(hints[name])) if hasattr(kind, "dims")]
        for name in fields
    }
    return all(
        np.ndim(value) in {len(kind.dims) for kind in kinds[name]} for name, value in fields.items() if kinds[name]
    )


def _captioned(subject: Subject, with_task: bool) -> Drawing:
    level, task, about = parts(subject)
    words = explain(task, vocabulary_of(name_for(level))) if task is not None else ""
    caption = ": ".join(part for part in (about.name, words if is_prose(words) else "") if part)
    return drawing(level, task if with_task else None, caption)


def sprite(domains: Iterable[str]) -> str:
    """The shapes that all drawings of the page share, without showing anything itself."""
    symbols = [symbol for name in sorted(set(domains)) for symbol in surface_of(name).symbols()]
    return f'<svg class="sprite" aria-hidden="true">{canvas.definitions(symbols)}</svg>'
