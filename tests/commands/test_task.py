"""`atlas task`: what it prints and writes, and how it complains."""

import json
import subprocess
import sys

import pytest
import yaml
from PIL import Image

from atlas.cli import main

FETCH = "go to a ball, then put the red key next to a locked door"


def run(capsys, *argv):
    code = main(["task", *argv])
    out, err = capsys.readouterr()
    return code, out, err


def test_tells_about_a_task(capsys):
    code, out, err = run(capsys, FETCH)
    assert (code, err) == (0, "")
    assert out == (
        "Go to a ball, then put a red key next to a locked door.\n\n"
        "→ u0 ─── ● go to a ball ──▶ u1\n"
        "  u1 ─── ⚷▯ put a red key next to a locked door ──▶ uA ✓\n"
    )


def test_needs_nothing_that_is_slow_to_import():
    heavy = {"jax", "PIL", "yaml", "typeguard", "multiprocessing"}
    told = f"import sys; from atlas.cli import main; main(['task', 'go to a ball']); print({heavy} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


def test_writes_drawings(capsys, tmp_path):
    svg, png = tmp_path / "task.svg", tmp_path / "task.png"
    assert run(capsys, FETCH, "--svg", str(svg), "--png", str(png), "--scale", "1")[0] == 0
    assert svg.read_text().startswith("<svg ")
    assert Image.open(png).size[0] > 300


def test_prints_only_what_is_asked_for(capsys):
    assert run(capsys, FETCH, "--explain")[1] == "Go to a ball, then put a red key next to a locked door.\n"
    assert set(yaml.safe_load(run(capsys, FETCH, "--yaml")[1])) == {"root", "transitions"}
    assert run(capsys, FETCH, "--dot")[1].startswith("digraph")
    assert run(capsys, FETCH, "--hoa")[1].startswith("HOA: v1")
    code, out, _ = run(capsys, FETCH, "--check")
    assert code == 0
    assert out.startswith("these traces satisfy it:\n  front_ball → next_key_red_door_locked\n")
    assert "these do not:\n" in out
    assert out.endswith("nothing odd was found\n")


def test_json_is_for_machines(capsys):
    facts = json.loads(run(capsys, "go to a red ball, then go to a ball", "--json")[1])
    assert (facts["machines"], facts["states"], facts["edges"]) == (1, 3, 2)
    assert facts["transitions"]["m0"]["u1"]["uA"]["edges"] == [{"call": "leaf", "formula": ["front_ball"]}]
    assert [finding["level"] for finding in facts["findings"]] == ["warning"]


def test_reads_formulas_and_files(capsys, tmp_path, monkeypatch):
    expected = "Go to a ball, then pick up a key.\n"
    formula = "F(front_ball & X F carrying_key)"
    assert run(capsys, formula, "--ltlf", "--explain")[1] == expected
    automaton = run(capsys, formula, "--ltlf", "--hoa")[1]
    files = {
        "a.yaml": "transitions: {u0: {u1: front_ball}, u1: {uA: carrying_key}}",
        "b.yaml": f"ltlf: {formula}",
        "c.txt": "Go to the ball,\nthen pick up the key.",
        "d.ltlf": formula,
        "e.hoa": automaton,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        assert run(capsys, str(tmp_path / name), "--explain")[1] == expected, name
    monkeypatch.setattr("sys.stdin", (tmp_path / "c.txt").open())
    assert run(capsys, "-", "--explain")[1] == expected


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["go to a bal"], "'bal' is not understood after 'go to a'; did you mean ball? (column 9)\n    go to a bal\n"),
        (["F front_ball"], "This is an LTLf formula: add --ltlf to read it as one."),
        (["F front_bal", "--ltlf"], "'front_bal' is no proposition; did you mean front_ball"),
        (["nosuch.yaml"], "nosuch.yaml does not exist"),
        (["F(front_bal & X F carrying_key)"], "It looks like LTLf: add --ltlf to read it as a formula."),
        (["go to a ball", "--png", "x.png", "--scale", "0"], "--scale 0 is not possible: from 0.1 to 20 is allowed"),
    ],
)
def test_mistakes_are_sentences(capsys, argv, message):
    code, out, err = run(capsys, *argv)
    assert (code, out) == (2, "")
    assert err.startswith("atlas: ")
    assert message in err


def test_warnings_are_told_and_errors_fail_the_check(capsys, tmp_path):
    code, out, _ = run(capsys, "F front_ball | G front_key", "--ltlf", "--check")
    assert code == 0
    assert "\nwarning: " in out
    assert "not co-safe" in out
    odd = tmp_path / "odd.yaml"
    odd.write_text("transitions: {u0: {uA: front_ball, uR: front_ball_red}}")
    code, out, _ = run(capsys, str(odd), "--check")
    assert code == 1
    assert "error: u0 is not deterministic" in out
    assert out.count("not deterministic") == 1
