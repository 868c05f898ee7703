"""The paper's figures: what each needs at every scale, and what it shows, against plain arithmetic on made-up runs."""

import csv
import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
from matplotlib.figure import Figure as Canvas

from atlas.cli import main
from atlas.presets import preset
from atlas.reports import figures, reproduce
from atlas.reports.figures import Chart
from atlas.reports.reference import PUBLISHED, counterpart
from atlas.reports.reproduce import (
    FIGURES,
    PROBLEMS,
    SCALES,
    Figure,
    Material,
    config_at,
    describe,
    groups_of,
    jobs_for,
    joined,
    unfinished,
)
from atlas.runs.sweep import Job
from atlas.settings import dump


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bands are tested where they are computed."""
    monkeypatch.setattr(figures, "solve_rates", partial(figures.solve_rates, times=20))


SEEDS = 2
NAMES = (*PROBLEMS, "one", "two", "three", "four", "five")
TIMES = (0, 40, 100)
ALPHAS = (1, 10, 100)
TWO_SEEDS = replace(SCALES["quick"], seeds=SEEDS)


def rate(run: int, problem: int, time: int) -> float:
    """What a made-up run solves: more of later problems, more with time, and runs differ."""
    return (problem + 1) / 10 * time / 100 + 0.01 * run


def number_of(job: Job) -> int:
    """A number that tells runs apart."""
    known = sorted({name for figure in FIGURES.values() for name in figure.runs.values()})
    return SEEDS * known.index(job.planned.experiment) % 7 + job.planned.seed


def write(job: Job) -> None:
    """A run folder as training and evaluating would leave it."""
    run, last = number_of(job), TIMES[-1]
    (job.folder / "evaluations").mkdir(parents=True)
    (job.folder / "config.yaml").write_text(dump(job.planned.config))
    summary = {"stopped": False, "iteration": last, "steps": 64 * last, "seconds": 1.0, "after": {"all": 0.5}}
    (job.folder / "summary.json").write_text(json.dumps(summary | {"before": {"all": 0.0}}))
    records = [
        {
            "iteration": t, "steps": 64 * t, "seconds": 1.0,
            "curriculum": {
                "states": run + t / 100, "rooms": 1 + run, "objects": 2 * run + t, "paths": 1.5, "path_length": 2.5,
                "edits": run + t / 20, "solvable": t / 200, "solvable_replayed": t / 100,
                "shares": {"rooms": {"1": 1.0}, "objects": {"4": 1.0}},
                "edit_kinds": {"add_rooms": 0.25, "add_state": 0.75},
            },
        }
        for t in TIMES
    ]  # fmt: skip
    (job.folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    for one in job.evaluations:
        about = {"name": one.name, "attempts": one.attempts or 10, "step_limit": 512, "hash": "0" * 64}
        if one.over_time:
            points = [
                {"iteration": t, "steps": 64 * t, "seconds": 1.0, "rates": [rate(run, p, t) for p in range(8)]}
                for t in TIMES
            ]
            points = [point | {"mean": float(np.mean(point["rates"]))} for point in points]
            content: dict[str, Any] = {"set": about, "run": str(job.folder), "problems": NAMES, "points": points}
        else:
            rows = [
                {
                    "name": name, "tags": [], "rooms": 1, "states": 2, "attempts": 10, "solved": 5,
                    "rate": rate(run, p, last), "low": 0.0, "high": 1.0, "mean_steps": None, "plan_length": 3,
                }
                for p, name in enumerate(NAMES)
            ]  # fmt: skip
            entry = {"run": str(job.folder), "iteration": last, "mean": 0.5, "problems": rows, "by_tag": {}}
            entry["cvar"] = [{"alpha": alpha, "value": alpha / 1000 * (1 + run)} for alpha in ALPHAS]
            content = {"set": about, "runs": [entry], "together": {"cvar": []}}
        file = job.folder / "evaluations" / f"{one.name}{'-over-time' if one.over_time else ''}.json"
        file.write_text(json.dumps(content))


def material(name: str, folder: Path) -> Material:
    jobs = jobs_for(FIGURES[name], TWO_SEEDS, folder, {"cvar-sequential": "cvar-sequential-500"})
    for job in dict.fromkeys(job for some in jobs.values() for job in some):
        write(job)
        assert job.status() == "done"
    return Material(groups_of(jobs))


def drawn(chart: Chart) -> Any:
    axes = Canvas().add_subplot()
    chart.draw(axes)
    return axes


def curves(chart: Chart) -> dict[str, np.ndarray]:
    """The lines of a chart by their label: x and y."""
    lines = drawn(chart).get_lines()
    return {str(line.get_label()): np.array(line.get_data()) for line in lines if len(line.get_xdata()) > 1}


def runs_of(figure: Figure, title: str) -> list[int]:
    jobs = jobs_for(figure, TWO_SEEDS, Path(), {})
    return [number_of(job) for job in jobs[title]]


def test_core_shows_cvar_and_the_iqm_over_time(tmp_path: Path) -> None:
    drawing = FIGURES["core"].draw(material("core", tmp_path))
    worst, over_time, means = drawing.charts
    for title in FIGURES["core"].runs:
        runs = runs_of(FIGURES["core"], title)
        np.testing.assert_allclose(
            curves(worst)[title], [ALPHAS, [np.mean([alpha / 1000 * (1 + run) for run in runs]) for alpha in ALPHAS]]
        )
        expected = [scipy.stats.trim_mean([rate(run, p, t) for run in runs for p in range(8)], 0.25) for t in TIMES]
        np.testing.assert_allclose(curves(over_time)[title], [[64 * t for t in TIMES], expected], atol=1e-6)
        expected = [np.mean([rate(run, p, t) for run in runs for p in range(8)]) for t in TIMES]
        np.testing.assert_allclose(curves(means)[title][1], expected, atol=1e-6)
    assert drawn(worst).get_xscale() == "log"
    (table,) = drawing.tables
    last = {row[0]: row[3].value for row in table.rows}
    assert last["ACCEL"] == pytest.approx(curves(over_time)["ACCEL"][1][-1])
    assert [row[0] for row in table.rows] == list(FIGURES["core"].runs)


def test_curricula_are_means_over_runs(tmp_path: Path) -> None:
    drawing = FIGURES["curriculum"].draw(material("curriculum", tmp_path))
    assert [chart.name for chart in drawing.charts] == ["curriculum-states", "curriculum-rooms", "curriculum-objects"]
    for title in FIGURES["curriculum"].runs:
        runs = runs_of(FIGURES["curriculum"], title)
        np.testing.assert_allclose(curves(drawing.charts[0])[title][1], [np.mean(runs) + t / 100 for t in TIMES])
        np.testing.assert_allclose(curves(drawing.charts[2])[title][1], [2 * np.mean(runs) + t for t in TIMES])
    # What the authors reached is a dotted line across, in the colour of the method.
    dotted = [line.get_ydata() for line in drawn(drawing.charts[0]).get_lines() if line.get_linestyle() == ":"]
    assert {float(y[0]) for y in dotted if len(y)} == {3.6, 3.2, 5.2}


def test_acyclic_graphs_have_paths(tmp_path: Path) -> None:
    drawing = FIGURES["dag-curriculum"].draw(material("dag-curriculum", tmp_path))
    assert [chart.name for chart in drawing.charts][3:] == ["curriculum-paths", "curriculum-path-length"]
    np.testing.assert_allclose(curves(drawing.charts[4])["PLR⊥"][1], 2.5)


def test_solvable_shares_of_the_buffer(tmp_path: Path) -> None:
    (chart,) = FIGURES["solvable-buffer"].draw(material("solvable-buffer", tmp_path)).charts
    np.testing.assert_allclose(curves(chart)["ACCEL, buffer"][1], [t / 200 for t in TIMES])
    np.testing.assert_allclose(curves(chart)["ACCEL-0, replayed"][1], [t / 100 for t in TIMES])


def test_edits_by_kind_and_number(tmp_path: Path) -> None:
    *kinds, number = FIGURES["edits"].draw(material("edits", tmp_path)).charts
    assert [chart.title for chart in kinds] == ["Edits by kind: ACCEL", "Edits by kind: ACCEL-0"]
    runs = runs_of(FIGURES["edits"], "ACCEL")
    np.testing.assert_allclose(curves(number)["ACCEL"][1], [np.mean(runs) + t / 20 for t in TIMES])


def test_both_kinds_of_sampling_side_by_side(tmp_path: Path) -> None:
    *_, comparison = FIGURES["level"].draw(material("level", tmp_path)).charts
    heights = [bar.get_height() for bar in drawn(comparison).patches]
    titles = [f"{name}, independent" for name in ("DR", "PLR⊥", "ACCEL", "ACCEL-0")] + [
        "DR",
        "PLR⊥",
        "ACCEL",
        "ACCEL-0",
    ]
    for title, height in zip(titles, heights, strict=True):
        runs = runs_of(FIGURES["level"], title)
        expected = scipy.stats.trim_mean([rate(run, p, TIMES[-1]) for run in runs for p in range(8)], 0.25)
        assert height == pytest.approx(expected)


def test_an_ablation_has_a_panel_for_each_question(tmp_path: Path) -> None:
    drawing = FIGURES["edit-ablations"].draw(material("edit-ablations", tmp_path))
    panels = [{name for name in curves(chart) if name[0] != "_"} for chart in drawing.charts]
    assert len(panels) == 6
    assert panels[:3] == panels[3:], "IQM of each question, then means"
    assert {"L+T+H", "L", "T"} <= panels[0]
    assert "ACCEL-0, L+T" in panels[1]
    assert {"ACCEL, 1 edit", "ACCEL-0, 20 edits"} <= panels[2]
    assert len(drawing.tables[0].rows) == len(FIGURES["edit-ablations"].runs)


def test_tables_by_problem(tmp_path: Path) -> None:
    (table,) = FIGURES["problems-independent"].draw(material("problems-independent", tmp_path)).tables
    runs = runs_of(FIGURES["problems-independent"], "PLR⊥")
    column = table.columns.index("PLR⊥")
    for p, row in enumerate(table.rows):
        assert row[0] == NAMES[p]
        assert row[column].value == pytest.approx(np.mean([rate(run, p, TIMES[-1]) for run in runs]))


def test_single_problems_with_every_method(tmp_path: Path) -> None:
    drawing = FIGURES["problems"].draw(material("problems", tmp_path))
    (table,) = drawing.tables
    assert [row[0] for row in table.rows] == list(PROBLEMS)
    runs = runs_of(FIGURES["problems"], "DR")
    assert table.rows[1][1].value == pytest.approx(np.mean([rate(run, 1, TIMES[-1]) for run in runs]))
    assert drawing.picture is not None
    assert drawing.picture.width > drawing.picture.height / 2


def test_every_figure_and_table_of_the_paper_has_a_name() -> None:
    places = [figure.where for figure in FIGURES.values()]
    assert {f"Figure {n}" for n in range(1, 29)} <= set(places)
    assert {"Table 1", "Table 2"} <= set(places)
    assert sum(place.startswith("table of") for place in places) == 3


@pytest.mark.parametrize("scale", SCALES)
def test_experiments_keep_what_they_are_about_at_every_scale(scale: str) -> None:
    names = {name for figure in FIGURES.values() for name in figure.runs.values()}
    for name in names:
        config, own = config_at(SCALES[scale], name), preset(name).config
        assert config.teacher.name == own.teacher.name
        assert (config.pairing.how, config.pairing.minimal) == (own.pairing.how, own.pairing.minimal)
        assert counterpart(config) == (name if name in PUBLISHED else None)
        if scale == "paper":
            assert config == own
    assert len({json.dumps(dump(config_at(SCALES[scale], name))) for name in names}) == len(names)
    assert config_at(SCALES["quick"], "paper-accel").run.time_limit == 2.0
    assert config_at(SCALES["quick"], "paper-accel-edits-3").teacher.edits.most == 3


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in FIGURES)
    assert main(["reproduce", "--list", "--json", "--scale", "paper"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["core"]["runs"] == 20
    assert rows["core"]["training"] == "4.19 G env steps each"
    assert describe("core", SCALES["quick"])["training"] == "8 minutes"


def test_an_unknown_figure_lists_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "cvar"]) == 2
    told = capsys.readouterr().err
    assert "there is no figure 'cvar'" in told
    assert all(name in told for name in FIGURES)


def test_an_unknown_problem_is_said_before_anything_is_trained(tmp_path: Path, capsys: Any) -> None:
    assert main(["reproduce", "problems", "--problems", "patroll", "--folder", str(tmp_path / "runs")]) == 2
    assert "did you mean patrol" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_what_is_missing_is_named_with_the_command_that_makes_it(tmp_path: Path, capsys: Any) -> None:
    jobs = jobs_for(FIGURES["curriculum"], SCALES["quick"], tmp_path, {})
    (plr,), (accel,), (accel0,) = jobs.values()
    write(plr)
    (accel.folder / "checkpoints" / "7").mkdir(parents=True)
    (accel.folder / "config.yaml").write_text(dump(accel.planned.config))
    told = list(unfinished([plr, accel, accel0]))
    assert told[0] == f"{accel.folder} is half trained: `atlas resume {accel.folder} --json`"
    assert re.match(rf"{re.escape(str(accel0.folder))} was not trained: `atlas train .*\.yaml --folder", told[1])
    assert len(told) == 2
    assert main(["reproduce", "curriculum", "--no-train", "--folder", str(tmp_path)]) == 2
    assert "is half trained" in capsys.readouterr().err


def test_runs_of_several_figures_are_made_once_with_all_their_evaluations(tmp_path: Path) -> None:
    plans = [jobs_for(FIGURES[name], SCALES["quick"], tmp_path, {}) for name in ("core", "curriculum", "problems")]
    runs = joined(plans)
    assert [job.planned.experiment for job in runs] == list(FIGURES["core"].runs.values())
    for job in runs:
        assert [(one.name, one.over_time) for one in job.evaluations] == [
            ("hand", True), ("cvar-sequential", False), ("hand", False),
        ]  # fmt: skip


def test_of_all_figures_those_are_drawn_that_can_be(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    some = {name: FIGURES[name] for name in ("overview", "conditioning", "edits", "scores")}
    monkeypatch.setattr(reproduce, "FIGURES", some)
    for name in ("conditioning", "edits"):
        for job in joined([jobs_for(FIGURES[name], SCALES["quick"], tmp_path, {})]):
            write(job)
    assert main(["reproduce", "all", "--no-train", "--folder", str(tmp_path)]) == 2
    told = capsys.readouterr()
    assert "docs/architecture.md" in told.out
    assert {file.stem for file in (tmp_path / "figures").iterdir()} == {"conditioning", "edits"}
    assert "not drawn: scores, because" in told.err
    assert "paper-plr-pvl-level-seed-0 was not trained: `atlas train" in told.err


def test_runs_end_by_the_clock_or_by_env_steps(capsys: Any) -> None:
    by_steps = config_at(replace(SCALES["quick"], steps=5000), "paper-plr").run
    assert (by_steps.total_steps, by_steps.time_limit) == (5000, None)
    assert config_at(SCALES["quick"], "paper-plr").run.time_limit == 2
    assert main(["reproduce", "core", "--steps", "5000", "--minutes", "1"]) == 2
    assert "--minutes and --steps cannot be given together" in capsys.readouterr().err


def test_figures_and_tables_are_written(tmp_path: Path, capsys: Any) -> None:
    for some in jobs_for(FIGURES["conditioning"], SCALES["quick"], tmp_path, {}).values():
        write(some[0])
    assert main(["reproduce", "conditioning", "--folder", str(tmp_path), "--json"]) == 0
    files = [Path(file) for file in json.loads(capsys.readouterr().out)["files"]]
    assert [file.name for file in files] == [f"conditioning.{s}" for s in ("png", "svg", "pdf", "csv", "tex")]
    assert all(file.stat().st_size > 200 for file in files)
    rows = list(csv.reader(files[3].open()))
    assert [row[0] for row in rows[1:]] == list(FIGURES["conditioning"].runs)


def test_the_table_of_settings_is_the_papers() -> None:
    (table,) = FIGURES["hyperparameters"].draw(Material([], scale="paper")).tables
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["Environment steps"] == ("4,194,304,000",) * 4
    assert rows["Replay rate"] == (None, "0.5", "0.9", "0.99")
    assert rows["Fewest edits"] == (None, None, "7", "7")
    assert rows["Adam learning rate"][0] == "5e-05"
