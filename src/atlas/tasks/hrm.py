"""Hierarchies: reward machines that call reward machines. Flat tasks pay nothing for them (see `rm`).

A call edge is taken only if its guard holds and the callee's initial state has a satisfied edge on the same label, and
so on down to a plain edge. All such chains are listed once, when a hierarchy is made (`chain`), so that one label is
one flat choice: which chain's guards all hold. A caller's edge is finished, and its reward paid, when the call returns.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int, Int8, Int16, Key

from atlas.errors import AtlasError
from atlas.struct import Struct
from atlas.tasks import rm
from atlas.tasks.machine import machine_name
from atlas.tasks.rm import ACCEPTED, RUNNING, UNUSED, RewardMachine, TaskSize, Transition
from atlas.types import Edit, Graph

MAX_NODES = 127
"""States of all machines together, padding included: a node is one byte."""


class HierarchySize(NamedTuple):
    """Static sizes that a batch of hierarchies is padded to."""

    machines: int
    states: int
    """States of one machine."""
    edges: int
    """Edges out of one state."""
    literals: int
    """Literals on one edge."""
    chains: int
    """Ways out of one state, counting each chain of calls down to a plain edge."""
    links: int
    """Edges in one such chain."""


class Hierarchy(Struct):
    """Machines in one array; the root is never called. State 0 of each machine is its initial one."""

    target: Int8[Array, "machines states edges"]
    """Where each edge leads, in its own machine; UNUSED for an empty slot."""
    guard: Int16[Array, "machines states edges literals"]
    reward: Float32[Array, "machines states edges"]
    """Paid when the edge is finished: for a call, when it returns."""
    outcome: Int8[Array, "machines states"]
    call: Int8[Array, "machines states edges"]
    """The machine an edge calls; UNUSED for a plain edge."""
    root: Int8[Array, ""]
    chain: Int8[Array, "machines states chains links"]
    """Each way out of a state: its edge, then the edge of the callee's initial state, and so on down to a plain edge;
    UNUSED behind it. Derived by `chains`."""

    @property
    def size(self) -> HierarchySize:
        """The sizes it is padded to."""
        return HierarchySize(*self.guard.shape[-4:], *self.chain.shape[-2:])


class HierarchyState(Struct):
    """Where a hierarchy stands. A node is `machine * states + state`."""

    nodes: Int8[Array, "depth"]
    """The current node, then where each open call returns to, innermost first; UNUSED behind them."""
    owed: Float32[Array, "depth"]
    """The reward that is due on returning to each node."""


def chains(
    target: Int8[Array, "machines states edges"], call: Int8[Array, "machines states edges"], slots: int, links: int
) -> Int8[Array, "machines states {slots} {links}"]:
    """All ways out of every state, in the order of their edges; those beyond `slots` or `links` are lost."""
    machines = target.shape[0]
    below = jnp.full((machines, slots, links), UNUSED, jnp.int8)
    for _ in range(links):
        ways = jax.vmap(jax.vmap(_extend, (0, 0, None)), (0, 0, None))(target, call, below)
        below = ways[:, 0]
    return ways


def _extend(
    target: Int8[Array, "edges"], call: Int8[Array, "edges"], below: Int8[Array, "machines chains links"]
) -> Int8[Array, "chains links"]:
    """The ways out of one state, given those out of every machine's initial state."""
    edges, (_, slots, links) = target.shape[0], below.shape
    first = jnp.arange(slots) == 0
    is_call = (call != UNUSED)[:, None]
    valid = (target != UNUSED)[:, None] & jnp.where(is_call, below[call, :, 0] != UNUSED, first[None])
    head = jnp.broadcast_to(jnp.arange(edges, dtype=jnp.int8)[:, None, None], (edges, slots, 1))
    tail = jnp.where(is_call[:, :, None], below[call], jnp.int8(UNUSED))[:, :, : links - 1]
    candidates = jnp.where(valid[:, :, None], jnp.concatenate([head, tail], -1), jnp.int8(UNUSED))
    # Valid ones to the front, by counting: XLA's sort would take most of the time of an edit.
    number = jnp.where(valid, jnp.cumsum(valid).reshape(valid.shape) - 1, UNUSED).reshape(-1)
    here = number[None, :] == jnp.arange(slots)[:, None]
    chosen = candidates.reshape(edges * slots, links)[jnp.argmax(here, axis=1)]
    return jnp.where(jnp.any(here, axis=1)[:, None], chosen, jnp.int8(UNUSED))


class _Way(NamedTuple):
    """The chains out of one node, looked up: one row a chain, one column a level, the caller's first."""

    is_step: Bool[Array, "chains links"]
    guard: Int16[Array, "chains links literals"]
    node: Int8[Array, "chains links"]
    """Where the edge of each level leads."""
    reward: Float32[Array, "chains links"]


def _ways(task: Hierarchy, node: Int8[Array, ""]) -> _Way:
    machines, states, edges, literals, _, links = task.size
    nodes = machines * states
    target, call = task.target.reshape(nodes, edges), task.call.reshape(nodes, edges)
    guard, reward = task.guard.reshape(nodes, edges, literals), task.reward.reshape(nodes, edges)
    chain = task.chain.reshape(nodes, -1, links)[node]
    at = jnp.broadcast_to(node.astype(jnp.int32), chain.shape[:1])
    columns = []
    for level in range(links):
        edge = chain[:, level]
        goal = at // states * states + target[at, edge]
        columns.append((edge != UNUSED, guard[at, edge], goal.astype(jnp.int8), reward[at, edge]))
        at = call[at, edge].astype(jnp.int32) * states
    is_step, guards, goals, rewards = (jnp.stack(c, axis=1) for c in zip(*columns, strict=True))
    return _Way(is_step, jnp.where(is_step[:, :, None], guards, jnp.int16(0)), goals, rewards)


def initial(task: Hierarchy) -> HierarchyState:
    """The root's initial state, nothing called."""
    depth = task.size.machines  # calls are acyclic, so no machine is active twice
    first = jnp.arange(depth) == 0
    return HierarchyState(
        nodes=jnp.where(first, task.root * jnp.int8(task.size.states), jnp.int8(UNUSED)),
        owed=jnp.zeros(depth, jnp.float32),
    )


def guards(task: Hierarchy, state: HierarchyState) -> Int16[Array, "chains literals"]:
    """The literals of every chain out of the current node, those of all its levels side by side."""
    guard = _ways(task, state.nodes[0]).guard
    return guard.reshape(guard.shape[0], -1)


def advance(
    task: Hierarchy, state: HierarchyState, holds: Bool[Array, "chains literals"]
) -> tuple[HierarchyState, Float32[Array, ""]]:
    """Follow the first satisfied chain and return from every call that it completes, or stay with reward 0."""
    ways = _ways(task, state.nodes[0])
    enabled = rm.satisfied(ways.guard.reshape(holds.shape), holds) & ways.is_step[:, 0]
    taken = jnp.argmax(enabled)
    moved = _push(state, ways.is_step[taken], ways.node[taken], ways.reward[taken])
    returned, reward = _return(moved, task.outcome.reshape(-1))
    moves = enabled[taken]
    return jax.tree.map(lambda new, old: jnp.where(moves, new, old), returned, state), jnp.where(moves, reward, 0.0)


def _push(
    state: HierarchyState, is_step: Bool[Array, "links"], node: Int8[Array, "links"], reward: Float32[Array, "links"]
) -> HierarchyState:
    """The stack once a chain is entered: the edges of the chain, deepest first, replace the current node."""
    length = jnp.sum(is_step)
    place = jnp.arange(state.nodes.shape[0])
    from_chain = place < length
    level = jnp.where(from_chain, length - 1 - place, 0)
    kept = jnp.where(from_chain, 0, place - length + 1)
    return HierarchyState(
        nodes=jnp.where(from_chain, node[level], state.nodes[kept]),
        owed=jnp.where(from_chain, reward[level], state.owed[kept]),
    )


def _return(state: HierarchyState, outcome: Int8[Array, "nodes"]) -> tuple[HierarchyState, Float32[Array, ""]]:
    """Leave every call whose machine has accepted; what was owed for it is the reward, with that of the edge taken."""
    depth = state.nodes.shape[0]
    place = jnp.arange(depth)
    open_calls = jnp.sum(state.nodes != UNUSED) - 1
    done = jnp.cumprod((outcome[state.nodes] == ACCEPTED) & (place < open_calls))
    returns = jnp.sum(done)
    reward = jnp.sum(jnp.where(place <= returns, state.owed, 0.0))
    source = jnp.minimum(place + returns, depth - 1)
    inside = place + returns < depth
    left = HierarchyState(
        nodes=jnp.where(inside, state.nodes[source], jnp.int8(UNUSED)),
        owed=jnp.where(inside & (place > 0), state.owed[source], 0.0),
    )
    return left, reward


def graph(task: Hierarchy) -> Graph:
    """All states of all machines as nodes; a call also leads from its source to the callee's initial state."""
    machines, states, edges, literals, _, _ = task.size
    base = (jnp.arange(machines, dtype=jnp.int8) * jnp.int8(states))[:, None, None]
    inside = jnp.where(task.target != UNUSED, base + task.target, jnp.int8(UNUSED))
    is_call = (task.call != UNUSED) & (task.target != UNUSED)
    enter = jnp.where(is_call, task.call * jnp.int8(states), jnp.int8(UNUSED))
    enter_guard = jnp.where(is_call[..., None], task.guard, jnp.int16(0))
    return Graph(
        target=jnp.concatenate([inside, enter], -1).reshape(machines * states, 2 * edges),
        guard=jnp.concatenate([task.guard, enter_guard], -2).reshape(machines * states, 2 * edges, literals),
        outcome=task.outcome.reshape(-1),
    )


@dataclass(frozen=True)
class Hierarchies:
    """The formalism of hierarchies. How tasks are drawn and edited is handed in."""

    sample: Callable[[Key[Array, ""], Bool[Array, "props"]], Hierarchy]
    edits: tuple[Edit[Any], ...] = ()
    prefix: Callable[..., tuple[Hierarchy, Bool[Array, ""]]] = rm.uncut
    suffix: Callable[..., tuple[Hierarchy, Bool[Array, ""]]] = rm.uncut

    def initial(self, task: Hierarchy) -> HierarchyState:
        return initial(task)

    def guards(self, task: Hierarchy, state: HierarchyState) -> Int16[Array, "chains literals"]:
        return guards(task, state)

    def advance(
        self, task: Hierarchy, state: HierarchyState, holds: Bool[Array, "chains literals"]
    ) -> tuple[HierarchyState, Float32[Array, ""]]:
        return advance(task, state, holds)

    def outcome(self, task: Hierarchy, state: HierarchyState) -> Int8[Array, ""]:
        return task.outcome.reshape(-1)[state.nodes[0]]

    def graph(self, task: Hierarchy) -> Graph:
        return graph(task)

    def nodes(self, state: HierarchyState) -> Int[Array, "depth"]:
        return state.nodes.astype(jnp.int32)


def hierarchy(
    machines: Sequence[Iterable[tuple[Any, ...]]],
    root: int = 0,
    accepting: Iterable[int] = (rm.ACCEPT,),
    rejecting: Iterable[int] = (rm.REJECT,),
) -> Hierarchy:
    """A hierarchy at its natural size from the `Transition`s of each machine; states as `rm.machine` numbers them."""
    arranged = [rm.arrange(transitions, accepting, rejecting) for transitions in map(list, machines)]
    need = TaskSize(
        states=max(len(outcome) for _, outcome in arranged),
        edges=max([1, *(len(edges) for leaving, _ in arranged for edges in leaving)]),
        literals=max([1, *(len(edge.literals) for leaving, _ in arranged for edges in leaving for edge in edges)]),
    )
    return _assemble(arranged, root, need)


Arranged = tuple[list[list[Transition]], list[int]]
"""The edges that leave each state of a machine, and the outcome of each state."""


def _assemble(arranged: Sequence[Arranged], root: int, size: TaskSize, ways: tuple[int, int] = (1, 1)) -> Hierarchy:
    """Stack the machines, check the calls and list the chains, with room for at least `ways` (chains, links)."""
    if len(arranged) * size.states > MAX_NODES:
        raise AtlasError(f"{len(arranged)} machines x {size.states} states are too many: at most {MAX_NODES} may be")
    call = np.full((len(arranged), size.states, size.edges), UNUSED, np.int8)
    for machine, (leaving, _) in enumerate(arranged):
        for u, edges in enumerate(leaving):
            call[machine, u, : len(edges)] = [edge.call for edge in edges]
    check_calls(call, root)
    machines: RewardMachine = jax.tree.map(
        lambda *leaves: jax.device_put(np.stack(leaves)),
        *(rm.fill(edges, outcome, size) for edges, outcome in arranged),
    )
    return Hierarchy(
        target=machines.target,
        guard=machines.guard,
        reward=machines.reward,
        outcome=machines.outcome,
        call=jax.device_put(call),
        root=jax.device_put(np.int8(root)),
        chain=jax.device_put(_list_chains([leaving for leaving, _ in arranged], size.states, ways)),
    )


def _list_chains(machines: Sequence[Sequence[Sequence[Transition]]], states: int, least: tuple[int, int]) -> np.ndarray:
    """What `chains` gives, without tracing, at the smallest size that loses none."""

    @functools.cache
    def ways(machine: int, state: int) -> list[tuple[int, ...]]:
        found: list[tuple[int, ...]] = []
        for slot, edge in enumerate(machines[machine][state]):
            found += [(slot,)] if edge.call == UNUSED else [(slot, *below) for below in ways(edge.call, 0)]
        return found

    listed = {(m, u): ways(m, u) for m, leaving in enumerate(machines) for u in range(len(leaving))}
    slots = max([least[0], *(len(found) for found in listed.values())])
    links = max([least[1], *(len(chain) for found in listed.values() for chain in found)])
    table = np.full((len(machines), states, slots, links), UNUSED, np.int8)
    for (machine, state), found in listed.items():
        for slot, chain in enumerate(found):
            table[machine, state, slot, : len(chain)] = chain
    return table


def machine_of(task: Hierarchy, number: int) -> RewardMachine:
    """One machine of a hierarchy, its calls left out (not jittable)."""
    fields = {name: getattr(task, name) for name in ("target", "guard", "reward", "outcome")}
    return RewardMachine(**{name: jax.device_put(np.asarray(field)[number]) for name, field in fields.items()})


def arranged(task: Hierarchy) -> list[Arranged]:
    """The edges that leave each state of each machine, calls included, and the outcome of each state."""
    call, target = np.asarray(task.call), np.asarray(task.target)
    machines: list[Arranged] = []
    for number in range(target.shape[0]):
        leaving: list[list[Transition]] = [[] for _ in range(target.shape[1])]
        used = call[number][target[number] != UNUSED]
        for edge, callee in zip(rm.transitions(machine_of(task, number)), used, strict=True):
            leaving[edge.source].append(edge._replace(call=int(callee)))
        machines.append((leaving, [int(o) for o in np.asarray(task.outcome)[number]]))
    return machines


def natural_size(task: Hierarchy) -> HierarchySize:
    """The smallest sizes that hold the hierarchy (not jittable)."""
    target, chain = np.asarray(task.target), np.asarray(task.chain)
    sizes = [rm.natural_size(machine_of(task, number)) for number in range(target.shape[0])]
    used = (target != UNUSED).any(axis=(1, 2)) | (np.asarray(task.outcome) != RUNNING).any(axis=1)
    is_link = chain != UNUSED
    states, edges, literals = (max(column) for column in zip(*sizes, strict=True))
    return HierarchySize(
        machines=max([int(task.root), *map(int, used.nonzero()[0])]) + 1,
        states=states,
        edges=edges,
        literals=literals,
        chains=max(1, int(is_link[..., 0].sum(-1).max())),
        links=max(1, int(is_link.sum(-1).max())),
    )


def resize(task: Hierarchy, size: HierarchySize) -> Hierarchy:
    """The same hierarchy padded or trimmed to other sizes; an error says so if it does not fit (not jittable)."""
    need = natural_size(task)
    if any(n > s for n, s in zip(need, size, strict=True)):
        raise AtlasError(
            "the task does not fit: "
            + ", ".join(f"{n} {name} of {s}" for n, s, name in zip(need, size, size._fields, strict=True) if n > s)
        )
    machines = [
        (leaving[: need.states], outcome[: need.states]) for leaving, outcome in arranged(task)[: need.machines]
    ]
    blank: Arranged = ([[] for _ in range(size.states)], [RUNNING] * size.states)
    filled = [*machines, *[blank] * (size.machines - need.machines)]
    return _assemble(filled, int(task.root), TaskSize(*size[1:4]), size[4:])


def check_calls(call: np.ndarray, root: int = 0) -> None:
    """An error if a call is cyclic, leads to the root or to no machine."""
    machines = len(call)
    callees = [sorted({int(c) for c in call[m].ravel() if c != UNUSED}) for m in range(machines)]
    if not 0 <= root < machines:
        raise AtlasError(f"the root {machine_name(root)} does not exist: there are {machines} machines")
    for caller, called in enumerate(callees):
        for callee in called:
            if not 0 <= callee < machines:
                raise AtlasError(f"{machine_name(caller)} calls {machine_name(callee)}, which does not exist")
            if callee == root:
                raise AtlasError(f"{machine_name(caller)} calls {machine_name(root)}: the root may not be called")

    def visit(machine: int, callers: tuple[int, ...]) -> None:
        if machine in callers:
            cycle = " -> ".join(machine_name(m) for m in (*callers[callers.index(machine) :], machine))
            raise AtlasError(f"the calls {cycle} are cyclic: a machine may not call itself, directly or through others")
        for callee in callees[machine]:
            visit(callee, (*callers, machine))

    for machine in range(machines):
        visit(machine, ())
