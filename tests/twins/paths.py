"""Paths to acceptance one by one, where the project counts them."""

from collections.abc import Iterator

from atlas.tasks.machine import Machine
from atlas.vocabulary import ACCEPTED


def simple_paths(machine: Machine) -> Iterator[tuple[int, ...]]:
    """The paths from the initial state to acceptance that visit no state twice, as state numbers."""

    def extend(path: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if machine.outcomes[path[-1]] == ACCEPTED:
            yield path
        for v in dict.fromkeys(e.target for e in machine.leaving[path[-1]] if e.target not in path):
            yield from extend((*path, v))

    return extend((0,))
