"""Decision diagrams against truth tables."""

from hypothesis import given
from hypothesis import strategies as st

from atlas.tasks.automata import LEAF, Diagrams, possible
from twins.vocabularies import fruit

VARIABLES = range(4)
LABELS = [frozenset(v for v in VARIABLES if bits >> v & 1) for bits in range(16)]
tables = st.integers(0, 2**16 - 1)


def function(diagrams: Diagrams, table: int):
    """The diagram of a truth table, one bit a label."""
    result = 0
    for number, label in enumerate(LABELS):
        if table >> number & 1:
            cube = tuple(v + 1 if v in label else -v - 1 for v in VARIABLES)
            result = diagrams.either(result, diagrams.conjunction(cube))
    return result


def evaluate(diagrams: Diagrams, root, label):
    while diagrams.variable[root] != LEAF:
        root = diagrams.split(root, diagrams.variable[root])[diagrams.variable[root] in label]
    return diagrams.low[root]


def table_of(diagrams: Diagrams, root) -> int:
    return sum(bool(evaluate(diagrams, root, label)) << n for n, label in enumerate(LABELS))


def covered(cubes, label) -> bool:
    return any(all((abs(x) - 1 in label) == (x > 0) for x in cube) for cube in cubes)


@given(tables, tables)
def test_equal_functions_are_equal_numbers(one, other):
    diagrams = Diagrams()
    a, b = function(diagrams, one), function(diagrams, other)
    assert (a == b) == (one == other)
    assert table_of(diagrams, diagrams.both(a, b)) == one & other
    assert table_of(diagrams, diagrams.either(a, b)) == one | other
    assert table_of(diagrams, diagrams.negate(a)) == one ^ (2**16 - 1)
    assert diagrams.negate(diagrams.negate(a)) == a


@given(tables, tables)
def test_covers_lie_between_their_bounds_and_need_every_cube(one, other):
    diagrams = Diagrams()
    lower, upper = function(diagrams, one & other), function(diagrams, one | other)
    cubes = diagrams.cover(lower, upper)
    for number, label in enumerate(LABELS):
        if (one & other) >> number & 1:
            assert covered(cubes, label)
        if not (one | other) >> number & 1:
            assert not covered(cubes, label)
    for left_out in cubes:
        others = [cube for cube in cubes if cube is not left_out]
        assert any((one & other) >> n & 1 and not covered(others, label) for n, label in enumerate(LABELS))


@given(tables)
def test_values_are_those_that_are_taken(table):
    diagrams = Diagrams()
    root = function(diagrams, table)
    assert set(diagrams.values(root)) == {bool(evaluate(diagrams, root, label)) for label in LABELS}


def test_what_is_possible_follows_implications_and_exclusions():
    diagrams = Diagrams()
    care = possible(diagrams, VARIABLES, fruit(implies=[(0, 1)], excludes=[(1, 2)]))
    allowed = {label for label in LABELS if not (0 in label and 1 not in label) and not {1, 2} <= label}
    assert {label for label in LABELS if evaluate(diagrams, care, label)} == allowed
