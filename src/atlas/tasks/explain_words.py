"""Literals and guards as phrases."""

import re
from collections.abc import Sequence
from typing import Final

from atlas.tasks.english_words import gerund
from atlas.vocabulary import Vocabulary

LASTING: Final = ("carry", "face")
"""Verbs for what goes on, where a vocabulary has them: `while carrying a key` rather than `while picking up a key`."""
_ARTICLE: Final = re.compile(r"\ban? ")


class Words:
    """How the propositions of a vocabulary are said."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.phrases, self.commands = vocabulary.phrases, vocabulary.commands

    def command(self, literal: int) -> str:
        """`go to a ball`."""
        return self.phrases[literal - 1]

    def doing(self, literal: int) -> str:
        """`carrying a ball`, `not putting a ball next to a key`."""
        phrase = self.phrases[abs(literal) - 1]
        verb, _, rest = phrase.partition(" ")
        article = _ARTICLE.search(phrase)
        noun = phrase[article.start() :] if article else rest
        for lasting in LASTING:
            if self.commands.get(f"{lasting} {_ARTICLE.sub('', noun)}") == abs(literal) - 1:
                verb, rest = lasting, noun
        return ("not " if literal < 0 else "") + gerund(verb) + " " + rest

    def guard(self, literals: Sequence[int]) -> str:
        """`go to a ball while picking up a key and not opening a door`."""
        first = next((x for x in literals if x > 0), None)
        rest = [x for x in literals if x > 0 and x != first] + [x for x in literals if x < 0]
        base = "wait" if first is None else self.command(first)
        return base + (" while " + " and ".join(map(self.doing, dict.fromkeys(rest))) if rest else "")
