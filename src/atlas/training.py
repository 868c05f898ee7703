"""One training step for every teacher: propose, play, assess, learn, observe. Pure; no disk, no clock.

Rollout and update are traced once each. `lax.cond` outside `vmap` is a true branch: an iteration that only scores new
problems costs no gradient work.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32, Int32, Key

from atlas.devices import ALONE, COPY, Layout
from atlas.struct import Struct
from atlas.types import Outcome, Partial, Proposal, Teacher
from atlas.ued.scores import Played, ScoreFn, assess

KINDS: Final = ("new", "replayed", "edited")
"""What a batch of problems can be."""
NEVER: Final = -1
DIVIDED: Final = {"problems", "lineage", "partial", "resume"}
"""Fields of a state with a row for each problem or environment. All others are small: every device has a copy."""


class Play(Struct):
    """A rollout, and what the teacher's side needs to know of it."""

    rollout: Any
    """Whatever the student learns from."""
    played: Played
    trivial: Bool[Array, "batch"]
    partial: Partial
    resume: Any
    """What the next rollout may continue from; None where every rollout starts anew."""


class TrainState(Struct):
    """Everything that a run is made of."""

    key: Key[Array, ""]
    params: Any
    optimiser: Any
    teacher: Any
    resume: Any
    """Where the rollouts of a teacher that carries episodes over stand; else None."""
    iterations: Int32[Array, ""]
    trained: Int32[Array, ""]
    """Iterations with an update. Env steps are counted on the host: they overflow 32 bits."""


class Metrics(Struct):
    """Sums over iterations, by kind of batch."""

    iterations: Int32[Array, "kinds"]
    problems: Int32[Array, "kinds"]
    trivial: Int32[Array, "kinds"]
    attempts: Int32[Array, "kinds"]
    """Finished episodes."""
    solves: Int32[Array, "kinds"]
    score: Float32[Array, "kinds"]
    trained: Int32[Array, ""]
    """Iterations with an update: the number to divide losses by."""
    losses: Any
    bad: Int32[Array, ""]
    """The first iteration whose losses were not finite; NEVER if all were."""


@dataclass(frozen=True)
class Trainer:
    """A run as pure functions: `init(key)`, `step(state)`, `steps(state, n)`. It is handed who takes part."""

    teacher: Teacher
    score: ScoreFn
    begin: Callable[[Key[Array, ""]], tuple[Any, Any]]
    """The student at birth: parameters and the state of their optimiser."""
    play: Callable[[Key[Array, ""], Any, Any, Any], Play]
    """From (key, parameters, problems, resume): a rollout on a batch of problems."""
    learn: Callable[[Key[Array, ""], Any, Any, Any], tuple[Any, Any, Any]]
    """From (key, parameters, optimiser, rollout): both of them updated, and a struct of losses."""
    no_losses: Any
    """Losses that are all zero."""
    resume: Any = None
    """What the very first rollout continues from."""
    layout: Layout = ALONE
    """How rows are divided among devices."""

    def init(self, key: Key[Array, ""]) -> TrainState:
        """The state before the first iteration."""
        key, key_student, key_teacher = jax.random.split(key, 3)
        params, optimiser = self.begin(key_student)
        return TrainState(
            key=key,
            params=params,
            optimiser=optimiser,
            teacher=self.teacher.init(key_teacher),
            resume=self.resume,
            iterations=jnp.int32(0),
            trained=jnp.int32(0),
        )

    def step(self, state: TrainState) -> tuple[TrainState, Metrics]:
        """One iteration: propose, play, assess, maybe learn, observe."""
        key, key_decide, key_iterate = jax.random.split(state.key, 3)
        state = state.replace(key=key)
        if not self.teacher.only_scores:
            return self._iterate(key_iterate, state, True)
        train = self.teacher.decide(key_decide, state.teacher)
        if self.teacher.num_train == self.teacher.num_eval:  # one shape: then the rollout is compiled once, too
            return self._iterate(key_iterate, state, train)
        return _either(train, lambda train: self._iterate(key_iterate, state, train))

    def steps(self, state: TrainState, n: Int32[Array, ""]) -> tuple[TrainState, Metrics]:
        """Several iterations in one call, their metrics added up. How they are grouped changes nothing."""

        def once(_: Array, carry: tuple[TrainState, Metrics]) -> tuple[TrainState, Metrics]:
            state, total = carry
            state, metrics = self.step(state)
            return state, add(total, metrics)

        return jax.lax.fori_loop(0, n, once, (state, self.nothing()))

    @cached_property
    def compiled(self) -> Callable[[TrainState, Any], tuple[TrainState, Metrics]]:
        """`steps`, compiled once; the memory of the state it is given is used again."""
        if self.layout.mesh is None:
            return jax.jit(self.steps, donate_argnums=0)
        metrics = jax.tree.map(lambda leaf: self.layout.sharding(leaf, COPY), jax.eval_shape(self.nothing))
        state = self.shardings
        return jax.jit(self.steps, donate_argnums=0, in_shardings=(state, None), out_shardings=(state, metrics))

    @cached_property
    def compiled_init(self) -> Callable[[Key[Array, ""]], TrainState]:
        """`init`, compiled; its result is where it belongs."""
        return jax.jit(self.init) if self.layout.mesh is None else jax.jit(self.init, out_shardings=self.shardings)

    @cached_property
    def shapes(self) -> TrainState:
        """A state without content."""
        return jax.eval_shape(self.init, jax.random.key(0))

    @cached_property
    def shardings(self) -> Any:
        """Where each part of a state lives, for several devices."""

        def sharding(path: tuple[Any, ...], leaf: Any) -> Any:
            divided = any(getattr(key, "name", None) in DIVIDED for key in path)
            return self.layout.sharding(leaf, 0 if divided else COPY)

        return jax.tree_util.tree_map_with_path(sharding, self.shapes)

    def place(self, state: TrainState) -> TrainState:
        """A state that every process has whole, on the devices."""
        return state if self.layout.mesh is None else self.layout.place(state, self.shardings)

    def nothing(self) -> Metrics:
        """The metrics of no iteration at all."""
        zeros = jnp.zeros(len(KINDS), jnp.int32)
        return Metrics(
            iterations=zeros,
            problems=zeros,
            trivial=zeros,
            attempts=zeros,
            solves=zeros,
            score=jnp.zeros(len(KINDS)),
            trained=jnp.int32(0),
            losses=self.no_losses,
            bad=jnp.int32(NEVER),
        )

    def _iterate(
        self, key: Key[Array, ""], state: TrainState, train: bool | Bool[Array, ""]
    ) -> tuple[TrainState, Metrics]:
        key_propose, key_play, key_learn = jax.random.split(key, 3)
        teacher, proposal = _either(train, lambda train: self._propose(key_propose, state.teacher, train))
        play = self.play(key_play, state.params, proposal.problems, state.resume)
        proposal = _first_of_each_pool(proposal, self.teacher.pool)
        outcome = self._spread(assess(self.score, play.played, play.trivial, play.partial, proposal))
        params, optimiser, losses = _either(train, lambda train: self._learn(key_learn, state, play.rollout, train))
        state = state.replace(
            params=params,
            optimiser=optimiser,
            teacher=self.teacher.observe(teacher, proposal, outcome),
            resume=play.resume,
            iterations=state.iterations + 1,
            trained=state.trained + train,
        )
        return state, _measure(state.iterations, proposal, outcome, losses, train)

    def _propose(self, key: Key[Array, ""], teacher: Any, train: bool) -> tuple[Any, Proposal]:
        teacher, proposal = self.teacher.propose(key, teacher, train)
        return teacher, self._spread(proposal)

    def _spread(self, told: Any) -> Any:
        """What is proposed or came of it: its problems are divided; what the teacher judges by is known everywhere."""
        return type(told).unchecked(
            **{n: self.layout.rows(x) if n in DIVIDED else self.layout.copies(x) for n, x in vars(told).items()}
        )

    def _learn(self, key: Key[Array, ""], state: TrainState, rollout: Any, train: bool) -> tuple[Any, Any, Any]:
        if not train:
            return state.params, state.optimiser, self.no_losses
        return self.learn(key, state.params, state.optimiser, rollout)


def _either(train: bool | Bool[Array, ""], branch: Callable[[bool], Any]) -> Any:
    """`branch(train)`, whether it is known while tracing or not."""
    if isinstance(train, bool):
        return branch(train)
    return jax.lax.cond(train, lambda: branch(True), lambda: branch(False))


def _first_of_each_pool(proposal: Proposal, pool: int) -> Proposal:
    """What is assessed where environments take several problems in turn: teachers that do so keep no scores."""
    return jax.tree.map(lambda x: x[::pool], proposal) if pool > 1 else proposal


def _measure(
    iteration: Int32[Array, ""], proposal: Proposal, outcome: Outcome, losses: Any, train: bool | Bool[Array, ""]
) -> Metrics:
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(losses)]))
    edited = proposal.lineage.parent[0] >= 0
    kind = jnp.where(proposal.slots[0] >= 0, 1, jnp.where(edited, 2, 0))
    here = jnp.arange(len(KINDS)) == kind

    def total(x: Array) -> Array:
        return jnp.where(here, jnp.sum(x), 0).astype(jnp.int32)

    return Metrics(
        iterations=here.astype(jnp.int32),
        problems=here * jnp.int32(len(proposal.slots)),
        trivial=total(outcome.trivial),
        attempts=total(outcome.attempts),
        solves=total(outcome.solves),
        score=jnp.where(here, jnp.sum(outcome.score), 0.0),
        trained=jnp.asarray(train, jnp.int32),
        losses=losses,
        bad=jnp.where(finite, NEVER, iteration),
    )


def add(a: Metrics, b: Metrics) -> Metrics:
    """The metrics of both; of two bad iterations the first counts."""
    total: Metrics = jax.tree.map(jnp.add, a, b)
    return total.replace(bad=jnp.where(a.bad == NEVER, b.bad, a.bad))
