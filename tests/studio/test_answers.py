"""What the desk and the lab answer, asked as the server asks them."""

import base64
import json

import pytest

import corridor
from atlas.domains import surface_of
from atlas.errors import AtlasError, LevelTextError, TextError
from atlas.runs.problem_files import load
from atlas.studio import answers as desks
from atlas.studio.answers import Answers
from atlas.studio.messages import Studio
from fake_runs import fake_run

ROOM = "##########\n##..kr..##\n##^...or##\n##########"
PROBLEM = {"domain": "minigrid", "level": {"level": ROOM}, "task": "pick up the red key", "name": "a", "tags": ["t"]}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studio")
    (folder / "inside").mkdir()
    fake_run(folder / "runs" / "one")
    (folder / "link").symlink_to(folder.parent)
    return folder


@pytest.fixture(scope="module")
def desk(root):
    return Answers(Studio(str(root), policy=str(root / "runs" / "one")))


def test_the_start_has_everything_a_page_needs(desk):
    told = json.loads(json.dumps(desk.answer("start", {}), allow_nan=False))
    facts = told["domains"]["minigrid"]
    assert len(facts["propositions"]) == len(facts["phrases"]) == 889
    assert len(facts["edits"]) == 13
    assert "hand" in told["sets"]
    assert told["level"]["tiles"]["cols"] == 13
    assert told["task"]["machines"]["m0"]["edges"]


def test_a_level_is_read_as_files_are(desk):
    told = desk.answer("level", {"level": {"level": ROOM}})
    assert told["level"] == {"level": ROOM}
    names = desk.answer("start", {})["domains"]["minigrid"]["propositions"]
    assert "front_key_red" in {names[prop] for prop in told["possible"]}
    with pytest.raises(LevelTextError, match="'kz' has no known colour") as wrong:
        desk.answer("level", {"level": {"level": ROOM.replace("kr", "kz")}})
    assert (wrong.value.line, wrong.value.column) == (2, 5)
    with pytest.raises(AtlasError, match="described by level, carrying"):
        desk.answer("level", {"level": {"text": ROOM}})


def test_strokes_that_cannot_be_are_told_and_the_others_made(desk):
    strokes = [{"brush": "blue ball", "at": [1, 1]}, {"brush": "wall", "at": [2, 1]}, {"brush": "wall", "at": [9, 9]}]
    told = desk.answer("paint", {"level": {"level": ROOM}, "strokes": strokes})
    assert told["level"]["level"].splitlines()[1] == "##obkr..##"
    assert [(one["at"], one["sentence"].split(":")[0]) for one in told["refused"]] == [
        ([2, 1], "the agent stands here"),
        ([9, 9], "there is no cell 9,9"),
    ]


def test_things_are_dragged_levels_resized_and_templates_taken(desk):
    level = {"level": {"level": ROOM}}
    assert "##......##" in desk.answer("move", {**level, "source": [1, 2], "target": [2, 2]})["level"]["level"]
    assert desk.answer("resize", {**level, "rows": 5, "columns": 6})["sizes"]["size"] == "5x6"
    assert desk.answer("template", {"name": "four rooms"})["sizes"]["rooms"] == "4"
    for name, body in (
        ("move", {**level, "source": [0, 0], "target": [2, 2]}),
        ("resize", {**level, "rows": 99, "columns": 6}),
        ("template", {"name": "castle"}),
    ):
        with pytest.raises(AtlasError):
            desk.answer(name, body)


def test_a_task_is_read_in_every_way(desk):
    told = desk.answer("task", {"mode": "english", "text": "pick up the red key, then go to a ball"})
    assert told["understood"] == "Pick up a red key, then go to a ball."
    machine = told["machines"]["m0"]
    assert machine["states"] == ["u0", "u1", "uA"]
    assert 'data-key="e0"' in machine["svg"]
    assert 'data-key="uA"' in machine["svg"]
    value = {"transitions": {"u0": {"u1": "carrying_key_red"}, "u1": {"uA": "front_ball"}}}
    for mode, body in (
        ("ltlf", {"text": "F(carrying_key_red & X F front_ball)"}),
        ("yaml", {"text": told["yaml"]}),
        ("value", {"value": value}),
        ("value", {"value": told["value"]}),
    ):
        assert desk.answer("task", {"mode": mode, **body})["value"] == told["value"]


def test_all_means_what_the_level_holds(desk):
    words = {"mode": "english", "text": "go to all the balls", "level": {"level": ROOM}}
    assert desk.answer("task", words)["understood"] == "Go to a red ball."
    more = {"level": ROOM.replace("..kr..", "obkr..")}
    told = desk.answer("task", words | {"level": more})
    names = {name for edge in told["machines"]["m0"]["edges"] for name in edge["formula"]}
    assert {"front_ball_red", "front_ball_blue"} <= names
    assert desk.answer("verdict", {"problem": PROBLEM | {"task": words["text"]}})["verdict"] == "solvable"


def test_mistakes_in_a_task_have_their_place(desk):
    with pytest.raises(TextError, match="did you mean key") as wrong:
        desk.answer("task", {"mode": "english", "text": "pick up the red kee"})
    assert [("pick up the red kee")[start:end] for start, end in wrong.value.spans] == ["kee"]
    with pytest.raises(TextError) as wrong:
        desk.answer("task", {"mode": "ltlf", "text": "F(front_ball & X F front_cat)"})
    assert wrong.value.spans == ((19, 28),)
    with pytest.raises(AtlasError, match="This is an LTLf formula"):
        desk.answer("task", {"mode": "english", "text": "F front_ball"})


def test_a_graph_is_drawn_while_it_is_made(desk):
    unfinished = {"root": "m0", "transitions": {"m0": {"u0": {"u1": {"edges": [{"formula": ["front_ball"]}]}}}}}
    told = desk.answer("task", {"mode": "value", "value": unfinished})
    assert "no path leads from u0 to uA" in told["refused"]
    assert told["machines"]["m0"]["states"] == ["u0", "u1"]
    with pytest.raises(AtlasError, match="is no proposition"):
        desk.answer("task", {"mode": "value", "value": {"transitions": {"u0": {"uA": "front_cat"}}}})


def test_hierarchies_are_told_machine_by_machine(desk):
    calls = {"m0": {"u0": {"uA": {"edges": [{"call": "m1"}]}}}, "m1": {"u0": {"uA": "front_ball"}}}
    told = desk.answer("task", {"mode": "value", "value": {"root": "m0", "transitions": calls}})
    assert told["machines"]["m0"]["calls"] == ["m1"]
    assert told["machines"]["m1"]["edges"][0]["formula"] == ["front_ball"]


def test_verdicts_come_with_plans_reasons_and_what_lint_would_say(desk, root):
    found = desk.answer("verdict", {"problem": PROBLEM})
    assert found["verdict"] == "solvable"
    film = desk.answer("play", {"problem": PROBLEM, "actions": found["plan"]})
    assert film["ending"] == "solved"
    assert film["scenes"][-1]["place"] == ["m0", "uA"]
    assert film["scenes"][-1]["total"] == 1.0
    assert "carrying_key_red" in film["scenes"][-1]["label"]
    never = desk.answer("verdict", {"problem": PROBLEM | {"task": "pick up the blue key"}})
    assert (never["verdict"], never["plan"]) == ("unsolvable", None)
    assert "blue" in never["reason"]
    at_once = {"level": {"level": ROOM.replace("..kr..", ">.kr..").replace("^.", "..")}, "task": "go to a key"}
    trivial = desk.answer("verdict", {"problem": PROBLEM | at_once})
    assert (trivial["trivial"], [one["kind"] for one in trivial["findings"]]) == (True, ["trivial"])
    desk.answer("save", {**PROBLEM, "path": "inside/one.yaml"})
    twin = desk.answer("verdict", {"problem": PROBLEM | {"name": "b"}, "where": "inside"})
    assert [one["kind"] for one in twin["findings"]] == ["duplicate"]
    assert desk.answer("verdicts", {"where": "inside", "names": ["a"]})["verdicts"]["a"]["plan_length"] == len(
        found["plan"]
    )


def test_play_goes_on_from_any_worker(desk, root):
    """The page has all actions: a worker that never saw the episode tells the same of its end as one that did."""
    whole = desk.answer("play", {"problem": PROBLEM, "actions": [0, 1, 2, 1]})
    for since in range(1, 5):
        for one in (desk, Answers(desk.studio)):
            part = one.answer("play", {"problem": PROBLEM, "actions": [0, 1, 2, 1], "since": since})
            assert part["first"] == since - 1
            assert part["scenes"][1:] == whole["scenes"][since:]


def test_a_policy_is_watched_and_rated(desk):
    body = {"problem": PROBLEM, "seed": 1}
    one, again = desk.answer("watch", body), desk.answer("watch", body)
    assert one == again
    assert one["ending"] in ("solved", "out of steps")
    assert len(one["scenes"][0]["p"]) == 6
    assert one["policy"]["name"] == "one"
    found = desk.answer("rate", {"problem": PROBLEM, "attempts": 4})
    assert 0 <= found["solved"] <= found["attempts"] == 4
    with pytest.raises(AtlasError, match="not below the folder"):
        desk.answer("watch", body | {"policy": "/etc"})
    with pytest.raises(AtlasError):
        desk.answer("watch", body | {"policy": "inside"})


@pytest.mark.parametrize("what", ["level", "task"])
def test_levels_and_tasks_are_drawn_at_random(desk, what):
    body = {"what": what, "seed": 3, "size": 1, "level": {"level": ROOM}}
    drawn = desk.answer("sample", body)
    assert drawn == desk.answer("sample", body)
    if what == "level":
        assert desk.answer("level", {"level": drawn["level"]})["sizes"]["rooms"] == "1"
    else:
        names = {name for m in desk.answer("task", {"mode": "value", "value": drawn["task"]})["machines"].values()
                 for edge in m["edges"] for name in edge["formula"]}  # fmt: skip
        assert not any("blue" in name for name in names)
    with pytest.raises(AtlasError):
        desk.answer("sample", body | {"tasks": "nonsense"})


def test_an_edit_is_made_and_told(desk):
    made = desk.answer("edit", {"problem": PROBLEM, "kind": "switch_proposition", "seed": 2})
    assert made["edit"].startswith("switch_proposition(")
    assert made["problem"]["level"] == PROBLEM["level"]
    with pytest.raises(AtlasError, match="is no kind of edit"):
        desk.answer("edit", {"problem": PROBLEM, "kind": "explode"})


# Files


def test_a_problem_is_saved_and_read_again(desk, root):
    assert desk.answer("save", {**PROBLEM, "path": "inside/two"})["path"] == "inside/two.yaml"
    assert load(root / "inside" / "two.yaml")[0].name == "a"
    with pytest.raises(AtlasError, match="is there already"):
        desk.answer("save", {**PROBLEM, "path": "inside/two.yaml"})
    desk.answer("save", {**PROBLEM, "path": "inside/two.yaml", "notes": "new", "overwrite": True})
    assert desk.answer("open", {"where": "inside/two.yaml"})["problem"]["notes"] == "new"
    text = desk.answer("text", PROBLEM)["text"]
    read = desk.answer("read", {"text": text})["problem"]
    assert read["level"] == PROBLEM["level"]
    (root / "inside" / "many.yaml").write_text(f"{text}---\n{text.replace('name: a', 'name: b')}")
    with pytest.raises(AtlasError, match="holds several problems"):
        desk.answer("save", {**PROBLEM, "path": "inside/many.yaml", "overwrite": True})
    (root / "inside" / "many.yaml").unlink()


OUTSIDE = ("../out.yaml", "/etc/passwd", "link/x.yaml", ".hidden.yaml", "inside/../../x.yaml", "inside/.git/x", "a\0b")


@pytest.mark.parametrize("path", OUTSIDE)
def test_nothing_outside_of_the_folder_is_read_written_or_listed(desk, root, path):
    before = sorted(root.parent.rglob("*"))
    for name, body in (
        ("save", {**PROBLEM, "path": path, "overwrite": True}),
        ("open", {"where": path}),
        ("folder", {"path": path}),
        ("run", {"run": path}),
        ("lineage", {"run": path, "name": "x"}),
        ("picture", {"where": path, "name": "x"}),
        ("verdicts", {"where": path, "names": ["x"]}),
    ):
        with pytest.raises(AtlasError, match=r"not below|no path|zero byte"):
            desk.answer(name, body)
    assert sorted(root.parent.rglob("*")) == before


@pytest.mark.parametrize("path", [".", "inside/..", "inside/../", "./", "inside/", "\0"])
def test_a_path_that_is_a_folder_is_no_name_for_a_file_beside_it(desk, root, path):
    before = sorted(root.parent.rglob("*"))
    with pytest.raises(AtlasError, match=r"not below|no path|zero byte"):
        desk.answer("save", {**PROBLEM, "path": path})
    assert sorted(root.parent.rglob("*")) == before


def test_a_folder_is_listed_without_what_leads_out_of_it(desk):
    found = {entry["name"]: entry["kind"] for entry in desk.answer("folder", {})["entries"]}
    assert found["inside"] == "folder"
    assert "link" not in found
    runs = desk.answer("folder", {"path": "runs"})
    assert runs["parent"] == "."
    assert {"name": "one", "path": "runs/one", "kind": "run"} in runs["entries"]
    assert desk.answer("runs", {})["runs"] == ["runs/one"]


def test_read_only_refuses_to_save(root):
    with pytest.raises(AtlasError, match="read-only"):
        Answers(Studio(str(root), read_only=True)).answer("save", {**PROBLEM, "path": "x.yaml"})
    assert not (root / "x.yaml").exists()


def test_a_set_is_a_gallery_with_pictures(desk):
    where = {"where": "runs/set.yaml"}
    cards = desk.answer("open", where)["problems"]
    one = next(card for card in cards if card["name"] == "behind-you")
    assert one["words"] == "Go to a red ball."
    assert "rooms-1" in one["tags"]
    assert all(0 <= card["rate"] <= 1 for card in cards)
    picture = base64.b64decode(desk.answer("picture", {**where, "name": "behind-you"})["png"])
    assert picture.startswith(b"\x89PNG")
    assert desk.answer("open", {**where, "name": "behind-you"})["problem"]["task"] == "Go to a red ball."


@pytest.mark.slow
def test_the_150_are_there_to_explore(desk):
    assert desk.answer("open", {"where": "hand"})["total"] == 150


def test_a_run_shows_its_curves_what_is_replayed_and_lineages(desk):
    told = json.loads(json.dumps(desk.answer("run", {"run": "runs/one"}), allow_nan=False))
    assert told["curves"]["held_out/all"][-1][0] == told["steps"] == 6400
    assert not told["training"]
    names = [one["name"] for one in told["replayed"]["problems"]]
    chain = desk.answer("lineage", {"run": "runs/one", "name": names[2]})["chain"]
    assert [one["number"] for one in chain] == [2, 1, 0]
    assert desk.answer("picture", {"where": chain[1]["where"], "name": chain[1]["name"]})["png"]
    with pytest.raises(AtlasError, match="is no run"):
        desk.answer("run", {"run": "inside"})


@pytest.mark.parametrize("number", ["1" + "0" * 400, "-1" + "0" * 400])
@pytest.mark.parametrize("name", ["steps", "losses/value"])
def test_numbers_of_a_run_that_are_too_large_are_a_sentence(desk, root, name, number):
    metrics = root / "runs" / "one" / "metrics.jsonl"
    before = metrics.read_text()
    group, _, inner = name.partition("/")
    wrong = f'"{group}": {{"{inner}": {number}}}' if inner else f'"{group}": {number}'
    try:
        metrics.write_text(before + f'{{"iteration": 9, "steps": 9, {wrong}}}\n')
        with pytest.raises(AtlasError, match=r"runs/one/metrics\.jsonl has a number in it that is too large"):
            desk.answer("run", {"run": "runs/one"})
        metrics.write_text(
            before + '{"iteration": 9, "steps": NaN}\n{"iteration": 9, "steps": 9000, "seconds": Infinity}\n'
        )
        told = json.loads(json.dumps(desk.answer("run", {"run": "runs/one"}), allow_nan=False))
        assert (told["steps"], told["seconds"]) == (9000, None)
    finally:
        metrics.write_text(before)


def test_it_works_in_letterworld(tmp_path):
    desk = Answers(Studio(str(tmp_path)))
    domain = {"domain": "letterworld"}
    facts = desk.answer("start", {})["domains"]["letterworld"]
    assert facts["actions"] == ["up", "right", "down", "left"]
    level = desk.answer("template", {**domain, "name": facts["templates"][-1]})["level"]
    problem = {**domain, "level": level, "task": "visit h, then visit l"}
    found = desk.answer("verdict", {"problem": problem})
    assert desk.answer("play", {"problem": problem, "actions": found["plan"]})["ending"] == "solved"
    painted = desk.answer("paint", {**domain, "level": level, "strokes": [{"brush": "letter c", "at": [0, 0]}]})
    assert painted["level"]["level"].startswith("c")


def test_it_works_in_another_domain(tmp_path, monkeypatch):
    corridor.register(monkeypatch)
    surface_of.cache_clear()
    monkeypatch.setattr(desks, "default_name", lambda: "corridor")
    desk = Answers(Studio(str(tmp_path)))
    told = desk.answer("start", {})
    problem = told["problem"]
    assert (problem["domain"], problem["level"]["corridor"]) == ("corridor", "wxyzw")
    found = desk.answer("verdict", {"problem": problem})
    assert found["names"] == ["right", "left", "left"]
    film = desk.answer("play", {"problem": problem, "actions": found["plan"]})
    assert (film["ending"], film["scenes"][-1]["view"]["cols"]) == ("solved", 3)
    where = {"domain": "corridor", "level": problem["level"]}
    assert (
        desk.answer("paint", {**where, "strokes": [{"brush": "the z", "at": [0, 0]}]})["level"]["corridor"] == "zxyzw"
    )
    edited = desk.answer("edit", {"problem": problem, "kind": "change_letter", "seed": 1})
    assert edited["edit"].startswith("change_letter(")
    assert desk.answer("sample", {"domain": "corridor", "what": "level", "seed": 0})["level"]["corridor"]
    saved = desk.answer("save", {**problem, "path": "c.yaml"})["path"]
    assert desk.answer("open", {"where": saved})["problem"]["domain"] == "corridor"
    with pytest.raises(LevelTextError) as wrong:
        desk.answer("level", {"domain": "corridor", "level": {"corridor": "wx", "start": "7"}})
    assert wrong.value.key == "start"
    surface_of.cache_clear()
