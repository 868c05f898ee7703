"""Problems from tasks and levels: how the two are paired, and how children are made by edits.

An edit is drawn uniformly among those that apply at that moment. Under a plain `vmap` every edit is computed for every
child and one is kept. On a CPU children are grouped by the edit they drew instead, and each is computed for its group.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int, Int16, Int32, Key

from atlas.chance import below, pick
from atlas.config import PairingConfig
from atlas.domains import domain_for
from atlas.errors import AtlasError
from atlas.plugins import Table, require_kind
from atlas.struct import Struct
from atlas.tasks import packed
from atlas.types import (
    EDIT_ARGUMENTS,
    Domain,
    Edit,
    Formalism,
    Graph,
    Lineage,
    Partial,
    Problem,
)
from atlas.ued import EditConfig
from atlas.ued.supply import EditFn
from atlas.vocabulary import REJECTED, RUNNING

SampleFn = Callable[[Key[Array, ""]], Problem]
SampleBatchFn = Callable[[Key[Array, ""], int], Problem]
Check = Callable[[Problem], Bool[Array, "batch"]]
"""Which problems of a batch can be solved, as far as a cheap check tells: `screen` in the row of a domain."""
Weights = Float32[Array, "edits"] | None
"""How often each edit of the table is made, in proportion; None: all alike."""

MAX_ROUNDS: Final = 64
"""How often a batch is drawn anew while too few problems pass the check."""


def sampler(config: PairingConfig, domain: Domain, formalism: Formalism) -> SampleFn:
    """`sample(key)`: one problem, paired as the settings say. Whether it can be solved is not looked at.

    Minimal problems need a formalism that samples minimal tasks; the level is made minimal here.
    """
    mask = jax.device_put(domain.mask)

    def sample(key: Key[Array, ""]) -> Problem:
        key_level, key_task = jax.random.split(key)
        if config.how == "task":
            task = formalism.sample(key_task, mask)
            level = domain.sample_for(key_level, mentions(formalism.graph(task)), config.minimal)
        else:
            level = domain.sample_minimal(key_level) if config.minimal else domain.sample(key_level)
            task = formalism.sample(key_task, domain.possible(level) & mask if config.how == "level" else mask)
        return Problem(level=level, task=task)

    return sample


def mentions(graph: Graph, bans: bool = True) -> Int32[Array, "literals"]:
    """The propositions that a task asks for, and with `bans` also those that lead to rejection; -1 where there is none.
    Negated ones need no object to be there."""
    asked = (graph.guard > 0) & (graph.target >= 0)[..., None]
    if not bans:
        asked &= (graph.outcome[graph.target] != REJECTED)[..., None]
    return jnp.where(asked, graph.guard.astype(jnp.int32) - 1, -1).reshape(-1)


def batch_sampler(
    config: PairingConfig,
    domain: Domain,
    formalism: Formalism,
    check: Check | None = None,
    by_rows: Callable[[Callable[..., Any], int], Callable[..., Any]] = lambda function, rows: function,
) -> SampleBatchFn:
    """`sample(key, n)`: a batch of n problems; if the settings ask for solvable ones, all of them pass the check.

    For those, `oversample` problems are drawn for each one wanted, those that pass are kept, and so on until there are
    enough. Should MAX_ROUNDS not suffice, those found are repeated; if there are none at all, the batch is not
    screened. `by_rows(function, rows)` may let several devices draw and check a part each. Jittable with n static.
    """
    one = sampler(config, domain, formalism)
    draw = jax.vmap(one)
    if not config.solvable:
        return lambda key, n: draw(jax.random.split(key, n))
    if check is None:
        raise ValueError("solvable problems need a check")

    def drawn_and_checked(keys: Key[Array, "n"]) -> tuple[Problem, Bool[Array, "n"]]:
        problems = draw(keys)
        return problems, check(problems)

    def screened(key: Key[Array, ""], n: int) -> Problem:
        key_rounds = jax.random.split(key)[1]  # of two, so that draws stay what they were
        drawn_at_once = n * config.oversample

        def round_(state: tuple[Problem, Int[Array, ""], Int[Array, ""]]) -> Any:
            kept, found, number = state
            keys = jax.random.split(jax.random.fold_in(key_rounds, number), drawn_at_once)
            drawn, passed = by_rows(drawn_and_checked, drawn_at_once)(keys)
            place = jnp.where(passed, found + jnp.cumsum(passed) - 1, n)

            def merged(old: Array, new: Array) -> Array:
                return jnp.where(found == 0, new[:n], old).at[place].set(new, mode="drop")

            return jax.tree.map(merged, kept, drawn), jnp.minimum(found + jnp.sum(passed), n), number + 1

        def too_few(state: tuple[Problem, Int[Array, ""], Int[Array, ""]]) -> Bool[Array, ""]:
            return (state[1] < n) & (state[2] < MAX_ROUNDS)

        # Nothing is drawn outside of the loop: the sampler would be compiled twice.
        blank = jax.tree.map(lambda x: jnp.zeros((n, *x.shape), x.dtype), jax.eval_shape(one, key))
        start = (blank, jnp.int32(0), jnp.int32(0))
        kept, found, _ = jax.lax.while_loop(too_few, round_, start)
        turn = jnp.where(found > 0, jnp.arange(n) % jnp.maximum(found, 1), jnp.arange(n))
        return jax.tree.map(lambda x: x[turn], kept)

    return screened


PRECEDING, SUCCEEDING = "hindsight_preceding", "hindsight_succeeding"
"""Hindsight: the goal becomes how far the student got; or the problem starts there."""
NO_EDIT: Final = -1
FEW: Final = 64
"""Children that are not worth grouping."""


EDITS: Table[Edit[Problem]] = Table("edits", {}, partial(require_kind, kind=Edit, words="an Edit (atlas.types)"))
"""Edits of whole problems, which other packages bring; settings choose among them (`teacher.edits.more`)."""


def edit_names(domain: Domain, formalism: Formalism, more: Sequence[str] = ()) -> tuple[str, ...]:
    """The table of edits by name: rows are what a lineage records. Switching kinds off does not change it."""
    return (*(e.name for e in domain.edits), *(e.name for e in formalism.edits), PRECEDING, SUCCEEDING, *more)


def require_edits(edits: Sequence[Edit[Problem]], problem: Problem) -> None:
    """Fail with a sentence unless edits from outside keep the shapes of a problem; only its shapes matter."""

    def both(edit: Edit[Problem], problem: Problem) -> Any:
        return edit.applicable(problem), edit.apply(jax.random.key(0), problem)

    for edit in edits:
        name = edit.name
        try:
            able, (child, numbers) = jax.eval_shape(partial(both, edit), problem)
        except AtlasError:
            raise
        except Exception as error:
            first = (str(error).splitlines() or [""])[0]
            raise AtlasError(
                f"the edit '{name}' cannot be made in these problems: {type(error).__name__}: {first}"
            ) from error
        before, after = (jax.tree_util.tree_leaves_with_path(one) for one in (problem, child))
        changed = [
            f"{jax.tree_util.keystr(path)} was {a.dtype}{list(a.shape)} and is {b.dtype}{list(b.shape)}"
            for (path, a), (_, b) in zip(before, after, strict=False)
            if (a.shape, a.dtype) != (b.shape, b.dtype)
        ]
        if len(before) != len(after) or changed:
            raise AtlasError(
                f"the edit '{name}' changes the form of a problem: {(changed or ['it has other parts'])[0]}"
            )
        if able.shape != () or (numbers.shape, numbers.dtype) != ((EDIT_ARGUMENTS,), jnp.int16):
            told = f"`applicable` must give one bool, and `apply` {EDIT_ARGUMENTS} numbers (int16) beside the problem"
            raise AtlasError(f"the edit '{name}' does not fit: {told}")


def editor(config: EditConfig, domain: Domain, formalism: Formalism) -> EditFn:
    """`edit(key, problem, lineage, partial)`: a child and its lineage, not yet numbered (-1)."""
    level_edits = domain.edits if config.level else ()
    task_edits = formalism.edits if config.task else ()
    more = [EDITS[name] for name in config.more]
    first_task_row = len(domain.edits)
    first_hindsight_row = first_task_row + len(formalism.edits)
    first_more = len(level_edits) + len(task_edits)
    first_more_row = first_hindsight_row + 2

    def applicable(problem: Problem) -> Bool[Array, "edits"]:
        of_level = [e.applicable(problem.level) for e in level_edits]
        of_task = [e.applicable(problem.task) for e in task_edits]
        return jnp.stack([*of_level, *of_task, *(e.applicable(problem) for e in more)])

    def choose(problem: Problem, u: Float32[Array, ""], active: Bool[Array, ""], weights: Weights) -> Int32[Array, ""]:
        """One of the edits that apply, level edits first in their order; NO_EDIT if none does."""
        can = applicable(problem)
        chosen = pick(u, can) if weights is None else _pick_by(u, jnp.where(can, own(weights), 0.0))
        return jnp.where(active & jnp.any(can), chosen, NO_EDIT)

    def table_row(chosen: Int32[Array, "*n"]) -> Int32[Array, "*n"]:
        """The row of an edit in the table of all edits."""
        row = jnp.where(chosen >= len(level_edits), chosen + first_task_row - len(level_edits), chosen)
        return jnp.where(chosen >= first_more, chosen + first_more_row - first_more, row)

    def own(weights: Float32[Array, "rows"]) -> Float32[Array, "edits"]:
        """The weights of the edits that `applicable` tells of."""
        return weights[table_row(jnp.arange(first_more + len(more)))]

    @jax.custom_batching.custom_vmap
    def edit_once(
        problem: Problem, key: Key[Array, ""], u: Float32[Array, ""], active: Bool[Array, ""], weights: Weights
    ) -> tuple[Problem, Int32[Array, ""], Int16[Array, "3"]]:
        """Draw an edit and make it."""
        chosen = choose(problem, u, active, weights)
        level, level_arguments = _apply(key, chosen, problem.level, level_edits)
        task, task_arguments = _apply(key, chosen - len(level_edits), problem.task, task_edits)
        child, arguments = (
            Problem(level=level, task=task),
            jnp.where(chosen >= len(level_edits), task_arguments, level_arguments),
        )
        if more:
            of_both = chosen >= first_more
            whole, whole_arguments = _apply(key, chosen - first_more, problem, more)
            child = jax.tree.map(lambda a, b: jnp.where(of_both, a, b), whole, child)
            arguments = jnp.where(of_both, whole_arguments, arguments)
        return child, table_row(chosen), arguments

    @edit_once.def_vmap
    def edit_many(size: int, batched: Any, *children: Any) -> Any:
        """The same for a batch, one kind of edit after the other."""
        children = jax.tree.map(
            lambda x, own: x if own else jnp.broadcast_to(x, (size, *x.shape)), children, tuple(batched)
        )
        if size < FEW or jax.default_backend() != "cpu":
            found = jax.vmap(edit_once.fun)(*children)
            return found, jax.tree.map(lambda _: True, found)
        problems, keys, u, active, weights = children
        chosen = jax.vmap(choose)(problems, u, active, weights)
        none = jnp.full((size, EDIT_ARGUMENTS), -1, jnp.int16)
        groups = _Groups.by(chosen, first_more + len(more))
        levels, arguments = groups.apply(0, level_edits, keys, problems.level, none)
        tasks, arguments = groups.apply(len(level_edits), task_edits, keys, problems.task, arguments)
        edited, arguments = groups.apply(first_more, more, keys, Problem(level=levels, task=tasks), arguments)
        found = edited, table_row(chosen), arguments
        return found, jax.tree.map(lambda _: True, found)

    def edit(
        key: Key[Array, ""], problem: Problem, lineage: Lineage, partial: Partial, weights: Weights = None
    ) -> tuple[Problem, Lineage]:
        def turn(problem: Problem, drawn: tuple[Array, Array, Array]) -> tuple[Problem, tuple[Array, Array]]:
            problem, row, arguments = edit_once(problem, *drawn, weights)
            return problem, (row, arguments)

        key_choices, key_steps = jax.random.split(key)
        u = jax.random.uniform(key_choices, (2 + config.most,))
        count = config.least + below(u[0], config.most - config.least + 1)
        looks_back = jnp.int32(NO_EDIT)
        if config.hindsight:
            can = applicable(problem)
            if weights is None:
                each = jnp.ones(2), jnp.sum(can).astype(jnp.float32)
            else:
                both = weights[first_hindsight_row : first_hindsight_row + 2]
                each = both, jnp.sum(jnp.where(can, own(weights), 0.0))
            looks_back, problem, argument = _hindsight(u[1], problem, partial, formalism, *each)
        steps = jnp.arange(config.most)
        first = (steps == 0) & (looks_back != NO_EDIT)
        turns = (jax.random.split(key_steps, config.most), u[2:], (steps < count) & ~first)
        problem, (rows, arguments) = jax.lax.scan(turn, problem, turns)
        if config.hindsight:
            rows = jnp.where(first, first_hindsight_row + looks_back, rows)
            arguments = jnp.where(first[:, None], argument[None], arguments)
        spare = len(lineage.edits) - config.most
        return problem, Lineage(
            number=jnp.int32(-1),
            parent=lineage.number,
            generation=lineage.next_generation,
            edits=jnp.pad(rows.astype(jnp.int8), (0, spare), constant_values=NO_EDIT),
            arguments=jnp.pad(arguments, ((0, spare), (0, 0)), constant_values=-1),
        )

    return edit


def _apply(
    key: Key[Array, ""], row: Int32[Array, ""], item: Any, edits: Sequence[Edit[Any]]
) -> tuple[Any, Int16[Array, "3"]]:
    """Apply the edit of a row to a level or a task; outside the table leave it as it is."""

    def keep(_: Key[Array, ""], item: Any) -> tuple[Any, Int16[Array, "3"]]:
        return item, jnp.full(EDIT_ARGUMENTS, -1, jnp.int16)

    known = (row >= 0) & (row < len(edits))
    return jax.lax.switch(jnp.where(known, row + 1, 0), [keep, *(e.apply for e in edits)], key, item)


class _Groups(Struct):
    """Children in the order of the edits they drew."""

    order: Int32[Array, "children_and_more"]
    """Their numbers, group by group; those without an edit come last, then padding."""
    first: Int32[Array, "edits"]
    """Position in `order` at which each group begins."""
    count: Int32[Array, "edits"]

    @classmethod
    def by(cls, chosen: Int32[Array, "children"], edits: int) -> "_Groups":
        size = len(chosen)
        group = jnp.where(chosen >= 0, chosen, edits)
        mine = group[:, None] == jnp.arange(edits + 1)[None]
        before = jnp.cumsum(mine, axis=0, dtype=jnp.int32)  # a sort would cost more
        first = jnp.cumsum(before[-1]) - before[-1]
        place = first[group] + jnp.take_along_axis(before, group[:, None], 1)[:, 0] - 1
        order = jnp.zeros(size, jnp.int32).at[place].set(jnp.arange(size, dtype=jnp.int32), unique_indices=True)
        return cls(order=jnp.pad(order, (0, _at_once(size))), first=first[:-1], count=before[-1, :-1])

    def apply(
        self, start: int, edits: Sequence[Edit[Any]], keys: Key[Array, "children"], items: Any, arguments: Any
    ) -> tuple[Any, Int16[Array, "children 3"]]:
        """Make the edits from number `start` on, each in its group, some children at a time."""
        size = len(keys)
        at_once = _at_once(size)
        for number, edit in enumerate(edits, start):
            first, count = self.first[number], self.count[number]

            def some(part: Int32[Array, ""], now: Any, edit: Any = edit, first: Any = first, count: Any = count) -> Any:
                here = jax.lax.dynamic_slice_in_dim(self.order, first + part * at_once, at_once)
                made = jax.vmap(edit.apply)(keys[here], jax.tree.map(lambda x: x[here], now[0]))
                target = jnp.where(jnp.arange(at_once) < count - part * at_once, here, size)
                return jax.tree.map(lambda old, new: old.at[target].set(new, mode="drop"), now, made)

            items, arguments = jax.lax.fori_loop(0, -(-count // at_once), some, (items, arguments))
        return items, arguments


def _pick_by(u: Float32[Array, ""], weights: Float32[Array, "n"]) -> Int32[Array, ""]:
    """An index in proportion to its weight; the last if none has any."""
    ends = jnp.cumsum(weights)
    return jnp.minimum(jnp.sum(ends <= u * ends[-1], dtype=jnp.int32), len(weights) - 1)


def _at_once(size: int) -> int:
    """How many children of a group are edited at once."""
    return min(max(size // 32, 16), 256)


def _hindsight(
    u: Float32[Array, ""],
    problem: Problem,
    partial: Partial,
    formalism: Formalism,
    weights: Float32[Array, "2"],
    others: Float32[Array, ""],
) -> tuple[Int32[Array, ""], Problem, Int16[Array, "3"]]:
    """Perhaps start from partial progress: which way (0 preceding, 1 succeeding, or NO_EDIT), and the problem then.

    Each way has a weight, as all the other edits that apply have together. Progress counts if the task has begun and
    not ended.
    """
    task, stands = problem.task, partial.task_state
    before, before_fits = formalism.prefix(task, stands)
    after, after_fits = formalism.suffix(task, stands)
    begun = jnp.any(formalism.nodes(stands) != formalism.nodes(formalism.initial(task)))
    under_way = begun & (formalism.outcome(task, stands) == RUNNING)
    can = jnp.stack([before_fits, after_fits]) & partial.valid & under_way
    drawn = _pick_by(u, jnp.append(jnp.where(can, weights, 0.0), others))
    chosen = jnp.where(jnp.any(can) & (drawn < 2), drawn, NO_EDIT)
    child = jax.tree.map(
        lambda *leaves: jnp.stack(leaves)[chosen + 1],
        problem,
        Problem(level=problem.level, task=before),
        Problem(level=partial.level, task=after),
    )
    node = formalism.nodes(stands)[0].astype(jnp.int32)
    return chosen, child, jnp.stack([node, jnp.int32(-1), jnp.int32(-1)]).astype(jnp.int16)


# What problems look like from outside, to predict how hard they are


def domain_features(domain: Domain, level: Any, asked: Int32[Array, "literals"]) -> dict[str, Float32[Array, ""]]:
    """A level, and where in it the propositions are that a task asks for (-1: none), in numbers of about the size of 1.

    A domain may say it in its own words (`features(level, asked)`); else its measures have to do. How many of the
    propositions hold at the start is told of every domain.
    """
    own = getattr(domain, "features", None)
    if own is None:
        told = {name: jnp.log1p(value.astype(jnp.float32)) / 2 for name, value in domain.measure(level).items()}
    else:
        told = own(level, asked)
    used = asked >= 0
    holds = domain.holds(domain.reset(level), jnp.maximum(asked, 0)) & used
    return told | {"hold at the start": jnp.sum(holds) / jnp.maximum(jnp.sum(used), 1)}


def task_features(graph: Graph) -> tuple[Float32[Array, ""], Float32[Array, ""], Float32[Array, ""]]:
    """How many edges a task has, how many literals, and which share of them is negated."""
    edges = jnp.sum(graph.target >= 0).astype(jnp.float32)
    used = (graph.guard != 0) & (graph.target >= 0)[..., None]
    literals, negated = (jnp.sum(x).astype(jnp.float32) for x in (used, used & (graph.guard < 0)))
    return edges / 4, literals / jnp.maximum(edges, 1) - 1, negated / jnp.maximum(literals, 1)


# Problems of different sizes as one batch


def stack(problems: Sequence[Problem]) -> Problem:
    """A batch of problems. Levels and tasks take the largest size of any; flat tasks may be among hierarchies."""
    if not problems:
        raise AtlasError("there are no problems to stack")
    padding, kind = domain_for(problems[0]).padding, type(problems[0].level)
    levels: dict[str, Array] = {}
    for name in (field.name for field in fields(kind)):
        arrays = [np.asarray(getattr(problem.level, name)) for problem in problems]
        shape = np.max([array.shape for array in arrays], axis=0, initial=0).astype(int)
        column = np.full((len(arrays), *shape), padding.get(name, 0), arrays[0].dtype)
        for number, array in enumerate(arrays):
            place: tuple[int | slice, ...] = (number, *(slice(length) for length in array.shape))
            column[place] = array
        levels[name] = jax.device_put(column)  # jnp.asarray compiles a copy for every new shape
    return Problem.unchecked(level=kind.unchecked(**levels), task=packed.stack([problem.task for problem in problems]))
