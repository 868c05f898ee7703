"""Where teachers get problems from: a sampler, a way to edit, and serial numbers for what they make."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Int32, Key

from atlas.types import EDIT_ARGUMENTS, EDITED, NEW, Lineage, Partial, Problem, Proposal, Record
from atlas.ued import Plan

EditFn = Callable[[Key[Array, ""], Problem, Lineage, Partial], tuple[Problem, Lineage]]
"""From a problem, its lineage and partial progress: a child and its lineage, to be numbered by the teacher."""


@dataclass(frozen=True)
class Supply:
    """What a teacher is given. Problems and partial progress are opaque to it."""

    sample: Callable[[Key[Array, ""], int], Problem]
    """A batch of so many new problems."""
    edit: EditFn
    partial: Partial
    """The shapes of the partial progress on ONE problem; may be abstract."""
    plan: Plan
    """How many problems are wanted, and what else its settings mean."""
    each: Callable[[Callable[..., Any]], Callable[..., Any]] = jax.vmap
    """A function of one problem as one of a batch; on several devices each takes its share of the rows."""

    def problem(self) -> Problem:
        """The shapes of one problem."""
        return jax.eval_shape(lambda: jax.tree.map(lambda x: x[0], self.sample(jax.random.key(0), 1)))


LAST_NUMBER: Final = 2**31 - 1
"""Serial numbers begin again at 0 after this one: a negative number would look like no parent at all. A run of hours on
a GPU gets there, and a buffer holds so few problems that two of one number hardly meet."""


def numbers_after(number: Int32[Array, ""], count: int | Int32[Array, "..."]) -> Int32[Array, "..."]:
    """The serial number that comes so many after this one."""
    return (number + count) & LAST_NUMBER


def root(number: Int32[Array, ""], max_edits: int) -> Lineage:
    """The lineage of a sampled problem."""
    return Lineage(
        number=number,
        parent=jnp.int32(-1),
        generation=jnp.int16(0),
        edits=jnp.full(max_edits, -1, jnp.int8),
        arguments=jnp.full((max_edits, EDIT_ARGUMENTS), -1, jnp.int16),
    )


def sampled(key: Key[Array, ""], supply: Supply, batch: int, number: Int32[Array, ""]) -> Proposal:
    """New problems, numbered from `number` on."""
    numbers = numbers_after(number, jnp.arange(batch, dtype=jnp.int32))
    lineage = jax.vmap(lambda n: root(n, supply.plan.max_edits))(numbers)
    return _unplayed(NEW, supply.sample(key, batch), lineage)


def edited(
    key: Key[Array, ""], supply: Supply, parents: tuple[Problem, Lineage, Partial], batch: int, number: Int32[Array, ""]
) -> Proposal:
    """Children of some problems, numbered from `number` on; with more children than parents, parents take turns."""
    turn = jnp.arange(batch) % len(parents[1].number)
    problems, lineage, partial = jax.tree.map(lambda x: x[turn], parents)

    def child(key: Key[Array, ""], number: Int32[Array, ""], *parent: Any) -> tuple[Problem, Lineage]:
        problem, lineage = supply.edit(key, *parent)
        return problem, lineage.replace(number=number)

    numbers = numbers_after(number, jnp.arange(batch, dtype=jnp.int32))
    return _unplayed(EDITED, *supply.each(child)(jax.random.split(key, batch), numbers, problems, lineage, partial))


def _unplayed(kind: int, problems: Problem, lineage: Lineage) -> Proposal:
    batch = len(lineage.number)
    record = Record(
        best_return=jnp.full(batch, -jnp.inf),
        attempts=jnp.zeros(batch, jnp.int32),
        solves=jnp.zeros(batch, jnp.int32),
    )
    slots = jnp.full(batch, -1, jnp.int32)
    return Proposal(kind=jnp.int8(kind), problems=problems, lineage=lineage, slots=slots, record=record)
