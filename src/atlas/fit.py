"""The loop: call the training step again and again, and let hooks look on.

Only hooks touch disk and terminal. How iterations are grouped into calls follows the clock and changes nothing about
the result, so a run that was stopped and resumed ends where it would have ended anyway.
"""

import ctypes
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np

from atlas.config import Config
from atlas.errors import AtlasError
from atlas.training import NEVER, Metrics, Trainer, TrainState
from atlas.types import KINDS
from atlas.ued import buffer as buffers

CALL_SECONDS = 1.5
"""How long one call of the compiled step should take."""
MOST_ITERATIONS = 512
"""Most iterations in one call."""


class NotANumber(AtlasError):
    """Training went wrong beyond repair."""


@dataclass
class Moment:
    """What hooks get after each call. A hook that runs before the metrics are written may add to them."""

    state: TrainState
    iteration: int
    trained: int
    steps: int
    """Env steps so far, evaluation-only ones included."""
    seconds: float
    """Time spent, over all stretches of the run."""
    last: bool
    """The run ends here: it is done, out of time, or was asked to stop."""
    record: dict[str, Any] = field(default_factory=dict)
    stopped: bool = False
    """It was asked to stop."""
    uncharged: list[float] = field(default_factory=list)
    """Seconds that hooks took to compile something: they do not count as time of the run."""


Hook = Callable[[Moment], None]


class SyncedStatus(NamedTuple):
    """Values that are the same in all processes that train together."""

    iterations_per_call: int
    """Iterations in the next call."""
    seconds: float
    """Time spent so far."""
    stop: bool
    """Somebody asked to stop."""


class StateUpdate(NamedTuple):
    """A change of the train state from outside of the compiled step, every so many iterations."""

    every: int
    act: Callable[[TrainState], TrainState]


def fit(
    trainer: Trainer,
    config: Config,
    state: TrainState,
    hooks: Sequence[Hook] = (),
    stop: Callable[[], bool] = lambda: False,
    seconds: float = 0.0,
    agree: Callable[[SyncedStatus], SyncedStatus] = lambda mine: mine,
    next_mark: Callable[[int], int] | None = None,
    update: StateUpdate | None = None,
) -> TrainState:
    """Train until the env steps or the time are used up, or `stop` says so. `seconds` were spent before; if nothing is
    left, nothing is done.

    Hooks see the state after the first iteration that reaches the end or `next_mark(steps)`, and in between as the
    clock has it.

    `update` changes the state after every so many iterations, before hooks look.

    Where several processes train together, `agree` makes one status of theirs; it is called before the first iteration
    and after each call.
    """
    run = config.run
    begin = time.monotonic() - seconds
    status, iteration, trained = agree(SyncedStatus(1, seconds, False)), int(state.iterations), int(state.trained)
    steps = config.env_steps(iteration, trained)
    while not is_over(config, steps, status.seconds):
        started = time.monotonic()
        goal = min(run.total_steps, next_mark(steps)) if next_mark else run.total_steps
        most = max(1, (goal - steps) // config.longest_iteration)  # so many cannot overshoot it, whatever their kind
        if update:
            most = min(most, update.every - iteration % update.every)
        if trainer.by_clock:
            state = trainer.with_clock(state, clock_share(config, status.seconds))
        state, totals = trainer.compiled(state, np.int32(min(status.iterations_per_call, most)))
        metrics: Metrics = jax.device_get(totals)
        if metrics.bad != NEVER:
            raise NotANumber(
                f"the losses of iteration {metrics.bad} are not numbers, so training stopped; the last checkpoint is "
                "from before it and is kept (a smaller student.ppo.learning_rate may help)"
            )
        took, before = time.monotonic() - started, iteration
        iteration, trained = int(state.iterations), int(state.trained)
        steps = config.env_steps(iteration, trained)
        if update and iteration % update.every == 0:
            state = update.act(state)
        affordable = int(CALL_SECONDS / took * (iteration - before))
        per_call = max(1, min(MOST_ITERATIONS, 2 * status.iterations_per_call, affordable))
        status = agree(SyncedStatus(per_call, time.monotonic() - begin, stop()))
        last = status.stop or is_over(config, steps, status.seconds)
        moment = Moment(state, iteration, trained, steps, status.seconds, last, stopped=status.stop)
        moment.record = _record(trainer, moment, metrics, took, config)
        for hook in hooks:
            hook(moment)
        begin += sum(moment.uncharged)
        if last:
            break
    return state


def is_over(config: Config, steps: int, seconds: float) -> bool:
    """Whether the env steps or the time of a run are used up."""
    run = config.run
    return steps >= run.total_steps or (run.time_limit is not None and seconds >= 60 * run.time_limit)


def clock_share(config: Config, seconds: float) -> float:
    """How much of its time a run has used."""
    limit = config.run.time_limit
    return 0.0 if limit is None else min(1.0, seconds / (60 * limit))


def compile_step(trainer: Trainer, state: TrainState) -> TrainState:
    """Compile before the clock of the first iteration runs, and give back the memory that the compiler held: glibc
    would keep it, and that is more than training needs."""
    state, _ = trainer.compiled(state, np.int32(0))
    with suppress(OSError, AttributeError, TypeError):  # other C libraries have no such function
        ctypes.CDLL(None).malloc_trim(0)
    return state


def _record(trainer: Trainer, moment: Moment, metrics: Metrics, took: float, config: Config) -> dict[str, Any]:
    """The numbers of one call, by name."""

    def by_kind(total: Any, count: Any) -> dict[str, float]:
        """Means by kind of batch, of the kinds that occurred."""
        return {kind: float(t) / float(c) for kind, t, c in zip(KINDS, total, count, strict=True) if c > 0}

    new_steps = config.env_steps(int(metrics.iterations.sum()), int(metrics.trained))
    record: dict[str, Any] = {
        "iteration": moment.iteration,
        "trained": moment.trained,
        "steps": moment.steps,
        "seconds": round(moment.seconds, 3),
        "steps_per_second": round(new_steps / took, 1),
        "iterations": by_kind(metrics.iterations, np.ones(len(KINDS))),
        "solve_rate": by_kind(metrics.solves, metrics.attempts),
        "score": by_kind(metrics.score, metrics.problems),
        "trivial": by_kind(metrics.trivial, metrics.problems),
    }
    if trainer.plan.pool > 1 and (episodes := int(metrics.attempts.sum())):
        record["repeats"] = int(metrics.repeats) / episodes
    if metrics.trained:
        record["losses"] = {
            name: float(v) / int(metrics.trained) for name, v in vars(metrics.losses).items() if v is not None
        }
    memory = trainer.teacher.memory(moment.state.teacher)
    if memory is not None:
        record["buffer"] = {"fill": int(buffers.fill(memory)), "capacity": len(memory.records.filled)}
    if tell := getattr(trainer.teacher, "tell", None):
        record |= {"teacher": told} if (told := tell(moment.state.teacher)) else {}
    return record
