"""Decision diagrams: functions from labels to values, shared and reduced, so that equal functions are equal numbers.

A diagram asks about variables in ascending order and ends in a leaf. Variables are proposition ids (front ends may
use larger numbers for variables of their own).
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final

import numpy as np

LEAF: Final = 1 << 40
"""Variable of a leaf: larger than any other, so that it is asked last."""

Diagram = int
Cube = tuple[int, ...]
"""A conjunction of signed literals, `variable + 1`."""


class Diagrams:
    """A pool of diagrams. The leaves False and True are always numbers 0 and 1."""

    def __init__(self) -> None:
        self.variable: list[int] = []
        self.low: list[Any] = []
        self.high: list[Any] = []
        self._known: dict[tuple[Any, ...], Diagram] = {}
        self._memo: dict[tuple[Any, ...], Diagram] = {}
        self._covers: dict[tuple[Diagram, Diagram], tuple[list[Cube], Diagram]] = {}
        self.leaf(False)
        self.leaf(True)

    def leaf(self, value: Hashable) -> Diagram:
        """The function that is `value` everywhere."""
        return self._intern((LEAF, type(value), value), LEAF, value, value)

    def node(self, variable: int, low: Diagram, high: Diagram) -> Diagram:
        """`high` where the variable holds, else `low`; both ask only about later variables."""
        return low if low == high else self._intern((variable, low, high), variable, low, high)

    def literal(self, variable: int) -> Diagram:
        """The function that tells whether a variable holds."""
        return self.node(variable, 0, 1)

    def _intern(self, key: tuple[Any, ...], variable: int, low: Any, high: Any) -> Diagram:
        if key not in self._known:
            self._known[key] = len(self.variable)
            self.variable.append(variable)
            self.low.append(low)
            self.high.append(high)
        return self._known[key]

    def value(self, root: Diagram) -> Any:
        """What a leaf holds."""
        return self.low[root]

    def is_leaf(self, root: Diagram) -> bool:
        return self.variable[root] == LEAF

    def split(self, root: Diagram, variable: int) -> tuple[Diagram, Diagram]:
        """The function where the variable does not hold, and where it does. No earlier variable may be asked."""
        return (self.low[root], self.high[root]) if self.variable[root] == variable else (root, root)

    def combine(self, name: str, function: Callable[..., Hashable], *roots: Diagram) -> Diagram:
        """Apply a function to the leaves of several diagrams. `name` must stand for one function in this pool."""
        key = (name, *roots)
        if key not in self._memo:
            variable = min(self.variable[r] for r in roots)
            if variable == LEAF:
                self._memo[key] = self.leaf(function(*(self.low[r] for r in roots)))
            else:
                lows, highs = zip(*(self.split(r, variable) for r in roots), strict=True)
                low, high = self.combine(name, function, *lows), self.combine(name, function, *highs)
                self._memo[key] = self.node(variable, low, high)
        return self._memo[key]

    def both(self, a: Diagram, b: Diagram) -> Diagram:
        """Conjunction of two yes-or-no functions."""
        if a == b or b == 1:
            return a
        if a == 1:
            return b
        return 0 if 0 in (a, b) else self.combine("and", lambda x, y: x and y, *sorted((a, b)))

    def negate(self, a: Diagram) -> Diagram:
        """The opposite of a yes-or-no function."""
        return 1 - a if a < 2 else self.combine("not", lambda x: not x, a)

    def either(self, a: Diagram, b: Diagram) -> Diagram:
        """Disjunction of two yes-or-no functions."""
        if a == b or b == 0:
            return a
        if a == 0:
            return b
        return 1 if 1 in (a, b) else self.combine("or", lambda x, y: x or y, *sorted((a, b)))

    def choose(self, condition: Diagram, yes: Diagram, no: Diagram) -> Diagram:
        """`yes` where the condition holds, else `no`."""
        if condition in (0, 1):
            return yes if condition else no
        return self.combine("choose", lambda c, y, n: y if c else n, condition, yes, no)

    def conjunction(self, cube: Iterable[int]) -> Diagram:
        """The function that tells whether all literals of a cube hold."""
        result = 1
        for literal in cube:
            holds = self.literal(abs(literal) - 1)
            result = self.both(result, holds if literal > 0 else self.negate(holds))
        return result

    def relabel(self, roots: Iterable[Diagram], values: Callable[[Any], Hashable]) -> list[Diagram]:
        """The functions with each value replaced."""
        memo: dict[Diagram, Diagram] = {}

        def walk(r: Diagram) -> Diagram:
            if r not in memo:
                if self.variable[r] == LEAF:
                    memo[r] = self.leaf(values(self.low[r]))
                else:
                    memo[r] = self.node(self.variable[r], walk(self.low[r]), walk(self.high[r]))
            return memo[r]

        return [walk(root) for root in roots]

    def equals(self, root: Diagram, value: Hashable) -> Diagram:
        """Where the function has this value."""
        key = ("equals", root, value)
        if key not in self._memo:
            if self.variable[root] == LEAF:
                self._memo[key] = int(self.low[root] == value)
            else:
                low, high = self.equals(self.low[root], value), self.equals(self.high[root], value)
                self._memo[key] = self.node(self.variable[root], low, high)
        return self._memo[key]

    def values(self, root: Diagram) -> list[Any]:
        """All values the function can take, each once, in the order of a walk that tries `holds` first."""
        seen: dict[Diagram, None] = {}
        stack = [root]
        while stack:
            r = stack.pop()
            if r not in seen:
                seen[r] = None
                if not self.is_leaf(r):
                    stack += [self.low[r], self.high[r]]
        return [self.low[r] for r in seen if self.is_leaf(r)]

    def cover(self, lower: Diagram, upper: Diagram) -> list[Cube]:
        """Few short cubes whose disjunction lies between two yes-or-no functions (irredundant sum of products)."""
        return self._cover(lower, upper)[0]

    def _cover(self, lower: Diagram, upper: Diagram) -> tuple[list[Cube], Diagram]:
        if lower == 0:
            return [], 0
        if upper == 1:
            return [()], 1
        if (lower, upper) not in self._covers:
            self._covers[lower, upper] = self._split_cover(lower, upper)
        return self._covers[lower, upper]

    def _split_cover(self, lower: Diagram, upper: Diagram) -> tuple[list[Cube], Diagram]:
        """Cubes that need the first variable to fail, to hold, and the rest, which do not care."""
        variable = min(self.variable[lower], self.variable[upper])
        lower_0, lower_1 = self.split(lower, variable)
        upper_0, upper_1 = self.split(upper, variable)
        cubes_0, covered_0 = self._cover(self.both(lower_0, self.negate(upper_1)), upper_0)
        cubes_1, covered_1 = self._cover(self.both(lower_1, self.negate(upper_0)), upper_1)
        rest_0 = self.both(lower_0, self.negate(covered_0))
        rest_1 = self.both(lower_1, self.negate(covered_1))
        cubes, covered = self._cover(self.either(rest_0, rest_1), self.both(upper_0, upper_1))
        cubes = [
            *((variable + 1, *cube) for cube in cubes_1),
            *cubes,
            *((-variable - 1, *cube) for cube in cubes_0),
        ]
        return cubes, self.node(variable, self.either(covered_0, covered), self.either(covered_1, covered))


def possible(diagrams: Diagrams, props: Iterable[int], implies: np.ndarray, excludes: np.ndarray) -> Diagram:
    """Which labels can occur, as far as implications and exclusions between the given propositions tell."""
    props = sorted(props)
    result = 1
    for i in props:
        for j in props:
            if i != j and implies[i, j]:
                result = diagrams.both(result, diagrams.negate(diagrams.conjunction((i + 1, -j - 1))))
            if i < j and excludes[i, j]:
                result = diagrams.both(result, diagrams.negate(diagrams.conjunction((i + 1, j + 1))))
    return result
