"""Children of problems: sequences of edits of the level and the task, perhaps starting from partial progress.

An edit is drawn uniformly among those that apply at that moment. Under `vmap` every edit is computed at every step and
one is kept, so each must be cheap.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32, Int16, Int32, Key

from atlas.config import EditConfig
from atlas.draw import below, pick
from atlas.types import EDIT_ARGUMENTS, Domain, Edit, Formalism, Lineage, Partial, Problem, Task, TaskState
from atlas.vocabulary import RUNNING

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
