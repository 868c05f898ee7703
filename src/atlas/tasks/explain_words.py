"""Literals and guards as phrases."""

from collections.abc import Sequence

from atlas.tasks.english_words import gerund
from atlas.types import Vocabulary


class Words:
    """How the propositions of a vocabulary are said."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.phrases = vocabulary.phrases

    def command(self, literal: int) -> str:
        """`go to a ball`."""
        return self.phrases[literal - 1]

    def doing(self, literal: int) -> str:
        """`going to a ball`, `not going to a ball`."""
        verb, _, rest = self.phrases[abs(literal) - 1].partition(" ")
        return ("not " if literal < 0 else "") + gerund(verb) + " " + rest

    def guard(self, literals: Sequence[int]) -> str:
        """`go to a ball while picking up a key and not opening a door`."""
        first = next((x for x in literals if x > 0), None)
        rest = [x for x in literals if x > 0 and x != first] + [x for x in literals if x < 0]
        base = "wait" if first is None else self.command(first)
        return base + (" while " + " and ".join(map(self.doing, dict.fromkeys(rest))) if rest else "")
