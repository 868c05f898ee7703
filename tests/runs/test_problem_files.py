"""Problem files: what is written is read, in our formats and the authors', and mistakes are told with their place."""

import re
import textwrap
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import atlas
from atlas.domains.minigrid import authors, grid, text
from atlas.errors import AtlasError, TaskWarning
from atlas.evaluation.lint import lint
from atlas.evaluation.sets import open_set
from atlas.problems import stack
from atlas.runs import store
from atlas.runs.problem_files import choose, format_problem, load, load_any, load_level, load_task, save
from atlas.tasks.machine import ACCEPT, flat_task
from atlas.tasks.packed import pack
from atlas.types import About, NamedProblem, Problem

FETCH = """
name: fetch
level: |
  ##############
  ##kb......-r##
  ##^.........##
  ##############
carrying: green ball
task: pick up the blue key, then open the red door
tags: [keys, doors]
notes: |
  The door is in view.
"""
VISIT = """
level: |
  ##or##
  ##^.##
task: {ltlf: F front_ball_red}
"""

# Written by hand in the authors' format: spaces are floor, nulls are block scalars.
AUTHORS_LEVEL = """
obj_grid: |-
  #######
  #o s k#
  #  ^ ?#
  #-x+ o#
  #######
col_grid: |-
  #######
  #r # b#
  #  g r#
  #pyg  #
  #######
obj_pocket: !!null |-
  null
col_pocket: !!null |-
  null
"""
AUTHORS_TASK = """
alphabet: [front_ball, front_key_blue, carrying_ball]
root: m0
transitions:
  m0:
    u0:
      u1:
        reward: 0.0
        edges:
        - {call: leaf, formula: [front_ball, -carrying_ball]}
    u1:
      uA:
        reward: 1.0
        edges:
        - {call: leaf, formula: [front_key_blue]}
        - {call: leaf, formula: [carrying_ball]}
"""
AUTHORS_DEEP_TASK = """
root: m0
transitions:
  m0: {u0: {uA: {reward: 1.0, edges: [{call: m1, formula: []}]}}}
  m1: {u0: {uA: {reward: 0.0, edges: [{call: leaf, formula: [front_ball]}]}}}
"""


def write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def authors_folder(root: Path, *names: str) -> Path:
    for name in names:
        write(root / "levels" / f"{name}.yaml", AUTHORS_LEVEL)
        write(root / "hrms" / f"{name}.yaml", AUTHORS_TASK)
    return root


def assert_same(a: Any, b: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, a, b)


def test_a_problem_file_means_what_it_says(tmp_path: Path) -> None:
    (problem,) = load(write(tmp_path / "a.yaml", FETCH))
    assert isinstance(problem, Problem)
    assert (problem.name, problem.tags, problem.notes) == ("fetch", ("keys", "doors"), "The door is in view.")
    assert problem.source == str(tmp_path / "a.yaml")
    assert grid.cell_name(int(problem.level.carrying)) == "ball_green"
    assert problem.level.position.tolist() == [2, 1]
    names = [atlas.trace(problem, ["put_down"])[i].task_state for i in (0, 1)]
    assert names == ["u0", "u0"]


@pytest.mark.parametrize("content", [FETCH, VISIT, VISIT.replace("{ltlf: F front_ball_red}", "avoid")])
def test_saving_and_loading_gives_the_same_problem(tmp_path: Path, content: str) -> None:
    if "avoid" in content:
        task = "{transitions: {u0: {uA: front_ball, uR: [front_key, -front_ball]}}}"
        content = content.replace("avoid", task)
    (problem,) = load(write(tmp_path / "a.yaml", content))
    save(problem, tmp_path / "b.yaml")
    (again,) = load(tmp_path / "b.yaml")
    assert_same(again.bare(), problem.bare())
    assert again.about == About(**(vars(problem.about) | {"source": str(tmp_path / "b.yaml")}))


def test_a_saved_problem_reads_well() -> None:
    level = text.parse_level("##or##\n##^.##", carrying="grey key")
    task = flat_task([(0, ACCEPT, [1], 1.0)])
    assert format_problem(Problem(level=level, task=task)) == textwrap.dedent("""\
        level: |
          ##or##
          ##^.##
        carrying: gray key
        task: Go to a red ball.
        """)


def test_sets_are_files_of_several_documents_or_folders(tmp_path: Path) -> None:
    several = write(tmp_path / "set.yaml", "---".join([FETCH, VISIT, VISIT]))
    assert [p.name for p in load(several)] == ["fetch", "set-2", "set-3"]
    write(tmp_path / "folder" / "b.yaml", VISIT)
    write(tmp_path / "folder" / "a.yml", FETCH)
    write(tmp_path / "folder" / "inner" / "b.yaml", VISIT)
    write(tmp_path / "folder" / "README.md", "not a problem")
    assert [p.name for p in load(tmp_path / "folder")] == ["fetch", "b", "inner/b"]


def test_sets_are_written_as_one_file_or_one_each(tmp_path: Path) -> None:
    problems = load(write(tmp_path / "set.yaml", "---".join([FETCH, VISIT, VISIT])))
    for path in (tmp_path / "out.yaml", tmp_path / "out"):
        save(problems, path)
        again = load(path)
        assert [p.name for p in again] == ["fetch", "set-2", "set-3"]
        for a, b in zip(again, problems, strict=True):
            assert_same(a.bare(), b.bare())
    save([p.bare() for p in problems], tmp_path / "numbered")
    assert sorted(p.name for p in (tmp_path / "numbered").iterdir()) == ["1.yaml", "2.yaml", "3.yaml"]


def test_bulk_files_load_too(tmp_path: Path) -> None:
    (problem,) = load(write(tmp_path / "a.yaml", VISIT))
    store.save_bulk(stack([problem.bare()]), tmp_path / "set.npz", settings={}, seed=0, names=["one"])
    (again,) = load(tmp_path / "set.npz")
    assert again.name == "one"
    assert_same(again.bare(), problem.bare())


def test_names_are_not_traced_and_never_mixed_up(tmp_path: Path) -> None:
    loaded = load(write(tmp_path / "set.yaml", "---".join([VISIT, VISIT])))
    first, second = (problem.replace(task=pack(problem.task)) for problem in loaded)
    same = jax.jit(lambda problem: problem)
    assert [same(p).name for p in (first, second, first)] == ["set-1", "set-2", "set-1"]
    assert jax.tree.structure(first) != jax.tree.structure(second)
    assert jax.tree.structure(first.bare()) == jax.tree.structure(second.bare())
    assert all(isinstance(leaf, jax.Array | np.ndarray) for leaf in jax.tree.leaves(first))


def test_an_authors_level(tmp_path: Path) -> None:
    level = load_level(write(tmp_path / "a.yaml", AUTHORS_LEVEL))
    assert text.format_level(level) == textwrap.dedent("""\
        ##############
        ##or..sa..kb##
        ##....^.....##
        ##-pxy+g....##
        ##############""")


@pytest.mark.parametrize(
    ("pocket", "carried"),
    [
        ("obj_pocket: |-\n  k\ncol_pocket: |-\n  '#'\n".replace("'", ""), "key_gray"),
        ("obj_pocket: o\ncol_pocket: p\n", "ball_purple"),
        ("obj_pocket: null\ncol_pocket: null\n", None),
        ("obj_pocket: !!null |-\n\ncol_pocket: !!null |-\n\n", None),
        ("", None),
    ],
)
def test_what_is_carried_in_an_authors_level(tmp_path: Path, pocket: str, carried: str | None) -> None:
    drawing = AUTHORS_LEVEL[: AUTHORS_LEVEL.index("obj_pocket")]
    level = load_level(write(tmp_path / "a.yaml", drawing + pocket))
    code = int(level.carrying)
    assert (None if code == grid.NOTHING else grid.cell_name(code)) == carried


def test_an_authors_task(tmp_path: Path) -> None:
    task = load_task(write(tmp_path / "a.yaml", AUTHORS_TASK))
    assert [(e.source, e.target, e.reward) for e in task.flat.edges] == [(0, 1, 0.0), (1, 2, 1.0), (1, 2, 1.0)]
    deep = load_task(write(tmp_path / "b.yaml", AUTHORS_DEEP_TASK))
    assert not deep.is_flat


def test_an_authors_folder_and_its_files(tmp_path: Path) -> None:
    root = authors_folder(tmp_path / "problems", "alpha", "beta")
    problems = load(root)
    assert [p.name for p in problems] == ["alpha", "beta"]
    (one,) = load(root / "levels" / "beta.yaml")
    assert_same(one.bare(), problems[1].bare())


def test_an_authors_list_is_relative_to_the_root_of_their_files(tmp_path: Path) -> None:
    authors_folder(tmp_path / "repo" / "sets", "alpha", "beta")
    listed = "".join(
        f"- name: p{i}\n  level_path: sets/levels/{name}.yaml\n  hrm_path: sets/hrms/alpha.yaml\n"
        for i, name in enumerate(["alpha", "beta"])
    )
    path = write(tmp_path / "repo" / "config" / "eval" / "all.yaml", listed)
    assert [p.name for p in load(path)] == ["p0", "p1"]
    missing = write(path.parent / "bad.yaml", listed.replace("beta", "gamma"))
    with pytest.raises(AtlasError, match=r"bad\.yaml, line 4.*sets/levels/gamma\.yaml is not to be found"):
        load(missing)


def test_an_authors_level_without_its_task_is_told(tmp_path: Path) -> None:
    root = authors_folder(tmp_path, "alpha")
    (root / "hrms" / "alpha.yaml").unlink()
    with pytest.raises(AtlasError, match=r"alpha\.yaml: its task .* does not exist"):
        load(root)


AUTHORS_GREY_TASK = """
alphabet: [carrying_key_grey, front_ball_red, next_ball_red_door_grey_open, front_square_grey]
root: m0
transitions:
  m0:
    u0: {u1: {reward: 0.0, edges: [{call: m1, formula: [carrying_key_grey]}, {call: m2, formula: [front_ball_red]}]}}
    u1: {u2: {reward: 0.0, edges: [{call: leaf, formula: [front_square_grey, -next_ball_red_door_grey_open]}]}}
    u2: {uA: {reward: 1.0, edges: [{call: leaf, formula: [front_square_grey]}]}}
  m1:
    u0: {u1: {reward: 0.0, edges: [{call: leaf, formula: [front_ball_red]}]}}
    u1: {uA: {reward: 0.0, edges: [{call: leaf, formula: [front_ball_red]}]}}
  m2:
    u0: {u1: {reward: 0.0, edges: [{call: leaf, formula: [front_ball]}]}}
"""


def test_an_authors_set_with_grey_pockets_calls_and_repeated_propositions(tmp_path: Path) -> None:
    """It was refused for its spelling and for a machine that the root can do without; notes came by the hundred."""
    pocket = "obj_pocket: |-\n  k\ncol_pocket: |-\n  #\n"
    for name in ("alpha", "beta", "gamma"):
        drawing = AUTHORS_LEVEL[: AUTHORS_LEVEL.index("obj_pocket")]
        write(tmp_path / "levels" / f"{name}.yaml", drawing + pocket)
        write(tmp_path / "hrms" / f"{name}.yaml", AUTHORS_GREY_TASK)
    with pytest.warns(TaskWarning) as told:
        problems = load(tmp_path)
    assert len(told) == 1
    assert re.search(r"\d+ notes on tasks that others wrote; `atlas lint` lists them", str(told[0].message))
    assert [problem.name for problem in problems] == ["alpha", "beta", "gamma"]
    assert grid.cell_name(int(problems[0].level.carrying)) == "key_gray"
    labels = [["carrying_key_grey", "front_ball_red"], ["front_ball_red"], ["front_square_gray"], ["front_square_grey"]]
    assert [record.state for record in atlas.follow(problems[0], labels)] == ["u1", "u1", "u2", "uA"]
    assert [record.machine for record in atlas.follow(problems[0], labels)] == ["m1", "m0", "m0", "m0"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"##kb": "##kq"}, r"a\.yaml, line 5, column 5: 'kq' has no known colour"),
        ({"##^.": "##.."}, r"a\.yaml, line 3, column 8: level: the level has no agent"),
        ({"carrying: green ball": "carrying: green dor"}, r"line 8, column 11: carrying: 'green dor' cannot be"),
        ({"carrying: green ball": "carrying: 3"}, r"line 8, column 11: carrying must be text"),
        ({"blue key": "blu key"}, r"line 9, column 7: task: "),
        ({"tags: [keys, doors]": "tags: keys"}, r"line 10, column 7: tags must be a list"),
        ({"tags:": "tag:"}, r"line 10, column 6: 'tag' is not a key of a problem; did you mean tags"),
        ({"tags:": "name:"}, r"line 10, column 1: the key 'name' is given twice"),
        ({"level: |": "level: ["}, r"line 9, column 5: not readable YAML"),
    ],
)
def test_mistakes_are_told_with_file_line_and_column(tmp_path: Path, changes: dict[str, str], words: str) -> None:
    content = FETCH
    for old, new in changes.items():
        content = content.replace(old, new, 1)
    with pytest.raises(AtlasError, match=words):
        load(write(tmp_path / "a.yaml", content))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "holds no problems"),
        ("- 1\n- 2\n", "a mapping with keys"),
        ("name: x\ntask: go to a ball\n", "needs a level"),
        ("name: x\nlevel: |\n  ^.\n", "needs a task"),
        ("a: 1\n", "not a key of a problem"),
        ("a: !!python/object/apply:os.system ['true']\n", "the tag .* is not known"),
        ("name: [a]\nlevel: |\n  ^.\ntask: go to a ball", "name must be text"),
        ("x: \x00\n", "not readable YAML"),
    ],
)
def test_files_that_are_no_problems(tmp_path: Path, content: str, words: str) -> None:
    with pytest.raises(AtlasError, match=words):
        load(write(tmp_path / "a.yaml", content))


def test_doubts_about_a_task_are_told_with_the_file(tmp_path: Path) -> None:
    doubtful = VISIT.replace("{ltlf: F front_ball_red}", "{transitions: {u0: {uR: front_ball, uA: front_ball_red}}}")
    with pytest.warns(TaskWarning, match=r"a\.yaml, line 5, column 7: task: u0 is not deterministic"):
        load(write(tmp_path / "a.yaml", doubtful))


def test_two_problems_may_not_share_a_name(tmp_path: Path) -> None:
    with pytest.raises(AtlasError, match="is called 'fetch' too"):
        load(write(tmp_path / "set.yaml", "---".join([FETCH, FETCH])))


def test_who_waits_for_many_problems_is_told_how_many_are_read(tmp_path: Path) -> None:
    path = tmp_path / "many.yaml"
    path.write_text("---".join([FETCH, VISIT, *(FETCH.replace("fetch", f"fetch-{i}", 1) for i in range(3))]))
    seen: list[tuple[int, int]] = []
    assert len(open_set(str(path), progress=lambda done, total: seen.append((done, total))).problems) == 5
    assert seen[-1] == (6, 6), "the file, and its documents"
    assert seen == sorted(seen)


def test_a_link_back_to_its_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "fetch.yaml").write_text(FETCH)
    for name in ("again", "and-again"):  # two of them would be followed in 2^40 ways
        (tmp_path / name).symlink_to(".")
    with pytest.raises(AtlasError, match="again: leads to a folder that is read already"):
        load(tmp_path)
    assert [finding.kind for finding in lint(tmp_path)[1]] == ["malformed", "malformed"]


def test_missing_files_are_told(tmp_path: Path) -> None:
    for function in (load, load_level, load_task):
        with pytest.raises(AtlasError, match=r"nowhere\.yaml does not exist"):
            function(tmp_path / "nowhere.yaml")


def test_levels_and_tasks_alone(tmp_path: Path) -> None:
    both = write(tmp_path / "both.yaml", FETCH)
    assert_same(load_level(both), load(both)[0].level)
    assert_same(load_task(both), load(both)[0].task)
    assert_same(load_task(write(tmp_path / "task.yaml", "go to a red ball\n")), flat_task([(0, ACCEPT, [1], 1.0)]))
    drawing = write(tmp_path / "level.txt", "##^.\n")
    assert_same(load_any(drawing), text.parse_level("##^."))
    bad = write(tmp_path / "bad.txt", "##^.\n#?\n")
    with pytest.raises(AtlasError, match=r"bad\.txt, line 2, column 1"):
        load_level(bad)


def test_choosing_one_of_many(tmp_path: Path) -> None:
    path = write(tmp_path / "set.yaml", "---".join([FETCH, VISIT]))
    assert isinstance(named := choose(path, name="fetch"), NamedProblem)
    assert named.name == "fetch"
    assert choose(path, index=1).name == "set-2"
    for arguments, words in [
        ({}, "holds 2 problems"),
        ({"name": "fetsh"}, "did you mean fetch"),
        ({"index": 2}, "0 to 1"),
    ]:
        with pytest.raises(AtlasError, match=words):
            choose(path, **arguments)


def test_the_others_are_not_read(tmp_path: Path) -> None:
    """Of a large set one is shown at once, and although another one is spoilt."""
    spoilt = VISIT.replace("front_ball_red", "dance")
    path = write(tmp_path / "set.yaml", "---".join([FETCH, spoilt]))
    assert choose(path, name="fetch").name == choose(path, index=0).name == "fetch"
    assert choose(f"{path}:fetch").name == "fetch"
    with pytest.raises(AtlasError, match="dance"):
        choose(path, index=1)
    write(tmp_path / "twice.yaml", "---".join([FETCH, FETCH]))
    with pytest.raises(AtlasError, match="is called 'fetch' too"):
        choose(tmp_path / "twice.yaml", index=0)


def test_authors_grids_must_match(tmp_path: Path) -> None:
    path = write(tmp_path / "a.yaml", AUTHORS_LEVEL.replace("  #pyg  #\n", ""))
    with pytest.raises(AtlasError, match="col_grid has 4 lines and obj_grid 5"):
        authors.read_pair_level(path)
