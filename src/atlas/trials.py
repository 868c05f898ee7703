"""A set of problems put to a policy. Sizes come from the set: any set fits any policy, whatever it was trained on."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from atlas.config import DomainConfig, NetworkConfig
from atlas.domains.minigrid.domain import Minigrid
from atlas.errors import AtlasError
from atlas.evaluate import Actor, Evaluator, Queue, StudentActor
from atlas.runs.batch import stack
from atlas.student.encode import INDEX_STATES
from atlas.student.network import Student
from atlas.tasks.hrm import MAX_NODES, Hierarchies, Hierarchy
from atlas.tasks.rm import RewardMachines
from atlas.types import Problem
from atlas.world import World

STEP_LIMIT: Final = DomainConfig().step_limit
LANES: Final = 256
"""Attempts that are played side by side, at most."""
STRIDE: Final = 32
"""Steps between two looks at how far the work is."""

Progress = Callable[[int, int], None]
"""Told how many attempts of how many are finished."""


@dataclass(frozen=True, eq=False)
class Attempts:
    """What became of every attempt at every problem."""

    solved: np.ndarray
    """`bool[problems, attempts]`"""
    steps: np.ndarray
    """`int32[problems, attempts]`: how long each took."""


@dataclass(frozen=True, eq=False)
class _Batch:
    """Problems of one kind, and where they stand in the set."""

    problems: Problem
    numbers: np.ndarray
    world: World

    @cached_property
    def graphs(self) -> Any:
        return jax.jit(jax.vmap(self.world.formalism.graph))(self.problems.task)


class Trials:
    """Attempts at all problems of a set, for one policy after the other; programs are compiled once."""

    def __init__(
        self,
        problems: Sequence[Problem],
        attempts: int = 10,
        step_limit: int = STEP_LIMIT,
        greedy: bool = False,
        seed: int = 0,
        lanes: int = LANES,
    ) -> None:
        for name, value in (("attempts", attempts), ("step_limit", step_limit), ("lanes", lanes)):
            if value < 1:
                raise AtlasError(f"{name} = {value} is not allowed: at least 1 is needed")
        self.problems, self.attempts, self.greedy, self.lanes = problems, attempts, greedy, lanes
        self.key_noise, self.key_act = jax.random.split(jax.random.key(seed))
        self.batches = list(_batches(problems, step_limit))
        self._actors: dict[NetworkConfig, tuple[StudentActor, Any]] = {}
        self._compiled: dict[Any, Any] = {}

    def of_student(self, student: Student, params: Any, progress: Progress = lambda *_: None) -> Attempts:
        """What a student makes of them."""
        self._require_fit(student.config)
        if student.config not in self._actors:
            actor = StudentActor(student, self.greedy)
            self._actors[student.config] = actor, jax.jit(actor.know)
        actor, know = self._actors[student.config]

        def prepare(batch: _Batch) -> Any:
            keys = jax.vmap(jax.random.fold_in, (None, 0))(self.key_noise, batch.numbers)
            return know(keys, params, batch.graphs)

        return self.of_actor(actor, prepare, progress)

    def of_actor(self, actor: Actor, prepare: Callable[[Any], Any], progress: Progress = lambda *_: None) -> Attempts:
        """What an actor makes of them. `prepare` says what it knows of a batch; `batch.numbers` are its problems."""
        shape = (len(self.problems), self.attempts)
        result = Attempts(np.zeros(shape, bool), np.zeros(shape, np.int32))
        done, total = 0, math.prod(shape)
        for batch in self.batches:
            jobs = len(batch.numbers) * self.attempts

            def tell(finished: int, before: int = done) -> None:
                progress(before + finished, total)

            solved, steps = self._play(actor, batch, prepare(batch), jobs, tell)
            result.solved[batch.numbers], result.steps[batch.numbers] = solved, steps
            done += jobs
        return result

    def _play(
        self, actor: Actor, batch: _Batch, known: Any, jobs: int, tell: Callable[[int], None]
    ) -> tuple[np.ndarray, np.ndarray]:
        lanes = math.ceil(jobs / math.ceil(jobs / self.lanes))  # the last round is as full as the others
        prepare, begin, play = self._functions(actor, batch, lanes)
        course = prepare(self.key_act, batch.problems, batch.numbers)
        queue: Queue = begin(course)
        while (finished := int(queue.finished)) < jobs:
            tell(finished)
            queue = play(known, course, queue)
        tell(jobs)
        return tuple(np.asarray(x).reshape(self.attempts, -1).T for x in (queue.solved, queue.steps))  # type: ignore[return-value]

    def _functions(self, actor: Actor, batch: _Batch, lanes: int) -> tuple[Any, Any, Any]:
        """The compiled parts of an evaluator, kept for the next policy."""
        name = actor, id(batch)
        if name not in self._compiled:
            evaluator = Evaluator(batch.world, actor)
            self._compiled[name] = (
                jax.jit(lambda key, problems, numbers: evaluator.course(key, problems, numbers, self.attempts)),
                jax.jit(lambda course: evaluator.begin(course, lanes)),
                jax.jit(lambda known, course, queue: evaluator.play(known, course, queue, STRIDE), donate_argnums=2),
            )
        return self._compiled[name]

    def _require_fit(self, network: NetworkConfig) -> None:
        """The one ablation that binds a policy to a number of states says so before anything is compiled."""
        if network.task != "index":
            return
        nodes, batch = max(((b.graphs.outcome.shape[1], b) for b in self.batches), key=lambda pair: pair[0])
        if nodes > INDEX_STATES:
            sizes = [math.prod(np.asarray(self.problems[i].task.outcome).shape) for i in batch.numbers]
            largest: Any = self.problems[batch.numbers[int(np.argmax(sizes))]]
            raise AtlasError(
                f"the policy was trained with the ablation student.network.task = index, which tells at most "
                f"{INDEX_STATES} states apart, and this set needs {nodes} (the task of {_name(largest)} is the largest)"
            )


def _name(problem: Problem) -> str:
    return f"'{name}'" if (name := getattr(problem, "name", "")) else "one problem"


def _batches(problems: Sequence[Problem], step_limit: int) -> Iterator[_Batch]:
    """Flat tasks in one batch; hierarchies apart, in as many as their sizes need."""
    domain = Minigrid(DomainConfig())
    nested = [i for i, problem in enumerate(problems) if isinstance(problem.task, Hierarchy)]
    flat = sorted({*range(len(problems))} - {*nested})
    for numbers in [flat] * bool(flat) + list(_fitting(problems, nested)):
        formalism: Any = (Hierarchies if numbers[0] in nested else RewardMachines)(sample=_no_sampler)
        batch = stack([problems[i] for i in numbers])
        yield _Batch(batch, np.array(numbers, np.int32), World(domain, formalism, step_limit))


def _fitting(problems: Sequence[Problem], nested: list[int]) -> Iterator[list[int]]:
    """Hierarchies in groups whose common size is possible."""
    group: list[int] = []
    for number in sorted(nested, key=lambda i: (problems[i].task.size[0], problems[i].task.size[1], i)):
        sizes = [problems[i].task.size for i in (*group, number)]
        if group and max(s[0] for s in sizes) * max(s[1] for s in sizes) > MAX_NODES:
            yield group
            group = []
        group = [*group, number]
    if group:
        yield group


def _no_sampler(key: Any, mask: Any) -> Any:
    raise AssertionError("an evaluation draws no tasks")


def attempt(student: Student, params: Any, problems: Sequence[Problem], **options: Any) -> Attempts:
    """Attempts of one student at some problems; the options are those of `Trials`."""
    return Trials(problems, **options).of_student(student, jax.tree.map(jnp.asarray, params))
