"""LTLf against the textbook definition, and what is said about odd formulas."""

import itertools
import random
import re
import warnings

import pytest

from atlas.errors import AtlasError, TaskWarning, TextError
from atlas.tasks.ltlf import ltlf, parse
from atlas.vocabulary import ACCEPTED, REJECTED, RUNNING
from twins.ltlf import BINARY, CO_SAFE, UNARY, random_formula, random_trace, satisfies, write
from twins.machines import follow_flat
from twins.vocabularies import FRUIT, fruit

VOCABULARY = fruit()


def compiled(formula):
    """The machine, or None where the formula is refused because it can never be accepted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TaskWarning)
        try:
            return ltlf(write(formula, FRUIT), VOCABULARY)
        except AtlasError:
            return None


def test_co_safe_formulas_accept_exactly_the_traces_that_satisfy_them():
    rng = random.Random(1)
    pairs = satisfied = 0
    while pairs < 10_000:
        formula = random_formula(rng, rng.randrange(1, 7), 3, CO_SAFE)
        task = compiled(formula)
        for _ in range(25):
            trace = random_trace(rng, rng.randrange(1, 7), 3)
            outcome = RUNNING if task is None else follow_flat(task, trace)[-1]
            assert (outcome == ACCEPTED) == satisfies(trace, formula), (write(formula, FRUIT), trace)
            pairs += 1
            satisfied += outcome == ACCEPTED
    assert 2_000 < satisfied < 8_000


def test_any_formula_is_settled_when_the_machine_says_so():
    rng = random.Random(2)
    checked = 0
    while checked < 4_000:
        formula = random_formula(rng, rng.randrange(1, 7), 3, UNARY + BINARY)
        task = compiled(formula)
        if task is None:
            continue
        for _ in range(10):
            trace = random_trace(rng, 8, 3)
            for length, outcome in enumerate(follow_flat(task, trace), start=1):
                if outcome != RUNNING:
                    assert satisfies(trace[:length], formula) == (outcome == ACCEPTED)
                    checked += 1


def test_nothing_is_settled_later_than_it_could_be():
    """While the machine runs, one continuation satisfies the formula and another does not (all short ones tried)."""
    rng = random.Random(3)
    labels = [set(), {0}, {1}, {0, 1}]
    continuations = [list(t) for n in range(4) for t in itertools.product(labels, repeat=n)]
    checked = 0
    while checked < 50:
        formula = random_formula(rng, rng.randrange(1, 4), 2, UNARY + BINARY)
        task = compiled(formula)
        if task is None:
            continue
        trace = random_trace(rng, rng.randrange(1, 4), 2)
        if follow_flat(task, trace)[-1] == RUNNING:
            assert len({satisfies(trace + more, formula) for more in continuations}) == 2, write(formula, FRUIT)
            checked += 1


def test_rejects_as_soon_as_nothing_can_help():
    task = ltlf("!pear U apple", VOCABULARY)
    assert follow_flat(task, [set(), {1}, {0}]) == [RUNNING, REJECTED, REJECTED]
    assert follow_flat(task, [set(), {0}]) == [RUNNING, ACCEPTED]


@pytest.mark.parametrize(
    ("text", "states", "edges"),
    [
        ("F apple", 2, 1),
        ("F(apple & X F pear)", 3, 2),
        ("F apple & F pear", 4, 5),
        ("F(apple | pear)", 2, 2),
        ("F apple | F apple & F pear", 2, 1),
        ("true", 2, 1),
        ("X X apple", 5, 4),
        ("F G apple | F pear", 2, 1),
        ("last | !last", 2, 1),
    ],
)
@pytest.mark.filterwarnings("ignore::atlas.errors.TaskWarning")
def test_machines_are_small(text, states, edges):
    seen = ltlf(text, VOCABULARY).machines[0]
    assert (len(seen.outcomes), len(seen.edges)) == (states, edges)


def test_guards_are_readable():
    task = ltlf("F((apple | pear) & X F plum)", VOCABULARY)
    assert sorted(edge.literals for edge in task.flat.edges) == [(1,), (2,), (3,)]


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a & b | c", "(a & b) | c"),
        ("a -> b -> c", "a -> (b -> c)"),
        ("a U b U c", "a U (b U c)"),
        ("a U b & c", "(a U b) & c"),
        ("! a U b", "(!a) U b"),
        ("F a & b", "(F a) & b"),
        ("not a and b or c iff a implies b", "((!a) & b | c) <-> (a -> b)"),
        ("~a && b || c", "(!a & b) | c"),
    ],
)
def test_precedence(text, same):
    def formula(text):
        for letter, name in zip("abc", FRUIT, strict=False):
            text = re.sub(rf"\b{letter}\b", name, text)
        return parse(text, VOCABULARY)

    assert formula(text) == formula(same)


def test_synonyms_stand_for_propositions():
    assert parse("F actinidia", VOCABULARY) == parse("F kiwi", VOCABULARY)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("F aple", "'aple' is no proposition; did you mean apple? (column 3)\n    F aple\n      ^^^^"),
        ("F (apple", "this bracket is never closed (column 3)"),
        ("apple pear", "an operator such as & or U is needed before 'pear' (column 7)"),
        ("apple U", "the formula ends where a proposition or an operator is needed (column 8)"),
        ("U apple", "'U' cannot stand here"),
        ("apple\n& $", "'$' means nothing in a formula (line 2, column 3)\n    & $\n      ^"),
        ("", "the formula ends"),
    ],
)
def test_mistakes_are_shown_where_they_are(text, message):
    with pytest.raises(TextError) as error:
        ltlf(text, VOCABULARY)
    assert message in str(error.value)


@pytest.mark.parametrize("text", ["G apple", "false", "apple & !apple", "F apple & G !pear"])
def test_what_can_never_be_accepted_is_refused(text):
    with pytest.raises(AtlasError, match="can never be accepted"):
        ltlf(text, VOCABULARY)


def test_a_warning_tells_that_a_formula_is_not_co_safe():
    with pytest.warns(TaskWarning, match="not co-safe"):
        ltlf("F apple | G pear", VOCABULARY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ltlf("(!pear U apple) & F plum", VOCABULARY)


def test_a_warning_tells_that_propositions_exclude_each_other():
    with pytest.warns(TaskWarning, match="exclude each other"):
        ltlf("F(apple & pear)", fruit(excludes=[(0, 1)]))
    with pytest.warns(TaskWarning, match="exclude each other"):
        ltlf("F(apple & !pear)", fruit(implies=[(0, 1)]))


def test_too_large_a_formula_is_refused():
    with pytest.raises(AtlasError, match="needs 203 states; at most 127 are possible"):
        ltlf("X " * 200 + "apple", VOCABULARY)
    with pytest.raises(AtlasError, match="nested too deeply"):
        ltlf("(" * 5_000 + "apple" + ")" * 5_000, VOCABULARY)
