"""Run folders: what is refused, what is replaced, and that one process at a time holds one."""

import subprocess
import sys

import pytest

from atlas.domains.minigrid.presets import TINY
from atlas.errors import AtlasError
from atlas.runs.folder import create, find, reopen


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


def test_a_config_that_was_spoilt_by_hand_names_the_file(tmp_path):
    folder, lock = create(tmp_path / "run", TINY)
    lock.release()
    folder.config_file.write_text(folder.config_file.read_text().replace("num_envs: 8", "num_envs: many"))
    with pytest.raises(AtlasError, match=r"config.yaml: .*num_envs = many"):
        folder.config()
