"""Arrays by name with a JSON header in one file (npz): atomic writes, checked against the hash when read.

Policies, sets of problems, held-out problems and snapshots are files of this kind. Nothing in them is ever executed.
This module loads without JAX.
"""

import hashlib
import io
import json
import os
import secrets
import typing
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

import numpy as np

from atlas.documents import parse_json, read_bytes
from atlas.errors import AtlasError

Arrays = dict[str, np.ndarray]
Tree = TypeVar("Tree")
Words = tuple[str, ...]


def write_whole(path: Path | str, content: bytes | str) -> None:
    """Atomic write: under a temporary name, then renamed; readers never see half of a file, even after a power cut."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)


def sync(path: Path, inside: bool = False) -> None:
    """Wait until a file or the names in a folder, and all that is `inside` it if asked for, have reached the disk."""
    for part in sorted(path.rglob("*")) if inside else ():
        sync(part)
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Format(NamedTuple):
    """A kind of file: what its header says, and what messages call it."""

    name: str
    version: int
    words: str


MOST_BYTES: Final = 1 << 34
UNPACKED: Final = 1 << 28
"""Bytes that a small file may take when it is unpacked; large ones may take 20 times their size more."""
PROBLEMS: Final = Format("atlas problems", 1, "file of ATLAS problems")
PARAMETERS: Final = Format("atlas parameters", 1, "file of parameters")
DEMONSTRATIONS: Final = Format("atlas demonstrations", 1, "file of demonstrations")


def write(path: Path | str, kind: Format, arrays: Arrays, header: dict[str, Any], compress: bool = True) -> str:
    """Write arrays and a header of plain values; returns the content hash."""
    header = {"format": kind.name, "version": kind.version, **header}
    content = _hash(header, arrays)
    stored: dict[str, Any] = arrays | {"header": np.array(json.dumps(header | {"sha256": content}))}
    buffer = io.BytesIO()
    (np.savez_compressed if compress else np.savez)(buffer, **stored)
    write_whole(path, buffer.getvalue())
    return content


def read_header(path: Path | str) -> dict[str, Any]:
    """The header alone, without a check of the content; empty if there is none."""
    with suppress(Exception), np.load(io.BytesIO(read_bytes(path, MOST_BYTES)), allow_pickle=False) as file:
        return dict(json.loads(str(file["header"])))
    return {}


def read(path: Path | str, kind: Format) -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays of a file; one that was damaged or changed is refused."""
    content = read_bytes(path, MOST_BYTES)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
        if unpacked > UNPACKED + 20 * len(content):
            raise AtlasError(f"it would take {unpacked >> 20:,} MB of memory")
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = parse_json(str(arrays.pop("header")))
    except Exception as error:  # a damaged archive raises almost anything
        raise AtlasError(f"{path}: not a readable {kind.words} ({error})") from None
    if not isinstance(header, dict) or header.get("format") != kind.name:
        raise AtlasError(f"{path}: not a {kind.words}")
    if header.get("version") != kind.version:
        found = header.get("version")
        raise AtlasError(f"{path}: version {found} of the format; this ATLAS reads version {kind.version}")
    bare = {name: value for name, value in header.items() if name != "sha256"}
    # Files of parameters had no hash at first.
    if header.get("sha256") != _hash(bare, arrays) and (kind is not PARAMETERS or "sha256" in header):
        raise AtlasError(f"{path}: the content does not match its hash: the file was damaged or changed")
    return header, arrays


def _hash(header: dict[str, Any], arrays: Arrays) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


# Trees as arrays by name


def to_arrays(tree: Any) -> Arrays:
    """A copy of every leaf by its name in the tree; random keys as their raw data.

    It must be a copy: the training step reuses the memory of the state it is given.
    """
    import jax

    leaves = jax.tree_util.tree_leaves_with_path(tree)
    raw = ((path, jax.random.key_data(leaf) if _is_key(leaf) else leaf) for path, leaf in leaves)
    return {jax.tree_util.keystr(path): np.array(leaf) for path, leaf in raw}


def from_arrays(arrays: Arrays, like: Tree) -> Tree:
    """The inverse of `to_arrays`, for a tree whose leaves have these names, shapes and types."""
    import jax

    def leaf(path: Any, expected: Any) -> Any:
        array = jax.numpy.array(arrays[jax.tree_util.keystr(path)])
        return jax.random.wrap_key_data(array) if _is_key(expected) else array

    return jax.tree_util.tree_map_with_path(leaf, like)


def blank_arrays(like: Any) -> Arrays:
    """Zeros in place of the leaves of a tree of shapes."""
    import jax

    def blank(leaf: Any) -> np.ndarray:
        raw = jax.eval_shape(jax.random.key_data, leaf) if _is_key(leaf) else leaf
        return np.zeros(raw.shape, raw.dtype)

    return to_arrays(jax.tree.map(blank, like))


def _is_key(leaf: Any) -> bool:
    import jax

    return bool(jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key))


# Many problems in one file


@dataclass(frozen=True, eq=False)
class Bulk:
    """Problems of one size, batched, and where they came from."""

    problems: Any
    """A `Problem` whose leaves have a row for each."""
    settings: Any
    """Plain values: what `settings.to_plain` makes of a config."""
    seed: int
    names: tuple[str, ...]
    tags: tuple[tuple[str, ...], ...]
    content: str
    """The content hash of the file."""
    notes: tuple[str, ...] = ()
    """A note on each problem; empty if there are none."""

    def __len__(self) -> int:
        return len(self.names)


def save_bulk(
    problems: Any,
    path: Path | str,
    settings: Any,
    seed: int,
    names: Sequence[str] = (),
    tags: Sequence[Sequence[str]] = (),
    notes: Sequence[str] = (),
) -> str:
    """Write batched problems; returns the content hash. Problems without a name are numbered from 0."""
    arrays, header = problem_arrays(problems)
    count = len(next(iter(arrays.values())))
    header |= {
        "settings": settings,
        "seed": seed,
        "names": list(names) or numbered(count),
        "tags": [list(t) for t in tags] or [[] for _ in range(count)],
    }
    header |= {"notes": list(notes)} if notes else {}
    if not len(header["names"]) == len(header["tags"]) == len(header.get("notes", header["names"])) == count:
        raise AtlasError(f"{path}: {count} problems need as many names, tags and notes")
    return write(path, PROBLEMS, arrays, header)


def numbered(count: int) -> list[str]:
    """Names for problems that have none."""
    return [f"{i:0{len(str(count - 1))}d}" for i in range(count)]


def problem_arrays(problems: Any) -> tuple[Arrays, dict[str, Any]]:
    """Batched problems as arrays by name, and what a header says about them."""
    from atlas.domains import default_name, name_for

    arrays = {name.removeprefix("."): array for name, array in to_arrays(problems).items()}
    flat = problems.task.call is None
    if flat:  # the only machine needs no axis of its own
        arrays = {name: array[:, 0] if name.startswith("task.") else array for name, array in arrays.items()}
    domain = name_for(problems)
    header = {"task": "machine" if flat else "hierarchy"}
    return arrays, header | ({} if domain == default_name() else {"domain": domain})


def problems_of(path: Path | str, header: dict[str, Any], arrays: Arrays, count: int) -> Any:
    """The inverse of `problem_arrays`, on the host, for so many problems; what no problem can be is refused."""
    from atlas.domains import DOMAINS, default_name, surface_of, vocabulary_of
    from atlas.tasks import packed
    from atlas.types import Problem

    def fail(sentence: str) -> NoReturn:
        raise AtlasError(f"{path}: {sentence}")

    def struct(kind: Any, part: str) -> Any:
        """The arrays of a part, with a row for each problem and otherwise shaped as its fields say."""
        found, sizes = {}, dict[str, int]()
        for name, hint in typing.get_type_hints(kind).items():
            shape = next((one for one in typing.get_args(hint) or (hint,) if hasattr(one, "dim_str")), None)
            array = arrays.get(f"{part}.{name}")
            if array is None or shape is None:
                if shape is hint:
                    fail(f"{part}.{name} is missing")
                continue
            dims = shape.dim_str.split()
            fits = str(array.dtype) in shape.dtypes and array.ndim == 1 + len(dims) and len(array) == count
            for dim, size in zip(dims, array.shape[1:], strict=False):
                fits &= size > 0 and size == (int(dim) if dim.isdigit() else sizes.setdefault(dim, size))
            if not fits:
                fail(f"{part}.{name} is {array.dtype}{list(array.shape)}, which does not fit the rest")
            found[name] = array
        return kind.unchecked(**found)

    domain = header.get("domain", default_name())
    if domain not in list(DOMAINS) or header.get("task") not in ("machine", "hierarchy"):
        fail(f"domain {domain} or kind of task {header.get('task')} is not known")
    if header["task"] == "machine":  # the only machine has no axis of its own in the file
        arrays = {
            name: array[:, None] if name.startswith("task.") and array.ndim else array for name, array in arrays.items()
        }
    surface = surface_of(domain)
    level, task = struct(surface.level_type, "level"), struct(packed.PackedTask, "task")
    names = header.get("names") or numbered(count)
    for number in np.flatnonzero(~surface.sound(level))[:1]:
        fail(f"'{names[number]}' has a level that cannot be")
    for number in np.flatnonzero(~packed.sound(task, len(vocabulary_of(domain).names)))[:1]:
        fail(f"'{names[number]}' has a task that cannot be")
    return Problem.unchecked(level=level, task=task)


def load_bulk(path: Path | str) -> Bulk:
    """Read batched problems; a file that was damaged or changed, or that holds what no problem can be, is refused."""
    import jax

    header, arrays = read(path, PROBLEMS)
    names, tags, notes = problem_metadata(path, header)
    if not names:
        raise AtlasError(f"{path}: holds no problems")
    problems = problems_of(path, header, arrays, len(names))
    return Bulk(
        problems=jax.device_put(problems),
        settings=header.get("settings"),
        seed=header.get("seed", 0),
        names=names,
        tags=tags,
        content=header["sha256"],
        notes=notes,
    )


def problem_metadata(path: Path | str, header: dict[str, Any]) -> tuple[Words, tuple[Words, ...], Words]:
    """The names, tags and notes that a header has for problems, checked; notes may be left out."""
    from atlas.types import About

    names, tags, notes = (header.get(key, []) for key in ("names", "tags", "notes"))
    texts = [names, notes, *tags] if isinstance(tags, list) else [tags]
    if not all(isinstance(some, list) and all(isinstance(word, str) for word in some) for some in texts):
        raise AtlasError(f"{path}: names, tags and notes must be lists of words")
    if len(tags) != len(names) or len(notes) not in (0, len(names)):
        raise AtlasError(f"{path}: {len(names)} names, {len(tags)} tags and {len(notes)} notes do not fit")
    for name, words, note in zip(names, tags, notes or names, strict=True):
        try:
            About(name, note, tuple(words))
        except AtlasError as error:
            raise AtlasError(f"{path}: {error}") from None
    return tuple(names), tuple(map(tuple, tags)), tuple(notes)


# What is kept between processes


def cache_folder() -> Path:
    """The folder for whatever can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "atlas"


def remember_compiled() -> bool:
    """Keep compiled programs between processes, unless the user has arranged that already: the next start is quick.
    Returns whether they are kept in our own folder.

    JAX finds them by the program, the compiler's options and its own version, so none is ever used for another.
    """
    import jax

    settings: Any = jax.config
    own = str(cache_folder() / "compiled")
    if settings.jax_compilation_cache_dir is None:
        settings.update("jax_compilation_cache_dir", own)
        settings.update("jax_persistent_cache_min_compile_time_secs", 0.1)  # by default 1: many small ones add up
    return bool(settings.jax_enable_compilation_cache and settings.jax_compilation_cache_dir == own)
