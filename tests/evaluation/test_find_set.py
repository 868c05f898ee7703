"""Sets by name and by path."""

from dataclasses import replace
from pathlib import Path

import pytest

from atlas.api import sample_batch, settings
from atlas.errors import AtlasError
from atlas.evaluation import sets
from atlas.evaluation.sets import (
    Built,
    Recipe,
    fingerprint,
    named_sets,
    one_by_one,
    open_set,
    recipes,
)
from atlas.runs.store import save_bulk

GOOD = """
name: {name}
level: |
  ##########
  ##>...kb##
  ##########
task: pick up the blue key
"""
TINY = replace(recipes()["validation"], count=3)
HAND = named_sets()["hand"]


def folder(path: Path) -> Path:
    path.mkdir()
    for name in ("a", "b"):
        (path / f"{name}.yaml").write_text(GOOD.format(name=name))
    (path / "c.yaml").write_text(GOOD.format(name="c").replace("blue key", "blue kez"))
    (path / "d.yaml").write_text(GOOD.format(name="d") + "---\nname: e\nlevel: 3\n")
    return path


def test_the_hand_set_is_the_one_recorded() -> None:
    """If it was changed on purpose, record the new fingerprint; older results are not comparable."""
    found = open_set("hand")
    assert len(found.problems) == 150
    assert found.fingerprint == HAND.fingerprint
    assert found.step_limit == 512
    assert open_set(str(HAND.path())).fingerprint == HAND.fingerprint


def test_a_file_that_cannot_be_read_is_named_and_can_be_left_out(tmp_path: Path) -> None:
    path = folder(tmp_path / "set")
    with pytest.raises(AtlasError, match=r"(?s)c\.yaml.*'kez'.*--skip-bad"):
        open_set(str(path))
    found = open_set(str(path), skip_bad=True)
    assert [problem.name for problem in found.problems] == ["a", "b", "d"]
    assert len(found.bad) == 2
    assert "c.yaml" in found.bad[0]
    assert "d.yaml" in found.bad[1]


def test_the_authors_list_goes_on_without_a_missing_pair(tmp_path: Path) -> None:
    (tmp_path / "eval.yaml").write_text("- {name: x, level_path: levels/x.yaml, hrm_path: hrms/x.yaml}\n")
    with pytest.raises(AtlasError, match=r"levels/x\.yaml is not to be found"):
        open_set(str(tmp_path / "eval.yaml"))
    with pytest.raises(AtlasError, match="no problems that can be read"):
        open_set(str(tmp_path / "eval.yaml"), skip_bad=True)


def test_no_problems_and_no_such_set(tmp_path: Path) -> None:
    with pytest.raises(AtlasError, match="holds no problems"):
        open_set(str(tmp_path))
    with pytest.raises(AtlasError, match="did you mean cvar-dag"):
        open_set("cvar-dgg")
    with pytest.raises(AtlasError, match="sets are called hand, cvar-sequential, cvar-dag, validation"):
        open_set("nowhere.yaml")


def test_a_runs_own_problems_bring_their_step_limit(tmp_path: Path) -> None:
    batch = sample_batch(settings("level", "sequential", (1,)), 3, 0)
    save_bulk(batch, tmp_path / "held_out.npz", {"domain": {"step_limit": 77}}, 0)
    assert open_set(str(tmp_path / "held_out.npz")).step_limit == 77


def test_a_named_set_is_built_once_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    batch = sample_batch(settings("level", "sequential", (1,)), 3, 0)
    times = []

    def build(recipe: Recipe, seed: int, workers: int, progress: object) -> Built:
        times.append(recipe.name)
        about = {"plan_lengths": [1, 2, 3], "step_limit": 512}
        return Built(problems=batch, names=("a", "b", "c"), tags=((), (), ()), seed=seed, settings=about)

    monkeypatch.setattr(sets, "build", build)
    good = replace(TINY, fingerprint=fingerprint(one_by_one(batch)))
    monkeypatch.setattr(sets, "named_sets", lambda: {"validation": good})
    assert open_set("validation").plan_lengths == open_set("validation").plan_lengths == [1, 2, 3]
    assert times == ["validation"]
    bad = replace(good, fingerprint="0" * 64)
    monkeypatch.setattr(sets, "named_sets", lambda: {"validation": bad})
    bad.path().write_bytes(good.path().read_bytes())
    with pytest.raises(AtlasError, match="is not the set 'validation' that results are reported on"):
        open_set("validation")
