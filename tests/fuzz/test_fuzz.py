"""Nothing that is read, however odd, ends in anything but a sentence."""

from pathlib import Path

import pytest

from fuzz.fuzzing import CASES, READERS, judge, make, warm_up

COUNT, PARTS = 2_000, 8


@pytest.fixture(scope="module", autouse=True)
def warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    warm_up(tmp_path_factory.mktemp("examples"))


@pytest.mark.parametrize("part", range(PARTS))
def test_changed_examples_are_read_or_refused(part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    wrong = []
    for number in range(part, COUNT, PARTS):
        name, data = make(0, number)
        path = tmp_path / f"input{READERS[name].suffix}"
        path.write_bytes(data)
        if complaint := judge(name, path):
            wrong.append(f"python tests/fuzz/fuzzing.py --only 0/{number}: {name}: {complaint}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", sorted(CASES.iterdir()), ids=lambda path: path.name)
def test_what_was_found_once_stays_mended(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    assert judge(path.name.split("-")[0], copy) == ""
