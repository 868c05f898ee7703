"""Pictures and films on disk, and what is on them: episodes, and contact sheets of training. Files appear whole or not
at all."""

import importlib
import io
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jax

from atlas.domains import name_for, surface_for, vocabulary_of
from atlas.errors import AtlasError
from atlas.runs.store import write_whole
from atlas.settings import STEP_LIMIT
from atlas.show import canvas, problem
from atlas.show.canvas import (
    BAD,
    BAR,
    CHOSEN,
    EDGE,
    FAIR,
    GOOD,
    GROOVE,
    INK,
    PAGE,
    SOFT,
    Drawing,
    Group,
    Rectangle,
    Text,
)
from atlas.show.episode import Action, Choice, Episode, Record, Scene, action_number
from atlas.show.problem import TILE
from atlas.tasks.draw import task_drawing
from atlas.tasks.explain import explain, is_prose
from atlas.tasks.packed import unpack
from atlas.types import Level, Problem
from atlas.words import clock, short

if TYPE_CHECKING:
    from PIL.Image import Image

FILM_SUFFIXES: Final = (".gif", ".mp4")
HOLD: Final = 4
"""The last frame of a film stays this many times as long as the others."""


def save_picture(image: "Image", path: Path | str) -> None:
    """Write an image as PNG."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    write_whole(path, buffer.getvalue())


def sheet(pictures: "Sequence[Image]", columns: int) -> "Image":
    """Pictures in rows on one page, each with as much room as the largest needs."""
    from PIL import Image

    width, height = (max(picture.size[axis] for picture in pictures) for axis in (0, 1))
    page = Image.new("RGB", (width * min(columns, len(pictures)), height * -(-len(pictures) // columns)), PAGE)
    for number, picture in enumerate(pictures):
        page.paste(picture, (width * (number % columns), height * (number // columns)))
    return page


def save_film(frames: "Sequence[Image]", path: Path | str, fps: float = 4.0) -> None:
    """Write frames as an animation: GIF or MP4, by the suffix of the path."""
    from PIL import Image

    require_film(path)
    width, height = (max(frame.size[axis] for frame in frames) for axis in (0, 1))
    pages = [Image.new("RGB", (width + width % 2, height + height % 2), PAGE) for _ in frames]  # H.264 wants even sizes
    for page, frame in zip(pages, frames, strict=True):
        page.paste(frame, (0, 0))
    write_whole(path, _gif(pages, fps) if Path(path).suffix.lower() == ".gif" else _mp4(pages, fps))


def require_film(path: Path | str) -> None:
    """Fail unless films of this kind can be made here."""
    suffix = Path(path).suffix.lower()
    if suffix not in FILM_SUFFIXES:
        raise AtlasError(f"{path}: films end in {' or '.join(FILM_SUFFIXES)}")
    if suffix == ".mp4":
        try:
            importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe()
        except (ImportError, RuntimeError):
            raise AtlasError("MP4 films need ffmpeg: pip install 'atlas-ued[video]', or name the file .gif") from None


def _gif(pages: "Sequence[Image]", fps: float) -> bytes:
    """One palette for all frames, so that nothing flickers: from up to 32 of them."""
    from PIL import Image

    palette = sheet(pages[:: len(pages) // 32 + 1], 1).quantize(255)
    frames = [page.quantize(palette=palette, dither=Image.Dither.NONE) for page in pages]
    beat = round(1000 / fps)
    beats = [beat] * (len(frames) - 1) + [HOLD * beat]
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:], duration=beats, loop=0)
    return buffer.getvalue()


def _mp4(pages: "Sequence[Image]", fps: float) -> bytes:
    """H.264, which every browser plays."""
    ffmpeg = importlib.import_module("imageio_ffmpeg")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "film.mp4"
        writer = ffmpeg.write_frames(str(path), pages[0].size, fps=fps, macro_block_size=2, ffmpeg_log_level="error")
        writer.send(None)
        for page in [*pages, *[pages[-1]] * (HOLD - 1)]:
            writer.send(page.tobytes())
        writer.close()
        return path.read_bytes()


# Episodes: the world moves, the task beside it shows how far it got; of a policy also what it thinks


def episode_frames(subject: Problem | Level, actions: Iterable[Action], step_limit: int = STEP_LIMIT) -> "list[Image]":
    """A picture for the start and one for each action, until the episode is done."""
    episode = Episode(subject, step_limit)
    task = unpack(subject.task) if isinstance(subject, Problem) else None
    frames, did = [], "start"
    for action in [None, *actions]:
        if episode.record.done:
            break
        if action is not None:
            number = action_number(action, episode.domain.actions)
            episode.act(number)
            did = episode.domain.actions[number]
        words = _caption(episode.steps, did, episode.record)
        frames.append(canvas.pixels(problem.drawing(episode.level, task, words, episode.place, strip=True)))
    return frames


def save_episode(subject: Problem | Level, actions: Iterable[Action], path: Path | str, fps: float = 4.0) -> None:
    """Write an episode as a film, GIF or MP4 by the suffix of the path."""
    save_film(episode_frames(subject, actions), path, fps)


def watched_frames(watched_problem: Problem, watched: Sequence[Scene], said: str = "") -> "list[Image]":
    """A picture for each moment of an episode that was watched, with what the player thought beside it; above all of
    them what it was told to do, if that was `said`."""
    task = unpack(watched_problem.task)
    return [
        canvas.pixels(
            _under(
                said,
                problem.drawing(
                    scene.level, task, _caption(scene.step, scene.action or "start", scene.record), scene.place,
                    strip=True, panel=choice_panel(scene.choice, scene.actions),
                ),
            )
        )
        for scene in watched
    ]  # fmt: skip


def _under(said: str, page: Drawing) -> Drawing:
    """A page with a sentence above it."""
    if not said:
        return page
    size, gap = 0.7 * TILE, TILE / 2
    lines = canvas.wrap(f"“{said}”", page.size[0] - 2 * gap, size)
    words = tuple(Text((gap, gap + 1.4 * size * (n + 0.5)), line, size) for n, line in enumerate(lines))
    head = gap + 1.4 * size * len(lines)
    return canvas.arranged([(Drawing(words, (page.size[0], head)), (0.0, 0.0)), (page, (0.0, head))])


def choice_panel(choice: Choice | None, actions: Sequence[str]) -> Drawing:
    """The probabilities of the actions as bars, the one that is taken in a stronger ink, and the value."""
    row, width, size = 0.7 * TILE, 9 * TILE, 0.42 * TILE
    left, right = 3 * TILE, width - 2 * TILE
    shapes: list[canvas.Shape] = []
    for number, name in enumerate(actions if choice else ()):
        assert choice is not None
        middle, taken, share = (number + 0.5) * row, number == choice.action, choice.probabilities[number]
        ink, bar, across = (INK, CHOSEN, right - left) if taken else (SOFT, BAR, right - left)
        shapes += [
            Text((TILE / 4, middle), _spaced(name), size, ink),
            Rectangle((left, middle - row / 4), (across, row / 2), fill=GROOVE),
            Rectangle((left, middle - row / 4), (share * across, row / 2), fill=bar),
            Text((width - TILE / 4, middle), f"{share:.0%}", size, ink, anchor="end"),
        ]
    if choice is not None and choice.value is not None:
        words = f"expects a return of {round(choice.value, 2) + 0.0:.2f}"
        shapes.append(Text((TILE / 4, (len(actions) + 0.5) * row), words, size))
    return Drawing(tuple(shapes), (width, row * (len(actions) + 1) + TILE / 4))


def _spaced(action: str) -> str:
    return action.replace("_", " ")


def _caption(steps: int, action: str, record: Record) -> str:
    words = [f"{steps}", _spaced(action), *([record.task_state] if record.task_state else [])]
    return "  ·  ".join(words + ([f"reward {record.reward:g}"] if record.reward else []))


# Contact sheets: example problems of training, each with its level, its task, and how the student fares on it

COLUMNS: Final = 3
WIDTH, GAP, PADDING = 620.0, 16.0, 16.0
"""Sizes of a card."""
LEVEL_SIZE: Final = (232, 168)
"""The most room for a level."""
TASK_HEIGHT: Final = 150
"""The most room for a task."""
TILES: Final = (24, 8)
"""Largest and smallest cell of a level."""
LINES: Final = 6
"""Lines of small text beside a level."""


def contact_sheet(
    problems: Problem, facts: list[dict[str, Any]], when: dict[str, Any], whose: str = "What is replayed"
) -> "Image":
    """Some problems (batched) on one page; `facts` are those of a snapshot's examples, `when` tells the moment."""
    cards = [_card(jax.device_put(jax.tree.map(lambda x, i=i: x[i], problems)), fact) for i, fact in enumerate(facts)]
    title = f"{whose} after {short(when['steps'])} steps"
    more = f"iteration {when['iteration']:,}, {clock(when['seconds'])} of training"
    shapes: list[canvas.Shape] = [Text((GAP, 28), title, 24)]
    shapes.append(Text((GAP + canvas.text_width(title, 24) + 24, 30), more, 15, SOFT))
    top = 56.0
    for first in range(0, len(cards), COLUMNS):
        row = cards[first : first + COLUMNS]
        height = max(card.size[1] for card in row)
        for column, card in enumerate(row):
            frame = Rectangle((0, 0), (WIDTH, height), 8, fill=PAGE, stroke=EDGE, width=1)
            shapes.append(Group((frame, *card.shapes), (GAP + column * (WIDTH + GAP), top)))
        top += height + GAP
    size = (min(COLUMNS, len(cards)) * (WIDTH + GAP) + GAP, top)
    return canvas.pixels(Drawing((Rectangle((0, 0), size, fill=GROOVE), *shapes), size))


def _card(one: Problem, fact: dict[str, Any]) -> Drawing:
    """The level on the left, words on the right, the task below."""
    surface, vocabulary = surface_for(one), vocabulary_of(name_for(one))
    unit = surface.drawing(surface.crop(one.level))
    tile = max(TILES[1], min(TILES[0], *(int(most // size) for most, size in zip(LEVEL_SIZE, unit.size, strict=True))))
    drawn = canvas.scaled(unit, tile)
    left = PADDING + drawn.size[0] + PADDING
    shapes: list[canvas.Shape] = [Group(drawn.shapes, (PADDING, PADDING))]
    y = PADDING
    for words, colour, size in _words(one, fact, WIDTH - left - PADDING):
        shapes.append(Text((left, y + 0.6 * size), words, size, colour))
        y += 1.45 * size
    above = max(PADDING + drawn.size[1], y) + PADDING / 2
    task = task_drawing(unpack(one.task), vocabulary, surface.sign)
    shrink = min(1.0, (WIDTH - PADDING) / task.size[0], TASK_HEIGHT / task.size[1])
    shapes.append(Group(task.shapes, (PADDING / 2, above), shrink))
    return Drawing(tuple(shapes), (WIDTH, above + shrink * task.size[1] + PADDING / 2))


def _words(one: Problem, fact: dict[str, Any], width: float) -> list[tuple[str, str, float]]:
    """How the student fares, where the problem came from, the task in a sentence, and the edits that made it."""
    solved, attempts, edits = fact["solves"], fact["attempts"], fact["edits"]
    colour = SOFT if not attempts else GOOD if 2 * solved >= attempts else FAIR if solved else BAD
    made = f"{len(edits)} edit{'s' * (len(edits) != 1)}, generation {fact['generation']}"
    lines = [
        (f"solved {short(solved)} of {short(attempts)}" if attempts else "not played yet", colour, 17.0),
        (f"probability {fact['probability']:.2g}, {'sampled' if fact['parent'] < 0 else made}", INK, 14.0),
    ]
    told = explain(unpack(one.task), vocabulary_of(name_for(one)))
    sentence = canvas.wrap(told, width, 13, 3) if is_prose(told) else []
    history = canvas.wrap(", ".join(edits), width, 13, LINES - len(sentence))
    return lines + [(line, INK, 13.0) for line in sentence] + [(line, SOFT, 13.0) for line in history]
