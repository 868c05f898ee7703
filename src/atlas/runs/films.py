"""Films of episodes: the world moves, the task beside it shows how far it got."""

from collections.abc import Iterable
from pathlib import Path

from PIL import Image

from atlas.domains.minigrid import grid, render
from atlas.domains.minigrid.grid import Level
from atlas.replay import STEP_LIMIT, Action, Episode, action_number
from atlas.runs.pictures import save_film
from atlas.types import Problem


def episode_frames(
    subject: Problem | Level, actions: Iterable[Action], tile: int = 32, step_limit: int = STEP_LIMIT
) -> list[Image.Image]:
    """A picture for the start and one for each action, until the episode is done."""
    episode = Episode(subject, step_limit)
    frames = [_frame(episode, "start", tile)]
    for action in actions:
        if episode.record.done:
            break
        number = action_number(action)
        episode.act(number)
        frames.append(_frame(episode, grid.ACTIONS[number].replace("_", " "), tile))
    return frames


def save_episode(subject: Problem | Level, actions: Iterable[Action], path: Path | str, fps: float = 4.0) -> None:
    """Write an episode as a film, GIF or MP4 by the suffix of the path."""
    save_film(episode_frames(subject, actions), path, fps)


def _frame(episode: Episode, action: str, tile: int) -> Image.Image:
    record = episode.record
    words = [f"{episode.steps}", action, *([record.task_state] if record.task_state else [])]
    words += [f"reward {record.reward:g}"] if record.reward else []
    return render.frame(episode.level, caption="  ·  ".join(words), tile=tile, strip=True)
