"""Timing calls, each beside the plain limit of the machine."""

import functools
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from atlas.bench.rows import Clock, Effort, Row, Unit, summarise

SIDE: Final = 2048
"""Of the matrices whose product is the limit of arithmetic: 17 GFLOP a call."""
COPIED: Final = 1 << 26
"""Bytes of the copy that is the limit of moving data: more than caches hold."""


class Compiled(NamedTuple):
    """A call without arguments that waits for its result, and what compiling it took."""

    call: Callable[[], Any]
    seconds: float


class Limit(NamedTuple):
    """The best that a machine could do."""

    name: str
    call: Callable[[], Any]
    scale: float
    """The work in units of one call."""


def forget_compiled() -> None:
    """Use nothing that earlier processes compiled: compiling is part of what is measured."""
    settings: Any = jax.config
    settings.update("jax_enable_compilation_cache", False)


def clocked(call: Callable[[], Any]) -> Clock:
    """Call once."""
    wall, processor = time.perf_counter(), time.process_time()
    call()
    return Clock(time.perf_counter() - wall, time.process_time() - processor)


def program(function: Callable[..., Any], *arguments: Any, donate: tuple[int, ...] = ()) -> tuple[Any, float]:
    """A function compiled for these arguments, and the seconds that tracing and compiling took."""
    begin = time.perf_counter()
    made = jax.jit(function, donate_argnums=donate).lower(*arguments).compile()
    return made, time.perf_counter() - begin


def compiled(function: Callable[..., Any], *arguments: Any) -> Compiled:
    """The call of a function on these arguments."""
    made, taken = program(function, *arguments)
    return Compiled(lambda: ready(made(*arguments)), taken)


def ready(tree: Any) -> Any:
    """Wait until everything in it is computed."""
    wait: Any = jax.block_until_ready
    return wait(tree)


def measure(
    name: str,
    unit: Unit,
    call: Callable[[], Any] | Compiled,
    effort: Effort,
    limit: Limit | None = None,
    least: int | None = None,
    warm: bool = False,
) -> Row:
    """Repeat a call. The first one, which is not `warm` yet, does not count; nor does the first call of the limit."""
    work = call if isinstance(call, Compiled) else Compiled(call, float("nan"))
    for first in (() if warm else (work.call,)) + ((limit.call,) if limit else ()):
        first()
    clocks: list[Clock] = []
    beside: list[Clock] = []
    while not effort.enough([clock.wall for clock in clocks], least):
        clocks.append(clocked(work.call))
        if limit:
            plain = clocked(limit.call)
            beside.append(Clock(limit.scale * plain.wall, limit.scale * plain.processor))
    known = work.seconds if work.seconds == work.seconds else None
    return summarise(name, unit, clocks, beside, limit.name if limit else None, known)


def products(flops: float) -> Limit:
    """Multiplying float32 matrices for so many floating-point operations."""
    return Limit("product", _product(), flops / (2 * SIDE**3))


def copies(nbytes: float) -> Limit:
    """Copying so many bytes from memory to memory, on one core."""
    return Limit("copy", _copy(), nbytes / COPIED)


@functools.cache
def _product() -> Callable[[], Any]:
    matrix = jnp.ones((SIDE, SIDE), jnp.float32)
    return compiled(lambda a: a @ a, matrix).call


@functools.cache
def _copy() -> Callable[[], Any]:
    source, target = np.ones(COPIED, np.uint8), np.zeros(COPIED, np.uint8)
    return lambda: np.copyto(target, source)


def nbytes(tree: Any) -> int:
    """Bytes of all arrays in a tree, which may be abstract."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
