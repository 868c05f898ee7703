"""Episodes to watch on the page: the best and worst problems of an evaluation, played by the run's own policy."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

from atlas.domains import name_for, surface_for, surface_of, vocabulary_of
from atlas.errors import AtlasError
from atlas.evaluation.sets import find_set, open_set
from atlas.reports.reading import Plain, Run
from atlas.reports.results import Evaluated, Result
from atlas.runs.folder import find
from atlas.runs.policy import load_policy
from atlas.runs.problem_files import load
from atlas.settings import STEP_LIMIT
from atlas.show import canvas
from atlas.show.episode import PolicyActor, Scene, ending, film, scenes
from atlas.tasks.draw import task_drawing
from atlas.tasks.explain import explain, is_prose
from atlas.tasks.machine import Node
from atlas.tasks.packed import unpack
from atlas.types import Level, NamedProblem, Problem
from atlas.words import plural

TRIES: Final = 5
"""Attempts to find an episode that is typical of the problem's rate."""
MOST_GROUPS: Final = 3
LEGEND: Final = 22
"""Pixels of a picture in the legend."""


@dataclass(frozen=True, eq=False)
class Shown:
    """A problem with an episode on it."""

    problem: NamedProblem
    watched: list[Scene]
    words: str


def episodes(sets: Sequence[Evaluated], runs: Sequence[Run], each: int) -> tuple[str, list[str]]:
    """The best and worst problems as HTML, and sentences about what could not be shown.

    Without an evaluation a few held-out problems take their place.
    """
    if each < 1:
        return "", []
    notes: list[str] = []
    if sets:
        one = next((known for known in sets if known.name == "hand"), sets[0])
        results = one.results[:MOST_GROUPS]
        parts = [
            _of_result(one, result, max(1, each // len(results)), len(one.results) > 1, notes) for result in results
        ]
    else:
        parts = [_held_out(run, 2 * each, notes) for run in runs[:1]]
    return "".join(parts), notes


def _of_result(one: Evaluated, result: Result, each: int, named: bool, notes: list[str]) -> str:
    run = result.entries[0][0]
    try:
        problems = problems_of(one)
        player = _player(run)
        best, worst = choose(result.entries[0][1]["problems"], each)
        limit = int(one.about.get("step_limit", STEP_LIMIT))
        shown = [[_play(player, problems, row, limit) for row in rows] for rows in (best, worst)]
    except (AtlasError, OSError) as error:
        notes.append(f"No episodes of {run.name}: {error}")
        return ""
    whose = f"{result.group.name}: " if named else ""
    titles = (f"{whose}best problems of {one.name}", f"{whose}worst problems of {one.name}")
    return "".join(
        f'<h3>{escape(_capital(title))}</h3><div class="players">{"".join(map(_html, rows))}</div>'
        for title, rows in zip(titles, shown, strict=True)
        if rows
    )


def problems_of(one: Evaluated) -> dict[str, NamedProblem]:
    path = Path(str(one.about.get("path", "")))
    place = path if one.about.get("path") and path.exists() else find_set(one.name)
    problems = open_set(str(place), skip_bad=True).problems if one.about.get("skipped") else load(place)
    return {problem.name: problem for problem in problems}


def _player(run: Run) -> PolicyActor:
    policy = load_policy(run.path)
    return PolicyActor(policy.student, policy.params)


def choose(rows: Sequence[Plain], each: int) -> tuple[list[Plain], list[Plain]]:
    """The problems that went best, the longest plans first, and those that went worst, the shortest plans first."""
    each = min(each, len(rows) // 2) or min(1, len(rows))
    worst = sorted(rows, key=lambda row: (row["rate"], row.get("plan_length") or math.inf))[:each]
    best = sorted(rows, key=lambda row: (-row["rate"], -(row.get("plan_length") or 0)))[:each]
    return [row for row in best if row not in worst], worst


def _play(player: PolicyActor, problems: dict[str, NamedProblem], row: Plain, limit: int) -> Shown:
    """An episode that ends as most attempts did, if one comes within a few tries."""
    if row["name"] not in problems:
        raise AtlasError(f"the set no longer holds a problem called '{row['name']}'; evaluate again")
    problem = problems[row["name"]]
    for _ in range(TRIES):
        watched = list(scenes(player, problem, limit))
        if (ending(watched) == "solved") == (row["rate"] >= 0.5):
            break
    words = f"solved {row['solved']} of {plural(row['attempts'], 'attempt')}"
    plan = f", a plan needs {plural(row['plan_length'], 'step')}" if row.get("plan_length") else ""
    return Shown(problem, watched, words + plan)


def _held_out(run: Run, count: int, notes: list[str]) -> str:
    path = find(run.path).held_out_file
    if not path.exists():
        return ""
    try:
        player = _player(run)
        limit = run.config.domain.step_limit
        shown = [Shown(problem, list(scenes(player, problem, limit)), "held out") for problem in _some(path, count)]
    except (AtlasError, OSError) as error:
        notes.append(f"No episodes of {run.name}: {error}")
        return ""
    return f'<h3>Held-out problems</h3><div class="players">{"".join(map(_html, shown))}</div>'


def _some(path: Path, count: int) -> list[NamedProblem]:
    """A few problems, evenly over a set."""
    problems = load(path)
    return problems[:: max(1, len(problems) // count)][:count]


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _html(shown: Shown) -> str:
    """A player: the level, the machine, what the policy thinks, and buttons. Without scripts the start is seen."""
    start = shown.watched[0].level
    places = list(dict.fromkeys(scene.place for scene in shown.watched))
    drawings = [task_svg(shown.problem, place) for place in places]
    machines = "".join(f"<div{' hidden' * (number > 0)}>{drawing}</div>" for number, drawing in enumerate(drawings))
    end = f"{ending(shown.watched)} after {plural(shown.watched[-1].step, 'step')}"
    return (
        f'<article class="player"><h4>{escape(shown.problem.name)}</h4>'
        f'<p class="dim">{escape(shown.words)}; this episode: {escape(end)}</p>{task_words(shown.problem)}'
        f'<div class="stage"><div class="level">{level_svg(start, 300)}</div><div class="thoughts"></div></div>'
        f'<div class="machine">{machines}</div><div class="controls"></div>'
        f'<script type="application/json">{_script(film(shown.watched, places))}</script></article>\n'
    )


def _script(content: Any) -> str:
    """JSON that cannot end the element it stands in."""
    return json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")


def level_svg(level: Level, width: int = 228) -> str:
    """A level that takes its shapes from the sprite. Tiles are whole pixels, so that no seams show between them."""
    surface = surface_for(level)
    drawing = surface.drawing(surface.crop(level))
    return canvas.svg(drawing, max(8, min(22, int(width // drawing.size[0]))), part_of_page=True)


def task_svg(problem: Problem, current: Node | None = None) -> str:
    """The machine of a problem; the current state is lit."""
    sign, vocabulary = surface_for(problem).sign, vocabulary_of(name_for(problem))
    drawing = task_drawing(unpack(problem.task), vocabulary, sign, current)
    return canvas.svg(canvas.themed(drawing), part_of_page=True)


def legend(domains: Iterable[str]) -> str:
    """A legend of the small pictures, folded up at first."""
    items = [item for name in sorted(set(domains)) for item in surface_of(name).legend()]
    cells = "".join(
        f"<span>{canvas.svg(canvas.themed(picture), LEGEND, part_of_page=True)}{escape(words)}</span>"
        for picture, words in items
    )
    return f'<details class="legend"><summary>What the pictures mean</summary><div>{cells}</div></details>'


def task_words(problem: Problem) -> str:
    """The task in English, as HTML, if a sentence or two say it."""
    words = explain(unpack(problem.task), vocabulary_of(name_for(problem)))
    return f'<p class="task">{escape(words)}</p>' if is_prose(words) else ""
