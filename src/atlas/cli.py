"""The `atlas` command: find the subcommand, run it, turn mistakes into sentences.

Importing this module imports nothing heavy; a subcommand's module is imported when it is called.
"""

import importlib
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from atlas.errors import AtlasError, nearest, printable

COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("train", "train a student on problems that a teacher proposes"),
    "resume": ("train", "go on with a run that was stopped"),
    "sweep": ("sweep", "many runs from one file: presets, seeds and settings"),
    "eval": ("evaluate", "how good trained policies are on a set of problems, and where they fail"),
    "report": ("report", "one page about one or several runs: curves, tables, curriculum, episodes"),
    "watch": ("episodes", "see a trained policy play a problem, in the terminal or as a film"),
    "sample": ("problems", "draw problems or levels, and show or write them"),
    "show": ("problems", "look at a problem, a level or a set"),
    "task": ("task", "read a task in English, LTLf or from a file; explain, draw, check or convert it"),
    "trace": ("episodes", "replay actions in a problem and tell every moment"),
    "play": ("episodes", "play a problem with the keyboard"),
    "solve": ("problems", "decide whether problems can be solved, and how"),
    "lint": ("problems", "look for mistakes in a set of problems"),
    "sets": ("evaluate", "the sets that policies are compared on: list, build, verify"),
    "bench": ("bench", "how fast everything is on this machine"),
    "presets": ("report", "list the experiments that come with ATLAS, or print one whole"),
}
"""Subcommand -> the module of `atlas.commands` with its `NAME_command(argv) -> int`, and one line of help."""

USAGE, FAILED, INTERRUPTED = 2, 1, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; the exit code is 0 iff it did what was asked."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return 0
    if arguments[0] == "--version":
        print(_version())
        return 0
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _note  # type: ignore[assignment]
            return _run(arguments[0], arguments[1:])
    except KeyboardInterrupt:
        return _complain("stopped", INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except Exception as error:
        if debug:
            raise
        return _complain(*_sentence(error))


def _run(name: str, arguments: list[str]) -> int:
    if name not in COMMANDS:
        hint = nearest(name, COMMANDS) or f"; there are {', '.join(sorted(COMMANDS))}"
        raise AtlasError(f"there is no command '{name}'{hint}")
    module = importlib.import_module(f"atlas.commands.{COMMANDS[name][0]}")
    return getattr(module, f"{name}_command")(arguments)


def _sentence(error: Exception) -> tuple[str, int]:
    """What to tell the user, and the exit code."""
    if isinstance(error, AtlasError):
        return str(error), USAGE
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {(error.strerror or 'cannot be used').lower()}", USAGE
    return f"internal error: {type(error).__name__}: {error} (add --debug for the traceback)", FAILED


def _note(message: Warning | str, *_: Any) -> None:
    """A warning as a sentence, without the line of code that gave it."""
    print(f"atlas: note: {printable(str(message))}", file=sys.stderr)


def _complain(sentence: str, code: int) -> int:
    print(f"atlas: {printable(sentence)}", file=sys.stderr)
    return code


def _help() -> str:
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  {name:<{width}}  {text}" for name, (_, text) in COMMANDS.items())
    return (
        "usage: atlas COMMAND …\n\n"
        "Autocurricula over tasks and levels: train agents that follow formal instructions in unseen worlds.\n\n"
        f"{rows}\n\n"
        "`atlas COMMAND --help` tells more. `--debug` shows tracebacks, `--version` the version."
    )


def _version() -> str:
    from importlib.metadata import version

    return f"atlas {version('atlas-ued')}"
