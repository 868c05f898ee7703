"""Reads `tasks/corpus.txt`: groups of paraphrases with their meaning as traces."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from atlas.vocabulary import Vocabulary

FILE = Path(__file__).parent / "tasks" / "corpus.txt"
MARKS = ("+", "-", "x", "~", "@", "!")


@dataclass
class Group:
    """Sentences of one meaning."""

    sentences: list[str] = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)
    """A mark and what stands behind it."""

    def marked(self, mark: str) -> list[str]:
        """What stands behind a mark, line by line."""
        return [text for found, text in self.facts if found == mark]

    @property
    def named(self) -> list[str]:
        """What the refusal names; nothing if the sentences are to be understood."""
        return [word.strip() for text in self.marked("!") for word in text.split(",")]

    @property
    def things(self) -> list[str] | None:
        """What is in the level, if there is one."""
        return next((text.split(", ") for text in self.marked("@")), None)


def groups() -> list[Group]:
    """All groups of the file."""
    found = []
    for block in FILE.read_text(encoding="utf-8").split("\n\n"):
        group = Group()
        for line in block.splitlines():
            mark, _, rest = line.partition(" ")
            if mark in MARKS:
                group.facts.append((mark, rest.strip()))
            elif line and not line.startswith("#"):
                group.sentences.append(line)
        if group.sentences:
            found.append(group)
    return found


def labels(trace: str, vocabulary: Vocabulary) -> list[set[int]]:
    """The labels of a trace, each with all that it implies."""
    return [
        {
            int(implied)
            for name in word.split("&")
            if name != "{}"
            for implied in np.flatnonzero(vocabulary.implies[vocabulary.ids[name]])
        }
        for word in trace.split()
    ]
