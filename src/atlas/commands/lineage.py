"""`atlas lineage`: where a problem of a run came from, what each edit changed, and what came of it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import tyro

from atlas.documents import require_file

if TYPE_CHECKING:
    from rich.console import RenderableType

    from atlas.runs.lineage import Fact, Tree
    from atlas.show.canvas import Drawing

NOTABLE: Final = 12
"""Problems that are listed where none is named."""
DESCENDANTS: Final = 40
"""Descendants that are shown; JSON has all of them."""


@dataclass(frozen=True)
class LineageArgs:
    """Show the ancestors of a problem with pictures, what each edit changed, the score at birth and now, and the
    descendants that are in the buffer or have descendants there."""

    run: tyro.conf.Positional[Path]
    """A run folder."""
    problem: tyro.conf.Positional[str | None] = None
    """A problem by its number, as in a report or a snapshot (`problem-1234`). If not given, some are listed."""
    svg: Path | None = None
    """Write the family as a picture."""
    json: bool = False
    """Print JSON."""


def lineage_command(argv: list[str]) -> int:
    """Read, draw, print."""
    args = tyro.cli(LineageArgs, args=argv, prog="atlas lineage")
    require_file(args.svg, ".svg")
    from atlas.runs.lineage import number_of, read_tree
    from atlas.runs.screen import Screen, wrote
    from atlas.runs.store import write_whole
    from atlas.show import canvas

    tree = read_tree(args.run)
    console = Screen()
    if args.problem is None:
        told = [tree.facts[number] for number in tree.notable(NOTABLE)]
        if args.json:
            print(json.dumps(told, ensure_ascii=False))
        else:
            console.print(_list(told, len(tree.facts)))
        return 0
    number = number_of(tree, args.problem)
    if args.svg is not None:
        write_whole(args.svg, canvas.svg(family_drawing(tree, number)))
    if args.json:
        print(json.dumps(plain(tree, number), ensure_ascii=False))
        return 0
    for part in _family(tree, number, console.is_terminal):
        console.print(part)
    if args.svg is not None:
        print()
        wrote(args.svg)
    return 0


def plain(tree: "Tree", number: int) -> dict[str, Any]:
    """The family in plain values."""
    from atlas.show.problem import describe

    def one(which: int) -> dict[str, Any]:
        return tree.facts[which] | {"problem": describe(_cropped(tree, which))}

    return {
        "ancestors": [one(which) for which in tree.ancestors(number)[:-1]],
        "problem": one(number),
        "descendants": [tree.facts[which] for which, _ in tree.descendants(number)],
    }


def family_drawing(tree: "Tree", number: int) -> "Drawing":
    """Ancestors and the problem below each other, with the edits between them, then its descendants in words."""
    from atlas.runs.lineage import origin, worth
    from atlas.show import canvas
    from atlas.show.problem import TILE, drawing

    placed: list[tuple[Drawing, tuple[float, float]]] = []
    below = 0.0
    for which in tree.ancestors(number):
        fact, problem = tree.facts[which], _cropped(tree, which)
        edits = f" Edits: {', '.join(fact['edits'])}." if fact["edits"] else ""
        caption = f"Problem {which:,}: {origin(tree, fact)}.{edits} {worth(fact).capitalize()}."
        one = drawing(problem.level, problem.task, caption)
        placed.append((one, (0.0, below)))
        below += one.size[1]
    width, size = max(one.size[0] for one, _ in placed), TILE / 2
    for line in (line for words in _descendants(tree, number) for line in canvas.wrap(words, width - TILE, size)):
        text = canvas.Drawing((canvas.Text((size, size), line, size),), (width, 0.75 * TILE))
        placed.append((text, (0.0, below)))
        below += text.size[1]
    return canvas.arranged(placed, margin=size)


def _cropped(tree: "Tree", number: int) -> Any:
    from atlas.domains import surface_for

    problem = tree.problem(number)
    return problem.replace(level=surface_for(problem).crop(problem.level))


def _descendants(tree: "Tree", number: int) -> list[str]:
    """One line each, deeper ones further in."""
    from atlas.runs.lineage import worth

    found = list(tree.descendants(number))
    if not found:
        return ["No descendant of it is in the buffer."]
    stayed = sum(tree.facts[which]["alive"] for which, _ in found)
    lines = [f"Descendants: {len(found)}, of which {stayed} are in the buffer."]
    for which, depth in found[:DESCENDANTS]:
        fact = tree.facts[which]
        lines.append(f"{'  ' * depth}problem {which:,}: {', '.join(fact['edits']) or 'no edit'}; {worth(fact)}")
    return [*lines, *([f"… and {len(found) - DESCENDANTS} more"] if len(found) > DESCENDANTS else [])]


def _family(tree: "Tree", number: int, colour: bool) -> "Iterator[RenderableType]":
    from rich.markup import escape

    from atlas.domains import name_for, vocabulary_of
    from atlas.runs.lineage import origin, worth
    from atlas.show.problem import level_rows
    from atlas.tasks.explain import explain
    from atlas.tasks.packed import unpack

    for which in tree.ancestors(number):
        fact, problem = tree.facts[which], _cropped(tree, which)
        yield f"[bold]problem {which:,}[/]  {origin(tree, fact)}"
        for edit in fact["edits"]:
            yield f"  [cyan]{escape(edit)}[/]"
        yield ""
        yield from level_rows(problem.level, colour)
        yield escape(explain(unpack(problem.task), vocabulary_of(name_for(problem))))
        yield f"[dim]{worth(fact)}[/]"
        yield ""
    yield from map(escape, _descendants(tree, number))


def _list(facts: "list[Fact]", known: int) -> "RenderableType":
    from rich import box
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, title=f"{known:,} problems are known; name one to see its family"
    )
    for column in ("problem", "generation", "edits", "score at birth", "now", "solved"):
        table.add_column(column, justify="right", no_wrap=True)
    for fact in facts:
        solved = f"{fact['solves']:,} of {fact['attempts']:,}"
        numbers = (str(fact["number"]), str(fact["generation"]), str(len(fact["edits"])))
        table.add_row(*numbers, f"{fact['birth']:.3g}", f"{fact['score']:.3g}", solved)
    return table
