"""Films of episodes: the world moves, the task beside it shows how far it got."""

import functools
from collections.abc import Iterable
from pathlib import Path

from PIL import Image

from atlas.domains.minigrid import grid, render
from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.domains.minigrid.grid import Level
from atlas.replay import STEP_LIMIT, Action, Episode, action_number
from atlas.runs.pictures import save_film
from atlas.runs.portrait import TASK_SCALE
from atlas.tasks.draw import draw_task
from atlas.tasks.hrm import Hierarchy
from atlas.types import Problem


def episode_frames(
    subject: Problem | Level, actions: Iterable[Action], tile: int = 32, step_limit: int = STEP_LIMIT
) -> list[Image.Image]:
    """A picture for the start and one for each action, until the episode is done."""
    episode = Episode(subject, step_limit)

    @functools.cache
    def draw_at(place: tuple[int, int]) -> Image.Image | None:
        """The task with the current state lit; few states, many frames."""
        if isinstance(subject, Level):
            return None
        current = place if isinstance(subject.task, Hierarchy) else place[1]
        return draw_task(subject.task, VOCABULARY, current, scale=TASK_SCALE * tile)

    def frame(action: str) -> Image.Image:
        return render.frame(episode.level, draw_at(episode.place), _caption(episode, action), tile, strip=True)

    frames = [frame("start")]
    for action in actions:
        if episode.record.done:
            break
        number = action_number(action)
        episode.act(number)
        frames.append(frame(grid.ACTIONS[number].replace("_", " ")))
    return frames


def save_episode(subject: Problem | Level, actions: Iterable[Action], path: Path | str, fps: float = 4.0) -> None:
    """Write an episode as a film, GIF or MP4 by the suffix of the path."""
    save_film(episode_frames(subject, actions), path, fps)


def _caption(episode: Episode, action: str) -> str:
    record = episode.record
    words = [f"{episode.steps}", action, *([record.task_state] if record.task_state else [])]
    return "  ·  ".join(words + ([f"reward {record.reward:g}"] if record.reward else []))
