"""What a run keeps on its way: bounded in number, spread over env steps, the same however often it was stopped."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas.runs.folder import RunFolder
from atlas.runs.retention import RetentionSchedule
from atlas.runs.snapshots import RetainedFiles
from atlas.runs.store import PARAMETERS, write


def played(marks: RetentionSchedule, lengths: list[int], begin: int = 0, kept: set[int] | None = None) -> set[int]:
    """A run in iterations of these lengths: what it has kept at its end."""
    steps, kept = begin, {0} if kept is None else kept
    due = marks.after(steps)
    for length in lengths:
        steps += length
        if steps >= due:
            kept = marks.retained(kept | {steps})
            due = marks.after(steps)
    return kept


def test_a_whole_run_is_divided_evenly() -> None:
    marks = RetentionSchedule(total=6_400, longest=10, most=32)
    assert played(marks, [10] * 640) == {200 * n for n in range(33)}


def test_a_run_that_is_cut_short_has_as_many() -> None:
    marks = RetentionSchedule(total=10**9, longest=10, most=32)
    kept = sorted(played(marks, [10] * 5_000))
    assert 16 <= len(kept) - 1 <= 33
    gaps = np.diff(kept)
    assert gaps.max() - gaps.min() <= 10  # even, to within an iteration


def test_given_env_steps_are_kept_as_well() -> None:
    marks = RetentionSchedule(total=6_400, longest=10, most=4, at=(333, 5_001))
    assert played(marks, [10] * 640) == {0, 1_600, 3_200, 4_800, 6_400, 340, 5_010}


def test_the_paper_keeps_every_thirty_second_part() -> None:
    iteration = 4_096 * 512
    marks = RetentionSchedule(total=2_000 * iteration, longest=iteration, most=32)
    kept = sorted(played(marks, [iteration] * 2_000))
    assert len(kept) == 33
    assert all(0 <= at - n * marks.total / 32 < iteration for n, at in enumerate(kept))


iterations = st.lists(st.sampled_from([4, 7, 10]), min_size=1, max_size=300)


@given(iterations, st.integers(2, 20), st.integers(10, 4_000))
def test_it_is_bounded_and_begins_and_ends_with_the_run(lengths: list[int], most: int, total: int) -> None:
    marks = RetentionSchedule(total=max(total, sum(lengths)), longest=10, most=most)
    kept = marks.retained(played(marks, lengths) | {sum(lengths)})
    assert {0, sum(lengths)} <= kept
    assert len(kept) <= most + 2


@given(iterations, st.integers(2, 20), st.integers(0, 300))
def test_stopping_and_resuming_keeps_the_same(lengths: list[int], most: int, at: int) -> None:
    marks = RetentionSchedule(total=3_000, longest=10, most=most)
    first, second = lengths[:at], lengths[at:]
    half = marks.retained(played(marks, first) | {sum(first)})  # the last of a stretch is always kept
    resumed = played(marks, second, begin=sum(first), kept=half)
    end = {sum(lengths)}
    assert marks.retained(resumed | end) == marks.retained(played(marks, lengths) | end)


def test_a_short_run_keeps_its_end() -> None:
    assert RetentionSchedule(total=5, longest=10, most=2).after(0) == 5


def test_files_of_an_older_run_are_thinned_and_strange_ones_left_alone(tmp_path) -> None:
    folder = RunFolder(tmp_path)
    for iteration in range(1, 101):
        header = {"iteration": iteration, "steps": 10 * iteration}
        write(folder.snapshot("policies", iteration), PARAMETERS, {"w": np.zeros(1)}, header)
    (tmp_path / "policies" / "000000777.npz").write_bytes(b"not ours")
    (tmp_path / "policies" / "notes.txt").write_text("mine")
    kept = RetainedFiles(folder, ("policies",), RetentionSchedule(total=1_280, longest=10, most=4))
    kept.add(100, 1_000)
    assert folder.iterations("policies") == [32, 64, 96, 100, 777]
    assert (tmp_path / "policies" / "notes.txt").exists()


@pytest.mark.parametrize("most", [2, 3, 5, 32])
def test_every_mark_is_later(most: int) -> None:
    marks = RetentionSchedule(total=1_000, longest=3, most=most)
    for steps in range(1_000):
        assert marks.after(steps) > steps
