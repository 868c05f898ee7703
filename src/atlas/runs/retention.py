"""Retention schedule: the env steps at which a run keeps policies and snapshots, spread evenly over it. No JAX here.

The run is divided into 2^k equal parts, none shorter than an iteration; the marks are their ends. When there would be
too many, only every second, fourth, … stays, and what was kept at the others is removed. All of it follows from env
steps alone: runs of the same length keep things at the same marks, whatever their speed.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class RetentionSchedule:
    """Marks on a run of `total` env steps whose iterations have at most `longest`: when to keep, what to remove."""

    total: int
    longest: int
    most: int
    """So many of the marks count at any time, at most; at least half as many once the run is that long."""
    at: tuple[int, ...] = ()
    """Env steps that count beside them."""

    def after(self, steps: int) -> int:
        """The next env steps that count, for a run that has come so far."""
        place, stride = self._place(steps), 1
        while place // stride + 1 > self.most:
            stride *= 2
        following = (place // stride + 1) * stride
        return min([-(-following * self.total // self.count), *(own for own in self.at if own > steps)])

    def retained(self, kept: Iterable[int]) -> set[int]:
        """The env steps, among those at which something was kept, that are retained: the first at or after each mark
        that counts, and the last of all."""
        ordered = sorted(kept)
        stride = 1
        while ordered and self._place(ordered[-1]) // stride > self.most:
            stride *= 2
        first: dict[int, int] = {}
        for steps in ordered:
            first.setdefault(self._place(steps), steps)
        stay = {steps for place, steps in first.items() if place % stride == 0}
        stay |= {next(steps for steps in ordered if steps >= own) for own in self.at if ordered and ordered[-1] >= own}
        return stay | set(ordered[-1:])

    @property
    def count(self) -> int:
        """How many marks there are on the whole run, whether they count or not."""
        return 1 << max(0, (self.total // self.longest).bit_length() - 1)

    def _place(self, steps: int) -> int:
        """The number of the last mark at or before so many steps."""
        return steps * self.count // self.total


def spread(count: int, wanted: int) -> np.ndarray:
    """Places evenly over a list, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, wanted)).round().astype(int))
