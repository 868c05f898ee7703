"""Drawing the propositions on edges, under the constraint matrix C (the paper, Appendix A.2).

Sets of propositions are bit sets, 32 to a word: constraining an edge is then a few words of work, and no edge ever
costs a pass over the alphabet.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Int, Int16, UInt32

from atlas.draw import WORD, pick_bit
from atlas.vocabulary import Vocabulary

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
