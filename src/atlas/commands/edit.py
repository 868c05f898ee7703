"""`atlas edit`: change a problem as teachers do, and see it before and after."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from atlas.commands.inputs import DOMAIN, subject
from atlas.documents import require_file
from atlas.errors import AtlasError

if TYPE_CHECKING:
    from PIL.Image import Image

    from atlas.api import Edited
    from atlas.types import NamedProblem


@dataclass(frozen=True)
class EditArgs:
    """Make edits of a problem, one after the other, and show it before and after.

    The same seed gives the same edits. Hindsight edits start from the solver's plan, cut where the task was last under
    way.
    """

    problem: tyro.conf.Positional[str | None] = None
    """A file, SET:NAME, or the name of a problem designed by hand. If not given, one is drawn with the seed."""
    domain: Annotated[str | None, DOMAIN] = None
    """Of a problem that is drawn: minigrid (if not given) or letterworld."""
    kind: tuple[str, ...] = ()
    """What to change: move_agent, move_object, add_object, remove_object, replace_object, replace_door, add_rooms,
    remove_rooms, switch_proposition, add_state, remove_state, hindsight_preceding, hindsight_succeeding; in LetterWorld
    of the map move_agent, move_letter, swap_letters, add_letter, remove_letter. Several are made in turn."""
    name: str | None = None
    """Which problem of a set, by name."""
    index: int | None = None
    """Which problem of a set, by number from 0."""
    seed: int = 0
    """Everything random follows from it."""
    rooms: tuple[int, ...] | None = None
    """Room counts that levels may have; those of the domain's settings if not given."""
    png: Path | None = None
    """Write a picture of the problem before and after each edit."""
    out: Path | None = None
    """Write the edited problem to this file."""
    json: bool = False
    """Print JSON: the problem before, the edits, the problem after."""


def edit_command(argv: list[str]) -> int:
    """Edit, write, print."""
    args = tyro.cli(EditArgs, args=argv, prog="atlas edit")
    if not args.kind:
        raise AtlasError("say what to change: --kind add_rooms, for instance; `atlas edit --help` lists the kinds")
    require_file(args.png, ".png")
    require_file(args.out, ".yaml", ".yml")
    from atlas.api import edit
    from atlas.runs.problem_files import save
    from atlas.runs.screen import Screen, wrote
    from atlas.runs.store import remember_compiled
    from atlas.show.media import save_picture
    from atlas.show.problem import describe, portrait

    remember_compiled()
    before = _find(args)
    edits: list[Edited] = []
    for number, kind in enumerate(args.kind):
        edits.append(edit(edits[-1].problem if edits else before, kind, args.seed + number, args.rooms))
    after = edits[-1].problem
    if args.png is not None:
        save_picture(before_and_after(before, edits), args.png)
    if args.out is not None:
        save(after, args.out)
    if args.json:
        told = {"before": describe(before), "edits": [one.edit for one in edits], "after": describe(after)}
        print(json.dumps(told, ensure_ascii=False))
        return 0
    console = Screen()
    colour = console.color_system is not None
    console.print(portrait(before, colour))
    for one in edits:
        console.print("", f"[bold]{one.edit}[/]", "", portrait(one.problem, colour), sep="\n")
    wrote(args.png)
    wrote(args.out)
    return 0


def _find(args: EditArgs) -> "NamedProblem":
    from atlas.runs.problem_files import choose_problem

    if args.problem is None or args.domain is not None:
        return subject(args.problem, args.name, args.index, args.domain, args.seed)
    return choose_problem(args.problem, args.name, args.index)


def before_and_after(before: "NamedProblem", edits: "list[Edited]") -> "Image":
    """The problem as it was and after each edit, from left to right."""
    from atlas.show import canvas
    from atlas.show.media import sheet
    from atlas.show.problem import drawing

    pages = [drawing(before.level, before.task, before.name)]
    pages += [drawing(one.problem.level, one.problem.task, one.edit) for one in edits]
    return sheet([canvas.pixels(page) for page in pages], columns=min(4, len(pages)))
