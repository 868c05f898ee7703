"""English tasks: what people say to a robot, as far as a reward machine can mean it; or numbered steps.

A text goes through three stages. Words are looked up and put into their plain form (`lexicon`); every word must be known,
and all that are not are reported at once. Sentences are read into a tree of phrases (this file). Phrases become automata
(`phrases`, `automata`). The grammar of sentences, from loosest to tightest:

    sentence. sentence; sentence         one after the other; a sentence that only bans covers all others
    A, then B / A, finally B             one after the other (afterwards, after that, next, followed by …)
    after A, B / once A, B / B before A  one after the other, in the order that the words say
    A or B                               whichever is done first; both may be under way
    A and B                              in any order
    A without doing B                    doing B before A is done fails the task
    A twice / A 3 times                  A must cease to hold in between
    A while (not) doing B                both at the same moment

`, without …`, `never …`, `avoid …` and other bans cover their whole sentence; `without` directly behind a step covers that
step. `keep doing A until B`, `if A, B, otherwise C`, `whenever A, B` and `A, but first B` mean what they say. `(…)` groups.
`either A, then B, or C, then D` commits to the branch that is begun first; if several begin at the same moment nothing
happens. In a list `A, B and C` commas mean what the next connective means. `go to a ball or a key` repeats the verb.
Where a sentence has two readings the likelier is taken, and a note says how to write the other one.

Numbered steps are for machines that branch, loop or call each other:

    1. Go to a ball, then continue with step 2.
    2. Either pick up a key, then finish, or open a door, then continue with step 1.

A step waits until what it asks for holds. Its options are tried in the order in which they are written; after
`either`, nothing happens while several of them hold at the same moment. `continue with step n`, `finish` and `fail` say
what comes next: the next step if nothing is said. `(reward 0.5)` at the end of an option changes its reward from the
usual 1 for finishing and 0 otherwise. Several machines are sections; a routine may be done as part of an option:

    Main task:
    1. Go to a ball and do routine 1, then finish.
    Routine 1:
    1. Pick up a key, then return.
"""

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final, NamedTuple

from atlas.errors import AtlasError, Reader, TaskWarning, TextError, Token, listed
from atlas.tasks import automata
from atlas.tasks.automata import Diagrams
from atlas.tasks.lexicon import ALL, NONE, NUMBERS, Guard, Lexicon, NounPhrase, Part, Thing, lexicon
from atlas.tasks.machine import ACCEPT, NO_CALL, REJECT, Edge, Task, flat_task, hierarchy, machine
from atlas.tasks.phrases import (
    Again,
    All,
    Any,
    AtMost,
    Ban,
    Choice,
    Hold,
    If,
    Keep,
    Moment,
    Phrase,
    Rule,
    Ruled,
    Stop,
    Then,
    Times,
    Whenever,
    Without,
    Words,
    automaton,
    both,
    during,
    guards,
    is_exact,
    negation,
    say,
)
from atlas.vocabulary import ACCEPTED, REJECTED, RUNNING, Vocabulary

MOST_TIMES: Final = 50
_ENDS: Final = {"finish": ACCEPTED, "return": ACCEPTED, "fail": REJECTED}
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<word>[A-Za-z][A-Za-z'’-]*)|(?P<number>-?\d+(?:\.\d+)?(?:e-?\d+)?)|(?P<mark>[.,;:()?!])|(?P<bad>\S))"
)


def _phrases(*texts: str) -> tuple[tuple[str, ...], ...]:
    """Each text as its words, the longest first."""
    return tuple(sorted((tuple(text.split()) for text in texts), key=len, reverse=True))


FILLERS: Final = _phrases(
    *("please", "kindly", "just", "simply", "now", "ok", "okay", "hey", "hi", "hello", "well", "so", "also", "too", "as well"),
    *("robot ,", "agent ,", "hey robot", "hey robot ,", "thanks", "thank you", "for me", "eventually", "at some point"),
    *("i want you to", "i would like you to", "i need you to", "we want you to", "can you", "could you", "would you"),
    *("will you", "your task is to", "your goal is to", "your mission is to", "your job is to", "the task is to"),
    *("the goal is to", "the mission is to", "make sure to", "make sure that", "make sure", "be sure to", "try to"),
    *("remember to", "go and", "let us", "it is your task to", "at some time", "sometime", "in the end ,", "the aim is to"),
)
"""Words that change no meaning at the beginning of a clause."""
_BEHIND: Final = _phrases(
    *("please", "too", "as well", "now", "for me", "thanks", "thank you", "eventually", "at some point", "also"),
)
"""Words that change no meaning at its end."""
_SUBJECTS: Final = _phrases("you", "it", "the agent", "the robot", "agent", "robot", "they", "i", "he", "she", "we")
_AUXILIARIES: Final = _phrases(
    *("must", "should", "shall", "will", "can", "have to", "has to", "need to", "needs to", "are to", "is to", "ought to"),
    *("want to", "wants to", "may", "do", "does", "did", "would", "could"),
)
_PERFECT: Final = ("have", "has", "had", "are", "is", "am", "was", "were", "been", "be", "having", "being", "already", "ever")
_THEN: Final = _phrases(
    *("then", "finally", "lastly", "at last", "afterwards", "afterward", "after that", "after this", "later", "later on"),
    *("followed by", "only then", "subsequently", "thereafter", "next", "end by", "finish by", "to finish", "then finally"),
    *("second", "secondly", "third", "thirdly", "fourth", "fifth", "last", "after which", "before finally"),
)
_FIRST: Final = _phrases("first", "firstly", "first of all", "start by", "begin by", "to begin", "to start", "initially")
_BANS: Final = _phrases(
    *("never", "never ever", "do not", "do not ever", "does not", "must not", "must never", "should not", "should never"),
    *("shall not", "shall never", "may not", "may never", "can not", "can never", "will not", "without", "without ever"),
    *("make sure not to", "make sure to never", "making sure not to", "making sure to never", "making sure never to"),
    *("be careful not to", "being careful not to", "take care not to", "taking care not to", "try not to", "be sure not to"),
    *("make sure never to", "need not to", "have to never", "has to never", "and never"),
)
_AVOIDS: Final = _phrases(
    *("avoid", "avoiding", "avoids", "refrain from", "refraining from", "stay away from", "staying away from", "stay clear of"),
    *("keep away from", "keeping away from", "steer clear of", "keep clear of", "stays away from", "keeps away from"),
    *("be careful to avoid", "make sure to avoid", "try to avoid", "do not go anywhere near", "never go anywhere near"),
)
"""Bans that speak of things as well as of doing something."""
_SCOPES: Final = _phrases(
    *("at any time", "at all times", "at all", "ever", "the whole time", "all the time", "throughout", "at any point"),
    *("the entire time", "all along", "in the meantime", "meanwhile", "along the way", "on the way"),
)
_WHILE: Final = _phrases("while", "as long as", "while still", "whilst", "when at the same time", "so long as")
_WHEN: Final = _phrases("once", "when", "as soon as", "the moment", "upon", "having", "after having", "now that")
_ANY_ORDER: Final = _phrases("in any order", "in whatever order", "in either order", "the order does not matter")
_THIS_ORDER: Final = _phrases(
    *("in that order", "in this order", "in order", "in the given order", "one after the other", "one after another"),
    *("one by one", "in turn", "in sequence"),
)
_TOGETHER: Final = _phrases("at the same time", "at once", "simultaneously", "at the same moment")
_COUNTS: Final = {"once": 1, "twice": 2, "thrice": 3}
_CONTRACTED: Final = {
    **{f"{word}n't": f"{word} not" for word in ("do", "does", "did", "is", "are", "must", "should", "have", "has", "was")},
    **{"can't": "can not", "cannot": "can not", "won't": "will not", "dont": "do not", "you're": "you are", "mustnt": "must not"},
    **{"you've": "you have", "it's": "it is", "let's": "let us", "you'd": "you would", "i'd": "i would", "till": "until"},
    **{"non": "not", "i'm": "i am", "we're": "we are", "you'll": "you will", "isnt": "is not", "nor": "or"},
}
_WHY: Final = {
    **dict.fromkeys(
        ("see", "sees", "seeing", "look", "spot", "notice"),
        "what is far away cannot be asked for; say 'go to' or 'face'",
    ),
    **dict.fromkeys(
        ("left", "right", "behind", "room", "rooms", "wall", "corner", "north", "south", "east", "west", "above", "below"),
        "a task cannot speak of places and directions",
    ),
    **dict.fromkeys(
        ("quickly", "slowly", "fast", "immediately", "directly", "instantly", "carefully", "straight", "soon"),
        "a task cannot say how fast or how; LTLf has X for the very next moment",
    ),
    **dict.fromkeys(
        ("enter", "enters", "entering", "leave", "cross", "through", "exit"),
        "a task knows what is ahead, in hand or side by side, not where the agent is",
    ),
    **dict.fromkeys(("same", "matching", "corresponding", "its", "their"), "a task cannot compare things: name the colour"),
    **dict.fromkeys(("them", "those", "these"), "it is not clear which things are meant: name them"),
    "exactly": "it cannot be settled before the end; say 'twice' for at least, or 'never … more than twice'",
    "nothing": "say 'never', 'avoid' or 'without' for what may not happen",
}
"""Why some words are refused."""
_GRAMMAR: Final = frozenset(
    word
    for phrases in (
        *(FILLERS, _SUBJECTS, _AUXILIARIES, _THEN, _FIRST, _BANS, _AVOIDS, _SCOPES, _WHILE, _WHEN, _ANY_ORDER, _THIS_ORDER),
        *(_TOGETHER, [_PERFECT, _COUNTS, NUMBERS, _ENDS]),
    )
    for phrase in phrases
    for word in phrase
) | frozenset(
    "a an the any some this that every each all of no another different second couple one ones object objects thing things "
    "item items something anything which is are not neither either both or and but before after until unless if else "
    "otherwise whenever time times least most more than in your hand hands with using always keep keeps keeping stop stops "
    "stopping wait waits waiting continue remain only other except for again main task routine step do done stay here reward "
    "go to back you up down so alternatively colour color get gets well does also it such does".split()
)


class Reading(NamedTuple):
    """What a text was understood as."""

    task: Task
    phrase: Phrase | None
    """None for numbered steps."""
    notes: tuple[str, ...]
    """What else the words might have meant, and how to write that."""


def english(text: str, vocabulary: Vocabulary, things: Sequence[str] | None = None) -> Task:
    """The task that a text describes. `things`: what is in the level, for `all` and `every`."""
    return read(text, vocabulary, things).task


def read(text: str, vocabulary: Vocabulary, things: Sequence[str] | None = None) -> Reading:
    """The task that a text describes, and how it was understood.

    Where things may happen in any order, guards need not tell apart what the vocabulary says never happens at once.
    """
    parser = _Parser(text, vocabulary, things)
    if parser.has_steps():
        task = parser.steps()
        if not task.machines[task.root].can_accept:
            warnings.warn("no step leads to the end, so the task can never be accepted", TaskWarning, stacklevel=3)
        return Reading(task, None, tuple(parser.notes))
    phrase = parser.sentences()
    diagrams = Diagrams()
    found = automaton(phrase, diagrams)
    if not is_exact(phrase):
        props = {abs(x) - 1 for guard in guards(phrase) for cube in guard for x in cube}
        found = automata.forbid(found, automata.possible(diagrams, props, vocabulary))
    found = automata.minimise(found)
    if not found.can_accept:
        raise AtlasError(
            f"'{text.strip()}' can never be done: it asks for what cannot happen, or only after it has failed"
        )
    return Reading(automata.to_task(found), phrase, tuple(parser.notes))


@dataclass(frozen=True)
class _Command:
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


class _Option(NamedTuple):
    """One way out of a step."""

    guard: Guard
    routine: int | None
    target: int | None
    """The number of a step, ACCEPT or REJECT; None for the next step."""
    reward: float | None
    routine_token: Token
    target_token: Token
    """Where they are named, for errors."""


class _Step(NamedTuple):
    """What to do at one state."""

    options: list[_Option]
    is_exclusive: bool
    outcome: int
    """Not RUNNING if the step only says `finish` or `fail`."""


_Section = dict[int, _Step]
"""The steps of one machine by their numbers; the first is the initial one."""


class _Parser(Reader):
    """Each method reads what its name says and returns its meaning; None where only a rule was read."""

    def __init__(self, text: str, vocabulary: Vocabulary, things: Sequence[str] | None = None) -> None:
        super().__init__(text.replace("’", "'"), _TOKEN, "a task")
        self.tokens = [
            token._replace(text=word)
            for token in self.tokens
            for word in _CONTRACTED.get(token.text.lower(), token.text.lower().replace("?", ".").replace("!", ".")).split()
            or [""]
        ]
        self.lexicon: Lexicon = lexicon(vocabulary)
        self.words = Words(vocabulary)
        self.things = None if things is None else [self._thing(thing) for thing in things]
        self.last: _Command | None = None
        """The last command, for `go to a ball or a key`."""
        self.mentioned: list[list[NounPhrase]] = []
        """What was named, the latest last; together what `it` might be."""
        self.rules: list[Rule] = []
        """Those of the sentence that is being read."""
        self.cover: Guard = ((),)
        """What must hold at each moment of the sentence."""
        self.said_first = False
        """Whether `first` stood behind the last command."""
        self.notes: dict[str, None] = {}
        self.check_words()

    # Words

    def check_words(self) -> None:
        """Report all words that nobody knows, at once."""
        strange = [
            token
            for token in self.tokens
            if token.kind == "word"
            and token.text not in self.lexicon.known
            and token.text not in _GRAMMAR
            and self.lexicon._adjective(token.text) is None
        ]
        strange = list(dict.fromkeys(strange))
        if len(strange) == 1:
            (token,) = strange
            if token.text in _WHY:
                self.fail(f"'{token.text}' is not understood: {_WHY[token.text]}", token)
            before = self.text[: token.start].rstrip()
            before = before[max(before.rfind(mark) for mark in ".,;:()\n") + 1 :].strip()
            hint = self.lexicon.suggestion(token.text)
            hint = f"; did you mean {hint}?" if hint else f"; expected {self._expected(not before)}"
            self.fail(f"'{token.text}' is not understood" + (f" after '{before}'" if before else "") + hint, token)
        if strange:
            told = []
            for token in strange:
                hint = self.lexicon.suggestion(token.text)
                why = _WHY.get(token.text) or (f"did you mean {hint}?" if hint else "")
                told.append(f"'{token.text}'" + (f" ({why})" if why else ""))
            self.fail_many(f"{len(strange)} words are not understood: {', '.join(told)}", strange)

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
        raise TextError("\n".join([sentence, *lines]))

    def skip_any(self, phrases: Sequence[tuple[str, ...]]) -> bool:
        """Step over the first of several phrases that comes next."""
        return any(self.skip(*phrase) for phrase in phrases)

    def ahead(self, phrases: Sequence[tuple[str, ...]], start: int = 0) -> int:
        """How many tokens the first of several phrases has that comes next; 0 if none does."""
        for phrase in phrases:
            if all(self.peek(start + i) == word for i, word in enumerate(phrase)):
                return len(phrase)
        return 0

    def then_ahead(self, start: int = 0) -> int:
        """How many tokens a word for `then` has that comes next, `next to` excepted."""
        found = self.ahead(_THEN, start)
        if found and self.peek(start) == "next" and self.peek(start + found) in ("to",):
            return 0
        if self.peek(start) in ("second", "third", "fourth", "fifth", "last") and self.peek(start + found) != ",":
            return 0
        return found

    def fillers(self) -> None:
        """Step over words that change nothing."""
        moved = True
        while moved:
            moved = self.skip_any(FILLERS)
            if self.peek() == "go" and self.peek(1) in self.lexicon.verbs and self.peek(1) not in ("up", "back"):
                self.place, moved = self.place + 1, True
            if moved:
                self.skip(",")

    def note(self, sentence: str) -> None:
        self.notes[sentence] = None

    # Commands

    def _thing(self, text: str) -> Thing:
        """A thing of the level."""
        tokens = [Token("word", word, 0, 0) for word in text.lower().split()] + [Token("end", "", 0, 0)]
        phrase = self.lexicon.noun_phrase(tokens, 0)
        if phrase is None or tokens[phrase.stop].text:
            raise AtlasError(f"'{text}' is no thing that a level of this domain has")
        return phrase.things[0]

    def subject(self) -> bool:
        """Step over `you`, `the agent has` and so on; whether it was negated."""
        start, negated = self.place, False
        if self.skip_any(_SUBJECTS) and start + 1 == self.place and self.tokens[start].text in ("it", "i", "he", "they"):
            follows = self.peek()
            is_verb = follows in _PERFECT or follows in self.lexicon.by_first or self.ahead(_AUXILIARIES)
            if not is_verb or self.verb(self.place) is None and not self.ahead(_AUXILIARIES) and follows not in _PERFECT:
                self.place = start
                return False
        had_subject = self.place > start
        while True:
            if had_subject and self.skip_any(_AUXILIARIES):
                continue
            if had_subject and self.peek() == "not":
                self.place, negated = self.place + 1, not negated
                continue
            if self.peek() in _PERFECT and self.verb(self.place) is None:
                follows = 1 + (self.peek(1) == "not")
                if self.verb(self.place + follows) is not None or (had_subject and self.peek(follows) in _PERFECT):
                    self.place += 1
                    had_subject = True
                    continue
                if had_subject and self.peek(1) == "not" and self._be(self.place + 2) is not None:
                    self.place, negated = self.place + 2, not negated
                    continue
            return negated

    Match = tuple[tuple[str, ...], list[NounPhrase], int]

    def _be(self, place: int) -> "tuple[tuple[str, ...], list[NounPhrase], int] | None":
        """`at the door` behind `you are not`."""
        patterns = [p for p, _ in self.lexicon.by_first.get("be", [])]
        return max(self.lexicon.matches(self.tokens, place, patterns), key=lambda m: m[2], default=None)

    def verb(self, place: int) -> "tuple[tuple[str, ...], list[NounPhrase], int] | None":
        """The longest verb with its noun phrases at a place, if there is one."""
        found = self.verbs(place)
        return found[0] if found else None

    def verbs(self, place: int) -> "list[tuple[tuple[str, ...], list[NounPhrase], int]]":
        """All verbs that could stand at a place, the longest first."""
        patterns = [p for p, _ in self.lexicon.by_first.get(self.tokens[place].text, [])]
        found = list(self.lexicon.matches(self.tokens, place + 1, patterns)) if patterns else []
        return sorted(found, key=lambda match: -match[2])

    def said_of_things(self, place: int) -> "list[tuple[tuple[str, ...], list[NounPhrase], int]]":
        """`a ball is next to a key`, `the door is open`, `the key has been reached`."""
        slots = [p for p, _ in self.lexicon.by_first.get("{}", [])]
        found = list(self.lexicon.matches(self.tokens, place, slots, skip=0))
        phrase = self.lexicon.noun_phrase(self.tokens, place)
        if phrase is None:
            return found
        at = phrase.stop
        while self.tokens[at].text in ("is", "are", "has", "have", "been", "was", "gets", "got"):
            at += 1
        if at == phrase.stop:
            return found
        adjective = self.lexicon._adjective(self.tokens[at].text)
        if adjective and not adjective[1] and "go to {}" in self.lexicon.meanings:
            things = tuple(t._replace(attributes=t.attributes | {adjective[0]}) for t in phrase.things)
            found.append((("go", "to", "{}"), [replace(phrase, things=things)], at + 1))
        for pattern, _ in self.lexicon.by_first.get(self.tokens[at].text, []):
            rest = [word for word in pattern[1:] if word != "{}"]
            if pattern.count("{}") == 1 and [t.text for t in self.tokens[at + 1 : at + 1 + len(rest)]] == rest:
                found.append((pattern, [phrase], at + 1 + len(rest)))
        return found

    def repeats(self, place: int) -> "list[tuple[tuple[str, ...], list[NounPhrase], int]]":
        """The last verb, read as if its first words stood here too: `or a key`, `then to the key`."""
        found = []
        if self.last is not None:
            pattern, phrases = self.last.pattern, self.last.phrases
            for skipped in range(1, len(pattern)):
                kept = phrases[: sum(word == "{}" for word in pattern[:skipped])]
                for _, more, stop in self.lexicon.matches(self.tokens, place, [pattern], skipped):
                    found.append((pattern, [*kept, *more], stop))
        return sorted(found, key=lambda match: -match[2])

    def candidates(self, place: int) -> "list[tuple[tuple[str, ...], list[NounPhrase], int]]":
        """All that a command at a place could be, the likeliest first."""
        return self.verbs(place) or self.said_of_things(place) or self.repeats(place)

    def command(self) -> _Command:
        """A verb with its things."""
        found = self.candidates(self.place)
        if not found and self._be(self.place) is not None:
            found = [self._be(self.place)]  # type: ignore[list-item]
        start = self.place
        for pattern, phrases, stop in found:
            resolved = self.resolve(pattern, phrases)
            command = self.meaning(pattern, resolved) if resolved is not None else None
            if command is not None:
                self.place, self.last = stop, command
                self.mentioned.append([phrase for phrase in command.phrases if phrase.pronoun != "it"])
                span = [token.text for token in self.tokens[start:stop]]
                if "either" in span and all(len(p.things) == 1 for p in phrases):
                    ahead = int(self.peek() == ",")
                    if self.peek(ahead) != "or":
                        self.fail("'either' needs an 'or' in the same sentence", self.tokens[start + span.index("either")])
                return command
        if found:
            self.complain_about(*found[0])
        return self.complain()

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

    def meaning(self, pattern: tuple[str, ...], phrases: tuple[NounPhrase, ...]) -> _Command | None:
        """The command that a verb and its things make; None if the domain knows none such."""
        parts = self.lexicon.meanings[" ".join(pattern)]
        lists = [
            [(thing,) for thing in phrase.things] if phrase.both else [tuple(phrase.things)] for phrase in phrases
        ]
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
        return _Command(pattern, phrases, tuple(groups), stop=any(part.stop for part in parts))

    def complain_about(self, pattern: tuple[str, ...], phrases: list[NounPhrase], stop: int) -> None:
        """A verb was read, but it does not go with its things."""
        said = " ".join(pattern).replace("{}", "…").removesuffix(" …")
        for slot, phrase in enumerate(phrases):
            if phrase.pronoun:
                self.fail(f"'{phrase.pronoun}' is not understood: nothing that fits '{said}' was named before", self._pronoun(phrase.pronoun))
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
                    self.fail(f"'{said}' does not go with '{thing.words()}', but with {listed(nouns)}", self._at(phrase))
        names = listed([thing.words() for phrase in phrases for thing in phrase.things], "and")
        self.fail(f"'{said}' does not go with '{names}': there is no such thing here")

    def _groups(self, attributes: frozenset[str]) -> list[list[str]]:
        """Attributes by the group that they belong to."""
        numbers = self.lexicon.attributes
        return [[w for w in attributes if numbers[w] == n] for n in sorted({numbers[w] for w in attributes})]

    def _at(self, phrase: NounPhrase) -> Token:
        """Where a noun phrase ends: its noun."""
        return self.tokens[phrase.stop - 1]

    def complain(self) -> _Command:
        """Say what is missing or not understood where a command is needed."""
        text = self.peek()
        if not text or text in (".", ";", ",", ")"):
            verbs = listed([" ".join(p).replace("{}", "…") for p in self.lexicon.props])
            before = self.text[: self.tokens[min(self.place, len(self.tokens) - 1)].start].strip()
            after = f" after '{before.split(',')[-1].strip()}'" if before else ""
            self.fail(f"something is missing{after}; expected {verbs}")
        if text in ("and", "or", "then", "but"):
            self.fail(f"'{text}' needs something before and after it")
        patterns = [p for p, _ in self.lexicon.by_first.get(text, [])]
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
                phrase = self.lexicon.noun_phrase(self.tokens, at)
                if phrase is None:
                    while self.tokens[at].text in ("a", "an", "the", "any") or self.lexicon._adjective(self.tokens[at].text):
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
                phrase = self.lexicon.noun_phrase(self.tokens, place)
                if phrase is None:
                    return [*self.lexicon.nouns]
                place = phrase.stop
            else:
                place += 1
        return []

    def goal(self, command: _Command) -> Phrase | None:
        """What a command asks to be done."""
        if command.count == NONE:
            self.rules.append(Ban(command.avoided))
            return None
        if command.count == ALL:
            return self.all_things(command)
        make: Callable[[Guard], Phrase] = Stop if command.stop else Moment
        another = any(phrase.another for phrase in command.phrases)
        if another and not command.stop:
            if len(self.mentioned) < 2:
                self.fail("'another' needs one before it", self.tokens[self.place - 1])
            make = Again
        parts: list[Phrase] = [make(group) for group in command.groups]
        phrase = parts[0] if len(parts) == 1 else All(tuple(parts))
        if command.count > 1:
            if command.count > MOST_TIMES:
                self.fail(f"{command.count} is not possible: from 1 to {MOST_TIMES} is allowed", self.tokens[self.place - 1])
            noun = command.phrases[0].things[0].words()
            self.note(f"a task cannot tell one {noun} from another: the same one may count {command.count} times")
            return Times(phrase, command.count)
        return phrase

    def all_things(self, command: _Command) -> Phrase:
        """All of what is named, as many as the level has."""
        slot = next(n for n, phrase in enumerate(command.phrases) if phrase.count == ALL)
        phrase = command.phrases[slot]
        names = listed([thing.words() for thing in phrase.things])
        token = self.tokens[phrase.stop - 1] if phrase.stop <= len(self.tokens) else None
        if self.things is None:
            self.fail(
                f"'{names}' stands for all there are: a level is needed to know which; name them, or say how many", token
            )
        counts: dict[Thing, int] = {}
        for thing in self.things:
            for wanted in phrase.things:
                if wanted.noun in ("", thing.noun) and wanted.attributes <= thing.attributes:
                    if not wanted.excluded & thing.attributes:
                        counts[thing] = counts.get(thing, 0) + 1
        if not counts:
            self.fail(f"there is no {names} in the level", token)
        parts: list[Phrase] = []
        for thing, count in counts.items():
            for kept in (thing.attributes, frozenset(next(iter(self._groups(thing.attributes)), []))):
                one = replace(phrase, things=(thing._replace(attributes=frozenset(kept)),), count=1)
                said = self.meaning(command.pattern, (*command.phrases[:slot], one, *command.phrases[slot + 1 :]))
                if said is not None:
                    break
            else:
                self.fail(f"a {thing.words()} of the level cannot be meant here", token)
            make = Stop if command.stop else Moment
            parts.append(Times(make(said.guard), count) if count > 1 else make(said.guard))
            if count > 1:
                self.note(f"the level has {count} of '{thing.words()}': the same one may count {count} times")
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    # Moments: what holds at one label

    def literal(self) -> Guard:
        """`you are (not) holding a key`."""
        negated = self.subject()
        while self.skip("not"):
            negated = not negated
        command = self.command()
        if command.stop:
            self.fail("what ends cannot be a condition: say what holds instead", self.tokens[self.place - 1])
        if command.count == NONE:
            return negation(command.avoided)
        return negation(command.guard) if negated else command.guard

    def condition(self) -> Guard:
        """`holding a key and not facing a ball, or carrying a box`."""
        guard = self.conjunct()
        while self.peek() == "or" and self.condition_goes_on():
            self.skip("or")
            guard = tuple(dict.fromkeys(guard + self.conjunct()))
        return guard

    def conjunct(self) -> Guard:
        guard = self.literal()
        while self.peek() == "and" and self.condition_goes_on():
            self.skip("and")
            guard = both(guard, self.literal())
        return guard

    def condition_goes_on(self) -> bool:
        """Whether `and` or `or` is followed by more of a condition, not by something to do."""
        word = self.peek(1)
        if word == "not" or word in self.lexicon.gerunds or self.ahead(_SUBJECTS, 1):
            return self.banned_at(1, bare=False) is None
        if self.verbs(self.place + 1):
            return False
        return bool(self.repeats(self.place + 1)) and self.banned_at(1, bare=False) is None

    def moment(self) -> Guard:
        """`A while doing B and not doing C`, for steps."""
        if self.skip("wait"):
            guard: Guard = ((),)
        else:
            command = self.command()
            if command.stop or command.count != 1:
                self.fail("a step waits for something that holds at one moment", self.tokens[self.place - 1])
            guard = command.guard
        while self.skip_any(_WHILE):
            guard = both(guard, self.condition())
        return guard

    # Rules: what may not happen, what must go on

    def banned_at(self, start: int = 0, bare: bool = True) -> tuple[int, bool] | None:
        """Whether a ban begins so many tokens ahead: how many tokens open it, and whether it may name a thing.

        `bare`: whether `not doing …` counts, which is no ban behind `while`."""
        at = start
        while found := self.ahead(FILLERS, at):
            if self.ahead(_BANS, at) or self.ahead(_AVOIDS, at):
                break
            at += found + (self.peek(at + found) == ",")
        if found := self.ahead(_SUBJECTS, at):
            at += found
        while found := self.ahead((("always",), ("must",), ("should",), ("have", "to"), ("has", "to")), at):
            if self.ahead(_BANS, at):
                break
            at += found
        if found := self.ahead(_AVOIDS, at):
            return at + found - start, True
        if found := self.ahead(_BANS, at):
            return at + found - start, False
        if bare and self.peek(at) == "not" and (self.peek(at + 1) in self.lexicon.gerunds or self.peek(at + 1) == "to"):
            return at + 1 + (self.peek(at + 1) == "to") - start, False
        return None

    def ban(self, opened: tuple[int, bool]) -> None:
        """What may not happen: a list, then when that is so."""
        self.place += opened[0]
        commands = [self.banned(opened[1])]
        while self.ban_goes_on(opened[1]):
            self.skip(",")
            self.place += self.peek() in ("and", "or", "but")
            if more := self.banned_at():
                self.place += more[0]
            commands.append(self.banned(opened[1]))
        self.limits(commands)

    def banned(self, takes_noun: bool) -> _Command:
        if self.skip_any((("to", "ever"), ("ever",))):
            pass
        stopping = self.peek() in ("stop", "stopping") and self.peek(1) in self.lexicon.gerunds
        self.place += stopping
        self.subject()
        if takes_noun and self.lexicon.noun_phrase(self.tokens, self.place) and not self.verbs(self.place):
            phrase = self.lexicon.noun_phrase(self.tokens, self.place)
            assert phrase is not None
            patterns = [p for p in ("touch {}", *self.lexicon.meanings) if p in self.lexicon.meanings and p.count("{}") == 1]
            for pattern in patterns:
                resolved = self.resolve(tuple(pattern.split()), [phrase])
                command = self.meaning(tuple(pattern.split()), resolved) if resolved else None
                if command is not None:
                    self.place, self.last = phrase.stop, command
                    self.mentioned.append(list(command.phrases))
                    return command
        command = self.command()
        return replace(command, stop=True) if stopping else command

    def ban_goes_on(self, takes_noun: bool) -> bool:
        """Whether a comma, `or` or `and` comes next, then more of what is banned."""
        ahead = int(self.peek() == ",")
        joint = self.peek(ahead)
        ahead += joint in ("and", "or")
        if ahead == 0 or self.then_ahead(ahead):
            return False
        if self.banned_at(ahead) is not None:
            return self.peek(ahead) == "without"
        place = self.place + ahead
        if self.peek(ahead) in self.lexicon.gerunds:
            return True
        if self.verbs(place):
            if joint == "and" and not takes_noun:
                self.note("'and' begins something to do here; to ban that as well write 'or'")
            return joint == "or" and not takes_noun
        return bool(self.repeats(place)) and not (joint == "," and self.comma_means() == "then")

    def limits(self, commands: list[_Command]) -> None:
        """`unless …`, `while …`, `until …`, `more than twice` behind a ban; then the rules that it makes."""
        avoided = tuple(dict.fromkeys(cube for c in commands if not c.stop for cube in c.avoided))
        held = [c.avoided for c in commands if c.stop]
        until: Guard = ()
        after: Guard = ((),)
        times = 0
        while True:
            if self.skip_any(_SCOPES):
                continue
            if self.skip_any((("unless",), ("without",), ("except", "when"), ("except", "while"), ("except", "if"))):
                avoided = both(avoided, negation(self.condition()))
            elif self.skip_any(_WHILE) or self.skip_any((("when",), ("if",), ("whenever",), ("with",))):
                if self.tokens[self.place - 1].text == "with":
                    avoided = both(avoided, self.holding())
                else:
                    avoided = both(avoided, self.condition())
            elif self.skip_any((("until",), ("until", "after"))) or (self.peek() == "before" and self.skip("before")):
                until = self.condition()
            elif self.peek(1) not in ("that", "this") and self.skip_any((("after",), ("once",), ("as", "soon", "as"))):
                after = self.condition()
            elif self.skip("more", "than"):
                times = self.times() or self.fail("'more than' needs a number here, as in 'more than twice'")
            elif (count := self.times()) is not None:
                times = count - 1
            else:
                break
        self.fillers_behind()
        if times:
            self.rules.append(AtMost(avoided, times))
        elif avoided:
            self.rules.append(Ban(avoided, until, after))
        self.rules += [Hold(guard, until, required=False) for guard in held]

    def holding(self) -> Guard:
        """`the key` behind `with`: what is held then."""
        phrase = self.lexicon.noun_phrase(self.tokens, self.place)
        if phrase is None or "have {}" not in self.lexicon.meanings:
            self.fail("'with' needs something to hold, as in 'with the key'")
        resolved = self.resolve(("have", "{}"), [phrase])
        command = self.meaning(("have", "{}"), resolved) if resolved else None
        if command is None:
            self.complain_about(("have", "{}"), [phrase], phrase.stop)
            raise AssertionError
        self.place = phrase.stop
        self.mentioned.append(list(command.phrases))
        if self.skip("in"):
            self.skip("your")
            self.place += self.peek() in ("hand", "hands")
        return command.guard

    def times(self) -> int | None:
        """`twice`, `3 times`: how many, if that comes next."""
        word = self.peek()
        follows = self.peek(1)
        if word in _COUNTS and not (word == "once" and self.begins_clause(1)):
            self.place += 1
            return _COUNTS[word]
        if follows in ("times", "time") and (word.isdigit() or word in NUMBERS):
            times = NUMBERS[word] if word in NUMBERS else int(word)
            if not 1 <= times <= MOST_TIMES:
                self.fail(f"{times} times is not possible: from 1 to {MOST_TIMES} is allowed")
            self.place += 2
            return times
        return None

    def begins_clause(self, ahead: int) -> bool:
        """Whether something that happens is told from there on."""
        place = self.place + ahead
        return bool(self.ahead(_SUBJECTS, ahead) or self.verbs(place) or self.said_of_things(place))

    # Sentences

    def sentences(self) -> Phrase:
        parts: list[Phrase] = []
        rules: list[Rule] = []
        while self.peek():
            beside = self.peek() == "also" or (self.peek() == "and" and self.peek(1) == "also")
            if self.peek() in ("otherwise", "else") and parts and isinstance(parts[-1], If) and parts[-1].other is None:
                self.place += 1
                self.skip(",")
                phrase: Phrase | None = replace(parts.pop(), other=self.sentence())
            else:
                if parts or rules:
                    self.skip("and")
                phrase = self.sentence()
            self.expect_end()
            if phrase is None:
                rules += self.rules
            elif beside and parts:
                parts.append(All((parts.pop(), phrase)))
            else:
                parts.append(phrase)
            self.rules = []
            while self.skip(".") or self.skip(";"):
                pass
        if not parts and not rules:
            self.fail("the task is empty")
        if not parts:
            wanted = tuple(rule.until for rule in rules if isinstance(rule, Ban | Hold))
            if not all(wanted) or len(wanted) < len(rules):
                self.fail("only what may not happen is said: say what to do as well, as in 'go to …, but never …'", self.tokens[0])
            goals = tuple(Moment(guard) for guard in wanted)
            parts = [goals[0] if len(goals) == 1 else All(goals)]
        phrase = parts[0] if len(parts) == 1 else Then(_flat(Then, parts))
        if not rules:
            return phrase
        if isinstance(phrase, Ruled):
            return Ruled(phrase.part, (*phrase.rules, *rules))
        return Ruled(phrase, tuple(rules))

    def expect_end(self) -> None:
        """Nothing of a sentence may be left."""
        if self.peek() in (".", ";", ""):
            return
        if self.peek() == "next" and self.peek(1) == "to":
            self.fail("'next to' cannot tell which one is meant: a task knows things by their kind and colour only")
        if self.ahead(_ANY_ORDER):
            self.fail("'in any order' and 'then' do not go together: write 'and' between the parts")
        if self.verbs(self.place) and self.peek() not in ("open",):
            self.fail(f"a word such as 'then', 'and' or 'or' is needed before '{self.peek()}'")
        why = _WHY.get(self.peek())
        self.fail(
            f"'{self.peek()}' is not understood here"
            + (f": {why}" if why else "; expected then, and, or, before, after, without, while, twice or a full stop")
        )

    def sentence(self) -> Phrase | None:
        """One sentence under its own rules; None, with the rules left in `self.rules`, if it only bans."""
        outer, self.rules, cover, self.cover = self.rules, [], self.cover, ((),)
        start_mentions = len(self.mentioned)
        del start_mentions
        any_order = self.skip_any(_ANY_ORDER) and (self.skip(",") or True)
        self.fronted()
        phrase = self.chain(any_order)
        if self.low_ban[0] == self.place and isinstance(phrase, Then | All | Any):
            words = self.low_ban[1]
            self.note(f"'{words}' covers only the step before it; to cover the whole sentence write ', {words}'")
        if phrase is not None and self.cover != ((),):
            phrase = during(phrase, self.cover)
        own, self.rules, self.cover = self.rules, outer, cover
        if phrase is None:
            self.rules = self.rules + own
            return None
        return Ruled(phrase, tuple(own)) if own else phrase

    def fronted(self) -> None:
        """`While carrying a key, …`, `With the key, …`, `Without opening a door, …`: what covers the whole sentence."""
        while True:
            start = self.place
            self.fillers()
            if self.skip_any(_WHILE):
                guard = self.condition()
            elif self.skip("with") or self.skip("using"):
                guard = self.holding()
            elif self.peek() in ("carrying", "holding") and self.verbs(self.place):
                guard = self.condition()
            elif self.peek() == "without" and (opened := self.banned_at()):
                self.ban(opened)
                guard = ((),)
            else:
                self.place = start
                return
            self.cover = both(self.cover, guard)
            if not self.skip(","):
                self.fail("a comma is needed between this and what is to be done")

    def chain(self, any_order: bool = False) -> Phrase | None:
        """`A, then B, and finally C`, with the rules and asides between them."""
        start = self.place
        while self.skip_any(_FIRST) or (self.then_ahead() and self.skip_any(_THEN)):
            self.skip(",")
        parts: list[Phrase] = []
        phrase = self.clause()
        parts += [] if phrase is None else [phrase]
        while True:
            before = self.place
            if self.said_first and len(parts) > 1 and not any_order:
                self.fail("'first' stands behind a later step: say the steps in their order", self.tokens[self.place - 1])
            self.said_first = False
            if self.aside(parts):
                continue
            if self.connects("then"):
                while self.skip_any(_FIRST) or (self.then_ahead() and self.skip_any(_THEN)):
                    self.skip(",")
                phrase = self.clause()
                parts += [] if phrase is None else [phrase]
                self.warn_of_any_order(parts)
                continue
            if not parts and (self.skip(",", "and") or self.skip(",", "but") or self.skip("and") or self.skip("but") or self.skip(",")):
                self.skip_any((("just",), ("then",)))
                phrase = self.clause()
                parts += [] if phrase is None else [phrase]
                continue
            self.place = before
            break
        del start
        self.fillers_behind()
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else Then(_flat(Then, parts))

    def warn_of_any_order(self, parts: list[Phrase]) -> None:
        if parts and isinstance(parts[-1], All) and len(parts) > 1 and not self.listed_things:
            texts = [say(part, self.words) for part in parts[-1].parts]
            self.note(f"'{' and '.join(texts)}' may be done in any order; for one after the other write '{', then '.join(texts)}'")

    def aside(self, parts: list[Phrase]) -> bool:
        """What may stand behind a step and is no further step: a ban, `but first`, `in that order`, `otherwise`."""
        start = self.place
        comma = self.skip(",")
        joint = self.peek() if self.peek() in ("and", "but", "while", "also") else ""
        self.place += bool(joint)
        if self.skip_any(_THIS_ORDER) and not joint:
            if not (len(parts) == 1 and isinstance(parts[0], All | Then)):
                self.fail("there is nothing that could be in some order")
            parts[0] = Then(parts[0].parts)
            return True
        if not joint and self.ahead(_ANY_ORDER) and len(parts) == 1 and isinstance(parts[0], All):
            return self.skip_any(_ANY_ORDER)
        if not joint and self.skip_any(_TOGETHER) and len(parts) == 1:
            parts[0] = self.together(parts[0])
            return True
        if joint == "and" and self.peek() == "do" and self.peek(1) in ("this", "that", "it", "so"):
            self.place += 2
            times = self.times()
            if times is None:
                self.fail("a number of times is needed, as in 'and do this twice'")
            parts[:] = [Times(_joined(parts), times)]
            return True
        if joint == "but":
            if self.skip_any(_FIRST):
                self.skip(",")
                phrase = self.clause()
                parts[:0] = [] if phrase is None else [phrase]
                self.said_first = False
                return True
            if self.peek() == "not" and self.peek(1) in ("before", "until", "while", "when", "if", "unless", "after"):
                return self.not_before(parts)
            if self.peek() == "not" and self.banned_at() is None:
                self.place += 1
                self.limits_after(self.banned(takes_noun=True))
                return True
        if (comma or joint) and (opened := self.banned_at()):
            self.ban(opened)
            return True
        if (comma or joint) and self.peek() == "only" and self.peek(1) != "then":
            self.place = start
            return False
        if comma and self.peek() == "always" and self.peek(1) in self.lexicon.gerunds:
            self.place += 1
            self.cover = both(self.cover, self.condition())
            return True
        if (comma or joint in ("and", "but")) and self.peek() in ("always", "keep", "whenever", "if", "never") and joint != "while":
            if self.peek() == "if" and joint:
                self.place = start
                return False
            if self.peek() in ("always", "whenever"):
                phrase = self.clause()
                if phrase is not None:
                    parts[:] = [All((_joined(parts), phrase))]
                return True
        if joint == "but" and parts:
            phrase = self.clause()
            if phrase is None:
                return True
            if self.said_first or self.skip("before", "that"):
                self.said_first = False
                parts[:0] = [phrase]
            else:
                parts[:] = [All((_joined(parts), phrase))]
            return True
        if not joint and self.skip_any(_SCOPES):
            return True
        self.place = start
        return False

    def limits_after(self, command: _Command) -> None:
        commands = [command]
        while self.ban_goes_on(takes_noun=True):
            self.skip(",")
            self.place += self.peek() in ("and", "or")
            commands.append(self.banned(takes_noun=True))
        self.limits(commands)

    def not_before(self, parts: list[Phrase]) -> bool:
        """`open the door, but not before you have the key`."""
        self.skip("not")
        last = parts[-1] if parts else None
        if not isinstance(last, Moment):
            self.fail("it is not clear what may not happen: say it again, as in 'but never open a door before …'")
        command = replace(self.last, groups=(last.guard,), stop=False) if self.last else None
        assert command is not None
        self.limits([command])
        return True

    def together(self, phrase: Phrase) -> Phrase:
        """All parts at one moment."""
        if not isinstance(phrase, All) or not all(isinstance(part, Moment) for part in phrase.parts):
            self.fail("'at the same time' needs two things that can hold at one moment", self.tokens[self.place - 1])
        guard: Guard = ((),)
        for part in phrase.parts:
            assert isinstance(part, Moment)
            guard = both(guard, part.guard)
        return Moment(guard)

    def connects(self, word: str) -> bool:
        """Step over a connective, with or without a comma before it, or over a comma that stands for it."""
        comma = int(self.peek() == ",")
        at = comma
        if word == "then":
            at += self.peek(at) in ("and", "but")
            if found := self.then_ahead(at):
                self.place += at + found
                self.skip(",")
                return True
        elif word == "or" and self.peek(at) == "or":
            self.place += at + 1
            self.skip("alternatively") or self.skip("else")
            return True
        elif word == "and" and self.ahead((("and",), ("as", "well", "as")), at):
            at += self.ahead((("as", "well", "as"), ("and",)), at)
            special = self.then_ahead(at) or self.banned_at(at) or self.peek(at) in ("always", "whenever", "only")
            repeats = self.peek(at) == "do" and self.peek(at + 1) in ("this", "that", "it", "so")
            if special or repeats:
                return False
            self.place += at
            self.skip("also")
            return True
        if comma and self.comma_means() == word:
            self.place += 1
            return True
        return False

    def comma_means(self) -> str:
        """What a comma that comes next stands for: the next connective of its sentence, or `then` if there is none."""
        if self.peek() != ",":
            return ""
        place, depth, first = self.place + 1, 0, True
        after = self.place + 1
        started = self.place
        try:
            while place < len(self.tokens):
                self.place = place
                word = self.peek()
                depth += (word == "(") - (word == ")")
                closes = depth < 0 or word in (".", ";", "", "without", "but", "otherwise", "else", "unless")
                if closes or (word == "," and self.banned_at(1)):
                    break
                if depth == 0 and self.then_ahead():
                    return "" if place == after else "then"
                if depth == 0 and word in ("and", "or"):
                    if word == "and" and self.then_ahead(1):
                        return "then"
                    if word == "and" and (self.banned_at(1) or self.peek(1) in ("always", "whenever", "do", "only")):
                        break
                    return word if place > after else ""
                if first and (self.ahead(_ANY_ORDER) or self.ahead(_THIS_ORDER) or self.banned_at()):
                    return ""
                if first and word in ("always", "whenever", "only", "with"):
                    return ""
                first = False
                phrase = self.lexicon.noun_phrase(self.tokens, place)
                place = phrase.stop if phrase else place + 1
        finally:
            self.place = started
        if not self.candidates(after) and not self.begins_clause(after - self.place) and self.tokens[after].text not in ("(", "keep"):
            return ""
        if self.lexicon.noun_phrase(self.tokens, after) is None:
            self.note("a comma alone is read as 'then'; for parts in any order write 'and' between them")
        return "then"

    def clause(self) -> Phrase | None:
        """What comes after `if`, `once`, `before` and the like, and what they are about; else alternatives."""
        self.fillers()
        if self.ahead(_FIRST):
            self.skip_any(_FIRST)
            self.skip(",")
        if opened := self.banned_at():
            self.ban(opened)
            return None
        word = self.peek()
        if word == "after" and self.peek(1) not in ("that", "this") or (self.ahead(_WHEN) and not self.is_count()):
            self.place += 1 if word == "after" and not self.ahead(_WHEN) else self.ahead(_WHEN)
            if self.negated_ahead():
                guard = self.condition()
                self.need_comma("this")
                phrase = self.clause()
                return None if phrase is None else during(phrase, guard)
            self.subject()
            first = self.alternatives()
            self.need_comma(f"what comes {'after' if word == 'after' else 'first'}", word == "after")
            return self.after(first, self.rule_count(), self.alternatives_or_rule())
        if word == "before":
            self.place += 1
            self.subject()
            later = self.alternatives()
            self.need_comma("what comes before", True)
            rules = self.rule_count()
            phrase = self.alternatives_or_rule()
            if phrase is None:
                self.limit_rules(rules, until=self.guard_of(later))
                return None
            return Then(_flat(Then, [phrase, later])) if later is not None else phrase
        if word == "until":
            self.place += 1
            until = self.condition()
            self.need_comma("this")
            rules = self.rule_count()
            phrase = self.clause()
            if phrase is None:
                self.limit_rules(rules, until=until)
                return None
            if not isinstance(phrase, Moment):
                self.fail("'until' needs one thing to keep doing, or a ban")
            return Keep(phrase.guard, until)
        if word == "if":
            self.place += 1
            return self.conditional(self.condition())
        if word == "unless":
            self.place += 1
            condition = self.condition()
            self.need_comma("this")
            return self.unless(self.alternatives_or_rule(), condition)
        if self.skip_any((("whenever",), ("every", "time"), ("each", "time"), ("every", "time", "that"))):
            condition = self.condition()
            self.need_comma("this")
            answer = self.guard_of(self.limited())
            self.skip_any((("afterwards",), ("after", "that"), ("later",), ("then",)))
            self.rules.append(Whenever(condition, answer))
            return None
        if self.peek() == "only" and self.peek(1) != "then":
            self.place += 1
            return self.only(self.repeated())
        phrase = self.alternatives()
        return self.ordered(phrase)

    def negated_ahead(self) -> bool:
        """Whether a condition with `not` comes next."""
        place = self.place
        negated = self.subject() or self.peek() == "not"
        self.place = place
        return negated

    def is_count(self) -> bool:
        return self.peek() == "once" and not self.begins_clause(1)

    def need_comma(self, what: str, required: bool = False) -> None:
        if not self.skip(","):
            if self.peek() != "then" and (required or not self.begins_clause(0)):
                if not self.peek() or self.peek() in (".", ";"):
                    self.fail(f"something is missing: what is to be done {'then' if what == 'this' else 'as well'}")
                self.fail(f"a comma is needed between {what} and the rest")
        self.skip("then")

    def rule_count(self) -> int:
        return len(self.rules)

    def alternatives_or_rule(self) -> Phrase | None:
        self.fillers()
        if opened := self.banned_at():
            self.ban(opened)
            return None
        return self.alternatives()

    def limit_rules(self, first: int, until: Guard = (), after: Guard = ((),)) -> None:
        """Rules from a place on only hold until or after something."""
        for n, rule in enumerate(self.rules[first:], start=first):
            if isinstance(rule, Ban):
                self.rules[n] = replace(rule, until=until or rule.until, after=after if after != ((),) else rule.after)
            elif isinstance(rule, Hold) and until:
                self.rules[n] = replace(rule, until=until)
            else:
                self.fail("this rule cannot be limited: say it without 'until' and 'after'", self.tokens[self.place - 1])

    def guard_of(self, phrase: Phrase | None) -> Guard:
        """What holds when a phrase is done, if it is done in one moment."""
        if not isinstance(phrase, Moment):
            self.fail("one thing that holds at a moment is needed here", self.tokens[self.place - 1])
        return phrase.guard

    def after(self, first: Phrase | None, rules: int, phrase: Phrase | None) -> Phrase | None:
        """`once A, B`; B may be a ban."""
        if phrase is None:
            self.limit_rules(rules, after=self.guard_of(first))
            return first
        return phrase if first is None else Then(_flat(Then, [first, phrase]))

    def conditional(self, condition: Guard) -> Phrase:
        """`if A, B, otherwise C`, from behind A."""
        self.need_comma("this")
        part = self.alternatives()
        if part is None:
            self.fail("'if' needs something to do", self.tokens[self.place - 1])
        return self.otherwise(condition, part)

    def otherwise(self, condition: Guard, part: Phrase) -> Phrase:
        start = self.place
        self.skip(",") or (self.peek(1) in ("otherwise", "else") and self.skip(";"))
        self.skip("and") or self.skip("or")
        if self.skip("otherwise") or self.skip("else"):
            self.skip(",")
            return If(condition, part, self.alternatives())
        self.place = start
        self.note("'if' is looked at when its turn comes; where it does not hold there is nothing to do: add 'otherwise …' for that case, or say 'when' to wait for it")
        return If(condition, part)

    def unless(self, phrase: Phrase | None, condition: Guard) -> Phrase | None:
        if phrase is None:
            return None
        self.note("'unless' is read as 'or': it is done as well when that holds; for a ban write 'without', as in 'go to a ball without …'")
        if isinstance(phrase, Moment):
            return Moment(tuple(dict.fromkeys(phrase.guard + condition)))
        return Any((phrase, Moment(condition)))

    def only(self, phrase: Phrase | None) -> Phrase | None:
        """`only open a door after …`: something to do, and a ban before that."""
        self.skip("only")
        guard = self.guard_of(phrase)
        if self.skip_any((("after",), ("once",), ("when",), ("if",), ("as", "soon", "as"))):
            place = self.place
            self.rules.append(Ban(guard, until=self.condition()))
            del place
            return phrase
        if self.skip_any(_WHILE) or self.skip("with"):
            condition = self.holding() if self.tokens[self.place - 1].text == "with" else self.condition()
            self.rules.append(Ban(both(guard, negation(condition))))
            return phrase
        return self.fail("'only' needs 'after', 'when' or 'while' behind what it is about")

    def ordered(self, phrase: Phrase | None) -> Phrase | None:
        """`A before B`, `A after B`, `A once B`, `A if B`, `A unless B`, `A only after B`."""
        while True:
            if self.peek() == "only" and self.peek(1) in ("after", "once", "when", "if", "while", "with", "as"):
                phrase = self.only(phrase)
            elif self.peek() == "before" and self.peek(1) not in ("that", "this"):
                self.place += 1
                self.subject()
                later = self.alternatives()
                parts = [part for part in (phrase, later) if part is not None]
                phrase = Then(_flat(Then, parts))
            elif (self.peek() == "after" and self.peek(1) not in ("that", "this", "which")) or (
                self.ahead(_WHEN) and not self.is_count()
            ):
                self.place += 1 if self.peek() == "after" and not self.ahead(_WHEN) else self.ahead(_WHEN)
                if self.negated_ahead():
                    phrase = None if phrase is None else during(phrase, self.condition())
                    continue
                self.subject()
                earlier = self.alternatives()
                parts = [part for part in (earlier, phrase) if part is not None]
                phrase = Then(_flat(Then, parts))
            elif self.peek() == "if" and phrase is not None:
                self.place += 1
                phrase = self.otherwise(self.condition(), phrase)
            elif self.peek() == "unless":
                self.place += 1
                phrase = self.unless(phrase, self.condition())
            else:
                return phrase

    def alternatives(self) -> Phrase | None:
        mentioned = len(self.mentioned)
        parts = [self.conjunction()]
        while self.connects("or"):
            parts.append(self.conjunction())
        if len(parts) > 1:
            self.mentioned[mentioned:] = [[phrase for group in self.mentioned[mentioned:] for phrase in group]]
        found = [part for part in parts if part is not None]
        if len(found) < 2:
            return found[0] if found else None
        moments = [part for part in found if isinstance(part, Moment)]
        if len(moments) == len(found):
            return Moment(tuple(dict.fromkeys(cube for part in moments for cube in part.guard)))
        for n, part in enumerate(found):
            if isinstance(part, All) and (n, self.place) not in self.closed:
                self.note(f"'and' binds tighter than 'or': read as '{say(Any(tuple(found)), self.words)}'; brackets group otherwise")
        return Any(tuple(found))

    def conjunction(self) -> Phrase | None:
        mentioned = len(self.mentioned)
        parts = [self.limited()]
        bare: list[bool] = []
        while True:
            ahead = int(self.peek() == ",")
            is_sequel = self.peek(ahead) == "and" and self.then_ahead(ahead + 1)
            if is_sequel or not self.connects("and"):
                break
            self.fillers()
            bare.append(not self.verbs(self.place))
            parts.append(self.limited())
        found = [part for part in parts if part is not None]
        if len(parts) > 1:
            self.mentioned[mentioned:] = [[phrase for group in self.mentioned[mentioned:] for phrase in group]]
        self.listed_things = bool(bare) and all(bare)
        return _all(found) if found else None

    def limited(self) -> Phrase | None:
        phrase = self.repeated()
        while True:
            if self.peek() == "without" and phrase is not None and (opened := self.banned_at()):
                outer, self.rules = self.rules, []
                start = self.place
                self.ban(opened)
                rules, self.rules = self.rules, outer
                if len(rules) == 1 and isinstance(rules[0], Ban) and rules[0].until == () and rules[0].after == ((),):
                    self.low_ban = (self.place, self.text[self.tokens[start].start : self.tokens[self.place - 1].end])
                    phrase = Without(phrase, rules[0].avoided)
                else:
                    phrase = Ruled(phrase, tuple(rules))
            elif self.skip("until"):
                phrase = Keep(self.guard_of(phrase), self.condition())
            else:
                return phrase

    def repeated(self) -> Phrase | None:
        phrase = self.unit()
        while True:
            self.fillers_behind()
            start = self.place
            if self.skip("first"):
                self.said_first = True
            elif self.skip("again"):
                if len(self.mentioned) < 2 and not isinstance(phrase, Moment):
                    self.fail("'again' needs something that was done before")
                phrase = Again(self.guard_of(phrase))
            elif self.skip("at", "most"):
                times = self.times()
                if times is None:
                    self.fail("a number of times is needed after 'at most'")
                self.rules.append(AtMost(self.guard_of(phrase), times))
                return None
            else:
                self.skip("at", "least")
                times = self.times()
                if times is None:
                    self.place = start
                    return phrase
                if times > 1 and phrase is not None:
                    phrase = Times(phrase, times)

    def fillers_behind(self) -> None:
        """Step over words that change nothing behind a clause."""
        while self.ahead(_BEHIND) and not self.ahead((("as", "well", "as"),)):
            self.skip_any(_BEHIND)

    listed_things = False
    low_ban: tuple[int, str] = (-1, "")
    closed: frozenset[tuple[int, int]] = frozenset()

    def unit(self) -> Phrase | None:
        self.fillers()
        opened = self.tokens[self.place]
        if self.skip("("):
            phrase = self.sentence()
            while self.skip(";") or self.skip("."):
                self.skip("then")
                more = self.sentence()
                phrase = Then(_flat(Then, [p for p in (phrase, more) if p is not None]))
            if not self.skip(")"):
                self.fail("this bracket is never closed", opened)
            return phrase
        if ban := self.banned_at():
            self.ban(ban)
            return None
        if self.peek() == "both" and self.verbs(self.place + 1):
            self.place += 1
            return self.conjunction()
        if self.skip("either"):
            return self.choice(opened)
        if self.skip("wait") or self.skip("waits") or self.skip("waiting"):
            if self.skip("until") or self.skip("for"):
                return Moment(self.condition())
            return self.within(Moment(((),)))
        if self.peek() in ("stop", "stops", "stopping") and self.peek(1) in self.lexicon.gerunds:
            self.place += 1
            command = self.command()
            return Stop(command.guard)
        if self.peek() in ("keep", "keeps", "always", "remain", "continue") and not self.verbs(self.place):
            return self.kept()
        negated = self.subject()
        if negated:
            self.fail("'not' cannot stand here: say 'never', 'avoid' or 'without' for what may not happen")
        if opened := self.banned_at():  # type: ignore[assignment]
            self.ban(opened)  # type: ignore[arg-type]
            return None
        self.fillers()
        command = self.neither() or self.command()
        phrase = self.goal(command)
        if command.pattern[0] == "bring" and command.pattern[2:3] == ("to",) or command.pattern[2:] == ("to", "{}") and len(command.phrases) == 2:
            self.note_bring(command)
        return None if phrase is None else self.within(phrase)

    def note_bring(self, command: _Command) -> None:
        other = self.meaning(("put", "{}", "next", "to", "{}"), command.phrases) if "put {} next to {}" in self.lexicon.meanings else None
        if other is not None:
            said = self.words.guard(other.guard)
            self.note(f"'{' '.join(command.pattern).replace('{}', '…')}' is read as being there with it in hand; to leave it there write '{said}'")

    def neither(self) -> _Command | None:
        """`touch neither the key nor the box`."""
        if self.peek(1) != "neither" or not self.lexicon.by_first.get(self.peek()):
            return None
        removed = self.tokens.pop(self.place + 1)
        commands = [self.banned(takes_noun=False)]
        while self.skip("or"):
            commands.append(self.banned(takes_noun=True))
        del removed
        cubes = tuple(dict.fromkeys(cube for command in commands for cube in command.avoided))
        none = replace(commands[0].phrases[0], count=NONE)
        return replace(commands[0], groups=(cubes,), phrases=(none, *commands[0].phrases[1:]))

    def within(self, phrase: Phrase) -> Phrase:
        """`while …`, `with …`, `carrying …` behind a command."""
        while True:
            ahead = self.ahead(_WHILE)
            if ahead and self.banned_at(ahead, bare=False) is None and self.peek(ahead) != "always":
                self.place += ahead
                phrase = during(phrase, self.condition())
            elif ahead and self.peek(ahead) == "always" and self.banned_at(ahead, bare=False) is None:
                self.place += ahead + 1
                self.cover = both(self.cover, self.condition())
            elif ahead:
                opened = self.banned_at(ahead)
                assert opened is not None
                self.place += ahead
                self.ban(opened)
            elif self.skip("with") or self.skip("using"):
                phrase = during(phrase, self.holding())
            elif self.peek() in ("carrying", "holding") and self.verbs(self.place):
                phrase = during(phrase, self.condition())
            else:
                return phrase

    def kept(self) -> Phrase | None:
        """`keep holding a key (until …)`, `always hold a key`."""
        always = self.skip("always")
        if always and (opened := self.banned_at()):
            self.ban(opened)
            return None
        if self.peek() in ("keep", "keeps", "remain", "continue"):
            self.place += 1
            self.skip("to")
        guard = self.condition()
        if self.skip("until"):
            return Keep(guard, self.condition())
        self.skip_any(_SCOPES)
        self.rules.append(Hold(guard))
        return None

    def choice(self, opened: Token) -> Phrase:
        """`either A, then B, or C`, from behind `either`."""

        def branch() -> Phrase:
            parts = [self.conjunction()]
            while self.connects("then"):
                parts.append(self.conjunction())
            found = [part for part in parts if part is not None]
            if not found:
                self.fail("a branch needs something to do")
            return _joined(found)

        branches = [branch()]
        while self.skip(",", "or") or self.skip("or"):
            branches.append(branch())
        if len(branches) == 1:
            self.fail("'either' needs an 'or' in the same sentence", opened)
        if all(isinstance(each, Moment) for each in branches):
            return Moment(tuple(dict.fromkeys(c for each in branches if isinstance(each, Moment) for c in each.guard)))
        return Choice(tuple(branches))

    # Numbered steps

    def has_steps(self) -> bool:
        """Whether a text is one of numbered steps."""
        if [self.peek(i) for i in range(3)] == ["main", "task", ":"]:
            return True
        return self.peek().isdigit() and self.peek(1) in (".", ")", ":")

    def steps(self) -> Task:
        self.skip("main", "task", ":")
        sections = {0: self.section()}
        while self.skip("routine"):
            number = self.number("the number of a routine")
            if number in sections:
                self.fail(f"routine {number} is described twice")
            if not self.skip(":"):
                self.fail("a colon is needed after the name of a routine")
            sections[number] = self.section()
        if self.peek():
            self.fail(f"'{self.peek()}' is not understood here; expected the number of a step, or 'Routine n:'")
        outcomes = [step.outcome for section in sections.values() for step in section.values()]
        if outcomes == [ACCEPTED]:
            return flat_task([], accepting=[0])
        if outcomes == [REJECTED]:
            return flat_task([], rejecting=[0])
        if set(outcomes) != {RUNNING}:
            self.fail("a step that only says 'finish' or 'fail' can only stand alone: it would ask for nothing")
        edges = [self.edges(number, sections) for number in sections]
        if len(edges) == 1:
            return Task((automata.machine_without_gaps(edges[0]),))
        return hierarchy([machine(each) for each in edges])

    def number(self, what: str) -> int:
        if not self.peek().isdigit():
            self.fail(f"{what} is needed")
        return int(self.take().text)

    def section(self) -> _Section:
        steps: _Section = {}
        while self.peek().isdigit():
            token = self.tokens[self.place]
            number = self.number("the number of a step")
            if number in steps or number == 0:
                self.fail(f"there is already a step {number}" if number else "steps are numbered from 1", token)
            if not (self.skip(".") or self.skip(")") or self.skip(":")):
                self.fail("a full stop is needed after the number of a step")
            steps[number] = self.step()
        if not steps:
            self.fail("a numbered step is needed")
        return steps

    def step(self) -> _Step:
        is_exclusive = self.skip("either")
        options = []
        outcome = next((o for word, o in _ENDS.items() if self.skip(word)), RUNNING)
        if outcome == RUNNING and not self.skip("stay", "here"):
            options.append(self.option())
            while any(self.skip(*way) for way in ((",", "or"), (";", "or"), ("or",))):
                options.append(self.option())
        if not self.skip(".") and self.peek() and not self.peek().isdigit():
            self.fail(f"'{self.peek()}' is not understood here; expected then, and, or, or a full stop")
        return _Step(options, is_exclusive, outcome)

    def option(self) -> _Option:
        guard: Guard = ((),) if self.peek() == "do" else self.moment()
        routine = target = reward = None
        if self.continues("do"):
            if not self.skip("routine"):
                self.fail("a routine is needed, as in 'do routine 1'")
            routine = self.number("the number of a routine")
        routine_token = self.tokens[self.place - 1]
        if any(self.continues(*words, "step") for words in (("continue", "with"), ("go", "to"), ("go", "back", "to"))):
            target = self.number("the number of a step")
        else:
            ends = (ACCEPT if end == ACCEPTED else REJECT for word, end in _ENDS.items() if self.continues(word))
            target = next(ends, None)
        target_token = self.tokens[self.place - 1]
        if self.skip("(", "reward"):
            try:
                reward = float(self.peek())
            except ValueError:
                self.fail("a number is needed as the reward")
            self.place += 1
            if not self.skip(")"):
                self.fail("a closing bracket is needed after the reward")
        return _Option(guard, routine, target, reward, routine_token, target_token)

    def continues(self, *words: str) -> bool:
        """Step over words, with or without a comma, `and` or `then` before them."""
        before = ((), (",",), ("and",), ("then",), (",", "and"), (",", "then"), ("and", "then"), (",", "and", "then"))
        return any(self.skip(*join, *words) for join in before)

    def edges(self, routine: int, sections: dict[int, _Section]) -> list[Edge]:
        """The edges of one section; number 0 is the main task."""
        section = sections[routine]
        state = {number: u for u, number in enumerate(section)} | {ACCEPT: ACCEPT, REJECT: REJECT}
        index = {None: NO_CALL} | {number: m for m, number in enumerate(sections)}
        edges = []
        for number, step in section.items():
            guards = [option.guard for option in step.options]
            for option, cubes in zip(step.options, _exclusive(guards) if step.is_exclusive else guards, strict=True):
                target = option.target
                if target is None:
                    target = number + 1 if number + 1 in section else ACCEPT
                if target not in state:
                    known = ", ".join(map(str, section))
                    self.fail(f"there is no step {target}; the steps are {known}", option.target_token)
                if option.routine not in index or option.routine == 0:
                    known = ", ".join(str(n) for n in sections if n)
                    known = f"the routines are {known}" if known else "no routine is described"
                    self.fail(f"there is no routine {option.routine}; {known}", option.routine_token)
                reward = float(target == ACCEPT and routine == 0) if option.reward is None else option.reward
                edges += [Edge(state[number], state[target], cube, reward, index[option.routine]) for cube in cubes]
        return edges


def _exclusive(guards: list[Guard]) -> list[Guard]:
    """Guards of which at most one holds at a time: where several would, none does."""
    if all(len(cubes) == 1 and len(cubes[0]) == 1 for cubes in guards):
        literals = [cubes[0][0] for cubes in guards]
        return [((x, *(-y for j, y in enumerate(literals) if j != i)),) for i, x in enumerate(literals)]
    diagrams = Diagrams()
    functions = [diagrams.disjunction(cubes) for cubes in guards]
    alone: list[Guard] = []
    for i, function in enumerate(functions):
        for other in functions[:i] + functions[i + 1 :]:
            function = diagrams.both(function, diagrams.negate(other))
        alone.append(tuple(diagrams.cover(function, function)))
    return alone


def _flat(kind: type[Then] | type[All], parts: Sequence[Phrase]) -> tuple[Phrase, ...]:
    """The parts, those of the same kind opened."""
    return tuple(one for part in parts for one in (part.parts if isinstance(part, kind) else (part,)))


def _joined(parts: Sequence[Phrase]) -> Phrase:
    return parts[0] if len(parts) == 1 else Then(_flat(Then, parts))


def _all(parts: Sequence[Phrase]) -> Phrase:
    return parts[0] if len(parts) == 1 else All(_flat(All, parts))
