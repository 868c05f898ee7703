"""The paper's check (Appendix E.3), for thousands of problems at once.

A problem passes if some path to acceptance has only guards whose objects are within reach. Doors are unlocked in any
order between the transitions, which is a search over (task state, set of unlocked doors). It is neither sound nor
complete (see `atlas.solver.prove` for verdicts with proof), but cheap enough to screen every sampled problem.
"""

from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Int, Int16, UInt32

from atlas.domains.minigrid import reach
from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.domains.minigrid.reach import Situations
from atlas.solver import unfold
from atlas.tasks.hrm import Hierarchy
from atlas.tasks.rm import UNUSED, RewardMachine
from atlas.types import Problem
from atlas.vocabulary import ACCEPTED

CHUNK: Final = 1024
"""Most problems in one call of the compiled check."""
SMALLEST_CHUNK: Final = 64
WORD: Final = 32
"""Bits of a word."""
CONTEXTS: Final = 16
"""Stacks of calls for which there is room unless more is asked for: enough for almost all sampled hierarchies."""
MOST_CONTEXTS: Final = 1024
"""More are never tried."""


def relaxed(problem: Problem, locks: int, free_form: bool = False, contexts: int = CONTEXTS) -> Bool[Array, ""]:
    """Whether the paper's check calls a problem solvable.

    `locks` bounds the number of locked doors: time and memory grow with its power of two. Levels that do not follow a
    layout of rooms need `free_form`. `contexts` bounds the stacks of calls of a hierarchy; those beyond are not tried.
    """
    regions = (reach.free_regions if free_form else reach.room_regions)(problem.level, locks)
    within = reach.situations(regions)
    if isinstance(problem.task, Hierarchy):
        task = _product_of_calls(problem.task, within, contexts)
    else:
        task = _product(problem.task, within)
    return _accepts(task, _pack(within.opens.T))


class Product(NamedTuple):
    """A task whose guards have been looked up in all situations. Situations are the bits of a few words."""

    target: Int[Array, "nodes edges"]
    passes: UInt32[Array, "nodes edges words"]
    """In which situations each edge can be taken."""
    accepted: Bool[Array, "nodes"]


def _product(task: RewardMachine, within: Situations) -> Product:
    passes = satisfiable(task.guard, within) & (task.target != UNUSED)[..., None]
    return Product(task.target, _pack(passes), task.outcome == ACCEPTED)


def _product_of_calls(task: Hierarchy, within: Situations, room: int) -> Product:
    machines, states, *_ = task.size
    table = unfold.contexts(task, room)
    target = unfold.landings(task, table)
    passes = _pack(satisfiable(unfold.chain_guards(task), within))
    passes = passes.reshape(machines, states, *passes.shape[1:])[table.machine].reshape(len(target), *passes.shape[1:])
    passes = jnp.where((target != UNUSED)[..., None], passes, jnp.uint32(0))
    accepted = (jnp.arange(len(target)) < states) & (jnp.tile(task.outcome[task.root], room) == ACCEPTED)
    return Product(target, passes, accepted)


def satisfiable(
    guard: Int16[Array, "states edges literals"], within: Situations
) -> Bool[Array, "states edges situations"]:
    """Whether the objects within reach suffice for each guard. Negated literals only matter if they contradict."""
    literals = guard.astype(jnp.int32)
    attainable = reach.attainable(within, jnp.maximum(literals - 1, 0))
    enough = jnp.all(attainable | (literals <= 0)[..., None], axis=-2)
    return enough & ~contradictory(guard)[..., None]


def contradictory(guard: Int16[Array, "states edges literals"]) -> Bool[Array, "states edges"]:
    """Whether a positive literal implies one that is negated, or excludes another positive one."""
    literals = guard.shape[-1]
    if literals == 1:
        return jnp.zeros(guard.shape[:-1], bool)
    implies, excludes = jnp.asarray(VOCABULARY.implies), jnp.asarray(VOCABULARY.excludes)
    prop = jnp.maximum(jnp.abs(guard.astype(jnp.int32)) - 1, 0)
    first, second = prop[..., :, None], prop[..., None, :]
    positive, negative = guard > 0, guard < 0
    denied = implies[first, second] & positive[..., :, None] & negative[..., None, :]
    at_odds = excludes[first, second] & positive[..., :, None] & positive[..., None, :]
    return jnp.any(denied | at_odds, axis=(-2, -1))


def _accepts(task: Product, can_open: UInt32[Array, "locks words"]) -> Bool[Array, ""]:
    """Whether acceptance can be reached from the initial state with nothing unlocked: a search backwards."""
    accepted = jnp.where(task.accepted[:, None], jnp.uint32(2**32 - 1), jnp.zeros_like(task.passes[:, 0]))

    def improve(state: tuple[Array, Array]) -> tuple[Array, Array]:
        _, wins = state
        better = wins | _unite(task.passes & wins[task.target])
        for lock in range(can_open.shape[0]):
            better |= can_open[lock][None] & _after_unlocking(better, lock)
        return jnp.any(better != wins), better

    _, wins = jax.lax.while_loop(lambda s: s[0], improve, (jnp.bool_(True), accepted))
    return (wins[0, 0] & 1) != 0


def _unite(words: UInt32[Array, "states edges words"]) -> UInt32[Array, "states words"]:
    return jax.lax.reduce(words, jnp.uint32(0), jax.lax.bitwise_or, (1,))


def _pack(bits: Bool[Array, "*many situations"]) -> UInt32[Array, "*many words"]:
    """32 situations a word, the first in the lowest bit."""
    count = bits.shape[-1]
    padded = jnp.pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, -count % WORD)])
    words = padded.reshape(*bits.shape[:-1], padded.shape[-1] // WORD, WORD)
    place = jnp.asarray(2 ** np.arange(WORD), jnp.uint32).reshape((1,) * bits.ndim + (WORD,))
    return jnp.sum(jnp.where(words, place, jnp.uint32(0)), axis=-1, dtype=jnp.uint32)


def _after_unlocking(wins: UInt32[Array, "states words"], lock: int) -> UInt32[Array, "states words"]:
    """For each situation in which a lock is closed, the bit of the one in which it is open and all else is the same."""
    if 2**lock < WORD:
        return wins >> 2**lock
    return jnp.roll(wins, -(2**lock // WORD), axis=1)


_check = jax.jit(
    lambda problems, *sizes: jax.vmap(lambda problem: relaxed(problem, *sizes))(problems), static_argnums=(1, 2, 3)
)


def relaxed_many(problems: Problem) -> np.ndarray:
    """The paper's check on a batch of problems: `bool[batch]`.

    Problems are grouped by the number of locked doors, so that a level with twelve does not slow down those with two.
    """
    locked = np.asarray(reach.count_locked(jnp.asarray(problems.level.cells)))
    free_form = np.asarray(problems.level.rooms) == 0
    contexts = _contexts(problems.task)
    verdict = np.zeros(locked.shape, bool)
    for kind in sorted(set(zip(locked.tolist(), free_form.tolist(), strict=True))):
        members = np.flatnonzero((locked == kind[0]) & (free_form == kind[1]))
        for start in range(0, len(members), CHUNK):
            some = members[start : start + CHUNK]
            verdict[some] = _check_group(problems, some, *kind, contexts)
    return verdict


def _check_group(problems: Problem, members: np.ndarray, locks: int, free_form: bool, contexts: int) -> np.ndarray:
    """Check some problems, padded to one of few sizes so that little is compiled."""
    size = SMALLEST_CHUNK
    while size < len(members):
        size *= 2
    padded = np.resize(members, size)
    chosen: Any = jax.tree.map(lambda x: np.asarray(x)[padded], problems)
    return np.asarray(_check(chosen, locks, free_form, contexts))[: len(members)]


def _contexts(task: Any) -> int:
    """Room for all stacks of calls of a batch, rounded up so that little is compiled."""
    if not isinstance(task, Hierarchy):
        return CONTEXTS
    return max(CONTEXTS, 1 << (unfold.count_contexts(task, MOST_CONTEXTS) - 1).bit_length())
