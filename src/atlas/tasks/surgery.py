"""Cutting and joining one machine: the operations under task edits and hindsight.

They work on a `Body`, a machine with the callee of each edge and without rewards, so that flat machines and the
machines of a hierarchy are treated alike. All are jittable and keep the order of states, so sequences stay in order.
"""

from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Int, Int8, Int16, Int32

from atlas.struct import Struct
from atlas.tasks.rm import ACCEPTED, REJECTED, RUNNING, UNUSED, RewardMachine

NO_EDGE: Final = np.int8(UNUSED)
NO_LITERAL: Final = np.int16(0)


class Body(Struct):
    """A machine as far as edits are concerned."""

    target: Int8[Array, "states edges"]
    guard: Int16[Array, "states edges literals"]
    call: Int8[Array, "states edges"]
    """The machine an edge calls; UNUSED for a plain edge."""
    outcome: Int8[Array, "states"]


def body_of(task: RewardMachine) -> Body:
    """A flat machine."""
    return Body(target=task.target, guard=task.guard, call=jnp.full_like(task.target, UNUSED), outcome=task.outcome)


def machine_of(body: Body) -> RewardMachine:
    """The flat machine of a body without calls; it pays nothing yet."""
    return RewardMachine(
        target=body.target,
        guard=body.guard,
        reward=jnp.zeros(body.target.shape, jnp.float32),
        outcome=body.outcome,
    )


def numbers(body: Body) -> Int32[Array, "states"]:
    """The rows."""
    return jnp.arange(body.target.shape[0])


def successors(body: Body) -> Bool[Array, "states states"]:
    """Which state has an edge to which."""
    return jnp.any(body.target[:, :, None] == numbers(body)[None, None, :], axis=1)


def reached_from(edges: Bool[Array, "n n"], start: Bool[Array, "n"]) -> Bool[Array, "n"]:
    """Which states lie on a path from some others, those included."""
    spread = lambda _, on: on | jnp.any(edges & on[:, None], axis=0)  # noqa: E731
    return jax.lax.fori_loop(0, edges.shape[0] - 1, spread, start)


def drop_edges(body: Body, keep: Bool[Array, "states edges"]) -> Body:
    """Remove edges, and from their siblings the negations that only set them apart from these."""
    keep = keep & (body.target != UNUSED)
    guard = body.guard
    if guard.shape[1] > 1:
        guard = jax.vmap(_drop_stale)(guard, keep)
    return body.replace(
        target=jnp.where(keep, body.target, NO_EDGE),
        guard=jnp.where(keep[:, :, None], guard, NO_LITERAL),
        call=jnp.where(keep, body.call, NO_EDGE),
    )


def _drop_stale(guard: Int16[Array, "edges literals"], keep: Bool[Array, "edges"]) -> Int16[Array, "edges literals"]:
    """A negation is stale if the proposition leaves with a dropped edge and is asked for by no other."""
    kept = jnp.broadcast_to(keep[:, None], guard.shape).reshape(-1)
    denies = (guard.reshape(-1)[:, None] == -guard.reshape(-1)[None, :]) & (guard.reshape(-1) < 0)[:, None]
    stale = jnp.any(denies & ~kept[None, :], axis=1) & ~jnp.any(denies & kept[None, :], axis=1)
    return jnp.where(stale.reshape(guard.shape), NO_LITERAL, guard)


def compact(body: Body, start: Int[Array, ""] | int = 0) -> Body:
    """Let `start` be the initial state, drop what it does not lead to, and close the gaps."""
    states = numbers(body)
    used = reached_from(successors(body), states == start)
    rank = jnp.where(states == start, 0, jnp.cumsum(used & (states != start)))
    rank = jnp.where(used, rank, body.target.shape[0])
    here = rank[None, :] == states[:, None]
    source, filled = jnp.argmax(here, axis=1), jnp.any(here, axis=1)
    target, call = body.target[source], body.call[source]
    is_edge = (target != UNUSED) & filled[:, None]
    return Body(
        target=jnp.where(is_edge, rank[target], UNUSED).astype(jnp.int8),
        guard=jnp.where(is_edge[:, :, None], body.guard[source], NO_LITERAL),
        call=jnp.where(is_edge, call, NO_EDGE),
        outcome=jnp.where(filled, body.outcome[source], jnp.int8(RUNNING)),
    )


def insert_state(body: Body, at: Int[Array, ""]) -> Body:
    """A new running state without edges, numbered `at`; later ones move up by one. The last row must be unused."""
    states = numbers(body)
    source = jnp.where(states > at, states - 1, states)
    is_new = states == at
    target = body.target[source]
    is_edge = (target != UNUSED) & ~is_new[:, None]
    return Body(
        target=jnp.where(is_edge, target + (target >= at), UNUSED).astype(jnp.int8),
        guard=jnp.where(is_edge[:, :, None], body.guard[source], NO_LITERAL),
        call=jnp.where(is_edge, body.call[source], NO_EDGE),
        outcome=jnp.where(is_new, jnp.int8(RUNNING), body.outcome[source]),
    )


def set_edge(body: Body, at: Bool[Array, "states"], to: Int[Array, ""], prop: Int[Array, ""]) -> Body:
    """Let the first edge slot of some states, which have no edges, ask for a proposition and lead to a state."""
    slot = at[:, None] & (jnp.arange(body.target.shape[1]) == 0)[None, :]
    literal = slot[:, :, None] & (jnp.arange(body.guard.shape[2]) == 0)[None, None, :]
    return body.replace(
        target=jnp.where(slot, to, body.target).astype(jnp.int8),
        guard=jnp.where(literal, prop + 1, body.guard).astype(jnp.int16),
    )


def merge(body: Body, gone: Int[Array, ""], into: Int[Array, ""]) -> Body:
    """Let edges that lead to a state lead to another one; those that would double an edge or loop are dropped.

    With `into` UNUSED all of them are dropped. The state keeps its own edges.
    """
    led = body.target == gone
    doubled = jnp.any(body.target == into, axis=1)[:, None] | (numbers(body) == into)[:, None] | (into == UNUSED)
    body = drop_edges(body, ~(led & doubled))
    return body.replace(target=jnp.where(led & (body.target != UNUSED), into, body.target).astype(jnp.int8))


def end_at(body: Body, state: Int[Array, ""]) -> Body:
    """Let a state accept: its edges go, all of them, so that none is left with a stale negation."""
    here = numbers(body) == state
    return Body(
        target=jnp.where(here[:, None], NO_EDGE, body.target),
        guard=jnp.where(here[:, None, None], NO_LITERAL, body.guard),
        call=jnp.where(here[:, None], NO_EDGE, body.call),
        outcome=jnp.where(here, jnp.int8(ACCEPTED), body.outcome),
    )


def prefix(body: Body, state: Int[Array, ""]) -> Body:
    """The part in which `state` accepts and nothing else does. States that reject stay."""
    towards = reached_from(successors(body).T, numbers(body) == state)
    matters = towards | (body.outcome == REJECTED)
    return compact(drop_edges(end_at(body, state), matters[body.target]))


def suffix(body: Body, state: Int[Array, ""]) -> Body:
    """The part that begins in `state`."""
    return compact(body, state)
