"""Standard output for people: tables that fit the terminal, and sentences. This module loads without JAX."""

import os
import sys
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

UNLIMITED: Final = 100_000
"""Columns where nobody looks: a file or a pipe cuts nothing off."""


class Screen(Console):
    """Standard output: as wide as the terminal; where it is none, as wide as it takes (unless COLUMNS is set)."""

    def __init__(self, **settings: Any) -> None:
        limited = sys.stdout.isatty() or "COLUMNS" in os.environ
        super().__init__(**{"highlight": False, "width": None if limited else UNLIMITED} | settings)

    def print(self, *objects: Any, **settings: Any) -> None:
        super().print(*(self.fitted(one) if isinstance(one, Table) else one for one in objects), **settings)

    def fitted(self, table: Table) -> Table:
        """The table, without its last columns where there is no room for all: none of its figures is cut."""
        wide = self.options.update(max_width=UNLIMITED)
        while len(table.columns) > 2 and Measurement.get(self, wide, table).minimum > self.width:
            table.columns.pop()
        return table


def wrote(file: Path | None, about: str = "") -> None:
    """Say that a file was written, if one was asked for, and what is in it: every command says it in these words."""
    if file is not None:
        print(f"wrote {file}" + (f": {about}" if about else ""))
