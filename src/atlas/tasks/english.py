"""English tasks: BabyAI's commands and connectives, and more (see `english_grammar` and `english_steps`)."""

import functools
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, NoReturn

from atlas.errors import AtlasError, TaskWarning, fail, nearest
from atlas.tasks import automata, hrm
from atlas.tasks.automata import Automaton, Diagram, Diagrams, accepts, build, minimise, possible, to_machine
from atlas.tasks.rm import ACCEPT, ACCEPTED, REJECT, REJECTED, RUNNING, UNUSED, Transition, machine
from atlas.tasks.view import view
from atlas.vocabulary import Vocabulary

# The words of English tasks: tokens with their places, and commands looked up in a vocabulary.
#
# Articles mean nothing, `box` may be a synonym of `square`, and `object` stands for any one word that makes a command
# (`pick up a red object`). After `without`, `while`, `before` and `after` verbs may end in -ing.

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


# The grammar of English tasks, from loosest to tightest:
#
#     sentence. sentence; sentence         one after the other
#     A, then B                            one after the other
#     A before B / A after you B           the first named first / last
#     A or B                               whichever is done first; both may be under way
#     A and B                              in any order
#     A without doing B                    doing B before A is done fails the task
#     A twice / A 3 times                  A must cease to hold in between
#     A while (not) doing B                both at the same moment
#
# `(…)` groups. `either A, then B, or C, then D` commits to the branch that is begun first; if several begin at the
# same moment nothing happens. It ends with its sentence. `, without …` after a comma covers the whole sentence. In a
# list
# `A, B and C` commas mean what the next connective means. `go to a ball or a key` repeats the verb.

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


# Tasks as numbered steps: for machines that branch, loop or call each other.
#
#     1. Go to a ball, then continue with step 2.
#     2. Either pick up a key, then finish, or open a door, then continue with step 1.
#
# A step waits until what it asks for holds. Its options are tried in the order in which they are written; after
# `either`, nothing happens while several of them hold at the same moment. `continue with step n`, `finish` and
# `fail` say what comes next: the next step if nothing is said. `(reward 0.5)` at the end of an option changes its
# reward from the usual 1 for finishing and 0 otherwise. Several machines are sections; a routine may be done as
# part of an option:
#
#     Main task:
#     1. Go to a ball and do routine 1, then finish.
#     Routine 1:
#     1. Pick up a key, then return.

_ENDS: Final = {"finish": ACCEPTED, "return": ACCEPTED, "fail": REJECTED}
NEXT_STEP: Final = 0


@dataclass(frozen=True)
class Option:
    """One way out of a step. `target` is the number of a step, NEXT_STEP, ACCEPT or REJECT."""

    guard: Guard
    routine: int | None
    target: int
    reward: float | None
    places: tuple[int, int]
    """Tokens that name the routine and the target, for errors."""


@dataclass(frozen=True)
class Step:
    """What to do at one state."""

    options: tuple[Option, ...]
    exclusive: bool
    outcome: int = RUNNING
    """Not RUNNING if the step only says `finish` or `fail`: only a whole task may be such."""


Section = dict[int, Step]
"""The steps of one machine by their numbers; the first is the initial one."""


def has_steps(reader: Reader) -> bool:
    """Whether a text is one of numbered steps."""
    return _heading(reader, "main", "task") or (reader.peek().isdigit() and reader.peek(1) in (".", ")", ":"))


def _heading(reader: Reader, *words: str) -> bool:
    return all(reader.peek(i) == word for i, word in enumerate(words)) and reader.peek(len(words)) == ":"


def parse_english_steps(reader: Reader) -> Any:
    """The machine, or the hierarchy, that numbered steps describe."""
    sections: dict[int, Section] = {}
    reader.skip("main", "task", ":")
    sections[0] = _section(reader)
    while reader.peek() == "routine":
        reader.place += 1
        number = _number(reader, "the number of a routine")
        if number in sections:
            reader.fail(f"routine {number} is described twice")
        if not reader.skip(":"):
            reader.fail("a colon is needed after the name of a routine")
        sections[number] = _section(reader)
    if reader.peek():
        reader.fail(f"'{reader.peek()}' is not understood here; expected the number of a step, or 'Routine n:'")
    ended = _ended(reader, sections)
    if ended != RUNNING:
        return machine([], accepting=(0,)) if ended == ACCEPTED else machine([], rejecting=(0,))
    machines = [_transitions(reader, section, sections, number == 0) for number, section in sections.items()]
    return build(machines[0]) if len(machines) == 1 else hrm.hierarchy(machines)


def _ended(reader: Reader, sections: dict[int, Section]) -> int:
    """The outcome of a task that is over before it begins."""
    ends = [step.outcome for section in sections.values() for step in section.values() if step.outcome != RUNNING]
    if ends and (len(sections) > 1 or len(sections[0]) > 1):
        reader.fail("a step that only says 'finish' or 'fail' can only stand alone: it would ask for nothing")
    return ends[0] if ends else RUNNING


def _number(reader: Reader, what: str) -> int:
    if not reader.peek().isdigit():
        reader.fail(f"{what} is needed")
    reader.place += 1
    return int(reader.tokens[reader.place - 1].text)


def _section(reader: Reader) -> Section:
    steps: Section = {}
    while reader.peek().isdigit():
        number = _number(reader, "the number of a step")
        if number in steps or number == 0:
            reader.place -= 1
            reader.fail(f"there is already a step {number}" if number else "steps are numbered from 1")
        if not (reader.skip(".") or reader.skip(")") or reader.skip(":")):
            reader.fail("a full stop is needed after the number of a step")
        steps[number] = _step(reader)
    if not steps:
        reader.fail("a numbered step is needed")
    return steps


def _step(reader: Reader) -> Step:
    exclusive = reader.skip("either")
    options = []
    outcome = next((o for word, o in _ENDS.items() if reader.skip(word)), RUNNING)
    if outcome == RUNNING and not reader.skip("stay", "here"):
        options.append(_option(reader))
        while any(reader.skip(*way) for way in ((",", "or"), (";", "or"), ("or",))):
            options.append(_option(reader))
    if not reader.skip(".") and reader.peek() and not reader.peek().isdigit():
        reader.fail(f"'{reader.peek()}' is not understood here; expected then, and, or, or a full stop")
    return Step(tuple(options), exclusive, outcome)


def _option(reader: Reader) -> Option:
    guard = Guard(((),)) if reader.peek() == "do" else reader.moment()
    routine = None
    if _joined(reader, "do"):
        if not reader.skip("routine"):
            reader.fail("a routine is needed, as in 'do routine 1'")
        routine = _number(reader, "the number of a routine")
    named = reader.place - 1
    target = _target(reader)
    places = (named, reader.place - 1)
    return Option(guard, routine, target, _reward(reader), places)


def _joined(reader: Reader, *words: str) -> bool:
    """Step over words, with or without a comma, `and` or `then` before them."""
    before = ((), (",",), ("and",), ("then",), (",", "and"), (",", "then"), ("and", "then"), (",", "and", "then"))
    return any(reader.skip(*join, *words) for join in before)


def _target(reader: Reader) -> int:
    for words in (("continue", "with", "step"), ("go", "to", "step"), ("go", "back", "to", "step")):
        if _joined(reader, *words):
            return _number(reader, "the number of a step")
    for word, outcome in _ENDS.items():
        if _joined(reader, word):
            return ACCEPT if outcome == ACCEPTED else REJECT
    return NEXT_STEP


def _reward(reader: Reader) -> float | None:
    if not reader.skip("(", "reward"):
        return None
    try:
        reward = float(reader.peek())
    except ValueError:
        reader.fail("a number is needed as the reward")
    reader.place += 1
    if not reader.skip(")"):
        reader.fail("a closing bracket is needed after the reward")
    return reward


def _transitions(reader: Reader, section: Section, sections: dict[int, Section], is_root: bool) -> list[Transition]:
    state = {number: u for u, number in enumerate(section)}
    index = {number: m for m, number in enumerate(sections)}
    edges = []
    for number, step in section.items():
        for option, cubes in zip(step.options, _guards(step), strict=True):
            target = option.target
            if target == NEXT_STEP:
                target = number + 1 if number + 1 in state else ACCEPT
            _check(reader, option, target, section, sections)
            reward = float(target == ACCEPT and is_root) if option.reward is None else option.reward
            goal = target if target in (ACCEPT, REJECT) else state[target]
            call = UNUSED if option.routine is None else index[option.routine]
            edges += [Transition(state[number], goal, cube, reward, call) for cube in cubes]
    return edges


def _check(reader: Reader, option: Option, target: int, section: Section, sections: dict[int, Section]) -> None:
    routine, goal = (reader.tokens[place] for place in option.places)
    if target not in (ACCEPT, REJECT) and target not in section:
        fail(
            reader.text,
            goal.start,
            goal.end,
            f"there is no step {target}; the steps are {_listed_english_steps(section)}",
        )
    if option.routine is not None and (option.routine not in sections or option.routine == 0):
        known = _listed_english_steps([n for n in sections if n])
        known = f"the routines are {known}" if known else "no routine is described"
        fail(reader.text, routine.start, routine.end, f"there is no routine {option.routine}; {known}")


def _listed_english_steps(numbers: Any) -> str:
    return ", ".join(map(str, numbers))


def _guards(step: Step) -> list[tuple[tuple[int, ...], ...]]:
    """The cubes of each option; after `either` they exclude each other."""
    guards = [option.guard.cubes for option in step.options]
    if not step.exclusive:
        return guards
    if all(len(cubes) == 1 and len(cubes[0]) == 1 for cubes in guards):
        literals = [cubes[0][0] for cubes in guards]
        return [((x, *(-y for j, y in enumerate(literals) if j != i)),) for i, x in enumerate(literals)]
    return _exclusive(guards)


def _exclusive(guards: list[tuple[tuple[int, ...], ...]]) -> list[tuple[tuple[int, ...], ...]]:
    diagrams = Diagrams()
    functions = []
    for cubes in guards:
        function = 0
        for cube in cubes:
            function = diagrams.either(function, diagrams.conjunction(cube))
        functions.append(function)
    alone = []
    for i, function in enumerate(functions):
        for j, other in enumerate(functions):
            function = function if i == j else diagrams.both(function, diagrams.negate(other))
        alone.append(tuple(diagrams.cover(function, function)))
    return alone


# English tasks: BabyAI's commands and connectives, and more (see `english_grammar` and `english_steps`).


def english(text: str, vocabulary: Vocabulary) -> Any:
    """The task that a text describes: a machine, or a hierarchy if it has routines.

    Where things may happen in any order, guards need not tell apart what the vocabulary says never happens at once.
    """
    reader = Reader(text, tokenise(text), lexicon(vocabulary))
    if has_steps(reader):
        return _with_acceptance(parse_english_steps(reader))
    phrase = parse(reader)
    diagrams = Diagrams()
    automaton = _compile(phrase, diagrams)
    if not _is_exact(phrase):
        care = possible(diagrams, _props(phrase), vocabulary.implies, vocabulary.excludes)
        automaton = automata.forbid(automaton, care)
    automaton = minimise(automaton)
    if not accepts(automaton):
        raise AtlasError(
            f"'{text.strip()}' can never be done: it asks for what cannot happen, or only after it has failed"
        )
    return to_machine(automaton)


def _with_acceptance(task: Any) -> Any:
    seen = view(task)
    if not seen.machines[seen.root].can_accept:
        warnings.warn("no step leads to the end, so the task can never be accepted", TaskWarning, stacklevel=3)
    return task


def _compile(phrase: Phrase, diagrams: Diagrams) -> Automaton:
    if isinstance(phrase, Guard):
        return automata.moment(diagrams, _function(phrase, diagrams))
    if isinstance(phrase, Repeat):
        if isinstance(phrase.part, Guard):
            return automata.rises(diagrams, _function(phrase.part, diagrams), phrase.times)
        return automata.then([_compile(phrase.part, diagrams)] * phrase.times)
    if isinstance(phrase, Without):
        return automata.without(_compile(phrase.part, diagrams), _function(phrase.avoided, diagrams))
    parts = [_compile(part, diagrams) for part in phrase.parts]
    ways = {Then: automata.then, All: automata.all_of, AnyOf: automata.any_of, Choice: automata.first_begun}
    return ways[type(phrase)](parts)


def _function(guard: Guard, diagrams: Diagrams) -> Diagram:
    result = 0
    for cube in guard.cubes:
        result = diagrams.either(result, diagrams.conjunction(cube))
    return result


def _is_exact(phrase: Phrase) -> bool:
    """Whether guards follow the words one by one, so that labels which cannot occur need no thought."""
    if isinstance(phrase, Then | Choice):
        return all(map(_is_exact, phrase.parts))
    return isinstance(phrase, Guard) or (isinstance(phrase, Repeat) and _is_exact(phrase.part))


def _props(phrase: Phrase) -> set[int]:
    if isinstance(phrase, Guard):
        return {abs(literal) - 1 for cube in phrase.cubes for literal in cube}
    if isinstance(phrase, Repeat):
        return _props(phrase.part)
    if isinstance(phrase, Without):
        return _props(phrase.part) | _props(phrase.avoided)
    return set().union(*map(_props, phrase.parts))
