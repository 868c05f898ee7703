"""The laws of ATLAS, on the members of this package."""

from atlas_example_plugin import RehearsalConfig
from atlas_example_plugin.edits import ABOUT_TURN
from atlas_example_plugin.scores import surprise
from atlas_example_plugin.teacher import Rehearsal

from atlas.testing import check_edit, check_score, check_teacher


def test_the_teacher() -> None:
    check_teacher(RehearsalConfig(times=2), Rehearsal)


def test_the_score() -> None:
    check_score(surprise)


def test_the_edit() -> None:
    check_edit(ABOUT_TURN, "minigrid", rooms=(1,))
