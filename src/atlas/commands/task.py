"""`atlas task`: read a task, then explain, draw, check or convert it. Words need neither JAX nor Pillow nor YAML."""

import json
import re
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import tyro

from atlas.commands.inputs import DOMAIN
from atlas.errors import MOST_LETTERS, AtlasError
from atlas.runs.screen import wrote

if TYPE_CHECKING:
    from atlas.tasks.english import Reading
    from atlas.tasks.machine import Task
    from atlas.vocabulary import Vocabulary

TEXT_SUFFIXES = (".txt", ".ltlf", ".hoa", ".dot")
LOOKS_LIKE_LTLF = re.compile(r"\b[FGXNUWR]\s*\(|[&|]|->")


@dataclass(frozen=True)
class TaskArgs:
    """Read a task and tell about it: what it asks for in English, a drawing, and what is odd about it.

    Options that print something (--explain, --yaml, --dot, --hoa, --check) print only that.

    A task is English ("go to a ball, then put the red key next to a locked door"), LTLf with --ltlf
    ("F(front_ball & X F carrying_key)"), or the name of a file: YAML as in problems, .txt (English), .ltlf, .hoa, .dot.
    """

    task: tyro.conf.Positional[str]
    """A task in words, a formula, a file, or - to read words from the standard input."""
    domain: Annotated[Optional[str], DOMAIN] = None  # noqa: UP045 (see `svg`)
    """Whose words and propositions: minigrid (if not given) or letterworld; a problem file says so itself."""
    ltlf: bool = False
    """Read the words as an LTLf formula."""
    level: Annotated[Optional[str], tyro.conf.arg(metavar="PROBLEM")] = None  # noqa: UP045
    """The problem or level whose things `all` and `every` speak of."""
    explain: bool = False
    """Print the task in English."""
    check: bool = False
    """Print traces that satisfy the task and traces that do not, and what is odd about it; the exit code is 1 if there
    are errors."""
    yaml: bool = False
    """Print the task as explicit transitions."""
    dot: bool = False
    """Print the task for Graphviz."""
    hoa: bool = False
    """Print the task as an automaton in HOA."""
    svg: Optional[Path] = None  # noqa: UP045 (of `Path | None` tyro would check the default with typeguard: slow)
    """Write a drawing that scales."""
    png: Optional[Path] = None  # noqa: UP045
    """Write a drawing."""
    scale: Annotated[float, tyro.conf.arg(metavar="NUMBER")] = 2.0
    """Size of the PNG."""
    json: bool = False
    """Print JSON: explanation, transitions, findings."""


def task_command(argv: list[str]) -> int:
    """Print, and write drawings where asked."""
    args = tyro.cli(TaskArgs, args=argv, prog="atlas task")
    if args.svg is not None or args.png is not None:
        from atlas.documents import require_file

        require_file(args.svg, ".svg")
        require_file(args.png, ".png")
    if not 0.1 <= args.scale <= 20:
        raise AtlasError(f"--scale {args.scale:g} is not possible: from 0.1 to 20 is allowed")
    from atlas.domains import vocabulary_of
    from atlas.errors import TaskWarning
    from atlas.tasks import formats
    from atlas.tasks.check import Finding, check
    from atlas.tasks.explain import explain, in_one_line

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TaskWarning)
        (task, phrase, notes), domain = _read(args)
    vocabulary = vocabulary_of(domain)
    found = check(task, vocabulary)
    doubts = dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, TaskWarning))
    findings = [
        *(Finding("note", note) for note in notes),
        *(Finding("warning", doubt) for doubt in doubts if not any(f.sentence in doubt for f in found)),
        *found,
    ]
    if args.svg is not None or args.png is not None:
        _write_drawings(task, domain, args)
    explanation, plain = explain(task, vocabulary), formats.to_plain(task, vocabulary)
    if args.json:
        done, undone = _examples(task, vocabulary)
        facts = {
            "explanation": explanation,
            "understood": in_one_line(task, vocabulary, phrase),
            "machines": len(task.machines),
            "states": sum(len(machine.states) for machine in task.machines),
            "edges": sum(len(machine.edges) for machine in task.machines),
            **plain,
            "findings": [{"level": finding.level, "sentence": finding.sentence} for finding in findings],
            "examples": {"satisfy": done, "do_not": undone},
        }
        print(json.dumps(facts, ensure_ascii=False))
    else:
        listed = "\n".join(f"{finding.level}: {finding.sentence}" for finding in findings)
        parts = []
        if args.explain:
            parts.append(explanation)
        if args.yaml:
            import yaml

            parts.append(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True).rstrip())
        if args.dot:
            parts.append(formats.to_dot(task, vocabulary).rstrip())
        if args.hoa:
            parts.append(formats.to_hoa(task, vocabulary, explanation).rstrip())
        if args.check:
            done, undone = _examples(task, vocabulary)
            told = ["these traces satisfy it:"] * bool(done) + [f"  {_trace(labels)}" for labels in done]
            told += ["these do not:"] * bool(undone) + [f"  {_trace(labels)}" for labels in undone]
            parts += ["\n".join(told)] * bool(told) + [listed or "nothing odd was found"]
        if not parts:
            from rich.text import Text

            from atlas.runs.screen import Screen
            from atlas.tasks.draw import task_text

            shown = [Text(in_one_line(task, vocabulary, phrase)), task_text(task, vocabulary), Text(listed)]
            Screen().print(Text("\n\n").join(filter(None, shown)), soft_wrap=True)
        print("\n\n".join(parts), end="\n" if parts else "")
        if not (args.yaml or args.dot or args.hoa):  # these are for other programs to read
            wrote(args.svg)
            wrote(args.png)
    return int(args.check and any(finding.level == "error" for finding in findings))


def _examples(task: "Task", vocabulary: "Vocabulary") -> tuple[list[list[list[str]]], list[list[list[str]]]]:
    """Traces that satisfy a task and traces that do not, each label by the names that tell the rest."""
    from atlas.tasks.check import examples, most_specific

    try:
        found = examples(task, vocabulary)
    except AtlasError:  # too large to be examined
        return [], []
    named = [
        [[[vocabulary.names[p] for p in most_specific(label, vocabulary)] for label in labels] for labels in traces]
        for traces in found
    ]
    return named[0], named[1]


def _trace(labels: list[list[str]]) -> str:
    return " → ".join(" & ".join(names) or "{}" for names in labels)


def _read(args: TaskArgs) -> "tuple[Reading, str]":
    """The task as it was understood, and its domain."""
    from atlas.domains import known_domain, vocabulary_of
    from atlas.tasks.english import Reading

    domain = known_domain(args.domain)
    path, vocabulary = Path(args.task), vocabulary_of(domain)
    if args.task == "-":
        try:
            return _from_words(sys.stdin.read(MOST_LETTERS + 1), args, vocabulary), domain
        except UnicodeDecodeError:
            raise AtlasError("the standard input is no text in UTF-8") from None
    try:
        is_file = path.exists() and not path.is_dir()  # a pipe is refused where it is read
    except OSError:  # words can be longer than any file name
        is_file = False
    if not is_file:
        if path.suffix in (*TEXT_SUFFIXES, ".yaml", ".yml") and " " not in args.task:
            raise AtlasError(f"{path} does not exist")
        return _from_words(args.task, args, vocabulary), domain
    if path.suffix not in TEXT_SUFFIXES:
        from atlas.runs.problem_files import read_task

        task, domain = read_task(path, args.domain)
        if args.domain not in (None, domain):
            raise AtlasError(f"{path} is a problem of {domain}, not of {args.domain}")
        return Reading(task, None, ()), domain
    from atlas.documents import read_text
    from atlas.tasks.formats import from_dot, from_hoa

    text = read_text(path)
    if path.suffix in (".hoa", ".dot"):
        return Reading((from_hoa if path.suffix == ".hoa" else from_dot)(text, vocabulary), None, ()), domain
    return _from_words(text, args, vocabulary, is_ltlf=path.suffix == ".ltlf"), domain


def _from_words(text: str, args: TaskArgs, vocabulary: "Vocabulary", is_ltlf: bool = False) -> "Reading":
    from atlas.tasks.english import Reading, read
    from atlas.tasks.ltlf import ltlf, parse

    if is_ltlf or args.ltlf:
        return Reading(ltlf(text, vocabulary), None, ())
    things = None
    if args.level is not None:
        from atlas.domains import name_for, surface_for, vocabulary_of
        from atlas.runs.problem_files import choose

        chosen = choose(args.level)
        if vocabulary_of(name_for(chosen)) is not vocabulary:
            raise AtlasError(f"{args.level} is a level of {name_for(chosen)}: say so with --domain {name_for(chosen)}")
        things = surface_for(chosen).things(getattr(chosen, "level", chosen))
    try:
        return read(text, vocabulary, things)
    except AtlasError as error:
        try:
            parse(text, vocabulary)
        except AtlasError:
            if not LOOKS_LIKE_LTLF.search(text):
                raise error from None
            raise AtlasError(f"{error}\nIt looks like LTLf: add --ltlf to read it as a formula.") from None
        raise AtlasError(f"{error}\nThis is an LTLf formula: add --ltlf to read it as one.") from None


def _write_drawings(task: "Task", domain: str, args: TaskArgs) -> None:
    from atlas.domains import surface_of, vocabulary_of
    from atlas.runs.store import write_whole
    from atlas.show import canvas, media
    from atlas.tasks.draw import task_drawing

    drawing = task_drawing(task, vocabulary_of(domain), surface_of(domain).sign)
    if args.svg is not None:
        write_whole(args.svg, canvas.svg(drawing))
    if args.png is not None:
        media.save_picture(canvas.pixels(drawing, args.scale), args.png)
