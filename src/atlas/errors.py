"""Mistakes that a user can mend. The command line prints them as one sentence, without a traceback."""

import difflib
from collections.abc import Iterable


class AtlasError(Exception):
    """What was wrong, where, and what is allowed."""


def nearest(word: str, known: Iterable[str], n: int = 3) -> str:
    """A hint for a mistyped name: `; did you mean a, b or c?`, or nothing."""
    close = difflib.get_close_matches(word, list(known), n=n, cutoff=0.6)
    if not close:
        return ""
    return f"; did you mean {' or '.join([', '.join(close[:-1])] * (len(close) > 1) + close[-1:])}?"
