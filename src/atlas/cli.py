"""The `atlas` command: find the subcommand, run it, turn mistakes into sentences.

Importing this module imports nothing heavy; a subcommand's module is imported when it is called.
"""

import importlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn

from atlas.errors import AtlasError, nearest, printable

COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("train", "train a student on problems that a teacher proposes"),
    "resume": ("train", "go on with a run that was stopped"),
    "sweep": ("sweep", "many runs from one file: presets, seeds and settings"),
    "eval": ("evaluate", "how good trained policies are on a set of problems, and where they fail"),
    "compare": ("evaluate", "two policies on one set: what changed, and how sure that is"),
    "report": ("report", "one page about one or several runs: curves, tables, curriculum, episodes"),
    "reproduce": ("reproduce", "the figures and tables of the paper: train, evaluate, draw"),
    "lineage": ("lineage", "where a problem of a run came from, edit by edit, and what came of it"),
    "watch": ("episodes", "see a trained policy play a problem, in the terminal or as a film"),
    "zoo": ("zoo", "the trained policies that come with ATLAS: list them, or print the card of one"),
    "export": ("export", "a trained policy as one file that is played without JAX"),
    "sample": ("problems", "draw problems or levels, and show or write them"),
    "show": ("problems", "look at a problem, a level or a set"),
    "studio": ("studio", "draw levels, say tasks, prove, play and watch, in a browser"),
    "edit": ("edit", "change a problem as teachers do, and see it before and after"),
    "task": ("task", "read a task in English, LTLf or from a file; explain, draw, check or convert it"),
    "trace": ("episodes", "replay actions in a problem and tell every moment"),
    "play": ("episodes", "play a problem with the keyboard"),
    "solve": ("problems", "decide whether problems can be solved, and how"),
    "demos": ("demos", "plans of the prover as a data set to learn from"),
    "lint": ("problems", "look for mistakes in a set of problems"),
    "sets": ("evaluate", "the sets that policies are compared on: list, build, verify"),
    "bench": ("bench", "how fast everything is on this machine"),
    "info": ("info", "versions, devices, cache and plug-ins of this installation"),
    "presets": ("report", "list the experiments that come with ATLAS, or print one whole"),
}
"""Subcommand -> the module of `atlas.commands` with its `NAME_command(argv) -> int` and `NameArgs`, and one line of
help."""

USAGE, FAILED, INTERRUPTED = 2, 1, 130
COMPILER_LOG: Final = "TF_CPP_MIN_LOG_LEVEL"
"""The variable that says what the compiler may tell: 0 everything, 3 nothing. JAX sets it to 1 unless the user has set
it, and what a Python process starts inherits that."""
GRACE: Final = 2.0
"""Seconds that a command has to end by itself when it is interrupted."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; the exit code is 0 iff it did what was asked.

    Without arguments of its own it is the `atlas` program, which ends within seconds if it is interrupted.
    """
    if argv is not None:
        return _main(list(argv))
    over = threading.Event()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reading, over), daemon=True).start()
    code = _main(sys.argv[1:])
    over.set()
    if code == INTERRUPTED:
        _leave()
    return code


def _main(arguments: list[str]) -> int:
    debug = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"]
    if not arguments:
        print(_tour())
        return 0
    if arguments[0] in ("-h", "--help"):
        print(_help())
        return 0
    if arguments[0] == "--version":
        print(_version())
        return 0
    try:
        if os.environ.get(COMPILER_LOG, "1") == "1":
            os.environ[COMPILER_LOG] = "3"  # without XLA's alarms about slow compilation; errors are raised, too
        with warnings.catch_warnings():
            # Processes that are started from ours run another program at once.
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
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


def _watch(reading: int, over: threading.Event) -> None:
    """Python can interrupt neither the compiler nor code that swallows the interruption. Commands that have a handler
    of their own, to save something first, are let be."""
    while True:
        number = os.read(reading, 1)[0]
        if number == signal.SIGINT and signal.getsignal(number) is signal.default_int_handler and not over.wait(GRACE):
            _complain("stopped", INTERRUPTED)
            _leave()


def _leave() -> NoReturn:
    """End at once: threads of the compiler may still run, and would crash if Python were taken down under them."""
    import multiprocessing.util  # at the start of every command it would take a tenth of the time

    for child in multiprocessing.active_children():
        child.terminate()
    # Semaphores of pools: else Python complains about them.
    multiprocessing.util._run_finalizers(0)  # type: ignore[attr-defined]
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(INTERRUPTED)


def _run(name: str, arguments: list[str]) -> int:
    if name == "--print-completion":
        from atlas.commands.completion import SHELLS, script

        if len(arguments) != 1:
            raise AtlasError(f"--print-completion needs the name of a shell: {', '.join(SHELLS)}")
        print(script(arguments[0]))
        return 0
    if name not in COMMANDS:
        hint = nearest(name, COMMANDS) or f"; there are {', '.join(sorted(COMMANDS))}"
        raise AtlasError(f"there is no command '{name}'{hint}")
    module = importlib.import_module(f"atlas.commands.{COMMANDS[name][0]}")
    code = getattr(module, f"{name}_command")(arguments)
    if code == 0 and sys.stdout.isatty():  # what is piped stays as it is
        from atlas.commands.hints import after

        if hint := after(name, arguments):
            print(f"\n{hint}")
    return code


def _sentence(error: Exception) -> tuple[str, int]:
    """The message for the user, and the exit code."""
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
        "`atlas COMMAND --help` tells more. `--debug` shows tracebacks, `--version` the version;\n"
        "`--print-completion bash|zsh|fish` prints a script with which a shell completes commands and options."
    )


TOUR: Final = {
    'watch zoo:quick --task "pick up a key, then go to a ball"': "a trained policy does as you say",
    'task "open the red door, then pick up a ball"': "what a sentence means: a small machine",
    "zoo": "the trained policies that come with ATLAS, and how good they are",
    "eval zoo:quick --problems hand --attempts 2": "where one of them fails",
    "train quick": "train your own in minutes; it says at the end how to watch it",
}
"""Commands to try, in this order, and what each shows; none needs another before it."""


def _tour() -> str:
    steps = (f"  {number}. atlas {line}\n     {words}" for number, (line, words) in enumerate(TOUR.items(), 1))
    return (
        "ATLAS trains agents that follow instructions in worlds they have never seen.\n\n"
        "Five commands to try, in order:\n\n"
        + "\n".join(steps)
        + "\n\n`atlas --help` lists all commands, `atlas COMMAND --help` tells about one."
    )


def _version() -> str:
    import atlas

    return f"atlas {atlas.__version__}"
