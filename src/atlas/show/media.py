"""A contact sheet of example problems: each with its level, its task as a machine, and how the student fares on it."""

import functools
import importlib
import io
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal, NamedTuple

import jax
import jax.numpy as jnp
from PIL import Image, ImageDraw, ImageFont

from atlas.domains.minigrid import grid, render
from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.domains.minigrid.grid import Level
from atlas.domains.minigrid.render import draw_level, same_size
from atlas.domains.minigrid.shapes import PAGE
from atlas.domains.minigrid.text import crop_level
from atlas.errors import AtlasError
from atlas.runs.store import write_whole
from atlas.show.episode import STEP_LIMIT, Action, Choice, Episode, Record, Scene, action_number
from atlas.show.problem import TASK_SCALE
from atlas.tasks.draw import draw_task
from atlas.tasks.explain import explain, is_prose
from atlas.tasks.hrm import Hierarchy
from atlas.types import Problem
from atlas.words import clock, short

# Writing pictures and films. Every file appears whole or not at all.

FILM_SUFFIXES = (".gif", ".mp4")
HOLD = 4
"""The last frame of a film stays this many times as long as the others."""


def save_picture(image: Image.Image, path: Path | str) -> None:
    """Write an image as PNG."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    write_whole(path, buffer.getvalue())


def save_film(frames: Sequence[Image.Image], path: Path | str, fps: float = 4.0) -> None:
    """Write frames as an animation: GIF or MP4, by the suffix of the path."""
    suffix = Path(path).suffix.lower()
    if suffix not in FILM_SUFFIXES:
        raise AtlasError(f"{path}: films end in {' or '.join(FILM_SUFFIXES)}")
    pages = same_size(frames)
    write_whole(path, _gif(pages, fps) if suffix == ".gif" else _mp4(pages, fps))


def _gif(pages: Sequence[Image.Image], fps: float) -> bytes:
    palette = _palette(pages)
    frames = [page.quantize(palette=palette, dither=Image.Dither.NONE) for page in pages]
    beat = round(1000 / fps)
    beats = [beat] * (len(frames) - 1) + [HOLD * beat]
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:], duration=beats, loop=0)
    return buffer.getvalue()


def _palette(pages: Sequence[Image.Image]) -> Image.Image:
    """One palette for all frames, so that nothing flickers: from up to 32 of them, side by side."""
    some = pages[:: len(pages) // 32 + 1]
    width, height = pages[0].size
    sheet = Image.new("RGB", (width, height * len(some)))
    for number, page in enumerate(some):
        sheet.paste(page, (0, height * number))
    return sheet.quantize(255)


def _mp4(pages: Sequence[Image.Image], fps: float) -> bytes:
    """H.264, which every browser plays."""
    ffmpeg = _ffmpeg()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "film.mp4"
        size = (pages[0].width, pages[0].height)
        writer = ffmpeg.write_frames(str(path), size, fps=fps, macro_block_size=2, ffmpeg_log_level="error")
        writer.send(None)
        for page in [*pages, *[pages[-1]] * (HOLD - 1)]:
            writer.send(page.tobytes())
        writer.close()
        return path.read_bytes()


def _ffmpeg() -> ModuleType:
    try:
        return importlib.import_module("imageio_ffmpeg")
    except ImportError:
        raise AtlasError("MP4 films need ffmpeg: pip install 'atlas-ued[video]', or name the file .gif") from None


# Films of episodes: the world moves, the task beside it shows how far it got; of a policy also what it thinks.

SOFT: Final = (134, 142, 150)
BAR, CHOSEN, GROOVE = (165, 185, 215), (34, 110, 230), (236, 239, 243)
"""Inks of the bars of probability: of the action that is taken, of the others, of what lies behind."""
PANEL_TILES: Final = 9
"""How many tiles the panel of probabilities is wide."""


def episode_frames(
    subject: Problem | Level, actions: Iterable[Action], tile: int = 32, step_limit: int = STEP_LIMIT
) -> list[Image.Image]:
    """A picture for the start and one for each action, until the episode is done."""
    episode = Episode(subject, step_limit)
    draw_at = _task_pictures(subject, tile)

    def frame(action: str) -> Image.Image:
        words = _caption(episode.steps, action, episode.record)
        return render.frame(episode.level, draw_at(episode.place), words, tile, strip=True)

    frames = [frame("start")]
    for action in actions:
        if episode.record.done:
            break
        number = action_number(action)
        episode.act(number)
        frames.append(frame(_words(grid.ACTIONS[number])))
    return frames


def save_episode(subject: Problem | Level, actions: Iterable[Action], path: Path | str, fps: float = 4.0) -> None:
    """Write an episode as a film, GIF or MP4 by the suffix of the path."""
    save_film(episode_frames(subject, actions), path, fps)


def watched_frames(problem: Problem, watched: Sequence[Scene], tile: int = 32) -> list[Image.Image]:
    """A picture for each moment of an episode that was watched, with what the player thought beside it."""
    draw_at = _task_pictures(problem, tile)
    return [_watched_frame(scene, draw_at(scene.place), tile) for scene in watched]


def _watched_frame(scene: Scene, task: Image.Image | None, tile: int) -> Image.Image:
    """Level and thoughts side by side, the task below them, or beside them if it is tall."""
    level = render.draw_level(scene.level, tile, strip=True)
    picture = _joined(level, choice_panel(scene.choice, tile), "beside", tile // 2)
    if task is not None:
        picture = _joined(picture, task.convert("RGB"), "below" if task.width >= task.height else "beside", tile // 2)
    top, edge = round(1.25 * tile), tile // 2
    width, height = max(picture.width, 11 * tile) + 2 * edge, picture.height + top + edge
    image = Image.new("RGB", (width + width % 2, height + height % 2), PAGE)
    image.paste(picture, (edge, top))
    words = _caption(scene.step, _words(scene.action or "start"), scene.record)
    font = ImageFont.load_default(max(9.0, 0.5 * tile))
    ImageDraw.Draw(image).text((edge, top // 2), words, render.TEXT_INK, font, anchor="lm")
    return image


def choice_panel(choice: Choice | None, tile: int) -> Image.Image:
    """The probabilities of the actions as bars, the one that is taken in a stronger ink, and the value."""
    row, width = round(0.7 * tile), PANEL_TILES * tile
    image = Image.new("RGB", (width, row * (len(grid.ACTIONS) + 1) + tile // 4), PAGE)
    if choice is None:
        return image
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(max(9.0, 0.42 * tile))
    left, right = 3 * tile, width - 2 * tile
    for number, (name, share) in enumerate(zip(grid.ACTIONS, choice.probabilities, strict=True)):
        middle, taken = round((number + 0.5) * row), number == choice.action
        ink = render.TEXT_INK if taken else SOFT
        pen.text((tile // 4, middle), _words(name), ink, font, anchor="lm")
        pen.rectangle((left, middle - row // 4, right, middle + row // 4), fill=GROOVE)
        if share >= 0.5 / (right - left):
            end = left + round(share * (right - left))
            pen.rectangle((left, middle - row // 4, end, middle + row // 4), fill=CHOSEN if taken else BAR)
        pen.text((width - tile // 4, middle), f"{share:.0%}", ink, font, anchor="rm")
    if choice.value is not None:
        words = f"expects a return of {round(choice.value, 2) + 0.0:.2f}"
        pen.text((tile // 4, round((len(grid.ACTIONS) + 0.5) * row)), words, render.TEXT_INK, font, anchor="lm")
    return image


def _task_pictures(subject: Problem | Level, tile: int) -> Callable[[tuple[int, int]], Image.Image | None]:
    """Draws the task with the current state lit; few states, many frames."""

    @functools.cache
    def draw_at(place: tuple[int, int]) -> Image.Image | None:
        if isinstance(subject, Level):
            return None
        current = place if isinstance(subject.task, Hierarchy) else place[1]
        return draw_task(subject.task, VOCABULARY, current, scale=TASK_SCALE * tile)

    return draw_at


def _joined(first: Image.Image, second: Image.Image, where: Literal["beside", "below"], gap: int) -> Image.Image:
    """Two pictures as one."""
    x, y = (first.width + gap, 0) if where == "beside" else (0, first.height + gap)
    size = (max(first.width, x + second.width), max(first.height, y + second.height))
    image = Image.new("RGB", size, PAGE)
    image.paste(first, (0, 0))
    image.paste(second, (x, y))
    return image


def _words(action: str) -> str:
    return action.replace("_", " ")


def _caption(steps: int, action: str, record: Record) -> str:
    words = [f"{steps}", action, *([record.task_state] if record.task_state else [])]
    return "  ·  ".join(words + ([f"reward {record.reward:g}"] if record.reward else []))


# A contact sheet of example problems: each with its level, its task as a machine, and how the student fares on it.

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
SHEET, CARD, EDGE = "#f1f3f5", "#ffffff", "#dee2e6"
INK, SOFT_gallery, GOOD, FAIR, BAD = "#212529", "#868e96", "#2f9e44", "#f08c00", "#e03131"
LINES: Final = 6
"""Lines of small text beside a level."""


def contact_sheet(problems: Problem, facts: list[dict[str, Any]], when: dict[str, Any]) -> Image.Image:
    """Some problems (batched) on one page; `facts` are those of a snapshot's examples, `when` tells the moment."""
    cards = [_card(jax.tree.map(lambda x, i=i: jnp.asarray(x[i]), problems), fact) for i, fact in enumerate(facts)]
    rows = [cards[i : i + COLUMNS] for i in range(0, len(cards), COLUMNS)]
    heights = [max(card.height for card in row) for row in rows]
    top = 56
    columns = min(COLUMNS, len(cards))
    page = Image.new("RGB", (columns * (WIDTH + GAP) + GAP, top + sum(heights) + GAP * len(rows)), SHEET)
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
    pen.text((GAP + _font(24).getlength(words) + 20, 30), more, SOFT_gallery, _font(15), anchor="lm")


def _place(page: Image.Image, card: Image.Image, corner: tuple[int, int], height: int) -> None:
    x, y = corner
    ImageDraw.Draw(page).rounded_rectangle((x, y, x + WIDTH, y + height), 8, CARD, EDGE, 1)
    page.paste(card.crop((0, 0, card.width, min(card.height, height - 4))), (x + 2, y + 2))


def _card(problem: Problem, fact: dict[str, Any]) -> Image.Image:
    """The level on the left, words on the right, the machine below."""
    level, machine = _level(problem), _machine(problem)
    left = PADDING + level.width + PADDING
    words = _words_gallery(problem, fact, WIDTH - left - PADDING)
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


def _words_gallery(problem: Problem, fact: dict[str, Any], width: int) -> list[_Line]:
    """How the student fares, the task in a sentence, and the edits that made the problem."""
    told = explain(problem.task, VOCABULARY)
    lines = [_Line(line, INK, 13) for line in _wrap(told, width, 3)] if is_prose(told) else []
    history = _wrap(", ".join(fact["edits"]), width, LINES - len(lines))
    return [*_figures(fact), *lines, *(_Line(line, SOFT_gallery, 13) for line in history)]


def _figures(fact: dict[str, Any]) -> list[_Line]:
    """How often it is solved and drawn, and where it came from."""
    rate = fact["solves"] / max(fact["attempts"], 1)
    colour = GOOD if rate >= 0.5 else FAIR if fact["solves"] else BAD
    solved = f"solved {short(fact['solves'])} of {short(fact['attempts'])}" if fact["attempts"] else "not played yet"
    count = len(fact["edits"])
    made = "sampled" if fact["parent"] < 0 else f"{count} edit{'s' * (count != 1)}, generation {fact['generation']}"
    return [
        _Line(solved, colour if fact["attempts"] else SOFT_gallery, 17),
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
