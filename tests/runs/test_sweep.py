"""Sweeps: what a file asks for; runs (played by a script) are started, resumed, tried again and told of."""

import json
import sys
import types
from pathlib import Path

import pytest

from atlas.cli import main
from atlas.errors import AtlasError
from atlas.runs.folder import Lock
from atlas.runs.sweep import Evaluation, Job, Local, jobs_of, read_sweep, results
from atlas.settings import dump

SWEEPS = sorted((Path(__file__).parents[2] / "sweeps").glob("*.yaml"))
PAPER = {
    "paper-core": 40, "paper-dag": 20, "paper-conditioning": 20, "paper-edits": 40, "paper-edit-kinds": 40,
    "paper-scores": 30, "paper-appendix-e1": 48, "paper-earlier-each": 15, "paper-earlier-grid": 192,
}  # fmt: skip
SMALL = """
about: for a test
runs:
  - presets: [tiny]
    seeds: [0, 1]
    settings: {student.ppo.entropy: [0.0, 0.01], run.keep: 2}
"""
PLAYS = """
import json, pathlib, sys
folder, fails = pathlib.Path(sys.argv[1]), sys.argv[2] == "fails"
tries = folder.with_name(folder.name + ".tries")
tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
if fails and len(tries.read_text()) <= int(sys.argv[3]):
    sys.exit("atlas: it went wrong")
folder.mkdir(exist_ok=True)
rate = 0.25 if "seed-0" in folder.name else 0.75
(folder / "summary.json").write_text(json.dumps({"stopped": False, "steps": 5000, "after": {"all": rate}}))
"""


def write(folder, text):
    path = folder / "sweep.yaml"
    path.write_text(text)
    return path


@pytest.fixture
def played(tmp_path, monkeypatch):
    """Runs are played by a script; those whose name contains the given word fail so many times."""
    script = tmp_path / "plays.py"
    script.write_text(PLAYS)

    def use(word="", times=0):
        def command(job):
            how = "fails" if word and word in job.folder.name else "works"
            return [sys.executable, str(script), str(job.folder), how, str(times)]

        monkeypatch.setattr(Job, "command", command)
        monkeypatch.setattr("atlas.runs.sweep.WAIT", 0.01)

    return use


@pytest.mark.parametrize("path", SWEEPS, ids=lambda p: p.stem)
def test_the_sweeps_of_the_repository_can_be_read(path):
    sweep = read_sweep(path)
    assert sweep.about
    assert sweep.search is not None or len(sweep.runs) == PAPER.get(path.stem, len(sweep.runs)) > 0


def test_the_experiments_of_the_paper_are_there():
    assert {path.stem for path in SWEEPS} >= set(PAPER)


def test_a_sweep_is_all_combinations(tmp_path):
    runs = read_sweep(write(tmp_path, SMALL)).runs
    assert [run.name for run in runs] == [
        "tiny-entropy-0.0-seed-0", "tiny-entropy-0.0-seed-1", "tiny-entropy-0.01-seed-0", "tiny-entropy-0.01-seed-1",
    ]  # fmt: skip
    assert [run.config.run.seed for run in runs] == [0, 1, 0, 1]
    assert [run.config.student.ppo.entropy for run in runs] == [0.0, 0.0, 0.01, 0.01]
    assert {run.config.run.keep for run in runs} == {2}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("runs:\n  - presets: [tinny]", r"there is no preset 'tinny'.*tiny"),
        ("runs:\n  - presets: [tiny]\n    sets: {}", "sets is not a key of an entry of `runs`"),
        ("runs:\n  - seeds: [1]", "`presets` is needed"),
        ("runs:\n  - presets: [tiny]\n    settings: {run.num_env: 4}", r"run.num_env is not a setting.*run.num_envs"),
        ("runs:\n  - presets: [tiny]\n    settings: {run.keep: 0}", "run.keep = 0 is not allowed"),
        ("runs:\n  - presets: [tiny, tiny]", "two runs would be kept under the same name"),
        ("runs:\n" + "  - presets: tiny\n    seeds: [0, 1]\n" * 501, "stands for 2 runs: at most 1,000 are possible"),
        ("about: nothing", "either `runs` or `search` is needed"),
        ("search: {preset: tiny, settings: {run.keep: {low: 1}}}", "needs either low and high, or choices"),
        ("[", "not readable YAML"),
    ],
)
def test_a_mistake_in_a_file_is_a_sentence_that_names_it(text, words, tmp_path):
    with pytest.raises(AtlasError, match=words) as caught:
        read_sweep(write(tmp_path, text))
    assert "sweep.yaml" in str(caught.value)


def test_all_runs_are_done_and_told_of(played, tmp_path, capsys):
    played()
    path = write(tmp_path, SMALL)
    command = ["sweep", str(path), "--folder", str(tmp_path / "runs"), "--parallel", "3"]
    assert main([*command, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["experiment"] for row in rows] == ["tiny entropy=0.0", "tiny entropy=0.01"]
    assert all((row["done"], row["runs"], row["failed"]) == (2, 2, 0) for row in rows)
    assert all((row["mean"], row["lowest"], row["highest"]) == (0.5, 0.25, 0.75) for row in rows)
    assert main(command) == 0
    assert "4 runs in" in capsys.readouterr().out
    assert all(tries.read_text() == "x" for tries in (tmp_path / "runs").glob("*.tries"))


def test_what_fails_once_is_tried_again(played, tmp_path):
    played("seed-1", times=1)
    jobs = jobs_of(read_sweep(write(tmp_path, SMALL)).runs, tmp_path / "runs")
    told = []
    assert Local(parallel=2, retries=1, tell=told.append).run(jobs) == []
    assert sum("is tried again (atlas: it went wrong)" in sentence for sentence in told) == 2
    assert all(job.status() == "done" for job in jobs)


def test_what_keeps_failing_is_listed_and_restarted_by_the_next_call(played, tmp_path, capsys):
    played("entropy-0.01-seed-1", times=3)
    command = ["sweep", str(write(tmp_path, SMALL)), "--folder", str(tmp_path / "runs")]
    assert main(command) == 1
    assert "failed: tiny-entropy-0.01-seed-1 (atlas: it went wrong)" in capsys.readouterr().err
    assert main(command) == 0
    assert "4 of them done" not in capsys.readouterr().out


def test_two_sweeps_on_one_folder_share_the_work(played, tmp_path):
    """What the other one has finished meanwhile is not touched, what it is at is left to it."""
    played()
    jobs = jobs_of(read_sweep(write(tmp_path, SMALL)).runs, tmp_path / "runs")
    theirs, finished, *_ = jobs
    lock = Lock(theirs.folder)
    told = []

    def tell(sentence):
        told.append(sentence)
        if len(told) == 2:  # the other one gets something done while we are at work
            finished.folder.mkdir(exist_ok=True)
            (finished.folder / "summary.json").write_text(json.dumps({"stopped": False, "mark": "theirs"}))
        if "done" in sentence and lock.file and not lock.file.closed:
            (theirs.folder / "summary.json").write_text(json.dumps({"stopped": False, "mark": "theirs"}))
            lock.release()

    waiting = [theirs, jobs[2], finished, jobs[3]]
    assert Local(parallel=1, retries=0, tell=tell).run(waiting) == []
    assert f"{theirs.folder.name}: another process is at it" in told
    assert [job.summary().get("mark") for job in jobs] == ["theirs", "theirs", None, None]


def test_a_run_that_another_process_took_first_is_no_failure(played, tmp_path, monkeypatch):
    played("seed-0", times=1)
    (job, *_) = jobs_of(read_sweep(write(tmp_path, SMALL)).runs, tmp_path / "runs")
    taken = []
    monkeypatch.setattr("atlas.runs.sweep.in_use", lambda folder: taken.append(1) or len(taken) == 2)
    told = []
    assert Local(retries=0, tell=told.append).run([job]) == []
    assert not any("failed" in sentence for sentence in told)


def test_a_finished_run_is_never_replaced(tmp_path):
    (job, *_) = jobs_of(read_sweep(write(tmp_path, SMALL)).runs, tmp_path / "runs")
    assert "--overwrite" not in job.command()


def test_a_run_is_started_or_resumed_as_its_folder_says(tmp_path):
    (job, *_) = jobs_of(read_sweep(write(tmp_path, SMALL)).runs, tmp_path / "runs")
    assert job.status() == "new"
    assert "train" in job.command()
    job.folder.mkdir(parents=True)
    (job.folder / "config.yaml").write_text(dump(job.planned.config))
    assert job.status() == "begun"
    assert job.command()[3:] == ["resume", str(job.folder), "--json"]
    (job.folder / "summary.json").write_text(json.dumps({"stopped": True}))
    assert job.status() == "begun"
    (job.folder / "config.yaml").write_text("run: {}")
    with pytest.raises(AtlasError, match="holds a run with other settings"):
        job.status()


JUDGES = """
import json, pathlib, sys
folder, name, rate = pathlib.Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
(folder / "evaluations").mkdir(exist_ok=True)
told = {"set": {"attempts": 10}, "runs": [{"iteration": 7, "mean": rate}]}
(folder / "evaluations" / f"{name}.json").write_text(json.dumps(told))
"""


def test_runs_are_judged_on_a_set_once_they_are_trained(tmp_path, monkeypatch):
    """The script that trains says 25 and 75 per cent; on the set it is the other way round."""
    (tmp_path / "plays.py").write_text(PLAYS.replace('"steps": 5000', '"steps": 5000, "iteration": 7'))
    (tmp_path / "judges.py").write_text(JUDGES)
    real, asked = Job.command, []

    def command(job):
        if job.status() != "trained":
            return [sys.executable, str(tmp_path / "plays.py"), str(job.folder), "works", "0"]
        asked.append(real(job)[3:])
        rate = "0.9" if "seed-0" in job.folder.name else "0.1"
        return [sys.executable, str(tmp_path / "judges.py"), str(job.folder), "set", rate]

    monkeypatch.setattr(Job, "command", command)
    monkeypatch.setattr("atlas.runs.sweep.WAIT", 0.01)
    jobs = jobs_of(read_sweep(write(tmp_path, SMALL)).runs, tmp_path / "runs", (Evaluation("some/set.yaml"),))
    told = []
    assert Local(tell=told.append).run(jobs) == []
    assert [job.rate() for job in jobs] == [0.9, 0.1, 0.9, 0.1]
    assert asked == [["eval", str(job.folder), "--problems", "some/set.yaml"] for job in jobs]
    assert [(row["done"], row["mean"]) for row in results(jobs)] == [(2, 0.5), (2, 0.5)]
    assert sum("is evaluated on set" in sentence for sentence in told) == 4
    # An evaluation of an earlier policy does not count.
    stale = jobs[0].folder / "evaluations" / "set.json"
    stale.write_text(stale.read_text().replace("7", "6"))
    assert jobs[0].status() == "trained"


def test_an_evaluation_that_leaves_nothing_behind_is_a_failure(played, tmp_path):
    played()
    jobs = jobs_of(read_sweep(write(tmp_path, SMALL)).runs[:1], tmp_path / "runs", (Evaluation("validation"),))
    assert Local(retries=1, tell=lambda _: None).run(jobs) == jobs


def test_a_judge_must_be_a_set(tmp_path, capsys):
    assert main(["sweep", str(write(tmp_path, SMALL)), "--judge", "valdation", "--list"]) == 2
    assert "did you mean validation?" in capsys.readouterr().err


def test_a_config_written_by_an_earlier_version_is_the_same_experiment(tmp_path):
    (job, *_) = jobs_of(read_sweep(write(tmp_path, SMALL)).runs, tmp_path / "runs")
    job.folder.mkdir(parents=True)
    lines = dump(job.planned.config).splitlines()
    (job.folder / "config.yaml").write_text("\n".join(line for line in lines if "policies" not in line))
    assert job.status() == "begun"


def test_without_the_packages_there_is_a_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "submitit", None)
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert main(["sweep", str(write(tmp_path, SMALL)), "--slurm", "--folder", str(tmp_path / "runs")]) == 2
    assert "pip install 'atlas-ued[slurm]'" in capsys.readouterr().err
    path = write(tmp_path, "search: {preset: tiny, settings: {run.keep: {low: 1, high: 3}}}")
    assert main(["sweep", str(path), "--folder", str(tmp_path / "runs")]) == 2
    assert "pip install 'atlas-ued[search]'" in capsys.readouterr().err


def test_slurm_is_handed_what_is_not_done(tmp_path, monkeypatch, capsys):
    handed = {}

    class Executor:
        def __init__(self, folder):
            handed["folder"] = folder

        def update_parameters(self, **settings):
            handed.update(settings)

        def map_array(self, function, jobs):
            handed["jobs"] = jobs
            return [types.SimpleNamespace(job_id=f"7_{number}") for number, _ in enumerate(jobs)]

    monkeypatch.setitem(sys.modules, "submitit", types.SimpleNamespace(AutoExecutor=Executor))
    path = write(tmp_path, SMALL + "slurm: {slurm_partition: gpu, gpus_per_node: 1}\n")
    folder = tmp_path / "runs"
    (folder / "tiny-entropy-0.0-seed-0").mkdir(parents=True)
    (folder / "tiny-entropy-0.0-seed-0" / "summary.json").write_text(
        json.dumps({"stopped": False, "steps": 1, "after": {"all": 0.5}})
    )
    assert main(["sweep", str(path), "--slurm", "--folder", str(folder), "--parallel", "2"]) == 0
    assert [job.folder.name for job in handed["jobs"]] == [run.name for run in read_sweep(path).runs[1:]]
    assert (handed["slurm_partition"], handed["slurm_array_parallelism"]) == ("gpu", 2)
    assert "handed to SLURM: 7_0, 7_1, 7_2" in capsys.readouterr().out
