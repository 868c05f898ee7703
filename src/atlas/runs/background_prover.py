"""Plans of the prover for the problems that a teacher remembers, made by another process while training goes on.

Nothing depends on the clock. At every so many iterations the plans that were asked for the time before are waited for
and noted, and others are asked for: which ones, follows from the buffer alone. What is asked for is marked in the
buffer (`ASKED`), so a run that is resumed asks for the same again and goes on as it would have.
"""

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from atlas.config import Config
from atlas.devices import ALONE, REPLICATED, Layout
from atlas.domains import surface_of
from atlas.tasks.packed import unpack
from atlas.types import Problem
from atlas.ued.buffer import Records
from atlas.ued.scores import plan_return

ASKED: Final = -1
"""In place of the length of a plan: it is being looked for."""
NOT_FOUND: Final = -2
AT_A_TIME: Final = 64
"""Plans that are asked for at once."""
EFFORT: Final = 300
"""Nodes that are searched for a plan, and again for a shorter one."""


def plan_lengths(domain: str, problems: Sequence[Problem], step_limit: int) -> list[int]:
    """Steps of a short plan for each problem; NOT_FOUND where there is none within the effort."""
    solutions = surface_of(domain).solve_many(
        problems, step_limit=step_limit, budget=EFFORT, polish=EFFORT, bound=False, workers=1
    )
    return [solution.plan_length or NOT_FOUND for solution in solutions]


class Prover:
    """Requests plans from another process, and writes their lengths into the buffer."""

    def __init__(self, config: Config, memory: Callable[[Any], Any], layout: Layout = ALONE) -> None:
        """`memory` finds the buffer in the state of the teacher."""
        self.config, self.memory, self.layout = config, memory, layout
        # A process that is forked from one in which JAX runs may hang, so it is started afresh.
        self.pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        self.asked: tuple[np.ndarray, Future[list[int]]] | None = None

    def __call__(self, state: Any) -> Any:
        """The state with the plans requested last time in its buffer; requests others."""
        buffer = self.memory(state.teacher)
        records: Records = jax.device_get(buffer.records)
        plan, score = np.array(records.plan), np.array(records.score)
        due = np.flatnonzero(records.filled & (plan == ASKED))
        if len(due):
            found = self._found(buffer, due)
            plan[due] = found
            gamma = self.config.student.ppo.gamma
            regret = np.maximum(np.asarray(plan_return(jnp.asarray(found), gamma)) - records.discounted[due], 0.0)
            score[due] = np.where((found > 0) & (records.solves[due] > 0), regret, score[due])
        open_ = np.flatnonzero(records.filled & (records.solves > 0) & (plan == 0))
        chosen = np.sort(open_[np.argsort(-score[open_], kind="stable")][:AT_A_TIME])
        plan[chosen] = ASKED
        self.asked = (chosen, self._ask(buffer, chosen)) if len(chosen) else None
        changed = buffer.replace(records=buffer.records.replace(plan=self._placed(plan), score=self._placed(score)))
        return state.replace(teacher=state.teacher.replace(buffer=changed))

    def _found(self, buffer: Any, due: np.ndarray) -> np.ndarray:
        """The plan lengths of the slots that are due. Results for evicted problems are ignored."""
        if self.asked is None or not np.isin(due, self.asked[0]).all():  # the run was resumed in between
            self.asked = (due, self._ask(buffer, due))
        slots, answer = self.asked
        return np.array(answer.result(), np.int32)[np.searchsorted(slots, due)]

    def _ask(self, buffer: Any, slots: np.ndarray) -> "Future[list[int]]":
        problems = jax.device_get(jax.tree.map(lambda leaf: leaf[slots], buffer.problems))
        rows = [jax.tree.map(lambda leaf, row=row: leaf[row], problems) for row in range(len(slots))]
        plain = [Problem.unchecked(level=row.level, task=unpack(row.task)) for row in rows]
        return self.pool.submit(plan_lengths, self.config.domain.name, plain, self.config.domain.step_limit)

    def _placed(self, array: np.ndarray) -> Any:
        if self.layout.mesh is None:
            return jnp.asarray(array)
        return self.layout.place(array, self.layout.sharding(array, REPLICATED))

    def close(self) -> None:
        """End the other process."""
        self.pool.shutdown(wait=False, cancel_futures=True)
