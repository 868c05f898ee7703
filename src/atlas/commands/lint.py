"""`atlas lint`: look for mistakes in a set of problems."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

if TYPE_CHECKING:
    from atlas.lint import Finding


@dataclass(frozen=True)
class Args:
    """Look for problems that cannot be read, cannot be solved, are solved by the first label or are there twice.

    Also told, as warnings: objects out of reach, doubts about a task, and problems that could not be decided. The exit
    code is 1 if there are errors.
    """

    set: tyro.conf.Positional[Path]
    """A problem or a set: any file or folder that ATLAS reads."""
    step_limit: int = 512
    """A plan may take so many steps."""
    workers: int = 0
    """Processes to search with; 0 takes one a core for large sets and one for small ones."""
    json: bool = False
    """Print JSON: the findings, and how many problems and errors there are."""


def main(argv: list[str]) -> int:
    """Look, print, and fail if there are errors."""
    args = tyro.cli(Args, args=argv, prog="atlas lint")
    from atlas.lint import lint
    from atlas.runs.progress import bar

    with bar("looking") as progress:
        problems, findings = lint(args.set, args.step_limit, args.workers, progress)
    errors = sum(finding.level == "error" for finding in findings)
    if args.json:
        rows = [asdict(finding) for finding in findings]
        print(json.dumps({"problems": len(problems), "errors": errors, "findings": rows}))
    else:
        _print(findings, len(problems), errors)
    return 1 if errors else 0


def _print(findings: "list[Finding]", problems: int, errors: int) -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, soft_wrap=True)
    for finding in findings:
        colour = "red" if finding.level == "error" else "yellow"
        console.print(f"{escape(finding.problem)}: [{colour}]{finding.kind}[/]: {escape(finding.sentence)}")
    warnings = len(findings) - errors
    console.print(f"{_count(problems, 'problem')}: {_count(errors, 'error')}, {_count(warnings, 'warning')}")


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"
