"""Policies out of runs, checkpoints and files of parameters."""

import json
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from atlas.errors import AtlasError
from atlas.runs import checkpoints
from atlas.runs.checkpoints import RATE
from atlas.runs.policy import load_parameters, load_policy, policies_over_time, run_of, save_parameters
from fake_runs import TIMES, fake_run

LAST = TIMES[-1]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_run(tmp_path_factory.mktemp("runs") / "one")


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def leaves(params: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(params)]


def test_the_same_policy_from_everywhere(run: Path) -> None:
    kept = policies_over_time(run)
    assert [path.name for path in kept] == [f"{LAST:09d}.npz"]
    found = [load_policy(path) for path in (run, run / "checkpoints", run / "checkpoints" / str(LAST), kept[0])]
    for policy in found:
        assert (policy.iteration, policy.steps, policy.run) == (LAST, 64 * LAST, run)
        for mine, first in zip(leaves(policy.params), leaves(found[0].params), strict=True):
            assert np.array_equal(mine, first)


def test_some_of_the_policies_evenly_over_the_run(tmp_path: Path) -> None:
    (tmp_path / "policies").mkdir()
    for number in range(11):
        (tmp_path / "policies" / f"{number:09d}.npz").touch()
    chosen = {n: [int(path.stem) for path in policies_over_time(tmp_path, n)] for n in (2, 3, 6, 11, 40)}
    assert (chosen[2], chosen[3], chosen[6]) == ([0, 10], [0, 5, 10], [0, 2, 4, 6, 8, 10])
    assert chosen[11] == chosen[40] == list(range(11))


def test_the_best_checkpoint_is_the_one_with_the_highest_rate(run: Path) -> None:
    folder = run / "checkpoints"
    for number, rate in ((7, 0.9), (8, 0.2)):
        shutil.copytree(folder / str(LAST), folder / str(number))
        file = folder / str(number) / "about" / "metadata"
        about = {**json.loads(file.read_text()), RATE: rate, "iteration": number}
        del about["seal"]
        file.write_text(json.dumps(about | {"seal": checkpoints._seal(about)}))
    assert load_policy(run, "best").iteration == 7
    assert load_policy(run).iteration == LAST


def test_a_damaged_checkpoint_is_passed_over(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(run / "checkpoints" / str(LAST), run / "checkpoints" / str(LAST + 1))
    shutil.rmtree(run / "checkpoints" / str(LAST + 1) / "state")
    assert load_policy(run).iteration == LAST
    assert f"{LAST + 1} is damaged" in capsys.readouterr().err
    shutil.rmtree(run / "checkpoints" / str(LAST))
    with pytest.raises(AtlasError, match="no usable checkpoint"):
        load_policy(run)


def test_without_checkpoints_the_last_policy_is_played(run: Path) -> None:
    shutil.rmtree(run / "checkpoints")
    assert load_policy(run).path == run / "policies" / f"{LAST:09d}.npz"
    shutil.rmtree(run / "policies")
    with pytest.raises(AtlasError, match="no usable checkpoint"):
        load_policy(run)


@pytest.mark.parametrize("what", ["", "checkpoints/100", "policies/000000100.npz"])
def test_without_a_config_nothing_can_be_played(run: Path, what: str) -> None:
    (run / "config.yaml").unlink()
    with pytest.raises(AtlasError, match=r"no config: .*config\.yaml is needed"):
        load_policy(run / what)


def test_parameters_of_another_network_are_refused(run: Path) -> None:
    config = run / "config.yaml"
    config.write_text(config.read_text().replace("recurrent: ", "recurrent: 1"))
    with pytest.raises(AtlasError, match=r"another config: .*is float32"):
        load_policy(run)


def test_files_that_are_no_policies(tmp_path: Path, run: Path) -> None:
    with pytest.raises(AtlasError, match="does not exist"):
        load_policy(tmp_path / "nowhere")
    odd = tmp_path / "odd.npz"
    odd.write_bytes(b"nothing")
    with pytest.raises(AtlasError, match="not a readable file of parameters"):
        load_parameters(odd)
    np.savez(odd, header=np.array('{"format": "other"}'))
    with pytest.raises(AtlasError, match="not a file of parameters"):
        load_parameters(odd)
    save_parameters(odd, {"a": np.ones(3)}, {"version": 99})
    with pytest.raises(AtlasError, match="version 99"):
        load_parameters(odd)


def test_where_a_run_is() -> None:
    assert run_of(Path("a/checkpoints/12")) == run_of(Path("a/policies/1.npz")) == run_of(Path("a")) == Path("a")
