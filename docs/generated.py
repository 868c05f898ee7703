"""Pages that are written by the code they describe: every setting, every command, every preset.

A page of the documentation has a comment `<!-- generated: NAME -->` where one of them belongs; `conf.py` puts it there.
"""

import ast
import contextlib
import dataclasses
import inspect
import io
import os
import re
import textwrap
import typing
from collections.abc import Callable, Iterator
from itertools import pairwise

from atlas.cli import COMMANDS, main
from atlas.config import Config
from atlas.presets import config_of, presets
from atlas.settings import Settings, describe, flat, show, to_plain

WIDTH = "110"
"""Columns of the help texts that are read here: wide, but not so wide that they are set in several columns."""


def settings_page() -> str:
    """Every setting of every section: what it means, what is allowed, its default, and its value in `quick`."""
    used = flat(to_plain(config_of("quick")))
    return "\n\n".join(_section(Config, "", used))


def _section(cls: type[Settings], name: str, used: dict[str, object], level: int = 2) -> Iterator[str]:
    """The settings of a section, then the sections within it. One with variants has a part for each of them, and what
    several of them contain comes once, behind them."""
    hints = typing.get_type_hints(cls)
    variants: dict[str, type[Settings]] = cls.variants() if name in ("domain", "teacher") else {}
    if variants:
        yield f"{'#' * level} `{name}`"
        yield f"`{name}.name` chooses among {_listed(variants)}."
        within: dict[str, tuple[type[Settings], list[str]]] = {}
        for kind, variant in variants.items():
            yield f"{'#' * (level + 1)} `{name}.name: {kind}`"
            yield from _settings(variant, name, used if used[f"{name}.name"] == kind else {})
            for key, hint in typing.get_type_hints(variant).items():
                if _is_section(hint):
                    within.setdefault(key, (hint, []))[1].append(kind)
        for key, (inner, owners) in within.items():
            yield f"{'#' * (level + 1)} `{name}.{key}`"
            yield f"Of {_listed(owners)}."
            yield from _settings(inner, f"{name}.{key}", used)
        return
    if not all(map(_is_section, (hints[field.name] for field in dataclasses.fields(cls)))):
        yield f"{'#' * level} `{name}`"
        yield from _settings(cls, name, used)
    for field in dataclasses.fields(cls):
        if _is_section(hints[field.name]):
            yield from _section(hints[field.name], f"{name}.{field.name}".lstrip("."), used, level)


def _settings(cls: type[Settings], name: str, used: dict[str, object]) -> Iterator[str]:
    """What a section is, and its own settings."""
    hints, words = typing.get_type_hints(cls), _field_words(cls)
    yield " ".join(inspect.cleandoc(cls.__doc__ or "").split())
    for field in dataclasses.fields(cls):
        if field.name != "name" and not _is_section(hints[field.name]):
            yield _setting(f"{name}.{field.name}", hints[field.name], field, words[field.name], used)


def _is_section(hint: object) -> bool:
    return isinstance(hint, type) and issubclass(hint, Settings)


def _setting(key: str, hint: object, field: dataclasses.Field, words: str, used: dict[str, object]) -> str:
    allowed = [describe(hint)]
    allowed += [f"{word} {field.metadata[bound]:g}" for bound, word in BOUNDS if field.metadata.get(bound) is not None]
    if field.metadata.get("one_of"):
        allowed = [f"one of {', '.join(field.metadata['one_of']())}" if field.metadata["one_of"]() else "names"]
    default = show(field.default).replace("[]", "empty")
    told = f"{', '.join(allowed)}; default {default}"
    in_quick = used.get(key)
    if key in used and show(in_quick) != show(field.default):
        told += f"; in `quick` {show(in_quick)}"
    return f"`{key}`\n: {words}\n  *{told}*"


BOUNDS = (("at_least", "at least"), ("at_most", "at most"), ("above", "more than"))


def _field_words(cls: type) -> dict[str, str]:
    """The docstrings below the fields of a dataclass, those of its bases included."""
    found: dict[str, str] = {}
    for one in reversed(cls.__mro__):
        if dataclasses.is_dataclass(one):
            body = ast.parse(textwrap.dedent(inspect.getsource(one))).body[0].body  # type: ignore[attr-defined]
            for line, after in pairwise(body):
                if isinstance(line, ast.AnnAssign) and isinstance(after, ast.Expr):
                    found[ast.unparse(line.target)] = " ".join(str(ast.literal_eval(after.value)).split())
    return found


def _listed(names: typing.Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def commands_page() -> str:
    """Every command: what its `--help` says, and for commands with subcommands that of each."""
    return "\n\n".join(part for name in COMMANDS for part in _command(name, "##"))


def _command(name: str, heading: str) -> Iterator[str]:
    usage, about, boxes = read_help(_help_of(name))
    yield f"{heading} `atlas {name}`"
    yield f"```text\n{usage}\n```"
    yield about
    for title, rows in boxes.items():
        if title == "subcommands":
            for row, _ in rows:
                yield from _command(f"{name} {row.split()[1]}", heading + "#")
        elif title in ("positional arguments", "options"):
            yield from (_option(head, told) for head, told in rows if not head.startswith("-h"))
    if any(title.endswith(" options") for title in boxes):
        yield "… and every setting as a flag, for instance `--run.seed 1`: [settings](settings.md)."


def _help_of(name: str) -> str:
    """What the command prints, with boxes drawn in Unicode and at a width of its own."""
    text, kept = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = WIDTH
    try:
        with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
            main([*name.split(), "--help"])
    finally:
        os.environ.pop("COLUMNS") if kept is None else os.environ.update(COLUMNS=kept)
    text.seek(0)
    return text.read()


Rows = list[tuple[str, str]]


def read_help(text: str) -> tuple[str, str, dict[str, Rows]]:
    """A help text taken apart: usage, description, and the rows of each box (flag, what it says)."""
    before, *drawn = re.split(r"^╭─ (.*?) ─*╮$", text, flags=re.MULTILINE)
    usage, _, about = before.removeprefix("usage: ").partition("\n\n")
    boxes: dict[str, Rows] = {}
    for title, content in zip(drawn[::2], drawn[1::2], strict=True):
        rows: Rows = []
        for line in re.findall(r"^│(.*)│$", content, re.MULTILINE):
            head, _, told = line[1:].rstrip().partition("  ")
            if head and (title == "positional arguments" or re.match(r"-|•", head)):
                rows.append((head, told.strip()))
            elif line.strip().startswith("• "):
                head, _, told = line.strip().partition("  ")
                rows.append((head, told.strip()))
            elif rows:
                rows[-1] = rows[-1][0], f"{rows[-1][1]} {line.strip()}".strip()
        boxes[title] = rows
    return _plainly(" ".join(usage.split())), _paragraphs(about), boxes


def _plainly(usage: str) -> str:
    """Flags and arguments as people write them: what may be left out once in brackets, no values that mean nothing."""
    usage = re.sub(r"\[-h\] |\{None\}\|| \| --no-[\w.-]+", "", usage)
    return re.sub(r"\[+([A-Z]+) \[\1 \.\.\.\]+", r"[\1 …]", usage)


def _paragraphs(text: str) -> str:
    """Lines of a paragraph joined; indented lines stay apart, as a list."""
    lines = [f"- {line.strip()}" if line.startswith("  ") else line for line in text.strip().splitlines()]
    return re.sub(r"(?<!\n)\n(?!\n|- )", " ", re.sub(r"\n{3,}", "\n\n", "\n".join(lines)))


def _option(head: str, told: str) -> str:
    """A flag or argument as people write it, and what it does."""
    words, _, default = told.rpartition("(default: ")
    if not words:
        words, default = told.removesuffix("(required)"), ""
    default = default.removesuffix(")")
    flags = [flag.strip() for flag in head.split(", ")]
    if len(flags) == 2 and flags[1].startswith("--no-"):  # the one that changes something
        flags, default = [flags[default == "True"]], ""
    usual = f" *Default: {default}.*" if default not in ("", "None") else ""
    return f"`{_plainly(', '.join(flags))}`\n: {words.strip()}{usual}"


def presets_page() -> str:
    """Every preset with its line."""
    return "\n\n".join(f"`{name}`\n: {one.summary}" for name, one in presets().items())


PAGES: dict[str, Callable[[], str]] = {
    "settings": settings_page,
    "commands": commands_page,
    "presets": presets_page,
}


def fill(text: str) -> str:
    """A page with its generated parts."""
    return re.sub(r"<!-- generated: (\w+) -->", lambda found: PAGES[found[1]](), text)
