"""`atlas task`: read a task, then explain, draw, check or convert it."""

import json
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from atlas.errors import AtlasError

if TYPE_CHECKING:
    from atlas.tasks.check import Finding

TEXT_SUFFIXES = (".txt", ".ltlf", ".hoa")


@dataclass(frozen=True)
class Args:
    """Read a task and tell about it: what it asks for in English, a drawing, and what is odd about it.

    Options that print something (--explain, --yaml, --dot, --hoa, --check) print only that.

    A task is English ("go to a ball, then put the red key next to a locked door"), LTLf with --ltlf
    ("F(front_ball & X F carrying_key)"), or the name of a file: YAML as in problems, .txt (English), .ltlf or .hoa.
    """

    task: tyro.conf.Positional[str]
    """A task in words, a formula, a file, or - to read words from the standard input."""
    ltlf: bool = False
    """Read the words as an LTLf formula."""
    explain: bool = False
    """Print the task in English."""
    check: bool = False
    """Print what is odd about the task; the exit code is 1 if there are errors."""
    yaml: bool = False
    """Print the task as explicit transitions."""
    dot: bool = False
    """Print the task for Graphviz."""
    hoa: bool = False
    """Print the task as an automaton in HOA."""
    svg: Path | None = None
    """Write a drawing that scales."""
    png: Path | None = None
    """Write a drawing."""
    scale: Annotated[float, tyro.conf.arg(metavar="NUMBER")] = 2.0
    """Size of the PNG."""
    json: bool = False
    """Print JSON: explanation, transitions, findings."""


def task_command(argv: list[str]) -> int:
    """Print, and write drawings where asked."""
    args = tyro.cli(Args, args=argv, prog="atlas task")
    from atlas.api import minigrid_vocabulary
    from atlas.tasks.check import check

    vocabulary = minigrid_vocabulary()
    task, doubts = _read(args, vocabulary)
    found = check(task, vocabulary)
    findings = [*(doubt for doubt in doubts if not any(f.sentence in doubt.sentence for f in found)), *found]
    _write_drawings(task, vocabulary, args)
    if args.json:
        print(json.dumps(_facts(task, vocabulary, findings), ensure_ascii=False))
    else:
        _print(task, vocabulary, findings, args)
    return int(args.check and any(finding.level == "error" for finding in findings))


def _read(args: Args, vocabulary: Any) -> "tuple[Any, list[Finding]]":
    """The task, and what reading it gave rise to."""
    from atlas.errors import TaskWarning
    from atlas.tasks.check import Finding

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TaskWarning)
        task = _parse(args, vocabulary)
    doubts = [Finding("warning", str(w.message)) for w in caught if issubclass(w.category, TaskWarning)]
    return task, list(dict.fromkeys(doubts))


def _parse(args: Args, vocabulary: Any) -> Any:
    path = Path(args.task)
    if args.task == "-":
        return _from_words(sys.stdin.read(), args.ltlf, vocabulary)
    if not _is_file(path):
        if path.suffix in (*TEXT_SUFFIXES, ".yaml", ".yml") and " " not in args.task:
            raise AtlasError(f"{path} does not exist")
        return _from_words(args.task, args.ltlf, vocabulary)
    if path.suffix not in TEXT_SUFFIXES:
        from atlas.runs.problem_files import load_task

        return load_task(path)
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".hoa":
        return _from_words(text, args.ltlf or path.suffix == ".ltlf", vocabulary)
    from atlas.tasks.formats import from_hoa

    return from_hoa(text, vocabulary)


def _from_words(text: str, is_ltlf: bool, vocabulary: Any) -> Any:
    from atlas.tasks.english import english
    from atlas.tasks.ltlf import ltlf

    if is_ltlf:
        return ltlf(text, vocabulary)
    try:
        return english(text, vocabulary)
    except AtlasError as error:
        if not _is_formula(text, vocabulary):
            raise
        raise AtlasError(f"{error}\nThis is an LTLf formula: add --ltlf to read it as one.") from None


def _is_formula(text: str, vocabulary: Any) -> bool:
    from atlas.tasks.ltlf import parse

    try:
        return bool(parse(text, vocabulary.ids))
    except AtlasError:
        return False


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # words can be longer than any file name
        return False


def _write_drawings(task: Any, vocabulary: Any, args: Args) -> None:
    if args.svg is None and args.png is None:
        return
    from atlas.domains.minigrid.draw import sign
    from atlas.runs.store import write_whole
    from atlas.show import canvas, media
    from atlas.tasks.draw import task_drawing
    from atlas.tasks.packed import unpack

    if not 0.1 <= args.scale <= 20:
        raise AtlasError(f"--scale {args.scale:g} is not possible: from 0.1 to 20 is allowed")
    drawing = task_drawing(unpack(task), vocabulary, sign)
    if args.svg is not None:
        write_whole(args.svg, canvas.svg(drawing))
    if args.png is not None:
        media.save_picture(canvas.pixels(drawing, args.scale), args.png)


def _print(task: Any, vocabulary: Any, findings: "list[Finding]", args: Args) -> None:
    from atlas.tasks.explain import explain
    from atlas.tasks.formats import to_dot, to_hoa

    explanation = explain(task, vocabulary)
    parts = []
    if args.explain:
        parts.append(explanation)
    if args.yaml:
        parts.append(_yaml(task, vocabulary))
    if args.dot:
        parts.append(to_dot(task, vocabulary).rstrip())
    if args.hoa:
        parts.append(to_hoa(task, vocabulary, explanation).rstrip())
    if args.check:
        parts.append(_listed(findings) or "nothing odd was found")
    if parts:
        print("\n\n".join(parts))
        return
    from rich.console import Console
    from rich.text import Text

    from atlas.domains.minigrid.draw import sign
    from atlas.tasks.draw import task_text
    from atlas.tasks.packed import unpack

    shown = [Text(explanation), task_text(unpack(task), vocabulary, sign), Text(_listed(findings))]
    Console().print(Text("\n\n").join(filter(None, shown)), soft_wrap=True)


def _yaml(task: Any, vocabulary: Any) -> str:
    import yaml

    from atlas.tasks.formats import task_to_plain

    return yaml.safe_dump(task_to_plain(task, vocabulary), sort_keys=False, allow_unicode=True).rstrip()


def _listed(findings: "list[Finding]") -> str:
    return "\n".join(f"{finding.level}: {finding.sentence}" for finding in findings)


def _facts(task: Any, vocabulary: Any, findings: "list[Finding]") -> dict[str, Any]:
    from atlas.tasks.explain import explain
    from atlas.tasks.formats import task_to_plain
    from atlas.tasks.view import view

    machines = view(task).machines
    return {
        "explanation": explain(task, vocabulary),
        "machines": len(machines),
        "states": sum(len(machine.outcome) for machine in machines),
        "edges": sum(len(machine.edges) for machine in machines),
        **task_to_plain(task, vocabulary),
        "findings": [{"level": finding.level, "sentence": finding.sentence} for finding in findings],
    }
