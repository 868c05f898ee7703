"""BabyAI's missions as problems: the same world, the same mission, and BabyAI's own word that it is done."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import atlas
from atlas.domains.minigrid import babyai, grid, text
from atlas.errors import AtlasError
from atlas.evaluation import sets
from atlas.evaluation.sets import build, fingerprint, one_by_one, recipes
from atlas.runs.store import load_bulk
from atlas.show.episode import Episode

RECIPE = recipes()["babyai"]
TWO = ("PickupLoc", "OpenDoorsOrderN4")
SMALL = replace(RECIPE, count=6, kinds=2, source=lambda recipe, seed: babyai.Missions(recipe, seed, TWO))


def at(level: str, seed: int):
    return babyai.reset(babyai.environment(level), seed)


def drawn(env) -> str:
    """A level as text, written from BabyAI's objects without the help of our conversion."""
    letters = {"ball": "o", "box": "s", "key": "k", "wall": "##"}
    rows = []
    for y in range(env.grid.height):
        row = ""
        for x in range(env.grid.width):
            thing = env.grid.get(x, y)
            colour = "" if thing is None else {"grey": "a"}.get(thing.color, thing.color[0])
            if (x, y) == tuple(env.agent_pos):
                row += ">v<^"[env.agent_dir] + (colour or ".")
            elif thing is None:
                row += ".."
            elif thing.type == "door":
                row += ("+" if thing.is_open else "x" if thing.is_locked else "-") + colour
            else:
                row += (letters[thing.type] + colour)[:2]
        rows.append(row)
    return "\n".join(rows)


@pytest.mark.parametrize("name", ["GoToLocal", "KeyCorridorS4R3", "PutNextS6N3Carrying", "MiniBossLevel"])
def test_levels_are_what_they_were(name):
    env = at(name, 5)
    level = babyai.to_level(env)
    assert text.format_cells(level) == drawn(env)
    carried = env.carrying and f"{env.carrying.color} {env.carrying.type}"
    assert int(level.carrying) == (grid.NOTHING if carried is None else text.parse_object(carried))


@pytest.mark.parametrize(("name", "seed"), [("BlockedUnlockPickup", 1), ("PutNextS6N3Carrying", 2), ("GoToSeqS5R2", 4)])
def test_a_plan_leads_to_the_same_world_and_babyai_calls_it_done(name, seed):
    env = at(name, seed)
    problem = babyai.to_problem(env, name, seed)
    plan = atlas.solve(problem).plan
    assert babyai.done_after(env, plan) == len(plan)
    episode = Episode(problem)
    for action in plan:
        record = episode.act(action)
    assert record.done
    assert text.format_level(episode.level) == text.format_level(babyai.to_level(env))


def test_the_bot_tells_its_plan_in_our_actions():
    env = at("GoToLocal", 3)
    problem = babyai.to_problem(env)
    plan = babyai.bot_plan(env)
    assert atlas.trace(problem, plan)[-1].task_state == "uA"


def test_who_is_moved_matters_to_babyai_and_not_to_us():
    """`put the first next to the second`: a plan that carries the second to the first."""
    env = at("PutNextS7N4", 0)
    first, second = env.instrs.desc_move, env.instrs.desc_fixed
    assert len(first.obj_set) == len(second.obj_set) == 1
    problem = babyai.to_problem(env)
    names = [f"{one.color} {one.type}" for one in (first, second)]
    other = atlas.english(f"pick up the {names[1]}, then put the {names[0]} next to the {names[1]}")
    plan = atlas.solve(problem.replace(task=other)).plan
    assert atlas.trace(problem, plan)[-1].task_state == "uA"
    assert babyai.done_after(env, plan) == 0


def test_what_cannot_be_said_is_refused_with_the_reason():
    env = babyai.environment("PickupLoc")
    seed = next(seed for seed in range(100) if "your" in babyai.reset(env, seed).mission)
    with pytest.raises(AtlasError, match="on your left"):
        babyai.to_problem(babyai.reset(env, seed))
    with pytest.raises(AtlasError, match="the level is 22x22: at most 19x19"):
        babyai.to_problem(at("BossLevel", 0))
    env = at("GoToLocal", 0)
    thing = next(one for one in env.grid.grid if one is not None and one.type != "wall")
    thing.contains = thing
    with pytest.raises(AtlasError, match="something is inside a box"):
        babyai.to_problem(env)


def test_levels_that_never_fit_are_listed():
    found = babyai.too_large()
    assert found["BossLevel"] == "22x22"
    assert not {*found} & {*babyai.LEVELS}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> sets.Built:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(babyai, "DRAWN", 8)
        path = tmp_path_factory.mktemp("sets") / "small.npz"
        made = sets.write_set(SMALL, path, seed=4, workers=1)
        assert load_bulk(path).notes == made.notes
        return made


def test_a_set_has_names_tags_missions_and_counts(built: sets.Built):
    assert built.names[:4] == ("PickupLoc-00", "PickupLoc-01", "PickupLoc-02", "OpenDoorsOrderN4-00")
    assert all(tags[0] == f"level-{name[:-3]}" for name, tags in zip(built.names, built.tags, strict=True))
    told = built.settings
    assert sum(row["problems"] for row in told["agreement"].values()) == 6
    missions = 0
    for name, seed, words in zip(built.names, told["seeds"], built.notes, strict=True):
        missions += at(name[:-3], seed).mission == words
    assert missions == 6
    assert told["drawn"] == 16
    said = told["left_out"].get(babyai.PLACE, {})
    assert {*said} <= {"PickupLoc"}
    lines = "\n".join(map(str, babyai.report(told)[:-1]))
    assert "16 missions were drawn" in lines
    assert "24 levels of BabyAI are larger than 19x19" in lines


def test_agreement_counts_each_problem_once(built: sets.Built):
    for row in built.settings["agreement"].values():
        assert row["same_step"] <= row["done"] <= row["problems"]
        assert row["bot_same_step"] <= row["bot_done"] <= row["bot"] <= row["problems"]
    assert sum(row["done"] for row in built.settings["agreement"].values()) == 6  # nothing is put anywhere here


def test_the_seed_says_it_all(built: sets.Built, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(babyai, "DRAWN", 8)
    again = build(SMALL, seed=4, workers=1)
    assert fingerprint(one_by_one(again.problems)) == fingerprint(one_by_one(built.problems))
    assert not np.array_equal(build(SMALL, seed=5, workers=1).settings["seeds"], built.settings["seeds"])


def test_a_level_that_gives_nothing_ends_with_a_sentence(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(babyai, "DRAWN", 1)
    monkeypatch.setattr(babyai, "ROUNDS", 2)
    none = replace(RECIPE, count=1, kinds=1, source=lambda recipe, seed: babyai.Missions(recipe, seed, ("BossLevel",)))
    with pytest.raises(AtlasError, match="too few can be used"):
        build(none, workers=1)


def test_without_the_package_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "minigrid", None)
    with pytest.raises(AtlasError, match=re.escape("pip install 'atlas-ued[babyai]'")):
        babyai.environment("GoToLocal")
    assert "babyai" in recipes()


def test_the_page_is_true(capsys: pytest.CaptureFixture[str]):
    page = (Path(__file__).parents[3] / "docs" / "babyai.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(example, {})
    assert "open the" in capsys.readouterr().out
