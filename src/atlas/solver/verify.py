"""Plans put to the test of the real world: the compiled dynamics, the real labels, the task as it was given."""

import functools
from collections.abc import Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Int, Int32

from atlas.config import DomainConfig
from atlas.domains.minigrid.domain import Minigrid
from atlas.tasks.hrm import Hierarchies
from atlas.tasks.rm import RewardMachine, RewardMachines
from atlas.types import Problem
from atlas.world import World, WorldState

CHUNK: Final = 256
"""Plans that are replayed side by side."""


def accepted(problems: Problem, plans: Sequence[Sequence[int]], step_limit: int) -> np.ndarray:
    """`bool[batch]`: whether each plan ends, at the latest at the step limit, with its task accepted."""
    verdicts = []
    for start in range(0, len(plans), CHUNK):
        some = plans[start : start + CHUNK]
        members = np.resize(np.arange(start, start + len(some)), CHUNK if len(plans) > 1 else 1)
        batch = jax.tree.map(lambda x, chosen=members: np.asarray(x)[chosen], problems)
        actions, lengths = _pad(some, len(members), step_limit)
        replay = _replay(isinstance(problems.task, RewardMachine), step_limit)
        verdicts.append(np.asarray(replay(batch, actions, lengths))[: len(some)])
    return np.concatenate(verdicts) if verdicts else np.zeros(0, bool)


def _pad(plans: Sequence[Sequence[int]], rows: int, step_limit: int) -> tuple[np.ndarray, np.ndarray]:
    actions, lengths = np.zeros((rows, step_limit), np.int32), np.zeros(rows, np.int32)
    for row, plan in enumerate(plans):
        lengths[row] = len(plan)
        actions[row, : len(plan)] = plan[:step_limit]
    return actions, lengths


@functools.cache
def _replay(is_flat: bool, step_limit: int) -> Any:
    formalism = (RewardMachines if is_flat else Hierarchies)(sample=_no_sampler)
    world = World(Minigrid(DomainConfig()), formalism, step_limit)
    return jax.jit(jax.vmap(functools.partial(_is_accepted, world)))


def _no_sampler(key: Any, mask: Any) -> Any:
    raise AssertionError("a replay draws no tasks")


def _is_accepted(
    world: World, problem: Problem, actions: Int32[Array, "steps"], length: Int[Array, ""]
) -> Bool[Array, ""]:
    """Follow one plan to its end or to the end of the episode."""

    def go_on(moment: tuple[WorldState, Array, Array]) -> Bool[Array, ""]:
        state, done, _ = moment
        return ~done & (state.time < length)

    def act(moment: tuple[WorldState, Array, Array]) -> tuple[WorldState, Array, Array]:
        state, _, _ = moment
        after, step = world.step(problem, state, actions[state.time])
        return after, step.done, step.accepted

    start = world.reset(problem)
    return jax.lax.while_loop(go_on, act, (start, jnp.bool_(False), jnp.bool_(False)))[2]
