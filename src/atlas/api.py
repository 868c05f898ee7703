"""Public functions: tasks (no JAX needed), sampling by the settings (`atlas.sample(6, pairing="level")`), solving."""

import functools
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from atlas.domains import domain_of, known_domain, name_for, settings_class, surface_for, vocabulary_of
from atlas.errors import AtlasError, TaskWarning, listed, nearest
from atlas.settings import STEP_LIMIT
from atlas.tasks import machine
from atlas.tasks.machine import Task, machine_name
from atlas.vocabulary import ACCEPTED, REJECTED, RUNNING, Vocabulary

if TYPE_CHECKING:
    from atlas.config import Config
    from atlas.types import Level, NamedProblem, Problem

Label = Iterable[str | int] | str
"""The propositions that hold, by name (`front_ball_red`) or id; those left out do not."""


def english(text: str, domain: str | None = None) -> Task:
    """The task that English words describe, in the words of a domain (`letterworld`; by default `minigrid`).

    A warning tells of another way to read them, and of a translation (`atlas.tasks.translate`).
    """
    from atlas.tasks.english import read

    reading = read(text, vocabulary_of(known_domain(domain)))
    for note in reading.notes:
        warnings.warn(note, TaskWarning, stacklevel=2)
    return reading.task


def ltlf(text: str, domain: str | None = None) -> Task:
    """The task of an LTLf formula over the propositions of a domain, read as co-safe."""
    from atlas.tasks.ltlf import ltlf as read

    return read(text, vocabulary_of(known_domain(domain)))


def explain(task: Any, domain: str | None = None) -> str:
    """A task (or that of a problem, which knows its domain) in English that `english` reads back."""
    from atlas.tasks.explain import explain as say

    return say(plain_task(task), _vocabulary(task, domain))


def _vocabulary(task: Any, domain: str | None = None) -> Vocabulary:
    """That of a problem's domain, else of the one that is named, else of the default one."""
    return vocabulary_of(name_for(task) if hasattr(task, "level") else known_domain(domain))


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
    """The state that each open call returns to, the outermost first, as in `m0:u2`."""
    reward: float
    """Reward of the label."""
    accepted: bool
    rejected: bool

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def keys(self) -> Iterator[str]:
        """The names of the fields, so that `dict(record)` works."""
        return (field.name for field in fields(self))


def follow(
    task: Any, labels: Iterable[Label], vocabulary: Vocabulary | None = None, domain: str | None = None
) -> list[Followed]:
    """Follow a task (or that of a problem) through labels: one record for each, from the initial state on.

    Propositions are those of a problem's domain, else of `domain`, or of a `vocabulary`. A label is taken as given:
    name what it implies too (`front_ball`), if the task asks for it.
    """
    vocabulary = vocabulary or _vocabulary(task, domain)
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
            found = vocabulary.find(proposition)
            if found is None:
                raise AtlasError(f"'{proposition}' is not a proposition{nearest(proposition, vocabulary.ids)}")
            ids.add(found)
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
    domain: str | None = None,
) -> "list[NamedProblem]":
    """Draw n problems, each at its natural size.

    `pairing`: `independent`, `level` (the task is made of what the level holds) or `task` (the level holds what the
    task mentions). `tasks`: `sequential`, `reach-avoid`, `parity`, `dag`, `authors-dag`, `cyclic`, `hierarchical` or
    `mixed`.
    `rooms`: any of 1, 2, 4, 6, 9; all of them if left out. `solvable`: keep only what the relaxed check passes.
    `domain`: `minigrid`, which has rooms, or `letterworld`.
    """
    from atlas.tasks.packed import unstack
    from atlas.types import About, NamedProblem

    batch = sample_batch(settings(pairing, tasks, rooms, solvable, domain), n, seed)
    width = len(str(n - 1))
    return [
        NamedProblem(level=surface_for(level).crop(level), task=task, about=About(name=f"sample-{seed}-{i:0{width}d}"))
        for i, (level, task) in enumerate(zip(_one_by_one(batch.level), unstack(batch.task), strict=True))
    ]


def settings(
    pairing: str,
    tasks: str,
    rooms: tuple[int, ...] | None = None,
    solvable: bool = False,
    domain: str | None = None,
) -> "Config":
    """A config that says how problems are drawn; the rest of it does not matter here."""
    from atlas.config import Config
    from atlas.settings import from_plain

    plain = {
        "domain": _domain_settings(known_domain(domain), rooms),
        "tasks": {"sampler": tasks},
        "pairing": {"how": pairing, "solvable": solvable},
    }
    return from_plain(Config, plain)


def _domain_settings(domain: str, rooms: tuple[int, ...] | None) -> dict[str, Any]:
    """The settings of a domain with rooms of some numbers, in plain values."""
    if rooms is None:
        return {"name": domain}
    if "rooms" not in {field.name for field in fields(settings_class(domain))}:
        raise AtlasError(f"rooms = {listed(list(map(str, rooms)), 'and')} is not allowed: {domain} has no rooms")
    return {"name": domain, "rooms": list(rooms)}


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


def sample_levels(
    n: int, seed: int = 0, rooms: tuple[int, ...] | None = None, domain: str | None = None
) -> "list[Level]":
    """Draw n levels, each at its natural size."""
    import jax

    from atlas.programs import Program
    from atlas.settings import dump, require, require_seed

    require(n >= 1, "n", n, "at least 1")
    require_seed(seed)
    config = settings("independent", "sequential", rooms, domain=domain)

    def make() -> Any:
        draw = jax.vmap(domain_of(config.domain).sample)
        return lambda seed: draw(jax.random.split(jax.random.key(seed), n))

    batch = Program(f"levels {n} {dump(config)}", make)(np.uint32(seed))
    return [surface_for(level).crop(level) for level in _one_by_one(batch)]


def _one_by_one(batch: Any) -> list[Any]:
    import jax

    leaves, tree = jax.tree.flatten(jax.device_get(batch))
    return [jax.tree.unflatten(tree, [leaf[i] for leaf in leaves]) for i in range(len(leaves[0]))]


# Edits


@dataclass(frozen=True)
class Edited:
    """A problem that an edit made of another, and what was changed, in words."""

    problem: "NamedProblem"
    edit: str


def edit(problem: "Problem", kind: str, seed: int = 0, rooms: tuple[int, ...] | None = None) -> Edited:
    """One edit of a kind (`add_rooms`, `switch_proposition`, …) of a problem, as teachers make them.

    `rooms`: the room counts that levels may have. Hindsight edits need an episode that ended on its way: the solver's
    plan, cut where the task was last under way.
    """
    import jax

    from atlas.build import tell_edit
    from atlas.config import Config
    from atlas.problems import PRECEDING, SUCCEEDING, edit_names, stack
    from atlas.settings import from_plain, require
    from atlas.tasks.packed import pack, unpack
    from atlas.tasks.sample import formalism
    from atlas.types import About, NamedProblem

    require(0 <= seed < 2**32, "seed", seed, "a whole number from 0 to 4,294,967,295 is needed")
    key, about, plain = jax.random.key(seed), getattr(problem, "about", About()), unpack(problem.task)
    own = about.name or "this problem"
    domain_name = name_for(problem)
    domain = domain_of(from_plain(Config, {"domain": _domain_settings(domain_name, rooms)}).domain)
    tasks, _ = formalism(Config().tasks, domain.vocabulary, mask=domain.mask)
    known = edit_names(domain, tasks)
    if kind not in known:
        hint = nearest(kind, known) or f"; there are {', '.join(known)}"
        raise AtlasError(f"'{kind}' is no kind of edit{hint}")
    size = machine.natural_size(plain)
    level, task = problem.level, pack(plain, size._replace(states=size.states + 1))
    if kind in (PRECEDING, SUCCEEDING):
        level, task, arguments = _hindsight(problem, kind == PRECEDING, tasks)
    else:
        level_edits = {one.name: one for one in domain.edits}
        of_level = kind in level_edits
        one = level_edits[kind] if of_level else next(one for one in tasks.edits if one.name == kind)
        if of_level:  # at the size that the settings ask for
            sampled = problem.replace(level=domain.sample(key))
            level = jax.tree.map(lambda leaf: leaf[0], stack([problem, sampled]).level)
            if any(a.shape != b.shape for a, b in zip(*map(jax.tree.leaves, (level, sampled.level)), strict=True)):
                raise AtlasError(f"{own} is larger than levels of {listed(list(map(str, domain.strata[1])))} rooms")
        subject: Any = level if of_level else task
        if not one.applicable(subject):
            raise AtlasError(f"{kind} does not apply to {own}")
        changed, told = jax.jit(one.apply)(key, subject)
        level, task = (changed, task) if of_level else (level, changed)
        arguments = np.asarray(told).tolist()
    made = About(name=f"{about.name or 'problem'}-{kind}")
    child = NamedProblem(level=surface_for(problem).crop(level), task=unpack(task), about=made)
    return Edited(child, tell_edit(domain_name, kind, arguments))


def _hindsight(problem: "Problem", preceding: bool, tasks: Any) -> tuple[Any, Any, list[int]]:
    """The level, the task and what a lineage would say."""
    from atlas.show.episode import Episode
    from atlas.types import pack_pair

    episode = Episode(problem)
    start, reached = episode.place, None
    for action in solve(problem).plan or ():
        if episode.act(action).done:
            break
        if episode.place != start and episode.record.outcome == RUNNING:
            reached = (episode.level, *episode.progress, episode.place)
    if reached is None:
        raise AtlasError("hindsight needs a task that is solved in several steps, and a plan that solves it")
    level, task, state, (number, place) = reached
    part, fits = (tasks.prefix if preceding else tasks.suffix)(task, state)
    if not fits:
        raise AtlasError("the task that hindsight makes of it is too large")
    return (problem.level if preceding else level), part, [pack_pair(number, place), -1, -1]


def solve(problem: "Problem", step_limit: int = STEP_LIMIT, budget: int = 1500, polish: int = 300) -> Any:
    """Whether a problem can be solved, with proof: `verdict` (solvable, unsolvable or unknown), `plan`, `reason`.

    `budget`: how many nodes are searched before it is called unknown; `polish`: how many more for a shorter plan.
    """
    return surface_for(problem).solve_many([problem], step_limit=step_limit, budget=budget, polish=polish)[0]
