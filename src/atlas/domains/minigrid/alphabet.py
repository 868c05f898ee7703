"""The 889 propositions: what the agent is in front of, what it carries, what lies next to what.

A proposition is a location and one or two descriptors, a descriptor being (type, colour or any, door state or any).
`holds` answers only what is asked: it marks the cells in sight that fit a descriptor as bits of one word, so that "next
to" is a shift. The full label exists for people, tests and tools.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Int, Int8, UInt8, UInt32

from atlas.domains.minigrid import dynamics
from atlas.domains.minigrid.grid import BALL, COLOURS, DOOR_CLOSED, DOWN, UP, VIEW, State, cell
from atlas.vocabulary import Vocabulary

TYPES: Final = ("ball", "square", "key", "door")
DOOR_STATES: Final = ("closed", "locked", "open")
LOCATIONS: Final = ("front", "carrying", "next")
FRONT, CARRYING, NEXT = range(3)
DOOR_TYPE: Final = TYPES.index("door")
ANY_COLOUR: Final = 6
ANY_STATE: Final = 3


class Descriptor(NamedTuple):
    """A kind of object, in the order of the alphabet: ANY_COLOUR and ANY_STATE come last."""

    type: int
    colour: int
    state: int = ANY_STATE

    @property
    def name(self) -> str:
        """`ball`, `ball_red`, `door_red_locked`."""
        return "_".join((TYPES[self.type], *self.attributes))

    @property
    def attributes(self) -> tuple[str, ...]:
        """The colour and the door state, as far as they are specified."""
        colour = COLOURS[self.colour : self.colour + 1] if self.colour != ANY_COLOUR else ()
        return colour + DOOR_STATES[self.state : self.state + 1]

    def covers(self, other: "Descriptor") -> bool:
        """Whether every object that fits the other fits this one too."""
        return (
            self.type == other.type
            and self.colour in (ANY_COLOUR, other.colour)
            and self.state in (ANY_STATE, other.state)
        )

    def clashes(self, other: "Descriptor") -> bool:
        """Whether no object fits both."""
        return (
            self.type != other.type
            or _differ(self.colour, other.colour, ANY_COLOUR)
            or _differ(self.state, other.state, ANY_STATE)
        )


class Proposition(NamedTuple):
    """Something that can be true of what the agent sees. `next` has two objects, the others one."""

    location: int
    objects: tuple[Descriptor, ...]

    @property
    def name(self) -> str:
        """As in `next_ball_red_door_locked`."""
        return "_".join((LOCATIONS[self.location], *(thing.name for thing in self.objects)))


def _differ(one: int, other: int, anything: int) -> bool:
    return anything not in (one, other) and one != other


def _descriptors(type: int) -> list[Descriptor]:
    states = range(len(DOOR_STATES) + 1) if type == DOOR_TYPE else (ANY_STATE,)
    return [Descriptor(type, colour, state) for state in states for colour in range(len(COLOURS))]


DESCRIPTORS: Final = tuple(thing for type in range(len(TYPES)) for thing in _descriptors(type))
"""Everything an object can be called; the id of `front` about it is its place in here."""


def _pairs() -> list[tuple[Descriptor, Descriptor]]:
    """Unordered pairs, in the order of the ids. Two doors are never next to each other."""
    movable = [thing for thing in DESCRIPTORS if thing.type != DOOR_TYPE]
    doors = sorted(_descriptors(DOOR_TYPE))  # by colour, then by state
    return [
        (first, second)
        for first in movable
        for second in movable + doors
        if second.type > first.type or (second.type == first.type and second.colour >= first.colour)
    ]


def _propositions() -> tuple[Proposition, ...]:
    movable = [thing for thing in DESCRIPTORS if thing.type != DOOR_TYPE]
    return (
        *(Proposition(FRONT, (thing,)) for thing in DESCRIPTORS),
        *(Proposition(CARRYING, (thing,)) for thing in movable),
        *(Proposition(NEXT, pair) for pair in _pairs()),
    )


PROPOSITIONS: Final = _propositions()
"""Every proposition, by id."""
NAMES: Final = tuple(proposition.name for proposition in PROPOSITIONS)
IDS: Final = {name: number for number, name in enumerate(NAMES)}


# What follows evaluates propositions. The cells in sight are the bits of a word, with a gap of one bit between rows so
# that neighbours to the left and right are one shift away, and never in another row. They are not turned to the view of
# the agent, because neighbours stay neighbours; only its own cell and the one ahead are in other places then.
STRIDE: Final = VIEW + 1
CELL_BITS: Final = np.array(
    [[1 << (STRIDE * row + column) for column in range(VIEW)] for row in range(VIEW)], np.uint32
)
ALL_CELLS: Final = int(CELL_BITS.sum())
OWN_BITS: Final = tuple(int(np.rot90(CELL_BITS, turn)[VIEW - 1, VIEW // 2]) for turn in range(4))
"""The agent's own cell, by direction."""
FRONT_BITS: Final = tuple(int(np.rot90(CELL_BITS, turn)[VIEW - 2, VIEW // 2]) for turn in range(4))
"""The cell ahead, by direction."""

KIND_MASK: Final = 0b1111000
DOOR_FLAG: Final = 0b1000000
"""A bit that only doors have after `_flag_doors`, so that any set of objects a descriptor can name is a mask test."""


def _flag_doors(cells: UInt8[Array, "*cells"]) -> UInt8[Array, "*cells"]:
    return jnp.where(cells >= cell(DOOR_CLOSED, 0), cells + (DOOR_FLAG - cell(DOOR_CLOSED, 0)), cells)


def _mask_and_value(thing: Descriptor) -> tuple[int, int]:
    """The test `cell & mask == value` for cells with flagged doors."""
    colour_mask, colour = (0, 0) if thing.colour == ANY_COLOUR else (0b111, thing.colour)
    if thing.type != DOOR_TYPE:
        return KIND_MASK | colour_mask, 8 * (BALL + thing.type) | colour
    if thing.state == ANY_STATE:
        return DOOR_FLAG | colour_mask, DOOR_FLAG | colour
    return KIND_MASK | colour_mask, DOOR_FLAG | 8 * thing.state | colour


SECOND_SHIFT, LOCATION_SHIFT = 14, 28


def _code(proposition: Proposition) -> int:
    """A proposition in one word: from the lowest bit 7 each of mask, value, mask, value, then the location."""
    code = proposition.location << LOCATION_SHIFT
    for shift, thing in zip((0, SECOND_SHIFT), proposition.objects, strict=False):
        mask, value = _mask_and_value(thing)
        code |= (mask | value << 7) << shift
    return code


CODES: Final = np.array([_code(proposition) for proposition in PROPOSITIONS], np.uint32)


def holds(state: State, props: Int[Array, "*asked"]) -> Bool[Array, "*asked"]:
    """Which of the asked propositions hold now."""
    return _evaluate(dynamics.window(state), state.direction, state.carrying, props)


def _evaluate(
    window: UInt8[Array, "5 5"], direction: Int8[Array, ""], carrying: UInt8[Array, ""], props: Int[Array, "*asked"]
) -> Bool[Array, "*asked"]:
    """Which of the asked propositions hold, given the cells in sight, the agent at the middle of one side of them."""
    codes = jnp.asarray(CODES)[props]
    location = codes >> LOCATION_SHIFT
    own, ahead = _of_direction(direction, OWN_BITS), _of_direction(direction, FRONT_BITS)
    besides = ALL_CELLS ^ own
    first, second = _fitting(_flag_doors(window).reshape(-1), codes)
    near = _neighbours(second & besides) & besides
    in_sight = (first & jnp.where(location == NEXT, near, ahead)) != 0
    return jnp.where(location == CARRYING, _fits(_flag_doors(carrying), codes), in_sight)


def _of_direction(direction: Int8[Array, ""], bits: tuple[int, ...]) -> UInt32[Array, ""]:
    """One of four words; cheaper than looking it up in an array."""
    up, right, down, left = map(jnp.uint32, bits)
    return jnp.where(direction < DOWN, jnp.where(direction == UP, up, right), jnp.where(direction == DOWN, down, left))


def _fits(cells: UInt8[Array, "*#shape"], codes: UInt32[Array, "*#shape"]) -> Bool[Array, "*#shape"]:
    """Whether cells pass the test in the lowest 14 bits of a code."""
    mask, value = (codes & 127).astype(jnp.uint8), ((codes >> 7) & 127).astype(jnp.uint8)
    return (cells & mask) == value


def _fitting(
    cells: UInt8[Array, "25"], codes: UInt32[Array, "*asked"]
) -> tuple[UInt32[Array, "*asked"], UInt32[Array, "*asked"]]:
    """The cells that fit the first and the second descriptor of each code, as bits.

    One reduction for both: XLA never fuses such a pair into what comes after, which would undo its vectorisation.
    """
    asked = (1,) * codes.ndim
    bits = jnp.asarray(CELL_BITS.reshape(*asked, -1))
    one, other = (
        jnp.where(_fits(cells.reshape(*asked, -1), tests[..., None]), bits, jnp.uint32(0))
        for tests in (codes, codes >> SECOND_SHIFT)
    )
    join = lambda a, b: (a[0] | b[0], a[1] | b[1])  # noqa: E731
    first, second = jax.lax.reduce((one, other), (jnp.uint32(0), jnp.uint32(0)), join, (codes.ndim,))
    return first, second


def _neighbours(bits: UInt32[Array, "*asked"]) -> UInt32[Array, "*asked"]:
    """The cells above, below, left and right of the given ones (and bits that are no cells)."""
    return (bits << 1) | (bits >> 1) | (bits << STRIDE) | (bits >> STRIDE)


def label(state: State) -> Bool[Array, "889"]:
    """Which of all propositions hold now."""
    return holds(state, jnp.arange(len(NAMES)))


# What follows says what propositions mean to those who never see a grid.


def _phrase(proposition: Proposition) -> str:
    things = [_with_article(next(_spoken(thing))) for thing in proposition.objects]
    return {FRONT: "go to {}", CARRYING: "pick up {}", NEXT: "put {} next to {}"}[proposition.location].format(*things)


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _spoken(thing: Descriptor) -> Iterator[str]:
    """`locked red door`, then `red locked door`."""
    attributes = thing.attributes
    for order in dict.fromkeys((attributes[::-1], attributes)):
        yield " ".join((*order, TYPES[thing.type]))


def _commands() -> dict[str, int]:
    """Every way to ask for a proposition, without articles."""
    return {words: number for number, about in enumerate(PROPOSITIONS) for words in _ways_to_say(about)}


def _ways_to_say(proposition: Proposition) -> Iterator[str]:
    first, second = proposition.objects[0], proposition.objects[-1]
    if proposition.location == FRONT:
        yield from (f"{verb} {noun}" for verb in ("go to", "face") for noun in _spoken(first))
        if first.state == DOOR_STATES.index("open"):
            yield from (f"open {noun}" for noun in _spoken(first._replace(state=ANY_STATE)))
    elif proposition.location == CARRYING:
        yield from (f"{verb} {noun}" for verb in ("pick up", "get", "carry", "hold") for noun in _spoken(first))
    else:
        orders = [(first, second)] + [(second, first)] * (second.type != DOOR_TYPE)
        yield from (f"put {a} next to {b}" for one, other in orders for a in _spoken(one) for b in _spoken(other))


def _features() -> np.ndarray:
    """One-hot location in the first group, then the codes of each object."""
    codes = {thing: _object_codes(thing) for thing in DESCRIPTORS}
    width = len(codes[DESCRIPTORS[0]])
    features = np.zeros((len(PROPOSITIONS), 3, width), np.float32)
    for number, (location, objects) in enumerate(PROPOSITIONS):
        features[number, 0, location] = 1
        features[number, 1 : 1 + len(objects)] = [codes[thing] for thing in objects]
    return features


def _object_codes(thing: Descriptor) -> list[bool]:
    """One-hot type, colour and door state; zeros where one is not specified."""
    return (
        [thing.type == type for type in range(len(TYPES))]
        + [thing.colour == colour for colour in range(ANY_COLOUR)]
        + [thing.state == state for state in range(ANY_STATE)]
    )


def _implies() -> np.ndarray:
    """Each object of one is covered by an object of the other; `next` does not care which is named first."""
    covered = np.array([[general.covers(special) for general in DESCRIPTORS] for special in DESCRIPTORS])
    location, first, second = _columns()
    straight = covered[np.ix_(first, first)] & covered[np.ix_(second, second)]
    crossed = covered[np.ix_(first, second)] & covered[np.ix_(second, first)]
    return (location[:, None] == location) & (straight | crossed)


def _excludes() -> np.ndarray:
    """There is one cell ahead and one pair of hands, but room for many neighbours."""
    clash = np.array([[one.clashes(other) for other in DESCRIPTORS] for one in DESCRIPTORS])
    location, first, _ = _columns()
    return (location[:, None] == location) & (location != NEXT) & clash[np.ix_(first, first)]


def _columns() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Location, first and last object of each proposition, as numbers."""
    place = {thing: number for number, thing in enumerate(DESCRIPTORS)}
    rows = [(about.location, place[about.objects[0]], place[about.objects[-1]]) for about in PROPOSITIONS]
    location, first, second = np.array(rows).T
    return location, first, second


VOCABULARY: Final = Vocabulary(
    names=NAMES,
    phrases=tuple(map(_phrase, PROPOSITIONS)),
    commands=_commands(),
    synonyms={"box": "square", "grey": "gray"},
    features=_features(),
    implies=_implies(),
    excludes=_excludes(),
    ids=IDS,
)
