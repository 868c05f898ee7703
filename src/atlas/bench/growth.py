"""How cost grows with size: curves, the exponents they follow, and a sentence for each axis."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax
import numpy as np

from atlas.bench import buffer, sampling, solving, world
from atlas.bench.rows import Effort, Row, per_second
from atlas.bench.shapes import SMALL
from atlas.bench.timing import compiled, measure
from atlas.build import parts
from atlas.config import TaskConfig
from atlas.domains.minigrid.grid import door_places, size_of
from atlas.domains.minigrid.settings import MinigridConfig, RoomCount
from atlas.tasks.machine import TaskSize
from atlas.ued import BufferConfig

FLAT = 0.2
"""Exponents nearer to 0 than this are not told from no growth at all."""
Law = Literal["power", "exponential"]


@dataclass(frozen=True)
class Curve:
    """The milliseconds of some work at several sizes."""

    axis: str
    """What grows."""
    work: str
    points: tuple[tuple[float, float], ...]
    """(size, milliseconds)."""
    law: Law = "power"

    @property
    def exponent(self) -> float:
        """Of a power law, time ~ size^e; of an exponential one, time ~ 2^(e * size). Least squares of logarithms."""
        size, time = np.array(self.points, float).T
        return float(np.polyfit(np.log(size) if self.law == "power" else size * math.log(2), np.log(time), 1)[0])

    @property
    def words(self) -> str:
        """How it grows, in words."""
        (first, before), (last, after) = self.points[0], self.points[-1]
        if self.law == "exponential":
            return f"{self.work} takes {2**self.exponent:.2f} times as long with each one more"
        if abs(self.exponent) < FLAT:
            return f"{self.work} hardly depends on it"
        times = f"{after / before:.2g} times as long at {last / first:.3g} times the size"
        return f"{self.work} takes time ~ n^{self.exponent:.2f} ({times})"

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        points = [{"size": size, "milliseconds": time} for size, time in self.points]
        return {"axis": self.axis, "work": self.work, "law": self.law, "exponent": self.exponent, "points": points}


def sentences(curves: list[Curve]) -> list[str]:
    """One for each axis, from what was measured."""
    made = []
    for axis in dict.fromkeys(curve.axis for curve in curves):
        own = [curve for curve in curves if curve.axis == axis]
        sizes = [size for curve in own for size, _ in curve.points]
        said = "; ".join(curve.words for curve in own)
        made.append(f"{axis[0].upper()}{axis[1:]}, {min(sizes):,.0f} to {max(sizes):,.0f}: {said}.")
    return made


def curves(effort: Effort) -> Iterator[Curve]:
    """All of them; quick ones have their first two points."""
    effort = replace(effort, least=3, seconds=min(effort.seconds, 0.5))
    for axis, work, sizes, row, law in _plans(effort):
        chosen = sizes[:2] if effort.quick else sizes
        times = _there_and_back(row, [size for _, size in chosen])
        yield Curve(axis, work, tuple(zip((axis_size for axis_size, _ in chosen), times, strict=True)), law)


def _there_and_back(row: Callable[[Any], tuple[Row, float]], sizes: Sequence[Any]) -> list[float]:
    """Each size twice, up and down again, and the faster counts: whatever else a machine does slows it down."""
    there = [_milliseconds(row(size)) for size in sizes]
    back = [_milliseconds(row(size)) for size in reversed(sizes)]
    return [min(pair) for pair in zip(there, reversed(back), strict=True)]


Plan = tuple[str, str, Sequence[tuple[float, Any]], Callable[[Any], tuple[Row, float]], Law]


def _plans(effort: Effort) -> Iterator[Plan]:
    batches = [(n, n) for n in (64, 256, 1024, 4096)]
    yield "batch", "a step of the world", batches, lambda n: _step(n, 6, 6, effort), "power"
    yield "batch", "a step of the small student", batches, lambda n: _act(n, effort), "power"
    capacities = [(n, n) for n in (1_000, 5_000, 20_000, 50_000, 200_000)]
    yield "problems in the buffer", "drawing 512", capacities, lambda n: _draw(n, effort), "power"
    yield "problems in the buffer", "entering 512", capacities, lambda n: _enter(n, effort), "power"
    states = [(n, n) for n in (6, 8, 12, 16)]
    yield "states of a task", "a step of the world", states, lambda n: _step(1024, n, 6, effort), "power"
    yield "states of a task", "sampling a dag", states, lambda n: _dag(n, effort), "power"
    yield "states of a task", "encoding tasks", states, lambda n: _encode(n, effort), "power"
    doors = [(len(door_places(rooms)), rooms) for rooms in (2, 4, 6, 9)]
    yield "doors", "the relaxed check", doors, lambda rooms: _check(rooms, effort), "exponential"
    yield "doors", "the prover", doors, lambda rooms: _prove(rooms, effort), "exponential"
    cells = [(math.prod(size_of(rooms)), rooms) for rooms in (1, 2, 4, 6, 9)]
    yield "cells of the grid", "a step of the world", cells, lambda rooms: _step(1024, 6, rooms, effort), "power"
    yield "cells of the grid", "sampling a level", cells, lambda rooms: _levels(rooms, effort), "power"


def _milliseconds(measured: tuple[Row, float]) -> float:
    """From a rate and how much of it is one unit of work; or from a row that is a time already."""
    row, amount = measured
    return row.median if row.unit == "ms" else 1e3 * amount / row.median


def _step(batch: int, states: int, rooms: int, effort: Effort) -> tuple[Row, float]:
    """One step of a whole batch."""
    return world.world_step(batch, TaskSize(1, states, 5, 5), effort, rooms, steps=64), batch


def _act(batch: int, effort: Effort) -> tuple[Row, float]:
    """One step of a whole batch with the student in it."""
    shape = replace(SMALL, envs=batch, steps=16)
    made = parts(shape.config())
    key_student, key_problems, key_play = jax.random.split(jax.random.key(0), 3)
    params = jax.jit(made.student.init)(key_student)
    problems = jax.jit(made.sample, static_argnums=1)(key_problems, batch)
    act = compiled(lambda *a: made.player.play(*a).experience, key_play, params, problems)
    return measure("act", per_second(shape.work, "steps"), act, effort), batch


def _draw(capacity: int, effort: Effort) -> tuple[Row, float]:
    return buffer.draw("draw", 512, BufferConfig(capacity=capacity), effort), 1


def _enter(capacity: int, effort: Effort) -> tuple[Row, float]:
    return buffer.enter("enter", 512, BufferConfig(capacity=capacity), effort), 1


def _dag(states: int, effort: Effort) -> tuple[Row, float]:
    return sampling.tasks("dag", 1024, effort, TaskConfig(states=states)), 1024


def _encode(states: int, effort: Effort) -> tuple[Row, float]:
    """The small student's task encoder on 128 tasks with five edges a state."""
    made = parts(SMALL.config())
    params = jax.jit(made.student.init)(jax.random.key(0))
    tasks = world.problems(128, TaskSize(1, states, 5, 5), 1).task
    graphs = jax.tree.map(lambda x: x[:, None], jax.vmap(made.world.formalism.graph)(tasks))
    keys = jax.random.split(jax.random.key(1), 128)
    work = compiled(made.student.embed, params, keys, graphs)
    return measure("encode", per_second(128, "tasks"), work, effort), 128


def _check(rooms: int, effort: Effort) -> tuple[Row, float]:
    return solving.check(rooms, "sequential", 256, effort), 1


def _prove(rooms: int, effort: Effort) -> tuple[Row, float]:
    """Five transitions in levels whose doors are as sampled, a third of them locked."""
    problems = solving.long_tasks(100, rooms)
    return solving.prover("", problems, 1, effort), 1


def _levels(rooms: RoomCount, effort: Effort) -> tuple[Row, float]:
    return sampling.levels(1024, effort, MinigridConfig(rooms=(rooms,))), 1024
