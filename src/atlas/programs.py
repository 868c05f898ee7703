"""Programs that are kept between processes: a command that needs one need not trace and compile it again.

Traced programs are kept as JAX exports them, by the code of this package, JAX's version and the shapes of their
arguments; compiled ones are JAX's own cache. Nothing is kept before a command asks for it with `keep_programs`.
"""

import contextlib
import functools
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import jax
import numpy as np

from atlas.runs.store import cache_folder, remember_compiled, write_whole
from atlas.struct import Struct

_kept = False


def keep_programs() -> None:
    """From now on programs are kept, small ones too."""
    global _kept
    _kept = True
    remember_compiled()
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.02)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


class Program:
    """A function of arrays, in trees of structs, tuples and lists; like `jax.jit(function)`.

    `name` must tell it from all others, with everything that the function has closed over.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name, self.function = name, function
        self.jitted = jax.jit(function)
        self._ready: dict[Any, Callable[..., Any]] = {}

    def __call__(self, *arguments: Any) -> Any:
        if not _kept:
            return self.jitted(*arguments)
        leaves, tree = jax.tree.flatten(arguments)
        shapes = tuple((np.shape(leaf), str(jax.dtypes.result_type(leaf))) for leaf in leaves)
        if (tree, shapes) not in self._ready:
            self._ready[tree, shapes] = self._find(arguments, f"{tree} {shapes}")
        return self._ready[tree, shapes](*leaves)

    def _find(self, arguments: Any, signature: str) -> Callable[..., Any]:
        """The program for arguments of some shapes: from its file, else traced now and written there."""
        ways: Any = jax.config
        random = f"{ways.jax_threefry_partitionable} {ways.jax_default_prng_impl} {ways.jax_enable_x64}"
        words = (self.name, signature, random, jax.__version__, jax.default_backend(), code())
        path = cache_folder() / "programs" / hashlib.sha256("\n".join(words).encode()).hexdigest()[:32]
        with contextlib.suppress(Exception):  # whatever is wrong with the file, the program can be made again
            length, _, rest = path.read_bytes().partition(b"\n")
            return _rebuilt(jax.export.deserialize(bytearray(rest[int(length) :])), json.loads(rest[: int(length)]))
        leaves, tree = jax.tree.flatten(arguments)
        result: list[Any] = []

        def flat(*leaves: Any) -> Any:
            found, form = jax.tree.flatten(self.function(*jax.tree.unflatten(tree, leaves)))
            result[:] = [_described(jax.tree.unflatten(form, range(len(found))))]
            return found

        exported = jax.export.export(jax.jit(flat))(*leaves)
        described = json.dumps(result[0]).encode()
        with contextlib.suppress(OSError):  # a cache that cannot be written is no reason to fail
            write_whole(path, b"%d\n" % len(described) + described + exported.serialize())
        return _rebuilt(exported, result[0])


def _rebuilt(exported: Any, described: Any) -> Callable[..., Any]:
    call = jax.jit(exported.call)
    return lambda *leaves: _made(described, call(*leaves))


def _described(tree: Any) -> Any:
    """The form of a tree whose leaves are numbers, as JSON has it."""
    if isinstance(tree, Struct):
        kind = type(tree)
        fields = {name: _described(value) for name, value in vars(tree).items()}
        return {"struct": f"{kind.__module__}:{kind.__qualname__}", "fields": fields}
    return list(map(_described, tree)) if isinstance(tree, tuple | list) else tree


def _made(described: Any, leaves: Any) -> Any:
    """A tree of this form with these leaves."""
    if isinstance(described, dict):
        fields = {name: _made(value, leaves) for name, value in described["fields"].items()}
        kind: Any = resolve_name(described["struct"])
        return kind.unchecked(**fields)
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
