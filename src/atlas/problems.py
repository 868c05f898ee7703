"""Pairing tasks with levels: apart, the task from what the level holds, or the level from what the task mentions."""

from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Int, Int32, Key

from atlas.config import PairingConfig
from atlas.types import Domain, Formalism, Graph, Level, Problem

SampleFn = Callable[[Key[Array, ""]], Problem]
SampleBatchFn = Callable[[Key[Array, ""], int], Problem]
Check = Callable[[Problem], Bool[Array, ""]]
"""Whether one problem can be solved, as far as a cheap check tells."""

MAX_ROUNDS: Final = 64
"""How often a batch is drawn anew while too few problems pass the check."""
CHUNK: Final = 1024
"""How many problems are checked at once: the check needs memory."""


def sampler(config: PairingConfig, domain: Domain, formalism: Formalism) -> SampleFn:
    """`sample(key)`: one problem, paired as the settings say. Whether it can be solved is not looked at.

    Minimal problems need a formalism that draws minimal tasks; the level is made minimal here.
    """
    return {"independent": _independent, "level": _from_level, "task": _from_task}[config.how](
        config, domain, formalism
    )


def _draw_level(config: PairingConfig, domain: Domain, key: Key[Array, ""]) -> Level:
    return domain.sample_minimal(key) if config.minimal else domain.sample(key)


def _independent(config: PairingConfig, domain: Domain, formalism: Formalism) -> SampleFn:
    def sample(key: Key[Array, ""]) -> Problem:
        key_level, key_task = jax.random.split(key)
        level = _draw_level(config, domain, key_level)
        return Problem(level=level, task=formalism.sample(key_task, jnp.asarray(domain.mask)))

    return sample


def _from_level(config: PairingConfig, domain: Domain, formalism: Formalism) -> SampleFn:
    def sample(key: Key[Array, ""]) -> Problem:
        key_level, key_task = jax.random.split(key)
        level = _draw_level(config, domain, key_level)
        mask = domain.possible(level) & jnp.asarray(domain.mask)
        return Problem(level=level, task=formalism.sample(key_task, mask))

    return sample


def _from_task(config: PairingConfig, domain: Domain, formalism: Formalism) -> SampleFn:
    def sample(key: Key[Array, ""]) -> Problem:
        key_level, key_task = jax.random.split(key)
        task = formalism.sample(key_task, jnp.asarray(domain.mask))
        level = domain.sample_for(key_level, mentions(formalism.graph(task)), config.minimal)
        return Problem(level=level, task=task)

    return sample


def mentions(graph: Graph) -> Int32[Array, "literals"]:
    """The propositions that a task asks for, -1 where there is none. Negated ones need no object to be there."""
    asked = (graph.guard > 0) & (graph.target >= 0)[..., None]
    return jnp.where(asked, graph.guard.astype(jnp.int32) - 1, -1).reshape(-1)


def batch_sampler(
    config: PairingConfig, domain: Domain, formalism: Formalism, check: Check | None = None
) -> SampleBatchFn:
    """`sample(key, n)`: a batch of n problems; if the settings ask for solvable ones, all of them pass the check.

    Jittable with n static.
    """
    sample = sampler(config, domain, formalism)

    def draw(key: Key[Array, ""], n: int) -> Problem:
        return jax.vmap(sample)(jax.random.split(key, n))

    if not config.solvable:
        return draw
    if check is None:
        raise ValueError("solvable problems need a check")
    return _screened(draw, check, config.oversample)


def _screened(draw: SampleBatchFn, check: Check, oversample: int) -> SampleBatchFn:
    """Draw `oversample` problems for each one wanted, keep those that pass, and draw again until there are enough.

    Should MAX_ROUNDS not suffice, those found are repeated; if there are none at all, the batch is not screened.
    """

    def sample(key: Key[Array, ""], n: int) -> Problem:
        key_first, key_rounds = jax.random.split(key)

        def round_(state: tuple[Problem, Int[Array, ""], Int[Array, ""]]) -> Any:
            kept, found, number = state
            drawn = draw(jax.random.fold_in(key_rounds, number), n * oversample)
            passed = jax.lax.map(check, drawn, batch_size=min(n * oversample, CHUNK))
            place = jnp.where(passed, found + jnp.cumsum(passed) - 1, n)
            kept = jax.tree.map(lambda old, new: old.at[place].set(new, mode="drop"), kept, drawn)
            return kept, jnp.minimum(found + jnp.sum(passed), n), number + 1

        def too_few(state: tuple[Problem, Int[Array, ""], Int[Array, ""]]) -> Bool[Array, ""]:
            return (state[1] < n) & (state[2] < MAX_ROUNDS)

        start = (draw(key_first, n), jnp.int32(0), jnp.int32(0))
        kept, found, _ = jax.lax.while_loop(too_few, round_, start)
        turn = jnp.where(found > 0, jnp.arange(n) % jnp.maximum(found, 1), jnp.arange(n))
        return jax.tree.map(lambda x: x[turn], kept)

    return sample
