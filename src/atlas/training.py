"""One training step for every teacher: propose, play, assess, learn, observe. Pure; no disk, no clock.

Rollout and update are traced once each. `lax.cond` outside `vmap` is a true branch: an iteration that only scores new
problems costs no gradient work.
"""

import os
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from threading import Thread
from typing import Any, Final, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int32, Key

from atlas.devices import ALONE, REPLICATED, Layout
from atlas.struct import Struct
from atlas.types import KINDS, Echoes, Outcome, Partial, Proposal, Teacher
from atlas.ued import Plan
from atlas.ued.scores import Played, ScoreFn, assess

NEVER: Final = -1


class Play(Struct):
    """A rollout, and what the teacher's side needs to know of it."""

    rollout: Any
    """The data that the student learns from."""
    played: Played
    trivial: Bool[Array, "batch"]
    partial: Partial
    resume: Any
    """Carry to the next rollout: its unfinished episodes; None where every rollout starts anew."""
    echo: Echoes | None = None
    """Tasks read off what was played, where the teacher wants them."""


class TrainState(Struct):
    """Everything that a run is made of."""

    key: Key[Array, ""]
    params: Any
    average: Any
    """An exponential moving average (EMA) of the parameters; None where none is kept."""
    optimiser: Any
    clock: Float32[Array, ""] | None
    """Share of the time limit used so far, measured by the host; None unless the learning rate follows the clock."""
    teacher: Any
    resume: Any
    """Carry between rollouts: the episodes that the next one continues; None unless the teacher carries them over.
    Nothing to do with resuming a run: the name is that of arrays in checkpoints."""
    iterations: Int32[Array, ""]
    trained: Int32[Array, ""]
    """Iterations with an update. Env steps are counted on the host: they overflow 32 bits."""

    @property
    def policy(self) -> Any:
        """The parameters to examine and to keep."""
        return self.params if self.average is None else self.average


class Metrics(Struct):
    """Sums over iterations, by kind of batch."""

    iterations: Int32[Array, "kinds"]
    problems: Int32[Array, "kinds"]
    trivial: Int32[Array, "kinds"]
    attempts: Int32[Array, "kinds"]
    """Finished episodes."""
    solves: Int32[Array, "kinds"]
    repeats: Int32[Array, ""]
    """Finished episodes on a problem that its environment had already played in this rollout: the pool ran out."""
    score: Float32[Array, "kinds"]
    trained: Int32[Array, ""]
    """Iterations with an update: the number to divide losses by."""
    losses: Any
    bad: Int32[Array, ""]
    """The first iteration whose losses were not finite; NEVER if all were."""


def annealing(plan: Plan, share: float) -> Callable[[TrainState], Float32[Array, ""]]:
    """The share of the run that is still to come, by env steps or by the host's clock: what the learning rate is
    multiplied by. `share` is how much of the run the rollout of one environment is."""

    def remaining(state: TrainState) -> Float32[Array, ""]:
        scored = (state.iterations - state.trained).astype(jnp.float32) * (plan.num_eval or 0)
        envs = scored + state.trained.astype(jnp.float32) * plan.num_train
        done = envs * share
        return jnp.maximum(0.0, 1.0 - (done if state.clock is None else jnp.maximum(done, state.clock)))

    return remaining


@dataclass(frozen=True)
class Trainer:
    """A run as pure functions: `init(key)`, `step(state)`, `steps(state, n)`. It is handed who takes part."""

    teacher: Teacher
    plan: Plan
    """What the teacher's settings mean."""
    score: ScoreFn
    init_student: Callable[[Key[Array, ""]], tuple[Any, Any]]
    """Initial parameters and optimiser state."""
    play: Callable[[Key[Array, ""], Any, Any, Any], Play]
    """From (key, parameters, problems, carry of the last rollout): a rollout on a batch of problems."""
    learn: Callable[[Key[Array, ""], Any, Any, Any, Any], tuple[Any, Any, Any]]
    """From (key, parameters, optimiser, rollout, rate): both of them updated, and a struct of losses."""
    no_losses: Any
    """Losses that are all zero."""
    resume: Any = None
    """Carry into the very first rollout; None where every rollout starts anew."""
    layout: Layout = ALONE
    """How rows are divided among devices."""
    average: float = 0.0
    """Decay of the exponential moving average (EMA) of the parameters; 0: there is none."""
    anneal: Callable[[TrainState], Float32[Array, ""]] | None = None
    """What the learning rate is multiplied by; None: nothing."""
    by_clock: bool = False
    """Whether the learning rate follows the host's clock."""
    is_brief: bool = False
    """Whether it is over sooner than the compiler would be with all of its passes."""

    def init(self, key: Key[Array, ""]) -> TrainState:
        """The state before the first iteration."""
        key, key_student, key_teacher = jax.random.split(key, 3)
        params, optimiser = self.init_student(key_student)
        return TrainState(
            key=key,
            params=params,
            average=params if self.average else None,
            optimiser=optimiser,
            clock=jnp.float32(0.0) if self.by_clock else None,
            teacher=self.teacher.init(key_teacher),
            resume=self.resume,
            iterations=jnp.int32(0),
            trained=jnp.int32(0),
        )

    def step(self, state: TrainState) -> tuple[TrainState, Metrics]:
        """One iteration: propose, play, assess, maybe learn, observe."""
        key, key_decide, key_iterate = jax.random.split(state.key, 3)
        state = state.replace(key=key)
        if self.plan.num_eval is None:
            return self._iterate(key_iterate, state, True)
        train = self.teacher.decide(key_decide, state.teacher)
        if self.plan.num_train == self.plan.num_eval:  # one shape: then the rollout is compiled once, too
            return self._iterate(key_iterate, state, train)
        return _either(train, lambda train: self._iterate(key_iterate, state, train))

    def _iterate(
        self, key: Key[Array, ""], state: TrainState, train: bool | Bool[Array, ""]
    ) -> tuple[TrainState, Metrics]:
        key_propose, key_play, key_learn = jax.random.split(key, 3)

        def propose(train: bool) -> tuple[Any, Proposal]:
            teacher, proposal = self.teacher.propose(key_propose, state.teacher, train)
            return teacher, self._constrained(proposal, "problems", "lineage")

        def learn(train: bool) -> tuple[Any, Any, Any]:
            if not train:
                return state.params, state.optimiser, self.no_losses
            rate = self.anneal(state) if self.anneal else None
            return self.learn(key_learn, state.params, state.optimiser, play.rollout, rate)

        teacher, proposal = _either(train, propose)
        play = self.play(key_play, state.params, proposal.problems, state.resume)
        repeats = jnp.int32(0)
        if self.plan.pool > 1:
            episodes = jnp.sum(play.played.done, axis=0, dtype=jnp.int32)
            repeats = jnp.sum(jnp.maximum(episodes - self.plan.pool, 0))
            # Only the first problem of each pool is assessed: teachers with pools keep no scores.
            proposal = jax.tree.map(lambda x: x[:: self.plan.pool] if x.ndim else x, proposal)
        outcome = assess(self.score, play.played, play.trivial, play.partial, proposal).replace(echo=play.echo)
        outcome = self._constrained(outcome, "partial", "echo")
        params, optimiser, losses = _either(train, learn)
        after = state.replace(
            params=params,
            average=self._averaged(state, params, train),
            optimiser=optimiser,
            teacher=self.teacher.observe(teacher, proposal, outcome),
            resume=play.resume,
            iterations=state.iterations + 1,
            trained=state.trained + train,
        )
        return after, _measure(after.iterations, proposal, outcome, repeats, losses, train)

    def _averaged(self, state: TrainState, params: Any, train: bool | Bool[Array, ""]) -> Any:
        """The exponential moving average (EMA) of the parameters after an update; it begins as a plain mean."""
        if not self.average:
            return None
        updates = state.trained.astype(jnp.float32)
        keep = jnp.where(train, jnp.minimum(self.average, (updates + 1) / (updates + 10)), 1.0)
        return jax.tree.map(lambda old, new: keep * old + (1.0 - keep) * new, state.average, params)

    def _constrained(self, told: Any, *rows: str) -> Any:
        """Shard some fields of a proposal or an outcome by rows, and replicate the others: every device needs what
        the teacher judges by."""
        fields = vars(told).items()
        return told.replace(**{n: self.layout.shard(x) if n in rows else self.layout.replicate(x) for n, x in fields})

    def steps(self, state: TrainState, n: Int32[Array, ""]) -> tuple[TrainState, Metrics]:
        """Several iterations in one call, their metrics added up. How they are grouped changes nothing."""

        def once(_: Array, carry: tuple[TrainState, Metrics]) -> tuple[TrainState, Metrics]:
            state, total = carry
            state, metrics = self.step(state)
            return state, add(total, metrics)

        return jax.lax.fori_loop(0, n, once, (state, self.nothing()))

    def nothing(self) -> Metrics:
        """The metrics of no iteration at all."""
        zeros = jnp.zeros(len(KINDS), jnp.int32)
        return Metrics(
            iterations=zeros,
            problems=zeros,
            trivial=zeros,
            attempts=zeros,
            solves=zeros,
            repeats=jnp.int32(0),
            score=jnp.zeros(len(KINDS)),
            trained=jnp.int32(0),
            losses=self.no_losses,
            bad=jnp.int32(NEVER),
        )

    @cached_property
    def compiled(self) -> "Compiled":
        """`steps`, compiled once; the memory of the state it is given is used again."""
        options = compiler_options("brief" if self.is_brief else "best")
        if self.layout.mesh is None:
            return Compiled(self, jax.jit(self.steps, donate_argnums=0, compiler_options=options))
        metrics = jax.tree.map(lambda leaf: self.layout.sharding(leaf, REPLICATED), jax.eval_shape(self.nothing))
        state = self.shardings
        where: Any = {"in_shardings": (state, None), "out_shardings": (state, metrics)}
        return Compiled(self, jax.jit(self.steps, donate_argnums=0, compiler_options=options, **where))

    @cached_property
    def compiled_init(self) -> Callable[[Key[Array, ""]], TrainState]:
        """`init`, compiled; its result is where it belongs."""
        where: Any = {} if self.layout.mesh is None else {"out_shardings": self.shardings}
        return jax.jit(self.init, compiler_options=compiler_options("brief" if self.is_brief else "few calls"), **where)

    @cached_property
    def shapes(self) -> TrainState:
        """A state without content."""
        return jax.eval_shape(self.init, jax.random.key(0))

    @cached_property
    def shardings(self) -> Any:
        """Where each part of a state lives, for several devices: problems and running episodes are divided, all else
        is small and replicated."""
        rows = TrainState.unchecked(
            key=False,
            params=False,
            average=False,
            optimiser=False,
            clock=False,
            teacher=self.teacher.rows,
            resume=True,
            iterations=False,
            trained=False,
        )

        def shard(divided: bool, part: Any) -> Any:
            return jax.tree.map(lambda leaf: self.layout.sharding(leaf, 0 if divided else REPLICATED), part)

        return jax.tree.map(shard, rows, self.shapes)

    def with_clock(self, state: TrainState, share: float) -> TrainState:
        """A state that knows how much of its time the run has used."""
        clock: Any = jnp.float32(share)
        if self.layout.mesh is not None:
            clock = self.layout.place(np.float32(share), self.layout.sharding(clock, REPLICATED))
        return state.replace(clock=clock)

    def place(self, state: TrainState) -> TrainState:
        """A state that every process has whole, on the devices."""
        return state if self.layout.mesh is None else self.layout.place(state, self.shardings)


LEVEL: Final = "xla_backend_optimization_level"
Effort = Literal["best", "few calls", "brief"]


def compiler_options(effort: Effort) -> dict[str, Any] | None:
    """What the compiler is told of a program. For one that is called a few times it leaves out passes that take long:
    level 1 gave the same bits as the default on most programs that were compared, not on the step of `quick` on two
    devices. For a run that is over in seconds it does the least it can, on CPUs without its newer way to compile loops.
    """
    if effort == "best" or LEVEL in os.environ.get("XLA_FLAGS", ""):
        return None
    if effort == "few calls" or jax.default_backend() != "cpu":
        return {LEVEL: 1}
    return {LEVEL: 0, "xla_cpu_use_fusion_emitters": False}


class Compiled:
    """`Trainer.steps`, compiled when it is first called, or before that in a thread of its own."""

    def __init__(self, trainer: Trainer, jitted: Any) -> None:
        self.trainer, self.jitted = trainer, jitted
        self._started: Future[Any] | None = None

    def __call__(self, state: TrainState, n: Any) -> tuple[TrainState, Metrics]:
        step = self.jitted if self._started is None else self._started.result()
        state, metrics = step(state, n)
        return state, metrics

    def lower(self, shapes: TrainState | None = None) -> Any:
        """Traced, for a state of these shapes, where its parts belong."""
        return self.jitted.lower(shapes or self.trainer.shapes, jax.eval_shape(lambda: jnp.int32(0)))

    def start(self, compile_now: Callable[[], Any] | None = None) -> None:
        """Trace now, and compile while the caller does something else: the compiler does not hold Python's lock, and
        tracing does. A function that is given instead may have the program already."""
        if self._started is None:
            compile_now = compile_now or self.lower().compile
            self._started = Future()
            # Python waits for such a thread at its end: taken down under it, the compiler would crash.
            Thread(target=self._compile, args=(self._started, compile_now), name="compiler").start()

    def _compile(self, started: "Future[Any]", compile_now: Callable[[], Any]) -> None:
        try:
            started.set_result(compile_now())
        except BaseException as error:
            started.set_exception(error)


def _either(train: bool | Bool[Array, ""], branch: Callable[[bool], Any]) -> Any:
    """`branch(train)`, whether it is known while tracing or not."""
    if isinstance(train, bool):
        return branch(train)
    return jax.lax.cond(train, lambda: branch(True), lambda: branch(False))


def _measure(
    iteration: Int32[Array, ""],
    proposal: Proposal,
    outcome: Outcome,
    repeats: Int32[Array, ""],
    losses: Any,
    train: bool | Bool[Array, ""],
) -> Metrics:
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(losses)]))
    here = jnp.arange(len(KINDS)) == proposal.kind

    def total(x: Array) -> Array:
        return jnp.where(here, jnp.sum(x), 0).astype(jnp.int32)

    return Metrics(
        iterations=here.astype(jnp.int32),
        problems=here * jnp.int32(len(proposal.slots)),
        trivial=total(outcome.trivial),
        attempts=total(outcome.attempts),
        solves=total(outcome.solves),
        repeats=repeats,
        score=jnp.where(here, jnp.sum(outcome.score), 0.0),
        trained=jnp.asarray(train, jnp.int32),
        losses=losses,
        bad=jnp.where(finite, NEVER, iteration),
    )


def add(a: Metrics, b: Metrics) -> Metrics:
    """The metrics of both; of two bad iterations the first counts."""
    total: Metrics = jax.tree.map(jnp.add, a, b)
    return total.replace(bad=jnp.where(a.bad == NEVER, b.bad, a.bad))
