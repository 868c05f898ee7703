"""Replays, told in names."""

import json

import numpy as np
import pytest

import atlas
import students
from atlas.domains.minigrid import text
from atlas.domains.minigrid.alphabet import IDS
from atlas.errors import AtlasError
from atlas.show.episode import Episode, trace
from atlas.tasks.machine import ACCEPT, REJECT, flat_task, hierarchy, machine
from atlas.types import Problem

LEVEL = text.parse_level("""
    ##############
    ##kb......-r##
    ##^.........##
    ##..........##
    ##..........##
    ##..........##
    ##############
""")


def literal(name: str) -> int:
    return IDS[name] + 1


FETCH = flat_task([
    (0, 1, [literal("carrying_key_blue")], 0.0),
    (1, ACCEPT, [literal("front_door_red_open")], 1.0),
    (1, REJECT, [literal("carrying_ball")], 0.0),
])  # fmt: skip


def test_a_level_alone_has_no_task_state() -> None:
    start, after = trace(LEVEL, [0])
    assert start.task_state is None
    assert start.position == after.position == (2, 1)
    assert start.direction == 0
    assert start.carrying is None
    assert start.view[4] == ["outside", "wall", "floor", "floor", "floor"]
    assert start.view[3] == ["outside", "wall", "key_blue", "floor", "floor"]
    assert start.label == {"front_key", "front_key_blue"}
    assert (start.reward, start.done) == (0.0, False)


def test_a_whole_episode_in_names() -> None:
    names = ["pick_up", "right", "forward", "forward", "forward", "left", "forward", "right", "toggle", "forward"]
    records = trace(Problem(level=LEVEL, task=FETCH), names)
    assert [r.task_state for r in records] == ["u0"] + ["u1"] * 8 + ["uA"]
    assert [r.reward for r in records] == [0.0] * 9 + [1.0]
    assert [r.done for r in records] == [False] * 9 + [True]
    assert len(records) == 10, "nothing follows the end"
    assert records[1].carrying == "key_blue"
    assert records[1].view[4][2] == "key_blue"
    assert records[-1].label == {
        "carrying_key", "carrying_key_blue", "front_door", "front_door_red", "front_door_open", "front_door_red_open"
    }  # fmt: skip
    assert records[-1].position == (1, 4)


def test_numbers_and_names_and_numpy_mean_the_same() -> None:
    assert trace(LEVEL, [3, 1]) == trace(LEVEL, ["pick up", "right"]) == trace(LEVEL, np.array([3, 1]))


def test_a_trivial_task_ends_with_the_first_action_and_earns_nothing() -> None:
    at_once = flat_task([(0, ACCEPT, [literal("front_key")], 1.0)])
    start, first = trace(Problem(level=LEVEL, task=at_once), [1, 1, 1])
    assert (start.task_state, start.done, start.reward) == ("uA", False, 0.0)
    assert (first.task_state, first.done, first.reward) == ("uA", True, 0.0)


def test_the_step_limit_ends_an_episode() -> None:
    assert [r.done for r in trace(LEVEL, [1] * 5, step_limit=3)] == [False, False, False, True]
    assert len(trace(Problem(level=LEVEL, task=FETCH), [1] * 600)) == 513


def test_states_of_called_machines_are_told_with_the_machine() -> None:
    task = hierarchy([
        machine([(0, ACCEPT, [], 1.0, 1)]),
        machine([(0, 1, [literal("carrying_key")]), (1, ACCEPT, [-literal("carrying_key")])]),
    ])  # fmt: skip
    records = trace(Problem(level=LEVEL, task=task), ["pick_up", "put_down"])
    assert [r.task_state for r in records] == ["u0", "m1:u1", "uA"]
    assert records[-1].reward == 1.0


def test_records_are_also_mappings_and_json() -> None:
    record = trace(LEVEL, [])[0]
    assert record["position"] == record.position
    assert json.loads(json.dumps(record.plain())) == dict(record) | {"position": [2, 1], "label": sorted(record.label)}


@pytest.mark.parametrize(
    ("action", "words"), [(6, "6 is no action"), (-1, "-1 is no"), ("forwards", "did you mean forward")]
)
def test_unknown_actions_are_refused_before_anything_happens(action: int | str, words: str) -> None:
    with pytest.raises(AtlasError, match=words):
        trace(LEVEL, [0, action])


def test_a_student_with_a_map_sees_its_own_view_and_the_map() -> None:
    plain, mapped = students.student(), students.student(map=True)
    episode = Episode(Problem(level=LEVEL, task=FETCH))
    for action in (3, 1, 0):
        np.testing.assert_array_equal(episode.view_for(plain), episode.view)
        shown = episode.view_for(mapped)
        assert shown.shape == (mapped.cells.rows, mapped.cells.cols)
        np.testing.assert_array_equal(shown[:25, 0] & 127, episode.view.reshape(-1))
        episode.act(action)


def test_a_level_alone_is_shown_without_marks_and_domains_without_maps_play_on() -> None:
    assert (Episode(LEVEL).view_for(students.student(map=True)) < 128).all()
    letters = Episode(atlas.sample(1, domain="letterworld", seed=0)[0])
    assert letters.view_for(students.student()).shape == letters.view.shape


def test_an_episode_shows_the_world_as_it_stands() -> None:
    episode = Episode(LEVEL)
    episode.act(3)
    assert text.format_level(episode.level).splitlines()[1] == "##........-r##"
    assert text.format_level(episode.level).endswith("carrying: blue key")
    assert episode.steps == 1
