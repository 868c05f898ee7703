"""Following a task by names."""

import pytest

import atlas
from atlas.errors import AtlasError
from atlas.tasks.follow import follow
from atlas.tasks.hrm import hierarchy
from atlas.tasks.rm import ACCEPT, REJECT, machine
from twins.vocabularies import fruit

VOCABULARY = fruit()
APPLE, PEAR, PLUM = 1, 2, 3


def test_a_flat_task_in_names():
    task = machine([(0, 1, [APPLE], 0.5), (1, ACCEPT, [PEAR, -PLUM], 1.0), (1, REJECT, [PLUM])])
    records = follow(task, [set(), {"apple"}, ["pear", "plum"], ["apple"]], VOCABULARY)
    assert [r.state for r in records] == ["u0", "u1", "uR", "uR"]
    assert [r.reward for r in records] == [0.0, 0.5, 0.0, 0.0]
    assert records[2].rejected
    assert not records[2].accepted
    assert dict(records[1]) == {
        "machine": "m0", "state": "u1", "stack": [], "reward": 0.5, "accepted": False, "rejected": False,
    }  # fmt: skip
    assert follow(task, [{0}, {"pear"}], VOCABULARY)[-1].accepted


def test_calls_and_returns_in_names():
    task = hierarchy([[(0, 1, [APPLE], 0.25, 1), (1, ACCEPT, [PEAR], 1.0)], [(0, 1, [PEAR]), (1, ACCEPT, [PLUM])]])
    records = follow(task, [{"apple"}, {"apple", "pear"}, {"plum"}, "pear"], VOCABULARY)
    assert [(r.machine, r.state, r.stack) for r in records] == [
        ("m0", "u0", []), ("m1", "u1", ["m0:u1"]), ("m0", "u1", []), ("m0", "uA", []),
    ]  # fmt: skip
    assert [r.reward for r in records] == [0.0, 0.0, 0.25, 1.0]
    assert [r.accepted for r in records] == [False, False, False, True]


def test_unknown_propositions_are_told_with_their_neighbours():
    task = machine([(0, ACCEPT, [APPLE])])
    with pytest.raises(AtlasError, match="'aple' is not a proposition; did you mean apple"):
        follow(task, [{"aple"}], VOCABULARY)
    with pytest.raises(AtlasError, match="9 is not a proposition: ids go from 0 to 5"):
        follow(task, [{9}], VOCABULARY)


def test_public_follow_speaks_minigrid():
    task = machine([(0, ACCEPT, [1 + 6], 1.0)])
    assert atlas.follow(task, [{"front_ball"}])[0].accepted, "front_ball is proposition 6"
    assert not atlas.follow(task, [{"front_ball_red"}])[0].accepted, "labels are not closed under implication"
