"""Sweeps: many runs from one file, a grid of presets, seeds and settings, or a search with Optuna. No JAX here.

    about: what it is for
    runs:
      - presets: [paper-plr, paper-accel]
        seeds: [0, 1, 2, 3, 4]
        settings: {student.ppo.entropy: [0.0, 0.01]}     # a list: one run for each

Optional sections: `slurm` (what submitit is told), `search` (settings and ranges for Optuna, instead of `runs`).

Each run has a process and a folder of its own. The folders are all there is to remember: one with a summary is done,
one with checkpoints is resumed, and everything else starts anew. So the same command, given again, goes on where it was
stopped and tries again what failed.
"""

import contextlib
import itertools
import json
import math
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from atlas.config import Config
from atlas.documents import read_plain
from atlas.errors import AtlasError, nearest
from atlas.presets import config_of
from atlas.runs.folder import RunFolder
from atlas.runs.metrics import extra
from atlas.settings import dump, from_plain, show, to_plain

LOGS: Final = "logs"
MOST_RUNS: Final = 5_000
"""Of one entry."""
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
        """Of its folder."""
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
        runs = [run for grid in grids for run in _expand(grid)]
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


def _expand(grid: Any) -> Iterator[Planned]:
    """All combinations."""

    def listed(values: Any) -> list[Any]:
        return values if isinstance(values, list) else [values]

    _require_known(grid, ("presets", "seeds", "settings"), "an entry of `runs`")
    settings = {key: listed(values) for key, values in _settings(grid.get("settings") or {}).items()}
    presets = listed(grid.get("presets", []))
    if not presets:
        raise AtlasError("`presets` is needed in each entry of `runs`")
    seeds = listed(grid.get("seeds", 0))
    count = len(presets) * len(seeds) * math.prod(map(len, settings.values()))
    if count > MOST_RUNS:
        raise AtlasError(f"an entry of `runs` stands for {count:,} runs: at most {MOST_RUNS:,} are possible")
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

    def keys(plain: dict[str, Any], prefix: str = "") -> Iterator[str]:
        for key, value in plain.items():
            yield from keys(value, f"{prefix}{key}.") if isinstance(value, dict) else [prefix + key]

    plain = to_plain(config)
    for key, value in settings.items():
        *sections, last = key.split(".")
        section: Any = plain
        for name in sections:
            section = section.get(name) if isinstance(section, dict) else None
        if not isinstance(section, dict) or last not in section:
            raise AtlasError(f"{key} is not a setting of this preset{nearest(key, keys(plain))}")
        section[last] = value
    return from_plain(Config, plain)


@dataclass(frozen=True)
class Job:
    """A run of a sweep and where it is kept."""

    planned: Planned
    folder: Path

    @property
    def log(self) -> Path:
        return self.folder.parent / LOGS / f"{self.folder.name}.log"

    def summary(self) -> dict[str, Any] | None:
        """What came of it; None unless it is done."""
        with contextlib.suppress(OSError, ValueError):
            told = json.loads(RunFolder(self.folder).summary_file.read_text())
            return None if told["stopped"] else told
        return None

    def status(self) -> Literal["done", "begun", "new"]:
        """How far it has come."""
        kept = RunFolder(self.folder)
        if kept.is_run() and kept.config_file.read_text() != dump(self.planned.config):
            raise AtlasError(f"{self.folder} holds a run with other settings than the sweep's: move or remove it")
        if self.summary() is not None:
            return "done"
        begun = kept.checkpoints.is_dir() and any(p.name.isdigit() for p in kept.checkpoints.iterdir())
        return "begun" if begun else "new"

    def command(self) -> list[str]:
        """What starts it, or goes on with it."""
        start = [sys.executable, "-m", "atlas"]
        if self.status() == "begun":
            return [*start, "resume", str(self.folder), "--json"]
        settings = self.log.with_suffix(".yaml")
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(dump(self.planned.config))
        return [*start, "train", str(settings), "--folder", str(self.folder), "--overwrite", "--json"]

    def complaint(self) -> str:
        """The last line it left behind."""
        with contextlib.suppress(OSError, IndexError):
            return self.log.read_text(errors="replace").strip().splitlines()[-1][:200]
        return "no word was left behind"


def jobs_of(planned: Sequence[Planned], folder: Path) -> list[Job]:
    """Each run with its folder."""
    return [Job(run, folder / run.name) for run in planned]


@dataclass
class Local:
    """Runs jobs on this machine, at most `parallel` at a time; one that fails is tried again so many times."""

    parallel: int = 1
    retries: int = 1
    tell: Callable[[str], None] = print
    running: dict[Job, subprocess.Popen[bytes]] = field(default_factory=dict)
    failures: dict[Job, int] = field(default_factory=dict)

    def run(self, jobs: Sequence[Job]) -> list[Job]:
        """Do what is not done yet. Returns the jobs that failed for good."""
        waiting = [job for job in jobs if job.status() != "done"]
        try:
            while waiting or self.running:
                while waiting and len(self.running) < self.parallel:
                    self._start(waiting.pop(0))
                waiting += self._collect()
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
        command = job.command()
        job.log.parent.mkdir(parents=True, exist_ok=True)
        with job.log.open("ab") as log:
            # A session of its own: Ctrl-C is for the sweep, which then asks each run to save and stop.
            self.running[job] = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
            )
        self.tell(f"{job.folder.name}: {'goes on' if 'resume' in command else 'starts'}")

    def _collect(self) -> list[Job]:
        """See which have ended. Returns those to be tried again."""
        again = []
        for job in [job for job, process in self.running.items() if process.poll() is not None]:
            code = self.running.pop(job).returncode
            summary = job.summary()
            if code == 0 and summary is not None:
                self.tell(f"{job.folder.name}: done, {summary['after']['all']:.0%} of held-out problems solved")
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
    subprocess.run(job.command(), check=True)


def search(wanted: Search, folder: Path, local: Local) -> list[Job]:
    """All trials of a search, judged by the held-out problems solved at the end; those of an earlier call included."""
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
        return Job(Planned(f"trial {number}: {words}", wanted.seed, config), folder / f"trial-{number:04d}")

    def carry_out(trials: dict[int, dict[str, Any]]) -> None:
        jobs = {number: job_of(number, settings) for number, settings in trials.items()}
        local.run(list(jobs.values()))
        for number, job in jobs.items():
            if (summary := job.summary()) is None:
                study.tell(number, state=optuna.trial.TrialState.FAIL)
            else:
                study.tell(number, summary["after"]["all"])

    carry_out({trial.number: trial.params for trial in study.trials if not trial.state.is_finished()})
    while (left := wanted.trials - len(study.trials)) > 0:
        asked = [study.ask() for _ in range(min(left, local.parallel))]
        carry_out({trial.number: _suggested(trial, wanted) for trial in asked})
    return [job_of(trial.number, trial.params) for trial in study.trials]


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
        done = [summary for job in together if (summary := job.summary()) is not None]
        rates = [summary["after"]["all"] for summary in done]
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
