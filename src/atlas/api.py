"""Problems and levels drawn by the settings: `atlas.sample(6, pairing="level")`."""

import functools
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from atlas.build import parts
from atlas.config import Config
from atlas.domains.minigrid import text
from atlas.domains.minigrid.domain import Minigrid
from atlas.domains.minigrid.grid import Level
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.settings import from_plain, require
from atlas.tasks import hrm, rm
from atlas.tasks.follow import Followed, Label
from atlas.types import About, NamedProblem, Problem
from atlas.vocabulary import Vocabulary

# Public functions that need to know what a proposition of Minigrid is.


def follow(task: Any, labels: Iterable[Label], vocabulary: Vocabulary | None = None) -> list[Followed]:
    """Follow a task (or that of a problem) through labels: one record for each, from the initial state on.

    A label is the set of propositions that hold, by name (`front_ball_red`) or id. It is taken as given: name what it
    implies too (`front_ball`), if the task asks for it.
    """
    from atlas.tasks import follow as following

    inner = task.task if isinstance(task, Problem) else task
    return following.follow(inner, labels, vocabulary or minigrid_vocabulary())


def english(text: str) -> Any:
    """The task that English words describe: a machine, or a hierarchy if they speak of routines."""
    from atlas.tasks.english import english as read

    return read(text, minigrid_vocabulary())


def ltlf(text: str) -> Any:
    """The machine of an LTLf formula, read as co-safe."""
    from atlas.tasks.ltlf import ltlf as read

    return read(text, minigrid_vocabulary())


def explain(task: Any) -> str:
    """A task (or that of a problem) in English that `english` reads back."""
    from atlas.tasks.explain import explain as say

    return say(task.task if isinstance(task, Problem) else task, minigrid_vocabulary())


def minigrid_vocabulary() -> Vocabulary:
    """The 889 propositions of Minigrid."""
    from atlas.domains.minigrid.alphabet import VOCABULARY

    return VOCABULARY


# Problems and levels drawn by the settings: `atlas.sample(6, pairing="level")`.


def sample(
    n: int = 1,
    pairing: str = "independent",
    tasks: str = "sequential",
    seed: int = 0,
    rooms: tuple[int, ...] = MinigridConfig().rooms,
    solvable: bool = False,
) -> list[NamedProblem]:
    """Draw n problems, each at its natural size.

    `pairing`: `independent`, `level` (the task is made of what the level holds) or `task` (the level holds what the
    task mentions). `tasks`: `sequential`, `dag`, `authors-dag`, `cyclic` or `hierarchical`. `rooms`: any of 1, 2, 4, 6,
    9. `solvable`: keep only what the relaxed check passes.
    """
    batch = sample_batch(settings(pairing, tasks, rooms, solvable), n, seed)
    names = _names(n, seed)
    return [
        NamedProblem(level=text.crop_level(problem.level), task=_natural(problem.task), about=About(name=name))
        for problem, name in zip(_one_by_one(batch), names, strict=True)
    ]


def settings(pairing: str, tasks: str, rooms: tuple[int, ...], solvable: bool = False) -> Config:
    """A config that says how problems are drawn; the rest of it does not matter here."""
    plain = {
        "domain": {"rooms": list(rooms)},
        "tasks": {"sampler": tasks},
        "pairing": {"how": pairing, "solvable": solvable},
    }
    return from_plain(Config, plain)


def sample_batch(config: Config, n: int, seed: int) -> Problem:
    """n problems as one batch, padded to the size of the settings."""
    _require_count(n)
    return _sampler(config, n)(jax.random.key(seed))


@functools.cache
def _sampler(config: Config, n: int) -> Any:
    draw = parts(config).sample
    return jax.jit(lambda key: draw(key, n))


def sample_levels(n: int, seed: int = 0, rooms: tuple[int, ...] = MinigridConfig().rooms) -> list[Level]:
    """Draw n levels, each at its natural size."""
    _require_count(n)
    domain = Minigrid(from_plain(MinigridConfig, {"rooms": list(rooms)}))
    batch = jax.jit(jax.vmap(domain.sample))(jax.random.split(jax.random.key(seed), n))
    return [text.crop_level(level) for level in _one_by_one(batch)]


def _require_count(n: int) -> None:
    require(n >= 1, "n", n, "at least 1")


def _names(n: int, seed: int) -> list[str]:
    width = len(str(n - 1))
    return [f"sample-{seed}-{i:0{width}d}" for i in range(n)]


def _one_by_one(batch: Any) -> list[Any]:
    leaves, tree = jax.tree.flatten(batch)
    columns = [list(np.asarray(leaf)) for leaf in leaves]
    return [jax.tree.unflatten(tree, [jax.numpy.asarray(x) for x in row]) for row in zip(*columns, strict=True)]


def _natural(task: Any) -> Any:
    """A task without its padding."""
    module: Any = rm if isinstance(task, rm.RewardMachine) else hrm
    return module.resize(task, module.natural_size(task))
