"""Laws of every sampler: what is written about its tasks, in English or as a file, is read back as the same task."""

import jax
import pytest
import yaml

from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.tasks.english import english
from atlas.tasks.explain import explain, is_prose, shape
from atlas.tasks.formats import format_task, parse_task
from atlas.tasks.packed import unpack
from atlas.tasks.sample import SAMPLERS
from twins.drawn import drawn

SENTENCES = {"sequential", "reach-avoid", "dag", "authors-dag"}
"""Samplers whose tasks are all said in sentences; the others may need numbered steps."""


def tasks(name, which, count):
    """The first tasks of a batch."""
    return [unpack(jax.tree.map(lambda leaf, i=i: leaf[i], drawn(name, which))) for i in range(count)]


@pytest.mark.parametrize("count", [8, pytest.param(64, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("which", ["all", "balls"])
def test_explanations_are_read_back(name, which, count):
    for task in tasks(name, which, count):
        text = explain(task, VOCABULARY)
        assert shape(english(text, VOCABULARY)) == shape(task), text
        assert is_prose(text) or name not in SENTENCES or which != "all"


@pytest.mark.parametrize("name", SAMPLERS)
def test_files_are_read_back(name):
    for task in tasks(name, "all", 8):
        text = yaml.safe_dump(format_task(task, VOCABULARY), sort_keys=False)
        assert shape(parse_task(yaml.safe_load(text), VOCABULARY)) == shape(task)
