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
from atlas.tasks.names import machine_name
from atlas.tasks.rm import ACCEPTED, UNUSED, RewardMachine, TaskSize
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
    order = jnp.argsort(~valid.reshape(-1), stable=True)
    return candidates.reshape(edges * slots, links)[order[:slots]]


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
    machines = [list(transitions) for transitions in machines]
    accepting, rejecting = frozenset(accepting), frozenset(rejecting)
    flat = [rm.machine(transitions, accepting, rejecting) for transitions in machines]
    size = TaskSize(*(max(sizes) for sizes in zip(*(task.size for task in flat), strict=True)))
    if len(flat) * size.states > MAX_NODES:
        raise AtlasError(f"{len(flat)} machines x {size.states} states are too many: at most {MAX_NODES} are allowed")
    call = np.full((len(flat), size.states, size.edges), UNUSED, np.int8)
    for number, transitions in enumerate(machines):
        for u, edges in enumerate(rm.arrange(transitions, accepting, rejecting)[0]):
            call[number, u, : len(edges)] = [edge.call for edge in edges]
    stacked: RewardMachine = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(rm.resize(task, size) for task in flat))
    return assemble(stacked, call, root)


def assemble(machines: RewardMachine, call: np.ndarray, root: int = 0) -> Hierarchy:
    """A hierarchy from stacked machines and the callee of each edge; calls are checked, chains counted and listed."""
    check_calls(call, root)
    slots, links = _count_chains(np.asarray(machines.target), call)
    return Hierarchy(
        target=machines.target,
        guard=machines.guard,
        reward=machines.reward,
        outcome=machines.outcome,
        call=jnp.asarray(call, jnp.int8),
        root=jnp.int8(root),
        chain=chains(machines.target, jnp.asarray(call, jnp.int8), slots, links),
    )


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


def _count_chains(target: np.ndarray, call: np.ndarray) -> tuple[int, int]:
    """The most ways out of one state, and the most edges in one (calls are known to be acyclic)."""

    @functools.cache
    def count(machine: int, state: int) -> tuple[int, int]:
        ways, links = 0, 0
        for edge in np.nonzero(target[machine, state] != UNUSED)[0]:
            callee = int(call[machine, state, edge])
            more, below = (1, 0) if callee == UNUSED else count(callee, 0)
            ways, links = ways + more, max(links, below + 1)
        return ways, links

    counts = [count(m, s) for m in range(target.shape[0]) for s in range(target.shape[1])]
    return max(1, *(ways for ways, _ in counts)), max(1, *(links for _, links in counts))
