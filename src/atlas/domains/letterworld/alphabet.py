"""The propositions of LetterWorld: which letter the agent stands on. At most one holds, and none on an empty cell."""

from typing import Final

import numpy as np

from atlas.domains.letterworld.settings import LETTERS
from atlas.vocabulary import Vocabulary

_SAME: Final = np.eye(len(LETTERS), dtype=bool)

VOCABULARY: Final = Vocabulary(
    names=tuple(LETTERS),
    phrases=tuple(f"visit {letter}" for letter in LETTERS),
    commands={
        f"{verb} {called}{letter}": i
        for i, letter in enumerate(LETTERS)
        for verb in ("visit", "go to", "stand on", "step on")
        for called in ("", "letter ")
    },
    synonyms={},
    nouns=tuple(LETTERS),
    attributes=(("letter",),),
    features=_SAME.astype(np.float32)[:, None].repeat(2, axis=1),
    implies=_SAME,
    excludes=~_SAME,
    ids={letter: i for i, letter in enumerate(LETTERS)},
    glyphs=tuple(((letter, ""),) for letter in LETTERS),
)
