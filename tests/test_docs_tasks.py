"""Every example of docs/tasks.md is read, explained and read back."""

import re
import warnings
from pathlib import Path

import pytest
import yaml

import atlas
from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.errors import TaskWarning
from atlas.tasks.explain import shape
from atlas.tasks.formats import parse_task

PAGE = (Path(__file__).parent.parent / "docs" / "tasks.md").read_text()
BLOCKS = re.findall(r"```(english|steps|ltlf|yaml)\n(.*?)```", PAGE, re.DOTALL)
EXAMPLES = [
    (kind, text) for kind, block in BLOCKS for text in (block.splitlines() if kind in ("english", "ltlf") else [block])
]


def read(kind: str, text: str):
    if kind == "yaml":
        return parse_task(yaml.safe_load(text), VOCABULARY)
    return atlas.ltlf(text) if kind == "ltlf" else atlas.english(text)


@pytest.mark.parametrize(("kind", "text"), EXAMPLES)
def test_examples_are_read_and_explained(kind, text):
    with warnings.catch_warnings():
        warnings.simplefilter("error", TaskWarning)
        task = read(kind, text)
    assert shape(atlas.english(atlas.explain(task))) == shape(task)


def test_there_are_examples_of_every_kind():
    assert {kind for kind, _ in EXAMPLES} == {"english", "steps", "ltlf", "yaml"}
