"""Tasks in files: explicit transitions, long and short; the values that YAML gives."""

import pytest
import yaml

from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.errors import AtlasError, TaskWarning
from atlas.tasks.formats import format_task, parse_task, task_to_plain
from atlas.tasks.rm import ACCEPT, REJECT, machine
from atlas.tasks.view import view

pytestmark = pytest.mark.filterwarnings("ignore::atlas.errors.TaskWarning")

IDS = VOCABULARY.ids
BALL, KEY, DOOR = IDS["front_ball"] + 1, IDS["front_key"] + 1, IDS["front_door"] + 1

AUTHORS = """
root: m0
alphabet: [front_ball, front_key]
transitions:
  m0:
    u0:
      u1:
        reward: 0.0
        edges:
        - call: leaf
          formula: [front_ball]
        - call: m1
          formula: [front_key, -front_ball]
    u1:
      uA:
        reward: 1.0
        edges:
        - call: leaf
          formula: [front_door]
  m1:
    u0:
      uA:
        reward: 0.0
        edges:
        - {call: leaf, formula: []}
"""


def edges_of(task, number=0):
    return [tuple(edge) for edge in view(task).machines[number].edges]


def test_the_authors_format():
    task = parse_task(yaml.safe_load(AUTHORS), VOCABULARY)
    assert edges_of(task) == [(0, 1, (BALL,), 0.0, -1), (0, 1, (KEY, -BALL), 0.0, 1), (1, 2, (DOOR,), 1.0, -1)]
    assert edges_of(task, 1) == [(0, 1, (), 0.0, -1)]


def test_the_short_form_of_flat_tasks():
    text = "transitions: {u0: {u1: front_ball, uR: [front_key, -front_ball]}, u1: {uA: [[front_door], [front_key]]}}"
    task = parse_task(yaml.safe_load(text), VOCABULARY)
    assert edges_of(task) == [
        (0, 1, (BALL,), 0.0, -1),
        (0, 3, (KEY, -BALL), 0.0, -1),
        (1, 2, (DOOR,), 1.0, -1),
        (1, 2, (KEY,), 1.0, -1),
    ]


def test_names_of_states_are_kept():
    text = "transitions: {u0: {u5: front_ball}, u5: {uA: front_key}}"
    assert [e[:2] for e in edges_of(parse_task(yaml.safe_load(text), VOCABULARY))] == [(0, 5), (5, 6)]


def test_a_text_is_english_and_a_mapping_says_what_it_is():
    expected = [(0, 1, (BALL,), 1.0, -1)]
    for value in ("go to a ball", {"english": "Go to a ball."}, {"ltlf": "F front_ball"}):
        assert edges_of(parse_task(value, VOCABULARY)) == expected


TASKS = {
    "sequence": lambda: parse_task("go to a ball, then go to a key, then open a door", VOCABULARY),
    "branches": lambda: parse_task("either go to a ball, then go to a key, or open a door", VOCABULARY),
    "any order": lambda: parse_task("go to a ball, pick up a key and open a door", VOCABULARY),
    "hierarchy": lambda: parse_task(yaml.safe_load(AUTHORS), VOCABULARY),
    "rewards": lambda: machine(
        [(0, 1, (BALL,), 0.5), (0, 1, (KEY,), 0.25), (1, ACCEPT, (DOOR,), 2.0), (1, REJECT, ())]
    ),
    "cycle": lambda: machine([(0, 1, (BALL,)), (1, 0, (KEY,)), (1, ACCEPT, (DOOR,), 1.0)]),
}


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("write", [task_to_plain, format_task])
def test_what_is_written_is_read_back(name, write):
    task = TASKS[name]()
    text = yaml.safe_dump(write(task, VOCABULARY), sort_keys=False)
    assert view(parse_task(yaml.safe_load(text), VOCABULARY)) == view(task)


def test_the_shortest_way_to_write_a_task():
    assert format_task(TASKS["sequence"](), VOCABULARY) == "Go to a ball, then go to a key, then go to an open door."
    assert format_task(TASKS["cycle"](), VOCABULARY) == {
        "transitions": {"u0": {"u1": "front_ball"}, "u1": {"u0": "front_key", "uA": "front_door"}}
    }
    assert set(format_task(TASKS["rewards"](), VOCABULARY)) == {"root", "transitions"}


def edge(formula, call="leaf"):
    return {"reward": 0, "edges": [{"call": call, "formula": formula}]}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, "a task must be a sentence"),
        ({"english": 3}, "english: a text is needed"),
        ({"ltl": "F front_ball"}, "'ltl' is not a key of a task; did you mean ltlf?"),
        ({"ltlf": "F front_ball", "english": "go to a ball"}, "here are english and ltlf"),
        ({"root": "m0"}, "here are none"),
        ({"transitions": {}}, "transitions: at least one transition is needed"),
        ({"transitions": [1]}, "transitions: a mapping is needed"),
        ({"transitions": {"u0": {"uA": "front_bal"}}}, "u0.uA: 'front_bal' is no proposition; did you mean front_ball"),
        ({"transitions": {"u0": {"uA": 7}}}, "transitions.u0.uA: a proposition, a list of literals"),
        ({"transitions": {"u0": {"uA": [7]}}}, "7 is no literal"),
        ({"transitions": {"u0": {"v1": "front_ball"}}}, "u0.v1: 'v1' is no name: u0, u1, … or uA or uR is needed"),
        ({"transitions": {"u0": {"u900": "front_ball"}}}, "u900 is too large a number"),
        ({"transitions": {"u0": {"uA": "front_ball"}, "uA": {"u0": "front_key"}}}, "nothing follows"),
        ({"transitions": {"u0": {"u1": "front_ball"}}}, "no path leads from u0 to uA"),
        ({"transitions": {"m0": {"u0": {"uA": edge([], "m1")}}}}, "m1 is called, but not described"),
        ({"transitions": {"m0": {"u0": {"uA": edge([], "m1")}}, "m1": {"u0": {"uA": edge([], "m1")}}}}, "cyclic"),
        ({"transitions": {"m0": {"u0": {"uA": edge([])}}}, "root": "m3"}, "root: there is no machine m3; there are m0"),
        ({"transitions": {"m0": {"u0": {"uA": {"edges": []}}}}}, "'edges' must be a list"),
        ({"transitions": {"m0": {"u0": {"uA": {"edge": [{}]}}}}}, "'edge' is not known here; did you mean edges?"),
        ({"transitions": {"m0": {"u0": {"uA": {"reward": "x", "edges": [{}]}}}}}, "the reward 'x' is no number"),
    ],
)  # fmt: skip
def test_mistakes_are_named_with_their_place(value, message):
    with pytest.raises(AtlasError) as error:
        parse_task(value, VOCABULARY)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("transitions", "message"),
    [
        ({"u0": {"uA": "front_ball", "uR": "front_ball_red"}}, "at once"),
        ({"u0": {"uA": [["front_ball"], ["front_ball", "front_key"]]}}, "can never hold"),
    ],
)
def test_odd_guards_get_a_warning(transitions, message):
    with pytest.warns(TaskWarning, match=message):
        parse_task({"transitions": transitions}, VOCABULARY)
