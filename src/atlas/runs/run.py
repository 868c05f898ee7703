"""A run from its folder's point of view: build it, restore it, let it go on, keep what it did."""

import errno
import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import jax
import numpy as np

from atlas.build import build, observer, parts
from atlas.config import Config
from atlas.devices import ALONE, Layout
from atlas.evaluation.sets import Exam, HeldOut, obtain
from atlas.fit import Hook, Moment, fit
from atlas.runs.checkpoints import RATE, Checkpoints
from atlas.runs.display import Rates, display, rates
from atlas.runs.folder import RunError, RunFolder
from atlas.runs.hosts import Team
from atlas.runs.metrics import JsonLines, Sink
from atlas.runs.snapshots import Snapshots, forget_after
from atlas.runs.store import blank_arrays, from_arrays, remember_compiled, to_arrays, write_whole
from atlas.training import Trainer, TrainState

# What is kept between processes so that it need not be made again: compiled programs, held-out problems.


# A run on disk: its config, metrics, checkpoints and snapshots, and a lock against a second process.


# A run from its folder's point of view: build it, restore it, let it go on, keep what it did.

LONG = 20.0
"""Seconds of preparation that are worth a word."""


@dataclass
class Result:
    """How a run, or a stretch of it, ended."""

    folder: Path
    iteration: int
    steps: int
    seconds: float
    stopped: bool
    """It was asked to stop before its end."""
    before: Rates
    """Held-out solve rates of the untrained student."""
    after: Rates

    def plain(self) -> dict[str, Any]:
        return {**vars(self), "folder": str(self.folder)}


@dataclass
class Due:
    """Says when something is to be done again."""

    every: float
    last: float
    """Seconds into the run when it was done last. The run's own clock: it is the same on all hosts."""

    def __call__(self, moment: Moment) -> bool:
        if not (moment.last or moment.seconds - self.last >= self.every):
            return False
        self.last = moment.seconds
        return True


def go(
    folder: RunFolder,
    config: Config,
    sinks: tuple[Sink, ...] = (),
    quiet: bool = False,
    layout: Layout = ALONE,
    team: Team | None = None,
) -> Result:
    """Train in a folder, from its last good checkpoint if there is one. Other hosts `follow`."""
    team = team or Team()
    remember_compiled()
    trainer, made = build(config, layout), parts(config)
    with _disk(folder), ExitStack() as closing:
        exam = Exam(made, _held_out(folder, config, quiet))
        checkpoints = Checkpoints(folder.checkpoints, config.run.keep)
        closing.callback(checkpoints.close)
        state, seconds, before = _begin(trainer, config, checkpoints, exam, team, quiet)
        iteration = int(state.iterations)
        forget_after(folder, iteration)
        result = Result(folder.path, iteration, _steps(config, state), seconds, False, before, before)
        writers = (JsonLines(folder.metrics_file, iteration), *sinks)
        for writer in writers:
            closing.callback(writer.close)
        snapshots = Snapshots(folder, config, observer(made, trainer))
        looking_on, saving = _look_on(exam, snapshots, result), _save(checkpoints, result)
        looks, saves = _timetable(config, layout, team, seconds, looking_on, saving)
        hooks: list[Hook] = [looks, _note(result), lambda moment: _write(writers, moment)]
        if not quiet:
            shown = display(config, str(folder.path), before)
            closing.callback(shown.close)
            hooks.append(shown)
        hooks.append(saves)
        stop = closing.enter_context(stop_on_signals())
        fit(trainer, config, state, hooks, lambda: bool(stop), seconds, team.everyone)
    with _disk(folder):
        write_whole(folder.summary_file, json.dumps(result.plain(), indent=2) + "\n")
    return result


@contextmanager
def _disk(folder: RunFolder) -> Iterator[None]:
    """Trouble with the disk as one sentence."""
    try:
        yield
    except OSError as error:
        reason = "the disk is full" if error.errno == errno.ENOSPC else (error.strerror or str(error)).lower()
        raise RunError(
            f"cannot write to {folder.path}: {reason}; what was saved before is kept, and `atlas resume {folder.path}` "
            "goes on from there"
        ) from error


def _held_out(folder: RunFolder, config: Config, quiet: bool) -> HeldOut:
    """The problems to be examined on; says how long they took if that was long."""
    started = time.monotonic()
    chosen = obtain(folder.held_out_file, config)
    took = time.monotonic() - started
    if took >= LONG and not quiet:
        print(f"{len(chosen)} held-out problems, each proven solvable, took {took:.0f} s; they are kept", flush=True)
    return chosen


def follow(config: Config, layout: Layout, team: Team) -> None:
    """Take part in a run that host 0 keeps: compute what it computes, and be there when it looks at the state."""
    remember_compiled()
    trainer = build(config, layout)
    told = team.everyone(None)[0]
    if told["resumed"]:
        state = trainer.place(_broadcast(None, trainer.shapes, team))
    else:
        state = trainer.compiled_init(jax.random.key(config.run.seed))
        layout.here(state.params)
    hooks = _timetable(config, layout, team, told["seconds"], _stand_by, _stand_by)
    with stop_on_signals() as stop:
        fit(trainer, config, state, hooks, lambda: bool(stop), told["seconds"], team.everyone)


def _stand_by(moment: Moment) -> None:
    """Nothing is left to do once the state was put together."""


def _timetable(
    config: Config, layout: Layout, team: Team, seconds: float, look_on: Hook, save: Hook
) -> tuple[Hook, Hook]:
    """Both hooks, called now and then and at the end, with the whole state on one device. For this all hosts are
    needed, so all go by the same table."""

    def at_times(due: Due, hook: Hook) -> Hook:
        def perhaps(moment: Moment) -> None:
            if due(moment):
                team.everyone(None)  # the hook before may have taken long: nobody waits inside a computation
                hook(replace(moment, state=layout.here(moment.state)))

        return perhaps

    run = config.run
    return at_times(Due(run.snapshot_every, seconds), look_on), at_times(Due(run.checkpoint_every, seconds), save)


def _begin(
    trainer: Trainer, config: Config, checkpoints: Checkpoints, exam: Exam, team: Team, quiet: bool
) -> tuple[TrainState, float, Rates]:
    """The state to start from, the seconds spent so far, and what the untrained student could do."""
    if not checkpoints.steps():
        team.everyone({"resumed": False, "seconds": 0.0})
        state = trainer.compiled_init(jax.random.key(config.run.seed))
        before = exam.rates(trainer.layout.here(state.params), 0)
        if not quiet:
            words = f"{rates(before)} of {len(exam.chosen)} problems within {exam.chosen.step_limit} steps"
            print(f"untrained, held out: {words}", flush=True)
        return state, 0.0, before
    iteration, state, passed = checkpoints.restore_latest(trainer.shapes)
    for sentence in passed:
        print(f"atlas: {sentence}", file=sys.stderr)
    about = checkpoints.about(iteration)
    team.everyone({"resumed": True, "seconds": float(about["seconds"])})
    return trainer.place(_broadcast(state, trainer.shapes, team)), float(about["seconds"]), about["before"]


def _broadcast(state: TrainState | None, shapes: TrainState, team: Team) -> TrainState:
    """The state that host 0 has, on every host: the others need not see its disk."""
    if team.size == 1:
        assert state is not None
        return state
    from jax.experimental import multihost_utils

    table = blank_arrays(shapes) if state is None else to_arrays(state)
    received: Any = multihost_utils.broadcast_one_to_all(table, is_source=team.leads)
    return from_arrays({name: np.asarray(array) for name, array in received.items()}, shapes)


def _steps(config: Config, state: TrainState) -> int:
    return config.env_steps(int(state.iterations), int(state.trained))


def _look_on(exam: Exam, snapshots: Snapshots, result: Result) -> Hook:
    """How does the student do on held-out problems, and what does the teacher replay?"""

    def look_on(moment: Moment) -> None:
        started = time.monotonic()
        result.after = moment.record["held_out"] = exam.rates(moment.state.params, moment.iteration)
        examined = time.monotonic()
        moment.record["curriculum"] = snapshots.take(moment)
        spent = {"exam": examined - started, "snapshot": time.monotonic() - examined}
        moment.record["looking_on"] = {name: round(seconds, 3) for name, seconds in spent.items()}

    return look_on


def _note(result: Result) -> Hook:
    """How far the run has come."""

    def note(moment: Moment) -> None:
        result.iteration, result.steps, result.seconds = moment.iteration, moment.steps, moment.seconds
        result.stopped = moment.stopped

    return note


def _write(writers: tuple[Sink, ...], moment: Moment) -> None:
    for writer in writers:
        writer.write(moment.record)


def _save(checkpoints: Checkpoints, result: Result) -> Hook:
    """Put everything on disk."""

    def save(moment: Moment) -> None:
        about: dict[str, Any] = {"seconds": moment.seconds, "steps": moment.steps, "before": result.before}
        if "held_out" in moment.record:
            about[RATE] = moment.record["held_out"]["all"]
        checkpoints.save(moment.iteration, moment.state, about)

    return save


@contextmanager
def stop_on_signals() -> Iterator[list[str]]:
    """A list that is empty until SIGTERM or Ctrl-C asks to stop; asking twice interrupts at once."""
    asked: list[str] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(signal.Signals(number).name)
        print("\natlas: stopping after this iteration, and saving; once more to stop at once", file=sys.stderr)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
