"""Children of problems: sequences of edits of the level and the task, perhaps starting from partial progress.

An edit is drawn uniformly among those that apply at that moment. Under `vmap` every edit is computed at every step and
one is kept, so each must be cheap.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32, Int, Int16, Int32, Key

from atlas.chance import below, pick
from atlas.config import EditConfig, PairingConfig
from atlas.types import (
    EDIT_ARGUMENTS,
    Domain,
    Edit,
    Formalism,
    Graph,
    Level,
    Lineage,
    Partial,
    Problem,
    Task,
    TaskState,
)
from atlas.vocabulary import RUNNING

# Pairing tasks with levels: apart, the task from what the level holds, or the level from what the task mentions.

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


# Children of problems: sequences of edits of the level and the task, perhaps starting from partial progress.
#
# An edit is drawn uniformly among those that apply at that moment. Under `vmap` every edit is computed at every step
# and
# one is kept, so each must be cheap.

PRECEDING, SUCCEEDING = "hindsight_preceding", "hindsight_succeeding"
"""The goal becomes how far the student got; or the problem starts there."""
NO_EDIT: Final = -1

EditFn = Callable[[Key[Array, ""], Problem, Lineage, Partial], tuple[Problem, Lineage]]


def edit_names(domain: Domain, formalism: Formalism) -> tuple[str, ...]:
    """The table of edits by name: rows are what a lineage records. Switching kinds off does not change it."""
    return (*(e.name for e in domain.edits), *(e.name for e in formalism.edits), PRECEDING, SUCCEEDING)


def editor(config: EditConfig, domain: Domain, formalism: Formalism) -> EditFn:
    """`edit(key, problem, lineage, partial)`: a child and its lineage, not yet numbered (-1)."""
    level_edits = domain.edits if config.level else ()
    task_edits = formalism.edits if config.task else ()
    first_task_row = len(domain.edits)
    first_hindsight_row = first_task_row + len(formalism.edits)

    def edit(key: Key[Array, ""], problem: Problem, lineage: Lineage, partial: Partial) -> tuple[Problem, Lineage]:
        key_choices, key_steps = jax.random.split(key)
        u = jax.random.uniform(key_choices, (2 + config.most,))
        count = config.least + below(u[0], config.most - config.least + 1)
        look_back = jnp.int32(NO_EDIT)
        if config.hindsight:
            others = jnp.sum(_applicable(problem, level_edits, task_edits))
            look_back, problem, argument = _hindsight(u[1], problem, partial, formalism, others)
        steps = jnp.arange(config.most)
        active = (steps < count) & ~((steps == 0) & (look_back != NO_EDIT))

        def step(problem: Problem, turn: tuple[Array, Array, Array]) -> tuple[Problem, tuple[Array, Array]]:
            row, child, arguments = _edit_once(*turn, problem, level_edits, task_edits)
            shift = first_task_row - len(level_edits)
            return child, (jnp.where(row >= len(level_edits), row + shift, row), arguments)

        turns = (jax.random.split(key_steps, config.most), u[2:], active)
        problem, (rows, arguments) = jax.lax.scan(step, problem, turns)
        if config.hindsight:
            first = (steps == 0) & (look_back != NO_EDIT)
            rows = jnp.where(first, first_hindsight_row + look_back, rows)
            arguments = jnp.where(first[:, None], argument[None], arguments)
        return problem, _descend(lineage, rows, arguments)

    return edit


def _applicable(
    problem: Problem, level_edits: Sequence[Edit[Any]], task_edits: Sequence[Edit[Any]]
) -> Bool[Array, "edits"]:
    of_level = [e.applicable(problem.level) for e in level_edits]
    return jnp.stack([*of_level, *(e.applicable(problem.task) for e in task_edits)])


def _edit_once(
    key: Key[Array, ""],
    u: Float32[Array, ""],
    active: Bool[Array, ""],
    problem: Problem,
    level_edits: Sequence[Edit[Any]],
    task_edits: Sequence[Edit[Any]],
) -> tuple[Int32[Array, ""], Problem, Int16[Array, "3"]]:
    """Draw one of the edits that apply, level edits first in their order, and make it; NO_EDIT if there is none."""
    can = _applicable(problem, level_edits, task_edits)
    row = jnp.where(active & jnp.any(can), pick(u, can), NO_EDIT)
    level, of_level = _apply_row(key, row, problem.level, level_edits)
    task, of_task = _apply_row(key, row - len(level_edits), problem.task, task_edits)
    arguments = jnp.where(row < len(level_edits), of_level, of_task)
    return row, Problem(level=level, task=task), arguments


def _apply_row(
    key: Key[Array, ""], row: Int32[Array, ""], item: Any, edits: Sequence[Edit[Any]]
) -> tuple[Any, Int16[Array, "3"]]:
    """Apply the edit of a row to a level or a task; outside the table leave it as it is."""

    def keep(_: Key[Array, ""], item: Any) -> tuple[Any, Int16[Array, "3"]]:
        return item, jnp.full(EDIT_ARGUMENTS, -1, jnp.int16)

    known = (row >= 0) & (row < len(edits))
    branches = [keep, *(e.apply for e in edits)]
    return jax.lax.switch(jnp.where(known, row + 1, 0), branches, key, item)


def _hindsight(
    u: Float32[Array, ""], problem: Problem, partial: Partial, formalism: Formalism, others: Int32[Array, ""]
) -> tuple[Int32[Array, ""], Problem, Int16[Array, "3"]]:
    """Perhaps start from partial progress: which way (0 preceding, 1 succeeding, or NO_EDIT), and the problem then.

    Each way is as likely as each of the other edits that apply.
    """
    stands = partial.task_state
    before, before_fits = formalism.prefix(problem.task, stands)
    after, after_fits = formalism.suffix(problem.task, stands)
    can = jnp.stack([before_fits, after_fits]) & partial.valid & _under_way(problem.task, stands, formalism)
    draw = below(u, jnp.sum(can, dtype=jnp.int32) + others)
    chosen = jnp.where(draw >= jnp.sum(can), NO_EDIT, jnp.where(can[0], draw, 1))
    choices = (
        problem,
        Problem(level=problem.level, task=before),
        Problem(level=partial.level, task=after),
    )

    def choose(*leaves: Array) -> Array:
        return jnp.stack(leaves)[chosen + 1]

    node = formalism.nodes(stands)[0].astype(jnp.int32)
    arguments = jnp.stack([node, jnp.int32(-1), jnp.int32(-1)]).astype(jnp.int16)
    return chosen, jax.tree.map(choose, *choices), arguments


def _under_way(task: Task, state: TaskState, formalism: Formalism) -> Bool[Array, ""]:
    """Whether a task has begun and not ended."""
    started = jnp.any(formalism.nodes(state) != formalism.nodes(formalism.initial(task)))
    return started & (formalism.outcome(task, state) == RUNNING)


def _descend(lineage: Lineage, rows: Int32[Array, "steps"], arguments: Int16[Array, "steps 3"]) -> Lineage:
    """The lineage of a child."""
    spare = lineage.edits.shape[0] - rows.shape[0]
    return Lineage(
        number=jnp.int32(-1),
        parent=lineage.number,
        generation=(lineage.generation + 1).astype(jnp.int16),
        edits=jnp.pad(rows.astype(jnp.int8), (0, spare), constant_values=NO_EDIT),
        arguments=jnp.pad(arguments, ((0, spare), (0, 0)), constant_values=-1),
    )
