"""Small changes of tasks (the paper, Appendix D), one row each, and the parts of a task before and after a state.

Guards that leave one state exclude each other by their literals, and stay so: a proposition is replaced wherever it
occurs on the edges out of a state, and when an edge goes, so do the negations that kept its siblings apart from it.
Rewards are put back at the end.
Where a state has several edges, a new proposition neither implies nor is implied by those of the others: otherwise
one of the two edges could never be taken.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int, Int8, Int16, Int32, Key, UInt32

from atlas.chance import WORD, bit_set, edit_draws, pick, pick_member, union
from atlas.struct import Struct
from atlas.tasks.machine import UNUSED, machine_name
from atlas.tasks.packed import PackedTask, Stack, TaskState, called, chains
from atlas.types import Edit, pack_pair, unpack_pair
from atlas.vocabulary import ACCEPTED, REJECTED, RUNNING, Vocabulary

# Cutting and joining one machine. All is jittable and keeps the order of states, so sequences stay in order.

NO_EDGE: Final = np.int8(UNUSED)
NO_LITERAL: Final = np.int16(0)


class Body(Struct):
    """One machine of a task, without rewards."""

    target: Int8[Array, "states edges"]
    guard: Int16[Array, "states edges literals"]
    call: Int8[Array, "states edges"]
    """The machine an edge calls; UNUSED for a plain edge."""
    outcome: Int8[Array, "states"]

    @property
    def states(self) -> Int32[Array, "states"]:
        """The number of each row."""
        return jnp.arange(self.target.shape[0])

    @property
    def successors(self) -> Bool[Array, "states states"]:
        """Which state has an edge to which."""
        return jnp.any(self.target[:, :, None] == self.states[None, None, :], axis=1)

    @property
    def count(self) -> Int[Array, ""]:
        """How many states there are, none of them unreachable."""
        return jnp.maximum(jnp.max(self.target), 0) + 1


def bodies(task: PackedTask) -> Body:
    """All machines of a task, stacked."""
    call = jnp.full_like(task.target, UNUSED) if task.call is None else task.call
    return Body.unchecked(target=task.target, guard=task.guard, call=call, outcome=task.outcome)


def with_bodies(task: PackedTask, machines: Body) -> PackedTask:
    """A task of other machines with the same root; it pays nothing yet. What nothing calls is dropped."""
    reward = jnp.zeros_like(task.reward)
    if task.root is None or task.chain is None:
        return task.replace(target=machines.target, guard=machines.guard, reward=reward, outcome=machines.outcome)
    kept = called(machines.call, task.root)
    target = jnp.where(kept[:, None, None], machines.target, NO_EDGE)
    call = jnp.where(kept[:, None, None], machines.call, NO_EDGE)
    return task.replace(
        target=target,
        guard=jnp.where(kept[:, None, None, None], machines.guard, NO_LITERAL),
        reward=reward,
        outcome=jnp.where(kept[:, None], machines.outcome, jnp.int8(RUNNING)),
        call=call,
        chain=chains(target, call, *task.chain.shape[-2:]),
    )


def body_of(machines: Body, number: Int[Array, ""] | int) -> Body:
    """One of stacked machines."""
    return jax.tree.map(lambda x: x[number], machines)


def choose(condition: Bool[Array, ""], one: Body, other: Body) -> Body:
    """One of two machines of the same size."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), one, other)


def replace_body(machines: Body, number: Int[Array, ""] | int, body: Body) -> Body:
    """Stacked machines, one of which is another."""
    return jax.tree.map(lambda all_, one: all_.at[number].set(one), machines, body)


def reached_from(edges: Bool[Array, "n n"], start: Bool[Array, "n"]) -> Bool[Array, "n"]:
    """Which states lie on a path from some others, those included."""
    spread = lambda _, on: on | jnp.any(edges & on[:, None], axis=0)  # noqa: E731
    return jax.lax.fori_loop(0, edges.shape[0] - 1, spread, start)


def drop_edges(body: Body, keep: Bool[Array, "states edges"]) -> Body:
    """Remove edges, and from their siblings the negations that only set them apart from these."""
    keep = keep & (body.target != UNUSED)
    guard = body.guard

    def drop_stale(guard: Int16[Array, "edges literals"], keep: Bool[Array, "edges"]) -> Int16[Array, "edges literals"]:
        """A negation is stale if the proposition leaves with a dropped edge and is asked for by no other."""
        kept, literals = jnp.broadcast_to(keep[:, None], guard.shape).reshape(-1), guard.reshape(-1)
        denies = (literals[:, None] == -literals[None, :]) & (literals < 0)[:, None]
        stale = jnp.any(denies & ~kept[None, :], axis=1) & ~jnp.any(denies & kept[None, :], axis=1)
        return jnp.where(stale.reshape(guard.shape), NO_LITERAL, guard)

    if guard.shape[1] > 1:
        guard = jax.vmap(drop_stale)(guard, keep)
    return body.replace(
        target=jnp.where(keep, body.target, NO_EDGE),
        guard=jnp.where(keep[:, :, None], guard, NO_LITERAL),
        call=jnp.where(keep, body.call, NO_EDGE),
    )


def compact(body: Body, start: Int[Array, ""] | int = 0) -> Body:
    """Let `start` be the initial state, drop what it does not lead to, and close the gaps."""
    states = body.states
    used = reached_from(body.successors, states == start)
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
    states = body.states
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


def end_at(body: Body, state: Int[Array, ""]) -> Body:
    """Let a state accept: its edges go, all of them, so that none is left with a stale negation."""
    here = body.states == state
    return Body(
        target=jnp.where(here[:, None], NO_EDGE, body.target),
        guard=jnp.where(here[:, None, None], NO_LITERAL, body.guard),
        call=jnp.where(here[:, None], NO_EDGE, body.call),
        outcome=jnp.where(here, jnp.int8(ACCEPTED), body.outcome),
    )


def ending_at(body: Body, state: Int[Array, ""]) -> Body:
    """The part of a machine in which `state` accepts and nothing else does. States that reject stay."""
    towards = reached_from(body.successors.T, body.states == state)
    matters = towards | (body.outcome == REJECTED)
    return compact(drop_edges(end_at(body, state), matters[body.target]))


def trim(body: Body, states: int) -> tuple[Body, Bool[Array, ""]]:
    """The first rows of a compact machine, and whether that is all of it."""
    return jax.tree.map(lambda x: x[:states], body), jnp.max(body.target) < states


# Edits. Each says whether it applies to a machine and makes another. `callee` says that the machine is called by
# others: then a single plain edge must leave its initial state, so that calls can be entered as before.

START, BEHIND = range(2)
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


def can_switch(known: Alphabet, body: Body, callee: Bool[Array, ""]) -> Bool[Array, ""]:
    """Applicable where an edge asks for something, if there are more propositions than a state can mention."""
    edges, literals = body.guard.shape[1:]
    asks = (body.guard > 0) & (body.target != UNUSED)[:, :, None]
    return jnp.any(asks) & (int(np.bitwise_count(known.bits).sum()) > edges * literals)


def switch_proposition(
    known: Alphabet, u: Float32[Array, "draws"], body: Body, callee: Bool[Array, ""]
) -> tuple[Body, Int32[Array, "3"]]:
    """An edge asks for another proposition. Lineage: the state it leaves, the old proposition, the new one."""
    edges = body.guard.shape[1]
    asks = (body.guard > 0) & (body.target != UNUSED)[:, :, None]
    edge = pick(u[0], jnp.any(asks, axis=2).reshape(-1))
    state = edge // edges
    guard = body.guard[state].astype(jnp.int32)
    old = guard[edge % edges, pick(u[1], asks[state, edge % edges])]
    new = 1 + _other_proposition(u[2], known, guard, old)
    renamed = jnp.where(guard == old, new, jnp.where(guard == -old, -new, guard)).astype(jnp.int16)
    here = body.states == state
    body = body.replace(guard=jnp.where(here[:, None, None], renamed[None], body.guard))
    return body, jnp.stack([state, old - 1, new - 1])


def _other_proposition(
    u: Float32[Array, ""], known: Alphabet, guard: Int32[Array, "edges literals"], old: Int32[Array, ""]
) -> Int32[Array, ""]:
    """A proposition instead of an old one (a literal) in the guards out of one state."""
    allowed, nothing = jnp.asarray(known.bits), jnp.uint32(0)

    def single(prop: Int32[Array, ""]) -> UInt32[Array, "words"]:
        """The set of one proposition; empty for -1."""
        bit = jnp.left_shift(jnp.uint32(1), (prop % WORD).astype(jnp.uint32))
        return jnp.where((jnp.arange(allowed.shape[0]) == prop // WORD) & (prop >= 0), bit, nothing)

    new = allowed & ~union(jax.vmap(single)(jnp.abs(guard).reshape(-1) - 1))
    if guard.size == 1:
        return pick_member(u, new).astype(jnp.int32)
    others = (guard != 0) & (jnp.abs(guard) != old)
    beside = others & (guard > 0) & jnp.any(guard == old, axis=1)[:, None]
    prop = jnp.maximum(jnp.abs(guard) - 1, 0).reshape(-1)
    clashes = jnp.where(others.reshape(-1)[:, None], jnp.asarray(known.related)[prop], nothing)
    clashes |= jnp.where(beside.reshape(-1)[:, None], jnp.asarray(known.excluded)[prop], nothing)
    best = new & ~union(clashes)
    return pick_member(u, jnp.where(jnp.any(best != 0), best, new)).astype(jnp.int32)


def can_add_state(known: Alphabet, body: Body, callee: Bool[Array, ""]) -> Bool[Array, ""]:
    """Applicable while there is a row left and an edge to split."""
    return (body.count < body.target.shape[0]) & jnp.any(body.target != UNUSED)


def add_state(
    known: Alphabet, u: Float32[Array, "draws"], body: Body, callee: Bool[Array, ""]
) -> tuple[Body, Int32[Array, "3"]]:
    """A step more, before the start or behind an edge, each place equally likely: the k + 1 places of a sequence.

    Lineage: the new state, START or BEHIND, the proposition.
    """
    prop = pick_member(u[0], jnp.asarray(known.bits)).astype(jnp.int32)
    slots = body.target.shape[1]
    place = pick(u[1], jnp.concatenate([jnp.ones(1, bool), (body.target != UNUSED).reshape(-1)]))
    where = jnp.minimum(place, BEHIND)
    source, slot = jnp.divmod(jnp.maximum(place - 1, 0), slots)
    at = jnp.where(where == START, 0, source + 1)
    grown = insert_state(body, at)
    # The edge leads to the new state, and that on to what the edge led to.
    split = (body.states == source)[:, None] & (jnp.arange(slots) == slot)[None]
    follows = jnp.where(where == START, 1, grown.target[source, slot])
    led = grown.replace(target=jnp.where(split & (where == BEHIND), at, grown.target).astype(jnp.int8))
    return set_edge(led, body.states == at, follows, prop), jnp.stack([at, where, prop])


def can_remove_state(known: Alphabet, body: Body, callee: Bool[Array, ""]) -> Bool[Array, ""]:
    """Applicable where one of more than two states can go."""
    return jnp.any(_replacements(body, callee)[0])


def remove_state(
    known: Alphabet, u: Float32[Array, "draws"], body: Body, callee: Bool[Array, ""]
) -> tuple[Body, Int32[Array, "3"]]:
    """A state is gone; what led to it leads to its successor (or predecessor, if it accepted). Lineage: both states.

    Edges that would double another edge or loop are dropped, as are all that led to a state that rejected.
    """
    removable, replacement = _replacements(body, callee)
    gone = pick(u[0], removable)
    outcome = body.outcome[gone]
    into = jnp.where(outcome == REJECTED, UNUSED, pick(u[1], replacement[gone]))
    led = body.target == gone
    doubled = jnp.any(body.target == into, axis=1)[:, None] | (body.states == into)[:, None] | (into == UNUSED)
    merged = drop_edges(body, ~(led & doubled))
    merged = merged.replace(target=jnp.where(led & (merged.target != UNUSED), into, merged.target).astype(jnp.int8))
    left = choose(outcome == ACCEPTED, end_at(merged, into), merged)
    return compact(left, jnp.where(gone == 0, into, 0)), jnp.stack([gone, into, jnp.int32(-1)])


def _replacements(body: Body, callee: Bool[Array, ""]) -> tuple[Bool[Array, "n"], Bool[Array, "n n"]]:
    """Which states can go, and which can take the place of each: acceptance must stay within reach.

    A running state hands over to a successor from which acceptance can be reached without it, the initial one only to
    one that can be initial. An accepting one hands over to a predecessor other than the initial state.
    """
    states, n = body.states, body.target.shape[0]
    edges = body.successors & (states[:, None] != states[None, :])
    reached = reached_from(edges, states == 0)
    running, accepts = body.outcome == RUNNING, body.outcome == ACCEPTED
    is_edge = body.target != UNUSED
    starts_plainly = (jnp.sum(is_edge, axis=1) == 1) & ~jnp.any(is_edge & (body.call != UNUSED), axis=1)
    may_start = running & (~callee | starts_plainly)
    others = ~jnp.eye(n, dtype=bool)

    def spread(_: Int[Array, ""], on: Bool[Array, "n n"]) -> Bool[Array, "n n"]:
        return (on | jnp.any(edges[None] & on[:, None, :], axis=2)) & others

    accepts_without = jax.lax.fori_loop(0, n - 1, spread, accepts[None, :] & others)  # [i, j]: from j, not through i
    hands_over = edges & accepts_without & (may_start[None, :] | (states != 0)[:, None])
    takes_over = edges.T & (running & (states != 0))[None, :] & reached[None, :]
    replacement = jnp.where(accepts[:, None], takes_over, hands_over & running[:, None])
    possible = jnp.any(replacement, axis=1) | (body.outcome == REJECTED)
    return possible & reached & (jnp.sum(reached) > 2), replacement


class BodyEdit(NamedTuple):
    """An edit of one machine."""

    name: str
    applies: Callable[[Alphabet, Body, Bool[Array, ""]], Bool[Array, ""]]
    make: Callable[[Alphabet, Float32[Array, "draws"], Body, Bool[Array, ""]], tuple[Body, Int32[Array, "3"]]]


BODY_EDITS: Final = (
    BodyEdit("switch_proposition", can_switch, switch_proposition),
    BodyEdit("add_state", can_add_state, add_state),
    BodyEdit("remove_state", can_remove_state, remove_state),
)


def task_edits(
    vocabulary: Vocabulary, mask: np.ndarray, reward: Callable[[PackedTask], PackedTask]
) -> tuple[Edit[PackedTask], ...]:
    """The table of task edits: propositions come from the mask, rewards from the function."""
    implies, excludes = vocabulary.implies, vocabulary.excludes
    known = Alphabet(*map(bit_set, (mask, implies | implies.T, excludes)))
    return tuple(_task_edit(edit, known, reward) for edit in BODY_EDITS)


def _task_edit(edit: BodyEdit, known: Alphabet, reward: Callable[[PackedTask], PackedTask]) -> Edit[PackedTask]:
    """An edit of a random machine that it applies to."""

    def candidates(task: PackedTask) -> tuple[Bool[Array, "machines"], Bool[Array, "machines"]]:
        is_callee = jnp.arange(task.size.machines) != (0 if task.root is None else task.root)
        return jax.vmap(lambda body, callee: edit.applies(known, body, callee))(bodies(task), is_callee), is_callee

    def applicable(task: PackedTask) -> Bool[Array, ""]:
        return jnp.any(candidates(task)[0])

    def apply(key: Key[Array, ""], task: PackedTask) -> tuple[PackedTask, Int16[Array, "3"]]:
        u = edit_draws(key)
        applies, is_callee = candidates(task)
        number = 0 if task.root is None else pick(u[-1], applies)
        machines = bodies(task)
        changed, arguments = edit.make(known, u, body_of(machines, number), is_callee[number])
        edited = with_bodies(task, replace_body(machines, number, changed))
        return reward(edited), arguments.at[0].set(pack_pair(number, arguments[0])).astype(jnp.int16)

    return Edit(edit.name, applicable, apply)


# Hindsight: the part of a task before a state, and the part after it. Both are jittable; what results may be too large
# for the arrays of the task: then it does not fit.

Cut = Callable[[PackedTask, Any], tuple[PackedTask, Bool[Array, ""]]]
"""`(task, state) -> (part, fits)`. The part pays nothing yet."""


def suffix(task: PackedTask, state: TaskState) -> tuple[PackedTask, Bool[Array, ""]]:
    """The task that starts in a state. The machines of a stack are joined into the root, each continuing where the one
    inside it accepts."""
    size, machines, fits = task.size, bodies(task), jnp.bool_(True)
    if not isinstance(state, Stack):
        return with_bodies(task, replace_body(machines, 0, compact(body_of(machines, 0), state))), fits
    assert task.root is not None
    nodes = state.nodes.astype(jnp.int32)
    outermost = nodes[jnp.sum(nodes != UNUSED) - 1]
    rest = compact(body_of(machines, task.root.astype(jnp.int32)), outermost % size.states)
    for level in reversed(range(nodes.shape[0] - 1)):
        inside = compact(body_of(machines, nodes[level] // size.states), nodes[level] % size.states)
        # If it has accepted already, the call that is open here ends with the one inside.
        goes_on = (nodes[level + 1] != UNUSED) & (inside.outcome[0] != ACCEPTED)
        into_end = (inside.target != UNUSED) & (inside.outcome[inside.target] == ACCEPTED)
        shifted = jnp.where(rest.target != UNUSED, rest.target + size.states, UNUSED).astype(jnp.int8)
        both = Body(
            target=jnp.concatenate([jnp.where(into_end, jnp.int8(size.states), inside.target), shifted]),
            guard=jnp.concatenate([inside.guard, rest.guard]),
            call=jnp.concatenate([inside.call, rest.call]),
            outcome=jnp.concatenate([inside.outcome, rest.outcome]),
        )
        joined, enough = trim(compact(both), size.states)
        rest = choose(goes_on, joined, rest)
        fits &= enough | ~goes_on
    return with_bodies(task, replace_body(machines, task.root, rest)), fits


def prefix(task: PackedTask, state: TaskState) -> tuple[PackedTask, Bool[Array, ""]]:
    """The task that accepts on reaching a state. For a stack, the machine of every open
    call gets a copy, from the inside out, that accepts where that call stands."""
    size, machines, fits = task.size, bodies(task), jnp.bool_(True)
    if not isinstance(state, Stack):
        return with_bodies(task, replace_body(machines, 0, ending_at(body_of(machines, 0), state))), fits
    assert task.root is not None
    versions: list[Body] = []
    inner = jnp.int32(UNUSED)
    for level in range(size.machines):
        node = state.nodes[level].astype(jnp.int32)
        number, place = node // size.states, node % size.states
        body, enough = body_of(machines, number), jnp.bool_(True)
        if level == 0:
            version = ending_at(body, place)
        else:
            version, enough = _ending_with_call(body, inner, place, size.machines + level - 1)
        fits &= (node == UNUSED) | enough & ((number == task.root) | (version.outcome[0] == RUNNING))
        versions.append(version)
        inner = number
    # The version of the outermost machine takes the place of the root and the others stand behind all machines; then
    # what is not called is dropped and the gaps are closed.
    stacked: Body = jax.tree.map(lambda *leaves: jnp.stack(leaves), *versions)
    with_root = replace_body(machines, task.root, body_of(stacked, jnp.sum(state.nodes != UNUSED) - 1))
    extended: Body = jax.tree.map(lambda old, new: jnp.concatenate([old, new]), with_root, stacked)
    used = called(extended.call, task.root)
    rank = jnp.cumsum(used) - 1
    here = used[None, :] & (rank[None, :] == jnp.arange(size.machines)[:, None])
    filled = jnp.any(here, axis=1)[:, None, None]
    chosen: Body = jax.tree.map(lambda x: x[jnp.argmax(here, axis=1)], extended)
    call = jnp.where((chosen.call != UNUSED) & filled, rank[chosen.call], UNUSED).astype(jnp.int8)
    compacted = Body.unchecked(
        target=jnp.where(filled, chosen.target, NO_EDGE), guard=chosen.guard, call=call, outcome=chosen.outcome
    )
    moved = task.replace(root=rank[task.root].astype(jnp.int8))
    return with_bodies(moved, compacted), fits & (jnp.sum(used) <= size.machines)


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
    return trim(ending_at(wide, jnp.int32(states)), states)


def tell_state(argument: int) -> str:
    """A state in the lineage: `u2`, in a hierarchy `m1.u2`."""
    machine, state = unpack_pair(argument)
    return f"{machine_name(machine)}.u{state}" if machine else f"u{state}"


def tell_edit(name: str, arguments: Sequence[int], propositions: Sequence[str]) -> str | None:
    """What a task edit changed, from its arguments: `at u1: front_ball to front_key`; None for other edits."""
    first, second, third = arguments
    if name == "switch_proposition":
        return f"at {tell_state(first)}: {propositions[second]} to {propositions[third]}"
    if name == "add_state":
        where = "at the start" if second == START else f"at {tell_state(first)}"
        return f"{where}: {propositions[third]}"
    return tell_state(first) if name == "remove_state" else None
