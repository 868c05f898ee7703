"""Carry a sweep out: each run in a process and a folder of its own, a few at a time.

The folders are all there is to remember: one with a summary is done, one with checkpoints is resumed, and everything
else starts anew. So the same command, given again, goes on where it was stopped and tries again what failed.
"""

import contextlib
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from atlas.errors import AtlasError
from atlas.runs.folder import RunFolder
from atlas.runs.sweep_file import Planned
from atlas.settings import dump

LOGS: Final = "logs"
WAIT: Final = 0.2
Status = Literal["done", "begun", "new"]


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

    def status(self) -> Status:
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
        settings = self.folder.parent / LOGS / f"{self.folder.name}.yaml"
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
        finally:
            self._stop()
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
        """Look who has ended. Returns those to be tried again."""
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

    def _stop(self) -> None:
        """Ask what still runs to save and stop, and wait for it."""
        for process in self.running.values():
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        for process in self.running.values():
            process.wait()
        self.running.clear()


def on_slurm(jobs: Sequence[Job], folder: Path, parallel: int, settings: dict[str, Any]) -> list[str]:
    """Hand what is not done to SLURM, one job a run. Returns their numbers; nobody waits for them."""
    submitit = extra("submitit", "--slurm", "slurm")
    executor = submitit.AutoExecutor(folder=str(folder / LOGS / "slurm"))
    executor.update_parameters(name=folder.name, slurm_array_parallelism=parallel, **settings)
    left = [job for job in jobs if job.status() != "done"]
    return [str(handed.job_id) for handed in executor.map_array(execute, left)] if left else []


def extra(module: str, what: str, name: str) -> Any:
    """A package that not everybody has."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise AtlasError(f"{what} needs a package that is not installed: pip install 'atlas-ued[{name}]'") from None


def execute(job: Job) -> None:
    """Run a job where SLURM has put it. One that was requeued goes on from its checkpoint; a failure is SLURM's too."""
    subprocess.run(job.command(), check=True)


def results(jobs: Sequence[Job], failed: Sequence[Job] = ()) -> list[dict[str, Any]]:
    """One row for each experiment: its seeds taken together."""
    rows: dict[str, list[Job]] = {}
    for job in jobs:
        rows.setdefault(job.planned.experiment, []).append(job)
    return [_row(experiment, together, failed) for experiment, together in rows.items()]


def _row(experiment: str, jobs: list[Job], failed: Sequence[Job]) -> dict[str, Any]:
    done = [summary for job in jobs if (summary := job.summary()) is not None]
    rates = [summary["after"]["all"] for summary in done]
    return {
        "experiment": experiment,
        "runs": len(jobs),
        "done": len(done),
        "failed": sum(job in failed for job in jobs),
        "steps": max((summary["steps"] for summary in done), default=0),
        "mean": sum(rates) / len(rates) if rates else None,
        "lowest": min(rates, default=None),
        "highest": max(rates, default=None),
    }
