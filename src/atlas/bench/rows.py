"""What a measurement says, and the arithmetic of repeats. No JAX in here."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Effort:
    """How hard to measure."""

    least: int = 5
    """Fewest repeats."""
    seconds: float = 2.0
    """Repeat until this much time was measured …"""
    most: int = 50
    """… or this often."""
    quick: bool = False
    """Small shapes, to see that everything runs; the names of rows say which."""

    def enough(self, walls: Sequence[float], least: int | None = None) -> bool:
        """Whether to stop repeating."""
        fewest = min(self.least, least or self.least)
        return len(walls) >= fewest and (sum(walls) >= self.seconds or len(walls) >= self.most)


FULL = Effort()
QUICK = Effort(least=3, seconds=0.2, most=9, quick=True)


class Clock(NamedTuple):
    """What one call took."""

    wall: float
    processor: float
    """Processor seconds over all threads: they say the same on a busy machine."""


class Unit(NamedTuple):
    """How seconds become the number that is shown."""

    name: str
    of: Callable[[float], float]


def per_second(amount: float, what: str) -> Unit:
    """A rate: so much is done by one call."""
    return Unit(f"{what}/s", lambda seconds: amount / seconds)


def milliseconds(calls: int = 1) -> Unit:
    """The time of one of so many calls."""
    return Unit("ms", lambda seconds: 1e3 * seconds / calls)


def seconds() -> Unit:
    """The time of a call."""
    return Unit("s", lambda seconds: seconds)


@dataclass(frozen=True)
class Row:
    """One line of the ledger."""

    name: str
    unit: str
    median: float
    low: float
    """First quartile of the repeats, the warm-up left out."""
    high: float
    """Third quartile."""
    repeats: int
    processor: float | None = None
    """Of a rate: what is done in one processor second. Of a duration: processor time."""
    compile_seconds: float | None = None
    """Tracing and compiling, with nothing kept from before."""
    limit: str | None = None
    """What the machine could do at best, timed beside each repeat."""
    share: float | None = None
    """How much of that was reached: the time of the limit over the time of the work, the median of all repeats."""
    processor_share: float | None = None
    """The same by processor time, which says more where others were using the machine."""

    @property
    def spread(self) -> float:
        """Half the distance of the quartiles, as a share of the median."""
        return abs(self.high - self.low) / 2 / self.median if self.median else 0.0

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**asdict(self), "spread": self.spread}


def summarise(
    name: str,
    unit: Unit,
    clocks: Sequence[Clock],
    beside: Sequence[Clock] = (),
    limit: str | None = None,
    compile_seconds: float | None = None,
) -> Row:
    """A row from repeats. `beside` is what the limit would have taken for the same work, once for each, or nothing."""
    values = sorted(unit.of(clock.wall) for clock in clocks)
    low, median, high = quartiles(values)
    used = statistics.median(clock.processor for clock in clocks)
    return Row(
        name=name,
        unit=unit.name,
        median=median,
        low=low,
        high=high,
        repeats=len(values),
        processor=unit.of(used) if used > 0 else None,
        compile_seconds=compile_seconds,
        limit=limit,
        share=_ratio([clock.wall for clock in beside], [clock.wall for clock in clocks]),
        processor_share=_ratio([clock.processor for clock in beside], [clock.processor for clock in clocks]),
    )


def _ratio(above: Sequence[float], below: Sequence[float]) -> float | None:
    """The median of the ratios of pairs; none if there are none, or if nothing was used."""
    if not above or not all(below):
        return None
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """First quartile, median and third quartile; of one value, itself."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, median, high


def fact(name: str, unit: str, value: float, compile_seconds: float | None = None) -> Row:
    """A number that does not vary, such as the size of something."""
    return Row(name, unit, value, value, value, 1, compile_seconds=compile_seconds)
