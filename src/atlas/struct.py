"""The base of every pytree in ATLAS: a frozen dataclass that JAX can map over.

`flax.struct` would do, but for one thing: it calls `__init__` when JAX rebuilds a tree, so the runtime
shape checks of the tests would reject every batched, mapped or abstract copy. Here only values that a
person constructs are checked.
"""

import dataclasses
from typing import Any, Self, dataclass_transform

import jax


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Struct:
    """Subclass it, annotate fields with shapes, construct with keywords, change with `replace`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclasses.dataclass(frozen=True, kw_only=True, eq=False)(cls)
        names = tuple(field.name for field in dataclasses.fields(cls))  # type: ignore[arg-type]
        jax.tree_util.register_pytree_with_keys(
            cls,
            lambda tree: (tuple((jax.tree_util.GetAttrKey(n), getattr(tree, n)) for n in names), None),
            lambda _, children: _rebuild(cls, names, children),
            lambda tree: (tuple(getattr(tree, n) for n in names), None),
        )

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]


def _rebuild(cls: type, names: tuple[str, ...], children: Any) -> Any:
    tree: Any = object.__new__(cls)
    for name, child in zip(names, children, strict=True):
        object.__setattr__(tree, name, child)
    return tree
