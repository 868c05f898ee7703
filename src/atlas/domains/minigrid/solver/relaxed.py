"""The paper's check (Appendix E.3), for thousands of problems at once.

A problem passes if some path to acceptance has only guards whose objects are within reach. Doors are unlocked in any
order between the transitions: a search over (task state, set of unlocked doors). It is neither sound nor complete (see
`prove` for verdicts with proof), but cheap enough to screen every sampled problem.

A *situation* is a set of unlocked doors, written as the bits of its index: there are `2 ** locks` of them. A *region*
is a part of the level that only locked doors divide. Objects do not block the way (they can be carried off), nor do
closed doors; unlocking is never undone. So a situation decides which objects and doors are within reach.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int, Int8, Int16, Int32, UInt8, UInt32

from atlas.chance import WORD, bit_set, union
from atlas.domains.minigrid.alphabet import ANY_COLOUR, DOOR_TYPE, PROPOSITIONS, VOCABULARY, Proposition
from atlas.domains.minigrid.grid import (
    BALL,
    BORDER,
    DOOR_CLOSED,
    DOOR_LOCKED,
    DOOR_OPEN,
    FLOOR,
    KEY,
    PITCH,
    SQUARE,
    STEPS,
    Level,
    State,
    colour_of,
    door_places,
    doorways,
    kind_of,
)
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.domains.minigrid.solver.boards import LOCKED_CODES, codes_of
from atlas.domains.shared import CHUNK, batch_check
from atlas.struct import Struct
from atlas.tasks import packed
from atlas.tasks.machine import UNUSED
from atlas.types import Problem
from atlas.vocabulary import ACCEPTED

COLOUR_COUNT: Final = ANY_COLOUR


def _union_where(chosen: Any, sets: UInt32[Array, "many"]) -> UInt32[Array, "places"]:
    """For each column of `bool[many, places]`, the union of the sets that are chosen."""
    return union(jnp.where(chosen, sets[:, None], jnp.uint32(0)))


def relaxed(problem: Problem, locks: int, free_form: bool = False) -> Bool[Array, ""]:
    """Whether the paper's check calls a problem with a flat task solvable.

    `locks` bounds the number of locked doors: time and memory grow with its power of two. Levels that do not follow a
    layout of rooms need `free_form`.
    """
    within = situations((free_regions if free_form else room_regions)(problem.level, locks))
    task = problem.task
    target, accepts = task.target[0], (task.outcome[0] == ACCEPTED)[:, None]
    passes = bit_set(satisfiable(task.guard[0], within) & (target != UNUSED)[..., None])
    can_open = bit_set(within.opens)
    everywhere = jnp.where(accepts, jnp.uint32(2**32 - 1), jnp.zeros_like(passes[:, 0]))

    def improve(state: tuple[Array, Array]) -> tuple[Array, Array]:
        """One step of a search backwards: `wins` is a set of situations for each task state."""
        _, wins = state
        better = wins | jax.vmap(union)(passes & wins[target])
        for lock in range(locks):
            # For each situation in which the lock is closed, the bit of the one in which it is open.
            after = better >> 2**lock if 2**lock < WORD else jnp.roll(better, -(2**lock // WORD), axis=1)
            better |= can_open[lock][None] & after
        return jnp.any(better != wins), better

    _, wins = jax.lax.while_loop(lambda state: state[0], improve, (jnp.bool_(True), everywhere))
    return (wins[0, 0] & 1) != 0


# How far acceptance is
#
# The same search, with numbers in the place of sets: how many transitions and unlocked doors lie between each task
# state in each situation and acceptance. It is a potential that knows keys: rewards may be shaped by it.

NO_WAY: Final = 255
"""Steps left where the check sees no way to acceptance."""


class Outlook(Struct):
    """How far acceptance is in a problem."""

    left: UInt8[Array, "states situations"]
    """Transitions and doors to unlock, from each task state in each situation; NO_WAY if there is none."""
    fitting: UInt8[Array, "states situations"]
    """Colours of the keys that unlock a door on the way, as bits."""
    places: Int8[Array, "locks 2"]
    """Row and column of each locked door; -1 for one that is not there."""


def look_ahead(problem: Problem, locks: int, free_form: bool = False) -> Outlook:
    """The outlook of a problem with a flat task. `locks` and `free_form` as in `relaxed`."""
    regions = (free_regions if free_form else room_regions)(problem.level, locks)
    within, task = situations(regions), problem.task
    target, passes = task.target[0], satisfiable(task.guard[0], within) & (task.target[0] != UNUSED)[..., None]
    start = jnp.where((task.outcome[0] == ACCEPTED)[:, None], 0, NO_WAY)
    start = jnp.broadcast_to(start, (target.shape[0], 2**locks)).astype(jnp.int32)

    def unlocked(left: Int32[Array, "states situations"], lock: int) -> Int32[Array, "states situations"]:
        """What is left once a door is unlocked; NO_WAY where it cannot be."""
        pairs = left.reshape(len(left), -1, 2, 2**lock)
        after = jnp.broadcast_to(pairs[:, :, 1:], pairs.shape).reshape(left.shape)
        return jnp.where(within.opens[lock][None], after, NO_WAY)

    def improve(state: tuple[Array, Array]) -> tuple[Array, Array]:
        _, left = state
        ahead = jnp.min(jnp.where(passes, left[target], NO_WAY), axis=1, initial=NO_WAY)
        for lock in range(locks):
            ahead = jnp.minimum(ahead, unlocked(left, lock))
        better = jnp.minimum(left, ahead + 1)
        return jnp.any(better != left), better

    _, left = jax.lax.while_loop(lambda state: state[0], improve, (jnp.bool_(True), start))
    fitting = jnp.zeros(left.shape, jnp.uint32)
    for lock in range(locks):
        fitting |= jnp.where(unlocked(left, lock) < left, regions.lock_colour[lock], jnp.uint32(0))
    return Outlook(left=left.astype(jnp.uint8), fitting=fitting.astype(jnp.uint8), places=regions.lock_place)


def progress(outlook: Outlook, node: Int[Array, ""], state: State) -> Float32[Array, ""]:
    """How near acceptance is: 0 at the start of an episode, growing to 1 with every transition and every door unlocked,
    half as much for the key in hand that unlocks the next one; below 0 farther off, and -1 where no way is left. It
    starts above 0 where the first label or a key in hand has helped already, and is 0 throughout where the check sees
    no way from the start."""
    places = outlook.places.astype(jnp.int32)
    now = state.cells[places[:, 0] + BORDER, places[:, 1] + BORDER]
    is_unlocked = (places[:, 0] >= 0) & (kind_of(now) != DOOR_LOCKED)
    situation = jnp.sum(jnp.where(is_unlocked, 1 << jnp.arange(len(places)), 0))
    key = (kind_of(state.carrying) == KEY) & ((outlook.fitting[node, situation] >> colour_of(state.carrying)) & 1 != 0)
    left, whole = (2 * outlook.left[at].astype(jnp.int32) for at in ((node, situation), (0, 0)))
    near = 1.0 - jnp.minimum(left - key.astype(jnp.int32), 2 * whole) / jnp.maximum(whole, 1)
    return jnp.where(whole == 2 * NO_WAY, 0.0, near)


TOGETHER: Final = 256
"""Most problems in a chunk, where some levels take longer than others."""


def screen(settings: MinigridConfig) -> "Relaxed":
    """The check with room for all doors that levels of these settings can have."""
    return Relaxed(max(len(door_places(rooms)) for rooms in settings.rooms), settings.walls > 0)


@dataclass(frozen=True)
class Relaxed:
    """`relaxed` for the levels that an experiment has."""

    locks: int
    free_form: bool

    def outlook(self, problem: Problem) -> Outlook:
        """How far acceptance is in one problem, from everywhere. There is no outlook, so that progress is 0 throughout,
        where it would not be understood: of tasks that call others, and of free-form levels that nobody expects."""
        if problem.task.root is not None:
            return Outlook(
                left=jnp.full((1, 1), NO_WAY, jnp.uint8),
                fitting=jnp.zeros((1, 1), jnp.uint8),
                places=jnp.zeros((0, 2), jnp.int8),
            )
        problem = jax.tree.map(jnp.asarray, problem)  # a level from a file is on the host
        free, by_layout = (partial(look_ahead, locks=self.locks, free_form=free) for free in (True, False))
        if not all(side > PITCH and side % PITCH == 1 for side in problem.level.cells.shape):
            return free(problem)  # an array that has not the size of rooms
        is_free = problem.level.rooms == 0
        if self.free_form:
            either: Outlook = jax.lax.cond(is_free, free, by_layout, problem)
            return either
        found = by_layout(problem)
        return found.replace(
            left=jnp.where(is_free, jnp.uint8(NO_WAY), found.left),
            fitting=jnp.where(is_free, jnp.uint8(0), found.fitting),
        )

    def progress(self, outlook: Outlook, node: Int[Array, ""], state: State) -> Float32[Array, ""]:
        """How near acceptance is, from 0 at the start to 1: a potential."""
        return progress(outlook, node, state)

    def __call__(self, problems: Problem) -> Bool[Array, "batch"]:
        """For a batch. Levels without a layout of rooms take many times as long, so they are put together: only chunks
        that hold one pay for it."""
        if not self.free_form:
            return batch_check(partial(relaxed, locks=self.locks, free_form=False))(problems)
        batch = problems.level.rooms.shape[0]
        size = max(n for n in range(1, min(batch, TOGETHER) + 1) if batch % n == 0)
        order = jnp.argsort(problems.level.rooms != 0)
        chunks = jax.tree.map(lambda leaf: leaf[order].reshape(-1, size, *leaf.shape[1:]), problems)

        def one(chunk: Problem) -> Bool[Array, "size"]:
            ways = [jax.vmap(partial(relaxed, locks=self.locks, free_form=free)) for free in (True, False)]
            found: Bool[Array, "size"] = jax.lax.cond(jnp.any(chunk.level.rooms == 0), *ways, chunk)
            return found

        return jnp.zeros(batch, bool).at[order].set(jax.lax.map(one, chunks).reshape(-1))


SMALLEST_CHUNK: Final = 64


@partial(jax.jit, static_argnums=(1, 2))
def _check(problems: Problem, locks: int, free_form: bool) -> Bool[Array, "batch"]:
    return jax.vmap(lambda problem: relaxed(problem, locks, free_form))(problems)


def relaxed_many(problems: Problem) -> np.ndarray:
    """The paper's check on a batch of problems with tasks of any kind: `bool[batch]`.

    Problems are grouped by the number of locked doors, so that a level with twelve does not slow down those with two,
    and padded to one of few sizes, so that little is compiled.
    """
    problems = jax.tree.map(np.asarray, problems.replace(task=packed.flattened(problems.task)))
    locked = (problems.level.cells >> 3 == DOOR_LOCKED).sum((-2, -1))
    free_form = problems.level.rooms == 0
    verdict = np.zeros(locked.shape, bool)
    for locks, free in sorted(set(zip(locked.tolist(), free_form.tolist(), strict=True))):
        members = np.flatnonzero((locked == locks) & (free_form == free))
        for start in range(0, len(members), CHUNK):
            some = members[start : start + CHUNK]
            rows = np.resize(some, max(SMALLEST_CHUNK, 1 << (len(some) - 1).bit_length()))
            chosen = jax.tree.map(lambda leaf, rows=rows: leaf[rows], problems)
            verdict[some] = np.asarray(_check(chosen, locks, free))[: len(some)]
    return verdict


# Situations and what can be had in them


class Regions(Struct):
    """The parts of a level and how locked doors join them. Sets are words; a locked door is a bit by its number."""

    once: UInt32[Array, "regions"]
    """Movable objects in each region: the bit of a type and colour is set if there is at least one."""
    twice: UInt32[Array, "regions"]
    """… if there are at least two."""
    doors: UInt32[Array, "regions"]
    """Colours of the unlocked doors at each region."""
    entries: UInt32[Array, "regions"]
    """Locked doors that lead in once they are open."""
    touches: UInt32[Array, "regions"]
    """Locked doors that can be faced from within."""
    start: Bool[Array, "regions"]
    """Where the agent can go before anything is unlocked."""
    lock_colour: UInt32[Array, "locks"]
    """Colour of each locked door as a bit; 0 for a lock that is not there."""
    lock_place: Int8[Array, "locks 2"]
    """Row and column of each locked door; -1 for one that is not there."""


class Situations(Struct):
    """What can be had in each situation."""

    once: UInt32[Array, "situations"]
    twice: UInt32[Array, "situations"]
    unlocked: UInt32[Array, "situations"]
    """Colours of doors within reach that open and close freely."""
    locked: UInt32[Array, "situations"]
    """Colours of doors within reach that are still locked."""
    opens: Bool[Array, "locks situations"]
    """Which locked doors can be unlocked next: they and a key of their colour are within reach."""


def situations(regions: Regions) -> Situations:
    """Follow every set of unlocked doors as far as it leads."""
    locks = regions.lock_colour.shape[0]
    unlocked = jnp.arange(2**locks, dtype=jnp.uint32)

    def entered(doors: UInt32[Array, "situations"]) -> Bool[Array, "regions situations"]:
        """Which regions the agent can get into once these doors are open."""
        return regions.start[:, None] | ((regions.entries[:, None] & doors[None]) != 0)

    def touched(doors: UInt32[Array, "situations"]) -> UInt32[Array, "situations"]:
        """The locked doors, open by now or not, that it can then face."""
        return _union_where(entered(unlocked & doors), regions.touches)

    touches = jax.lax.fori_loop(0, locks + 1, lambda _, doors: touched(doors), jnp.zeros_like(unlocked))
    inside = entered(unlocked & touches)
    once, twice = _count(jnp.where(inside, regions.once[:, None], 0), jnp.where(inside, regions.twice[:, None], 0))
    keys = (once >> (COLOUR_COUNT * (KEY - BALL))) & (2**COLOUR_COUNT - 1)
    lock_bits = jnp.asarray(2 ** np.arange(locks), jnp.uint32)[:, None]
    is_unlocked = (lock_bits & (touches & unlocked)[None]) != 0
    is_locked = (lock_bits & (touches & ~unlocked)[None]) != 0
    return Situations(
        once=once,
        twice=twice,
        unlocked=_union_where(inside, regions.doors) | _union_where(is_unlocked, regions.lock_colour),
        locked=_union_where(is_locked, regions.lock_colour),
        opens=is_locked & ((regions.lock_colour[:, None] & keys[None]) != 0),
    )


Counts = tuple[UInt32[Array, "..."], UInt32[Array, "..."]]
"""Sets of what is there at least once, and at least twice."""


def _count(once: UInt32[Array, "many places"], twice: UInt32[Array, "many places"]) -> Counts:
    """The objects of many places together."""
    while once.shape[0] > 1:
        odd = ((0, once.shape[0] % 2), (0, 0))
        once, twice = jnp.pad(once, odd), jnp.pad(twice, odd)
        half = once.shape[0] // 2
        both = once[:half] & once[half:]
        once, twice = once[:half] | once[half:], twice[:half] | twice[half:] | both
    return once[0], twice[0]


def _object_bit(cells: UInt8[Array, "..."]) -> UInt32[Array, "..."]:
    """The bit of a movable object's type and colour; 0 for any other cell."""
    kind = kind_of(cells).astype(jnp.uint32)
    is_object = (kind == BALL) | (kind == SQUARE) | (kind == KEY)
    number = COLOUR_COUNT * (kind - BALL) + colour_of(cells)
    return jnp.where(is_object, jnp.uint32(1) << jnp.where(is_object, number, 0), 0)


def _is_unlocked(cells: UInt8[Array, "..."]) -> Bool[Array, "..."]:
    kind = kind_of(cells)
    return (kind == DOOR_CLOSED) | (kind == DOOR_OPEN)


def room_regions(level: Level, locks: int) -> Regions:
    """The regions of a level that follows a layout of rooms: rooms, and what the agent carries."""
    rows, cols = level.cells.shape
    down, across = (rows - 1) // PITCH, (cols - 1) // PITCH
    rooms = down * across
    table = doorways(down, across)
    places = np.array(list(table), np.int32).reshape(-1, 2)
    sides = np.zeros((len(table), rooms), bool)
    doors = level.cells[places[:, 0], places[:, 1]]
    is_locked, is_free = kind_of(doors) == DOOR_LOCKED, _is_unlocked(doors)
    joined = jnp.eye(rooms, dtype=bool)
    for door, (one, other) in enumerate(table.values()):
        sides[door, [one, other]] = True
        joined = joined.at[one, other].set(is_free[door]).at[other, one].set(is_free[door])
    for _ in range((rooms - 1).bit_length()):
        joined = jnp.any(joined[:, :, None] & joined[None], axis=1)

    def at_joined(door_sets: UInt32[Array, "doors"]) -> UInt32[Array, "regions"]:
        """The sets of all doors at the rooms joined to each room."""
        return jnp.append(_union_where(joined, _union_where(sides, door_sets)), jnp.uint32(0))

    colour_bit = jnp.uint32(1) << colour_of(doors).astype(jnp.uint32)
    number = jnp.cumsum(is_locked) - 1
    is_this = is_locked[:, None] & (number[:, None] == jnp.arange(locks)[None])
    touches = at_joined(jnp.where(is_locked, jnp.uint32(1) << number.astype(jnp.uint32), 0))
    inside = level.cells[: PITCH * down, : PITCH * across].reshape(down, PITCH, across, PITCH)[:, 1:, :, 1:]
    bits = _object_bit(inside.transpose(1, 3, 0, 2).reshape(-1, rooms))
    once, twice = _count(bits, jnp.zeros_like(bits))
    # The agent's room, or both rooms of the doorway that it stands in.
    row, col = level.position.astype(jnp.int32)
    top, left = PITCH * np.arange(down), PITCH * np.arange(across)
    here = ((top <= row) & (row <= top + PITCH))[:, None] & ((left <= col) & (col <= left + PITCH))[None]
    return Regions(
        once=jnp.append(once, _object_bit(level.carrying)),
        twice=jnp.append(twice, jnp.uint32(0)),
        doors=at_joined(jnp.where(is_free, colour_bit, 0)),
        entries=touches,
        touches=touches,
        start=jnp.append(jnp.any(joined & here.reshape(1, -1), axis=1), True),
        lock_colour=_union_where(is_this, colour_bit),
        lock_place=jnp.max(jnp.where(is_this[..., None], places[:, None], -1), axis=0, initial=-1).astype(jnp.int8),
    )


NO_REGION: Final = -1


def free_regions(level: Level, locks: int) -> Regions:
    """The regions of any level, found by flooding.

    There is one for each side of a locked door and one for the agent (NO_REGION where one is named twice), one for each
    locked door itself, and one for what the agent carries.
    """
    region = _flood(level.cells)
    rows, cols = jnp.nonzero(kind_of(level.cells) == DOOR_LOCKED, size=locks, fill_value=-9)
    places = jnp.stack([rows, cols], axis=1).astype(jnp.int32)
    exists = places[:, 0] >= 0
    bits = jnp.where(exists, jnp.uint32(1) << jnp.arange(locks, dtype=jnp.uint32), 0)
    around = places[:, None] + jnp.asarray(STEPS, jnp.int32)[None]
    shape = jnp.asarray(level.cells.shape).reshape(1, 1, 2)
    on_grid = jnp.all((around >= 0) & (around < shape), axis=-1) & exists[:, None]
    beside = jnp.where(on_grid, region[around[..., 0], around[..., 1]], NO_REGION)
    here = region[tuple(level.position.astype(jnp.int32))]
    found = jnp.append(beside.reshape(-1), here)
    order = np.arange(found.shape[0])
    named_before = jnp.any((found[:, None] == found[None]) & (order[None] < order[:, None]), axis=1)
    found = jnp.where(named_before, NO_REGION, found)
    is_region = found != NO_REGION
    touches = _union_where(jnp.any(beside[:, :, None] == found[None, None], axis=1) & is_region[None], bits)
    adjoining = jnp.any(jnp.all(around[:, :, None] == places[None, None], axis=-1) & exists[None, None], axis=1)
    inside = (region.reshape(-1, 1) == found[None]) & is_region[None]
    objects = jnp.where(inside, _object_bit(level.cells).reshape(-1, 1), 0)
    once, twice = _count(objects, jnp.zeros_like(objects))
    colours = jnp.uint32(1) << colour_of(level.cells).astype(jnp.uint32)
    nothing = jnp.zeros(locks + 1, jnp.uint32)
    return Regions(
        once=jnp.concatenate([once, nothing.at[-1].set(_object_bit(level.carrying))]),
        twice=jnp.concatenate([twice, nothing]),
        doors=jnp.concatenate(
            [_union_where(inside, jnp.where(_is_unlocked(level.cells), colours, 0).reshape(-1)), nothing]
        ),
        entries=jnp.concatenate([touches, jnp.append(bits, jnp.uint32(0))]),
        touches=jnp.concatenate([touches, jnp.append(_union_where(adjoining, bits), jnp.uint32(0))]),
        start=jnp.append(found == here, jnp.arange(locks + 1) == locks),
        lock_colour=jnp.where(exists, colours[places[:, 0], places[:, 1]], 0),
        lock_place=jnp.where(exists[:, None], places, -1).astype(jnp.int8),
    )


def _flood(cells: UInt8[Array, "rows cols"]) -> Int32[Array, "rows cols"]:
    """The region of each cell: the least index of a cell joined to it; NO_REGION for walls and locked doors."""
    is_open = (kind_of(cells) == FLOOR) | (_object_bit(cells) != 0) | _is_unlocked(cells)
    far = cells.size
    index = jnp.arange(far, dtype=jnp.int32).reshape(cells.shape)

    def spread(state: tuple[Array, Array]) -> tuple[Array, Array]:
        _, region = state
        padded = jnp.pad(region, 1, constant_values=far)
        least = jnp.minimum(
            jnp.minimum(padded[:-2, 1:-1], padded[2:, 1:-1]), jnp.minimum(padded[1:-1, :-2], padded[1:-1, 2:])
        )
        joined = jnp.where(is_open, jnp.minimum(region, least), far)
        # A region's own least cell may already know a lesser one: jumping there halves what is left to walk.
        jumped = jnp.append(joined.reshape(-1), far)[joined]
        return jnp.any(jumped != region), jumped

    _, region = jax.lax.while_loop(lambda s: s[0], spread, (jnp.bool_(True), jnp.where(is_open, index, far)))
    return jnp.where(is_open, region, NO_REGION)


# Guards as tests on situations


def _needs(proposition: Proposition) -> tuple[int, int, int, int]:
    """What must be within reach: one object, another object, a door that is unlocked, or one that is locked."""
    movable = [codes_of(thing) for thing in proposition.objects if thing.type != DOOR_TYPE]
    doors = {code for thing in proposition.objects if thing.type == DOOR_TYPE for code in codes_of(thing)}
    sets = [sum(1 << COLOUR_COUNT * ((code >> 3) - BALL) + (code & 7) for code in codes) for codes in movable]
    locked = {code & 7 for code in doors.intersection(LOCKED_CODES)}
    unlocked = {code & 7 for code in doors.difference(LOCKED_CODES)}
    first, second, *_ = *sets, 0, 0
    return first, second, sum(1 << colour for colour in unlocked), sum(1 << colour for colour in locked)


NEEDS: Final = np.array([_needs(proposition) for proposition in PROPOSITIONS], np.uint32)


def satisfiable(
    guard: Int16[Array, "states edges literals"], within: Situations
) -> Bool[Array, "states edges situations"]:
    """Whether the objects within reach suffice for each guard. Negated literals only matter if they contradict."""
    literals = guard.astype(jnp.int32)
    possible = attainable(within, jnp.maximum(literals - 1, 0))
    enough = jnp.all(possible | (literals <= 0)[..., None], axis=-2)
    return enough & ~contradictory(guard)[..., None]


def attainable(within: Situations, props: Int[Array, "*asked"]) -> Bool[Array, "*asked situations"]:
    """Whether the objects within reach suffice for each of the asked propositions, in each situation."""
    first, second, unlocked, locked = jnp.moveaxis(jnp.asarray(NEEDS)[props], -1, 0)[..., None]
    axes = (1,) * (first.ndim - 1)
    once, twice, free, fast = (
        s.reshape(*axes, -1) for s in (within.once, within.twice, within.unlocked, within.locked)
    )
    one, other = first & once, second & once
    both = one | other
    two = (both & (both - 1) != 0) | (one & other & twice != 0)
    object_found = (first == 0) | (one != 0)
    pair_found = (second == 0) | ((other != 0) & two)
    door_found = ((unlocked | locked) == 0) | ((unlocked & free) | (locked & fast) != 0)
    return object_found & pair_found & door_found


def contradictory(guard: Int16[Array, "states edges literals"]) -> Bool[Array, "states edges"]:
    """Whether a positive literal implies one that is negated, or excludes another positive one."""
    if guard.shape[-1] == 1:
        return jnp.zeros(guard.shape[:-1], bool)
    implies, excludes = jnp.asarray(VOCABULARY.implies), jnp.asarray(VOCABULARY.excludes)
    prop = jnp.maximum(jnp.abs(guard.astype(jnp.int32)) - 1, 0)
    first, second = prop[..., :, None], prop[..., None, :]
    positive, negative = guard > 0, guard < 0
    denied = implies[first, second] & positive[..., :, None] & negative[..., None, :]
    at_odds = excludes[first, second] & positive[..., :, None] & positive[..., None, :]
    return jnp.any(denied | at_odds, axis=(-2, -1))
