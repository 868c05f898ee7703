"""Search over settings with Optuna: every trial is a run, judged by the held-out problems it solves at the end."""

from pathlib import Path
from typing import Any

from atlas.runs.sweep_file import Planned, Search, changed, named
from atlas.runs.sweeping import Job, Local, extra

STUDY = "study.db"


def search(wanted: Search, folder: Path, local: Local) -> list[Job]:
    """All trials, those of an earlier call included; as many at a time as run in parallel."""
    optuna = extra("optuna", "a search", "search")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    folder.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        study_name=folder.name,
        storage=f"sqlite:///{folder / STUDY}",
        direction="maximize",
        load_if_exists=True,
    )
    study.sampler = optuna.samplers.TPESampler(seed=wanted.seed + len(study.trials))  # resumed, it draws others
    unfinished = [trial for trial in study.trials if not trial.state.is_finished()]
    _go_on(study, wanted, folder, local, [(trial.number, trial.params) for trial in unfinished])
    while (left := wanted.trials - len(study.trials)) > 0:
        asked = [study.ask() for _ in range(min(left, local.parallel))]
        _go_on(study, wanted, folder, local, [(trial.number, _draw(trial, wanted)) for trial in asked])
    return [_job(wanted, folder, trial.number, trial.params) for trial in study.trials]


def _draw(trial: Any, wanted: Search) -> dict[str, Any]:
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


def _job(wanted: Search, folder: Path, number: int, settings: dict[str, Any]) -> Job:
    config = changed(named(wanted.preset), {**settings, "run.seed": wanted.seed})
    words = ", ".join(
        f"{key.rsplit('.', 1)[-1]}={value:.3g}" if isinstance(value, float) else f"{key.rsplit('.', 1)[-1]}={value}"
        for key, value in settings.items()
    )
    return Job(Planned(f"trial {number}: {words}", wanted.seed, config), folder / f"trial-{number:04d}")


def _go_on(study: Any, wanted: Search, folder: Path, local: Local, trials: list[tuple[int, dict[str, Any]]]) -> None:
    """Run some trials and tell the study how they went; one that failed is told as such."""
    jobs = {number: _job(wanted, folder, number, settings) for number, settings in trials}
    local.run(list(jobs.values()))
    for number, job in jobs.items():
        summary = job.summary()
        if summary is None:
            study.tell(number, state=extra("optuna", "a search", "search").trial.TrialState.FAIL)
        else:
            study.tell(number, summary["after"]["all"])
