"""The ledger as a table, in a terminal and in Markdown."""

from collections.abc import Sequence

from rich import box
from rich.table import Table

from atlas.bench.rows import Row

HEADERS = ("", "median", "spread", "by processor", "compile", "of its limit")
PROCESSOR = HEADERS.index("by processor")
WIDE = 96
"""Columns of a terminal in which the whole table fits."""


def table(title: str, rows: Sequence[Row], width: int = WIDE) -> Table:
    """One part. Columns that say nothing are left out; where there is little room, so is processor time."""
    lines = [cells(row) for row in rows]
    made = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    told = [number for number in range(len(HEADERS)) if any(line[number] for line in lines)]
    shown = [number for number in told if width >= WIDE or number != PROCESSOR]
    for number in shown:
        made.add_column(HEADERS[number], justify="right" if number else "left", no_wrap=number > 0)
    for line in lines:
        made.add_row(*(line[number] for number in shown))
    return made


def markdown(title: str, rows: Sequence[Row]) -> str:
    """The same for a document."""
    lines = [f"| {title} | {' | '.join(HEADERS[1:])} |", "|---" + "|---:" * (len(HEADERS) - 1) + "|"]
    return "\n".join(lines + [f"| {' | '.join(cells(row))} |" for row in rows])


def cells(row: Row) -> tuple[str, ...]:
    """The columns of a row, as text; nothing where there is nothing to say."""
    return (
        row.name,
        f"{figure(row.median)} {row.unit}",
        f"± {100 * row.spread:.0f} %" if row.repeats > 1 else "",
        "" if row.processor is None else _by_processor(row.unit, row.processor),
        "" if row.compile_seconds is None else f"{row.compile_seconds:.1f} s",
        "" if row.share is None else f"{percent(row.share)} {row.limit}",
    )


def _by_processor(unit: str, value: float) -> str:
    """Rates are those of one second of one core; durations are processor time."""
    return figure(value) if unit.endswith("/s") else f"{figure(value)} {unit}"


def figure(value: float) -> str:
    """Three digits that count."""
    if value >= 1e6:
        return f"{figure(value / 1e6)} M"
    if value >= 1000:
        digits = 10 ** (len(str(int(value))) - 3)
        return f"{round(value / digits) * digits:,.0f}"
    return f"{value:.3g}" if value >= 1 else f"{value:.2g}"


def percent(share: float) -> str:
    """A share with the digits that count."""
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"
