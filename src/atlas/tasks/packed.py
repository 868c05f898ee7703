"""Tasks as arrays, for training: one struct and one formalism for flat tasks and for machines that call each other.

A flat task has one machine and neither calls nor chains, so it pays nothing for them, and its state is one number.

A call edge is taken only if its guard holds and the callee's initial state has a satisfied edge on the same label, and
so on down to a plain edge. All such chains are listed once, when a task is made (`chain`), so that one label is one
choice: the first chain whose guards all hold. A caller's edge is finished, and its reward paid, when the call returns.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int, Int8, Int16, Int32, Key

from atlas.errors import AtlasError
from atlas.struct import Struct
from atlas.tasks import machine
from atlas.tasks.machine import MAX_STATES, UNUSED, TaskSize
from atlas.types import Edit, Graph
from atlas.vocabulary import ACCEPTED, RUNNING, Pictured


class PackedTask(Struct, Pictured):
    """Machines in one array. State 0 of each is its initial one; terminal states have no edges.

    A literal is `proposition + 1`, negative if negated; 0 is an unused slot. A guard is the conjunction of its
    literals, so an edge with no literal is always satisfied. Parallel edges make a disjunction.
    """

    target: Int8[Array, "machines states edges"]
    """Where each edge leads, in its own machine; UNUSED for an empty slot."""
    guard: Int16[Array, "machines states edges literals"]
    reward: Float32[Array, "machines states edges"]
    """Paid when the edge is finished: for a call, when it returns."""
    outcome: Int8[Array, "machines states"]
    """RUNNING, ACCEPTED or REJECTED."""
    call: Int8[Array, "machines states edges"] | None = None
    """The machine an edge calls, UNUSED for a plain edge. None, as the fields below, where there is one machine."""
    root: Int8[Array, ""] | None = None
    """The machine that starts; it is never called."""
    chain: Int8[Array, "machines states chains links"] | None = None
    """Each way out of a state: its edge, then the edge of the callee's initial state, and so on down to a plain edge;
    UNUSED behind it. Derived by `chains`."""

    @property
    def size(self) -> TaskSize:
        """The sizes it is padded to."""
        return TaskSize(*self.guard.shape[-4:], *(() if self.chain is None else self.chain.shape[-2:]))


class Stack(Struct):
    """Where a task of several machines stands. A node is `machine * states + state`."""

    nodes: Int8[Array, "depth"]
    """The current node, then where each open call returns to, innermost first; UNUSED behind them."""
    owed: Float32[Array, "depth"]
    """The reward that is due on returning to each node."""


TaskState = Int8[Array, ""] | Stack
"""The state of a flat task, else a stack."""

# From plain tasks to arrays and back


def pack(task: machine.Task | PackedTask, size: TaskSize | None = None) -> PackedTask:
    """The arrays of a task, at its natural size or padded to a larger one; an error if it does not fit."""
    arrays = machine.tabulate(unpack(task), size)._asdict()
    # device_put, since jnp.asarray compiles a copy for every new shape
    return PackedTask(**{name: jax.device_put(array) for name, array in arrays.items() if array is not None})


def roomy(task: machine.Task | PackedTask) -> PackedTask:
    """The arrays of a task; a flat one is padded to a size that many share, so that few programs are compiled."""
    size = machine.natural_size(unpack(task))
    if size.machines == 1:
        rooms = [max(least, 1 << (need - 1).bit_length()) for need, least in zip(size[1:4], (8, 4, 4), strict=True)]
        size = TaskSize(1, *rooms)
    return pack(unpack(task), size)


def unpack(task: machine.Task | PackedTask) -> machine.Task:
    """The plain form of one task (not of a batch), without padding."""
    return task if isinstance(task, machine.Task) else machine.untabulate(tables(task))


def stack(tasks: Sequence[machine.Task | PackedTask], size: TaskSize | None = None) -> PackedTask:
    """A batch of tasks, padded to `size` or else to the largest of them. Flat ones may be among others."""
    sizes = [machine.natural_size(task) if isinstance(task, machine.Task) else task.size for task in tasks]
    if size is None:
        size = TaskSize(*(max(column) for column in zip(*sizes, strict=True)))
        if size.machines > 1:
            size = size._replace(chains=max(size.chains, *(s.edges for s in sizes if s.machines == 1), 1))
    if size.machines * size.states > MAX_STATES:
        raise AtlasError(
            f"together these tasks need {size.machines} machines x {size.states} states: at most {MAX_STATES} are "
            "possible in one batch, so play them in several, or flatten them"
        )
    rows = [machine.tabulate(unpack(task), size) for task in tasks]
    columns = {name: [getattr(row, name) for row in rows] for name in machine.Tables._fields}
    return PackedTask.unchecked(**{
        name: None if column[0] is None else jax.device_put(np.stack(column)) for name, column in columns.items()
    })  # fmt: skip


def unstack(batch: PackedTask) -> list[machine.Task]:
    """The plain form of every task of a batch."""
    columns = tables(batch)
    rows: Any = ([None if column is None else column[i] for column in columns] for i in range(len(columns.target)))
    return [machine.untabulate(machine.Tables(*row)) for row in rows]


def sound(batch: PackedTask, props: int) -> np.ndarray:
    """`bool[batch]`: which tasks of a batch, read from a file that anyone may have written, can be."""
    target, guard, reward, outcome, call, root, chain = tables(batch)
    _, machines, states, edges = target.shape

    def within(array: np.ndarray, low: int, high: int) -> Any:
        return ((array >= low) & (array < high)).reshape(len(array), -1).all(1)

    good = within(target, UNUSED, states) & within(guard, -props, props + 1) & within(outcome, 0, 3)
    good &= within(np.abs(reward), 0, machine.MAX_REWARD + 1)  # NaN is not within either
    good &= ~((target != UNUSED) & (outcome != RUNNING)[..., None]).reshape(len(target), -1).any(1)
    if call is None or root is None or chain is None:
        return good & (machines == 1) & (call is None and root is None and chain is None)
    good &= within(call, UNUSED, machines) & within(root, 0, machines) & within(chain, UNUSED, edges)
    for number in np.flatnonzero(good):
        row: Any = (column[number] for column in (target, guard, reward, outcome, call, root, chain))
        task = machine.untabulate(machine.Tables(*row))
        try:
            machine.hierarchy(task.machines, task.root)
        except AtlasError:
            good[number] = False
    return good


def flattened(batch: PackedTask) -> PackedTask:
    """A batch with its tasks flattened on the host, in sizes that are powers of two so that few shapes are compiled.

    A task whose flat form is too large becomes one that is never accepted.
    """
    if batch.call is None:
        return batch
    tasks = []
    for task in unstack(batch):
        try:
            tasks.append(machine.flatten(task))
        except AtlasError:
            tasks.append(machine.flat_task([]))
    sizes = zip(*map(machine.natural_size, tasks), strict=True)
    _, states, edges, literals, _, _ = (1 << (max(column) - 1).bit_length() for column in sizes)
    return stack(tasks, TaskSize(1, min(states, MAX_STATES), edges, literals))


def count_states(task: PackedTask) -> Int32[Array, ""]:
    """States of a task, over all its machines. They must be numbered without gaps."""
    highest = jnp.max(task.target, axis=(-2, -1)).astype(jnp.int32)  # edges lead to all states but the first
    return jnp.maximum(jnp.sum(highest + 1), 1)


def tables(task: machine.Task | PackedTask) -> machine.Tables:
    """The arrays of a task, or of a batch, on the host: as they are padded, or at the natural size of a plain task."""
    if isinstance(task, machine.Task):
        return machine.tabulate(task)
    leaves = [getattr(task, field.name) for field in fields(task)]
    arrays: Any = [None if leaf is None else np.asarray(leaf) for leaf in leaves]
    return machine.Tables(*arrays)


# Chains of calls


def chains(
    target: Int8[Array, "machines states edges"], call: Int8[Array, "machines states edges"], slots: int, links: int
) -> Int8[Array, "machines states {slots} {links}"]:
    """All ways out of every state, in the order of their edges; those beyond `slots` or `links` are lost."""
    below = jnp.full((target.shape[0], slots, links), UNUSED, jnp.int8)
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


class Ways(NamedTuple):
    """The chains out of one node, looked up: one row a chain, one column a level, the caller's first."""

    is_step: Bool[Array, "chains links"]
    guard: Int16[Array, "chains links literals"]
    node: Int8[Array, "chains links"]
    """Where the edge of each level leads."""
    reward: Float32[Array, "chains links"]


def ways_out(task: PackedTask, node: Int8[Array, ""]) -> Ways:
    """The chains out of a node of a task of several machines."""
    assert task.call is not None
    assert task.chain is not None
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
    return Ways(is_step, jnp.where(is_step[:, :, None], guards, jnp.int16(0)), goals, rewards)


# The formalism


def _not_given(*_: Any) -> Any:
    raise AssertionError("these tasks are only followed: nothing was given to draw or cut them with")


@dataclass(frozen=True)
class RewardMachines:
    """The formalism of reward machines. How tasks are drawn, edited and cut is handed in, where it is needed."""

    sample: Callable[[Key[Array, ""], Bool[Array, "props"]], PackedTask] = _not_given
    edits: tuple[Edit[Any], ...] = ()
    prefix: Callable[[PackedTask, Any], tuple[PackedTask, Bool[Array, ""]]] = _not_given
    suffix: Callable[[PackedTask, Any], tuple[PackedTask, Bool[Array, ""]]] = _not_given
    sequence: Callable[[Int[Array, "most"], Int32[Array, ""]], PackedTask] = _not_given
    """From some propositions and a number: so many of them, one after the other."""

    def initial(self, task: PackedTask) -> TaskState:
        """The root's initial state, nothing called."""
        if task.root is None:
            return jnp.int8(0)
        depth = task.size.machines  # calls are acyclic, so no machine is active twice
        root = task.root * jnp.int8(task.size.states)
        return Stack(
            nodes=jnp.where(jnp.arange(depth) == 0, root, jnp.int8(UNUSED)), owed=jnp.zeros(depth, jnp.float32)
        )

    def guards(self, task: PackedTask, state: TaskState) -> Int16[Array, "edges literals"]:
        """The literals of every edge out of a state; for a stack, those of every chain, all its levels side by side."""
        if not isinstance(state, Stack):
            return task.guard[0][state]
        guard = ways_out(task, state.nodes[0]).guard
        return guard.reshape(guard.shape[0], -1)

    def advance(
        self, task: PackedTask, state: TaskState, holds: Bool[Array, "edges literals"]
    ) -> tuple[TaskState, Float32[Array, ""]]:
        """Follow the first satisfied edge or chain and return from the calls it completes, or stay with reward 0."""
        if not isinstance(state, Stack):
            target, guard, reward = task.target[0], task.guard[0], task.reward[0]
            enabled = _satisfied(guard[state], holds) & (target[state] != UNUSED)
            edge = jnp.argmax(enabled)
            moves = enabled[edge]
            return jnp.where(moves, target[state, edge], state), jnp.where(moves, reward[state, edge], 0.0)
        ways = ways_out(task, state.nodes[0])
        enabled = _satisfied(ways.guard.reshape(holds.shape), holds) & ways.is_step[:, 0]
        taken = jnp.argmax(enabled)
        moved = _push(state, ways.is_step[taken], ways.node[taken], ways.reward[taken])
        returned, paid = _return(moved, task.outcome.reshape(-1))
        moves = enabled[taken]
        return jax.tree.map(lambda new, old: jnp.where(moves, new, old), returned, state), jnp.where(moves, paid, 0.0)

    def outcome(self, task: PackedTask, state: TaskState) -> Int8[Array, ""]:
        """RUNNING, ACCEPTED or REJECTED."""
        return task.outcome.reshape(-1)[state.nodes[0]] if isinstance(state, Stack) else task.outcome[0][state]

    def graph(self, task: PackedTask) -> Graph:
        """All states of all machines as nodes; a call also leads from its source to the callee's initial state."""
        if task.call is None:
            return Graph(target=task.target[0], guard=task.guard[0], outcome=task.outcome[0])
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

    def nodes(self, state: TaskState) -> Int[Array, "depth"]:
        """The rows of the graph where the task stands, innermost first; UNUSED behind them."""
        return (state.nodes if isinstance(state, Stack) else state[None]).astype(jnp.int32)


def _satisfied(guard: Int16[Array, "edges literals"], holds: Bool[Array, "edges literals"]) -> Bool[Array, "edges"]:
    """Which guards hold, given which of their propositions do."""
    return jnp.all((guard == 0) | (holds == (guard > 0)), axis=-1)


def _push(
    state: Stack, is_step: Bool[Array, "links"], node: Int8[Array, "links"], reward: Float32[Array, "links"]
) -> Stack:
    """The stack once a chain is entered: the edges of the chain, deepest first, replace the current node."""
    length = jnp.sum(is_step)
    place = jnp.arange(state.nodes.shape[0])
    from_chain = place < length
    level = jnp.where(from_chain, length - 1 - place, 0)
    kept = jnp.where(from_chain, 0, place - length + 1)
    return Stack(
        nodes=jnp.where(from_chain, node[level], state.nodes[kept]),
        owed=jnp.where(from_chain, reward[level], state.owed[kept]),
    )


def _return(state: Stack, outcome: Int8[Array, "nodes"]) -> tuple[Stack, Float32[Array, ""]]:
    """Return from every call whose machine has accepted. Reward: that of the edge taken, plus what the calls owed."""
    depth = state.nodes.shape[0]
    place = jnp.arange(depth)
    open_calls = jnp.sum(state.nodes != UNUSED) - 1
    done = jnp.cumprod((outcome[state.nodes] == ACCEPTED) & (place < open_calls))
    returns = jnp.sum(done)
    reward = jnp.sum(jnp.where(place <= returns, state.owed, 0.0))
    source = jnp.minimum(place + returns, depth - 1)
    inside = place + returns < depth
    left = Stack(
        nodes=jnp.where(inside, state.nodes[source], jnp.int8(UNUSED)),
        owed=jnp.where(inside & (place > 0), state.owed[source], 0.0),
    )
    return left, reward


def called(call: Int8[Array, "machines rows columns"], root: Int8[Array, ""] | int) -> Bool[Array, "machines"]:
    """Which machines the root calls, through others or not; the root included."""
    numbers = jnp.arange(call.shape[0])
    calls = jnp.any(call[:, :, :, None] == numbers[None, None, None, :], axis=(1, 2))
    spread = lambda _, on: on | jnp.any(calls & on[:, None], axis=0)  # noqa: E731
    return jax.lax.fori_loop(0, call.shape[0] - 1, spread, numbers == root)
