"""Whether a problem can be solved, exactly: there are no more than 49 cells for each state of the task.

`propose` searches the product of map and task breadth-first, so a plan is one of the shortest. `reachable` is the same
search for batches, jittable, without the plan.
"""

import functools
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Int

from atlas.domains.letterworld.grid import MOVES
from atlas.domains.letterworld.settings import LETTERS, SIZE, LetterWorldConfig
from atlas.domains.letterworld.text import CELLS
from atlas.domains.shared import batch_check
from atlas.errors import AtlasError, listed
from atlas.programs import Program
from atlas.proofs import LOST_AT_ONCE, TRIVIAL, Solution, decide_many
from atlas.settings import STEP_LIMIT
from atlas.tasks.machine import UNUSED, Machine, holds
from atlas.tasks.packed import PackedTask, flattened, unpack
from atlas.types import Problem
from atlas.vocabulary import ACCEPTED, REJECTED, RUNNING

ROWS, COLUMNS = np.divmod(np.arange(SIZE * SIZE), SIZE)
BESIDE: Final = tuple(
    tuple(((ROWS + down) % SIZE * SIZE + (COLUMNS + right) % SIZE).tolist()) for down, right in MOVES.tolist()
)
"""By action and cell: where the agent comes to."""
CHUNK: Final = 256
"""Problems that are searched side by side."""


def solve_many(
    problems: Sequence[Problem],
    step_limit: int = STEP_LIMIT,
    workers: int = 1,
    progress: Callable[[int, int], None] = lambda *_: None,
    **_: Any,
) -> list[Solution]:
    """Decide each problem, and prove it either way. The search is exhaustive, so it needs none of the other options."""
    decide = functools.partial(propose, step_limit=step_limit)
    return decide_many(decide, problems, step_limit, workers, progress)


def propose(problem: Problem, step_limit: int = STEP_LIMIT) -> Solution:
    """The solution of one problem, but with a plan that was not yet replayed in the world."""
    if step_limit < 1:
        raise AtlasError(f"step_limit = {step_limit} must be at least 1")
    try:
        task = unpack(problem.task).flat
    except AtlasError as error:
        return Solution("unknown", str(error))
    cells = np.asarray(problem.level.cells).flatten().tolist()
    row, column = np.asarray(problem.level.position).tolist()
    moves = _moves(task)
    place = row * SIZE + column
    state = moves[0][cells[place]]
    if task.outcomes[state] == ACCEPTED:
        return TRIVIAL
    if task.outcomes[state] == REJECTED:
        return LOST_AT_ONCE
    came: dict[tuple[int, int], tuple[tuple[int, int], int] | None] = {(place, state): None}
    todo = deque(came)
    while todo:
        now = todo.popleft()
        for action, beside in enumerate(BESIDE):
            place = beside[now[0]]
            after = place, moves[now[1]][cells[place]]
            if after in came or task.outcomes[after[1]] == REJECTED:
                continue
            came[after] = now, action
            if task.outcomes[after[1]] == ACCEPTED:
                plan = _way(came, after)
                if len(plan) > step_limit:
                    sentence = f"the shortest plan takes {len(plan)} steps, and only {step_limit} are allowed"
                    return Solution("unsolvable", sentence)
                steps = f"{len(plan)} step{'s' if len(plan) != 1 else ''}"
                return Solution("solvable", f"a plan of {steps}, and none is shorter", plan, len(plan))
            todo.append(after)
    return Solution("unsolvable", _why_not(task, {state for _, state in came}, set(cells)))


def _moves(task: Machine) -> list[list[int]]:
    """By state and cell: where the task comes to."""
    labels = [frozenset[int](), *(frozenset({prop}) for prop in range(len(LETTERS)))]
    return [
        [next((edge.target for edge in edges if holds(edge.literals, label)), state) for label in labels]
        for state, edges in enumerate(task.leaving)
    ]


def _way(came: dict[tuple[int, int], tuple[tuple[int, int], int] | None], node: tuple[int, int]) -> tuple[int, ...]:
    """The actions that led to a node of the search."""
    actions = []
    while (step := came[node]) is not None:
        node, action = step
        actions.append(action)
    return tuple(reversed(actions))


def _why_not(task: Machine, reached: set[int], there: set[int]) -> str:
    """Letters that are missing, if the ways on from what was reached all ask for some; else that all was tried."""
    missing: set[int] = set()
    for state in reached:
        for edge in task.leaving[state]:
            if edge.target not in reached and task.outcomes[edge.target] != REJECTED:
                lacking = {literal for literal in edge.literals if literal > 0 and literal not in there}
                if not lacking:
                    return "everything that can be done was tried, and nothing leads to acceptance"
                missing |= lacking
    if not missing:
        return "everything that can be done was tried, and nothing leads to acceptance"
    return f"there is no {listed([CELLS[code] for code in sorted(missing)])} on the map"


# The same search in batches


def screen(settings: LetterWorldConfig) -> Callable[[Problem], Bool[Array, "batch"]]:
    """The search for batches: exact, but for the step limit."""
    return batch_check(reachable)


def reachable(problem: Problem) -> Bool[Array, ""]:
    """Whether some actions lead a flat task to acceptance, however many they are. Jittable."""
    task, cells = problem.task, problem.level.cells.reshape(-1).astype(jnp.int32)
    target = jnp.asarray(_after(task))[:, cells]  # [states, cells]
    states = jnp.arange(target.shape[0])
    outcome = task.outcome[0]
    row, column = problem.level.position.astype(jnp.int32)
    start = jnp.arange(SIZE * SIZE) == row * SIZE + column

    def enter(there: Bool[Array, "states cells"]) -> Bool[Array, "states cells"]:
        """Where agent and task stand after the task has seen the cells that the agent is on."""
        return jnp.any(there[:, None] & (target[:, None] == states[None, :, None]), axis=0)

    def spread(now: tuple[Array, Array]) -> tuple[Array, Array]:
        reached, _ = now
        running = reached & (outcome == RUNNING)[:, None]
        walked = functools.reduce(jnp.logical_or, [running[:, jnp.asarray(back)] for back in BESIDE])
        further = reached | enter(walked)
        return further, jnp.any(further != reached)

    first = enter(start[None] & (states == 0)[:, None])
    reached, _ = jax.lax.while_loop(lambda now: now[1], spread, (first, jnp.bool_(True)))
    return jnp.any(reached & (outcome == ACCEPTED)[:, None])


def _after(task: PackedTask) -> Int[Array, "states letters"]:
    """By state and cell: where a flat task comes to."""
    guard, target = task.guard[0].astype(jnp.int32), task.target[0].astype(jnp.int32)
    codes = jnp.arange(1 + len(LETTERS))
    here = jnp.abs(guard)[..., None] == codes[None, None, None, :]
    fits = jnp.where((guard > 0)[..., None], here, ~here) | (guard == 0)[..., None]
    enabled = jnp.all(fits, axis=2) & (target != UNUSED)[..., None]  # [states, edges, letters]
    edge = jnp.argmax(enabled, axis=1)
    moved = jnp.take_along_axis(target, edge, axis=1)
    return jnp.where(jnp.any(enabled, axis=1), moved, jnp.arange(target.shape[0])[:, None])


_reachable_batch = Program("letterworld reachable", lambda: jax.vmap(reachable))


def reachable_many(problems: Problem) -> np.ndarray:
    """`bool[batch]`, whatever the tasks; in batches of few sizes, so that little is compiled."""
    everything = jax.tree.map(np.asarray, problems.replace(task=flattened(problems.task)))
    found = np.zeros(len(everything.level.cells), bool)
    for start in range(0, len(found), CHUNK):
        some = np.arange(start, min(start + CHUNK, len(found)))
        rows = np.resize(some, max(16, 1 << (len(some) - 1).bit_length()))
        found[some] = np.asarray(_reachable_batch(jax.tree.map(lambda leaf, rows=rows: leaf[rows], everything)))[
            : len(some)
        ]
    return found
