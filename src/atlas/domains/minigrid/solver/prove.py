"""Verdicts with proof: a plan that the world accepts, or a reason why there can be none.

*Solvable* comes with a plan, found in a model of the world (`boards`, `search`) and replayed in the world itself.
*Unsolvable* comes from an abstraction that allows at least what the world allows (`bounds`), or from an exhaustive
search. What is neither within the budget is *unknown*. Nothing depends on the clock, so verdicts can be repeated.
"""

import functools
import multiprocessing
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Int, Int32

from atlas.domains.minigrid.domain import Minigrid
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.domains.minigrid.solver.boards import ProductState, read_scene
from atlas.domains.minigrid.solver.bounds import LOST, AbstractProduct, lower_bound, why_unsolvable
from atlas.domains.minigrid.solver.search import PORTFOLIO, SHORTENING, GuardRegions, Search, exhaust
from atlas.domains.minigrid.text import MAX_COLS, MAX_ROWS, pad_level
from atlas.errors import AtlasError
from atlas.problems import stack
from atlas.programs import Program
from atlas.settings import STEP_LIMIT
from atlas.tasks.machine import Task, natural_size
from atlas.tasks.packed import RewardMachines, roomy, unpack
from atlas.types import Problem
from atlas.vocabulary import ACCEPTED, REJECTED
from atlas.world import World, WorldState

Verdict = Literal["solvable", "unsolvable", "unknown"]
BUDGET: Final = 1500
"""Nodes that are searched before giving up: about a second."""


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


MANY: Final = 200
"""From so many problems on, other processes are worth their start."""
PIECE: Final = 16
"""Problems that are handed to another process at a time."""


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

    More than one worker starts other Python processes, so a script must call it under `if __name__ == "__main__"`; 0
    takes one a core if the problems are many.
    """
    workers = workers or ((os.cpu_count() or 1) if len(problems) >= MANY else 1)
    decide = functools.partial(propose, step_limit=step_limit, budget=budget, polish=polish, bound=bound)
    found: list[Solution] = []

    def collect(solutions: Iterable[Solution]) -> None:
        for solution in solutions:
            found.append(solution)
            progress(len(found), len(problems))

    if workers == 1:
        collect(map(decide, problems))
    else:
        plain = [
            Problem.unchecked(level=jax.tree.map(np.asarray, problem.level), task=unpack(problem.task))
            for problem in problems
        ]
        # A process that is forked from one in which JAX runs may hang, so they are started afresh.
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            collect(pool.map(decide, plain, chunksize=PIECE))
    rows = [row for row, solution in enumerate(found) if solution.plan]
    verdicts = accepted([problems[row] for row in rows], [found[row].plan or () for row in rows], step_limit)
    for row in np.array(rows, int)[~verdicts]:
        sentence = "a plan was found that the world does not accept: please report this problem"
        found[row] = Solution("unknown", sentence)
    return found


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
        return Solution("solvable", "trivial: the first label alone completes the task", (), 0, trivial=True)
    if task.outcomes[start.u] == REJECTED:
        return Solution("unsolvable", "the first label already leads to rejection")
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


# Replaying plans in the world: the compiled dynamics, the real labels, the task as it was given

CHUNK: Final = 256
"""Plans that are replayed side by side."""


def accepted(problems: Sequence[Problem], plans: Sequence[Sequence[int]], step_limit: int) -> np.ndarray:
    """`bool[problems]`: whether each plan ends, at the latest at the step limit, with its task accepted."""
    verdicts = np.zeros(len(plans), bool)
    groups: dict[Any, list[int]] = {}
    for row, problem in enumerate(problems):
        size = natural_size(problem.task) if isinstance(problem.task, Task) else problem.task.size
        groups.setdefault("flat" if size.machines == 1 else size, []).append(row)
    for members in map(np.array, groups.values()):
        chosen = [problems[row] for row in members]
        batch = stack(chosen if len(chosen) > 1 else [_usual_size(chosen[0])])
        lengths = np.array([len(plans[row]) for row in members], np.int32)
        actions = np.zeros((len(members), step_limit), np.int32)
        for place, row in enumerate(members):
            actions[place, : lengths[place]] = plans[row][:step_limit]
        everything = jax.tree.map(np.asarray, (batch, actions, lengths))
        for start in range(0, len(members), CHUNK):
            some = np.arange(start, min(start + CHUNK, len(members)))
            padded = np.resize(some, CHUNK if len(members) > 1 else 1)
            ended = _replay(step_limit)(*jax.tree.map(lambda leaf, rows=padded: leaf[rows], everything))
            verdicts[members[some]] = np.asarray(ended)[: len(some)]
    return verdicts


def _usual_size(problem: Problem) -> Problem:
    """A problem of a size that all single ones have in common, so that one program replays them."""
    return Problem.unchecked(level=pad_level(problem.level, MAX_ROWS, MAX_COLS), task=roomy(problem.task))


@functools.cache
def _replay(step_limit: int) -> Any:
    world = World(Minigrid(MinigridConfig()), RewardMachines(), step_limit)

    def is_accepted(problem: Problem, actions: Int32[Array, "steps"], length: Int[Array, ""]) -> Bool[Array, ""]:
        """Follow one plan to its end or to the end of the episode."""

        def act(moment: tuple[WorldState, Array, Array]) -> tuple[WorldState, Array, Array]:
            after, step = world.step(problem, moment[0], actions[moment[0].time])
            return after, step.done, step.accepted

        start = (world.reset(problem), jnp.bool_(False), jnp.bool_(False))
        return jax.lax.while_loop(lambda moment: ~moment[1] & (moment[0].time < length), act, start)[2]

    return Program(f"replay {step_limit}", lambda: jax.vmap(is_accepted))
