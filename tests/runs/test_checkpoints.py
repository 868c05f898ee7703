"""Checkpoints come back bit for bit; damaged ones are noticed and passed over."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.runs.checkpoints import RATE, CheckpointError, Checkpoints
from atlas.struct import Struct


def state(seed, width=4):
    key = jax.random.key(seed)
    return {
        "key": key,
        "params": {"w": jax.random.normal(key, (3, width)), "mask": jnp.array([True, False])},
        "count": jnp.int32(seed),
        "small": jnp.arange(5, dtype=jnp.int8),
        "nothing": None,
    }


def plain(tree):
    return jax.tree.map(
        lambda x: np.asarray(jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x), tree
    )


@pytest.fixture
def checkpoints(tmp_path):
    opened = Checkpoints(tmp_path / "checkpoints", keep=2)
    yield opened
    opened.close()


def reopened(checkpoints):
    checkpoints.close()
    return Checkpoints(checkpoints.folder, keep=2)


def test_a_state_comes_back_bit_for_bit(checkpoints):
    checkpoints.save(7, state(1), {"seconds": 1.5})
    checkpoints.finish()
    again = reopened(checkpoints)
    iteration, restored, passed = again.restore_latest(jax.eval_shape(lambda: state(0)))
    assert (iteration, passed) == (7, [])
    jax.tree.map(np.testing.assert_array_equal, plain(restored), plain(state(1)))
    assert again.about(7)["seconds"] == 1.5
    again.close()


def test_what_is_saved_is_a_copy(checkpoints):
    """The step gives the memory of its state away while the checkpoint is still being written."""
    given = {"x": jnp.ones(50_000)}
    checkpoints.save(1, given, {})
    spent = jax.jit(lambda s: {"x": s["x"] * 2}, donate_argnums=0)(given)
    jax.block_until_ready(spent)
    checkpoints.finish()
    restored = checkpoints.restore(1, jax.eval_shape(lambda: {"x": jnp.ones(50_000)}))
    assert np.all(np.asarray(restored["x"]) == 1)


def test_the_last_and_the_best_stay(checkpoints):
    for iteration, rate in [(1, 0.1), (2, 0.9), (3, None), (4, 0.2), (5, 0.3)]:
        checkpoints.save(iteration, state(iteration), {} if rate is None else {RATE: rate})
    checkpoints.finish()
    assert checkpoints.steps() == [2, 4, 5]
    again = reopened(checkpoints)
    again.save(6, state(6), {})
    again.finish()
    assert again.steps() == [2, 5, 6]
    again.close()


def damage_by_flipping(folder):
    victim = max((p for p in folder.rglob("d/*") if p.is_file()), key=lambda p: p.stat().st_size)
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 0xFF
    victim.write_bytes(content)


def damage_by_cutting(folder):
    for victim in folder.rglob("d/*"):
        victim.write_bytes(victim.read_bytes()[: victim.stat().st_size // 2])


def damage_by_removing(folder):
    for victim in folder.rglob("metadata"):
        victim.unlink()


@pytest.mark.parametrize("damage", [damage_by_flipping, damage_by_cutting, damage_by_removing])
def test_a_damaged_checkpoint_is_noticed_and_the_one_before_used(checkpoints, damage):
    for iteration in (1, 2):
        checkpoints.save(iteration, state(iteration), {"seconds": 0.0})
    checkpoints.finish()
    damage(checkpoints.folder / "2")
    again = reopened(checkpoints)
    iteration, restored, passed = again.restore_latest(jax.eval_shape(lambda: state(0)))
    assert iteration == 1
    jax.tree.map(np.testing.assert_array_equal, plain(restored), plain(state(1)))
    assert len(passed) == 1
    assert "2 is damaged" in passed[0]
    again.save(2, state(5), {})
    again.finish()
    assert again.restore_latest(jax.eval_shape(lambda: state(0)))[0] == 2
    again.close()


def test_no_good_checkpoint_is_a_sentence_as_often_as_one_asks(checkpoints):
    for iteration in (1, 2):
        checkpoints.save(iteration, state(iteration), {})
    checkpoints.finish()
    for iteration in (1, 2):
        damage_by_cutting(checkpoints.folder / str(iteration))
    for _ in range(2):
        with pytest.raises(CheckpointError, match="holds no usable checkpoint"):
            checkpoints.restore_latest(jax.eval_shape(lambda: state(0)))
        assert checkpoints.steps() == [1, 2]
        assert not (checkpoints.folder.parent / "damaged").exists()


def test_every_flipped_bit_of_a_description_is_noticed(checkpoints):
    """None may pass, and none may look like the checkpoint of another config: then older ones would not be tried."""
    checkpoints.save(1, state(1), {"seconds": 1.5, "steps": 7, "before": {"all": 0.25}, RATE: 0.5})
    checkpoints.finish()
    file = checkpoints.folder / "1" / "about" / "metadata"
    good = file.read_bytes()
    for place in range(8 * len(good)):
        spoilt = bytearray(good)
        spoilt[place // 8] ^= 1 << place % 8
        file.write_bytes(spoilt)
        with pytest.raises(CheckpointError, match="1 is damaged"):
            checkpoints.about(1)


def test_a_description_without_a_seal_is_one_of_an_earlier_version(checkpoints):
    checkpoints.save(1, state(1), {"seconds": 1.5})
    checkpoints.finish()
    file = checkpoints.folder / "1" / "about" / "metadata"
    about = json.loads(file.read_text())
    del about["seal"]
    file.write_text(json.dumps(about))
    assert checkpoints.restore_latest(jax.eval_shape(lambda: state(0)))[0] == 1


def test_a_checkpoint_has_reached_the_disk_before_it_gets_its_name(checkpoints, monkeypatch):
    synced = []
    monkeypatch.setattr("os.fsync", lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")))
    checkpoints.save(1, state(1), {})
    checkpoints.finish()
    written = {p.relative_to(checkpoints.folder / "1") for p in (checkpoints.folder / "1").rglob("*")}
    unfinished = [Path(p) for p in synced if "orbax-checkpoint-tmp" in p]
    root = next(p for p in unfinished if p.parent == checkpoints.folder)
    mark = {Path("commit_success.txt")}  # Orbax sets it afterwards; on a disk of this machine nothing depends on it
    assert {p.relative_to(root) for p in unfinished if p != root} >= written - mark
    assert str(checkpoints.folder) in synced


def test_a_checkpoint_of_another_config_is_a_sentence(checkpoints):
    checkpoints.save(1, state(1), {})
    checkpoints.finish()
    with pytest.raises(CheckpointError, match=r"another config: .*w.* is float32.3, 4., and float32.3, 8."):
        checkpoints.restore_latest(jax.eval_shape(lambda: state(0, width=8)))
    assert checkpoints.steps() == [1]


class Timed(Struct):
    """A state with a clock, if its run has a time limit."""

    clock: Any
    x: Any


@pytest.mark.parametrize(("before", "after"), [(0.25, None), (None, 0.0), (0.25, 0.25)])
def test_a_run_goes_on_with_or_without_the_time_limit_it_had(checkpoints, before, after):
    """Nothing depends on what the clock shows: the host sets it anew before every step."""

    def timed(clock):
        return Timed(clock=None if clock is None else jnp.float32(clock), x=jnp.arange(3))

    checkpoints.save(1, timed(before), {})
    checkpoints.finish()
    restored = checkpoints.restore(1, jax.eval_shape(lambda: timed(after)))
    jax.tree.map(np.testing.assert_array_equal, restored, timed(after))


def test_half_written_leftovers_are_cleaned_away(checkpoints):
    checkpoints.save(1, state(1), {})
    checkpoints.finish()
    leftover = checkpoints.folder / "2.orbax-checkpoint-tmp-17"
    leftover.mkdir()
    (leftover / "half").write_text("x")
    again = reopened(checkpoints)
    assert again.steps() == [1]
    again.save(2, state(2), {})  # cleaning goes on in the background, and is over before anything new is written
    again.finish()
    assert again.steps() == [1, 2]
    assert not leftover.exists()
    again.close()


def test_writes_under_way_when_a_run_ends_say_nothing():
    """As they do when the disk is full; any other error that nobody can catch is told."""
    program = """
import asyncio, pathlib, tempfile, tensorstore
from atlas.runs.checkpoints import Checkpoints

Checkpoints(pathlib.Path(tempfile.mkdtemp()), keep=1).close()
promise, under_way = tensorstore.Promise.new()

async def wait():
    await under_way

class Broken:
    def __del__(self):
        raise RuntimeError("something else")

loop = asyncio.new_event_loop()
task = loop.create_task(wait())
loop.run_until_complete(asyncio.sleep(0.01))
loop.close()
promise.set_result(None)
Broken()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "Event loop is closed" not in done.stderr
    assert "Task was destroyed" not in done.stderr
    assert "something else" in done.stderr
