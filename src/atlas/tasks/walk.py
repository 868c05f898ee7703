"""Machines from random walks (the paper, Appendix A.2): a Markov matrix, walks over it, labels on the edges they took.

State 0 is the initial one and the last row the accepting one. A walk ends there; one that has not arrived by its last
step takes that step there, so acceptance is always reachable and every state that is kept lies on a walk.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Int, Int8, Int16, Key

from atlas.tasks.labels import NO_LABEL, Relation, label_edges, pack_or_all, pick
from atlas.tasks.rm import ACCEPTED, RUNNING, UNUSED, RewardMachine, TaskSize

MatrixFn = Callable[[Float[Array, "states states"]], Float[Array, "states states"]]
"""Weights of the steps between states, from numbers in [0, 1); rows need not be normalised."""


def sequential_matrix(uniforms: Float[Array, "states states"]) -> Float[Array, "states states"]:
    """Each state leads to the next one."""
    return jnp.eye(uniforms.shape[0], k=1)


def dag_matrix(uniforms: Float[Array, "states states"]) -> Float[Array, "states states"]:
    """Any later state, with weights drawn uniformly for each machine."""
    return jnp.triu(jnp.maximum(uniforms, 1e-6), k=1)


def cyclic_matrix(uniforms: Float[Array, "states states"]) -> Float[Array, "states states"]:
    """Any other state but the accepting one, with weights drawn uniformly for each machine.

    Only the last step leads to acceptance, so that a walk has its full length and comes back to where it was.
    """
    weights = jnp.maximum(uniforms, 1e-6) * (1 - jnp.eye(uniforms.shape[0]))
    return weights.at[:, -1].set(0.0)


def authors_matrix(uniforms: Float[Array, "states states"]) -> Float[Array, "states states"]:
    """The fixed weights of the authors' DAG runs: g(u)^(v-u), g(u) = (|u - 3.5| / 3.5)^2, so uniform from state 0."""
    states = np.arange(uniforms.shape[0])
    ahead = states[None, :] - states[:, None]
    decay = ((np.abs(states - 3.5) / 3.5) ** 2)[:, None]
    return jnp.asarray(np.where(ahead > 0, decay ** np.maximum(ahead, 0), 0.0), jnp.float32)


MATRICES: dict[str, MatrixFn] = {
    "sequential": sequential_matrix,
    "dag": dag_matrix,
    "cyclic": cyclic_matrix,
    "authors-dag": authors_matrix,
}


@dataclass(frozen=True)
class Walks:
    """How the graph of a machine is drawn. Static."""

    matrix: MatrixFn
    states: int
    edges: int
    """Edges that may leave one state; beyond them a walk keeps to the edges there are."""
    steps: int
    """Length of a walk: connectivity x states."""
    restart: float
    most: int
    """Most walks."""
    forward: bool = True
    """Whether every step leads to a later state."""

    @property
    def arrives(self) -> bool:
        """Whether every walk reaches the accepting state by itself."""
        return self.forward and self.steps >= self.states - 1

    @property
    def size(self) -> TaskSize:
        """The sizes that hold every machine drawn this way."""
        visits = self.most if self.forward else self.most * self.steps
        edges = max(1, min(self.edges, self.states - 1, visits))
        return TaskSize(states=self.states, edges=edges, literals=edges)

    @property
    def num_edges(self) -> int:
        """Most edges of a machine drawn this way."""
        steps = min(self.steps, self.states - 1) if self.forward else self.steps
        return min(self.most * steps, self.states * self.size.edges)


def draw_graph(key: Key[Array, ""], walks: Walks, one_start: Bool[Array, ""] | bool = False) -> Bool[Array, "n n"]:
    """The union of the edges of one or more walks; with `one_start` a single edge leaves state 0, and none returns."""
    square = walks.states**2
    numbers = jax.random.uniform(key, (square + walks.most * (walks.steps + 1),))  # one call compiles fastest
    weights = walks.matrix(numbers[:square].reshape(walks.states, walks.states))
    weights = weights.at[:, 0].set(jnp.where(one_start, 0.0, weights[:, 0]))
    uniforms = numbers[square:].reshape(walks.most, walks.steps + 1)
    again = (uniforms[:, -1] < walks.restart).at[0].set(True)
    takes_place = jnp.cumprod(again).astype(bool)

    def walk(edges: Bool[Array, "n n"], drawn: tuple[Array, Array]) -> tuple[Array, None]:
        return _walk(edges, *drawn, weights=weights, walks=walks, one_start=one_start), None

    none = jnp.zeros((walks.states, walks.states), bool)
    return jax.lax.scan(walk, none, (uniforms[:, :-1], takes_place))[0]


def _walk(
    edges: Bool[Array, "n n"],
    uniforms: Float[Array, "steps"],
    takes_place: Bool[Array, ""],
    weights: Float[Array, "n n"],
    walks: Walks,
    one_start: Bool[Array, ""] | bool,
) -> Bool[Array, "n n"]:
    """Add the edges of one walk from the initial state."""
    accept = walks.states - 1
    states = jnp.arange(walks.states)
    last = jnp.arange(walks.steps) == walks.steps - 1

    def step(now: tuple[Array, Array], drawn: tuple[Array, Array]) -> tuple[tuple[Array, Array], None]:
        edges, u = now
        uniform, is_last = drawn
        bound = one_start & (u == 0) & jnp.any(edges[0])
        allowed = jnp.where(bound, edges[0], _allowed(edges[u], walks))
        v = jnp.where(is_last, accept, _choose(uniform, weights[u] * allowed))
        new = (states == u)[:, None] & (states == v)[None, :] & takes_place & (u != accept)
        return (edges | new, jnp.where(u == accept, u, v)), None

    return jax.lax.scan(step, (edges, jnp.int32(0)), (uniforms, last))[0][0]


def _allowed(edges: Bool[Array, "n"], walks: Walks) -> Bool[Array, "n"]:
    """Where a walk may go from a state with these edges: along one of them, or anywhere while there is room."""
    if walks.arrives:
        return edges | (jnp.sum(edges) < walks.edges)
    accept = jnp.arange(walks.states) == walks.states - 1  # the last step may need it, so its slot is kept
    return edges | accept | (jnp.sum(edges & ~accept) < walks.edges - 1)


def _choose(uniform: Float[Array, ""], weights: Float[Array, "n"]) -> Int[Array, ""]:
    """An index with probability in proportion to its weight; the last one if all are zero."""
    ends = jnp.cumsum(weights)
    return jnp.minimum(jnp.sum(ends <= uniform * ends[-1]), weights.shape[0] - 1)


def draw_labels(
    key: Key[Array, ""], edges: Bool[Array, "n n"], mask: Bool[Array, "props"], constraints: Relation, most: int
) -> Int16[Array, "n n"]:
    """Labels for the edges of a graph; NO_LABEL where there is none.

    Where the mask leaves nothing for an edge, the edge is dropped, with all that no longer lies on a way to acceptance.
    If no way remains, the task becomes a single edge into acceptance.
    """
    uniforms = jax.random.uniform(key, (edges.size + most + 1,))
    labels = label_edges(uniforms[:-1], edges, mask, constraints, most)
    on_path = _on_path(labels != NO_LABEL)
    kept = jnp.where(on_path[:, None] & on_path[None, :], labels, jnp.int16(NO_LABEL))
    states = jnp.arange(edges.shape[0])
    direct = (states == 0)[:, None] & (states == edges.shape[0] - 1)[None, :]
    only = pick(uniforms[-1], pack_or_all(mask)).astype(jnp.int16)
    return jnp.where(on_path[0], kept, jnp.where(direct, only, jnp.int16(NO_LABEL)))


def _on_path(edges: Bool[Array, "n n"]) -> Bool[Array, "n"]:
    """Which states lie on a path from the first to the last."""
    n = edges.shape[0]

    def spread(_: Int[Array, ""], reached: tuple[Array, Array]) -> tuple[Array, Array]:
        down, up = reached
        return down | jnp.any(edges & down[:, None], axis=0), up | jnp.any(edges & up[None, :], axis=1)

    down, up = jax.lax.fori_loop(0, n - 1, spread, (jnp.arange(n) == 0, jnp.arange(n) == n - 1))
    return down & up


class Layout(NamedTuple):
    """Where the edges of a graph go once its unused states are dropped."""

    source: Int[Array, "states"]
    """The row of the graph that became each state."""
    target: Int8[Array, "states edges"]
    column: Int[Array, "states edges"]
    """The column of the graph that became each edge."""
    outcome: Int8[Array, "states"]

    def lay(self, values: Int[Array, "n n"], empty: int) -> Int[Array, "states edges"]:
        """Values by graph cell as values by edge."""
        return jnp.where(self.target != UNUSED, values[self.source[:, None], self.column], empty)


def lay_out(edges: Bool[Array, "n n"], size: TaskSize) -> Layout:
    """States that have an edge, renumbered in order, so that the accepting one is the last; edges by target."""
    n = edges.shape[0]
    used = jnp.any(edges, axis=0) | jnp.any(edges, axis=1)
    number = jnp.cumsum(used) - 1
    places = jnp.arange(size.states)
    source = jnp.argmax(used[None, :] & (number[None, :] == places[:, None]), axis=1)
    rows = edges[source] & (places < jnp.sum(used))[:, None]
    slot = jnp.cumsum(rows, axis=1) - 1
    wanted = jnp.arange(size.edges)[None, :, None]
    here = rows[:, None, :] & (slot[:, None, :] == wanted)
    column = jnp.argmax(here, axis=2)
    target = jnp.where(jnp.any(here, axis=2), number[column], UNUSED).astype(jnp.int8)
    outcome = jnp.where((places == number[n - 1]) & used[n - 1], ACCEPTED, RUNNING).astype(jnp.int8)
    return Layout(source=source, target=target, column=column, outcome=outcome)


def to_machine(labels: Int16[Array, "n n"], size: TaskSize) -> tuple[RewardMachine, Layout]:
    """The machine of a labelled graph: each label with the negation of its siblings', 1 for acceptance."""
    layout = lay_out(labels != NO_LABEL, size)
    own = layout.lay(labels.astype(jnp.int32) + 1, 0).astype(jnp.int16)
    guard = jax.vmap(_with_siblings)(own)
    accepts = (layout.target != UNUSED) & (layout.outcome[layout.target] == ACCEPTED)
    machine = RewardMachine(
        target=layout.target, guard=guard, reward=accepts.astype(jnp.float32), outcome=layout.outcome
    )
    return machine, layout


def _with_siblings(own: Int16[Array, "edges"]) -> Int16[Array, "edges edges"]:
    """Each literal, then the negation of the others."""
    edges = own.shape[0]
    edge, other = jnp.arange(edges)[:, None], jnp.arange(edges - 1)[None, :]
    siblings = -own[other + (other >= edge)]
    return jnp.concatenate([own[:, None], jnp.where(own[:, None] != 0, siblings, jnp.int16(0))], axis=1)


def draw_machine(key: Key[Array, ""], mask: Bool[Array, "props"], walks: Walks, constraints: Relation) -> RewardMachine:
    """A flat task: walks, labels, guards."""
    key_graph, key_labels = jax.random.split(key)
    edges = draw_graph(key_graph, walks)
    return to_machine(draw_labels(key_labels, edges, mask, constraints, walks.num_edges), walks.size)[0]
