"""What people say: every sentence of the corpus means what it should, is said back, or is refused for what is wrong."""

import functools
from pathlib import Path

import pytest

import corpus
from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.errors import AtlasError
from atlas.tasks.english import Reading, read
from atlas.tasks.english.phrases import Words, say
from atlas.tasks.english.sentences import FILLERS, FILLERS_BEHIND
from atlas.tasks.explain import shape
from atlas.vocabulary import ACCEPTED, REJECTED
from twins.machines import follow_flat

GROUPS = corpus.groups()
UNDERSTOOD = [group for group in GROUPS if not group.named]
REFUSED = [group for group in GROUPS if group.named]


@functools.cache
def reading(sentence: str, things: str | None = None) -> Reading:
    return read(sentence, VOCABULARY, None if things is None else things.split(", "))


def name(group: corpus.Group) -> str:
    return group.sentences[0]


def test_the_corpus_is_as_large_as_the_page_says():
    understood, refused = (sum(len(group.sentences) for group in groups) for groups in (UNDERSTOOD, REFUSED))
    page = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text(encoding="utf-8")
    assert f"has {understood + refused} sentences as people say them" in page
    assert f"All {understood} that a task can mean" in page
    assert f"{refused} ask for what no task can say" in page
    assert understood >= 500


@pytest.mark.parametrize("group", UNDERSTOOD, ids=name)
def test_sentences_mean_what_they_should(group):
    for sentence in group.sentences:
        found = reading(sentence, *group.marked("@"))
        for mark, trace in group.facts:
            if mark in ("+", "-", "x"):
                ended = follow_flat(found.task, corpus.labels(trace, VOCABULARY))[-1]
                assert (ended == ACCEPTED) == (mark == "+"), f"{sentence}: {mark} {trace}"
                assert mark != "x" or ended == REJECTED, f"{sentence}: {mark} {trace}"
        for words in group.marked("~"):
            assert any(words in note for note in found.notes), f"{sentence}: {found.notes}"


@pytest.mark.parametrize("group", [group for group in UNDERSTOOD if len(group.sentences) > 1], ids=name)
def test_paraphrases_give_equal_machines(group):
    first, *others = [shape(reading(s, *group.marked("@")).task) for s in group.sentences]
    for sentence, other in zip(group.sentences[1:], others, strict=True):
        assert other == first, sentence


@pytest.mark.parametrize("group", UNDERSTOOD, ids=name)
def test_what_is_said_back_means_the_same(group):
    found = reading(group.sentences[0], *group.marked("@"))
    said = say(found.phrase, Words(VOCABULARY))
    assert shape(reading(said).task) == shape(found.task), said


@pytest.mark.parametrize("group", REFUSED, ids=name)
def test_refusals_name_what_is_wrong(group):
    for sentence in group.sentences:
        with pytest.raises(AtlasError) as error:
            read(sentence, VOCABULARY, group.things)
        for word in group.named:
            assert word in str(error.value), sentence


def test_fillers_change_no_meaning():
    sentence = "go to a ball, then pick up a key"
    meaning = shape(read(sentence, VOCABULARY).task)
    for filler in (" ".join(words) for several in FILLERS.values() for words in several):
        assert shape(reading(f"{filler} {sentence}").task) == meaning, filler
        assert shape(reading(f"go to a ball, then {filler} pick up a key").task) == meaning, filler
    for filler in (" ".join(words) for several in FILLERS_BEHIND.values() for words in several):
        assert shape(read(f"{sentence} {filler}", VOCABULARY).task) == meaning, filler
        assert shape(read(f"go to a ball {filler}, then pick up a key", VOCABULARY).task) == meaning, filler
