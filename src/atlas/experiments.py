"""Experiments from Python: settings in one line, training with parts of your own, evaluation, reports."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from atlas import plugins
from atlas.cli import COMPILER_LOG
from atlas.config import Config
from atlas.domains import DOMAINS, DomainRow
from atlas.errors import AtlasError
from atlas.evaluation.play import Attempts, Evaluator
from atlas.evaluation.sets import open_set
from atlas.evaluation.statistics import STATISTICS
from atlas.presets import config_of
from atlas.runs import run as runs
from atlas.runs.folder import find, unused
from atlas.runs.hosts import Team
from atlas.runs.policy import Policy, load_policy
from atlas.runs.run import Callback, Result
from atlas.settings import STEP_LIMIT, DomainSettings, Settings, changed, require_seed, to_plain
from atlas.types import Edit, Problem
from atlas.ued import SCORE_NAMES, TEACHERS, Row, TeacherConfig
from atlas.ued.scores import ScoreFn

TeacherLike = str | TeacherConfig | tuple[TeacherConfig, Callable[..., Any]]
"""A name, settings of a teacher that is known, or settings of your own with the teacher that they are for (a class, or
any function of settings and supply)."""
DomainLike = str | DomainSettings | tuple[DomainSettings, DomainRow]
"""A name, settings of a domain that is known, or settings of your own with the row that says where its parts are."""


@contextmanager
def _without_alarms() -> Iterator[None]:
    """Without XLA's alarms that a program compiles slowly, unless the user has set what the compiler may tell."""
    from jaxlib import utils  # the variable is read once, when JAX is imported

    level = os.environ.get(COMPILER_LOG, "1")
    if level != "1":
        yield
        return
    utils.absl_set_min_log_level(3)
    try:
        yield
    finally:
        utils.absl_set_min_log_level(1)


def configure(preset: str, changes: Mapping[str, Any] | None = None, /, **sections: Any) -> Config:
    """The settings of a preset, or of a file (.yaml), with changes: `configure("quick", {"run.time_limit": 1})`, or
    section by section: `configure("quick", run={"time_limit": 1}, teacher={"name": "plr"})`."""
    whole = {name: to_plain(one) if isinstance(one, Settings) else one for name, one in sections.items()}
    return changed(config_of(preset), _nested({**whole, **(changes or {})}))


def _nested(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes by full name (`run.seed`) or by section, as files have them."""
    found: dict[str, Any] = {}
    for key, value in changes.items():
        *path, last = key.split(".")
        place = found
        for name in path:
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                raise AtlasError(f"{key} and {name} are both given: one of them is needed")
        plain = _nested(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value
        place[last] = {**place.get(last, {}), **plain} if isinstance(plain, dict) else plain
    return found


@_without_alarms()
def train(
    config: Config | str = "quick",
    folder: Path | str | None = None,
    *,
    teacher: TeacherLike | None = None,
    score: str | ScoreFn | None = None,
    domain: DomainLike | None = None,
    edits: Sequence[str | Edit[Problem]] = (),
    callbacks: Sequence[Callback] = (),
    init: Path | str | None = None,
    overwrite: bool = False,
    devices: int | None = None,
    tensorboard: bool = False,
    wandb: bool = False,
    quiet: bool = False,
) -> Result:
    """Train a new run, as `atlas train` does, with settings or a preset's name, and parts of your own.

    `teacher`, `score`, `domain`, `edits`: names, settings, or your own as values; `edits` are made beside ours. What is
    passed as a value is named in the run's folder, and `atlas.resume` asks for it. `callbacks` are called with the
    `Moment` (iteration, steps, record, state) after each call of the compiled step; one that returns true ends the run
    after the next. `init`: a run or a policy of the zoo (`zoo:laptop`) whose weights it begins with. `folder`:
    runs/NAME, or the next that is free. `quiet` prints nothing.
    """
    title = config if isinstance(config, str) else "python"
    chosen, given = _with_parts(configure(config) if isinstance(config, str) else config, teacher, score, domain, edits)
    path = unused(Path("runs") / Path(title).stem) if folder is None else Path(folder)
    result = runs.train(
        path, chosen, Team(), devices, title, overwrite, tensorboard, wandb, quiet, given, callbacks, init
    )  # fmt: skip
    assert result is not None
    return result


@_without_alarms()
def resume(
    folder: Path | str,
    changes: Mapping[str, Any] | None = None,
    *,
    teacher: tuple[TeacherConfig | type[TeacherConfig], Callable[..., Any]] | None = None,
    score: ScoreFn | None = None,
    domain: tuple[DomainSettings | type[DomainSettings], DomainRow] | None = None,
    edits: Sequence[Edit[Problem]] = (),
    callbacks: Sequence[Callback] = (),
    devices: int | None = None,
    quiet: bool = False,
) -> Result:
    """Go on with a run from its last checkpoint. What was passed to it as a value has to be passed again.

    `changes`: settings of the section `run`, such as `{"run.time_limit": 30}`.
    """
    if teacher is not None:
        _give_teacher(*teacher)
    if domain is not None:
        _give_domain(*domain)
    if score is not None:
        _give_score(score)
    for edit in edits:
        _give_edit(edit)
    kept = find(Path(folder)).config()
    wanted = kept if changes is None else changed(kept, _nested(changes))
    result = runs.resume(Path(folder), Team(), devices, wanted, quiet=quiet, callbacks=callbacks)
    assert result is not None
    return result


def _with_parts(
    config: Config,
    teacher: TeacherLike | None,
    score: str | ScoreFn | None,
    domain: DomainLike | None,
    edits: Sequence[str | Edit[Problem]],
) -> tuple[Config, dict[str, dict[str, Any]]]:
    """The config with these parts, and those of them that are values, by kind and name."""
    given: dict[str, dict[str, Any]] = {}
    if isinstance(domain, tuple):
        settings, row = domain
        given["domains"] = {_give_domain(settings, row): row}
        config = replace(config, domain=settings)
    elif isinstance(domain, str):
        config = changed(config, {"domain": {"name": domain}})
    elif domain is not None:
        config = replace(config, domain=domain)
    if isinstance(teacher, tuple):
        chosen, make = teacher
        given["teachers"] = {_give_teacher(chosen, make): make}
        config = replace(config, teacher=chosen)
    elif isinstance(teacher, str):
        config = changed(config, {"teacher": {"name": teacher}})
    elif teacher is not None:
        config = replace(config, teacher=teacher)
    if score is not None:
        _require_setting(config, "score")
        if not isinstance(score, str):
            given["scores"] = {_give_score(score): score}
        config = changed(config, {"teacher": {"score": score if isinstance(score, str) else score.__name__}})
    if edits:
        _require_setting(config, "edits")
        values = {edit.name: edit for edit in edits if not isinstance(edit, str)}
        for edit in values.values():
            _give_edit(edit)
        given |= {"edits": values} if values else {}
        names = [edit if isinstance(edit, str) else edit.name for edit in edits]
        config = changed(config, {"teacher": {"edits": {"more": names}}})
    return config, given


def _require_setting(config: Config, name: str) -> None:
    if name not in {field.name for field in fields(config.teacher)}:
        raise AtlasError(f"the teacher {config.teacher.name} has no setting '{name}': choose another, such as accel")


def _give_teacher(settings: TeacherConfig | type[TeacherConfig], make: Callable[..., Any]) -> str:
    kind = settings if isinstance(settings, type) else type(settings)
    name = _name_of(kind)
    plugins.give("teachers", name, Row(kind, make), TEACHERS.own)
    return name


def _give_domain(settings: DomainSettings | type[DomainSettings], row: DomainRow) -> str:
    name = _name_of(settings if isinstance(settings, type) else type(settings))
    plugins.give("domains", name, row, DOMAINS.own)
    return name


def _name_of(kind: type[Any]) -> str:
    """The name that the settings of a teacher or a domain declare."""
    found = [field.default for field in fields(kind) if field.name == "name"]
    if not found or not isinstance(found[0], str):
        raise AtlasError(f"{kind.__name__} has no name: declare `name: Literal['mine'] = 'mine'` in it")
    return found[0]


def _give_score(score: ScoreFn) -> str:
    name = getattr(score, "__name__", "")
    if not name.isidentifier():
        raise AtlasError("a score needs a name that settings can tell: define it as a function with `def`")
    plugins.give("scores", name, score, dict.fromkeys(SCORE_NAMES))
    return name


def _give_edit(edit: Edit[Problem]) -> None:
    plugins.give("edits", edit.name, edit, {})


# Evaluation and reports


@dataclass(frozen=True, eq=False)
class Evaluation:
    """How often a policy solved each problem of a set."""

    names: tuple[str, ...]
    rates: np.ndarray
    """`float[problems]`"""
    attempts: Attempts
    """Every attempt: whether it was solved or timed out, and how long it took."""

    @property
    def mean(self) -> float:
        """Over problems."""
        return STATISTICS["mean"](self.rates)

    @property
    def median(self) -> float:
        """Over problems."""
        return STATISTICS["median"](self.rates)

    @property
    def iqm(self) -> float:
        """The interquartile mean over problems."""
        return STATISTICS["iqm"](self.rates)

    def __repr__(self) -> str:
        tries = self.attempts.solved.shape[1]
        return f"Evaluation({len(self.names)} problems x {tries} attempts: mean {self.mean:.3f}, IQM {self.iqm:.3f})"


@_without_alarms()
def evaluate(
    policy: Policy | Path | str,
    problems: Problem | Sequence[Problem] | str = "hand",
    attempts: int = 20,
    *,
    greedy: bool = False,
    seed: int = 0,
    step_limit: int | None = None,
    which: Literal["last", "best"] = "last",
) -> Evaluation:
    """Play problems several times with a policy (or that of a run), without learning.

    `problems`: a list, or the name or path of a set. `greedy` always takes the likeliest action; then one attempt is
    made. `step_limit`: the set's own, or 512. Nothing is written; `atlas eval` keeps its results with the run.
    """
    require_seed(seed)
    if not isinstance(policy, Policy):
        policy = load_policy(policy, which)
    if isinstance(problems, str):
        chosen = open_set(problems)
        listed, limit = list[Problem](chosen.problems), chosen.step_limit
    else:
        listed, limit = [problems] if isinstance(problems, Problem) else list(problems), STEP_LIMIT
    if not listed:
        raise AtlasError("there are no problems to evaluate on")
    policy.require_domain(listed)
    limit = limit if step_limit is None else step_limit
    found = Evaluator(listed, 1 if greedy else attempts, limit, greedy, seed).of_student(policy.student, policy.params)
    names = tuple(getattr(one, "name", "") or f"problem-{number}" for number, one in enumerate(listed))
    return Evaluation(names, found.solved.mean(1), found)


def report(
    runs: Path | str | Sequence[Path | str],
    out: Path | str = "report.html",
    *,
    figures: Path | str | None = None,
    tables: Path | str | None = None,
    episodes: int = 4,
    reference: Literal["paper"] | None = None,
) -> Path:
    """Write one page about runs, as `atlas report` does, perhaps its figures and tables too; gives the page's path."""
    from atlas.reports.page import write_report

    paths = [Path(run) for run in ([runs] if isinstance(runs, Path | str) else runs)]
    into, beside = (None if place is None else Path(place) for place in (figures, tables))
    write_report(paths, Path(out), into, beside, episodes, reference is not None)
    return Path(out)
