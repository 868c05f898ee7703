"""`atlas --print-completion SHELL`: a script with which a shell completes commands and their options."""

import contextlib
import importlib
import io
from typing import Annotated, Any, Final, Union

import tyro

from atlas.cli import COMMANDS
from atlas.errors import AtlasError, listed

SHELLS: Final = ("bash", "zsh", "fish")


def script(shell: str) -> str:
    """The script for a shell."""
    if shell not in SHELLS:
        raise AtlasError(f"--print-completion {shell} is not allowed: {listed(list(SHELLS))} is needed")
    from atlas.commands.train import DEFAULT, TrainArgs
    from atlas.presets import config_of

    defaults = {"train": TrainArgs(config=config_of(DEFAULT))}
    kinds: list[Any] = []
    for name, (module, text) in COMMANDS.items():
        kind = getattr(importlib.import_module(f"atlas.commands.{module}"), f"{name.capitalize()}Args")
        default: Any = defaults.get(name, tyro.MISSING)
        kinds.append(Annotated[kind, tyro.conf.subcommand(name, description=text, default=default)])
    every: Any = Union[tuple(kinds)]  # noqa: UP007 - as many as there are
    made = io.StringIO()
    with contextlib.redirect_stdout(made), contextlib.suppress(SystemExit):
        asked = ["--tyro-print-completion", shell]
        tyro.cli(every, prog="atlas", args=asked, config=(tyro.conf.AvoidSubcommands,))
    return made.getvalue()
