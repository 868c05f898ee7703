"""Tasks in files: explicit transitions, long and short; HOA and DOT."""

import random

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas.domains.minigrid.alphabet import VOCABULARY as MINIGRID
from atlas.errors import AtlasError, TaskWarning
from atlas.tasks.check import equivalent
from atlas.tasks.english import english
from atlas.tasks.formats import format_task, from_hoa, parse_task, to_dot, to_hoa, to_plain
from atlas.tasks.ltlf import ltlf
from atlas.tasks.machine import ACCEPT, REJECT, flat_task
from atlas.vocabulary import ACCEPTED, REJECTED, RUNNING
from twins.ltlf import random_trace
from twins.machines import follow_flat
from twins.vocabularies import fruit

pytestmark = pytest.mark.filterwarnings("ignore::atlas.errors.TaskWarning")

IDS = MINIGRID.ids
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
    return [tuple(edge) for edge in task.machines[number].edges]


def test_the_authors_format():
    task = parse_task(yaml.safe_load(AUTHORS), MINIGRID)
    assert edges_of(task) == [(0, 1, (BALL,), 0.0, -1), (0, 1, (KEY, -BALL), 0.0, 1), (1, 2, (DOOR,), 1.0, -1)]
    assert edges_of(task, 1) == [(0, 1, (), 0.0, -1)]


def test_the_short_form_of_flat_tasks():
    text = "transitions: {u0: {u1: front_ball, uR: [front_key, -front_ball]}, u1: {uA: [[front_door], [front_key]]}}"
    task = parse_task(yaml.safe_load(text), MINIGRID)
    assert edges_of(task) == [
        (0, 1, (BALL,), 0.0, -1),
        (0, 3, (KEY, -BALL), 0.0, -1),
        (1, 2, (DOOR,), 1.0, -1),
        (1, 2, (KEY,), 1.0, -1),
    ]


def test_names_of_states_are_kept():
    text = "transitions: {u0: {u5: front_ball}, u5: {uA: front_key}}"
    assert [e[:2] for e in edges_of(parse_task(yaml.safe_load(text), MINIGRID))] == [(0, 5), (5, 6)]


def test_a_text_is_english_and_a_mapping_says_what_it_is():
    expected = [(0, 1, (BALL,), 1.0, -1)]
    for value in ("go to a ball", {"english": "Go to a ball."}, {"ltlf": "F front_ball"}):
        assert edges_of(parse_task(value, MINIGRID)) == expected


TASKS = {
    "sequence": lambda: parse_task("go to a ball, then go to a key, then open a door", MINIGRID),
    "branches": lambda: parse_task("either go to a ball, then go to a key, or open a door", MINIGRID),
    "any order": lambda: parse_task("go to a ball, pick up a key and open a door", MINIGRID),
    "hierarchy": lambda: parse_task(yaml.safe_load(AUTHORS), MINIGRID),
    "rewards": lambda: flat_task(
        [(0, 1, (BALL,), 0.5), (0, 1, (KEY,), 0.25), (1, ACCEPT, (DOOR,), 2.0), (1, REJECT, ())]
    ),
    "cycle": lambda: flat_task([(0, 1, (BALL,)), (1, 0, (KEY,)), (1, ACCEPT, (DOOR,), 1.0)]),
}


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("write", [to_plain, format_task])
def test_what_is_written_is_read_back(name, write):
    task = TASKS[name]()
    text = yaml.safe_dump(write(task, MINIGRID), sort_keys=False)
    assert parse_task(yaml.safe_load(text), MINIGRID) == task


def test_the_shortest_way_to_write_a_task():
    assert format_task(TASKS["sequence"](), MINIGRID) == "Go to a ball, then go to a key, then go to an open door."
    assert format_task(TASKS["cycle"](), MINIGRID) == {
        "transitions": {"u0": {"u1": "front_ball"}, "u1": {"u0": "front_key", "uA": "front_door"}}
    }
    assert set(format_task(TASKS["rewards"](), MINIGRID)) == {"root", "transitions"}


def edge(formula, call="leaf"):
    return {"reward": 0, "edges": [{"call": call, "formula": formula}]}


def stuck(root, **others):
    """A task with a machine m1 that can never accept."""
    return {"transitions": {"m0": root, "m1": {"u0": {"u1": edge(["front_key"])}}, **others}}


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
        (stuck({"u0": {"uA": edge(["front_ball"], "m1")}}), "m1: no path leads from u0 to uA"),
        (stuck({"u0": {"uA": edge(["front_ball"], "m2")}}, m2={"u0": {"uA": edge([], "m1")}}), "m1: no path leads"),
        ({"transitions": {"m0": {"u0": {"uA": {"edges": []}}}}}, "'edges' must be a list"),
        ({"transitions": {"m0": {"u0": {"uA": {"edge": [{}]}}}}}, "'edge' is not known here; did you mean edges?"),
        ({"transitions": {"m0": {"u0": {"uA": {"reward": "x", "edges": [{}]}}}}}, "the reward 'x' is no number"),
    ],
)  # fmt: skip
def test_mistakes_are_named_with_their_place(value, message):
    with pytest.raises(AtlasError) as error:
        parse_task(value, MINIGRID)
    assert message in str(error.value)


def test_a_machine_that_never_accepts_is_a_note_where_the_root_can_do_without_it():
    """It was refused even where no path of the root needs it."""
    around = {"u0": {"u1": edge(["front_ball"], "m1"), "uA": edge(["front_square"])}}
    for value in (stuck(around), stuck({"u0": {"uA": edge(["front_ball"])}})):
        with pytest.warns(TaskWarning, match="m1: no path leads from u0 to uA, so a call of it never returns"):
            task = parse_task(value, MINIGRID)
        assert task.can_accept == {0}


def test_synonyms_are_read_in_names_of_propositions():
    read = [parse_task({"transitions": {"u0": {"uA": [f"next_ball_{c}_door_{c}_open", f"-front_key_{c}"]}}}, MINIGRID)
            for c in ("grey", "gray")]  # fmt: skip
    assert read[0] == read[1]
    hoa = to_hoa(read[0], MINIGRID)
    assert from_hoa(hoa.replace("gray", "grey"), MINIGRID) == from_hoa(hoa, MINIGRID)


@pytest.mark.parametrize(
    ("transitions", "message"),
    [
        ({"u0": {"uA": "front_ball", "uR": "front_ball_red"}}, "at once"),
        ({"u0": {"uA": [["front_ball"], ["front_ball", "front_key"]]}}, "can never hold"),
    ],
)
def test_odd_guards_get_a_warning(transitions, message):
    with pytest.warns(TaskWarning, match=message):
        parse_task({"transitions": transitions}, MINIGRID)


# HOA and DOT

FRUIT = fruit()
literals = st.lists(st.integers(1, 4), max_size=2, unique=True).flatmap(
    lambda props: st.tuples(*(st.sampled_from((p, -p)) for p in props))
)
edges = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0, 1, 2, ACCEPT, REJECT]), literals), max_size=6)


@given(literals, edges, st.integers(0, 10_000))
@settings(max_examples=200)
def test_hoa_is_read_back(first, transitions, seed):
    task = flat_task([(0, ACCEPT, first, 1.0), *transitions])
    back = from_hoa(to_hoa(task, FRUIT), FRUIT)
    trace = random_trace(random.Random(seed), 12, 4)
    for before, after in zip(follow_flat(task, trace), follow_flat(back, trace), strict=True):
        assert (before == ACCEPTED) == (after == ACCEPTED)
        assert before != REJECTED or after == REJECTED


def test_rewards_are_kept():
    task = flat_task([(0, 1, (1,), 0.25), (1, 1, (2,), -0.5), (1, ACCEPT, (-2, 3), 2.0)])
    edges = from_hoa(to_hoa(task, FRUIT), FRUIT).machines[0].edges
    assert sorted((e.source, e.target, e.reward) for e in edges) == [(0, 1, 0.25), (1, 1, -0.5), (1, 2, 2.0)]


def test_the_text_is_plain_hoa():
    text = to_hoa(english("go to a ball or a key, then open a door", MINIGRID), MINIGRID, 'say "go"')
    assert (
        text
        == """HOA: v1
name: "say \\"go\\""
States: 3
Start: 0
AP: 3 "front_ball" "front_key" "front_door_open"
acc-name: Buchi
Acceptance: 1 Inf(0)
properties: trans-labels explicit-labels state-acc deterministic complete
atlas-rewards: "0.0" "0.0" "1.0" "0.0"
--BODY--
State: 0 "u0"
[0 | 1] 1
[!0&!1] 0
State: 1 "u1"
[2] 2
[!2] 1
State: 2 "uA" {0}
[t] 2
--END--
"""
    )


BUCHI = "Acceptance: 1 Inf(0)"


def hoa(body: str, header: str = BUCHI) -> str:
    return f'HOA: v1\nStates: 3\nStart: 0\nAP: 2 "apple" "pear"\n{header}\n--BODY--\n{body}\n--END--\n'


APPLE, PEAR, NONE = {0}, {1}, set()


@pytest.mark.parametrize(
    ("text", "trace", "outcomes"),
    [
        (hoa("State: 0 [0] 1 [!0] 0 State: 1 {0} [t] 1"), [NONE, APPLE], [RUNNING, ACCEPTED]),
        (hoa("State: 0 [0] 1 {0} [!0] 0\nState: 1 [t] 1 {0}"), [NONE, APPLE], [RUNNING, ACCEPTED]),
        (hoa("State: 0 [0&!1] 1 [!0&!1] 0 State: 1 {0} [t] 1"), [PEAR], [REJECTED]),
        (hoa("State: 0 [0&!@p] 1 [!0] 0 [@p&0] 2 State: 1 {0} [t] 1 State: 2 [t] 2", "Alias: @p 1\n" + BUCHI),
         [PEAR, APPLE | PEAR], [RUNNING, REJECTED]),
        (hoa("State: 0 0 1 0 1 State: 1 {0} 1 1 1 1"), [PEAR, APPLE], [RUNNING, ACCEPTED]),
        (hoa("State: [0] 0 1 State: 1 {0} [t] 1"), [APPLE], [ACCEPTED]),
        (hoa("State: 0 /* a comment */ [(0 | 1)] 1 [!(0 | 1)] 0 State: 1 {0} [t] 1"), [PEAR], [ACCEPTED]),
        (hoa("State: 0 [0] 0", "Acceptance: 0 t\nproperties: deterministic"), None, None),
        (hoa("State: 0 {0} [t] 0"), [NONE], [ACCEPTED]),
    ],
)  # fmt: skip
def test_what_others_write(text, trace, outcomes):
    if trace is None:
        with pytest.raises(AtlasError, match="never settles"), pytest.warns(TaskWarning):
            from_hoa(text, FRUIT)
    else:
        assert follow_flat(from_hoa(text, FRUIT), trace) == outcomes


def test_a_warning_tells_of_runs_that_are_accepted_only_for_ever():
    recurrent = hoa("State: 0 [0] 1 [!0] 0 State: 1 {0} [!1] 0 [1] 2 State: 2 {0} [t] 2")
    with pytest.warns(TaskWarning, match="never end"):
        task = from_hoa(recurrent, FRUIT)
    assert follow_flat(task, [APPLE, NONE, APPLE, PEAR]) == [RUNNING, RUNNING, RUNNING, ACCEPTED]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("HOA: v2", "only version v1 of HOA is understood"),
        ("digraph {}", "HOA: is needed here (column 1)"),
        (hoa("").replace("pear", "peer"), "'peer' is no proposition; did you mean pear? (line 4, column 15)"),
        (hoa("", "Acceptance: 2 Inf(0)&Inf(1)"), "this acceptance is not understood"),
        (hoa("", "Fairness: 1\nAcceptance: 1 Inf(0)"), "the header Fairness is not understood"),
        (hoa("State: 0 [0] 1 [1] 2"), "not deterministic"),
        (hoa("State: 0 [0] 1&2"), "alternating"),
        (hoa("State: 0 [7] 1"), "'7' is no label"),
        (hoa("State: 0 [0] 5"), "state 5, which is not described"),
        (hoa("State: 0 [0 1"), "] is needed here"),
        (hoa("State: 0 [0] ?"), "'?' means nothing in HOA"),
        (hoa("State: 0 [0] 0").replace("Start: 0\n", ""), "no initial state"),
        (hoa("State: 0 [t] 0"), "never settles"),
        ("HOA: v1\nStart: 0", "--BODY-- is missing"),
    ],
)
def test_mistakes_in_hoa_are_named(text, message):
    with pytest.raises(AtlasError) as error:
        from_hoa(text, FRUIT)
    assert message in str(error.value)


def test_ltlf_survives_the_trip():
    task = ltlf("(!pear U apple) & F plum", FRUIT)
    back = from_hoa(to_hoa(task, FRUIT), FRUIT)
    rng = random.Random(5)
    for _ in range(100):
        trace = random_trace(rng, 6, 3)
        assert follow_flat(task, trace) == follow_flat(back, trace)


def test_dot_has_a_cluster_for_each_machine_and_words_as_tooltips():
    text = (
        "Main task: 1. Eat an apple and do routine 1, then fail (reward 0.5). "
        "Routine 1: 1. Eat a pear while not eating a fig."
    )
    dot = to_dot(english(text, FRUIT), FRUIT)
    assert dot.count("{") == dot.count("}") == 3
    assert 'label="m0 (root)"' in dot
    assert '[label="m1 | apple\\n/ 0.5", tooltip="eat an apple"' in dot
    assert 'label="pear\\n¬fig", tooltip="eat a pear while not eating a fig"' in dot
    assert 'label="uR", shape=doublecircle, color=red' in dot


def test_hierarchies_are_flattened():
    text = (
        "Main task: 1. Eat an apple and do routine 1, then continue with step 2. 2. Eat a fig. "
        "Routine 1: 1. Eat a pear. 2. Eat a plum, then return, or eat a kiwi, then fail."
    )
    task = english(text, FRUIT)
    assert equivalent(from_hoa(to_hoa(task, FRUIT), FRUIT), task)
