"""A run from config to result: build it, restore it, train, and keep what it did in its folder."""

import errno
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

import jax
import numpy as np

from atlas import plugins
from atlas.build import build, observer, parts
from atlas.config import Config
from atlas.devices import ALONE, Layout, mesh_of
from atlas.errors import AtlasError
from atlas.evaluation.held_out import Exam, obtain
from atlas.evaluation.sets import silent
from atlas.evaluation.statistics import SolveRates
from atlas.fit import Hook, Moment, NotANumber, StateUpdate, SyncedStatus, compile_step, fit, is_over
from atlas.programs import load_or_lower
from atlas.rollout import Demonstrations
from atlas.runs.checkpoints import RATE, CheckpointError, Checkpoints, OtherConfigError
from atlas.runs.display import bar_or_lines, display, rates
from atlas.runs.folder import RunError, RunFolder, create, reopen
from atlas.runs.hosts import Team
from atlas.runs.lineage import LineageTracker
from atlas.runs.metrics import JsonLines, Sink, Sinks, read
from atlas.runs.policy import fitted_parameters, load_policy, require_same_network, save_parameters
from atlas.runs.retention import RetentionSchedule
from atlas.runs.snapshots import Policies, Snapshots
from atlas.runs.store import blank_arrays, from_arrays, remember_compiled, to_arrays, write_whole
from atlas.settings import differences, dump, from_plain, to_plain
from atlas.student.network import Params
from atlas.training import Obtain, Trainer, TrainState, without_shown
from atlas.words import clock, command, short

Callback = Callable[[Moment], object]
"""Called after each call of the compiled step, which may be several iterations; a true result asks to stop."""
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
    """Solve rates of the untrained student, on held-out problems."""
    after: SolveRates

    def plain(self) -> dict[str, Any]:
        told = {"folder": str(self.folder), "before": self.before.plain(), "after": self.after.plain()}
        return vars(self) | told


@dataclass(frozen=True)
class Start:
    """The point from which a run is resumed."""

    iteration: int | None = None
    """At this checkpoint instead of the last one."""
    scratch: bool = False
    """At its very beginning."""

    @property
    def is_last(self) -> bool:
        return self.iteration is None and not self.scratch


NO_SINKS: Final = Sinks()
LAST: Final = Start()
"""From its last good checkpoint."""


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
    given: Mapping[str, Mapping[str, Any]] | None = None,
    callbacks: Sequence[Callback] = (),
    init: Path | str | None = None,
    keep_program: bool = False,
) -> Result | None:
    """Train a new run in a folder. Host 0 has the result; the others take part and return None.

    `given`: what the settings name that was passed by value (`RunFolder.note_given`). Callbacks are called on host 0.
    `init`: a policy whose weights it begins with; they are kept in its folder. `keep_program`: the compiled step is
    kept for the next run, which need not even trace it; only where all of it is the code of this package.
    """
    layout = _layout(devices, config)
    config.require_even(layout.shards)
    everyones = team.all_gather(dump(config))
    for number, text in enumerate(everyones):
        for first, other in zip(everyones[0].splitlines(), text.splitlines(), strict=False):
            if first != other:
                told = f"host {number} has other settings than host 0: {other.strip()} (not {first.strip()})"
                raise AtlasError(told)
    if not team.is_leader:
        train_as_worker(config, layout, team)
        return None
    sinks = NO_SINKS.with_more(tensorboard, wandb)
    policy = None if init is None else load_policy(init)
    if policy is not None:
        policy.require_fit(config)
    folder, lock = create(path, config, overwrite)
    try:
        if policy is not None:
            about = {"iteration": policy.iteration, "steps": policy.steps, "seconds": policy.seconds}
            save_parameters(folder.init_file, policy.params, {"from": str(init), **about})
            title += f", with the weights of {init}"
        if not quiet:
            where = "" if layout.shards == 1 else f" on {layout.shards} devices"
            print(f"{title}{where}: compiling takes a while; the run is kept in {folder.path}", flush=True)
        if given:
            folder.note_given(config, given)
        return train_as_leader(
            folder, config, sinks, quiet, layout, team, callbacks=callbacks, keep_program=keep_program
        )
    finally:
        lock.release()


def resume(
    path: Path,
    team: Team,
    devices: int | None = None,
    wanted: Config | None = None,
    start: Start = LAST,
    tensorboard: bool = False,
    wandb: bool = False,
    quiet: bool = False,
    callbacks: Sequence[Callback] = (),
    keep_program: bool = False,
) -> Result | None:
    """Go on with the run in a folder, as `train` does. The other hosts need not see the folder.

    A run that is over is left alone. `wanted` are its settings, perhaps with changes. `keep_program`: as in `train`.
    """
    if not team.is_leader:
        layout, plain = _layout(devices), team.all_gather(None)[0]
        if plain is not None:
            train_as_worker(from_plain(Config, plain), layout, team)
        return None
    folder, lock = reopen(path)
    try:
        config = wanted or folder.config()
        _require_changeable(folder, config, start)
        layout = _layout(devices, config, folder.devices())
        config.require_even(layout.shards)
        done = _finished(folder, config) if start.is_last else None
        if done is not None:
            team.all_gather(None)
            print(f"atlas: {path} is finished and was left alone; {_how_to_go_on(path, config, done)}", file=sys.stderr)
            return done
        sinks = Sinks.read(folder.sinks_file).with_more(tensorboard, wandb)
        team.all_gather(to_plain(config))
        return train_as_leader(folder, config, sinks, quiet, layout, team, start, callbacks, keep_program)
    finally:
        lock.release()


FIXED: Final = ("run.seed", "run.num_envs", "run.rollout", "teacher.num_eval")
"""Settings that a run cannot change when it is resumed: what it drew, and how its env steps are counted."""


def _require_changeable(folder: RunFolder, config: Config, start: Start) -> None:
    """Whether a run may go on with these settings."""
    if start.scratch and folder.init_file.exists():
        require_same_network(f"{folder.path} began with weights that it cannot use now: it", folder.config(), config)
    changed = [] if start.scratch else list(differences(folder.config(), config))
    again = command("resume", folder.path)
    for key in changed:
        if key in FIXED:
            raise RunError(f"{key} cannot change as a run goes on; `{again} --from-scratch` begins anew with it")
        if start.is_last and not key.startswith("run."):
            raise RunError(
                f"{key} can only change from a point that you choose: `{again} --from ITERATION` goes on from a "
                "checkpoint, `--from-scratch` begins anew (settings of the section `run` can change at any time)"
            )
    if "run.time_limit" in changed and config.run.time_limit is not None:
        with suppress(CheckpointError, KeyError), closing(Checkpoints(folder.checkpoints, config.run.keep)) as kept:
            last = start.iteration if start.iteration is not None else max(kept.steps(), default=0)
            seconds = float(kept.about(last)["seconds"])
            if seconds >= 60 * config.run.time_limit:
                told = f"run.time_limit = {config.run.time_limit:g} is not allowed: it is for the whole run, and"
                raise RunError(f"{told} {clock(seconds)} are used already; `{again}` goes on with the limit it had")


def _finished(folder: RunFolder, config: Config) -> Result | None:
    """How a run ended, if it is over and these settings ask for no more of it."""
    with suppress(ValueError, TypeError, KeyError, AttributeError, AtlasError):
        told = folder.summary()
        rates = {when: SolveRates.read(told[when]) for when in ("before", "after")}
        result = Result(**told | rates | {"folder": folder.path})
        if not result.stopped and is_over(config, result.steps, result.seconds):
            return result
    return None


def _layout(devices: int | None, config: Config | None = None, before: int | None = None) -> Layout:
    """The devices that take part, on all hosts. A run on a CPU goes on on as many as before, if it can: then it repeats
    itself bit for bit."""
    here = jax.local_devices()
    platform = here[0].platform
    if devices is None:
        devices = len(here)
        if platform == "cpu" and (config is None or jax.process_count() > 1):
            devices = 1
        elif platform == "cpu" and config is not None:
            repeats = before is not None and before <= len(here) and config.is_shared_by(before)
            devices = before if before and repeats else config.worthwhile_shards(len(here))
    if devices > len(here):
        raise AtlasError(f"--devices {devices} is not allowed: this host has {len(here)} ({platform})")
    return ALONE if devices * jax.process_count() == 1 else Layout(mesh_of(devices))


def _how_to_go_on(path: Path, config: Config, done: Result) -> str:
    more: list[object] = []
    if done.steps >= config.run.total_steps:
        more += ["--run.total-steps", 2 * config.run.total_steps]
    if config.run.time_limit is not None and done.seconds >= 60 * config.run.time_limit:
        more += ["--run.time-limit", f"{2 * config.run.time_limit:g}"]
    return f"`{command('resume', path, *more)}` trains on, to twice its length"


def train_as_leader(
    folder: RunFolder,
    config: Config,
    sinks: Sinks = NO_SINKS,
    quiet: bool = False,
    layout: Layout = ALONE,
    team: Team | None = None,
    start: Start = LAST,
    callbacks: Sequence[Callback] = (),
    keep_program: bool = False,
) -> Result:
    """Train on host 0, which has the folder: from its last good checkpoint if there is one, or from the one that
    `start` names. Other hosts call `train_as_worker`."""
    team = team or Team()
    keep_program = remember_compiled() and keep_program
    made = parts(config, layout)
    trainer = build(config, layout, made)
    with _disk(folder), ExitStack() as stack:
        if start.scratch:
            _change(folder, config, start)
        checkpoints = Checkpoints(folder.checkpoints, config.run.keep)
        stack.callback(checkpoints.close)
        if not quiet:
            _say_where(folder, config, checkpoints, start, layout)
        begun = _restored(trainer, folder, config, checkpoints, team, start)
        if begun is None and not quiet:
            from atlas.runs.forecast import forecast

            print(forecast(config, trainer, folder.path).summary(), flush=True)
        if begun is None or not begun.is_over(config):
            # Beside the held-out problems and the first exam.
            trainer.compiled.start(_kept_programs(trainer, config) if keep_program else None)
        started = time.monotonic()
        with nullcontext(silent) if quiet else bar_or_lines("held-out problems") as progress:
            exam = Exam(made, obtain(folder.held_out_file, config, progress))
        took = time.monotonic() - started
        if took >= LONG and not quiet:
            words = f"{len(exam.chosen)} held-out problems, each proven solvable, took {took:.0f} s; they are kept"
            print(words, flush=True)
        is_over = begun is not None and begun.is_over(config)
        demonstrations = None if is_over else _demonstrations(trainer, folder, config, quiet)
        if begun is None:
            begun = _untrained(trainer, folder, config, checkpoints, exam, team, start, quiet)
        else:
            _change(folder, config, start, int(begun.state.iterations))
            checkpoints.manager.reload()  # later ones may have been set aside
        state, seconds, before, untrained = begun
        if demonstrations is not None:
            state = trainer.with_shown(state, demonstrations)
        iteration, trained = int(state.iterations), int(state.trained)
        folder.drop_snapshots(iteration)
        told = {"devices": layout.shards, "hosts": team.size, "platform": jax.default_backend()}
        write_whole(folder.devices_file, json.dumps(told) + "\n")
        writers: list[Sink] = [JsonLines(folder.metrics_file, iteration)]
        steps = config.env_steps(iteration, trained)
        exams = (r["held_out"] for r in reversed(read(folder.metrics_file)) if "held_out" in r)
        last = next(map(SolveRates.read, exams), None)
        result = Result(folder.path, iteration, steps, seconds, False, before, last or before)
        writers += sinks.open(folder.sinks_file, folder.path, to_plain(config), steps)
        for writer in writers:
            stack.callback(writer.close)
        policies = Policies(folder, retention_of(config, config.run.policies))
        if untrained is not None:
            policies.keep(untrained, 0, 0, 0.0)
        snapshots: list[Snapshots] = []
        began: list[tuple[int, float]] = []
        looking = observer(made, trainer)
        lineage = None
        if trainer.plan.buffer is not None:
            lineage = LineageTracker(folder, config, looking.tell_edits, iteration)
        update = None
        if trainer.plan.prove is not None:
            from atlas.runs.background_prover import Prover  # few runs ask a prover

            prover = Prover(config, trainer.teacher.memory, layout)
            stack.callback(prover.close)
            update = StateUpdate(trainer.plan.prove, prover)

        def follow_lineage(moment: Moment) -> None:
            """Update the lineage after each call where that is cheap, else only with each checkpoint."""
            memory = trainer.teacher.memory(moment.state.teacher)
            if lineage and memory is not None and layout.mesh is None and jax.default_backend() == "cpu":
                lineage.update(memory, moment.iteration)

        def evaluate_and_snapshot(moment: Moment, due: Due) -> None:
            """Do what is due: evaluate on held-out problems, keep a snapshot of the curriculum, keep the policy."""
            started = time.monotonic()
            curriculum = (due.exam or due.snapshot) and (snapshots or not moment.stopped)  # who stops need not compile
            first = curriculum and not snapshots
            if first and not quiet:
                print("compiling the first look at the curriculum; its time does not count", flush=True)
            if due.exam:
                result.after = exam.rates(moment.state.policy, moment.iteration)
                moment.record["held_out"] = result.after.plain()
            examined = time.monotonic()
            if curriculum:
                if not snapshots:  # compiled when first needed
                    marks = retention_of(config, config.run.snapshots)
                    snapshots.append(Snapshots(folder, config, looking, marks))
                moment.record["curriculum"] = snapshots[0].take(moment, due.snapshot)
            if due.policy:
                policies.keep(moment.state.policy, moment.iteration, moment.steps, moment.seconds)
            if first:
                moment.uncharged.append(time.monotonic() - started)
            spent = {"exam": examined - started, "snapshot": time.monotonic() - examined}
            moment.record["looking_on"] = {name: round(seconds, 3) for name, seconds in spent.items()}

        def note(moment: Moment) -> None:
            if not began:
                began.append((moment.steps, moment.seconds))
            result.iteration, result.steps, result.seconds = moment.iteration, moment.steps, moment.seconds
            result.stopped = moment.stopped
            for writer in writers:
                writer.write(moment.record)

        def save(moment: Moment) -> None:
            rate = {RATE: result.after.all} if "held_out" in moment.record else {}
            about = _about(moment.seconds, moment.steps, result.before) | rate
            memory = trainer.teacher.memory(moment.state.teacher)
            if lineage and memory is not None:
                lineage.save(memory, moment.iteration)
            checkpoints.save(moment.iteration, moment.state, about)

        shown: list[Hook] = []
        if not quiet:
            panel = display(config, str(folder.path), before, last)
            stack.callback(panel.close)
            shown.append(panel)
        wishes: list[bool] = []

        def call_back(moment: Moment) -> None:
            wishes.extend(True for callback in callbacks if callback(moment))

        looks, saves = _scheduled_hooks(config, layout, team, seconds, result.steps, evaluate_and_snapshot, save)
        try:
            hooks = [looks, follow_lineage, note, *shown, saves, *([call_back] if callbacks else [])]
            _fit(trainer, config, state, seconds, hooks, team, lambda: bool(wishes), update)
        except NotANumber as error:
            rate = config.student.ppo.learning_rate / 2
            kept = max(checkpoints.steps(), default=0)
            again = command("resume", folder.path, "--from", kept, "--student.ppo.learning-rate", f"{rate:g}")
            raise NotANumber(f"{error}; `{again}` goes on from the last checkpoint with half of it") from None
    with _disk(folder):
        write_whole(folder.summary_file, json.dumps(result.plain(), indent=2) + "\n")
    if began and not iteration:  # a run from its beginning
        from atlas.runs.forecast import remember

        remember(config, trainer, began[0], (result.steps, result.seconds))
    return result


def _about(seconds: float, steps: int, before: SolveRates) -> dict[str, Any]:
    """The description of a checkpoint."""
    return {"seconds": seconds, "steps": steps, "before": before.plain()}


def _change(folder: RunFolder, config: Config, start: Start, iteration: int = 0) -> None:
    """Go back to an iteration or to the very beginning, and take new settings; what came later is set aside."""
    changed = differences(folder.config(), config)
    if start.is_last and not changed:
        return
    aside = None if start.is_last else folder.set_aside(None if start.scratch else iteration)
    told = {"settings": {key: list(both) for key, both in changed.items()}}
    folder.note_change(iteration=iteration, **told, **({"set_aside": str(aside)} if aside else {}))
    write_whole(folder.config_file, dump(config))


def _say_where(folder: RunFolder, config: Config, checkpoints: Checkpoints, start: Start, layout: Layout) -> None:
    """Print where a run is resumed, before anything that takes long."""
    if not checkpoints.steps():
        return
    with suppress(CheckpointError, KeyError):
        last = start.iteration if start.iteration is not None else checkpoints.steps()[-1]
        about = checkpoints.about(last)
        limit = "" if config.run.time_limit is None else f" of {clock(60 * config.run.time_limit)}"
        total = f" of {short(config.run.total_steps)}" if config.run.time_limit is None else ""
        words = f"iteration {last:,}: {short(about['steps'])}{total} steps"
        gone = f"{clock(about['seconds'])}{limit} gone"
        before = folder.devices() or layout.shards
        where = "" if layout.shards == before == 1 else f", on {layout.shards} device{'s' * (layout.shards > 1)}"
        where += f" ({before} before)" * (before != layout.shards)
        print(f"{folder.path} goes on at {words}, {gone}{where}; compiling takes a while", flush=True)


def train_as_worker(config: Config, layout: Layout, team: Team) -> None:
    """Train on a host other than 0: compute what host 0 computes, and take part when it gathers the state."""
    remember_compiled()
    trainer = build(config, layout)
    begun = team.all_gather(None)[0]
    if begun["resumed"]:
        state = trainer.place(_broadcast(None, trainer.shapes, team))
    else:
        state = trainer.compiled_init(jax.random.key(config.run.seed))
        layout.gather(state)
        if begun["init"]:
            state = trainer.place(_broadcast(None, trainer.shapes, team))
    steps = config.env_steps(int(state.iterations), int(state.trained))
    hooks = _scheduled_hooks(config, layout, team, begun["seconds"], steps, lambda *_: None, lambda _: None)
    _fit(trainer, config, state, begun["seconds"], list(hooks), team)


def _kept_programs(trainer: Trainer, config: Config) -> Obtain | None:
    """What loads the programs of a run if one with the same settings (of any seed) has kept them, or else compiles
    them."""
    if jax.process_count() > 1 or any(map(plugins.in_use, plugins.KINDS)):
        return None
    run = replace(config.run, seed=0, time_limit=None)
    settings = f"by clock: {trainer.by_clock}, long: {trainer.is_long}\n{dump(replace(config, run=run))}"
    mesh = trainer.layout.mesh
    devices = jax.devices()[:1] if mesh is None else list(mesh.devices.flat)
    return lambda name, lower: load_or_lower(f"{name}, {settings}", lower, devices)


class Begun(NamedTuple):
    """Where training begins or goes on."""

    state: TrainState
    seconds: float
    """Time spent so far."""
    before: SolveRates
    """What the untrained student could do."""
    untrained: Params | None = None
    """Its parameters, if nothing was trained yet."""

    def is_over(self, config: Config) -> bool:
        """Whether nothing is left to do."""
        steps = config.env_steps(int(self.state.iterations), int(self.state.trained))
        return is_over(config, steps, self.seconds)


def _restored(
    trainer: Trainer, folder: RunFolder, config: Config, checkpoints: Checkpoints, team: Team, start: Start
) -> Begun | None:
    """Where a run goes on; None if it has not begun yet. Its folder stays as it is."""
    again = command("resume", folder.path, "--from-scratch")
    steps, shapes = checkpoints.steps(), without_shown(trainer.shapes)
    if not steps and folder.has_history():
        raise CheckpointError(
            f"{folder.path} has no checkpoint left to go on from, but metrics and policies that would be lost: "
            f"`{again}` sets them aside and begins anew"
        )
    if not steps and start.iteration is None:
        return None
    if start.iteration is None:
        try:
            iteration, state, passed = checkpoints.restore_latest(shapes)
        except OtherConfigError:
            raise
        except CheckpointError as error:
            told = f"{error}; nothing was changed. `{again}` sets everything aside and begins anew"
            raise CheckpointError(told) from None
        for sentence in passed:
            print(f"atlas: {sentence}", file=sys.stderr)
    else:
        iteration = start.iteration
        if iteration not in steps:
            there = ", ".join(map(str, steps)) or "none"
            raise CheckpointError(f"{folder.path} has no checkpoint of iteration {iteration}; there are: {there}")
        state = checkpoints.restore(iteration, shapes)
    about = checkpoints.about(iteration)
    seconds = float(about["seconds"])
    team.all_gather({"resumed": True, "seconds": seconds})
    state = trainer.place(_broadcast(state, shapes, team))
    return Begun(state, seconds, SolveRates.read(about["before"]))


def _demonstrations(trainer: Trainer, folder: RunFolder, config: Config, quiet: bool) -> Demonstrations | None:
    """The plans that the student is shown; None if there is no cloning."""
    if trainer.shown is None:
        return None
    from atlas.runs.demos import plans_of_run  # few runs show plans

    with nullcontext(silent) if quiet else bar_or_lines("plans to begin with") as progress:
        demos = plans_of_run(folder.demonstrations_file, config, progress)
    if not quiet:
        print(
            f"{len(demos):,} plans of the prover to begin with, {demos.lengths.sum():,} steps; they are kept",
            flush=True,
        )
    plans = np.zeros(trainer.shown.plans.shape, np.uint8)
    plans[:, : demos.plans.shape[1]] = demos.plans
    return Demonstrations.unchecked(problems=demos.problems, plans=plans, count=np.int32(len(demos)))


def _untrained(
    trainer: Trainer,
    folder: RunFolder,
    config: Config,
    checkpoints: Checkpoints,
    exam: Exam,
    team: Team,
    start: Start,
    quiet: bool,
) -> Begun:
    """The beginning of a run: its first state, examined and saved."""
    if not start.scratch:
        _change(folder, config, start)
    init = folder.init_file.exists()
    team.all_gather({"resumed": False, "seconds": 0.0, "init": init})
    state = trainer.compiled_init(jax.random.key(config.run.seed))
    whole = trainer.layout.gather(without_shown(state))
    if init:
        params, average = (  # two copies: the training step reuses the memory of both
            None if one is None else fitted_parameters(folder.init_file, one) for one in (whole.params, whole.average)
        )
        whole = whole.replace(params=params, average=average)
        state = trainer.place(_broadcast(whole, trainer.shapes, team))
    before = exam.rates(whole.policy, 0)
    if not quiet:
        words = f"{rates(before)} of {len(exam.chosen)} problems within {exam.chosen.step_limit} steps"
        print(f"{'at first' if init else 'untrained'}, held out: {words}", flush=True)
    # From here on there is a checkpoint: a run without one has lost it.
    checkpoints.save(0, whole, _about(0.0, 0, before))
    checkpoints.finish()
    return Begun(state, 0.0, before, whole.policy)


def _broadcast(state: TrainState | None, shapes: TrainState, team: Team) -> TrainState:
    """The state that host 0 has, on every host: the others need not see its disk."""
    if team.size == 1:
        assert state is not None
        return state
    from jax.experimental import multihost_utils

    arrays = blank_arrays(shapes) if state is None else to_arrays(state)
    received: Any = multihost_utils.broadcast_one_to_all(arrays, is_source=team.is_leader)
    return from_arrays({name: np.asarray(array) for name, array in received.items()}, shapes)


class Due(NamedTuple):
    """What is due at a moment."""

    exam: bool
    policy: bool
    snapshot: bool


def retention_of(config: Config, most: int) -> RetentionSchedule:
    """The retention schedule of a run that keeps at most so many things."""
    run = config.run
    return RetentionSchedule(run.total_steps, config.longest_iteration, most, run.keep_at)


def _scheduled_hooks(
    config: Config,
    layout: Layout,
    team: Team,
    seconds: float,
    steps: int,
    evaluate_and_snapshot: Callable[[Moment, Due], None],
    save: Hook,
) -> tuple[Hook, Hook]:
    """Both hooks, called when something is due and at the end, with the whole state gathered on one device.

    All hosts must gather it together, and they do: the run's clock and its env steps are the same for all.
    """

    def by_clock(every: float) -> Callable[[Moment], bool]:
        last = seconds

        def is_due(moment: Moment) -> bool:
            nonlocal last
            due = moment.last or moment.seconds - last >= every
            last = moment.seconds if due else last
            return due

        return is_due

    def by_steps(most: int) -> Callable[[Moment], bool]:
        marks = retention_of(config, most)
        mark = marks.after(steps)

        def is_due(moment: Moment) -> bool:
            nonlocal mark
            due = moment.last or moment.steps >= mark
            mark = marks.after(moment.steps) if due else mark
            return due

        return is_due

    def gathered(moment: Moment) -> Moment:
        team.barrier()  # the hook before may have taken long: nobody waits inside a computation
        return replace(moment, state=layout.gather(without_shown(moment.state)))

    exams, saves = by_clock(config.run.snapshot_every), by_clock(config.run.checkpoint_every)
    policies, snapshots = by_steps(config.run.policies), by_steps(config.run.snapshots)

    def maybe_evaluate(moment: Moment) -> None:
        due = Due(exams(moment), policies(moment), snapshots(moment))
        if any(due):
            evaluate_and_snapshot(gathered(moment), due)

    def maybe_save(moment: Moment) -> None:
        if saves(moment):
            save(gathered(moment))

    return maybe_evaluate, maybe_save


def _fit(
    trainer: Trainer,
    config: Config,
    state: TrainState,
    seconds: float,
    hooks: list[Hook],
    team: Team,
    wished: Callable[[], bool] = lambda: False,
    update: StateUpdate | None = None,
) -> None:
    """Train together: host 0's clock and iterations per call count for all, and all stop if one has to."""

    def agree(mine: SyncedStatus) -> SyncedStatus:
        statuses = [SyncedStatus(*status) for status in team.all_gather(mine)]
        return statuses[0]._replace(stop=any(status.stop for status in statuses))

    def together(moment: Moment) -> None:
        team.barrier()  # devices wait for each other half a minute at most, and hooks may take longer

    iterations = int(state.iterations)
    if not is_over(config, config.env_steps(iterations, int(state.trained)), seconds):
        state = compile_step(trainer, state)  # not charged; a signal ends it at once: nothing is lost yet
    marks = [retention_of(config, most) for most in (config.run.policies, config.run.snapshots)]

    def next_mark(steps: int) -> int:
        return min(one.after(steps) for one in marks)

    with stop_on_signals() as stop:
        asked = lambda: stop() or wished()  # noqa: E731
        fit(trainer, config, state, [*hooks, together], asked, seconds, agree, next_mark, update)


@contextmanager
def _disk(folder: RunFolder) -> Iterator[None]:
    """Trouble with the disk as one sentence."""
    try:
        yield
    except OSError as error:
        reason = "the disk is full" if error.errno == errno.ENOSPC else (error.strerror or str(error)).lower()
        raise RunError(
            f"cannot write to {folder.path}: {reason}; what was saved before is kept, and "
            f"`{command('resume', folder.path)}` goes on from there"
        ) from error


@contextmanager
def stop_on_signals() -> Iterator[Callable[[], bool]]:
    """Yields a function that tells whether SIGTERM or Ctrl-C has asked to stop; asking twice interrupts at once."""
    asked: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        print("\natlas: stopping after this iteration, and saving; once more to stop at once", file=sys.stderr)

    if threading.current_thread() is not threading.main_thread():  # only there can signals be handled
        yield lambda: False
        return
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
