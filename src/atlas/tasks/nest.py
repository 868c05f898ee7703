"""Hierarchies from random walks (the paper, Appendix A.2): which machine may call which, and which edges do.

The tree of machines is an ordered integer partition, all equally likely: its i-th summand is how many machines the i-th
one may call. (The paper draws partitions of half the number of machines, which leaves machines without a caller; here
the summands add up to all machines but the root.) Machines are walked and labelled one by one; all but the root have a
single first edge, which calls nothing. Then each other edge calls one of its machine's children, or none, uniformly
among those that fit. Machines that nothing calls are dropped.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Int, Int8, Int16, Int32, Key, UInt32

from atlas.tasks import walk
from atlas.tasks.hrm import Hierarchy, HierarchySize, chains
from atlas.tasks.labels import NO_LABEL, WORD, Relation, contains, relation
from atlas.tasks.rm import UNUSED
from atlas.vocabulary import Vocabulary


@dataclass(frozen=True)
class Nesting:
    """How a hierarchy is drawn. Static, but for the tables of the vocabulary."""

    machines: int
    walks: walk.Walks
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
    edges = jax.vmap(walk.draw_graph, (0, None, 0))(jax.random.split(key_graphs, machines), how.walks, is_callee)
    label = jax.vmap(walk.draw_labels, (0, 0, None, None, None))
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
        chosen = _choose(uniforms[machine], mine)
        may_call = jnp.arange(labels.shape[1])[:, None] >= (0 if machine == 0 else 1)
        call = jnp.where(may_call & (chosen > 0), machine + chosen, UNUSED).astype(jnp.int8)
        callees = [_describe(labels[machine], call, callees, how), *callees]
        calls = [call, *calls]
    return jnp.stack(calls)


def _choose(uniform: Float[Array, "n n"], fits: Bool[Array, "options n n"]) -> Int[Array, "n n"]:
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
    machines, layouts = jax.vmap(walk.to_machine, (0, None))(labels, how.walks.size)
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


def nesting(machines: int, walks: walk.Walks, vocabulary: Vocabulary, constrain: bool) -> Nesting:
    """How hierarchies are drawn over a vocabulary."""
    return Nesting(machines, walks, relation(vocabulary, constrain), vocabulary.excludes)
