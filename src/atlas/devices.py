"""One run on several devices: what is sharded and what is replicated.

The program is the one that a single device runs. Rows (environments, problems, slots of the buffer) are sharded;
everything small (parameters, records, random keys) is replicated, so every device takes the same decisions. Playing
and learning are `shard_map`s over the rows; where they need a mean over all devices they call `mean`. With one device
every method is the identity.
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
from jaxtyping import Key

AXIS: Final = "devices"
REPLICATED: Final = -1
"""In place of the number of the sharded axis: every device has all of it."""
Tree = TypeVar("Tree")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Layout:
    """How rows are sharded over devices."""

    mesh: Mesh | None = None
    """All devices that take part, on all hosts; None if there is only one."""

    @property
    def shards(self) -> int:
        """How many devices share the rows."""
        return 1 if self.mesh is None else self.mesh.size

    def shard(self, tree: Tree) -> Tree:
        """Shard the first axis of every array of a traced tree."""
        return self._constrained(tree, 0)

    def replicate(self, tree: Tree) -> Tree:
        """Replicate a traced tree."""
        return self._constrained(tree, REPLICATED)

    def sharding(self, leaf: Any, axis: int) -> NamedSharding:
        """The sharding of an array along an axis. An array that does not divide evenly is replicated."""
        assert self.mesh is not None
        even = axis != REPLICATED and leaf.shape[axis] % self.shards == 0
        return NamedSharding(self.mesh, _spec(axis if even else REPLICATED))

    def shard_map(self, function: Callable[..., Result], inputs: Any, outputs: Any) -> Callable[..., Result]:
        """Let each device call the function on its shard. `inputs` and `outputs` give the sharded axis of (parts of)
        the arguments and results, or REPLICATED. A replicated result must be equal on all devices."""
        if self.mesh is None:
            return function
        specs = jax.tree.map(_spec, (inputs, outputs))
        return jax.shard_map(function, mesh=self.mesh, in_specs=specs[0], out_specs=specs[1], check_vma=False)

    def by_rows(self, function: Callable[..., Result], rows: int) -> Callable[..., Result]:
        """Let each device call the function on its share of so many rows, and give all of them all results. They all
        call it on all rows if these do not divide evenly, and on several hosts, where the exchange would cost more."""
        if self.mesh is None or rows % self.shards or jax.process_count() > 1:
            return function
        return lambda *given: self.replicate(self.shard_map(function, 0, 0)(*given))

    def mean(self, tree: Tree) -> Tree:
        """Inside `shard_map`: the mean over devices, as one all-reduce of all leaves. Between processes every exchange
        takes milliseconds, whatever its size."""
        if self.mesh is None:
            return tree
        flat, unravel = ravel_pytree(tree)
        return unravel(jax.lax.pmean(flat, AXIS))  # type: ignore[no-untyped-call]

    def local(self, keys: Key[Array, "keys shards"]) -> Key[Array, "keys"]:
        """Inside `shard_map`: this device's column of replicated keys."""
        return keys[:, 0 if self.mesh is None else jax.lax.axis_index(AXIS)]

    def gather(self, tree: Tree) -> Tree:
        """All of a tree on one device of this process. A collective: every process must call it."""
        if self.mesh is None:
            return tree
        return jax.tree.map(_local, _gatherer(self.mesh)(tree))

    def place(self, tree: Tree, shardings: Any) -> Tree:
        """Shard a tree that every process has whole."""
        return tree if self.mesh is None else jax.tree.map(_placed, tree, shardings)

    def _constrained(self, tree: Tree, axis: int) -> Tree:
        if self.mesh is None:
            return tree
        where = jax.tree.map(lambda leaf: self.sharding(leaf, axis), tree)
        return jax.lax.with_sharding_constraint(tree, where)  # type: ignore[no-untyped-call]


ALONE: Final = Layout()


@lru_cache
def _gatherer(mesh: Mesh) -> Callable[[Any], Any]:
    """An all-gather that copies: the state itself may be overwritten by the next iteration."""
    return jax.jit(lambda tree: jax.tree.map(jnp.copy, tree), out_shardings=NamedSharding(mesh, _spec(REPLICATED)))


def _spec(axis: int) -> PartitionSpec:
    return PartitionSpec(*([] if axis == REPLICATED else [None] * axis + [AXIS]))  # type: ignore[no-untyped-call]


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
    """A mesh of the first `devices` devices of every host."""
    hosts: dict[int, list[Any]] = {}
    for device in jax.devices():
        hosts.setdefault(device.process_index, []).append(device)
    chosen = [device for host in sorted(hosts) for device in hosts[host][:devices]]
    return Mesh(np.array(chosen), (AXIS,))
