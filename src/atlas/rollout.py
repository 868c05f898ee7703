"""Scan a student through a batch of worlds.

An environment has a pool of problems and plays them in turn, one episode each; with a pool of one it repeats its
problem. Initial states and task embeddings are computed once a rollout; a step is stored as bytes (cells, actions,
flags) and three floats. The task is never stored per step.

An episode that was played can be played again, and a task be read off it (`echoer`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32, Int, Int32, Integer, Key, UInt8

from atlas.chance import below, pick
from atlas.devices import ALONE, REPLICATED, Layout
from atlas.errors import AtlasError
from atlas.struct import Struct
from atlas.student.network import (
    ENVS_AXIS,
    LESSON_AXIS,
    Experience,
    Lesson,
    Observation,
    Params,
    Student,
    Transitions,
    sample_action,
    table_rows,
)
from atlas.types import Partial, Problem
from atlas.vocabulary import REJECTED
from atlas.world import Step, World, WorldState, restart

MAX_POOL = 256
"""The index of a problem in its pool is stored in a byte."""


class Rollout(Struct):
    """A rollout as learning, scoring and editing need it."""

    experience: Experience
    trivial: Bool[Array, "envs pool"]
    """Problems whose task is over after the first label."""
    partial: Partial
    """Last state of each environment's most recent unsolved episode: truncated, or unfinished after the last step.
    Meant for pools of one: it does not say which problem of a pool that was."""

    @property
    def steps(self) -> Transitions:
        """The transitions; `[time, envs]`."""
        return self.experience.steps


_ROLLOUT_AXIS = Rollout.unchecked(experience=ENVS_AXIS, trivial=0, partial=0)
"""The axis of environments in each part of a rollout."""


SHOWN: Final = 8
"""Plans in a row of a lesson; if they end before the row does, they are shown again."""


class Demonstrations(Struct):
    """Problems with plans that solve them."""

    problems: Problem
    """Batched."""
    plans: UInt8[Array, "plans steps"]
    """Actions, filled up to the step limit. The last of a plan completes the task."""
    count: Int32[Array, ""]
    """How many rows are filled; 0 before the plans are there."""


class Running(Struct):
    """The carry between rollouts: unfinished episodes, one an environment."""

    problems: Problem
    world: WorldState
    hidden: Float32[Array, "envs memory"]
    previous: UInt8[Array, "envs"]
    start: Bool[Array, "envs"]
    """The last step ended an episode, so nothing of it is carried over."""


class _Carry(Struct):
    """The carry of the scan over steps."""

    world: WorldState
    entry: Int32[Array, "envs"]
    hidden: Float32[Array, "envs memory"]
    previous: UInt8[Array, "envs"]
    start: Bool[Array, "envs"]
    cut: WorldState
    """Last state of the most recent truncated episode."""
    was_cut: Bool[Array, "envs"]
    after: Float32[Array, "envs"]
    """Value of the state that the last step led to, before any reset; only with `bootstrap`, and where it is asked
    for."""


class _Fixed(Struct):
    """Values that are constant during a rollout."""

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
    """Gradient phases a rollout: the hidden state at the start of each is kept."""
    bootstrap: bool = False
    """Whether to compute the value of the last states of truncated episodes."""
    layout: Layout = ALONE
    """How environments are sharded over devices."""

    def play(self, key: Key[Array, ""], params: Params, problems: Problem) -> Rollout:
        """Each environment plays its own problem again and again. Every episode starts from reset."""
        return self.play_pools(key, params, jax.tree.map(lambda leaf: leaf[:, None], problems))[0]

    def play_pools(
        self, key: Key[Array, ""], params: Params, pools: Problem, running: Running | None = None
    ) -> tuple[Rollout, Running]:
        """Each environment plays the problems of its pool in turn (batched `[envs, pool]`).

        With `running`, the unfinished episodes of an earlier rollout are continued: their problems come first in the
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
        play = self.layout.shard_map(self._play, (0, 2, REPLICATED, 0, 0), (_ROLLOUT_AXIS, 0))
        return play(noise, chances, params, pools, running)

    def _play(
        self,
        noise: Key[Array, "envs"],
        chances: Float32[Array, "phases time envs"],
        params: Params,
        pools: Problem,
        running: Running | None,
    ) -> tuple[Rollout, Running]:
        """A rollout with all random numbers given: environments are independent, so it can be sharded."""
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
            last_value=last.after if self.bootstrap else self._look(fixed, last)[2],
        )
        rollout = Rollout(
            experience=experience,
            trivial=jax.vmap(jax.vmap(self.world.trivial))(pools, starts),
            partial=jax.vmap(self._partial)(last.world, last.cut, last.was_cut),
        )
        return rollout, _suspend(pools, last)

    def demonstrate(self, key: Key[Array, ""], shown: Demonstrations, wanted: Bool[Array, ""], envs: int) -> Lesson:
        """Some plans, drawn with replacement and followed as the student would see them, in rows as long as a phase;
        zeros if they are not wanted."""
        key_choose, key_noise = jax.random.split(key)
        chosen = jax.random.randint(key_choose, (envs, SHOWN), 0, jnp.maximum(shown.count, 1))
        follow = self.layout.shard_map(self._follow, (0, 0, REPLICATED, REPLICATED), LESSON_AXIS)
        return follow(chosen, jax.random.split(key_noise, envs), shown, wanted)

    def _follow(
        self,
        chosen: Int32[Array, "envs pool"],
        noise: Key[Array, "envs"],
        shown: Demonstrations,
        wanted: Bool[Array, ""],
    ) -> Lesson:
        """Rows of the chosen plans, one behind the other."""
        world = replace(self.world, guide=None)  # rewards do not matter
        pools: Problem = jax.tree.map(lambda leaf: leaf[chosen], shown.problems)
        graphs = jax.vmap(jax.vmap(world.formalism.graph))(pools.task)
        plans, nodes = shown.plans[chosen], graphs.outcome.shape[-1]

        def follow() -> tuple[Observation, UInt8[Array, "time envs"]]:
            starts = jax.vmap(jax.vmap(world.reset))(pools)

            def act(now: tuple[WorldState, Array, Array, Array], _: None) -> tuple[Any, Any]:
                state, entry, previous, start = now
                problems = _take(pools, entry)
                rows = table_rows(jax.vmap(world.formalism.nodes)(state.task), entry, nodes)
                view = jax.vmap(world.view)(problems.task, state)
                action = jax.vmap(lambda plan, entry, time: plan[entry, time])(plans, entry, state.time)
                state, step = jax.vmap(world.step)(problems, state, action.astype(jnp.int32))
                entry = jnp.where(step.done, (entry + 1) % SHOWN, entry)
                state = jax.vmap(restart)(step.done, _take(starts, entry), state)
                seen = Observation(view=view, nodes=rows, previous=previous, start=start)
                return (state, entry, action, step.done), (seen, action)

            envs = len(chosen)
            none, begun = jnp.zeros(envs, jnp.uint8), jnp.ones(envs, bool)
            first = (jax.tree.map(lambda leaf: leaf[:, 0], starts), jnp.zeros(envs, jnp.int32), none, begun)
            return jax.lax.scan(act, first, None, self.steps // self.phases)[1]

        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(follow))
        seen, action = jax.lax.cond(wanted, follow, lambda: nothing)
        return Lesson(seen=seen, action=action, graphs=graphs, noise=noise)

    def idle(self, pools: Problem) -> Running:
        """An empty carry for the first rollout. Only the shapes of `pools` matter."""

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
            cut=jax.vmap(_bare)(world),
            was_cut=jnp.zeros(envs, bool),
            after=jnp.zeros(envs),
        )

    def _scan(
        self, chances: Float32[Array, "phases time envs"], fixed: _Fixed, first: _Carry
    ) -> tuple[_Carry, tuple[Float32[Array, "phases envs memory"], Transitions]]:
        """All steps, phase by phase."""

        def phase(carry: _Carry, each: tuple[Float32[Array, "time envs"], Bool[Array, "time"]]) -> tuple[_Carry, Any]:
            last, steps = jax.lax.scan(lambda now, one: self._step(fixed, now, *one), carry, each)
            return last, (carry.hidden, steps)

        is_last = (jnp.arange(self.steps) == self.steps - 1).reshape(chances.shape[:2])
        last, (hidden, steps) = jax.lax.scan(phase, first, (chances, is_last))
        return last, (hidden, jax.tree.map(lambda leaf: leaf.reshape(self.steps, *leaf.shape[2:]), steps))

    def _observe(self, fixed: _Fixed, now: _Carry) -> tuple[UInt8[Array, "envs rows cols"], Int[Array, "envs depth"]]:
        """The views, and the nodes of the task states."""
        views = jax.vmap(self.world.view)(_take(fixed.pools.task, now.entry), now.world)
        return views, jax.vmap(self.world.formalism.nodes)(now.world.task)

    def _look(
        self, fixed: _Fixed, now: _Carry
    ) -> tuple[Float32[Array, "envs memory"], Float32[Array, "envs actions"], Float32[Array, "envs"]]:
        """Next hidden state, logits and value for the current observation."""
        view, nodes = self._observe(fixed, now)
        rows = table_rows(nodes, now.entry, fixed.tables.shape[1] // fixed.starts.time.shape[1])
        seen = Observation(view=view, nodes=rows, previous=now.previous, start=now.start)
        return self.student.step(fixed.params, fixed.tables, seen, now.hidden)

    def _step(
        self, fixed: _Fixed, now: _Carry, chance: Float32[Array, "envs"], is_last: Bool[Array, ""]
    ) -> tuple[_Carry, Transitions]:
        """Observe, act, and start the next episode where one ended."""
        view, nodes = self._observe(fixed, now)
        hidden, logits, value = self._look(fixed, now)
        action, log_prob = sample_action(chance, logits)
        problems = _take(fixed.pools, now.entry)
        world, step = jax.vmap(self.world.step)(problems, now.world, action)
        ended = now.replace(
            world=world, hidden=hidden, previous=action.astype(jnp.uint8), start=jnp.zeros_like(now.start)
        )
        after = now.after
        if self.bootstrap:  # the end of a rollout cuts episodes off as the step limit does: one look serves both
            asked = jnp.any(step.truncated) | is_last
            after = jax.lax.cond(asked, lambda: self._look(fixed, ended)[2], lambda: jnp.zeros_like(value))
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
            cut_value=jnp.where(step.truncated, after, 0.0) if self.bootstrap else None,
        )
        return _autoreset(fixed.starts, ended.replace(after=after), step), transition

    def _partial(self, running: WorldState, cut: WorldState, was_cut: Bool[Array, ""]) -> Partial:
        """The unfinished episode if it has made a step, else the last truncated one. For one environment."""
        begun = running.time > 0
        world = restart(begun, _bare(running), cut)
        return Partial(level=self.world.domain.as_level(world.domain), task_state=world.task, valid=begun | was_cut)


Tree = TypeVar("Tree")


def _bare(world: WorldState) -> WorldState:
    """Without what only an episode that goes on needs."""
    return world.replace(seen=None, live=None, outlook=None)


def _take(pools: Tree, entry: Int32[Array, "envs"]) -> Tree:
    """Index the pool axis of a tree batched `[envs, pool]`."""
    return jax.vmap(lambda pool, at: jax.tree.map(lambda leaf: leaf[at], pool))(pools, entry)


def _autoreset(starts: WorldState, ended: _Carry, step: Step) -> _Carry:
    """Start the next episode, on the next problem of the pool, where one ended; keep the last truncated state."""
    pool = starts.time.shape[1]
    entry = jnp.where(step.done, (ended.entry + 1) % pool, ended.entry)
    cut = jax.lax.cond(
        jnp.any(step.truncated),
        lambda: jax.vmap(restart)(step.truncated, jax.vmap(_bare)(ended.world), ended.cut),
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
    """The pools, each with the problem of its unfinished episode first."""
    first = jax.tree.map(lambda pool: pool[:, 0], pools)
    kept = jax.vmap(restart)(running.start, first, running.problems)
    return jax.tree.map(lambda pool, one: pool.at[:, 0].set(one), pools, kept)


def _resume(fresh: _Carry, running: Running) -> _Carry:
    """Continue unfinished episodes; start afresh where there is none."""
    return fresh.replace(
        world=jax.vmap(restart)(running.start, fresh.world, running.world),
        hidden=running.hidden,
        previous=running.previous,
        start=running.start,
    )


def _suspend(pools: Problem, last: _Carry) -> Running:
    """The carry for the next rollout."""
    return Running(
        problems=_take(pools, last.entry),
        world=last.world,
        hidden=last.hidden,
        previous=last.previous,
        start=last.start,
    )


# Tasks read off what was played

LOOKS: Final = 16
"""Moments of an episode at which all propositions are looked at."""
TRIED: Final = 4
"""Machines that are followed through an episode."""

Heard = tuple[Any, Bool[Array, ""]]
"""A task that the actions of an episode do, and whether there is one."""


def echoer(world: World, lengths: range, machines: bool = False) -> Callable[..., tuple[Problem, Bool[Array, ""]]]:
    """`echo(key, level, actions, last)`: a task that the actions up to step `last` do in a level, as a problem, and
    whether there is one.

    The episode is played again and looked at in some moments. A proposition that holds at one of them and did not at
    the one before came to hold in between; a *sequence* of such ones, from different moments, is done by the very same
    actions. The first did not hold at the start, so the task is never trivial.

    With `machines`, one task in two is made in another way, which suits every formalism: some tasks are drawn that ask
    for what came to hold, and followed through the episode. The one that moved most often is cut where it then stood,
    so that it accepts there, and counts if the same actions do what is left of it. Where one way finds no task, the
    other one's is taken.
    """
    domain, formalism = world.domain, world.formalism
    bare = World(domain, formalism, world.step_limit)
    mask, most = jnp.asarray(domain.mask), lengths[-1]
    everything = jnp.arange(len(domain.mask))

    def listen(
        key: Key[Array, ""], level: Any, actions: Integer[Array, "time"], last: Int32[Array, ""]
    ) -> Bool[Array, "looks props"]:
        """What came to hold at each of some moments. What held at the start is left out: it could be done by standing
        still."""
        spread = (jnp.arange(LOOKS) + jax.random.uniform(key, (LOOKS,))) / LOOKS
        moments = jnp.minimum(jnp.floor(spread * (last + 1)).astype(jnp.int32), last)  # ascending steps of the episode
        start = domain.reset(level)

        def act(now: tuple[Any, Any], step: tuple[Array, Array]) -> tuple[tuple[Any, Any], None]:
            state, kept = now
            number, action = step
            state = domain.step(state, action)
            here = moments == number
            kept = jax.tree.map(
                lambda old, new: jnp.where(here.reshape(-1, *(1,) * new.ndim), new[None], old), kept, state
            )
            return (state, kept), None

        kept = jax.tree.map(lambda x: jnp.broadcast_to(x, (LOOKS, *x.shape)), start)
        (_, kept), _ = jax.lax.scan(act, (start, kept), (jnp.arange(len(actions)), actions.astype(jnp.int32)))
        at_start = domain.holds(start, everything)
        labels = jax.vmap(lambda state: domain.holds(state, everything))(kept)
        before = jnp.concatenate([at_start[None], labels[:-1]])
        return labels & ~before & (mask & ~at_start)[None]

    def sequence(keys: Sequence[Key[Array, ""]], began: Bool[Array, "looks props"]) -> Heard:
        """Some of what came to hold, in the order in which it did."""
        key_length, key_which, key_props = keys
        eventful = jnp.any(began, axis=1)
        length = lengths[0] + below(jax.random.uniform(key_length), most + 1 - lengths[0])
        length = jnp.minimum(length, jnp.sum(eventful, dtype=jnp.int32))
        order = jnp.argsort(jnp.where(eventful, jax.random.uniform(key_which, (LOOKS,)), 2.0))[:most]
        chosen = jnp.sort(jnp.where(jnp.arange(len(order)) < length, order, LOOKS))
        chosen = jnp.pad(chosen, (0, most - len(order)), constant_values=LOOKS)
        numbers = jax.random.uniform(key_props, (most,))
        props = jax.vmap(lambda u, moment: pick(u, began[jnp.minimum(moment, LOOKS - 1)]))(numbers, chosen)
        return formalism.sequence(jnp.where(chosen < LOOKS, props, 0), length), length >= lengths[0]

    def machine(
        key: Key[Array, ""],
        level: Any,
        actions: Integer[Array, "time"],
        last: Int32[Array, ""],
        began: Bool[Array, "looks props"],
    ) -> Heard:
        """The machine that moved most often, of some that ask for what came to hold, cut where it then stood."""
        tasks = jax.vmap(formalism.sample, (0, None))(jax.random.split(key, TRIED), jnp.any(began, axis=0))

        def follow(task: Any) -> tuple[Any, Int32[Array, ""], Bool[Array, ""]]:
            """The last state that it moved to, how often it moved, and whether it is done by then. Where it began does
            not count."""
            problem = Problem(level=level, task=task)
            start = bare.reset(problem)
            begun = jnp.stack([formalism.nodes(formalism.initial(task)), formalism.nodes(start.task)])

            def act(
                now: tuple[Any, Any, Array, Array], step: tuple[Array, Array]
            ) -> tuple[tuple[Any, Any, Array, Array], None]:
                (state, reached, moves, done), (number, action) = now, step
                after, result = bare.step(problem, state, action)
                nodes = formalism.nodes(after.task)
                counts = (number <= last) & jnp.any(nodes != formalism.nodes(state.task))
                counts &= jnp.all(jnp.any(nodes[None] != begun, axis=1))
                counts &= formalism.outcome(task, after.task) != REJECTED
                reached = jax.tree.map(lambda new, old: jnp.where(counts, new, old), after.task, reached)
                return (after, reached, moves + counts, done | (number <= last) & result.accepted), None

            steps = jnp.arange(len(actions)), actions.astype(jnp.int32)
            first = (start, start.task, jnp.int32(0), jnp.bool_(False))
            (_, reached, moves, done), _ = jax.lax.scan(act, first, steps)
            return reached, moves, done

        reached, moves, _ = jax.vmap(follow)(tasks)
        best = jnp.argmax(moves)
        task, fits = formalism.prefix(*jax.tree.map(lambda leaf: leaf[best], (tasks, reached)))
        # A guard that denied an edge which is gone denies it no longer: the part may move where the whole waited.
        fits &= follow(task)[2] & jnp.any(began)
        return task, fits & (moves[best] >= max(1, lengths[0]))

    def echo(
        key: Key[Array, ""], level: Any, actions: Integer[Array, "time"], last: Int32[Array, ""]
    ) -> tuple[Problem, Bool[Array, ""]]:
        key, key_machine, key_choice = jax.random.split(key, 3) if machines else (key, key, key)
        key_moments, *keys = jax.random.split(key, 4)
        began = listen(key_moments, level, actions, last)
        task, valid = sequence(keys, began)
        if machines:
            other, fits = machine(key_machine, level, actions, last, began)
            takes = fits & (~valid | jax.random.bernoulli(key_choice))
            task = jax.tree.map(lambda new, old: jnp.where(takes, new, old), other, task)
            valid |= fits
        return Problem(level=level, task=task), valid

    return echo
