"""Verdicts with proof: a plan that the real world accepts, or a reason why there can be none.

*Solvable* comes with a plan; it was found in a second telling of the world (`search`) and replayed in the first
(`verify`). *Unsolvable* comes from an abstraction that allows at least what the world allows (`outlook`). What is
neither within the budget is *unknown*. Nothing here depends on the clock, so verdicts can be repeated.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal

import jax
import numpy as np

from atlas.domains.minigrid.scene import Scene, read_scene
from atlas.errors import AtlasError
from atlas.solver.exhaust import exhaust
from atlas.solver.lower_bound import lower_bound
from atlas.solver.machine import Machine, flat, read_machine
from atlas.solver.outlook import LOST, Outlook
from atlas.solver.reason import why_unsolvable
from atlas.solver.roam import Leads, Stand
from atlas.solver.search import POLISH, STYLES, Search
from atlas.solver.verify import accepted
from atlas.types import Problem
from atlas.vocabulary import ACCEPTED, REJECTED

Verdict = Literal["solvable", "unsolvable", "unknown"]
STEP_LIMIT: Final = 512
BUDGET: Final = 1500
"""Nodes that are searched before giving up: about a second."""
POLISHING: Final = 300
"""Nodes that are searched for a shorter plan once there is one."""


@dataclass(frozen=True)
class Solution:
    """What is known about a problem."""

    verdict: Verdict
    reason: str
    """A sentence: what the plan comes to, what is impossible, or what was tried."""
    plan: tuple[int, ...] | None = None
    """Actions that solve it."""
    lower_bound: int | None = None
    """No plan is shorter than this; None if it was not asked for or there is no plan."""
    trivial: bool = False
    """The first label alone completes the task."""

    @property
    def plan_length(self) -> int | None:
        """Steps of the plan."""
        return None if self.plan is None else len(self.plan)


def solve(problem: Problem, step_limit: int = STEP_LIMIT, budget: int = BUDGET, polish: int = POLISHING) -> Solution:
    """Decide whether a problem can be solved within the step limit, and prove it either way."""
    found = propose(problem, step_limit, budget, polish)
    if found.plan:
        one = jax.tree.map(lambda x: np.asarray(x)[None], Problem.unchecked(level=problem.level, task=problem.task))
        found = confirm(found, bool(accepted(one, [found.plan], step_limit)[0]))
    return found


def confirm(found: Solution, is_accepted: bool) -> Solution:
    """A solution whose plan was replayed; one that failed proves nothing."""
    if found.plan and not is_accepted:
        return Solution("unknown", "a plan was found that the world does not accept: please report this problem")
    return found


def propose(
    problem: Problem, step_limit: int = STEP_LIMIT, budget: int = BUDGET, polish: int = 0, bound: bool = True
) -> Solution:
    """As `solve`, but the plan is not yet replayed in the real world."""
    if step_limit < 1 or budget < 1:
        raise AtlasError(f"step_limit = {step_limit} and budget = {budget} must both be at least 1")
    try:
        machine = read_machine(flat(problem.task))
    except AtlasError as error:
        return Solution("unknown", str(error))
    scene, agent, direction = read_scene(problem.level)
    start = Stand(agent, direction, 0)
    start = start._replace(u=Leads(scene, machine).after(start))
    return _at_reset(machine, start) or _decide(scene, machine, start, step_limit, (budget, polish), bound)


def _at_reset(machine: Machine, start: Stand) -> Solution | None:
    """The verdict if the first label ends the task."""
    if machine.outcome[start.u] == ACCEPTED:
        return Solution("solvable", "trivial: the first label alone completes the task", (), 0, trivial=True)
    if machine.outcome[start.u] == REJECTED:
        return Solution("unsolvable", "the first label already leads to rejection")
    return None


def _decide(
    scene: Scene, machine: Machine, start: Stand, step_limit: int, effort: tuple[int, int], bound: bool
) -> Solution:
    outlook = Outlook(scene, start.cell, machine, start.u)
    if outlook.distance(start.u, scene) >= LOST:
        return Solution("unsolvable", why_unsolvable(outlook))
    least = lower_bound(scene, start, machine, outlook) if bound else None
    if least is not None and least > step_limit:
        return Solution("unsolvable", f"at least {least} steps are needed, and only {step_limit} are allowed")
    budget, polish = effort
    plan, spent = _find(outlook, scene, start, step_limit, budget)
    if plan is None:
        everything = exhaust(outlook, scene, start, step_limit, budget)
        if everything == "impossible":
            return Solution("unsolvable", "everything that can be done was tried, and nothing leads to acceptance")
        if everything is None:
            return Solution("unknown", f"no plan was found among {spent} ways to go on", None, least)
        plan = everything
    plan = _shorten(outlook, scene, start, plan, polish)
    return Solution("solvable", _praise(len(plan), least), tuple(plan), least)


def _find(outlook: Outlook, scene: Scene, start: Stand, step_limit: int, budget: int) -> tuple[list[int] | None, int]:
    """The first plan that one of the styles finds, and how many nodes that took.

    Under a tight limit a longer plan is found first and then shortened.
    """
    spent = 0
    for style in STYLES:
        search = Search(outlook, max(step_limit, STEP_LIMIT), style)
        plan = search.run(scene, start, max(1, int(budget * style.share)))
        spent += search.expanded
        if plan is not None and len(plan) > step_limit:
            plan = _shorten(outlook, scene, start, plan, budget - spent, step_limit)
        if plan is not None and len(plan) <= step_limit:
            return plan, spent
    return None, spent


def _shorten(outlook: Outlook, scene: Scene, start: Stand, plan: list[int], polish: int, enough: int = 0) -> list[int]:
    """Search on for shorter plans, within a budget of nodes, until one is short enough."""
    for style in POLISH:
        left = int(polish * style.share)
        while left > 0 and len(plan) > max(enough, 1):
            search = Search(outlook, len(plan) - 1, style)
            shorter = search.run(scene, start, left)
            left -= search.expanded
            if shorter is None:
                break
            plan = shorter
    return plan


def _praise(length: int, least: int | None) -> str:
    steps = f"a plan of {length} step{'s' if length != 1 else ''}"
    if least is None:
        return f"{steps} was found"
    return f"{steps}, and none is shorter" if length == least else f"{steps}; at least {least} are needed"


def counted(solutions: list[Solution]) -> dict[str, Any]:
    """How often each verdict was given, and more about a set."""
    verdicts = [s.verdict for s in solutions]
    lengths = [len(s.plan) for s in solutions if s.plan is not None]
    return {
        "problems": len(solutions),
        "solvable": verdicts.count("solvable"),
        "unsolvable": verdicts.count("unsolvable"),
        "unknown": verdicts.count("unknown"),
        "trivial": sum(s.trivial for s in solutions),
        "mean_plan_length": float(np.mean(lengths)) if lengths else None,
    }
