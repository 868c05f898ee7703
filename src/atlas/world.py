"""The environment of one problem: a domain's level under a formalism's task.

The world joins a domain and a formalism without knowing either: the formalism says which literals are on the edges of
the current task state, the domain says whether their propositions hold.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, SupportsIndex, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int, Int32, UInt8

from atlas.errors import AtlasError, nearest
from atlas.settings import STEP_LIMIT
from atlas.struct import Struct
from atlas.types import Domain, DomainState, Formalism, Graph, Guide, MapMaker, Problem, Task, TaskState
from atlas.vocabulary import ACCEPTED, RUNNING


class WorldState(Struct):
    """State of an episode."""

    domain: DomainState
    task: TaskState
    time: Int32[Array, ""]
    """Steps taken in this episode."""
    seen: Any = None
    """What was seen in this episode, for the map of a student that has one."""
    live: Bool[Array, "nodes"] | None = None
    """The nodes of the task from which it can be accepted, for the marks on that map."""
    outlook: Any = None
    """How far acceptance is from everywhere in this problem, for rewards that are shaped by it."""


class Step(Struct):
    """The result of a step."""

    reward: Float32[Array, ""]
    done: Bool[Array, ""]
    """The episode ended: accepted, rejected or truncated."""
    accepted: Bool[Array, ""]
    """This step completed the task."""
    truncated: Bool[Array, ""]
    """The step limit ended the episode while the task was running."""


@dataclass(frozen=True)
class World:
    """Reset and step. Episodes do not restart by themselves: see `restart`."""

    domain: Domain
    formalism: Formalism
    step_limit: int
    has_map: bool = False
    """Whether views come with a map of what was seen, which the domain makes."""
    guide: Guide | None = None
    """Shapes rewards by how far acceptance is, with a discount: potential-based, so best policies stay best
    where the value of what was cut off is bootstrapped (`student.ppo.truncation`)."""
    gamma: float = 1.0

    def with_map(self, wanted: bool) -> "World":
        """The same world, whose views come with a map or without."""
        if wanted and not isinstance(self.domain, MapMaker):
            name = type(self.domain).__name__
            raise AtlasError(f"student.network.map = true is not allowed: {name} makes no maps of what was seen")
        return replace(self, has_map=wanted)

    @property
    def view_shape(self) -> tuple[int, int]:
        """Rows and columns of what the student sees."""
        return self._map_maker.map_shape if self.has_map else self.domain.view_shape

    @property
    def view_fields(self) -> tuple[int, ...]:
        """How many values each field of a byte of it takes; the last field has the lowest bits."""
        return self._map_maker.map_fields if self.has_map else self.domain.view_fields

    @property
    def _map_maker(self) -> MapMaker:
        assert isinstance(self.domain, MapMaker)
        return self.domain

    def reset(self, problem: Problem) -> WorldState:
        """The initial state. The task consumes the first label, without reward."""
        domain = self.domain.reset(problem.level)
        task, _ = self._advance(problem.task, self.formalism.initial(problem.task), domain)
        return WorldState(
            domain=domain,
            task=task,
            time=jnp.int32(0),
            seen=self._seen(None, domain),
            live=_live(self.formalism.graph(problem.task)) if self.has_map else None,
            outlook=None if self.guide is None else self.guide.outlook(problem),
        )

    def _seen(self, before: Any, domain: DomainState) -> Any:
        return self._map_maker.remember(before, domain) if self.has_map else None

    def view(self, task: Task, state: WorldState) -> UInt8[Array, "rows cols"]:
        """What the student sees, in bytes. On a map, what leads the task on from where it stands may be marked, and
        what makes it impossible."""
        if not self.has_map:
            return self.domain.view(state.domain)
        assert state.live is not None, "the state of a world without a map"
        literals, nodes = self.formalism.guards(task, state.task).astype(jnp.int32), self.formalism.nodes(state.task)
        wanted, forbidden = literals > 0, jnp.zeros(literals.shape, bool)
        if len(nodes) == 1:  # without calls: it is known where an edge leads
            target = self.formalism.graph(task).target[nodes[0]]
            leaves, leads_on = (target >= 0) & (target != nodes[0]), state.live[target]
            wanted, forbidden = wanted & (leaves & leads_on)[:, None], wanted & (leaves & ~leads_on)[:, None]
        asked = [jnp.where(which, literals - 1, -1).reshape(-1) for which in (wanted, forbidden)]
        return self._map_maker.view_with_map(state.domain, state.seen, *asked)

    def trivial(self, problem: Problem, start: WorldState) -> Bool[Array, ""]:
        """Whether the task is over after the first label. `start` is the result of `reset`."""
        return self.formalism.outcome(problem.task, start.task) != RUNNING

    def step(self, problem: Problem, state: WorldState, action: Int[Array, ""]) -> tuple[WorldState, Step]:
        """One action and at most one transition of the task. If the task was over already, the episode ends with reward
        0."""
        domain = self.domain.step(state.domain, action)
        task, reward = self._advance(problem.task, state.task, domain)
        before = self.formalism.outcome(problem.task, state.task)
        after = self.formalism.outcome(problem.task, task)
        time = state.time + 1
        over = after != RUNNING
        truncated = ~over & (time >= self.step_limit)
        result = Step(
            reward=reward,
            done=over | truncated,
            accepted=(before == RUNNING) & (after == ACCEPTED),
            truncated=truncated,
        )
        reached = state.replace(domain=domain, task=task, time=time, seen=self._seen(state.seen, domain))
        if self.guide is not None:
            gained = self.gamma * self._potential(problem.task, reached) - self._potential(problem.task, state)
            result = result.replace(reward=reward + gained)
        return reached, result

    def _potential(self, task: Task, state: WorldState) -> Float32[Array, ""]:
        """How near acceptance is; 0 once the task is over, so that shaping takes only the potential of the start,
        mostly 0, from the discounted return of a finished episode."""
        assert self.guide is not None
        near = self.guide.progress(state.outlook, self.formalism.nodes(state.task)[0], state.domain)
        return jnp.where(self.formalism.outcome(task, state.task) == RUNNING, near, 0.0)

    def _advance(self, task: Task, task_state: TaskState, domain: DomainState) -> tuple[TaskState, Float32[Array, ""]]:
        literals = self.formalism.guards(task, task_state).astype(jnp.int32)
        # Unused literals (0) ask about proposition 0; the formalism ignores the answer.
        holds = self.domain.holds(domain, jnp.maximum(jnp.abs(literals) - 1, 0))
        return self.formalism.advance(task, task_state, holds)


def _live(graph: Graph) -> Bool[Array, "nodes"]:
    """The nodes of a task from which it can be accepted, as far as its graph tells."""
    return jax.lax.fori_loop(
        0,
        len(graph.outcome) - 1,
        lambda _, reach: reach | jnp.any((graph.target >= 0) & reach[graph.target], axis=1),
        graph.outcome == ACCEPTED,
    )


Action = SupportsIndex | str
"""A number, or a name such as `forward` or `pick_up`."""


def action_number(action: Action | Any, actions: Sequence[str]) -> int:
    """The number of an action, from what agents hand over: a number, an array of one, a name."""
    known = ", ".join(f"{number} {name}" for number, name in enumerate(actions))
    if isinstance(action, str):
        name = action.strip().lower().replace(" ", "_")
        if name.isdecimal():
            return action_number(int(name), actions)
        if name in actions:
            return actions.index(name)
        raise AtlasError(f"'{action}' is no action{nearest(name, actions) or f'; there are {known}'}")
    array = np.asarray(action)
    if array.dtype.kind not in "iu" or array.size != 1:
        raise AtlasError(f"{action!r} is no action: a whole number is needed")
    number = int(array.reshape(()))
    if not 0 <= number < len(actions):
        raise AtlasError(f"{number} is no action; there are {known}")
    return number


def action_numbers(text: str, actions: Sequence[str]) -> list[int]:
    """The numbers of actions in a line, by number or name, as plans are printed: `right, pick up, forward x3`."""
    found: list[int] = []
    words, longest = text.replace(",", " ").split(), max(name.count("_") + 1 for name in actions)
    while words:
        times = re.fullmatch(r"[xX×](\d{1,6})", words[0])
        if times is not None and found:
            if not 1 <= int(times[1]) <= STEP_LIMIT:
                raise AtlasError(f"'{words[0]}' is not possible: from x1 to x{STEP_LIMIT} is allowed")
            found += [found[-1]] * (int(times[1]) - 1)
            del words[0]
            continue
        names = (n for n in range(min(longest, len(words)), 1, -1) if "_".join(words[:n]).lower() in actions)
        taken = next(names, 1)
        found.append(action_number(" ".join(words[:taken]), actions))
        del words[:taken]
    return found


Tree = TypeVar("Tree")


def restart(done: Bool[Array, ""], start: Tree, state: Tree) -> Tree:
    """The start where the episode is done, else the state."""
    return jax.tree.map(lambda a, b: jnp.where(done, a, b), start, state)
