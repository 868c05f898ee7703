"""Watch somebody play one problem: every moment, what was thought of doing in it, and what was hoped for.

Any problem fits any policy: sizes come from the problem.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float32, Int, UInt8

from atlas.domains.minigrid.grid import ACTIONS, Level
from atlas.replay import STEP_LIMIT, Episode, Record
from atlas.student.network import Observation, Params, Student
from atlas.types import Problem

ACCEPTED_NAME, REJECTED_NAME = "uA", "uR"


@dataclass(frozen=True)
class Choice:
    """What is done next, and why."""

    action: int
    probabilities: tuple[float, ...]
    """Of each action, in their order."""
    value: float | None
    """What the player expects to earn from here on; None if it does not say."""


@runtime_checkable
class Actor(Protocol):
    """Who plays."""

    def begin(self, episode: Episode) -> None:
        """An episode starts."""

    def choose(self, episode: Episode) -> Choice:
        """What to do now."""


class Trained:
    """Plays as a student with its parameters does."""

    def __init__(self, student: Student, params: Params, seed: int = 0, greedy: bool = False) -> None:
        self.student, self.params, self.greedy = student, params, greedy
        self.random = np.random.default_rng(seed)
        self._embed = jax.jit(self._table)
        self._step = jax.jit(self._think)
        self.table: Array
        self.hidden: Array
        self.previous = 0

    def begin(self, episode: Episode) -> None:
        """Read the task, forget everything else."""
        key = jax.random.key(int(self.random.integers(2**31)))
        self.table = self._embed(self.params, key, episode.graph)
        self.hidden = self.student.initial_hidden(1)

    def choose(self, episode: Episode) -> Choice:
        """Look, remember, weigh."""
        start = episode.steps == 0
        view, nodes = jnp.asarray(episode.view), jnp.asarray(episode.nodes)
        seen = (view, nodes, jnp.uint8(self.previous), jnp.asarray(start))
        self.hidden, probabilities, value = self._step(self.params, self.table, self.hidden, *seen)
        weights = np.asarray(probabilities, float)
        drawn = int(np.searchsorted(np.cumsum(weights)[:-1], self.random.random(), side="right"))
        self.previous = int(weights.argmax()) if self.greedy else drawn
        return Choice(self.previous, tuple(weights.tolist()), float(value))

    def _table(self, params: Params, key: Array, graph: Any) -> Float32[Array, "1 nodes width"]:
        return self.student.embed(params, key[None], jax.tree.map(lambda leaf: leaf[None, None], graph))

    def _think(
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
    """What is done next; None at the end."""

    def plain(self) -> dict[str, Any]:
        """Plain values, as JSON has them."""
        told: dict[str, Any] = {"step": self.step, "action": self.action, "task_state": self.record.task_state}
        told |= {"position": list(self.record.position), "direction": self.record.direction}
        told |= {"carrying": self.record.carrying, "reward": self.record.reward, "done": self.record.done}
        if self.choice is not None:
            odds = {name: round(p, 4) for name, p in zip(ACTIONS, self.choice.probabilities, strict=True)}
            told |= {"probabilities": odds, "value": self.choice.value}
        return told


def scenes(actor: Actor, problem: Problem, step_limit: int = STEP_LIMIT) -> Iterator[Scene]:
    """Play an episode to its end, telling each moment as it comes."""
    episode = Episode(problem, step_limit)
    actor.begin(episode)
    action: str | None = None
    while True:
        choice = None if episode.record.done else actor.choose(episode)
        yield Scene(episode.steps, action, episode.level, episode.place, episode.record, choice)
        if choice is None:
            return
        action = ACTIONS[choice.action]
        episode.act(choice.action)


def ending(watched: Sequence[Scene]) -> str:
    """How an episode ended: `solved`, `failed`, `trivial` (the first view alone ended it) or `out of steps`."""
    first, last = (scene.record.task_state or "" for scene in (watched[0], watched[-1]))
    if first in (ACCEPTED_NAME, REJECTED_NAME):
        return "trivial"
    if last == ACCEPTED_NAME:  # of the root: a machine that was called and accepts returns at once
        return "solved"
    return "failed" if last.endswith(REJECTED_NAME) else "out of steps"
