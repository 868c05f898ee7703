"""Numbers and times as people read them, and commands as they can be pasted."""

import shlex
import shutil
import sys
from pathlib import Path


def short(number: float) -> str:
    """A large number in few letters: `4.2 G`, `310 k`."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


def size(number: float) -> str:
    """Bytes as people read them: `1.2 GB`, `61 MB`, `0.4 MB`, `12.5 KB`."""
    if number < 1e5:
        return f"{number / 1e3:.3g} KB"
    return f"{number / 1e9:.1f} GB" if number >= 1e9 else f"{number / 1e6:.{0 if number >= 1e7 else 1}f} MB"


def clock(seconds: float) -> str:
    """`1:05:09` or `5:09`."""
    hours, rest = divmod(int(seconds), 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def plural(count: int, noun: str) -> str:
    """`1 run`, `2 runs`, `1,200 runs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def counted(count: int, things: str) -> str:
    """`2 rooms`, `1 room`, and `no rooms` (of mazes, say), for a measure that is called by its plural."""
    if count == 0:
        return f"no {things}"
    return f"{count} {things.removesuffix('s') if count == 1 else things}"


def command(*arguments: object) -> str:
    """An `atlas` command that can be pasted where this one was given: `.venv/bin/atlas resume runs/quick`."""
    called = sys.argv[0]
    if Path(called).parts[-2:] == ("atlas", "__main__.py"):
        start = [sys.orig_argv[0], "-m", "atlas"]
    else:
        found = shutil.which("atlas")
        known = Path(called).name != "atlas" or (found is not None and Path(found).resolve() == Path(called).resolve())
        start = ["atlas" if known else called]
    return shlex.join([*start, *map(str, arguments)])
