"""Can it be done? The paper's check for thousands of problems at once, and verdicts with proof for single ones.

The package can be called: `atlas.solve(problem)` is `atlas.solve.prove.solve(problem)`.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atlas.solve.prove import Solution
    from atlas.types import Problem


class _Callable(ModuleType):
    """A package that is also its main function: both are to be called `atlas.solve`."""

    def __call__(self, problem: "Problem", **options: Any) -> "Solution":
        from atlas.solve.prove import solve

        return solve(problem, **options)


sys.modules[__name__].__class__ = _Callable
