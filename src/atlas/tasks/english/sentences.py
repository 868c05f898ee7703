"""Sentences of an English text, read into phrases: order, alternatives, repetition, conditions and bans."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NoReturn

from atlas.errors import LevelNeededError, Token, listed
from atlas.tasks.english.commands import AUXILIARIES, PERFECT, SUBJECTS, WHY, Command, CommandReader, phrases
from atlas.tasks.english.lexicon import ALL, BRING, HOLD, NONE, NUMBERS, PUT, REACH, SEVERAL, Guard, Thing
from atlas.tasks.english.phrases import (
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
    both,
    during,
    negation,
    say,
)
from atlas.vocabulary import ACCEPTED, REJECTED, Vocabulary

MOST_TIMES: Final = 50
ENDS: Final = {"finish": ACCEPTED, "return": ACCEPTED, "fail": REJECTED}
"""How a numbered step ends."""

FILLERS: Final = phrases(
    """
    please; kindly; just; simply; now; ok; okay; hey; hi; hello; well; so; also; too; as well; robot ,; agent ,;
    hey robot; hey robot ,; thanks; thank you; for me; eventually; at some point; at some time; sometime;
    in the end ,; i want you to; i would like you to; i need you to; we want you to; can you; could you; would you;
    will you; let us; hey there; hi there; hello there; would you mind; do you mind; could you possibly;
    can you possibly; possibly; be so kind as to; would you be so kind as to; i would love you to;
    i would love for you to; whatever you do; whatever happens; go ahead and; it would be great if you could;
    it would be nice if you could; all you have to do is; do not forget to; never forget to; um; uh; erm; i think;
    task :; goal :; mission :; your task :; your goal :; your mission :; your job :; all you need to do is;
    what you have to do is; what i want you to do is; the idea is to; your task is to; your goal is to;
    your mission is to; your job is to; the task is to; the goal is to; the aim is to; the mission is to;
    it is your task to; make sure to; make sure that; make sure; be sure to; try to; remember to; go and
    """
)
"""Words that change no meaning at the beginning of a clause."""
FILLERS_BEHIND: Final = phrases("please; too; as well; now; for me; thanks; thank you; eventually; at some point; also")
"""Words that change no meaning at its end."""
_THEN: Final = phrases(
    """
    then; finally; lastly; at last; afterwards; afterward; after that; after this; after which; later; later on; next;
    followed by; only then; then finally; before finally; subsequently; thereafter; end by; finish by; to finish;
    second; secondly; third; thirdly; fourth; fifth; last
    """
)
_FIRST: Final = phrases(
    """
    first; firstly; first of all; first things first :; first things first; start by; start off by; begin by; to begin;
    to begin with; to start; to start with; initially
    """
)
_BANS: Final = phrases(
    """
    never; never ever; do not; do not ever; does not; must not; must never; should not; should never; shall not;
    shall never; may not; may never; can not; can never; will not; have to never; has to never; are not to;
    are not allowed to; is not allowed to; without; without ever; make sure not to; make sure never to; be sure not to;
    make sure to never; making sure not to; making sure to never; making sure never to; try not to; be careful not to;
    being careful not to; take care not to; taking care not to
    """
)
_AVOIDS: Final = phrases(
    """
    avoid; avoiding; avoids; refrain from; refraining from; stay away from; staying away from; stays away from;
    keep away from; keeping away from; keeps away from; stay clear of; steer clear of; keep clear of; try to avoid;
    be careful to avoid; make sure to avoid; do not go anywhere near; never go anywhere near
    """
)
"""Bans that speak of things as well as of doing something."""
_DUTIES: Final = phrases("always; must; should; have to; has to; until then; meanwhile")
"""What may stand before a ban."""
_SCOPES: Final = phrases(
    """
    at any time; at all times; at any point; at all; ever; the whole time; the entire time; all the time; all along;
    throughout; in the meantime; meanwhile; along the way; on the way
    """
)
_WHILE: Final = phrases("while; while still; whilst; as long as; so long as")
_WHEN: Final = phrases("once; when; as soon as; the moment; upon; having; after having; now that")
_WHENEVER: Final = phrases("whenever; every time; each time; every time that")
_SINCE: Final = phrases("after; once; as soon as")
_UNLESS: Final = phrases("unless; without; except when; except while; except if")
_AT_THAT_TIME: Final = phrases("when; if; whenever; with")
_AND: Final = phrases("and; as well as")
_ANY_ORDER: Final = phrases("in any order; in whatever order; in either order; the order does not matter")
_THIS_ORDER: Final = phrases(
    """
    in that order; in this order; in order; in the given order; one after the other; one after another; one by one;
    in turn; in sequence
    """
)
_TOGETHER: Final = phrases("at the same time; at the same moment; at once; simultaneously")
_COUNTS: Final = {"once": 1, "twice": 2, "thrice": 3}
_TABLES: Final = (
    *(FILLERS, FILLERS_BEHIND, SUBJECTS, AUXILIARIES, PERFECT, _THEN, _FIRST, _BANS, _AVOIDS, _DUTIES, _SCOPES),
    *(_WHILE, _WHEN, _WHENEVER, _SINCE, _UNLESS, _AT_THAT_TIME, _AND, _ANY_ORDER, _THIS_ORDER, _TOGETHER),
)
_OTHERS: Final = phrases(
    """
    a; an; the; any; some; this; that; every; each; all; of; no; another; different; couple; one; ones; object;
    objects; thing; things; item; items; something; anything; which; is; are; not; neither; either; both; or; and;
    but; before; after; until; unless; if; else; only; otherwise; time; times; least; most; more; than; in; your;
    hand; hands; with; using; always; keep; keeps; keeping; stop; stops; stopping; wait; waits; waiting; continue;
    remain; other; except; for; again; what; whatever; everything; colour; color; coloured; colored; to; order;
    alternatively; it; do; so; main; task; routine; step; stay; here; reward; go; back
    """
)
_GRAMMAR: Final = frozenset({*_COUNTS, *NUMBERS, *ENDS}).union(
    *(phrase for table in (*_TABLES, _OTHERS) for several in table.values() for phrase in several)
)
"""All words that are known besides those of a vocabulary."""


class SentenceReader(CommandReader):
    """Each method reads what its name says and returns its meaning; None where only a rule was read."""

    def __init__(self, text: str, vocabulary: Vocabulary, things: Sequence[str] | None = None) -> None:
        super().__init__(text, vocabulary, _GRAMMAR)
        self.things = None if things is None else [self.thing(thing) for thing in things]
        """What is in the level."""
        self.rules: list[Rule] = []
        """Those of the sentence that is being read."""
        self.cover: Guard = ((),)
        """What must hold at each moment of the sentence."""
        self.said_first = False
        """Whether `first` stood behind the last command."""
        self.order_said = False
        """Whether `in any order` was said."""
        self.made_sure = False
        """Whether `make sure` stood before this clause: then it may tell what is, not what to do."""
        self.in_front = False
        """Whether what ends with a comma is read, as in `after you go to a ball, …`."""
        self.then_later = False
        """Whether the last comma that was looked at has a word for `then` behind it."""
        self.bare_list = False
        """Whether the last `A and B` repeated its verb silently."""
        self.commas: dict[int, str] = {}
        """The next connective behind commas, by their places; nothing where there is none."""
        self.low_ban = (-1, "")
        """Where the last `without` that no comma precedes ended, and its words."""
        self.closed: list[Phrase | None] = []
        """Phrases that were written in brackets, or with `both`."""

    def then_ahead(self, start: int = 0) -> int:
        """How many tokens a word for `then` has that comes next, `next to` excepted."""
        found = self.ahead(_THEN, start)
        if found and self.peek(start) == "next" and self.peek(start + found) == "to":
            return 0
        if self.peek(start) in ("second", "third", "fourth", "fifth", "last"):
            follows = self.peek(start + found) in (",", "the", "a", "an", "to")
            return found if follows or self.verbs(self.place + start + found) else 0
        return found

    def fillers(self) -> None:
        """Step over words that change nothing."""
        moved = True
        while moved:
            self.made_sure |= self.peek() == "make" and self.peek(1) == "sure"
            moved = self.skip_any(FILLERS)
            if self.peek() == "go" and self.peek(1) in self.lexicon.verbs and self.peek(1) not in ("up", "back"):
                self.place, moved = self.place + 1, True
            if moved:
                self.skip(",")

    def goal(self, command: Command) -> Phrase | None:
        """What a command asks to be done."""
        if command.count == NONE:
            self.rules.append(Ban(command.avoided))
            return None
        if command.count in (ALL, SEVERAL):
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
                self.fail(
                    f"{command.count} is not possible: from 1 to {MOST_TIMES} is allowed", self.tokens[self.place - 1]
                )
            noun = command.phrases[0].things[0].words()
            self.note(f"a task cannot tell one {noun} from another: the same one may count {command.count} times")
            return Times(phrase, command.count)
        return phrase

    def all_things(self, command: Command) -> Phrase:
        """All of what is named, as many as the level has."""
        slot = next(n for n, phrase in enumerate(command.phrases) if phrase.count in (ALL, SEVERAL))
        phrase = command.phrases[slot]
        names = listed([thing.words() for thing in phrase.things])
        token = self.tokens[phrase.stop - 1]
        if self.things is None:
            self.fail(
                f"'{names}' stands for all there are: a level is needed to know which; name them, or say how many",
                token,
                LevelNeededError,
            )
        counts: dict[Thing, int] = {}
        for thing in self.things:
            for wanted in phrase.things:
                fits = wanted.noun in ("", thing.noun) and wanted.attributes <= thing.attributes
                if fits and not wanted.excluded & thing.attributes:
                    counts[thing] = counts.get(thing, 0) + 1
        if not counts:
            self.fail(f"there is no {names} in the level", token, LevelNeededError)
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
            return command.avoided if negated else negation(command.avoided)
        if self.any_of(command).count not in (1, SEVERAL):
            self.fail("a condition cannot count: name the things", self.tokens[self.place - 1])
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
        if word == "not" or word in self.lexicon.gerunds or self.ahead(SUBJECTS, 1):
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
        while found := self.ahead(FILLERS, at) or self.ahead(_SCOPES, at):
            if max(self.ahead(_BANS, at), self.ahead(_AVOIDS, at)) >= found:
                break
            at += found + (self.peek(at + found) == ",")
        if found := self.ahead(SUBJECTS, at):
            at += found
        while found := self.ahead(_DUTIES, at):
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
        if self.without_thing():
            self.place += 1
            self.rules.append(Ban(self.holding()))
            return
        self.place += opened[0]
        commands = [self.banned(opened[1])]
        while self.ban_goes_on(opened[1]):
            self.skip(",")
            self.place += self.peek() in ("and", "or", "but")
            if more := self.banned_at():
                self.place += more[0]
            commands.append(self.banned(opened[1]))
        self.limits(commands)

    def banned(self, takes_noun: bool) -> Command:
        self.skip("ever")
        stopping = self.peek() in ("stop", "stopping") and self.peek(1) in self.lexicon.gerunds
        self.place += stopping
        self.subject()
        if takes_noun and self.noun_phrase(self.place) and not self.verbs(self.place):
            phrase = self.noun_phrase(self.place)
            assert phrase is not None
            patterns = [p for p in (REACH, *self.lexicon.meanings) if p in self.lexicon.meanings and p.count("{}") == 1]
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

    def limits(self, commands: list[Command]) -> None:
        """`unless …`, `while …`, `until …`, `more than twice` behind a ban; then the rules that it makes."""
        avoided = tuple(dict.fromkeys(cube for command in commands for cube in self.any_of(command).avoided))
        stops = [command.stop for command in commands]
        until: Guard = ()
        after: Guard = ((),)
        during: Guard = ((),)
        times = max(command.count for command in commands) - 1
        while True:
            if self.skip_any(_SCOPES) or self.skip("first"):
                continue
            if self.skip_any(_UNLESS):
                during = both(during, negation(self.condition()))
            elif self.skip_any(_WHILE) or self.skip_any(_AT_THAT_TIME):
                held = self.tokens[self.place - 1].text == "with"
                during = both(during, self.holding() if held else self.condition())
            elif self.skip("until") or self.skip("before"):
                until = self.condition()
            elif self.peek(1) not in ("that", "this") and self.skip_any(_SINCE):
                after = self.condition()
            elif self.skip("more", "than"):
                times = self.times() or self.fail("'more than' needs a number here, as in 'more than twice'")
            elif (count := self.times()) is not None:
                times = count - 1
            else:
                break
        self.fillers_behind()
        plain = during == ((),) and after == ((),)
        if any(stops) and (times > 0 or not all(stops) or not plain):
            self.fail("what may not stop can only be limited by 'until': say it alone", self.tokens[self.place - 1])
        if times > 0 and (until or not plain):
            self.fail("how often and when do not go together in a ban", self.tokens[self.place - 1])
        if any(stops):
            self.rules += [Hold(command.avoided, until, required=False) for command in commands]
        elif times > 0:
            self.rules.append(AtMost(avoided, times))
        else:
            self.rules.append(Ban(both(avoided, during), until, after))

    def any_of(self, command: Command) -> Command:
        """A command whose things may be any: `another` and `no` mean nothing there."""
        if command.count == NONE or any(phrase.another for phrase in command.phrases):
            self.fail("'no' and 'another' cannot be said in a ban or a condition", self.tokens[self.place - 1])
        return command

    def holding(self) -> Guard:
        """`the key` behind `with`: what is held then."""
        phrase = self.noun_phrase(self.place)
        if phrase is None or HOLD not in self.lexicon.meanings:
            self.fail("'with' needs something to hold, as in 'with the …'")
        resolved = self.resolve(tuple(HOLD.split()), [phrase])
        command = self.meaning(tuple(HOLD.split()), resolved) if resolved else None
        if command is None:
            self.complain_about(tuple(HOLD.split()), [phrase], phrase.stop)
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
            times = NUMBERS[word] if word in NUMBERS else int(word[:9])
            if not 1 <= times <= MOST_TIMES:
                self.fail(f"{times} times is not possible: from 1 to {MOST_TIMES} is allowed")
            self.place += 2
            return times
        return None

    def begins_clause(self, ahead: int) -> bool:
        """Whether something that happens is told from there on."""
        place = self.place + ahead
        return bool(self.ahead(SUBJECTS, ahead) or self.verbs(place) or self.said_of_things(place))

    # Sentences

    def sentences(self) -> Phrase:
        parts: list[Phrase] = []
        rules: list[Rule] = []
        while self.peek():
            beside = self.peek() == "also" or (self.peek() == "and" and self.peek(1) == "also")
            later = bool(self.then_ahead(int(self.peek() == "and")) and parts)
            last = parts[-1] if parts else None
            phrase: Phrase | None
            if self.peek() in ("otherwise", "else") and isinstance(last, If) and last.other is None:
                self.place += 1
                self.skip(",")
                phrase = replace(last, other=self.needed(self.sentence()))
                parts.pop()
            else:
                if parts or rules:
                    self.skip("and")
                phrase = self.sentence()
            self.expect_end()
            if phrase is None and later:
                while self.skip(".") or self.skip(";"):
                    pass
                goals = self.until_rules()
                if not goals and not self.peek():
                    self.too_late()
                own, self.rules = tuple(self.rules), []
                goals += [self.sentences()] if self.peek() else []
                parts.append(self.ruled_later(parts, _joined(goals), own))
            elif phrase is None:
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
            self.rules = rules
            parts, rules = self.until_rules(), []
            if not parts:
                self.fail(
                    "only what may not happen is said: say what to do as well, as in 'go to …, but never …'",
                    self.tokens[0],
                )
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
            self.fail("'next to' cannot tell which one is meant: a task knows things by what they are")
        if self.ahead(_ANY_ORDER):
            self.fail("'in any order' and 'then' do not go together: write 'and' between the parts")
        if self.verbs(self.place) and self.peek() not in self.lexicon.attributes:
            self.fail(f"a word such as 'then', 'and' or 'or' is needed before '{self.peek()}'")
        why = WHY.get(self.peek())
        self.fail(
            f"'{self.peek()}' is not understood here"
            + (f": {why}" if why else "; expected then, and, or, before, after, without, while, twice or a full stop")
        )

    def sentence(self) -> Phrase | None:
        """One sentence under its own rules; None, with the rules left in `self.rules`, if it only bans."""
        outer, self.rules, cover, self.cover = self.rules, [], self.cover, ((),)
        any_order = self.order_said = self.skip_any(_ANY_ORDER)
        self.skip(",")
        self.fronted()
        phrase = self.chain()
        if any_order and not isinstance(phrase, All):
            self.fail("'in any order' needs several things with 'and' between them", self.tokens[self.place - 1])
        if self.low_ban[0] == self.place and isinstance(phrase, Then | All | Any):
            words = self.low_ban[1]
            self.note(f"'{words}' covers only the step before it; to cover the whole sentence write ', {words}'")
        if self.cover != ((),):
            if phrase is None:
                self.limit_rules(0, during=self.cover)
            else:
                phrase = self.during(phrase, self.cover)
        own, self.rules, self.cover = self.rules, outer, cover
        if phrase is None:
            self.rules = outer + own
        return Ruled(phrase, tuple(own)) if own and phrase is not None else phrase

    def fronted(self) -> None:
        """`While carrying a key, …`, `With the key, …`, `Without opening a door, …`: what covers the whole sentence."""
        while True:
            start = self.place
            self.fillers()
            if self.skip_any(_WHILE):
                guard = self.condition()
            elif self.skip("with") or self.skip("using"):
                guard = self.holding()
            elif self.peek() in self.lexicon.holding and self.verbs(self.place):
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

    def chain(self) -> Phrase | None:
        """`A, then B, and finally C`, with the rules and asides between them."""
        self.openings()
        parts: list[Phrase] = []
        self.add_clause(parts)
        aside = False
        ahead = int(self.peek() == ",")
        if not parts and self.then_ahead(ahead + (self.peek(ahead) == "and")):
            parts += self.until_rules()
        while True:
            if self.said_first and len(parts) > 1:
                self.fail(
                    "'first' stands behind a later step: say the steps in their order", self.tokens[self.place - 1]
                )
            self.said_first = False
            if self.aside(parts):
                aside = True
                continue
            if self.connects("then"):
                self.openings()
                if parts and (opened := self.banned_at()):
                    self.banned_later(opened, parts)
                else:
                    self.add_clause(parts)
                    if len(parts) > 1:
                        self.note_order(parts)
            elif not parts and (self.skip(",") | (self.skip("and") or self.skip("but"))):
                self.add_clause(parts)
            elif aside and self.connects("and"):
                more: list[Phrase] = []
                self.add_clause(more)
                parts[-1:] = [_all([*parts[-1:], *more])]
                self.note_order(parts)
            else:
                break
            aside = False
        self.fillers_behind()
        if len(parts) == 1 and isinstance(parts[0], All) and len(parts[0].parts) > 2 and not self.order_said:
            self.note_order(parts)
        self.order_said = False
        return _joined(parts) if parts else None

    def banned_later(self, opened: tuple[int, bool], parts: list[Phrase]) -> None:
        """`… then never C until D`, `… then never C, then D`: a ban behind `then` covers only what follows."""
        outer, self.rules = self.rules, []
        self.ban(opened)
        if self.connects("then") or self.connects("and"):
            goals = self.until_rules()
            rest = self.chain()
            goals += [rest] if rest is not None else []
        else:
            goals = self.until_rules()
        if not goals:
            self.too_late()
        own, self.rules = tuple(self.rules), outer
        parts.append(self.ruled_later(parts, _joined(goals), own))

    def ruled_later(self, parts: list[Phrase], phrase: Phrase, rules: tuple[Rule, ...]) -> Phrase:
        """A phrase under rules that begin with it; what may not cease was just brought about by the part before."""
        inner = phrase.rules if isinstance(phrase, Ruled) else ()
        held = [rule.guard for rule in (*rules, *inner) if isinstance(rule, Hold)]
        if isinstance(parts[-1], Moment) and parts[-1].guard in held:
            phrase = _joined([parts.pop(), phrase.part if isinstance(phrase, Ruled) else phrase])
            rules += inner
        return Ruled(phrase, rules) if rules else phrase

    def too_late(self) -> NoReturn:
        self.fail(
            "the task is over before this ban begins: say it without 'then', or say what is to be done after it",
            self.tokens[self.place - 1],
        )

    def openings(self) -> None:
        """Step over `first`, `then`, `finally,` and the like at the beginning of a clause."""
        while self.skip_any(_FIRST) or (self.then_ahead() and self.skip_any(_THEN)):
            self.skip(",")

    def add_clause(self, parts: list[Phrase]) -> None:
        """Read a clause; what it asks to be done is a further part."""
        phrase = self.clause()
        if phrase is not None:
            parts.append(phrase)

    def until_rules(self) -> list[Phrase]:
        """Bans that last until something, with `then` behind them: that something is to be done."""
        wanted = [rule.until for rule in self.rules if isinstance(rule, Ban | Hold) and rule.until]
        if not wanted or len(wanted) < len(self.rules):
            return []
        rules, self.rules = tuple(self.rules), []
        return [Ruled(_all([Moment(guard) for guard in wanted]), rules)]

    def note_order(self, parts: list[Phrase]) -> None:
        """Tell that `A, then B and C` leaves the order of B and C open."""
        if parts and isinstance(parts[-1], All) and not self.bare_list:
            texts = [say(part, self.words) for part in parts[-1].parts]
            one, other = " and ".join(texts), ", then ".join(texts)
            self.note(f"'{one}' may be done in any order; for one after the other write '{other}'")

    def aside(self, parts: list[Phrase]) -> bool:
        """What may stand behind a step and is no further step: a ban, `but first`, `in that order`, `do this twice`."""
        start = self.place
        comma = self.skip(",")
        joint = self.peek() if self.peek() in ("and", "but", "while", "also") else ""
        self.place += bool(joint)
        word = self.peek()
        if not joint and self.about_order(parts):
            return True
        if joint == "and" and word == "do" and self.peek(1) in ("this", "that", "it", "so") and parts:
            self.place += 2
            times = self.times()
            if times is None:
                self.fail("a number of times is needed, as in 'and do this twice'")
            parts[:] = [Times(_joined(parts), times)]
        elif joint == "but" and self.skip_any(_FIRST):
            self.skip(",")
            parts[:0] = [self.needed(self.clause())]
            self.said_first = False
        elif joint == "but" and word == "not" and self.peek(1) in ("before", "until", "while", "when", "if", "unless"):
            self.place += 1
            self.not_before(parts)
        elif (joint == "but" or comma) and word == "not" and self.banned_at() is None:
            self.ban((1, True))
        elif (comma or joint) and (opened := self.banned_at()):
            self.ban(opened)
        elif (comma or joint) and word == "only" and self.peek(1) != "then" and parts:
            parts.append(self.needed(self.only(parts.pop())))
        elif comma and word == "always" and self.peek(1) in self.lexicon.gerunds:
            self.place += 1
            self.cover = both(self.cover, self.condition())
        elif ((comma or joint) and word in ("always", "whenever")) or (joint == "but" and parts):
            phrase = self.clause()
            if phrase is not None and (self.said_first or self.skip("before", "that")):
                parts[:0] = [phrase]
            elif phrase is not None:
                parts[:] = [_all([*([_joined(parts)] if parts else []), phrase])]
            self.said_first = False
        elif joint or not self.skip_any(_SCOPES):
            self.place = start
            return False
        return True

    def about_order(self, parts: list[Phrase]) -> bool:
        """`in that order`, `in any order`, `at the same time`."""
        if self.ahead(_THIS_ORDER) and len(parts) == 1 and isinstance(parts[0], All | Then):
            parts[0] = Then(parts[0].parts)
            return self.skip_any(_THIS_ORDER)
        if self.ahead(_TOGETHER) and len(parts) == 1:
            parts[0] = self.together(parts[0])
            return self.skip_any(_TOGETHER)
        if len(parts) == 1 and isinstance(parts[0], All) and self.skip_any(_ANY_ORDER):
            self.order_said = True
            return True
        return False

    def not_before(self, parts: list[Phrase]) -> None:
        """`open the door, but not before you have the key`, from behind `not`."""
        last = parts[-1] if parts else None
        if self.last is None or not isinstance(last, Moment):
            self.fail("it is not clear what may not happen: say it again, as in 'but never … before …'")
        self.limits([replace(self.last, groups=(last.guard,), stop=False)])

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
            if at > comma and (self.peek(at) == "if" or self.since_ahead(at)):  # … and once you have a key, …
                self.place += at
                self.note(f"'and {self.peek()}' is read as 'then'; for parts in any order write 'A and (B, then C)'")
                return True
        elif word == "or" and self.peek(at) == "or":
            self.place += at + 1
            self.skip("alternatively") or self.skip("else")
            return True
        elif word == "and" and self.ahead(_AND, at):
            at += self.ahead(_AND, at)
            special = self.then_ahead(at) or self.banned_at(at) or self.peek(at) in ("always", "whenever", "only", "if")
            special = special or self.since_ahead(at)
            repeats = self.peek(at) == "do" and self.peek(at + 1) in ("this", "that", "it", "so")
            if special or repeats:
                return False
            self.place += at
            self.skip("also")
            return True
        if comma and not self.in_front and self.comma_means() == word:
            if word == "then" and not self.then_later:
                self.note("a comma alone is read as 'then'; for parts in any order write 'and' between them")
            self.place += 1
            return True
        return False

    def comma_means(self) -> str:
        """What a comma that comes next stands for: the next connective of its sentence, or `then` if there is none."""
        start, depth, after = self.place, 0, self.place + 1
        passed = [start]
        """Commas whose meaning comes to light on the way; a long list is walked through once."""
        word, found = "", ""
        while self.place + 1 < len(self.tokens):
            self.place += 1
            word, is_first = self.peek(), self.place == after
            depth += (word == "(") - (word == ")")
            if depth < 0 or word in (".", ";", "", "without", "but", "otherwise", "else", "unless"):
                break
            order = self.ahead(_ANY_ORDER) or self.ahead(_THIS_ORDER)
            if is_first and (order or self.banned_at() or word in ("always", "whenever", "only", "with", "not")):
                self.place = start
                return ""
            special = self.banned_at(1) or self.peek(1) in ("always", "whenever", "do", "only")
            if (word == "," and self.banned_at(1)) or (word == "and" and special):
                break
            if depth == 0 and (self.then_ahead() or (word == "and" and self.then_ahead(1))):
                found = "" if is_first and word != "and" else "then "
                break
            if depth == 0 and word in ("and", "or"):
                found = "" if is_first else word
                break
            if depth == 0 and word == "," and self.place in self.commas:
                found = self.commas[self.place]
                break
            if depth == 0 and word == ",":
                passed.append(self.place)
            if phrase := self.noun_phrase(self.place):
                self.place = phrase.stop - 1
        at_once = self.place == after and (word in ("and", "or") or self.then_ahead() > 0)
        self.place = start
        if not at_once:
            self.commas |= dict.fromkeys(passed, found)
        self.then_later = found == "then "
        if found or at_once:
            return found.strip()
        goes_on = self.candidates(after) or self.begins_clause(1) or self.peek(1) in ("(", "keep")
        return "then" if goes_on else ""

    def clause(self) -> Phrase | None:
        """What comes after `if`, `once`, `before` and the like, and what they are about; else alternatives."""
        self.fillers()
        if self.skip_any(_FIRST):
            self.skip(",")
        rules = len(self.rules)
        if opened := self.banned_at():
            self.ban(opened)
            return None
        if since := self.since_ahead():
            self.place += since
            if self.negated_ahead():
                guard = self.condition()
                self.need_comma("this")
                phrase = self.clause()
                if phrase is None:
                    self.limit_rules(rules, during=guard)
                return None if phrase is None else self.during(phrase, guard)
            first = self.before_comma()
            self.need_comma("what comes first")
            phrase = self.alternatives_or_rule()
            if phrase is None:
                self.limit_rules(rules, after=self.guard_of(first))
            return None if phrase is None else _joined([first, phrase])
        purpose = self.skip("in", "order", "to") or (self.peek() == "to" and self.verbs(self.place + 1) != [])
        self.place += self.peek() == "to"
        if purpose or self.skip("before"):
            later = self.before_comma()
            self.need_comma("what comes before")
            phrase = self.alternatives_or_rule()
            if phrase is None:
                self.limit_rules(rules, until=self.guard_of(later))
            return None if phrase is None else _joined([phrase, later])
        if self.skip("until"):
            until = self.condition()
            self.need_comma("this")
            phrase = self.clause()
            if phrase is None:
                self.limit_rules(rules, until=until)
            return None if phrase is None else Keep(self.guard_of(phrase), until)
        if self.skip("if"):
            condition = self.condition()
            self.need_comma("this")
            return self.otherwise(condition, self.needed(self.alternatives()))
        if self.skip("unless"):
            condition = self.condition()
            self.need_comma("this")
            phrase = self.alternatives_or_rule()
            if phrase is None:
                self.limit_rules(rules, during=negation(condition))
            return None if phrase is None else self.unless(phrase, condition)
        if self.skip_any(_WHENEVER):
            condition = self.condition()
            self.need_comma("this")
            self.rules.append(Whenever(condition, self.guard_of(self.limited())))
            self.skip_any(_THEN)
            return None
        if self.peek() == "only" and self.peek(1) != "then":
            self.place += 1
            return self.only(self.repeated())
        return self.ordered(self.alternatives())

    def since_ahead(self, start: int = 0) -> int:
        """How many tokens a word for what happened before has that comes next, as in `once you …`; 0 if none does."""
        if self.peek(start) == "once" and not self.begins_clause(start + 1):
            return 0
        is_after = self.peek(start) == "after" and self.peek(start + 1) not in ("that", "this", "which")
        return self.ahead(_WHEN, start) or int(is_after)

    def negated_ahead(self) -> bool:
        """Whether a condition with `not` comes next."""
        place = self.place
        negated = self.subject() or self.peek() == "not"
        self.place = place
        return negated

    def needed(self, phrase: Phrase | None) -> Phrase:
        """Something to do, where a ban alone means nothing."""
        if phrase is None:
            self.fail("something to do is needed here, not a ban alone", self.tokens[self.place - 1])
        return phrase

    def during(self, phrase: Phrase, guard: Guard) -> Phrase:
        """The phrase while a guard holds."""
        found = during(phrase, guard)
        if found is None:
            self.fail(
                "'while' does not go with what stops or is kept: say it in two steps", self.tokens[self.place - 1]
            )
        return found

    def before_comma(self) -> Phrase:
        """What happens first, in front of a comma."""
        self.subject()
        outer, self.in_front, self.made_sure = self.in_front, True, True
        phrase = self.needed(self.alternatives())
        self.in_front = outer
        return phrase

    def need_comma(self, what: str) -> None:
        if not self.skip(",") and self.peek() != "then" and not self.begins_clause(0):
            if not self.peek() or self.peek() in (".", ";"):
                self.fail("something is missing: what is to be done?")
            self.fail(f"a comma is needed between {what} and the rest")
        self.skip("then")

    def alternatives_or_rule(self) -> Phrase | None:
        self.fillers()
        self.skip_any(_FIRST)
        if opened := self.banned_at():
            self.ban(opened)
            return None
        return self.alternatives()

    def limit_rules(self, first: int, until: Guard = (), after: Guard = ((),), during: Guard = ((),)) -> None:
        """Rules from a place on only hold until, after or while something."""
        for n, rule in enumerate(self.rules[first:], start=first):
            if isinstance(rule, Ban):
                after = after if after != ((),) else rule.after
                self.rules[n] = Ban(both(rule.avoided, during), until or rule.until, after)
            elif isinstance(rule, Hold) and until:
                self.rules[n] = replace(rule, until=until)
            else:
                self.fail("this rule cannot be limited in this way: say it alone", self.tokens[self.place - 1])

    def guard_of(self, phrase: Phrase | None) -> Guard:
        """What holds when a phrase is done, if it is done in one moment."""
        if not isinstance(phrase, Moment):
            self.fail("one thing that holds at a moment is needed here", self.tokens[self.place - 1])
        return phrase.guard

    def otherwise(self, condition: Guard, part: Phrase) -> Phrase:
        """`if A, B, otherwise C`, from behind B."""
        start = self.place
        self.skip(",") or (self.peek(1) in ("otherwise", "else") and self.skip(";"))
        self.skip("and") or self.skip("or")
        if self.skip("otherwise") or self.skip("else"):
            self.skip(",")
            return If(condition, part, self.needed(self.alternatives()))
        self.place = start
        self.note(
            "'if' is looked at when its turn comes; where it does not hold there is nothing to do: add 'otherwise …' "
            "for that case, or say 'when' to wait for it"
        )
        return If(condition, part)

    def unless(self, phrase: Phrase, condition: Guard) -> Phrase:
        self.note(
            "'unless' is read as 'or': it is done as well when that holds; for a ban write 'without', as in '… "
            "without …'"
        )
        if isinstance(phrase, Moment):
            return Moment(tuple(dict.fromkeys(phrase.guard + condition)))
        return Any((phrase, Moment(condition)))

    def only(self, phrase: Phrase | None) -> Phrase | None:
        """`only open a door after …`: something to do, and a ban before that."""
        self.skip("only")
        guard = self.guard_of(phrase)
        if self.skip_any(_SINCE):
            self.rules.append(Ban(guard, until=self.condition()))
            return phrase
        if self.skip_any(_WHILE) or self.skip_any(_AT_THAT_TIME):
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
                self.made_sure = True
                phrase = _joined([self.needed(phrase), self.needed(self.alternatives())])
            elif since := self.since_ahead():
                self.place += since
                if self.negated_ahead():
                    phrase = self.during(self.needed(phrase), self.condition())
                else:
                    self.subject()
                    self.made_sure = True
                    phrase = _joined([self.needed(self.alternatives()), self.needed(phrase)])
            elif self.skip("in", "order", "to") or (self.peek() == "to" and self.verbs(self.place + 1)):
                self.skip("to")
                phrase = _joined([self.needed(phrase), self.needed(self.alternatives())])
            elif self.skip("if"):
                phrase = self.otherwise(self.condition(), self.needed(phrase))
            elif self.skip("unless"):
                phrase = self.unless(self.needed(phrase), self.condition())
            else:
                return phrase

    def alternatives(self) -> Phrase | None:
        mentioned = len(self.mentioned)
        parts = [self.conjunction()]
        while self.connects("or"):
            parts.append(self.conjunction())
        if len(parts) > 1:  # `it` might be any of them
            self.mentioned[mentioned:] = [[phrase for group in self.mentioned[mentioned:] for phrase in group]]
        if len(parts) == 1:
            return parts[0]
        found = [self.needed(part) for part in parts]
        moments = [part for part in found if isinstance(part, Moment)]
        if len(moments) == len(found):
            return Moment(tuple(dict.fromkeys(cube for part in moments for cube in part.guard)))
        self.note_grouping(found)
        return Any(tuple(found))

    def note_grouping(self, parts: list[Phrase]) -> None:
        """Tell how `A and B or C` was read, and how to write the other reading."""
        mixed = next((n for n, part in enumerate(parts) if isinstance(part, All) and not self.bracketed(part)), None)
        if mixed is None:
            return

        def text(part: Phrase) -> str:
            return f"({say(part, self.words)})" if isinstance(part, All) else say(part, self.words)

        group, near = parts[mixed], parts[mixed + 1] if mixed + 1 < len(parts) else parts[mixed - 1]
        assert isinstance(group, All)
        one, several = (
            (group.parts[-1], group.parts[:-1]) if mixed + 1 < len(parts) else (group.parts[0], group.parts[1:])
        )
        other = " and ".join([*map(text, several), f"({text(one)} or {text(near)})"])
        self.note(f"read as '{' or '.join(map(text, parts))}'; for the other reading use brackets: '{other}'")

    def bracketed(self, phrase: Phrase) -> bool:
        """Whether a phrase was written in brackets, or with `both`."""
        return any(phrase is closed for closed in self.closed)

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
        self.bare_list = bool(bare) and all(bare)
        if any(isinstance(part, Again) for part in found[1:]):  # what is done again comes later
            return _joined(found)
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
            elif self.skip("at", "most") or self.skip("no", "more", "than"):
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
                phrase = Times(self.needed(phrase), times) if times > 1 else phrase

    def fillers_behind(self) -> None:
        """Step over words that change nothing behind a clause."""
        while True:
            comma = int(self.peek() == ",")
            same = self.noun_phrase(self.place + 1) if comma and self.peek(1) == "any" else None
            if same is not None and self.last is not None and same.things == self.last.phrases[-1].things:
                self.place = same.stop  # open a door, any door
                continue
            found = self.ahead(FILLERS_BEHIND, comma)
            ends = self.peek(comma + found) in (".", ";", ",", ")", "")
            if not found or (comma and not ends) or (self.peek() == "as" and self.peek(2) == "as"):
                return
            self.place += comma + found

    def unit(self) -> Phrase | None:
        self.fillers()
        opened = self.tokens[self.place]
        phrase: Phrase | None
        if self.skip("("):
            phrase = self.needed(self.sentence())
            while self.skip(";") or self.skip("."):
                self.skip("then")
                phrase = _joined([self.needed(phrase), self.needed(self.sentence())])
            if not self.skip(")"):
                self.fail("this bracket is never closed", opened)
            self.closed.append(phrase)
            return phrase
        if ban := self.banned_at():
            self.ban(ban)
            return None
        if self.peek() == "both" and self.verbs(self.place + 1):
            self.place += 1
            phrase = self.conjunction()
            self.closed.append(phrase)
            return phrase
        if self.skip("either"):
            return self.choice(opened)
        if self.skip("wait") or self.skip("waits") or self.skip("waiting"):
            if self.skip("until") or self.skip("for"):
                return Moment(self.condition())
            return self.within(Moment(((),)))
        if self.peek() in ("stop", "stops", "stopping") and self.peek(1) in self.lexicon.gerunds:
            self.place += 1
            guard = self.command().guard
            while self.peek() == "or" and self.peek(1) in self.lexicon.gerunds:
                self.place += 1
                guard += self.command().guard
            return Stop(guard)
        if self.peek() in ("keep", "keeps", "always", "remain", "continue") and not self.verbs(self.place):
            return self.kept()
        negated = self.subject()
        if negated:
            self.fail("'not' cannot stand here: say 'never', 'avoid' or 'without' for what may not happen")
        if ban := self.banned_at():
            self.ban(ban)
            return None
        self.fillers()
        if not self.made_sure and not self.verbs(self.place) and self.said_of_things(self.place):
            self.fail("this tells what is so, not what to do: say 'make sure …', 'go to …' or the like")
        command = self.neither() or self.command()
        self.made_sure = False
        phrase = self.goal(command)
        brings = self.lexicon.meanings[" ".join(command.pattern)] == self.lexicon.meanings.get(BRING)
        if brings and PUT in self.lexicon.meanings:
            other = self.meaning(tuple(PUT.split()), command.phrases)
            if other is not None:
                said = " ".join(command.pattern).replace("{}", "…")
                self.note(
                    f"'{said}' is read as being there with it in hand; to leave it there write "
                    f"'{self.in_order(PUT, command.phrases) or self.words.guard(other.guard)}'"
                )
        return None if phrase is None else self.within(phrase)

    def neither(self) -> Command | None:
        """`touch neither the key nor the box`."""
        before = next((n for n in range(1, 4) if self.peek(n) == "neither"), 0)
        if not before or self.peek() not in self.lexicon.by_first:
            return None
        del self.tokens[self.place + before]
        self._nouns.clear()
        self._verbs.clear()
        commands = [self.banned(takes_noun=False)]
        while self.skip("or"):
            commands.append(self.banned(takes_noun=False))
        cubes = tuple(dict.fromkeys(cube for command in commands for cube in command.avoided))
        none = replace(commands[0].phrases[0], count=NONE)
        return replace(commands[0], groups=(cubes,), phrases=(none, *commands[0].phrases[1:]))

    def within(self, phrase: Phrase) -> Phrase:
        """`while …`, `with …`, `carrying …` behind a command."""
        while True:
            ahead = self.ahead(_WHILE)
            if ahead and self.banned_at(ahead, bare=False) is None and self.peek(ahead) != "always":
                self.place += ahead
                phrase = self.during(phrase, self.condition())
            elif ahead and self.peek(ahead) == "always" and self.banned_at(ahead, bare=False) is None:
                self.place += ahead + 1
                self.cover = both(self.cover, self.condition())
            elif ahead:
                opened = self.banned_at(ahead)
                assert opened is not None
                self.place += ahead
                self.ban(opened)
            elif self.skip("with") or self.skip("using"):
                phrase = self.during(phrase, self.holding())
            elif self.without_thing():
                self.place += 1
                phrase = self.during(phrase, negation(self.holding()))
                self.note("'without' and a thing is read as not having it then; to keep off it write 'avoid'")
            elif self.peek() in self.lexicon.holding and self.verbs(self.place):
                phrase = self.during(phrase, self.condition())
            else:
                return phrase

    def without_thing(self) -> bool:
        """Whether `without a key` comes next, which does not say what may not be done."""
        bare = self.peek() == "without" and self.noun_phrase(self.place + 1) is not None
        return bare and not self.verbs(self.place + 1) and HOLD in self.lexicon.meanings

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


def _flat(kind: type[Then] | type[All], parts: Sequence[Phrase]) -> tuple[Phrase, ...]:
    """The parts, those of the same kind opened."""
    return tuple(one for part in parts for one in (part.parts if isinstance(part, kind) else (part,)))


def _joined(parts: Sequence[Phrase]) -> Phrase:
    return parts[0] if len(parts) == 1 else Then(_flat(Then, parts))


def _all(parts: Sequence[Phrase]) -> Phrase:
    return parts[0] if len(parts) == 1 else All(_flat(All, parts))
