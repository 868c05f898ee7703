"""English tasks: BabyAI's commands and connectives, and more; or numbered steps.

The grammar of sentences, from loosest to tightest:

    sentence. sentence; sentence         one after the other
    A, then B                            one after the other
    A before B / A after you B           the first named first / last
    A or B                               whichever is done first; both may be under way
    A and B                              in any order
    A without doing B                    doing B before A is done fails the task
    A twice / A 3 times                  A must cease to hold in between
    A while (not) doing B                both at the same moment

`(…)` groups. `either A, then B, or C, then D` commits to the branch that is begun first; if several begin at the same
moment nothing happens. It ends with its sentence. `, without …` after a comma covers the whole sentence. In a list
`A, B and C` commas mean what the next connective means. `go to a ball or a key` repeats the verb. Articles mean
nothing, `box` may be a synonym of `square`, and `object` stands for any one word that makes a command (`pick up a red
object`). After `without`, `while`, `before` and `after` verbs may end in -ing.

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

import functools
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from atlas.errors import AtlasError, Reader, TaskWarning, Token, listed, nearest
from atlas.tasks import automata
from atlas.tasks.automata import Automaton, Cube, Diagrams
from atlas.tasks.machine import ACCEPT, NO_CALL, REJECT, Edge, Task, flat_task, hierarchy, machine
from atlas.vocabulary import ACCEPTED, REJECTED, RUNNING, Vocabulary

ARTICLES: Final = frozenset({"a", "an", "the"})
FILLERS: Final = frozenset({"please", "first", "finally", "also"})
WILDCARDS: Final = frozenset({"object", "thing", "something", "anything"})
TIMES: Final = {"once": 1, "twice": 2, "thrice": 3}
NUMBERS: Final = {
    word: n for n, word in enumerate(("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), start=2)
}
MOST_TIMES: Final = 50
_ENDS: Final = {"finish": ACCEPTED, "return": ACCEPTED, "fail": REJECTED}
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<word>[A-Za-z][A-Za-z'’-]*)|(?P<number>-?\d+(?:\.\d+)?(?:e-?\d+)?)|(?P<mark>[.,;:()])|(?P<bad>\S))"
)

Guard = tuple[Cube, ...]
"""Something that holds at one moment: a disjunction of conjunctions of literals."""
Phrase = Guard | Automaton


def english(text: str, vocabulary: Vocabulary) -> Task:
    """The task that a text describes.

    Where things may happen in any order, guards need not tell apart what the vocabulary says never happens at once.
    """
    parser = _Parser(text, vocabulary)
    if parser.has_steps():
        task = parser.steps()
        if not task.machines[task.root].can_accept:
            warnings.warn("no step leads to the end, so the task can never be accepted", TaskWarning, stacklevel=2)
        return task
    automaton = parser.sentences()
    if not parser.is_exact:
        care = automata.possible(parser.diagrams, parser.props, vocabulary)
        automaton = automata.forbid(automaton, care)
    automaton = automata.minimise(automaton)
    if not automaton.can_accept:
        raise AtlasError(
            f"'{text.strip()}' can never be done: it asks for what cannot happen, or only after it has failed"
        )
    return automata.to_task(automaton)


# Words


def gerund(verb: str) -> str:
    """`go` -> `going`, `put` -> `putting`, `leave` -> `leaving`."""
    if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")):
        return verb[:-1] + "ing"
    if re.fullmatch(r"[^aeiou]*[aeiou][^aeiouwxy]", verb) and len(verb) > 2:
        return verb + verb[-1] + "ing"
    return verb + "ing"


class _Command(NamedTuple):
    """A command found in a text."""

    props: tuple[int, ...]
    """The propositions it may stand for: more than one if it speaks of an `object`."""
    words: tuple[str, ...]
    stop: int
    """The first token after it."""


class _Lexicon:
    """The commands of a vocabulary as a tree of words."""

    END: Final = ""
    """Key of a command's proposition in the tree."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.synonyms = vocabulary.synonyms
        self.tree: dict[str, Any] = {}
        for command, prop in vocabulary.commands.items():
            branch = self.tree
            for word in command.split():
                branch = branch.setdefault(word, {})
            branch[self.END] = prop
        self.verbs = {gerund(verb): verb for verb in self.tree}

    def find(self, tokens: list[Token], start: int, prefix: tuple[str, ...] = ()) -> _Command | None:
        """The longest command at a place, read as if `prefix` stood before it."""
        branches: list[dict[str, Any]] = [self.tree]
        for word in prefix:
            branches = self._follow(branches, word)
        found, words, place = None, list(prefix), start
        while branches and (text := tokens[place].text):
            place += 1
            if text in ARTICLES:
                continue
            words.append(self._word(text, first=not words))
            branches = self._follow(branches, words[-1])
            props = sorted({branch[self.END] for branch in branches if self.END in branch})
            if props:
                found = _Command(tuple(props), tuple(words), place)
        return found

    def _word(self, text: str, first: bool) -> str:
        word = self.synonyms.get(text, text)
        return self.verbs.get(word, word) if first else word

    def _follow(self, branches: list[dict[str, Any]], word: str) -> list[dict[str, Any]]:
        if word in WILDCARDS:
            return [branch for tree in branches for key, branch in tree.items() if key != self.END]
        return [tree[word] for tree in branches if word in tree]

    def complain(self, reader: Reader) -> NoReturn:
        """Point at the first word that no command continues with."""
        branch, start, is_first = self.tree, reader.place, True
        while text := reader.peek():
            if text not in ARTICLES:
                word = self._word(text, is_first)
                if word not in branch:
                    break
                branch, is_first = branch[word], False
            reader.place += 1
        allowed = [word for word in branch if word != self.END]
        after = reader.text[reader.tokens[start].start : reader.tokens[reader.place].start].strip()
        what = f"'{text}' is not understood" if text else "something is missing"
        hint = nearest(text, allowed) or f"; expected {listed(allowed[:8] + ['…'] * (len(allowed) > 8))}"
        reader.fail(what + (f" after '{after}'" if after else "") + hint)


_lexicon = functools.lru_cache(maxsize=4)(_Lexicon)


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
    """Each method reads what its name says and returns its meaning. Automata share the pool `diagrams`."""

    def __init__(self, text: str, vocabulary: Vocabulary) -> None:
        super().__init__(text, _TOKEN, "a task")
        self.tokens = [t._replace(text=t.text.lower()) for t in self.tokens if t.text.lower() not in FILLERS]
        self.lexicon = _lexicon(vocabulary)
        self.words: tuple[str, ...] = ()
        """The last command, for `go to a ball or a key`."""
        self.diagrams = Diagrams()
        self.props: set[int] = set()
        self.is_exact = True
        """True while guards mirror the words; then labels that cannot occur need no care."""

    # Moments: what holds at one label

    def find_command(self, start: int) -> _Command | None:
        """The command at a place, if there is one; with the last command's first words if that helps."""
        prefixes = [(), *(self.words[:n] for n in range(len(self.words) - 1, 0, -1))]
        found = (self.lexicon.find(self.tokens, start, prefix) for prefix in prefixes)
        return next((command for command in found if command), None)

    def command(self) -> Guard:
        if self.skip("wait"):
            return ((),)
        command = self.find_command(self.place)
        if command is None:
            self.lexicon.complain(self)
        self.place, self.words = command.stop, command.words
        self.props.update(command.props)
        return tuple((prop + 1,) for prop in command.props)

    def moment(self) -> Guard:
        """`A while doing B and not doing C`."""
        guard = self.command()
        goes_on = self.skip("while")
        while goes_on:
            negated = self.skip("not")
            condition = self.command()
            if negated:
                condition = (tuple(-cube[0] for cube in condition),)
            guard = tuple(tuple(dict.fromkeys(a + b)) for a in guard for b in condition)
            goes_on = (self.peek(1) == "not" or self.peek(1) in self.lexicon.verbs) and self.skip("and")
        return guard

    # Sentences

    def sentences(self) -> Automaton:
        phrases = []
        while self.peek():
            phrases.append(self.sentence())
            if self.peek() == ",":
                self.fail("a comma alone does not say how to go on: write 'then', 'and' or 'or' after it")
            if self.peek() not in (".", ";", ""):
                self.fail(
                    f"'{self.peek()}' is not understood here; expected then, and, or, before, after, without, while, "
                    "twice or a full stop"
                )
            while self.skip(".") or self.skip(";"):
                pass
            if self.peek():
                self.skip("and")
                self.skip("then")
                self.skip(",")
        if not phrases:
            self.fail("the task is empty")
        return self.automaton(self.joined(automata.then, phrases))

    def automaton(self, phrase: Phrase) -> Automaton:
        if isinstance(phrase, Automaton):
            return phrase
        return automata.moment(self.diagrams, self.diagrams.disjunction(phrase))

    def joined(self, way: Callable[[Sequence[Automaton]], Automaton], parts: list[Phrase]) -> Phrase:
        if len(parts) == 1:
            return parts[0]
        self.is_exact &= way in (automata.then, automata.first_begun)
        return way([self.automaton(part) for part in parts])

    def sentence(self) -> Phrase:
        phrase = self.sequence(self.pair)
        while self.skip(",", "without"):
            phrase = self.without(phrase)
        return phrase

    def sequence(self, part: Callable[[], Phrase]) -> Phrase:
        parts = [part()]
        while self.connects("then"):
            parts.append(part())
        return self.joined(automata.then, parts)

    def connects(self, word: str) -> bool:
        """Step over a connective, with or without a comma before it, or over a comma that stands for it."""
        ways = [(word,), (",", word), *([("and", word), (",", "and", word)] if word == "then" else [])]
        return any(self.skip(*way) for way in ways) or (self.comma_means() == word and self.skip(","))

    def comma_means(self) -> str:
        """What a comma that comes next stands for: the next connective of its sentence."""
        depth = 0
        for distance, token in enumerate(self.tokens[self.place + 1 :] if self.peek() == "," else ()):
            depth += (token.text == "(") - (token.text == ")")
            if depth < 0 or token.text in (".", ";", "without"):
                break
            if depth == 0 and token.text in ("then", "and", "or"):
                return token.text if distance > 0 else ""
        return ""

    def pair(self) -> Phrase:
        """`A before B`, `A after B`, `after you A, B` and `before you A, B`."""
        if (word := self.peek()) in ("after", "before"):
            self.place += 1
            self.skip("you")
            one = self.alternatives()
            if not self.skip(","):
                self.fail(f"a comma is needed between what comes {word} and the rest")
            parts = [one, self.alternatives()]
            return self.joined(automata.then, parts if word == "after" else parts[::-1])
        phrase = self.alternatives()
        while (word := self.peek()) in ("before", "after"):
            self.place += 1
            self.skip("you")
            parts = [phrase, self.alternatives()]
            phrase = self.joined(automata.then, parts if word == "before" else parts[::-1])
        return phrase

    def alternatives(self) -> Phrase:
        parts = [self.conjunction()]
        while self.connects("or"):
            parts.append(self.conjunction())
        guards = [part for part in parts if not isinstance(part, Automaton)]
        if len(guards) == len(parts):
            return tuple(dict.fromkeys(cube for guard in guards for cube in guard))
        return self.joined(automata.any_of, parts)

    def conjunction(self) -> Phrase:
        parts = [self.limited()]
        while True:
            ahead = int(self.peek() == ",")
            is_sequel = self.peek(ahead) == "and" and self.peek(ahead + 1) == "then"
            if is_sequel or not self.connects("and"):
                return self.joined(automata.all_of, parts)
            parts.append(self.limited())

    def limited(self) -> Phrase:
        phrase = self.repeated()
        while self.skip("without"):
            phrase = self.without(phrase)
        return phrase

    def without(self, phrase: Phrase) -> Automaton:
        """`doing A or B or doing C`: none of them may happen meanwhile."""
        self.is_exact = False
        avoided = list(self.command())
        while self.list_goes_on():
            self.skip(",")
            self.place += self.peek() in ("and", "or")
            avoided += self.command()
        return automata.without(self.automaton(phrase), self.diagrams.disjunction(avoided))

    def list_goes_on(self) -> bool:
        """Whether a comma, `or` or `and` comes next, then a verb in -ing or an object without a verb."""
        ahead = int(self.peek() == ",")
        ahead += self.peek(ahead) in ("and", "or")
        if ahead == 0 or self.peek(ahead) in self.lexicon.verbs:
            return ahead > 0
        start = self.place + ahead
        return self.lexicon.find(self.tokens, start) is None and self.find_command(start) is not None

    def repeated(self) -> Phrase:
        phrase = self.unit()
        word, times = self.peek(), 1
        if word in TIMES:
            times = TIMES[word]
            self.place += 1
        elif self.peek(1) in ("times", "time") and (word.isdigit() or word in NUMBERS):
            times = NUMBERS.get(word) or int(word)
            if not 1 <= times <= MOST_TIMES:
                self.fail(f"{times} times is not possible: from 1 to {MOST_TIMES} is allowed")
            self.place += 2
        if times == 1:
            return phrase
        if isinstance(phrase, Automaton):
            return automata.then([phrase] * times)
        return automata.moment(self.diagrams, self.diagrams.disjunction(phrase), times)

    def unit(self) -> Phrase:
        opened = self.tokens[self.place]
        if self.skip("("):
            phrase = self.sentence()
            while self.skip(";") or self.skip("."):
                self.skip("then")
                phrase = self.joined(automata.then, [phrase, self.sentence()])
            if not self.skip(")"):
                self.fail("this bracket is never closed", opened)
            return phrase
        if not self.skip("either"):
            return self.moment()
        branches = [self.sequence(self.conjunction)]  # inside a branch, `or` only begins the next
        while self.skip(",", "or") or self.skip("or"):
            branches.append(self.sequence(self.conjunction))
        if len(branches) == 1:
            self.fail("'either' needs an 'or' in the same sentence")
        return self.joined(automata.first_begun, branches)

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
