"""One command of an English text: a verb with its things, looked up in the words of a vocabulary.

`CommandReader` knows nothing of sentences: it finds verbs, follows `it` and `one` to what was named before, tells what
labels a command holds on, and complains about words that nobody knows and things that do not go together.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

from atlas.errors import AtlasError, Reader, TextError, Token, listed
from atlas.tasks.english.lexicon import REACH, Guard, Lexicon, Match, NounPhrase, Thing, lexicon
from atlas.tasks.english.phrases import Words, both
from atlas.vocabulary import Vocabulary

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<word>[A-Za-z][A-Za-z'’-]*)|(?P<number>-?\d+(?:\.\d+)?(?:e-?\d+)?)|(?P<comment>[\"“”])"
    r"|(?P<mark>->|-(?=\s)|[.,;:()?!&→–—…])|(?P<bad>\S))"
)

Phrases = dict[str, list[tuple[str, ...]]]
"""Phrases by their first word, the longest first."""


def phrases(text: str) -> Phrases:
    """A table of phrases, written with semicolons between them."""
    found: Phrases = {}
    for words in sorted((tuple(phrase.split()) for phrase in text.split(";")), key=len, reverse=True):
        found.setdefault(words[0], []).append(words)
    return found


SUBJECTS: Final = phrases("you; it; the agent; the robot; agent; robot; they; i; he; she; we")
AUXILIARIES: Final = phrases(
    """
    must; should; shall; will; can; may; would; could; have to; has to; need to; needs to; are to; is to; ought to;
    want to; wants to; do; does; did
    """
)
PERFECT: Final = phrases("have; has; had; are; is; am; was; were; been; be; having; being; already; ever")
_NOT: Final = (
    *("do", "does", "did", "is", "are", "was", "were", "have", "has", "had"),
    *("must", "should", "shall", "would", "could", "need"),
)
_CONTRACTED: Final = {
    **{f"{word}n{mark}t": f"{word} not" for word in _NOT for mark in ("'", "")},
    **{
        f"{who}{end}": f"{who} {word}"
        for who in ("you", "i", "we", "they")
        for end, word in (("'re", "are"), ("'ve", "have"), ("'d", "would"), ("'ll", "will"))
    },
    **dict.fromkeys(("can't", "cannot", "cant"), "can not"),
    **dict.fromkeys(("won't", "wont"), "will not"),
    "youre": "you are",
    "youve": "you have",
    "i'm": "i am",
    "let's": "let us",
    "lets": "let us",
    "till": "until",
    "nor": "or",
    **dict.fromkeys("?!", "."),
    **dict.fromkeys(("-", "–", "—", "…"), ","),
    **dict.fromkeys(("->", "→"), "then"),
    "&": "and",
}
"""Other words that end in `'s` are read with `is`."""
MODALS: Final = phrases(
    "must; should; shall; has to; have to; needs to; need to; is to; are to; ought to; may; can; will"
)
_BE: Final = phrases("be; get; end up; stay; remain")
_REFUSED: Final = {
    "see sees seeing look spot notice": "what is far away cannot be asked for; say 'go to' or 'face'",
    "left right behind there room rooms wall corner north south east west above below": (
        "a task cannot speak of places and directions"
    ),
    "quickly slowly fast immediately directly instantly carefully straight soon": (
        "a task cannot say how fast or how; LTLf has X for the very next moment"
    ),
    "enter enters entering leave cross through exit": ("a task cannot speak of ways in and out"),
    "same matching corresponding its their": "a task cannot compare things: name what is meant",
    "them those these": "it is not clear which things are meant: name them",
    "nearest closest closer nearer farthest furthest whichever": "a task knows things by their kind, not by distance",
    "infinitely forever often repeatedly": "a task ends: say how many times, as in 'twice'",
    "exactly": "it cannot be settled before the end; say 'twice' for at least, or 'never … more than twice'",
    "nothing": "say 'never', 'avoid' or 'without' for what may not happen",
}
WHY: Final = {word: why for words, why in _REFUSED.items() for word in words.split()}
"""Why some words are refused."""


def _words(text: str) -> list[str]:
    """A word as it is written out: `do not` for `don't`."""
    if text.endswith("'s") and text not in _CONTRACTED:
        return [text[:-2], "is"]
    return _CONTRACTED.get(text, text).split() or [""]


@dataclass(frozen=True)
class Command:
    """A verb with all that fills its slots."""

    pattern: tuple[str, ...]
    phrases: tuple[NounPhrase, ...]
    groups: tuple[Guard, ...]
    """One guard, or one for each of `the red and the blue ball`."""
    stop: bool = False
    """Whether it asks for the end of what it names."""

    @property
    def guard(self) -> Guard:
        """Where all of it holds."""
        result: Guard = ((),)
        for group in self.groups:
            result = both(result, group)
        return result

    @property
    def avoided(self) -> Guard:
        """Where any of it holds."""
        return tuple(dict.fromkeys(cube for group in self.groups for cube in group))

    @property
    def count(self) -> int:
        """How many of what it names: of the first that says so."""
        return next((phrase.count for phrase in self.phrases if phrase.count != 1), 1)


class CommandReader(Reader):
    """A place in the tokens of a text, and what was read so far."""

    def __init__(self, text: str, vocabulary: Vocabulary, grammar: frozenset[str]) -> None:
        """`grammar`: the words that are known besides those of the vocabulary."""
        super().__init__(text.replace("’", "'"), _TOKEN, "a task")
        self.tokens = [token._replace(text=word) for token in self.tokens for word in _words(token.text.lower())]
        self.lexicon: Lexicon = lexicon(vocabulary)
        self.words = Words(vocabulary)
        self.last: Command | None = None
        """The last command, for `go to a ball or a key`."""
        self.mentioned: list[list[NounPhrase]] = []
        """What was named, the latest last; those that stand together are all that `it` might be."""
        self.notes: dict[str, None] = {}
        """What else the words might have meant."""
        self._nouns: dict[int, NounPhrase | None] = {}
        self._verbs: dict[int, list[Match]] = {}
        self.check_words(grammar)
        self.make_active()

    def make_active(self) -> None:
        """Put `the ball must be visited` as `visited the ball`, and `the ball should be next to …` as `make sure …`."""
        place = 0
        while place < len(self.tokens):
            phrase = self.lexicon.noun_phrase(self.tokens, place)
            at = phrase.stop if phrase is not None else place
            self.place = at
            modal = self.ahead(MODALS) if phrase is not None and phrase.pronoun != "it" else 0
            self.place += modal
            denied = self.peek() in ("not", "never") and modal > 0
            self.place += denied + (self.peek(int(denied)) == "ever")
            if modal and (be := self.ahead(_BE)):
                after = self.place + be
                noun, opening = self.tokens[place:at], self.tokens[at]
                words = self._fixed_words(after)
                if words:
                    never = [opening._replace(text="never")] * denied
                    self.tokens[place : after + words] = [*never, *self.tokens[after : after + words], *noun]
                elif not denied:
                    sure = [opening._replace(text=word) for word in ("make", "sure")]
                    self.tokens[place:after] = [*sure, *noun, opening._replace(text="is")]
                place = after
            place = max(place + 1, at if phrase is not None and not modal else 0)
        self.place = 0

    def _fixed_words(self, place: int) -> int:
        """How many words of a verb stand at a place, up to where its thing would: 2 of `picked up`."""
        found = 0
        for pattern in self.lexicon.by_first.get(self.tokens[place].text, ()):
            words = pattern[: pattern.index("{}")]
            if [t.text for t in self.tokens[place + 1 : place + len(words)]] == list(words[1:]):
                found = max(found, len(words))
        return found if self.tokens[place].text not in self.lexicon.attributes else 0

    def check_words(self, grammar: frozenset[str]) -> None:
        """Report all words that nobody knows, at once."""
        strange = [
            token
            for before, token in zip([self.tokens[-1], *self.tokens], self.tokens, strict=False)
            if token.kind == "word"
            and before.text != "reward"  # a number is missed there
            and token.text not in self.lexicon.known
            and token.text not in grammar
            and self.lexicon.adjective(token.text) is None
        ]
        strange = list(dict.fromkeys(strange))
        if len({token.text for token in strange}) == 1:
            token = strange[0]
            if token.text in WHY:
                self.fail(f"'{token.text}' is not understood: {WHY[token.text]}", token)
            before = self.text[: token.start].rstrip()
            before = before[max(before.rfind(mark) for mark in ".,;:()\n") + 1 :].strip()
            hint = self.lexicon.suggestion(token.text)
            hint = f"; did you mean {hint}?" if hint else f"; expected {self._expected(not before)}"
            self.fail(f"'{token.text}' is not understood" + (f" after '{before}'" if before else "") + hint, token)
        if strange:
            reasons: dict[str, list[str]] = {}
            for word in dict.fromkeys(token.text for token in strange):
                hint = self.lexicon.suggestion(word)
                why = WHY.get(word) or (f"did you mean {hint}?" if hint else "")
                reasons.setdefault(why, []).append(f"'{word}'")
            told = [listed(words, "and") + (f" ({why})" if why else "") for why, words in reasons.items()]
            count = sum(map(len, reasons.values()))
            self.fail_many(f"{count} words are not understood: {', '.join(told)}", strange)

    def _expected(self, verbs: bool) -> str:
        """Words that could stand there."""
        own = [" ".join(p).replace("{}", "…") for p in self.lexicon.props]
        words = own if verbs else [*self.lexicon.nouns, *self.lexicon.attributes]
        return listed(words[:8] + ["…"] * (len(words) > 8))

    def fail_many(self, sentence: str, tokens: list[Token]) -> None:
        """Raise a TextError that underlines several tokens of a text, line by line."""
        lines: list[str] = []
        start = 0
        for line in self.text.split("\n"):
            here = [t for t in tokens if start <= t.start < start + len(line)]
            if here:
                marks = [" "] * len(line)
                for token in here:
                    marks[token.start - start : token.end - start] = "^" * (token.end - token.start)
                lines += [f"    {line}", "    " + "".join(marks).rstrip()]
            start += len(line) + 1
        raise TextError("\n".join([sentence, *lines]), [(token.start, token.end) for token in tokens])

    def skip_any(self, phrases: Phrases) -> bool:
        """Step over the longest of several phrases that comes next."""
        found = self.ahead(phrases)
        self.place += found
        return found > 0

    def ahead(self, phrases: Phrases, start: int = 0) -> int:
        """How many tokens the longest of several phrases has that comes next, or `start` tokens ahead; 0 if none."""
        for phrase in phrases.get(self.peek(start), ()):
            if all(self.peek(start + i) == word for i, word in enumerate(phrase)):
                return len(phrase)
        return 0

    def noun_phrase(self, place: int) -> NounPhrase | None:
        """The noun phrase at a place, if there is one."""
        if place not in self._nouns:
            self._nouns[place] = self.lexicon.noun_phrase(self.tokens, place)
        return self._nouns[place]

    def note(self, sentence: str) -> None:
        self.notes[sentence] = None

    def thing(self, text: str) -> Thing:
        """A thing of the level."""
        tokens = [Token("word", word, 0, 0) for word in text.lower().split()] + [Token("end", "", 0, 0)]
        phrase = self.lexicon.noun_phrase(tokens, 0)
        if phrase is None or tokens[phrase.stop].text:
            raise AtlasError(f"'{text}' is no thing that a level of this domain has")
        return phrase.things[0]

    def subject(self) -> bool:
        """Step over `you`, `the agent has` and so on; whether it was negated."""
        start, negated = self.place, False
        if self.peek() == "it" and self.peek(1) == "is" and self.lexicon.adjective(self.peek(2)):
            return False
        if self.skip_any(SUBJECTS) and start + 1 == self.place and self.tokens[start].text in ("it", "i", "he", "they"):
            follows = self.peek()
            is_verb = follows in PERFECT or follows in self.lexicon.by_first or self.ahead(AUXILIARIES)
            if not is_verb or (
                self.verb(self.place) is None and not self.ahead(AUXILIARIES) and follows not in PERFECT
            ):
                self.place = start
                return False
        had_subject = self.place > start
        while True:
            if had_subject and self.skip_any(AUXILIARIES):
                continue
            if had_subject and self.peek() == "not":
                self.place, negated = self.place + 1, not negated
                continue
            if self.peek() in PERFECT and self.verb(self.place) is None:
                after = 1 + (self.peek(1) == "not")
                if self.verb(self.place + after) is not None or (had_subject and self.peek(after) in PERFECT):
                    self.place += 1
                    had_subject = True
                    continue
                if had_subject and self.peek(1) == "not" and self._be(self.place + 2) is not None:
                    self.place, negated = self.place + 2, not negated
                    continue
            return negated

    def _be(self, place: int) -> Match | None:
        """`at the door` behind `you are not`."""
        patterns = self.lexicon.by_first.get("be", [])
        return max(self.lexicon.matches(self.tokens, place, patterns), key=lambda m: m[2], default=None)

    def verb(self, place: int) -> Match | None:
        """The longest verb with its noun phrases at a place, if there is one."""
        found = self.verbs(place)
        return found[0] if found else None

    def verbs(self, place: int) -> list[Match]:
        """All verbs that could stand at a place, the longest first."""
        if place not in self._verbs:
            self._verbs[place] = self._find_verbs(place)
        return self._verbs[place]

    def _find_verbs(self, place: int) -> list[Match]:
        patterns = self.lexicon.by_first.get(self.tokens[place].text, [])
        found = list(self.lexicon.matches(self.tokens, place + 1, patterns)) if patterns else []
        return sorted(found, key=lambda match: -match[2])

    def said_of_things(self, place: int) -> list[Match]:
        """`a ball is next to a key`, `the door is open`, `the key has been reached`."""
        slots = self.lexicon.by_first.get("{}", [])
        found = list(self.lexicon.matches(self.tokens, place, slots, skip=0))
        phrase = self.noun_phrase(place)
        if phrase is not None and phrase.pronoun == "it" and REACH in self.lexicon.meanings:
            resolved = self.resolve(tuple(REACH.split()), [phrase])
            phrase = resolved[0] if resolved else None
        if phrase is None:
            return found
        at = phrase.stop
        while self.tokens[at].text in ("is", "are", "has", "have", "been", "was", "gets", "got"):
            at += 1
        if at == phrase.stop:
            return found
        adjective = self.lexicon.adjective(self.tokens[at].text)
        if adjective and not adjective[1] and REACH in self.lexicon.meanings:
            things = tuple(t._replace(attributes=t.attributes | {adjective[0]}) for t in phrase.things)
            found.append((tuple(REACH.split()), [replace(phrase, things=things)], at + 1))
        for pattern in self.lexicon.by_first.get(self.tokens[at].text, []):
            rest = [word for word in pattern[1:] if word != "{}"]
            if pattern.count("{}") == 1 and [t.text for t in self.tokens[at + 1 : at + 1 + len(rest)]] == rest:
                found.append((pattern, [phrase], at + 1 + len(rest)))
        return found

    def repeats(self, place: int) -> list[Match]:
        """The last verb, read as if its first words stood here too: `or a key`, `then to the key`."""
        found = []
        if self.last is not None:
            pattern, phrases = self.last.pattern, self.last.phrases
            for skipped in range(1, len(pattern)):
                kept = phrases[: sum(word == "{}" for word in pattern[:skipped])]
                for _, more, stop in self.lexicon.matches(self.tokens, place, [pattern], skipped):
                    found.append((pattern, [*kept, *more], stop))
        return sorted(found, key=lambda match: -match[2])

    def candidates(self, place: int) -> list[Match]:
        """All that a command at a place could be, the likeliest first."""
        return self.verbs(place) or self.said_of_things(place) or self.repeats(place) or self.bare_thing(place)

    def bare_thing(self, place: int) -> list[Match]:
        """`the red ball, then …`: a thing without any verb is gone to."""
        pattern, phrase = tuple(REACH.split()), self.noun_phrase(place)
        if self.last is not None or phrase is None or REACH not in self.lexicon.meanings or phrase.pronoun:
            return []
        return [(pattern, [phrase], phrase.stop)]

    def command(self) -> Command:
        """A verb with its things."""
        found = self.candidates(self.place)
        if not found and self._be(self.place) is not None:
            found = [self._be(self.place)]  # type: ignore[list-item]
        start = self.place
        for pattern, phrases, stop in found:
            resolved = self.resolve(pattern, phrases)
            command = self.meaning(pattern, resolved) if resolved is not None else None
            if command is None and resolved is not None and any(phrase.pronoun == "it" for phrase in phrases):
                plainer = tuple(
                    self.plainer(a) if b.pronoun == "it" else a for a, b in zip(resolved, phrases, strict=True)
                )
                command = self.meaning(pattern, plainer)
            if command is not None:
                if not self.verbs(start) and self.last is not None:
                    self.note_described(start, stop, command, self.last)
                if not self.verbs(start) and not self.said_of_things(start) and self.bare_thing(start):
                    self.note(f"no verb is said: read as '{self.words.guard(command.guard)}'")
                self.place, self.last = stop, command
                self.mentioned.append([phrase for phrase in command.phrases if phrase.pronoun != "it"])
                span = [token.text for token in self.tokens[start:stop]]
                if "either" in span and all(len(p.things) == 1 for p in phrases):
                    ahead = int(self.peek() == ",")
                    if self.peek(ahead) != "or":
                        self.fail(
                            "'either' needs an 'or' in the same sentence", self.tokens[start + span.index("either")]
                        )
                return command
        if found:
            self.complain_about(*found[0])
        return self.complain()

    def note_described(self, start: int, stop: int, command: Command, before: Command) -> None:
        """Tell that in `a ball or a box that is not red` only the box is described."""
        words = [token.text for token in self.tokens[start:stop]]
        place = next((n for n, word in enumerate(words) if word in ("that", "which") and n > 0), 0)
        old, new = before.phrases[-1].things[0], command.phrases[-1].things[0]
        if place and self.tokens[start - 1].text in ("or", "and") and not (old.attributes or old.excluded):
            said = " ".join(words[place:])
            self.note(f"'{said}' is said of the {new.noun} only; for the {old.noun} as well say it there, too")

    def resolve(self, pattern: tuple[str, ...], phrases: list[NounPhrase]) -> tuple[NounPhrase, ...] | None:
        """The noun phrases with `it` and `one` replaced by what was named before; None if nothing fits."""
        result = list(phrases)
        for slot, phrase in enumerate(phrases):
            if phrase.pronoun == "one":
                nouns = [old.things[0].noun for group in self.mentioned for old in group if old.things]
                if not nouns:
                    return None
                result[slot] = replace(phrase, things=tuple(t._replace(noun=nouns[-1]) for t in phrase.things))
            elif phrase.pronoun == "it":
                for group in reversed(self.mentioned):
                    fitting = [old for old in group if self._fits(pattern, slot, old)]
                    kinds = {thing for old in fitting for thing in old.things}
                    if len(kinds) > 1:
                        names = listed([thing.words() for thing in sorted(kinds)])
                        self.fail(f"'it' could be {names}: name it", self._pronoun("it"))
                    if fitting:
                        result[slot] = replace(fitting[0], count=1, stop=phrase.stop, another=False)
                        break
                else:
                    return None
        return tuple(result)

    def plainer(self, phrase: NounPhrase) -> NounPhrase:
        """The things with attributes of the first group only: `open it` after `go to the closed red door`."""
        numbers = self.lexicon.attributes
        things = (t._replace(attributes=frozenset(w for w in t.attributes if numbers[w] == 0)) for t in phrase.things)
        return replace(phrase, things=tuple(things))

    def _pronoun(self, word: str) -> Token:
        return next((t for t in self.tokens[self.place :] if t.text == word), self.tokens[self.place])

    def _fits(self, pattern: tuple[str, ...], slot: int, phrase: NounPhrase) -> bool:
        """Whether things can fill a slot of a verb."""
        for part in self.lexicon.meanings[" ".join(pattern)]:
            if any(index == slot for index, _ in part.slots):
                nouns = self.lexicon.goes_with(part, slot)
                if not all(not thing.noun or thing.noun in nouns for thing in phrase.things):
                    return False
        return True

    def meaning(self, pattern: tuple[str, ...], phrases: tuple[NounPhrase, ...]) -> Command | None:
        """The command that a verb and its things make; None if the domain knows none such."""
        parts = self.lexicon.meanings[" ".join(pattern)]
        lists = [[(thing,) for thing in phrase.things] if phrase.both else [tuple(phrase.things)] for phrase in phrases]
        groups = []
        for chosen in product(*lists):
            union: list[tuple[int, ...]] = []
            for things in product(*chosen):
                guard: Guard = ((),)
                for part in parts:
                    asked = self.lexicon.guard(part, things)
                    if asked is None:
                        break
                    guard = both(guard, asked)
                else:
                    union += guard
                    continue
                if len(chosen[0]) == 1 or all(thing.noun for thing in things):
                    return None
            if not union:
                return None
            groups.append(tuple(dict.fromkeys(union)))
        return Command(pattern, phrases, tuple(groups), stop=any(part.stop for part in parts))

    def complain_about(self, pattern: tuple[str, ...], phrases: list[NounPhrase], stop: int) -> None:
        """A verb was read, but it does not go with its things."""
        said = " ".join(pattern).replace("{}", "…").removesuffix(" …")
        for slot, phrase in enumerate(phrases):
            if phrase.pronoun:
                self.fail(
                    f"'{phrase.pronoun}' is not understood: nothing that fits '{said}' was named before",
                    self._pronoun(phrase.pronoun),
                )
            for thing in phrase.things:
                clash = [words for words in self._groups(thing.attributes) if len(words) > 1]
                if clash:
                    both_words = listed(sorted(clash[0]), "and")
                    self.fail(f"nothing is {both_words} at once: write 'or' or 'and' between them", self._at(phrase))
                if not self._fits(pattern, slot, phrase):
                    nouns = next(
                        self.lexicon.goes_with(part, slot)
                        for part in self.lexicon.meanings[" ".join(pattern)]
                        if any(index == slot for index, _ in part.slots)
                    )
                    self.fail(
                        f"'{said}' does not go with '{thing.words()}', but with {listed(nouns)}", self._at(phrase)
                    )
        names = listed([thing.words() for phrase in phrases for thing in phrase.things], "and")
        plainer = self._plainer(pattern, phrases)
        never = "never " * (self.place > 0 and self.tokens[self.place - 1].text == "never")
        why = f"write '{never}{plainer}'" if plainer else "there is no such thing here"
        self.fail(f"'{said}' does not go with '{names}': {why}")

    def _plainer(self, pattern: tuple[str, ...], phrases: Sequence[NounPhrase]) -> str:
        """The command without an attribute that the verb does not go with, as `open a door` for `open a locked door`:
        where there are such things. Empty if there is none."""
        known = {thing for keys in self.lexicon.props.values() for key in keys for thing in key}
        for slot, phrase in enumerate(phrases):
            for thing in phrase.things if len(phrase.things) == 1 else ():
                for attribute in sorted(thing.attributes) if thing in known else ():
                    simple = thing._replace(attributes=thing.attributes - {attribute})
                    changed = (*phrases[:slot], replace(phrase, things=(simple,)), *phrases[slot + 1 :])
                    if self.meaning(pattern, changed) is not None:
                        return self.in_order(" ".join(pattern), changed)
        return ""

    @staticmethod
    def in_order(pattern: str, phrases: Sequence[NounPhrase]) -> str:
        """A command in words, its things in the order in which they were said; empty where these are not one each."""
        if any(len(phrase.things) != 1 for phrase in phrases) or pattern.count("{}") != len(phrases):
            return ""
        names = (phrase.things[0].words() for phrase in phrases)
        return pattern.format(*(f"{'an' if name[0] in 'aeiou' else 'a'} {name}" for name in names))

    def _groups(self, attributes: frozenset[str]) -> list[list[str]]:
        """Attributes by the group that they belong to."""
        numbers = self.lexicon.attributes
        return [[w for w in attributes if numbers[w] == n] for n in sorted({numbers[w] for w in attributes})]

    def _at(self, phrase: NounPhrase) -> Token:
        """Where a noun phrase ends: its noun."""
        return self.tokens[phrase.stop - 1]

    def complain(self) -> Command:
        """Say what is missing or not understood where a command is needed."""
        text = self.peek()
        if not text or text in (".", ";", ",", ")"):
            verbs = listed([" ".join(p).replace("{}", "…") for p in self.lexicon.props])
            before = self.text[: self.tokens[min(self.place, len(self.tokens) - 1)].start].strip()
            after = f" after '{before.split(',')[-1].strip()}'" if before else ""
            self.fail(f"something is missing{after}; expected {verbs}")
        if text in ("and", "or", "then", "but"):
            self.fail(f"'{text}' needs something before and after it")
        patterns = self.lexicon.by_first.get(text, [])
        if patterns:
            at = max((self._reach(p) for p in patterns), default=self.place + 1)
            word = self.tokens[min(at, len(self.tokens) - 1)].text
            after = self.text[self.tokens[self.place].start : self.tokens[at].start].strip()
            what = f"'{word}' is not understood" if word and word not in ".,;)" else "something is missing"
            heads = dict.fromkeys(w for p in patterns for w in self._next_words(p, at))
            expected = listed([*heads][:8]) or "a thing"
            self.fail(f"{what} after '{after}'; expected {expected}", self.tokens[min(at, len(self.tokens) - 1)])
        return self.fail(f"'{text}' is not understood here; expected {self._expected(verbs=True)}")

    def _reach(self, pattern: tuple[str, ...]) -> int:
        """How far the words of a verb agree with the text."""
        at = self.place + 1
        for word in pattern[1:]:
            if word == "{}":
                phrase = self.noun_phrase(at)
                if phrase is None:
                    while self.tokens[at].text in ("a", "an", "the", "any") or self.lexicon.adjective(
                        self.tokens[at].text
                    ):
                        at += 1
                    return at
                at = phrase.stop
            elif self.tokens[at].text != word:
                return at
            else:
                at += 1
        return at

    def _next_words(self, pattern: tuple[str, ...], at: int) -> list[str]:
        """What a verb could go on with at a place: its next word, or nouns."""
        place = self.place + 1
        for word in pattern[1:]:
            if place >= at:
                return [*self.lexicon.nouns] if word == "{}" else [word]
            if word == "{}":
                phrase = self.noun_phrase(place)
                if phrase is None:
                    return [*self.lexicon.nouns]
                place = phrase.stop
            else:
                place += 1
        return []
