"""Samplers of tasks, by name. Each is jittable and takes the mask of propositions it may use.

Sequences may have steps with something to avoid. All others come from random walks (the paper, Appendix A.2): a Markov
matrix, walks over it, labels on the edges they took, and for hierarchies a tree of machines and calls on their edges.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import comb
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Float32, Int, Int8, Int16, Int32, Key, UInt32

from atlas.chance import WORD, bit_set, contains, pick_member, pick_weighted, subset, union
from atlas.config import TaskConfig
from atlas.settings import require
from atlas.tasks.edits import Cut, prefix, suffix, task_edits
from atlas.tasks.machine import MAX_STATES, UNUSED, TaskSize
from atlas.tasks.packed import PackedTask, RewardMachines, called, chains
from atlas.tasks.rewards import REWARDS, Shaped
from atlas.vocabulary import ACCEPTED, REJECTED, RUNNING, Vocabulary

# Graphs. State 0 is the initial one and the last row the accepting one. A walk ends in the
# accepting state; if it has not arrived, its last step goes there. So acceptance is always reachable, and every state
# that is kept lies on a walk.

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


def shaped(matrix: MatrixFn, power: float, reach: float) -> MatrixFn:
    """The matrix of uniform numbers to a power, each further state ahead (behind, for a step back) times `reach`."""
    if power == reach == 1.0:
        return matrix

    def weights(uniforms: Float[Array, "states states"]) -> Float[Array, "states states"]:
        states = np.arange(uniforms.shape[0])
        further = np.maximum(np.abs(states[None, :] - states[:, None]) - 1, 0)
        # A weight of 0 would close the step: those are kept above it.
        return matrix(jnp.maximum(uniforms, 1e-6) ** power) * jnp.asarray(float(reach) ** further, jnp.float32)

    return weights


MATRICES: dict[str, MatrixFn] = {
    "sequential": sequential_matrix,
    "dag": dag_matrix,
    "cyclic": cyclic_matrix,
    "authors-dag": authors_matrix,
}


@dataclass(frozen=True)
class Walks:
    """How the graph of a machine is sampled. Static."""

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
        """The sizes that hold every machine sampled this way."""
        visits = self.most if self.forward else self.most * self.steps
        edges = max(1, min(self.edges, self.states - 1, visits))
        return TaskSize(machines=1, states=self.states, edges=edges, literals=edges)

    @property
    def num_edges(self) -> int:
        """Most edges of a machine sampled this way."""
        steps = min(self.steps, self.states - 1) if self.forward else self.steps
        return min(self.most * steps, self.states * self.size.edges)


def sample_graph(key: Key[Array, ""], walks: Walks, one_start: Bool[Array, ""] | bool = False) -> Bool[Array, "n n"]:
    """The union of the edges of one or more walks; with `one_start` a single edge leaves state 0, and none returns."""
    n, accept = walks.states, walks.states - 1
    numbers = jax.random.uniform(key, (n**2 + walks.most * (walks.steps + 1),))  # one call compiles fastest
    weights = walks.matrix(numbers[: n**2].reshape(n, n))
    weights = weights.at[:, 0].set(jnp.where(one_start, 0.0, weights[:, 0]))
    uniforms = numbers[n**2 :].reshape(walks.most, walks.steps + 1)
    takes_place = jnp.cumprod((uniforms[:, -1] < walks.restart).at[0].set(True)).astype(bool)
    states = jnp.arange(n)
    is_last = jnp.arange(walks.steps) == walks.steps - 1

    def allowed(edges: Bool[Array, "n"]) -> Bool[Array, "n"]:
        """Where a walk may go from a state with these edges: along one of them, or anywhere while there is room."""
        if walks.arrives:
            return edges | (jnp.sum(edges) < walks.edges)
        to_end = states == accept  # the last step may need it, so its slot is kept
        return edges | to_end | (jnp.sum(edges & ~to_end) < walks.edges - 1)

    def walk(edges: Bool[Array, "n n"], sampled: tuple[Array, Array]) -> tuple[Array, None]:
        uniforms, takes_place = sampled

        def step(now: tuple[Array, Array], at_step: tuple[Array, Array]) -> tuple[tuple[Array, Array], None]:
            (edges, u), (uniform, is_last) = now, at_step
            bound = one_start & (u == 0) & jnp.any(edges[0])
            ends = jnp.cumsum(weights[u] * jnp.where(bound, edges[0], allowed(edges[u])))
            chosen = jnp.minimum(jnp.sum(ends <= uniform * ends[-1]), accept)  # in proportion to its weight
            v = jnp.where(is_last, accept, chosen)
            new = (states == u)[:, None] & (states == v)[None, :] & takes_place & (u != accept)
            return (edges | new, jnp.where(u == accept, u, v)), None

        return jax.lax.scan(step, (edges, jnp.int32(0)), (uniforms, is_last))[0][0], None

    return jax.lax.scan(walk, jnp.zeros((n, n), bool), (uniforms[:, :-1], takes_place))[0]


# Labels: the propositions on edges, under the constraint matrix C. Sets of propositions are bit sets: constraining an
# edge is then a few words of work, and no edge ever costs a pass over the alphabet.

NO_LABEL = -1


class Relation(NamedTuple):
    """Which label rules out which: implication between propositions, or their equality where C is off."""

    implied: UInt32[Array, "props words"]
    """Row p: the propositions that p implies."""
    implying: UInt32[Array, "props words"]
    """Row p: the propositions that imply p."""


def relation(vocabulary: Vocabulary, constrain: bool) -> Relation:
    """Implication if labels are constrained, else equality."""
    implies = vocabulary.implies if constrain else np.eye(len(vocabulary.names), dtype=bool)
    return Relation(*jax.device_put((bit_set(implies), bit_set(implies.T))))


def set_or_all(mask: Bool[Array, "props"]) -> UInt32[Array, "words"]:
    """A mask as a bit set; all propositions if it is empty.

    Emptiness is looked for in the words: were it looked for in the mask, XLA would work the whole mask out anew for
    each proposition, which makes level-conditioned sampling ten times slower.
    """
    bits = bit_set(mask)
    return jnp.where(jnp.any(bits != 0), bits, bit_set(jnp.ones_like(mask)))


PickFn = Callable[[Float[Array, ""], UInt32[Array, "words"]], Int[Array, ""]]
"""From a number in [0, 1) and a bit set: one of its members; -1 if there is none."""


def picker(prior: Sequence[str], vocabulary: Vocabulary) -> PickFn:
    """How propositions are chosen: uniformly, or by the weights of a prior (`TaskConfig.prior`)."""
    if not prior:
        return pick_member
    weights = np.ones(len(vocabulary.names), np.float32)
    for one in prior:
        pattern, _, weight = one.rpartition("=")
        fits = np.array([fnmatchcase(name, pattern) for name in vocabulary.names])
        require(bool(fits.any()), "tasks.prior", one, f"propositions look like {', '.join(vocabulary.names[:3])}")
        weights[fits] = float(weight)
    require(bool(weights.any()), "tasks.prior", tuple(prior), "some proposition must have a weight above 0")
    return lambda u, words: pick_weighted(u, words, jnp.asarray(weights))


def pick_any(u: Float[Array, ""], words: UInt32[Array, "words"], pick: PickFn) -> Int[Array, ""]:
    """One of a set that is not empty: as the prior says, or any where all that there are weigh nothing."""
    if pick is pick_member:
        return pick_member(u, words)
    chosen = pick(u, words)
    return jnp.where(chosen < 0, pick_member(u, words), chosen)


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
    pick: PickFn = pick_member,
) -> Int16[Array, "states states"]:
    """A proposition for each edge, in random order, none ruled out by one sampled before.

    A label may not imply, nor be implied by, that of another edge out of the same state; nor be implied by that of an
    edge into that state. An edge for which nothing is left gets NO_LABEL.
    `uniforms` are states x states numbers in [0, 1) and one for each edge that there may be.
    """
    n, words = edges.shape[0], constraints.implied.shape[1]
    states, bits, nothing = jnp.arange(n), bit_set(mask), jnp.uint32(0)

    def label_next(now: _Labelling, uniform: Float[Array, ""]) -> tuple[_Labelling, None]:
        edge = jnp.argmax(now.waiting)
        source, target = edge // n, edge % n
        free = bits & ~now.leaving[source] & ~now.entering[target]
        is_edge = now.waiting.reshape(-1)[edge] >= 0
        prop = jnp.where(is_edge, pick(uniform, free), NO_LABEL)
        implied, implying = constraints.implied[prop], constraints.implying[prop]
        at_source = (states == source)[:, None] & (prop != NO_LABEL)
        at_target = (states == target)[:, None] & (prop != NO_LABEL)
        here = jnp.arange(n * n).reshape(n, n) == edge
        return _Labelling(
            label=jnp.where(here, prop.astype(jnp.int16), now.label),
            waiting=jnp.where(here, -1.0, now.waiting),
            leaving=now.leaving
            | jnp.where(at_source, (implied | implying)[None], nothing)
            | jnp.where(at_target, implied[None], nothing),
            entering=now.entering | jnp.where(at_source, implying[None], nothing),
        ), None

    start = _Labelling(
        label=jnp.full((n, n), NO_LABEL, jnp.int16),
        waiting=jnp.where(edges, uniforms[: n * n].reshape(n, n), -1.0),
        leaving=jnp.zeros((n, words), jnp.uint32),
        entering=jnp.zeros((n, words), jnp.uint32),
    )
    return jax.lax.scan(label_next, start, uniforms[n * n :])[0].label


def sample_labels(
    key: Key[Array, ""],
    edges: Bool[Array, "n n"],
    mask: Bool[Array, "props"],
    constraints: Relation,
    most: int,
    pick: PickFn = pick_member,
) -> Int16[Array, "n n"]:
    """Labels for the edges of a graph, which has at most `most`; NO_LABEL where there is none.

    Where the mask leaves nothing for an edge, the edge is dropped, with all that no longer lies on a way to acceptance.
    If no way remains, the task becomes a single edge into acceptance.
    """
    uniforms = jax.random.uniform(key, (edges.size + most + 1,))
    labels = label_edges(uniforms[:-1], edges, mask, constraints, pick)
    kept, n, states = labels != NO_LABEL, edges.shape[0], jnp.arange(edges.shape[0])

    def spread(_: Int[Array, ""], reached: tuple[Array, Array]) -> tuple[Array, Array]:
        down, up = reached
        return down | jnp.any(kept & down[:, None], axis=0), up | jnp.any(kept & up[None, :], axis=1)

    down, up = jax.lax.fori_loop(0, n - 1, spread, (states == 0, states == n - 1))
    on_path = down & up
    labels = jnp.where(on_path[:, None] & on_path[None, :], labels, jnp.int16(NO_LABEL))
    direct = (states == 0)[:, None] & (states == n - 1)[None, :]
    only = pick_any(uniforms[-1], set_or_all(mask), pick).astype(jnp.int16)
    return jnp.where(on_path[0], labels, jnp.where(direct, only, jnp.int16(NO_LABEL)))


# Machines


def to_machines(
    labels: Int16[Array, "machines n n"], calls: Int8[Array, "machines n n"] | None, size: TaskSize
) -> PackedTask:
    """The task of labelled graphs: each label with the negation of its siblings', 1 for acceptance of the first."""
    target, guard, reward, outcome, call = jax.vmap(_to_machine, (0, 0, None))(labels, calls, size)
    if call is None:
        return PackedTask(target=target, guard=guard, reward=reward, outcome=outcome)
    return PackedTask(
        target=target,
        guard=guard,
        reward=jnp.where((jnp.arange(size.machines) == 0)[:, None, None], reward, 0.0),
        outcome=outcome,
        call=call,
        root=jnp.int8(0),
        chain=chains(target, call, size.chains, size.links),
    )


def _to_machine(
    labels: Int16[Array, "n n"], calls: Int8[Array, "n n"] | None, size: TaskSize
) -> tuple[Array, Array, Float32[Array, "states edges"], Array, Array | None]:
    """States that have an edge, renumbered in order, so that the accepting one is the last; edges by target."""
    edges = labels != NO_LABEL
    used = jnp.any(edges, axis=0) | jnp.any(edges, axis=1)
    number = jnp.cumsum(used) - 1
    places = jnp.arange(size.states)
    source = jnp.argmax(used[None, :] & (number[None, :] == places[:, None]), axis=1)
    rows = edges[source] & (places < jnp.sum(used))[:, None]
    slot = jnp.cumsum(rows, axis=1) - 1
    here = rows[:, None, :] & (slot[:, None, :] == jnp.arange(size.edges)[None, :, None])
    column = jnp.argmax(here, axis=2)
    target = jnp.where(jnp.any(here, axis=2), number[column], UNUSED).astype(jnp.int8)
    outcome = jnp.where((places == number[-1]) & used[-1], ACCEPTED, RUNNING).astype(jnp.int8)

    def by_edge(values: Int[Array, "n n"], empty: int) -> Int[Array, "states edges"]:
        return jnp.where(target != UNUSED, values[source[:, None], column], empty)

    own = by_edge(labels.astype(jnp.int32) + 1, 0).astype(jnp.int16)
    guard = _set_apart(own)
    accepts = (target != UNUSED) & (outcome[target] == ACCEPTED)
    call = None if calls is None else by_edge(calls, UNUSED).astype(jnp.int8)
    return target, guard, accepts.astype(jnp.float32), outcome, call


def _set_apart(own: Int16[Array, "states edges"]) -> Int16[Array, "states edges edges"]:
    """The guards of edges that ask for one literal each (0: no edge): that, and the negations of its siblings'."""
    edges = own.shape[1]
    edge, other = jnp.arange(edges)[:, None], jnp.arange(edges - 1)[None, :]
    siblings = jnp.where(own[:, :, None] != 0, -own[:, other + (other >= edge)], jnp.int16(0))
    return jnp.concatenate([own[:, :, None], siblings], axis=2)


def sample_flat(
    key: Key[Array, ""], mask: Bool[Array, "props"], walks: Walks, constraints: Relation, pick: PickFn = pick_member
) -> PackedTask:
    """A flat task: walks, labels, guards."""
    key_graph, key_labels = jax.random.split(key)
    edges = sample_graph(key_graph, walks)
    labels = sample_labels(key_labels, edges, mask, constraints, walks.num_edges, pick)
    return to_machines(labels[None], None, walks.size)


def sample_sequence(
    key: Key[Array, ""], mask: Bool[Array, "props"], least: int, most: int, size: TaskSize, pick: PickFn = pick_member
) -> PackedTask:
    """A sequence of `least` to `most` propositions, the length uniform, the propositions as `pick` says; 1 for the last
    of them."""
    numbers = jax.random.uniform(key, (most + 1,))
    length = least + jnp.floor(numbers[0] * (most + 1 - least)).astype(jnp.int32)
    allowed = set_or_all(mask)
    props = jax.vmap(lambda u: pick_any(u, allowed, pick))(numbers[1:])
    return sequence(props, length, size)


def sequence(props: Int[Array, "most"], length: Int32[Array, ""], size: TaskSize) -> PackedTask:
    """The first `length` of some propositions, one after the other; 1 for the last of them."""
    machine, state, edge, literal = jnp.indices(size[:4], sparse=True)
    first = (machine == 0) & (edge == 0) & (literal == 0)
    asked = jnp.pad(props + 1, (0, size.states - len(props)))[None, :, None, None]
    guard = jnp.where(first & (state < length), asked, 0).astype(jnp.int16)
    target = jnp.where((first & (state < length))[..., 0], state[..., 0] + 1, UNUSED).astype(jnp.int8)
    task = PackedTask(
        target=target,
        guard=guard,
        reward=(first & (state == length - 1))[..., 0].astype(jnp.float32),
        outcome=jnp.where((first & (state == length))[..., 0, 0], ACCEPTED, RUNNING).astype(jnp.int8),
    )
    if size.machines == 1:
        return task
    call = jnp.full_like(target, UNUSED)
    return task.replace(call=call, root=jnp.int8(0), chain=chains(target, call, size.chains, size.links))


def sample_hindered(
    key: Key[Array, ""],
    mask: Bool[Array, "props"],
    config: TaskConfig,
    size: TaskSize,
    constraints: Relation,
    back: bool,
    pick: PickFn = pick_member,
) -> PackedTask:
    """A sequence each of whose steps has propositions that must not hold before it is done: they lead to rejection, or
    with `back` to the step before (there is none for the first). A step is done when none of them holds.

    Forbidden propositions of a step are unrelated by implication to each other and to its goal, and none is implied by
    the previous goal, which may still hold. A step for which too few are left forbids fewer.
    """
    steps, most = config.max_length, config.max_avoid
    numbers = jax.random.uniform(key, (1 + steps * (2 + most),))
    u_props, u_counts, u_others = jnp.split(numbers[1:], [steps, 2 * steps])
    length = config.min_length + jnp.floor(numbers[0] * (steps + 1 - config.min_length)).astype(jnp.int32)
    allowed = set_or_all(mask)
    props = jax.vmap(lambda u: pick_any(u, allowed, pick))(u_props).astype(jnp.int32)
    counts = config.min_avoid + jnp.floor(u_counts * (most + 1 - config.min_avoid)).astype(jnp.int32)

    def related(prop: Int32[Array, ""]) -> UInt32[Array, "words"]:
        return jnp.where(prop >= 0, constraints.implied[prop] | constraints.implying[prop], jnp.uint32(0))

    def hinder(taken: UInt32[Array, "words"], u: Float[Array, ""]) -> tuple[UInt32[Array, "words"], Int32[Array, ""]]:
        other = pick(u, allowed & ~taken).astype(jnp.int32)
        return taken | related(other), other

    def hindrances(step: Int32[Array, ""], u: Float[Array, "most"]) -> Int32[Array, "most"]:
        still = jnp.where(step > 0, constraints.implied[props[step - 1]], jnp.uint32(0))
        others = jax.lax.scan(hinder, related(props[step]) | still, u)[1]
        used = (jnp.arange(most) < counts[step]) & (step < length) & ((step > 0) | (not back))
        return jnp.where(used, others, NO_LABEL)

    others = jax.vmap(hindrances)(jnp.arange(steps), u_others.reshape(steps, most))
    asked = jnp.where(jnp.arange(steps) < length, props, NO_LABEL)
    own = (jnp.concatenate([asked[:, None], others], axis=1) + 1).astype(jnp.int16)
    state, leads_on = jnp.arange(steps)[:, None], (jnp.arange(1 + most) == 0)[None, :]
    target = jnp.where(own != 0, jnp.where(leads_on, state + 1, jnp.where(back, state - 1, length + 1)), UNUSED)
    # Each edge negates the later ones, the last has only its own literal: forbidden propositions win over the goal.
    at = jnp.arange(1 + most)[:, None] + jnp.arange(size.literals)[None, :]
    sign = jnp.where(at > most, 0, jnp.where(jnp.arange(size.literals) == 0, 1, -1)[None, :]).astype(jnp.int16)
    guard = jnp.where(own[:, :, None] != 0, own[:, jnp.minimum(at, most)] * sign[None], jnp.int16(0))
    rows, spare = jnp.arange(size.states), size.states - steps
    rejects = (rows == length + 1) & jnp.any(others != NO_LABEL) & (not back)
    outcome = jnp.where(rows == length, ACCEPTED, jnp.where(rejects, REJECTED, RUNNING))
    accepts = leads_on & (state == length - 1)
    return PackedTask(
        target=jnp.pad(target, ((0, spare), (0, 0)), constant_values=UNUSED).astype(jnp.int8)[None],
        guard=jnp.pad(guard, ((0, spare), (0, 0), (0, 0)))[None],
        reward=jnp.pad(accepts, ((0, spare), (0, 0))).astype(jnp.float32)[None],
        outcome=outcome.astype(jnp.int8)[None],
    )


# Hierarchies: which machine may call which, and which edges do.
#
# The tree of machines is an ordered integer partition, all equally likely: its i-th summand is how many machines the
# i-th one may call. (The paper draws partitions of half the number of machines, which leaves machines without a caller;
# here the summands add up to all machines but the root.) Machines are walked and labelled one by one; all but the root
# have a single first edge, which calls nothing. Then each other edge calls one of its machine's children, or none,
# uniformly among those that fit. Machines that nothing calls are dropped.


@dataclass(frozen=True)
class Nesting:
    """How a hierarchy is sampled. Static, but for the tables of the vocabulary."""

    machines: int
    walks: Walks
    constraints: Relation
    excludes: np.ndarray
    pick: PickFn = pick_member
    partitions: tuple[float, ...] = ()
    """Weights of the partitions by their number of summands; none: all alike."""
    call_weight: float = 1.0
    """Weight of each call, where none weighs 1."""

    @property
    def size(self) -> TaskSize:
        """Sizes that hold every hierarchy sampled this way. A called machine has one first edge, without a call."""
        return self.walks.size._replace(machines=self.machines, chains=self.walks.size.edges, links=2)


def sample_hierarchy(key: Key[Array, ""], mask: Bool[Array, "props"], how: Nesting) -> PackedTask:
    """A tree of machines, a graph with labels for each, calls on their edges."""
    key_tree, key_graphs, key_labels, key_calls = jax.random.split(key, 4)
    machines = how.machines
    parent = sample_tree(key_tree, machines, how.partitions)
    is_callee = jnp.arange(machines) > 0
    edges = jax.vmap(sample_graph, (0, None, 0))(jax.random.split(key_graphs, machines), how.walks, is_callee)
    labels = jax.vmap(
        lambda key, edges: sample_labels(key, edges, mask, how.constraints, how.walks.num_edges, how.pick)
    )(jax.random.split(key_labels, machines), edges)
    calls = sample_calls(key_calls, labels, parent, how)
    labels = jnp.where(called(calls, 0)[:, None, None], labels, jnp.int16(NO_LABEL))
    return to_machines(labels, calls, how.size)


def sample_tree(key: Key[Array, ""], machines: int, weights: Sequence[float] = ()) -> Int32[Array, "machines"]:
    """The machine that may call each one (UNUSED for the root): an ordered partition of `machines - 1`.

    All are equally likely: between each two neighbouring children a fair coin decides whether the next summand begins.
    With weights, a partition of k summands weighs `weights[k - 1]`.
    """
    if weights and machines > 2:
        places = machines - 2  # where a summand may begin, but for the first
        ends = np.cumsum([weight * comb(places, cuts) for cuts, weight in enumerate(weights)])
        u = jax.random.uniform(key, (places + 1,))
        count = jnp.minimum(jnp.sum(jnp.asarray(ends) <= u[0] * ends[-1]), places).astype(jnp.int32)
        chosen = subset(u[1:], jnp.int32(places), count)
        cuts = jnp.any(jnp.arange(machines)[:, None] == jnp.where(chosen < 0, -1, chosen + 2)[None, :], axis=1)
    else:
        cuts = jax.random.bernoulli(key, 0.5, (machines,)).at[:2].set(False)
    return jnp.cumsum(cuts).astype(jnp.int32).at[0].set(UNUSED)


class _Callee(NamedTuple):
    """What matters of a machine to those that call it."""

    first: Int[Array, ""]
    """The label of its first edge."""
    second: Int16[Array, "n"]
    """The labels that leave the state behind it."""
    ends: UInt32[Array, "words"]
    """Everything implied by the labels that make it accept."""


def sample_calls(
    key: Key[Array, ""], labels: Int16[Array, "machines n n"], parent: Int32[Array, "machines"], how: Nesting
) -> Int8[Array, "machines n n"]:
    """The machine that each edge calls, children before their callers; UNUSED for none."""
    calls: list[Array] = []
    callees: list[_Callee] = []
    uniforms = jax.random.uniform(key, labels.shape)
    for machine in reversed(range(how.machines)):
        fits = jnp.stack([jnp.ones(labels.shape[1:], bool), *(_fits(labels[machine], one, how) for one in callees)])
        children = jnp.arange(machine + 1, how.machines)
        fits = fits & jnp.append(True, parent[children] == machine)[:, None, None]
        weights = jnp.where(jnp.arange(len(fits)) == 0, 1.0, how.call_weight)[:, None, None]
        ends = jnp.cumsum(fits if how.call_weight == 1.0 else fits * weights, axis=0)
        chosen = jnp.sum(ends <= uniforms[machine][None] * ends[-1:], axis=0)  # by weight; none (0) always fits
        may_call = jnp.arange(labels.shape[1])[:, None] >= (0 if machine == 0 else 1)
        call = jnp.where(may_call & (chosen > 0), machine + chosen, UNUSED).astype(jnp.int8)
        callees = [_describe(labels[machine], call, callees, how), *callees]
        calls = [call, *calls]
    return jnp.stack(calls)


def _fits(labels: Int16[Array, "n n"], callee: _Callee, how: Nesting) -> Bool[Array, "n n"]:
    """Which edges of a machine may call another (the matrix K, and the constraints C across the call).

    The guard and the callee's first label must be able to hold at once; the label that enters the call must not also
    make the callee's next step, nor the one that ends it the caller's.
    """
    is_edge = labels != NO_LABEL
    excluded = jnp.asarray(how.excludes)[labels, callee.first]
    negated = contains(how.constraints.implied[callee.first], labels) & is_edge
    by_sibling = jnp.sum(negated, axis=1)[:, None] > negated
    one, other = jnp.broadcast_arrays(labels[:, :, None], callee.second[None, None, :])
    implied = (how.constraints.implied[one, other // WORD] >> (other % WORD).astype(jnp.uint32)) & 1 == 1
    skips = jnp.any(implied & (one != NO_LABEL) & (other != NO_LABEL), axis=-1)
    goes_on = jnp.any(contains(callee.ends, labels) & is_edge, axis=1)[None, :]
    return is_edge & ~excluded & ~by_sibling & ~skips & ~goes_on


def _describe(labels: Int16[Array, "n n"], call: Int8[Array, "n n"], callees: list[_Callee], how: Nesting) -> _Callee:
    """A machine as its callers see it; `callees` are those with higher numbers, the last of all machines last."""
    behind = jnp.argmax(labels[0] != NO_LABEL)
    final, last_calls = labels[:, -1], call[:, -1]
    plain = (final != NO_LABEL) & (last_calls == UNUSED)
    ends = union(jnp.where(plain[:, None], how.constraints.implied[final], jnp.uint32(0)))
    for callee, machine in zip(reversed(callees), reversed(range(how.machines)), strict=False):
        ends = ends | jnp.where(jnp.any(last_calls == machine), callee.ends, jnp.uint32(0))
    return _Callee(first=labels[0, behind], second=labels[behind], ends=ends)


# By name

SampleFn = Callable[[Key[Array, ""], Bool[Array, "props"]], PackedTask]
"""`(key, mask) -> task`."""


def walks(config: TaskConfig, structure: str) -> Walks:
    """How the settings say that one machine of a structure is walked."""
    matrix = MATRICES[structure]
    if structure in ("dag", "cyclic"):
        matrix = shaped(matrix, config.matrix_power, config.matrix_reach)
    return Walks(
        matrix=matrix,
        states=config.states,
        edges=config.edges,
        steps=max(1, int(config.connectivity * config.states)),
        restart=config.restart,
        most=config.max_walks,
        forward=structure != "cyclic",
    )


def _sequential(config: TaskConfig, vocabulary: Vocabulary) -> tuple[SampleFn, TaskSize]:
    size = TaskSize(machines=1, states=config.max_length + 1, edges=1, literals=1)
    pick = picker(config.prior, vocabulary)
    return lambda key, mask: sample_sequence(key, mask, config.min_length, config.max_length, size, pick), size


def _hindered(back: bool) -> Callable[[TaskConfig, Vocabulary], tuple[SampleFn, TaskSize]]:
    def make(config: TaskConfig, vocabulary: Vocabulary) -> tuple[SampleFn, TaskSize]:
        edges, apart = 1 + config.max_avoid, vocabulary.excludes | np.eye(len(vocabulary.names), dtype=bool)
        literals = 1 if apart.all() else edges  # where only one proposition holds at a time, there is nothing to deny
        size = TaskSize(machines=1, states=config.max_length + (1 if back else 2), edges=edges, literals=literals)
        constraints, pick = relation(vocabulary, config.constrain), picker(config.prior, vocabulary)
        return lambda key, mask: sample_hindered(key, mask, config, size, constraints, back, pick), size

    return make


def _walked(structure: str) -> Callable[[TaskConfig, Vocabulary], tuple[SampleFn, TaskSize]]:
    def make(config: TaskConfig, vocabulary: Vocabulary) -> tuple[SampleFn, TaskSize]:
        how = walks(config, structure)
        constraints = relation(vocabulary, config.constrain and structure != "authors-dag")
        pick = picker(config.prior, vocabulary)
        return lambda key, mask: sample_flat(key, mask, how, constraints, pick), how.size

    return make


def _hierarchical(config: TaskConfig, vocabulary: Vocabulary) -> tuple[SampleFn, TaskSize]:
    nodes = config.machines * config.states
    require(nodes <= MAX_STATES, "machines x states", nodes, f"at most {MAX_STATES}")
    constraints = relation(vocabulary, config.constrain)
    how = Nesting(
        machines=config.machines,
        walks=walks(config, config.structure),
        constraints=constraints,
        excludes=vocabulary.excludes,
        pick=picker(config.prior, vocabulary),
        partitions=config.partitions,
        call_weight=config.call_weight,
    )
    return lambda key, mask: sample_hierarchy(key, mask, how), how.size


def _enlarged(task: PackedTask, size: TaskSize) -> PackedTask:
    """A flat task with room for as many states, edges and literals."""
    room = (size.machines, size.states, size.edges, size.literals)

    def grown(table: Array, fill: int) -> Array:
        spare = [(0, most - now) for most, now in zip(room, table.shape, strict=False)]
        return jnp.pad(table, spare, constant_values=fill)

    return PackedTask(
        target=grown(task.target, UNUSED),
        guard=grown(task.guard, 0),
        reward=grown(task.reward, 0),
        outcome=grown(task.outcome, RUNNING),
    )


def _mixed(config: TaskConfig, vocabulary: Vocabulary) -> tuple[SampleFn, TaskSize]:
    drawn = {name: SAMPLERS[name](config, vocabulary) for name in config.mix}
    size = TaskSize(*(max(sizes) for sizes in zip(*(size for _, size in drawn.values()), strict=True)))
    number = jnp.array([list(drawn).index(name) for name in config.mix])

    def sample(key: Key[Array, ""], mask: Bool[Array, "props"]) -> PackedTask:
        choice, key = jax.random.split(key)
        tasks = [_enlarged(draw(key, mask), size) for draw, _ in drawn.values()]
        which = number[jax.random.randint(choice, (), 0, len(number))]
        return jax.tree.map(lambda *tables: jnp.stack(tables)[which], *tasks)

    return sample, size


SAMPLERS: dict[str, Callable[[TaskConfig, Vocabulary], tuple[SampleFn, TaskSize]]] = {
    "sequential": _sequential,
    "reach-avoid": _hindered(back=False),
    "parity": _hindered(back=True),
    "dag": _walked("dag"),
    "cyclic": _walked("cyclic"),
    "authors-dag": _walked("authors-dag"),
    "hierarchical": _hierarchical,
    "mixed": _mixed,
}
"""Name -> what makes, from settings and a vocabulary, the sampler and the sizes of its tasks."""


def formalism(
    config: TaskConfig,
    vocabulary: Vocabulary,
    gamma: float = 1.0,
    mask: np.ndarray | None = None,
    smallest: bool = False,
) -> tuple[Any, TaskSize]:
    """The formalism that the settings ask for, sampling and editing tasks with their rewards, and their sizes.

    `gamma` is the student's discount; only shaped rewards depend on it. `mask` says which propositions edits may bring
    in, by default all. With `smallest`, tasks of one transition are sampled; edits may make them larger.
    """
    sample_any, size = SAMPLERS[config.sampler](config, vocabulary)
    pick = picker(config.prior, vocabulary)
    reward = REWARDS[config.reward]

    def sample(key: Key[Array, ""], mask: Bool[Array, "props"]) -> PackedTask:
        return reward(sample_sequence(key, mask, 1, 1, size, pick) if smallest else sample_any(key, mask))

    def rewarded(cut: Cut) -> Cut:
        def apply(task: PackedTask, state: Any) -> tuple[PackedTask, Bool[Array, ""]]:
            part, fits = cut(task, state)
            return reward(part), fits

        return apply

    allowed = np.ones(len(vocabulary.names), bool) if mask is None else mask
    edits = task_edits(vocabulary, allowed, reward)
    in_turn = lambda props, length: reward(sequence(props, length, size))  # noqa: E731
    parts = (sample, edits, rewarded(prefix), rewarded(suffix), in_turn)
    return (Shaped(*parts, gamma=gamma) if config.reward == "shaped" else RewardMachines(*parts)), size
