"""The 889 propositions: what the agent is in front of, what it carries, what lies next to what.

A proposition is a location and one or two descriptors, a descriptor being (type, colour or any, door state or any).
Which of them hold in a state, `labels` says; here they are only named and related, without JAX.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from atlas.vocabulary import Vocabulary

TYPES: Final = ("ball", "square", "key", "door")
COLOURS: Final = ("red", "green", "blue", "purple", "yellow", "gray")
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
        return COLOURS[self.colour : self.colour + 1] + DOOR_STATES[self.state : self.state + 1]

    def covers(self, other: "Descriptor") -> bool:
        """Whether every object that fits the other fits this one too."""
        return all(a in (b, unsaid) for a, b, unsaid in zip(self, other, (-1, ANY_COLOUR, ANY_STATE), strict=True))


class Proposition(NamedTuple):
    """Something that can be true of what the agent sees. `next` has two objects, the others one."""

    location: int
    objects: tuple[Descriptor, ...]

    @property
    def name(self) -> str:
        """As in `next_ball_red_door_locked`."""
        return "_".join((LOCATIONS[self.location], *(thing.name for thing in self.objects)))


def _descriptors(type: int) -> list[Descriptor]:
    states = range(len(DOOR_STATES) + 1) if type == DOOR_TYPE else (ANY_STATE,)
    return [Descriptor(type, colour, state) for state in states for colour in range(len(COLOURS) + 1)]


MOVABLES: Final = tuple(thing for type in range(DOOR_TYPE) for thing in _descriptors(type))
DESCRIPTORS: Final = (*MOVABLES, *_descriptors(DOOR_TYPE))
"""Everything an object can be called; the id of `front` about it is its place in here."""
PROPOSITIONS: Final = (
    *(Proposition(FRONT, (thing,)) for thing in DESCRIPTORS),
    *(Proposition(CARRYING, (thing,)) for thing in MOVABLES),
    *(
        Proposition(NEXT, (first, second))
        for first in MOVABLES
        for second in (*MOVABLES, *sorted(_descriptors(DOOR_TYPE)))  # doors by colour, then by state
        if second.type > first.type or (second.type == first.type and second.colour >= first.colour)
    ),
)
"""Every proposition, by id. Pairs are unordered, and two doors are never next to each other."""
NAMES: Final = tuple(proposition.name for proposition in PROPOSITIONS)
IDS: Final = {name: number for number, name in enumerate(NAMES)}


# What propositions mean to those who never see a grid

_SPOKEN: Final = {
    thing: [
        " ".join((*order, TYPES[thing.type])) for order in dict.fromkeys((thing.attributes[::-1], thing.attributes))
    ]
    for thing in DESCRIPTORS
}
"""`locked red door`, then `red locked door`."""
_GLYPHS: Final = {"ball": "●", "square": "■", "key": "⚷", "door": "▯"}


def _phrase(proposition: Proposition) -> str:
    nouns = [_SPOKEN[thing][0] for thing in proposition.objects]
    articled = [f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}" for noun in nouns]
    return ("go to {}", "pick up {}", "put {} next to {}")[proposition.location].format(*articled)


def _ways_to_say(proposition: Proposition) -> Iterator[str]:
    """Every way to ask for a proposition, without articles."""
    first, second = proposition.objects[0], proposition.objects[-1]
    if proposition.location == FRONT:
        yield from (f"{verb} {noun}" for verb in ("go to", "face") for noun in _SPOKEN[first])
        if first.state == DOOR_STATES.index("open"):
            yield from (f"open {noun}" for noun in _SPOKEN[first._replace(state=ANY_STATE)])
    elif proposition.location == CARRYING:
        yield from (f"{verb} {noun}" for verb in ("pick up", "get", "carry", "hold") for noun in _SPOKEN[first])
    else:
        orders = [(first, second)] + [(second, first)] * (second.type != DOOR_TYPE)
        yield from (f"put {a} next to {b}" for one, other in orders for a in _SPOKEN[one] for b in _SPOKEN[other])


def _vocabulary() -> Vocabulary:
    """Relations between propositions follow from those between their objects."""
    things = np.array(DESCRIPTORS)
    place = {thing: number for number, thing in enumerate(DESCRIPTORS)}
    rows = [(about.location, place[about.objects[0]], place[about.objects[-1]]) for about in PROPOSITIONS]
    location, first, second = np.array(rows).T

    same = things[:, None] == things
    unsaid = things == (-1, ANY_COLOUR, ANY_STATE)
    covered = (same | unsaid).all(-1)  # [special, general]: every object that fits the one fits the other
    clash = ~(same | unsaid | unsaid[:, None]).all(-1)
    straight = covered[np.ix_(first, first)] & covered[np.ix_(second, second)]
    crossed = covered[np.ix_(first, second)] & covered[np.ix_(second, first)]
    alike = location[:, None] == location

    codes = np.concatenate(  # one-hot type, colour and door state; zeros where one is not specified
        [
            things[:, i : i + 1] == np.arange(count)
            for i, count in enumerate((len(TYPES), len(COLOURS), len(DOOR_STATES)))
        ],
        axis=1,
    )
    features = np.zeros((len(PROPOSITIONS), 3, codes.shape[1]), np.float32)
    features[np.arange(len(location)), 0, location] = 1
    features[:, 1] = codes[first]
    features[location == NEXT, 2] = codes[second[location == NEXT]]
    return Vocabulary(
        names=NAMES,
        phrases=tuple(map(_phrase, PROPOSITIONS)),
        commands={words: number for number, about in enumerate(PROPOSITIONS) for words in _ways_to_say(about)},
        synonyms={
            "box": "square",
            "grey": "gray",
            "cube": "square",
            "sphere": "ball",
            "shut": "closed",
            "opened": "open",
            "unlocked": "not locked",
        },
        nouns=TYPES,
        attributes=(COLOURS, DOOR_STATES),
        verbs={
            "close {}": "go to closed {}",
            "shut {}": "close {}",
            "open up {}": "open {}",
            "unlock {}": "open {}",
            "use {} to open {}": "open {1} & pick up {0}",
            "use {} to unlock {}": "open {1} & pick up {0}",
        },
        features=features,
        implies=alike & (straight | crossed),
        # there is one cell ahead and one pair of hands, but room for many neighbours
        excludes=alike & (location != NEXT) & clash[np.ix_(first, first)],
        ids=IDS,
        lasting=("carry", "face"),
        glyphs=tuple(
            tuple(
                (_GLYPHS[TYPES[thing.type]], "".join(COLOURS[thing.colour : thing.colour + 1]))
                for thing in about.objects
            )
            for about in PROPOSITIONS
        ),
    )


VOCABULARY: Final = _vocabulary()
