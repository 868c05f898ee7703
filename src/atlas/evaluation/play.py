"""How often a student solves problems within a step limit: every problem is attempted several times, without learning.

Attempts stand in a queue, and a fixed number of lanes plays them side by side. A lane whose episode is over takes the
next attempt at once, so that no lane waits for the slowest. What an attempt draws follows from its problem, its number
and the time alone: neither the number of lanes nor the other problems matter. Sizes come from the problems: any
set fits any policy, whatever it was trained on.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int, Int32, Key, UInt8

from atlas.config import NetworkConfig
from atlas.domains import domain_for
from atlas.errors import AtlasError
from atlas.problems import stack
from atlas.runs.hosts import cores
from atlas.settings import STEP_LIMIT
from atlas.struct import Struct
from atlas.student.encode import INDEX_STATES
from atlas.student.network import Observation, Student, sample_action
from atlas.tasks.machine import MAX_STATES, natural_size
from atlas.tasks.packed import RewardMachines, unpack
from atlas.types import Problem
from atlas.vocabulary import ACCEPTED
from atlas.world import World, WorldState, restart

LANES: Final = 256
"""Attempts that are played side by side, at most."""
FOUND: Final = ("solved", "timed_out", "steps", "node")
"""The results that a queue keeps of every attempt."""
LEAST_LANES: Final = 32
"""Attempts that are worth a queue of their own."""
STRIDE: Final = 32
"""Steps between two looks at how far the work is."""
EMBEDDED: Final = 256
"""Tasks that are embedded at once: the encoder needs memory."""


class Turn(Struct):
    """The observations of one step, one row a lane."""

    problem: Int32[Array, "lanes"]
    """Which problem of the batch the lane plays."""
    time: Int32[Array, "lanes"]
    """Steps since the start of the episode; 0 clears the memory."""
    view: UInt8[Array, "lanes rows cols"]
    nodes: Int[Array, "lanes depth"]
    """The task's current nodes: rows of its graph, innermost first (-1 unused)."""
    chance: Float32[Array, "lanes"]
    """A number between 0 and 1 that settles what is left to chance."""


@runtime_checkable
class Actor(Protocol):
    """The player that chooses the actions: a student, or a script."""

    def begin(self, lanes: int) -> Any:
        """Empty memories."""

    def act(self, known: Any, turn: Turn, memory: Any) -> tuple[Any, Int32[Array, "lanes"]]:
        """The next memory and the actions. `known` is whatever the actor needs to know of the problems."""


class Known(Struct):
    """A student's parameters and its embeddings of the tasks."""

    params: Any
    tables: Float32[Array, "problems nodes width"]
    """The embedding of every state of every task."""


class Memory(Struct):
    """A student's state between steps."""

    hidden: Float32[Array, "lanes memory"]
    previous: UInt8[Array, "lanes"]


@dataclass(frozen=True)
class StudentActor:
    """A student that draws its actions, or always takes the likeliest."""

    student: Student
    greedy: bool = False

    def know(self, keys: Key[Array, "problems"], params: Any, graphs: Any) -> Known:
        """Embed the tasks, given as graphs. The keys fix the random node features."""

        def one(both: tuple[Any, Any]) -> Float32[Array, "nodes width"]:
            key, graph = both
            return self.student.embed(params, key[None], jax.tree.map(lambda x: x[None, None], graph))[0]

        tables = jax.lax.map(one, (keys, graphs), batch_size=min(EMBEDDED, len(keys)))
        return Known(params=params, tables=tables)

    def begin(self, lanes: int) -> Memory:
        return Memory(hidden=self.student.initial_hidden(lanes), previous=jnp.zeros(lanes, jnp.uint8))

    def act(self, known: Known, turn: Turn, memory: Memory) -> tuple[Memory, Int32[Array, "lanes"]]:
        rows, nodes = _rows_here(known.tables, turn)
        seen = Observation(view=turn.view, nodes=nodes, previous=memory.previous, start=turn.time == 0)
        hidden, logits, _ = self.student.step(known.params, rows, seen, memory.hidden)
        action = jnp.argmax(logits, -1) if self.greedy else sample_action(turn.chance, logits)[0]
        return Memory(hidden=hidden, previous=action.astype(jnp.uint8)), action.astype(jnp.int32)


def _rows_here(
    tables: Float32[Array, "problems nodes width"], turn: Turn
) -> tuple[Float32[Array, "lanes depth width"], Int32[Array, "lanes depth"]]:
    """Gather each lane's embedding rows for its current task nodes, with re-indexed node ids."""
    used = turn.nodes >= 0
    rows = tables[turn.problem[:, None], jnp.maximum(turn.nodes, 0)]
    numbers = jnp.arange(used.shape[1], dtype=jnp.int32)[None]
    return rows, jnp.where(used, numbers, -1)


class BatchConstants(Struct):
    """Arrays that stay constant while a batch of problems is played."""

    tasks: Any
    starts: WorldState
    """The state each problem starts in."""
    keys: Key[Array, "jobs"]
    """One an attempt. Attempt a at problem p is job `a * problems + p`."""
    trivial: Bool[Array, "problems"]
    """Whether the first label completes the task."""


class Queue(Struct):
    """Attempts under way, waiting and finished."""

    job: Int32[Array, "lanes"]
    """The job that each lane plays; the number of jobs if it has nothing left to do."""
    world: WorldState
    memory: Any
    next: Int32[Array, ""]
    """The first job that no lane has taken yet."""
    end: Int32[Array, ""]
    """The first job that is not for these lanes."""
    unfinished: Int32[Array, ""]
    solved: Bool[Array, "jobs"]
    timed_out: Bool[Array, "jobs"]
    steps: Int32[Array, "jobs"]
    node: Int32[Array, "jobs"]
    """The task's node at the end: a row of its graph, the innermost one of a stack."""


@dataclass(frozen=True)
class BatchedPlayer:
    """Plays a batch of problems, each several times. Its methods can be compiled; `attempts` and `lanes` are static."""

    world: World
    """Its step limit is the time each attempt has."""
    actor: Actor

    def constants(
        self, key: Key[Array, ""], problems: Problem, numbers: Int32[Array, "problems"], attempts: int
    ) -> BatchConstants:
        """Get a batch ready. `numbers` tells the problems apart in the draws."""

        def of(attempt: Int32[Array, ""], number: Int32[Array, ""]) -> Key[Array, ""]:
            return jax.random.fold_in(jax.random.fold_in(key, number), attempt)

        keys = jax.vmap(jax.vmap(of, (None, 0)), (0, None))(jnp.arange(attempts), numbers)
        starts = jax.vmap(self.world.reset)(problems)
        trivial = jax.vmap(self.world.formalism.outcome)(problems.task, starts.task) == ACCEPTED
        return BatchConstants(tasks=problems.task, starts=starts, keys=keys.reshape(-1), trivial=trivial)

    def begin(self, constants: BatchConstants, lanes: int, first: Int32[Array, ""], end: Int32[Array, ""]) -> Queue:
        """All lanes take their first attempts, of the jobs from `first` on and before `end`."""
        jobs = len(constants.keys)
        job = first + jnp.arange(lanes, dtype=jnp.int32)
        job = jnp.where(job < end, job, jobs)
        return Queue(
            job=job,
            world=jax.tree.map(lambda x: x[job % len(constants.starts.time)], constants.starts),
            memory=self.actor.begin(lanes),
            next=jnp.minimum(first + lanes, end),
            end=end,
            unfinished=end - first,
            solved=jnp.zeros(jobs, bool),
            timed_out=jnp.zeros(jobs, bool),
            steps=jnp.zeros(jobs, jnp.int32),
            node=jnp.zeros(jobs, jnp.int32),
        )

    def play(self, known: Any, constants: BatchConstants, queue: Queue, steps: int) -> Queue:
        """Go on for so many steps, or until everything is finished."""

        def unfinished(now: tuple[Int32[Array, ""], Queue]) -> Bool[Array, ""]:
            return (now[0] < steps) & (now[1].unfinished > 0)

        def go_on(now: tuple[Int32[Array, ""], Queue]) -> tuple[Int32[Array, ""], Queue]:
            return now[0] + 1, self._step(known, constants, now[1])

        return jax.lax.while_loop(unfinished, go_on, (jnp.int32(0), queue))[1]

    def _step(self, known: Any, constants: BatchConstants, queue: Queue) -> Queue:
        problem = queue.job % len(constants.starts.time)
        # Only the task of a problem is needed once it has begun.
        problems = Problem.unchecked(level=None, task=jax.tree.map(lambda x: x[problem], constants.tasks))
        turn = self._turn(constants, queue, problem, problems.task)
        memory, action = self.actor.act(known, turn, queue.memory)
        world, step = jax.vmap(self.world.step)(problems, queue.world, action)
        over = step.done & (queue.job < len(constants.keys))
        ended = jnp.where(over, queue.job, len(constants.keys))
        return _refill(
            constants,
            queue.replace(
                world=world,
                memory=memory,
                unfinished=queue.unfinished - jnp.sum(over, dtype=jnp.int32),
                solved=queue.solved.at[ended].set(step.accepted, mode="drop"),
                timed_out=queue.timed_out.at[ended].set(step.truncated, mode="drop"),
                steps=queue.steps.at[ended].set(world.time, mode="drop"),
                node=queue.node.at[ended].set(jax.vmap(self.world.formalism.nodes)(world.task)[:, 0], mode="drop"),
            ),
            over,
        )

    def _turn(self, constants: BatchConstants, queue: Queue, problem: Int32[Array, "lanes"], tasks: Any) -> Turn:
        def draw(key: Key[Array, ""], time: Int32[Array, ""]) -> Float32[Array, ""]:
            return jax.random.uniform(jax.random.fold_in(key, time))

        return Turn(
            problem=problem,
            time=queue.world.time,
            view=jax.vmap(self.world.view)(tasks, queue.world),
            nodes=jax.vmap(self.world.formalism.nodes)(queue.world.task),
            chance=jax.vmap(draw)(constants.keys[queue.job], queue.world.time),
        )


def _refill(constants: BatchConstants, queue: Queue, over: Bool[Array, "lanes"]) -> Queue:
    """Lanes whose episode is over take the next attempts in line."""
    jobs, problems = len(constants.keys), len(constants.starts.time)
    taken = queue.next + jnp.cumsum(over, dtype=jnp.int32) - 1
    job = jnp.where(over, jnp.where(taken < queue.end, taken, jobs), queue.job)
    starts = jax.tree.map(lambda x: x[job % problems], constants.starts)
    return queue.replace(
        job=job,
        world=jax.vmap(restart)(over, starts, queue.world),
        next=jnp.minimum(queue.next + jnp.sum(over, dtype=jnp.int32), queue.end),
    )


Progress = Callable[[int, int], None]
"""Told how many attempts of how many are finished."""


@dataclass(frozen=True, eq=False)
class Attempts:
    """The results of every attempt at every problem."""

    solved: np.ndarray
    """`bool[problems, attempts]`"""
    timed_out: np.ndarray
    """`bool[problems, attempts]`: the step limit ended it; what was neither solved nor timed out was rejected."""
    steps: np.ndarray
    """`int32[problems, attempts]`: how long each took."""
    place: np.ndarray
    """`int32[problems, attempts, 2]`: machine and state of the task where each ended."""
    trivial: np.ndarray
    """`bool[problems]`: the first label completes the task. Such a problem counts as solved in no steps."""


@dataclass(frozen=True, eq=False)
class _Batch:
    """Problems of one kind, and where they stand in the set."""

    problems: Problem
    numbers: np.ndarray
    world: World


class Evaluator:
    """Attempts at all problems of a set, for one policy after the other; programs are compiled once."""

    def __init__(
        self,
        problems: Sequence[Problem],
        attempts: int = 10,
        step_limit: int = STEP_LIMIT,
        greedy: bool = False,
        seed: int = 0,
        lanes: int = LANES,
        jit: Callable[..., Any] = jax.jit,
        jit_once: Callable[..., Any] = jax.jit,
    ) -> None:
        """`jit` compiles what plays, `jit_once` what is called once a policy."""
        for name, value in (("attempts", attempts), ("step_limit", step_limit), ("lanes", lanes)):
            if value < 1:
                raise AtlasError(f"{name} = {value} is not allowed: at least 1 is needed")
        self.problems, self.attempts, self.greedy, self.lanes = problems, attempts, greedy, lanes
        self.seed, self._jit, self._jit_once = seed, jit, jit_once
        self.batches = list(_batches(problems, step_limit))
        self._actors: dict[NetworkConfig, tuple[StudentActor, Any]] = {}
        self._compiled: dict[Any, Any] = {}

    def of_student(
        self, student: Student, params: Any, progress: Progress = lambda *_: None, seed: int | None = None
    ) -> Attempts:
        """Attempts of a student; another seed than the evaluator's gives other draws."""
        self._require_fit(student.config)
        if student.config not in self._actors:
            actor = StudentActor(student, self.greedy)

            def known(key: Key[Array, ""], params: Any, numbers: Int32[Array, "problems"], tasks: Any) -> Known:
                keys = jax.vmap(jax.random.fold_in, (None, 0))(_keys(key)[0], numbers)
                return actor.know(keys, params, _graphs(tasks))

            self._actors[student.config] = actor, self._jit_once(known)
        actor, know = self._actors[student.config]
        key = self._key(seed)
        return self.of_actor(actor, lambda batch: know(key, params, batch.numbers, batch.problems.task), progress, seed)

    def of_actor(
        self,
        actor: Actor,
        prepare: Callable[[Any], Any],
        progress: Progress = lambda *_: None,
        seed: int | None = None,
    ) -> Attempts:
        """Attempts of an actor. `prepare` says what it knows of a batch; `batch.numbers` are its problems."""
        shape = (len(self.problems), self.attempts)
        count = partial(np.zeros, dtype=np.int32)
        result = Attempts(
            solved=np.zeros(shape, bool),
            timed_out=np.zeros(shape, bool),
            steps=count(shape),
            place=count((*shape, 2)),
            trivial=np.zeros(len(self.problems), bool),
        )
        done, total = 0, math.prod(shape)
        for batch in self.batches:
            jobs = len(batch.numbers) * self.attempts

            def tell(finished: int, before: int = done) -> None:
                progress(before + finished, total)

            found, trivial = self._play(actor, batch, prepare(batch), self._key(seed), tell)
            found["place"] = np.stack(np.divmod(found.pop("node"), batch.problems.task.target.shape[-2]), -1)
            for name, rows in found.items():
                by_problem = rows.reshape(self.attempts, -1, *rows.shape[1:]).swapaxes(0, 1)
                getattr(result, name)[batch.numbers] = by_problem
            # What the first label completes is solved before the first step, which ends such an episode.
            done_already = batch.numbers[trivial]
            result.trivial[done_already] = result.solved[done_already] = True
            result.steps[done_already] = 0
            done += jobs
        return result

    def _key(self, seed: int | None) -> Key[Array, ""]:
        return jax.random.key(self.seed if seed is None else seed)

    def _play(
        self, actor: Actor, batch: _Batch, known: Any, key: Key[Array, ""], tell: Callable[[int], None]
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The results of every attempt, and which problems are trivial.

        On a CPU the attempts are divided among as many queues as there are cores: a step of one is a chain of small
        operations, most of which use one core.
        """
        jobs = len(batch.numbers) * self.attempts
        queues = min(cores() if jax.default_backend() == "cpu" else 1, max(1, jobs // LEAST_LANES))
        share, lanes = math.ceil(jobs / queues), math.ceil(self.lanes / queues)
        lanes = math.ceil(share / math.ceil(share / lanes))  # the last round is as full as the others
        prepare, begin, play = self._functions(actor, batch, lanes)
        constants = prepare(key, batch.problems, batch.numbers)
        ends = [min((number + 1) * share, jobs) for number in range(queues)]
        begun = [begin(constants, np.int32(number * share), np.int32(end)) for number, end in enumerate(ends)]
        begun[0] = play(known, constants, begun[0])  # compiled before several threads ask for it
        left = [int(queue.unfinished) for queue in begun]

        def finish(number: int) -> dict[str, np.ndarray]:
            queue = begun[number]
            while (unfinished := int(queue.unfinished)) > 0:
                left[number] = unfinished
                if number == 0:
                    tell(jobs - sum(left))
                queue = play(known, constants, queue)
            left[number], own = 0, slice(number * share, ends[number])
            return {name: np.asarray(getattr(queue, name))[own] for name in FOUND}

        with ThreadPoolExecutor(queues) as pool:
            parts = list(pool.map(finish, range(queues)))
        tell(jobs)
        return {name: np.concatenate([part[name] for part in parts]) for name in FOUND}, np.asarray(constants.trivial)

    def _functions(self, actor: Actor, batch: _Batch, lanes: int) -> tuple[Any, Any, Any]:
        """The compiled parts, kept for the next policy."""
        name = actor, id(batch)
        if name not in self._compiled:
            has_map = isinstance(actor, StudentActor) and actor.student.config.map
            playing = BatchedPlayer(batch.world.with_map(has_map), actor)

            def constants(key: Key[Array, ""], problems: Problem, numbers: Int32[Array, "problems"]) -> BatchConstants:
                return playing.constants(_keys(key)[1], problems, numbers, self.attempts)

            self._compiled[name] = (
                self._jit_once(constants),
                self._jit_once(lambda fixed, first, end: playing.begin(fixed, lanes, first, end)),
                self._jit(
                    lambda known, constants, queue: playing.play(known, constants, queue, STRIDE), donate_argnums=2
                ),
            )
        return self._compiled[name]

    def _require_fit(self, network: NetworkConfig) -> None:
        """The one ablation that binds a policy to a number of states says so before anything is compiled."""
        if network.task != "index":
            return
        nodes, batch = max(((_nodes(b.problems.task), b) for b in self.batches), key=lambda pair: pair[0])
        if nodes > INDEX_STATES:
            sizes = [math.prod(natural_size(unpack(self.problems[i].task))[:2]) for i in batch.numbers]
            largest: Any = self.problems[batch.numbers[int(np.argmax(sizes))]]
            raise AtlasError(
                f"the policy was trained with the ablation student.network.task = index, which tells at most "
                f"{INDEX_STATES} states apart, and this set needs {nodes} (the task of {_name(largest)} is the largest)"
            )


def _keys(key: Key[Array, ""]) -> Key[Array, "2"]:
    """Random keys: for the node features, and for the actions."""
    return jax.random.split(key)


def _graphs(tasks: Any) -> Any:
    return jax.vmap(RewardMachines().graph)(tasks)


def _nodes(tasks: Any) -> int:
    return int(jax.eval_shape(_graphs, tasks).outcome.shape[1])


def _name(problem: Problem) -> str:
    return f"'{name}'" if (name := getattr(problem, "name", "")) else "one problem"


def _batches(problems: Sequence[Problem], step_limit: int) -> Iterator[_Batch]:
    """Flat tasks in one batch; hierarchies apart, in as many as their sizes need."""
    world = World(domain_for(problems[0]), RewardMachines(), step_limit)
    sizes = [natural_size(unpack(problem.task)) for problem in problems]
    groups = [[i for i, size in enumerate(sizes) if size.machines == 1]]
    most = (0, 0)
    for number in sorted((i for i, size in enumerate(sizes) if size.machines > 1), key=lambda i: (*sizes[i][:2], i)):
        most = max(most[0], sizes[number].machines), max(most[1], sizes[number].states)
        if len(groups) == 1 or math.prod(most) > MAX_STATES:
            groups.append([])
            most = sizes[number].machines, sizes[number].states
        groups[-1].append(number)
    for numbers in filter(None, groups):
        yield _Batch(stack([problems[i] for i in numbers]), np.array(numbers, np.int32), world)


def attempt(student: Student, params: Any, problems: Sequence[Problem], **options: Any) -> Attempts:
    """Attempts of one student at some problems; the options are those of `Evaluator`."""
    return Evaluator(problems, **options).of_student(student, jax.tree.map(jnp.asarray, params))
