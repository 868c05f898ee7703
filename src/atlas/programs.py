"""A cache on disk of compiled programs: a command that needs one need not trace and compile it again.

They are found by the code of this package, the versions of JAX and Optax, the machine's kind of device, how many cores
may be used, and the shapes of their arguments. Files are read only if nobody else can have written them: like those of
JAX's own cache, they are executed.
Nothing is kept before a command asks for it with `keep_programs`.
"""

import contextlib
import functools
import hashlib
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final

import jax
import numpy as np
from jax.experimental.compilation_cache.compilation_cache import reset_cache
from jax.experimental.serialize_executable import deserialize_and_load, serialize

from atlas import plugins
from atlas.runs.hosts import cores, processor
from atlas.runs.store import cache_folder, remember_compiled, write_whole
from atlas.struct import Struct

UNUSED: Final = 30 * 86_400
"""Seconds after which a program that nobody has asked for is removed."""
_kept = False


def keep_programs() -> None:
    """From now on programs are kept, small ones too."""
    global _kept
    _kept = True
    remember_compiled()
    settings: Any = jax.config
    settings.update("jax_persistent_cache_min_compile_time_secs", 0.02)
    settings.update("jax_persistent_cache_min_entry_size_bytes", -1)


class Program:
    """A function of arrays, in trees of structs, tuples and lists; like `jax.jit(make())`.

    `make` is only called if the program is not there yet; `name` must tell it from all others, with everything that the
    function has closed over.
    """

    def __init__(self, name: str, make: Callable[[], Callable[..., Any]]) -> None:
        self.name, self.make = name, make
        self._ready: dict[Any, Callable[..., Any]] = {}

    def __call__(self, *arguments: Any) -> Any:
        if not _kept or plugins.in_use("domains"):  # the code of other packages is not part of the name
            return self.jitted(*arguments)
        leaves, tree = jax.tree.flatten(arguments)
        shapes = tuple((np.shape(leaf), str(jax.dtypes.result_type(leaf))) for leaf in leaves)
        if (tree, shapes) not in self._ready:
            self._ready[tree, shapes] = self._find(arguments, f"{tree} {shapes}")
        return self._ready[tree, shapes](*leaves)

    @functools.cached_property
    def jitted(self) -> Callable[..., Any]:
        """The function as JAX compiles it, which is not kept."""
        return jax.jit(self.make())

    def _find(self, arguments: Any, signature: str) -> Callable[..., Any]:
        """The program for arguments of some shapes: from its file, else traced now and written there."""
        path = _path(self.name, signature)
        leaves, tree = jax.tree.flatten(arguments)
        inputs = jax.tree.structure(((0,) * len(leaves), {}))
        with contextlib.suppress(Exception):  # whatever is wrong with the file, the program can be made again
            described, program = _opened(_read(path))
            outputs = jax.tree.structure([0] * described["leaves"])
            return _rebuilt(deserialize_and_load(program, inputs, outputs), described["form"])
        form: list[Any] = []
        function = self.make()

        def flat(*leaves: Any) -> Any:
            found, structure = jax.tree.flatten(function(*jax.tree.unflatten(tree, leaves)))
            form[:] = [_described(jax.tree.unflatten(structure, range(len(found)))), len(found)]
            return found

        with _compiled_anew():
            compiled = jax.jit(flat).lower(*leaves).compile()
        with contextlib.suppress(Exception):  # it is not kept then
            program, _, _ = serialize(compiled)
            _write(path, _closed({"form": form[0], "leaves": form[1]}, program))
        return _rebuilt(compiled, form[0])


def load_or_lower(name: str, lower: Callable[[], Any], devices: Sequence[jax.Device]) -> Callable[[], Any]:
    """A function that loads a program for some devices from its file. Where there is none the program is lowered at
    once, and the function compiles it and writes the file. `name` tells it from all others, as that of a `Program`.

    One that JAX finds in its own cache meanwhile is not kept: on CPUs it would be written without its functions.
    """
    path = _path(name, f"{len(devices)} of {jax.device_count()} devices")
    lowered = None if path.exists() else lower()

    def make() -> Any:
        if lowered is None:
            with contextlib.suppress(Exception):  # whatever is wrong with the file, the program can be made again
                described, program = _opened(_read(path))
                inputs, outputs = (jax.tree.structure(_made(form, range(count))) for form, count in described)
                return deserialize_and_load(program, inputs, outputs, execution_devices=list(devices))
        traced, found = lowered or lower(), _cache_hits()
        before = found[threading.get_ident()]
        compiled = traced.compile()
        if found[threading.get_ident()] == before:
            with contextlib.suppress(Exception):  # it is not kept then
                program, *trees = serialize(compiled)
                forms = [(_described(tree.unflatten(range(tree.num_leaves))), tree.num_leaves) for tree in trees]
                if [jax.tree.structure(_made(form, range(count))) for form, count in forms] == trees:
                    _write(path, _closed(forms, program))
        return compiled

    return make


@functools.cache
def _cache_hits() -> Counter[int]:
    """How often JAX has found a program in its own cache from now on, by thread."""
    hits: Counter[int] = Counter()

    def count(event: str, **_: Any) -> None:
        if event == "/jax/compilation_cache/cache_hits":
            hits[threading.get_ident()] += 1

    jax.monitoring.register_event_listener(count)
    return hits


def _path(*words: str) -> Path:
    """The file of a program with this name, made by this code for this machine."""
    ways: Any = jax.config
    random = f"{ways.jax_threefry_partitionable} {ways.jax_default_prng_impl} {ways.jax_enable_x64}"
    versions = " ".join(f"{name} {version(name)}" for name in ("jax", "jaxlib", "optax"))
    device = f"{jax.default_backend()} {jax.devices()[0].device_kind} {cores()}"
    made = random, versions, device, os.environ.get("XLA_FLAGS", ""), _instructions(), code()
    return cache_folder() / "programs" / hashlib.sha256("\n".join((*words, *made)).encode()).hexdigest()[:32]


@functools.cache
def _instructions() -> str:
    """What the processor can do, where the system tells: folders may be shared between machines."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))
    return processor()


def _closed(described: Any, program: bytes) -> bytes:
    """The content of a file: what its program takes and gives, and the program."""
    header = json.dumps(described).encode()
    return b"%d\n" % len(header) + header + program


def _opened(content: bytes) -> tuple[Any, bytes]:
    length, _, rest = content.partition(b"\n")
    return json.loads(rest[: int(length)]), rest[int(length) :]


def _read(path: Path) -> bytes:
    about = path.stat()
    if about.st_uid != os.getuid() or about.st_mode & 0o022:
        raise PermissionError(path)
    os.utime(path)
    return path.read_bytes()


def _write(path: Path, content: bytes) -> None:
    """Keep a program; those that nobody has asked for in a month go, such as the ones of earlier versions."""
    write_whole(path, content)
    path.chmod(0o600)
    for other in path.parent.iterdir():
        if time.time() - other.stat().st_mtime > UNUSED:
            other.unlink()


@contextlib.contextmanager
def _compiled_anew() -> Iterator[None]:
    """Without JAX's own cache: on CPUs a program that was loaded from it is written without its functions."""
    settings: Any = jax.config
    before = settings.jax_enable_compilation_cache
    settings.update("jax_enable_compilation_cache", False)
    reset_cache()
    try:
        yield
    finally:
        settings.update("jax_enable_compilation_cache", before)
        reset_cache()


def _rebuilt(compiled: Any, form: Any) -> Callable[..., Any]:
    return lambda *leaves: _made(form, compiled(*leaves))


def _described(tree: Any) -> Any:
    """The form of a tree whose leaves are numbers, as JSON has it."""
    if isinstance(tree, Struct) or hasattr(tree, "_fields"):
        kind, fields = type(tree), vars(tree) if isinstance(tree, Struct) else tree._asdict()
        form = {name: _described(value) for name, value in fields.items()}
        return {"struct": f"{kind.__module__}:{kind.__qualname__}", "fields": form}
    if isinstance(tree, dict):
        return {"fields": {name: _described(value) for name, value in tree.items()}}
    if isinstance(tree, tuple | list):
        return list(map(_described, tree))
    if tree is not None and not isinstance(tree, int):
        raise ValueError(f"{tree!r} is no number of a leaf")
    return tree


def _made(described: Any, leaves: Any) -> Any:
    """A tree of this form with these leaves."""
    if isinstance(described, dict):
        fields = {name: _made(value, leaves) for name, value in described["fields"].items()}
        if "struct" not in described:
            return fields
        kind: Any = resolve_name(described["struct"])
        return kind.unchecked(**fields) if issubclass(kind, Struct) else kind(**fields)
    if isinstance(described, list):
        return tuple(_made(part, leaves) for part in described)
    return None if described is None else leaves[described]


@functools.cache
def code() -> str:
    """A name for the code of this package, as it is now."""
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()
