"""Scan a student through a batch of worlds.

An environment owns a few problems, its pool. When an episode ends the next problem of the pool begins, in turn; a pool
of one is replay. The states that episodes start in are computed once a rollout, and so are the task embeddings; what is
stored of a step is bytes (cells, actions, flags) and three numbers. The task is never stored per step.
"""

from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32, Int, Int32, Key, UInt8

from atlas.devices import ALONE, COPY, Layout
from atlas.errors import AtlasError
from atlas.struct import Struct
from atlas.student.network import (
    ENVS_AXIS,
    Experience,
    Observation,
    Params,
    Student,
    Transitions,
    draw_action,
    table_rows,
)
from atlas.types import Partial, Problem
from atlas.world import Step, World, WorldState, restart

MAX_POOL = 256
"""Which problem of its pool an environment plays is stored in a byte."""


class Rollout(Struct):
    """All that learning, scoring and editing need to know."""

    experience: Experience
    trivial: Bool[Array, "envs pool"]
    """Problems that the first label alone ends."""
    partial: Partial
    """Where each environment's most recent unsolved episode stood: cut by the limit, or running after the last step.
    Meant for replay: with pools it does not say which problem that was."""

    @property
    def steps(self) -> Transitions:
        """What happened, step by step."""
        return self.experience.steps


_ROLLOUT_AXIS = Rollout.unchecked(experience=ENVS_AXIS, trivial=0, partial=0)
"""Which axis of a rollout counts environments."""


class Running(Struct):
    """Episodes in the middle, batched: what the next rollout needs to go on with them."""

    problems: Problem
    world: WorldState
    hidden: Float32[Array, "envs memory"]
    previous: UInt8[Array, "envs"]
    start: Bool[Array, "envs"]
    """The episode has not begun: the last one ended with the last step."""


class _Carry(Struct):
    """What changes from step to step."""

    world: WorldState
    entry: Int32[Array, "envs"]
    hidden: Float32[Array, "envs memory"]
    previous: UInt8[Array, "envs"]
    start: Bool[Array, "envs"]
    cut: WorldState
    """The end of the last episode that the limit cut."""
    was_cut: Bool[Array, "envs"]


class _Fixed(Struct):
    """What stays the same during a rollout."""

    params: Params
    tables: Float32[Array, "envs rows width"]
    pools: Problem
    starts: WorldState


@dataclass(frozen=True)
class Player:
    """Plays batches of problems."""

    world: World
    student: Student
    steps: int
    """Length of a rollout."""
    phases: int = 1
    """Gradient phases a rollout: memories are kept at the start of each."""
    bootstrap: bool = False
    """Also compute the value of the states in which episodes are cut."""
    layout: Layout = ALONE
    """How environments are divided among devices."""

    def play(self, key: Key[Array, ""], params: Params, problems: Problem) -> Rollout:
        """Each environment plays its own problem again and again. Every episode starts from reset."""
        return self.play_pools(key, params, jax.tree.map(lambda leaf: leaf[:, None], problems))[0]

    def play_pools(
        self, key: Key[Array, ""], params: Params, pools: Problem, running: Running | None = None
    ) -> tuple[Rollout, Running]:
        """Each environment plays the problems of its pool in turn (batched `[envs, pool]`).

        With `running`, the episodes that an earlier rollout cut go on: their problems take the first places of the
        pools.
        """
        if (size := jax.tree.leaves(pools)[0].shape[1]) > MAX_POOL:
            raise AtlasError(f"a pool of {size} problems is too large: at most {MAX_POOL} are allowed")
        if running is not None:
            pools = _with_running(pools, running)
        envs = jax.tree.leaves(pools)[0].shape[0]
        key_noise, key_act = jax.random.split(key)
        noise = jax.random.split(key_noise, envs)
        chances = jax.random.uniform(key_act, (self.phases, self.steps // self.phases, envs))
        play = self.layout.apart(self._play, (0, 2, COPY, 0, 0), (_ROLLOUT_AXIS, 0))
        return play(noise, chances, params, pools, running)

    def _play(
        self,
        noise: Key[Array, "envs"],
        chances: Float32[Array, "phases time envs"],
        params: Params,
        pools: Problem,
        running: Running | None,
    ) -> tuple[Rollout, Running]:
        """A rollout in which everything left to chance is settled: environments have nothing to do with each other."""
        starts = jax.vmap(jax.vmap(self.world.reset))(pools)
        graphs = jax.vmap(jax.vmap(self.world.formalism.graph))(pools.task)
        fixed = _Fixed(params=params, tables=self.student.embed(params, noise, graphs), pools=pools, starts=starts)
        first = self._begin(starts) if running is None else _resume(self._begin(starts), running)
        last, (hidden, steps) = self._scan(chances, fixed, first)
        experience = Experience(
            steps=steps,
            graphs=graphs,
            noise=noise,
            previous=first.previous,
            hidden=hidden,
            last_value=self._look(fixed, last)[2],
        )
        rollout = Rollout(
            experience=experience,
            trivial=jax.vmap(jax.vmap(self.world.trivial))(pools, starts),
            partial=jax.vmap(self._partial)(last.world, last.cut, last.was_cut),
        )
        return rollout, _suspend(pools, last)

    def idle(self, pools: Problem) -> Running:
        """What the first of several connected rollouts goes on with: nothing. Only the shapes of `pools` matter."""

        def shapes(pools: Problem) -> Running:
            starts = jax.vmap(jax.vmap(self.world.reset))(pools)
            return _suspend(pools, self._begin(starts))

        empty: Running = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(shapes, pools))
        return empty.replace(start=jnp.ones_like(empty.start))

    def _begin(self, starts: WorldState) -> _Carry:
        """Every environment at the start of its first problem."""
        world: WorldState = jax.tree.map(lambda leaf: leaf[:, 0], starts)
        envs = world.time.shape[0]
        return _Carry(
            world=world,
            entry=jnp.zeros(envs, jnp.int32),
            hidden=self.student.initial_hidden(envs),
            previous=jnp.zeros(envs, jnp.uint8),
            start=jnp.ones(envs, bool),
            cut=world,
            was_cut=jnp.zeros(envs, bool),
        )

    def _scan(
        self, chances: Float32[Array, "phases time envs"], fixed: _Fixed, first: _Carry
    ) -> tuple[_Carry, tuple[Float32[Array, "phases envs memory"], Transitions]]:
        """All steps, phase by phase."""

        def phase(carry: _Carry, chances: Float32[Array, "time envs"]) -> tuple[_Carry, Any]:
            last, steps = jax.lax.scan(lambda now, chance: self._step(fixed, now, chance), carry, chances)
            return last, (carry.hidden, steps)

        last, (hidden, steps) = jax.lax.scan(phase, first, chances)
        return last, (hidden, jax.tree.map(lambda leaf: leaf.reshape(self.steps, *leaf.shape[2:]), steps))

    def _observe(self, world: WorldState) -> tuple[UInt8[Array, "envs rows cols"], Int[Array, "envs depth"]]:
        """The views, and the nodes where the tasks stand."""
        return jax.vmap(self.world.domain.view)(world.domain), jax.vmap(self.world.formalism.nodes)(world.task)

    def _look(
        self, fixed: _Fixed, now: _Carry
    ) -> tuple[Float32[Array, "envs memory"], Float32[Array, "envs actions"], Float32[Array, "envs"]]:
        """What the network makes of the present."""
        view, nodes = self._observe(now.world)
        rows = table_rows(nodes, now.entry, fixed.tables.shape[1] // fixed.starts.time.shape[1])
        seen = Observation(view=view, nodes=rows, previous=now.previous, start=now.start)
        return self.student.step(fixed.params, fixed.tables, seen, now.hidden)

    def _step(self, fixed: _Fixed, now: _Carry, chance: Float32[Array, "envs"]) -> tuple[_Carry, Transitions]:
        """Look, act, and begin the next episode where one ended."""
        view, nodes = self._observe(now.world)
        hidden, logits, value = self._look(fixed, now)
        action, log_prob = draw_action(chance, logits)
        problems = _take(fixed.pools, now.entry)
        world, step = jax.vmap(self.world.step)(problems, now.world, action)
        ended = now.replace(
            world=world, hidden=hidden, previous=action.astype(jnp.uint8), start=jnp.zeros_like(now.start)
        )
        transition = Transitions(
            view=view,
            nodes=nodes.astype(jnp.int8),
            entry=now.entry.astype(jnp.uint8),
            start=now.start,
            action=ended.previous,
            log_prob=log_prob,
            value=value,
            reward=step.reward,
            done=step.done,
            accepted=step.accepted,
            truncated=step.truncated,
            cut_value=self._cut_value(fixed, ended, step) if self.bootstrap else None,
        )
        return _go_on(fixed.starts, ended, step), transition

    def _cut_value(self, fixed: _Fixed, ended: _Carry, step: Step) -> Float32[Array, "envs"]:
        """The value of the states in which episodes are cut. Computed only at steps where one is: they are few."""

        def look() -> Float32[Array, "envs"]:
            return jnp.where(step.truncated, self._look(fixed, ended)[2], 0.0)

        return jax.lax.cond(jnp.any(step.truncated), look, lambda: jnp.zeros_like(step.reward))

    def _partial(self, running: WorldState, cut: WorldState, was_cut: Bool[Array, ""]) -> Partial:
        """The running episode where it has begun, else the last one that was cut. Of one environment."""
        begun = running.time > 0
        world = restart(begun, running, cut)
        return Partial(level=self.world.domain.as_level(world.domain), task_state=world.task, valid=begun | was_cut)


Tree = TypeVar("Tree")


def _take(pools: Tree, entry: Int32[Array, "envs"]) -> Tree:
    """Each environment's current one of a tree batched `[envs, pool]`."""
    return jax.vmap(lambda pool, at: jax.tree.map(lambda leaf: leaf[at], pool))(pools, entry)


def _go_on(starts: WorldState, ended: _Carry, step: Step) -> _Carry:
    """Keep what was cut, and begin the next episode where one ended."""
    pool = starts.time.shape[1]
    entry = jnp.where(step.done, (ended.entry + 1) % pool, ended.entry)
    cut = jax.lax.cond(
        jnp.any(step.truncated),
        lambda: jax.vmap(restart)(step.truncated, ended.world, ended.cut),
        lambda: ended.cut,
    )
    return ended.replace(
        world=jax.vmap(restart)(step.done, _take(starts, entry), ended.world),
        entry=entry,
        start=step.done,
        cut=cut,
        was_cut=ended.was_cut | step.truncated,
    )


def _with_running(pools: Problem, running: Running) -> Problem:
    """The pools with the problems of unfinished episodes in first place."""
    first = jax.tree.map(lambda pool: pool[:, 0], pools)
    kept = jax.vmap(restart)(running.start, first, running.problems)
    return jax.tree.map(lambda pool, one: pool.at[:, 0].set(one), pools, kept)


def _resume(fresh: _Carry, running: Running) -> _Carry:
    """Go on where an earlier rollout stopped; a fresh start where its last step ended an episode."""
    return fresh.replace(
        world=jax.vmap(restart)(running.start, fresh.world, running.world),
        hidden=running.hidden,
        previous=running.previous,
        start=running.start,
    )


def _suspend(pools: Problem, last: _Carry) -> Running:
    """What the next rollout needs to go on."""
    return Running(
        problems=_take(pools, last.entry),
        world=last.world,
        hidden=last.hidden,
        previous=last.previous,
        start=last.start,
    )
