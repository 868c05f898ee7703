"""Numbered steps of an English text: machines that branch, loop or call each other; `english` has examples."""

from typing import NamedTuple

from atlas.errors import Token
from atlas.tasks import automata
from atlas.tasks.automata import Diagrams
from atlas.tasks.english.lexicon import Guard
from atlas.tasks.english.sentences import ENDS, SentenceReader
from atlas.tasks.machine import ACCEPT, NO_CALL, REJECT, Edge, Task, flat_task, hierarchy, machine
from atlas.vocabulary import ACCEPTED, REJECTED, RUNNING


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


class StepReader(SentenceReader):
    """Reads a text that is one of numbered steps, if it is one."""

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
        if len(self.peek()) > 9:
            self.fail("this number is too large")
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
        outcome = next((o for word, o in ENDS.items() if self.skip(word)), RUNNING)
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
            ends = (ACCEPT if end == ACCEPTED else REJECT for word, end in ENDS.items() if self.continues(word))
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
