"""A contact sheet of example problems: each with its level, its task as a machine, and how the student fares on it."""

from functools import lru_cache
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
from PIL import Image, ImageDraw, ImageFont

from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.domains.minigrid.render import draw_level
from atlas.domains.minigrid.text import crop_level
from atlas.runs.display import clock, short
from atlas.tasks.draw import draw_task
from atlas.tasks.explain import explain, is_prose
from atlas.types import Problem

CARDS: Final = 12
COLUMNS: Final = 3
LATEST: Final = "latest.png"
WIDTH, GAP, PADDING = 620, 16, 16
LEVEL_BOX: Final = (232, 168)
"""The most room for a level."""
MACHINE_HEIGHT: Final = 150
"""The most room for a machine."""
TILES: Final = (24, 8)
"""Largest and smallest tile of a level."""
PAGE, CARD, EDGE = "#f1f3f5", "#ffffff", "#dee2e6"
INK, SOFT, GOOD, FAIR, BAD = "#212529", "#868e96", "#2f9e44", "#f08c00", "#e03131"
LINES: Final = 6
"""Lines of small text beside a level."""


def contact_sheet(problems: Problem, facts: list[dict[str, Any]], when: dict[str, Any]) -> Image.Image:
    """Some problems (batched) on one page; `facts` are those of a snapshot's examples, `when` tells the moment."""
    cards = [_card(jax.tree.map(lambda x, i=i: jnp.asarray(x[i]), problems), fact) for i, fact in enumerate(facts)]
    rows = [cards[i : i + COLUMNS] for i in range(0, len(cards), COLUMNS)]
    heights = [max(card.height for card in row) for row in rows]
    top = 56
    columns = min(COLUMNS, len(cards))
    page = Image.new("RGB", (columns * (WIDTH + GAP) + GAP, top + sum(heights) + GAP * len(rows)), PAGE)
    _title(page, when)
    for row, height in zip(rows, heights, strict=True):
        for column, card in enumerate(row):
            _place(page, card, (GAP + column * (WIDTH + GAP), top), height)
        top += height + GAP
    return page


def _title(page: Image.Image, when: dict[str, Any]) -> None:
    words = f"What is replayed after {short(when['steps'])} steps"
    more = f"iteration {when['iteration']:,}, {clock(when['seconds'])} of training"
    pen = ImageDraw.Draw(page)
    pen.text((GAP, 28), words, INK, _font(24), anchor="lm")
    pen.text((GAP + _font(24).getlength(words) + 20, 30), more, SOFT, _font(15), anchor="lm")


def _place(page: Image.Image, card: Image.Image, corner: tuple[int, int], height: int) -> None:
    x, y = corner
    ImageDraw.Draw(page).rounded_rectangle((x, y, x + WIDTH, y + height), 8, CARD, EDGE, 1)
    page.paste(card.crop((0, 0, card.width, min(card.height, height - 4))), (x + 2, y + 2))


def _card(problem: Problem, fact: dict[str, Any]) -> Image.Image:
    """The level on the left, words on the right, the machine below."""
    level, machine = _level(problem), _machine(problem)
    left = PADDING + level.width + PADDING
    words = _words(problem, fact, WIDTH - left - PADDING)
    above = PADDING + max(level.height, sum(line.height for line in words)) + PADDING // 2
    card = Image.new("RGB", (WIDTH - 4, above + machine.height + PADDING // 2), CARD)
    card.paste(level, (PADDING, PADDING))
    pen, y = ImageDraw.Draw(card), PADDING
    for line in words:
        pen.text((left, y), line.words, line.colour, _font(line.size))
        y += line.height
    card.paste(machine, (PADDING // 2, above))
    return card


def _level(problem: Problem) -> Image.Image:
    level = crop_level(problem.level)
    rows, cols = level.cells.shape
    fits = min(LEVEL_BOX[0] // cols, LEVEL_BOX[1] // rows)
    return draw_level(level, max(TILES[1], min(TILES[0], fits)))


def _machine(problem: Problem) -> Image.Image:
    """As large as drawn, unless it has to shrink."""
    drawn = draw_task(problem.task, VOCABULARY, scale=1.0).convert("RGB")
    shrink = min(1.0, (WIDTH - 2 * PADDING) / drawn.width, MACHINE_HEIGHT / drawn.height)
    size = (max(1, int(drawn.width * shrink)), max(1, int(drawn.height * shrink)))
    return drawn if shrink == 1.0 else drawn.resize(size, Image.Resampling.LANCZOS)


class _Line(NamedTuple):
    words: str
    colour: str
    size: int

    @property
    def height(self) -> int:
        return round(1.45 * self.size)


def _words(problem: Problem, fact: dict[str, Any], width: int) -> list[_Line]:
    """How the student fares, the task in a sentence, and the edits that made the problem."""
    told = explain(problem.task, VOCABULARY)
    lines = [_Line(line, INK, 13) for line in _wrap(told, width, 3)] if is_prose(told) else []
    history = _wrap(", ".join(fact["edits"]), width, LINES - len(lines))
    return [*_figures(fact), *lines, *(_Line(line, SOFT, 13) for line in history)]


def _figures(fact: dict[str, Any]) -> list[_Line]:
    """How often it is solved and drawn, and where it came from."""
    rate = fact["solves"] / max(fact["attempts"], 1)
    colour = GOOD if rate >= 0.5 else FAIR if fact["solves"] else BAD
    solved = f"solved {short(fact['solves'])} of {short(fact['attempts'])}" if fact["attempts"] else "not played yet"
    count = len(fact["edits"])
    made = "sampled" if fact["parent"] < 0 else f"{count} edit{'s' * (count != 1)}, generation {fact['generation']}"
    return [
        _Line(solved, colour if fact["attempts"] else SOFT, 17),
        _Line(f"probability {fact['probability']:.2g}, {made}", INK, 14),
    ]


def _wrap(text: str, width: int, most: int) -> list[str]:
    """At most so many lines; what is left over is cut with an ellipsis."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and _font(13).getlength(longer) <= width:
            lines[-1] = longer
        elif len(lines) == most:
            return [*lines[:-1], lines[-1] + " …"] if lines else []
        else:
            lines.append(word)
    return lines


@lru_cache
def _font(size: int) -> Any:
    return ImageFont.load_default(size)
