"""The grammar of English tasks, from loosest to tightest:

    sentence. sentence; sentence         one after the other
    A, then B                            one after the other
    A before B / A after you B           the first named first / last
    A or B                               whichever is done first; both may be under way
    A and B                              in any order
    A without doing B                    doing B before A is done fails the task
    A twice / A 3 times                  A must cease to hold in between
    A while (not) doing B                both at the same moment

`(…)` groups. `either A, then B, or C, then D` commits to the branch that is begun first; if several begin at the
same moment nothing happens. It ends with its sentence. `, without …` after a comma covers the whole sentence. In a list
`A, B and C` commas mean what the next connective means. `go to a ball or a key` repeats the verb.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn

from atlas.tasks.english_words import Command, Cube, Lexicon, Token
from atlas.tasks.place import fail

NUMBERS: Final = {
    word: n for n, word in enumerate(("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), start=2)
}
MOST_TIMES: Final = 50
_CONNECTIVES: Final = ("then", "and", "or", "before", "after", "without", "while", "twice")


@dataclass(frozen=True)
class Guard:
    """Something that holds at one moment: a disjunction of conjunctions of literals."""

    cubes: tuple[Cube, ...]


@dataclass(frozen=True)
class Then:
    """Parts one after the other."""

    parts: tuple["Phrase", ...]


@dataclass(frozen=True)
class All:
    """All parts, in any order."""

    parts: tuple["Phrase", ...]


@dataclass(frozen=True)
class AnyOf:
    """Whichever part is done first."""

    parts: tuple["Phrase", ...]


@dataclass(frozen=True)
class Choice:
    """The branch that is begun first."""

    parts: tuple["Phrase", ...]


@dataclass(frozen=True)
class Without:
    """A part during which something must not happen."""

    part: "Phrase"
    avoided: Guard


@dataclass(frozen=True)
class Repeat:
    """A part several times."""

    part: "Phrase"
    times: int


Phrase = Guard | Then | All | AnyOf | Choice | Without | Repeat


class Reader:
    """A place in a list of tokens, and the vocabulary's commands."""

    def __init__(self, text: str, tokens: list[Token], lexicon: Lexicon) -> None:
        self.text, self.tokens, self.lexicon = text, tokens, lexicon
        self.place = 0
        self.words: tuple[str, ...] = ()
        """The last command, for `go to a ball or a key`."""

    def peek(self, ahead: int = 0) -> str:
        return self.tokens[min(self.place + ahead, len(self.tokens) - 1)].text

    def skip(self, *words: str) -> bool:
        """Step over these words if they come next."""
        if all(self.peek(i) == word for i, word in enumerate(words)):
            self.place += len(words)
            return True
        return False

    def fail(self, sentence: str) -> NoReturn:
        token = self.tokens[min(self.place, len(self.tokens) - 1)]
        fail(self.text, token.start, token.end, sentence)

    def find_command(self, start: int) -> Command | None:
        """The command at a place, if there is one; with the last command's first words if that helps."""
        prefixes = [(), *(self.words[:n] for n in range(len(self.words) - 1, 0, -1))]
        found = (self.lexicon.find(self.tokens, start, prefix) for prefix in prefixes)
        return next((command for command in found if command), None)

    def command(self) -> Guard:
        """Read one command."""
        if self.skip("wait"):
            return Guard(((),))
        command = self.find_command(self.place)
        if command is None:
            self.lexicon.complain(self.text, self.tokens, self.place)
        self.place, self.words = command.stop, command.words
        return Guard(tuple((prop + 1,) for prop in command.props))

    def moment(self) -> Guard:
        """`A while doing B and not doing C`: what holds at one moment."""
        guard = self.command()
        goes_on = self.skip("while")
        while goes_on:
            negated = self.skip("not")
            condition = self.command()
            guard = conjoin(guard, negate(condition) if negated else condition)
            goes_on = (self.peek(1) == "not" or self.peek(1) in self.lexicon.verbs) and self.skip("and")
        return guard


def conjoin(one: Guard, other: Guard) -> Guard:
    """Both at the same moment."""
    return Guard(tuple(tuple(dict.fromkeys(a + b)) for a in one.cubes for b in other.cubes))


def negate(guard: Guard) -> Guard:
    """The opposite of a guard of single literals."""
    return Guard((tuple(-cube[0] for cube in guard.cubes),))


def parse(reader: Reader) -> Phrase:
    """A whole text."""
    phrases = []
    while reader.peek():
        phrases.append(_sentence(reader))
        if reader.peek() not in (".", ";", ""):
            _complain(reader)
        while reader.skip(".") or reader.skip(";"):
            pass
        if reader.peek():
            reader.skip("and")
            reader.skip("then")
            reader.skip(",")
    if not phrases:
        reader.fail("the task is empty")
    return _one_or(Then, phrases)


def _complain(reader: Reader) -> NoReturn:
    if reader.peek() == ",":
        reader.fail("a comma alone does not say how to go on: write 'then', 'and' or 'or' after it")
    reader.fail(f"'{reader.peek()}' is not understood here; expected {', '.join(_CONNECTIVES)} or a full stop")


def _one_or(kind: type, parts: list[Phrase]) -> Phrase:
    return parts[0] if len(parts) == 1 else kind(tuple(parts))


def _sentence(reader: Reader) -> Phrase:
    phrase = _sequence(reader, _pair)
    while reader.skip(",", "without"):
        phrase = Without(phrase, _avoided(reader))
    return phrase


def _sequence(reader: Reader, part: Callable[[Reader], Phrase]) -> Phrase:
    parts = [part(reader)]
    while _connects(reader, "then"):
        parts.append(part(reader))
    return _one_or(Then, parts)


def _connects(reader: Reader, word: str) -> bool:
    """Step over a connective, with or without a comma before it, or over a comma that stands for it."""
    ways = ((word,), (",", word)) + ((("and", word), (",", "and", word)) if word == "then" else ())
    if any(reader.skip(*way) for way in ways):
        return True
    return reader.peek() == "," and _comma_means(reader) == word and reader.skip(",")


def _comma_means(reader: Reader) -> str:
    """What a comma between commands stands for: the connective that comes next in its sentence."""
    depth = 0
    for distance, token in enumerate(reader.tokens[reader.place + 1 :]):
        depth += (token.text == "(") - (token.text == ")")
        if depth < 0 or token.text in (".", ";", "without"):
            break
        if depth == 0 and token.text in ("then", "and", "or"):
            return token.text if distance > 0 else ""
    return ""


def _pair(reader: Reader) -> Phrase:
    if reader.peek() in ("after", "before"):
        return _leading_pair(reader)
    phrase = _alternatives(reader)
    while (word := reader.peek()) in ("before", "after"):
        reader.place += 1
        reader.skip("you")
        other = _alternatives(reader)
        phrase = Then((phrase, other) if word == "before" else (other, phrase))
    return phrase


def _leading_pair(reader: Reader) -> Phrase:
    """`after you A, B` and `before you A, B`."""
    word = reader.peek()
    reader.place += 1
    reader.skip("you")
    one = _alternatives(reader)
    if not reader.skip(","):
        reader.fail(f"a comma is needed between what comes {word} and the rest")
    other = _alternatives(reader)
    return Then((one, other) if word == "after" else (other, one))


def _alternatives(reader: Reader) -> Phrase:
    parts = [_joint(reader)]
    while _connects(reader, "or"):
        parts.append(_joint(reader))
    if len(parts) > 1 and all(isinstance(part, Guard) for part in parts):
        return Guard(tuple(dict.fromkeys(cube for part in parts if isinstance(part, Guard) for cube in part.cubes)))
    return _one_or(AnyOf, parts)


def _joint(reader: Reader) -> Phrase:
    parts = [_limited(reader)]
    while reader.peek() in ("and", ",") and not _sequel(reader) and _connects(reader, "and"):
        parts.append(_limited(reader))
    return _one_or(All, parts)


def _sequel(reader: Reader) -> bool:
    """Whether `and` is part of `and then`."""
    ahead = 1 if reader.peek() == "," else 0
    return reader.peek(ahead) == "and" and reader.peek(ahead + 1) == "then"


def _limited(reader: Reader) -> Phrase:
    phrase = _repeated(reader)
    while reader.skip("without"):
        phrase = Without(phrase, _avoided(reader))
    return phrase


def _avoided(reader: Reader) -> Guard:
    """`doing A or B or doing C`: none of them may happen."""
    cubes = list(reader.command().cubes)
    while _goes_on(reader):
        reader.skip(",")
        reader.place += reader.peek() in ("and", "or")
        cubes += reader.command().cubes
    return Guard(tuple(dict.fromkeys(cubes)))


def _goes_on(reader: Reader) -> bool:
    """Whether a list goes on: a comma, `or` or `and`, then a verb in -ing or an object without a verb."""
    ahead = int(reader.peek() == ",")
    ahead += reader.peek(ahead) in ("and", "or")
    if ahead == 0 or reader.peek(ahead) in reader.lexicon.verbs:
        return ahead > 0
    start = reader.place + ahead
    alone = reader.lexicon.find(reader.tokens, start)
    return alone is None and reader.find_command(start) is not None


def _repeated(reader: Reader) -> Phrase:
    phrase = _unit(reader)
    times = _times(reader)
    return phrase if times == 1 else Repeat(phrase, times)


def _times(reader: Reader) -> int:
    for word, times in (("once", 1), ("twice", 2), ("thrice", 3)):
        if reader.skip(word):
            return times
    word = reader.peek()
    if reader.peek(1) not in ("times", "time") or not (word.isdigit() or word in NUMBERS):
        return 1
    times = int(word) if word.isdigit() else NUMBERS[word]
    if not 1 <= times <= MOST_TIMES:
        reader.fail(f"{times} times is not possible: from 1 to {MOST_TIMES} is allowed")
    reader.place += 2
    return times


def _unit(reader: Reader) -> Phrase:
    if reader.peek() == "(":
        return _group(reader)
    if reader.skip("either"):
        return _choice(reader)
    return reader.moment()


def _group(reader: Reader) -> Phrase:
    opened = reader.tokens[reader.place]
    reader.skip("(")
    phrase = _sentence(reader)
    while reader.skip(";") or reader.skip("."):
        reader.skip("then")
        phrase = Then((phrase, _sentence(reader)))
    if not reader.skip(")"):
        fail(reader.text, opened.start, opened.end, "this bracket is never closed")
    return phrase


def _choice(reader: Reader) -> Phrase:
    """Branches up to the end of the sentence; inside them `or` only begins the next branch."""
    parts = [_sequence(reader, _joint)]
    while reader.skip(",", "or") or reader.skip("or"):
        parts.append(_sequence(reader, _joint))
    if len(parts) == 1:
        reader.fail("'either' needs an 'or' in the same sentence")
    return Choice(tuple(parts))
