"""What was written comes back, and nothing else passes: arrays, batches of problems, text."""

import contextlib
import json
import os
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.domains.minigrid import text
from atlas.errors import AtlasError
from atlas.problems import stack
from atlas.runs.problem_files import named
from atlas.runs.store import (
    PARAMETERS,
    Bulk,
    cache_folder,
    load_bulk,
    read,
    remember_compiled,
    save_bulk,
    to_arrays,
    write,
    write_whole,
)
from atlas.tasks.machine import ACCEPT, flat_task, hierarchy, machine
from atlas.types import Problem

LEVELS = [text.parse_level(f"##{cell}##\n##^.##") for cell in ("or", "kb", "..")]
FLAT = [flat_task([(0, ACCEPT, [i + 1], 1.0)]) for i in range(3)]
DEEP = [hierarchy([machine([(0, ACCEPT, [], 1.0, 1)]), machine([(0, ACCEPT, [i + 1])])]) for i in range(3)]
SETTINGS = {"tasks": {"sampler": "sequential"}, "pairing": {"how": "level"}}


def batch(tasks: list) -> Problem:
    return stack([Problem(level=level, task=task) for level, task in zip(LEVELS, tasks, strict=True)])


def assert_same(a: object, b: object) -> None:
    jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.mark.parametrize("tasks", [FLAT, DEEP], ids=["machines", "hierarchies"])
def test_round_trip(tmp_path: Path, tasks: list) -> None:
    path = tmp_path / "set.npz"
    content = save_bulk(batch(tasks), path, SETTINGS, seed=7, tags=[("a", "b"), (), ("c",)])
    bulk = load_bulk(path)
    assert_same(bulk.problems, batch(tasks))
    assert (bulk.settings, bulk.seed, bulk.content, len(bulk)) == (SETTINGS, 7, content, 3)
    found = named(bulk, "here")
    assert [p.name for p in found] == ["0", "1", "2"]
    assert [p.tags for p in found] == [("a", "b"), (), ("c",)]
    assert {p.source for p in found} == {"here"}
    assert_same(found[1].bare(), Problem(level=LEVELS[1], task=tasks[1]))


def test_the_hash_is_of_the_content(tmp_path: Path) -> None:
    first = save_bulk(batch(FLAT), tmp_path / "a.npz", SETTINGS, seed=7)
    assert save_bulk(batch(FLAT), tmp_path / "b.npz", SETTINGS, seed=7) == first
    assert save_bulk(batch(FLAT), tmp_path / "c.npz", SETTINGS, seed=8) != first
    assert save_bulk(batch(FLAT[::-1]), tmp_path / "d.npz", SETTINGS, seed=7) != first


def test_flat_tasks_are_written_without_the_axis_of_machines(tmp_path: Path) -> None:
    """As they always were: files and their hashes stay the same."""
    content = save_bulk(batch(FLAT), tmp_path / "set.npz", SETTINGS, seed=7)
    with np.load(tmp_path / "set.npz") as file:
        assert {name: file[name].shape for name in file.files if name.startswith("task")} == {
            "task.target": (3, 2, 1), "task.guard": (3, 2, 1, 1), "task.reward": (3, 2, 1), "task.outcome": (3, 2),
        }  # fmt: skip
    assert content.startswith("8210c1f1cbc8887b")
    assert save_bulk(batch(DEEP), tmp_path / "deep.npz", SETTINGS, seed=7).startswith("b07cbd838e1e7b70")


def change(path: Path, **changes: object) -> None:
    """Tamper with a file: an array, or an entry of the header."""
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(str(arrays["header"]))
    arrays |= {name: array for name, array in changes.items() if isinstance(array, np.ndarray)}
    header |= {name: value for name, value in changes.items() if not isinstance(value, np.ndarray)}
    np.savez(path, **(arrays | {"header": np.array(json.dumps(header))}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"level.cells": np.zeros((3, 2, 3), np.uint8)}, "damaged or changed"),
        ({"seed": 9}, "damaged or changed"),
        ({"names": ["x", "y", "z"]}, "damaged or changed"),
        ({"version": 2}, "version 2"),
        ({"format": "other"}, "not a file of ATLAS problems"),
    ],
)
def test_changed_files_are_refused(tmp_path: Path, changes: dict, words: str) -> None:
    path = tmp_path / "set.npz"
    save_bulk(batch(FLAT), path, SETTINGS, seed=7)
    change(path, **changes)
    with pytest.raises(AtlasError, match=words):
        load_bulk(path)


def test_files_that_are_something_else_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "set.npz"
    path.write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(AtlasError, match="not a readable file"):
        load_bulk(path)
    np.savez(path, a=np.zeros(3))
    with pytest.raises(AtlasError, match="not a readable file"):
        load_bulk(path)


@pytest.mark.parametrize("compress", [True, False])
def test_a_flipped_bit_anywhere_is_a_sentence(tmp_path: Path, compress: bool) -> None:
    """Or harmless: names and dates of the archive's members are written twice."""
    path, arrays = tmp_path / "a.npz", {"x": np.arange(60.0), "y": np.ones((2, 3), np.int8)}
    write(path, PARAMETERS, arrays, {"steps": 3}, compress)
    good = path.read_bytes()
    for place in range(0, len(good), 7):
        path.write_bytes(good[:place] + bytes([good[place] ^ 0x10]) + good[place + 1 :])
        with contextlib.suppress(AtlasError):
            header, found = read(path, PARAMETERS)
            assert header["steps"] == 3
            assert_same(found, arrays)


def test_parameters_without_a_hash_are_read(tmp_path: Path) -> None:
    """As they were written at first."""
    arrays = to_arrays({"w": jnp.ones(3)})
    header = json.dumps({"format": "atlas parameters", "version": 1, "steps": 3})
    np.savez(tmp_path / "a.npz", **arrays, header=np.array(header))
    assert read(tmp_path / "a.npz", PARAMETERS)[0]["steps"] == 3


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    path = tmp_path / "set.npz"
    np.savez(path, header=np.array([{"format": "atlas problems"}], dtype=object), allow_pickle=True)
    with pytest.raises(AtlasError, match="not a readable file"):
        load_bulk(path)


def test_names_must_be_as_many_as_problems(tmp_path: Path) -> None:
    with pytest.raises(AtlasError, match="as many names"):
        save_bulk(batch(FLAT), tmp_path / "set.npz", SETTINGS, seed=7, names=["one"])


def test_one_hundred_problems_sort_by_name(tmp_path: Path) -> None:
    many = jax.tree.map(lambda x: jnp.concatenate([x] * 34)[:100], batch(FLAT))
    save_bulk(many, tmp_path / "set.npz", SETTINGS, seed=7)
    bulk: Bulk = load_bulk(tmp_path / "set.npz")
    assert bulk.names[0] == "00"
    assert sorted(bulk.names) == list(bulk.names)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    write_whole(path, "old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_written_file_has_reached_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its content before it gets its name, then the name."""
    seen = []

    def note(handle: int) -> None:
        seen.append((os.readlink(f"/proc/self/fd/{handle}"), (tmp_path / "a.txt").exists()))

    monkeypatch.setattr("os.fsync", note)
    write_whole(tmp_path / "a.txt", "new")
    (first, named_then), (second, named_now) = seen
    assert Path(first).parent == tmp_path
    assert not named_then
    assert (second, named_now) == (str(tmp_path), True)


def test_writing_leaves_the_process_its_umask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread that makes a file meanwhile would make it writable for all."""
    before = os.umask(0o027)
    try:
        with monkeypatch.context() as patch:
            patch.setattr("os.umask", lambda _: pytest.fail("the umask belongs to the whole process"))
            write_whole(tmp_path / "a.txt", "new")
    finally:
        os.umask(before)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o640


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    made = SimpleNamespace(jax_compilation_cache_dir=None, jax_enable_compilation_cache=True)
    made.update = lambda name, value: setattr(made, name, value)
    monkeypatch.setattr(jax, "config", made)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return made


def test_programs_are_kept_in_the_users_cache(settings: SimpleNamespace, tmp_path: Path) -> None:
    assert remember_compiled()
    assert settings.jax_compilation_cache_dir == str(tmp_path / "atlas" / "compiled")


def test_what_the_user_arranged_stays(settings: SimpleNamespace) -> None:
    settings.jax_compilation_cache_dir = "elsewhere"
    assert not remember_compiled()
    assert settings.jax_compilation_cache_dir == "elsewhere"


def test_without_a_variable_it_is_in_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == Path.home() / ".cache" / "atlas"
