"""The base of every pytree in ATLAS: a frozen dataclass that JAX can map over.

`flax.struct` would do, but for one thing: it calls `__init__` when JAX rebuilds a tree, so the runtime
shape checks of the tests would reject every batched, mapped or abstract copy. Here only values that a
person constructs are checked.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, dataclass_transform

import jax
import numpy as np

Own = TypeVar("Own", bound="Struct")


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Struct:
    """Subclass it, annotate fields with shapes, construct with keywords, change with `replace`.

    A field made by `static()` is not traced but part of the tree's structure, compared by value.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclasses.dataclass(frozen=True, kw_only=True, eq=False)(cls)
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]
        names = tuple(field.name for field in fields if not field.metadata.get("static"))
        fixed = tuple(field.name for field in fields if field.metadata.get("static"))

        def aux(tree: Any) -> tuple[Any, ...]:
            return tuple(getattr(tree, n) for n in fixed)

        jax.tree_util.register_pytree_with_keys(
            cls,
            lambda tree: (tuple((jax.tree_util.GetAttrKey(n), getattr(tree, n)) for n in names), aux(tree)),
            lambda values, children: _rebuild(cls, (*names, *fixed), (*children, *values)),
            lambda tree: (tuple(getattr(tree, n) for n in names), aux(tree)),
        )

    @classmethod
    def unchecked(cls: type[Own], **fields: Any) -> Own:
        """One made without shape checks, e.g. a whole batch: its fields carry further axes in front."""
        return _rebuild(cls, tuple(fields), tuple(fields.values()))

    def replace(self: Own, **changes: Any) -> Own:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]


def stacked(structs: Sequence[Own], padding: Mapping[str, int]) -> Own:
    """Structs of any sizes as one batch on the host, every field padded to its largest size: with what `padding` says,
    else with 0."""
    batch = {}
    for name in vars(structs[0]):
        arrays = [np.asarray(getattr(struct, name)) for struct in structs]
        shape = np.max([array.shape for array in arrays], axis=0, initial=0).astype(int)
        batch[name] = rows = np.full((len(arrays), *shape), padding.get(name, 0), arrays[0].dtype)
        for row, array in enumerate(arrays):
            rows[row, ...][tuple(map(slice, array.shape))] = array
    return type(structs[0]).unchecked(**batch)


def static(default: Any) -> Any:
    """A field that JAX does not look into: hashable, compared by value."""
    return dataclasses.field(default=default, metadata={"static": True})


def _rebuild(cls: type, names: tuple[str, ...], children: Any) -> Any:
    tree: Any = object.__new__(cls)
    for name, child in zip(names, children, strict=True):
        object.__setattr__(tree, name, child)
    return tree
