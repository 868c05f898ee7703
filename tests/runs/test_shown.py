"""A run whose student is shown plans: they are kept once, and a run that was stopped goes on with them."""

import dataclasses

import numpy as np
import pytest

from atlas.config import CloningConfig, PairingConfig
from atlas.domains.minigrid.presets import TINY
from atlas.runs import run as running
from atlas.runs.checkpoints import Checkpoints
from atlas.runs.demos import load_demos, parts_folder, plans_of_run
from atlas.runs.folder import RunFolder
from atlas.runs.hosts import Team
from atlas.runs.metrics import read
from atlas.runs.store import to_arrays
from atlas.training import without_shown
from atlas.ued import DRConfig
from same_trainer import same_trainer

PLANS, STEPS = 12, 768
CONFIG = dataclasses.replace(
    TINY,
    teacher=DRConfig(),
    pairing=PairingConfig(how="level"),
    student=dataclasses.replace(TINY.student, cloning=CloningConfig(plans=PLANS, until=0.8)),
    run=dataclasses.replace(TINY.run, total_steps=STEPS, snapshot_every=1e6, checkpoint_every=1e6),
)


@pytest.fixture(scope="module", autouse=True)
def compiled_once(tmp_path_factory):
    with same_trainer(CONFIG, tmp_path_factory.mktemp("cache")):
        yield


def train(path, *callbacks):
    running.train(path, CONFIG, Team(), quiet=True, callbacks=callbacks)
    return RunFolder(path)


def last_state(folder):
    checkpoints = Checkpoints(folder.checkpoints, keep=3)
    _, state, _ = checkpoints.restore_latest(without_shown(running.build().shapes))
    checkpoints.close()
    return to_arrays(state)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return train(tmp_path_factory.mktemp("whole") / "run")


def test_plans_are_kept_with_the_run_and_not_with_its_states(whole):
    demos = load_demos(whole.demonstrations_file)
    assert len(demos) == PLANS
    assert not any("shown" in name for name in last_state(whole))


def test_the_beginning_of_a_search_for_other_plans_is_not_gone_on_with(whole, tmp_path):
    path = tmp_path / "demonstrations.npz"
    other = dataclasses.replace(CONFIG, run=dataclasses.replace(CONFIG.run, seed=7))

    def stop(done, total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        plans_of_run(path, other, stop)
    if not path.exists():
        assert list(parts_folder(path).glob("*.npz"))
    path.unlink(missing_ok=True)
    found, expected = plans_of_run(path, CONFIG, lambda done, total: None), load_demos(whole.demonstrations_file)
    assert len(found) == PLANS
    np.testing.assert_array_equal(found.plans, expected.plans)


def test_they_are_imitated_until_the_weight_is_gone(whole):
    found = [record["losses"]["cloning"] for record in read(whole.metrics_file)]
    assert len(found) == STEPS // (CONFIG.run.num_envs * CONFIG.run.rollout)
    assert min(found[:9]) > 0  # of twelve iterations, the first 80 %
    assert found[-2:] == [0.0, 0.0]


def test_a_run_that_was_stopped_ends_where_it_would_have_ended(whole, tmp_path):
    """Even if the plans got lost: they are found again."""
    folder = train(tmp_path / "run", lambda moment: moment.iteration >= 4)
    running.resume(folder.path, Team(), quiet=True, callbacks=[lambda moment: moment.iteration >= 7])
    folder.demonstrations_file.unlink()
    running.resume(folder.path, Team(), quiet=True)
    expected, found = last_state(whole), last_state(folder)
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(array, found[name], err_msg=name)
