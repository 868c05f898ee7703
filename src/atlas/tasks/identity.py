"""When two tasks are the same but for names and order: a canonical form, a content hash, a fast fingerprint."""

import hashlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import UInt32

from atlas.tasks import hrm, rm
from atlas.tasks.hrm import Hierarchy
from atlas.tasks.rm import ACCEPT, ACCEPTED, REJECT, REJECTED, RUNNING, UNUSED, Transition

_TERMINAL = {ACCEPTED: ACCEPT, REJECTED: REJECT}


def canonical(task: Any) -> Any:
    """The same task at its natural size, with states (and machines) numbered by a search in breadth.

    Literals and edges are sorted, and what cannot be reached is dropped, so tasks that differ only by names, order or
    padding become equal. Sorting edges is safe for deterministic tasks, and only for these.
    """
    task = hrm.old(task)
    machines, root = _arranged(task)
    numbered: dict[int, list[Transition]] = {}
    for machine in (order := [root]):
        numbered[machine] = _number(*machines[machine])
        order += dict.fromkeys(e.call for e in numbered[machine] if e.call != UNUSED and e.call not in order)
    place = {UNUSED: UNUSED} | {machine: number for number, machine in enumerate(order)}
    lists = [[edge._replace(call=place[edge.call]) for edge in numbered[machine]] for machine in order]
    if isinstance(task, Hierarchy):
        return hrm.hierarchy(lists)
    ended = machines[0][1][0]
    if ended != RUNNING:
        return rm.machine([], [0] * (ended == ACCEPTED), [0] * (ended == REJECTED))
    return rm.machine(lists[0])


def _arranged(task: Any) -> tuple[list[hrm.Arranged], int]:
    if isinstance(task, Hierarchy):
        return hrm.arranged(task), int(task.root)
    leaving: list[list[Transition]] = [[] for _ in range(task.size.states)]
    for edge in rm.transitions(task):
        leaving[edge.source].append(edge)
    return [(leaving, [int(o) for o in np.asarray(task.outcome)])], 0


def _number(leaving: list[list[Transition]], outcome: list[int]) -> list[Transition]:
    """The edges of a machine that can be reached, states in the order of discovery."""
    edges: dict[Transition, None] = {}
    number = {0: 0}
    for u in (todo := [0]):
        for edge in sorted((_sorted_literals(e) for e in leaving[u]), key=_sort_key):
            v = edge.target
            if outcome[v] == RUNNING and v not in number:
                number[v] = len(number)
                todo.append(v)
            target = number[v] if outcome[v] == RUNNING else _TERMINAL[outcome[v]]
            edges[edge._replace(source=number[u], target=target)] = None
    return list(edges)


def _sorted_literals(edge: Transition) -> Transition:
    return edge._replace(literals=tuple(sorted(set(edge.literals), key=lambda x: (abs(x), x))))


def _sort_key(edge: Transition) -> tuple[Any, ...]:
    return edge.literals, edge.reward, edge.call != UNUSED


def content_hash(task: Any) -> str:
    """A hexadecimal name for what a task is: equal for tasks of equal canonical form."""
    task = hrm.old(task)
    digest = hashlib.sha256(type(task).__name__.encode())
    for leaf in jax.tree.leaves(canonical(task)):
        array = np.asarray(leaf)
        digest.update(str(array.shape).encode() + array.astype(array.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()[:16]


def fingerprint(task: Any) -> UInt32[Array, "2"]:
    """64 bits that tell tasks of one padded size apart, whatever the order of their states, edges and literals.

    Colours of states are refined by those of their successors until the initial state's colour has seen all that can be
    reached. So tasks that unfold alike (equal states that were not merged) share a fingerprint too.
    """
    target, guard, reward, outcome, call, root = _stacked(task)
    machine = jnp.arange(target.shape[0])[:, None, None]
    is_edge = target != UNUSED
    salts = jnp.array([0x9E3779B9, 0x7F4A7C15], jnp.uint32)

    def colour(salt: UInt32[Array, ""]) -> UInt32[Array, ""]:
        literal = jnp.where(guard != 0, _mix(guard.astype(jnp.uint32), salt), jnp.uint32(0))
        edge = _mix(jnp.sum(literal, axis=-1, dtype=jnp.uint32), jax.lax.bitcast_convert_type(reward, jnp.uint32))

        def refine(_: Any, now: UInt32[Array, "machines states"]) -> UInt32[Array, "machines states"]:
            inside = jnp.where(call != UNUSED, now[call, 0], jnp.uint32(0))
            seen = _mix(_mix(edge, now[machine, target]), inside)
            return _mix(start, jnp.sum(jnp.where(is_edge, seen, jnp.uint32(0)), axis=2, dtype=jnp.uint32))

        start = _mix(outcome.astype(jnp.uint32), salt)
        return jax.lax.fori_loop(0, start.size, refine, start)[root, 0]

    return jax.vmap(colour)(salts)


def _stacked(task: Any) -> tuple[Array, ...]:
    if isinstance(task, Hierarchy):
        return task.target, task.guard, task.reward, task.outcome, task.call, task.root
    fields = (task.target, task.guard, task.reward, task.outcome)
    return *(field[None] for field in fields), jnp.full(task.target[None].shape, UNUSED, jnp.int8), jnp.int8(0)


def _mix(one: UInt32[Array, "..."], other: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
    """Two numbers as one that depends on every bit of both, and on their order."""
    mixed = one * jnp.uint32(0x85EBCA6B) ^ ((other ^ (other >> 15)) * jnp.uint32(0xC2B2AE35))
    mixed = (mixed ^ (mixed >> 16)) * jnp.uint32(0x27D4EB2F)
    mixed = (mixed ^ (mixed >> 13)) * jnp.uint32(0x165667B1)
    return mixed ^ (mixed >> 16)
