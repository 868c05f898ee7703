"""Samplers of tasks, by name. Each is jittable and takes the mask of propositions it may use."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Int, Int8, Int16, Int32, Key, UInt32

from atlas.chance import WORD, pick_bit
from atlas.config import TaskConfig
from atlas.settings import require
from atlas.tasks.edits import cuts, lone, task_edits
from atlas.tasks.hrm import MAX_NODES, Hierarchies, Hierarchy, HierarchySize, chains
from atlas.tasks.rewards import REWARDS, Shaped
from atlas.tasks.rm import ACCEPTED, RUNNING, UNUSED, RewardMachine, RewardMachines, TaskSize, resize
from atlas.vocabulary import Vocabulary

# Drawing the propositions on edges, under the constraint matrix C (the paper, Appendix A.2).
#
# Sets of propositions are bit sets, 32 to a word: constraining an edge is then a few words of work, and no edge ever
# costs a pass over the alphabet.

NO_LABEL = -1


class Relation(NamedTuple):
    """Which label rules out which: implication between propositions, or their equality where C is off."""

    implied: UInt32[Array, "props words"]
    """Row p: what holds wherever p does."""
    implying: UInt32[Array, "props words"]
    """Row p: what p holds wherever it does."""


def relation(vocabulary: Vocabulary, constrain: bool) -> Relation:
    """Implication if labels are constrained, else equality."""
    implies = vocabulary.implies if constrain else np.eye(len(vocabulary.names), dtype=bool)
    return Relation(implied=pack(jnp.asarray(implies)), implying=pack(jnp.asarray(implies.T)))


def pack(mask: Bool[Array, "*batch props"]) -> UInt32[Array, "*batch words"]:
    """A mask as a bit set."""
    props = mask.shape[-1]
    padded = jnp.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, -props % WORD)])
    bits = padded.reshape(*mask.shape[:-1], -1, WORD).astype(jnp.uint32)
    shifts = jnp.arange(WORD, dtype=jnp.uint32).reshape((1,) * mask.ndim + (WORD,))
    return jnp.sum(bits << shifts, axis=-1, dtype=jnp.uint32)


def pack_or_all(mask: Bool[Array, "props"]) -> UInt32[Array, "words"]:
    """A mask as a bit set; all propositions if it is empty.

    Emptiness is looked for in the words: were it looked for in the mask, XLA would work the whole mask out anew for
    each proposition, which makes level-conditioned sampling ten times slower.
    """
    bits = pack(mask)
    return jnp.where(jnp.any(bits != 0), bits, pack(jnp.ones_like(mask)))


def contains(bits: UInt32[Array, "words"], prop: Int[Array, "..."]) -> Bool[Array, "..."]:
    """Which of some propositions are in a bit set."""
    return (bits[prop // WORD] >> (prop % WORD).astype(jnp.uint32)) & 1 == 1


def pick(uniform: Float[Array, ""], bits: UInt32[Array, "words"]) -> Int[Array, ""]:
    """The member of a bit set that a number in [0, 1) stands for, all alike; NO_LABEL if the set is empty."""
    return jnp.where(jnp.any(bits != 0), pick_bit(uniform, bits), NO_LABEL)


class _Labelling(NamedTuple):
    label: Int16[Array, "states states"]
    waiting: Float[Array, "states states"]
    """A random priority for each edge that has no label yet; -1 for the others."""
    leaving: UInt32[Array, "states words"]
    """What may not label another edge out of each state."""
    entering: UInt32[Array, "states words"]
    """What may not label another edge into each state."""


def label_edges(
    uniforms: Float[Array, "numbers"],
    edges: Bool[Array, "states states"],
    mask: Bool[Array, "props"],
    constraints: Relation,
    most: int,
) -> Int16[Array, "states states"]:
    """A proposition for each edge (at most `most` edges), in random order, none ruled out by one drawn before.

    A label may not imply, nor be implied by, that of another edge out of the same state; nor be implied by that of an
    edge into that state. An edge for which nothing is left gets NO_LABEL.
    `uniforms` are states x states + `most` numbers in [0, 1).
    """
    states, words = edges.shape[0], constraints.implied.shape[1]
    none = jnp.zeros((states, words), jnp.uint32)
    bits = pack(mask)

    def step(now: _Labelling, uniform: Float[Array, ""]) -> tuple[_Labelling, None]:
        return _label_next(now, uniform, bits, constraints), None

    start = _Labelling(
        label=jnp.full((states, states), NO_LABEL, jnp.int16),
        waiting=jnp.where(edges, uniforms[: edges.size].reshape(states, states), -1.0),
        leaving=none,
        entering=none,
    )
    return jax.lax.scan(step, start, uniforms[edges.size :])[0].label


def _label_next(
    now: _Labelling, uniform: Float[Array, ""], bits: UInt32[Array, "words"], constraints: Relation
) -> _Labelling:
    states = now.label.shape[0]
    edge = jnp.argmax(now.waiting)
    source, target = edge // states, edge % states
    free = bits & ~now.leaving[source] & ~now.entering[target]
    is_edge = now.waiting.reshape(-1)[edge] >= 0
    prop = jnp.where(is_edge, pick(uniform, free), NO_LABEL)
    drawn = prop != NO_LABEL
    implied, implying = constraints.implied[prop], constraints.implying[prop]
    at_source = (jnp.arange(states) == source)[:, None] & drawn
    at_target = (jnp.arange(states) == target)[:, None] & drawn
    here = jnp.arange(states * states).reshape(states, states) == edge
    nothing = jnp.uint32(0)
    return _Labelling(
        label=jnp.where(here, prop.astype(jnp.int16), now.label),
        waiting=jnp.where(here, -1.0, now.waiting),
        leaving=now.leaving
        | jnp.where(at_source, (implied | implying)[None], nothing)
        | jnp.where(at_target, implied[None], nothing),
        entering=now.entering | jnp.where(at_source, implying[None], nothing),
    )


# Machines from random walks (the paper, Appendix A.2): a Markov matrix, walks over it, labels on the edges they took.
#
# State 0 is the initial one and the last row the accepting one. A walk ends there; one that has not arrived by its last
# step takes that step there, so acceptance is always reachable and every state that is kept lies on a walk.

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


# Hierarchies from random walks (the paper, Appendix A.2): which machine may call which, and which edges do.
#
# The tree of machines is an ordered integer partition, all equally likely: its i-th summand is how many machines the
# i-th
# one may call. (The paper draws partitions of half the number of machines, which leaves machines without a caller; here
# the summands add up to all machines but the root.) Machines are walked and labelled one by one; all but the root
# have a
# single first edge, which calls nothing. Then each other edge calls one of its machine's children, or none, uniformly
# among those that fit. Machines that nothing calls are dropped.


@dataclass(frozen=True)
class Nesting:
    """How a hierarchy is drawn. Static, but for the tables of the vocabulary."""

    machines: int
    walks: Walks
    constraints: Relation
    excludes: np.ndarray

    @property
    def size(self) -> HierarchySize:
        """The sizes that hold every hierarchy drawn this way: a callee's first edge is one and plain."""
        return HierarchySize(self.machines, *self.walks.size, chains=self.walks.size.edges, links=2)


def draw_hierarchy(key: Key[Array, ""], mask: Bool[Array, "props"], how: Nesting) -> Hierarchy:
    """A tree of machines, a graph with labels for each, calls on their edges."""
    key_tree, key_graphs, key_labels, key_calls = jax.random.split(key, 4)
    machines = how.machines
    parent = draw_tree(key_tree, machines)
    is_callee = jnp.arange(machines) > 0
    edges = jax.vmap(draw_graph, (0, None, 0))(jax.random.split(key_graphs, machines), how.walks, is_callee)
    label = jax.vmap(draw_labels, (0, 0, None, None, None))
    labels = label(jax.random.split(key_labels, machines), edges, mask, how.constraints, how.walks.num_edges)
    calls = draw_calls(key_calls, labels, parent, how)
    return _assemble(labels, calls, how)


def draw_tree(key: Key[Array, ""], machines: int) -> Int32[Array, "machines"]:
    """The machine that may call each one (UNUSED for the root): an ordered partition of `machines - 1`, uniform.

    Between each two neighbouring children a fair coin decides whether the next summand begins.
    """
    cuts = jax.random.bernoulli(key, 0.5, (machines,)).at[:2].set(False)
    return jnp.cumsum(cuts).astype(jnp.int32).at[0].set(UNUSED)


class _Callee(NamedTuple):
    """What matters of a machine to those that call it."""

    first: Int[Array, ""]
    """The label of its first edge."""
    second: Int16[Array, "n"]
    """The labels that leave the state behind it."""
    ends: UInt32[Array, "words"]
    """All that the labels imply on which it accepts."""


def draw_calls(
    key: Key[Array, ""], labels: Int16[Array, "machines n n"], parent: Int32[Array, "machines"], how: Nesting
) -> Int8[Array, "machines n n"]:
    """The machine that each edge calls, children before their callers; UNUSED for none."""
    calls: list[Array] = []
    callees: list[_Callee] = []
    uniforms = jax.random.uniform(key, labels.shape)
    for machine in reversed(range(how.machines)):
        children = jnp.arange(machine + 1, how.machines)
        fits = [_fits(labels[machine], callee, how) for callee in callees]
        mine = jnp.stack([jnp.ones(labels.shape[1:], bool), *fits])
        mine = mine & jnp.append(True, parent[children] == machine)[:, None, None]
        chosen = _choose_nest(uniforms[machine], mine)
        may_call = jnp.arange(labels.shape[1])[:, None] >= (0 if machine == 0 else 1)
        call = jnp.where(may_call & (chosen > 0), machine + chosen, UNUSED).astype(jnp.int8)
        callees = [_describe(labels[machine], call, callees, how), *callees]
        calls = [call, *calls]
    return jnp.stack(calls)


def _choose_nest(uniform: Float[Array, "n n"], fits: Bool[Array, "options n n"]) -> Int[Array, "n n"]:
    """One of the options that fit, uniformly; the first always does."""
    ends = jnp.cumsum(fits, axis=0)
    return jnp.sum(ends <= uniform[None] * ends[-1:], axis=0)


def _fits(labels: Int16[Array, "n n"], callee: _Callee, how: Nesting) -> Bool[Array, "n n"]:
    """Which edges of a machine may call another (the matrix K, and the constraints C across the call).

    The guard and the callee's first label must be able to hold at once; the label that enters the call must not also
    make the callee's next step, nor the one that ends it the caller's.
    """
    is_edge = labels != NO_LABEL
    excluded = jnp.asarray(how.excludes)[labels, callee.first]
    negated = contains(how.constraints.implied[callee.first], labels) & is_edge
    by_sibling = jnp.sum(negated, axis=1)[:, None] > negated
    skips = jnp.any(_implies(labels[:, :, None], callee.second[None, None, :], how.constraints), axis=-1)
    goes_on = jnp.any(contains(callee.ends, labels) & is_edge, axis=1)[None, :]
    return is_edge & ~excluded & ~by_sibling & ~skips & ~goes_on


def _describe(labels: Int16[Array, "n n"], call: Int8[Array, "n n"], callees: list[_Callee], how: Nesting) -> _Callee:
    """A machine as its callers see it; `callees` are those with higher numbers, the last of all machines last."""
    behind = jnp.argmax(labels[0] != NO_LABEL)
    final, called = labels[:, -1], call[:, -1]
    plain = (final != NO_LABEL) & (called == UNUSED)
    ends = _union(jnp.where(plain[:, None], how.constraints.implied[final], jnp.uint32(0)))
    for callee, machine in zip(reversed(callees), reversed(range(how.machines)), strict=False):
        ends = ends | jnp.where(jnp.any(called == machine), callee.ends, jnp.uint32(0))
    return _Callee(first=labels[0, behind], second=labels[behind], ends=ends)


def _union(sets: UInt32[Array, "n words"]) -> UInt32[Array, "words"]:
    return jax.lax.reduce(sets, jnp.uint32(0), jax.lax.bitwise_or, (0,))


def _implies(one: Int[Array, "..."], other: Int[Array, "..."], constraints: Relation) -> Bool[Array, "..."]:
    """Whether one label makes another hold; never where either is missing."""
    one, other = jnp.broadcast_arrays(one, other)
    words = constraints.implied[one, other // WORD]
    return ((words >> (other % WORD).astype(jnp.uint32)) & 1 == 1) & (one != NO_LABEL) & (other != NO_LABEL)


def _assemble(labels: Int16[Array, "machines n n"], calls: Int8[Array, "machines n n"], how: Nesting) -> Hierarchy:
    """The hierarchy without the machines that nothing calls; 1 for the root's acceptance."""
    used = [jnp.bool_(True)]
    for machine in range(1, how.machines):
        called = jnp.any(calls[:machine] == machine, axis=(1, 2))
        used.append(jnp.any(called & jnp.stack(used)))
    labels = jnp.where(jnp.stack(used)[:, None, None], labels, jnp.int16(NO_LABEL))
    machines, layouts = jax.vmap(to_machine, (0, None))(labels, how.walks.size)
    call = jax.vmap(lambda layout, values: layout.lay(values, UNUSED))(layouts, calls).astype(jnp.int8)
    is_root = (jnp.arange(how.machines) == 0)[:, None, None]
    return Hierarchy(
        target=machines.target,
        guard=machines.guard,
        reward=jnp.where(is_root, machines.reward, 0.0),
        outcome=machines.outcome,
        call=call,
        root=jnp.int8(0),
        chain=chains(machines.target, call, how.size.chains, how.size.links),
    )


def nesting(machines: int, walks: Walks, vocabulary: Vocabulary, constrain: bool) -> Nesting:
    """How hierarchies are drawn over a vocabulary."""
    return Nesting(machines, walks, relation(vocabulary, constrain), vocabulary.excludes)


# Samplers of tasks, by name. Each is jittable and takes the mask of propositions it may use.

SampleFn = Callable[[Key[Array, ""], Bool[Array, "props"]], Any]
"""`(key, mask) -> task`."""


def draw_sequence(key: Key[Array, ""], mask: Bool[Array, "props"], least: int, most: int) -> RewardMachine:
    """A sequence of `least` to `most` propositions, length and propositions uniform; 1 for the last of them."""
    numbers = jax.random.uniform(key, (most + 1,))
    length = least + jnp.floor(numbers[0] * (most + 1 - least)).astype(jnp.int32)
    props = jax.vmap(pick, (0, None))(numbers[1:], pack_or_all(mask))
    states = jnp.arange(most + 1)
    before = states < length
    return RewardMachine(
        target=jnp.where(before, states + 1, UNUSED).astype(jnp.int8)[:, None],
        guard=jnp.where(before, jnp.append(props, 0) + 1, 0).astype(jnp.int16)[:, None, None],
        reward=(states == length - 1).astype(jnp.float32)[:, None],
        outcome=jnp.where(states == length, ACCEPTED, RUNNING).astype(jnp.int8),
    )


def _sequential(config: TaskConfig, vocabulary: Vocabulary) -> tuple[SampleFn, TaskSize]:
    def sample(key: Key[Array, ""], mask: Bool[Array, "props"]) -> RewardMachine:
        return draw_sequence(key, mask, config.min_length, config.max_length)

    return sample, TaskSize(states=config.max_length + 1, edges=1, literals=1)


def walks(config: TaskConfig, structure: str) -> Walks:
    """How the settings say that one machine of a structure is walked."""
    return Walks(
        matrix=MATRICES[structure],
        states=config.states,
        edges=config.edges,
        steps=max(1, int(config.connectivity * config.states)),
        restart=config.restart,
        most=config.max_walks,
        forward=structure != "cyclic",
    )


def _walked(structure: str) -> Callable[[TaskConfig, Vocabulary], tuple[SampleFn, TaskSize]]:
    def make(config: TaskConfig, vocabulary: Vocabulary) -> tuple[SampleFn, TaskSize]:
        how = walks(config, structure)
        constraints = relation(vocabulary, config.constrain and structure != "authors-dag")

        def sample(key: Key[Array, ""], mask: Bool[Array, "props"]) -> RewardMachine:
            return draw_machine(key, mask, how, constraints)

        return sample, how.size

    return make


def _hierarchical(config: TaskConfig, vocabulary: Vocabulary) -> tuple[SampleFn, HierarchySize]:
    nodes = config.machines * config.states
    require(nodes <= MAX_NODES, "machines x states", nodes, f"at most {MAX_NODES}")
    how = nesting(config.machines, walks(config, config.structure), vocabulary, config.constrain)

    def sample(key: Key[Array, ""], mask: Bool[Array, "props"]) -> Hierarchy:
        return draw_hierarchy(key, mask, how)

    return sample, how.size


SAMPLERS: dict[str, Callable[[TaskConfig, Vocabulary], tuple[SampleFn, TaskSize | HierarchySize]]] = {
    "sequential": _sequential,
    "dag": _walked("dag"),
    "cyclic": _walked("cyclic"),
    "authors-dag": _walked("authors-dag"),
    "hierarchical": _hierarchical,
}
"""Name -> what makes, from settings and a vocabulary, the sampler and the sizes of its tasks."""


def minimal(size: TaskSize | HierarchySize) -> SampleFn:
    """Draws tasks of one transition, in arrays of some size."""
    flat = size if isinstance(size, TaskSize) else TaskSize(*size[1:4])

    def sample(key: Key[Array, ""], mask: Bool[Array, "props"]) -> Any:
        task = resize(draw_sequence(key, mask, 1, 1), flat)
        return task if isinstance(size, TaskSize) else lone(task, size)

    return sample


def formalism(
    config: TaskConfig,
    vocabulary: Vocabulary,
    gamma: float = 1.0,
    mask: np.ndarray | None = None,
    smallest: bool = False,
) -> tuple[Any, TaskSize | HierarchySize]:
    """The formalism that the settings ask for, drawing and editing tasks with their rewards, and their sizes.

    `gamma` is the student's discount; only shaped rewards depend on it. `mask` says which propositions edits may bring
    in, by default all. With `smallest`, tasks of one transition are drawn; edits may make them larger.
    """
    draw_task, size = SAMPLERS[config.sampler](config, vocabulary)
    draw_task = minimal(size) if smallest else draw_task
    reward = REWARDS[config.reward]

    def sample(key: Key[Array, ""], mask: Bool[Array, "props"]) -> Any:
        return reward(draw_task(key, mask))

    allowed = np.ones(len(vocabulary.names), bool) if mask is None else mask
    edits = task_edits(vocabulary, allowed, reward, size)
    kind = Hierarchies if isinstance(size, HierarchySize) else RewardMachines
    members = kind(sample, edits, *cuts(reward, size))
    return (Shaped(members, gamma) if config.reward == "shaped" else members), size
