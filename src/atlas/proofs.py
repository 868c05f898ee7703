"""Verdicts with proof: what a solver says of a problem, and plans replayed in the world itself.

A domain's solver decides one problem at a time; here many are decided, in several processes if they are many, and every
plan is played in the compiled world, with the real labels and the task as it was given.
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
from jaxtyping import Bool, Float32, Int, Int32, UInt8

from atlas.domains import domain_of, name_for, settings_class, surface_for
from atlas.problems import stack
from atlas.programs import Program
from atlas.struct import Struct
from atlas.tasks.machine import Task, natural_size
from atlas.tasks.packed import RewardMachines, roomy, unpack
from atlas.types import Problem
from atlas.world import World, WorldState

Verdict = Literal["solvable", "unsolvable", "unknown"]


@dataclass(frozen=True)
class Solution:
    """The verdict on a problem, and a plan where one was found."""

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


TRIVIAL: Final = Solution("solvable", "trivial: the first label alone completes the task", (), 0, trivial=True)
LOST_AT_ONCE: Final = Solution("unsolvable", "the first label already leads to rejection")

MANY: Final = 200
"""From so many problems on, other processes are worth their start."""
PIECE: Final = 16
"""Problems that are handed to another process at a time."""
CHUNK: Final = 256
"""Plans that are replayed side by side."""


def decide_many(
    decide: Callable[[Problem], Solution],
    problems: Sequence[Problem],
    step_limit: int,
    workers: int,
    progress: Callable[[int, int], None],
) -> list[Solution]:
    """The solution of each problem; a plan that the world does not accept makes it unknown.

    More than one worker starts other Python processes, so a script must call it under `if __name__ == "__main__"`; 0
    takes one a core if the problems are many. `progress` is called with how many of how many are done.
    """
    workers = workers or ((os.cpu_count() or 1) if len(problems) >= MANY else 1)
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


# Does a plan do what it should


def accepted(problems: Sequence[Problem], plans: Sequence[Sequence[int]], step_limit: int) -> np.ndarray:
    """`bool[problems]`: whether each plan ends, at the latest at the step limit, with its task accepted."""
    return accepted_after(problems, plans, step_limit) > 0


def accepted_after(problems: Sequence[Problem], plans: Sequence[Sequence[int]], step_limit: int) -> np.ndarray:
    """`int32[problems]`: the action of each plan that completes its task, counted from 1; 0 if none does.

    Nothing is done after an episode is over: a task that its first label completes is never accepted here.
    """
    found = np.zeros(len(plans), np.int32)
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
            replay = _until_accepted(name_for(batch), step_limit)
            ended = replay(*jax.tree.map(lambda leaf, rows=padded: leaf[rows], everything))
            found[members[some]] = np.asarray(ended)[: len(some)]
    return found


def _usual_size(problem: Problem) -> Problem:
    """A problem of a size that most single ones have in common, so that one program replays them."""
    return Problem.unchecked(level=surface_for(problem).pad(problem.level), task=roomy(problem.task))


@functools.cache
def _until_accepted(domain: str, step_limit: int) -> Any:
    world = World(domain_of(settings_class(domain)()), RewardMachines(), step_limit)

    def one(problem: Problem, actions: Int32[Array, "steps"], length: Int[Array, ""]) -> Int32[Array, ""]:
        """Follow one plan to its end or to the end of the episode."""

        def act(moment: tuple[WorldState, Array, Array]) -> tuple[WorldState, Array, Array]:
            after, step = world.step(problem, moment[0], actions[moment[0].time])
            return after, step.done, step.accepted

        start = (world.reset(problem), jnp.bool_(False), jnp.bool_(False))
        going = lambda moment: ~moment[1] & (moment[0].time < length)  # noqa: E731
        state, _, is_accepted = jax.lax.while_loop(going, act, start)
        return jnp.where(is_accepted, state.time, 0)

    return Program(f"replay {domain} {step_limit}", lambda: jax.vmap(one))


# Every moment of a plan


class Transitions(Struct):
    """Plans, moment by moment. Row t is before action t; views and nodes have one row more, for the end."""

    view: UInt8[Array, "plans moments rows cols"]
    """The student's view."""
    nodes: Int32[Array, "plans moments depth"]
    """Where the task stands, as rows of its graph, innermost first (-1 unused). Depth 1 for flat tasks."""
    action: UInt8[Array, "plans steps"]
    reward: Float32[Array, "plans steps"]
    """Reward of the action."""
    done: Bool[Array, "plans steps"]
    """The action ended the episode: the task is accepted or rejected."""
    valid: Bool[Array, "plans steps"]
    """Part of the plan, and not what fills the row up."""


def transitions(
    problems: Problem, plans: UInt8[np.ndarray, "plans steps"], lengths: Int[np.ndarray, "plans"]
) -> Transitions:
    """Replay a batch of plans, on the host's arrays and CHUNK at a time."""
    count = len(lengths)
    replay = _every_moment(name_for(problems))
    found = []
    for start in range(0, count, CHUNK):
        some = np.arange(start, min(start + CHUNK, count))
        rows = np.resize(some, CHUNK)
        part = jax.device_get(
            replay(*jax.tree.map(lambda leaf, rows=rows: np.asarray(leaf)[rows], (problems, plans, lengths)))
        )
        found.append(jax.tree.map(lambda leaf, some=some: np.asarray(leaf)[: len(some)], part))
    return jax.tree.map(lambda *parts: np.concatenate(parts), *found)


@functools.cache
def _every_moment(domain: str) -> Any:
    world = World(domain_of(settings_class(domain)()), RewardMachines(), np.iinfo(np.int32).max)

    def one(problem: Problem, plan: UInt8[Array, "steps"], length: Int[Array, ""]) -> Transitions:
        def look(state: WorldState) -> tuple[Array, Array]:
            return world.domain.view(state.domain), world.formalism.nodes(state.task).astype(jnp.int32)

        def act(state: WorldState, action: Array) -> tuple[WorldState, Any]:
            after, step = world.step(problem, state, action.astype(jnp.int32))
            goes_on = state.time < length
            after = jax.tree.map(lambda new, old: jnp.where(goes_on, new, old), after, state)
            reward = jnp.where(goes_on, step.reward, 0.0)
            return after, (*look(after), reward, step.done & goes_on, goes_on)

        start = world.reset(problem)
        _, (views, nodes, reward, done, valid) = jax.lax.scan(act, start, plan)
        first_view, first_nodes = look(start)
        return Transitions.unchecked(
            view=jnp.concatenate([first_view[None], views]),
            nodes=jnp.concatenate([first_nodes[None], nodes]),
            action=plan,
            reward=reward,
            done=done,
            valid=valid,
        )

    return Program(f"moments {domain}", lambda: jax.vmap(one))
