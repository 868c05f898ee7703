"""Films of episodes: the world moves, the task beside it shows how far it got; of a policy also what it thinks."""

import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Literal

from PIL import Image, ImageDraw, ImageFont

from atlas.domains.minigrid import grid, render
from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.domains.minigrid.grid import Level
from atlas.domains.minigrid.shapes import PAGE
from atlas.replay import STEP_LIMIT, Action, Episode, Record, action_number
from atlas.runs.pictures import save_film
from atlas.runs.portrait import TASK_SCALE
from atlas.tasks.draw import draw_task
from atlas.tasks.hrm import Hierarchy
from atlas.types import Problem
from atlas.watching import Choice, Scene

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
