"""Held-out problems: each has a plan that the world accepts, none is trivial, all kinds alike; and they are kept."""

import dataclasses
from collections import Counter

import jax
import numpy as np
import pytest

import atlas
from atlas.build import parts
from atlas.domains.minigrid.presets import TINY
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.errors import AtlasError
from atlas.evaluation import held_out as module
from atlas.evaluation.held_out import Exam, held_out
from atlas.evaluation.statistics import SolveRates
from atlas.runs.problem_files import load
from atlas.runs.store import load_bulk, save_bulk

PER_SIZE = 9
CONFIG = dataclasses.replace(
    TINY,
    domain=dataclasses.replace(TINY.domain, step_limit=48),
    run=dataclasses.replace(TINY.run, rollout=48),
)


TOLD = []
"""The progress that was told of while the problems were made."""


@pytest.fixture(scope="module")
def chosen():
    return held_out(CONFIG, PER_SIZE, lambda done, total: TOLD.append((done, total)))


def test_progress_is_told_while_they_are_made(chosen):
    assert TOLD[-1] == (len(chosen), len(chosen))


def test_a_small_run_has_few_of_them():
    assert module.problems_per_size(TINY) == 16
    assert module.problems_per_size(atlas.configure("quick")) == module.problems_per_size(atlas.configure("laptop"))
    assert module.problems_per_size(atlas.configure("paper-accel")) == module.PER_SIZE


def test_all_kinds_are_alike(chosen):
    kinds = Counter(zip(chosen.values.tolist(), chosen.lengths.tolist(), strict=True))
    assert kinds == {(1, 1): 5, (1, 2): 4, (2, 1): 5, (2, 2): 4}
    assert chosen.values.tolist() == np.asarray(chosen.problems.level.rooms).tolist()
    edges = np.sum(np.asarray(chosen.problems.task.target) >= 0, axis=(1, 2, 3))
    assert chosen.lengths.tolist() == edges.tolist()


def test_each_is_proven_and_not_trivial(chosen):
    for i in range(len(chosen)):
        verdict = atlas.solve(jax.tree.map(lambda x, i=i: x[i], chosen.problems), step_limit=48)
        assert verdict.verdict == "solvable"
        assert not verdict.trivial


def test_a_kind_that_cannot_be_found_is_replaced_by_others():
    wanted = Counter({(1, 1): 0, (1, 2): 0, (1, 3): 5, (2, 1): 0, (2, 2): 0, (2, 3): 0})
    assert module._substitutes(wanted) == Counter({(1, 1): 3, (1, 2): 2})
    assert module._substitutes(Counter({(1, 1): 4})).total() == 0


def test_nothing_to_be_found_is_a_sentence(monkeypatch):
    monkeypatch.setattr(module, "ROUNDS", 1)
    monkeypatch.setattr(module, "certified", lambda *_: [])
    with pytest.raises(AtlasError, match=r"solved in domain\.step_limit = 48 steps"):
        held_out(CONFIG, PER_SIZE)


def test_an_exam_tells_rates_by_rooms(chosen):
    made = parts(CONFIG)
    exam = Exam(made, chosen)
    params = made.student.init(jax.random.key(0))
    rates = exam.rates(params, 3)
    assert set(rates.plain()) == {"all", "rooms_1", "rooms_2"}
    assert rates.all == pytest.approx(sum(rates.by["rooms"].values()) / 2)
    assert SolveRates.read(rates.plain()) == rates
    assert exam.rates(params, 3) == rates


@pytest.fixture
def counted(monkeypatch, tmp_path, chosen):
    """A cache of its own, and how often problems were drawn."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    calls = []
    monkeypatch.setattr(module, "held_out", lambda *_: calls.append(1) or chosen)
    return calls


def same(a, b):
    leaves = zip(jax.tree.leaves(a.problems), jax.tree.leaves(b.problems), strict=True)
    return all(np.array_equal(x, y) for x, y in leaves) and a.lengths.tolist() == b.lengths.tolist()


def test_a_second_run_of_the_kind_takes_them_from_the_cache(counted, tmp_path, chosen):
    first = module.obtain(tmp_path / "a" / "held_out.npz", CONFIG)
    second = module.obtain(tmp_path / "b" / "held_out.npz", dataclasses.replace(CONFIG, pairing=TINY.pairing))
    again = module.obtain(tmp_path / "b" / "held_out.npz", CONFIG)
    assert counted == [1]
    assert same(first, chosen)
    assert same(second, chosen)
    assert same(again, chosen)


def test_other_settings_need_other_problems(counted, tmp_path):
    module.obtain(tmp_path / "a" / "held_out.npz", CONFIG)
    module.obtain(tmp_path / "a" / "held_out.npz", dataclasses.replace(CONFIG, domain=MinigridConfig(step_limit=8)))
    assert counted == [1, 1]


def test_problems_that_were_kept_before_there_was_a_setting_are_still_the_same(counted, tmp_path):
    path = tmp_path / "a" / "held_out.npz"
    module.obtain(path, CONFIG)
    kept = load_bulk(path)
    for name in ("prior", "call_weight"):
        del kept.settings["tasks"][name]
    save_bulk(kept.problems, path, kept.settings, kept.seed, kept.names, kept.tags)
    module.read(path, CONFIG)


def test_a_damaged_file_is_made_again(counted, tmp_path, chosen):
    path = tmp_path / "a" / "held_out.npz"
    module.obtain(path, CONFIG)
    path.write_bytes(path.read_bytes()[:100])
    for cached in (tmp_path / "cache").rglob("*.npz"):
        cached.write_bytes(b"nothing")
    assert same(module.obtain(path, CONFIG), chosen)
    assert same(module.read(path, CONFIG), chosen)
    assert counted == [1, 1]


def test_a_cache_that_cannot_be_written_stops_nobody(counted, tmp_path, chosen):
    (tmp_path / "cache").write_text("in the way")
    assert same(module.obtain(tmp_path / "a" / "held_out.npz", CONFIG), chosen)


def test_the_file_is_a_set_that_every_command_reads(counted, tmp_path):
    module.obtain(tmp_path / "held_out.npz", CONFIG)
    problems = load(tmp_path / "held_out.npz")
    assert problems[0].name == "rooms-1-length-1-000"
    assert problems[0].tags == ("rooms_1", "length_1")
