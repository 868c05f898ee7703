"""Plans replayed in the world: the compiled dynamics, the real labels, the task as it was given. For every domain."""

import functools
from collections.abc import Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int, Int32, UInt8

from atlas.domains import domain_of, name_for, settings_class
from atlas.problems import stack
from atlas.programs import Program
from atlas.struct import Struct
from atlas.tasks.machine import Task, natural_size
from atlas.tasks.packed import RewardMachines
from atlas.types import Problem
from atlas.world import World, WorldState

CHUNK: Final = 256
"""Plans that are replayed side by side."""


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
        batch = stack([problems[row] for row in members])
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
    """What the student sees."""
    nodes: Int32[Array, "plans moments depth"]
    """Where the task stands, as rows of its graph, innermost first (-1 unused). Depth 1 for flat tasks."""
    action: UInt8[Array, "plans steps"]
    reward: Float32[Array, "plans steps"]
    """What the action earned."""
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
