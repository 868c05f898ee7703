"""The paper's check (Appendix E.3), for thousands of problems at once.

A problem passes if some path to acceptance has only guards whose objects are within reach. Doors are unlocked in any
order between the transitions, which is a search over (task state, set of unlocked doors). It is neither sound nor
complete (see `prove` for verdicts with proof), but cheap enough to screen every sampled problem.
"""

from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Int, Int16, Int32, UInt8, UInt32

from atlas.domains.minigrid.alphabet import (
    ANY_COLOUR,
    ANY_STATE,
    DOOR_TYPE,
    PROPOSITIONS,
    VOCABULARY,
    Descriptor,
    Proposition,
)
from atlas.domains.minigrid.grid import (
    BALL,
    DOOR_CLOSED,
    DOOR_LOCKED,
    DOOR_OPEN,
    FLOOR,
    KEY,
    PITCH,
    SQUARE,
    STEPS,
    Level,
    colour_of,
    kind_of,
)
from atlas.struct import Struct
from atlas.tasks.machine import UNUSED
from atlas.tasks.packed import PackedTask, ways_out
from atlas.types import Problem
from atlas.vocabulary import ACCEPTED

# What is within reach, under every set of locked doors that might have been unlocked by then.
#
# A *situation* is a set of unlocked doors, written as the bits of its index: there are `2 ** locks` of them. A *region*
# is a part of the level that nothing but locked doors divides. Objects do not block the way (they can be carried off),
# closed doors neither; unlocking is never undone. So a situation decides which objects and doors are within reach, and
# with them which propositions can be made true: the abstraction behind the paper's check (Appendix E.3).

COLOUR_COUNT: Final = ANY_COLOUR


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
    """Locked doors that can be stood in front of from within."""
    start: Bool[Array, "regions"]
    """Where the agent can go before anything is unlocked."""
    lock_colour: UInt32[Array, "locks"]
    """Colour of each locked door as a bit; 0 for a lock that is not there."""


class Situations(Struct):
    """What can be had in each situation."""

    once: UInt32[Array, "situations"]
    twice: UInt32[Array, "situations"]
    unlocked: UInt32[Array, "situations"]
    """Colours of doors within reach that open and close freely."""
    locked: UInt32[Array, "situations"]
    """Colours of doors within reach that are still locked."""
    opens: Bool[Array, "situations locks"]
    """Which locked doors can be unlocked next: they and a key of their colour are within reach."""


def count_locked(cells: UInt8[Array, "*batch rows cols"]) -> Int[Array, "*batch"]:
    """How many doors are locked."""
    return jnp.sum(kind_of(cells) == DOOR_LOCKED, axis=(-2, -1))


def situations(regions: Regions) -> Situations:
    """Follow every set of unlocked doors as far as it leads."""
    locks = regions.lock_colour.shape[0]
    unlocked = jnp.arange(2**locks, dtype=jnp.uint32)
    touched = jax.lax.fori_loop(
        0, locks, lambda _, doors: _touch(regions, _entered(regions, unlocked & doors)), jnp.zeros_like(unlocked)
    )
    touched = _touch(regions, _entered(regions, unlocked & touched))
    entered = _entered(regions, unlocked & touched)
    once, twice = _gather(regions, entered)
    keys = (once >> (COLOUR_COUNT * (KEY - BALL))) & (2**COLOUR_COUNT - 1)
    lock_bits = jnp.asarray(2 ** np.arange(locks), jnp.uint32)[None]
    at_hand = (touched & ~unlocked)[:, None] & lock_bits
    free_doors = _unite(jnp.where(entered, regions.doors[:, None], jnp.uint32(0)))
    return Situations(
        once=once,
        twice=twice,
        unlocked=free_doors | _colours(regions, touched & unlocked),
        locked=_colours(regions, touched & ~unlocked),
        opens=(at_hand != 0) & ((keys[:, None] & regions.lock_colour[None]) != 0),
    )


def _entered(regions: Regions, opened: UInt32[Array, "situations"]) -> Bool[Array, "regions situations"]:
    """Which regions the agent can get into once these doors are open."""
    return regions.start[:, None] | ((regions.entries[:, None] & opened[None]) != 0)


def _touch(regions: Regions, entered: Bool[Array, "regions situations"]) -> UInt32[Array, "situations"]:
    """The locked doors, open by now or not, that the agent can stand in front of."""
    return _unite(jnp.where(entered, regions.touches[:, None], jnp.uint32(0)))


def _unite(sets: UInt32[Array, "many situations"]) -> UInt32[Array, "situations"]:
    return jax.lax.reduce(sets, jnp.uint32(0), jax.lax.bitwise_or, (0,))


def _gather(
    regions: Regions, entered: Bool[Array, "regions situations"]
) -> tuple[UInt32[Array, "situations"], UInt32[Array, "situations"]]:
    """The movable objects of the entered regions together."""
    nothing = jnp.zeros(entered.shape[1], jnp.uint32)

    def add(sums: tuple[Array, Array], region: tuple[Array, Array, Array]) -> tuple[tuple[Array, Array], None]:
        once, twice, inside = region
        return _add(sums, (jnp.where(inside, once, 0), jnp.where(inside, twice, 0))), None

    return jax.lax.scan(add, (nothing, nothing), (regions.once, regions.twice, entered), unroll=True)[0]


Counts = tuple[UInt32[Array, "..."], UInt32[Array, "..."]]
"""Sets of what is there at least once, and at least twice."""


def _add(one: Counts, other: Counts) -> Counts:
    return one[0] | other[0], one[1] | other[1] | (one[0] & other[0])


def _total(cells: UInt8[Array, "places many"]) -> Counts:
    """The movable objects among the cells of each place."""
    bits = _object_bit(cells)
    once, twice = bits, jnp.zeros_like(bits)
    while once.shape[1] > 1:
        odd = ((0, 0), (0, once.shape[1] % 2))
        once, twice = jnp.pad(once, odd), jnp.pad(twice, odd)
        half = once.shape[1] // 2
        once, twice = _add((once[:, :half], twice[:, :half]), (once[:, half:], twice[:, half:]))
    return once[:, 0], twice[:, 0]


def _object_bit(cells: UInt8[Array, "..."]) -> UInt32[Array, "..."]:
    """The bit of a movable object's type and colour; 0 for any other cell."""
    kind = kind_of(cells).astype(jnp.uint32)
    is_object = (kind == BALL) | (kind == SQUARE) | (kind == KEY)
    number = COLOUR_COUNT * (kind - BALL) + colour_of(cells)
    return jnp.where(is_object, jnp.uint32(1) << jnp.where(is_object, number, 0), 0)


def _colours(regions: Regions, doors: UInt32[Array, "situations"]) -> UInt32[Array, "situations"]:
    """Colours of a set of locked doors."""
    total = jnp.zeros_like(doors)
    for number in range(regions.lock_colour.shape[0]):
        total |= jnp.where((doors >> number) & 1 != 0, regions.lock_colour[number], 0)
    return total


# Levels made of rooms: regions are rooms, doors stand where the layout puts them.


def room_regions(level: Level, locks: int) -> Regions:
    """The regions of a level that follows a layout of rooms."""
    rows, cols = level.cells.shape
    down, across = (rows - 1) // PITCH, (cols - 1) // PITCH
    places, sides = _doorways(down, across)
    doors = level.cells[places[:, 0], places[:, 1]]
    is_locked, is_free = kind_of(doors) == DOOR_LOCKED, _is_unlocked(doors)
    colour_bit = jnp.uint32(1) << colour_of(doors).astype(jnp.uint32)
    number = jnp.cumsum(is_locked) - 1
    lock_bit = jnp.where(is_locked, jnp.uint32(1) << number.astype(jnp.uint32), 0)
    joined = _joined(is_free, sides)
    touches = _unite_over(joined, sides, lock_bit)
    once, twice = _total(_interiors(level.cells, down, across))
    in_hand = _object_bit(level.carrying)[None]
    here = _rooms_at(level.position, down, across)
    zero = jnp.zeros(1, jnp.uint32)
    return Regions(
        once=jnp.concatenate([once, in_hand]),
        twice=jnp.concatenate([twice, zero]),
        doors=jnp.concatenate([_unite_over(joined, sides, jnp.where(is_free, colour_bit, 0)), zero]),
        entries=jnp.concatenate([touches, zero]),
        touches=jnp.concatenate([touches, zero]),
        start=jnp.append(jnp.any(joined & here[None], axis=1), True),
        lock_colour=_by_number(number, is_locked, colour_bit, locks),
    )


def _doorways(down: int, across: int) -> tuple[np.ndarray, np.ndarray]:
    """Where doors stand, and which rooms (in reading order) each joins: `int[doors, 2]`, `bool[doors, rooms]`."""
    room = np.arange(down * across).reshape(down, across)
    below = [
        ((PITCH * (i + 1), PITCH * j + PITCH // 2), (room[i, j], room[i + 1, j]))
        for i in range(down - 1)
        for j in range(across)
    ]
    beside = [
        ((PITCH * i + PITCH // 2, PITCH * (j + 1)), (room[i, j], room[i, j + 1]))
        for i in range(down)
        for j in range(across - 1)
    ]
    doorways = below + beside
    places = np.array([place for place, _ in doorways], np.int32).reshape(-1, 2)
    sides = np.zeros((len(doorways), room.size), bool)
    for number, (_, rooms) in enumerate(doorways):
        sides[number, list(rooms)] = True
    return places, sides


def _is_unlocked(cells: UInt8[Array, "..."]) -> Bool[Array, "..."]:
    kind = kind_of(cells)
    return (kind == DOOR_CLOSED) | (kind == DOOR_OPEN)


def _interiors(cells: UInt8[Array, "rows cols"], down: int, across: int) -> UInt8[Array, "rooms 25"]:
    inside = cells[: PITCH * down, : PITCH * across].reshape(down, PITCH, across, PITCH)[:, 1:, :, 1:]
    return inside.transpose(0, 2, 1, 3).reshape(down * across, -1)


def _rooms_at(position: Int[Array, "2"], down: int, across: int) -> Bool[Array, "rooms"]:
    """The room of a cell, or both rooms of a doorway."""
    row, col = position.astype(jnp.int32)
    top, left = PITCH * np.arange(down), PITCH * np.arange(across)
    in_row, in_col = (top <= row) & (row <= top + PITCH), (left <= col) & (col <= left + PITCH)
    return (in_row[:, None] & in_col[None]).reshape(-1)


def _joined(is_free: Bool[Array, "doors"], sides: np.ndarray) -> Bool[Array, "rooms rooms"]:
    """Which rooms are joined by doors that are not locked, over any number of them."""
    rooms = sides.shape[1]
    joined = jnp.eye(rooms, dtype=bool)
    for number, (one, other) in enumerate(np.nonzero(row)[0] for row in sides):
        joined = joined.at[one, other].set(is_free[number]).at[other, one].set(is_free[number])
    for _ in range(int(np.ceil(np.log2(rooms))) if rooms > 1 else 0):
        joined = jnp.any(joined[:, :, None] & joined[None], axis=1)
    return joined


def _unite_over(
    joined: Bool[Array, "rooms rooms"], sides: np.ndarray, door_sets: UInt32[Array, "doors"]
) -> UInt32[Array, "rooms"]:
    """Unite the sets of all doors at the rooms joined to each room."""
    if not len(sides):
        return jnp.zeros(joined.shape[0], jnp.uint32)
    at_room = _unite(jnp.where(sides, door_sets[:, None], jnp.uint32(0)))
    return _unite(jnp.where(joined, at_room[:, None], jnp.uint32(0)))


def _by_number(
    number: Int[Array, "doors"], is_locked: Bool[Array, "doors"], colour_bit: UInt32[Array, "doors"], locks: int
) -> UInt32[Array, "locks"]:
    """Colours of the locked doors in the order of their numbers."""
    if not number.shape[0]:
        return jnp.zeros(locks, jnp.uint32)
    chosen = is_locked[:, None] & (number[:, None] == jnp.arange(locks)[None])
    return _unite(jnp.where(chosen, colour_bit[:, None], jnp.uint32(0)))


# Free-form levels: regions are found by flooding.


def free_regions(level: Level, locks: int) -> Regions:
    """The regions of any level, as far as the agent or a locked door touches them."""
    region = _flood(level.cells)
    places = _locked_places(level.cells, locks)
    exists = places[:, 0] >= 0
    around = places[:, None] + jnp.asarray(STEPS, jnp.int32)[None]
    bits = jnp.where(exists, jnp.uint32(1) << jnp.arange(locks, dtype=jnp.uint32), 0)
    row, col = level.position.astype(jnp.int32)
    beside = jnp.where(exists[:, None], _at(region, around), NO_REGION)
    found = _distinct(jnp.append(beside.reshape(-1), region[row, col]))
    touches = _unite(jnp.where(_touching(beside, found), bits[:, None], jnp.uint32(0)))
    adjoining = jnp.any(jnp.all(around[:, :, None] == places[None, None], axis=-1) & exists[None, None], axis=1)
    inside = (region.reshape(1, -1) == found[:, None]) & (found[:, None] != NO_REGION)
    once, twice = _total(jnp.where(inside, level.cells.reshape(1, -1), jnp.uint8(0)))
    colours = jnp.uint32(1) << colour_of(level.cells).astype(jnp.uint32)
    free_doors = jnp.where(_is_unlocked(level.cells), colours, 0).reshape(1, -1)
    doors = _unite(jnp.where(inside, free_doors, jnp.uint32(0)).T)
    zeros = jnp.zeros(locks + 1, jnp.uint32)
    return Regions(
        once=jnp.concatenate([once, zeros.at[-1].set(_object_bit(level.carrying))]),
        twice=jnp.concatenate([twice, zeros]),
        doors=jnp.concatenate([doors, zeros]),
        entries=jnp.concatenate([touches, jnp.append(bits, jnp.uint32(0))]),
        touches=jnp.concatenate(
            [touches, jnp.append(_unite(jnp.where(adjoining, bits[:, None], jnp.uint32(0))), jnp.uint32(0))]
        ),
        start=jnp.append(found == region[row, col], jnp.arange(locks + 1) == locks),
        lock_colour=jnp.where(exists, _at(colours, places), 0),
    )


NO_REGION: Final = -1


def _flood(cells: UInt8[Array, "rows cols"]) -> Int32[Array, "rows cols"]:
    """The region of each cell: the least index of a cell joined to it; NO_REGION for walls and locked doors."""
    kind = kind_of(cells)
    is_open = (kind == FLOOR) | (_object_bit(cells) != 0) | _is_unlocked(cells)
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


def _locked_places(cells: UInt8[Array, "rows cols"], locks: int) -> Int32[Array, "locks 2"]:
    """Where the locked doors are; negative for those that are not there."""
    rows, cols = jnp.nonzero(kind_of(cells) == DOOR_LOCKED, size=locks, fill_value=-9)
    return jnp.stack([rows, cols], axis=1).astype(jnp.int32)


def _at(values: Array, places: Int32[Array, "*many 2"]) -> Array:
    """Values at places; NO_REGION outside."""
    rows, cols = values.shape
    row, col = places[..., 0], places[..., 1]
    inside = (row >= 0) & (row < rows) & (col >= 0) & (col < cols)
    return jnp.where(inside, values[jnp.clip(row, 0, rows - 1), jnp.clip(col, 0, cols - 1)], NO_REGION)


def _distinct(regions: Int32[Array, "many"]) -> Int32[Array, "many"]:
    """The same regions, each once; NO_REGION where one had been named before."""
    order = np.arange(regions.shape[0])
    named_before = jnp.any((regions[:, None] == regions[None]) & (order[None] < order[:, None]), axis=1)
    return jnp.where(named_before, NO_REGION, regions)


def _touching(beside: Int32[Array, "locks 4"], found: Int32[Array, "many"]) -> Bool[Array, "locks many"]:
    return jnp.any(beside[:, :, None] == found[None, None], axis=1) & (found != NO_REGION)[None]


# Propositions as tests on situations.


def _object_set(thing: Descriptor) -> int:
    """The types and colours of movable objects that fit."""
    colours = range(COLOUR_COUNT) if thing.colour == ANY_COLOUR else [thing.colour]
    return sum(1 << (COLOUR_COUNT * thing.type + colour) for colour in colours) if thing.type != DOOR_TYPE else 0


def _door_set(thing: Descriptor, states: tuple[int, ...]) -> int:
    """The colours of doors that fit in one of the states."""
    if thing.type != DOOR_TYPE or thing.state not in states:
        return 0
    return 2**COLOUR_COUNT - 1 if thing.colour == ANY_COLOUR else 1 << thing.colour


CLOSED_STATE, LOCKED_STATE, OPEN_STATE = range(3)


def _needs(proposition: Proposition) -> tuple[int, int, int, int]:
    """What must be within reach: one object, another object, a door that is unlocked, or one that is locked."""
    movable = [_object_set(thing) for thing in proposition.objects if thing.type != DOOR_TYPE]
    door = next((thing for thing in proposition.objects if thing.type == DOOR_TYPE), Descriptor(0, 0))
    first, second, *_ = *movable, 0, 0
    unlocked = _door_set(door, (CLOSED_STATE, OPEN_STATE, ANY_STATE))
    return first, second, unlocked, _door_set(door, (LOCKED_STATE, ANY_STATE))


NEEDS: Final = np.array([_needs(proposition) for proposition in PROPOSITIONS], np.uint32)


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


# A hierarchy unfolded into the stacks of calls it can be in, so that it can be searched like a flat machine.
#
# A *context* is a stack of open calls: which machine is active and where each call returns to. Contexts are numbered
# from
# the root's on; a node of the unfolded task is a context and a state of its machine. Jittable, unlike `tasks.flatten`.


class Contexts(Struct):
    """All stacks of calls, breadth first; UNUSED where there are fewer than room for."""

    machine: Int32[Array, "contexts"]
    parent: Int32[Array, "contexts"]
    """The stack after the call returns."""
    back: Int32[Array, "contexts"]
    """The state of the caller that it returns to."""
    child: Int32[Array, "contexts states edges"]
    """The stack that each calling edge leads to; UNUSED for plain edges, and for calls that there is no room for."""


def contexts(task: PackedTask, room: int) -> Contexts:
    """The first `room` stacks of calls."""
    assert task.call is not None
    assert task.root is not None
    call, (_, states, edges, *_) = task.call, task.size
    unused = jnp.full(room, UNUSED, jnp.int32)
    start = Contexts(
        machine=unused.at[0].set(task.root.astype(jnp.int32)),
        parent=unused,
        back=unused,
        child=jnp.full((room, states, edges), UNUSED, jnp.int32),
    )

    def open_calls(number: Array, state: tuple[Contexts, Array]) -> tuple[Contexts, Array]:
        table, count = state
        machine = table.machine[number]
        calls = (call[machine] != UNUSED) & (task.target[machine] != UNUSED) & (machine != UNUSED)
        place = count + jnp.cumsum(calls.reshape(-1)).reshape(calls.shape) - 1
        child = jnp.where(calls & (place < room), place, UNUSED).astype(jnp.int32)
        where = jnp.where(child == UNUSED, room, child).reshape(-1)

        def note(column: Array, values: Array) -> Array:
            return column.at[where].set(values.astype(jnp.int32).reshape(-1), mode="drop")

        table = Contexts(
            machine=note(table.machine, call[machine]),
            parent=note(table.parent, jnp.full_like(child, number)),
            back=note(table.back, task.target[machine]),
            child=table.child.at[number].set(child),
        )
        return table, count + jnp.sum(calls)

    return jax.lax.fori_loop(0, room, open_calls, (start, jnp.int32(1)))[0]


def count_contexts(task: PackedTask, most: int) -> int:
    """How many stacks of calls one hierarchy, or the largest of a batch, can be in; at most `most` (not jittable)."""
    target, call, root = (np.asarray(x) for x in (task.target, task.call, task.root))
    if root.ndim == 0:
        target, call, root = target[None], call[None], root[None]
    return max(_count(t, c, int(r), most) for t, c, r in zip(target, call, root, strict=True))


def _count(target: np.ndarray, call: np.ndarray, root: int, most: int) -> int:
    callees = [c[(c != UNUSED) & (t != UNUSED)].tolist() for t, c in zip(target, call, strict=True)]
    todo = [root]
    for machine in todo:
        todo += callees[machine]
        if len(todo) >= most:
            return most
    return len(todo)


class _At(NamedTuple):
    """A context and a state in its machine; both UNUSED for nowhere."""

    context: Int[Array, "..."]
    state: Int[Array, "..."]


def landings(task: PackedTask, table: Contexts) -> Int32[Array, "nodes chains"]:
    """The node that each way out of a node leads to, all calls that it completes returned from; UNUSED for none."""
    assert task.chain is not None
    room = table.machine.shape[0]
    _, states, _, _, chains, _ = task.size
    context, state = jnp.meshgrid(jnp.arange(room), jnp.arange(states), indexing="ij")
    at = _At(*(jnp.broadcast_to(x[..., None], (room, states, chains)) for x in (context, state)))
    chain = task.chain[table.machine]  # an unused context reads some machine, and is put right below
    after = _return(task, table, _walk(task, table, at, chain))
    exists = (table.machine[:, None, None] != UNUSED) & (chain[..., 0] != UNUSED) & (after.context != UNUSED)
    return jnp.where(exists, after.context * states + after.state, UNUSED).astype(jnp.int32).reshape(-1, chains)


def _walk(task: PackedTask, table: Contexts, at: _At, chain: Int[Array, "contexts states chains links"]) -> _At:
    """Follow the edges of each chain down to its plain edge."""
    assert task.call is not None
    context, state = at
    done = jnp.zeros(context.shape, bool)
    landed = _At(jnp.full_like(context, UNUSED), jnp.full_like(state, UNUSED))
    for link in range(chain.shape[-1]):
        edge = chain[..., link].astype(jnp.int32)
        machine = table.machine[context]
        is_plain = ~done & (edge != UNUSED) & (task.call[machine, state, edge] == UNUSED) & (context != UNUSED)
        landed = _At(
            jnp.where(is_plain, context, landed.context),
            jnp.where(is_plain, task.target[machine, state, edge].astype(jnp.int32), landed.state),
        )
        done |= is_plain
        context = jnp.where(context == UNUSED, UNUSED, table.child[context, state, edge])
        state = jnp.zeros_like(state)
    return landed


def _return(task: PackedTask, table: Contexts, at: _At) -> _At:
    """Leave every call whose machine has accepted."""
    context, state = at
    for _ in range(task.size.machines - 1):
        accepted = task.outcome[table.machine[context], state] == ACCEPTED
        returns = accepted & (context > 0)
        context, state = (
            jnp.where(returns, table.parent[context], context),
            jnp.where(returns, table.back[context], state),
        )
    return _At(context, state)


def chain_guards(task: PackedTask) -> Int16[Array, "nodes chains literals"]:
    """The literals of every way out of every state of every machine, those of all its edges side by side."""
    machines, states, *_ = task.size

    def guards(node: Array) -> Array:
        guard = ways_out(task, node).guard
        return guard.reshape(guard.shape[0], -1)

    return jax.vmap(guards)(jnp.arange(machines * states, dtype=jnp.int8))


# The paper's check (Appendix E.3), for thousands of problems at once.
#
# A problem passes if some path to acceptance has only guards whose objects are within reach. Doors are unlocked in any
# order between the transitions, which is a search over (task state, set of unlocked doors). It is neither sound nor
# complete (see `atlas.domains.minigrid.solver.prove` for verdicts with proof), but cheap enough to screen every
# sampled problem.

CHUNK: Final = 1024
"""Most problems in one call of the compiled check."""
SMALLEST_CHUNK: Final = 64
WORD: Final = 32
"""Bits of a word."""
CONTEXTS: Final = 16
"""Stacks of calls for which there is room unless more is asked for: enough for almost all sampled hierarchies."""
MOST_CONTEXTS: Final = 1024
"""More are never tried."""


def relaxed(problem: Problem, locks: int, free_form: bool = False, contexts: int = CONTEXTS) -> Bool[Array, ""]:
    """Whether the paper's check calls a problem solvable.

    `locks` bounds the number of locked doors: time and memory grow with its power of two. Levels that do not follow a
    layout of rooms need `free_form`. `contexts` bounds the stacks of calls of a hierarchy; those beyond are not tried.
    """
    regions = (free_regions if free_form else room_regions)(problem.level, locks)
    within = situations(regions)
    if problem.task.call is not None:
        task = _product_of_calls(problem.task, within, contexts)
    else:
        task = _product(problem.task, within)
    return _accepts(task, _pack(within.opens.T))


class Product(NamedTuple):
    """A task whose guards have been looked up in all situations. Situations are the bits of a few words."""

    target: Int[Array, "nodes edges"]
    passes: UInt32[Array, "nodes edges words"]
    """In which situations each edge can be taken."""
    accepted: Bool[Array, "nodes"]


def _product(task: PackedTask, within: Situations) -> Product:
    passes = satisfiable(task.guard[0], within) & (task.target[0] != UNUSED)[..., None]
    return Product(task.target[0], _pack(passes), task.outcome[0] == ACCEPTED)


def _product_of_calls(task: PackedTask, within: Situations, room: int) -> Product:
    machines, states, *_ = task.size
    table = contexts(task, room)
    target = landings(task, table)
    passes = _pack(satisfiable(chain_guards(task), within))
    passes = passes.reshape(machines, states, *passes.shape[1:])[table.machine].reshape(len(target), *passes.shape[1:])
    passes = jnp.where((target != UNUSED)[..., None], passes, jnp.uint32(0))
    accepted = (jnp.arange(len(target)) < states) & (jnp.tile(task.outcome[task.root], room) == ACCEPTED)
    return Product(target, passes, accepted)


def satisfiable(
    guard: Int16[Array, "states edges literals"], within: Situations
) -> Bool[Array, "states edges situations"]:
    """Whether the objects within reach suffice for each guard. Negated literals only matter if they contradict."""
    literals = guard.astype(jnp.int32)
    possible = attainable(within, jnp.maximum(literals - 1, 0))
    enough = jnp.all(possible | (literals <= 0)[..., None], axis=-2)
    return enough & ~contradictory(guard)[..., None]


def contradictory(guard: Int16[Array, "states edges literals"]) -> Bool[Array, "states edges"]:
    """Whether a positive literal implies one that is negated, or excludes another positive one."""
    literals = guard.shape[-1]
    if literals == 1:
        return jnp.zeros(guard.shape[:-1], bool)
    implies, excludes = jnp.asarray(VOCABULARY.implies), jnp.asarray(VOCABULARY.excludes)
    prop = jnp.maximum(jnp.abs(guard.astype(jnp.int32)) - 1, 0)
    first, second = prop[..., :, None], prop[..., None, :]
    positive, negative = guard > 0, guard < 0
    denied = implies[first, second] & positive[..., :, None] & negative[..., None, :]
    at_odds = excludes[first, second] & positive[..., :, None] & positive[..., None, :]
    return jnp.any(denied | at_odds, axis=(-2, -1))


def _accepts(task: Product, can_open: UInt32[Array, "locks words"]) -> Bool[Array, ""]:
    """Whether acceptance can be reached from the initial state with nothing unlocked: a search backwards."""
    accepted = jnp.where(task.accepted[:, None], jnp.uint32(2**32 - 1), jnp.zeros_like(task.passes[:, 0]))

    def improve(state: tuple[Array, Array]) -> tuple[Array, Array]:
        _, wins = state
        better = wins | _unite_relaxed(task.passes & wins[task.target])
        for lock in range(can_open.shape[0]):
            better |= can_open[lock][None] & _after_unlocking(better, lock)
        return jnp.any(better != wins), better

    _, wins = jax.lax.while_loop(lambda s: s[0], improve, (jnp.bool_(True), accepted))
    return (wins[0, 0] & 1) != 0


def _unite_relaxed(words: UInt32[Array, "states edges words"]) -> UInt32[Array, "states words"]:
    return jax.lax.reduce(words, jnp.uint32(0), jax.lax.bitwise_or, (1,))


def _pack(bits: Bool[Array, "*many situations"]) -> UInt32[Array, "*many words"]:
    """32 situations a word, the first in the lowest bit."""
    count = bits.shape[-1]
    padded = jnp.pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, -count % WORD)])
    words = padded.reshape(*bits.shape[:-1], padded.shape[-1] // WORD, WORD)
    place = jnp.asarray(2 ** np.arange(WORD), jnp.uint32).reshape((1,) * bits.ndim + (WORD,))
    return jnp.sum(jnp.where(words, place, jnp.uint32(0)), axis=-1, dtype=jnp.uint32)


def _after_unlocking(wins: UInt32[Array, "states words"], lock: int) -> UInt32[Array, "states words"]:
    """For each situation in which a lock is closed, the bit of the one in which it is open and all else is the same."""
    if 2**lock < WORD:
        return wins >> 2**lock
    return jnp.roll(wins, -(2**lock // WORD), axis=1)


_check = jax.jit(
    lambda problems, *sizes: jax.vmap(lambda problem: relaxed(problem, *sizes))(problems), static_argnums=(1, 2, 3)
)


def relaxed_many(problems: Problem) -> np.ndarray:
    """The paper's check on a batch of problems: `bool[batch]`.

    Problems are grouped by the number of locked doors, so that a level with twelve does not slow down those with two.
    """
    locked = np.asarray(count_locked(jnp.asarray(problems.level.cells)))
    free_form = np.asarray(problems.level.rooms) == 0
    contexts = _contexts(problems.task)
    verdict = np.zeros(locked.shape, bool)
    for kind in sorted(set(zip(locked.tolist(), free_form.tolist(), strict=True))):
        members = np.flatnonzero((locked == kind[0]) & (free_form == kind[1]))
        for start in range(0, len(members), CHUNK):
            some = members[start : start + CHUNK]
            verdict[some] = _check_group(problems, some, *kind, contexts)
    return verdict


def _check_group(problems: Problem, members: np.ndarray, locks: int, free_form: bool, contexts: int) -> np.ndarray:
    """Check some problems, padded to one of few sizes so that little is compiled."""
    size = SMALLEST_CHUNK
    while size < len(members):
        size *= 2
    padded = np.resize(members, size)
    chosen: Any = jax.tree.map(lambda x: np.asarray(x)[padded], problems)
    return np.asarray(_check(chosen, locks, free_form, contexts))[: len(members)]


def _contexts(task: PackedTask) -> int:
    """Room for all stacks of calls of a batch, rounded up so that little is compiled."""
    if task.call is None:
        return CONTEXTS
    return max(CONTEXTS, 1 << (count_contexts(task, MOST_CONTEXTS) - 1).bit_length())
