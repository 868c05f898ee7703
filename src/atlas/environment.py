"""An environment to import: problems as pure functions, for agents that are trained by somebody else's code.

`env = atlas.make("minigrid")`, then `env.reset(key, problem)` and `env.step(key, state, action, problem)`, which can be
compiled, mapped and scanned. Keys come first and are used once; the plain environment leaves nothing to chance, its
wrappers do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32, Int, Int32, Key, UInt8

from atlas.build import parts
from atlas.config import Config
from atlas.domains import DOMAINS, default_name, name_for, settings_class
from atlas.errors import AtlasError, nearest
from atlas.presets import preset
from atlas.problems import SampleBatchFn, stack
from atlas.settings import changed, from_plain
from atlas.struct import Struct
from atlas.student.encode import cell_bits
from atlas.tasks.machine import Task
from atlas.tasks.packed import pack
from atlas.types import Domain, Graph, NamedProblem, Problem
from atlas.world import World, WorldState, action_number, restart


class Observation(Struct):
    """An agent's observation."""

    view: UInt8[Array, "rows cols"]
    """What it sees: a byte a cell, of the fields that `Environment.view_fields` counts."""
    task: Graph
    """The task as a graph: where each edge leads, the literals on it, and which nodes are terminal."""
    task_state: Int[Array, "depth"]
    """The nodes where the task stands, innermost first; -1 unused. One number for flat tasks."""
    previous: Int32[Array, ""]
    """The previous action; the number of actions at the start of an episode."""


def as_dict(seen: Observation) -> dict[str, Any]:
    """An observation as Gymnasium has it, the mission apart."""
    return {
        "view": seen.view,
        "task": {name: getattr(seen.task, name) for name in ("target", "guard", "outcome")},
        "task_state": seen.task_state,
        "previous_action": seen.previous,
    }


def from_dict(told: Mapping[str, Any]) -> Observation:
    """The inverse; what else is told is left out."""
    try:
        task = Graph.unchecked(**{name: jnp.asarray(told["task"][name]) for name in ("target", "guard", "outcome")})
        view, state, previous = (jnp.asarray(told[name]) for name in ("view", "task_state", "previous_action"))
    except KeyError as error:
        raise AtlasError(
            f"the observation has no {error}: view, task, task_state and previous_action are needed"
        ) from None
    return Observation.unchecked(view=view, task=task, task_state=state, previous=previous.astype(jnp.int32))


class State(Struct):
    """State of an episode."""

    world: WorldState
    previous: Int32[Array, ""]


Action = Int[Array, ""] | int | str
"""A number, or a name (not under `jit`)."""
Info = dict[str, Any]
Stepped = tuple[Observation, Any, Float32[Array, ""], Bool[Array, ""], Info]
"""Observation, state, reward, done and info."""


@dataclass(frozen=True, eq=False)
class Environment:
    """The problems of a domain. All methods are pure."""

    config: Config
    """How problems are drawn, and the step limit; the settings of teacher and student do not matter."""
    world: World
    draw: SampleBatchFn
    label: bool = False
    """Whether `info["label"]` tells all propositions that hold: hundreds of bits, so not by itself."""

    def __repr__(self) -> str:
        """The domain, and its settings that are not the usual ones."""
        own, usual = self.config.domain, type(self.config.domain)()
        told = {one.name: getattr(own, one.name) for one in fields(own)}
        changes = [f"{name}={value!r}" for name, value in told.items() if value != getattr(usual, name)]
        asked = [f"{name}=True" for name, on in (("label", self.label), ("map", self.world.has_map)) if on]
        return f"Environment({', '.join([self.name, *changes, *asked])})"

    @property
    def name(self) -> str:
        """The name of the domain."""
        return self.config.domain.name

    @property
    def domain(self) -> Domain:
        """Its domain."""
        return self.world.domain

    @property
    def actions(self) -> tuple[str, ...]:
        """The names of the actions, by number."""
        return self.domain.actions

    @property
    def num_actions(self) -> int:
        """How many actions there are."""
        return len(self.actions)

    @property
    def view_shape(self) -> tuple[int, int]:
        """Rows and columns of a view."""
        return self.world.view_shape

    @property
    def view_fields(self) -> tuple[int, ...]:
        """How many values each field of a cell's byte takes; the last field has the lowest bits."""
        return self.world.view_fields

    @property
    def propositions(self) -> tuple[str, ...]:
        """The names of the propositions, by number; literal `n + 1` of a guard asks for proposition n."""
        return self.domain.vocabulary.names

    @property
    def features(self) -> Float32[Array, "props groups codes"]:
        """What each proposition means, in numbers: for encoders that generalise over propositions."""
        return jnp.asarray(self.domain.vocabulary.features)

    def cells(self, view: UInt8[Array, "rows cols"]) -> Float32[Array, "rows cols bits"]:
        """A view for networks: each cell as the one-hot codes of its fields, side by side."""
        return cell_bits(view[None], self.view_fields)[0]

    def sample(self, key: Key[Array, ""]) -> Problem:
        """Draw a problem."""
        return jax.tree.map(lambda leaf: leaf[0], self.draw(key, 1))

    def sample_many(self, key: Key[Array, ""], n: int) -> Problem:
        """Draw a batch of n problems."""
        return self.draw(key, n)

    def fit(self, problem: Problem, like: Problem | None = None) -> Problem:
        """A problem that was loaded, sampled or written by hand (`atlas.load`, `atlas.sample`), as arrays: at its
        natural size, or padded to the sizes of another, so that one compiled program plays both."""
        self.require_own(problem)
        if like is None:
            return Problem(level=jax.tree.map(jnp.asarray, problem.level), task=pack(problem.task))
        level_shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves(like.level)]
        fitted: Problem = jax.tree.map(lambda leaf: leaf[0], stack([problem, problem.replace(level=like.level)]))
        found = [leaf.shape for leaf in jax.tree.leaves(fitted.level)]
        if found != level_shapes:
            raise AtlasError(
                f"the level does not fit: its arrays need {found}, and those of the other are {level_shapes}"
            )
        return Problem(level=fitted.level, task=pack(problem.task, like.task.size))

    def stack(self, problems: Sequence[Problem]) -> Problem:
        """Several such problems as one batch, padded to the largest."""
        for problem in problems:
            self.require_own(problem)
        return stack([problem.bare() if isinstance(problem, NamedProblem) else problem for problem in problems])

    def reset(self, key: Key[Array, ""], problem: Problem) -> tuple[Observation, State]:
        """The start of an episode. The task consumes the first label, without reward."""
        self._require_arrays(problem)
        state = State(world=self.world.reset(problem), previous=jnp.int32(self.num_actions))
        return self.observe(state, problem), state

    def step(self, key: Key[Array, ""], state: State, action: Action, problem: Problem) -> Stepped:
        """One action. `info` tells whether the task was `accepted`, or the step limit cut the episode (`truncated`)."""
        self._require_arrays(problem)
        if not isinstance(action, jax.core.Tracer):
            action = action_number(action, self.actions)
        action = jnp.asarray(action, jnp.int32)
        world, result = self.world.step(problem, state.world, action)
        state = State(world=world, previous=action)
        info: Info = {"accepted": result.accepted, "truncated": result.truncated}
        if self.label:
            every = jnp.arange(len(self.propositions))
            info["label"] = self.domain.holds(world.domain, every)
        return self.observe(state, problem), state, result.reward, result.done, info

    def observe(self, state: State, problem: Problem) -> Observation:
        """The observation in a state."""
        formalism = self.world.formalism
        return Observation(
            view=self.world.view(problem.task, state.world),
            task=formalism.graph(problem.task),
            task_state=formalism.nodes(state.world.task),
            previous=state.previous,
        )

    def require_own(self, problem: Any) -> None:
        """Fail with a sentence unless it is a problem, or a batch of them, of this domain."""
        if not hasattr(problem, "level") or not hasattr(problem, "task"):
            raise AtlasError(f"a problem is needed (a task in a level), not {type(problem).__name__}")
        if (name := name_for(problem)) != self.name:
            raise AtlasError(f"the problem is of the domain {name}, and this environment of {self.name}")

    def _require_arrays(self, problem: Problem) -> None:
        self.require_own(problem)
        if isinstance(problem.task, Task):
            raise AtlasError(
                "the task of this problem is a plain value: `problem = env.fit(problem)` makes arrays of it"
            )


@dataclass(frozen=True, eq=False)
class _Wrapper:
    env: Environment

    def __getattr__(self, name: str) -> Any:
        if name == "env":  # not yet there while it is copied
            raise AttributeError(name)
        return getattr(self.env, name)


@dataclass(frozen=True, eq=False)
class AutoReset(_Wrapper):
    """The same problem again when an episode is done: the next observation is that of its start.

    `info["final_observation"]` is the last one of the episode before.
    """

    def reset(self, key: Key[Array, ""], problem: Problem) -> tuple[Observation, State]:
        """The start of an episode."""
        return self.env.reset(key, problem)

    def step(self, key: Key[Array, ""], state: State, action: Action, problem: Problem) -> Stepped:
        """One action, and a new start if it was the last one."""
        key_step, key_reset = jax.random.split(key)
        seen, after, reward, done, info = self.env.step(key_step, state, action, problem)
        fresh = self.env.reset(key_reset, problem)
        now, after = restart(done, fresh, (seen, after))
        return now, after, reward, done, info | {"final_observation": seen}


class Playing(Struct):
    """State of an episode, and the problem that is played."""

    state: State
    problem: Problem
    number: Int32[Array, ""]
    """Its place in the batch that it was drawn from; -1 without one."""


@dataclass(frozen=True, eq=False)
class ProblemSampler(_Wrapper):
    """Another problem in every episode: drawn as the settings say or, much cheaper, from a batch of problems.

    Where it is mapped over environments, a new problem is drawn at every step and kept only if it is needed: hand in a
    batch (`env.sample_many`), and draw that anew now and then.
    """

    def reset(self, key: Key[Array, ""], problems: Problem | None = None) -> tuple[Observation, Playing]:
        """The start of an episode on some problem."""
        key_problem, key_reset = jax.random.split(key)
        if problems is None:
            number, problem = jnp.int32(-1), self.env.sample(key_problem)
        else:
            self.env.require_own(problems)
            number = jax.random.randint(key_problem, (), 0, len(jax.tree.leaves(problems)[0]))
            problem = jax.tree.map(lambda leaf: leaf[number], problems)
        seen, state = self.env.reset(key_reset, problem)
        return seen, Playing(state=state, problem=problem, number=number)

    def step(self, key: Key[Array, ""], state: Playing, action: Action, problems: Problem | None = None) -> Stepped:
        """One action, and the start of the next problem if it was the last one."""
        key_step, key_reset = jax.random.split(key)
        seen, after, reward, done, info = self.env.step(key_step, state.state, action, state.problem)
        fresh = self.reset(key_reset, problems)
        now, playing = restart(done, fresh, (seen, state.replace(state=after)))
        return now, playing, reward, done, info | {"final_observation": seen}


def make(
    domain: str | None = None,
    preset: str | Config | None = None,
    *,
    label: bool = False,
    map: bool = False,
    **changes: Any,
) -> Environment:
    """An environment of a domain, by default Minigrid's.

    Problems are drawn as a preset or a config says, or else by the domain's default settings. Changes are settings of
    the domain (`rooms=(1, 2)`, `step_limit=128`) or whole sections (`tasks={"max_length": 3}`,
    `pairing={"how": "level"}`). `label`: tell in `info` which propositions hold. `map`: views come with a map of what
    was seen, as students with `student.network.map` have it. Rewards are those of `tasks.reward`; of a preset that is
    trained with the outlook, `shaped` ones.
    """
    config = _config(domain, preset, changes)
    made = parts(config)
    return Environment(config, made.world.with_map(map), made.sample, label)


SECTIONS = ("tasks", "pairing")


def _config(domain: str | None, base: str | Config | None, changes: dict[str, Any]) -> Config:
    if base is None:
        name = default_name() if domain is None else domain
        if name not in DOMAINS:
            hint = nearest(name, DOMAINS) or f"; there are {', '.join(DOMAINS)}"
            raise AtlasError(f"there is no domain '{name}'{hint}")
        config = from_plain(Config, {"domain": {"name": name}})
    else:
        config = preset(base).config if isinstance(base, str) else base
        if domain not in (None, config.domain.name):
            words = f"'{base}'" if isinstance(base, str) else "this config"
            raise AtlasError(f"{words} is of the domain {config.domain.name}, not of {domain}")
    known = [field.name for field in fields(settings_class(config.domain.name))]
    for name in changes:
        if name not in (*SECTIONS, *known):
            hint = nearest(name, (*SECTIONS, *known)) or f"; there are {', '.join((*known, *SECTIONS))}"
            raise AtlasError(f"'{name}' is no setting of an environment{hint}")

    def plain(value: Any) -> Any:
        return list(value) if isinstance(value, tuple) else value

    sections = {name: {k: plain(v) for k, v in value.items()} for name, value in changes.items() if name in SECTIONS}
    own = {name: plain(value) for name, value in changes.items() if name not in SECTIONS}
    if config.tasks.reward == "outlook":  # it tells nothing of hierarchies, and others bring tasks of any kind
        sections["tasks"] = {"reward": "shaped"} | sections.get("tasks", {})
    return changed(config, {"domain": own, **sections})
