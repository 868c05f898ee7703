"""The 889 propositions: order, truth, meaning, words."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.domains.minigrid import dynamics, labels
from atlas.domains.minigrid.alphabet import IDS, NAMES, VOCABULARY
from atlas.domains.minigrid.domain import Minigrid
from atlas.domains.minigrid.grid import CELL_NAMES, DOORS, MOVABLE, cell
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.domains.minigrid.text import parse_level
from twins import labels as twin
from twins.random_states import random_states

all_labels = jax.jit(jax.vmap(labels.label))


def test_the_alphabet_is_in_order() -> None:
    assert list(NAMES) == twin.all_names()
    assert len(NAMES) == len(IDS) == 889
    assert (IDS["next_ball_red_ball_red"], IDS["next_ball_red_square_red"], IDS["next_key_door"]) == (70, 77, 888)
    assert (IDS["front_square_red"], IDS["front_door_red_locked"], IDS["carrying_ball_red"]) == (7, 28, 49)


@pytest.mark.parametrize("seed", [30, 31])
def test_labels_agree_with_the_twin(seed: int) -> None:
    count = 1500
    states = random_states(seed, count)
    found, seen = np.asarray(all_labels(states)), np.asarray(jax.vmap(dynamics.view)(states))
    for holds, view in zip(found, seen, strict=True):
        expected = twin.label([[CELL_NAMES[code] for code in row] for row in view.tolist()])
        assert {NAMES[i] for i in np.flatnonzero(holds)} == expected
    assert found.any(axis=0).mean() > 0.9, "most propositions hold somewhere, or the comparison would be empty"


def test_the_asked_ones_are_those_of_the_label() -> None:
    states, rng = random_states(30, 1500), np.random.default_rng(0)
    props = rng.integers(0, 889, (1500, 2, 3))
    asked = jax.jit(jax.vmap(labels.holds))(states, jnp.asarray(props))
    expected = np.take_along_axis(np.asarray(all_labels(states)), props.reshape(1500, -1), axis=1)
    np.testing.assert_array_equal(np.asarray(asked).reshape(1500, -1), expected)


# Corner cases, drawn. The agent looks up from the bottom; nothing else is in sight than what is drawn.
DRAWN = {
    "a carried object is next to nothing": (
        """
        ..........
        ..ob^.or..
        carrying: red key
        """,
        {"carrying_key_red", "carrying_key"},
    ),
    "the object in front has neighbours": (
        """
        ....orkb..
        ....^.....
        """,
        {"front_ball_red", "front_ball"}
        | {"next_ball_red_key_blue", "next_ball_red_key", "next_ball_key_blue", "next_ball_key"},
    ),
    "neighbours are seen through a wall": (
        """
        ..oasa....
        ##########
        ....^.....
        """,
        {"next_ball_gray_square_gray", "next_ball_gray_square", "next_ball_square_gray", "next_ball_square"},
    ),
    "a wall between two objects parts them": (
        """
        ..or##or..
        ....^.....
        """,
        set(),
    ),
    "diagonals do not count": (
        """
        ..or......
        ....ob....
        ..........
        ....^.....
        """,
        set(),
    ),
    "two of a kind and colour": (
        """
        ..or......
        ..or......
        ....^.....
        """,
        {"next_ball_red_ball_red", "next_ball_red_ball", "next_ball_ball"},
    ),
    "two of a kind": (
        """
        ..obor....
        ..........
        ....^.....
        """,
        {"next_ball_red_ball_blue", "next_ball_red_ball", "next_ball_blue_ball", "next_ball_ball"},
    ),
    "one ball is not next to itself": (
        """
        ..or......
        ....^.....
        """,
        set(),
    ),
    "a locked door ahead": (
        """
        ####xp####
        ....^.....
        """,
        {"front_door_purple_locked", "front_door_locked", "front_door_purple", "front_door"},
    ),
    "two doors are no pair": (
        """
        ..-g+g....
        ..........
        ....^.....
        """,
        set(),
    ),
    "a ball at an open door": (
        """
        ..oy+r....
        ..........
        ....^.....
        """,
        {
            f"next_{ball}_{door}"
            for ball in ("ball_yellow", "ball")
            for door in ("door_red_open", "door_open", "door_red", "door")
        },
    ),
    "the door under the agent is not seen": (
        """
        ..........
        ....^gor..
        """,
        set(),
    ),
    "what lies behind or too far aside is not seen": (
        """
        ......................
        oror......^.......oror
        ..........or..........
        """,
        set(),
    ),
    "pairs to the far left and right are seen": (
        """
        kgsp......
        ..........
        ..........
        ........ka
        ....^...sy
        """,
        {"next_square_purple_key_green", "next_square_purple_key", "next_square_key_green", "next_square_key"}
        | {"next_square_yellow_key_gray", "next_square_yellow_key", "next_square_key_gray"},
    ),
    "rows do not join at their ends": (
        """
        ........or
        or........
        ..........
        ....^.....
        """,
        set(),
    ),
}


@pytest.mark.parametrize("case", DRAWN)
def test_corner_cases(case: str) -> None:
    text, expected = DRAWN[case]
    found = {NAMES[i] for i in np.flatnonzero(labels.label(dynamics.reset(parse_level(text))))}
    assert found == expected


def _worlds() -> np.ndarray:
    """`bool[props, worlds]`: what is true where one object is ahead, one is carried, or one pair is in view."""
    movable = [CELL_NAMES[cell(kind, colour)] for kind in MOVABLE for colour in range(6)]
    objects = movable + [CELL_NAMES[cell(kind, colour)] for kind in DOORS for colour in range(6)]
    columns = [{twin.name("front", r) for r in twin.readings(thing)} for thing in objects]
    columns += [{twin.name("carrying", r) for r in twin.readings(thing)} for thing in movable]
    pairs = itertools.combinations_with_replacement(objects, 2)
    columns += [found for pair in pairs if (found := twin.pair_names(*pair))]
    true = np.zeros((889, len(columns)), bool)
    for column, names in enumerate(columns):
        true[[IDS[name] for name in names], column] = True
    return true


def test_implication_is_what_all_worlds_say() -> None:
    """One proposition implies another iff every object or pair that makes it true makes the other true."""
    true = _worlds()
    counterexamples = true.astype(np.int32) @ (~true).astype(np.int32).T
    np.testing.assert_array_equal(VOCABULARY.implies, counterexamples == 0)


def test_exclusion_is_what_all_worlds_say() -> None:
    """Two propositions about one place exclude each other iff no object makes both true; others never do.

    Any two pairs of neighbours can be in view at once, and the hands say nothing about the cell ahead.
    """
    true = _worlds()
    together = true.astype(np.int32) @ true.astype(np.int32).T > 0
    place = np.array([name.partition("_")[0] for name in NAMES])
    one_object = (place[:, None] == place) & (place != "next")
    np.testing.assert_array_equal(VOCABULARY.excludes, one_object & ~together)


def test_implication_and_exclusion_hold_in_random_states() -> None:
    found = np.asarray(all_labels(random_states(30, 1500)))
    implied = found.astype(np.float32) @ VOCABULARY.implies.astype(np.float32) > 0
    np.testing.assert_array_equal(implied, found)
    together = found.astype(np.float32).T @ found.astype(np.float32) > 0
    assert not (together & VOCABULARY.excludes).any()


@pytest.mark.parametrize(
    ("name", "implied", "excluded"),
    [
        ("front_ball_red", {"front_ball"}, {"front_key", "front_ball_blue", "front_door_open"}),
        ("front_door_red_locked", {"front_door", "front_door_red", "front_door_locked"}, {"front_door_open"}),
        ("carrying_key_blue", {"carrying_key"}, {"carrying_ball", "carrying_key_red"}),
        ("next_ball_red_ball_blue", {"next_ball_red_ball", "next_ball_blue_ball", "next_ball_ball"}, set()),
    ],
)
def test_examples_of_implication_and_exclusion(name: str, implied: set[str], excluded: set[str]) -> None:
    row = IDS[name]
    assert {NAMES[i] for i in np.flatnonzero(VOCABULARY.implies[row])} == implied | {name}
    assert excluded <= {NAMES[i] for i in np.flatnonzero(VOCABULARY.excludes[row])}
    if not excluded:
        assert not VOCABULARY.excludes[row].any()


@pytest.mark.parametrize(
    ("name", "phrase"),
    [
        ("front_ball_red", "go to a red ball"),
        ("front_door_red_locked", "go to a locked red door"),
        ("front_door_open", "go to an open door"),
        ("carrying_key", "pick up a key"),
        ("next_ball_red_door_blue_closed", "put a red ball next to a closed blue door"),
        ("next_key_door", "put a key next to a door"),
    ],
)
def test_phrases(name: str, phrase: str) -> None:
    assert VOCABULARY.phrases[IDS[name]] == phrase


def test_every_phrase_is_a_command_for_its_proposition() -> None:
    for number, phrase in enumerate(VOCABULARY.phrases):
        words = " ".join(word for word in phrase.split() if word not in ("a", "an"))
        assert VOCABULARY.commands[words] == number
    assert len(set(VOCABULARY.phrases)) == 889


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("open red door", "front_door_red_open"),
        ("open door", "front_door_open"),
        ("go to red locked door", "front_door_red_locked"),
        ("put blue ball next to red ball", "next_ball_red_ball_blue"),
        ("put key next to ball", "next_ball_key"),
        ("put key next to gray open door", "next_key_door_gray_open"),
    ],
)
def test_other_ways_to_say_it(words: str, name: str) -> None:
    assert VOCABULARY.commands[words] == IDS[name]


def test_commands_name_what_is_moved_first() -> None:
    """Doors cannot be put anywhere."""
    assert not any(words.startswith("put") and "door next to" in words for words in VOCABULARY.commands)


def test_features_tell_propositions_apart() -> None:
    features = VOCABULARY.features
    assert features.shape == (889, 3, 13)
    assert len({row.tobytes() for row in features}) == 889
    row = features[IDS["next_key_purple_door_locked"]]
    assert np.flatnonzero(row[0]).tolist() == [2]
    assert np.flatnonzero(row[1]).tolist() == [2, 4 + 3]
    assert np.flatnonzero(row[2]).tolist() == [3, 10 + 1]
    assert not features[IDS["front_ball"], 2].any()


def _names_allowed(**settings: tuple[str, ...]) -> set[str]:
    return {NAMES[i] for i in np.flatnonzero(Minigrid(MinigridConfig(**settings)).mask)}


def test_all_propositions_are_allowed_by_default() -> None:
    assert _names_allowed() == set(NAMES)


def test_fewer_colours_and_types_restrict_the_mask() -> None:
    assert _names_allowed(colours=("red", "blue")) == {
        name for name in NAMES if not any(c in name for c in ("green", "purple", "yellow", "gray"))
    }
    assert _names_allowed(types=("ball",)) == {name for name in NAMES if "key" not in name and "square" not in name}


def test_doors_come_to_be_open_or_closed_but_never_locked() -> None:
    unlocked = {name for name in NAMES if "locked" not in name}
    assert _names_allowed(door_states=("closed",)) == unlocked
    assert _names_allowed(door_states=("locked",)) == set(NAMES)
    no_keys = _names_allowed(door_states=("locked",), types=("ball",))
    assert "front_door_red_locked" in no_keys
    assert "front_door_red" in no_keys
    assert "front_door_open" not in no_keys
