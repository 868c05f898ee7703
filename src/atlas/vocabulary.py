"""Outcomes of a task, what propositions mean, and `Pictured`: shared by tasks and domains, without JAX."""

from dataclasses import dataclass, field
from pkgutil import resolve_name

import numpy as np

RUNNING, ACCEPTED, REJECTED = range(3)
"""Outcomes of a task, or of one of its states."""


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """What the propositions of a domain mean, as a value: tasks and students never import a domain.

    Ids never change; settings restrict what is sampled by a mask over ids.
    """

    names: tuple[str, ...]
    """Name of each proposition, by id."""
    phrases: tuple[str, ...]
    """Each proposition as an English command, e.g. `go to a red ball`, `put a key next to a locked door`."""
    commands: dict[str, int]
    """More ways to say it: words in lower case without articles -> id, e.g. `open blue door`. Includes `phrases`."""
    synonyms: dict[str, str]
    """Words that are read as others, in commands and in names of propositions: `box` -> `square`, `grey` -> `gray`."""
    features: np.ndarray
    """`float32[props, groups, codes]`: rows of binary codes for the literal embedding. Group 0 is the location, the
    others describe one object each (all zero if absent); codes of the location are padded with zeros."""
    implies: np.ndarray
    """`bool[props, props]`: `implies[i, j]` iff j holds wherever i does; every proposition implies itself."""
    excludes: np.ndarray
    """`bool[props, props]`: symmetric; `excludes[i, j]` iff i and j never hold at once."""
    ids: dict[str, int]
    """Id of each name."""
    lasting: tuple[str, ...] = ()
    """Verbs of `commands` for what goes on: `while carrying a key` is better than `while picking up a key`."""
    nouns: tuple[str, ...] = ()
    """What commands speak of, e.g. `ball`; by default the last word of each command."""
    attributes: tuple[tuple[str, ...], ...] = ()
    """Words that may stand before nouns, in groups of which a thing has one each, e.g. colours."""
    verbs: dict[str, str] = field(default_factory=dict)
    """More verbs, as patterns: `close {}` -> `go to closed {}`. Meanings are patterns of `commands` or of other verbs,
    with `&` between what holds at the same moment (`use {} to open {}` -> `open {1} & pick up {0}`) and `stop` before
    what must have held and holds no more. Every domain gets those of `atlas.tasks.english.lexicon.USUAL_VERBS` that
    lead to one of its own: with `go to {}`, `pick up {}` or `put {} next to {}` among `commands` or `verbs` come
    dozens."""
    glyphs: tuple[tuple[tuple[str, str], ...], ...] = ()
    """The objects that each proposition mentions, for a terminal: a letter and the name of a colour (or nothing)."""

    def find(self, name: str) -> int | None:
        """The id of the proposition that a name in a text stands for, synonyms understood; None if there is none."""
        return self.ids.get("_".join(self.synonyms.get(word, word) for word in name.split("_")))


class Pictured:
    """Base of problems, levels and tasks: notebooks show them as a picture, drawn by `atlas.show.problem`.

    Nothing is loaded before one is shown.
    """

    def _repr_svg_(self) -> str | None:
        return resolve_name("atlas.show.problem:notebook_svg")(self)
