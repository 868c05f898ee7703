"""`atlas zoo`: the trained policies that come with ATLAS."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import tyro

from atlas.documents import require_folder
from atlas.errors import AtlasError
from atlas.runs import folder as places
from atlas.runs.folder import zoo_names
from atlas.words import clock, short

if TYPE_CHECKING:
    from atlas.runs.zoo import Card

FIRST: Final = ("validation", "hand", "letters-sequences")
"""Sets that come first in tables."""
CARD_FIELDS_FROM_USER: Final = ("title", "track", "machine", "shown")
"""Fields of a card that the user gives: a run does not know them."""


@dataclass(frozen=True)
class ZooArgs:
    """List the trained policies that come with ATLAS, a line each, or print the card of one: how it was made, how good
    it is, and on what.

    They can be named wherever a run is read: `atlas watch zoo:NAME`, `atlas eval zoo:NAME`, `atlas report zoo:NAME`,
    `atlas compare zoo:NAME RUN`, `atlas train PRESET --init zoo:NAME`. `atlas zoo add --help` tells how a run becomes
    one of them.
    """

    name: tyro.conf.Positional[str | None] = None
    """The policy whose card is printed."""
    json: bool = False
    """Print JSON."""


@dataclass(frozen=True)
class AddArgs:
    """Put the policy of a finished run into the zoo, for those who work on ATLAS: into the package itself.

    Its weights are rounded to half precision. Evaluations are taken from the run; one on `validation` has to be there.
    They are of the weights before rounding, and the card says so. To have them of the weights as they ship, evaluate
    the new folder by its path, and add it once more: `atlas eval src/atlas/zoo/NAME --problems validation`, then
    `atlas zoo add src/atlas/zoo/NAME --name NAME --overwrite`.
    """

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of the run."""
    name: str
    """What it is called: zoo:NAME."""
    title: str | None = None
    """A line about it. Needed, as the track and the machine are, unless RUN has a card that says so."""
    track: Literal["blind", "informed", "coached"] | None = None
    """blind: no solver anywhere, and problems drawn without looking; informed: tasks made for their levels, or
    screened; coached: the solver also helps to learn."""
    machine: str | None = None
    """What it was trained on, in words: "two cores of …"."""
    shown: int | None = None
    """Env steps that an expert showed it; if not given, those of the plans in the run's folder."""
    which: Literal["last", "best"] = "last"
    """Which checkpoint of the run."""
    overwrite: bool = False
    """Replace one of this name."""
    json: bool = False
    """Print JSON."""


def zoo_command(argv: list[str]) -> int:
    """List, print a card, or add."""
    if argv[:1] == ["add"]:
        return _add(tyro.cli(AddArgs, args=argv[1:], prog="atlas zoo add"))
    args = tyro.cli(ZooArgs, args=argv, prog="atlas zoo")
    from atlas.runs.zoo import read_card

    if args.name is not None:
        name = args.name.removeprefix("zoo:")
        card = read_card(name)
        if args.json:
            print(json.dumps(_plain(name, card)))
        else:
            _print_card(name, card)
        return 0
    cards = {name: read_card(name) for name in zoo_names()}
    if args.json:
        print(json.dumps([_plain(name, card) for name, card in cards.items()]))
    elif not cards:
        print("the zoo is empty: `atlas zoo add --help` tells how a policy comes into it")
    else:
        _print_list(cards)
    return 0


def _plain(name: str, card: "Card") -> dict[str, object]:
    from atlas.runs.zoo import size_of

    return {"name": name, **asdict(card), "bytes": size_of(name)}


def _print_list(cards: "dict[str, Card]") -> None:
    """A line each."""
    from rich.markup import escape
    from rich.table import Table

    from atlas.runs.screen import Screen
    from atlas.runs.zoo import size_of

    sets = [name for name in FIRST if any(name in card.sets for card in cards.values())]
    headings = ("policy", "trained on", *sets, "track", "training", "parameters", "size")
    rows = []
    for name, card in cards.items():
        rates = [f"{card.sets[one]['mean']['value']:.0%}" if one in card.sets else "–" for one in sets]
        made = (card.track, clock(60 * card.minutes), short(card.parameters), f"{size_of(name) / 1e6:.1f} MB")
        rows.append((f"zoo:{name}", card.levels, *rates, *made))
    table = Table(box=None, pad_edge=False)
    for heading, *cells in zip(headings, *rows, strict=True):  # as wide as its cells: it loses columns, not letters
        left = heading in ("policy", "trained on", "track")
        table.add_column(heading, justify="left" if left else "right", min_width=max(map(len, (heading, *cells))))
    for policy, *others in rows:
        table.add_row(f"[bold]{policy}[/]", *map(escape, others))
    console = Screen()
    console.print(table)
    console.print("\n`atlas zoo NAME` prints the card of one; `atlas watch zoo:NAME` shows how it plays")


def _print_card(name: str, card: "Card") -> None:
    """How it was made, its rates on each set and by tag, its way."""
    from rich.markup import escape
    from rich.table import Table

    from atlas.evaluation.results import AGGREGATES
    from atlas.runs.screen import Screen

    console = Screen()
    console.print(f"[bold]zoo:{name}[/]  {escape(card.title)}\n", soft_wrap=True)
    settings = card.preset or "settings of its own"
    settings += f" with {', '.join(card.changes)}" if card.changes else ""
    steps = f"{short(card.played)} played, {short(card.trained)} trained on, {short(card.shown)} shown by an expert"
    rows = {
        "track": card.track,
        "trained on": card.levels,
        "settings": f"{settings}; seed {card.seed}",
        "training": f"{clock(60 * card.minutes)} on {card.machine}",
        "began with": card.init,
        "env steps": steps,
        "network": f"{card.parameters:,} parameters",
        "evaluated": "before its weights were rounded to half precision" if card.rounded else "as it ships",
    }
    for words, value in rows.items():
        if value:
            console.print(f"{words:<11} {escape(value)}", soft_wrap=True)
    order = sorted(card.sets, key=lambda one: (FIRST.index(one) if one in FIRST else len(FIRST), one))
    alphas = sorted({alpha for told in card.sets.values() for alpha in told["cvar"]})
    table = Table(box=None, pad_edge=False)
    for heading in ("set", "problems", *AGGREGATES.values(), *(f"worst {alpha} %" for alpha in alphas)):
        table.add_column(heading, justify="left" if heading == "set" else "right", no_wrap=True)
    for one in order:
        told = card.sets[one]
        rates = [f"{told[key]['value']:.3f}" for key in AGGREGATES]
        worst = [f"{told['cvar'][alpha]:.3f}" if alpha in told["cvar"] else "–" for alpha in alphas]
        table.add_row(escape(one), str(told["problems"]), *rates, *worst)
    console.print("", table, sep="\n")
    for one in order:
        if card.sets[one]["by_tag"]:
            tags = sorted(card.sets[one]["by_tag"].items(), key=lambda item: -item[1]["rate"])
            by_tag = ", ".join(f"{tag} {found['rate']:.0%}" for tag, found in tags)
            console.print(f"\n[bold]{escape(one)}[/] by tag: {escape(by_tag)}")
    if card.held_out:
        table = Table(box=None, pad_edge=False)
        for heading in ("minutes", "env steps", "held out", ""):
            table.add_column(heading, justify="right" if heading else "left")
        for point in card.held_out:
            bar = "█" * round(30 * point["solved"])
            table.add_row(f"{point['minutes']:.1f}", short(point["env_steps"]), f"{point['solved']:.0%}", bar)
        console.print("", table, sep="\n")


def _add(args: AddArgs) -> int:
    require_folder(places.ZOO)
    from atlas.reports.reading import nearest_preset
    from atlas.runs.folder import find
    from atlas.runs.zoo import CARD, add, card_in, size_of, steps_shown

    before = card_in(args.run)
    told: dict[str, Any] = {} if before is None else asdict(before)
    told |= {key: value for key in CARD_FIELDS_FROM_USER if (value := getattr(args, key)) is not None}
    if "shown" not in told:
        told["shown"] = steps_shown(args.run)
    for key in CARD_FIELDS_FROM_USER:
        if key not in told:
            raise AtlasError(f"--{key} is needed: {args.run} has no {CARD} that says it")
    preset = nearest_preset(find(args.run).config())
    said = {key: told[key] for key in CARD_FIELDS_FROM_USER}
    path = add(args.run, args.name, preset, args.which, args.overwrite, **said)
    if args.json:
        print(json.dumps({"name": args.name, "path": str(path), "bytes": size_of(args.name)}))
    else:
        print(f"zoo:{args.name}: {size_of(args.name) / 1e6:.2f} MB in {path}")
    return 0
