"""The words of English tasks: verbs and their forms, noun phrases, what is no word, and what a mistyped one may be.

A domain says which commands it knows (`Vocabulary.commands`), what else its verbs are called (`Vocabulary.verbs`) and
what its words are (`nouns`, `attributes`, `synonyms`). Verbs are patterns, `put {} next to {}`; USUAL_VERBS gives every
domain that knows the verb on the right those on the left: one that says `verbs={"go to {}": "stand on {}"}` is also
told to visit, reach and walk to things. No word of a domain stands here or in the grammar.
"""

import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from atlas.errors import Token
from atlas.vocabulary import Vocabulary

Cube = tuple[int, ...]
Guard = tuple[Cube, ...]
"""Something that holds at one moment: a disjunction of conjunctions of literals."""

REACH: Final = "go to {}"
"""The verb of a thing that is named without one, and of things to avoid."""
HOLD: Final = "have {}"
"""The verb behind `with the …` and `without the …`."""
BRING: Final = "bring {} to {}"
PUT: Final = "put {} next to {}"
"""What `bring` might have meant."""
_NEAR: Final = ("next to", "beside", "near", "by", "close to", "right next to")
_TO: Final = ("over to ", "all the way to ", "to ")


def _patterns(text: str) -> list[str]:
    """Patterns from a text with semicolons between them."""
    return [" ".join(pattern.split()) for pattern in text.split(";")]


USUAL_VERBS: Final[dict[str, str]] = {
    **dict.fromkeys(
        _patterns(
            """
            visit {}; reach {}; touch {}; face {}; approach {}; find {}; look at {}; turn to {}; walk to {}; meet {};
            walk over to {}; walk up to {}; move to {}; head to {}; head for {}; run to {}; navigate to {}; get to {};
            go up to {}; go over to {}; go back to {}; go towards {}; come to {}; travel to {}; drive to {};
            proceed to {}; return to {}; make your way to {}; start at {}; end at {}; stop at {}; be at {};
            arrive at {}; stand at {}; be in front of {}; stand in front of {};
            go in front of {}; stay in front of {}; stay at {}; run into {}; bump into {}; walk into {}; stop by {};
            swing by {}; head over to {}; head on over to {}; head back to {}; walk back to {}; come over to {};
            come back to {}; go all the way to {}; walk all the way to {}
            """
        )
        + [f"{verb} {near} {{}}" for verb in ("stand", "go", "be", "get", "stay", "move", "come") for near in _NEAR],
        REACH,
    ),
    **dict.fromkeys(
        _patterns(
            """
            pick {} up; take {}; grab {}; get {}; fetch {}; get me {}; fetch me {}; collect {}; carry {}; hold {};
            lift {}; lift {} up; retrieve {}; have {}; have got {}; obtain {}; acquire {}; possess {};
            find and pick up {}; get hold of {}; hold on to {}; hold onto {}; keep hold of {}; bring {}; bring me {};
            want {}; need {}; grab me {}; hand me {}; pick me up {}; snatch {}
            """
        )
        + [f"{verb} {{}} in your {hand}" for verb in ("keep", "have", "hold") for hand in ("hand", "hands")],
        "pick up {}",
    ),
    **dict.fromkeys(
        _patterns(
            """
            put down {}; put {} down; let go of {}; release {}; set down {}; set {} down; lay down {}; get rid of {};
            throw away {}; throw {} away
            """
        ),
        "drop {}",
    ),
    "drop {}": "stop pick up {}",
    **{
        f"{verb} {{}} {near} {{}}": "put {} next to {}"
        for verb in (
            "put",
            "place",
            "set",
            "move",
            "drop",
            "leave",
            "bring",
            "put down",
            "position",
            "lay",
            "get",
            "want",
        )
        for near in _NEAR
        if (verb, near) != ("put", "next to")
    },
    **dict.fromkeys(
        [f"{verb} {{}} {far}{{}}" for verb in ("take", "carry", "get", "deliver", "bring") for far in _TO][:-1],
        "bring {} to {}",
    ),
    "bring {} to {}": "go to {1} & pick up {0}",
    "{} is next to {}": "put {} next to {}",
    "{} is beside {}": "put {} next to {}",
    "{} is ahead": "go to {}",
    "{} is in front of you": "go to {}",
}
"""More ways to say a command, in any domain that knows it: pattern -> what it means. `stop` is for what must have held
and holds no more, `&` for what holds at the same moment; slots are filled in their order, or by number."""

ARTICLES: Final = ("a", "an", "the", "any", "some", "this", "that")
WILDCARDS: Final = ("object", "thing", "item", "something", "anything")
NUMBERS: Final = {
    word: n
    for n, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
    )
}
LONGEST: Final = 60
"""Words of a noun phrase."""
ALL: Final = -1
"""The count of a noun phrase that speaks of all there are."""
SEVERAL: Final = -2
"""The count of a bare plural: all there are, where something is to be done; any in a ban or a condition."""
NONE: Final = 0
"""The count of `no ball`."""
_IRREGULAR: Final = {
    verb: tuple(others)
    for verb, *others in map(
        str.split,
        [
            "\n        go goes went gone been",
            " be is are am was were been",
            " have has had",
            " take takes took taken",
            " get gets got gotten",
            "\n        bring brings brought",
            " hold holds held",
            " put puts",
            " set sets",
            " let lets",
            " shut shuts",
            " find finds found",
            " keep keeps kept",
            "\n        stand stands stood",
            " leave leaves",
            " come comes came",
            " make makes made",
            " run runs ran",
            " meet meets met",
            " lay lays laid",
            "\n        drive drives drove driven",
            " eat eats ate eaten",
            " carry carries carried\n        ",
        ],
    )
}
"""Forms of verbs besides the one in -ing."""


def gerund(verb: str) -> str:
    """`go` -> `going`, `put` -> `putting`, `leave` -> `leaving`."""
    if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")):
        return "being" if verb == "be" else verb[:-1] + "ing"
    return (verb + verb[-1] if _doubles(verb) else verb) + "ing"


def _doubles(verb: str) -> bool:
    return len(verb) > 2 and re.fullmatch(r"[^aeiou]*[aeiou][^aeiouwxy]", verb) is not None


def forms(verb: str) -> tuple[str, ...]:
    """A verb and all it may look like in a sentence."""
    if verb in _IRREGULAR:
        return (verb, gerund(verb), *_IRREGULAR[verb])
    past = verb + "d" if verb.endswith("e") else (verb + verb[-1] if _doubles(verb) else verb) + "ed"
    third = verb + ("es" if verb.endswith(("s", "sh", "ch", "x", "o")) else "s")
    return (verb, gerund(verb), past, third)


def plural(noun: str) -> str:
    """`ball` -> `balls`, `box` -> `boxes`, `key` -> `keys`."""
    return noun + ("es" if noun.endswith(("s", "sh", "ch", "x")) else "s")


class Thing(NamedTuple):
    """A kind of object."""

    noun: str
    """Empty for any."""
    attributes: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()
    """Attributes that it must not have."""

    def words(self) -> str:
        """As in `red ball that is not locked`, without an article."""
        base = " ".join((*sorted(self.attributes), self.noun or "object"))
        return base + (f" that is not {' or '.join(sorted(self.excluded))}" if self.excluded else "")


@dataclass(frozen=True)
class NounPhrase:
    """`a red or blue ball`, `two keys`, `the red and the blue ball`, `it`."""

    things: tuple[Thing, ...]
    stop: int
    """The first token after it."""
    both: bool = False
    """Whether all of the things are meant, instead of any."""
    count: int = 1
    """How many of each; ALL or NONE."""
    another: bool = False
    """Whether one that was not there before is meant."""
    pronoun: str = ""
    """`it` or `one`: the things are still to be found."""


class Part(NamedTuple):
    """One of the things that a verb asks for at the same moment."""

    stop: bool
    """Whether it must have held, and hold no more."""
    pattern: str
    """A pattern of the domain's own commands."""
    slots: tuple[tuple[int, frozenset[str]], ...]
    """For each slot of the pattern: which noun phrase fills it, and attributes to add."""


Match = tuple[tuple[str, ...], list[NounPhrase], int]
"""A pattern that was found in a text, what fills its slots, and the first token after it."""


class Lexicon:
    """The words of one vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.synonyms = vocabulary.synonyms
        self.attributes = {word: group for group, words in enumerate(vocabulary.attributes) for word in words}
        own = vocabulary.nouns or tuple(dict.fromkeys(command.split()[-1] for command in vocabulary.commands))
        self.nouns = {noun: noun for noun in own}
        self.plurals = {plural(noun): noun for noun in own}
        for word, meaning in self.synonyms.items():
            if meaning in self.nouns:
                self.plurals[plural(word)] = meaning
        self.props: dict[tuple[str, ...], dict[tuple[Thing, ...], int]] = {}
        """By the words of a pattern: what fills its slots -> proposition."""
        for command, prop in vocabulary.commands.items():
            words, things = self._split(command.split())
            self.props.setdefault(words, {})[things] = prop
        self.meanings: dict[str, tuple[Part, ...]] = {" ".join(p): (self._part(" ".join(p)),) for p in self.props}
        for pattern, meaning in {**USUAL_VERBS, **vocabulary.verbs}.items():
            if pattern not in self.meanings or pattern in vocabulary.verbs:
                parts = self._parts(meaning, vocabulary.verbs)
                if parts:
                    self.meanings[pattern] = parts
        self.by_first: dict[str, list[tuple[str, ...]]] = {}
        """By the first word, in any of its forms: patterns as words."""
        self.gerunds: set[str] = set()
        for pattern in self.meanings:
            words = tuple(pattern.split())
            for form in dict.fromkeys((words[0],) if words[0] == "{}" else forms(words[0])):
                self.by_first.setdefault(form, []).append(words)
            if words[0] != "{}":
                self.gerunds.add(gerund(words[0]))
        self.holding = {gerund(verb) for verb in ("carry", "hold", "have") if f"{verb} {{}}" in self.meanings}
        """What may stand for `with`."""
        self.ending = {pattern for pattern, parts in self.meanings.items() if any(part.stop for part in parts)}
        """Patterns that ask for the end of something, as `drop {}` does."""
        self.verbs = {pattern.split()[0] for pattern in self.meanings} - {"{}"}

    def _split(self, words: list[str]) -> tuple[tuple[str, ...], tuple[Thing, ...]]:
        """`put red ball next to key` -> `put {} next to {}` and the two things."""
        pattern: list[str] = []
        things: list[Thing] = []
        attributes: list[str] = []
        for place, word in enumerate(words):
            is_attribute = word in self.attributes and any(w in self.nouns for w in words[place + 1 :]) and place > 0
            if is_attribute:
                attributes.append(word)
            elif word in self.nouns:
                pattern.append("{}")
                things.append(Thing(word, frozenset(attributes)))
                attributes = []
            else:
                pattern.append(word)
        return tuple(pattern), tuple(things)

    def _part(self, meaning: str) -> Part:
        """One part of a meaning, as far as the domain knows it by itself."""
        stop = meaning.startswith("stop ")
        words, slots, attributes, unnumbered = [], [], list[str](), 0
        for word in meaning.removeprefix("stop ").split():
            if word.startswith("{"):
                slots.append((int(word[1:-1]) if word != "{}" else unnumbered, frozenset(attributes)))
                unnumbered, attributes = unnumbered + 1, []
                words.append("{}")
            elif word in self.attributes and words:
                attributes.append(word)
            else:
                words.append(word)
        return Part(stop, " ".join(words), tuple(slots))

    def _parts(self, meaning: str, verbs: dict[str, str]) -> tuple[Part, ...]:
        """The meaning of a verb in terms of the domain's own commands; nothing where it knows no such command."""
        parts: list[Part] = []
        for one in map(self._part, meaning.split(" & ")):
            if tuple(one.pattern.split()) in self.props:
                parts.append(one)
                continue
            further = verbs.get(one.pattern) or USUAL_VERBS.get(one.pattern)
            inner = self._parts(further, verbs) if further else ()
            if not inner:
                return ()
            for part in inner:
                slots = tuple((one.slots[i][0], one.slots[i][1] | added) for i, added in part.slots)
                parts.append(Part(part.stop or one.stop, part.pattern, slots))
        return tuple(parts)

    # Words

    @functools.cached_property
    def content(self) -> frozenset[str]:
        """Words that carry meaning: what a mistyped word may have been."""
        return frozenset({*self.nouns, *self.plurals, *self.attributes, *self.synonyms, *self.verbs})

    @functools.cached_property
    def known(self) -> frozenset[str]:
        """Every word of the vocabulary, in every form."""
        inside = {word for pattern in self.meanings for word in pattern.split()[1:]}
        values = {word for meaning in self.synonyms.values() for word in meaning.split()}
        return frozenset({*self.content, *inside, *values, *self.by_first}) - {"{}"}

    def suggestion(self, word: str) -> str:
        """The content word that a mistyped one most likely is; nothing if none is near."""
        most = 1 if len(word) < 6 else 2
        near = [(distance(word, other), other) for other in self.content if abs(len(other) - len(word)) <= most]
        ranked = ((d, abs(len(other) - len(word)), -_shared(word, other), other) for d, other in near if d <= most)
        return min(ranked, default=(0, 0, 0, ""))[3]

    # Propositions

    def guard(self, part: Part, things: tuple[Thing, ...]) -> Guard | None:
        """On which labels a part of a verb's meaning holds for these things; None if no command says it."""
        filled = tuple(
            replace_attributes(things[index], things[index].attributes | added) for index, added in part.slots
        )
        found = self._cubes(tuple(part.pattern.split()), filled)
        return found or None

    def _cubes(self, pattern: tuple[str, ...], things: tuple[Thing, ...]) -> Guard:
        table = self.props[pattern]
        for place, thing in enumerate(things):
            if not thing.noun:
                nouns = dict.fromkeys(key[place].noun for key in table)
                options = ((*things[:place], thing._replace(noun=noun), *things[place + 1 :]) for noun in nouns)
                return tuple(dict.fromkeys(cube for option in options for cube in self._cubes(pattern, option)))
        bare = tuple(thing._replace(excluded=frozenset()) for thing in things)
        if bare not in table:
            return ()
        prop, negated = table[bare], list[int]()
        for place, thing in enumerate(things):
            for word in sorted(thing.excluded):
                special = thing._replace(attributes=thing.attributes | {word}, excluded=frozenset())
                other = table.get((*bare[:place], special, *bare[place + 1 :]))
                group = self.vocabulary.attributes[self.attributes[word]]
                rest = [w for w in group if w not in thing.excluded]
                siblings = [bare[place]._replace(attributes=thing.attributes | {w}) for w in rest]
                kept = [(*bare[:place], s, *bare[place + 1 :]) for s in siblings]
                if other is None:
                    continue  # it never has that attribute
                if all(k in table and self.vocabulary.excludes[table[k], other] for k in kept):
                    negated.append(other)
                else:  # several may hold at once: name those that are left
                    left = frozenset(w for w in thing.excluded if w not in group)
                    options = ((*things[:place], s._replace(excluded=left), *things[place + 1 :]) for s in siblings)
                    return tuple(dict.fromkeys(cube for option in options for cube in self._cubes(pattern, option)))
        return ((prop + 1, *(-other - 1 for other in negated)),)

    def goes_with(self, part: Part, slot: int) -> list[str]:
        """The nouns that may fill a slot of a verb."""
        own = [n for n, (index, _) in enumerate(part.slots) if index == slot]
        keys = self.props[tuple(part.pattern.split())]
        return list(dict.fromkeys(key[n].noun for key in keys for n in own))

    # Noun phrases

    def noun_phrase(self, tokens: list[Token], place: int) -> NounPhrase | None:
        """The noun phrase at a place, if there is one; it has less than LONGEST words."""
        offset, place = place, 0
        text = [token.text for token in tokens[offset : offset + LONGEST]] + [""]

        def at(i: int) -> str:
            return text[min(i, len(text) - 1)]

        if at(place) == "it":
            return NounPhrase((), offset + 1, pronoun="it")
        count, another, both, said = 1, False, False, False
        if at(place) in ("either", "both") or (at(place), at(place + 1)) == ("one", "of"):
            both = at(place) == "both"
            place += 1 + (at(place) == "one")
        while True:
            word = at(place)
            if word in ("all", "every", "each"):
                count, place = ALL, place + 1
                place += at(place) == "of"
            elif (word, at(place + 1)) == ("at", "least") and (at(place + 2) in NUMBERS or at(place + 2).isdigit()):
                place += 2
            elif word == "no":
                count, place = NONE, place + 1
            elif word == "another" or (word in ("different", "second") and said):
                another, place = count == 1, place + 1
            elif word == "couple" and at(place + 1) == "of":
                count, place = 2, place + 2
            elif word in ARTICLES and (word not in self.nouns or self._starts_noun(at(place + 1))):
                place += 1  # a letter that is called `a` is no article, unless a noun follows
            elif (word in NUMBERS or (word.isdigit() and len(word) < 7)) and (
                word != "one" or self._starts_noun(at(place + 1))
            ):
                count, place = NUMBERS[word] if word in NUMBERS else int(word), place + 1
            else:
                break
            said = True
        found = self._things(text, place, said)
        if found is None:
            return None
        things, stop, is_plural, joined_all, pronoun = found
        determined = text[:place]
        if is_plural and count == 1 and not another:
            count = SEVERAL if not joined_all and "any" not in determined else 1
            count = 2 if both and not joined_all else count
        return NounPhrase(things, offset + stop, joined_all, count, another, pronoun)

    def _starts_noun(self, word: str) -> bool:
        return self.adjective(word) is not None or self._noun(word) is not None

    def _noun(self, word: str) -> tuple[str, bool] | None:
        """The noun (empty for any) and whether it is plural."""
        singular = self.synonyms.get(word, word)
        if singular in self.nouns:
            return singular, False
        if word in self.plurals:
            return self.plurals[word], True
        if word in WILDCARDS:
            return "", False
        if word.removesuffix("s") in WILDCARDS[:3]:
            return "", True
        return None

    def adjective(self, word: str) -> tuple[str, bool] | None:
        """The attribute, and whether the thing must not have it."""
        word = word.removesuffix("-coloured").removesuffix("-colored")
        meaning = self.synonyms.get(word, word)
        excluded = meaning.startswith(("not ", "non-"))
        meaning = meaning[4:] if excluded else meaning
        meaning = self.synonyms.get(meaning, meaning)
        return (meaning, excluded) if meaning in self.attributes else None

    def _things(self, text: list[str], place: int, said: bool) -> tuple[tuple[Thing, ...], int, bool, bool, str] | None:
        """`red, blue and green balls`, `ball that is not red`: things, where they end, whether they are plural, whether
        all are meant, and `one` if the noun is still to be found."""
        groups: list[tuple[frozenset[str], frozenset[str]]] = []
        joints: list[str] = []
        while True:
            has, has_not = set[str](), set[str]()
            while adjective := self.adjective(text[place]):
                (has_not if adjective[1] else has).add(adjective[0])
                place += 1 + (text[place + 1] in ("coloured", "colored"))
            groups.append((frozenset(has), frozenset(has_not)))
            joint = place + (text[place] == ",")
            word = text[joint] if text[joint] in ("and", "or") else ""
            after = joint + bool(word)
            while after > place and text[after] in ("a", "an", "the"):
                after += 1
            if after == place or not (has or has_not) or self.adjective(text[after]) is None:
                break
            if not self._noun_follows(text, after):
                break
            joints.append(word)
            place = after
        noun = self._noun(text[place])
        pronoun = ""
        if noun is None and text[place] in ("one", "ones") and said:
            noun, pronoun = ("", text[place] == "ones"), "one"
        if noun is None:
            return None
        place += 1
        (name, is_plural), something = noun, text[place - 1] in ("something", "anything")
        if something and self.adjective(text[place]):
            more = self.adjective(text[place])
            assert more is not None
            groups = [(g | {more[0]} if not more[1] else g, n | {more[0]} if more[1] else n) for g, n in groups]
            place += 1
        if text[place : place + 2] == ["of", "any"] and text[place + 2] in ("colour", "color"):
            place += 3
            but = place + (text[place] == ",")
            if text[but] in ("but", "except") and self.adjective(text[but + 1 + (text[but + 1] == "for")]):
                place = but + 1 + (text[but + 1] == "for")
                while adjective := self.adjective(text[place]):
                    groups = [(has, has_not | {adjective[0]}) for has, has_not in groups]
                    place += 1
                    place += text[place] in ("or", "and") and self.adjective(text[place + 1]) is not None
        things = [Thing(name, has, has_not) for has, has_not in groups]
        things, place = self._described(text, place, things)
        joined_all = "and" in joints
        return tuple(things), place, is_plural, joined_all and len(things) > 1, pronoun

    def _noun_follows(self, text: list[str], place: int) -> bool:
        """Whether a list of adjectives ends in a noun."""
        while place < len(text):
            word = text[place]
            if self._noun(word) is not None or word in ("one", "ones"):
                return True
            if self.adjective(word) is None and word not in (",", "and", "or", "a", "an", "the"):
                return False
            place += 1
        return False

    def _described(self, text: list[str], place: int, things: list[Thing]) -> tuple[list[Thing], int]:
        """`that is not red`, `which is red or blue`, `other than the red one`, `but not a red one`."""
        text = [*text, *[""] * 8]
        relative = place + (text[place : place + 2] == [",", "which"])
        if text[relative] in ("that", "which") and text[relative + 1] in ("is", "are"):
            after = relative + 2
            negated = text[after] in ("not", "neither")
            after += negated
            while text[after] in ("a", "an"):
                after += 1
            words: list[str] = []
            while (adjective := self.adjective(text[after])) is not None:
                words.append(adjective[0])
                negated |= adjective[1]
                after += 1
                if text[after] in ("or", "nor") and self.adjective(text[after + 1]) is not None:
                    after += 1
            noun = self._noun(text[after])
            if noun is not None and noun[0] and not things[0].noun and not negated:  # something that is a red ball
                things, after = (
                    [t._replace(noun=noun[0], attributes=t.attributes | {*words}) for t in things],
                    after + 1,
                )
                return things, after
            if words and negated:
                return [t._replace(excluded=t.excluded | {*words}) for t in things], after
            if words:
                return [t._replace(attributes=t.attributes | {word}) for t in things for word in words], after
            return things, place
        for opening in (("other", "than"), ("except",), ("except", "for"), ("but", "not"), (",", "but", "not")):
            if tuple(text[place : place + len(opening)]) == opening:
                after = place + len(opening)
                while text[after] in ("a", "an", "the", "any"):
                    after += 1
                adjective = self.adjective(text[after])
                vague = adjective and not any(self._alike(adjective[0], w) for t in things for w in t.attributes)
                if (
                    adjective
                    and vague
                    and (text[after + 1] in ("one", "ones") or self._noun(text[after + 1]) == (things[0].noun, False))
                ):
                    return [t._replace(excluded=t.excluded | {adjective[0]}) for t in things], after + 2
        return things, place

    def _alike(self, one: str, other: str) -> bool:
        """Whether a thing can have only one of two attributes."""
        return self.attributes[one] == self.attributes[other]

    # Verbs

    def matches(
        self, tokens: list[Token], place: int, patterns: Iterable[tuple[str, ...]], skip: int = 1
    ) -> Iterator[Match]:
        """The patterns whose words, from number `skip` on, come next: each with its noun phrases and where it ends."""
        for pattern in patterns:
            phrases: list[NounPhrase] = []
            at = place
            for number, word in enumerate(pattern[skip:], start=skip):
                if word != "{}":
                    if tokens[at].text != word:
                        break
                    at += 1
                    continue
                phrase = self.noun_phrase(tokens, at)
                if phrase is None and " ".join(pattern) in self.ending:
                    phrase = self._whatever(tokens, at)
                if phrase is None:
                    break
                expected = pattern[number + 1] if number + 1 < len(pattern) else None
                while expected and tokens[phrase.stop].text in (",", "and", "or") and not phrase.pronoun:
                    longer = self._listed(tokens, phrase)
                    if longer is None:
                        break
                    phrase = longer
                phrases.append(phrase)
                at = phrase.stop
            else:
                yield pattern, phrases, at

    def _whatever(self, tokens: list[Token], place: int) -> NounPhrase | None:
        """`whatever you are holding`, behind a verb that ends just that."""
        words = [token.text for token in tokens[place : place + 4]]
        if words[:1] == ["everything"]:
            return NounPhrase((Thing(""),), place + 1)
        if words[:1] in (["what"], ["whatever"]) and words[1:3] == ["you", "are"] and words[3] in self.gerunds:
            return NounPhrase((Thing(""),), place + 4)
        return None

    def _listed(self, tokens: list[Token], phrase: NounPhrase) -> NounPhrase | None:
        """The noun phrase with the next of a list, for `put the ball and the key next to the door`."""
        at = phrase.stop + (tokens[phrase.stop].text == ",")
        word = tokens[at].text if tokens[at].text in ("and", "or") else ""
        more = self.noun_phrase(tokens, at + bool(word))
        if more is None or more.pronoun or more.count != phrase.count or ((more.both or phrase.both) and word == "or"):
            return None
        every = phrase.both or more.both or word == "and"
        return replace(phrase, things=(*phrase.things, *more.things), stop=more.stop, both=every)


def replace_attributes(thing: Thing, attributes: frozenset[str]) -> Thing:
    """The thing with other attributes."""
    return thing._replace(attributes=attributes)


def distance(one: str, other: str) -> int:
    """How many letters must be changed, added, dropped or swapped with their neighbour."""
    rows = [list(range(len(other) + 1))]
    for i, a in enumerate(one, start=1):
        row = [i]
        for j, b in enumerate(other, start=1):
            best = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and b == one[i - 2]:
                best = min(best, rows[-2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]


def _shared(one: str, other: str) -> int:
    """How many letters both begin with."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


lexicon = functools.lru_cache(maxsize=4)(Lexicon)
"""The words of a vocabulary, made once."""
