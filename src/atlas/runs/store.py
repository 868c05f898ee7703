"""Many problems in one compressed file (npz): arrays, the settings and seed they were drawn with, and a content hash.

Nothing in such a file is ever executed: it holds arrays of numbers and one JSON header.
"""

import hashlib
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from atlas.domains.minigrid.grid import Level
from atlas.errors import AtlasError
from atlas.tasks.packed import PackedTask, unstack
from atlas.types import About, NamedProblem, Problem

# Files that appear whole or not at all.


def write_whole(path: Path | str, content: bytes | str) -> None:
    """Write a file under a passing name, then give it its own: readers never see half of it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    handle, passing = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(passing, 0o666 & ~_umask())
        os.replace(passing, path)
    except BaseException:
        os.unlink(passing)
        raise


def _umask() -> int:
    """The mode bits that new files lack here; it can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


# Many problems in one compressed file (npz): arrays, the settings and seed they were drawn with, and a content hash.
#
# Nothing in such a file is ever executed: it holds arrays of numbers and one JSON header.

VERSION: Final = 1
FORMAT: Final = "atlas problems"


@dataclass(frozen=True, eq=False)
class Bulk:
    """Problems of one size, batched, and where they came from."""

    problems: Problem
    settings: Any
    """Plain values: what `settings.to_plain` makes of a config."""
    seed: int
    names: tuple[str, ...]
    tags: tuple[tuple[str, ...], ...]
    content: str
    """SHA-256 of all of the above."""
    notes: tuple[str, ...] = ()
    """What there is to say about each problem; empty if nothing was said of any."""

    def __len__(self) -> int:
        return len(self.names)

    def named(self, source: str = "") -> list[NamedProblem]:
        """One by one."""
        leaves, tree = jax.tree.flatten(self.problems.level)
        columns = [list(np.asarray(leaf)) for leaf in leaves]
        levels = [jax.tree.unflatten(tree, [jnp.asarray(x) for x in row]) for row in zip(*columns, strict=True)]
        rows = zip(
            levels,
            unstack(self.problems.task),
            self.names,
            self.tags,
            self.notes or ("",) * len(self),
            strict=True,
        )
        return [
            NamedProblem(level=level, task=task, about=About(name, note, tags, source))
            for level, task, name, tags, note in rows
        ]


def save_bulk(
    problems: Problem,
    path: Path | str,
    settings: Any,
    seed: int,
    names: Sequence[str] = (),
    tags: Sequence[Sequence[str]] = (),
    notes: Sequence[str] = (),
) -> str:
    """Write batched problems; returns the content hash. Problems without a name are numbered from 0."""
    count = len(problems.level.cells)
    arrays = _arrays(problems)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "task": "machine" if problems.task.call is None else "hierarchy",
        "settings": settings,
        "seed": seed,
        "names": list(names) or [f"{i:0{len(str(count - 1))}d}" for i in range(count)],
        "tags": [list(t) for t in tags] or [[] for _ in range(count)],
    }
    header |= {"notes": list(notes)} if notes else {}
    if not len(header["names"]) == len(header["tags"]) == len(header.get("notes", header["names"])) == count:
        raise AtlasError(f"{path}: {count} problems need as many names, tags and notes")
    content = _hash(header, arrays)
    buffer = io.BytesIO()
    stored: dict[str, Any] = arrays | {"header": np.array(json.dumps(header | {"sha256": content}))}
    np.savez_compressed(buffer, **stored)
    write_whole(path, buffer.getvalue())
    return content


def load_bulk(path: Path | str) -> Bulk:
    """Read batched problems; a file that was damaged or changed is refused."""
    header, arrays = _read(Path(path))
    content = header.pop("sha256", None)
    if header.get("format") != FORMAT:
        raise AtlasError(f"{path}: not a file of ATLAS problems")
    if header.get("version") != VERSION:
        raise AtlasError(f"{path}: version {header.get('version')} of the format; this ATLAS reads version {VERSION}")
    if content != _hash(header, arrays):
        raise AtlasError(f"{path}: the content does not match its hash: the file was damaged or changed")
    level, task = _struct(Level, "level", arrays), _struct(PackedTask, "task", arrays)
    if task.call is None:
        task = jax.tree.map(lambda leaf: leaf[:, None], task)
    return Bulk(
        problems=Problem(level=level, task=task),
        settings=header["settings"],
        seed=header["seed"],
        names=tuple(header["names"]),
        tags=tuple(map(tuple, header["tags"])),
        content=content,
        notes=tuple(header.get("notes", ())),
    )


def _arrays(problems: Problem) -> dict[str, np.ndarray]:
    """Every field under its dotted name; those of flat tasks without the axis of machines."""
    task = problems.task
    if task.call is None:
        task = jax.tree.map(lambda leaf: leaf[:, 0], task)
    return {
        f"{part}.{field.name}": np.asarray(getattr(half, field.name))
        for part, half in (("level", problems.level), ("task", task))
        for field in fields(half)
        if getattr(half, field.name) is not None
    }


def _struct(kind: Any, part: str, arrays: dict[str, np.ndarray]) -> Any:
    names = [field.name for field in fields(kind) if f"{part}.{field.name}" in arrays]
    return kind.unchecked(**{name: jnp.asarray(arrays[f"{part}.{name}"]) for name in names})


def _hash(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        return json.loads(str(arrays.pop("header"))), arrays
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise AtlasError(f"{path}: not a readable file of ATLAS problems ({error})") from None


def cache_folder() -> Path:
    """Where ATLAS keeps what it would otherwise have to make again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "atlas"


def remember_compiled() -> None:
    """Keep compiled programs between processes, unless the user has arranged that already: the next start is quick.

    JAX finds them by the program, the compiler's options and its own version, so none is ever used for another.
    """
    import jax

    settings: Any = jax.config
    if settings.jax_compilation_cache_dir is None:
        settings.update("jax_compilation_cache_dir", str(cache_folder() / "compiled"))
