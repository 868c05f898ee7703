"""What a teacher replays, in numbers: how large its problems are, which can be solved, how they were made.

Everything is weighted by the probability of being replayed; what a teacher without memory proposes weighs the same.
Nothing is drawn from the run's own randomness. What problems and edits are about is told by functions that are handed
in.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Key

from atlas.types import Lineage, Problem, Teacher
from atlas.ued import BufferConfig, Plan
from atlas.ued.buffer import priorities
from atlas.ued.supply import root

SAMPLE: Final = 1024
"""Problems that are looked into: checked for solvability, their paths counted."""


@dataclass(frozen=True, eq=False)
class Curriculum:
    """Problems with the probability of each to be played next. Arrays on the host, one row a problem.

    They may share memory with the run's state, so they are good until its next iteration; `rows` copies.
    """

    problems: Problem
    lineage: Lineage
    sizes: dict[str, np.ndarray]
    """How large each problem is, by what is counted."""
    probability: np.ndarray
    score: np.ndarray
    attempts: np.ndarray
    solves: np.ndarray

    def __len__(self) -> int:
        return len(self.probability)

    def rows(self, chosen: np.ndarray) -> "Curriculum":
        """Some of the problems."""
        return Curriculum(**jax.tree.map(lambda x: np.array(x[chosen]), vars(self)))


@dataclass(frozen=True)
class Observer:
    """Looks at what the teacher of a run has in mind."""

    teacher: Teacher
    plan: Plan
    edit_names: tuple[str, ...]
    """Of the rows that a lineage records."""
    tell_edit: Callable[[str, Sequence[int]], str]
    """An edit in words, from its name and arguments."""
    sizes: Callable[[Problem], dict[str, Array]]
    """From one traced problem: whole numbers that say how large it is, by what is counted."""
    inspect: Callable[[Problem], dict[str, Array]]
    """From a batch of problems: whether each is `solvable`, as far as a cheap check tells, and further numbers by name,
    negative where one has no meaning."""
    solved_by: tuple[str, ...] = ()
    """The sizes that solve rates are told by."""
    jit: Callable[..., Any] = jax.jit
    """How what is called here, a few times in a run, is compiled."""

    def look(self, teacher_state: Any, seed: int) -> Curriculum:
        """The problems that may be replayed; none while the buffer is empty. Of a teacher without memory: what it would
        propose now, with the seed."""
        memory = self.teacher.memory(teacher_state)
        if memory is None:
            numbers = jnp.arange(SAMPLE, dtype=jnp.int32)
            problems = self._proposed(jax.random.key(seed), teacher_state)
            return Curriculum(
                problems=_host(problems),
                lineage=_host(jax.vmap(lambda n: root(n, self.plan.max_edits))(numbers)),
                sizes=_host(self._sizes(problems)),
                probability=np.full(SAMPLE, 1 / SAMPLE),
                score=np.zeros(SAMPLE, np.float32),
                attempts=np.zeros(SAMPLE, np.int32),
                solves=np.zeros(SAMPLE, np.int32),
            )
        known = memory.records
        everything = Curriculum(
            problems=_host(memory.problems),
            lineage=_host(memory.lineage),
            sizes=_host(self._sizes(memory.problems)),
            probability=np.asarray(self._priorities(known, memory.clock), np.float64),
            score=np.asarray(known.score),
            attempts=np.asarray(known.attempts),
            solves=np.asarray(known.solves),
        )
        filled = np.asarray(known.filled)
        some = everything if filled.all() else everything.rows(np.flatnonzero(filled))
        return replace(some, probability=some.probability / max(some.probability.sum(), np.finfo(float).tiny))

    def measure(self, seen: Curriculum, seed: int) -> dict[str, Any]:
        """The record of a snapshot. The seed is for the sample that is looked into more closely."""
        if len(seen) == 0:
            return {"problems": 0}
        rng = np.random.default_rng(seed)
        weights = seen.probability
        replayed = self._look_into(seen, rng.choice(len(seen), SAMPLE, p=weights))
        anywhere = self._look_into(seen, rng.integers(len(seen), size=SAMPLE))
        edits = seen.lineage.edits
        counted = {**seen.sizes, "edits": np.sum(edits >= 0, axis=1)}
        kinds = np.bincount(
            edits[edits >= 0],
            np.broadcast_to(weights[:, None], edits.shape)[edits >= 0],
            minlength=len(self.edit_names),
        )
        return {
            "problems": len(seen),
            "solvable": float(anywhere["solvable"].mean()),
            "solvable_replayed": float(replayed.pop("solvable").mean()),
            **{name: float(x[x >= 0].mean()) if np.any(x >= 0) else -1.0 for name, x in replayed.items()},
            **{name: float(weights @ values) for name, values in counted.items()},
            "generation": float(weights @ seen.lineage.generation),
            "shares": {name: _shares(values, weights) for name, values in counted.items()},
            "solved": {name: _solved(seen.sizes[name], seen) for name in self.solved_by},
            "edit_kinds": {n: float(x / kinds.sum()) for n, x in zip(self.edit_names, kinds, strict=True) if x > 0},
        }

    def tell_edits(self, lineage: Lineage) -> list[str]:
        """The edits that made one problem from its parent, in order; none if it was sampled."""
        made = zip(lineage.edits.tolist(), lineage.arguments.tolist(), strict=True)
        return [self.tell_edit(self.edit_names[row], arguments) for row, arguments in made if row >= 0]

    def _look_into(self, seen: Curriculum, chosen: np.ndarray) -> dict[str, np.ndarray]:
        return _host(self.inspect(jax.tree.map(lambda x: x[chosen], seen.problems)))

    @cached_property
    def _sizes(self) -> Callable[[Problem], dict[str, Array]]:
        return self.jit(jax.vmap(self.sizes))

    @cached_property
    def _priorities(self) -> Callable[..., Array]:
        return self.jit(lambda records, clock: priorities(records, clock, self.plan.buffer or BufferConfig()))

    @cached_property
    def _proposed(self) -> Callable[[Key[Array, ""], Any], Problem]:
        """SAMPLE problems, of as many proposals as it takes."""
        batches = -(-SAMPLE // (self.plan.num_train * self.plan.pool))

        def propose(key: Key[Array, ""], state: Any) -> Problem:
            keys = jax.random.split(key, batches)
            problems = jax.lax.map(lambda key: self.teacher.propose(key, state, True)[1].problems, keys)
            return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:SAMPLE], problems)

        return self.jit(propose)


def _host(tree: Any) -> Any:
    return jax.tree.map(np.asarray, tree)


def _shares(values: np.ndarray, weights: np.ndarray) -> dict[str, float]:
    """How much weight each value has."""
    totals = np.bincount(values, weights)
    return {str(value): float(totals[value]) for value in np.unique(values)}


def _solved(values: np.ndarray, seen: Curriculum) -> dict[str, float]:
    """The share of episodes solved on the problems of each value, as far as they were played."""
    weights = np.where(seen.attempts > 0, seen.probability, 0.0)
    rates = seen.solves / np.maximum(seen.attempts, 1)
    totals, solved = np.bincount(values, weights), np.bincount(values, weights * rates)
    return {str(value): float(solved[value] / totals[value]) for value in np.flatnonzero(totals)}


def examples(seen: Curriculum, seed: int, count: int) -> Curriculum:
    """Some different problems, sampled by their probability, the likeliest first."""
    noise = np.random.default_rng([seed, 1]).gumbel(size=len(seen))
    with np.errstate(divide="ignore"):
        keys = np.log(seen.probability) + noise
    chosen = np.argsort(-keys)[: min(count, np.count_nonzero(seen.probability))]
    return seen.rows(chosen[np.argsort(-seen.probability[chosen], kind="stable")])


def ancestry(example: dict[str, Any]) -> str:
    """A sentence on where an example of a snapshot came from."""
    if example["parent"] < 0:
        return "sampled"
    age = example["generation"]
    made = ", ".join(example["edits"]) or "no edit that applied"
    return f"edited from problem {example['parent']:,} (generation {age}): {made}"
