"""The words of a domain: the grammar has none of its own, and every domain gets the usual verbs."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import atlas.tasks
from atlas.domains import DOMAINS, vocabulary_of
from atlas.errors import AtlasError
from atlas.tasks.english import english
from atlas.tasks.explain import explain, shape
from atlas.vocabulary import Vocabulary

ENGLISH = ("__init__", "commands", "lexicon", "phrases", "sentences", "steps")
GRAMMAR = ("explain", *(f"english/{name}" for name in ENGLISH))
LETTERS = "abcdefghijkl"
VOCABULARY = Vocabulary(
    names=tuple(f"at_{x}" for x in LETTERS),
    phrases=tuple(f"go to {x}" for x in LETTERS),
    commands={f"stand on {x}": i for i, x in enumerate(LETTERS)} | {f"go to {x}": i for i, x in enumerate(LETTERS)},
    synonyms={},
    features=np.zeros((12, 2, 12), np.float32),
    implies=np.eye(12, dtype=bool),
    excludes=~np.eye(12, dtype=bool),
    ids={f"at_{x}": i for i, x in enumerate(LETTERS)},
    verbs={"step on {}": "stand on {}"},
)
"""Things that are called like an article or a pronoun."""


@pytest.mark.parametrize("name", GRAMMAR)
@pytest.mark.parametrize("domain", DOMAINS)
def test_the_grammar_names_no_thing_of_a_domain(name: str, domain: str) -> None:
    words = vocabulary_of(domain)
    own = {*words.nouns, *words.synonyms, *(word for group in words.attributes for word in group)}
    own = {word for word in own if len(word) > 1} - {"shut", "closed"}  # `a`, a verb's form, what a bracket may be
    tree = ast.parse((Path(atlas.tasks.__file__).parent / f"{name}.py").read_text(encoding="utf-8"))
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = [
        n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in told
    ]
    for text in texts:
        assert not own & set(re.findall(r"[a-z]+", str(text.value).lower())), f"{name}.py:{text.lineno}"


@pytest.mark.parametrize(
    ("sentence", "meaning"),
    [
        ("visit a", "Go to a."),
        ("reach the a, then walk to the b", "Go to a, then go to b."),
        ("step on a and i, then stand on c", "Go to a and i, then go to c."),
        ("first a, then b, and finally i", "Go to a, then go to b, then go to i."),
        ("go to a or b, but never c", "Go to a or b, without going to c."),
        ("avoid a. go to i twice", "Go to i twice without going to a."),
        ("a must be visited before b", "Go to a, then go to b."),
        ("don't go to b until you have reached a", "Go to a without going to b."),
        ("go to a a", "Go to a."),
    ],
)
def test_a_domain_of_letters_gets_the_usual_verbs(sentence: str, meaning: str) -> None:
    task = english(sentence, VOCABULARY)
    assert explain(task, VOCABULARY) == meaning
    assert shape(english(meaning, VOCABULARY)) == shape(task)


def test_verbs_that_a_domain_does_not_know_are_refused() -> None:
    for sentence in ("pick up a", "put a next to b", "go to a with the b"):
        with pytest.raises(AtlasError):
            english(sentence, VOCABULARY)
    with_hands = replace(VOCABULARY, verbs={"pick up {}": "stand on {}"})
    assert shape(english("grab a", with_hands)) == shape(english("go to a", with_hands))
