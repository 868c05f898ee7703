"""How worthwhile a problem is, judged by the student's finished episodes on it (paper, Section 2 and Appendix B).

A score sees one batch of played problems and gives a number each. A new score is a function and its row in SCORES.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32, Int32

from atlas.plugins import Table, require_kind
from atlas.struct import Struct, static
from atlas.types import Outcome, Partial, Proposal, Record


class Played(Struct):
    """What scores look at of a rollout. An episode ends where `done`; the last one of a row may be cut by the edge."""

    value: Float32[Array, "time batch"]
    """As predicted while acting."""
    advantage: Float32[Array, "time batch"]
    reward: Float32[Array, "time batch"]
    done: Bool[Array, "time batch"]
    accepted: Bool[Array, "time batch"]
    """The episode ended with the task accepted."""
    gamma: float = static(1.0)
    """The student's discount."""


ScoreFn = Callable[[Played, Record], Float32[Array, "batch"]]
"""From the rollout and the records over all visits, this one included, to a score. All means are over the finished
episodes of a problem; a problem without any scores 0."""


def maxmc(played: Played, record: Record) -> Float32[Array, "batch"]:
    """How far the values predicted on the way fall short of the best return ever seen."""
    shortfall = _mean_over_episodes(_mean_within_episode(played.value, played.done), played.done)
    seen = jnp.isfinite(record.best_return) & jnp.any(played.done, axis=0)
    return jnp.where(seen, record.best_return - shortfall, 0.0)


def positive_value_loss(played: Played, record: Record) -> Float32[Array, "batch"]:
    """Mean positive advantage."""
    gains = jnp.maximum(played.advantage, 0.0)
    return _mean_over_episodes(_mean_within_episode(gains, played.done), played.done)


def value_loss(played: Played, record: Record) -> Float32[Array, "batch"]:
    """Mean absolute advantage: how wrong the critic was, either way."""
    errors = jnp.abs(played.advantage)
    return _mean_over_episodes(_mean_within_episode(errors, played.done), played.done)


def learnability(played: Played, record: Record) -> Float32[Array, "batch"]:
    """p (1 - p) for the share p of episodes solved, over all visits."""
    share = record.solves / jnp.maximum(record.attempts, 1)
    return share * (1 - share)


PRIOR_WEIGHT: Final = 2.0
"""The prior of a solve rate counts as so many attempts."""


def expected_rate(record: Record) -> Float32[Array, "batch"]:
    """The mean of the posterior of the solve rate: (solves + a p0) / (attempts + a); p0 is 1/2 where nobody knows."""
    prior = 0.5 if record.prior is None else record.prior
    return (record.solves + PRIOR_WEIGHT * prior) / (record.attempts + PRIOR_WEIGHT)


def posterior_learnability(played: Played, record: Record) -> Float32[Array, "batch"]:
    """p (1 - p) for the expected solve rate p: never 0 after a few attempts, and children begin with what is known of
    their parents."""
    rate = expected_rate(record)
    return jnp.where(jnp.any(played.done, axis=0), rate * (1 - rate), 0.0)


def oracle_regret(played: Played, record: Record) -> Float32[Array, "batch"]:
    """The discounted return of the prover's plan minus the student's mean; 0 unless the problem was ever solved. While
    no plan is known, the best episode of the visit takes its place."""
    returns = _discounted(played)
    mean = _mean_over_episodes(returns, played.done)
    best = jnp.max(jnp.where(played.done, returns, 0.0), axis=0)
    if record.plan is not None:
        best = jnp.where(record.plan > 0, plan_return(record.plan, played.gamma), best)
    return jnp.where((record.solves > 0) & jnp.any(played.done, axis=0), jnp.maximum(best - mean, 0.0), 0.0)


def plan_return(plan: Int32[Array, "*n"], gamma: float) -> Float32[Array, "*n"]:
    """What a plan of so many steps earns where only acceptance is rewarded, with 1."""
    return jnp.float32(gamma) ** (plan - 1).astype(jnp.float32)


def negative_advantage(played: Played, record: Record) -> Float32[Array, "batch"]:
    """Sum of negative advantages within an episode; 0 unless the problem was ever solved."""
    losses = _sum_within_episode(jnp.maximum(-played.advantage, 0.0), played.done)
    return jnp.where(record.solves > 0, _mean_over_episodes(losses, played.done), 0.0)


def constant(played: Played, record: Record) -> Float32[Array, "batch"]:
    """All problems alike: whatever enters the buffer first stays there."""
    return jnp.ones_like(record.best_return)


SCORES: Table[ScoreFn] = Table(
    "scores",
    {
        "maxmc": maxmc,
        "pvl": positive_value_loss,
        "l1": value_loss,
        "learnability": learnability,
        "mna": negative_advantage,
        "posterior": posterior_learnability,
        "oracle": oracle_regret,
        "constant": constant,
    },
    partial(require_kind, kind=Callable, words="a function of (played, record)"),
)


def assess(
    score: ScoreFn, played: Played, trivial: Bool[Array, "batch"], partial: Partial, proposal: Proposal
) -> Outcome:
    """What became of each problem of a proposal. Trivial ones score 0."""
    attempts = jnp.sum(played.done, axis=0, dtype=jnp.int32)
    solves = jnp.sum(played.done & played.accepted, axis=0, dtype=jnp.int32)
    returns = _sum_within_episode(played.reward, played.done)
    best_return = jnp.max(jnp.where(played.done, returns, -jnp.inf), axis=0)
    visit = Record(best_return=best_return, attempts=attempts, solves=solves)
    ended, first = jnp.any(played.done, axis=0), jnp.argmax(played.done, axis=0)
    won = jnp.take_along_axis(played.accepted, first[None], axis=0)[0]
    scores = score(played, _all_visits(proposal.record, visit, proposal.slots))
    return Outcome(
        score=jnp.where(trivial, 0.0, scores),
        best_return=best_return,
        attempts=attempts,
        solves=solves,
        trivial=trivial,
        partial=partial,
        first=jnp.where(ended, won, -1).astype(jnp.int8),
        discounted=_mean_over_episodes(_discounted(played), played.done),
    )


def _all_visits(before: Record, visit: Record, slots: Int32[Array, "batch"]) -> Record:
    """Records with this visit added, in which all copies of a problem (equal slots) take part."""
    batch = len(slots)
    own = jnp.where(slots < 0, -1 - jnp.arange(batch, dtype=jnp.int32), slots)
    _, copies = jnp.unique(own, size=batch, return_inverse=True)

    def total(x: Array) -> Array:
        return jax.ops.segment_sum(x, copies, batch)[copies]

    best = jax.ops.segment_max(visit.best_return, copies, batch)[copies]
    return Record(
        best_return=jnp.maximum(before.best_return, best),
        attempts=before.attempts + total(visit.attempts),
        solves=before.solves + total(visit.solves),
        prior=before.prior,
        plan=before.plan,
    )


def _discounted(played: Played) -> Float32[Array, "time batch"]:
    """The discounted sum of rewards since the episode's start, at each step."""
    age = _sum_within_episode(jnp.ones_like(played.reward), played.done) - 1
    return _sum_within_episode(played.gamma**age * played.reward, played.done)


def _sum_within_episode(
    x: Float32[Array, "time batch"], done: Bool[Array, "time batch"]
) -> Float32[Array, "time batch"]:
    """The sum since the episode's start, at each step: at its last step, the episode's sum."""

    def add(total: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        x, done = step
        total = total + x
        return jnp.where(done, 0.0, total), total

    return jax.lax.scan(add, jnp.zeros_like(x[0]), (x, done))[1]


def _mean_within_episode(
    x: Float32[Array, "time batch"], done: Bool[Array, "time batch"]
) -> Float32[Array, "time batch"]:
    return _sum_within_episode(x, done) / _sum_within_episode(jnp.ones_like(x), done)


def _mean_over_episodes(
    at_the_end: Float32[Array, "time batch"], done: Bool[Array, "time batch"]
) -> Float32[Array, "batch"]:
    """Mean over finished episodes of a number that stands at their last step; 0 without any."""
    total = jnp.sum(jnp.where(done, at_the_end, 0.0), axis=0)
    return total / jnp.maximum(jnp.sum(done, axis=0), 1)
