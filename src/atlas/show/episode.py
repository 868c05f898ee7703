"""Watch somebody play one problem: every moment, what was thought of doing in it, and what was hoped for.

Any problem fits any policy: sizes come from the problem.
"""

import functools
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Protocol, SupportsIndex, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float32, Int, UInt8

from atlas.domains.minigrid import alphabet, dynamics, grid, text
from atlas.domains.minigrid.domain import Minigrid
from atlas.domains.minigrid.grid import ACTIONS, Level
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.errors import AtlasError, nearest
from atlas.student.network import Observation, Params, Student
from atlas.tasks import rm
from atlas.tasks.hrm import Hierarchies, Hierarchy
from atlas.tasks.names import machine_name, state_name
from atlas.tasks.rm import RewardMachine, RewardMachines, TaskSize
from atlas.types import Graph, Problem, bare
from atlas.world import World, WorldState

# Replay actions and tell what happens, in names: `atlas.trace(problem, actions)`.

STEP_LIMIT: Final = MinigridConfig().step_limit
NO_LIMIT: Final = np.iinfo(np.int32).max
"""For the compiled world: an episode counts for itself, so that all limits share one program."""
Action = SupportsIndex | str
"""A number, or a name such as `forward` or `pick_up`."""


@dataclass(frozen=True)
class Record:
    """One moment of an episode. Fields can also be looked up like keys: `record["label"]`."""

    position: tuple[int, int]
    """Row and column of the agent."""
    direction: int
    """0 up, 1 right, 2 down, 3 left."""
    carrying: str | None
    """As in `key_blue`."""
    view: list[list[str]]
    """5 rows of 5 names, the agent at the bottom centre looking up."""
    label: frozenset[str]
    """Names of the propositions that hold."""
    task_state: str | None
    """As in `u2`, `uA` (accepted), `uR` (rejected); `m1:u2` inside a machine that was called. None without a task."""
    reward: float
    """What the last action earned."""
    done: bool
    """Whether the last action ended the episode."""

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def keys(self) -> Iterator[str]:
        """The names of the fields, so that `dict(record)` works."""
        return (field.name for field in fields(self))

    def plain(self) -> dict[str, Any]:
        """Lists, text and numbers only, as JSON has them."""
        return dict(self) | {"position": list(self.position), "label": sorted(self.label)}


def trace(subject: Problem | Level, actions: Iterable[Action], step_limit: int = STEP_LIMIT) -> list[Record]:
    """One record for the start and one for each action, until the episode is done.

    The first is the state after the task consumed the first label. A task that this already ended is reported as done
    by the first action, with reward 0: that is when the episode ends.
    """
    numbers = [action_number(action) for action in actions]
    episode = Episode(subject, step_limit)
    records = [episode.record]
    for number in numbers:
        if episode.record.done:
            break
        records.append(episode.act(number))
    return records


def most_specific(label: frozenset[str]) -> list[str]:
    """A label without what follows from the rest of it: `front_ball_red` says all that `front_ball` does."""
    ids = sorted(alphabet.IDS[name] for name in label)
    implies = alphabet.VOCABULARY.implies
    return [alphabet.NAMES[i] for i in ids if not any(implies[j, i] and not implies[i, j] for j in ids)]


def action_number(action: Action) -> int:
    """The number of an action given by number or name."""
    known = ", ".join(f"{number} {name}" for number, name in enumerate(grid.ACTIONS))
    if isinstance(action, str):
        name = action.strip().lower().replace(" ", "_")
        if name.isdecimal():
            return action_number(int(name))
        if name in grid.ACTIONS:
            return grid.ACTIONS.index(name)
        raise AtlasError(f"'{action}' is no action{nearest(name, grid.ACTIONS) or f'; there are {known}'}")
    number = operator.index(action)
    if not 0 <= number < len(grid.ACTIONS):
        raise AtlasError(f"{number} is no action; there are {known}")
    return number


class Episode:
    """A problem, or a level without a task, being played. `record` tells the present moment."""

    def __init__(self, subject: Problem | Level, step_limit: int = STEP_LIMIT) -> None:
        self._has_task = not isinstance(subject, Level)
        problem = Problem(level=subject, task=rm.machine([])) if isinstance(subject, Level) else bare(subject)
        self._problem = Problem(
            level=text.pad_level(problem.level, text.MAX_ROWS, text.MAX_COLS), task=_roomy(problem.task)
        )
        self._step_limit = step_limit
        self._formalism, self._reset, self._step = _compiled(isinstance(self._problem.task, RewardMachine))
        self._state: WorldState = self._reset(self._problem)
        self.record = self._tell(reward=0.0, done=False)

    @property
    def level(self) -> Level:
        """The world as it stands, as a level at its natural size."""
        return text.crop_level(dynamics.as_level(self._state.domain))

    @property
    def place(self) -> tuple[int, int]:
        """The machine and its state where the task stands."""
        return place_in_task(self._problem.task, self._state.task)

    @property
    def graph(self) -> Graph:
        """The task as a student's encoder sees it."""
        return self._formalism.graph(self._problem.task)

    @property
    def nodes(self) -> np.ndarray:
        """The rows of that graph where the task stands, innermost first; -1 unused."""
        return np.asarray(self._formalism.nodes(self._state.task))

    @property
    def steps(self) -> int:
        """Actions taken so far."""
        return int(self._state.time)

    @property
    def view(self) -> np.ndarray:
        """What the agent sees, as cells."""
        return np.asarray(dynamics.view(self._state.domain))

    def act(self, action: int) -> Record:
        """Take an action."""
        self._state, step = self._step(self._problem, self._state, jnp.int32(action))
        self.record = self._tell(float(step.reward), bool(step.done) or self.steps >= self._step_limit)
        return self.record

    def _tell(self, reward: float, done: bool) -> Record:
        domain = self._state.domain
        view, label = (np.asarray(x) for x in _look(domain))
        row, column = domain.position.tolist()
        carried = int(domain.carrying)
        return Record(
            position=(row, column),
            direction=int(domain.direction),
            carrying=None if carried == grid.NOTHING else grid.cell_name(carried),
            view=[[grid.cell_name(code) for code in line] for line in view.tolist()],
            label=frozenset(alphabet.NAMES[i] for i in np.flatnonzero(label)),
            task_state=task_state_name(self._problem.task, self._state.task) if self._has_task else None,
            reward=reward,
            done=done,
        )


def place_in_task(task: RewardMachine | Hierarchy, state: Any) -> tuple[int, int]:
    """The machine and its state where a task stands; a flat task is machine 0."""
    if isinstance(task, RewardMachine):
        return 0, int(state)
    machine, inner = divmod(int(np.asarray(state.nodes)[0]), task.size.states)
    return machine, inner


def task_state_name(task: RewardMachine | Hierarchy, state: Any) -> str:
    """The name of where a task stands; states of machines that were called are told with the machine."""
    machine, inner = place_in_task(task, state)
    outcome = np.asarray(task.outcome).reshape(-1, task.size.states)
    name = state_name(inner, int(outcome[machine, inner]))
    is_root = isinstance(task, RewardMachine) or machine == int(task.root)
    return name if is_root else f"{machine_name(machine)}:{name}"


@functools.cache
def _compiled(flat: bool) -> tuple[Any, Any, Any]:
    """The formalism of a kind of task, and `reset` and `step` of its world, compiled once for each size of problem."""
    formalism = (RewardMachines if flat else Hierarchies)(sample=_no_sampler)
    world = World(Minigrid(MinigridConfig()), formalism, step_limit=NO_LIMIT)
    return formalism, jax.jit(world.reset), jax.jit(world.step)


def _no_sampler(key: Any, mask: Any) -> Any:
    raise AtlasError("a replay draws no tasks")


@jax.jit
def _look(state: Any) -> tuple[jax.Array, jax.Array]:
    return dynamics.view(state), alphabet.label(state)


def _roomy(task: RewardMachine | Hierarchy) -> RewardMachine | Hierarchy:
    """A flat task padded to a size that many share, so that few programs are compiled."""
    if not isinstance(task, RewardMachine):
        return task
    sizes = zip(task.size, TaskSize(states=8, edges=4, literals=4), strict=True)
    return rm.resize(task, TaskSize(*(max(least, 1 << (size - 1).bit_length()) for size, least in sizes)))


# Watch somebody play one problem: every moment, what was thought of doing in it, and what was hoped for.
#
# Any problem fits any policy: sizes come from the problem.

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
