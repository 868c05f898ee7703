"""ATLAS: autocurricula over tasks and levels. The public names; nothing is imported before it is used.

Problems: `load`, `load_level`, `load_task`, `save`, `sample`, `edit`, `solve`, `trace`.
Tasks: `english`, `ltlf`, `explain`, `follow`.
An environment for your own agent: `make`, with the wrappers `AutoReset` and `ProblemSampler`; `import atlas.gym` for
Gymnasium.
Experiments: `configure`, `train`, `resume`, `load_policy`, `evaluate`, `report`. Plans as data: `load_demos`.
To bring your own teacher, score, edit, domain or preset: docs/plugins.md, and `atlas.testing` to check it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what is listed below, for tools that do not run the code; a test compares the two
    from atlas.api import edit as edit
    from atlas.api import english as english
    from atlas.api import explain as explain
    from atlas.api import follow as follow
    from atlas.api import ltlf as ltlf
    from atlas.api import sample as sample
    from atlas.api import solve as solve
    from atlas.environment import AutoReset as AutoReset
    from atlas.environment import ProblemSampler as ProblemSampler
    from atlas.environment import make as make
    from atlas.experiments import configure as configure
    from atlas.experiments import evaluate as evaluate
    from atlas.experiments import report as report
    from atlas.experiments import resume as resume
    from atlas.experiments import train as train
    from atlas.runs.demos import load_demos as load_demos
    from atlas.runs.policy import load_policy as load_policy
    from atlas.runs.problem_files import load as load
    from atlas.runs.problem_files import load_level as load_level
    from atlas.runs.problem_files import load_task as load_task
    from atlas.runs.problem_files import save as save
    from atlas.show.episode import trace as trace

    __version__: str

_PUBLIC: dict[str, str] = {
    "AutoReset": "atlas.environment",
    "ProblemSampler": "atlas.environment",
    "configure": "atlas.experiments",
    "edit": "atlas.api",
    "english": "atlas.api",
    "evaluate": "atlas.experiments",
    "explain": "atlas.api",
    "follow": "atlas.api",
    "load": "atlas.runs.problem_files",
    "load_demos": "atlas.runs.demos",
    "load_level": "atlas.runs.problem_files",
    "load_policy": "atlas.runs.policy",
    "load_task": "atlas.runs.problem_files",
    "ltlf": "atlas.api",
    "make": "atlas.environment",
    "report": "atlas.experiments",
    "resume": "atlas.experiments",
    "sample": "atlas.api",
    "save": "atlas.runs.problem_files",
    "solve": "atlas.api",
    "trace": "atlas.show.episode",
    "train": "atlas.experiments",
}
"""Public name -> the module that defines it."""
__all__ = list(_PUBLIC)


if not TYPE_CHECKING:  # else every name would seem to be there

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import version

            return version("atlas-ued")
        if name not in _PUBLIC:
            raise AttributeError(f"module 'atlas' has no attribute '{name}'")
        return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(_PUBLIC)
