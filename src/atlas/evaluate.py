"""How often a student solves problems within a step limit."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32, Int32, Key, UInt8

from atlas.struct import Struct
from atlas.student.experience import draw_action
from atlas.student.network import Observation, Student
from atlas.types import Problem
from atlas.world import World, WorldState


class _Attempt(Struct):
    """Episodes under way, batched."""

    time: Int32[Array, ""]
    world: WorldState
    hidden: Float32[Array, "envs memory"]
    previous: UInt8[Array, "envs"]
    over: Bool[Array, "envs"]
    solved: Bool[Array, "envs"]


@dataclass(frozen=True)
class Examiner:
    """Plays each problem of a batch once, from reset to its end, without learning."""

    world: World
    """Its step limit is the time each attempt has."""
    student: Student
    greedy: bool = False
    """Take the likeliest action instead of drawing one."""

    def attempt(self, key: Key[Array, ""], params: Any, problems: Problem) -> Bool[Array, "envs"]:
        """Which problems were solved. Stops as soon as all episodes are over."""
        key_noise, key_act = jax.random.split(key)
        world = jax.vmap(self.world.reset)(problems)
        envs = len(world.time)
        graphs = jax.vmap(self.world.formalism.graph)(problems.task)
        noise = jax.random.split(key_noise, envs)
        tables = self.student.embed(params, noise, jax.tree.map(lambda x: x[:, None], graphs))
        first = _Attempt(
            time=jnp.int32(0),
            world=world,
            hidden=self.student.initial_hidden(envs),
            previous=jnp.zeros(envs, jnp.uint8),
            over=jnp.zeros(envs, bool),
            solved=jnp.zeros(envs, bool),
        )

        def unfinished(now: _Attempt) -> Bool[Array, ""]:
            return ~jnp.all(now.over) & (now.time < self.world.step_limit)

        def go_on(now: _Attempt) -> _Attempt:
            chance = jax.random.uniform(jax.random.fold_in(key_act, now.time), (envs,))
            return self._step(params, tables, problems, now, chance)

        return jax.lax.while_loop(unfinished, go_on, first).solved

    def _step(
        self,
        params: Any,
        tables: Float32[Array, "envs rows width"],
        problems: Problem,
        now: _Attempt,
        chance: Float32[Array, "envs"],
    ) -> _Attempt:
        seen = Observation(
            view=jax.vmap(self.world.domain.view)(now.world.domain),
            nodes=jax.vmap(self.world.formalism.nodes)(now.world.task),
            previous=now.previous,
            start=now.world.time == 0,
        )
        hidden, logits, _ = self.student.step(params, tables, seen, now.hidden)
        action = jnp.argmax(logits, -1) if self.greedy else draw_action(chance, logits)[0]
        world, step = jax.vmap(self.world.step)(problems, now.world, action)
        return _Attempt(
            time=now.time + 1,
            world=world,
            hidden=hidden,
            previous=action.astype(jnp.uint8),
            over=now.over | step.done,
            solved=now.solved | (step.accepted & ~now.over),
        )
