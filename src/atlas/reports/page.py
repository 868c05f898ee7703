"""The page about runs: sections in order, each from files alone; what is missing is said with its command."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Final, TypeVar

import jax
import numpy as np

from atlas.documents import require_file, require_folder
from atlas.domains import domain_of
from atlas.errors import AtlasError, printable
from atlas.evaluation.results import skipped_words
from atlas.evaluation.sets import named_sets
from atlas.reports import figures, results
from atlas.reports.episodes import episodes, legend, level_svg, task_svg, task_words
from atlas.reports.figures import Chart, at, inline_svg, points, save_chart
from atlas.reports.reading import Group, Plain, Run, group_runs, nearest_preset, read_runs
from atlas.reports.reference import SET as REFERENCE_SET
from atlas.reports.reference import reference_table, referenced, without_counterpart
from atlas.reports.results import Evaluated, evaluated
from atlas.reports.tables import Cell, Number, Table, save_table, to_html
from atlas.runs.folder import RunFolder
from atlas.runs.lineage import Tree, origin, read_tree, worth
from atlas.runs.retention import spread
from atlas.runs.store import Bulk, load_bulk, write_whole
from atlas.settings import dump
from atlas.show.problem import sprite
from atlas.types import Problem
from atlas.ued.curriculum import ancestry
from atlas.words import clock, command, plural, short

# A gallery of generated problems through time: what the teacher replayed, and where it came from.

CARDS: Final = 4
"""Examples of one moment."""
MOMENTS, FEWEST_MOMENTS = 6, 2
MOST_CARDS: Final = 48
"""On the whole page: it must stay small enough to be sent around."""


def gallery(groups: Sequence[Group]) -> tuple[str, list[str]]:
    """The gallery as HTML, and sentences about what could not be read."""
    runs = [(group, run) for group in groups if (run := next((r for r in group.runs if r.snapshots), None))]
    runs = runs[: MOST_CARDS // (CARDS * FEWEST_MOMENTS)]
    notes: list[str] = []
    moments = min(MOMENTS, MOST_CARDS // (CARDS * max(1, len(runs))))
    parts = [_of_run(group, run, moments, len(groups) > 1, notes) for group, run in runs]
    return "".join(parts), notes


def _of_run(group: Group, run: Run, moments: int, named: bool, notes: list[str]) -> str:
    rows = []
    for number in spread(len(run.snapshots), moments):
        path = run.snapshots[number]
        try:
            rows.append(_moment(load_bulk(path), group.config.plan.buffer is not None))
        except Exception as error:
            notes.append(f"{path} could not be shown ({error})")
    title = f"<h3>{escape(group.name)}</h3>" if named else ""
    return title + "".join(rows)


def _moment(bulk: Bulk, kept: bool) -> str:
    """The examples of one snapshot; what the teacher keeps is told with its score."""
    facts: list[Plain] = bulk.settings["examples"]
    chosen = spread(min(len(bulk), len(facts)), CARDS)
    cards = "".join(_card(_one(bulk.problems, int(n)), facts[n], kept) for n in chosen)
    return f'<h4>after {short(bulk.settings["steps"])} env steps</h4><div class="cards">{cards}</div>\n'


def _one(problems: Problem, number: int) -> Problem:
    chosen: Problem = jax.tree.map(lambda leaf: np.asarray(leaf)[number], problems)
    return chosen


def _card(problem: Problem, fact: Plain, kept: bool) -> str:
    told = f"<p class='dim'>{escape(_facts(fact))}</p>" if kept else ""
    return (
        f'<article class="card"><div class="level">{level_svg(problem.level)}</div>'
        f'<div class="machine">{task_svg(problem)}</div>'
        f"{task_words(problem)}{told}{_lineage(fact)}</article>\n"
    )


def _facts(fact: Plain) -> str:
    played = f"solved {fact['solves']:,} of {fact['attempts']:,}" if fact["attempts"] else "not played yet"
    return f"replayed with probability {fact['probability']:.2%}, {played}, score {fact['score']:.3g}"


def _lineage(fact: Plain) -> str:
    """Its origin; the edits are shown on demand."""
    if not fact["edits"]:
        return f"<p class='dim'>{escape(ancestry(fact))}</p>"
    edits = "".join(f"<li>{escape(str(edit))}</li>" for edit in fact["edits"])
    count = len(fact["edits"])
    title = f"generation {fact['generation']}, {count} edit{'s' * (count != 1)} from problem {fact['parent']:,}"
    return f"<details><summary>{escape(title)}</summary><ol>{edits}</ol></details>"


# Where the latest problems came from

FAMILIES: Final = 3
"""Families on the page."""
MOST_ANCESTORS: Final = 8
"""Most ancestors that are shown of one problem: the latest."""


def families(groups: Sequence[Group]) -> tuple[str, list[str]]:
    """The ancestors of a few problems that are in the buffers at the end, as HTML, and sentences about what could not
    be read."""
    parts, notes = [], []
    for group in groups[:FAMILIES]:
        run = next((run for run in group.runs if RunFolder(run.path).lineage_file.exists()), None)
        if run is None:
            continue
        try:
            tree = read_tree(run.path)
        except AtlasError as error:
            notes.append(str(error))
            continue
        title = f"<h3>{escape(group.name)}</h3>" if len(groups) > 1 else ""
        parts.append(title + "".join(_family(tree, n) for n in tree.notable(max(1, FAMILIES // len(groups)))))
    return "".join(parts), notes


def _family(tree: Tree, number: int) -> str:
    cards = []
    for which in tree.ancestors(number)[-MOST_ANCESTORS:]:
        fact, problem = tree.facts[which], tree.problem(which)
        edits = "".join(f"<li>{escape(edit)}</li>" for edit in fact["edits"])
        cards.append(
            f'<article class="card"><div class="level">{level_svg(problem.level)}</div>{task_words(problem)}'
            f"<p><b>problem {which:,}</b>, {escape(origin(tree, fact))}</p>{f'<ol>{edits}</ol>' if edits else ''}"
            f"<p class='dim'>{escape(worth(fact))}</p></article>\n"
        )
    stayed = sum(tree.facts[which]["alive"] for which, _ in tree.descendants(number))
    words = f"{stayed} descendant{'s' * (stayed != 1)} of it in the buffer" if stayed else "no descendants yet"
    return f'<h4>problem {number:,}: {words}</h4><div class="cards">{"".join(cards)}</div>\n'


# The sections

Made = TypeVar("Made")
MOST_ROWS: Final = 300
"""Rows of a table on the page; files have all of them."""


@dataclass
class Report:
    """Everything a report is made of; the page, the figures and the tables are written from it."""

    groups: list[Group]
    episodes_each: int = 4
    reference: bool = False
    """Draw what the paper's authors reached beside it."""
    sets: list[Evaluated] = field(init=False)
    missing: list[str] = field(default_factory=list)
    """Sentences about what is left out, and why."""
    trouble: str = field(init=False, default="")
    """About the part that failed last."""

    def __post_init__(self) -> None:
        self.sets = evaluated(self.groups)

    @property
    def runs(self) -> list[Run]:
        return [run for group in self.groups for run in group.runs]

    def charts(self) -> dict[str, Callable[[], list[Chart]]]:
        """All figures by section."""
        drawn: dict[str, Callable[[], list[Chart]]] = {
            "learning": lambda: [*figures.held_out(self.groups), *figures.over_time(self.groups)],
            "evaluation": lambda: [chart for one in self.sets for chart in results.charts(one)],
            "curriculum": lambda: [*figures.charts(self.groups), *figures.teachers(self.groups)],
            "losses": lambda: [*figures.diagnostics(self.groups)],
        }
        if not self.reference:
            return drawn

        def beside(make: Callable[[], list[Chart]]) -> Callable[[], list[Chart]]:
            return lambda: [referenced(chart, self.groups) for chart in make()]

        return {section: beside(make) for section, make in drawn.items()}

    def tables(self) -> list[Table]:
        """All tables that can be made."""
        parts: list[Callable[[], list[Table]]] = [
            lambda: [run_table(self.groups)],
            lambda: [reference_table(self.groups, self.sets)] if self.reference else [],
            lambda: [table for one in self.sets for table in results.tables(one)],
        ]
        return [table for part in parts for table in self.try_part(part) or ()]

    def try_part(self, make: Callable[[], Made]) -> Made | None:
        """A part of the report; None, and a sentence about it, where the files of the runs hold what nobody foresaw."""
        try:
            return make()
        except Exception as error:
            self.trouble = printable(f"A part is left out: some file of the runs cannot be used ({error!r}).")
            self.missing += [self.trouble] if self.trouble not in self.missing else []
            return None


def run_table(groups: Sequence[Group]) -> Table:
    """The runs: settings and state of each."""
    stratum = domain_of(groups[0].config.domain).strata[0]
    who, what = ("run", "settings", "teacher", "seed"), ("pairing", stratum, "tasks", "step limit", "environments")
    columns = (*who, *what, "env steps", "hours", "held out")
    return Table("runs", "The runs.", columns, [_run_row(group, run) for group in groups for run in group.runs])


def _run_row(group: Group, run: Run) -> tuple[Cell, ...]:
    config, last = run.config, run.last
    held_out = _held_out_rates(run)
    values = " ".join(map(str, domain_of(config.domain).strata[1]))
    hours = round(last["seconds"] / 3600, 3) if "seconds" in last else None
    return (
        run.name, preset_words(group), config.plan.title, config.run.seed, config.pairing.how, values,
        config.tasks.sampler, config.domain.step_limit, config.run.num_envs, last.get("steps"), hours,
        Number(held_out[-1]) if held_out else None,
    )  # fmt: skip


def preset_words(group: Group) -> str:
    """The preset that the settings come from, and how many were changed."""
    name, changed = nearest_preset(group.config)
    if not name:
        return "own"
    return name if not changed else f"{name} + {len(changed)} change{'s' * (len(changed) > 1)}"


def page(report: Report, progress: Callable[[int, int], None] = lambda done, total: None) -> str:
    """The whole page. What had to be left out is noted in the report."""
    drawn = report.charts()
    report.missing += without_counterpart(report.groups) if report.reference else []
    parts: list[tuple[str, str, Callable[[], str]]] = [
        ("runs", "Runs", lambda: _runs(report, run_table(report.groups))),
        ("learning", "Learning", lambda: _learning(report, drawn["learning"]())),
        ("evaluation", "Evaluation", lambda: _evaluation(report, drawn["evaluation"]())),
        ("episodes", "Episodes", lambda: _episodes(report)),
        ("curriculum", "Curriculum", lambda: _curriculum(report, drawn["curriculum"]())),
        ("gallery", "Gallery", lambda: _gallery(report)),
        ("lineage", "Lineage", lambda: _lineages(report)),
        ("losses", "Losses and diagnostics", lambda: _losses(report, drawn["losses"]())),
        ("settings", "Settings", lambda: _settings(report.groups)),
    ]
    sections = []
    for number, (key, title, make) in enumerate(parts):
        progress(number, len(parts))
        content = report.try_part(make)
        sections.append((key, title, _missing(report.trouble) if content is None else content))
    return _document(report, sections)


def _document(report: Report, sections: Sequence[tuple[str, str, str]]) -> str:
    names = ", ".join(group.name for group in report.groups)
    links = "".join(f'<a href="#{key}">{title.split()[0]}</a>' for key, title, _ in sections)
    body = "".join(f'<section id="{key}"><h2>{title}</h2>\n{content}</section>\n' for key, title, content in sections)
    count, shapes = len(report.runs), sprite(run.config.domain.name for run in report.runs)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>ATLAS: {escape(names)}</title><style>{_asset('page.css')}</style></head><body>{shapes}\n"
        f'<header><h1>{escape(names)}</h1><p class="dim">ATLAS report on {count} run{"s" * (count != 1)}</p>'
        f"{report.try_part(lambda: _headline(report)) or ''}</header>"
        f'<nav><div>{links}<button type="button" hidden>dark / light</button></div></nav>\n<main>{body}</main>'
        f"<script>{_asset('page.js')}</script></body></html>\n"
    )


def _headline(report: Report) -> str:
    """The results in a few large numbers: held-out problems before and after, and the mean on every set."""
    several = len(report.groups) > 1
    items = []
    for group in report.groups:
        whose = f"{group.name}, " if several else ""
        examined = [(run, rates) for run in group.runs if (rates := _held_out_rates(run))]
        if examined:
            untrained = [run.untrained for run, _ in examined if run.untrained is not None]
            begun = len(untrained) == len(examined)
            before = fmean(untrained if begun else [rates[0] for _, rates in examined])
            after = fmean(rates[-1] for _, rates in examined)
            when = "untrained to last" if begun else "first to last"
            items.append((f"{_per_cent(before)} → {_per_cent(after)}", f"{whose}held-out problems, {when}"))
    for one in report.sets:
        for result in one.results:
            whose = f"{result.group.name}, " if several else ""
            items.append((_per_cent(result.aggregates["mean"].value), f"{whose}{one.name}, mean solve rate"))
    shown = "".join(f"<div><b>{value}</b><span>{escape(words)}</span></div>" for value, words in items)
    return f'<div class="headline">{shown}</div>' if items else ""


def _held_out_rates(run: Run) -> list[float]:
    """The rates on held-out problems over the course of a run."""
    found = points(run.records, at("held_out", "all"))
    return [] if found is None else found[1].tolist()


def _per_cent(rate: float) -> str:
    return f"{100 * rate:.0f} %"


def _asset(name: str) -> str:
    return files("atlas.reports").joinpath(name).read_text(encoding="utf-8")


def _charts(charts: Iterable[Chart], kind: str = "") -> str:
    """The charts of a section, two in a row; `stacked` in two columns where their heights differ much."""
    charts = list(charts)
    axes = dict.fromkeys(chart.axis for chart in charts if chart.axis)
    figures = "".join(
        f'<figure data-axis="{chart.axis}">{inline_svg(chart)}'
        f"<figcaption>{escape(chart.caption)}</figcaption></figure>\n"
        for chart in charts
    )
    switch = "".join(f'<button type="button" data-axis="{axis}">{axis}</button>' for axis in axes)
    switch = f'<p class="axes" hidden>over {switch}</p>' if len(axes) > 1 else ""
    return f'{switch}<div class="charts{kind}">{figures}</div>' if figures else ""


def _absent(report: Report, sentence: str) -> str:
    """A sentence in place of a part; commands in it stand between backquotes."""
    report.missing.append(sentence)
    return _missing(sentence)


def _missing(sentence: str) -> str:
    parts = sentence.split("`")
    words = "".join(f"<code>{escape(p)}</code>" if n % 2 else escape(p) for n, p in enumerate(parts))
    return f'<p class="missing">{words}</p>'


def _scroll(table: Table) -> str:
    cut = len(table.rows) > MOST_ROWS
    more = f'<p class="dim">The first {MOST_ROWS} of {len(table.rows)} rows; --tables writes all.</p>' if cut else ""
    return f'<div class="scroll">{to_html(table, MOST_ROWS)}</div>{more}'


def _runs(report: Report, table: Table) -> str:
    notes = [sentence for run in report.runs for sentence in run.notes]
    band = f'<p class="dim">{figures.BAND}</p>' if any(len(group.runs) > 1 for group in report.groups) else ""
    return "".join([*map(_group_line, report.groups), _scroll(table), band, *(_absent(report, note) for note in notes)])


def _group_line(group: Group) -> str:
    """A sentence about the runs of a group."""
    name, changed = nearest_preset(group.config)
    last = group.runs[0].last
    trained = f", {short(last['steps'])} env steps in {clock(last['seconds'])}" if "seconds" in last else ""
    seeds = ", ".join(str(run.config.run.seed) for run in group.runs)
    origin = f"preset <code>{escape(name)}</code>" if name else "settings of its own"
    changes = f" with {', '.join(f'<code>{escape(change)}</code>' for change in changed)}" if changed else ""
    what = f"{group.config.plan.title}, {origin}{changes}; seed{'s' * (len(group.runs) > 1)} {seeds}{trained}"
    return f"<p><b>{escape(group.name)}</b>: {what}.</p>"


def _command(report: Report, name: str, *arguments: str) -> str:
    """A command for the first run, as it can be pasted."""
    return command(name, report.runs[0].path, *arguments)


def _evaluate(report: Report) -> str:
    """The command that puts the first run to its domain's first set."""
    known = list(named_sets(report.runs[0].config.domain.name))
    return _command(report, "eval", "--problems", known[0] if known else "FILE")


def _learning(report: Report, charts: Sequence[Chart]) -> str:
    parts = [_charts(charts)]
    resume = _command(report, "resume")
    if not any(chart.name.startswith("held-out") for chart in charts):
        parts.append(_absent(report, f"No solve rates on held-out problems yet: `{resume}` goes on and writes them."))
    if not any(chart.name.startswith("over-time") for chart in charts):
        parts.append(_absent(report, f"No evaluation over time: `{_evaluate(report)} --over-time` makes one."))
    return "".join(parts)


def _evaluation(report: Report, charts: Sequence[Chart]) -> str:
    if not report.sets:
        sentence = f"No evaluation yet: `{_evaluate(report)}` makes one."
        return _absent(report, sentence)
    parts = []
    for one in report.sets:
        own = [chart for chart in charts if chart.name.removeprefix(chart.name.split("-")[0] + "-") == one.name]
        listed = [reference_table(report.groups, [one])] if report.reference and one.name == REFERENCE_SET else []
        listed += results.tables(one)
        parts.append(f"<h3>{escape(one.name)}</h3><p class='dim'>{escape(_about(one))}</p>{_charts(own, ' stacked')}")
        parts += [_notes_on(report, one), *(_listed(table) for table in listed)]
    return "".join(parts)


def _count(about: Plain, noun: str) -> str:
    count = about.get(f"{noun}s")
    return plural(count, noun) if isinstance(count, int) else f"? {noun}s"


def _about(one: Evaluated) -> str:
    about = one.about
    how = "the likeliest actions" if about.get("greedy") else "actions drawn"
    return (
        f"{_count(about, 'problem')}, {_count(about, 'attempt')} each within {one.limit}, {how}; "
        f"set {str(about.get('hash', '?'))[:12]}."
    )


def _notes_on(report: Report, one: Evaluated) -> str:
    """Runs that lack this evaluation, or were put to another set of the same name."""
    entries = [run for result in one.results for run, _ in result.entries]
    hashes = {run.evaluations[one.name]["set"].get("hash") for run in entries}
    skipped = one.about.get("skipped")
    parts = []
    if isinstance(skipped, list) and skipped:
        report.missing.append(skipped_words(skipped))
        parts.append(f'<p class="dim">{escape(skipped_words(skipped))}</p>')
    if len(hashes) > 1:
        parts.append(
            _absent(report, f"The runs were evaluated on different sets called {one.name}: do not compare them.")
        )
    for run in report.runs:
        if run not in entries:
            known = one.about.get("name", one.name)
            named = known in named_sets() or not one.about.get("path")
            greedy = ["--greedy"] if one.about.get("greedy") else []
            asked = command("eval", run.path, "--problems", known if named else one.about["path"], *greedy)
            parts.append(_absent(report, f"{run.name} was not evaluated on it: `{asked}`"))
    return "".join(parts)


def _listed(table: Table) -> str:
    search = '<input class="filter" type="search" placeholder="filter, e.g. by tag or name" aria-label="filter rows">'
    return f"<div><h4>{escape(table.title)}</h4>{search if len(table.rows) > 12 else ''}{_scroll(table)}</div>"


def _episodes(report: Report) -> str:
    content, notes = episodes(report.sets, report.runs, report.episodes_each)
    about = legend(run.config.domain.name for run in report.runs) if content else ""
    parts = [about, content, *(_absent(report, note) for note in notes)]
    if not content and not notes:
        sentence = f"No episodes: `{_evaluate(report)}` finds the best and worst problems"
        parts.append(_absent(report, f"{sentence}; `{_command(report, 'watch', 'PROBLEM')}` shows one."))
    return "".join(parts)


def _curriculum(report: Report, charts: Sequence[Chart]) -> str:
    if charts:
        return _charts(charts)
    return _absent(
        report,
        f"No curriculum snapshots in the metrics: `{_command(report, 'resume')}` writes them as it goes on.",
    )


def _gallery(report: Report) -> str:
    content, notes = gallery(report.groups)
    parts = [content, *(_absent(report, note) for note in notes)]
    if not content and not notes:
        parts.append(
            _absent(report, f"No snapshots of problems: `{_command(report, 'resume')}` writes them as it goes on.")
        )
    else:
        forgetful = dict.fromkeys(g.config.plan.title for g in report.groups if g.config.plan.buffer is None)
        words = "keeps no problems: its examples are new ones, as it proposed them."
        parts = [*(f'<p class="dim">{title} {words}</p>' for title in forgetful), *parts]
    return "".join(parts)


def _lineages(report: Report) -> str:
    content, notes = families(report.groups)
    if not content and not notes:
        return '<p class="dim">No run remembers problems with a lineage.</p>'
    how = f'<p class="dim"><code>{escape(_command(report, "lineage", "PROBLEM"))}</code> shows any other family.</p>'
    return "".join([how, content, *(_absent(report, note) for note in notes)])


def _losses(report: Report, charts: Sequence[Chart]) -> str:
    if charts:
        return _charts(charts)
    return _absent(report, f"No metrics yet: `{_command(report, 'resume')}` writes them.")


def _settings(groups: Sequence[Group]) -> str:
    return "".join(_config(group) for group in groups)


def _config(group: Group) -> str:
    return f"<details><summary>{escape(group.name)}</summary><pre>{escape(dump(group.config))}</pre></details>"


def all_charts(report: Report) -> Iterator[Chart]:
    """Every figure once."""
    for charts in report.charts().values():
        yield from report.try_part(charts) or ()


def write_report(
    runs: Sequence[Path],
    out: Path,
    figures: Path | None = None,
    tables: Path | None = None,
    episodes: int = 4,
    reference: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Plain:
    """Write the page about some runs, and figures and tables into folders if they are named. Tells which files were
    written, and what was left out."""
    if not runs:
        raise AtlasError("name at least one run folder: atlas report RUN")
    if out.suffix not in (".html", ".htm"):
        raise AtlasError(f"{out}: the page is HTML, so its name must end in .html")
    require_file(out)
    require_folder(figures)
    require_folder(tables)
    if not 0 <= episodes <= 1000:
        raise AtlasError(f"--episodes {episodes} is not allowed: from 0 to 1000")
    report = Report(group_runs(read_runs(runs)), episodes, reference)
    write_whole(out, page(report, progress))
    drawn = [path for chart in all_charts(report) for path in save_chart(chart, figures)] if figures else []
    listed = [path for table in report.tables() for path in save_table(table, tables)] if tables else []
    return {
        "page": str(out),
        "bytes": out.stat().st_size,
        "groups": {group.name: [str(run.path) for run in group.runs] for group in report.groups},
        "figures": list(map(str, drawn)),
        "tables": list(map(str, listed)),
        "missing": report.missing,
    }
