"""A run from its folder's point of view: build it, restore it, let it go on, keep what it did."""

import errno
import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import jax

from atlas.build import build, env_steps, parts
from atlas.config import Config
from atlas.curriculum import Observer
from atlas.fit import Hook, Moment, fit
from atlas.heldout import Exam, HeldOut
from atlas.runs.cache import remember_compiled
from atlas.runs.checkpoints import RATE, Checkpoints
from atlas.runs.display import Rates, display, rates
from atlas.runs.folder import RunError, RunFolder
from atlas.runs.held_out import obtain
from atlas.runs.metrics import JsonLines, Sink
from atlas.runs.pictures import write_whole
from atlas.runs.snapshots import Snapshots, forget_after
from atlas.train import Trainer, TrainState

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
    last: float = field(default_factory=time.monotonic)

    def __call__(self, moment: Moment) -> bool:
        if not (moment.last or time.monotonic() - self.last >= self.every):
            return False
        self.last = time.monotonic()
        return True


def go(folder: RunFolder, config: Config, sinks: tuple[Sink, ...] = (), quiet: bool = False) -> Result:
    """Train in a folder, from its last good checkpoint if there is one."""
    remember_compiled()
    trainer, made = build(config), parts(config)
    with _disk(folder), ExitStack() as closing:
        exam = Exam(made, _held_out(folder, config, quiet))
        checkpoints = Checkpoints(folder.checkpoints, config.run.keep)
        closing.callback(checkpoints.close)
        state, seconds, before = _begin(trainer, config, checkpoints, exam, quiet)
        iteration = int(state.iterations)
        forget_after(folder, iteration)
        result = Result(folder.path, iteration, _steps(config, state), seconds, False, before, before)
        writers = (JsonLines(folder.metrics_file, iteration), *sinks)
        for writer in writers:
            closing.callback(writer.close)
        snapshots = Snapshots(folder, config, Observer(config, trainer, made.world))
        hooks: list[Hook] = [_look_on(config, exam, snapshots, result), lambda moment: _write(writers, moment)]
        if not quiet:
            shown = display(config, str(folder.path), before)
            closing.callback(shown.close)
            hooks.append(shown)
        hooks.append(_save(config, checkpoints, result))
        stop = closing.enter_context(stop_on_signals())
        fit(trainer, config, state, hooks, lambda: bool(stop), seconds)
        result.stopped = bool(stop)
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


def _begin(
    trainer: Trainer, config: Config, checkpoints: Checkpoints, exam: Exam, quiet: bool
) -> tuple[TrainState, float, Rates]:
    """The state to start from, the seconds spent so far, and what the untrained student could do."""
    start = jax.jit(trainer.init)
    key = jax.random.key(config.run.seed)
    if not checkpoints.steps():
        state = start(key)
        before = exam.rates(state.params, 0)
        if not quiet:
            words = f"{rates(before)} of {len(exam.chosen)} problems within {exam.chosen.step_limit} steps"
            print(f"untrained, held out: {words}", flush=True)
        return state, 0.0, before
    iteration, state, passed = checkpoints.restore_latest(jax.eval_shape(start, key))
    for sentence in passed:
        print(f"atlas: {sentence}", file=sys.stderr)
    about = checkpoints.about(iteration)
    return state, float(about["seconds"]), about["before"]


def _steps(config: Config, state: TrainState) -> int:
    return env_steps(config, int(state.iterations), int(state.trained))


def _look_on(config: Config, exam: Exam, snapshots: Snapshots, result: Result) -> Hook:
    """Now and then, and at the end: how does the student do on held-out problems, and what does the teacher replay?"""
    due = Due(config.run.snapshot_every)

    def look_on(moment: Moment) -> None:
        if not due(moment):
            return
        started = time.monotonic()
        result.after = moment.record["held_out"] = exam.rates(moment.state.params, moment.iteration)
        examined = time.monotonic()
        moment.record["curriculum"] = snapshots.take(moment)
        spent = {"exam": examined - started, "snapshot": time.monotonic() - examined}
        moment.record["looking_on"] = {name: round(seconds, 3) for name, seconds in spent.items()}

    return look_on


def _write(writers: tuple[Sink, ...], moment: Moment) -> None:
    for writer in writers:
        writer.write(moment.record)


def _save(config: Config, checkpoints: Checkpoints, result: Result) -> Hook:
    """Now and then, and at the end, put everything on disk."""
    due = Due(config.run.checkpoint_every)

    def save(moment: Moment) -> None:
        result.iteration, result.steps, result.seconds = moment.iteration, moment.steps, moment.seconds
        if due(moment):
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
