"""Verdicts for many problems: searched one by one, on several cores if asked, and replayed side by side."""

import functools
import multiprocessing
import operator
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Final, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Int, Int32

from atlas.domains.minigrid import grid
from atlas.domains.minigrid.alphabet import CARRYING, FRONT
from atlas.domains.minigrid.domain import Minigrid
from atlas.domains.minigrid.grid import KEY, NOTHING, PICK_UP, PUT_DOWN, TOGGLE, cell
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.domains.minigrid.solver.boards import (
    DOOR_CODES,
    LOCKED_CODES,
    MOVABLE_CODES,
    NOWHERE,
    Board,
    Facing,
    Scene,
    bits,
    join,
    less,
    meaning,
    meet,
    places,
    read_scene,
)
from atlas.domains.minigrid.solver.bounds import LOST, Edge, Machine, Outlook, read_machine, why_unsolvable
from atlas.domains.minigrid.solver.search import POLISH, STYLES, Layer, Leads, Roam, Search, Stand, single
from atlas.errors import AtlasError
from atlas.tasks.machine import natural_size
from atlas.tasks.packed import RewardMachines, stack, unpack
from atlas.types import Problem
from atlas.vocabulary import ACCEPTED, REJECTED
from atlas.world import World, WorldState

# Fewest steps that any plan must take, by making everything easier than it is.
#
# Here objects block no way, doors stand open unless they are locked and no key of their colour was ever picked up, and
# what the agent has once come by it may have anywhere. What remains is that it must turn and walk to face (and pick up)
# the objects its guards ask for, see both of two neighbours at some time, and look at doors where they are. The
# shortest
# play in that easier world is a bound on every play in the real one.

MOST_NEEDS: Final = 6
"""How many needs are remembered; what goes beyond is waived, which only lowers the bound."""


class Need(NamedTuple):
    """What has to happen, at some time, before a proposition can hold."""

    seen: Facing
    """It is enough to have stood like this,"""
    grasped: Facing
    """or to have stood like this and picked up what is ahead."""


class Ease(NamedTuple):
    """An edge in the easier world."""

    target: int
    needs: int
    """Which needs must be met, as bits."""
    now: Facing
    """Where the agent must stand."""


class _Easier:
    """The easier world of one problem."""

    def __init__(self, scene: Scene, machine: Machine, outlook: Outlook) -> None:
        self.scene = scene
        self.open: Board = 0
        for _, unlocked in outlook.stages:
            self.open |= outlook.within(unlocked).region
        self.needs: list[Need] = []
        self._free: dict[int, Board] = {}
        alive = {u for u, _ in outlook.winning}
        self.edges = {
            u: [self._ease(edge) for edge in machine.edges[u] if edge.target in alive]
            for u in sorted(alive)
            if machine.is_running(u)
        }
        self._locks = [
            (board, self._bit(self._key(colour)))
            for colour, code in enumerate(LOCKED_CODES)
            if (board := scene.board((code,)) & self.open) and scene.carrying != cell(KEY, colour)
        ]
        self.goals = frozenset(u for u, outcome in enumerate(machine.outcome) if outcome == ACCEPTED)

    def _seeing_neighbours(self, first: frozenset[int], last: frozenset[int]) -> Facing:
        """Where two are seen that lie side by side from the start; a door may be in any state by then."""
        colours = {code & 7 for code in last & DOOR_CODES}
        others = last | {code for code in DOOR_CODES if code & 7 in colours}
        return self.scene.seeing_pairs(self.scene.board(first), self.scene.board(others))

    def _key(self, colour: int) -> Need:
        return Need(NOWHERE, self.scene.geometry.facing(self.scene.board((cell(KEY, colour),))))

    def free(self, met: int) -> Board:
        """Where the agent can walk, given the needs that are met."""
        found = self._free.get(met)
        if found is None:
            closed = sum(board for board, bit in self._locks if bit & ~met)
            found = self._free[met] = self.open & ~closed
        return found

    def _ease(self, edge: Edge) -> Ease:
        now: Facing = (self.open,) * 4
        needs = 0
        for prop in edge.positive:
            now = meet(now, self._now(prop))
            for need in self._find(prop):
                needs |= self._bit(need)
        return Ease(edge.target, needs, now)

    def _now(self, prop: int) -> Facing:
        """Where the agent must stand when a proposition holds: doors stay where they are."""
        location, _, last = meaning(prop)
        doors = {code & 7 for code in last if code in DOOR_CODES}
        if not doors:
            return (self.open,) * 4
        board = sum(1 << i for i, code in self.scene.cells.items() if code in DOOR_CODES and code & 7 in doors)
        return self.scene.geometry.facing(board) if location == FRONT else self.scene.geometry.seeing(board)

    def _bit(self, need: Need) -> int:
        if need not in self.needs:
            if len(self.needs) == MOST_NEEDS:
                return 0
            self.needs.append(need)
        return 1 << self.needs.index(need)

    def _find(self, prop: int) -> Iterator[Need]:
        """What must have happened before a proposition can hold."""
        location, first, last = meaning(prop)
        things = [self.scene.board(codes & MOVABLE_CODES) for codes in (first, last) if codes & MOVABLE_CODES]
        if not things or self.scene.carrying in first | last:
            return
        facing = self.scene.geometry.facing(things[0] | things[-1])
        if location == FRONT:
            yield Need(facing, NOWHERE)
        else:
            yield Need(NOWHERE if location == CARRYING else self._seeing_neighbours(first, last), facing)
        if location not in (FRONT, CARRYING):
            yield from (Need(self.scene.geometry.seeing(board), NOWHERE) for board in things)


Place = tuple[int, int]
"""A task state and the needs that are met, as bits."""


def lower_bound(scene: Scene, start: Stand, machine: Machine, outlook: Outlook) -> int:
    """Fewest steps from a stand to acceptance in the easier world; 0 if the task is accepted already."""
    world = _Easier(scene, machine, outlook)
    layer = _meet_needs(world, {(start.u, 0): single(start)})
    seen = dict(layer)
    steps = 0
    while not any(u in world.goals for u, _ in layer):
        steps += 1
        layer = _fresh(_step(world, layer), seen)
        if not layer:
            raise AssertionError("a problem that is not ruled out must be easy in the easier world")
    return steps


def _step(world: _Easier, layer: dict[Place, Facing]) -> dict[Place, Facing]:
    """One action later: walked, turned, stayed or picked something up, and then perhaps moved on in the task."""
    after: dict[Place, Facing] = {}
    for (u, met), standing in layer.items():
        _add(after, (u, met), _moved(world.scene.geometry.stride, world.free(met), standing))
        for number, need in enumerate(world.needs):
            _add(after, (u, met | 1 << number), meet(standing, need.grasped))
    after = _meet_needs(world, after)
    for (u, met), standing in list(after.items()):
        for ease in world.edges.get(u, ()):
            if ease.needs & ~met == 0:
                _add(after, (ease.target, met), meet(standing, ease.now))
    return after


def _moved(stride: int, free: Board, standing: Facing) -> Facing:
    up, right, down, left = standing
    return (
        ((up >> stride) & free) | left | right | up,
        ((right << 1) & free) | up | down | right,
        ((down << stride) & free) | left | right | down,
        ((left >> 1) & free) | up | down | left,
    )


def _meet_needs(world: _Easier, layer: dict[Place, Facing]) -> dict[Place, Facing]:
    """Take note of needs that are met by standing there. Having met more is never worse, so only that is kept."""
    for number, need in enumerate(world.needs):
        for (u, met), standing in list(layer.items()):
            if not met >> number & 1:
                _add(layer, (u, met | 1 << number), meet(standing, need.seen))
                layer[u, met] = less(standing, need.seen)
    return layer


def _add(layer: dict[Place, Facing], place: Place, standing: Facing) -> None:
    if any(standing):
        layer[place] = join(layer[place], standing) if place in layer else standing


def _fresh(layer: dict[Place, Facing], seen: dict[Place, Facing]) -> dict[Place, Facing]:
    """What was not reached before, nor with more needs met."""
    result = {}
    for (u, met), standing in layer.items():
        for (v, more), before in seen.items():
            if u == v and met & ~more == 0:
                standing = less(standing, before)
        if any(standing):
            result[u, met] = standing
    for place, standing in result.items():
        _add(seen, place, standing)
    return result


# Try everything: every object picked up and put down everywhere, every door toggled, until nothing new comes up.
#
# Only small problems come to an end within the budget, but for those the answer is certain. A node is an arrangement of
# objects with all the ways to stand that were new when it came up, so walking costs no nodes.

HOPELESS: Final = 20
"""How many times more arrangements than the budget are too many to begin with."""


@dataclass(slots=True)
class Arrangement:
    """A scene, what is within walking distance in it, and how it came about."""

    scene: Scene
    roam: Roam
    parent: "Arrangement | None"
    action: int
    """The deed that led here from the parent."""

    def plan_to(self, steps: int, goal: Stand) -> list[int]:
        """All actions from the start to a stand that is reached here after so many steps."""
        actions, entry = self.roam.trace(steps, goal)
        if self.parent is None:
            return actions
        before, taken = self.parent.roam, Leads(self.scene, self.roam.leads.machine)
        for u in before.seen:
            stand = entry._replace(u=u)
            if taken.after(stand) == entry.u and (reached := before.nearest(u, single(stand))):
                return [*self.parent.plan_to(*reached), self.action, *actions]
        raise AssertionError("an arrangement does not follow from its parent")


Possibility = tuple[Scene, Layer, Arrangement | None, int]
"""A scene, the ways to stand in which it is entered, where it comes from and by which deed."""


def exhaust(
    outlook: Outlook, scene: Scene, start: Stand, step_limit: int, budget: int
) -> list[int] | Literal["impossible"] | None:
    """A plan, or the certainty that there is none of any length, or None if the budget did not suffice."""
    if _count(scene, outlook) > HOPELESS * budget:
        return None
    seen: dict[tuple[object, int], Facing] = {}
    todo: deque[Possibility] = deque([(scene, {start.u: single(start)}, None, 0)])
    accepting = frozenset(u for u, outcome in enumerate(outlook.machine.outcome) if outcome == ACCEPTED)
    is_over = True
    while todo and budget > 0:
        here, layer, parent, action = todo.popleft()
        fresh = _unseen(seen, here, layer)
        if not fresh:
            continue
        budget -= 1
        lost = frozenset(u for u in range(len(outlook.machine.outcome)) if outlook.distance(u, here) >= LOST)
        node = Arrangement(here, Roam(Leads(here, outlook.machine), fresh, lost, accepting), parent, action)
        if node.roam.goal is not None:
            plan = node.plan_to(len(node.roam.layers) - 1, node.roam.goal)
            if len(plan) <= step_limit:
                return plan
            is_over = False
            continue
        for u in node.roam.seen:
            seen[here.key, u] = join(node.roam.standing(u), seen.get((here.key, u), NOWHERE))
        todo.extend(_deeds(outlook, node, lost))
    return "impossible" if is_over and not todo else None


def _count(scene: Scene, outlook: Outlook) -> int:
    """Roughly how many arrangements there are."""
    within = outlook.within(functools.reduce(operator.or_, (unlocked for _, unlocked in outlook.stages)))
    doors = (scene.board(DOOR_CODES) & (within.region | scene.geometry.around(within.region))).bit_count()
    return within.region.bit_count() ** sum(within.movable.values()) * 2**doors


def _unseen(seen: dict[tuple[object, int], Facing], scene: Scene, layer: Layer) -> Layer:
    """The ways to stand that did not come up before in the same arrangement."""
    new = {u: less(standing, seen.get((scene.key, u), NOWHERE)) for u, standing in layer.items()}
    return {u: standing for u, standing in new.items() if any(standing)}


def _deeds(outlook: Outlook, node: Arrangement, lost: frozenset[int]) -> list[Possibility]:
    """Everything that can be done with a cell ahead."""
    found: list[Possibility] = []
    for action, board in _targets(node.scene):
        for place in bits(board):
            facing = node.scene.geometry.facing(1 << place)
            layer = {u: meet(node.roam.standing(u), facing) for u in node.roam.seen}
            if not any(places(standing) for standing in layer.values()):
                continue
            scene = node.scene.act(action, place)
            if scene is not None:
                after = Leads(scene, outlook.machine).settle(layer)
                kept = {u: standing for u, standing in after.items() if outlook.distance(u, scene) < LOST}
                found.append((scene, kept, node, action))
    return found


def _targets(scene: Scene) -> list[tuple[int, Board]]:
    hands = (PICK_UP, scene.board(MOVABLE_CODES)) if scene.carrying == NOTHING else (PUT_DOWN, scene.plain)
    return [hands, (TOGGLE, scene.board(DOOR_CODES))]


# Plans put to the test of the real world: the compiled dynamics, the real labels, the task as it was given.

CHUNK: Final = 256
"""Plans that are replayed side by side."""


def accepted(problems: Problem, plans: Sequence[Sequence[int]], step_limit: int) -> np.ndarray:
    """`bool[batch]`: whether each plan ends, at the latest at the step limit, with its task accepted."""
    verdicts = []
    for start in range(0, len(plans), CHUNK):
        some = plans[start : start + CHUNK]
        members = np.resize(np.arange(start, start + len(some)), CHUNK if len(plans) > 1 else 1)
        batch = jax.tree.map(lambda x, chosen=members: np.asarray(x)[chosen], problems)
        actions, lengths = _pad(some, len(members), step_limit)
        verdicts.append(np.asarray(_replay(step_limit)(batch, actions, lengths))[: len(some)])
    return np.concatenate(verdicts) if verdicts else np.zeros(0, bool)


def _pad(plans: Sequence[Sequence[int]], rows: int, step_limit: int) -> tuple[np.ndarray, np.ndarray]:
    actions, lengths = np.zeros((rows, step_limit), np.int32), np.zeros(rows, np.int32)
    for row, plan in enumerate(plans):
        lengths[row] = len(plan)
        actions[row, : len(plan)] = plan[:step_limit]
    return actions, lengths


@functools.cache
def _replay(step_limit: int) -> Any:
    world = World(Minigrid(MinigridConfig()), RewardMachines(), step_limit)
    return jax.jit(jax.vmap(functools.partial(_is_accepted, world)))


def _is_accepted(
    world: World, problem: Problem, actions: Int32[Array, "steps"], length: Int[Array, ""]
) -> Bool[Array, ""]:
    """Follow one plan to its end or to the end of the episode."""

    def go_on(moment: tuple[WorldState, Array, Array]) -> Bool[Array, ""]:
        state, done, _ = moment
        return ~done & (state.time < length)

    def act(moment: tuple[WorldState, Array, Array]) -> tuple[WorldState, Array, Array]:
        state, _, _ = moment
        after, step = world.step(problem, state, actions[state.time])
        return after, step.done, step.accepted

    start = world.reset(problem)
    return jax.lax.while_loop(go_on, act, (start, jnp.bool_(False), jnp.bool_(False)))[2]


# Verdicts with proof: a plan that the real world accepts, or a reason why there can be none.
#
# *Solvable* comes with a plan; it was found in a second telling of the world (`search`) and replayed in the first
# (`verify`). *Unsolvable* comes from an abstraction that allows at least what the world allows (`outlook`). What is
# neither within the budget is *unknown*. Nothing here depends on the clock, so verdicts can be repeated.

Verdict = Literal["solvable", "unsolvable", "unknown"]
STEP_LIMIT: Final = 512
BUDGET: Final = 1500
"""Nodes that are searched before giving up: about a second."""
POLISHING: Final = 300
"""Nodes that are searched for a shorter plan once there is one."""


@dataclass(frozen=True)
class Solution:
    """What is known about a problem."""

    verdict: Verdict
    reason: str
    """A sentence: what the plan comes to, what is impossible, or what was tried."""
    plan: tuple[int, ...] | None = None
    """Actions that solve it."""
    lower_bound: int | None = None
    """No plan is shorter than this; None if it was not asked for or there is no plan."""
    trivial: bool = False
    """The first label alone completes the task."""

    @property
    def plan_length(self) -> int | None:
        """Steps of the plan."""
        return None if self.plan is None else len(self.plan)


def solve(problem: Problem, step_limit: int = STEP_LIMIT, budget: int = BUDGET, polish: int = POLISHING) -> Solution:
    """Decide whether a problem can be solved within the step limit, and prove it either way."""
    found = propose(problem, step_limit, budget, polish)
    if found.plan:
        found = confirm(found, bool(accepted(_stack([problem]), [found.plan], step_limit)[0]))
    return found


def confirm(found: Solution, is_accepted: bool) -> Solution:
    """A solution whose plan was replayed; one that failed proves nothing."""
    if found.plan and not is_accepted:
        return Solution("unknown", "a plan was found that the world does not accept: please report this problem")
    return found


def propose(
    problem: Problem, step_limit: int = STEP_LIMIT, budget: int = BUDGET, polish: int = 0, bound: bool = True
) -> Solution:
    """As `solve`, but the plan is not yet replayed in the real world."""
    if step_limit < 1 or budget < 1:
        raise AtlasError(f"step_limit = {step_limit} and budget = {budget} must both be at least 1")
    try:
        machine = read_machine(problem.task)
    except AtlasError as error:
        return Solution("unknown", str(error))
    scene, agent, direction = read_scene(problem.level)
    start = Stand(agent, direction, 0)
    start = start._replace(u=Leads(scene, machine).after(start))
    return _at_reset(machine, start) or _decide(scene, machine, start, step_limit, (budget, polish), bound)


def _at_reset(machine: Machine, start: Stand) -> Solution | None:
    """The verdict if the first label ends the task."""
    if machine.outcome[start.u] == ACCEPTED:
        return Solution("solvable", "trivial: the first label alone completes the task", (), 0, trivial=True)
    if machine.outcome[start.u] == REJECTED:
        return Solution("unsolvable", "the first label already leads to rejection")
    return None


def _decide(
    scene: Scene, machine: Machine, start: Stand, step_limit: int, effort: tuple[int, int], bound: bool
) -> Solution:
    outlook = Outlook(scene, start.cell, machine, start.u)
    if outlook.distance(start.u, scene) >= LOST:
        return Solution("unsolvable", why_unsolvable(outlook))
    least = lower_bound(scene, start, machine, outlook) if bound else None
    if least is not None and least > step_limit:
        return Solution("unsolvable", f"at least {least} steps are needed, and only {step_limit} are allowed")
    budget, polish = effort
    plan, spent = _find(outlook, scene, start, step_limit, budget)
    if plan is None:
        everything = exhaust(outlook, scene, start, step_limit, budget)
        if everything == "impossible":
            return Solution("unsolvable", "everything that can be done was tried, and nothing leads to acceptance")
        if everything is None:
            return Solution("unknown", f"no plan was found among {spent} ways to go on", None, least)
        plan = everything
    plan = _shorten(outlook, scene, start, plan, polish)
    return Solution("solvable", _praise(len(plan), least), tuple(plan), least)


def _find(outlook: Outlook, scene: Scene, start: Stand, step_limit: int, budget: int) -> tuple[list[int] | None, int]:
    """The first plan that one of the styles finds, and how many nodes that took.

    Under a tight limit a longer plan is found first and then shortened.
    """
    spent = 0
    for style in STYLES:
        search = Search(outlook, max(step_limit, STEP_LIMIT), style)
        plan = search.run(scene, start, max(1, int(budget * style.share)))
        spent += search.expanded
        if plan is not None and len(plan) > step_limit:
            plan = _shorten(outlook, scene, start, plan, budget - spent, step_limit)
        if plan is not None and len(plan) <= step_limit:
            return plan, spent
    return None, spent


def _shorten(outlook: Outlook, scene: Scene, start: Stand, plan: list[int], polish: int, enough: int = 0) -> list[int]:
    """Search on for shorter plans, within a budget of nodes, until one is short enough."""
    for style in POLISH:
        left = int(polish * style.share)
        while left > 0 and len(plan) > max(enough, 1):
            search = Search(outlook, len(plan) - 1, style)
            shorter = search.run(scene, start, left)
            left -= search.expanded
            if shorter is None:
                break
            plan = shorter
    return plan


def _praise(length: int, least: int | None) -> str:
    steps = f"a plan of {length} step{'s' if length != 1 else ''}"
    if least is None:
        return f"{steps} was found"
    return f"{steps}, and none is shorter" if length == least else f"{steps}; at least {least} are needed"


def counted(solutions: list[Solution]) -> dict[str, Any]:
    """How often each verdict was given, and more about a set."""
    verdicts = [s.verdict for s in solutions]
    lengths = [len(s.plan) for s in solutions if s.plan is not None]
    return {
        "problems": len(solutions),
        "solvable": verdicts.count("solvable"),
        "unsolvable": verdicts.count("unsolvable"),
        "unknown": verdicts.count("unknown"),
        "trivial": sum(s.trivial for s in solutions),
        "mean_plan_length": float(np.mean(lengths)) if lengths else None,
    }


# Verdicts for many problems: searched one by one, on several cores if asked, and replayed side by side.

MANY: Final = 200
"""From so many problems on, other processes are worth their start."""
PIECE: Final = 16
"""Problems that are handed to another process at a time."""


Progress = Callable[[int, int], None]


def silent(done: int, total: int) -> None:
    """Tell nobody how far the work is."""


def solve_many(
    problems: Sequence[Problem],
    step_limit: int = STEP_LIMIT,
    budget: int = BUDGET,
    polish: int = 0,
    bound: bool = True,
    workers: int = 1,
    progress: Progress = silent,
) -> list[Solution]:
    """The solution of each problem, as `solve` gives it. `progress` is told how many of how many are done.

    More than one worker starts other Python processes, so a script must call it under `if __name__ == "__main__"`; 0
    takes one a core if the problems are many.
    """
    workers = workers or ((os.cpu_count() or 1) if len(problems) >= MANY else 1)
    plain = [_plain(problem) for problem in problems]
    decide = partial(propose, step_limit=step_limit, budget=budget, polish=polish, bound=bound)
    found: list[Solution] = []
    for solution in map(decide, plain) if workers == 1 else _in_processes(decide, plain, workers):
        found.append(solution)
        progress(len(found), len(plain))
    return _replayed(plain, found, step_limit)


def _plain(problem: Problem) -> Problem:
    """A problem without a name, in plain values that travel between processes."""
    return Problem.unchecked(level=jax.tree.map(np.asarray, problem.level), task=unpack(problem.task))


def _in_processes(decide: Any, problems: list[Problem], workers: int) -> Iterator[Solution]:
    # A process that is forked from one in which JAX runs may hang, so they are started afresh.
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(decide, problems, chunksize=PIECE)


def _replayed(problems: list[Problem], found: list[Solution], step_limit: int) -> list[Solution]:
    """The solutions with their plans confirmed by the real world, those of problems of one size together."""
    groups: dict[Any, list[int]] = {}
    for number, solution in enumerate(found):
        if solution.plan:
            groups.setdefault(_kind(problems[number]), []).append(number)
    result = list(found)
    for members in groups.values():
        batch = _stack([problems[number] for number in members])
        verdicts = accepted(batch, [found[number].plan or () for number in members], step_limit)
        for number, is_accepted in zip(members, verdicts, strict=True):
            result[number] = confirm(found[number], bool(is_accepted))
    return result


def _kind(problem: Problem) -> Any:
    """What problems must share to be replayed together: flat tasks are padded, hierarchies must be of one size."""
    return "flat" if problem.task.is_flat else natural_size(problem.task)


def _stack(problems: Sequence[Problem]) -> Problem:
    """One batch, everything padded to the largest size."""
    levels = [problem.level for problem in problems]
    columns = {field.name: [np.asarray(getattr(s, field.name)) for s in levels] for field in fields(levels[0])}
    filling = {"cells": grid.OUTSIDE_CELL}
    batch = {name: _padded(column, filling.get(name, 0)) for name, column in columns.items()}
    level = type(levels[0]).unchecked(**batch)
    return Problem.unchecked(level=level, task=stack([problem.task for problem in problems]))


def _padded(arrays: list[np.ndarray], filling: int) -> np.ndarray:
    shape = np.max([array.shape for array in arrays], axis=0).astype(int)
    batch = np.full((len(arrays), *shape), filling, arrays[0].dtype)
    for number, array in enumerate(arrays):
        inside = tuple(slice(size) for size in array.shape)
        batch[number, ...][inside] = array
    return batch
