"""Small changes of tasks (the paper, Appendix D), one row each, for every kind of machine.

Guards that leave one state exclude each other by their literals, and stay so: a proposition is replaced wherever it
occurs on the edges out of a state, and a negation goes with the sibling it was for. Rewards are put back at the end.
Where siblings are about, a new proposition neither implies nor is implied by theirs: one of the two could never hold.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int, Int16, Int32, Key, UInt32

from atlas.draw import below, edit_draws, pick
from atlas.tasks import labels, surgery
from atlas.tasks.hierarchy_edits import on_hierarchy
from atlas.tasks.hrm import HierarchySize
from atlas.tasks.labels import WORD
from atlas.tasks.rm import ACCEPTED, REJECTED, RUNNING, UNUSED, TaskSize
from atlas.tasks.surgery import Body
from atlas.types import Edit
from atlas.vocabulary import Vocabulary

START, MIDDLE, END = range(3)
"""Where a state is added."""


@dataclass(frozen=True, eq=False)
class Alphabet:
    """The propositions that edits may use."""

    bits: np.ndarray
    """`uint32[words]`: all of them, as a bit set."""
    related: np.ndarray
    """`uint32[props, words]`: what each implies or is implied by."""
    excluded: np.ndarray
    """`uint32[props, words]`: what each never holds with."""

    @property
    def size(self) -> int:
        """How many there are."""
        return int(np.bitwise_count(self.bits).sum())


def alphabet(vocabulary: Vocabulary, mask: np.ndarray) -> Alphabet:
    """The propositions of a vocabulary that a mask leaves."""
    implies, excludes = vocabulary.implies, vocabulary.excludes
    bits, related, excluded = (
        np.asarray(labels.pack(jnp.asarray(sets))) for sets in (mask, implies | implies.T, excludes)
    )
    return Alphabet(bits, related, excluded)


BodyEdit = tuple[str, Callable[..., Any], Callable[..., Any]]


# Each edit: whether it applies to a body, and the body it makes. `callee` says that the machine is called by others,
# so that a single plain edge must leave its initial state.


def can_switch(known: Alphabet, body: Body, callee: Bool[Array, ""]) -> Bool[Array, ""]:
    """Applicable where an edge asks for something, if there are more propositions than a state can mention."""
    edges, literals = body.guard.shape[1:]
    return jnp.any(_asks(body)) & (known.size > edges * literals)


def switch_proposition(
    known: Alphabet, u: Float32[Array, "draws"], body: Body, callee: Bool[Array, ""]
) -> tuple[Body, Int32[Array, "3"]]:
    """An edge asks for another proposition. Lineage: the state it leaves, the old proposition, the new one."""
    edges = body.guard.shape[1]
    asks = _asks(body)
    edge = pick(u[0], jnp.any(asks, axis=2).reshape(-1))
    state = edge // edges
    guard = body.guard[state].astype(jnp.int32)
    old = guard[edge % edges, pick(u[1], asks[state, edge % edges])]
    new = 1 + _unlike(u[2], known, guard, old)
    renamed = jnp.where(guard == old, new, jnp.where(guard == -old, -new, guard)).astype(jnp.int16)
    here = surgery.numbers(body) == state
    body = body.replace(guard=jnp.where(here[:, None, None], renamed[None], body.guard))
    return body, jnp.stack([state, old - 1, new - 1])


def _asks(body: Body) -> Bool[Array, "states edges literals"]:
    return (body.guard > 0) & (body.target != UNUSED)[:, :, None]


def _unlike(
    u: Float32[Array, ""], known: Alphabet, guard: Int32[Array, "edges literals"], old: Int32[Array, ""]
) -> Int32[Array, ""]:
    """A proposition instead of an old one (a literal) in the guards out of one state."""
    allowed = jnp.asarray(known.bits)
    mentioned = _or(jax.vmap(_bit, (0, None))(jnp.abs(guard).reshape(-1) - 1, allowed.shape[0]))
    if guard.size == 1:
        return labels.pick(u, allowed & ~mentioned).astype(jnp.int32)
    others = (guard != 0) & (jnp.abs(guard) != old)
    beside = others & (guard > 0) & jnp.any(guard == old, axis=1)[:, None]
    prop = jnp.maximum(jnp.abs(guard) - 1, 0).reshape(-1)
    nothing = jnp.uint32(0)
    clashes = jnp.where(others.reshape(-1)[:, None], jnp.asarray(known.related)[prop], nothing)
    clashes |= jnp.where(beside.reshape(-1)[:, None], jnp.asarray(known.excluded)[prop], nothing)
    best = allowed & ~mentioned & ~_or(clashes)
    return labels.pick(u, jnp.where(jnp.any(best != 0), best, allowed & ~mentioned)).astype(jnp.int32)


def _bit(prop: Int32[Array, ""], words: int) -> UInt32[Array, "words"]:
    """The set of one proposition; empty for -1."""
    bit = jnp.left_shift(jnp.uint32(1), (prop % WORD).astype(jnp.uint32))
    return jnp.where((jnp.arange(words) == prop // WORD) & (prop >= 0), bit, jnp.uint32(0))


def _or(words: UInt32[Array, "n words"]) -> UInt32[Array, "words"]:
    return jax.lax.reduce(words, jnp.uint32(0), jax.lax.bitwise_or, (0,))


def can_add_state(known: Alphabet, body: Body, callee: Bool[Array, ""]) -> Bool[Array, ""]:
    """Applicable while there is a row left and an edge to split."""
    return (_num_states(body) < body.target.shape[0]) & jnp.any(body.target != UNUSED)


def add_state(
    known: Alphabet, u: Float32[Array, "draws"], body: Body, callee: Bool[Array, ""]
) -> tuple[Body, Int32[Array, "3"]]:
    """A step more: at the start, behind a random edge, or at the end. Lineage: where, START … END, the proposition."""
    prop = labels.pick(u[0], jnp.asarray(known.bits)).astype(jnp.int32)
    where = below(u[1], 3)
    slots = body.target.shape[1]
    source, slot = jnp.divmod(pick(u[2], (body.target != UNUSED).reshape(-1)), slots)
    at = jnp.stack([jnp.int32(0), source + 1, _num_states(body).astype(jnp.int32)])[where]
    grown = surgery.insert_state(body, at)
    new, split = (
        surgery.numbers(body) == at,
        (surgery.numbers(body) == source)[:, None] & (jnp.arange(slots) == slot)[None],
    )
    follows = jnp.where(where == START, 1, grown.target[source, slot])
    led = grown.replace(target=jnp.where(split & (where == MIDDLE), at, grown.target).astype(jnp.int8))
    inserted = surgery.set_edge(led, new, follows, prop)
    appended = _append(grown, new, at, prop)
    chosen: Body = jax.tree.map(lambda end, other: jnp.where(where == END, end, other), appended, inserted)
    return chosen, jnp.stack([at, where, prop])


def _append(body: Body, new: Bool[Array, "states"], at: Int32[Array, ""], prop: Int32[Array, ""]) -> Body:
    """What accepted leads on to the new state, which accepts instead."""
    ends = body.outcome == ACCEPTED
    outcome = jnp.where(new, ACCEPTED, jnp.where(ends, RUNNING, body.outcome)).astype(jnp.int8)
    return surgery.set_edge(body, ends, at, prop).replace(outcome=outcome)


def can_remove_state(known: Alphabet, body: Body, callee: Bool[Array, ""]) -> Bool[Array, ""]:
    """Applicable where one of more than two states can go."""
    return jnp.any(_replacements(body, callee)[0])


def remove_state(
    known: Alphabet, u: Float32[Array, "draws"], body: Body, callee: Bool[Array, ""]
) -> tuple[Body, Int32[Array, "3"]]:
    """A state is gone; what led to it leads to its successor (or predecessor, if it accepted). Lineage: both states."""
    removable, replacement = _replacements(body, callee)
    gone = pick(u[0], removable)
    outcome = body.outcome[gone]
    into = jnp.where(outcome == REJECTED, UNUSED, pick(u[1], replacement[gone]))
    merged = surgery.merge(body, gone, into)
    ended = surgery.end_at(merged, into)
    left: Body = jax.tree.map(lambda a, b: jnp.where(outcome == ACCEPTED, a, b), ended, merged)
    return surgery.compact(left, jnp.where(gone == 0, into, 0)), jnp.stack([gone, into, jnp.int32(-1)])


def _replacements(body: Body, callee: Bool[Array, ""]) -> tuple[Bool[Array, "n"], Bool[Array, "n n"]]:
    """Which states can go, and which can take the place of each: acceptance must stay within reach.

    A running state hands over to a successor from which acceptance can be reached without it, the initial one only to
    one that can be initial. An accepting one hands over to a predecessor other than the initial state.
    """
    states = surgery.numbers(body)
    edges = surgery.successors(body) & (states[:, None] != states[None, :])
    reached = surgery.reached_from(edges, states == 0)
    running, accepts = body.outcome == RUNNING, body.outcome == ACCEPTED
    may_start = running & (~callee | _starts_plainly(body))
    hands_over = edges & _accepts_without(edges, accepts) & (may_start[None, :] | (states != 0)[:, None])
    takes_over = edges.T & (running & (states != 0))[None, :] & reached[None, :]
    replacement = jnp.where(accepts[:, None], takes_over, hands_over & running[:, None])
    possible = jnp.any(replacement, axis=1) | (body.outcome == REJECTED)
    return possible & reached & (jnp.sum(reached) > 2), replacement


def _starts_plainly(body: Body) -> Bool[Array, "states"]:
    """Which states have one edge, without a call."""
    is_edge = body.target != UNUSED
    return (jnp.sum(is_edge, axis=1) == 1) & ~jnp.any(is_edge & (body.call != UNUSED), axis=1)


def _accepts_without(edges: Bool[Array, "n n"], accepts: Bool[Array, "n"]) -> Bool[Array, "n n"]:
    """`[i, j]`: whether acceptance can be reached from j without passing i."""
    n = edges.shape[0]
    others = ~jnp.eye(n, dtype=bool)

    def spread(_: Int[Array, ""], on: Bool[Array, "n n"]) -> Bool[Array, "n n"]:
        return (on | jnp.any(edges[None] & on[:, None, :], axis=2)) & others

    return jax.lax.fori_loop(0, n - 1, spread, accepts[None, :] & others)


def _num_states(body: Body) -> Int[Array, ""]:
    """States of a compact machine."""
    return jnp.maximum(jnp.max(body.target), 0) + 1


BODY_EDITS: tuple[BodyEdit, ...] = (
    ("switch_proposition", can_switch, switch_proposition),
    ("add_state", can_add_state, add_state),
    ("remove_state", can_remove_state, remove_state),
)
"""Name, whether it applies, and what it makes."""


def task_edits(
    vocabulary: Vocabulary, mask: np.ndarray, reward: Callable[[Any], Any], size: TaskSize | HierarchySize
) -> tuple[Edit[Any], ...]:
    """The table of task edits: propositions come from the mask, rewards from the function."""
    known = alphabet(vocabulary, mask)
    lift = on_hierarchy if isinstance(size, HierarchySize) else on_machine
    return tuple(lift(name, partial(can, known), partial(make, known), reward) for name, can, make in BODY_EDITS)


def on_machine(name: str, can: Callable[..., Any], make: Callable[..., Any], reward: Callable[[Any], Any]) -> Edit[Any]:
    """An edit of bodies as one of flat machines."""
    nobody_calls = jnp.bool_(False)

    def applicable(task: Any) -> Bool[Array, ""]:
        return can(surgery.body_of(task), nobody_calls)

    def apply(key: Key[Array, ""], task: Any) -> tuple[Any, Int16[Array, "3"]]:
        body, arguments = make(edit_draws(key), surgery.body_of(task), nobody_calls)
        return reward(surgery.machine_of(body)), arguments.astype(jnp.int16)

    return Edit(name, applicable, apply)
