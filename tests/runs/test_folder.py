"""Run folders: what is refused, what is replaced, and that one process at a time holds one."""

import os
import subprocess
import sys

import pytest

from atlas.domains.minigrid.presets import TINY
from atlas.errors import AtlasError
from atlas.runs.folder import RunFolder, create, find, in_use, reopen, unused
from atlas.runs.metrics import Sinks


def test_a_run_keeps_its_config(tmp_path):
    folder, lock = create(tmp_path / "deep" / "run", TINY)
    assert folder.config() == TINY
    lock.release()
    assert find(folder.path).config() == TINY


def test_a_run_that_is_there_is_refused_with_the_two_ways_out(tmp_path):
    _, lock = create(tmp_path / "run", TINY)
    lock.release()
    with pytest.raises(AtlasError, match=r"already holds a run: `atlas resume .*run` continues it, --overwrite"):
        create(tmp_path / "run", TINY)
    create(tmp_path / "run", TINY, overwrite=True)[1].release()


def test_overwriting_leaves_alone_what_a_run_did_not_write(tmp_path):
    folder, lock = create(tmp_path / "run", TINY)
    lock.release()
    (folder.path / "thesis.tex").write_text("years of work")
    folder.metrics_file.write_text("{}")
    create(folder.path, TINY, overwrite=True)[1].release()
    assert (folder.path / "thesis.tex").read_text() == "years of work"
    assert not folder.metrics_file.exists()


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", ["checkpoints/model.pt", "summary.json", "gallery/holiday.png"])
def test_a_folder_of_somebody_else_is_refused_and_untouched(tmp_path, name, overwrite):
    theirs = tmp_path / "work" / name
    theirs.parent.mkdir(parents=True)
    theirs.write_text("years of work")
    first = name.split("/")[0]
    with pytest.raises(AtlasError, match=rf"work holds {first}, which a run would write, but no run of ATLAS: choose"):
        create(tmp_path / "work", TINY, overwrite)
    (tmp_path / "piped").mkdir()
    os.mkfifo(tmp_path / "piped" / "lock")
    with pytest.raises(AtlasError, match="lock was not written by a run"):
        create(tmp_path / "piped", TINY)
    assert theirs.read_text() == "years of work"
    assert [p.name for p in (tmp_path / "work").iterdir()] == [first]


@pytest.mark.parametrize("text", ["model: {layers: 3}", "run: {seed: 3}", "{}"])
def test_a_config_of_another_program_is_no_run_of_ours(text, tmp_path):
    """Nor one that somebody wrote for ours: that of a run has all settings."""
    (tmp_path / "config.yaml").write_text(text)
    (tmp_path / "checkpoints" / "12").mkdir(parents=True)
    with pytest.raises(AtlasError, match="something else than a run of ATLAS"):
        create(tmp_path, TINY, overwrite=True)
    assert (tmp_path / "config.yaml").read_text() == text
    assert (tmp_path / "checkpoints" / "12").is_dir()


def test_overwriting_leaves_alone_what_lies_among_the_files_of_a_run(tmp_path):
    folder, lock = create(tmp_path / "run", TINY)
    lock.release()
    for name in ("gallery/holiday.png", "gallery/latest.png", "policies/000000007.npz", "checkpoints/7/about"):
        (folder.path / name).parent.mkdir(parents=True, exist_ok=True)
        (folder.path / name).write_text("x")
    create(folder.path, TINY, overwrite=True)[1].release()
    kept = sorted(str(p.relative_to(folder.path)) for p in folder.path.rglob("*") if p.is_file())
    assert kept == ["config.yaml", "gallery/holiday.png", "lock"]


def test_the_lock_is_a_file_of_the_run(tmp_path):
    """Neither through a link nor in somebody else's file."""
    theirs = tmp_path / "thesis.tex"
    theirs.write_text("years of work")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "lock").symlink_to(theirs)
    with pytest.raises(AtlasError, match="lock is a link"):
        create(tmp_path / "linked", TINY)
    (tmp_path / "named").mkdir()
    (tmp_path / "named" / "lock").write_text("key of the cellar")
    with pytest.raises(AtlasError, match="lock was not written by a run"):
        create(tmp_path / "named", TINY)
    assert theirs.read_text() == "years of work"
    assert (tmp_path / "named" / "lock").read_text() == "key of the cellar"


def test_whether_a_folder_is_in_use_can_be_asked(tmp_path):
    assert not in_use(tmp_path / "run")
    folder, lock = create(tmp_path / "run", TINY)
    assert in_use(folder.path)
    lock.release()
    assert not in_use(folder.path)


def test_a_second_run_gets_a_folder_of_its_own(tmp_path):
    assert unused(tmp_path / "quick") == tmp_path / "quick"
    for name in ("quick", "quick-2"):
        assert unused(tmp_path / "quick").name == name
        create(unused(tmp_path / "quick"), TINY)[1].release()
    assert unused(tmp_path / "quick").name == "quick-3"


def test_going_back_sets_aside_what_came_later(tmp_path):
    folder, lock = create(tmp_path / "run", TINY)
    lock.release()
    names = [f"policies/{i:09d}.npz" for i in (5, 10, 15)] + [f"checkpoints/{i}/state" for i in (5, 10, 15)]
    for name in (*names, "summary.json", "metrics.jsonl"):
        (folder.path / name).parent.mkdir(parents=True, exist_ok=True)
        (folder.path / name).write_text(name)
    aside = folder.set_aside(10)
    assert aside == folder.path / "aside" / "1"
    assert {p.name for p in (folder.path / "policies").iterdir()} == {"000000005.npz", "000000010.npz"}
    assert {p.name for p in (folder.path / "checkpoints").iterdir()} == {"5", "10"}
    assert (aside / "checkpoints" / "15" / "state").read_text() == "checkpoints/15/state"
    assert (aside / "summary.json").exists()
    assert (aside / "metrics.jsonl").read_text() == folder.metrics_file.read_text()
    assert folder.has_history()
    assert folder.set_aside(None) == folder.path / "aside" / "2"
    assert not folder.has_history()
    assert not any(folder.checkpoints.iterdir())


def test_a_second_process_is_refused(tmp_path):
    folder, lock = create(tmp_path / "run", TINY)
    code = f"from pathlib import Path; from atlas.runs.folder import reopen; reopen(Path({str(folder.path)!r}))"
    second = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "is in use by another process (process" in second.stderr
    for how in (lambda: reopen(folder.path), lambda: create(folder.path, TINY, overwrite=True)):
        with pytest.raises(AtlasError, match="in use by another process"):
            how()
    lock.release()
    reopen(folder.path)[1].release()


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    folder, lock = create(tmp_path / "run", TINY)
    lock.release()
    code = (
        "import os, signal; from pathlib import Path; from atlas.runs.folder import reopen; "
        f"held = reopen(Path({str(folder.path)!r})); os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    reopen(folder.path)[1].release()


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(AtlasError, match=r"cannot write to .*file/run: not a directory"):
        create(tmp_path / "file" / "run", TINY)


def test_a_folder_without_a_run_is_a_sentence_with_a_hint(tmp_path):
    create(tmp_path / "first-run", TINY)[1].release()
    with pytest.raises(AtlasError, match=r"first-rum holds no run; did you mean .*first-run\?"):
        find(tmp_path / "first-rum")
    with pytest.raises(AtlasError, match="holds no run"):
        find(tmp_path / "nowhere" / "at" / "all")


@pytest.mark.parametrize(
    "content",
    ["[" * 100_000, "[1]", "{", '{"devices": -2}', '{"devices": Infinity}', None],
    ids=str.split("deep list half negative infinite pipe"),
)
def test_notes_of_a_run_that_cannot_be_read_are_none(content, tmp_path):
    folder = RunFolder(tmp_path)
    for path in (folder.summary_file, folder.devices_file, folder.sinks_file):
        os.mkfifo(path) if content is None else path.write_text(content)  # a pipe would be waited for
    assert folder.summary().keys() <= {"devices"}
    assert folder.devices() is None
    assert Sinks.read(folder.sinks_file) == Sinks()


def test_a_config_that_was_spoilt_by_hand_names_the_file(tmp_path):
    folder, lock = create(tmp_path / "run", TINY)
    lock.release()
    folder.config_file.write_text(folder.config_file.read_text().replace("num_envs: 8", "num_envs: many"))
    with pytest.raises(AtlasError, match=r"config.yaml: .*num_envs = many"):
        folder.config()
