"""Sweeps: many runs from one file, here or with SLURM: a grid of presets, seeds, settings, or an Optuna search. No JAX.

    about: what it is for
    runs:
      - presets: [paper-plr, paper-accel]
        seeds: [0, 1, 2, 3, 4]
        settings: {student.ppo.entropy: [0.0, 0.01]}     # a list: one run for each

Optional sections: `slurm` (what submitit is told), `search` (settings and ranges for Optuna, instead of `runs`).

Each run has a process and a folder of its own. The folders are all there is to remember: one with a summary is done and
never touched again, one that holds a run is resumed, and everything else starts anew. So the same command, given again,
goes on where it was stopped and tries again what failed; given twice at the same time, both share the work. A run may
be evaluated once it is trained: it is done when that is done as well.
"""

import contextlib
import itertools
import math
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from atlas.config import Config
from atlas.documents import parse_json, read_plain, read_text
from atlas.errors import AtlasError, extra, nearest, printable
from atlas.presets import config_of
from atlas.runs.folder import RunFolder, in_use
from atlas.runs.hosts import cores
from atlas.runs.store import write_whole
from atlas.settings import dump, flat, from_plain, show, to_plain

LOGS: Final = "logs"
MOST_RUNS: Final = 1_000
"""Most runs of one file."""
WAIT: Final = 0.2
"""Seconds between looks at the runs that are going on."""


@dataclass(frozen=True)
class Planned:
    """One run of a sweep."""

    experiment: str
    """Preset and settings: what runs that differ in their seed alone have in common."""
    seed: int
    config: Config

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.experiment}-seed-{self.seed}".replace(" ", "-").replace("=", "-").replace("/", "-")


@dataclass(frozen=True)
class Search:
    """A search over settings instead of a grid."""

    preset: str
    trials: int
    seed: int
    settings: dict[str, dict[str, Any]]
    """Key -> {low, high, log} or {choices}."""


@dataclass(frozen=True)
class Sweep:
    """A sweep as its file has it."""

    name: str
    about: str
    runs: tuple[Planned, ...] = ()
    search: Search | None = None
    slurm: dict[str, Any] = field(default_factory=dict)


def read_sweep(path: Path) -> Sweep:
    """A sweep from its file, every config checked."""
    plain = read_plain(path)
    try:
        _require_known(plain, ("about", "runs", "search", "slurm"), "a sweep")
        if ("runs" in plain) == ("search" in plain):
            raise AtlasError("either `runs` or `search` is needed")
        grids = plain.get("runs", [])
        if not isinstance(grids, list) or not isinstance(plain.get("slurm") or {}, dict):
            raise AtlasError("`runs` must be a list of entries, and `slurm` a section with keys")
        runs: list[Planned] = []
        for grid in grids:
            runs += _expand(grid, MOST_RUNS - len(runs))
        for name, times in Counter(run.name for run in runs).items():
            if times > 1:
                raise AtlasError(f"two runs would be kept under the same name, {name}")
        search = _read_search(plain["search"]) if "search" in plain else None
        return Sweep(path.stem, str(plain.get("about", "")), tuple(runs), search, dict(plain.get("slurm") or {}))
    except AtlasError as error:
        raise AtlasError(f"{path}: {error}") from None


def _require_known(plain: Any, names: tuple[str, ...], what: str) -> None:
    if not isinstance(plain, dict):
        raise AtlasError(f"{what} needs keys: {', '.join(names)}")
    for key in plain:
        if key not in names:
            hint = nearest(str(key), names) or f"; known: {', '.join(names)}"
            raise AtlasError(f"{key} is not a key of {what}{hint}")


def _expand(grid: Any, room: int) -> Iterator[Planned]:
    """All combinations, unless they are more than there is room for."""

    def listed(values: Any) -> list[Any]:
        return values if isinstance(values, list) else [values]

    _require_known(grid, ("presets", "seeds", "settings"), "an entry of `runs`")
    settings = {key: listed(values) for key, values in _settings(grid.get("settings") or {}).items()}
    presets = listed(grid.get("presets", []))
    if not presets:
        raise AtlasError("`presets` is needed in each entry of `runs`")
    seeds = listed(grid.get("seeds", 0))
    count = len(presets) * len(seeds) * math.prod(map(len, settings.values()))
    if count > room:
        told = f"an entry of `runs` stands for {count:,} run{'s' * (count > 1)}"
        raise AtlasError(f"{told}: at most {MOST_RUNS:,} are possible in one file")
    for name in presets:
        for values in itertools.product(*settings.values()):
            chosen = dict(zip(settings, values, strict=True))
            several = {key: value for key, value in chosen.items() if len(settings[key]) > 1}
            words = [f"{key.rsplit('.', 1)[-1]}={show(value)}" for key, value in several.items()]
            for seed in seeds:
                config = changed(config_of(str(name)), {**chosen, "run.seed": seed})
                yield Planned(" ".join([Path(str(name)).stem, *words]), seed, config)


def _settings(plain: Any) -> dict[str, Any]:
    if not isinstance(plain, dict) or not all(isinstance(key, str) for key in plain):
        raise AtlasError("`settings` must have settings as its keys, e.g. student.ppo.entropy")
    return plain


def _read_search(plain: Any) -> Search:
    _require_known(plain, ("preset", "trials", "seed", "settings"), "`search`")
    trials, seed = plain.get("trials", 20), plain.get("seed", 0)
    if type(trials) is not int or trials < 1 or type(seed) is not int:
        raise AtlasError("`trials` and `seed` of `search` must be whole numbers, at least one trial")
    search = Search(str(plain.get("preset", "")), trials, seed, _settings(plain.get("settings")))
    for key, space in search.settings.items():
        _require_known(space, ("low", "high", "log", "choices"), f"the range of {key}")
        choices = space.get("choices")
        if ("choices" in space) == ("low" in space and "high" in space) or (not choices and choices is not None):
            raise AtlasError(f"{key} needs either low and high, or choices")
        if choices is not None and not isinstance(choices, list):
            raise AtlasError(f"the choices of {key} must be a list")
        changed(config_of(search.preset), {key: space["choices"][0] if "choices" in space else space["low"]})
    return search


def changed(config: Config, settings: dict[str, Any]) -> Config:
    """A config with some settings changed, by their full names."""
    plain = to_plain(config)
    for key, value in settings.items():
        *sections, last = key.split(".")
        section: Any = plain
        for name in sections:
            section = section.get(name) if isinstance(section, dict) else None
        if not isinstance(section, dict) or last not in section:
            raise AtlasError(f"{key} is not a setting of this preset{nearest(key, flat(plain))}")
        section[last] = value
    return from_plain(Config, plain)


@dataclass(frozen=True)
class Evaluation:
    """An evaluation that a run is put to once it is trained."""

    problems: str
    """A set, by name or path."""
    over_time: bool = False
    """Whether every policy that the run has kept is evaluated, not the last alone."""
    attempts: int | None = None
    """At each problem; as many as `atlas eval` finds right if None."""

    @property
    def name(self) -> str:
        """The name of the set."""
        return Path(self.problems).resolve().stem

    def arguments(self, folder: Path) -> list[str]:
        """The arguments of `atlas` that run this evaluation."""
        over_time = ["--over-time"] if self.over_time else []
        attempts = [] if self.attempts is None else ["--attempts", str(self.attempts)]
        return ["eval", str(folder), "--problems", self.problems, *over_time, *attempts]

    def read(self, folder: Path, iteration: int) -> dict[str, Any] | None:
        """Its result for the run's last policy, that of this iteration; None if there is none."""
        file = folder / "evaluations" / f"{self.name}{'-over-time' if self.over_time else ''}.json"
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AtlasError):
            told = parse_json(read_text(file))
            if self.attempts in (None, told["set"]["attempts"]):
                last: dict[str, Any] = told["points"][-1] if self.over_time else told["runs"][0]
                return last if last["iteration"] == iteration else None
        return None


@dataclass(frozen=True)
class Job:
    """A run of a sweep, where it is kept, and what it is put to afterwards."""

    planned: Planned
    folder: Path
    evaluations: tuple[Evaluation, ...] = ()
    """The first of them is what it is judged by."""

    @property
    def log(self) -> Path:
        return self.folder.parent / LOGS / f"{self.folder.name}.log"

    def summary(self) -> dict[str, Any] | None:
        """The summary of the run; None unless training is done."""
        told = RunFolder(self.folder).summary()
        return None if told.get("stopped", True) else told

    def missing(self) -> list[Evaluation]:
        """The evaluations that a trained run has yet to be put to."""
        iteration = (self.summary() or {}).get("iteration", -1)
        return [one for one in self.evaluations if one.read(self.folder, iteration) is None]

    def rate(self) -> float | None:
        """The mean solve rate of the first evaluation, or else the share of held-out problems solved at the end; None
        if that is not known yet."""
        summary = self.summary()
        if summary is None or not self.evaluations:
            return None if summary is None else float(summary["after"]["all"])
        told = self.evaluations[0].read(self.folder, summary.get("iteration", -1))
        return None if told is None else float(told["mean"])

    @property
    def judge(self) -> str:
        """The problems that its rate is measured on, in words."""
        return self.evaluations[0].name if self.evaluations else "held-out problems"

    def status(self) -> Literal["done", "trained", "begun", "new"]:
        """How far it has come, whoever is at it; `trained` has yet to be evaluated."""
        kept = RunFolder(self.folder)
        if kept.is_run() and kept.config() != self.planned.config:
            raise AtlasError(f"{self.folder} holds a run with other settings than the sweep's: move or remove it")
        if self.summary() is not None:
            return "trained" if self.missing() else "done"
        return "begun" if kept.is_run() else "new"

    def command(self) -> list[str]:
        """The command that starts, resumes or evaluates it."""
        start = [sys.executable, "-m", "atlas"]
        status = self.status()
        if status == "trained":
            return [*start, *self.missing()[0].arguments(self.folder)]
        if status == "begun":
            return [*start, "resume", str(self.folder), "--json"]
        settings = self.log.with_suffix(".yaml")
        write_whole(settings, dump(self.planned.config))
        return [*start, "train", str(settings), "--folder", str(self.folder), "--json"]

    def complaint(self) -> str:
        """The last line it left behind."""
        with contextlib.suppress(OSError, IndexError):
            return printable(self.log.read_text(errors="replace").strip().splitlines()[-1][:200])
        return "no word was left behind"


def jobs_of(planned: Sequence[Planned], folder: Path, evaluations: tuple[Evaluation, ...] = ()) -> list[Job]:
    """Each run with its folder."""
    return [Job(run, folder / run.name, evaluations) for run in planned]


@dataclass
class Local:
    """Runs jobs on this machine, at most `parallel` at a time; one that fails is tried again so many times."""

    parallel: int = 1
    retries: int = 1
    tell: Callable[[str], None] = print
    running: dict[Job, subprocess.Popen[bytes]] = field(default_factory=dict)
    left: dict[Job, tuple[str, int]] = field(default_factory=dict)
    """How far each of them was when it was started, and how many evaluations were missing."""
    failures: dict[Job, int] = field(default_factory=dict)

    def run(self, jobs: Sequence[Job]) -> list[Job]:
        """Do what is not done yet. Returns the jobs that failed for good.

        Jobs that another process is at come last: by then they are done, or left for us.
        """
        waiting = [job for job in jobs if job.status() != "done"]
        told: set[Job] = set()
        try:
            while waiting or self.running:
                for job in list(waiting):
                    if len(self.running) == self.parallel:
                        break
                    if not in_use(job.folder):
                        waiting.remove(job)
                        if job.status() != "done":
                            self._start(job)
                    elif job not in told:
                        self.tell(f"{job.folder.name}: another process is at it")
                        told.add(job)
                waiting = self._collect() + waiting
                time.sleep(WAIT)
        finally:  # ask what still runs to save and stop, and wait for it
            for process in self.running.values():
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
            for process in self.running.values():
                process.wait()
            self.running.clear()
        return [job for job, count in self.failures.items() if count > self.retries]

    def _start(self, job: Job) -> None:
        self.left[job], command = (job.status(), len(job.missing())), job.command()
        job.log.parent.mkdir(parents=True, exist_ok=True)
        with job.log.open("ab") as log:
            # A session of its own: Ctrl-C is for the sweep, which then asks each run to save and stop.
            self.running[job] = subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                # On a CPU a run takes all cores: several at a time share them.
                env={"JAX_NUM_CPU_DEVICES": str(max(1, cores() // self.parallel)), **os.environ},
            )
        evaluated = f"is evaluated on {job.missing()[0].name}" if job.missing() else ""
        words = {"begun": "goes on", "trained": evaluated}.get(self.left[job][0], "starts")
        self.tell(f"{job.folder.name}: {words}")

    def _collect(self) -> list[Job]:
        """See which have ended. Returns those to be tried again."""
        again: list[Job] = []
        for job in [job for job, process in self.running.items() if process.poll() is not None]:
            code = self.running.pop(job).returncode
            now = job.status(), len(job.missing())
            if code == 0 and now[0] == "done":
                self.tell(f"{job.folder.name}: done, {job.rate() or 0:.0%} of {job.judge} solved")
                continue
            if code == 0 and now[0] == "trained" and now != self.left[job]:  # the next evaluation
                again.insert(0, job)
                continue
            if now[0] == "done" or in_use(job.folder):  # another process was quicker to take it
                again.append(job)
                continue
            self.failures[job] = self.failures.get(job, 0) + 1
            last = self.failures[job] > self.retries
            self.tell(f"{job.folder.name}: failed{'' if last else ', is tried again'} ({job.complaint()})")
            again += [] if last else [job]
        return again


def on_slurm(jobs: Sequence[Job], folder: Path, parallel: int, settings: dict[str, Any]) -> list[str]:
    """Hand what is not done to SLURM, one job a run. Returns their numbers; nobody waits for them."""
    executor = extra("submitit", "--slurm", "slurm").AutoExecutor(folder=str(folder / LOGS / "slurm"))
    executor.update_parameters(name=folder.name, slurm_array_parallelism=parallel, **settings)
    left = [job for job in jobs if job.status() != "done"]
    return [str(handed.job_id) for handed in executor.map_array(execute, left)] if left else []


def execute(job: Job) -> None:
    """Run a job where SLURM has put it. One that was requeued goes on from its checkpoint; a failure is SLURM's too."""
    for _ in range(1 + len(job.evaluations)):
        if job.status() != "done" and not in_use(job.folder):
            subprocess.run(job.command(), check=True)


def search(wanted: Search, folder: Path, local: Local, judge: tuple[Evaluation, ...] = ()) -> list[Job]:
    """All trials of a search, judged by the held-out problems solved at the end, or by an evaluation; those of an
    earlier call included."""
    optuna = extra("optuna", "a search", "search")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    folder.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        study_name=folder.name, storage=f"sqlite:///{folder / 'study.db'}", direction="maximize", load_if_exists=True
    )
    study.sampler = optuna.samplers.TPESampler(seed=wanted.seed + len(study.trials))  # resumed, it draws others

    def job_of(number: int, settings: dict[str, Any]) -> Job:
        config = changed(config_of(wanted.preset), {**settings, "run.seed": wanted.seed})
        shown = {key: f"{value:.3g}" if isinstance(value, float) else value for key, value in settings.items()}
        words = ", ".join(f"{key.rsplit('.', 1)[-1]}={value}" for key, value in shown.items())
        return Job(Planned(f"trial {number}: {words}", wanted.seed, config), folder / f"trial-{number:04d}", judge)

    def carry_out(trials: dict[int, dict[str, Any]]) -> None:
        jobs = {number: job_of(number, settings) for number, settings in trials.items()}
        local.run(list(jobs.values()))
        for number, job in jobs.items():
            if (rate := job.rate()) is None:
                study.tell(number, state=optuna.trial.TrialState.FAIL, skip_if_finished=True)
            else:
                study.tell(number, rate, skip_if_finished=True)

    begun = [trial for trial in study.trials if not trial.state.is_finished()]
    # Another process may just be choosing the settings of one: that one is its own.
    carry_out({trial.number: trial.params for trial in begun if trial.params.keys() == wanted.settings.keys()})
    while (left := wanted.trials - len(study.trials)) > 0:
        asked = [study.ask() for _ in range(min(left, local.parallel))]
        carry_out({trial.number: _suggested(trial, wanted) for trial in asked})
    chosen = [trial for trial in study.trials if trial.params.keys() == wanted.settings.keys()]
    return [job_of(trial.number, trial.params) for trial in chosen]


def _suggested(trial: Any, wanted: Search) -> dict[str, Any]:
    """The settings of a trial."""
    chosen: dict[str, Any] = {}
    for key, space in wanted.settings.items():
        if "choices" in space:
            chosen[key] = trial.suggest_categorical(key, space["choices"])
        elif isinstance(space["low"], int) and isinstance(space["high"], int):
            chosen[key] = trial.suggest_int(key, space["low"], space["high"], log=space.get("log", False))
        else:
            low, high = float(space["low"]), float(space["high"])
            chosen[key] = trial.suggest_float(key, low, high, log=space.get("log", False))
    return chosen


def results(jobs: Sequence[Job], failed: Sequence[Job] = ()) -> list[dict[str, Any]]:
    """One row for each experiment: its seeds taken together."""
    rows = []
    for experiment in dict.fromkeys(job.planned.experiment for job in jobs):
        together = [job for job in jobs if job.planned.experiment == experiment]
        done = [summary for job in together if (summary := job.summary()) is not None and job.rate() is not None]
        rates = [rate for job in together if (rate := job.rate()) is not None]
        rows.append(
            {
                "experiment": experiment,
                "runs": len(together),
                "done": len(done),
                "failed": sum(job in failed for job in together),
                "steps": max((summary["steps"] for summary in done), default=0),
                "mean": sum(rates) / len(rates) if rates else None,
                "lowest": min(rates, default=None),
                "highest": max(rates, default=None),
            }
        )
    return rows
