"""Making problems: levels, tasks of each sampler, pairs of each kind, children."""

from collections.abc import Iterator
from dataclasses import replace

import jax
import jax.numpy as jnp
from jax import Array

from atlas.bench.rows import Effort, Row, per_second
from atlas.bench.timing import compiled, measure
from atlas.build import parts
from atlas.config import Config, PairingConfig, TaskConfig
from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.domains.minigrid.domain import Minigrid
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.problems import editor
from atlas.tasks.sample import SAMPLERS
from atlas.types import Lineage, Partial, Problem
from atlas.ued import EditConfig
from atlas.ued.supply import root

BATCH = 4096
PAIRINGS = ("independent", "level", "task")


def rows(effort: Effort) -> Iterator[Row]:
    """Settings are the defaults: up to six rooms, up to five transitions or six states."""
    batch = 256 if effort.quick else BATCH
    samplers = ("sequential", "dag") if effort.quick else tuple(SAMPLERS)
    yield levels(batch, effort)
    for sampler in samplers:
        yield tasks(sampler, batch, effort)
    for how in PAIRINGS:
        yield problems("sequential", how, batch, effort)
    for sampler in samplers[1:]:
        yield problems(sampler, "level", batch, effort)
    if not effort.quick:
        yield problems("sequential", "level", batch, effort, solvable=True)
    for sampler in samplers:
        if sampler != "authors-dag":  # its tasks are edited as those of `dag`
            yield children(sampler, batch, effort)


def levels(batch: int, effort: Effort, domain: MinigridConfig | None = None) -> Row:
    """Levels alone."""
    sample = Minigrid(domain or MinigridConfig()).sample
    work = compiled(lambda key: jax.vmap(sample)(jax.random.split(key, batch)), jax.random.key(0))
    return measure(f"levels, batch {batch:,}", per_second(batch, "levels"), work, effort)


def tasks(name: str, batch: int, effort: Effort, config: TaskConfig | None = None) -> Row:
    """Tasks alone, of the whole alphabet."""
    sample, _ = SAMPLERS[name](config or TaskConfig(), VOCABULARY)
    mask = jnp.ones(len(VOCABULARY.names), bool)
    keys = jax.random.split(jax.random.key(0), batch)
    work = compiled(jax.vmap(sample, (0, None)), keys, mask)
    return measure(f"tasks, {name}, batch {batch:,}", per_second(batch, "tasks"), work, effort)


def problems(sampler: str, how: str, batch: int, effort: Effort, solvable: bool = False) -> Row:
    """Tasks paired with levels; `solvable` ones are screened by the relaxed check."""
    pairing = PairingConfig(how=how, solvable=solvable)  # type: ignore[arg-type]
    draw = parts(_config(sampler, pairing)).sample
    work = compiled(lambda key: draw(key, batch), jax.random.key(0))
    words = how if how == "independent" else f"{how}-conditioned"
    words += ", screened" if solvable else ""
    return measure(f"problems, {sampler}, {words}", per_second(batch, "problems"), work, effort)


def children(sampler: str, batch: int, effort: Effort) -> Row:
    """Children of 7 to 10 edits each, hindsight included."""
    made, edits = parts(_config(sampler, PairingConfig())), EditConfig()
    edit = editor(edits, made.world.domain, made.world.formalism)
    drawn = jax.jit(made.sample, static_argnums=1)(jax.random.key(0), batch)

    def family(number: Array, problem: Problem) -> tuple[Lineage, Partial]:
        state = made.world.formalism.initial(problem.task)
        return root(number, edits.most), Partial(level=problem.level, task_state=state, valid=jnp.bool_(True))

    parents = (drawn, *jax.vmap(family)(jnp.arange(batch, dtype=jnp.int32), drawn))
    work = compiled(lambda key, *p: jax.vmap(edit)(jax.random.split(key, batch), *p), jax.random.key(1), *parents)
    name = f"children of {sampler}, {edits.least} to {edits.most} edits"
    return measure(name, per_second(batch, "children"), work, effort)


def _config(sampler: str, pairing: PairingConfig) -> Config:
    return replace(Config(), tasks=TaskConfig(sampler=sampler), pairing=pairing)  # type: ignore[arg-type]
