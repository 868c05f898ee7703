"""A gallery of generated problems through time: what the teacher replayed, and where it came from."""

from collections.abc import Sequence
from html import escape
from typing import Final

import jax
import numpy as np

from atlas.errors import AtlasError
from atlas.lineage import ancestry
from atlas.report.drawings import level_svg, task_svg, task_words
from atlas.report.reading import Group, Plain, Run
from atlas.runs.bulk import Bulk, load_bulk
from atlas.runs.display import short
from atlas.runs.snapshots import spread
from atlas.types import Problem

CARDS: Final = 4
"""Examples of one moment."""
MOMENTS, FEWEST_MOMENTS = 6, 2
MOST_CARDS: Final = 48
"""On the whole page: it must stay small enough to be sent around."""


def gallery(groups: Sequence[Group]) -> tuple[str, list[str]]:
    """The gallery as HTML, and sentences about what could not be read."""
    runs = [(group, run) for group in groups if (run := next((r for r in group.runs if r.snapshots), None))]
    runs = runs[: MOST_CARDS // (CARDS * FEWEST_MOMENTS)]
    notes: list[str] = []
    moments = min(MOMENTS, MOST_CARDS // (CARDS * max(1, len(runs))))
    parts = [_of_run(group, run, moments, len(groups) > 1, notes) for group, run in runs]
    return "".join(parts), notes


def _of_run(group: Group, run: Run, moments: int, named: bool, notes: list[str]) -> str:
    rows = []
    for number in spread(len(run.snapshots), moments):
        path = run.snapshots[number]
        try:
            rows.append(_moment(load_bulk(path)))
        except (AtlasError, OSError, KeyError, TypeError) as error:
            notes.append(f"{path} could not be shown ({error})")
    title = f"<h3>{escape(group.name)}</h3>" if named else ""
    return title + "".join(rows)


def _moment(bulk: Bulk) -> str:
    """The examples of one snapshot."""
    facts: list[Plain] = bulk.settings["examples"]
    chosen = spread(min(len(bulk), len(facts)), CARDS)
    cards = "".join(_card(_one(bulk.problems, int(n)), facts[n]) for n in chosen)
    return f'<h4>after {short(bulk.settings["steps"])} env steps</h4><div class="cards">{cards}</div>\n'


def _one(problems: Problem, number: int) -> Problem:
    chosen: Problem = jax.tree.map(lambda leaf: np.asarray(leaf)[number], problems)
    return chosen


def _card(problem: Problem, fact: Plain) -> str:
    return (
        f'<article class="card"><div class="paper level">{level_svg(problem.level)}</div>'
        f'<div class="paper machine">{task_svg(problem.task)}</div>'
        f"{task_words(problem.task)}<p class='dim'>{escape(_facts(fact))}</p>{_lineage(fact)}</article>\n"
    )


def _facts(fact: Plain) -> str:
    played = f"solved {fact['solves']:,} of {fact['attempts']:,}" if fact["attempts"] else "not played yet"
    return f"replayed with probability {fact['probability']:.2%}, {played}, score {fact['score']:.3g}"


def _lineage(fact: Plain) -> str:
    """Where it came from; the edits are told when asked for."""
    if not fact["edits"]:
        return f"<p class='dim'>{escape(ancestry(fact))}</p>"
    edits = "".join(f"<li>{escape(str(edit))}</li>" for edit in fact["edits"])
    count = len(fact["edits"])
    title = f"generation {fact['generation']}, {count} edit{'s' * (count != 1)} from problem {fact['parent']:,}"
    return f"<details><summary>{escape(title)}</summary><ol>{edits}</ol></details>"
