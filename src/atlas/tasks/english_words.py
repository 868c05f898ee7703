"""The words of English tasks: tokens with their places, and commands looked up in a vocabulary.

Articles mean nothing, `box` may be a synonym of `square`, and `object` stands for any one word that makes a command
(`pick up a red object`). After `without`, `while`, `before` and `after` verbs may end in -ing.
"""

import functools
import re
from typing import Any, Final, NamedTuple, NoReturn

from atlas.errors import nearest
from atlas.tasks.place import fail
from atlas.vocabulary import Vocabulary

ARTICLES: Final = frozenset({"a", "an", "the"})
FILLERS: Final = frozenset({"please", "first", "finally", "also"})
WILDCARDS: Final = frozenset({"object", "thing", "something", "anything"})
_END: Final = ""
"""Key of a command's proposition in the tree of words."""
_TOKEN: Final = re.compile(r"\s*(?:(?P<word>[A-Za-z][A-Za-z'’-]*)|(?P<number>-?\d+(?:\.\d+)?(?:e-?\d+)?)|(?P<mark>\S))")

Cube = tuple[int, ...]
Tree = dict[str, Any]


class Token(NamedTuple):
    """A word in lower case, a number or a mark; the last of a text is empty."""

    text: str
    start: int
    end: int


class Command(NamedTuple):
    """A command found in a text."""

    props: tuple[int, ...]
    """The propositions it may stand for: more than one if it speaks of an `object`."""
    words: tuple[str, ...]
    stop: int
    """The first token after it."""


def tokenise(text: str) -> list[Token]:
    """Words, numbers and marks; fillers such as `please` are left out."""
    tokens = []
    place, end = 0, len(text.rstrip())
    while place < end:
        match = _TOKEN.match(text, place)
        assert match is not None  # every character is a mark at the latest
        kind = match.lastgroup or "mark"
        word = match[kind].lower()
        if kind == "mark" and word not in ".,;:()":
            fail(text, match.start(kind), match.end(kind), f"'{word}' means nothing in a task")
        if word not in FILLERS:
            tokens.append(Token(word, match.start(kind), match.end(kind)))
        place = match.end()
    return [*tokens, Token("", end, end + 1)]


def gerund(verb: str) -> str:
    """`go` -> `going`, `put` -> `putting`, `leave` -> `leaving`."""
    if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")):
        return verb[:-1] + "ing"
    if re.fullmatch(r"[^aeiou]*[aeiou][^aeiouwxy]", verb) and len(verb) > 2:
        return verb + verb[-1] + "ing"
    return verb + "ing"


class Lexicon:
    """The commands of a vocabulary as a tree of words."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.synonyms = vocabulary.synonyms
        self.tree: Tree = {}
        for command, prop in vocabulary.commands.items():
            branch = self.tree
            for word in command.split():
                branch = branch.setdefault(word, {})
            branch[_END] = prop
        self.verbs = {gerund(verb): verb for verb in self.tree}

    def find(self, tokens: list[Token], start: int, prefix: tuple[str, ...] = ()) -> Command | None:
        """The longest command at a place, read as if `prefix` stood before it."""
        branches: list[Tree] = [self.tree]
        for word in prefix:
            branches = self._follow(branches, word)
        found, words, place = None, list(prefix), start
        while branches and (text := tokens[place].text):
            if text not in ARTICLES:
                word = self._word(text, first=not words)
                branches = self._follow(branches, word)
                words.append(word)
            place += 1
            props = sorted({branch[_END] for branch in branches if _END in branch})
            if props and text not in ARTICLES:
                found = Command(tuple(props), tuple(words), place)
        return found

    def _word(self, text: str, first: bool) -> str:
        word = self.synonyms.get(text, text)
        return self.verbs.get(word, word) if first else word

    def _follow(self, branches: list[Tree], word: str) -> list[Tree]:
        if word in WILDCARDS:
            return [branch for tree in branches for key, branch in tree.items() if key != _END]
        return [tree[word] for tree in branches if word in tree]

    def complain(self, text: str, tokens: list[Token], start: int) -> NoReturn:
        """Point at the first word that no command continues with."""
        branch, place, words = self.tree, start, 0
        while tokens[place].text:
            if tokens[place].text not in ARTICLES:
                word = self._word(tokens[place].text, first=words == 0)
                if word not in branch:
                    break
                branch = branch[word]
                words += 1
            place += 1
        token = tokens[place]
        allowed = [word for word in branch if word != _END]
        _fail_on_word(text, token, allowed, after=text[tokens[start].start : token.start].strip())


def _fail_on_word(text: str, token: Token, allowed: list[str], after: str) -> NoReturn:
    what = f"'{token.text}' is not understood" if token.text else "something is missing"
    where = f" after '{after}'" if after else ""
    hint = nearest(token.text, allowed) or f"; expected {_listed(allowed)}"
    fail(text, token.start, token.end, what + where + hint)


def _listed(words: list[str]) -> str:
    shown = words[:8] + ["…"] * (len(words) > 8)
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"


@functools.lru_cache(maxsize=4)
def lexicon(vocabulary: Vocabulary) -> Lexicon:
    """The lexicon of a vocabulary, made once."""
    return Lexicon(vocabulary)
