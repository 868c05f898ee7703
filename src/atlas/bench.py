"""How fast everything is: the rows behind `atlas bench`. PARTS is the table; a part is a generator of rows.

A row is the median of repeated calls after a warm-up, with its spread. A limit (a matrix product of the same
operations, a memory copy of the same bytes) is timed beside every repeat: a machine that slows down slows both.
Problems are sampled from fixed seeds; networks and sizes come from presets.
"""

import functools
import itertools
import json
import math
import multiprocessing
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import atlas
from atlas.api import sample_batch
from atlas.build import build, parts
from atlas.config import Config
from atlas.domains import screen_of, surface_for
from atlas.domains.minigrid import grid
from atlas.domains.minigrid.draw import sign
from atlas.errors import AtlasError
from atlas.evaluation.play import Evaluator
from atlas.fit import compile_step
from atlas.presets import preset
from atlas.problems import editor
from atlas.runs.hosts import cores, machine_memory, processor
from atlas.settings import from_plain, to_plain
from atlas.show import canvas
from atlas.tasks.draw import task_drawing
from atlas.tasks.packed import unstack
from atlas.types import Lineage, Outcome, Partial, Problem
from atlas.ued import BufferConfig, EditConfig
from atlas.ued import buffer as buffers
from atlas.ued.supply import Supply, edited, root, sampled
from atlas.world import restart

KEY: Final = jax.random.key(0)
SIDE: Final = 2048
"""Side of the matrices whose product measures peak arithmetic: 17 GFLOP a call."""
COPIED: Final = 1 << 26
"""Bytes of the copy that is the limit of moving data: more than caches hold."""
SAMPLERS: Final = ("sequential", "dag", "cyclic", "authors-dag", "hierarchical")
TEACHERS: Final[dict[str, tuple[dict[str, Any], int, int]]] = {
    "DR, an iteration": ({"name": "dr"}, 1, 1),
    "PLR⊥, a replay iteration": ({"name": "plr", "replay_prob": 1.0}, 1, 1),
    "PLR⊥, an iteration that scores new problems": ({"name": "plr", "replay_prob": 0.0}, 1, 0),
    "ACCEL, a replay and an edit iteration": ({"name": "accel", "replay_prob": 1.0}, 2, 1),
}
"""Settings that make every iteration of the wanted kind, iterations of a call, and how many of them learn."""


class Effort(NamedTuple):
    """How hard to measure: `least` repeats, and more until they took `seconds` or there are `most`."""

    least: int
    seconds: float
    most: int
    quick: bool
    """Toy shapes, to see that everything runs."""


FULL, QUICK = Effort(5, 2.0, 50, quick=False), Effort(3, 0.2, 9, quick=True)


@dataclass(frozen=True)
class Row:
    """One line of the ledger. docs/performance.md says how to read it."""

    name: str
    unit: str
    median: float
    low: float
    """First quartile."""
    high: float
    """Third quartile."""
    repeats: int = 1
    processor: float | None = None
    """For a rate: what is done in one processor second; for a duration: processor time."""
    compile_seconds: float | None = None
    limit: str | None = None
    share: float | None = None
    """Time of the limit over time of the work: the median over repeats."""
    processor_share: float | None = None
    spread: float = 0.0
    """Half the distance between the quartiles, as a share of the median."""


Limit = tuple[str, float]
"""The machine's limit for the same work: `product` and operations, or `copy` and bytes."""


@functools.cache
def limits() -> dict[str, tuple[Callable[[], Any], float]]:
    """How each limit is timed, and how much one call does. A product uses all cores, a copy one."""
    matrix, source, target = jnp.ones((SIDE, SIDE)), np.ones(COPIED, np.uint8), np.zeros(COPIED, np.uint8)
    multiply = jax.jit(lambda a: a @ a)
    return {
        "product": (lambda: wait(multiply(matrix)), 2 * SIDE**3),
        "copy": (lambda: np.copyto(target, source), COPIED),
    }


def clock(call: Callable[[], Any]) -> tuple[float, float]:
    """Wall and processor seconds of a call; all threads and finished child processes count."""

    def now() -> tuple[float, float]:
        used = [getrusage(whose) for whose in (RUSAGE_SELF, RUSAGE_CHILDREN)]
        return time.perf_counter(), sum(u.ru_utime + u.ru_stime for u in used)

    begin = now()
    call()
    end = now()
    return end[0] - begin[0], end[1] - begin[1]


def measure(
    effort: Effort, name: str, unit: str, call: Callable[[], Any], amount: float = 1.0, limit: Limit | None = None,
    least: int | None = None, warm: bool = False, compile_seconds: float | None = None,
) -> Row:  # fmt: skip
    """Repeat a call that does an `amount` of work. Unless it is `warm` already, its first call does not count.

    Units are `s`, `ms`, or a rate such as `steps/s`.
    """
    best, scale = (limits()[limit[0]][0], limit[1] / limits()[limit[0]][1]) if limit else (None, 0.0)
    for first in (None if warm else call, best):
        if first:
            first()
    times: list[tuple[float, float]] = []
    beside: list[tuple[float, float]] = []
    least = min(effort.least, least or effort.least)
    while len(times) < least or (sum(wall for wall, _ in times) < effort.seconds and len(times) < effort.most):
        times.append(clock(call))
        if best:
            beside.append(clock(best))

    def shown(seconds: float) -> float:
        return amount / seconds if unit.endswith("/s") else seconds * {"s": 1.0, "ms": 1e3}[unit]

    def share(of: int) -> float | None:
        if not limit or not all(taken[of] for taken in times):
            return None
        return scale * statistics.median(a[of] / b[of] for a, b in zip(beside, times, strict=True))

    values = [shown(wall) for wall, _ in times]
    low, median, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else 3 * values
    used = statistics.median(processor for _, processor in times)
    return Row(
        name, unit, median, low, high, len(times), shown(used) if used > 0 else None, compile_seconds,
        limit[0] if limit else None, share(0), share(1), (high - low) / 2 / median,
    )  # fmt: skip


def compile_for(function: Callable[..., Any], *arguments: Any, donate: tuple[int, ...] = ()) -> tuple[Any, float]:
    """A function compiled for these arguments, and the seconds that tracing and compiling took."""
    begin = time.perf_counter()
    program = jax.jit(function, donate_argnums=donate).lower(*arguments).compile()
    return program, time.perf_counter() - begin


def timed(effort: Effort, name: str, unit: str, amount: float, function: Any, *arguments: Any, **options: Any) -> Row:
    """Compile a function for these arguments, and measure it."""
    program, seconds = compile_for(function, *arguments)
    return measure(effort, name, unit, lambda: wait(program(*arguments)), amount, compile_seconds=seconds, **options)


def wait(tree: Any) -> Any:
    """The same tree, once everything in it is computed."""
    return jax.block_until_ready(tree)  # type: ignore[no-untyped-call]


def nbytes(tree: Any) -> int:
    """Bytes of all arrays in a tree, which may be abstract."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def fact(name: str, unit: str, value: float) -> Row:
    """A number that is computed, or measured once."""
    return Row(name, unit, value, value, value)


def without_cache() -> None:
    """Use nothing that earlier processes compiled: compiling is measured."""
    jax.config.update("jax_enable_compilation_cache", False)  # type: ignore[no-untyped-call]


def machine() -> dict[str, Any]:
    """Provenance of the numbers: the machine, the versions, and how busy it was before."""
    return {
        "processor": processor(),
        "cores": cores(),
        "memory_gb": round(machine_memory() / 1e9, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "jax": jax.__version__,
        "backend": jax.default_backend(),
        "devices": jax.device_count(),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "atlas": version("atlas-ued"),
        "load_before": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else 0.0,
    }


def config_of(sampler: str = "sequential", pairing: str = "independent", rooms: int = 0, **more: Any) -> Config:
    """The defaults (up to six rooms, five transitions or six states) with some changes; `rooms`: only so many."""
    plain = {"tasks": {"sampler": sampler, **more.pop("tasks", {})}, "pairing": {"how": pairing}, **more}
    return from_plain(Config, plain | ({"domain": {"rooms": [rooms]}} if rooms else {}))


def shapes(effort: Effort) -> dict[str, Config]:
    """The networks that are timed, on problems as in the paper: that of `quick`, and the paper's on fewer problems."""

    def shape(config: Config, envs: int, steps: int) -> Config:
        run, teacher = {"num_envs": envs, "rollout": steps}, {"name": "dr", "pool": 1}
        student = to_plain(config.student)
        return config_of(domain={"step_limit": steps}, teacher=teacher, student=student, run=run)

    if effort.quick:
        return {"toy": shape(preset("tiny").config, 8, 8)}
    return {"small": shape(preset("quick-accel").config, 128, 128), "paper": shape(Config(), 64, 256)}


def taught(config: Config, teacher: dict[str, Any], effort: Effort) -> Config:
    """A shape with a teacher whose buffer is replayed from as soon as it holds anything."""
    buffer = {"min_fill": 0.0, "capacity": 64 if effort.quick else 50_000}
    settings = teacher if teacher["name"] == "dr" else teacher | {"buffer": buffer}
    return replace(config, teacher=config_of(teacher=settings).teacher)


def in_words(name: str, config: Config) -> str:
    """A shape with its size."""
    return f"{name} network, {config.run.num_envs} x {config.run.rollout}"


def flops(config: Config) -> int:
    """Nominal operations of one step forward: a convolution counted as a convolution, two for a multiplication and
    addition. The task encoder is left out: it runs once a rollout and once a minibatch."""
    network, world = config.student.network, parts(config).world
    cells, embedded = math.prod(world.view_shape), len(world.view_fields) * network.embedding
    filters = (embedded, *network.filters)
    features, view = cells * filters[-1], sum(cells * 4 * a * b for a, b in itertools.pairwise(filters))
    if network.view == "dense":
        features, view = network.view_width, cells * embedded * network.view_width
    inputs = features + network.action_embedding + network.task_width
    memory = 3 * network.recurrent * (inputs + network.recurrent)
    hidden = 2 * network.head_width * (network.recurrent + network.head_width)
    return 2 * (view + memory + hidden + network.head_width * (len(world.domain.actions) + 1))


def update_flops(config: Config) -> int:
    """… of an update: backward is twice forward."""
    return 3 * config.student.ppo.epochs * config.run.num_envs * config.run.rollout * flops(config)


def one_by_one(batch: Problem) -> list[Problem]:
    """The problems of a batch, as people have them: with plain tasks."""
    leaves, tree = jax.tree.flatten(jax.device_get(batch.level))
    levels = [jax.tree.unflatten(tree, row) for row in zip(*leaves, strict=True)]
    return [Problem(level=level, task=task) for level, task in zip(levels, unstack(batch.task), strict=True)]


def world(effort: Effort) -> Iterator[Row]:
    """Six rooms, random actions: a step with view, guards, task and restart; then two of these alone."""
    batches, steps = ((256,), 32) if effort.quick else ((1024, 4096), 256)
    for batch in batches:
        for sampler in ("sequential", "cyclic"):
            yield world_step(effort, config_of(sampler, rooms=6), batch, steps)
    domain, batch = parts(config_of()).world.domain, batches[-1]
    states = jax.jit(jax.vmap(domain.reset))(sample_batch(config_of(rooms=6), batch, 0).level)
    directions = jnp.asarray(np.random.default_rng(0).integers(0, 4, (steps, batch)), jnp.int8)
    looks: dict[str, Callable[[Any], Array]] = {"view": domain.view}
    for asked in (1, 25):
        props = jnp.asarray(np.random.default_rng(1).integers(0, 889, asked), jnp.int32)
        looks[f"guards, {asked} proposition{'s' * (asked > 1)}"] = functools.partial(domain.holds, props=props)
    for name, look in looks.items():

        def again(states: Any, directions: Array, look: Any = look) -> Array:
            """Look at the same states again and again, the agents turning between."""

            def turn(seen: Array, direction: Array) -> tuple[Array, None]:
                return seen ^ jax.vmap(look)(states.replace(direction=direction)), None

            return jax.lax.scan(turn, jax.vmap(look)(states), directions)[0]

        yield timed(effort, f"{name}, batch {batch:,}", "states/s", steps * batch, again, states, directions)


def world_step(effort: Effort, config: Config, batch: int, steps: int) -> Row:
    """Many steps of a batch. At best a step copies the state and writes the view."""
    world, problems = parts(config).world, sample_batch(config, batch, 0)
    start = jax.jit(jax.vmap(world.reset))(problems)
    actions = jnp.asarray(np.random.default_rng(0).integers(0, len(world.domain.actions), (steps, batch)), jnp.int32)
    view = jnp.zeros_like(jax.jit(jax.vmap(world.view))(problems.task, start))
    size = jax.eval_shape(jax.vmap(world.formalism.graph), problems.task).guard.shape[1:]

    def play(problems: Problem, start: Any, actions: Array) -> Any:
        def one(carry: Any, action: Array) -> tuple[Any, Array]:
            state, seen, total = carry  # views and rewards are used, so that none of it is optimised away
            state, step = jax.vmap(world.step)(problems, state, action)
            state = jax.vmap(restart)(step.done, start, state)
            return (state, seen ^ jax.vmap(world.view)(problems.task, state), total + step.reward), step.done

        return jax.lax.scan(one, (start, view, jnp.zeros(batch)), actions)

    name, limit = f"step, task {' x '.join(map(str, size))}, batch {batch:,}", ("copy", steps * nbytes((start, view)))
    return timed(effort, name, "steps/s", steps * batch, play, problems, start, actions, limit=limit)


def sampling(effort: Effort) -> Iterator[Row]:
    """Levels, tasks of each sampler, pairs of each kind, children."""
    batch, samplers = (256, SAMPLERS[:2]) if effort.quick else (4096, SAMPLERS)
    yield sample_levels(effort, batch)
    for sampler in samplers:
        yield sample_tasks(effort, sampler, batch)
    pairs = [("sequential", how, False) for how in ("independent", "level", "task")]
    pairs += [(sampler, "level", False) for sampler in samplers[1:]]
    for sampler, how, solvable in pairs + ([] if effort.quick else [("sequential", "level", True)]):
        config = config_of(sampler, how)
        sample = parts(replace(config, pairing=replace(config.pairing, solvable=solvable))).sample
        words = f"{sampler}, {how}{'-conditioned' * (how != 'independent')}{', screened' * solvable}"
        draw = functools.partial(lambda sample, key: sample(key, batch), sample)
        yield timed(effort, f"problems, {words}", "problems/s", batch, draw, KEY)
    for sampler in samplers:
        if sampler != "authors-dag":  # its tasks are edited as those of `dag`
            yield edit_children(effort, sampler, batch)


def sample_levels(effort: Effort, batch: int, rooms: int = 0) -> Row:
    """Levels alone."""
    sample = jax.vmap(parts(config_of(rooms=rooms)).world.domain.sample)
    return timed(effort, f"levels, batch {batch:,}", "levels/s", batch, sample, jax.random.split(KEY, batch))


def sample_tasks(effort: Effort, sampler: str, batch: int, states: int = 6) -> Row:
    """Tasks alone, of the whole alphabet."""
    world = parts(config_of(sampler, tasks={"states": states})).world
    sample, mask = jax.vmap(world.formalism.sample, (0, None)), jnp.ones(len(world.domain.vocabulary.names), bool)
    name = f"tasks, {sampler}, batch {batch:,}"
    return timed(effort, name, "tasks/s", batch, sample, jax.random.split(KEY, batch), mask)


def edit_children(effort: Effort, sampler: str, batch: int) -> Row:
    """Children of sampled problems, hindsight included."""
    config, edits = config_of(sampler), EditConfig()
    made = parts(config)
    formalism = made.world.formalism
    plan = replace(config.plan, edits=edits)
    supply = Supply(made.sample, editor(edits, made.world.domain, formalism), None, plan)  # type: ignore[arg-type]
    new = jax.jit(lambda: sampled(KEY, supply, batch, jnp.int32(0)))()
    partial = jax.vmap(lambda p: Partial(level=p.level, task_state=formalism.initial(p.task), valid=jnp.bool_(True)))
    parents = new.problems, new.lineage, jax.jit(partial)(new.problems)
    return timed(
        effort, f"children of {sampler}, {edits.least} to {edits.most} edits", "children/s", batch,
        lambda key, *parents: edited(key, supply, parents, batch, jnp.int32(0)), jax.random.key(1), *parents,
    )  # fmt: skip


def language(effort: Effort) -> Iterator[Row]:
    """Words to tasks and back: LTLf of five propositions, English, explanations, drawings."""
    five = ("front_ball", "carrying_key", "front_door_open", "next_ball_key", "front_square")
    formulas = {
        "five in any order": " & ".join(f"F {name}" for name in five),
        "five in sequence": " & X F (".join([f"F ({five[0]}", *five[1:]]) + ")" * 5,
        "four while avoiding one": f"(!{five[4]} U {five[0]}) & " + " & ".join(f"F {name}" for name in five[1:4]),
        "nested until": " U (".join(five) + ")" * 4,
    }
    sentence = "go to a ball, then put the red key next to a locked door, then open the blue door"
    task, vocabulary = atlas.english(sentence), parts(Config()).world.domain.vocabulary
    calls: dict[str, Callable[[], Any]] = {
        f"LTLf, {name}": functools.partial(atlas.ltlf, text) for name, text in formulas.items()
    } | {
        "English, three steps": functools.partial(atlas.english, sentence),
        "explain it": functools.partial(atlas.explain, task),
        "draw it as SVG": lambda: canvas.svg(task_drawing(task, vocabulary, sign)),
        "draw it as a picture": lambda: canvas.pixels(task_drawing(task, vocabulary, sign), 2.0),
    }
    for name, call in calls.items():
        yield measure(effort, name, "ms", call)


def solving(effort: Effort) -> Iterator[Row]:
    """The relaxed check; then the prover on hard problems, with one process and with two."""
    batch, hard = (256, 32) if effort.quick else (8192, 500)
    yield check(effort, "sequential", 6, batch)
    known = sample_batch(config_of("sequential", "level", rooms=6), batch, 0)
    name = f"relaxed check, sequential, grouped by locks, batch {batch:,}"
    yield measure(effort, name, "problems/s", lambda: surface_for(known).screen_many(known), batch)
    for sampler in () if effort.quick else ("dag", "hierarchical"):
        yield check(effort, sampler, 6, batch // 4)
    for rooms, locks, words in (6, None, "5 transitions"), (9, 8, "8 locks"):
        problems = five_transitions(hard, rooms, locks)
        for workers in (1, 2):
            yield prove(effort, f"{rooms} rooms, {words}", problems, workers)


def check(effort: Effort, sampler: str, rooms: int, batch: int) -> Row:
    """The relaxed check with room for every door, as it runs inside a sampler."""
    config, locks = config_of(sampler, "level", rooms), len(grid.door_places(rooms))
    screen, problems = screen_of(config.domain), sample_batch(config, batch, 0)
    name = f"relaxed check, {sampler}, {locks} door{'s' * (locks > 1)}, batch {batch:,}"
    return timed(effort, name, "problems/s", batch, screen, problems)


def prove(effort: Effort, name: str, problems: list[Problem], workers: int) -> Row:
    """Verdicts with replayed plans; starting processes counts."""
    found: list[Any] = []

    def solve() -> None:
        found[:] = surface_for(problems[0]).solve_many(problems, bound=False, workers=workers)

    row = measure(effort, name, "problems/s", solve, len(problems), least=3)
    unknown = f"{sum(one.verdict == 'unknown' for one in found)} of {len(problems)} unknown"
    return replace(row, name=f"prover, {name}, {workers} process{'es' * (workers > 1)}, {unknown}")


def five_transitions(n: int, rooms: int, locks: int | None = None) -> list[Problem]:
    """Level-conditioned problems with five transitions. With `locks`, so many doors are locked, the others open."""
    config = config_of("sequential", "level", rooms, tasks={"min_length": 5, "max_length": 5})
    problems, world, rng = jax.device_get(sample_batch(config, n, 0)), parts(config).world, np.random.default_rng(0)
    if locks is None:
        return one_by_one(problems)
    levels = jax.tree.map(np.array, problems.level)
    for cells in levels.cells:
        for number, (row, col) in enumerate(rng.permutation(np.argwhere(cells >> 3 >= grid.DOOR_CLOSED))):
            kind = grid.DOOR_LOCKED if number < locks else grid.DOOR_OPEN
            cells[row, col] = grid.cell(kind, int(cells[row, col]) & 7)
    sample = jax.vmap(lambda key, level: world.formalism.sample(key, world.domain.possible(level)))
    tasks = jax.jit(sample)(jax.random.split(KEY, n), levels)
    return one_by_one(Problem.unchecked(level=levels, task=tasks))


def buffer(effort: Effort) -> Iterator[Row]:
    """The paper's buffer with its batch, full; then other ways to draw and to enter."""
    capacity, batch = (5_000, 512) if effort.quick else (50_000, 4_096)
    sizes = f"{batch:,} of {capacity:,}"
    yield draw_batch(effort, f"draw {sizes}", batch, capacity)
    yield enter_batch(effort, f"enter {sizes}", batch, capacity)
    yield draw_batch(effort, f"draw {sizes}, none twice", batch, capacity, replacement=False)
    yield draw_batch(effort, f"draw {sizes}, proportional", batch, capacity, prioritisation="proportional")
    yield enter_batch(effort, f"enter {sizes}, no duplicates", batch, capacity, deduplicate=True)


def draw_batch(effort: Effort, name: str, batch: int, capacity: int, **settings: Any) -> Row:
    """Priorities, a sample, and its problems. At best the problems are copied."""
    config = BufferConfig(capacity=capacity, **settings)
    full, moved = full_buffer(config, batch)

    def draw(key: Array, buffer: buffers.Buffer) -> Any:
        return buffers.take(buffer, buffers.sample(key, buffer, batch, config))

    return timed(effort, name, "ms", 1, draw, KEY, full, limit=moved)


def enter_batch(effort: Effort, name: str, batch: int, capacity: int, **settings: Any) -> Row:
    """Newcomers, another batch each time, replace what is worth less. In place: the buffer is donated."""
    config = BufferConfig(capacity=capacity, **settings)
    full, moved = full_buffer(config, batch)
    turns = itertools.cycle([newcomers(jax.random.key(seed), batch) for seed in range(1, 5)])
    program, seconds = compile_for(functools.partial(buffers.insert, config=config), full, *next(turns), donate=(0,))
    now = {"buffer": full}

    def call() -> None:
        now["buffer"] = wait(program(now["buffer"], *next(turns)))

    return measure(effort, name, "ms", call, limit=moved, compile_seconds=seconds)


def full_buffer(config: BufferConfig, batch: int) -> tuple[buffers.Buffer, Limit]:
    """A buffer without an empty slot, and the copy of a batch of its problems."""
    problems, lineage, outcome = newcomers(KEY, config.capacity)
    empty = buffers.empty(config.capacity, *jax.tree.map(lambda x: x[0], (problems, lineage)))
    full = jax.jit(functools.partial(buffers.insert, config=config))(empty, problems, lineage, outcome).replace(
        clock=jnp.int32(1)
    )
    return full, ("copy", nbytes(full) / config.capacity * batch)


def newcomers(key: Array, batch: int) -> tuple[Problem, Lineage, Outcome]:
    """Random bytes, as many as six rooms and five transitions take, with random scores: a buffer looks at no more."""
    problems = Problem(level=jax.random.bits(key, (batch, 252), jnp.uint8), task=jnp.zeros((batch, 54), jnp.uint8))
    score, zeros = jax.random.normal(key, (batch,)), jnp.zeros(batch, jnp.int32)
    outcome = Outcome.unchecked(
        score=score, best_return=score, attempts=zeros + 1, solves=zeros, trivial=zeros > 0, partial=None
    )
    return problems, jax.vmap(lambda number: root(number, 10))(zeros), outcome


def student(effort: Effort) -> Iterator[Row]:
    """Acting in a rollout and learning from it, for each network."""
    for name, config in shapes(effort).items():
        yield act(effort, f"act, {in_words(name, config)}", config)
        trainer, epochs, amount = build(config), config.student.ppo.epochs, config.run.num_envs * config.run.rollout
        params, optimiser = jax.jit(trainer.init_student)(KEY)
        rollout = jax.jit(trainer.play)(KEY, params, sample_batch(config, config.run.num_envs, 0), None).rollout
        words, limit = f"learn, {in_words(name, config)}, {epochs} epoch{'s' * (epochs > 1)}", update_flops(config)
        work = trainer.learn, KEY, params, optimiser, rollout
        yield timed(effort, words, "steps/s", amount, *work, limit=("product", limit), least=3)


def act(effort: Effort, name: str, config: Config) -> Row:
    """A rollout."""
    made, amount = parts(config), config.run.num_envs * config.run.rollout
    params, problems = jax.jit(made.student.init)(KEY), sample_batch(config, config.run.num_envs, 0)
    limit, work = ("product", amount * flops(config)), lambda *a: made.player.play(*a).experience
    return timed(effort, name, "steps/s", amount, work, KEY, params, problems, limit=limit)


def training(effort: Effort) -> Iterator[Row]:
    """A whole iteration of each teacher, as `atlas train` compiles it. Env steps that are only scored count."""
    for name, shape in shapes(effort).items():
        for words, (teacher, iterations, updates) in list(TEACHERS.items())[-1 if effort.quick else 0 :]:
            config = taught(shape, teacher, effort)
            trainer, amount = build(config), config.env_steps(iterations, updates)
            state, begin = trainer.compiled_init(KEY), time.perf_counter()
            state = compile_step(trainer, state)
            seconds = time.perf_counter() - begin
            run = {"state": trainer.compiled(state, 1)[0]}  # with an empty buffer, one of new problems

            def call(run: Any = run, step: Any = trainer.compiled, iterations: int = iterations) -> None:
                run["state"], _ = wait(step(run["state"], iterations))

            yield measure(
                effort, f"{words}, {in_words(name, config)}", "steps/s", call, amount, least=3, warm=True,
                limit=("product", amount * flops(config) + updates * update_flops(config)), compile_seconds=seconds,
            )  # fmt: skip


def evaluation(effort: Effort) -> Iterator[Row]:
    """Attempts at a set, as `atlas eval` makes them. The student is untrained, so episodes are long."""
    problems, attempts = 8 if effort.quick else 256, 4
    for name, config in shapes(effort).items():
        steps, student = config.run.rollout, parts(config).student
        evaluator = Evaluator(one_by_one(sample_batch(config, problems, 0)), attempts, steps)
        play = functools.partial(evaluator.of_student, student, jax.jit(student.init)(KEY))
        played = int(play().steps.sum())
        words = f"{name} network, {problems} problems x {attempts} attempts of {steps} steps"
        yield measure(effort, words, "steps/s", play, played, ("product", played * flops(config)), least=3)


def startup(effort: Effort) -> Iterator[Row]:
    """Every row is a process of its own; caches go to a folder of their own."""
    for name, code in {
        "python, nothing imported": "pass",
        "atlas --help": "from atlas.cli import main; main(['--help'])",
        "import jax": "import jax",
        "import all that training needs": "import atlas.runs.run",
    }.items():
        run = functools.partial(subprocess.run, [sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
        yield measure(effort, name, "s", run)
    name = "tiny" if effort.quick else "quick-accel"
    with tempfile.TemporaryDirectory() as folder:
        for words in ("nothing kept from before", "programs and held-out problems kept"):
            seconds = first_iteration(name, Path(folder), words.partition(" ")[0])
            yield fact(f"first iteration of `atlas train {name}`, {words}", "s", seconds)


def first_iteration(name: str, folder: Path, run: str, patience: float = 600.0) -> float:
    """Seconds from the command to the first record of the run, held-out problems and the first exam included."""
    command = [sys.executable, "-m", "atlas", "train", name, "--folder", str(folder / run), "--json"]
    command += ["--run.snapshot-every", "100000", "--run.checkpoint-every", "100000"]
    kept = {key: value for key, value in os.environ.items() if not key.startswith("JAX_")}
    kept["XDG_CACHE_HOME"], begin = str(folder / "cache"), time.perf_counter()
    process = subprocess.Popen(command, env=kept, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        while (seconds := time.perf_counter() - begin) < patience:
            with suppress(OSError, ValueError, IndexError):
                json.loads((folder / run / "metrics.jsonl").read_text().splitlines()[0])
                return seconds
            if process.poll() is not None:
                said = (process.stderr.read() if process.stderr else "").strip().splitlines() or ["nothing"]
                raise AtlasError(f"the run that was to be timed did not begin; the last it said was: {said[-1]}")
            time.sleep(0.05)
        raise AtlasError(f"the run that was to be timed did not begin within {patience:.0f} s")
    finally:
        process.kill()
        process.wait()


def memory(effort: Effort) -> Iterator[Row]:
    """Sizes are computed from shapes; peaks are measured in a process of their own."""
    name, shape = list(shapes(effort).items())[-1]
    config = taught(shape, {"name": "plr", "replay_prob": 1.0}, effort)
    envs, trainer, made = config.run.num_envs, build(config), parts(config)
    capacity, state = config.plan.buffer.capacity, trainer.shapes  # type: ignore[union-attr]
    kept = trainer.teacher.memory(state.teacher)
    problems = jax.eval_shape(lambda key: made.sample(key, envs), KEY)
    rollout = jax.eval_shape(made.player.play, KEY, state.params, problems)
    yield fact("a level of up to six rooms", "bytes", nbytes(problems.level) / envs)
    yield fact("a problem in the buffer, lineage and records included", "bytes", nbytes(kept) / capacity)
    yield fact("a step of a stored rollout", "bytes", nbytes(rollout.steps) / envs / config.run.rollout)
    yield fact(f"the whole buffer of {capacity:,}", "MB", nbytes(kept) / 1e6)
    yield fact("parameters and optimiser", "MB", nbytes((state.params, state.optimiser)) / 1e6)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        words = f"peak: two iterations, {in_words(name, config)}, buffer"
        yield fact("peak: everything imported", "MB", process.submit(peak).result() / 1e6)
        yield fact(words, "MB", process.submit(peak, config).result() / 1e6)


def peak(config: Config | None = None) -> int:
    """The most bytes that this process held at a time, once it has made two iterations of a config (if given)."""
    if config:  # the first is one of new problems
        without_cache()
        trainer = build(config)
        wait(trainer.compiled(compile_step(trainer, trainer.compiled_init(KEY)), jnp.int32(2)))
    with suppress(OSError, TypeError):  # the system's own count would include what the parent held before it split
        return 1024 * int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1])  # type: ignore[index]
    return getrusage(RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


PARTS: Final[dict[str, Callable[[Effort], Iterator[Row]]]] = {
    part.__name__: part
    for part in (world, sampling, language, solving, buffer, student, training, evaluation, startup, memory)
}


@dataclass(frozen=True)
class Curve:
    """The milliseconds of some work at several sizes."""

    axis: str
    """The quantity that grows."""
    work: str
    law: str
    """`power`: milliseconds against the logarithm of sizes; `exponential`: against sizes."""
    points: tuple[tuple[float, float], ...]
    """(size, milliseconds)."""

    @property
    def name(self) -> str:
        return f"{self.axis}, {self.work}"

    @property
    def exponent(self) -> float:
        """Least squares: time ~ size^e, or time ~ 2^(e * size)."""
        size, time = np.array(self.points, float).T
        return float(np.polyfit(np.log(size) if self.law == "power" else size * math.log(2), np.log(time), 1)[0])

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        points = [{"size": size, "milliseconds": time} for size, time in self.points]
        return {"axis": self.axis, "work": self.work, "law": self.law, "exponent": self.exponent, "points": points}


def growth(effort: Effort) -> Iterator[Curve]:
    """How cost grows with size; quick curves have their first two points."""
    effort, small = effort._replace(least=3, seconds=min(effort.seconds, 0.5)), shapes(FULL)["small"]

    def step(batch: int, states: int = 6, rooms: int = 6) -> Row:
        """Tasks with five edges a state."""
        return world_step(effort, config_of("cyclic", rooms=rooms, tasks={"states": states}), batch, 64)

    def play(batch: int) -> Row:
        return act(effort, "", replace(small, run=replace(small.run, num_envs=batch, rollout=16)))

    def encode(states: int) -> Row:
        """The task encoder on 128 tasks with five edges a state."""
        config = replace(config_of("cyclic", tasks={"states": states}), student=small.student)
        made, tasks, keys = parts(config), sample_batch(config, 128, 0).task, jax.random.split(KEY, 128)
        graphs = jax.tree.map(lambda x: x[:, None], jax.vmap(made.world.formalism.graph)(tasks))
        return timed(effort, "", "ms", 1, made.student.embed, jax.jit(made.student.init)(KEY), keys, graphs)

    batches, capacities, states = (64, 256, 1024, 4096), (1_000, 5_000, 20_000, 50_000, 200_000), (6, 8, 12, 16)
    doors = {rooms: len(grid.door_places(rooms)) for rooms in (2, 4, 6, 9)}
    cells = {rooms: math.prod(grid.size_of(rooms)) for rooms in (1, 2, 4, 6, 9)}
    plans: list[tuple[str, str, Any, int | None, Callable[[int], Row]]] = [
        ("batch", "a step of the world", batches, None, step),
        ("batch", "a step of the small student", batches, None, play),
        ("problems in the buffer", "drawing 512", capacities, 1, lambda n: draw_batch(effort, "", 512, n)),
        ("problems in the buffer", "entering 512", capacities, 1, lambda n: enter_batch(effort, "", 512, n)),
        ("states of a task", "a step of the world", states, 1024, lambda n: step(1024, n)),
        ("states of a task", "sampling a dag", states, 1024, lambda n: sample_tasks(effort, "dag", 1024, n)),
        ("states of a task", "encoding tasks", states, 1, encode),
        ("doors", "the relaxed check", doors, 1, lambda n: check(effort, "sequential", n, 256)),
        ("doors", "the prover", doors, 1, lambda n: prove(effort, "", five_transitions(100, n), 1)),
        ("cells of the grid", "a step of the world", cells, 1024, lambda n: step(1024, rooms=n)),
        ("cells of the grid", "sampling a level", cells, 1024, lambda n: sample_levels(effort, 1024, n)),
    ]
    for axis, work, sizes, amount, measured in plans:
        settings = list(sizes)[: 2 if effort.quick else None]
        times: dict[int, float] = {}
        for setting in settings + settings[::-1]:  # there and back: whatever else a machine does slows it down
            row = measured(setting)
            milliseconds = row.median if row.unit == "ms" else 1e3 * (amount or setting) / row.median
            times[setting] = min(milliseconds, times.get(setting, math.inf))
        points = tuple((sizes[n] if isinstance(sizes, dict) else n, times[n]) for n in settings)
        yield Curve(axis, work, "exponential" if axis == "doors" else "power", points)
