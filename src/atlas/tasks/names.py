"""How states and machines are called in files, traces and drawings: `u2`, `uA`, `uR`; `m0`."""

from collections.abc import Sequence
from typing import Final

ACCEPTING_NAME, REJECTING_NAME = "uA", "uR"
_TERMINAL: Final = {1: ACCEPTING_NAME, 2: REJECTING_NAME}


def state_name(index: int, outcome: int) -> str:
    """The name of a state, given its number and its outcome (0 running, 1 accepted, 2 rejected)."""
    return _TERMINAL.get(int(outcome), f"u{int(index)}")


def machine_name(index: int) -> str:
    """The name of a machine of a hierarchy; a flat task is `m0`."""
    return f"m{int(index)}"


def literal_names(guard: Sequence[int], names: Sequence[str]) -> list[str]:
    """The literals of a guard as text, a leading `-` for negation, unused slots left out."""
    return [("-" if literal < 0 else "") + names[abs(int(literal)) - 1] for literal in guard if literal != 0]
