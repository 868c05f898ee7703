"""English tasks: BabyAI's commands and connectives, and more (see `english_grammar` and `english_steps`)."""

import warnings
from typing import Any

from atlas.errors import AtlasError
from atlas.tasks import compose, english_grammar, english_steps
from atlas.tasks.automaton import Automaton, accepts, minimise, to_machine
from atlas.tasks.diagram import Diagram, Diagrams, possible
from atlas.tasks.english_grammar import All, AnyOf, Choice, Guard, Phrase, Reader, Repeat, Then, Without
from atlas.tasks.english_words import lexicon, tokenise
from atlas.tasks.place import TaskWarning
from atlas.tasks.view import view
from atlas.vocabulary import Vocabulary


def english(text: str, vocabulary: Vocabulary) -> Any:
    """The task that a text describes: a machine, or a hierarchy if it has routines.

    Where things may happen in any order, guards need not tell apart what the vocabulary says never happens at once.
    """
    reader = Reader(text, tokenise(text), lexicon(vocabulary))
    if english_steps.has_steps(reader):
        return _with_acceptance(english_steps.parse(reader))
    phrase = english_grammar.parse(reader)
    diagrams = Diagrams()
    automaton = _compile(phrase, diagrams)
    if not _is_exact(phrase):
        care = possible(diagrams, _props(phrase), vocabulary.implies, vocabulary.excludes)
        automaton = compose.forbid(automaton, care)
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
        return compose.moment(diagrams, _function(phrase, diagrams))
    if isinstance(phrase, Repeat):
        if isinstance(phrase.part, Guard):
            return compose.rises(diagrams, _function(phrase.part, diagrams), phrase.times)
        return compose.then([_compile(phrase.part, diagrams)] * phrase.times)
    if isinstance(phrase, Without):
        return compose.without(_compile(phrase.part, diagrams), _function(phrase.avoided, diagrams))
    parts = [_compile(part, diagrams) for part in phrase.parts]
    ways = {Then: compose.then, All: compose.all_of, AnyOf: compose.any_of, Choice: compose.first_begun}
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
