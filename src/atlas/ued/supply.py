"""Where teachers get problems from: a sampler, a way to edit, and serial numbers for what they make."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32, Int32, Key

from atlas.types import EDIT_ARGUMENTS, EDITED, NEW, Lineage, Partial, Problem, Proposal, Record
from atlas.ued import Plan

EditFn = Callable[..., tuple[Problem, Lineage]]
"""From a key, a problem, its lineage, partial progress and the weights of kinds of edits (None: all alike): a child and
its lineage, to be numbered by the teacher."""
ECHO: Final = "echo"
"""The task was read off an episode (`echoer`)."""
TRIES: Final = 3
"""Children that are made for each one wanted, where they are screened."""


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
    check: Callable[[Problem], Bool[Array, "batch"]] | None = None
    """Which problems of a batch can be solved, as far as a cheap check tells, for a teacher that screens children."""
    features: Callable[[Problem], Float32[Array, "features"]] | None = None
    """What a problem looks like from outside, in a few numbers of about the size of 1: to predict its difficulty by."""
    mentions: Callable[[Problem], Int32[Array, "literals"]] | None = None
    """The propositions that its task asks for, -1 where there is none."""
    props: int = 0
    """How many propositions there are."""
    edit_names: tuple[str, ...] = ()
    """The table of edits, by the rows that a lineage records."""

    def problem(self) -> Problem:
        """The shapes of one problem."""
        return jax.eval_shape(lambda: jax.tree.map(lambda x: x[0], self.sample(jax.random.key(0), 1)))


LAST_NUMBER: Final = 2**31 - 1
"""Serial numbers begin again at 0 after this one: a negative number would look like no parent at all. A run of hours on
a GPU gets there, and a buffer holds so few problems that two of one number hardly meet."""


def numbers_after(number: Int32[Array, ""], count: int | Int32[Array, "..."]) -> Int32[Array, "..."]:
    """The serial number that comes so many after this one."""
    return (number + count) & LAST_NUMBER


def numbered(lineage: Lineage, number: Int32[Array, ""]) -> Lineage:
    """The lineages of a batch, with serial numbers from `number` on."""
    numbers = numbers_after(number, jnp.arange(len(lineage.number), dtype=jnp.int32))
    return Lineage.unchecked(**vars(lineage) | {"number": numbers})


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
    return _unplayed(NEW, supply.sample(key, batch), lineage, supply.plan.buffer is not None)


def edited(
    key: Key[Array, ""],
    supply: Supply,
    parents: tuple[Problem, Lineage, Partial],
    batch: int,
    number: Int32[Array, ""],
    prior: Float32[Array, "parents"] | None = None,
    weights: Float32[Array, "edits"] | None = None,
) -> Proposal:
    """Children of some problems, numbered from `number` on; with more children than parents, parents take turns.

    `prior`: the solve rate expected of each parent, and so of its children; `weights`: how often each edit is made, in
    proportion. Where children are screened, TRIES times as many are made, and those that pass the check come first.
    """
    made = batch if supply.check is None else TRIES * batch
    turn = jnp.arange(made) % len(parents[1].number)
    problems, lineage, partial = jax.tree.map(lambda x: x[turn], parents)
    chances = None if weights is None else jnp.broadcast_to(weights, (made, len(weights)))
    children, lineage = supply.each(supply.edit)(jax.random.split(key, made), problems, lineage, partial, chances)
    prior = None if prior is None else prior[turn]
    if supply.check is not None:
        passed = supply.check(children)
        first = jnp.argsort(~passed, stable=True)[:batch]
        children, lineage, prior = jax.tree.map(lambda x: x[first], (children, lineage, prior))
    proposal = _unplayed(EDITED, children, numbered(lineage, number), True)
    return proposal if prior is None else proposal.replace(record=proposal.record.replace(prior=prior))


def _unplayed(kind: int, problems: Problem, lineage: Lineage, remembered: bool) -> Proposal:
    """A teacher that remembers problems also keeps what was expected of them, and plans."""
    batch = len(lineage.number)
    record = Record(
        best_return=jnp.full(batch, -jnp.inf),
        attempts=jnp.zeros(batch, jnp.int32),
        solves=jnp.zeros(batch, jnp.int32),
        prior=jnp.full(batch, 0.5) if remembered else None,
        plan=jnp.zeros(batch, jnp.int32) if remembered else None,
    )
    slots = jnp.full(batch, -1, jnp.int32)
    return Proposal(kind=jnp.int8(kind), problems=problems, lineage=lineage, slots=slots, record=record)
