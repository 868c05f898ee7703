"""Several devices, one run: who holds what.

The program stays the one that a single device runs. Rows (environments, problems, slots of the buffer) are divided
among the devices; everything small (parameters, records, random keys) has a copy on each, so every device takes the
same decisions. Playing and learning happen apart, each device on its own rows; where a mean over all rows is needed it
is asked for by name. With one device all of this is nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Int32, Key

AXIS: Final = "devices"
COPY: Final = -1
"""In place of the number of an axis: not divided, everyone has it whole."""
Tree = TypeVar("Tree")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Layout:
    """How rows are spread over devices."""

    mesh: Mesh | None = None
    """All devices that take part, on all hosts; none: there is but one."""

    @property
    def shards(self) -> int:
        """How many devices share the rows."""
        return 1 if self.mesh is None else self.mesh.size

    def rows(self, tree: Tree) -> Tree:
        """Divide the first axis of everything in a traced tree."""
        return self._constrained(tree, 0)

    def copies(self, tree: Tree) -> Tree:
        """Give every device a copy of a traced tree."""
        return self._constrained(tree, COPY)

    def sharding(self, leaf: Any, axis: int) -> NamedSharding:
        """Where an array lives that is to be divided along an axis. One that cannot be divided evenly is copied."""
        assert self.mesh is not None
        even = axis != COPY and leaf.shape[axis] % self.shards == 0
        return NamedSharding(self.mesh, _spec(axis if even else COPY))

    def apart(self, function: Callable[..., Result], inputs: Any, outputs: Any) -> Callable[..., Result]:
        """Let each device call the function on its own rows. `inputs` and `outputs` give the axis of the rows for
        (parts of) the arguments and results, or COPY. What is copied out must be equal everywhere."""
        if self.mesh is None:
            return function
        specs = jax.tree.map(_spec, (inputs, outputs))
        return jax.shard_map(function, mesh=self.mesh, in_specs=specs[0], out_specs=specs[1], check_vma=False)

    def mean(self, tree: Tree) -> Tree:
        """Inside `apart`: the mean over devices. All numbers travel together: between processes every exchange takes
        milliseconds, whatever its size."""
        if self.mesh is None:
            return tree
        together, take_apart = ravel_pytree(tree)
        return take_apart(jax.lax.pmean(together, AXIS))  # type: ignore[no-untyped-call]

    def own(self, keys: Key[Array, "keys shards"]) -> Key[Array, "keys"]:
        """Inside `apart`: this device's column of some keys that are drawn for all."""
        return keys[:, self._number()]

    def _number(self) -> int | Int32[Array, ""]:
        return 0 if self.mesh is None else jax.lax.axis_index(AXIS)

    def here(self, tree: Tree) -> Tree:
        """Everything on one device of this process, to be looked at. All processes must ask."""
        if self.mesh is None:
            return tree
        return jax.tree.map(_local, _gatherer(self.mesh)(tree))

    def place(self, tree: Tree, shardings: Any) -> Tree:
        """Put what every process has whole where it belongs."""
        return tree if self.mesh is None else jax.tree.map(_placed, tree, shardings)

    def _constrained(self, tree: Tree, axis: int) -> Tree:
        if self.mesh is None:
            return tree
        where = jax.tree.map(lambda leaf: self.sharding(leaf, axis), tree)
        return jax.lax.with_sharding_constraint(tree, where)  # type: ignore[no-untyped-call]


ALONE: Final = Layout()


@lru_cache
def _gatherer(mesh: Mesh) -> Callable[[Any], Any]:
    """Copies of everything for every device: the state itself may be overwritten by the next iteration."""
    return jax.jit(lambda tree: jax.tree.map(jnp.copy, tree), out_shardings=NamedSharding(mesh, _spec(COPY)))


def _spec(axis: int) -> PartitionSpec:
    return PartitionSpec(*([] if axis == COPY else [None] * axis + [AXIS]))  # type: ignore[no-untyped-call]


def _is_key(leaf: Any) -> bool:
    return bool(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def _local(leaf: Array) -> Array:
    if _is_key(leaf):
        return jax.random.wrap_key_data(jax.random.key_data(leaf).addressable_data(0))
    return leaf.addressable_data(0)


def _placed(leaf: Array, sharding: NamedSharding) -> Array:
    if _is_key(leaf):
        return jax.random.wrap_key_data(_placed(jax.random.key_data(leaf), sharding))
    whole = np.asarray(leaf)
    return jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])


def mesh_of(devices: int) -> Mesh:
    """The first so many devices of every host, in one row."""
    hosts: dict[int, list[Any]] = {}
    for device in jax.devices():
        hosts.setdefault(device.process_index, []).append(device)
    chosen = [device for host in sorted(hosts) for device in hosts[host][:devices]]
    return Mesh(np.array(chosen), (AXIS,))
