"""Flat reward machines, stored by their out-edges."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int, Int8, Int16, Key

from atlas.errors import AtlasError
from atlas.struct import Struct
from atlas.types import Edit, Graph
from atlas.vocabulary import ACCEPTED, REJECTED, RUNNING

UNUSED: Final = -1
"""Target of an edge slot that holds no edge."""
MAX_STATES: Final = 127
"""The number of a state is one byte."""
ACCEPT, REJECT = -1, -2
"""How those who build a machine may call its terminal states."""


class TaskSize(NamedTuple):
    """Static sizes that a batch of machines is padded to."""

    states: int
    edges: int
    """Edges out of one state."""
    literals: int
    """Literals on one edge."""


class RewardMachine(Struct):
    """States are numbered from 0, the initial one. Terminal states have no edges.

    A literal is `proposition + 1`, negative if negated; 0 is an unused slot. A guard is the conjunction of its
    literals, so an edge with no literal is always satisfied. Parallel edges make a disjunction.
    """

    target: Int8[Array, "states edges"]
    """Where each edge leads; UNUSED for an empty slot."""
    guard: Int16[Array, "states edges literals"]
    reward: Float32[Array, "states edges"]
    outcome: Int8[Array, "states"]
    """RUNNING, ACCEPTED or REJECTED."""

    @property
    def size(self) -> TaskSize:
        """The sizes it is padded to."""
        return TaskSize(*self.guard.shape[-3:])


def satisfied(guard: Int16[Array, "edges literals"], holds: Bool[Array, "edges literals"]) -> Bool[Array, "edges"]:
    """Which guards hold, given which of their propositions do."""
    return jnp.all((guard == 0) | (holds == (guard > 0)), axis=-1)


def advance(
    task: RewardMachine, u: Int8[Array, ""], holds: Bool[Array, "edges literals"]
) -> tuple[Int8[Array, ""], Float32[Array, ""]]:
    """Follow the first satisfied edge out of `u`, or stay with reward 0."""
    enabled = satisfied(task.guard[u], holds) & (task.target[u] != UNUSED)
    edge = jnp.argmax(enabled)
    moves = enabled[edge]
    return jnp.where(moves, task.target[u, edge], u), jnp.where(moves, task.reward[u, edge], 0.0)


class Transition(NamedTuple):
    """One edge, as front ends hand it to `machine`."""

    source: int
    target: int
    literals: Sequence[int]
    """Signed: `proposition + 1`, negative if negated. None at all: always satisfied."""
    reward: float = 0.0
    call: int = UNUSED
    """Number of the machine that is called (hierarchies only)."""


def machine(
    transitions: Iterable[tuple[Any, ...]],
    accepting: Iterable[int] = (ACCEPT,),
    rejecting: Iterable[int] = (REJECT,),
) -> RewardMachine:
    """A machine at its natural size, from `Transition`s (or plain tuples like them). State 0 is the initial one.

    Running states keep their order and, where no terminal number lies below them, their numbers. All accepting
    states become one, which comes after the running ones; then all rejecting ones, likewise. Edges keep their order.
    A machine whose initial state is terminal has no other.
    """
    leaving, outcome = arrange(transitions, accepting, rejecting)
    size = TaskSize(
        states=len(outcome),
        edges=max([1, *map(len, leaving)]),
        literals=max([1, *(len(edge.literals) for edges in leaving for edge in edges)]),
    )
    return fill(leaving, outcome, size)


def arrange(
    transitions: Iterable[tuple[Any, ...]],
    accepting: Iterable[int] = (ACCEPT,),
    rejecting: Iterable[int] = (REJECT,),
) -> tuple[list[list[Transition]], list[int]]:
    """The edges that leave each state, states renumbered as `machine` says, and the outcome of each state."""
    accepting, rejecting = frozenset(accepting), frozenset(rejecting)
    edges = [] if 0 in accepting | rejecting else [Transition(*t) for t in transitions]
    number, outcome = _number(edges, accepting, rejecting)
    if len(outcome) > MAX_STATES:
        raise AtlasError(f"a machine of {len(outcome)} states is too large: at most {MAX_STATES} are allowed")
    leaving: list[list[Transition]] = [[] for _ in outcome]
    for edge in edges:
        leaving[number[edge.source]].append(edge._replace(source=number[edge.source], target=number[edge.target]))
    return leaving, outcome


def _number(
    edges: Sequence[Transition], accepting: frozenset[int], rejecting: frozenset[int]
) -> tuple[dict[int, int], list[int]]:
    """The number of each state a builder mentions, and the outcome of each number."""
    terminal = accepting | rejecting
    mentioned = {0, *(e.source for e in edges), *(e.target for e in edges)}
    for edge in edges:
        if edge.source in terminal:
            raise AtlasError(f"an edge leaves state {edge.source}, which is accepting or rejecting: none may")
    running = sorted(mentioned - terminal)
    if running and running[0] < 0:
        raise AtlasError(f"state {running[0]} is neither accepting nor rejecting: other states are numbered from 0")
    number = {u: u - sum(0 <= t < u for t in terminal) for u in running}
    outcome = [RUNNING] * (max(number.values(), default=-1) + 1)
    for group, result in ((accepting, ACCEPTED), (rejecting, REJECTED)):
        if group & mentioned:
            number |= dict.fromkeys(group & mentioned, len(outcome))
            outcome.append(result)
    return number, outcome


def fill(leaving: Sequence[Sequence[Transition]], outcome: Sequence[int], size: TaskSize) -> RewardMachine:
    """A machine from the edges that leave each state and the outcome of each state; the rest is padding."""
    target = np.full(size[:2], UNUSED, np.int8)
    guard = np.zeros(size, np.int16)
    reward = np.zeros(size[:2], np.float32)
    for u, edges in enumerate(leaving):
        for e, edge in enumerate(edges):
            target[u, e] = edge.target
            guard[u, e, : len(edge.literals)] = edge.literals
            reward[u, e] = edge.reward
    return RewardMachine(  # device_put, since jnp.asarray compiles a copy for every new shape
        target=jax.device_put(target),
        guard=jax.device_put(guard),
        reward=jax.device_put(reward),
        outcome=jax.device_put(np.array([*outcome, *[RUNNING] * (size.states - len(outcome))], np.int8)),
    )


def transitions(task: RewardMachine) -> list[Transition]:
    """The edges of a machine as a list, by source then slot: the inverse of `machine`."""
    target, guard, reward = (np.asarray(x) for x in (task.target, task.guard, task.reward))
    return [
        Transition(int(u), int(target[u, e]), tuple(int(x) for x in guard[u, e] if x), float(reward[u, e]))
        for u, e in zip(*np.nonzero(target != UNUSED), strict=True)
    ]


def used_states(task: RewardMachine) -> Bool[Array, "states"]:
    """Which rows hold a state: the initial one, those with edges in or out, and terminal ones."""
    states = jnp.arange(task.target.shape[0])
    is_edge = task.target != UNUSED
    entered = jnp.any(task.target[:, :, None] == states[None, None, :], axis=(0, 1))
    return (states == 0) | jnp.any(is_edge, axis=1) | entered | (task.outcome != RUNNING)


def num_states(task: RewardMachine) -> Int[Array, ""]:
    """How many states there are, padding left out."""
    return jnp.sum(used_states(task))


def num_edges(task: RewardMachine) -> Int[Array, ""]:
    """How many edges there are."""
    return jnp.sum(task.target != UNUSED)


def adjacency(task: RewardMachine) -> Bool[Array, "states states"]:
    """Which state has an edge to which."""
    states = jnp.arange(task.target.shape[0])
    return jnp.any(task.target[:, :, None] == states[None, None, :], axis=1)


def reachable(task: RewardMachine) -> Bool[Array, "states"]:
    """Which states a path of edges leads to from the initial one, guards ignored."""
    edges = adjacency(task)
    start = jnp.arange(edges.shape[0]) == 0
    return jax.lax.fori_loop(0, edges.shape[0] - 1, lambda _, on: on | jnp.any(edges & on[:, None], axis=0), start)


def natural_size(task: RewardMachine) -> TaskSize:
    """The smallest sizes that hold the task (not jittable)."""
    target, outcome = np.asarray(task.target), np.asarray(task.outcome)
    is_edge = target != UNUSED
    last = max(0, int(target.max()), *is_edge.any(axis=1).nonzero()[0], *(outcome != RUNNING).nonzero()[0])
    literals = (np.asarray(task.guard) != 0) & is_edge[:, :, None]
    return TaskSize(
        states=int(last) + 1,
        edges=max(1, int(is_edge.sum(1).max())),
        literals=max(1, int(literals.sum(2).max())),
    )


def resize(task: RewardMachine, size: TaskSize) -> RewardMachine:
    """The same task padded or trimmed to other sizes; an error says so if it does not fit.

    Padding is jittable; trimming looks at the values of the task, so it is not.
    """
    if any(new < old for new, old in zip(size, task.size, strict=True)):
        task = _trim(task, size)
    states, edges, literals = (new - old for new, old in zip(size, task.size, strict=True))
    return task.replace(
        target=_pad(task.target, UNUSED, states, edges),
        guard=_pad(task.guard, 0, states, edges, literals),
        reward=_pad(task.reward, 0, states, edges),
        outcome=_pad(task.outcome, RUNNING, states),
    )


def _pad(array: Array, value: int, *widths: int) -> Array:
    ends = [(0, width) for width in widths]
    if isinstance(array, jax.core.Tracer):
        return jnp.pad(array, ends, constant_values=value)
    return jax.device_put(np.pad(np.asarray(array), ends, constant_values=value))


def _trim(task: RewardMachine, size: TaskSize) -> RewardMachine:
    """Cut what is padding down to `size`, holes in front of used slots included."""
    need = natural_size(task)
    if any(n > s for n, s in zip(need, size, strict=True)):
        raise AtlasError(
            f"the task needs {need.states} states, {need.edges} edges a state and {need.literals} literals an edge; "
            f"there is room for {size.states}, {size.edges} and {size.literals}"
        )
    leaving: list[list[Transition]] = [[] for _ in range(need.states)]
    for edge in transitions(task):
        leaving[edge.source].append(edge)
    return fill(leaving, [int(o) for o in np.asarray(task.outcome)[: need.states]], need)


def uncut(task: Any, state: Any) -> tuple[Any, Bool[Array, ""]]:
    """Where hindsight is not wanted: the task as it is, which does not count as a part of it."""
    return task, jnp.bool_(False)


@dataclass(frozen=True)
class RewardMachines:
    """The formalism of flat machines. How tasks are drawn and edited is handed in."""

    sample: Callable[[Key[Array, ""], Bool[Array, "props"]], RewardMachine]
    edits: tuple[Edit[Any], ...] = ()
    prefix: Callable[..., tuple[RewardMachine, Bool[Array, ""]]] = uncut
    suffix: Callable[..., tuple[RewardMachine, Bool[Array, ""]]] = uncut

    def initial(self, task: RewardMachine) -> Int8[Array, ""]:
        return jnp.int8(0)

    def guards(self, task: RewardMachine, state: Int8[Array, ""]) -> Int16[Array, "edges literals"]:
        return task.guard[state]

    def advance(
        self, task: RewardMachine, state: Int8[Array, ""], holds: Bool[Array, "edges literals"]
    ) -> tuple[Int8[Array, ""], Float32[Array, ""]]:
        return advance(task, state, holds)

    def outcome(self, task: RewardMachine, state: Int8[Array, ""]) -> Int8[Array, ""]:
        return task.outcome[state]

    def graph(self, task: RewardMachine) -> Graph:
        return Graph(target=task.target, guard=task.guard, outcome=task.outcome)

    def nodes(self, state: Int8[Array, ""]) -> Int[Array, "depth"]:
        return state.astype(jnp.int32)[None]
