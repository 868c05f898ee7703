"""Verdicts with proof: a plan that the world accepts, or a reason why there can be none.

*Solvable* comes with a plan, found in a model of the world (`boards`, `search`) and replayed in the world itself.
*Unsolvable* comes from an abstraction that allows at least what the world allows (`bounds`), or from an exhaustive
search. What is neither within the budget is *unknown*. Nothing depends on the clock, so verdicts can be repeated.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Final

from atlas.domains.minigrid.solver.boards import ProductState, read_scene
from atlas.domains.minigrid.solver.bounds import LOST, AbstractProduct, lower_bound, why_unsolvable
from atlas.domains.minigrid.solver.search import PORTFOLIO, SHORTENING, GuardRegions, Search, exhaust
from atlas.errors import AtlasError
from atlas.proofs import LOST_AT_ONCE, TRIVIAL, Solution, decide_many
from atlas.settings import STEP_LIMIT
from atlas.tasks.packed import unpack
from atlas.types import Problem
from atlas.vocabulary import ACCEPTED, REJECTED

BUDGET: Final = 1500
"""Nodes that are searched before giving up: about a second."""


def solve_many(
    problems: Sequence[Problem],
    step_limit: int = STEP_LIMIT,
    budget: int = BUDGET,
    polish: int = 0,
    bound: bool = True,
    workers: int = 1,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> list[Solution]:
    """Decide for each problem whether it can be solved within the step limit, and prove it either way.

    `budget`: nodes that are searched before giving up; `polish`: nodes that are searched for a shorter plan once there
    is one; `bound`: give a lower bound on the steps; `progress` is called with how many of how many are done.
    `workers` as in `decide_many`.
    """
    decide = functools.partial(propose, step_limit=step_limit, budget=budget, polish=polish, bound=bound)
    return decide_many(decide, problems, step_limit, workers, progress)


def propose(
    problem: Problem, step_limit: int = STEP_LIMIT, budget: int = BUDGET, polish: int = 0, bound: bool = True
) -> Solution:
    """The solution of one problem, but with a plan that was not yet replayed in the world."""
    if step_limit < 1 or budget < 1:
        raise AtlasError(f"step_limit = {step_limit} and budget = {budget} must both be at least 1")
    try:
        task = unpack(problem.task).flat
    except AtlasError as error:
        return Solution("unknown", str(error))
    scene, agent, direction = read_scene(problem.level)
    start = ProductState(agent, direction, 0)
    start = start._replace(u=GuardRegions(scene, task).advance(start))
    if task.outcomes[start.u] == ACCEPTED:
        return TRIVIAL
    if task.outcomes[start.u] == REJECTED:
        return LOST_AT_ONCE
    product = AbstractProduct(scene, task, start)
    if product.distance(start.u, scene) >= LOST:
        return Solution("unsolvable", why_unsolvable(product))
    least = lower_bound(product, start) if bound else None
    if least is not None and least > step_limit:
        return Solution("unsolvable", f"at least {least} steps are needed, and only {step_limit} are allowed")
    plan, spent = _find(product, start, step_limit, budget)
    if plan is None:
        everything = exhaust(product, start, step_limit, budget)
        if everything == "impossible":
            return Solution("unsolvable", "everything that can be done was tried, and nothing leads to acceptance")
        if everything is None:
            return Solution("unknown", f"no plan was found among {spent} ways to go on", None, least)
        plan = everything
    plan = _shorten(product, start, plan, polish)
    reason = f"a plan of {len(plan)} step{'s' if len(plan) != 1 else ''}"
    if least is None:
        reason += " was found"
    else:
        reason += ", and none is shorter" if len(plan) == least else f"; at least {least} are needed"
    return Solution("solvable", reason, tuple(plan), least)


def _find(product: AbstractProduct, start: ProductState, step_limit: int, budget: int) -> tuple[list[int] | None, int]:
    """The first plan that a search of the portfolio finds, and how many nodes that took.

    Under a tight limit a longer plan is found first and then shortened.
    """
    spent = 0
    for weights in PORTFOLIO:
        search = Search(product, max(step_limit, STEP_LIMIT), weights)
        plan = search.run(start, max(1, int(budget * weights.share)))
        spent += search.expanded
        if plan is not None and len(plan) > step_limit:
            plan = _shorten(product, start, plan, budget - spent, step_limit)
        if plan is not None and len(plan) <= step_limit:
            return plan, spent
    return None, spent


def _shorten(product: AbstractProduct, start: ProductState, plan: list[int], budget: int, enough: int = 1) -> list[int]:
    """Search on for shorter plans, within a budget of nodes, until one is short enough."""
    for weights in SHORTENING:
        left = int(budget * weights.share)
        while left > 0 and len(plan) > enough:
            search = Search(product, len(plan) - 1, weights)
            shorter = search.run(start, left)
            left -= search.expanded
            if shorter is None:
                break
            plan = shorter
    return plan
