"""Two devices run what one runs. They are two parts of the CPU, in a process of their own: this one has one device."""

import dataclasses
import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from atlas.devices import ALONE, Layout
from atlas.domains.minigrid.presets import PRESETS, TINY
from atlas.runs import run as running
from atlas.settings import ConfigError

PROGRAM = Path(__file__).parent / "two_devices.py"


def layout_over(mesh):
    """A layout with something that only has the size of a mesh."""
    made = Layout()
    object.__setattr__(made, "mesh", mesh)
    return made


def on_two_devices(argument):
    compiled = Path(__file__).parent.parent / ".pytest_cache" / "compiled"
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(argument)],
        env={**os.environ, "JAX_COMPILATION_CACHE_DIR": str(compiled)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return on_two_devices(tmp_path_factory.mktemp("devices"))


@pytest.mark.slow
@pytest.mark.parametrize("teacher", ["scout", "sfl", "echo", "accel"])
def test_more_teachers_decide_the_same_on_two_devices(teacher):
    """Sums over problems are not associative to the last bit: what they learn is the same up to rounding."""
    first, _, seen = on_two_devices(teacher)
    assert all(apart < 1e-4 for apart in first.values()), first
    assert seen == {}, "the curriculum looks the same"


@pytest.mark.slow
def test_plans_are_imitated_alike_on_two_devices(tmp_path_factory):
    apart, cross_entropy = on_two_devices(tmp_path_factory.mktemp("cloning"))
    assert all(one < 1e-4 for one in apart.values()), apart
    assert cross_entropy > 0


def test_before_the_first_update_both_runs_are_equal_bit_for_bit(found):
    assert found["before_the_first_update"] == {}


def test_with_the_same_minibatches_learning_differs_by_rounding_only(found):
    assert found["iterations"][0] == found["iterations"][1]
    assert all(apart < 1e-4 for apart in found["after_updates"].values()), found["after_updates"]
    assert not any("problems" in name or "lineage" in name for name in found["after_updates"])


def test_rows_are_divided_and_records_copied(found):
    capacity = TINY.teacher.buffer.capacity
    assert found["shapes"]["problems"][0] == capacity // 2
    assert found["shapes"]["records"] == [capacity]
    assert found["shapes"]["partial"] == [TINY.run.num_envs // 2]


def test_a_checkpoint_goes_on_another_number_of_devices(found):
    assert found["moved"] == {"1": {}, "2": {}}
    assert found["there_and_back"] == {}


def test_on_as_many_devices_a_resumed_run_repeats_itself_bit_for_bit(found):
    assert found["twice"] == {}


def test_work_must_be_divisible():
    with pytest.raises(ConfigError, match=r"run.num_envs = 8 is not allowed: a multiple of the number of devices, 3"):
        TINY.require_even(3)
    with pytest.raises(ConfigError, match=r"student.ppo.minibatch_envs = 4 .* devices, 8"):
        TINY.require_even(8)
    uneven = dataclasses.replace(TINY, teacher=dataclasses.replace(TINY.teacher, num_eval=15))
    with pytest.raises(ConfigError, match=r"teacher.num_eval = 15"):
        uneven.require_even(2)


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "tiny"])
def test_every_preset_can_be_shared_by_eight_devices(name):
    PRESETS[name].config.require_even(8)


def test_one_device_is_left_alone():
    tree = {"x": 1}
    assert ALONE.shards == 1
    assert ALONE.shard(tree) is tree
    assert ALONE.replicate(tree) is tree
    assert ALONE.gather(tree) is tree
    assert ALONE.mean(tree) is tree
    assert ALONE.shard_map(max, 0, 0) is max
    assert ALONE.by_rows(max, 8) is max


def test_rows_that_do_not_divide_evenly_are_not_shared():
    two = layout_over(types.SimpleNamespace(size=2))
    assert two.by_rows(max, 7) is max
    assert two.by_rows(max, 8) is not max


@pytest.mark.parametrize(
    ("name", "cores", "devices"),
    [("quick", 2, 2), ("quick", 3, 2), ("quick", 7, 4), ("quick", 64, 4), ("laptop-dr", 8, 2), ("tiny", 2, 1)],
)
def test_on_a_cpu_a_device_a_core_where_it_pays(name, cores, devices):
    config = PRESETS[name].config
    assert config.worthwhile_shards(cores) == devices
    config.require_even(devices)


@pytest.mark.parametrize(
    ("here", "asked", "before", "devices"),
    [(4, None, None, 4), (4, None, 2, 2), (2, None, 4, 2), (4, None, 3, 4), (4, 1, 2, 1), (1, None, 2, 1)],
)
def test_a_run_goes_on_on_as_many_devices_as_before(monkeypatch, here, asked, before, devices):
    monkeypatch.setattr(running.jax, "local_devices", lambda: here * [types.SimpleNamespace(platform="cpu")])
    monkeypatch.setattr(running, "mesh_of", lambda n: types.SimpleNamespace(size=n))
    monkeypatch.setattr(running, "Layout", layout_over)
    assert running._layout(asked, PRESETS["quick"].config, before).shards == devices
