"""A hierarchy unfolded into the stacks of calls it can be in, so that it can be searched like a flat machine.

A *context* is a stack of open calls: which machine is active and where each call returns to. Contexts are numbered from
the root's on; a node of the unfolded task is a context and a state of its machine. Jittable, unlike `tasks.flatten`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Int, Int16, Int32

from atlas.struct import Struct
from atlas.tasks import hrm
from atlas.tasks.hrm import Hierarchy, HierarchyState
from atlas.tasks.rm import UNUSED
from atlas.vocabulary import ACCEPTED


class Contexts(Struct):
    """All stacks of calls, breadth first; UNUSED where there are fewer than room for."""

    machine: Int32[Array, "contexts"]
    parent: Int32[Array, "contexts"]
    """The stack after the call returns."""
    back: Int32[Array, "contexts"]
    """The state of the caller that it returns to."""
    child: Int32[Array, "contexts states edges"]
    """The stack that each calling edge leads to; UNUSED for plain edges, and for calls that there is no room for."""


def contexts(task: Hierarchy, room: int) -> Contexts:
    """The first `room` stacks of calls."""
    _, states, edges, *_ = task.size
    unused = jnp.full(room, UNUSED, jnp.int32)
    start = Contexts(
        machine=unused.at[0].set(task.root.astype(jnp.int32)),
        parent=unused,
        back=unused,
        child=jnp.full((room, states, edges), UNUSED, jnp.int32),
    )

    def open_calls(number: Array, state: tuple[Contexts, Array]) -> tuple[Contexts, Array]:
        table, count = state
        machine = table.machine[number]
        calls = (task.call[machine] != UNUSED) & (task.target[machine] != UNUSED) & (machine != UNUSED)
        place = count + jnp.cumsum(calls.reshape(-1)).reshape(calls.shape) - 1
        child = jnp.where(calls & (place < room), place, UNUSED).astype(jnp.int32)
        where = jnp.where(child == UNUSED, room, child).reshape(-1)

        def note(column: Array, values: Array) -> Array:
            return column.at[where].set(values.astype(jnp.int32).reshape(-1), mode="drop")

        table = Contexts(
            machine=note(table.machine, task.call[machine]),
            parent=note(table.parent, jnp.full_like(child, number)),
            back=note(table.back, task.target[machine]),
            child=table.child.at[number].set(child),
        )
        return table, count + jnp.sum(calls)

    return jax.lax.fori_loop(0, room, open_calls, (start, jnp.int32(1)))[0]


def count_contexts(task: Hierarchy, most: int) -> int:
    """How many stacks of calls one hierarchy, or the largest of a batch, can be in; at most `most` (not jittable)."""
    target, call, root = (np.asarray(x) for x in (task.target, task.call, task.root))
    if root.ndim == 0:
        target, call, root = target[None], call[None], root[None]
    return max(_count(t, c, int(r), most) for t, c, r in zip(target, call, root, strict=True))


def _count(target: np.ndarray, call: np.ndarray, root: int, most: int) -> int:
    callees = [c[(c != UNUSED) & (t != UNUSED)].tolist() for t, c in zip(target, call, strict=True)]
    todo = [root]
    for machine in todo:
        todo += callees[machine]
        if len(todo) >= most:
            return most
    return len(todo)


class _At(NamedTuple):
    """A context and a state in its machine; both UNUSED for nowhere."""

    context: Int[Array, "..."]
    state: Int[Array, "..."]


def landings(task: Hierarchy, table: Contexts) -> Int32[Array, "nodes chains"]:
    """The node that each way out of a node leads to, all calls that it completes returned from; UNUSED for none."""
    room = table.machine.shape[0]
    _, states, _, _, chains, _ = task.size
    context, state = jnp.meshgrid(jnp.arange(room), jnp.arange(states), indexing="ij")
    at = _At(*(jnp.broadcast_to(x[..., None], (room, states, chains)) for x in (context, state)))
    chain = task.chain[table.machine]  # an unused context reads some machine, and is put right below
    after = _return(task, table, _walk(task, table, at, chain))
    exists = (table.machine[:, None, None] != UNUSED) & (chain[..., 0] != UNUSED) & (after.context != UNUSED)
    return jnp.where(exists, after.context * states + after.state, UNUSED).astype(jnp.int32).reshape(-1, chains)


def _walk(task: Hierarchy, table: Contexts, at: _At, chain: Int[Array, "contexts states chains links"]) -> _At:
    """Follow the edges of each chain down to its plain edge."""
    context, state = at
    done = jnp.zeros(context.shape, bool)
    landed = _At(jnp.full_like(context, UNUSED), jnp.full_like(state, UNUSED))
    for link in range(chain.shape[-1]):
        edge = chain[..., link].astype(jnp.int32)
        machine = table.machine[context]
        is_plain = ~done & (edge != UNUSED) & (task.call[machine, state, edge] == UNUSED) & (context != UNUSED)
        landed = _At(
            jnp.where(is_plain, context, landed.context),
            jnp.where(is_plain, task.target[machine, state, edge].astype(jnp.int32), landed.state),
        )
        done |= is_plain
        context = jnp.where(context == UNUSED, UNUSED, table.child[context, state, edge])
        state = jnp.zeros_like(state)
    return landed


def _return(task: Hierarchy, table: Contexts, at: _At) -> _At:
    """Leave every call whose machine has accepted."""
    context, state = at
    for _ in range(task.size.machines - 1):
        accepted = task.outcome[table.machine[context], state] == ACCEPTED
        returns = accepted & (context > 0)
        context, state = (
            jnp.where(returns, table.parent[context], context),
            jnp.where(returns, table.back[context], state),
        )
    return _At(context, state)


def chain_guards(task: Hierarchy) -> Int16[Array, "nodes chains literals"]:
    """The literals of every way out of every state of every machine, those of all its edges side by side."""
    machines, states, *_ = task.size

    def guards(node: Array) -> Array:
        return hrm.guards(task, HierarchyState(nodes=node[None], owed=jnp.zeros(1, jnp.float32)))

    return jax.vmap(guards)(jnp.arange(machines * states, dtype=jnp.int8))
