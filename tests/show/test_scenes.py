"""Episodes as they are watched: what the player thought, where the task stood, how it ended."""

import itertools
from collections.abc import Iterable
from pathlib import Path

import jax
import numpy as np
import pytest
from PIL import Image

from atlas.domains.minigrid.grid import ACTIONS
from atlas.runs.problem_files import load
from atlas.show.episode import Action, Choice, Episode, PolicyActor, action_number, ending, scenes, trace
from atlas.show.media import save_film, watched_frames
from atlas.types import NamedProblem
from students import HIERARCHY
from students import student as small_student

PROBLEM = """
name: keys
level: |
  ########
  ##kb..##
  ##^...##
  ########
task: pick up a key, then go to a key
"""
SOLUTION = ("pick_up", "put_down", "forward")


class Script:
    """Plays a list of actions, again from the front when it is over."""

    def __init__(self, actions: Iterable[Action]) -> None:
        self.actions = [action_number(action, ACTIONS) for action in actions]

    def begin(self, episode: Episode) -> None:
        pass

    def choose(self, episode: Episode) -> Choice:
        action = self.actions[episode.steps % len(self.actions)]
        return Choice(action, tuple(float(number == action) for number in range(len(ACTIONS))), None)


@pytest.fixture
def problem(tmp_path: Path) -> NamedProblem:
    path = tmp_path / "keys.yaml"
    path.write_text(PROBLEM)
    return load(path)[0]


def test_a_scripted_player_is_seen_to_solve_it(problem: NamedProblem) -> None:
    watched = list(scenes(Script(SOLUTION), problem))
    assert ending(watched) == "solved"
    assert [scene.record.task_state for scene in watched] == ["u0", "u1", "uA"]
    assert [scene.action for scene in watched] == [None, "pick_up", "put_down"]
    assert watched[-1].choice is None
    assert watched[1].record == trace(problem, SOLUTION)[1]


def test_episodes_are_cut_at_the_limit(problem: NamedProblem) -> None:
    watched = list(scenes(Script(["toggle"]), problem, step_limit=5))
    assert (ending(watched), watched[-1].step) == ("out of steps", 5)


def test_what_the_first_view_ends_is_called_trivial(problem: NamedProblem) -> None:
    import atlas

    watched = list(scenes(Script(["toggle"]), problem.replace(task=atlas.english("go to a key"))))
    assert ending(watched) == "trivial"


@pytest.mark.parametrize("greedy", [False, True])
def test_a_network_tells_what_it_thinks(problem: NamedProblem, greedy: bool) -> None:
    student = small_student()
    actor = PolicyActor(student, student.init(jax.random.key(0)), greedy=greedy)

    def play(seed: int) -> list[str | None]:
        actor.random = np.random.default_rng(seed)
        watched = list(scenes(actor, problem, step_limit=12))
        for scene in watched[:-1]:
            assert scene.choice is not None
            assert sum(scene.choice.probabilities) == pytest.approx(1, abs=1e-5)
            best = max(range(len(ACTIONS)), key=scene.choice.probabilities.__getitem__)
            assert scene.choice.action == best or not greedy
            assert scene.choice.value is not None
        return [scene.action for scene in watched]

    assert play(0) == play(0)
    assert greedy or play(0) != play(1)


def test_films_show_every_moment(problem: NamedProblem, tmp_path: Path) -> None:
    watched = list(scenes(Script(SOLUTION), problem))
    frames = watched_frames(problem, watched)
    assert len(frames) == len(watched)
    assert all(a.tobytes() != b.tobytes() for a, b in itertools.pairwise(frames))
    save_film(frames, tmp_path / "keys.gif")
    with Image.open(tmp_path / "keys.gif") as film:
        assert film.n_frames == len(frames)


def test_hierarchies_are_played_too(problem: NamedProblem) -> None:
    student = small_student()
    actor = PolicyActor(student, student.init(jax.random.key(0)))
    watched = list(scenes(actor, problem.replace(task=HIERARCHY), step_limit=4))
    assert ending(watched) == "out of steps"
    assert watched[0].place == (1, 1)  # the first view made the call
