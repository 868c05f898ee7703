"""Problems as Gymnasium environments: one at a time, or many side by side on one compiled program."""

import string
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from rich.console import Console

from atlas.api import explain, solve
from atlas.config import Config
from atlas.domains import DOMAINS, find, surface_of
from atlas.environment import Environment, Observation, ProblemSampler, State, as_dict, make
from atlas.errors import AtlasError
from atlas.evaluation.sets import open_set
from atlas.problems import stack
from atlas.show.canvas import pixels
from atlas.show.problem import drawing, portrait
from atlas.tasks.machine import machine_name, outcome, state_name
from atlas.tasks.packed import unpack
from atlas.types import Problem
from atlas.vocabulary import RUNNING
from atlas.world import action_number

MISSION: Final = 4_000
"""Letters of a mission; of a longer one the beginning is told."""
CHARACTERS: Final = frozenset(string.printable) | frozenset("…–’·→¬∧∨⊥ρ")
Given = Problem | Sequence[Problem] | str | None
"""A problem, several, or the name or path of a set; None: problems are drawn as a preset says."""


class Said(NamedTuple):
    """A problem in words."""

    mission: str
    """The task in English."""
    states: tuple[str, ...]
    """The name of each node of its graph: `u2`, `uA`, `uR`; `m1:u2` in a machine that is called."""


class _Game:
    """What both environments have in common: where problems come from, what is told, what spaces there are."""

    def __init__(
        self,
        domain: str,
        problem: Given,
        preset: str | Config | None,
        label: bool,
        solution: bool,
        changes: dict[str, Any],
    ) -> None:
        if preset is None and problem is None:
            preset = next(iter(find(DOMAINS[domain].presets)))
        self.env: Environment = make(domain, preset, **changes)
        self.label, self.solution = label, solution
        self.given: list[Problem] | None = None
        if problem is not None:
            chosen: Any = open_set(problem).problems if isinstance(problem, str) else problem
            self.given = [chosen] if isinstance(chosen, Problem) else list(chosen)
            if not self.given:
                raise AtlasError("there are no problems to play")
            for one in self.given:
                self.env.require_own(one)

    @cached_property
    def pool(self) -> Problem | None:
        """The problems that were given, as one batch."""
        return None if self.given is None else stack(self.given)

    @cached_property
    def example(self) -> Problem:
        """A problem of the sizes that all have here."""
        if self.pool is not None:
            return jax.tree.map(lambda leaf: leaf[0], self.pool)
        shapes = jax.eval_shape(self.env.sample, jax.random.key(0))
        return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)

    @property
    def observation_space(self) -> spaces.Dict:
        told = as_dict(jax.eval_shape(self.env.reset, jax.random.key(0), self.example)[0])

        def box(leaf: Any) -> spaces.Box:
            kind = np.dtype(leaf.dtype)
            return spaces.Box(np.iinfo(kind).min, np.iinfo(kind).max, leaf.shape, kind.type)

        return spaces.Dict(
            {
                "view": box(told["view"]),
                "mission": spaces.Text(MISSION, min_length=0, charset=CHARACTERS),
                "task": spaces.Dict({name: box(leaf) for name, leaf in told["task"].items()}),
                "task_state": box(told["task_state"]),
                "previous_action": spaces.Discrete(self.env.num_actions + 1),
            }
        )

    @property
    def action_space(self) -> spaces.Discrete:
        return spaces.Discrete(self.env.num_actions)

    def say(self, problem: Problem) -> "Said":
        """What is told of a problem in words."""
        words = "".join(letter if letter in CHARACTERS else "?" for letter in explain(problem))
        task, (machines, states) = unpack(problem.task), problem.task.target.shape[-3:-1]
        names = []
        for machine, state in np.ndindex(machines, states):
            known = machine < len(task.machines) and state < len(task.machines[machine].outcomes)
            prefix = "" if machine == task.root else f"{machine_name(machine)}:"
            names.append(prefix + state_name(state, outcome(task, (machine, state)) if known else RUNNING))
        return Said(words if len(words) <= MISSION else words[: MISSION - 1] + "…", tuple(names))

    def names(self, label: Any) -> frozenset[str]:
        """The propositions of a label."""
        return frozenset(self.env.propositions[i] for i in np.flatnonzero(np.asarray(label)))

    def plan(self, problem: Problem) -> list[int] | None:
        """Actions that solve a problem; None if none were found."""
        plan = solve(problem, step_limit=self.env.world.step_limit).plan
        return None if plan is None else list(map(int, plan))

    def holds(self, state: State) -> Any:
        """All propositions that hold in a state."""
        return self.env.domain.holds(state.world.domain, jnp.arange(len(self.env.propositions)))


def _on_host(tree: Any) -> Any:
    return jax.tree.map(np.asarray, jax.device_get(tree))


class AtlasEnv(gymnasium.Env[dict[str, Any], Any]):
    """One problem at a time: the one that was given, one of several, or one that is drawn.

    Observations are dicts: `view` (bytes), `mission` (English), `task` (the graph: `target`, `guard`, `outcome`),
    `task_state` (nodes of the graph) and `previous_action`. `info` has `task_state` by name, `accepted`, and on request
    `label` (names of the propositions that hold) and, on reset, `solution` (actions that solve it).

    `problem`: a problem, several, or the name or path of a set. `preset`: how problems are drawn, a preset or a config;
    by default the domain's first preset. Other keywords are settings, as in `atlas.make`. `reset(options={"problem":
    …})` plays a certain problem of the same sizes.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array", "ansi"], "render_fps": 4}  # noqa: RUF012 - as Gymnasium's

    def __init__(
        self,
        domain: str = "minigrid",
        problem: Given = None,
        preset: str | Config | None = None,
        render_mode: str | None = None,
        label: bool = False,
        solution: bool = False,
        **settings: Any,
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise AtlasError(f"render_mode = {render_mode} is not allowed: rgb_array, ansi or none is needed")
        self.game, self.render_mode = _Game(domain, problem, preset, label, solution, settings), render_mode
        self.observation_space, self.action_space = self.game.observation_space, self.game.action_space
        env = self.game.env
        self._draw = jax.jit(env.sample)
        self._reset, self._step, self._holds = jax.jit(env.reset), jax.jit(env.step), jax.jit(self.game.holds)
        self._key = jax.random.key(0)  # the plain environment leaves nothing to chance
        self.problem: Problem | None = None
        """The problem that is played."""
        self._state: Any = None
        self._said = Said("", ())

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The start of an episode; the seed decides which problem it is."""
        super().reset(seed=seed)
        chosen = (options or {}).get("problem")
        if chosen is not None:
            self.game.env.require_own(chosen)
            problem = self.game.env.fit(chosen, self.game.example)
        elif self.game.pool is not None and self.game.given is not None:
            number = int(self.np_random.integers(len(self.game.given)))
            problem = jax.tree.map(lambda leaf: leaf[number], self.game.pool)
        else:
            problem = self._draw(jax.random.key(int(self.np_random.integers(2**32, dtype=np.uint32))))
        seen, state = self._reset(self._key, problem)
        self.problem, self._state, self._said = problem, state, self.game.say(problem)
        info = self._info(seen, accepted=False)
        if self.game.solution:
            info["solution"] = self.game.plan(problem)
        return self._told(seen), info

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """One action."""
        if self.problem is None:
            raise AtlasError("there is no episode yet: call reset() first")
        number = action_number(action, self.game.env.actions)
        seen, self._state, reward, done, info = self._step(self._key, self._state, np.int32(number), self.problem)
        truncated = bool(info["truncated"])
        told = self._info(seen, bool(info["accepted"]))
        return self._told(seen), float(reward), bool(done) and not truncated, truncated, told

    def _told(self, seen: Observation) -> dict[str, Any]:
        told = _on_host(as_dict(seen))
        return told | {"mission": self._said.mission, "previous_action": np.int64(told["previous_action"])}

    def _info(self, seen: Observation, accepted: bool) -> dict[str, Any]:
        info: dict[str, Any] = {"task_state": self._said.states[int(seen.task_state[0])], "accepted": accepted}
        if self.game.label:
            info["label"] = self.game.names(self._holds(self._state))
        return info

    def render(self) -> Any:
        """The level as it stands and the task with its current state: as pixels, or as text."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() needs an environment that was made with render_mode rgb_array or ansi")
            return None
        if self.problem is None:
            raise AtlasError("there is no episode yet: call reset() first")
        surface = surface_of(self.game.env.name)
        level = surface.crop(jax.device_get(self.game.env.domain.as_level(self._state.world.domain)))
        if self.render_mode == "rgb_array":
            nodes = np.asarray(self.game.env.world.formalism.nodes(self._state.world.task))
            current = divmod(int(nodes[0]), self.problem.task.target.shape[-2])
            page = drawing(level, self.problem.task, self._said.mission, current, strip=True)
            return np.asarray(pixels(page).convert("RGB"))
        console = Console(width=100, color_system=None)
        with console.capture() as caught:
            console.print(portrait(Problem(level=level, task=self.problem.task), colour=False))
        return caught.get()


class AtlasVectorEnv(VectorEnv[dict[str, Any], Any, Any]):
    """Many environments on one compiled program. An episode that ends is followed by the next one in the same step:
    the observation is its first, and `info["final_obs"]` has the last one of the episode before.

    Keywords as for `AtlasEnv`. The same seed gives the same episodes.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - as Gymnasium's
        "render_modes": [],
        "render_fps": 4,
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        domain: str = "minigrid",
        problem: Given = None,
        preset: str | Config | None = None,
        render_mode: str | None = None,
        label: bool = False,
        solution: bool = False,
        pool: int = 1024,
        **settings: Any,
    ) -> None:
        """`pool`: how many problems are drawn at a time; when so many episodes are over, new ones are drawn."""
        if num_envs < 1 or pool < 1:
            raise AtlasError(f"num_envs = {num_envs} and pool = {pool}: at least 1 of each is needed")
        if render_mode is not None:
            raise AtlasError("many environments side by side are not rendered: make a single one with render_mode")
        self.game = _Game(domain, problem, preset, label, solution, settings)
        self.num_envs, self.render_mode, self._size = num_envs, None, pool
        self.single_observation_space, self.single_action_space = self.game.observation_space, self.game.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        sampler = ProblemSampler(self.game.env)
        self._draw = jax.jit(self.game.env.sample_many, static_argnums=1)
        self._reset = jax.jit(jax.vmap(sampler.reset, (0, None)))
        self._step = jax.jit(jax.vmap(sampler.step, (0, 0, 0, None)))
        self._holds = jax.jit(jax.vmap(self.game.holds))
        self._key: Any = None
        self._playing: Any = None
        self._said: list[Said] = []
        """What is told of the problem that each environment plays."""

    def _next_key(self) -> Any:
        self._key, key = jax.random.split(self._key)
        return key

    def _refill(self) -> None:
        """Draw problems anew, if none were given."""
        given = self.game.pool
        self._pool = self._draw(self._next_key(), self._size) if given is None else given
        self._left = self._size
        self._on_host = jax.device_get(self._pool)
        self._known: dict[int, tuple[Said, Any]] = {}

    def _words(self, number: int) -> tuple[Said, Any]:
        """What is told of a problem of the pool, and its solution if it is asked for."""
        if number not in self._known:
            problem = jax.tree.map(lambda leaf: leaf[number], self._on_host)
            self._known[number] = self.game.say(problem), self.game.plan(problem) if self.game.solution else None
        return self._known[number]

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The start of an episode in each of them."""
        first = seed[0] if isinstance(seed, list) else seed
        super().reset(seed=first)
        if self._key is None or first is not None:
            self._key = jax.random.key(int(self.np_random.integers(2**32, dtype=np.uint32)))
        self._refill()
        seen, self._playing = self._reset(jax.random.split(self._next_key(), self.num_envs), self._pool)
        numbers = np.asarray(self._playing.number).tolist()
        self._said = [self._words(number)[0] for number in numbers]
        infos = self._infos(seen, np.zeros(self.num_envs, bool))
        if self.game.solution:
            self._add(infos, "solution", [self._words(number)[1] for number in numbers])
        return self._told(seen), infos

    def step(self, actions: Any) -> tuple[dict[str, Any], Any, Any, Any, dict[str, Any]]:
        """One action in each of them."""
        if self._playing is None:
            raise AtlasError("there is no episode yet: call reset() first")
        chosen = np.asarray(actions)
        if chosen.shape != (self.num_envs,) or chosen.dtype.kind not in "iu":
            raise AtlasError(f"{self.num_envs} whole numbers are needed as actions, one an environment")
        for action in chosen.tolist():
            action_number(action, self.game.env.actions)
        keys = jax.random.split(self._next_key(), self.num_envs)
        seen, self._playing, reward, done, info = self._step(keys, self._playing, chosen.astype(np.int32), self._pool)
        over, cut, accepted = (np.asarray(x) for x in (done, info["truncated"], info["accepted"]))
        final = self._told(info["final_observation"]) if over.any() else None
        if final is not None:
            numbers = np.asarray(self._playing.number)
            for env in np.flatnonzero(over):
                self._said[env] = self._words(int(numbers[env]))[0]
        infos = self._infos(seen, accepted)
        if final is not None:
            infos |= {"final_obs": final, "_final_obs": over}
            if self.game.solution:
                plans = [
                    self._words(int(number))[1] if ended else None for number, ended in zip(numbers, over, strict=True)
                ]
                self._add(infos, "solution", plans, over)
            self._left -= int(over.sum())
            if self._left <= 0 and self.game.pool is None:
                self._refill()
        return self._told(seen), np.asarray(reward, np.float64), over & ~cut, cut, infos

    def _told(self, seen: Observation) -> dict[str, Any]:
        told = _on_host(as_dict(seen))
        missions = tuple(said.mission for said in self._said)
        return told | {"mission": missions, "previous_action": told["previous_action"].astype(np.int64)}

    def _infos(self, seen: Observation, accepted: np.ndarray) -> dict[str, Any]:
        nodes = np.asarray(seen.task_state)[:, 0]
        infos: dict[str, Any] = {}
        self._add(infos, "task_state", [said.states[node] for said, node in zip(self._said, nodes, strict=True)])
        infos |= {"accepted": accepted, "_accepted": np.ones(self.num_envs, bool)}
        if self.game.label:
            self._add(infos, "label", list(map(self.game.names, self._holds(self._playing.state))))
        return infos

    def _add(self, infos: dict[str, Any], name: str, values: list[Any], there: np.ndarray | None = None) -> None:
        """Values of any kind, one an environment, and for which environments there is one."""
        column = np.empty(self.num_envs, object)
        for env, value in enumerate(values):
            column[env] = value
        infos |= {name: column, f"_{name}": np.ones(self.num_envs, bool) if there is None else there}
