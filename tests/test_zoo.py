"""The zoo: policies inside the package by name wherever a run is read, how they get there, weights to begin with."""

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import yaml

import atlas
from atlas.build import build
from atlas.cli import main
from atlas.errors import AtlasError
from atlas.evaluation.held_out import obtain
from atlas.evaluation.play import Evaluator
from atlas.evaluation.results import over_time_file, read_evaluation
from atlas.evaluation.sets import open_set
from atlas.reports.reading import read_runs
from atlas.runs import folder as places
from atlas.runs.checkpoints import Checkpoints
from atlas.runs.folder import RunFolder, located, zoo_names
from atlas.runs.hosts import Team
from atlas.runs.policy import load_parameters, load_policy
from atlas.runs.run import Start
from atlas.runs.run import resume as resume_run
from atlas.runs.store import PARAMETERS, to_arrays, write
from atlas.runs.zoo import CARD, read_card
from atlas.settings import changed, dump
from atlas.training import Trainer
from atlas.words import short
from fake_runs import TIMES, fake_run

LAST = TIMES[-1]
SAID = ("--title", "A tiny one", "--track", "blind", "--machine", "two cores")


# The policies that come with ATLAS


def check(name: str) -> None:
    """A policy solves 50 problems of a set about as often as it did when it was evaluated: within 0.10."""
    card, policy = read_card(name), load_policy(f"zoo:{name}")
    chosen = "hand" if "hand" in card.sets else next(iter(card.sets))
    rows = read_evaluation(located(f"zoo:{name}") / "evaluations" / f"{chosen}.json")["runs"][0]["problems"]
    assert np.mean([row["rate"] for row in rows]) == pytest.approx(card.sets[chosen]["mean"]["value"], abs=1e-3)
    known = open_set(chosen)
    problems = {problem.name: problem for problem in known.problems}
    rows = rows[:: max(1, len(rows) // 50)][:50]
    evaluator = Evaluator([problems[row["name"]] for row in rows], 4, known.step_limit, False, seed=1)
    found = evaluator.of_student(policy.student, policy.params).solved.mean()
    assert abs(found - np.mean([row["rate"] for row in rows])) <= 0.10


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo_names())
def test_a_policy_is_as_good_as_its_card_says(name: str) -> None:
    check(name)


def test_the_zoo_is_small_and_tells_nothing_of_machines() -> None:
    files = [path for path in places.ZOO.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 8e6
    for path in files:
        if path.suffix != ".npz":
            assert not any(word in path.read_text() for word in ("/home/", "/root/", "/Users/", "/tmp/", "/work/"))


# A zoo made up for tests


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was evaluated, and a zoo beside it with two policies made of it and of another seed."""
    folder = tmp_path_factory.mktemp("zoo")
    for seed, name in enumerate(("one", "two")):
        evaluations = fake_run(folder / name, seed) / "evaluations"
        (evaluations / "set.json").rename(evaluations / "validation.json")
        (evaluations / "set-over-time.json").rename(evaluations / "validation-over-time.json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places, "ZOO", folder / "zoo")
        for name in ("one", "two"):
            assert main(["zoo", "add", str(folder / name), "--name", name, *SAID]) == 0
    return folder


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with a copy of all that."""
    monkeypatch.setattr(places, "ZOO", Path(shutil.copytree(made / "zoo", tmp_path / "zoo")))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    """What a command prints as JSON."""
    capsys.readouterr()
    assert main([*argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refusal(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    capsys.readouterr()
    assert main(list(argv)) == 2
    return capsys.readouterr().err


def content(folder: Path) -> dict[str, str]:
    """Every file and what is in it."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_policy_by_name_is_that_of_the_run_in_half_precision(made: Path, here: Path) -> None:
    run, kept = load_policy(made / "one"), load_policy("zoo:one")
    assert (kept.iteration, kept.steps, kept.seconds) == (run.iteration, run.steps, run.seconds)
    assert kept.config == run.config
    assert kept.run == here / "zoo" / "one"
    assert kept.name.startswith("zoo:one/policies/")
    for name, array in to_arrays(run.params).items():
        assert np.array_equal(array.astype(np.float16).astype(np.float32), to_arrays(kept.params)[name])


def test_the_card_of_a_run_that_began_with_a_policy_says_how_long_that_was_trained(made: Path, here: Path) -> None:
    run = RunFolder(Path(shutil.copytree(made / "two", here / "run")))
    weights, about = load_parameters(next((here / "zoo" / "one" / "policies").glob("*.npz")))
    about = {name: about[name] for name in ("iteration", "steps", "seconds")}
    one = read_card("one")

    def began_with(after: str, **changes: Any) -> str:
        write(run.init_file, PARAMETERS, weights, about | changes)
        assert main(["zoo", "add", str(run.path), "--name", after, *SAID, "--overwrite"]) == 0
        return read_card(after).init

    expected = f"zoo:one as it was after {one.minutes:.0f} minutes and {short(one.trained)} env steps trained on"
    assert began_with("three", **{"from": "zoo:one"}) == expected
    assert main(["zoo", "add", str(places.ZOO / "three"), "--name", "three", *SAID, "--overwrite"]) == 0
    assert read_card("three").init == expected  # as it ships, too
    assert began_with("four", **{"from": "zoo:three", "steps": read_card("three").played}).endswith(
        f", which began with {expected}"
    )
    assert began_with("four", **{"from": "zoo:one", "steps": one.played + 1}) == "zoo:one"
    assert began_with("four", **{"from": "zoo:gone"}) == "zoo:gone"
    assert began_with("four", **{"from": "runs/mine"}) == "another run"


def test_the_card_says_how_it_was_made(made: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    card = told(capsys, "zoo", "one")
    evaluated = read_evaluation(made / "one" / "evaluations" / "validation.json")
    config = load_policy(made / "one").config
    assert (card["title"], card["track"], card["machine"], card["seed"]) == ("A tiny one", "blind", "two cores", 0)
    assert (card["preset"], card["changes"]) == ("tiny", [])
    assert (card["minutes"], card["played"], card["shown"]) == (5.0, 64 * LAST, 0)
    assert card["trained"] == config.env_steps(LAST // 2, LAST // 2)
    assert list(card["sets"]) == ["validation"]
    assert card["sets"]["validation"]["mean"]["value"] == pytest.approx(
        evaluated["together"]["mean"]["value"], abs=1e-4
    )
    assert set(card["sets"]["validation"]["by_tag"]) == set(evaluated["together"]["by_tag"])
    assert [point["solved"] for point in card["held_out"]] == sorted(point["solved"] for point in card["held_out"])
    assert card["rounded"]
    assert card["bytes"] == sum(path.stat().st_size for path in (here / "zoo" / "one").rglob("*") if path.is_file())
    assert [one["name"] for one in told(capsys, "zoo")] == ["one", "two"]


def test_people_read_the_list_and_the_card(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)  # a narrow terminal has fewer columns
    assert main(["zoo"]) == 0
    listed = capsys.readouterr().out
    assert main(["zoo", "zoo:one"]) == 0
    card = capsys.readouterr().out
    rate = read_card("one").sets["validation"]["mean"]["value"]
    assert "zoo:one" in listed
    assert f"{rate:.0%}" in listed
    assert f"{rate:.3f}" in card
    assert "before its weights were rounded" in card
    shutil.rmtree(here / "zoo")
    assert main(["zoo"]) == 0
    assert "empty" in capsys.readouterr().out


def test_a_folder_that_was_evaluated_as_it_ships_says_so(here: Path) -> None:
    before, known = content(here / "zoo" / "one"), read_card("one")
    assert main(["zoo", "add", "zoo/one", "--name", "one", "--overwrite"]) == 0
    after = content(here / "zoo" / "one")
    assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} == {CARD}
    assert not read_card("one").rounded
    assert dataclasses.replace(read_card("one"), rounded=True) == known


def test_nothing_of_the_machine_that_made_it_is_shipped(made: Path, here: Path) -> None:
    for path in (here / "zoo").rglob("*"):
        if path.is_file():
            assert str(made).encode() not in path.read_bytes()


def test_results_go_below_the_current_folder_or_where_they_are_told_to(
    made: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = content(here / "zoo")
    quick = ("--problems", str(made / "set.yaml"), "--attempts", "2", "--step-limit", "9")
    assert main(["eval", "zoo:one", *quick]) == 0
    assert "evaluations/zoo-one/set.json" in capsys.readouterr().out
    assert read_evaluation(here / "evaluations" / "zoo-one" / "set.json")["runs"][0]["run"] == "zoo:one"
    assert main(["eval", "zoo:two", *quick, "--out", "there.json"]) == 0
    assert "there.json" in capsys.readouterr().out
    assert not (here / "evaluations" / "zoo-two").exists()
    assert over_time_file(Path("zoo:two"), "set") == Path("evaluations/zoo-two/set-over-time.json")
    assert content(here / "zoo") == before
    compared = told(capsys, "compare", "zoo:one", "there.json")
    assert (compared["one"]["runs"], compared["other"]["runs"]) == (["zoo:one"], ["zoo:two"])


def test_two_policies_are_compared_and_read_for_reports(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compared = told(capsys, "compare", "zoo:one", "zoo:two")
    means = [read_card(name).sets["validation"]["mean"]["value"] for name in ("one", "two")]
    assert [compared[side]["mean"] for side in ("one", "other")] == pytest.approx(means, abs=1e-3)
    read, _ = read_runs([Path("zoo:one"), Path("zoo:two")])
    assert (read.name, list(read.evaluations), list(read.over_time)) == ("zoo:one", ["validation"], ["validation"])
    assert len(read.records) == len(TIMES)
    assert [path.stem for path in read.snapshots] == ["000000080"]


def test_a_policy_is_watched(made: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen = told(capsys, "watch", "zoo:one", str(made / "set.yaml"), "--index", "0", "--step-limit", "5")
    assert seen["steps"] <= 5
    assert "zoo:one keeps no held-out problems" in refusal(capsys, "watch", "zoo:one")


@pytest.mark.parametrize(
    "argv",
    [
        ("watch", "zoo:three"), ("eval", "zoo:three"), ("report", "zoo:three"), ("compare", "zoo:three", "zoo:one"),
        ("zoo", "three"), ("resume", "zoo:three"), ("studio", "--policy", "zoo:three", "--no-browser"),
        ("demos", "zoo:three", "-n", "1", "--out", "x.npz"), ("eval", "zoo:one/../one"),
        ("train", "tiny", "--folder", "new", "--init", "zoo:three"),
    ],
)  # fmt: skip
def test_an_unknown_name_lists_those_there_are(
    here: Path, capsys: pytest.CaptureFixture[str], argv: tuple[str, ...]
) -> None:
    assert "no policy of the zoo; there are one and two" in refusal(capsys, *argv)
    assert not (here / "new").exists()


def test_a_policy_has_no_run_to_go_on_with(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--init zoo:one` begins one with its weights" in refusal(capsys, "resume", "zoo:one")


def test_a_damaged_policy_is_a_sentence(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file,) = (here / "zoo" / "one" / "policies").glob("*.npz")
    file.write_bytes(file.read_bytes()[:-100])
    assert "not a readable file of parameters" in refusal(capsys, "watch", "zoo:one", "myopic")
    other = here / "zoo" / "two" / "config.yaml"
    other.write_text(other.read_text().replace("recurrent: ", "recurrent: 1"))
    assert "was made by another config" in refusal(capsys, "watch", "zoo:two", "myopic")


@pytest.mark.parametrize("text", ["", "title: 3", "- 1", "a: [", "track: x"])
def test_a_damaged_card_is_a_sentence(here: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    (here / "zoo" / "one" / CARD).write_text(text)
    assert CARD in refusal(capsys, "zoo", "one")


@pytest.mark.parametrize(("key", "value"), [("sets", {"hand": {"mean": 2}}), ("track", "sighted"), ("played", "many")])
def test_a_card_with_wrong_values_is_a_sentence(
    here: Path, capsys: pytest.CaptureFixture[str], key: str, value: Any
) -> None:
    file = here / "zoo" / "one" / CARD
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {key: value}))
    assert f"not a card ({key}" in refusal(capsys, "zoo")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--name", "one"), "zoo:one is there already: --overwrite replaces it"),
        (("--name", "One"), "'One' is not allowed as a name"),
        (("--name", "add"), "'add' is not allowed as a name"),
        (("--name", "new", "--shown", "5"), "--shown 5 is not allowed"),
        (("--name", "new", "--track", "blind"), "the run has pairing.how = level"),
        (("--name", "new"), "the run has student.cloning.plans = 4, so it is coached"),
    ],
)
def test_what_cannot_be_added(
    made: Path, here: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], words: str
) -> None:
    run = Path(shutil.copytree(made / "one", here / "run"))
    plans = 4 if "cloning" in words else 0
    config = changed(RunFolder(run).config(), {"pairing": {"how": "level"}, "student": {"cloning": {"plans": plans}}})
    (run / "config.yaml").write_text(dump(config))
    before = content(here / "zoo")
    said = ("--title", "x", "--machine", "y", "--track", "informed")
    assert words in refusal(capsys, "zoo", "add", str(run), *said, *more)
    assert content(here / "zoo") == before


def test_only_what_was_evaluated_is_added(made: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Path(shutil.copytree(made / "one", here / "run"))
    add = ("zoo", "add", "run", "--name", "new")
    assert "--title is needed" in refusal(capsys, *add)
    file = run / "evaluations" / "validation.json"
    earlier = json.loads(file.read_text())
    earlier["runs"][0]["iteration"] = 7
    file.write_text(json.dumps(earlier))
    assert "on validation at iteration 7, and its policy is of iteration 100" in refusal(capsys, *add, *SAID)
    del earlier["together"]
    earlier["runs"][0]["iteration"] = LAST
    file.write_text(json.dumps(earlier))
    assert "is incomplete" in refusal(capsys, *add, *SAID)
    file.unlink()
    assert "run was not evaluated on validation" in refusal(capsys, *add, *SAID)
    assert zoo_names() == ["one", "two"]


# Weights to begin with


CONFIG = atlas.configure(
    "tiny", {"teacher.name": "dr", "run.seed": 5, "run.total_steps": 128, "student.ppo.average": 0.9}
)
"""DR is compiled soonest."""


@pytest.fixture(scope="module")
def trainer() -> Trainer:
    """Compiled once for all runs."""
    return build(CONFIG)


@pytest.fixture(scope="module")
def begun(made: Path, trainer: Trainer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A short run that began with the weights of a policy of the zoo, and keeps an average of its own."""
    folder = tmp_path_factory.mktemp("init")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("atlas.runs.run.build", lambda *_: trainer)
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.setattr("atlas.runs.run.obtain", partial(obtain, per_size=4))
        patch.setattr(places, "ZOO", made / "zoo")
        atlas.train(CONFIG, folder / "run", init="zoo:one", quiet=True)
        yield folder / "run"


def first(run: Path, trainer: Trainer) -> dict[str, np.ndarray]:
    """The arrays of the first checkpoint."""
    checkpoints = Checkpoints(run / "checkpoints", 3)
    try:
        return to_arrays(checkpoints.restore(0, trainer.shapes))
    finally:
        checkpoints.close()


def as_begun(made: Path, trainer: Trainer) -> dict[str, np.ndarray]:
    """What a run has that begins with the policy's weights: the rest is that of a run with random ones."""
    (kept,) = (made / "zoo" / "one" / "policies").glob("*.npz")
    weights, _ = load_parameters(kept)
    fresh = to_arrays(trainer.compiled_init(jax.random.key(CONFIG.run.seed)))
    return fresh | {f"{of}{name}": array for of in (".params", ".average") for name, array in weights.items()}


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(array, other[name]) for name, array in one.items())


@pytest.mark.slow
def test_a_run_begins_with_the_weights_and_nothing_else(made: Path, begun: Path, trainer: Trainer) -> None:
    """The first policy acts exactly as the one of the zoo does; the optimiser and all else are fresh."""
    assert same(first(begun, trainer), as_begun(made, trainer))
    about = load_parameters(begun / "init.npz")[1]
    assert (about["from"], about["steps"]) == ("zoo:one", 64 * LAST)


@pytest.mark.slow
def test_it_goes_on_and_begins_anew_without_the_zoo(begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "ZOO", begun / "no-zoo")
    assert atlas.resume(begun, {"run.total_steps": 256}, quiet=True).steps >= 256
    resume_run(begun, Team(), start=Start(scratch=True), quiet=True)
    weights, _ = load_parameters(begun / "init.npz")
    assert same(load_parameters(begun / "policies" / "000000000.npz")[0], weights)
    other = changed(RunFolder(begun).config(), {"student": {"network": {"head_width": 24}}})
    with pytest.raises(AtlasError, match=r"has another network: student\.network\.head_width is \d+ there and 24 here"):
        resume_run(begun, Team(), wanted=other, start=Start(scratch=True), quiet=True)


@pytest.mark.parametrize(
    ("preset", "more", "words"),
    [
        ("tiny", ("--student.network.recurrent", "24"), r"has another network: student.network.recurrent is"),
        ("tiny-letters", (), "is of the domain minigrid, and the new run of the domain letterworld"),
    ],
)
def test_weights_of_another_network_or_domain_are_refused(
    here: Path, capsys: pytest.CaptureFixture[str], preset: str, more: tuple[str, ...], words: str
) -> None:
    assert words in refusal(capsys, "train", preset, "--folder", "new", "--init", "zoo:one", *more)
    assert not (here / "new").exists()
