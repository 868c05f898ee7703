"""Public functions: tasks (no JAX needed), sampling by the settings (`atlas.sample(6, pairing="level")`), solving."""

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from atlas.domains import default_name, domain_of, name_for, surface_for, vocabulary_of
from atlas.errors import AtlasError, nearest
from atlas.settings import STEP_LIMIT
from atlas.tasks import machine
from atlas.tasks.machine import Task, machine_name
from atlas.vocabulary import ACCEPTED, REJECTED, Vocabulary

if TYPE_CHECKING:
    from atlas.config import Config
    from atlas.types import Level, NamedProblem, Problem

Label = Iterable[str | int] | str
"""The propositions that hold, by name (`front_ball_red`) or id; those left out do not."""


def english(text: str) -> Task:
    """The task that English words describe."""
    from atlas.tasks.english import english as read

    return read(text, vocabulary_of(default_name()))


def ltlf(text: str) -> Task:
    """The task of an LTLf formula, read as co-safe."""
    from atlas.tasks.ltlf import ltlf as read

    return read(text, vocabulary_of(default_name()))


def explain(task: Any) -> str:
    """A task (or that of a problem) in English that `english` reads back."""
    from atlas.tasks.explain import explain as say

    return say(plain_task(task), _vocabulary(task))


def _vocabulary(task: Any) -> Vocabulary:
    """That of a problem's domain, or of the default one."""
    return vocabulary_of(name_for(task) if hasattr(task, "level") else default_name())


def plain_task(task: Any) -> Task:
    """The plain form of a task: of a plain one, of one in arrays, or of a problem's."""
    inner = getattr(task, "task", task)
    if isinstance(inner, Task):
        return inner
    from atlas.tasks.packed import unpack

    return unpack(inner)


@dataclass(frozen=True)
class Followed:
    """Where a task stands after a label. Fields can also be looked up like keys: `record["state"]`."""

    machine: str
    """The machine that is active, as in `m0`."""
    state: str
    """Its state, as in `u2`, `uA`, `uR`."""
    stack: list[str]
    """Where each open call returns to, the outermost first, as in `m0:u2`."""
    reward: float
    """What the label earned."""
    accepted: bool
    rejected: bool

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def keys(self) -> Iterator[str]:
        """The names of the fields, so that `dict(record)` works."""
        return (field.name for field in fields(self))


def follow(task: Any, labels: Iterable[Label], vocabulary: Vocabulary | None = None) -> list[Followed]:
    """Follow a task (or that of a problem) through labels: one record for each, from the initial state on.

    A label is taken as given: name what it implies too (`front_ball`), if the task asks for it.
    """
    vocabulary = vocabulary or _vocabulary(task)
    task = plain_task(task)
    records = []
    for stack, reward in machine.follow(task, [_label(label, vocabulary) for label in labels]):
        ended = machine.outcome(task, stack.node)
        places = [(machine_name(m), task.machines[m].name(u)) for m, u in (stack.node, *(n for n, _ in stack.returns))]
        records.append(
            Followed(
                *places[0],
                stack=[f"{m}:{u}" for m, u in reversed(places[1:])],
                reward=float(np.float32(reward)),
                accepted=ended == ACCEPTED,
                rejected=ended == REJECTED,
            )
        )
    return records


def _label(label: Label, vocabulary: Vocabulary) -> frozenset[int]:
    ids = set()
    for proposition in [label] if isinstance(label, str) else label:
        if isinstance(proposition, str):
            if proposition not in vocabulary.ids:
                raise AtlasError(f"'{proposition}' is not a proposition{nearest(proposition, vocabulary.ids)}")
            ids.add(vocabulary.ids[proposition])
        elif 0 <= proposition < len(vocabulary.names):
            ids.add(int(proposition))
        else:
            raise AtlasError(f"{proposition} is not a proposition: ids go from 0 to {len(vocabulary.names) - 1}")
    return frozenset(ids)


# Sampling


def sample(
    n: int = 1,
    pairing: str = "independent",
    tasks: str = "sequential",
    seed: int = 0,
    rooms: tuple[int, ...] | None = None,
    solvable: bool = False,
) -> "list[NamedProblem]":
    """Draw n problems, each at its natural size.

    `pairing`: `independent`, `level` (the task is made of what the level holds) or `task` (the level holds what the
    task mentions). `tasks`: `sequential`, `dag`, `authors-dag`, `cyclic` or `hierarchical`. `rooms`: any of 1, 2, 4, 6,
    9; all of them if left out. `solvable`: keep only what the relaxed check passes.
    """
    from atlas.tasks.packed import unstack
    from atlas.types import About, NamedProblem

    batch = sample_batch(settings(pairing, tasks, rooms, solvable), n, seed)
    width = len(str(n - 1))
    return [
        NamedProblem(level=surface_for(level).crop(level), task=task, about=About(name=f"sample-{seed}-{i:0{width}d}"))
        for i, (level, task) in enumerate(zip(_one_by_one(batch.level), unstack(batch.task), strict=True))
    ]


def settings(pairing: str, tasks: str, rooms: tuple[int, ...] | None = None, solvable: bool = False) -> "Config":
    """A config that says how problems are drawn; the rest of it does not matter here."""
    from atlas.config import Config
    from atlas.settings import from_plain

    plain = {
        "domain": {} if rooms is None else {"rooms": list(rooms)},
        "tasks": {"sampler": tasks},
        "pairing": {"how": pairing, "solvable": solvable},
    }
    return from_plain(Config, plain)


def sample_batch(config: "Config", n: int, seed: int) -> "Problem":
    """n problems as one batch, padded to the size of the settings."""
    from atlas.settings import require, require_seed

    require(n >= 1, "n", n, "at least 1")
    require_seed(seed)
    import jax

    # A problem is the same in every batch that is not screened, so that few sizes are compiled.
    drawn = n if config.pairing.solvable or n > 64 else max(8, 1 << (n - 1).bit_length())
    batch = jax.device_get(_sampler(config, drawn)(np.uint32(seed)))
    return jax.tree.map(lambda leaf: leaf[:n], batch)


@functools.cache
def _sampler(config: "Config", n: int) -> Any:
    import jax

    from atlas.programs import Program
    from atlas.settings import dump

    def make() -> Any:
        from atlas.build import parts

        draw = parts(config).sample
        return lambda seed: draw(jax.random.key(seed), n)

    return Program(f"sample {n} {dump(config)}", make)


def sample_levels(n: int, seed: int = 0, rooms: tuple[int, ...] | None = None) -> "list[Level]":
    """Draw n levels, each at its natural size."""
    import jax

    from atlas.programs import Program
    from atlas.settings import dump, require, require_seed

    require(n >= 1, "n", n, "at least 1")
    require_seed(seed)
    config = settings("independent", "sequential", rooms)

    def make() -> Any:
        draw = jax.vmap(domain_of(config.domain).sample)
        return lambda seed: draw(jax.random.split(jax.random.key(seed), n))

    batch = Program(f"levels {n} {dump(config)}", make)(np.uint32(seed))
    return [surface_for(level).crop(level) for level in _one_by_one(batch)]


def _one_by_one(batch: Any) -> list[Any]:
    import jax

    leaves, tree = jax.tree.flatten(jax.device_get(batch))
    return [jax.tree.unflatten(tree, [leaf[i] for leaf in leaves]) for i in range(len(leaves[0]))]


def solve(problem: "Problem", step_limit: int = STEP_LIMIT, budget: int = 1500, polish: int = 300) -> Any:
    """Whether a problem can be solved, with proof: `verdict` (solvable, unsolvable or unknown), `plan`, `reason`.

    `budget`: how many nodes are searched before it is called unknown; `polish`: how many more for a shorter plan.
    """
    return surface_for(problem).solve_many([problem], step_limit=step_limit, budget=budget, polish=polish)[0]
