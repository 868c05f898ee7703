"""ATLAS: autocurricula over tasks and levels. The public names; nothing is imported before it is used."""

import importlib
from typing import Any

_PUBLIC: dict[str, str] = {
    "edit": "atlas.api",
    "english": "atlas.api",
    "explain": "atlas.api",
    "follow": "atlas.api",
    "load": "atlas.runs.problem_files",
    "load_demos": "atlas.runs.demos",
    "load_level": "atlas.runs.problem_files",
    "load_task": "atlas.runs.problem_files",
    "ltlf": "atlas.api",
    "sample": "atlas.api",
    "save": "atlas.runs.problem_files",
    "solve": "atlas.api",
    "trace": "atlas.show.episode",
}
"""Public name -> the module that defines it."""


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'atlas' has no attribute '{name}'")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(_PUBLIC)
