"""One episode, moment by moment: replayed from actions or played by a policy, told in names."""

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float32, Int, UInt8

from atlas.domains import domain_for, domain_of, name_for, settings_class, surface_for
from atlas.programs import Program
from atlas.settings import STEP_LIMIT
from atlas.student.network import Observation, Params, Student
from atlas.tasks.machine import flat_task, machine_name, outcome, state_name
from atlas.tasks.packed import PackedTask, RewardMachines, Stack, TaskState, roomy, unpack
from atlas.types import Graph, Level, MapMaker, Problem
from atlas.vocabulary import ACCEPTED, REJECTED, RUNNING, Vocabulary
from atlas.world import Action, World, WorldState, action_number

# Replay actions and tell what happens, in names: `atlas.trace(problem, actions)`.

NO_LIMIT: Final = np.iinfo(np.int32).max
"""The limit of the compiled world: `Episode` counts its own steps, so that one program serves all limits."""


@dataclass(frozen=True)
class Record:
    """One moment of an episode. Everything in it can be looked up like a key or a field: `record["label"]`."""

    observed: dict[str, Any]
    """What the domain tells of a state; in Minigrid `position` (row, column), `direction` (0 up, 1 right, 2 down, 3
    left), `carrying` (as in `key_blue`) and `view` (5 rows of 5 names, the agent at the bottom centre looking up)."""
    label: frozenset[str]
    """Names of the propositions that hold."""
    task_state: str | None
    """As in `u2`, `uA` (accepted), `uR` (rejected); `m1:u2` inside a machine that was called. None without a task."""
    outcome: int
    """Outcome of the task: RUNNING, ACCEPTED or REJECTED."""
    reward: float
    """Reward of the last action."""
    done: bool
    """Whether the last action ended the episode."""

    def __getattr__(self, name: str) -> Any:
        if name != "observed" and name in self.observed:
            return self.observed[name]
        raise AttributeError(name)

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def keys(self) -> Iterator[str]:
        """The names of the fields, so that `dict(record)` works."""
        return iter((*self.observed, "label", "task_state", "reward", "done"))

    def plain(self) -> dict[str, Any]:
        """Lists, text and numbers only, as JSON has them."""
        told = {name: list(value) if isinstance(value, tuple) else value for name, value in dict(self).items()}
        return told | {"label": sorted(self.label)}


def trace(subject: Problem | Level, actions: Iterable[Action], step_limit: int = STEP_LIMIT) -> list[Record]:
    """One record for the start and one for each action, until the episode is done.

    The first is the state after the task consumed the first label. A task that this already ended is reported as done
    by the first action, with reward 0: that is when the episode ends.
    """
    numbers = [action_number(action, domain_for(subject).actions) for action in actions]
    episode = Episode(subject, step_limit)
    records = [episode.record]
    for number in numbers:
        if episode.record.done:
            break
        records.append(episode.act(number))
    return records


def most_specific(label: frozenset[str], vocabulary: Vocabulary) -> list[str]:
    """A label without what follows from the rest of it: `front_ball_red` says all that `front_ball` does."""
    ids, implies = sorted(vocabulary.ids[name] for name in label), vocabulary.implies
    return [vocabulary.names[i] for i in ids if not any(implies[j, i] and not implies[i, j] for j in ids)]


class Episode:
    """A problem, or a level without a task, being played. `record` tells the present moment."""

    def __init__(self, subject: Problem | Level, step_limit: int = STEP_LIMIT) -> None:
        self._has_task = isinstance(subject, Problem)
        level, self._task = (
            (subject.level, unpack(subject.task)) if isinstance(subject, Problem) else (subject, flat_task([]))
        )
        self.surface, self.domain = surface_for(subject), domain_for(subject)
        self._problem = Problem(level=self.surface.pad(level), task=roomy(self._task))
        self._step_limit = step_limit
        self._reset, self._step, self._look = _compiled(name_for(subject))
        self._arrive(self._reset(self._problem))
        self.record = self._tell(reward=0.0, done=False)

    def _arrive(self, state: WorldState) -> None:
        """Take a new state, and copy to the host what may be asked about it: nothing else needs to be compiled."""
        self._state = state
        self.view, self._with_map, self._label, self._level = jax.device_get(self._look(self._problem.task, state))
        """The agent's view, as cells; the same with a map; the label; and the world's state as a level."""
        nodes = state.task.nodes if isinstance(state.task, Stack) else state.task
        self.nodes = np.atleast_1d(np.asarray(nodes, np.int32))
        """The rows of the task's graph where the task stands, innermost first; -1 unused."""

    def view_for(self, student: Student) -> np.ndarray:
        """What a student sees."""
        return self._with_map if student.config.map else self.view

    @property
    def level(self) -> Level:
        """The world as it stands, as a level at its natural size."""
        return self.surface.crop(self._level)

    @property
    def place(self) -> tuple[int, int]:
        """The machine and its state where the task stands."""
        return divmod(int(self.nodes[0]), self._problem.task.size.states)

    @property
    def progress(self) -> tuple[PackedTask, TaskState]:
        """The task in arrays, and where it stands in them."""
        return self._problem.task, self._state.task

    @property
    def graph(self) -> Graph:
        """The task as a student's encoder sees it."""
        return RewardMachines().graph(self._problem.task)

    @property
    def steps(self) -> int:
        """Actions taken so far."""
        return int(self._state.time)

    def act(self, action: int) -> Record:
        """Take an action."""
        state, step = self._step(self._problem, self._state, np.int32(action))
        self._arrive(state)
        self.record = self._tell(float(step.reward), bool(step.done) or self.steps >= self._step_limit)
        return self.record

    def _tell(self, reward: float, done: bool) -> Record:
        machine, state = self.place
        ended = outcome(self._task, self.place)
        name = ("" if machine == self._task.root else f"{machine_name(machine)}:") + state_name(state, ended)
        return Record(
            observed=self.surface.observe(self._state.domain),
            label=frozenset(self.domain.vocabulary.names[i] for i in np.flatnonzero(self._label)),
            task_state=name if self._has_task else None,
            outcome=ended,
            reward=reward,
            done=done,
        )


@functools.cache
def _compiled(name: str) -> tuple[Any, Any, Any]:
    """Compiled once for each domain and size of problem: `reset` and `step` of its world; and view, label and level of
    a state."""
    domain = domain_of(settings_class(name)())
    world = World(domain, RewardMachines(), step_limit=NO_LIMIT).with_map(isinstance(domain, MapMaker))

    def look(task: Any, state: WorldState) -> tuple[Any, Any, Any, Any]:
        every, now = jnp.arange(len(domain.vocabulary.names)), state.domain
        return domain.view(now), world.view(task, state), domain.holds(now, every), domain.as_level(now)

    return (
        Program(f"{name} reset", lambda: world.reset),
        Program(f"{name} step", lambda: world.step),
        Program(f"{name} look", lambda: look),
    )


# Watch somebody play one problem: every moment, what was thought of doing in it, and what was hoped for.
#
# Any problem fits any policy: sizes come from the problem.


@dataclass(frozen=True)
class Choice:
    """The next action, and why."""

    action: int
    probabilities: tuple[float, ...]
    """Probability of each action, in their order."""
    value: float | None
    """The player's value estimate; None if it has none."""


@runtime_checkable
class Actor(Protocol):
    """A player of episodes."""

    def begin(self, episode: Episode) -> None:
        """An episode starts."""

    def choose(self, episode: Episode) -> Choice:
        """The next action."""


class PolicyActor:
    """Plays as a student with its parameters does."""

    def __init__(self, student: Student, params: Params, seed: int = 0, greedy: bool = False) -> None:
        self.student, self.params, self.greedy = student, params, greedy
        self.random = np.random.default_rng(seed)
        self._embed = jax.jit(self._table)
        self._step = jax.jit(self._forward)
        self.table: Array
        self.hidden: Array
        self.previous = 0

    def begin(self, episode: Episode) -> None:
        """Read the task, forget everything else."""
        key = jax.random.key(int(self.random.integers(2**31)))
        self.table = self._embed(self.params, key, episode.graph)
        self.hidden = self.student.initial_hidden(1)

    def choose(self, episode: Episode) -> Choice:
        """Observe, update the hidden state, sample an action."""
        start = episode.steps == 0
        view, nodes = jnp.asarray(episode.view_for(self.student)), jnp.asarray(episode.nodes)
        seen = (view, nodes, jnp.uint8(self.previous), jnp.asarray(start))
        self.hidden, probabilities, value = self._step(self.params, self.table, self.hidden, *seen)
        weights = np.asarray(probabilities, float)
        drawn = int(np.searchsorted(np.cumsum(weights)[:-1], self.random.random(), side="right"))
        self.previous = int(weights.argmax()) if self.greedy else drawn
        return Choice(self.previous, tuple(weights.tolist()), float(value))

    def _table(self, params: Params, key: Array, graph: Any) -> Float32[Array, "1 nodes width"]:
        return self.student.embed(params, key[None], jax.tree.map(lambda leaf: leaf[None, None], graph))

    def _forward(
        self,
        params: Params,
        table: Float32[Array, "1 nodes width"],
        hidden: Float32[Array, "1 memory"],
        view: UInt8[Array, "rows cols"],
        nodes: Int[Array, "depth"],
        previous: UInt8[Array, ""],
        start: Array,
    ) -> tuple[Float32[Array, "1 memory"], Float32[Array, "actions"], Float32[Array, ""]]:
        seen = Observation(view=view[None], nodes=nodes[None], previous=previous[None], start=start[None])
        hidden, logits, value = self.student.step(params, table, seen, hidden)
        return hidden, jax.nn.softmax(logits[0]), value[0]


@dataclass(frozen=True)
class Scene:
    """One moment of an episode that was watched."""

    step: int
    """Actions taken before it."""
    action: str | None
    """The one that led here; None at the start."""
    level: Level
    """The world as it stands."""
    place: tuple[int, int]
    """The machine and its state where the task stands."""
    record: Record
    choice: Choice | None
    """The next action; None at the end."""
    actions: tuple[str, ...]
    """The names of the actions, by number."""
    view: np.ndarray
    """The agent's view, as cells."""

    def plain(self) -> dict[str, Any]:
        """Plain values, as JSON has them."""
        told: dict[str, Any] = {"step": self.step, "action": self.action, "task_state": self.record.task_state}
        told |= {name: value for name, value in self.record.plain().items() if name not in (*told, "view", "label")}
        if self.choice is not None:
            odds = {name: round(p, 4) for name, p in zip(self.actions, self.choice.probabilities, strict=True)}
            told |= {"probabilities": odds, "value": self.choice.value}
        return told


def scenes(actor: Actor, problem: Problem, step_limit: int = STEP_LIMIT) -> Iterator[Scene]:
    """Play an episode to its end, telling each moment as it comes."""
    episode = Episode(problem, step_limit)
    actor.begin(episode)
    action: str | None = None
    actions = episode.domain.actions
    while True:
        choice = None if episode.record.done else actor.choose(episode)
        yield Scene(episode.steps, action, episode.level, episode.place, episode.record, choice, actions, episode.view)
        if choice is None:
            return
        action = actions[choice.action]
        episode.act(choice.action)


def ending(watched: Sequence[Scene]) -> str:
    """How an episode ended: `solved`, `failed`, `trivial` (the first view alone ended it) or `out of steps`."""
    if watched[0].record.outcome != RUNNING:
        return "trivial"
    return {ACCEPTED: "solved", REJECTED: "failed"}.get(watched[-1].record.outcome, "out of steps")


# Films for web pages


def film(watched: Sequence[Scene], places: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """An episode in few bytes: the first level whole, then what changes from scene to scene."""
    tiles = [surface_for(scene.level).tiles(scene.level) for scene in watched]
    cells = [one.pop("cells") for one in tiles]
    return {
        "cols": tiles[0]["cols"],
        "actions": [action.replace("_", " ") for action in watched[0].actions],
        "cells": cells[0],
        "scenes": [
            {
                **{name: value for name, value in one.items() if name != "cols"},
                "place": places.index(scene.place),
                "state": scene.record.task_state,
                "did": (scene.action or "start").replace("_", " "),
                "changed": [[n, new] for n, (old, new) in enumerate(zip(before, now, strict=True)) if old != new],
                **_thought(scene),
            }
            for scene, one, before, now in zip(watched, tiles, [cells[0], *cells], cells, strict=False)
        ],
    }


def _thought(scene: Scene) -> dict[str, Any]:
    if scene.choice is None:
        return {}
    value = None if scene.choice.value is None else round(scene.choice.value, 2)
    return {"p": [round(100 * p) for p in scene.choice.probabilities], "next": scene.choice.action, "value": value}
