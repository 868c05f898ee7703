"""A run from config to result: build it, restore it, train, and keep what it did in its folder."""

import errno
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, Final

import jax
import numpy as np

from atlas.build import build, observer, parts
from atlas.config import Config
from atlas.devices import ALONE, Layout, mesh_of
from atlas.errors import AtlasError
from atlas.evaluation.held_out import Exam, obtain
from atlas.evaluation.statistics import SolveRates
from atlas.fit import Hook, Moment, Pulse, fit
from atlas.runs.checkpoints import RATE, Checkpoints
from atlas.runs.display import display, rates
from atlas.runs.folder import RunError, RunFolder, create, reopen
from atlas.runs.hosts import Team
from atlas.runs.metrics import JsonLines, Sink, TensorBoard, WeightsAndBiases
from atlas.runs.store import blank_arrays, from_arrays, remember_compiled, to_arrays, write_whole
from atlas.settings import dump, from_plain, to_plain
from atlas.training import Trainer, TrainState

LONG: Final = 20.0
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
    before: SolveRates
    """Of the untrained student, on held-out problems."""
    after: SolveRates

    def plain(self) -> dict[str, Any]:
        told = {"folder": str(self.folder), "before": self.before.plain(), "after": self.after.plain()}
        return vars(self) | told


def train(
    path: Path,
    config: Config,
    team: Team,
    devices: int | None = None,
    title: str = "",
    overwrite: bool = False,
    tensorboard: bool = False,
    wandb: bool = False,
    quiet: bool = False,
) -> Result | None:
    """Train a new run in a folder. Host 0 has the result; the others take part and return None."""
    layout = _layout(devices)
    config.require_even(layout.shards)
    everyones = team.all_gather(dump(config))
    for number, text in enumerate(everyones):
        for first, other in zip(everyones[0].splitlines(), text.splitlines(), strict=False):
            if first != other:
                told = f"host {number} has other settings than host 0: {other.strip()} (not {first.strip()})"
                raise AtlasError(told)
    if not team.is_leader:
        follow(config, layout, team)
        return None
    folder, lock = create(path, config, overwrite)
    try:
        if not quiet:
            where = "" if layout.shards == 1 else f" on {layout.shards} devices"
            print(f"{title}{where}: compiling takes a while; the run is kept in {folder.path}", flush=True)
        sinks: list[Sink] = [TensorBoard(folder.path / "tensorboard")] if tensorboard else []
        sinks += [WeightsAndBiases(folder.path, folder.path.name, to_plain(config))] if wandb else []
        return go(folder, config, tuple(sinks), quiet, layout, team)
    finally:
        lock.release()


def resume(path: Path, team: Team, devices: int | None = None, quiet: bool = False) -> Result | None:
    """Go on with the run in a folder, as `train` does. The other hosts need not see the folder."""
    layout = _layout(devices)
    if not team.is_leader:
        follow(from_plain(Config, team.all_gather(None)[0]), layout, team)
        return None
    folder, lock = reopen(path)
    try:
        config = folder.config()
        team.all_gather(to_plain(config))
        return go(folder, config, (), quiet, layout, team)
    finally:
        lock.release()


def _layout(devices: int | None) -> Layout:
    """The devices that take part, on all hosts."""
    here = jax.local_devices()
    platform = here[0].platform
    devices = devices or (1 if platform == "cpu" else len(here))
    if devices > len(here):
        raise AtlasError(f"--devices {devices} is not allowed: this host has {len(here)} ({platform})")
    return ALONE if devices * jax.process_count() == 1 else Layout(mesh_of(devices))


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
    made = parts(config, layout)
    trainer = build(config, layout, made)
    with _disk(folder), ExitStack() as closing:
        started = time.monotonic()
        exam = Exam(made, obtain(folder.held_out_file, config))
        took = time.monotonic() - started
        if took >= LONG and not quiet:
            words = f"{len(exam.chosen)} held-out problems, each proven solvable, took {took:.0f} s; they are kept"
            print(words, flush=True)
        checkpoints = Checkpoints(folder.checkpoints, config.run.keep)
        closing.callback(checkpoints.close)
        state, seconds, before = _begin(trainer, config, checkpoints, exam, team, quiet)
        iteration, trained = int(state.iterations), int(state.trained)
        folder.drop_snapshots(iteration)
        result = Result(
            folder.path, iteration, config.env_steps(iteration, trained), seconds, False, before, before
        )  # fmt: skip
        writers = (JsonLines(folder.metrics_file, iteration), *sinks)
        for writer in writers:
            closing.callback(writer.close)
        snapshots: list[Any] = []

        def look_on(moment: Moment) -> None:
            """How does the student do on held-out problems, and what does the teacher replay?"""
            if not snapshots:
                from atlas.runs.snapshots import Snapshots  # nothing of it is needed to start training

                snapshots.append(Snapshots(folder, config, observer(made, trainer)))
            started = time.monotonic()
            result.after = exam.rates(moment.state.params, moment.iteration)
            examined = time.monotonic()
            moment.record["held_out"] = result.after.plain()
            moment.record["curriculum"] = snapshots[0].take(moment)
            spent = {"exam": examined - started, "snapshot": time.monotonic() - examined}
            moment.record["looking_on"] = {name: round(seconds, 3) for name, seconds in spent.items()}

        def note(moment: Moment) -> None:
            result.iteration, result.steps, result.seconds = moment.iteration, moment.steps, moment.seconds
            result.stopped = moment.stopped
            for writer in writers:
                writer.write(moment.record)

        def save(moment: Moment) -> None:
            about = {"seconds": moment.seconds, "steps": moment.steps, "before": result.before.plain()}
            rate = {RATE: result.after.all} if "held_out" in moment.record else {}
            checkpoints.save(moment.iteration, moment.state, about | rate)

        shown: list[Hook] = []
        if not quiet:
            panel = display(config, str(folder.path), before)
            closing.callback(panel.close)
            shown.append(panel)
        looks, saves = _timetable(config, layout, team, seconds, look_on, save)
        _fit(trainer, config, state, seconds, [looks, note, *shown, saves], team)
    with _disk(folder):
        write_whole(folder.summary_file, json.dumps(result.plain(), indent=2) + "\n")
    return result


def follow(config: Config, layout: Layout, team: Team) -> None:
    """Take part in a run that host 0 keeps: compute what it computes, and be there when it gathers the state."""
    remember_compiled()
    trainer = build(config, layout)
    begun = team.all_gather(None)[0]
    if begun["resumed"]:
        state = trainer.place(_broadcast(None, trainer.shapes, team))
    else:
        state = trainer.compiled_init(jax.random.key(config.run.seed))
        layout.gather(state.params)
    hooks = _timetable(config, layout, team, begun["seconds"], lambda _: None, lambda _: None)
    _fit(trainer, config, state, begun["seconds"], list(hooks), team)


def _begin(
    trainer: Trainer, config: Config, checkpoints: Checkpoints, exam: Exam, team: Team, quiet: bool
) -> tuple[TrainState, float, SolveRates]:
    """The state to start from, the seconds spent so far, and what the untrained student could do."""
    if not checkpoints.steps():
        team.all_gather({"resumed": False, "seconds": 0.0})
        state = trainer.compiled_init(jax.random.key(config.run.seed))
        before = exam.rates(trainer.layout.gather(state.params), 0)
        if not quiet:
            words = f"{rates(before)} of {len(exam.chosen)} problems within {exam.chosen.step_limit} steps"
            print(f"untrained, held out: {words}", flush=True)
        return state, 0.0, before
    iteration, state, passed = checkpoints.restore_latest(trainer.shapes)
    for sentence in passed:
        print(f"atlas: {sentence}", file=sys.stderr)
    about = checkpoints.about(iteration)
    seconds = float(about["seconds"])
    team.all_gather({"resumed": True, "seconds": seconds})
    state = trainer.place(_broadcast(state, trainer.shapes, team))
    return state, seconds, SolveRates.read(about["before"])


def _broadcast(state: TrainState | None, shapes: TrainState, team: Team) -> TrainState:
    """The state that host 0 has, on every host: the others need not see its disk."""
    if team.size == 1:
        assert state is not None
        return state
    from jax.experimental import multihost_utils

    arrays = blank_arrays(shapes) if state is None else to_arrays(state)
    received: Any = multihost_utils.broadcast_one_to_all(arrays, is_source=team.is_leader)
    return from_arrays({name: np.asarray(array) for name, array in received.items()}, shapes)


def _timetable(
    config: Config, layout: Layout, team: Team, seconds: float, look_on: Hook, save: Hook
) -> tuple[Hook, Hook]:
    """Both hooks, called every so many seconds and at the end, with the whole state gathered on one device.

    All hosts must gather it together, and they do: the run's clock is the same for all.
    """

    def now_and_then(every: float, hook: Hook) -> Hook:
        last = seconds

        def perhaps(moment: Moment) -> None:
            nonlocal last
            if moment.last or moment.seconds - last >= every:
                last = moment.seconds
                team.barrier()  # the hook before may have taken long: nobody waits inside a computation
                hook(replace(moment, state=layout.gather(moment.state)))

        return perhaps

    return now_and_then(config.run.snapshot_every, look_on), now_and_then(config.run.checkpoint_every, save)


def _fit(
    trainer: Trainer, config: Config, state: TrainState, seconds: float, hooks: list[Hook], team: Team
) -> None:  # fmt: skip
    """Train together: host 0's clock and pace count for all, and all stop if one has to."""

    def agree(mine: Pulse) -> Pulse:
        pulses = [Pulse(*pulse) for pulse in team.all_gather(mine)]
        return pulses[0]._replace(stop=any(pulse.stop for pulse in pulses))

    def together(moment: Moment) -> None:
        team.barrier()  # devices wait for each other half a minute at most, and hooks may take longer

    with stop_on_signals() as stop:
        fit(trainer, config, state, [*hooks, together], stop, seconds, agree)


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


@contextmanager
def stop_on_signals() -> Iterator[Callable[[], bool]]:
    """Yields a function that tells whether SIGTERM or Ctrl-C has asked to stop; asking twice interrupts at once."""
    asked: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        print("\natlas: stopping after this iteration, and saving; once more to stop at once", file=sys.stderr)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
