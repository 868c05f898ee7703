"""Every kind of mistake is told in one sentence, and sound tasks are left alone."""

import pytest

from atlas.tasks.check import Finding, check
from atlas.tasks.hrm import hierarchy
from atlas.tasks.rm import ACCEPT, REJECT, machine
from twins.vocabularies import fruit

APPLE, PEAR, PLUM, FIG = 1, 2, 3, 4
VOCABULARY = fruit(implies=[(0, 1)], excludes=[(0, 3)])
"""Apple implies pear and excludes fig."""


def test_a_sound_task_has_no_findings():
    assert check(machine([(0, 1, [PLUM]), (0, REJECT, [FIG, -PLUM]), (1, ACCEPT, [PEAR])]), VOCABULARY) == []


@pytest.mark.parametrize(
    ("edges", "finding"),
    [
        (
            [(0, 1, [APPLE]), (0, ACCEPT, [PEAR]), (1, ACCEPT, [PLUM])],
            Finding("error", "u0 is not deterministic: apple (to u1) and pear (to uA) can hold at once"),
        ),
        (
            [(0, 1, [APPLE, -PEAR]), (0, ACCEPT, [PLUM]), (1, ACCEPT, [PLUM])],
            Finding("warning", "the guard of u0 -> u1 can never hold: apple & -pear"),
        ),
        ([(0, ACCEPT, [])], Finding("warning", "the guard of u0 -> uA always holds: it has no literals")),
        ([(0, 1, [APPLE]), (1, ACCEPT, [APPLE, FIG])], Finding("error", "no labels lead to acceptance")),
        ([(0, REJECT, [APPLE])], Finding("error", "no labels lead to acceptance")),
        (
            [(0, ACCEPT, [PLUM]), (0, 1, [FIG, -PLUM])],
            Finding("warning", "from u1 acceptance can no longer be reached"),
        ),
        ([(0, ACCEPT, [PLUM]), (1, ACCEPT, [PLUM])], Finding("warning", "no labels lead to u1")),
        (
            [(0, 1, [APPLE]), (1, ACCEPT, [PEAR])],
            Finding("warning", "pear (from u1 to uA) holds whenever apple led there"),
        ),
    ],
)
def test_mistakes_are_told(edges, finding):
    assert finding in check(machine(edges), VOCABULARY)


def test_parallel_edges_may_overlap():
    assert check(machine([(0, ACCEPT, [PLUM], 1.0), (0, ACCEPT, [FIG], 1.0)]), VOCABULARY) == []


def test_guards_that_exclude_each_other_may_stand_side_by_side():
    assert check(machine([(0, ACCEPT, [APPLE]), (0, REJECT, [FIG])]), VOCABULARY) == []


def test_a_task_that_is_over_at_once_is_told():
    assert [f.level for f in check(machine([], accepting=[0]), VOCABULARY)] == ["warning"]


def test_hierarchies_are_checked_through_their_calls():
    sound = [[(0, 1, [PLUM], 0.0, 1), (1, ACCEPT, [PEAR], 1.0)], [(0, ACCEPT, [FIG])]]
    assert check(hierarchy(sound), VOCABULARY) == []
    impossible = [[(0, ACCEPT, [APPLE], 1.0, 1)], [(0, ACCEPT, [FIG])]]
    assert Finding("error", "no labels lead to acceptance") in check(hierarchy(impossible), VOCABULARY)
    torn = [[(0, ACCEPT, [PLUM], 1.0, 1)], [(0, 1, [FIG]), (1, ACCEPT, [PLUM]), (1, REJECT, [PEAR])]]
    assert Finding("error", "m1:u1 is not deterministic: plum (to uA) and pear (to uR) can hold at once") in check(
        hierarchy(torn), VOCABULARY
    )


def test_exclusive_callees_make_overlapping_calls_deterministic():
    calls = [[(0, ACCEPT, [PLUM], 1.0, 1), (0, REJECT, [PEAR], 0.0, 2)], [(0, ACCEPT, [APPLE])], [(0, ACCEPT, [FIG])]]
    assert check(hierarchy(calls), VOCABULARY) == []


def test_cyclic_calls_in_an_array_are_told():
    task = hierarchy([[(0, ACCEPT, [PLUM], 1.0, 1)], [(0, ACCEPT, [FIG])]])
    assert "cyclic" in check(task.replace(call=task.call.at[1, 0, 0].set(1)), VOCABULARY)[0].sentence
