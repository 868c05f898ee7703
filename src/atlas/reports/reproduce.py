"""The figures and tables of the paper: what each needs, and how it is drawn from runs of any scale.

An entry of `FIGURES` names the paper's experiments it shows (as presets), the evaluations they need, and a function
that draws. A scale says how large the runs are; runs are shared by all figures of a scale.
"""

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from atlas.config import Config
from atlas.errors import AtlasError, nearest
from atlas.evaluation.statistics import Estimate
from atlas.presets import preset
from atlas.reports import figures, results
from atlas.reports.figures import PAPER, Chart, bars, columns_of, drawn, interval_of_mean
from atlas.reports.reading import Group, read_runs
from atlas.reports.reference import referenced
from atlas.reports.results import Evaluated, Result, evaluated
from atlas.reports.tables import Cell, Number, Table
from atlas.runs.sweep import Evaluation, Job, Planned, changed
from atlas.settings import flat, to_plain
from atlas.words import short

if TYPE_CHECKING:
    from PIL.Image import Image

HAND: Final = "hand"
PROBLEMS: Final = ("myopic", "patrol", "choice")
"""Problems of the set `hand` by default: a door that must stay locked, keys that go unmentioned, and both."""
LEVEL_EDITS: Final = (
    "unspoken-key",
    ("add_rooms", "remove_rooms", "add_object", "remove_object", "move_agent", "move_object", "replace_door",
     "replace_object"),
)  # fmt: skip
TASK_EDITS: Final = ("there-and-back", ("switch_proposition", "add_state", "remove_state"))
HINDSIGHT_EDITS: Final = ("key-said", ("hindsight_preceding", "hindsight_succeeding"))
"""The problem that is edited, and the edits."""
CARDS: Final = 3
"""Generated problems of one moment."""
QUARTERS: Final = (0.25, 0.5, 0.75, 1.0)
"""When in a run its problems are looked at."""


# Scales


@dataclass(frozen=True)
class Scale:
    """How large the runs are."""

    about: str
    presets: dict[str, str]
    """The preset for each teacher; the paper's own ablations are applied to it."""
    seeds: int
    cvar: int
    """Problems in the sets for CVaR."""
    over_time: int
    """Attempts at each problem in evaluations over time."""
    minutes: float | None = None
    """Time limit of a run; the preset's own if None."""
    steps: int | None = None
    """Env steps of a run, however long they take, instead of minutes."""
    policies: int | None = None
    """Policies that a run keeps, which are the points of its curve; as many as the preset has if None."""


TEACHERS: Final = ("dr", "plr", "accel", "accel0")
SCALES: Final = {
    "quick": Scale(
        "two minutes a run on one and two rooms, one seed: whether everything works",
        {name: f"quick-{name}" for name in TEACHERS}, 1, 500, 2, 2.0,
        policies=12,
    ),
    "laptop": Scale(
        "an hour a run on up to six rooms, three seeds", {name: f"laptop-{name}" for name in TEACHERS}, 3, 2_000, 2
    ),
    "paper": Scale(
        "the paper's settings, five seeds: for a cluster", {name: f"paper-{name}" for name in TEACHERS}, 5, 10_000, 10
    ),
}  # fmt: skip


def config_at(scale: Scale, name: str) -> Config:
    """One of the paper's experiments, by its preset, at a scale: the scale's preset of its teacher, changed as the
    experiment changes the paper's. How long runs are is the scale's alone."""
    wanted = preset(name).config
    teacher = f"{wanted.teacher.name}{'0' if wanted.pairing.minimal else ''}"
    plain, usual = (flat(to_plain(preset(one).config)) for one in (name, f"paper-{teacher}"))
    if scale.presets[teacher] == f"paper-{teacher}":
        config = wanted
    else:
        own = {key: value for key, value in plain.items() if value != usual.get(key) and not key.startswith("run.")}
        config = changed(preset(scale.presets[teacher]).config, own)
    run = config.run
    if scale.steps is not None:
        run = replace(run, total_steps=scale.steps, time_limit=None)
    elif scale.minutes is not None:
        run = replace(run, time_limit=scale.minutes)
    return replace(config, run=replace(run, policies=scale.policies or run.policies))


# Figures


@dataclass(frozen=True)
class Material:
    """The data that a figure is drawn from."""

    groups: list[Group]
    """One for each of its experiments, in their order, under the names that the figure gives them."""
    problems: tuple[str, ...] = PROBLEMS
    """Problems of the set `hand`, where single problems are shown."""
    scale: str = "quick"

    def of(self, name: str) -> Evaluated:
        """The results of the groups on a set whose name begins so."""
        return next(one for one in evaluated(self.groups) if one.name.startswith(name))

    def __getitem__(self, name: str) -> Group:
        return next(group for group in self.groups if group.name == name)


@dataclass(frozen=True)
class Drawing:
    """The charts, tables and picture of a figure."""

    charts: list[Chart] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    picture: "Image | None" = None


@dataclass(frozen=True)
class Figure:
    """A figure or a table of the paper."""

    where: str
    """In the paper."""
    about: str
    draw: Callable[[Material], Drawing] | None
    """None: it has no data, and `about` says where its subject is told here."""
    runs: dict[str, str] = field(default_factory=dict)
    """The name of a method in the figure -> the preset of the experiment."""
    sets: tuple[str, ...] = ()
    """The evaluations that its runs need: a set, `over-time`, `cvar-sequential`, …"""


def named(*presets: str, **more: str) -> dict[str, str]:
    """Core experiments by the names that the paper gives them."""
    titles = {"dr": "DR", "plr": "PLR⊥", "accel": "ACCEL", "accel0": "ACCEL-0"}
    known = {}
    for one in presets:
        teacher = one.removeprefix("paper-").removeprefix("dag-").split("-")[0]
        known[titles[teacher]] = one
    return known | more


CORE: Final = named("paper-dr", "paper-plr", "paper-accel", "paper-accel0")
CORE_LEVEL: Final = named("paper-dr-level", "paper-plr-level", "paper-accel-level", "paper-accel0-level")
BUFFERED: Final = {name: one for name, one in CORE.items() if name != "DR"}
BUFFERED_LEVEL: Final = {name: one for name, one in CORE_LEVEL.items() if name != "DR"}
DAG: Final = {
    "DR": "paper-dag-dr",
    "PLR⊥": "paper-dag-plr",
    "DR, level": "paper-dag-dr-level",
    "PLR⊥, level": "paper-dag-plr-level",
}
DAG_BUFFERED: Final = {name: one for name, one in DAG.items() if name.startswith("PLR")}


def learning(material: Material) -> list[Chart]:
    """IQM and mean over env steps on the set `hand`, with the authors' final values."""
    charts = figures.over_time(material.groups)
    # A figure of one method has all aggregates in one chart.
    wanted = (f"over-time-iqm-{HAND}", f"over-time-mean-{HAND}", f"over-time-{HAND}")
    return [referenced(chart, material.groups) for chart in charts if chart.name in wanted]


def final_table(material: Material) -> Table:
    """Aggregates of the last policies, from the evaluation over time."""
    rows: list[tuple[Cell, ...]] = []
    for group in material.groups:
        told = [run.over_time[HAND] for run in group.runs]
        curves = figures.learning_curves(told)
        last = [curves[kind] for kind in ("iqm", "mean")]
        cells = [Number(float(c.value[-1]), float(c.low[-1]), float(c.high[-1])) for c in last]
        rows.append((group.name, len(group.runs), int(curves["iqm"].x[-1]), *cells))
    title = f"Solve rates on {HAND} at the end, with 95 % intervals."
    return Table("final", title, ("method", "runs", "env steps", "IQM", "mean"), rows)


def performance(cvar: str) -> Callable[[Material], Drawing]:
    """CVaR on a sampled set, and learning curves on the hand-designed one."""

    def draw(material: Material) -> Drawing:
        worst = [chart for chart in results.charts(material.of(cvar)) if chart.name.startswith("cvar-")]
        return Drawing([*worst, *learning(material)], [final_table(material)])

    return draw


def ablation(*panels: tuple[str, ...]) -> Callable[[Material], Drawing]:
    """Learning curves of some methods in each panel; of all of them in one if none are told."""

    def draw(material: Material) -> Drawing:
        parts = [replace(material, groups=[material[name] for name in names]) for names in panels] or [material]
        rows = zip(*map(learning, parts), strict=True)  # IQM of each panel, then means
        return Drawing([chart for row in rows for chart in row], [final_table(material)])

    return draw


def level_conditioned(material: Material) -> Drawing:
    """As `performance`, and final solve rates beside those with independent sampling."""
    conditioned = replace(material, groups=material.groups[: len(CORE)])
    first = performance("cvar-sequential")(conditioned)
    reached = {result.group.name: result.aggregates["iqm"] for result in material.of(HAND).results}
    methods = list(CORE)
    pairs = [[reached[f"{name}{suffix}"] for name in methods] for suffix in (", independent", "")]
    values, low, high = np.stack([columns_of(row) for row in pairs], axis=1)
    draw = bars(["independent", "level-conditioned"], methods, values, low, high)
    words = f"IQM on {HAND} at the end, with 95 % intervals."
    return Drawing([*first.charts, Chart("comparison", "Independent and conditioned", words, draw)], first.tables)


def curriculum(*names: str) -> Callable[[Material], Drawing]:
    """How large the problems are that are replayed."""

    def draw(material: Material) -> Drawing:
        charts = {chart.name: chart for chart in figures.means(material.groups)}
        wanted = [charts[f"curriculum-{name}"] for name in names if f"curriculum-{name}" in charts]
        return Drawing([referenced(chart, material.groups) for chart in wanted])

    return draw


def solvable(material: Material) -> Drawing:
    return Drawing([referenced(chart, material.groups) for chart in figures.solvable(material.groups)])


def edits(material: Material) -> Drawing:
    kinds = [chart for chart in figures.by_group(material.groups) if chart.name.startswith("edit-kinds")]
    return Drawing([*kinds, *curriculum("edits")(material).charts])


def single_problems(material: Material) -> Drawing:
    """Chosen problems with the solve rate of every method on them."""
    from atlas.runs.problem_files import choose_problem

    one = material.of(HAND)
    rows: list[tuple[Cell, ...]] = []
    pages = []
    for name in material.problems:
        rates = [_rate_on(result, name) for result in one.results]
        chosen = choose_problem(f"{HAND}:{name}")
        words = f"Solved within {one.limit}."
        values, low, high = columns_of(rates)[:, :, None]
        draw = partial(_of_all, bars([result.group.name for result in one.results], [name], values, low, high))
        pages.append((_portrait(chosen), _image(Chart(name, name, words, draw))))
        rows.append((name, *(Number(r.value, r.low, r.high) for r in rates)))
    columns = ("problem", *(result.group.name for result in one.results))
    table = Table("problems", f"Solve rates within {one.limit}, with 95 % intervals.", columns, rows)
    return Drawing(tables=[table], picture=_columns(pages))


def _of_all(draw: Callable[[Any], None], axes: Any) -> None:
    """Bars with an axis up to 100 %."""
    draw(axes)
    axes.set_ylim(0, 1.02)


def _rate_on(result: Result, name: str) -> Estimate:
    """The mean over runs with its interval; of a single run, that of its attempts."""
    names = [row["name"] for row in result.problems]
    if name not in names:
        raise AtlasError(f"the set {HAND} has no problem '{name}'{nearest(name, names)}")
    place = names.index(name)
    if len(result.entries) == 1:
        row = result.problems[place]
        return Estimate(row["rate"], row["low"], row["high"])
    low, high = interval_of_mean(result.rates[:, place : place + 1])
    return Estimate(float(result.rates[:, place].mean()), float(low[0]), float(high[0]))


def by_problem(material: Material) -> Drawing:
    """The paper's long tables: a row for each problem."""
    return Drawing(tables=[table for table in results.tables(material.of(HAND)) if table.name.startswith("problems-")])


def generated(material: Material) -> Drawing:
    """Problems that each method proposes near the end."""
    return Drawing(picture=_below([_moment(group, 1.0, f"{group.name}: proposed") for group in material.groups]))


def generated_over_time(material: Material) -> Drawing:
    """Problems that a method proposes in each quarter of the run."""
    group = material.groups[0]
    return Drawing(picture=_below([_moment(group, part, f"{group.name}: proposed") for part in QUARTERS]))


def _moment(group: Group, part: float, words: str) -> "Image":
    """A few problems of the snapshot that was taken nearest to a part of a run."""
    import jax

    from atlas.runs.retention import spread
    from atlas.runs.store import load_bulk
    from atlas.show.media import contact_sheet

    run = next((run for run in group.runs if run.snapshots), None)
    if run is None:
        raise AtlasError(f"{group.runs[0].path} has kept no snapshots: there are no problems to show")
    kept = [load_bulk(path) for path in run.snapshots]
    aim = part * kept[-1].settings["steps"]
    bulk = min(kept, key=lambda one: abs(one.settings["steps"] - aim))
    facts = bulk.settings["examples"]
    chosen = spread(min(len(bulk), len(facts)), CARDS)
    some = jax.tree.map(lambda leaf: np.asarray(leaf)[chosen], bulk.problems)
    return contact_sheet(some, [facts[n] for n in chosen], bulk.settings, words)


def example(material: Material) -> Drawing:
    """A level and its task."""
    from atlas.runs.problem_files import choose_problem

    return Drawing(picture=_portrait(choose_problem(f"{HAND}:colour-and-shape")))


def hierarchy(material: Material) -> Drawing:
    """A sampled task of machines that call each other."""
    from atlas.api import sample

    drawn = sample(32, tasks="hierarchical", seed=2)  # some have a single machine
    return Drawing(picture=_portrait(max(drawn, key=lambda problem: len(problem.task.machines))))


def before_and_after(source: tuple[str, tuple[str, ...]]) -> Callable[[Material], Drawing]:
    """A problem, and what each of some edits makes of it."""

    def draw(material: Material) -> Drawing:
        from atlas.api import edit
        from atlas.runs.problem_files import choose_problem
        from atlas.show import canvas
        from atlas.show.media import sheet
        from atlas.show.problem import drawing

        problem = choose_problem(f"{HAND}:{source[0]}")
        made = [edit(problem, kind) for kind in source[1]]
        pages = [drawing(problem.level, problem.task, f"{problem.name}, before")]
        pages += [drawing(one.problem.level, one.problem.task, one.edit) for one in made]
        return Drawing(picture=sheet([canvas.pixels(page) for page in pages], 3))

    return draw


LISTED: Final = {
    "Maximum episode length": "domain.step_limit",
    "Environment steps": "run.total_steps",
    "Discount rate": "student.ppo.gamma",
    "GAE lambda": "student.ppo.gae_lambda",
    "Parallel environments": "run.num_envs",
    "Rollout length": "run.rollout",
    "Epochs": "student.ppo.epochs",
    "Environments in a minibatch": "student.ppo.minibatch_envs",
    "Clip range": "student.ppo.clip",
    "Maximum gradient norm": "student.ppo.max_grad_norm",
    "Adam learning rate": "student.ppo.learning_rate",
    "Adam epsilon": "student.ppo.adam_eps",
    "Value loss coefficient": "student.ppo.value_coefficient",
    "Entropy loss coefficient": "student.ppo.entropy",
    "Buffer capacity": "teacher.buffer.capacity",
    "Prioritisation": "teacher.buffer.prioritisation",
    "Temperature": "teacher.buffer.temperature",
    "Staleness coefficient": "teacher.buffer.staleness",
    "Replay rate": "teacher.replay_prob",
    "Score function": "teacher.score",
    "Fewest edits": "teacher.edits.least",
    "Most edits": "teacher.edits.most",
}
"""A row of the paper's table -> the setting."""


def hyperparameters(material: Material) -> Drawing:
    """The settings of the core experiments at a scale."""
    plain = [dict(flat(to_plain(config_at(SCALES[material.scale], name)))) for name in CORE.values()]
    rows: list[tuple[Cell, ...]] = [(words, *(_cell(one.get(key)) for one in plain)) for words, key in LISTED.items()]
    title = f"Settings of the core experiments, scale {material.scale}."
    return Drawing(tables=[Table("hyperparameters", title, ("parameter", *CORE), rows)])


def _cell(value: Any) -> Cell:
    return (
        value if value is None or isinstance(value, str) else f"{value:,}" if isinstance(value, int) else f"{value:g}"
    )


# Pictures made of pictures


def _portrait(problem: Any) -> "Image":
    from atlas.show.problem import picture

    return picture(problem)


def _image(chart: Chart) -> "Image":
    from PIL import Image

    return Image.open(io.BytesIO(drawn(chart, PAPER, ("png",))[0])).convert("RGB")


def _below(pages: "Sequence[Image]") -> "Image":
    from PIL import Image

    page = Image.new("RGB", (max(p.width for p in pages), sum(p.height for p in pages)), "white")
    top = 0
    for one in pages:
        page.paste(one, (0, top))
        top += one.height
    return page


def _columns(pairs: "Sequence[tuple[Image, Image]]") -> "Image":
    """Pictures over pictures in columns of one width, the lower ones in a row."""
    from PIL import Image

    from atlas.show.media import sheet

    width = max(lower.width for _, lower in pairs)
    fitted = []
    for upper, _ in pairs:
        scale = min(1.0, width / upper.width)
        fitted.append(upper.resize((round(scale * upper.width), round(scale * upper.height))))
    height, columns = max(upper.height for upper in fitted), []
    for upper, (_, lower) in zip(fitted, pairs, strict=True):
        page = Image.new("RGB", (width, height + lower.height), "white")
        page.paste(upper, ((width - upper.width) // 2, 0))
        page.paste(lower, (0, height))
        columns.append(page)
    return sheet(columns, len(columns))


_KINDS: Final = {
    "L+T+H": "paper-accel",
    "L+T": "paper-accel-lt",
    "L+H": "paper-accel-lh",
    "T+H": "paper-accel-th",
    "L": "paper-accel-l",
    "T": "paper-accel-t",
}
_KINDS_0: Final = {"ACCEL-0, L+T+H": "paper-accel0", "ACCEL-0, L+T": "paper-accel0-lt"}
_NUMBERS: Final = {
    f"{title}, {words}": f"{name}{suffix}"
    for title, name in (("ACCEL", "paper-accel"), ("ACCEL-0", "paper-accel0"))
    for words, suffix in (
        ("7-10 edits", ""),
        ("1 edit", "-edits-1"),
        ("3 edits", "-edits-3"),
        ("20 edits", "-edits-20"),
    )
}
_SCORES: Final = {
    f"{title}, {score}{words}": f"paper-{teacher}{middle}{pairing}"
    for pairing, words in (("", ""), ("-level", ", level"))
    for title, teacher in (("PLR⊥", "plr"), ("ACCEL", "accel"), ("ACCEL-0", "accel0"))
    for score, middle in (("MaxMC", ""), ("PVL", "-pvl"))
}
_SIZES: Final = ("states", "rooms", "objects")

FIGURES: Final[dict[str, Figure]] = {
    "example": Figure("Figure 1", "a problem: a level and a task", example),
    "overview": Figure("Figure 2", "how the parts work together; here: docs/architecture.md", None),
    "core": Figure(
        "Figure 3", "CVaR, and IQM over time on the hand-designed set, independent sampling",
        performance("cvar-sequential"), CORE, ("over-time", "cvar-sequential"),
    ),
    "problems": Figure("Figure 4", "solve rates on three chosen problems", single_problems, CORE, (HAND,)),
    "curriculum": Figure("Figure 5", "how large replayed problems are over training", curriculum(*_SIZES), BUFFERED),
    "generated": Figure("Figure 6", "generated problems near the end of training", generated, CORE),
    "hierarchy": Figure("Figure 7", "a sampled hierarchy of reward machines", hierarchy),
    "literals": Figure("Figure 8", "how literals are embedded; here: src/atlas/student/encode.py", None),
    "level-edits": Figure("Figure 9", "level edits, before and after", before_and_after(LEVEL_EDITS)),
    "task-edits": Figure("Figure 10", "task edits, before and after", before_and_after(TASK_EDITS)),
    "hindsight-edits": Figure("Figure 11", "hindsight edits, before and after", before_and_after(HINDSIGHT_EDITS)),
    "solvable-buffer": Figure("Figure 12", "solvable problems in the buffer, independent sampling", solvable, BUFFERED),
    "generated-dr": Figure("Figure 13", "problems over training, DR", generated_over_time, named("paper-dr")),
    "generated-plr": Figure("Figure 14", "problems over training, PLR⊥", generated_over_time, named("paper-plr")),
    "generated-accel": Figure("Figure 15", "problems over training, ACCEL", generated_over_time, named("paper-accel")),
    "generated-accel0": Figure(
        "Figure 16", "problems over training, ACCEL-0", generated_over_time, named("paper-accel0")
    ),
    "edits": Figure(
        "Figure 17", "which edits made the problems of the buffer, and how many", edits,
        named("paper-accel", "paper-accel0"),
    ),
    "level": Figure(
        "Figure 18", "CVaR, IQM over time, and both kinds of sampling at the end; level-conditioned sampling",
        level_conditioned, CORE_LEVEL | {f"{name}, independent": one for name, one in CORE.items()},
        ("over-time", HAND, "cvar-sequential"),
    ),
    "level-curriculum": Figure(
        "Figure 19", "how large replayed problems are, level-conditioned sampling", curriculum(*_SIZES), BUFFERED_LEVEL
    ),
    "level-solvable": Figure(
        "Figure 20", "solvable problems in the buffer, level-conditioned sampling", solvable, BUFFERED_LEVEL
    ),
    "dag": Figure(
        "Figure 21", "CVaR, and IQM over time, with tasks that are acyclic graphs", performance("cvar-dag"), DAG,
        ("over-time", "cvar-dag"),
    ),
    "dag-curriculum": Figure(
        "Figure 22", "how large replayed problems are, paths included, acyclic graphs",
        curriculum(*_SIZES, "paths", "path-length"), DAG_BUFFERED,
    ),
    "dag-generated-dr": Figure(
        "Figure 23", "problems over training, DR on acyclic graphs", generated_over_time, named("paper-dag-dr")
    ),
    "dag-generated-plr": Figure(
        "Figure 24", "problems over training, PLR⊥ on acyclic graphs", generated_over_time, named("paper-dag-plr")
    ),
    "dag-solvable": Figure("Figure 25", "solvable problems in the buffer, acyclic graphs", solvable, DAG_BUFFERED),
    "edit-ablations": Figure(
        "Figure 26", "which kinds of edits, and how many: ACCEL and ACCEL-0",
        ablation(tuple(_KINDS), tuple(_KINDS_0), tuple(_NUMBERS)), _KINDS | _KINDS_0 | _NUMBERS, ("over-time",),
    ),
    "conditioning": Figure(
        "Figure 27", "how the policy is told its task", ablation(),
        {"default": "paper-plr", "state index": "paper-plr-index", "myopic": "paper-plr-myopic",
         "independent literals": "paper-plr-independent-literals"}, ("over-time",),
    ),
    "scores": Figure(
        "Figure 28", "MaxMC against PVL, both kinds of sampling",
        ablation(tuple(n for n in _SCORES if "level" not in n), tuple(n for n in _SCORES if "level" in n)), _SCORES,
        ("over-time",),
    ),
    "related-work": Figure("Table 1", "methods of other papers compared; there is nothing to run", None),
    "hyperparameters": Figure("Table 2", "the settings of the core experiments", hyperparameters),
    "problems-independent": Figure(
        "table of Appendix E.10", "solve rates by problem, independent sampling", by_problem, CORE, (HAND,)
    ),
    "problems-level": Figure(
        "table of Appendix E.10", "solve rates by problem, level-conditioned sampling", by_problem, CORE_LEVEL, (HAND,)
    ),
    "problems-dag": Figure(
        "table of Appendix E.10", "solve rates by problem, acyclic graphs", by_problem, DAG, (HAND,)
    ),
}  # fmt: skip
"""By name, in the order of the paper."""


def find_figure(name: str) -> Figure:
    """A figure, or a sentence that lists those there are."""
    if name not in FIGURES:
        hint = nearest(name, FIGURES) or "."
        raise AtlasError(f"there is no figure '{name}'{hint} There are {', '.join(FIGURES)}, and all of them: all")
    return FIGURES[name]


# From a figure to its runs, and from runs to their groups


def jobs_for(figure: Figure, scale: Scale, folder: Path, sets: dict[str, str]) -> dict[str, list[Job]]:
    """The runs of each method, with the evaluations they need; `sets` says where the sets of this scale are."""
    wanted = tuple(
        Evaluation(HAND, True, scale.over_time) if name == "over-time" else Evaluation(sets.get(name, name))
        for name in figure.sets
    )
    found = {}
    for title, name in figure.runs.items():
        config = config_at(scale, name)
        runs = [Planned(name, n, replace(config, run=replace(config.run, seed=n))) for n in range(scale.seeds)]
        found[title] = [Job(run, folder / run.name, wanted) for run in runs]
    return found


def joined(plans: Iterable[dict[str, list[Job]]]) -> list[Job]:
    """The runs of several figures, each once, with all evaluations that any of them needs."""
    evaluations: dict[Path, dict[Evaluation, None]] = {}
    planned = {}
    for job in (job for plan in plans for some in plan.values() for job in some):
        planned[job.folder] = job.planned
        evaluations.setdefault(job.folder, {}).update(dict.fromkeys(job.evaluations))
    return [Job(run, folder, tuple(evaluations[folder])) for folder, run in planned.items()]


def groups_of(jobs: dict[str, list[Job]]) -> list[Group]:
    """The runs of each method, read from their folders."""
    paths = list(dict.fromkeys(job.folder for some in jobs.values() for job in some))
    runs = dict(zip(paths, read_runs(paths), strict=True)) if paths else {}
    return [Group(title, tuple(runs[job.folder] for job in some)) for title, some in jobs.items()]


def unfinished(jobs: Iterable[Job]) -> Iterator[str]:
    """The unfinished runs, each with the command that goes on with it."""
    words = {"new": "was not trained", "begun": "is half trained", "trained": "was not evaluated"}
    for job in jobs:
        if (status := job.status()) != "done":
            yield f"{job.folder} {words[status]}: `atlas {' '.join(job.command()[3:])}`"


def describe(name: str, scale: Scale) -> dict[str, Any]:
    """A description of a figure: what it shows, what it needs, how long it takes."""
    figure = find_figure(name)
    runs = len(set(figure.runs.values())) * scale.seeds
    configs = [config_at(scale, one) for one in dict.fromkeys(figure.runs.values())]
    minutes = sum(config.run.time_limit or 0 for config in configs) * scale.seeds
    steps = max((config.run.total_steps for config in configs), default=0)
    time = f"{minutes:g} minutes" if minutes else f"{short(steps)} env steps each"
    return {
        "name": name,
        "where": figure.where,
        "about": figure.about,
        "runs": runs,
        "presets": list(dict.fromkeys(figure.runs.values())),
        "sets": [HAND + " over time" if one == "over-time" else one for one in figure.sets],
        "training": time if runs else None,
    }
