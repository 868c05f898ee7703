"""Problems for tasks in words."""

import pytest

from atlas.domains.minigrid import text
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.errors import AtlasError
from atlas.evaluation.from_text import problem_from_text, problem_in_level
from atlas.show.episode import trace
from atlas.vocabulary import ACCEPTED

ONE_ROOM = MinigridConfig(rooms=(1,))


@pytest.mark.parametrize("words", ["pick up the red key, then go to a grey box", "pick up every key, but never a ball"])
def test_a_level_is_drawn_and_proven(words: str) -> None:
    asked = problem_from_text(words, ONE_ROOM, seed=3)
    assert asked.plan
    assert trace(asked.problem, list(asked.plan))[-1].outcome == ACCEPTED
    assert int(asked.problem.level.rooms) == 1
    assert asked.understood.startswith("Pick up a ")
    again = problem_from_text(words, ONE_ROOM, seed=3)
    assert text.format_level(again.problem.level) == text.format_level(asked.problem.level)


def test_what_no_level_affords_is_said_with_a_reason() -> None:
    with pytest.raises(AtlasError, match=r"none of 64 levels that were drawn affords it.*there is no door"):
        problem_from_text("open a door", ONE_ROOM)
    with pytest.raises(AtlasError, match="its levels never have front_ball_red"):
        problem_from_text("go to a red ball", MinigridConfig(rooms=(1,), types=("key",)))


def test_all_is_read_in_the_level_that_is_given() -> None:
    level = text.parse_level("########\n##kb..##\n##^.kr##\n########")
    asked = problem_in_level("pick up all the keys", level)
    assert asked.understood == "Pick up a red key and a blue key."
    assert asked.plan
    far = problem_in_level("open the door", level)
    assert far.plan is None
    assert far.verdict.startswith("unsolvable: ")
    with pytest.raises(AtlasError, match="there is no ball in the level"):
        problem_in_level("go to every ball", level)
