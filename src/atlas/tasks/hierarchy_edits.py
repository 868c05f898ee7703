"""Edits of hierarchies: those of bodies, on one machine at a time.

Callees keep their one plain first edge, so calls can always be entered as before. A machine that nothing calls any more
is dropped.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Int8, Int16, Key

from atlas.draw import edit_draws, pick
from atlas.tasks.hrm import Hierarchy, HierarchySize, chains
from atlas.tasks.rm import RUNNING, UNUSED, RewardMachine
from atlas.tasks.surgery import NO_EDGE, NO_LITERAL, Body
from atlas.types import Edit

MACHINE_FACTOR = 100
"""In the lineage a state of a hierarchy is written `100 * machine + state`."""


def bodies(task: Hierarchy) -> Body:
    """All machines, stacked."""
    return Body.unchecked(target=task.target, guard=task.guard, call=task.call, outcome=task.outcome)


def hierarchy_of(machines: Body, like: Hierarchy) -> Hierarchy:
    """A hierarchy of other machines with the same root; it pays nothing yet. What nothing calls is dropped."""
    kept = called(machines.call, like.root)
    target = jnp.where(kept[:, None, None], machines.target, NO_EDGE)
    call = jnp.where(kept[:, None, None], machines.call, NO_EDGE)
    return like.replace(
        target=target,
        guard=jnp.where(kept[:, None, None, None], machines.guard, NO_LITERAL),
        reward=jnp.zeros_like(like.reward),
        outcome=jnp.where(kept[:, None], machines.outcome, jnp.int8(RUNNING)),
        call=call,
        chain=chains(target, call, *like.chain.shape[-2:]),
    )


def lone(task: RewardMachine, size: HierarchySize) -> Hierarchy:
    """A hierarchy whose root is a flat machine and calls nothing."""

    def first(array: Array, empty: Any) -> Array:
        return jnp.full((size.machines, *array.shape), empty, array.dtype).at[0].set(array)

    target = first(task.target, UNUSED)
    call = jnp.full_like(target, UNUSED)
    return Hierarchy(
        target=target,
        guard=first(task.guard, 0),
        reward=first(task.reward, 0.0),
        outcome=first(task.outcome, RUNNING),
        call=call,
        root=jnp.int8(0),
        chain=chains(target, call, size.chains, size.links),
    )


def called(call: Int8[Array, "machines states edges"], root: Int8[Array, ""]) -> Bool[Array, "machines"]:
    """Which machines the root calls, through others or not; the root included."""
    numbers = jnp.arange(call.shape[0])
    calls = jnp.any(call[:, :, :, None] == numbers[None, None, None, :], axis=(1, 2))
    spread = lambda _, on: on | jnp.any(calls & on[:, None], axis=0)  # noqa: E731
    return jax.lax.fori_loop(0, call.shape[0] - 1, spread, numbers == root)


def on_hierarchy(
    name: str, can: Callable[..., Any], make: Callable[..., Any], reward: Callable[[Any], Any]
) -> Edit[Any]:
    """An edit of bodies as one of hierarchies: a random machine that it applies to."""

    def candidates(task: Hierarchy) -> tuple[Bool[Array, "machines"], Bool[Array, "machines"]]:
        is_callee = jnp.arange(task.target.shape[0]) != task.root
        return jax.vmap(can)(bodies(task), is_callee), is_callee

    def applicable(task: Hierarchy) -> Bool[Array, ""]:
        return jnp.any(candidates(task)[0])

    def apply(key: Key[Array, ""], task: Hierarchy) -> tuple[Hierarchy, Int16[Array, "3"]]:
        u = edit_draws(key)
        applies, is_callee = candidates(task)
        machine = pick(u[-1], applies)
        body: Body = jax.tree.map(lambda x: x[machine], bodies(task))
        changed, arguments = make(u, body, is_callee[machine])
        machines: Body = jax.tree.map(lambda all_, one: all_.at[machine].set(one), bodies(task), changed)
        return reward(hierarchy_of(machines, task)), arguments.at[0].add(MACHINE_FACTOR * machine).astype(jnp.int16)

    return Edit(name, applicable, apply)
