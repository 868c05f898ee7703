"""The report from made-up run folders: every part is there, nothing is fetched, nothing that is missing breaks it."""

import csv
import io
import json
import re
import shutil
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from atlas.cli import main
from atlas.evaluation.statistics import STATISTICS
from atlas.reports.episodes import choose, problems_of
from atlas.reports.figures import at, by_row, curve, join, learning_curves, solve_rates
from atlas.reports.page import Report, page, run_table
from atlas.reports.reading import group_runs, nearest_preset, read_runs
from atlas.reports.results import Evaluated, charts, evaluated, tables
from atlas.reports.tables import Number, Table, save_table, tex, to_csv, to_html, to_latex
from fake_runs import NAMES, ODD_NAME, fake_run

SECTIONS = ("runs", "learning", "evaluation", "episodes", "curriculum", "gallery", "losses", "settings")
VOID = {"meta", "input", "br"}
MOST_BYTES = 8_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of one experiment, and another experiment."""
    path = tmp_path_factory.mktemp("runs")
    fake_run(path / "one-seed0", 0)
    shutil.copytree(path / "one-seed0", path / "one-seed1")
    config = path / "one-seed1" / "config.yaml"
    config.write_text(config.read_text().replace("seed: 0", "seed: 1"))
    shutil.copytree(path / "one-seed0", path / "other & <i>")
    config = path / "other & <i>" / "config.yaml"
    config.write_text(config.read_text().replace("replay_prob: 0.8", "replay_prob: 0.5"))
    return path


@pytest.fixture(scope="module")
def single(folder: Path) -> str:
    """The page of one run."""
    return page(Report(group_runs(read_runs([folder / "one-seed0"])), 1))


@pytest.fixture
def plain_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes most of the time, and one page shows that it works."""
    monkeypatch.setattr("atlas.reports.page.inline_svg", lambda chart: f"<svg aria-label='{escape(chart.name)}'></svg>")


class Outline(HTMLParser):
    """Checks that elements are closed in order, and collects what a page refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open += [] if tag in VOID else [tag]
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href", "data")]
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def outline(text: str) -> Outline:
    parser = Outline()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser


def test_every_section_is_filled(single: str) -> None:
    assert [name for name in SECTIONS if f'<section id="{name}">' not in single] == []
    parts = dict(re.findall(r'<section id="(\w+)">(.*?)</section>', single, re.DOTALL))
    assert 'class="missing"' not in single
    for name in ("learning", "evaluation", "curriculum", "losses"):
        assert parts[name].count("<figure ") >= 3
    assert parts["gallery"].count('class="card"') == 3 * 4
    assert parts["episodes"].count('class="player"') == 2
    assert parts["evaluation"].count('class="sortable"') == 3
    assert len(single.encode()) < MOST_BYTES


def test_the_first_screen_says_what_came_of_it(single: str) -> None:
    header = single[single.index("<header>") : single.index("</header>")]
    assert "<b>2 % → 69 %</b><span>held-out problems, untrained to last</span>" in header
    assert "<span>set, mean solve rate</span>" in header


def test_curves_on_held_out_problems_have_every_axis(single: str) -> None:
    learning = re.findall(r'<section id="learning">(.*?)</section>', single, re.DOTALL)[0]
    assert re.findall(r'<button type="button" data-axis="([^"]*)"', learning) == ["env steps", "minutes", "updates"]
    assert re.findall(r'<figure data-axis="([^"]+)"', learning) == ["env steps", "minutes", "updates"]


def test_curves_on_held_out_problems_begin_with_the_untrained_student(folder: Path) -> None:
    groups = group_runs(read_runs([folder / "one-seed0"]))
    for key in ("all", "rooms_1"):
        line = curve(groups[0], at("held_out", key))
        assert line is not None
        assert (line.x[0], line.value[0]) == (0, 0.02)


def test_few_attempts_have_no_curve_of_the_worst(tmp_path: Path) -> None:
    runs = read_runs([fake_run(tmp_path / "run", attempts=2)])
    (one,) = evaluated(group_runs(runs))
    drawn = {chart.name: chart.caption for chart in charts(one)}
    assert "cvar-set" not in drawn
    assert "CVaR needs at least 4 attempts a problem." in drawn["aggregate-set"]


def test_problems_that_were_left_out_are_mentioned(single: str) -> None:
    assert "Left out, since it could not be read: odd.yaml: there is no level." in single


def test_a_set_with_bad_files_that_were_left_out_is_played(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "good.yaml").write_text("level: |\n  ########\n  ##^.or##\n  ########\ntask: go to a ball\n")
    (tmp_path / "set" / "odd.yaml").write_text("level: nothing\n")
    about = {"path": str(tmp_path / "set"), "skipped": ["odd.yaml: a problem needs a task"]}
    assert list(problems_of(Evaluated("set", about, []))) == ["good"]


def test_legends_are_read_row_by_row() -> None:
    told = by_row(dict.fromkeys("abcde"), 2)
    assert (told["labels"], told["ncols"]) == (["a", "c", "e", "b", "d"], 2)


def test_how_attempts_failed_is_shown(single: str) -> None:
    assert "Endings, set" in single
    rows = re.findall(r"<tr>.*?</tr>", single, re.DOTALL)
    assert any("behind-you" in row and "u1 5, rejected 5" in row for row in rows)


def test_pictures_have_a_legend_and_machines_the_colours_of_the_page(single: str) -> None:
    assert "What the pictures mean" in single
    assert "locked door" in single
    machines = re.findall(r'<div class="machine">.*?</svg>', single, re.DOTALL)
    assert machines
    for machine in machines:
        assert 'fill="var(--card)"' in machine
        assert 'fill="#ffffff"' not in machine.lower()


def test_nothing_is_fetched(single: str) -> None:
    found = outline(single)
    assert all(link.startswith("#") for link in found.links)
    assert {link[1:] for link in found.links} <= set(found.ids)
    assert "@import" not in single
    assert not re.search(r"url\((?!#)", single)


@pytest.mark.usefixtures("plain_charts")
def test_names_are_escaped(folder: Path, single: str) -> None:
    assert ODD_NAME not in single
    assert "&lt;b&gt;odd &amp; &quot;quoted&quot;_%$" in single
    assert "<i>add</i>" not in single
    other = page(Report(group_runs(read_runs([folder / "other & <i>"])), 0))
    outline(other)
    assert "other & <i>" not in other
    assert "<h1>other &amp; &lt;i&gt;</h1>" in other


def test_films_hold_the_whole_episode(single: str) -> None:
    films = [json.loads(text) for text in re.findall(r'<script type="application/json">(.*?)</script>', single)]
    assert len(films) == 2
    for film in films:
        assert film["scenes"][0]["did"] == "start"
        assert "p" not in film["scenes"][-1]
        assert all(abs(sum(scene["p"]) - 100) <= 3 for scene in film["scenes"][:-1])


@pytest.mark.usefixtures("plain_charts")
def test_seeds_share_a_curve_and_others_are_compared(folder: Path) -> None:
    runs = read_runs([folder / "one-seed0", folder / "one-seed1", folder / "other & <i>", folder / "one-seed0"])
    groups = group_runs(runs)
    assert [(group.name, len(group.runs)) for group in groups] == [("one", 2), ("other & <i>", 1)]
    assert nearest_preset(groups[1].config) == ("tiny", ["teacher.replay_prob = 0.5"])
    text = page(Report(groups, 0))
    outline(text)
    assert "bands their 95 % intervals" in text
    assert {"over-time-iqm-set", "over-time-mean-set"} <= {
        chart.name for chart in Report(groups).charts()["learning"]()
    }
    assert "held-out-rooms-2" in {chart.name for chart in Report(groups).charts()["learning"]()}
    assert len(run_table(groups).rows) == 3


def test_curves_of_runs_are_joined_where_all_have_been() -> None:
    one = (np.array([0.0, 10, 20]), np.array([0.0, 1, 2]))
    two = (np.array([5.0, 15.0]), np.array([1.0, 3.0]))
    curve = join([one, two])
    assert curve is not None
    np.testing.assert_allclose(curve.x, [5, 10, 15])
    np.testing.assert_allclose(curve.value, [0.75, 1.5, 2.25])
    np.testing.assert_allclose(curve.low, [0.5, 1, 1.5])
    np.testing.assert_allclose(curve.high, [1, 2, 3])
    apart = join([one, (np.array([30.0, 40.0]), np.array([5.0, 6.0]))])
    assert apart is not None
    np.testing.assert_allclose(apart.x, [30, 40])
    assert join([]) is None


def told_over_time(steps: list[int], rates: Any, names: str = "abcd") -> dict[str, Any]:
    points = [{"steps": at, "rates": list(row)} for at, row in zip(steps, rates, strict=True)]
    return {"set": {"attempts": 10}, "problems": list(names), "points": points}


def test_learning_curves_are_of_runs_and_problems() -> None:
    one = told_over_time([0, 10, 20], [[0, 0, 0, 0], [0.2, 0.4, 0.6, 0.8], [1, 1, 1, 1]])
    two = told_over_time([5, 15, 25], [[0, 0, 0, 1], [0, 0, 1, 1], [1, 1, 1, 1]])
    found = solve_rates([one, two], STATISTICS)
    np.testing.assert_allclose(found["mean"].x, [10, 20])
    # The second run halfway between its policies: 0, 0, 0.5, 1; then 0.5, 0.5, 1, 1.
    np.testing.assert_allclose(found["mean"].value, [(2.0 + 1.5) / 8, (4.0 + 3.0) / 8])
    # Of 0 0 .2 .4 .5 .6 .8 1 the middle four; of .5 .5 1 1 1 1 1 1 as well.
    np.testing.assert_allclose(found["iqm"].value, [(0.2 + 0.4 + 0.5 + 0.6) / 4, 1.0])
    for line in found.values():
        assert np.all(line.low <= line.value)
        assert np.all(line.value <= line.high)
    assert found["mean"].low[0] < found["mean"].high[0]
    # For each problem the runs are drawn again: the lowest that can happen is the worse run at every problem.
    assert found["mean"].low[0] >= (0 + 0 + 0.5 + 0.8) / 4


def test_learning_curves_over_problems_that_all_runs_have() -> None:
    one = told_over_time([0, 10], [[0.1, 0.9, 0.5], [0.2, 0.8, 0.5]], "abc")
    two = told_over_time([0, 10], [[0.3, 0.7], [0.4, 0.6]], "ca")
    np.testing.assert_allclose(
        solve_rates([one, two], STATISTICS)["mean"].value, [(0.1 + 0.5 + 0.7 + 0.3) / 4, 1.7 / 4]
    )


def test_curves_of_older_evaluations_are_means_over_runs() -> None:
    def bare(*means: float) -> dict[str, Any]:
        points = [{"steps": 10 * n, "mean": mean, "iqm": mean, "median": mean} for n, mean in enumerate(means)]
        return {"set": {}, "points": points}

    found = learning_curves([bare(0.0, 0.4), bare(0.2, 0.8)])
    np.testing.assert_allclose(found["iqm"].value, [0.1, 0.6])
    assert solve_rates([bare(0.0, 0.4)], STATISTICS) == {}


@pytest.mark.usefixtures("plain_charts")
def test_the_authors_results_stand_beside_ours(folder: Path, tmp_path: Path) -> None:
    """`tiny` is ACCEL with independent sampling, at another scale; with another score it has no counterpart."""
    path = shutil.copytree(folder / "one-seed0", tmp_path / "accel")
    for name in ("set", "set-over-time"):
        file = path / "evaluations" / f"{name}.json"
        file.rename(file.with_name(name.replace("set", "hand") + ".json"))
    shutil.copytree(path, tmp_path / "other")
    config = tmp_path / "other" / "config.yaml"
    config.write_text(config.read_text().replace("score: maxmc", "score: constant"))
    report = Report(group_runs(read_runs([tmp_path / "accel", tmp_path / "other"])), 0, reference=True)
    text = page(report)
    outline(text)
    assert "Dotted: what the authors reached" in text
    assert [sentence for sentence in report.missing if "repeats no experiment" in sentence] == [
        "other repeats no experiment that the authors gave a number for, so it has no reference lines."
    ]
    (beside,) = [table for table in report.tables() if table.name == "reference-hand"]
    ours = report.sets[0].results[0].aggregates
    assert [(row[0], row[1], row[3].value, row[5].value) for row in beside.rows] == [
        ("accel", "paper-accel", 0.889, 0.723)
    ]
    assert beside.rows[0][2].value == ours["iqm"].value
    charts = {chart.name: chart for part in report.charts().values() for chart in part()}
    axes = Figure().add_subplot()
    charts["over-time-iqm-hand"].draw(axes)
    dotted = [line.get_ydata()[0] for line in axes.get_lines() if line.get_linestyle() == ":" and len(line.get_ydata())]
    assert dotted == [0.889]
    assert "Dotted" not in page(Report(report.groups, 0))


REMOVED = [["metrics.jsonl"], ["evaluations"], ["snapshots"], ["checkpoints", "policies"]]
EVERYTHING = ["metrics.jsonl", "evaluations", "snapshots", "checkpoints", "policies", "summary.json"]


@pytest.mark.usefixtures("plain_charts")
@pytest.mark.parametrize("names", [*REMOVED, EVERYTHING], ids=" ".join)
def test_what_is_missing_is_said(folder: Path, tmp_path: Path, names: list[str]) -> None:
    run = tmp_path / "run"
    shutil.copytree(folder / "one-seed0", run)
    for path in (run / "snapshots").glob("*[!1].npz"):
        path.unlink()  # one is enough
    for name in names:
        shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink()
    report = Report(group_runs(read_runs([run])), 1)
    text = page(report)
    outline(text)
    expected = {"metrics.jsonl": "atlas resume", "evaluations": "atlas eval", "snapshots": "atlas resume"}
    for name in names:
        assert any(expected.get(name, "") in sentence for sentence in report.missing)


@pytest.mark.usefixtures("plain_charts")
def test_damaged_files_cost_their_part_only(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(folder / "one-seed0", run)
    for path in (run / "evaluations" / "set.json", next((run / "snapshots").glob("*.npz"))):
        path.write_bytes(path.read_bytes()[:50])
    (run / "evaluations" / "odd.json").write_text("[1, 2]")
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"iteration": 101, "ste')
    report = Report(group_runs(read_runs([run])), 0)
    text = page(report)
    outline(text)
    assert sum("could not be" in sentence for sentence in report.missing) == 1
    assert sum("set.json: not a readable evaluation" in sentence for sentence in report.missing) == 1
    assert sum("odd.json: not an evaluation" in sentence for sentence in report.missing) == 1
    assert text.count('class="card"') == 2 * 4


def test_files_that_hold_anything_cost_their_part_only(folder: Path, tmp_path: Path) -> None:
    """Signs of formulas in names and tags, lines that are no records, bytes that are no text, values of wrong kinds."""
    run = tmp_path / "odd $x^{$ name"
    shutil.copytree(folder / "one-seed0", run)
    odd = {
        "held_out": "high",
        "seconds": [],
        "losses": [1],
        "solve_rate": {"new": "a"},
        "curriculum": 3,
        "buffer": None,
    }
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(b'[1]\n3\n\xff\xfe\n{"iteration": "x", "steps": 1}\n')
        file.write(json.dumps({"iteration": 102, "steps": 10_000_000, **odd}).encode() + b"\n")
    told = json.loads((run / "evaluations" / "set.json").read_text())
    told["runs"][0]["problems"][0]["tags"] = ["$\\frac$"]
    (run / "evaluations" / "tagged.json").write_text(json.dumps(told))
    told["runs"][0]["cvar"] = 3
    (run / "evaluations" / "set.json").write_text(json.dumps(told))
    told["runs"][0]["problems"][0]["rate"] = "high"
    (run / "evaluations" / "wrong.json").write_text(json.dumps(told))
    out = tmp_path / "page.html"
    assert main(["report", str(run), "--episodes", "0", "--out", str(out), "--tables", str(tmp_path / "tables")]) == 0
    text = out.read_text()
    outline(text)
    assert "wrong.json: not an evaluation" in text
    assert "A part is left out" in text
    assert "$x^{$" in text
    assert text.count('class="card"') == 3 * 4


def test_files_are_written_and_told(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One chart is enough to see all formats; the rest would only take time."""
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(folder / "one-seed0" / "config.yaml", run)
    line = {"iteration": 1, "steps": 64, "seconds": 1.0, "held_out": {"all": 0.5, "rooms_1": 0.5}}
    (run / "metrics.jsonl").write_text(json.dumps(line) + "\n" + json.dumps(line | {"steps": 128}) + "\n")
    out, figures, made = tmp_path / "new" / "page.html", tmp_path / "figures", tmp_path / "tables"
    arguments = ["report", str(run), "--out", str(out), "--figures", str(figures), "--tables", str(made), "--json"]
    assert main(arguments) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["bytes"] == out.stat().st_size
    assert told["groups"] == {"run": [str(run)]}
    names = {f"held-out{over}.{form}" for over in ("", "-over-minutes") for form in ("pdf", "png", "svg")}
    assert {p.name for p in figures.iterdir()} == names, "updates are not in these records"
    starts = {".pdf": b"%PDF", ".png": b"\x89PNG", ".svg": b"<?xml"}
    assert all(p.read_bytes().startswith(starts[p.suffix]) for p in figures.iterdir())
    assert sorted(p.name for p in made.iterdir()) == ["runs.csv", "runs.tex"]
    assert main(["report", str(run), "--out", str(out)]) == 0
    assert "atlas eval" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [([], "RUN"), (["nix"], "holds no run"), (["RUN", "--out", "page.pdf"], "must end in .html")],
)
def test_mistakes_are_sentences(
    folder: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(folder / "one-seed0") if word == "RUN" else word for word in arguments]
    try:
        code = main(["report", *given])
    except SystemExit as stop:
        code = int(stop.code or 0)
    assert code == 2
    assert words.lower() in "".join(capsys.readouterr()).lower()


def test_tables_of_an_evaluation(folder: Path, tmp_path: Path) -> None:
    groups = group_runs(read_runs([folder / "one-seed0", folder / "one-seed1", folder / "other & <i>"]))
    made = {table.name: table for table in tables(evaluated(groups)[0])}
    assert set(made) == {"aggregate-set", "tags-set", "problems-set"}
    problems = made["problems-set"]
    assert [row[0] for row in problems.rows] == [*NAMES, ODD_NAME]
    assert problems.columns[-2:] == ("one", "other & <i>")
    two_seeds, alone = problems.rows[1][-2:]
    assert isinstance(two_seeds, Number)
    assert (two_seeds.value, two_seeds.spread) == (0.3, 0.0)  # the second seed is a copy of the first
    assert isinstance(alone, Number)
    assert alone.low is not None
    for table in made.values():
        rows = list(csv.reader(io.StringIO(to_csv(table))))
        assert len(rows) == len(table.rows) + 1
        assert {len(row) for row in rows} == {len(rows[0])}
        check_latex(to_latex(table), len(table.columns), len(table.rows))
    assert [path.suffix for path in save_table(problems, tmp_path)] == [".csv", ".tex"]


def check_latex(text: str, columns: int, rows: int) -> None:
    """Braces and environments are closed, and every row has every column."""
    bare = text.replace(r"\{", "").replace(r"\}", "")
    assert bare.count("{") == bare.count("}")
    assert re.findall(r"\\begin\{(\w+)\}", text)[::-1] == re.findall(r"\\end\{(\w+)\}", text)
    lines = [line for line in text.splitlines() if line.endswith(r" \\")]
    assert len(lines) in (rows + 1, rows + 2)
    assert all(len(re.findall(r"(?<!\\)&", line)) == columns - 1 for line in lines)
    assert not re.search(r"(?<!\\)[#_]|(?<!\\)%(?! needs)", re.sub(r"\\label\{[^}]*\}", "", text))


def test_long_tables_run_over_pages() -> None:
    rows: list[tuple[Any, ...]] = [(f"p_{n}", 1_000 * n, Number(0.5, spread=0.1), None) for n in range(60)]
    table = Table("long", "Long & 100 %", ("name", "count", "rate", "empty"), rows)
    text = to_latex(table)
    assert r"\begin{longtable}{lrrl}" in text
    assert r"p\_1 & $1{,}000$ & $0.50 \pm 0.10$ & -- \\" in text
    check_latex(text, 4, 60)
    assert to_html(table, most=10).count("<tr>") == 11
    assert to_csv(table).splitlines()[:2] == ["name,count,rate,rate spread,empty", "p_0,0,0.5,0.1,"]


def test_latex_prints_words_as_they_are() -> None:
    assert tex(r"a_b & 5% of {$x$} \o PLR⊥") == r"a\_b \& 5\% of \{\$x\$\} \textbackslash{}o PLR$\bot$"


def test_best_are_the_longest_solved_and_worst_the_shortest_unsolved() -> None:
    rows = [{"name": f"{rate}-{plan}", "rate": rate, "plan_length": plan} for rate in (0, 1) for plan in (5, 9, None)]
    best, worst = choose(rows, 2)
    assert [row["name"] for row in best] == ["1-9", "1-5"]
    assert [row["name"] for row in worst] == ["0-5", "0-9"]
    assert choose(rows[:1], 3) == ([], rows[:1])
