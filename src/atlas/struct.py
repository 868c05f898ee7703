"""The base of every pytree in ATLAS: a frozen dataclass that JAX can map over.

`flax.struct` would do, but for one thing: it calls `__init__` when JAX rebuilds a tree, so the runtime
shape checks of the tests would reject every batched, mapped or abstract copy. Here only values that a
person constructs are checked.
"""

import dataclasses
from typing import Any, TypeVar, dataclass_transform

import jax

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


def static(default: Any) -> Any:
    """A field that JAX does not look into: hashable, compared by value."""
    return dataclasses.field(default=default, metadata={"static": True})


def _rebuild(cls: type, names: tuple[str, ...], children: Any) -> Any:
    tree: Any = object.__new__(cls)
    for name, child in zip(names, children, strict=True):
        object.__setattr__(tree, name, child)
    return tree
