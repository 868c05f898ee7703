"""A run from its folder's point of view: build it, restore it, let it go on, keep what it did."""

import json
import os
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
from atlas.fit import Hook, Moment, fit
from atlas.heldout import Exam, held_out
from atlas.runs.checkpoints import RATE, Checkpoints
from atlas.runs.display import display, rates
from atlas.runs.folder import RunFolder
from atlas.runs.metrics import JsonLines, Sink
from atlas.train import Trainer, TrainState


@dataclass
class Result:
    """How a run, or a stretch of it, ended."""

    folder: Path
    iteration: int
    steps: int
    seconds: float
    stopped: bool
    """It was asked to stop before its end."""
    before: dict[str, float]
    """Held-out solve rates of the untrained student."""
    after: dict[str, float]

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
    trainer, exam = build(config), Exam(parts(config), held_out(config))
    with ExitStack() as closing:
        checkpoints = Checkpoints(folder.checkpoints, config.run.keep)
        closing.callback(checkpoints.close)
        state, seconds, before = _begin(trainer, config, checkpoints, exam, quiet)
        writers = (JsonLines(folder.metrics_file, int(state.iterations)), *sinks)
        for writer in writers:
            closing.callback(writer.close)
        result = Result(
            folder.path,
            int(state.iterations),
            _steps(config, state),
            seconds,
            stopped=False,
            before=before,
            after=before,
        )
        hooks: list[Hook] = [_examine(config, exam, result), lambda moment: _write(writers, moment)]
        if not quiet:
            shown = display(config, str(folder.path))
            closing.callback(shown.close)
            hooks.append(shown)
        hooks.append(_save(config, checkpoints, result))
        stop = closing.enter_context(stop_on_signals())
        fit(trainer, config, state, hooks, lambda: bool(stop), seconds)
        result.stopped = bool(stop)
    folder.summary_file.write_text(json.dumps(result.plain(), indent=2) + "\n")
    return result


def remember_compiled() -> None:
    """Keep compiled programs between processes, unless the user has arranged that already: resuming is then quick."""
    settings: Any = jax.config
    if settings.jax_compilation_cache_dir is None:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        settings.update("jax_compilation_cache_dir", str(home / "atlas" / "compiled"))


def _begin(
    trainer: Trainer, config: Config, checkpoints: Checkpoints, exam: Exam, quiet: bool
) -> tuple[TrainState, float, dict[str, float]]:
    """The state to start from, the seconds spent so far, and what the untrained student could do."""
    start = jax.jit(trainer.init)
    key = jax.random.key(config.run.seed)
    if not checkpoints.steps():
        state = start(key)
        before = exam.rates(state.params, 0)
        if not quiet:
            print(f"untrained, held out: {rates(before)} within {exam.chosen.step_limit} steps", flush=True)
        return state, 0.0, before
    iteration, state, passed = checkpoints.restore_latest(jax.eval_shape(start, key))
    for sentence in passed:
        print(f"atlas: {sentence}", file=sys.stderr)
    about = checkpoints.about(iteration)
    return state, float(about["seconds"]), about["before"]


def _steps(config: Config, state: TrainState) -> int:
    return env_steps(config, int(state.iterations), int(state.trained))


def _examine(config: Config, exam: Exam, result: Result) -> Hook:
    """Now and then, and at the end, see how the student does on held-out problems."""
    due = Due(config.run.snapshot_every)

    def examine(moment: Moment) -> None:
        if due(moment):
            result.after = moment.record["held_out"] = exam.rates(moment.state.params, moment.iteration)

    return examine


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
