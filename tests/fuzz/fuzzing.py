"""Inputs that nobody would write, for everything that reads: each must be read or refused with a sentence, and soon.

An input is one of our own examples, changed at random. It follows from a seed and a number, so that a finding can be
made again: `python tests/fuzz/fuzzing.py --only 0/1234`. Findings are saved; once mended they become files in `cases/`,
which the tests read for ever after.
"""

import argparse
import contextlib
import io
import json
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from atlas.errors import AtlasError, is_printable

ROOT = Path(__file__).parent.parent.parent
CASES = Path(__file__).parent / "cases"
SECONDS, MEGABYTES = 2.0, 500
"""What one input may take: processor time, and memory on top of what was there before."""
HANGING, WAITING = 10, 300
"""Seconds after which an input is given up: of the processor, and on the clock."""


# What reads


@dataclass(frozen=True)
class Reader:
    """Something that reads, and examples of what it reads."""

    suffix: str
    read: Callable[[Path], Any]
    examples: Callable[[], list[bytes]]
    share: int = 1
    """How often it is chosen, against others."""
    kind: str = "text"
    """How examples are changed: as `text`; also by the values of a `yaml` document or of `json` lines, or by `words`;
    or as an `archive` (arrays with a header, whose hash is made to fit again)."""


def look_at_task(task: Any) -> None:
    """What is done with every task that was read."""
    from atlas.domains import default_name, vocabulary_of
    from atlas.tasks.check import check
    from atlas.tasks.explain import explain
    from atlas.tasks.formats import format_task, to_dot, to_hoa
    from atlas.tasks.machine import content_hash

    words = vocabulary_of(default_name())
    check(task, words)
    explain(task, words)
    format_task(task, words)
    content_hash(task)
    to_dot(task, words)
    with contextlib.suppress(AtlasError):  # the flat form of a hierarchy may be too large
        to_hoa(task, words)


def _from_text(front_end: str) -> Callable[[Path], Any]:
    def read(path: Path) -> None:
        from atlas.documents import read_text
        from atlas.domains import default_name, find, vocabulary_of

        look_at_task(find(front_end)(read_text(path), vocabulary_of(default_name())))

    return read


def _problems(path: Path) -> None:
    from atlas.runs.problem_files import format_problem, load_any
    from atlas.show.problem import describe

    found = load_any(path)
    for one in found[:3] if isinstance(found, list) else [found]:
        describe(one)
        format_problem(one)


def _many(path: Path) -> None:
    from atlas.runs.problem_files import load

    load(path, [])


def _task(path: Path) -> None:
    from atlas.runs.problem_files import load_task

    look_at_task(load_task(path))


def _config(path: Path) -> None:
    from atlas.presets import config_of
    from atlas.settings import dump

    dump(config_of(str(path)))


def _sweep(path: Path) -> None:
    from atlas.runs.sweep import read_sweep

    read_sweep(path)


def _bulk(path: Path) -> None:
    from atlas.runs.problem_files import load
    from atlas.show.problem import describe

    for problem in load(path)[:3]:
        describe(problem)


def _parameters(path: Path) -> None:
    from atlas.runs.store import PARAMETERS, read

    read(path, PARAMETERS)


def _demos(path: Path) -> None:
    from atlas.runs.demos import load_demos

    load_demos(path)


def _notes(path: Path) -> None:
    """What a run writes down beside its numbers: whatever is there instead, it goes on or says so."""
    from atlas.runs.checkpoints import solve_rate
    from atlas.runs.folder import RunFolder
    from atlas.runs.metrics import Sinks

    with tempfile.TemporaryDirectory() as place:
        folder = RunFolder(Path(place))
        description = folder.checkpoints / "3" / "about" / "metadata"
        description.parent.mkdir(parents=True)
        for file in (folder.summary_file, folder.devices_file, folder.sinks_file, description):
            file.write_bytes(path.read_bytes())
        folder.summary()
        folder.devices()
        Sinks.read(folder.sinks_file)
        solve_rate(description.parent.parent)


def _metrics(path: Path) -> None:
    from atlas.reports.figures import at, keys, points
    from atlas.reports.reading import Group, Run
    from atlas.runs.metrics import JsonLines, read

    records = read(path)
    known = [record for record in records if isinstance(record.get("steps"), int | float)]
    run = Run(path, "", None, known, None, {}, {}, (), ())  # type: ignore[arg-type]
    keys(Group("", (run,)), "losses")
    points(known, at("losses", "value"))
    JsonLines(path, 3).close()


def _evaluation(path: Path) -> None:
    from atlas.evaluation.results import read_evaluation

    read_evaluation(path)


def _arguments(path: Path) -> None:
    """A command line, one argument a line, of a command that answers at once."""
    from atlas.cli import main

    words = path.read_bytes().decode(errors="surrogateescape").replace("\0", "").split("\n")
    if words[0] not in ("task", "presets", "show", "trace", "sweep"):
        words.insert(0, "task")
    told, complained = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(complained):
        code = main([word[:5000] for word in words[:8]])
    said = told.getvalue() + complained.getvalue()
    assert code in (0, 1, 2), code
    assert "internal error" not in said, said
    assert is_printable(said), repr(said)


@cache
def _desk() -> tuple[Any, Path]:
    """The desk of a studio, and its folder."""
    from atlas.studio.answers import Answers
    from atlas.studio.messages import Studio

    root = Path(tempfile.mkdtemp(dir=os.environ["XDG_CACHE_HOME"])) / "studio"
    root.mkdir()
    return Answers(Studio(str(root))), root


def _message(path: Path) -> None:
    """What a page of the studio sends, to the process that answers at once: a name, and a body on the next line."""
    from atlas.studio.messages import MESSAGES, parse_body

    data = path.read_bytes()
    first, _, rest = data.partition(b"\n")
    known = [name for name, message in MESSAGES.items() if message.lane == "desk"]
    name = first.decode(errors="replace").strip('"')
    name = name if name in known else known[zlib.crc32(data) % len(known)]
    body = parse_body(rest)
    desk, root = _desk()
    reply = desk.answer(name, body)
    json.dumps(reply, allow_nan=False)
    if name == "save":
        assert (root / reply["path"]).resolve().is_relative_to(root.resolve()), reply
        (root / reply["path"]).unlink()
    assert [entry.name for entry in root.parent.iterdir()] == ["studio"]


# Examples


@cache
def _hand() -> tuple[Any, ...]:
    from atlas.runs.problem_files import load

    return tuple(load(ROOT / "problems" / "hand"))


@cache
def _documents() -> list[bytes]:
    files = sorted((ROOT / "problems" / "hand").glob("*.yaml"))
    return [part.encode() for file in files for part in re.split(r"^---\n", file.read_text(), flags=re.M)]


def _english() -> list[bytes]:
    from atlas.api import explain

    more = (
        "go to a ball, then put the red key next to a locked door", "either go to a ball, or open a door, then wait",
        "pick up an object twice and go to a key 3 times, without opening a red door", "1. Go to a ball. 2. Finish.",
        "go to a ball and go to a key and go to a square and open a door and pick up a ball and pick up a key",
        "(go to an object while carrying an object and not opening an object) 7 times before you open a door",
        "Main task:\n1. Go to a ball and do routine 1, then finish (reward 0.5).\nRoutine 1:\n1. Pick up a key.",
    )  # fmt: skip
    return [text.encode() for text in (*more, *map(explain, _hand()))]


def _ltlf() -> list[bytes]:
    names = ("front_ball", "front_key", "carrying_key", "front_door_red", "front_square", "carrying_ball_blue")
    return [
        formula.encode()
        for formula in (
            "F(front_ball & X F carrying_key)", "!front_door_red U (front_ball | front_key)", "G front_ball -> last",
            "F a & F b & F c".replace("a", names[0]).replace(" b", f" {names[1]}").replace(" c", f" {names[2]}"),
            " & ".join(f"F {name}" for name in names), " | ".join(f"G({name} -> X {name})" for name in names),
            " <-> ".join(f"F {name}" for name in names), "X X X X X X X X front_ball W front_key M front_door",
        )
    ]  # fmt: skip


def _drawings() -> list[bytes]:
    from atlas.domains import surface_for

    return ["\n".join(surface_for(problem).format_level(problem.level).values()).encode() for problem in _hand()]


def _hoa() -> list[bytes]:
    from atlas.domains import default_name, vocabulary_of
    from atlas.tasks.formats import to_hoa
    from atlas.tasks.packed import unpack

    found = []
    for problem in _hand()[::4]:
        with contextlib.suppress(AtlasError):
            found.append(to_hoa(unpack(problem.task), vocabulary_of(default_name()), problem.name).encode())
    return [*found, b'HOA: v1 /* a comment */\nStart: 0\nAP: 1 "front_ball"\nAcceptance: 1 Inf(0)\n--BODY--\nState: 0']


def _yaml_tasks() -> list[bytes]:
    import yaml

    from atlas.domains import default_name, vocabulary_of
    from atlas.tasks.formats import to_plain
    from atlas.tasks.packed import unpack

    words = vocabulary_of(default_name())
    found = [yaml.safe_dump(to_plain(unpack(p.task), words), sort_keys=False).encode() for p in _hand()[::3]]
    short = (
        b"transitions:\n  u0: {u1: front_ball, uA: [front_key, -front_ball]}\n  u1: {uA: [[front_door], [front_key]]}\n"
    )
    calls = (
        b"root: m0\ntransitions:\n  m0: {u0: {uA: {reward: 1.0, edges: [{call: m1, formula: [front_ball]}]}}}\n"
        b"  m1: {u0: {u1: {edges: [{call: m2}, {call: leaf, formula: [front_key]}]}, uA: front_door}}\n"
        b"  m2: {u0: {uA: carrying_key}}\n"
    )
    return [*found, short, calls, b"ltlf: F front_ball", b"english: go to a ball", b"go to a ball"]


def _authors() -> list[bytes]:
    level = b"obj_grid: |\n  ####\n  #^o#\n  ####\ncol_grid: |\n  ####\n  #.r#\n  ####\nobj_pocket: k\ncol_pocket: b\n"
    pairs = b"- {name: one, level_path: levels/a.yaml, hrm_path: hrms/a.yaml}\n- {level_path: x, hrm_path: /dev/zero}\n"
    return [level, pairs]


def _configs() -> list[bytes]:
    from atlas.presets import presets
    from atlas.settings import dump

    whole = [dump(preset.config).encode() for preset in presets().values()]
    return [*whole, b"preset: quick\nrun: {seed: 3}\nteacher: {name: plr, buffer: {capacity: 100}}\n"]


def _sweeps() -> list[bytes]:
    return [path.read_bytes() for path in sorted((ROOT / "sweeps").glob("*.yaml"))]


def _archives() -> list[bytes]:
    from atlas.problems import stack
    from atlas.runs.store import save_bulk

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "some.npz"
        found = []
        for some in (_hand()[:2], [p for p in _hand() if len(p.task.machines) > 1][:2] or _hand()[2:3]):
            names = [problem.name for problem in some]
            save_bulk(
                stack(list(some)), path, {"step_limit": 99}, 0, names, [["a", "b"]] * len(some), ["n"] * len(some)
            )
            found.append(path.read_bytes())
    return found


def _parameter_files() -> list[bytes]:
    import numpy as np

    from atlas.runs.store import PARAMETERS, write

    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "p.npz", PARAMETERS, {".a": np.ones((2, 3), np.float32)}, {"steps": 3, "iteration": 1})
        return [(Path(folder) / "p.npz").read_bytes()]


def _demo_files() -> list[bytes]:
    """A file of problems with a plan for each."""
    import numpy as np

    from atlas.problems import stack
    from atlas.runs.store import DEMONSTRATIONS, problem_arrays, write

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "d.npz"
        arrays, header = problem_arrays(stack(list(_hand()[:2])))
        plans = {"plans": np.ones((2, 5), np.uint8), "lengths": np.array([3, 5], np.int32)}
        write(path, DEMONSTRATIONS, arrays | plans, header | {"names": ["a", "b"], "tags": [["t"], []], "recipe": {}})
        return [path.read_bytes()]


def _note_files() -> list[bytes]:
    rates = {"all": 0.5, "rooms_1": 0.5}
    summary = {"folder": "r", "iteration": 3, "steps": 9, "seconds": 1.0, "stopped": True, "before": rates}
    about = {"seconds": 1.0, "steps": 9, "before": rates, "solve_rate": 0.5, "iteration": 3, "digest": "ab"}
    others = ({"devices": 1, "hosts": 1, "platform": "cpu"}, {"tensorboard": True, "wandb": "ab"})
    return [json.dumps(one).encode() for one in (summary | {"after": rates}, about, *others)]


def _metric_files() -> list[bytes]:
    one = {
        "iteration": 1,
        "steps": 100,
        "seconds": 0.5,
        "losses": {"value": 0.1, "policy": 0.2},
        "held_out": {"all": 0.5},
    }
    return ["".join(json.dumps(one | {"iteration": n, "steps": 100 * n}) + "\n" for n in range(5)).encode()]


def _evaluations() -> list[bytes]:
    row = {"name": "a", "rate": 0.5, "solved": 5, "attempts": 10, "tags": ["x"], "plan_length": 3}
    about = {"name": "set", "attempts": 10, "problems": 2, "step_limit": 512, "hash": "abc", "seed": 0, "greedy": False}
    entry = {
        "run": "runs/a",
        "problems": [row, row | {"name": "b"}],
        "by_tag": {},
        "cvar": [{"alpha": 10, "value": 0.1}],
    }
    curve = {"set": about, "points": [{"steps": 1, "mean": 0.1, "iteration": 1}]}
    return [json.dumps({"set": about, "runs": [entry], "together": {}}).encode(), json.dumps(curve).encode()]


def _command_lines() -> list[bytes]:
    return [
        b"task\ngo to a ball", b"task\nF front_ball\n--ltlf\n--json", b"task\ngo to \x1b[31mball\n--check", b"task\n-x",
        b"presets\nquick", b"show\nnowhere.yaml", b"trace\n/dev/zero\n--actions\n0,0,3", b"task\n/dev/zero",
        b"sweep\nnowhere.yaml\n--parallel\n-3", b"presets\n\xff\xfe", b"show\n/dev/zero", b"show\nhand:no\n--index\n9",
    ]  # fmt: skip


def _message_examples() -> list[bytes]:
    level = {
        "domain": "minigrid",
        "level": {"level": "##########\n##..kr..##\n##^...or##\n##########", "carrying": "blue key"},
    }
    problem = level | {"task": "pick up the red key", "name": "a", "tags": ["t"], "notes": "n"}
    calls = {"m0": {"u0": {"uA": {"reward": 1.0, "edges": [{"call": "m1", "formula": ["front_ball"]}]}}},
             "m1": {"u0": {"uA": "front_key"}}}  # fmt: skip
    bodies: list[tuple[str, Any]] = [
        ("level", level),
        (
            "paint",
            level | {"strokes": [{"brush": "blue ball", "at": [1, 1]}, {"brush": "agent facing up", "at": [2, 2]}]},
        ),
        ("move", level | {"source": [1, 2], "target": [2, 2]}),
        ("resize", level | {"rows": 5, "columns": 9}),
        ("template", {"domain": "minigrid", "name": "two rooms"}),
        ("task", {"mode": "english", "text": "pick up the red key, then go to a ball"}),
        ("task", {"mode": "ltlf", "text": "F(front_ball & X F carrying_key)"}),
        ("task", {"mode": "yaml", "text": "transitions:\n  u0: {u1: front_ball}\n  u1: {uA: front_key}\n"}),
        ("task", {"mode": "value", "value": {"root": "m0", "transitions": calls}}),
        ("text", problem),
        ("read", {"text": "name: a\nlevel: |\n  ########\n  ##^.or##\n  ########\ntask: go to a ball\n"}),
        ("play", {"problem": problem, "actions": [0, 1, 2, 3, 4, 5], "since": 3}),
        ("folder", {"path": "."}),
        ("open", {"where": "a.yaml", "name": "a"}),
        ("picture", {"where": "a.yaml", "name": "a"}),
        ("save", problem | {"path": "inside/a.yaml", "overwrite": True}),
        ("run", {"run": "a"}),
        ("lineage", {"run": "a", "name": "problem-1"}),
    ]
    for name, body in bodies:
        with contextlib.suppress(AtlasError):
            _desk()[0].answer(name, body)  # what is compiled is not part of what an input takes
    (_desk()[1] / "inside" / "a.yaml").unlink()
    return [f"{json.dumps(name)}\n{json.dumps(body)}".encode() for name, body in bodies]


READERS: dict[str, Reader] = {
    "english": Reader(".txt", _from_text("atlas.tasks.english:english"), _english, 4, "words"),
    "ltlf": Reader(".ltlf", _from_text("atlas.tasks.ltlf:ltlf"), _ltlf, 4, "words"),
    "hoa": Reader(".hoa", _from_text("atlas.tasks.formats:from_hoa"), _hoa, 3, "words"),
    "task": Reader(".yaml", _task, _yaml_tasks, 4, "yaml"),
    "problems": Reader(".yaml", _problems, _documents, 4, "yaml"),
    "sets": Reader(".yaml", _many, _documents),
    "drawings": Reader(".txt", _problems, _drawings, 1, "words"),
    "authors": Reader(".yaml", _problems, _authors),
    "config": Reader(".yaml", _config, _configs, 3, "yaml"),
    "sweep": Reader(".yaml", _sweep, _sweeps, 2, "yaml"),
    "archive": Reader(".npz", _bulk, _archives, 2, "archive"),
    "archive-bytes": Reader(".npz", _bulk, _archives),
    "parameters": Reader(".npz", _parameters, _parameter_files),
    "demos": Reader(".npz", _demos, _demo_files, 1, "archive"),
    "notes": Reader(".json", _notes, _note_files, 1, "json"),
    "metrics": Reader(".jsonl", _metrics, _metric_files, 1, "json"),
    "evaluation": Reader(".json", _evaluation, _evaluations, 2, "json"),
    "arguments": Reader(".args", _arguments, _command_lines),
    "message": Reader(".message", _message, _message_examples, 4, "json"),
}
examples = cache(lambda name: READERS[name].examples())


# Changes

PIECES: tuple[bytes, ...] = (
    b"\x00", b"\x1b[31m", b"\xff\xfe", b"\xe2\x80\xae", b"\xc2\x9b", b"\\e[2J", b'"\\x1b[0m"', b"$x^$", b"[bold]",
    b"[/]", b"\r\n", b"&a ", b"*a", b"<<: *a\n", b"&a [*a, *a]", b"!!python/object:os.system x", b"!!int x",
    b"!!timestamp x", b"!!binary ==", b"? [a]\n: b\n", b"---\n", b"...\n", b"\t", b"{", b"}", b"[", b"]", b"(", b")",
    b"#", b"|", b">", b"'", b'"', b": ", b"- ", b"%", b".inf", b"-.inf", b".nan", b"1e400", b"-1", b"0", b"1",
    b"99999999999999999999999", b"9" * 5000, b"0x7f", b"1:2:3:4", b"2001-99-99", b"null", b"true", b"~", b"[]",
    b"{}", b"[[a]]", b"m0", b"m00", b"m1", b"u0", b"u00", b"u126", b"uA", b"uR", b"leaf", b"\xd9\xa3", b" and ",
    b" or ", b", then ", b" without ", b" while ", b" twice", b" 50 times", b"an object", b" before ", b"either ",
    b"not ", b" U ", b" X ", b"F ", b"G ", b" & ", b" | ", b" <-> ", b" -> ", b"!", b"last", b"N ", b" W ", b"/*",
    b"*/", b"State: ", b"[t] 0", b"preset: quick\n", b"name: accel\n", b"../../x", b"/dev/zero", b"\xf0\x9f\x92\xa5",
    b"NaN", b"Infinity", b"\\ud800", b"1e308",
)  # fmt: skip


def changed(source: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """A text after a few random changes."""
    data = bytearray(source)
    for _ in range(min(12, 1 + int(chance.expovariate(0.5)))):
        at, end = sorted(chance.randrange(len(data) + 1) for _ in range(2))
        end = min(end, at + chance.choice((1, 4, 30, 300)))
        match chance.randrange(9):
            case 0:
                data[at:at] = chance.choice(PIECES)
            case 1:
                data[at:end] = chance.choice(PIECES)
            case 2:
                del data[at:end]
            case 3:
                data[at:at] = data[at:end] * chance.choice((1, 1, 2, 8, 50))
            case 4:
                other = chance.choice(others)
                start = chance.randrange(len(other) + 1)
                data[at:end] = other[start : start + chance.choice((4, 30, 300))]
            case 5:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 6:
                data[at:at] = chance.choice(PIECES) * chance.choice((2, 10, 100, 2000))
            case 7:  # a whole word in place of another, so that more of it is still understood
                words = re.findall(rb"[\w.-]+|[^\w\s]", bytes(data)) or [b"a"]
                data = bytearray(
                    bytes(data).replace(chance.choice(words), chance.choice([*words, *PIECES]), chance.choice((1, 99)))
                )
            case 8:
                lines = bytes(data).split(b"\n")
                chance.shuffle(lines) if chance.random() < 0.2 else lines.insert(
                    chance.randrange(len(lines) + 1), chance.choice(lines)
                )
                data = bytearray(b"\n".join(lines))
        del data[300_000:]
    return bytes(data)


WEIRD: tuple[Any, ...] = (
    None, True, -1, 0, 1, 1 << 70, 1e400, float("nan"), "", "\x1b[31m", "a" * 3000, "\ud800", [], {}, [[]], [None],
    {"a": []}, "../../x",
)  # fmt: skip


def _places(value: Any) -> list[Any]:
    """All values inside a value, itself included."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value, *(place for one in inner for place in _places(one))]


def _changed_value(value: Any, chance: random.Random, spare: Sequence[Any] = WEIRD) -> Any:
    """A plain value with one place in it changed."""
    if chance.random() < 0.15 or not isinstance(value, dict | list) or not value:
        return chance.choice(spare)
    if isinstance(value, dict):
        key = chance.choice(list(value))
        rest = {k: v for k, v in value.items() if k != key}
        if chance.random() < 0.2:
            return rest if chance.random() < 0.5 else {**rest, chance.choice(list(value)): value[key]}
        return {**value, key: _changed_value(value[key], chance, spare)}
    place = chance.randrange(len(value))
    new = [] if chance.random() < 0.2 else [_changed_value(value[place], chance, spare)] * chance.choice((1, 1, 1, 20))
    return value[:place] + new + value[place + 1 :]


def changed_values(source: bytes, others: list[bytes], chance: random.Random, kind: str) -> bytes:
    """A YAML document or JSON lines with other values in some places: weird ones, or those of other examples."""
    import yaml

    read = yaml.safe_load if kind == "yaml" else json.loads
    lines = [source] if kind == "yaml" else source.splitlines()
    values = [read(line) for line in lines]
    spare = [*WEIRD, *_places(read(chance.choice(others).splitlines()[0] if kind == "json" else chance.choice(others)))]
    for _ in range(chance.choice((1, 1, 2, 3, 6))):
        place = chance.randrange(len(values))
        values[place] = _changed_value(values[place], chance, spare)
    with contextlib.suppress(ValueError, yaml.YAMLError):  # half a character has no text form
        if kind == "yaml":
            return yaml.safe_dump(values[0], sort_keys=False, allow_unicode=True).encode()
        return "\n".join(map(json.dumps, values)).encode()
    return source


def changed_words(source: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """A text in which some words stand elsewhere, or come from other examples: much of it is still understood."""
    pattern = rb"[\w.-]+|[^\w\s]|\s+"
    words, spare = re.findall(pattern, source), re.findall(pattern, chance.choice(others))
    for _ in range(chance.choice((1, 2, 4, 8))):
        at, end = sorted(chance.randrange(len(words) + 1) for _ in range(2))
        end = min(end, at + chance.choice((1, 3, 12)))
        start = chance.randrange(len(spare))
        match chance.randrange(4):
            case 0:
                words[at:end] = spare[start : start + chance.choice((1, 3, 12, 60))]
            case 1:
                words[at:at] = words[at:end] * chance.choice((1, 2, 6, 30))
            case 2:
                words[at:end] = []
            case 3:
                joined = [b" ", chance.choice((b"and", b"or", b", then", b"&", b"|", b"U", b"<->", b"while")), b" "]
                words = [*words, *joined, *spare]
        del words[3000:]
    return b"".join(words)


_NAMES = tuple(f"{where}_{what}_{colour}" for where in ("front", "carrying") for what in ("ball", "key", "square")
               for colour in ("red", "green", "blue", "purple", "yellow"))  # fmt: skip


def new_formula(chance: random.Random, size: int) -> str:
    """A formula with so many propositions."""
    if size <= 1:
        return chance.choice(("", "", "!", "X ", "F ", "G ", "N ")) + chance.choice((*_NAMES, "last", "true"))
    left = chance.randrange(1, size)
    operator = chance.choice(("&", "&", "|", "|", "U", "R", "W", "M", "->", "<->"))
    inside = f"{new_formula(chance, left)} {operator} {new_formula(chance, size - left)}"
    return chance.choice(("({})", "F({})", "X({})", "G({})", "!({})")).format(inside)


def new_sentence(chance: random.Random, size: int) -> str:
    """A sentence with so many commands."""
    if size <= 1:
        thing = f"{chance.choice(('a', 'the'))} {chance.choice(('red ', 'blue ', 'gray ', ''))}"
        thing += chance.choice(("ball", "key", "square", "object"))
        verb = chance.choice(("go to", "pick up", "go to", "put a ball next to"))
        return f"{verb} {thing}" + chance.choice(("", "", "", " twice", " 9 times", " while carrying an object"))
    left = chance.randrange(1, size)
    how = chance.choice(
        (" and ", " and ", " or ", ", then ", " before ", " after you ", ", without going to a door and ")
    )
    inside = new_sentence(chance, left) + how + new_sentence(chance, size - left)
    return chance.choice(("{}", "({})", "({}) twice", "either {}")).format(inside)


def changed_archive(source: bytes, chance: random.Random) -> bytes:
    """Arrays and a header with something wrong in them, and a hash that fits."""
    import numpy as np

    from atlas.runs.store import PROBLEMS, write

    with np.load(io.BytesIO(source)) as file:
        arrays = {name: file[name] for name in file.files}
    header: Any = json.loads(str(arrays.pop("header")))
    del header["sha256"]
    for _ in range(chance.choice((1, 1, 2))):
        name = chance.choice(list(arrays)) if arrays else ""
        match chance.randrange(6) if arrays else 0:
            case 0:
                header = _changed_value(header, chance)
                header = header if isinstance(header, dict) else {"format": header}
            case 1:
                flat = arrays[name].copy()
                if flat.size and flat.dtype.kind in "iuf":
                    flat.flat[chance.randrange(flat.size)] = chance.choice((0, 1, 2, 99, 127))
                arrays[name] = flat
            case 2:
                arrays[name] = arrays[name].astype(
                    chance.choice(("int64", "float32", "uint8", "U3", "bool", "complex64"))
                )
            case 3:
                with contextlib.suppress(IndexError):  # there is no first row
                    arrays[name] = arrays[name][chance.choice((0, slice(0), slice(1), None))]
            case 4:
                del arrays[name]
            case 5:
                with np.errstate(invalid="ignore"):
                    odd = np.full(arrays[name].shape, chance.choice((-1, 1, 77, np.nan)), np.float32)
                    arrays[name] = odd.astype(arrays[name].dtype)
    header = {"format": PROBLEMS.name, "version": PROBLEMS.version} | header
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "x.npz"
        write(path, PROBLEMS, arrays, header)
        return path.read_bytes()


def make(seed: int, number: int) -> tuple[str, bytes]:
    """The input of a number: who is to read it, and its bytes."""
    chance = random.Random(f"{seed}/{number}")
    names = [name for name, reader in READERS.items() for _ in range(reader.share)]
    name = chance.choice(names)
    known, kind = examples(name), READERS[name].kind
    example = chance.choice(known)
    if kind == "archive":
        return name, changed_archive(example, chance)
    if kind != "text" and chance.random() < 0.6:
        if name in ("ltlf", "english") and chance.random() < 0.5:
            size = chance.choice((2, 3, 4, 6, 8, 12, 30))
            return name, (new_formula if name == "ltlf" else new_sentence)(chance, size).encode()
        if kind == "words":
            return name, changed_words(example, known, chance)
        return name, changed_values(example, known, chance, kind)
    return name, changed(example, known, chance)


# Judging


class Hanging(BaseException):
    """An input that takes far too long; no reader can catch this."""


def judge(name: str, path: Path) -> str:
    """What is wrong with how an input is read; empty if nothing is."""

    def give_up(number: int, frame: FrameType | None) -> NoReturn:
        raise Hanging

    reader = READERS[name]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    before = {number: signal.signal(number, give_up) for number in (signal.SIGALRM, signal.SIGPROF)}
    signal.setitimer(signal.ITIMER_PROF, HANGING)
    signal.alarm(WAITING)
    start = time.process_time()
    wrong = ""
    try:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                reader.read(path)
        finally:  # time is up no more
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.alarm(0)
    except (AtlasError, OSError) as error:
        sentence = str(error)
        if isinstance(error, AtlasError) and not is_printable(sentence):
            wrong = f"a sentence that commands the terminal: {sentence!r}"
        if isinstance(error, OSError) and error.filename is None:
            wrong = f"no sentence: {error!r}"
    except Hanging:
        wrong = f"no answer within {HANGING} seconds of the processor, or {WAITING} on the clock"
    except SystemExit as error:  # of the parser of arguments, which has said why
        wrong = "" if error.code == 2 or error.code == 0 else f"exit {error.code}"
    except BaseException:
        wrong = traceback.format_exc()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    seconds = time.process_time() - start
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) >> 10
    if not wrong and seconds > SECONDS:
        wrong = f"it took {seconds:.1f} seconds"
    if not wrong and grown > MEGABYTES:
        wrong = f"it took {grown} MB"
    return wrong


def warm_up(folder: Path) -> None:
    """Read an example of everything once: imports are not part of what an input takes."""
    for name, reader in READERS.items():
        path = folder / f"example{reader.suffix}"
        path.write_bytes(examples(name)[0])
        with contextlib.suppress(Exception, SystemExit):
            reader.read(path)


def main() -> int:
    parser = argparse.ArgumentParser(description="Feed changed examples to everything that reads.")
    parser.add_argument("count", nargs="?", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="the number of the first input")
    parser.add_argument("--only", help="SEED/NUMBER of one input, or the path of a saved one")
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"), help="where failing inputs are saved")
    args = parser.parse_args()
    os.environ.setdefault("COLUMNS", "200")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        warm_up(Path(folder))
        if args.only and Path(args.only).is_file():
            wrong = judge(Path(args.only).name.split("-")[0], Path(args.only))
            print(wrong or "read, or refused with a sentence")
            return int(bool(wrong))
        found, slowest, begun, counts = 0, (0.0, ""), time.monotonic(), Counter[str]()
        seed, numbers = args.seed, range(args.start, args.start + args.count)
        if args.only:
            seed, number = map(int, args.only.split("/"))
            numbers = range(number, number + 1)
        for case in sorted(CASES.iterdir()) if not args.only else ():
            path = Path(folder) / case.name
            path.write_bytes(case.read_bytes())  # some readers write, too
            if wrong := judge(case.name.split("-")[0], path):
                found += 1
                print(f"{case}:\n{wrong}", flush=True)
        for number in numbers:
            name, data = make(seed, number)
            path = Path(folder) / f"input{READERS[name].suffix}"
            path.write_bytes(data)
            start = time.process_time()
            wrong = judge(name, path)
            slowest = max(slowest, (time.process_time() - start, f"{name} {seed}/{number}"))
            counts[name] += 1
            if wrong:
                found += 1
                args.findings.mkdir(parents=True, exist_ok=True)
                saved = args.findings / f"{name}-{seed}-{number}{READERS[name].suffix}"
                saved.write_bytes(data)
                print(f"{name}, input {seed}/{number}, saved as {saved}:\n{wrong}", flush=True)
            done = number - numbers[0] + 1
            if done % 1000 == 0 or done == len(numbers):
                told = (
                    f"{done:,} of {len(numbers):,}, {done / (time.monotonic() - begun):.0f} a second, {found} findings"
                )
                print(f"{told}, slowest {slowest[0]:.2f} s ({slowest[1]})", file=sys.stderr, flush=True)
        each = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        print(f"{sum(counts.values()):,} inputs, {found} findings: {each}")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
