"""ATLAS: autocurricula over tasks and levels. The public names; nothing is imported before it is used."""

import importlib
from typing import Any

_PUBLIC: dict[str, str] = {}
"""Public name -> the module that defines it."""


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'atlas' has no attribute '{name}'")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(_PUBLIC)
