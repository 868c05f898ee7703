"""What a teacher replays, in numbers: how large its problems are, which can be solved, how they were made.

Everything is weighted by the probability of being replayed; what a teacher without memory proposes weighs the same.
Looking on draws nothing from the run's own randomness.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool

from atlas.config import Config
from atlas.domains import surface_of
from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.domains.minigrid.edits import BEFORE
from atlas.domains.minigrid.grid import COLOURS, KINDS, count_objects
from atlas.problems import PRECEDING, SUCCEEDING, edit_names
from atlas.tasks import packed
from atlas.tasks.edits import END, MACHINE_FACTOR, START
from atlas.tasks.names import machine_name
from atlas.tasks.rewards import Paths, count_paths
from atlas.training import Trainer
from atlas.types import Lineage, Problem, Task
from atlas.ued.buffer import priorities
from atlas.ued.supply import root
from atlas.world import World

# What edits did, in words: `add_object(red ball at 3,4)`.

DIRECTIONS = ("up", "right", "down", "left")


def tell_edits(lineage: Lineage, names: Sequence[str]) -> list[str]:
    """The edits that made one problem from its parent, in order; none if it was sampled."""
    made = zip(lineage.edits.tolist(), lineage.arguments.tolist(), strict=True)
    return [tell_edit(names[row], arguments) for row, arguments in made if row >= 0]


def tell_edit(name: str, arguments: Sequence[int]) -> str:
    """One edit: its name, and what it drew."""
    first, second, third = arguments
    details: dict[str, Callable[[], str]] = {
        "move_agent": lambda: f"to {_place(second)}, facing {DIRECTIONS[third]}",
        "move_object": lambda: f"{_thing(third)} from {_place(first)} to {_place(second)}",
        "add_object": lambda: f"{_thing(third)} at {_place(second)}",
        "remove_object": lambda: f"{_thing(third)} from {_place(first)}",
        "replace_object": lambda: f"{_thing(third)} at {_place(first)}",
        "replace_door": lambda: f"{_thing(third)} at {_place(first)}",
        "add_rooms": lambda: f"{_side(first)}, {second} rooms now",
        "remove_rooms": lambda: f"{_side(first)}, {second} {'rooms' if second > 1 else 'room'} left",
        "switch_proposition": lambda: f"at {_state(first)}: {_proposition(second)} to {_proposition(third)}",
        "add_state": lambda: f"{_where(first, second)}: {_proposition(third)}",
        "remove_state": lambda: _state(first),
        PRECEDING: lambda: f"end where {_state(first)} is reached",
        SUCCEEDING: lambda: f"start where {_state(first)} was reached",
    }
    detail = details.get(name, lambda: ", ".join(str(x) for x in arguments if x != -1))
    return f"{name}({detail()})"


def ancestry(example: dict[str, Any]) -> str:
    """A sentence on where an example of a snapshot came from."""
    if example["parent"] < 0:
        return "sampled"
    age = example["generation"]
    made = ", ".join(example["edits"]) or "no edit that applied"
    return f"edited from problem {example['parent']:,} (generation {age}): {made}"


def _place(code: int) -> str:
    return f"{code // 100},{code % 100}"


def _thing(code: int) -> str:
    kind, colour = divmod(code, 8)
    name, _, door_state = KINDS[kind].partition("_")
    return " ".join(filter(None, (door_state, COLOURS[colour], name)))


def _side(side: int) -> str:
    return "before" if side == BEFORE else "after"


def _state(code: int) -> str:
    machine, state = divmod(code, MACHINE_FACTOR)
    return f"{machine_name(machine)}.u{state}" if machine else f"u{state}"


def _where(state: int, where: int) -> str:
    return {START: "at the start", END: "at the end"}.get(where, f"at {_state(state)}")


def _proposition(number: int) -> str:
    return VOCABULARY.names[number] if 0 <= number < len(VOCABULARY.names) else "?"


# What a teacher replays, in numbers: how large its problems are, which can be solved, how they were made.
#
# Everything is weighted by the probability of being replayed; what a teacher without memory proposes weighs the same.
# Looking on draws nothing from the run's own randomness.

SAMPLE: Final = 1024
"""Problems that are looked into: checked for solvability, their paths counted."""
AT_ONCE: Final = 256
"""Problems that are checked side by side: the check needs memory."""


@dataclass(frozen=True, eq=False)
class Curriculum:
    """Problems with the probability of each to be played next. Arrays on the host, one row a problem.

    They may share memory with the run's state, so they are good until its next iteration; `rows` copies.
    """

    problems: Problem
    lineage: Lineage
    probability: np.ndarray
    score: np.ndarray
    attempts: np.ndarray
    solves: np.ndarray

    def __len__(self) -> int:
        return len(self.probability)

    def rows(self, chosen: np.ndarray) -> "Curriculum":
        """Some of the problems."""
        problems, lineage = jax.tree.map(lambda x: np.array(x[chosen]), (self.problems, self.lineage))
        numbers = {name: np.array(getattr(self, name)[chosen]) for name in _NUMBERS}
        return Curriculum(problems, lineage, **numbers)


_NUMBERS: Final = ("probability", "score", "attempts", "solves")


class Observer:
    """Looks at what the teacher of a run has in mind. Its few programs are compiled when first used."""

    def __init__(self, config: Config, trainer: Trainer, world: World) -> None:
        self.teacher = trainer.teacher
        self.edit_names = edit_names(world.domain, world.formalism)
        screen = surface_of(config.domain.name).screen(config.domain)
        self._priorities = jax.jit(partial(_priorities, config=config))
        self._propose = jax.jit(lambda key: self.teacher.supply.sample(key, SAMPLE))
        self._inspect = jax.jit(partial(_inspect, screen=screen))

    def look(self, teacher_state: Any, number: int) -> Curriculum:
        """The problems that may be replayed; none while the buffer is empty. `number` is the seed for a teacher
        without memory, of which a batch of new problems is drawn."""
        memory = self.teacher.memory(teacher_state)
        if memory is None:
            return self._proposed(number)
        known = memory.records
        everything = Curriculum(
            problems=_host(memory.problems),
            lineage=_host(memory.lineage),
            probability=np.asarray(self._priorities(known, memory.clock), np.float64),
            score=np.asarray(known.score),
            attempts=np.asarray(known.attempts),
            solves=np.asarray(known.solves),
        )
        filled = np.asarray(known.filled)
        some = everything if filled.all() else everything.rows(np.flatnonzero(filled))
        return replace(some, probability=some.probability / max(some.probability.sum(), np.finfo(float).tiny))

    def _proposed(self, number: int) -> Curriculum:
        numbers = jnp.arange(SAMPLE, dtype=jnp.int32)
        nothing = np.zeros(SAMPLE, np.int32)
        return Curriculum(
            problems=_host(self._propose(jax.random.key(number))),
            lineage=_host(jax.vmap(lambda n: root(n, self.teacher.supply.max_edits))(numbers)),
            probability=np.full(SAMPLE, 1 / SAMPLE),
            score=np.zeros(SAMPLE, np.float32),
            attempts=nothing,
            solves=nothing,
        )

    def measure(self, seen: Curriculum, number: int) -> dict[str, Any]:
        """The record of a snapshot. `number` is the seed of what is looked into more closely."""
        if len(seen) == 0:
            return {"problems": 0}
        draw = np.random.default_rng(number)
        replayed = draw.choice(len(seen), SAMPLE, p=seen.probability)
        anywhere = draw.integers(len(seen), size=SAMPLE)
        passes, paths = self._look_into(seen, replayed)
        return {
            "problems": len(seen),
            "solvable": float(self._look_into(seen, anywhere)[0].mean()),
            "solvable_replayed": float(passes.mean()),
            **_path_means(paths),
            **_shape(seen),
            "edit_kinds": _edit_kinds(seen, self.edit_names),
        }

    def _look_into(self, seen: Curriculum, chosen: np.ndarray) -> tuple[np.ndarray, Paths]:
        problems = jax.tree.map(lambda x: x[chosen], seen.problems)
        return _host(self._inspect(problems.replace(task=packed.flattened(problems.task)), problems.task))


def _priorities(records: Any, clock: Array, config: Config) -> Array:
    return priorities(records, clock, config.teacher.buffer)  # type: ignore[union-attr]


def _inspect(flat: Problem, tasks: Task, screen: Callable[[Problem], Array]) -> tuple[Bool[Array, "batch"], Paths]:
    """Whether the relaxed check passes each problem, given with a flat task, and the paths of the task itself."""
    return jax.lax.map(lambda pair: (screen(pair[0]), count_paths(pair[1])), (flat, tasks), batch_size=AT_ONCE)


def _host(tree: Any) -> Any:
    return jax.tree.map(np.asarray, tree)


def count_states(problems: Problem) -> np.ndarray:
    """States of each task; those of all machines in a hierarchy."""
    target = np.asarray(problems.task.target)
    highest = target.max(
        axis=(-2, -1), initial=-1
    )  # states are numbered without gaps, and each is led to but the first
    return np.maximum((highest + 1).reshape(len(target), -1).sum(axis=1), 1)


def count_edits(lineage: Lineage) -> np.ndarray:
    """How many edits made each problem from its parent."""
    return np.sum(lineage.edits >= 0, axis=1)


def _shape(seen: Curriculum) -> dict[str, Any]:
    """Means and shares of what can be read off the problems themselves."""
    features = {
        "rooms": np.asarray(seen.problems.level.rooms),
        "objects": count_objects(np.asarray(seen.problems.level.cells)),
        "states": count_states(seen.problems),
        "edits": count_edits(seen.lineage),
    }
    means = {name: float(seen.probability @ values) for name, values in features.items()}
    return {
        **means,
        "generation": float(seen.probability @ seen.lineage.generation),
        "shares": {name: _shares(values, seen.probability) for name, values in features.items()},
        "solved": {name: _solved(features[name], seen) for name in ("rooms", "states")},
    }


def _shares(values: np.ndarray, weights: np.ndarray) -> dict[str, float]:
    """How much weight each value has."""
    totals = np.bincount(values, weights)
    return {str(value): float(totals[value]) for value in np.unique(values)}


def _solved(values: np.ndarray, seen: Curriculum) -> dict[str, float]:
    """The share of episodes solved on the problems of each value, as far as they were played."""
    weights = np.where(seen.attempts > 0, seen.probability, 0.0)
    rates = seen.solves / np.maximum(seen.attempts, 1)
    totals, solved = np.bincount(values, weights), np.bincount(values, weights * rates)
    return {str(value): float(solved[value] / totals[value]) for value in np.flatnonzero(totals)}


def _path_means(paths: Paths) -> dict[str, float]:
    """Ways to acceptance and their length, over tasks in which nobody can walk in circles for ever."""
    bounded = paths.count >= 0
    if not bounded.any():
        return {"paths": -1.0, "path_length": -1.0}
    return {"paths": float(paths.count[bounded].mean()), "path_length": float(paths.mean[bounded].mean())}


def _edit_kinds(seen: Curriculum, names: tuple[str, ...]) -> dict[str, float]:
    """The share of each kind among all edits that made the problems."""
    rows = np.asarray(seen.lineage.edits)
    weights = np.broadcast_to(seen.probability[:, None], rows.shape)[rows >= 0]
    totals = np.bincount(rows[rows >= 0], weights, minlength=len(names))
    return {name: float(total / totals.sum()) for name, total in zip(names, totals, strict=True) if total > 0}


def examples(seen: Curriculum, number: int, count: int) -> Curriculum:
    """Some different problems, drawn by their probability, the likeliest first. `number` is the seed."""
    noise = np.random.default_rng([number, 1]).gumbel(size=len(seen))
    with np.errstate(divide="ignore"):
        keys = np.log(seen.probability) + noise
    chosen = np.argsort(-keys)[: min(count, np.count_nonzero(seen.probability))]
    return seen.rows(chosen[np.argsort(-seen.probability[chosen], kind="stable")])
