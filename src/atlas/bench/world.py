"""The world: a step with view, guards, task and restart; and two of these alone."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from atlas.bench.rows import Effort, Row, per_second
from atlas.bench.timing import compiled, copies, measure, nbytes
from atlas.bench.workloads import problems
from atlas.domains.minigrid.domain import Minigrid
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.settings import STEP_LIMIT
from atlas.tasks.machine import TaskSize
from atlas.tasks.packed import RewardMachines
from atlas.types import Problem
from atlas.world import World, restart

SEQUENTIAL, WIDE = TaskSize(1, 6, 1, 1), TaskSize(1, 6, 5, 5)
"""States, edges and literals of a sequential task, and of a random-walk task at its widest."""
STEPS = 256
"""Steps of one measured call."""


def rows(effort: Effort) -> Iterator[Row]:
    """Six rooms with thirteen objects, random actions."""
    batches, steps = ((256,), 32) if effort.quick else ((1024, 4096), STEPS)
    for batch in batches:
        for size in (SEQUENTIAL, WIDE):
            yield world_step(batch, size, effort, steps=steps)
    yield looks("view", lambda world, state: world.domain.view(state), batches[-1], steps, effort)
    for asked in (1, 25):
        props = jnp.asarray(np.random.default_rng(1).integers(0, 889, asked), jnp.int32)
        words = f"guards, {asked} proposition{'s' * (asked > 1)}"
        yield looks(words, functools.partial(_holds, props), batches[-1], steps, effort)


def _holds(props: Array, world: World, state: Any) -> Array:
    return world.domain.holds(state, props)


def world_step(batch: int, size: TaskSize, effort: Effort, rooms: int = 6, steps: int = STEPS) -> Row:
    """Play problems side by side: view, guards, task, restart. At best a step copies the state and writes the view."""
    world, made = _world(), problems(batch, size, rooms)
    start = jax.jit(jax.vmap(world.reset))(made)
    actions = jnp.asarray(np.random.default_rng(0).integers(0, 6, (steps, batch)), jnp.int32)
    return measure(
        f"step, task {' x '.join(map(str, size[1:4]))}, batch {batch:,}",
        per_second(steps * batch, "steps"),
        compiled(_play(world), made, start, actions),
        effort,
        limit=copies(steps * (nbytes(start) + 25 * batch)),
    )


def _world() -> World:
    return World(Minigrid(MinigridConfig()), RewardMachines(), STEP_LIMIT)


def _play(world: World) -> Callable[..., Any]:
    """A rollout whose view and rewards are used, so that none of it can be optimised away."""

    def play(made: Problem, start: Any, actions: Array) -> Any:
        def one(carry: Any, action: Array) -> tuple[Any, Array]:
            state, seen, total = carry
            state, step = jax.vmap(world.step)(made, state, action)
            state = jax.vmap(restart)(step.done, start, state)
            view = jax.vmap(world.domain.view)(state.domain)
            return (state, seen ^ view, total + step.reward), step.done

        zeros = jnp.zeros((actions.shape[1], 5, 5), jnp.uint8), jnp.zeros(actions.shape[1])
        (state, seen, total), done = jax.lax.scan(one, (start, *zeros), actions)
        return state, seen, total, done.sum()

    return play


def looks(name: str, look: Callable[[World, Any], Array], batch: int, steps: int, effort: Effort) -> Row:
    """Ask something of a batch of states again and again, the agents turning between."""
    world = _world()
    states = jax.jit(jax.vmap(world.reset))(problems(batch, SEQUENTIAL)).domain
    turns = jnp.asarray(np.random.default_rng(0).integers(0, 4, (steps, batch)), jnp.int8)

    def ask(states: Any, turns: Array) -> Array:
        def one(seen: Array, directions: Array) -> tuple[Array, None]:
            return seen ^ jax.vmap(lambda s: look(world, s))(states.replace(direction=directions)), None

        nothing = jax.eval_shape(jax.vmap(lambda s: look(world, s)), states)
        return jax.lax.scan(one, jnp.zeros(nothing.shape, nothing.dtype), turns)[0]

    unit = per_second(steps * batch, "states")
    return measure(f"{name}, batch {batch:,}", unit, compiled(ask, states, turns), effort)
