"""The family of a run's problems: who is kept, what is told, in the terminal and as a picture."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.build import parts
from atlas.cli import main
from atlas.domains.minigrid.presets import TINY
from atlas.runs.folder import RunFolder
from atlas.runs.lineage import LineageTracker, read_tree
from atlas.runs.store import write_whole
from atlas.settings import dump
from atlas.types import Lineage
from atlas.ued import DRConfig
from atlas.ued import buffer as buffers


def tell_edits(lineage):
    return [f"edit {x}" for x in lineage.edits.tolist() if x >= 0]


PARENTS = {0: -1, 1: -1, 2: 0, 3: 2, 4: 2, 5: 1}
"""0 -> 2 -> 3, 4; 1 -> 5."""


@pytest.fixture(scope="module")
def problems():
    sample = parts(TINY).sample
    return jax.device_get(jax.jit(lambda key: sample(key, len(PARENTS)))(jax.random.key(0)))


def memory(problems, alive):
    """A buffer that holds some of the problems."""
    numbers = jnp.arange(len(PARENTS), dtype=jnp.int32)
    lineage = Lineage.unchecked(
        number=numbers,
        parent=jnp.array(list(PARENTS.values()), jnp.int32),
        generation=jnp.array([0, 0, 1, 2, 2, 1], jnp.int16),
        edits=jnp.where(jnp.array(list(PARENTS.values()))[:, None] >= 0, numbers[:, None], -1).astype(jnp.int8),
        arguments=jnp.full((len(PARENTS), 1, 3), -1, jnp.int16),
    )
    empty = buffers.empty(len(PARENTS), *jax.tree.map(lambda x: x[0], (problems, lineage)))
    records = empty.records.replace(
        filled=jnp.isin(numbers, jnp.array(alive)), score=numbers * 0.1, birth=numbers * 0.5, attempts=numbers + 1
    )
    return buffers.Buffer(records=records, problems=problems, lineage=lineage, clock=jnp.int32(0))


@pytest.fixture
def folder(tmp_path, problems):
    """A run in which 0 and 2 have left the buffer."""
    path = tmp_path / "run"
    path.mkdir()
    write_whole(path / "config.yaml", dump(TINY))
    family = LineageTracker(RunFolder(path), TINY, tell_edits, 0)
    family.update(memory(problems, [0, 1]), 1)
    family.update(memory(problems, [0, 1, 2, 5]), 2)
    family.save(memory(problems, [1, 3, 4]), 3)
    return path


def test_ancestors_stay_and_others_go(folder, problems):
    tree = read_tree(folder)
    assert set(tree.facts) == {0, 1, 2, 3, 4}
    assert {number for number, fact in tree.facts.items() if fact["alive"]} == {1, 3, 4}
    assert tree.ancestors(3) == [0, 2, 3]
    assert list(tree.descendants(0)) == [(2, 1), (3, 2), (4, 2)]
    assert tree.facts[3]["birth"] == pytest.approx(1.5)
    assert tree.facts[3]["score"] == pytest.approx(0.3)
    assert tree.notable(2) == [4, 3]
    for number in tree.facts:
        kept, own = tree.problem(number), jax.tree.map(lambda x, n=number: x[n], problems)
        jax.tree.map(np.testing.assert_array_equal, kept, own)


def test_a_run_that_goes_back_forgets_what_came_later(folder):
    assert set(LineageTracker(RunFolder(folder), TINY, tell_edits, 2).facts) == {0, 1, 2}
    assert not LineageTracker(RunFolder(folder), TINY, tell_edits, 0).facts


def test_the_family_in_the_terminal_as_json_and_as_a_picture(folder, tmp_path, capsys):
    picture = tmp_path / "family.svg"
    assert main(["lineage", str(folder), "problem-3", "--svg", str(picture)]) == 0
    told = capsys.readouterr().out
    for words in ("problem 0", "sampled", "generation 2, from problem 2", "edit 3", "score 1.5 at birth, 0.3 now"):
        assert words in told
    assert picture.read_text().startswith("<svg")
    assert main(["lineage", str(folder), "0", "--json"]) == 0
    family = json.loads(capsys.readouterr().out)
    assert [one["number"] for one in family["descendants"]] == [2, 3, 4]
    assert main(["lineage", str(folder)]) == 0
    assert "5 problems are known" in capsys.readouterr().out


@pytest.mark.parametrize("problem", ["5", "99", "nobody", "problem-", "-3"])
def test_an_unknown_problem_is_a_sentence(folder, problem, capsys):
    assert main(["lineage", str(folder), "--", problem]) == 2
    assert "knows no problem" in capsys.readouterr().err


def test_runs_without_a_lineage_are_a_sentence(folder, capsys):
    (folder / "lineage.npz").unlink()
    assert main(["lineage", str(folder), "3"]) == 2
    assert "has no lineage.npz" in capsys.readouterr().err
    write_whole(folder / "config.yaml", dump(TINY.__class__(**vars(TINY) | {"teacher": DRConfig()})))
    assert main(["lineage", str(folder), "3"]) == 2
    assert "DR keeps no problems" in capsys.readouterr().err
