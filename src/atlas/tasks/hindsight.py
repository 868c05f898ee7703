"""What a task looks like from partial progress: the part before a task state, and the part after it.

On hierarchies both are done to the stack. *After*: the machines on the stack are joined into one, the root, each
continuing where the one inside it accepts. *Before*: the calls that are open become the only ones that count, so each
machine on the stack gets a version that ends with them. What results may be too large: then it does not fit.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Int

from atlas.tasks import surgery
from atlas.tasks.hierarchy_edits import bodies, called, hierarchy_of
from atlas.tasks.hrm import Hierarchy, HierarchySize, HierarchyState
from atlas.tasks.rm import ACCEPTED, RUNNING, UNUSED, RewardMachine, TaskSize
from atlas.tasks.surgery import NO_EDGE, Body

Cut = Callable[[Any, Any], tuple[Any, Bool[Array, ""]]]
"""`(task, state) -> (part, fits)`."""


def cuts(reward: Callable[[Any], Any], size: TaskSize | HierarchySize) -> tuple[Cut, Cut]:
    """`prefix` and `suffix` for tasks of some size, with rewards put back."""
    parts = (before_stack, after_stack) if isinstance(size, HierarchySize) else (before_state, after_state)

    def rewarded(part: Cut) -> Cut:
        def cut(task: Any, state: Any) -> tuple[Any, Bool[Array, ""]]:
            made, fits = part(task, state)
            return reward(made), fits

        return cut

    return rewarded(parts[0]), rewarded(parts[1])


def before_state(task: RewardMachine, state: Int[Array, ""]) -> tuple[RewardMachine, Bool[Array, ""]]:
    """The machine that accepts on reaching a state."""
    return surgery.machine_of(surgery.prefix(surgery.body_of(task), state)), jnp.bool_(True)


def after_state(task: RewardMachine, state: Int[Array, ""]) -> tuple[RewardMachine, Bool[Array, ""]]:
    """The machine that starts in a state."""
    return surgery.machine_of(surgery.suffix(surgery.body_of(task), state)), jnp.bool_(True)


def after_stack(task: Hierarchy, state: HierarchyState) -> tuple[Hierarchy, Bool[Array, ""]]:
    """The hierarchy that starts with a stack, its machines joined into the root."""
    states = task.size.states
    machines = bodies(task)
    rest = _body(machines, task.root.astype(jnp.int32))
    rest = surgery.compact(rest, _outermost(state) % states)
    fits = jnp.bool_(True)
    for level in reversed(range(state.nodes.shape[0] - 1)):
        node, has_caller = state.nodes[level].astype(jnp.int32), state.nodes[level + 1] != UNUSED
        inside = surgery.compact(_body(machines, node // states), node % states)
        goes_on = has_caller & (
            inside.outcome[0] != ACCEPTED
        )  # else the call that is open here ends with the one inside
        joined, enough = _join(inside, rest)
        rest = jax.tree.map(lambda a, b, take=goes_on: jnp.where(take, a, b), joined, rest)
        fits &= enough | ~goes_on
    with_root: Body = jax.tree.map(lambda all_, one: all_.at[task.root].set(one), machines, rest)
    return hierarchy_of(with_root, task), fits


def _body(machines: Body, number: Int[Array, ""]) -> Body:
    return jax.tree.map(lambda x: x[number], machines)


def _outermost(state: HierarchyState) -> Int[Array, ""]:
    """The node of the root's own machine."""
    open_nodes = jnp.sum(state.nodes != UNUSED)
    return state.nodes[open_nodes - 1].astype(jnp.int32)


def _join(first: Body, second: Body) -> tuple[Body, Bool[Array, ""]]:
    """A body that goes on with the second where the first accepts, and whether it fits into the same size."""
    states = first.target.shape[0]
    into_end = (first.target != UNUSED) & (first.outcome[first.target] == ACCEPTED)
    shifted = jnp.where(second.target != UNUSED, second.target + states, UNUSED).astype(jnp.int8)
    double = Body(
        target=jnp.concatenate([jnp.where(into_end, jnp.int8(states), first.target), shifted]),
        guard=jnp.concatenate([first.guard, second.guard]),
        call=jnp.concatenate([first.call, second.call]),
        outcome=jnp.concatenate([first.outcome, second.outcome]),
    )
    return _trim(surgery.compact(double), states)


def _trim(body: Body, states: int) -> tuple[Body, Bool[Array, ""]]:
    """The first rows of a compact body, and whether that is all of it."""
    trimmed: Body = jax.tree.map(lambda x: x[:states], body)
    return trimmed, jnp.max(body.target) < states


def before_stack(task: Hierarchy, state: HierarchyState) -> tuple[Hierarchy, Bool[Array, ""]]:
    """The hierarchy that accepts on reaching a stack: each machine on it, from the inside out, ends there."""
    size, depth = task.size, state.nodes.shape[0]
    machines = bodies(task)
    versions: list[Body] = []
    fits, inner = jnp.bool_(True), jnp.int32(UNUSED)
    for level in range(depth):
        node = state.nodes[level].astype(jnp.int32)
        number, place = node // size.states, node % size.states
        body = _body(machines, number)
        if level == 0:
            version, enough = surgery.prefix(body, place), jnp.bool_(True)
        else:
            version, enough = _ending_with_call(body, inner, place, size.machines + level - 1)
        is_root = number == task.root
        fits &= (node == UNUSED) | enough & (is_root | (version.outcome[0] == RUNNING))
        versions.append(version)
        inner = number
    return _with_versions(task, state, versions, fits)


def _ending_with_call(
    body: Body, callee: Int[Array, ""], back_to: Int[Array, ""], version: int
) -> tuple[Body, Bool[Array, ""]]:
    """The machine that accepts when a call of some callee returns to a state; it calls a version of that callee."""
    states = body.target.shape[0]
    wide: Body = jax.tree.map(lambda x: jnp.pad(x, ((0, 1),) + ((0, 0),) * (x.ndim - 1)), body)
    wide = wide.replace(target=wide.target.at[states].set(NO_EDGE), call=wide.call.at[states].set(NO_EDGE))
    meant = (wide.call == callee) & (wide.target == back_to) & (wide.target != UNUSED)
    wide = wide.replace(
        target=jnp.where(meant, jnp.int8(states), wide.target), call=jnp.where(meant, jnp.int8(version), wide.call)
    )
    return _trim(surgery.prefix(wide, jnp.int32(states)), states)


def _with_versions(
    task: Hierarchy, state: HierarchyState, versions: list[Body], fits: Bool[Array, ""]
) -> tuple[Hierarchy, Bool[Array, ""]]:
    """Put the version of the outermost machine in the place of the root and the others behind all machines; then
    drop what is not called and close the gaps."""
    machines = bodies(task)
    count = task.size.machines
    outermost = jnp.sum(state.nodes != UNUSED) - 1
    stacked: Body = jax.tree.map(lambda *leaves: jnp.stack(leaves), *versions)
    root = _body(stacked, outermost)
    extended: Body = jax.tree.map(
        lambda old, new_root, new: jnp.concatenate([old.at[task.root].set(new_root), new]), machines, root, stacked
    )
    used = called(extended.call, task.root)
    rank = jnp.cumsum(used) - 1
    here = used[None, :] & (rank[None, :] == jnp.arange(count)[:, None])
    source, filled = jnp.argmax(here, axis=1), jnp.any(here, axis=1)
    chosen: Body = jax.tree.map(lambda x: x[source], extended)
    call = jnp.where(chosen.call != UNUSED, rank[chosen.call], UNUSED).astype(jnp.int8)
    call = jnp.where(filled[:, None, None], call, NO_EDGE)
    target = jnp.where(filled[:, None, None], chosen.target, NO_EDGE)
    compacted = Body.unchecked(target=target, guard=chosen.guard, call=call, outcome=chosen.outcome)
    moved = task.replace(root=rank[task.root].astype(jnp.int8))
    return hierarchy_of(compacted, moved), fits & (jnp.sum(used) <= count)
