"""Small made-up vocabularies for tests of tasks."""

import numpy as np

from atlas.vocabulary import Vocabulary

FRUIT = ("apple", "pear", "plum", "fig", "kiwi", "lime")


def fruit(implies=(), excludes=()) -> Vocabulary:
    """Six fruits to eat; pairs of ids that imply or exclude each other may be given."""
    count = len(FRUIT)
    implied, excluded = np.eye(count, dtype=bool), np.zeros((count, count), bool)
    for a, b in implies:
        implied[a, b] = True
    for a, b in excludes:
        excluded[a, b] = excluded[b, a] = True
    return Vocabulary(
        names=FRUIT,
        phrases=tuple(f"eat {'an' if name[0] == 'a' else 'a'} {name}" for name in FRUIT),
        commands={f"eat {name}": i for i, name in enumerate(FRUIT)},
        synonyms={"actinidia": "kiwi"},
        features=np.zeros((count, 2, 3), np.float32),
        implies=implied,
        excludes=excluded,
        ids={name: i for i, name in enumerate(FRUIT)},
    )
