"""The problems a teacher remembers: batched sampling and insertion.

Small records (scores, counts) stand apart from the payload (problems and their lineage): everything that sorts or
compares looks at records only, so it stays global and exact where the payload is sharded over devices.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int32, Key, UInt32

from atlas.struct import Struct
from atlas.types import Lineage, Outcome, Problem, Record
from atlas.ued import BufferConfig

TINY = float(np.finfo(np.float32).tiny)
SEEDS = (0x243F6A88, 0x85A308D3)
"""Two independent hashes of 32 bits: among 50,000 problems the chance of any clash is below one in 10^9."""


def fingerprint(problem: Problem) -> UInt32[Array, "2"]:
    """A hash of one problem's bytes: equal problems have equal ones, different problems practically never."""
    leaves = [x.astype(jnp.uint8) if x.dtype == jnp.bool_ else x for x in jax.tree.leaves(problem)]
    row = jnp.concatenate([jax.lax.bitcast_convert_type(x, jnp.uint8).reshape(-1) for x in leaves])
    words = jax.lax.bitcast_convert_type(jnp.pad(row, (0, -len(row) % 4)).reshape(-1, 4), jnp.uint32)
    places = jnp.arange(len(words), dtype=jnp.uint32)
    return jnp.stack([_mix(jnp.sum(_mix(words ^ _mix(places + jnp.uint32(seed))))) for seed in SEEDS])


def _mix(x: Array) -> Array:
    """A bijection of 32-bit words in which every input bit moves about half of the output bits."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)


class Records(Struct):
    """What is known of each problem, by slot."""

    filled: Bool[Array, "capacity"]
    score: Float32[Array, "capacity"]
    best_return: Float32[Array, "capacity"]
    """Best undiscounted return ever seen; -inf before the first finished episode."""
    attempts: Int32[Array, "capacity"]
    """Finished episodes, over all visits."""
    solves: Int32[Array, "capacity"]
    """… in which the task was accepted."""
    last_seen: Int32[Array, "capacity"]
    """Iteration in which it was played last."""
    content: UInt32[Array, "capacity 2"]
    """Fingerprint of the problem."""
    birth: Float32[Array, "capacity"]
    """The score it came with."""
    prior: Float32[Array, "capacity"]
    """The solve rate that was expected before the first attempt."""
    discounted: Float32[Array, "capacity"]
    """Mean discounted return of the last visit."""
    plan: Int32[Array, "capacity"]
    """Steps of a plan that the prover found; 0 where none is known."""


class Buffer(Struct):
    """Records, payload and a clock that counts iterations."""

    records: Records
    problems: Problem
    lineage: Lineage
    clock: Int32[Array, ""]


ROWS = Buffer.unchecked(records=False, problems=True, lineage=True, clock=False)
"""What several devices divide among themselves: the payload."""


def empty(capacity: int, problem: Any, lineage: Any) -> Buffer:
    """A buffer without problems. `problem` and `lineage` show the shapes of ONE, and may be abstract."""
    records = Records(
        filled=jnp.zeros(capacity, bool),
        score=jnp.zeros(capacity),
        best_return=jnp.full(capacity, -jnp.inf, jnp.float32),
        attempts=jnp.zeros(capacity, jnp.int32),
        solves=jnp.zeros(capacity, jnp.int32),
        last_seen=jnp.zeros(capacity, jnp.int32),
        content=jnp.zeros((capacity, 2), jnp.uint32),
        birth=jnp.zeros(capacity),
        prior=jnp.full(capacity, 0.5, jnp.float32),
        discounted=jnp.zeros(capacity),
        plan=jnp.zeros(capacity, jnp.int32),
    )
    problems, lineages = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), (problem, lineage))
    return Buffer(records=records, problems=problems, lineage=lineages, clock=jnp.int32(0))


def fill(buffer: Buffer) -> Int32[Array, ""]:
    """How many problems it holds."""
    return jnp.sum(buffer.records.filled, dtype=jnp.int32)


def take(buffer: Buffer, slots: Int32[Array, "batch"]) -> tuple[Problem, Lineage, Record]:
    """The problems at some slots, where they came from and what is known of them."""
    problems, lineage = jax.tree.map(lambda x: x[slots], (buffer.problems, buffer.lineage))
    known = buffer.records
    told = ("best_return", "attempts", "solves", "prior", "plan")
    record = Record(**{name: getattr(known, name)[slots] for name in told})
    return problems, lineage, record


def priorities(records: Records, clock: Int32[Array, ""], config: BufferConfig) -> Float32[Array, "capacity"]:
    """The probability of drawing each slot: (1 - rho) P_score + rho P_stale; 0 where it is empty."""
    if config.prioritisation == "proportional":
        weights = jnp.maximum(records.score, 0.0) ** (1 / config.temperature)
    else:
        ranks = _ranks(jnp.where(records.filled, records.score, -jnp.inf))
        if config.prioritisation == "topk":
            weights = (ranks <= config.top).astype(jnp.float32)
        else:
            weights = (1 / ranks.astype(jnp.float32)) ** (1 / config.temperature)
    by_score = _normalised(weights, records.filled)
    by_staleness = _normalised((clock - records.last_seen).astype(jnp.float32), records.filled)
    return (1 - config.staleness) * by_score + config.staleness * by_staleness


def _ranks(scores: Float32[Array, "capacity"]) -> Int32[Array, "capacity"]:
    """1 for the highest score; of equal ones the lower slot comes first."""
    order = jnp.argsort(scores, descending=True, stable=True)
    places = jnp.arange(1, len(scores) + 1, dtype=jnp.int32)
    return jnp.zeros_like(places).at[order].set(places, unique_indices=True)


def _normalised(weights: Float32[Array, "capacity"], filled: Bool[Array, "capacity"]) -> Float32[Array, "capacity"]:
    """Weights of filled slots as probabilities; uniform where all of them are zero."""
    weights = jnp.where(filled, weights, 0.0)
    weights = jnp.where(jnp.any(weights > 0), weights, filled.astype(jnp.float32))
    return weights / jnp.maximum(jnp.sum(weights), TINY)


def sample(key: Key[Array, ""], buffer: Buffer, batch: int, config: BufferConfig) -> Int32[Array, "batch"]:
    """Sample filled slots by priority. The buffer must hold at least one problem.

    Without replacement each problem comes at most once, unless the batch is larger than what the buffer holds: then
    it is repeated in turn.
    """
    weights = priorities(buffer.records, buffer.clock, config)
    if config.replacement:  # invert the distribution function
        cumulative = jnp.cumsum(weights)
        points = jax.random.uniform(key, (batch,)) * cumulative[-1]
        slots = jnp.searchsorted(cumulative, points, side="right").astype(jnp.int32)
        slots = jnp.minimum(slots, len(weights) - 1)
        # Rounding in the sum can leave a hair of probability on an empty slot: give it to the likeliest problem.
        return jnp.where(weights[slots] > 0, slots, jnp.argmax(weights).astype(jnp.int32))
    keys = jnp.log(weights) + jax.random.gumbel(key, weights.shape)
    _, slots = jax.lax.top_k(keys, min(batch, len(weights)))
    return slots[jnp.arange(batch) % jnp.minimum(len(slots), fill(buffer))]


def update(buffer: Buffer, slots: Int32[Array, "batch"], outcome: Outcome) -> Buffer:
    """Take note of replayed problems; negative slots are ignored.

    A problem that stands several times in the batch is one problem: its score becomes the mean over all its episodes.
    """
    known = buffer.records
    slots = jnp.where(slots < 0, len(known.filled), slots)
    episodes = jnp.zeros_like(known.attempts).at[slots].add(outcome.attempts, mode="drop")
    total = jnp.zeros_like(known.score).at[slots].add(outcome.score * outcome.attempts, mode="drop")
    records = known.replace(
        score=jnp.where(episodes > 0, total / jnp.maximum(episodes, 1), known.score),
        best_return=known.best_return.at[slots].max(outcome.best_return, mode="drop"),
        attempts=known.attempts + episodes,
        solves=known.solves.at[slots].add(outcome.solves, mode="drop"),
        last_seen=known.last_seen.at[slots].set(buffer.clock, mode="drop"),
    )
    if outcome.discounted is not None:
        total = jnp.zeros_like(known.score).at[slots].add(outcome.discounted * outcome.attempts, mode="drop")
        mean = jnp.where(episodes > 0, total / jnp.maximum(episodes, 1), known.discounted)
        records = records.replace(discounted=mean)
    return buffer.replace(records=records)


def insert(
    buffer: Buffer,
    problems: Problem,
    lineage: Lineage,
    outcome: Outcome,
    config: BufferConfig,
    prior: Float32[Array, "batch"] | None = None,
) -> Buffer:
    """Let newcomers take the place of the least likely problems. `prior`: the solve rates that were expected of them.

    Slots ascending by priority, empty ones first; newcomers descending by score; the i-th meets the i-th and replaces
    it where strictly better. Trivial problems and those without a finished episode never enter.
    """
    known, score = buffer.records, outcome.score
    capacity = len(known.filled)
    content = jax.vmap(fingerprint)(problems)
    eligible = ~outcome.trivial & (outcome.attempts > 0)
    if config.deduplicate:
        eligible = eligible & ~_repeated(known, content, score, eligible)
    pairs = min(capacity, len(score))
    weights = jnp.where(known.filled, priorities(known, buffer.clock, config), -1.0)
    _, slots = jax.lax.top_k(-weights, pairs)
    newcomers = _best_first(score, eligible)[:pairs]
    better = ~known.filled[slots] | (score[newcomers] > known.score[slots])
    slots = jnp.where(eligible[newcomers] & better, slots, capacity)  # a slot beyond the end is dropped
    records = Records(
        filled=jnp.ones_like(slots, bool),
        score=score[newcomers],
        best_return=outcome.best_return[newcomers],
        attempts=outcome.attempts[newcomers],
        solves=outcome.solves[newcomers],
        last_seen=jnp.full_like(slots, buffer.clock),
        content=content[newcomers],
        birth=score[newcomers],
        prior=jnp.full_like(score, 0.5)[newcomers] if prior is None else prior[newcomers],
        discounted=(jnp.zeros_like(score) if outcome.discounted is None else outcome.discounted)[newcomers],
        plan=jnp.zeros_like(slots),
    )
    problems, lineage = jax.tree.map(lambda x: x[newcomers], (problems, lineage))
    records, problems, lineage = jax.tree.map(
        lambda kept, new: kept.at[slots].set(new, mode="drop"),
        (known, buffer.problems, buffer.lineage),
        (records, problems, lineage),
    )
    return buffer.replace(records=records, problems=problems, lineage=lineage)


def _best_first(score: Float32[Array, "batch"], eligible: Bool[Array, "batch"]) -> Int32[Array, "batch"]:
    """Newcomers in descending order of score, those that may not enter last."""
    return jnp.argsort(jnp.where(eligible, score, -jnp.inf), descending=True, stable=True)


def _repeated(
    records: Records,
    content: UInt32[Array, "batch 2"],
    score: Float32[Array, "batch"],
    eligible: Bool[Array, "batch"],
) -> Bool[Array, "batch"]:
    """Newcomers whose content is in the buffer, or comes with a better score in the same batch.

    One sort brings equal contents together: first what is kept, then newcomers from the best down, then what does
    not count. A newcomer with an equal neighbour before it is a repetition.
    """
    capacity, batch = len(records.filled), len(score)
    best_first = _best_first(score, eligible)
    nobody = capacity + batch
    places = jnp.concatenate(
        [
            jnp.where(records.filled, 0, nobody),
            jnp.where(eligible[best_first], capacity + jnp.arange(batch, dtype=jnp.int32), nobody),
        ]
    )
    both = jnp.concatenate([records.content, content[best_first]])
    high, low, places = jax.lax.sort((both[:, 0], both[:, 1], places), num_keys=3, is_stable=False)
    equal = jnp.pad((high[1:] == high[:-1]) & (low[1:] == low[:-1]), (1, 0))
    ranks = jnp.where(places >= capacity, places - capacity, batch)
    repeated = jnp.zeros(batch, bool).at[ranks].set(equal, mode="drop")
    return jnp.zeros(batch, bool).at[best_first].set(repeated)
