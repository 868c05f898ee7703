"""What is read from files: within bounds, whatever they hold, and told with its place."""

import os
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest

from atlas.documents import MOST_DEPTH, read_bytes, read_documents, read_plain, read_text
from atlas.errors import AtlasError, TaskWarning, is_printable, printable

PROBLEM = "name: problem-{}\nlevel: |\n  ########\n  ##^.or##\n  ########\ntask: go to a red ball\n"


def written(folder: Path, content: str | bytes) -> Path:
    path = folder / "file.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_the_memory_of_a_set_grows_with_its_size(tmp_path: Path) -> None:
    path = written(tmp_path, "---\n".join(PROBLEM.format(n) for n in range(1000)))
    tracemalloc.start()
    try:
        documents = read_documents(path)
        assert tracemalloc.get_traced_memory()[1] < 200 * path.stat().st_size
    finally:
        tracemalloc.stop()
    assert len(documents) == 1000


def test_plain_values_are_what_yaml_says(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "base: &base {a: 1, b: [2.5, yes, ~]}\nother: {<<: *base, a: 0x10, c: '7'}\nlist: [*base, 2001-01-01, 1_000]\n",
    )
    base = {"a": 1, "b": [2.5, True, None]}
    assert read_plain(path) == {
        "base": base,
        "other": {**base, "a": 16, "c": "7"},
        "list": [base, "2001-01-01", 1000],
    }
    assert read_plain(written(tmp_path, "")) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &a [*a]", "line 1, column 8: *a names nothing that is complete before it"),
        ("a: *b", "*b names nothing"),
        ("a: 1\nb: {c: 1, c: 2}", "line 2, column 11: the key 'c' is given twice"),
        ("a: .inf", "a finite one"),
        ("a: .nan", "a finite one"),
        ("a: 9223372036854775808", "below 2^63"),
        ("a: !!int x", "'x' is not to be read as int"),
        ("a: !!python/name:os.system ''", "the tag"),
        ('a: "\\e[31m"', "control characters"),
        ('a: "\\u202e"', "control characters"),
        ("? [a]\n: 1", "a key must be a word"),
        ("[" * (MOST_DEPTH + 1), "inside each other"),
        ("- " * (MOST_DEPTH + 1) + "a", "inside each other"),
        ("a\n---\nb", "a second document"),
        (
            "a: &a 1\n" + "".join(f"{y}: &{y} [{','.join([f'*{x}'] * 10)}]\n" for x, y in pairwise("abcdefg")),
            "repeated ones included",
        ),
        (b"\xff\xfe\x00", "not a text file in UTF-8"),
        (b"a: \x00", "not readable YAML"),
    ],
)
def test_what_cannot_be_used_is_told_with_its_place(text: str | bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(AtlasError) as caught:
        read_plain(written(tmp_path, text))
    assert words in str(caught.value)
    assert is_printable(str(caught.value))


def test_only_regular_files_of_some_size_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(AtlasError, match="no regular file"):
        read_text(tmp_path / "pipe")
    with pytest.raises(AtlasError, match="no regular file"):
        read_text("/dev/zero")
    with pytest.raises(AtlasError, match="is a folder"):
        read_bytes(tmp_path)
    (tmp_path / "large").write_bytes(b"x" * 20)
    with pytest.raises(AtlasError, match="is larger than"):
        read_bytes(tmp_path / "large", most=10)


def test_sentences_do_not_command_the_terminal() -> None:
    assert printable("a\x1b[31m\x07\x9b\u202eb\n\tc") == "a␛[31m␇\ufffd\ufffdb\n\tc"
    assert str(AtlasError("\x1b]0;x")) == "␛]0;x"
    assert str(TaskWarning("\x1b")) == "␛"
    assert printable("žluťoučký 🐎 ½") == "žluťoučký 🐎 ½"
