"""Tables: as CSV for machines, as LaTeX for papers, as HTML that can be sorted."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Final

from atlas.runs.store import write_whole

LATEX: Final = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "⊥": r"$\bot$",
    '"': r"\textquotedbl{}", "…": r"\ldots{}", "±": r"$\pm$", "–": "--", "\n": " ",
}  # fmt: skip
"""Characters that LaTeX would take for something else."""
LONG: Final = 40
"""A table of more rows is broken over pages."""


@dataclass(frozen=True)
class Number:
    """A number with what is known of its spread."""

    value: float
    low: float | None = None
    high: float | None = None
    spread: float | None = None
    """Standard deviation over runs, where there are several."""
    digits: int = 2

    def text(self) -> str:
        """As people read it."""
        told = f"{self.value:.{self.digits}f}"
        if self.low is not None and self.high is not None:
            return f"{told} ({self.low:.{self.digits}f}–{self.high:.{self.digits}f})"
        return f"{told} ± {self.spread:.{self.digits}f}" if self.spread is not None else told

    def latex(self) -> str:
        """As papers print it."""
        told = f"{self.value:.{self.digits}f}"
        if self.low is not None and self.high is not None:
            return f"${told}$ [${self.low:.{self.digits}f}$, ${self.high:.{self.digits}f}$]"
        return rf"${told} \pm {self.spread:.{self.digits}f}$" if self.spread is not None else f"${told}$"


Cell = str | int | float | Number | None


@dataclass(frozen=True)
class Table:
    """Rows under columns."""

    name: str
    """The name of its files."""
    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]] = field(repr=False)


def save_table(table: Table, folder: Path) -> list[Path]:
    """Write a table as CSV and LaTeX."""
    paths = [folder / f"{table.name}.csv", folder / f"{table.name}.tex"]
    for path, content in zip(paths, (to_csv(table), to_latex(table)), strict=True):
        write_whole(path, content)
    return paths


def to_csv(table: Table) -> str:
    """Bare numbers; intervals and deviations stand in columns of their own."""
    extras = [_extras(table, place) for place in range(len(table.columns))]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    names = zip(table.columns, extras, strict=True)
    writer.writerow([name for column, more in names for name in (column, *(f"{column} {word}" for word in more))])
    for row in table.rows:
        writer.writerow([value for cell, more in zip(row, extras, strict=True) for value in _plain(cell, more)])
    return buffer.getvalue()


def _extras(table: Table, place: int) -> list[str]:
    """Which of low, high and spread any cell of a column has."""
    cells = [row[place] for row in table.rows if isinstance(row[place], Number)]
    return [word for word in ("low", "high", "spread") if any(getattr(cell, word) is not None for cell in cells)]


def _plain(cell: Cell, extras: Sequence[str]) -> list[Any]:
    if isinstance(cell, Number):
        return [cell.value, *(getattr(cell, word) for word in extras)]
    return [cell, *[None] * len(extras)]


def to_latex(table: Table) -> str:
    """In the style of booktabs; long tables run over pages (longtable)."""
    numeric = [_is_numeric(table, place) for place in range(len(table.columns))]
    sides = "".join("r" if number else "l" for number in numeric)
    head = " & ".join(map(tex, table.columns)) + r" \\"
    rows = [" & ".join(map(_latex_cell, row)) + r" \\" for row in table.rows]
    label = rf"\label{{tab:{table.name}}}"
    packages = "% needs: booktabs" + (", longtable" if len(rows) > LONG else "")
    if len(rows) > LONG:
        lines = [
            packages, rf"\begin{{longtable}}{{{sides}}}", rf"\caption{{{tex(table.title)}}}{label}\\",
            r"\toprule", head, r"\midrule", r"\endfirsthead", r"\toprule", head, r"\midrule", r"\endhead",
            r"\bottomrule", r"\endfoot", *rows, r"\end{longtable}",
        ]  # fmt: skip
    else:
        lines = [
            packages, r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{{sides}}}", r"\toprule", head,
            r"\midrule", *rows, r"\bottomrule", r"\end{tabular}", rf"\caption{{{tex(table.title)}}}", label,
            r"\end{table}",
        ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _is_numeric(table: Table, place: int) -> bool:
    cells = [row[place] for row in table.rows if row[place] is not None]
    return bool(cells) and all(isinstance(cell, int | float | Number) for cell in cells)


def _latex_cell(cell: Cell) -> str:
    if cell is None:
        return "--"
    if isinstance(cell, Number):
        return cell.latex()
    return f"${_text(cell).replace(',', '{,}')}$" if isinstance(cell, int | float) else tex(cell)


def tex(words: str) -> str:
    """Words that LaTeX prints as they are."""
    return "".join(LATEX.get(letter, letter) for letter in words)


def _text(cell: Cell) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, Number):
        return cell.text()
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:.4g}" if isinstance(cell, float) else cell


def to_html(table: Table, most: int | None = None) -> str:
    """A table whose columns sort when their heads are pressed; at most so many rows of it."""
    numeric = [_is_numeric(table, place) for place in range(len(table.columns))]
    heads = "".join(
        f'<th scope="col"{_side(number)}><button type="button">{escape(column)}</button></th>'
        for column, number in zip(table.columns, numeric, strict=True)
    )
    rows = "".join(
        f"<tr>{''.join(map(_html_cell, row, numeric))}</tr>\n"
        for row in (table.rows if most is None else table.rows[:most])
    )
    return f'<table class="sortable"><thead><tr>{heads}</tr></thead><tbody>\n{rows}</tbody></table>'


def _side(number: bool) -> str:
    return ' class="number"' if number else ""


def _html_cell(cell: Cell, number: bool) -> str:
    value = cell.value if isinstance(cell, Number) else cell
    key = f' data-key="{value}"' if isinstance(value, int | float) else ""
    meter = _meter(cell) if isinstance(cell, Number) and 0 <= cell.value <= 1 else ""
    return f"<td{_side(number)}{key}>{meter}{escape(_text(cell))}</td>"


def _meter(rate: Number) -> str:
    """A small bar that shows a rate at a glance."""
    return f'<i class="meter" style="--rate:{rate.value:.3f}"></i>'
