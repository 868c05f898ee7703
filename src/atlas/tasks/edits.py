"""Small changes of tasks (the paper, Appendix D), one row each, for every kind of machine.

Guards that leave one state exclude each other by their literals, and stay so: a proposition is replaced wherever it
occurs on the edges out of a state, and a negation goes with the sibling it was for. Rewards are put back at the end.
Where siblings are about, a new proposition neither implies nor is implied by theirs: one of the two could never hold.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int, Int8, Int16, Int32, Key, UInt32

from atlas.chance import below, edit_draws, pick
from atlas.struct import Struct
from atlas.tasks import sample
from atlas.tasks.hrm import Hierarchy, HierarchySize, HierarchyState, chains
from atlas.tasks.machine import machine_name
from atlas.tasks.rm import ACCEPTED, REJECTED, RUNNING, UNUSED, RewardMachine, TaskSize
from atlas.tasks.sample import WORD
from atlas.types import Edit, pack_pair, unpack_pair
from atlas.vocabulary import Vocabulary

# Cutting and joining one machine: the operations under task edits and hindsight.
#
# They work on a `Body`, a machine with the callee of each edge and without rewards, so that flat machines and the
# machines of a hierarchy are treated alike. All are jittable and keep the order of states, so sequences stay in order.

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


# Edits of hierarchies: those of bodies, on one machine at a time.
#
# Callees keep their one plain first edge, so calls can always be entered as before. A machine that nothing calls any
# more
# is dropped.


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
        arguments = arguments.at[0].set(pack_pair(machine, arguments[0])).astype(jnp.int16)
        return reward(hierarchy_of(machines, task)), arguments

    return Edit(name, applicable, apply)


# What a task looks like from partial progress: the part before a task state, and the part after it.
#
# On hierarchies both are done to the stack. *After*: the machines on the stack are joined into one, the root, each
# continuing where the one inside it accepts. *Before*: the calls that are open become the only ones that count, so each
# machine on the stack gets a version that ends with them. What results may be too large: then it does not fit.

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
    return machine_of(prefix(body_of(task), state)), jnp.bool_(True)


def after_state(task: RewardMachine, state: Int[Array, ""]) -> tuple[RewardMachine, Bool[Array, ""]]:
    """The machine that starts in a state."""
    return machine_of(suffix(body_of(task), state)), jnp.bool_(True)


def after_stack(task: Hierarchy, state: HierarchyState) -> tuple[Hierarchy, Bool[Array, ""]]:
    """The hierarchy that starts with a stack, its machines joined into the root."""
    states = task.size.states
    machines = bodies(task)
    rest = _body(machines, task.root.astype(jnp.int32))
    rest = compact(rest, _outermost(state) % states)
    fits = jnp.bool_(True)
    for level in reversed(range(state.nodes.shape[0] - 1)):
        node, has_caller = state.nodes[level].astype(jnp.int32), state.nodes[level + 1] != UNUSED
        inside = compact(_body(machines, node // states), node % states)
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
    return _trim(compact(double), states)


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
            version, enough = prefix(body, place), jnp.bool_(True)
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
    return _trim(prefix(wide, jnp.int32(states)), states)


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


# Small changes of tasks (the paper, Appendix D), one row each, for every kind of machine.
#
# Guards that leave one state exclude each other by their literals, and stay so: a proposition is replaced wherever it
# occurs on the edges out of a state, and a negation goes with the sibling it was for. Rewards are put back at the end.
# Where siblings are about, a new proposition neither implies nor is implied by theirs: one of the two could never hold.

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
        np.asarray(sample.pack(jnp.asarray(sets))) for sets in (mask, implies | implies.T, excludes)
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
    here = numbers(body) == state
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
        return sample.pick(u, allowed & ~mentioned).astype(jnp.int32)
    others = (guard != 0) & (jnp.abs(guard) != old)
    beside = others & (guard > 0) & jnp.any(guard == old, axis=1)[:, None]
    prop = jnp.maximum(jnp.abs(guard) - 1, 0).reshape(-1)
    nothing = jnp.uint32(0)
    clashes = jnp.where(others.reshape(-1)[:, None], jnp.asarray(known.related)[prop], nothing)
    clashes |= jnp.where(beside.reshape(-1)[:, None], jnp.asarray(known.excluded)[prop], nothing)
    best = allowed & ~mentioned & ~_or(clashes)
    return sample.pick(u, jnp.where(jnp.any(best != 0), best, allowed & ~mentioned)).astype(jnp.int32)


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
    prop = sample.pick(u[0], jnp.asarray(known.bits)).astype(jnp.int32)
    where = below(u[1], 3)
    slots = body.target.shape[1]
    source, slot = jnp.divmod(pick(u[2], (body.target != UNUSED).reshape(-1)), slots)
    at = jnp.stack([jnp.int32(0), source + 1, _num_states(body).astype(jnp.int32)])[where]
    grown = insert_state(body, at)
    new, split = (
        numbers(body) == at,
        (numbers(body) == source)[:, None] & (jnp.arange(slots) == slot)[None],
    )
    follows = jnp.where(where == START, 1, grown.target[source, slot])
    led = grown.replace(target=jnp.where(split & (where == MIDDLE), at, grown.target).astype(jnp.int8))
    inserted = set_edge(led, new, follows, prop)
    appended = _append(grown, new, at, prop)
    chosen: Body = jax.tree.map(lambda end, other: jnp.where(where == END, end, other), appended, inserted)
    return chosen, jnp.stack([at, where, prop])


def _append(body: Body, new: Bool[Array, "states"], at: Int32[Array, ""], prop: Int32[Array, ""]) -> Body:
    """What accepted leads on to the new state, which accepts instead."""
    ends = body.outcome == ACCEPTED
    outcome = jnp.where(new, ACCEPTED, jnp.where(ends, RUNNING, body.outcome)).astype(jnp.int8)
    return set_edge(body, ends, at, prop).replace(outcome=outcome)


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
    merged = merge(body, gone, into)
    ended = end_at(merged, into)
    left: Body = jax.tree.map(lambda a, b: jnp.where(outcome == ACCEPTED, a, b), ended, merged)
    return compact(left, jnp.where(gone == 0, into, 0)), jnp.stack([gone, into, jnp.int32(-1)])


def _replacements(body: Body, callee: Bool[Array, ""]) -> tuple[Bool[Array, "n"], Bool[Array, "n n"]]:
    """Which states can go, and which can take the place of each: acceptance must stay within reach.

    A running state hands over to a successor from which acceptance can be reached without it, the initial one only to
    one that can be initial. An accepting one hands over to a predecessor other than the initial state.
    """
    states = numbers(body)
    edges = successors(body) & (states[:, None] != states[None, :])
    reached = reached_from(edges, states == 0)
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
        return can(body_of(task), nobody_calls)

    def apply(key: Key[Array, ""], task: Any) -> tuple[Any, Int16[Array, "3"]]:
        body, arguments = make(edit_draws(key), body_of(task), nobody_calls)
        return reward(machine_of(body)), arguments.astype(jnp.int16)

    return Edit(name, applicable, apply)


def tell_state(argument: int) -> str:
    """A state in the lineage: `u2`, in a hierarchy `m1.u2`."""
    machine, state = unpack_pair(argument)
    return f"{machine_name(machine)}.u{state}" if machine else f"u{state}"


def tell_edit(name: str, arguments: Sequence[int], propositions: Sequence[str]) -> str | None:
    """What a task edit changed, from its arguments in the lineage: `at u1: front_ball to front_key`; else None."""
    first, second, third = arguments
    if name == "switch_proposition":
        return f"at {tell_state(first)}: {propositions[second]} to {propositions[third]}"
    if name == "add_state":
        where = {START: "at the start", END: "at the end"}.get(second, f"at {tell_state(first)}")
        return f"{where}: {propositions[third]}"
    return tell_state(first) if name == "remove_state" else None
