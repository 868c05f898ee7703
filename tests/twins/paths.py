"""Paths to acceptance one by one, where the project counts them."""

from collections.abc import Iterator

import numpy as np

from atlas.tasks.rm import ACCEPTED, UNUSED, RewardMachine


def simple_paths(task: RewardMachine) -> Iterator[tuple[int, ...]]:
    """The paths from the initial state to acceptance that visit no state twice, as state numbers."""
    target, outcome = np.asarray(task.target), np.asarray(task.outcome)

    def extend(path: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if outcome[path[-1]] == ACCEPTED:
            yield path
        for v in dict.fromkeys(int(v) for v in target[path[-1]] if v != UNUSED and v not in path):
            yield from extend((*path, v))

    return extend((0,))
