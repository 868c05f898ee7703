"""English tasks: what people say to a robot, as far as a reward machine can mean it; or numbered steps.

A text goes through three stages. Words are looked up and put into their plain form (`lexicon`, `commands`); every word
must be known, and all that are not are reported at once. Sentences are read into a tree of phrases (`sentences`, and
`steps` for numbered ones). Phrases become automata (`phrases`, `automata`). The grammar of sentences,
from loosest to tightest:

    sentence. sentence; sentence         one after the other; a sentence that only bans covers all others
    A, then B / A, finally B             one after the other (afterwards, after that, next, followed by …)
    after A, B / once A, B / B before A  one after the other, in the order that the words say
    A or B                               whichever is done first; both may be under way
    A and B                              in any order
    A without doing B                    doing B before A is done fails the task
    A twice / A 3 times                  A must cease to hold in between
    A while (not) doing B                both at the same moment

`, without …`, `never …`, `avoid …` and other bans cover their whole sentence; `without` directly behind a step covers
that step. `keep doing A until B`, `if A, B, otherwise C`, `whenever A, B` and `A, but first B` mean what they say.
`(…)` groups.
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

import warnings
from collections.abc import Sequence
from typing import NamedTuple

from atlas import tasks
from atlas.errors import AtlasError, TaskWarning
from atlas.tasks import automata
from atlas.tasks.automata import Diagrams
from atlas.tasks.english.phrases import Phrase, automaton, guards, is_exact
from atlas.tasks.machine import Task
from atlas.vocabulary import Vocabulary


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

    What is not understood goes to `atlas.tasks.translate`, if the user has set it, and its answer is read instead.
    """
    try:
        return _read(text, vocabulary, things)
    except AtlasError as error:
        if tasks.translate is None:
            raise
        answer = tasks.translate(text)
        if not isinstance(answer, str):
            raise AtlasError(f"{error}\nThe translation of it is no text: {answer!r:.80}") from None
        try:
            reading = _read(answer, vocabulary, things)
        except AtlasError as again:
            raise AtlasError(f"{error}\nIt was translated to '{answer[:200]}', but: {again}") from None
        return reading._replace(notes=(f"translated to '{answer}'", *reading.notes))


@automata.within_bounds
def _read(text: str, vocabulary: Vocabulary, things: Sequence[str] | None) -> Reading:
    """The task that a text describes, without any translation.

    Where things may happen in any order, guards need not tell apart what the vocabulary says never happens at once.
    """
    from atlas.tasks.english.steps import StepReader  # pictures need `phrases` and not the grammar

    parser = StepReader(text, vocabulary, things)
    if parser.has_steps():
        task = parser.steps()
        if task.root not in task.can_accept:
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
