"""What an English task means, as a tree: each node becomes an automaton, and can be said again in plain words.

What `say` writes, `english` reads back as an equal task.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Final

from atlas.errors import AtlasError, listed
from atlas.tasks import automata
from atlas.tasks.automata import Automaton, Diagrams
from atlas.tasks.english.lexicon import Guard, gerund
from atlas.vocabulary import Vocabulary

_ARTICLE: Final = re.compile(r"\b(?:an?|the) ")
MOST_CASES: Final = 4_096
"""Conjunctions that one moment may stand for."""
_TIMES: Final = {1: "once", 2: "twice"}


@dataclass(frozen=True)
class Moment:
    """Wait until something holds."""

    guard: Guard


@dataclass(frozen=True)
class Again:
    """Wait until something begins to hold."""

    guard: Guard


@dataclass(frozen=True)
class Stop:
    """Wait until something that held holds no more."""

    guard: Guard


@dataclass(frozen=True)
class Keep:
    """Wait until something holds, then never lose it until something else holds."""

    guard: Guard
    until: Guard


@dataclass(frozen=True)
class Times:
    """The same several times; what holds must cease to in between."""

    part: "Phrase"
    times: int


@dataclass(frozen=True)
class Then:
    """One after the other."""

    parts: tuple["Phrase", ...]


@dataclass(frozen=True)
class All:
    """In any order."""

    parts: tuple["Phrase", ...]


@dataclass(frozen=True)
class Any:
    """Whichever is done first."""

    parts: tuple["Phrase", ...]


@dataclass(frozen=True)
class Choice:
    """The one that is begun first, and no other."""

    parts: tuple["Phrase", ...]


@dataclass(frozen=True)
class Without:
    """A part that fails where something else holds before it is done."""

    part: "Phrase"
    avoided: Guard


@dataclass(frozen=True)
class If:
    """One part or the other, by what holds when its turn comes; without another there is nothing to do then."""

    condition: Guard
    part: "Phrase"
    other: "Phrase | None" = None


@dataclass(frozen=True)
class Ruled:
    """A part under rules that hold as long as it goes on."""

    part: "Phrase"
    rules: tuple["Rule", ...]


Phrase = Moment | Again | Stop | Keep | Times | Then | All | Any | Choice | Without | If | Ruled


@dataclass(frozen=True)
class Ban:
    """Something that may not hold; only after, only until something else does."""

    avoided: Guard
    until: Guard = ()
    after: Guard = ((),)


@dataclass(frozen=True)
class Hold:
    """Something that may not cease to hold; required: it must hold in the end."""

    guard: Guard
    until: Guard = ()
    required: bool = True


@dataclass(frozen=True)
class AtMost:
    """Something that may become true so many times, no more."""

    guard: Guard
    times: int


@dataclass(frozen=True)
class Whenever:
    """Each time one thing holds, another must hold then or later."""

    condition: Guard
    answer: Guard


Rule = Ban | Hold | AtMost | Whenever


# Guards


def both(one: Guard, other: Guard) -> Guard:
    """Where both hold."""
    if len(one) * len(other) > MOST_CASES:
        raise AtlasError(f"more than {MOST_CASES:,} cases at one moment: name fewer objects")
    cubes = (tuple(dict.fromkeys(a + b)) for a, b in product(one, other))
    return tuple(dict.fromkeys(cube for cube in cubes if not any(-x in cube for x in cube)))


def negation(guard: Guard) -> Guard:
    """Where a guard does not hold."""
    result: Guard = ((),)
    for cube in guard:
        result = both(result, tuple((-x,) for x in cube))
    return result


# Automata


def automaton(phrase: Phrase, d: Diagrams) -> Automaton:
    """The automaton of a phrase, over a pool of diagrams."""

    def function(guard: Guard) -> int:
        return d.disjunction(guard)

    def parts(phrases: Sequence[Phrase]) -> list[Automaton]:
        return [automaton(part, d) for part in phrases]

    match phrase:
        case Moment(guard):
            return automata.moment(d, function(guard))
        case Again(guard):
            return automata.rise(d, function(guard))
        case Stop(guard):
            return automata.fall(d, function(guard))
        case Keep(guard, until):
            return automata.keep(d, function(guard), function(until))
        case Times(Moment(guard), times):
            return automata.moment(d, function(guard), times)
        case Times(part, times):
            return automata.then([automaton(part, d)] * times)
        case Then(several):
            return automata.then(parts(several))
        case All(several):
            return automata.all_of(parts(several))
        case Any(several):
            return automata.any_of(parts(several))
        case Choice(several):
            return automata.first_begun(parts(several))
        case Without(part, avoided):
            return automata.without(automaton(part, d), function(avoided))
        case If(condition, part, other):
            no = None if other is None else automaton(other, d)
            return automata.branch(function(condition), automaton(part, d), no)
        case Ruled(part, rules):
            return automata.ruled(automaton(part, d), [_rule(rule, d) for rule in rules])


def _rule(rule: Rule, d: Diagrams) -> automata.Rule:
    match rule:
        case Ban(avoided, until, after):
            return automata.ban(d, *map(d.disjunction, (avoided, until, after)))
        case Hold(guard, until, required):
            return automata.hold(d, d.disjunction(guard), d.disjunction(until), required)
        case AtMost(guard, times):
            return automata.at_most(d, d.disjunction(guard), times)
        case Whenever(condition, answer):
            return automata.whenever(d, d.disjunction(condition), d.disjunction(answer))


def guards(phrase: Phrase | Rule) -> list[Guard]:
    """All guards of a phrase."""
    found: list[Guard] = []
    for value in vars(phrase).values():
        members = value if isinstance(value, tuple) else (value,)
        if members and all(isinstance(member, tuple) for member in members):
            found.append(value)
        else:
            found += [guard for part in members if hasattr(part, "__dataclass_fields__") for guard in guards(part)]
    return found


def is_exact(phrase: Phrase) -> bool:
    """Whether guards follow the words one by one, so that labels which cannot occur need no thought."""
    match phrase:
        case Moment() | Again() | Stop():
            return True
        case Times(part):
            return is_exact(part)
        case Then(parts) | Choice(parts):
            return all(map(is_exact, parts))
    return False


def during(phrase: Phrase, guard: Guard) -> Phrase | None:
    """The phrase, each of its moments only while a guard holds; None if it is not made of moments."""
    match phrase:
        case Moment(own) | Again(own):
            return replace(phrase, guard=both(own, guard))
        case Times(part) | Without(part) | Ruled(part):
            inner = during(part, guard)
            return None if inner is None else replace(phrase, part=inner)
        case Then(parts) | All(parts) | Any(parts) | Choice(parts):
            several = [during(part, guard) for part in parts]
            found = tuple(part for part in several if part is not None)
            return replace(phrase, parts=found) if len(found) == len(parts) else None
    return None


# Words


class Words:
    """How the propositions of a vocabulary are said."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.phrases, self.commands, self.lasting = vocabulary.phrases, vocabulary.commands, vocabulary.lasting

    def command(self, literal: int) -> str:
        """`go to a ball`."""
        return self.phrases[literal - 1]

    def doing(self, literal: int) -> str:
        """`carrying a ball`, `not putting a ball next to a key`."""
        phrase = self.phrases[abs(literal) - 1]
        verb, _, rest = phrase.partition(" ")
        article = _ARTICLE.search(phrase)
        noun = phrase[article.start() :] if article else rest
        for lasting in self.lasting:
            if self.commands.get(f"{lasting} {_ARTICLE.sub('', noun)}") == abs(literal) - 1:
                verb, rest = lasting, noun
        return ("not " if literal < 0 else "") + gerund(verb) + " " + rest

    def cube(self, literals: Sequence[int]) -> str:
        """`go to a ball while picking up a key and not opening a door`."""
        first = next((x for x in literals if x > 0), None)
        rest = [x for x in literals if x > 0 and x != first] + [x for x in literals if x < 0]
        base = "wait" if first is None else self.command(first)
        return base + (" while " + " and ".join(map(self.doing, dict.fromkeys(rest))) if rest else "")

    def commands_of(self, literals: Sequence[int], last: str) -> str:
        """`go to a ball, a square or a key`: verbs that repeat are said once."""
        phrases = [self.command(x) for x in literals]
        rest = (_object(b) if _verb(a) == _verb(b) else b for a, b in pairwise(phrases))
        return listed([phrases[0], *rest], last)

    def guard(self, guard: Guard) -> str:
        """`go to a ball or pick up a key`."""
        if all(len(cube) == 1 and cube[0] > 0 for cube in guard):
            return self.commands_of([cube[0] for cube in guard], "or")
        return listed([self.cube(cube) for cube in guard])

    def state(self, guard: Guard) -> str:
        """`carrying a key or facing a ball and not carrying a box`."""
        return " or ".join(" and ".join(map(self.doing, cube)) for cube in guard)

    def avoiding(self, guard: Guard) -> str:
        """`facing a ball while carrying a key, or facing a box`: what may not happen."""
        return " or ".join(
            " while ".join([self.doing(cube[0])] + [" and ".join(map(self.doing, cube[1:]))] * (len(cube) > 1))
            for cube in guard
        )


def _verb(phrase: str) -> str:
    """What comes before the last thing that a phrase names."""
    return phrase[: len(phrase) - len(_object(phrase))]


def _object(phrase: str) -> str:
    found = list(_ARTICLE.finditer(phrase))
    return phrase[found[-1].start() :] if found else phrase.rpartition(" ")[2]


def say(phrase: Phrase, words: Words) -> str:
    """The phrase in plain words, without a full stop."""
    return _say(phrase, words, 0)


_LOOSE, _OR, _AND, _TIGHT = range(4)


def _say(phrase: Phrase, words: Words, tightness: int) -> str:
    """In brackets where it binds less tightly than it must."""
    text, own = _said(phrase, words)
    return f"({text})" if own < tightness else text


def _said(phrase: Phrase, words: Words) -> tuple[str, int]:
    """The words, and how tightly they bind."""

    def joined(parts: Sequence[Phrase], last: str, own: int) -> str:
        return f" {last} ".join(_say(part, words, own + 1) for part in parts)

    match phrase:
        case Moment(guard):
            return words.guard(guard), _OR if len(guard) > 1 else _TIGHT
        case Again(guard):
            return f"{_bracketed(words.guard(guard), guard)} again", _TIGHT
        case Stop(guard):
            return f"stop {words.state(guard)}", _TIGHT if len(guard) == 1 else _OR
        case Keep(guard, until):
            return f"keep {words.state(guard)} until {words.state(until)}", _OR
        case Times(part, times):
            return f"{_say(part, words, _TIGHT)} {_TIMES.get(times, f'{times} times')}", _TIGHT
        case Then(parts):
            return ", then ".join(_say(part, words, _OR) for part in parts), _LOOSE
        case All(parts):
            return joined(parts, "and", _AND), _AND
        case Any(parts):
            return joined(parts, "or", _OR), _OR
        case Choice(parts):
            return "either " + ", or ".join(_say(part, words, _AND) for part in parts), _LOOSE
        case Without(part, avoided):
            return f"{_say(part, words, _TIGHT)} without {words.avoiding(avoided)}", _AND
        case If(condition, part, other):
            end = "" if other is None else f", otherwise {_say(other, words, _TIGHT)}"
            return f"if {words.state(condition)}, {_say(part, words, _TIGHT)}{end}", _LOOSE
        case Ruled(part, rules):
            return ", ".join([_say(part, words, _LOOSE), *(_said_rule(rule, words) for rule in rules)]), _LOOSE


def _bracketed(text: str, guard: Guard) -> str:
    return f"({text})" if len(guard) > 1 else text


def _said_rule(rule: Rule, words: Words) -> str:
    match rule:
        case Ban(avoided, until, after):
            end = f" until {words.state(until)}" if until else ""
            return f"never {words.avoiding(avoided)}" + (f" after {words.state(after)}" if after != ((),) else "") + end
        case Hold(guard, until, required):
            end = f" until {words.state(until)}" if until else ""
            return (f"and keep {words.state(guard)}" if required else f"never stop {words.state(guard)}") + end
        case AtMost(guard, times):
            return f"never {words.avoiding(guard)} more than {_TIMES.get(times, f'{times} times')}"
        case Whenever(condition, answer):
            return f"and whenever {words.state(condition)}, {words.guard(answer)}"
