"""HOA: what is written is read back with the same meaning; what others write is understood or refused."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas.domains.minigrid.alphabet import VOCABULARY as MINIGRID
from atlas.errors import AtlasError, TaskWarning
from atlas.tasks.check import equivalent
from atlas.tasks.english import english
from atlas.tasks.formats import from_hoa, to_dot, to_hoa
from atlas.tasks.ltlf import ltlf
from atlas.tasks.rm import ACCEPT, ACCEPTED, REJECT, REJECTED, RUNNING, machine
from atlas.tasks.view import view
from twins.ltlf import random_trace
from twins.machines import follow_flat
from twins.vocabularies import fruit

VOCABULARY = fruit()
literals = st.lists(st.integers(1, 4), max_size=2, unique=True).flatmap(
    lambda props: st.tuples(*(st.sampled_from((p, -p)) for p in props))
)
edges = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0, 1, 2, ACCEPT, REJECT]), literals), max_size=6)


@given(literals, edges, st.integers(0, 10_000))
@settings(max_examples=200)
def test_what_is_written_is_read_back(first, transitions, seed):
    task = machine([(0, ACCEPT, first, 1.0), *transitions])
    back = from_hoa(to_hoa(task, VOCABULARY), VOCABULARY)
    trace = random_trace(random.Random(seed), 12, 4)
    for before, after in zip(follow_flat(task, trace), follow_flat(back, trace), strict=True):
        assert (before == ACCEPTED) == (after == ACCEPTED)
        assert before != REJECTED or after == REJECTED


def test_rewards_are_kept():
    task = machine([(0, 1, (1,), 0.25), (1, 1, (2,), -0.5), (1, ACCEPT, (-2, 3), 2.0)])
    edges = view(from_hoa(to_hoa(task, VOCABULARY), VOCABULARY)).machines[0].edges
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
            from_hoa(text, VOCABULARY)
    else:
        assert follow_flat(from_hoa(text, VOCABULARY), trace) == outcomes


def test_a_warning_tells_of_runs_that_are_accepted_only_for_ever():
    recurrent = hoa("State: 0 [0] 1 [!0] 0 State: 1 {0} [!1] 0 [1] 2 State: 2 {0} [t] 2")
    with pytest.warns(TaskWarning, match="never end"):
        task = from_hoa(recurrent, VOCABULARY)
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
def test_mistakes_are_named(text, message):
    with pytest.raises(AtlasError) as error:
        from_hoa(text, VOCABULARY)
    assert message in str(error.value)


def test_ltlf_survives_the_trip():
    task = ltlf("(!pear U apple) & F plum", VOCABULARY)
    back = from_hoa(to_hoa(task, VOCABULARY), VOCABULARY)
    rng = random.Random(5)
    for _ in range(100):
        trace = random_trace(rng, 6, 3)
        assert follow_flat(task, trace) == follow_flat(back, trace)


def test_dot_has_a_cluster_for_each_machine_and_words_as_tooltips():
    text = (
        "Main task: 1. Eat an apple and do routine 1, then fail (reward 0.5). "
        "Routine 1: 1. Eat a pear while not eating a fig."
    )
    dot = to_dot(english(text, VOCABULARY), VOCABULARY)
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
    task = english(text, VOCABULARY)
    assert equivalent(from_hoa(to_hoa(task, VOCABULARY), VOCABULARY), task)
