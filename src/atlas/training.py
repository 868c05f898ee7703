"""One training step for every teacher: propose, play, assess, learn, observe. Pure; no disk, no clock.

Rollout and update are traced once each. `lax.cond` outside `vmap` is a true branch: an iteration that only scores new
problems costs no gradient work.

A step is compiled as programs side by side: one proposes problems, another does the rest (each of them twice where
batches that are only scored have another size), and where the teacher has a choice a small one decides which. The first
is much code that runs for a short time, so in short runs the compiler takes less trouble with it.
"""

import os
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache, cached_property
from threading import Thread
from typing import Any, Final, Literal, NamedTuple

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
LESSON: Final = 1 << 30
"""Tells the key of the plans shown in an iteration from those that learning splits off the same one."""
ROWS: Final = ("problems", "lineage")
"""The fields of a proposal that are sharded by rows."""


class _Keys(NamedTuple):
    """The random keys of an iteration."""

    next: Key[Array, ""]
    """Of the next one."""
    decide: Key[Array, ""]
    propose: Key[Array, ""]
    play: Key[Array, ""]
    learn: Key[Array, ""]


def _keys(key: Key[Array, ""]) -> _Keys:
    following, decide, iterate = jax.random.split(key, 3)
    return _Keys(following, decide, *jax.random.split(iterate, 3))


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
    """Share of the time limit used so far, measured by the host; None unless a schedule follows the clock."""
    teacher: Any
    resume: Any
    """Carry between rollouts: the episodes that the next one continues; None unless the teacher carries them over.
    Nothing to do with resuming a run: the name is that of arrays in checkpoints."""
    iterations: Int32[Array, ""]
    trained: Int32[Array, ""]
    """Iterations with an update. Env steps are counted on the host: they overflow 32 bits."""
    shown: Any = None
    """Plans that the student is shown; None where there is no cloning. They never change, so they are kept once with a
    run and not with each state."""

    @property
    def policy(self) -> Any:
        """The parameters to examine and to keep."""
        return self.params if self.average is None else self.average


def without_shown(state: TrainState) -> TrainState:
    """What is kept of a state, or of its shapes or shardings: all but the plans that are shown."""
    return TrainState.unchecked(**vars(state) | {"shown": None})


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
    """A run as pure functions: `init(key)`, `step(state)`. It is handed who takes part."""

    teacher: Teacher
    plan: Plan
    """What the teacher's settings mean."""
    score: ScoreFn
    init_student: Callable[[Key[Array, ""]], tuple[Any, Any]]
    """Initial parameters and optimiser state."""
    play: Callable[[Key[Array, ""], Any, Any, Any], Play]
    """From (key, parameters, problems, carry of the last rollout): a rollout on a batch of problems."""
    learn: Callable[[Key[Array, ""], Any, Any, Any, Any, Any], tuple[Any, Any, Any]]
    """From (key, parameters, optimiser, rollout, rate, lesson): both of them updated, and a struct of losses."""
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
    """Whether a schedule follows the host's clock."""
    shown: Any = None
    """The shapes of the plans that the student is shown; None where there is no cloning."""
    lesson: Callable[[Key[Array, ""], TrainState], Any] | None = None
    """Draws some of those plans to learn from in one iteration, and tells the weight of imitating them."""
    is_brief: bool = False
    """Whether it is over sooner than the compiler would be with all of its passes."""
    is_long: bool = False
    """Whether it may take longer than some minutes, so that the compiler takes its time for all of an iteration."""

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
            shown=jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), self.shown),
        )

    def step(self, state: TrainState) -> tuple[TrainState, Metrics]:
        """One iteration: propose, play, assess, maybe learn, observe."""
        train = self.decide(state.key, state.teacher)
        if not self.has_two_shapes:
            return self.iterate(state, train)
        return _either(train, lambda train: self.iterate(state, train))

    def iterate(self, state: TrainState, train: bool | Bool[Array, ""]) -> tuple[TrainState, Metrics]:
        """An iteration that trains, or one that only scores problems."""
        teacher, proposal = self.propose(state.key, state.teacher, train)
        return self.conclude(state.replace(teacher=teacher), proposal, train)

    @property
    def has_two_shapes(self) -> bool:
        """Whether iterations that only score have another number of problems than those that train. Where they have
        the same, the rollout is compiled once."""
        return self.plan.num_eval not in (None, self.plan.num_train)

    def decide(self, key: Key[Array, ""], teacher: Any) -> bool | Bool[Array, ""]:
        """Whether the iteration with this key trains."""
        return True if self.plan.num_eval is None else self.teacher.decide(_keys(key).decide, teacher)

    def propose(self, key: Key[Array, ""], teacher: Any, train: bool | Bool[Array, ""]) -> tuple[Any, Proposal]:
        """The first part of an iteration: its problems, and the teacher's state after proposing them."""

        def propose(train: bool) -> tuple[Any, Proposal]:
            after, proposal = self.teacher.propose(_keys(key).propose, teacher, train)
            return after, self._constrained(proposal, *ROWS)

        return _either(train, propose)

    def conclude(
        self, state: TrainState, proposal: Proposal, train: bool | Bool[Array, ""]
    ) -> tuple[TrainState, Metrics]:
        """The rest of an iteration: play what was proposed, assess it, maybe learn, observe."""
        keys = _keys(state.key)

        def learn(train: bool) -> tuple[Any, Any, Any]:
            if not train:
                return state.params, state.optimiser, self.no_losses
            rate = self.anneal(state) if self.anneal else None
            lesson = self.lesson(jax.random.fold_in(keys.learn, LESSON), state) if self.lesson else None
            return self.learn(keys.learn, state.params, state.optimiser, play.rollout, rate, lesson)

        play = self.play(keys.play, state.params, proposal.problems, state.resume)
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
            key=keys.next,
            params=params,
            average=self._averaged(state, params, train),
            optimiser=optimiser,
            teacher=self.teacher.observe(state.teacher, proposal, outcome),
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
        """Iterations as compiled programs; the memory of the state they are given is used again."""
        return Compiled(self)

    @cached_property
    def compiled_init(self) -> Callable[[Key[Array, ""]], TrainState]:
        """`init`, compiled; its result is where it belongs."""
        where: Any = {} if self.layout.mesh is None else {"out_shardings": self.shardings}
        options = compiler_options("brief" if self.is_brief else "few calls")
        return jax.jit(self._init, compiler_options=options, **where)

    @cached_property
    def _init(self) -> Callable[[Key[Array, ""]], TrainState]:
        """`init`, always as the same object: JAX traces it once for its shapes and the program."""
        return self.init

    @cached_property
    def shapes(self) -> TrainState:
        """A state without content."""
        shapes: TrainState = jax.eval_shape(self._init, jax.random.key(0))
        return shapes

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
            shown=False,
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

    def with_shown(self, state: TrainState, shown: Any) -> TrainState:
        """A state whose student is shown these plans."""
        if self.layout.mesh is None:
            return state.replace(shown=jax.tree.map(jnp.asarray, shown))
        where = jax.tree.map(lambda leaf: self.layout.sharding(leaf, REPLICATED), shown)
        return state.replace(shown=self.layout.place(shown, where))

    def place(self, state: TrainState) -> TrainState:
        """A state that every process has whole, on the devices."""
        if self.layout.mesh is None:
            return state
        return self.layout.place(state, without_shown(self.shardings) if state.shown is None else self.shardings)


LEVEL: Final = "xla_backend_optimization_level"
Effort = Literal["best", "light", "few calls", "brief"]


def compiler_options(effort: Effort) -> dict[str, Any] | None:
    """What the compiler is told of a program.

    For one that is called a few times it leaves out passes that take long, and on CPUs its newer way to compile loops;
    for one that runs for a small part of a short run ("light") little more than the latter, which saves it most of its
    work and makes the program a sixth to a third slower. For a run that is over in seconds it does the least it can.
    Sums of floats may be rounded otherwise; whole numbers are the same.
    """
    if effort == "best" or LEVEL in os.environ.get("XLA_FLAGS", ""):
        return None
    if jax.default_backend() != "cpu":
        return None if effort == "light" else {LEVEL: 1}
    return {LEVEL: {"light": 2, "few calls": 1, "brief": 0}[effort], "xla_cpu_use_fusion_emitters": False}


Obtain = Callable[[str, Callable[[], Any]], Callable[[], Any]]
"""From the name of a program and what lowers it: a function that compiles it, or has it from somewhere else. Lowering
holds Python's lock, so it is done before that function is called, where it is needed."""
DECIDE, PROPOSE, CONCLUDE = "decide", "propose", "conclude"


class Compiled:
    """Iterations of a trainer, compiled when they are first called for, or before that in threads of their own."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self._started: dict[str, Future[Any]] = {}

    def __call__(self, state: TrainState, n: Any) -> tuple[TrainState, Metrics]:
        """The state after `n` iterations, and their metrics added up; with 0 of them everything is compiled. How
        iterations are grouped into calls changes nothing."""
        self.start()
        programs = {name: started.result() for name, started in self._started.items()}
        totals = self._nothing
        for _ in range(int(n)):
            kind, given = "", tuple[Any, ...]()
            if DECIDE in programs:
                train = _wait(programs[DECIDE](state.key, state.teacher))
                kind, given = (_kind(bool(train)), ()) if self.trainer.has_two_shapes else ("", (train,))
            teacher, proposal = _wait(programs[PROPOSE + kind](state.key, state.teacher, *given))
            state = state.replace(teacher=teacher)
            state, totals = _wait(programs[CONCLUDE + kind](state, proposal, totals, *given))
        return state, totals

    @cached_property
    def _nothing(self) -> Metrics:
        """Metrics of no iterations, on the devices."""
        nothing = jax.device_get(self.trainer.nothing())
        where = jax.tree.map(lambda leaf: leaf.sharding, self._shapes(jax.eval_shape(self.trainer.nothing)))
        return self.trainer.layout.place(nothing, where)

    def start(self, obtain: Obtain | None = None) -> None:
        """Trace now, and compile while the caller does something else: the compiler does not hold Python's lock, and
        tracing does."""
        if self._started:
            return
        obtain = obtain or (lambda _, lower: lower().compile)
        started = {}
        for name, lower in self.programs().items():
            started[name] = future = Future[Any]()
            # Python waits for such a thread at its end: taken down under it, the compiler would crash.
            Thread(target=_settle, args=(future, obtain(name, lower)), name=f"compiler: {name}").start()
        self._started = started

    def programs(self) -> dict[str, Callable[[], Any]]:
        """All programs by name, in the order in which they are called, each as a function that lowers it."""
        trainer = self.trainer
        if trainer.plan.num_eval is None:
            return self._both("", True)
        state, choice = self._state, self._shapes(jax.eval_shape(lambda: jnp.bool_(True)))
        decide = {DECIDE: lambda: self._lower(trainer.decide, (state.key, state.teacher), lambda: choice)}
        if trainer.has_two_shapes:
            return decide | self._both(_kind(True), True) | self._both(_kind(False), False)
        return decide | self._both("", choice)

    def _both(self, kind: str, train: Any) -> dict[str, Callable[[], Any]]:
        """`propose` and `conclude`; if only the shape of `train` is given, it is their last argument."""
        trainer, state, nothing = self.trainer, self._state, self._shapes(jax.eval_shape(self.trainer.nothing))
        given = () if isinstance(train, bool) else (train,)

        def propose(key: Key[Array, ""], teacher: Any, *given: Any) -> tuple[Any, Proposal]:
            return trainer.propose(key, teacher, *(given or (train,)))

        def conclude(state: TrainState, proposal: Proposal, totals: Metrics, *given: Any) -> tuple[TrainState, Metrics]:
            state, metrics = trainer.conclude(state, proposal, *(given or (train,)))
            return state, add(totals, metrics)

        asked = (state.key, state.teacher, *given)

        @cache
        def proposal() -> Proposal:
            return self._shapes(jax.eval_shape(propose, *asked)[1], *ROWS)

        return {
            PROPOSE + kind: lambda: self._lower(
                propose, asked, lambda: (state.teacher, proposal()), "best" if trainer.is_long else "light", 1
            ),
            CONCLUDE + kind: lambda: self._lower(
                conclude, (state, proposal(), nothing, *given), lambda: (state, nothing), "best", 0
            ),
        }

    def _lower(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        results: Callable[[], Any],
        effort: Effort = "light",
        donated: int | None = None,
    ) -> Any:
        """Trace a program for arguments of some shapes; the shapes of its results say where they belong."""
        options = compiler_options("brief" if self.trainer.is_brief else effort)
        where: Any = {}
        if self.trainer.layout.mesh is not None:
            where = {"out_shardings": jax.tree.map(lambda leaf: leaf.sharding, results())}
        return jax.jit(function, donate_argnums=donated, compiler_options=options, **where).lower(*arguments)

    @cached_property
    def _state(self) -> TrainState:
        """The shapes of a state, and where its parts live."""
        trainer = self.trainer
        return trainer.shapes if trainer.layout.mesh is None else _located(trainer.shapes, trainer.shardings)

    def _shapes(self, tree: Any, *rows: str) -> Any:
        """The shapes of a tree of which some fields are sharded by rows and all else is replicated."""
        layout = self.trainer.layout
        if layout.mesh is None:
            return tree

        def located(part: Any, axis: int) -> Any:
            return _located(part, jax.tree.map(lambda leaf: layout.sharding(leaf, axis), part))

        if not rows:
            return located(tree, REPLICATED)
        return tree.unchecked(**{n: located(x, 0 if n in rows else REPLICATED) for n, x in vars(tree).items()})


def _located(shapes: Any, shardings: Any) -> Any:
    """Shapes that say where they live."""
    return jax.tree.map(lambda leaf, where: leaf.update(sharding=where), shapes, shardings)


def _wait(results: Any) -> Any:
    """On CPUs: several devices may wait for each other for good when programs are queued."""
    return jax.block_until_ready(results) if jax.default_backend() == "cpu" else results  # type: ignore[no-untyped-call]


def _kind(train: bool) -> str:
    return ", training" if train else ", scoring"


def _settle(future: "Future[Any]", make: Callable[[], Any]) -> None:
    try:
        future.set_result(make())
    except BaseException as error:
        future.set_exception(error)


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
