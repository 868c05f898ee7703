"""Goldens: what commands print and refuse, and what public functions give, word for word.

    python tests/goldens.py record [WORD ...]     # run all cases (or those whose name holds a word) and store the results
    python tests/goldens.py compare [WORD ...]    # run them again and tell what differs; `pytest tests/test_goldens.py` too

Cases go through the stable surface alone: `atlas.cli.main` and the public names of `atlas`. They run in one process, in
a temporary folder that holds the hand-designed problems as `problems/` and the FILES below; its path, that of the hand
set and the version never reach a result. Results lie in `tests/golden/GROUP.json`, one case a line.

What may grow is compared one way: every flag, preset, set, key of a JSON object and listed line that was stored must
still be there with the same value; new ones do not matter. All else must be equal.
"""

import contextlib
import io
import json
import math
import os
import re
import shutil
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import atlas
from atlas.cli import main

FOLDER = Path(__file__).parent / "golden"
SWEEPS = Path(__file__).parents[1] / "sweeps"
ENVIRONMENT = {"COLUMNS": "100", "LINES": "40", "TERM": "dumb", "NO_COLOR": "1"}
FORGOTTEN = ("FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE")


@dataclass(frozen=True)
class Case:
    """Something to run, and how its result is compared: `equal`, `grow` (new keys and lines may come)."""

    name: str
    run: Callable[[], Any]
    slow: bool = False

    @property
    def group(self) -> str:
        """The file that keeps its result."""
        return self.name.split("/")[0]


CASES: list[Case] = []


def command(
    name: str,
    *argv: str,
    form: str = "text",
    cut: str = "",
    stdin: str = "",
    reads: tuple[str, ...] = (),
    drop: tuple[str, ...] = (),
    slow: bool = False,
) -> None:
    """A case that runs a command. `reads` are files it writes; `cut` is where its output becomes of no interest."""

    def run() -> Any:
        code, out, err = call(list(argv), stdin)
        told: dict[str, Any] = {"code": code, "out": shaped(out, form, drop), "err": lines(unboxed(err))}
        if cut:
            told["err"] = lines(unboxed(err).split(cut)[0])
        told |= {"files": {path: content(Path(path)) for path in reads}} if reads else {}
        return {key: value for key, value in told.items() if value not in ("", [], 0)}

    CASES.append(Case(name, run, slow))


def function(name: str, slow: bool = False) -> Callable[[Callable[[], Any]], None]:
    """A case that calls public functions."""

    def enter(run: Callable[[], Any]) -> None:
        CASES.append(Case(name, lambda: attempted(run), slow))

    return enter


def refused(name: str, run: Callable[[], Any]) -> None:
    """A case of public functions that must raise."""
    CASES.append(Case(f"refusals/{name}", lambda: attempted(run)))


# How a case runs


@contextlib.contextmanager
def workspace() -> Iterator[Path]:
    """A folder with all that cases need, made the current one for as long as they run."""
    before, environment = Path.cwd(), dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="goldens-") as made:
        folder = Path(made).resolve()
        os.environ.update({**ENVIRONMENT, "XDG_CACHE_HOME": str(folder / "cache")})
        for variable in FORGOTTEN:
            os.environ.pop(variable, None)
        try:
            os.chdir(folder)
            furnish(folder)
            yield folder
        finally:
            os.chdir(before)
            os.environ.clear()
            os.environ.update(environment)


def furnish(folder: Path) -> None:
    """Write every file that cases read."""
    shutil.copytree(hand_folder(), folder / "problems")
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text if isinstance(text, bytes) else text.encode())
    for path in ("runs/begun/config.yaml", "runs/empty-policy/config.yaml"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(call(["presets", "tiny"])[1])
    (folder / "empty").mkdir()


def hand_folder() -> str:
    """Where the hand-designed problems lie, as `atlas sets list` says."""
    rows = json.loads(raw_call(["sets", "list", "--json"])[1])
    return next(row["path"] for row in rows if row["name"] == "hand")


def call(argv: list[str], stdin: str = "") -> tuple[int, str, str]:
    """Exit code, standard output and error of a command, without what differs from machine to machine."""
    code, out, err = raw_call(argv, stdin)
    return code, normal(out), normal(err)


def raw_call(argv: list[str], stdin: str = "") -> tuple[int, str, str]:
    out, err, before = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.StringIO(stdin)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings.resetwarnings()
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                code = main(argv)
            except SystemExit as stop:
                code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    finally:
        sys.stdin = before
    return code, out.getvalue(), err.getvalue()


def attempted(run: Callable[[], Any]) -> Any:
    """What a function gives, what it warns of, and the sentence if it fails; `mistake` says that a user made it."""
    told: dict[str, Any] = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            told["gives"] = run()
        except Exception as error:
            mistake = any(kind.__name__ == "AtlasError" for kind in type(error).__mro__)
            told = {"mistake": mistake, "sentence": lines(normal(str(error)))}
    notes = [normal(str(w.message)) for w in caught if not issubclass(w.category, DeprecationWarning)]
    return told | ({"notes": notes} if notes else {})


def normal(text: str) -> str:
    """Text without the paths and the version of this machine."""
    for path in {str(Path.cwd()), os.environ.get("XDG_CACHE_HOME", "")} - {""}:
        text = text.replace(path, "<work>" if path == str(Path.cwd()) else "<cache>")
    if "hand" in text:
        text = re.sub(r"(?<![\w<])/[^\s\"']*/hand\b", "<hand>", text)
    return re.sub(r"atlas \d+\.\d+[\w.]*", "atlas <version>", text)


def unboxed(text: str) -> str:
    """What the argument parser complains about, without the box around it."""
    if "╭" not in text:
        return text
    return " ".join(re.sub(r"[╭╮╰╯│─]", " ", text).split())


def lines(text: str) -> Any:
    """One line as it is, several as a list; blanks at line ends do not count."""
    split = [line.rstrip() for line in text.strip("\n").split("\n")]
    return split[0] if len(split) == 1 else split


def shaped(out: str, form: str, drop: tuple[str, ...] = ()) -> Any:
    """Standard output as it is compared."""
    if form == "json":
        return squeezed(json.loads(out), drop) if out.strip() else ""
    if form == "yaml":
        return squeezed(yaml.safe_load(out), drop)
    if form == "flags":
        return {flag: 1 for flag in flags(out)}
    if form == "listed":
        return {line.strip(): 1 for line in out.splitlines() if line.strip()}
    return lines(out)


def flags(text: str) -> list[str]:
    """The flags, arguments and subcommands that a help text has rows for."""
    rows = [re.sub(r"[╭╮╰╯│]", "", line).strip() for line in text.splitlines()]
    found = [flag for row in rows if row.startswith("-") for flag in re.findall(r"(?<!\S)-{1,2}[a-zA-Z][\w.-]*", row)]
    found += [row.split()[1] for row in rows if row.startswith("•")]
    found += re.findall(r"^  ([a-z]+)  ", text, re.MULTILINE)
    return sorted(set(found))


def squeezed(value: Any, drop: tuple[str, ...] = ()) -> Any:
    """Plans as digits, which are short to read; keys that are of no interest left out."""
    if isinstance(value, dict):
        plan = {"plan": "".join(map(str, value["plan"]))} if isinstance(value.get("plan"), list) else {}
        return {key: squeezed(part, drop) for key, part in (value | plan).items() if key not in drop}
    return [squeezed(part, drop) for part in value] if isinstance(value, list) else value


def content(path: Path) -> Any:
    """What was written: text whole, of pictures only the format (how things are drawn may change)."""
    if not path.exists():
        return "missing"
    if path.is_dir():
        return {str(inner): content(inner) for inner in sorted(path.iterdir())}
    data = path.read_bytes()
    for start, name in ((b"\x89PNG", "PNG"), (b"GIF8", "GIF"), (b"<svg", "SVG"), (b"PK", "npz")):
        if data.startswith(start):
            return name
    return lines(normal(data.decode()))


# Comparing, recording


def differences(stored: Any, found: Any, place: str = "") -> list[str]:
    """Where a result is not what was stored; objects may have new keys."""
    if isinstance(stored, dict) and isinstance(found, dict):
        return [
            sentence
            for key, value in stored.items()
            for sentence in (
                differences(value, found[key], f"{place}.{key}") if key in found else [f"{place}.{key} is gone: {value!r}"]
            )
        ] + [f"{place}.{key} is new: {found[key]!r}" for key in ("err", "sentence", "notes", "code") if key in found and key not in stored]
    if isinstance(stored, list) and isinstance(found, list):
        if len(stored) != len(found):
            return [f"{place}: {len(stored)} entries were stored, {len(found)} found: {_first(stored, found)}"]
        return [s for i, (a, b) in enumerate(zip(stored, found, strict=True)) for s in differences(a, b, f"{place}[{i}]")]
    if isinstance(stored, float) and isinstance(found, int | float):
        same = math.isclose(stored, found, rel_tol=1e-6, abs_tol=1e-9)
    else:
        same = stored == found and isinstance(stored, bool) == isinstance(found, bool)
    return [] if same else [f"{place}: stored {stored!r}, found {found!r}"]


def _first(stored: list[Any], found: list[Any]) -> str:
    for number, (a, b) in enumerate(zip(stored, found, strict=False)):
        if a != b:
            return f"from [{number}] on, stored {a!r}, found {b!r}"
    longer = stored if len(stored) > len(found) else found
    return f"one ends before {longer[min(len(stored), len(found))]!r}"


def results(group: str) -> dict[str, Any]:
    """What was stored for a group of cases."""
    path = FOLDER / f"{group}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def store(group: str, content: dict[str, Any]) -> None:
    """One case a line, in the order of CASES."""
    known = [case.name for case in CASES if case.name in content]
    rows = [f"{json.dumps(n)}: {json.dumps(content[n], ensure_ascii=False, separators=(',', ':'))}" for n in known]
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{group}.json").write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


def chosen(words: list[str]) -> list[Case]:
    """The cases whose name holds one of the words; all without any."""
    return [case for case in CASES if not words or any(word in case.name for word in words)]


def through_json(value: Any) -> Any:
    """A result as it will be read back."""
    return json.loads(json.dumps(value))


def run(argv: list[str]) -> int:
    """Record or compare, from the command line."""
    import time

    if not argv or argv[0] not in ("record", "compare"):
        print(__doc__)
        return 2
    bad = 0
    with workspace():
        for case in chosen(argv[1:]):
            begun = time.process_time()
            found = through_json(case.run())
            seconds = time.process_time() - begun
            if argv[0] == "record":
                store(case.group, {**results(case.group), case.name: found})
            sentences = differences(results(case.group).get(case.name), found)
            bad += bool(sentences)
            print(f"{seconds:6.1f} s  {case.name}", *sentences, sep="\n    ", flush=True)
    print(f"{len(chosen(argv[1:]))} cases, {bad} different")
    return int(bad > 0)


# Files that cases read

ROOM = """\
level: |
  ##############
  ##..........##
  ##..>.....or##
  ##..........##
  ##..kb....sg##
  ##..........##
  ##############
"""
TWO_ROOMS = """\
level: |
  ##########################
  ##sb........##..........##
  ##........v.##......or..##
  ##..........xg..........##
  ##..kg......##..........##
  ##..........##..........##
  ##########################
"""


def problem(task: str = "go to a ball", level: str = ROOM, more: str = "") -> str:
    """A problem file."""
    return f"{level}task: {task}\n{more}"


def level_of(drawing: str, task: str = "go to a ball") -> str:
    """A problem file with a level of its own."""
    return "level: |\n" + "".join(f"  {line}\n" for line in drawing.splitlines()) + f"task: {task}\n"


HIERARCHY = """\
root: m0
transitions:
  m0:
    u0:
      u1:
        reward: 0.0
        edges:
        - {call: leaf, formula: [front_ball]}
        - {call: m1, formula: [front_key, -front_ball]}
    u1:
      uA:
        reward: 1.0
        edges:
        - {call: leaf, formula: [front_door]}
  m1:
    u0:
      uA:
        reward: 0.0
        edges:
        - {call: leaf, formula: [carrying_key]}
"""
FLAT = """\
transitions:
  u0: {u1: front_ball, uR: [front_key, -front_ball]}
  u1: {uA: [[front_door], [carrying_key, -front_ball]]}
"""
ODD = """\
transitions:
  u0: {u1: front_ball, u2: front_ball_red, uA: [front_key_red, -front_key], u3: []}
  u1: {uA: front_ball}
  u2: {u2: front_key}
  u4: {uA: front_door}
"""
REWARDS = """\
transitions:
  m0:
    u0:
      u1: {reward: 0.25, edges: [{formula: [front_ball]}, {formula: [front_key], reward: -0.5}]}
    u1:
      uA: {edges: [{formula: [carrying_ball]}]}
      uR: {reward: -1, edges: [{formula: [front_door]}]}
"""
DEEP = """\
root: m2
transitions:
  m0: {u0: {uA: {edges: [{call: m1, formula: [front_ball]}, {formula: [front_square]}]}}}
  m1: {u0: {u1: carrying_ball}, u1: {uA: [next_ball_key, -carrying_ball]}}
  m2: {u0: {u1: {edges: [{call: m0, formula: []}]}, uR: front_door_locked}, u1: {uA: {reward: 2.5, edges: [{call: m1, formula: [front_key]}]}}}
"""
STEPS = """\
1. Go to a ball, then continue with step 2.
2. Either pick up a key, then finish, or open a door, then continue with step 1 (reward 0.5), or go to a box, then fail.
"""
ROUTINES = """\
Main task:
1. Go to a ball and do routine 1, then continue with step 2.
2. Open a door.
Routine 1:
1. Pick up a key.
2. Put a key next to a ball, then return.
"""
AUTHORS_LEVEL = """\
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
AUTHORS_TASK = """\
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
HOA = """\
HOA: v1
States: 2
Start: 0
AP: 2 "front_ball" "front_key"
acc-name: Buchi
Acceptance: 1 Inf(0)
properties: deterministic
--BODY--
State: 0
[0] 1
[!0 & !1] 0
State: 1 {0}
[t] 1
--END--
"""
MANY_DOORS = "\n".join(["##" * 15, "##" + "-r" * 13 + "##", "##^." + ".." * 12 + "##", "##" * 15])
MANY_OBJECTS = "\n".join(["##" * 18, "##" + "or" * 16 + "##", "##" + "sg" * 15 + "^.##", "##" * 18])

BAD_PROBLEMS: dict[str, str | bytes] = {
    "unknown-key": problem(more="tsak: go\n"),
    "unknown-key-far": problem(more="zzz: go\n"),
    "key-twice": problem(more="task: go to a key\n"),
    "no-level": "task: go to a ball\n",
    "no-task": "name: bare\n" + ROOM + "tags: [a]\n---\n" + problem(),
    "no-mapping": "- a\n- b\n",
    "empty": "",
    "no-yaml": "level: [\n",
    "tab": "level: |\n  ####\n\ttask: x\n",
    "no-text": b"\xff\xfe\x00level",
    "name-no-text": problem(more="name: [a, b]\n"),
    "notes-no-text": problem(more="notes: {a: b}\n"),
    "tags-no-list": problem(more="tags: keys\n"),
    "tags-no-words": problem(more="tags: [1, 2]\n"),
    "carrying-door": problem(more="carrying: red door\n"),
    "carrying-near": problem(more="carrying: blue kye\n"),
    "carrying-far": problem(more="carrying: 7 elephants\n"),
    "level-no-text": "level: [1, 2]\ntask: go to a ball\n",
    "level-empty": "level: ''\ntask: go to a ball\n",
    "cell-unknown": level_of("########\n##^.zz##\n########"),
    "cell-no-colour": level_of("########\n##^.oq##\n########"),
    "cell-half": level_of("########\n##^.o\n########"),
    "cell-inline": "level: \"####\\n^.qq\"\ntask: go to a ball\n",
    "agent-none": level_of("########\n##..or##\n########"),
    "agent-two": level_of("########\n##^.v.##\n########"),
    "agent-on-nothing": level_of("########\n##^q..##\n########"),
    "level-large": level_of("\n".join(["##" * 21, "##^." + ".." * 18 + "##", "##" * 21])),
    "level-doors": level_of(MANY_DOORS),
    "level-objects": level_of(MANY_OBJECTS),
    "task-unknown-word": problem("go to a bal"),
    "task-unknown-verb": problem("eat a ball"),
    "task-number": problem("17"),
    "task-list": problem("[go, to]"),
    "task-two-kinds": problem("{ltlf: F front_ball, english: go to a ball}"),
    "task-no-kind": problem("{}"),
    "task-unknown-kind": problem("{ltl: F front_ball}"),
    "task-ltlf-list": problem("{ltlf: [F, front_ball]}"),
    "task-ltlf-wrong": problem("{ltlf: F frnt_ball}"),
    "task-ltlf-never": problem("{ltlf: G front_ball}"),
    "task-transitions-empty": problem("{transitions: {}}"),
    "task-transitions-list": problem("{transitions: [a]}"),
    "task-no-path": problem("{transitions: {u0: {u1: front_ball}, u2: {uA: front_key}}}"),
    "task-unknown-proposition": problem("{transitions: {u0: {uA: frnt_ball_red}}}"),
    "task-literal-number": problem("{transitions: {u0: {uA: [front_ball, 3]}}}"),
    "task-guard-number": problem("{transitions: {u0: {uA: 3}}}"),
    "task-state-name": problem("{transitions: {m0: {x0: {uA: front_ball}}}}"),
    "task-state-large": problem("{transitions: {u0: {u500: front_ball}}}"),
    "task-after-end": problem("{transitions: {u0: {uA: front_ball}, uA: {u0: front_key}}}"),
    "task-root": problem("{root: m3, transitions: {m0: {u0: {uA: front_ball}}}}"),
    "task-root-name": problem("{root: start, transitions: {m0: {u0: {uA: front_ball}}}}"),
    "task-edges-empty": problem("{transitions: {m0: {u0: {uA: {edges: []}}}}}"),
    "task-edges-key": problem("{transitions: {m0: {u0: {uA: {edgse: [{formula: [front_ball]}]}}}}}"),
    "task-edge-key": problem("{transitions: {m0: {u0: {uA: {edges: [{fromula: [front_ball]}]}}}}}"),
    "task-reward": problem("{transitions: {m0: {u0: {uA: {reward: lots, edges: [{formula: [front_ball]}]}}}}}"),
    "task-call-name": problem("{transitions: {m0: {u0: {uA: {edges: [{call: one, formula: [front_ball]}]}}}}}"),
    "task-call-missing": problem("{transitions: {m0: {u0: {uA: {edges: [{call: m1, formula: []}]}}}}}"),
    "task-call-root": problem("{transitions: {m0: {u0: {uA: {edges: [{call: m0, formula: []}]}}}}}"),
    "task-call-cyclic": problem(
        "{root: m0, transitions: {m0: {u0: {uA: {edges: [{call: m1, formula: []}]}}}, "
        "m1: {u0: {uA: {edges: [{call: m2, formula: []}]}}}, m2: {u0: {uA: {edges: [{call: m1, formula: []}]}}}}}"
    ),
    "task-call-no-path": problem(
        "{root: m0, transitions: {m0: {u0: {uA: {edges: [{call: m1, formula: []}]}}}, m1: {u0: {u1: front_ball}}}}"
    ),
}
BAD_ENGLISH = {
    "empty": "",
    "unknown-noun": "go to a bal",
    "unknown-verb": "eat a ball",
    "unknown-colour": "go to an orange ball",
    "no-noun": "go to a red",
    "half": "go to a ball, then",
    "comma": "go to a ball, go to a key",
    "bracket": "(go to a ball, then go to a key",
    "bracket-close": "go to a ball)",
    "sign": "go to a ball % go to a key",
    "times": "pick up a ball 99 times",
    "times-none": "pick up a ball 0 times",
    "either": "either go to a ball.",
    "pick-up-door": "pick up a door",
    "open-ball": "open a ball",
    "locked-ball": "go to a locked ball",
    "never": "go to a ball while going to a key",
    "never-without": "go to a ball without going to a ball",
    "second-line": "go to a ball,\nthen go to a kye",
    "formula": "F(front_ball & X F carrying_key)",
    "too-long": "pick up a ball 20 times, then " * 6 + "pick up a ball 20 times",
    "step-missing": "1. Go to a ball, then continue with step 7.",
    "step-twice": "1. Go to a ball.\n1. Go to a key.",
    "step-zero": "0. Go to a ball.",
    "step-stop": "1 go to a ball",
    "step-reward": "1. Go to a ball (reward much).",
    "step-reward-open": "1. Go to a ball (reward 1.",
    "step-only-finish": "1. Finish.\n2. Go to a ball.",
    "routine-missing": "Main task:\n1. Do routine 4.",
    "routine-twice": "Main task:\n1. Do routine 1.\nRoutine 1:\n1. Go to a ball.\nRoutine 1:\n1. Go to a key.",
    "routine-no-number": "Main task:\n1. Do routine.",
    "routine-cyclic": "Main task:\n1. Do routine 1.\nRoutine 1:\n1. Do routine 2.\nRoutine 2:\n1. Do routine 1.",
    "steps-end": "1. Go to a ball, then continue with step 1.",
}
BAD_LTLF = {
    "empty": "",
    "unknown": "F frnt_ball",
    "unknown-far": "F zebra",
    "bracket": "F (front_ball & front_key",
    "bracket-close": "F front_ball)",
    "ends": "front_ball &",
    "stands": "F & front_ball",
    "no-operator": "front_ball front_key",
    "sign": "F front_ball % front_key",
    "never": "G front_ball",
    "false": "false",
    "second-line": "F (front_ball &\n  X frnt_key)",
    "deep": "!" * 5000 + "front_ball",
    "large": " & ".join(f"F front_{kind}_{colour}" for kind in ("ball", "key") for colour in ("red", "green", "blue", "gray")),
}
BAD_HOA = {
    "version": HOA.replace("v1", "v2"),
    "no-body": HOA.split("--BODY--")[0],
    "no-start": HOA.replace("Start: 0\n", ""),
    "two-starts": HOA.replace("Start: 0", "Start: 0\nStart: 1"),
    "alternating-start": HOA.replace("Start: 0", "Start: 0 & 1"),
    "proposition": HOA.replace("front_key", "frnt_key"),
    "acceptance": HOA.replace("1 Inf(0)", "1 Fin(0)"),
    "header": HOA.replace("properties:", "Colour:"),
    "label": HOA.replace("[0] 1", "[7] 1"),
    "target": HOA.replace("[0] 1", "[0] 9"),
    "alternating": HOA.replace("[0] 1", "[0] 1 & 0"),
    "twice": HOA.replace("[!0 & !1] 0", "[0] 0"),
    "never": HOA.replace("State: 1 {0}", "State: 1"),
    "sign": HOA.replace("[t]", "[$]"),
}
SWEEP = "about: a sweep\nruns:\n  - presets: [tiny, quick-dr]\n    seeds: [0, 1]\n    settings: {student.ppo.entropy: [0.0, 0.01]}\n"
BAD_SWEEPS = {
    "no-yaml": "runs: [\n",
    "no-mapping": "- a\n",
    "key": "rnus: []\n",
    "neither": "about: x\n",
    "both": "runs: []\nsearch: {}\n",
    "run-key": "runs: [{preset: [tiny]}]\n",
    "run-list": "runs: [tiny]\n",
    "no-presets": "runs: [{seeds: [0]}]\n",
    "preset": "runs: [{presets: [quikc-dr]}]\n",
    "setting": "runs: [{presets: [tiny], settings: {student.ppo.entropi: 1}}]\n",
    "setting-section": "runs: [{presets: [tiny], settings: {studnet.ppo.entropy: 1}}]\n",
    "value": "runs: [{presets: [tiny], settings: {student.ppo.entropy: -1}}]\n",
    "seed": "runs: [{presets: [tiny], seeds: [-1]}]\n",
    "twice": "runs: [{presets: [tiny, tiny]}]\n",
    "search-key": "search: {preset: quick, trails: 3, settings: {}}\n",
    "search-range": "search: {preset: quick, settings: {student.ppo.entropy: {low: 0}}}\n",
    "search-preset": "search: {preset: quikc-dr, settings: {student.ppo.entropy: {low: 0, high: 1}}}\n",
    "search-setting": "search: {preset: quick, settings: {student.ppo.entropi: {low: 0, high: 1}}}\n",
}
BAD_CONFIGS = {
    "no-yaml": "run: [\n",
    "no-mapping": "- a\n",
    "section": "rnu: {seed: 1}\n",
    "section-number": "run: 7\n",
    "key": "run: {sed: 1}\n",
    "type": "run: {seed: one}\n",
    "type-bool": "run: {seed: true}\n",
    "negative": "run: {seed: -1}\n",
    "teacher": "teacher: {name: plrr}\n",
    "teacher-unnamed": "teacher: {pool: 2}\n",
    "teacher-key": "teacher: {name: dr, replay_prob: 0.5}\n",
    "rooms": "domain: {rooms: [1, 3]}\n",
    "rooms-none": "domain: {rooms: []}\n",
    "rooms-twice": "domain: {rooms: [1, 1]}\n",
    "objects": "domain: {objects: {one_room: [5, 2]}}\n",
    "objects-length": "domain: {objects: {one_room: [5]}}\n",
    "colour": "domain: {colours: [red, orange]}\n",
    "sampler": "tasks: {sampler: sequentail}\n",
    "length": "tasks: {min_length: 4, max_length: 2}\n",
    "edits": "teacher: {name: accel, edits: {least: 5, most: 2}}\n",
    "edits-none": "teacher: {name: accel, edits: {level: false, task: false}}\n",
    "temperature": "teacher: {name: plr, buffer: {temperature: 0}}\n",
    "minibatch": "run: {num_envs: 10}\nstudent: {ppo: {minibatch_envs: 4}}\n",
    "phases": "run: {rollout: 512}\nstudent: {ppo: {phases: 3}}\n",
    "rollout": "teacher: {name: plr}\nrun: {rollout: 16}\n",
    "filters": "student: {network: {filters: [1, 2]}}\n",
    "hierarchical-solvable": "tasks: {sampler: hierarchical}\npairing: {solvable: true}\n",
}
BAD_AUTHORS = {
    "lines": AUTHORS_LEVEL.replace("  #pyg  #\n", "", 1).replace("  #-x+ o#\n", "", 0),
    "agents": AUTHORS_LEVEL.replace("#  ^ ?#", "#  ^ v#"),
}
UNSOLVABLE = {
    "no-such-thing": problem("go to a purple ball"),
    "no-such-pair": problem("put a ball next to a ball"),
    "locked-in": level_of("########\n##^.xg##\n##..##..\n########", "open a green door"),
    "sealed": level_of("############\n##^.##or####\n############", "go to a ball"),
    "not-locked": level_of("##########\n##^...-r##\n##########", "go to a locked door"),
    "key-gone": level_of("############\n##^.##kr####\n##..xr..or##\n############", "go to a ball"),
    "must-fail": problem("{transitions: {u0: {uR: front_wall, uA: [front_ball_red, front_key]}}}".replace("front_wall", "front_ball")),
    "square-carried": problem("pick up a square, then go to a blue ball"),
}
LINTED = {
    "a-good": problem("pick up a key, then go to a ball"),
    "b-same": problem("pick up a key, then go to a ball"),
    "c-trivial": level_of("######\n##or##\n##^.##\n######", "go to a ball"),
    "d-unsolvable": UNSOLVABLE["no-such-thing"],
    "e-odd-task": ROOM + "task:\n" + "".join(f"  {line}\n" for line in FLAT.replace("uR: [front_key, -front_ball]", "uR: front_ball_red").splitlines()),
    "f-out-of-reach": level_of("##############\n##^...or##sb##\n##############", "go to a ball"),
    "g-malformed": BAD_PROBLEMS["cell-unknown"],
    "inner/h-malformed": BAD_PROBLEMS["task-unknown-word"],
}
FILES: dict[str, str | bytes] = {
    "room.yaml": "name: fetch\n" + problem("pick up a blue key, then go to a ball", more="tags: [keys]\nnotes: the key lies behind the agent\n"),
    "carrying.yaml": problem("put a ball next to a key", more="carrying: green ball\n"),
    "nameless.yaml": problem("{ltlf: F(front_ball & X F carrying_key)}"),
    "several.yaml": "---\n".join([problem(), "name: second\n" + problem("go to a key"), problem("{ltlf: F front_square}")]),
    "same-names.yaml": "---\n".join(["name: one\n" + problem(), "name: one\n" + problem("go to a key")]),
    "level.yaml": "name: bare\n" + TWO_ROOMS,
    "level.txt": "######\n##or##\n##^.##\n######\ncarrying: blue key\n",
    "hierarchy.yaml": HIERARCHY,
    "deep.yaml": DEEP,
    "flat.yaml": FLAT,
    "odd.yaml": ODD,
    "rewards.yaml": REWARDS,
    "steps.txt": STEPS,
    "routines.txt": ROUTINES,
    "formula.ltlf": "(!front_door_open U front_ball) & F carrying_key",
    "automaton.hoa": HOA,
    "words.yaml": "go to a ball\n",
    "deep-problem.yaml": TWO_ROOMS + "task:\n" + "".join(f"  {line}\n" for line in HIERARCHY.splitlines()),
    "authors/levels/one.yaml": AUTHORS_LEVEL,
    "authors/levels/two.yaml": AUTHORS_LEVEL.replace("^", "v"),
    "authors/hrms/one.yaml": AUTHORS_TASK,
    "authors/hrms/two.yaml": HIERARCHY,
    "authors/eval.yaml": "- {name: first, level_path: levels/one.yaml, hrm_path: hrms/two.yaml}\n- {level_path: levels/two.yaml, hrm_path: hrms/one.yaml}\n",
    "lost/eval.yaml": "- {name: first, level_path: nowhere/one.yaml, hrm_path: hrms/two.yaml}\n",
    "lost/levels/alone.yaml": AUTHORS_LEVEL,
    "lost/hrms/other.yaml": AUTHORS_TASK,
    "sweep.yaml": SWEEP,
    "runs/begun/policies/000000001.npz": b"not an archive",
    "runs/no-config/checkpoints/1/x": "",
    "runs/no-config/policies/1.npz": b"",
    "runs/odd-config/config.yaml": "run: {sed: 1}\n",
    "runs/other/notes.txt": "not a run",
    "garbage.npz": b"not an archive",
    "file-not-folder": "a file",
    "bad/txt/cell.txt": "######\n##zz##\n",
    "bad/txt/carrying.txt": "######\n##^.##\ncarrying: a house\n",
    **{f"bad/problems/{name}.yaml": text for name, text in BAD_PROBLEMS.items()},
    **{f"bad/hoa/{name}.hoa": text for name, text in BAD_HOA.items()},
    **{f"bad/sweeps/{name}.yaml": text for name, text in BAD_SWEEPS.items()},
    **{f"bad/configs/{name}.yaml": text for name, text in BAD_CONFIGS.items()},
    **{f"bad/authors/{name}.yaml": text for name, text in BAD_AUTHORS.items()},
    **{f"unsolvable/{name}.yaml": text for name, text in UNSOLVABLE.items()},
    **{f"linted/{name}.yaml": text for name, text in LINTED.items()},
}  # fmt: skip

# Help

COMMANDS = (
    "train resume sweep eval report watch sample show task trace play solve lint sets bench presets".split()
)
command("help/atlas", "--help", form="flags")
command("help/nothing", form="flags")
command("help/version", "--version")
for one in COMMANDS:
    command(f"help/{one}", one, "--help", form="flags")
for one in ("list", "build", "verify"):
    command(f"help/sets-{one}", "sets", one, "--help", form="flags")
for one in ("tiny", "quick-dr", "quick-plr", "paper-accel0-level"):
    command(f"help/train-{one}", "train", one, "--help", form="flags")

# Looking at problems

SHOWN = {
    "behind-you": "01-one-room", "tidy-up": "01-one-room", "which-key": "02-two-rooms", "mind-the-door": "02-two-rooms",
    "full-circle-spelled-out": "03-four-rooms", "warehouse": "04-six-rooms", "locked-heart": "05-nine-rooms",
    "doors-in-a-maze": "06-mazes", "four-gates": "07-spirals", "two-threads": "09-any-order", "dead-branch": "10-branching",
    "promise-of-a-lock": "10-branching", "parcel-said-twice": "12-specification", "two-promises": "13-stay-locked",
    "patrol-and-shut": "14-patrol", "choice-of-three": "15-choice", "first-things-first": "16-avoid", "key-as-parcel": "19-decoys",
}  # fmt: skip
for one, file in SHOWN.items():
    command(f"show/{one}", "show", f"problems/{file}.yaml", "--name", one)
for one in ("room.yaml", "carrying.yaml", "nameless.yaml", "level.yaml", "level.txt", "several.yaml", "deep-problem.yaml"):
    command(f"show/{one}", "show", one)
    command(f"show/{one}-json", "show", one, "--json", form="json")
command("show/authors", "show", "authors")
command("show/authors-json", "show", "authors/eval.yaml", "--json", form="json")
command("show/authors-level", "show", "authors/levels/two.yaml", "--json", form="json")
command("show/index", "show", "several.yaml", "--index", "-1")
command("show/pictures", "show", "room.yaml", "--png", "show.png", "--svg", "show.svg", reads=("show.png", "show.svg"))
for one in ("09-any-order", "10-branching", "16-avoid"):
    command(f"show/{one}", "show", f"problems/{one}.yaml")
    command(f"show/{one}-json", "show", f"problems/{one}.yaml", "--json", form="json")


def described(path: str) -> Any:
    """Names and tags of problems."""
    return {one.name: " ".join(one.tags) for one in atlas.load(path)}


def saved(problems: Any, path: str) -> Any:
    """The text that problems are written as."""
    atlas.save(problems, path)
    return content(Path(path))


function("files/hand")(lambda: described("problems"))
function("files/authors")(lambda: saved(atlas.load("authors"), "authors-again.yaml"))
function("files/save")(lambda: saved([atlas.load(f"problems/{f}.yaml")[3] for f in dict.fromkeys(SHOWN.values())], "all.yaml"))
function("files/save-folder")(lambda: saved(atlas.load("several.yaml"), "saved"))
function("files/save-level")(lambda: saved(atlas.load_level("level.txt"), "level-again.yaml"))
function("files/save-hierarchy")(lambda: saved(atlas.load("deep-problem.yaml"), "deep-again.yaml"))
function("files/level")(lambda: saved(atlas.load_level("authors/levels/one.yaml"), "authors-level.yaml"))
function("files/task")(lambda: [atlas.explain(atlas.load_task(f"{f}.yaml")) for f in ("flat", "deep", "room", "words", "odd")])

# Tasks

ENGLISH = {
    "ball-key": "Go to a ball, then put the red key next to a locked door.",
    "after": "Go to the red ball after you pick up a grey box.",
    "and": "Go to a ball and pick up a key, then open a red door.",
    "or": "Go to a ball or a key, then open a door.",
    "times": "Pick up a ball 3 times.",
    "while": "Go to a red door while carrying a red key.",
    "without": "Go to a ball without opening a door, then pick up a key.",
    "without-all": "Go to a ball, then go to a key, without opening a door.",
    "either": "Pick up a key. Then either open a red door, then go to a ball, or open a blue door. Then go to a box.",
    "object": "pick up a red object",
    "before": "open a door before you go to a purple square twice",
    "list": "go to a ball, a key and a box",
    "group": "(go to a ball, then go to a key) or pick up a box",
    "while-not": "go to a door while not carrying a key; face a wall" if False else "go to a door while not carrying a key",
    "steps": STEPS,
    "routines": ROUTINES,
    "wait": "1. Wait, then continue with step 2.\n2. Go to a ball and put a key next to a ball.",
}  # fmt: skip
LTLF = {
    "then": "F(front_ball & X F carrying_key)",
    "until": "(!front_door_open U front_ball) & F carrying_key",
    "again": "F(carrying_ball & X(!carrying_ball & X F carrying_ball))",
    "doubtful": "F front_ball | G front_key",
    "implies": "F front_ball & (front_key -> X front_ball)",
    "weak": "(front_ball W front_key) & F front_door",
    "release": "(front_ball R (front_key | front_door)) & F front_ball",
    "strong": "front_ball M front_key",
    "next": "X X N front_ball & F (front_key <-> front_ball)",
    "last": "F (front_ball & last)",
    "true": "true",
    "any-order": "F front_ball & F front_key & F front_square",
}
OUTPUTS = ("explain", "check", "yaml", "dot", "hoa")
for one, words in ENGLISH.items():
    command(f"task/english-{one}", "task", words)
    command(f"task/english-{one}-json", "task", words, "--json", form="json")
for one, words in LTLF.items():
    command(f"task/ltlf-{one}", "task", words, "--ltlf")
    command(f"task/ltlf-{one}-json", "task", words, "--ltlf", "--json", form="json")
for one in ("flat.yaml", "hierarchy.yaml", "deep.yaml", "odd.yaml", "rewards.yaml", "automaton.hoa", "formula.ltlf", "steps.txt"):
    command(f"task/{one}", "task", one)
    command(f"task/{one}-json", "task", one, "--json", form="json")
    command(f"task/{one}-all", "task", one, *(f"--{flag}" for flag in OUTPUTS))
for one in ("room.yaml", "routines.txt", "deep-problem.yaml", "authors/hrms/one.yaml"):
    command(f"task/{one}", "task", one, "--json", form="json")
for flag in OUTPUTS:
    command(f"task/only-{flag}", "task", ENGLISH["either"], f"--{flag}")
command("task/stdin", "task", "-", stdin=ENGLISH["or"])
command("task/stdin-ltlf", "task", "-", "--ltlf", "--explain", stdin=LTLF["until"])
command("task/drawn", "task", ENGLISH["and"], "--svg", "t.svg", "--png", "t.png", "--scale", "1.5", reads=("t.svg", "t.png"))
command("task/check-hand", "task", "problems/10-branching.yaml", "--check")


@function("task/explain-hand")
def _explain_hand() -> Any:
    return {one.name: lines(atlas.explain(one)) for one in atlas.load("problems")}


@function("task/read-back")
def _read_back() -> Any:
    tasks = [atlas.english(words) for words in ENGLISH.values()] + [atlas.ltlf(words) for words in LTLF.values()]
    return [atlas.explain(atlas.english(words)) == words for words in map(atlas.explain, tasks)]


# Following tasks and replaying actions

LABELS = [
    [], ["front_ball", "front_ball_red"], ["carrying_key"], ["front_key", "front_ball"], [], ["front_key"], ["carrying_ball"],
    ["next_ball_key"], ["front_door", "front_door_locked"], ["front_door_open", "front_door_red_open", "front_door"], ["carrying_ball"],
    ["front_square", "carrying_key"], ["next_ball_key", "carrying_ball"], ["front_ball", "carrying_ball"], ["carrying_key", "next_key_ball"],
    ["front_door", "carrying_key"], ["next_ball_key"], ["front_key"], ["carrying_ball"], ["next_ball_key"],
]  # fmt: skip


def followed(task: Any, labels: Any = None) -> list[str]:
    """A line for each label."""
    told = atlas.follow(task, [set(label) for label in (labels or known_labels())])
    ends = {(True, False): " accepted", (False, True): " rejected"}
    return [
        f"{r.machine} {r.state} [{' '.join(r.stack)}] {r.reward:g}{ends.get((r['accepted'], r['rejected']), '')}" for r in told
    ]


def known_labels() -> Any:
    """LABELS without what is no proposition."""
    good = []
    for label in LABELS:
        good.append([])
        for name in label:
            with contextlib.suppress(Exception):
                atlas.follow(atlas.ltlf("F front_ball"), [{name}])
                good[-1].append(name)
    return good


def moments(subject: Any, actions: Any, **more: Any) -> list[str]:
    """A line for each record: place, facing, carrying, task state, reward, done; size and hash of label and view."""
    told = []
    for r in atlas.trace(subject, actions, **more):
        hashes = [zlib.crc32(" ".join(names).encode()) for names in (sorted(r.label), sum(r.view, []))]
        told.append(
            f"{r.position[0]},{r.position[1]} {r.direction} {r.carrying} {r.task_state} {r.reward:g} {int(r.done)} "
            f"{len(r.label)} {hashes[0]:08x} {hashes[1]:08x}"
        )
    return told


def script(seed: int, length: int = 40) -> list[int]:
    """Actions at random, the same everywhere; forward more often than others."""
    actions = []
    for _ in range(length):
        seed = (seed * 1103515245 + 12345) % 2**31
        actions.append((0, 0, 0, 1, 2, 3, 0, 5, 4, 0)[(seed >> 16) % 10])
    return actions


@function("follow/english")
def _follow_english() -> Any:
    return {one: followed(atlas.english(words)) for one, words in ENGLISH.items()}


@function("follow/ltlf")
def _follow_ltlf() -> Any:
    return {one: followed(atlas.ltlf(words)) for one, words in LTLF.items()}


@function("follow/files")
def _follow_files() -> Any:
    tasks = ("flat.yaml", "hierarchy.yaml", "deep.yaml", "odd.yaml", "rewards.yaml")
    return {one: followed(atlas.load_task(one)) for one in tasks}


@function("follow/problem")
def _follow_problem() -> Any:
    one = atlas.load("problems/10-branching.yaml")[0]
    return [dict(record) for record in atlas.follow(one, [{"front_ball"}, ["front_key_red"], [0, 1]])]


@function("trace/scripts")
def _trace_scripts() -> Any:
    files = list(dict.fromkeys(SHOWN.values()))
    return {f: moments(atlas.load(f"problems/{f}.yaml")[n % 5], script(n)) for n, f in enumerate(files)}


@function("trace/plans")
def _trace_plans() -> Any:
    problems = {one.name: one for one in atlas.load("problems")}
    return {name: moments(problems[name], list(map(int, plan))) for name, plan in plans().items() if name in SHOWN}


@function("trace/all-plans", slow=True)
def _trace_all_plans() -> Any:
    told = {}
    for one in atlas.load("problems"):
        records = moments(one, list(map(int, plans()[one.name])))
        told[one.name] = f"{len(records)} {records[-1]} {zlib.crc32(' '.join(records).encode()):08x}"
    return told


def plans() -> dict[str, str]:
    """The plans that were stored for the hand set: what is replayed does not depend on what is solved today."""
    return {row["name"]: row["plan"] for row in results("solve")["solve/hand"]["out"]["problems"]}


@function("trace/hierarchy")
def _trace_hierarchy() -> Any:
    return moments(atlas.load("deep-problem.yaml")[0], script(5, 60))


@function("trace/level")
def _trace_level() -> Any:
    return moments(atlas.load_level("level.txt"), ["forward", "put down", "LEFT", 4, "5", "pick_up"])


@function("trace/limit")
def _trace_limit() -> Any:
    return moments(atlas.load("room.yaml")[0], script(3), step_limit=4)


command("trace/room", "trace", "room.yaml", "--actions", "2,2,0,1,3,1,0,0,0,0")
command("trace/room-json", "trace", "room.yaml", "--actions", "forward forward,right", "--json", form="json")
command("trace/start", "trace", "room.yaml")
command("trace/level", "trace", "level.txt", "--actions", "4,3", "--json", form="json")
command("trace/trivial", "trace", "linted/c-trivial.yaml", "--actions", "0,0")
command("trace/named", "trace", "several.yaml", "--name", "second", "--actions", "1,0,0,0,0")
command("trace/film", "trace", "room.yaml", "--actions", "0,1", "--film", "trace.gif", reads=("trace.gif",))

# Solving

for one in SHOWN:
    command(f"solve/{one}", "solve", f"problems/{SHOWN[one]}.yaml", "--name", one, "--json", form="json")
command("solve/hand", "solve", "problems", "--workers", "1", "--json", form="json", slow=True)
command("solve/one-room", "solve", "problems/01-one-room.yaml", "--workers", "1")
command("solve/room", "solve", "room.yaml")
command("solve/unsolvable", "solve", "unsolvable")
command("solve/unsolvable-json", "solve", "unsolvable", "--json", form="json")
command("solve/trivial", "solve", "linted/c-trivial.yaml", "--json", form="json")
command("solve/hierarchy", "solve", "deep-problem.yaml", "--json", form="json")
command("solve/authors", "solve", "authors", "--json", form="json")
command("solve/short-limit", "solve", "problems/02-two-rooms.yaml", "--index", "1", "--step-limit", "6", "--json", form="json")
command("solve/small-budget", "solve", "problems/04-six-rooms.yaml", "--index", "4", "--budget", "2", "--polish", "0", "--json", form="json")
command("solve/unpolished", "solve", "problems/03-four-rooms.yaml", "--index", "3", "--polish", "0", "--json", form="json")
command("solve/film", "solve", "room.yaml", "--gif", "plan.gif", reads=("plan.gif",))
command("solve/sampled", "solve", "--sampled", "16", "--pairing", "level", "--workers", "1", "--seed", "3")
for pairing, tasks in (("independent", "sequential"), ("level", "dag"), ("task", "cyclic"), ("level", "hierarchical"), ("task", "authors-dag")):
    command(f"solve/sampled-{pairing}-{tasks}", "solve", "--sampled", "16", "--pairing", pairing, "--tasks", tasks, "--workers", "1", "--json", form="json", slow=True)


@function("solve/function")
def _solve_function() -> Any:
    found = [atlas.solve(one) for one in atlas.load("unsolvable") + atlas.load("problems/02-two-rooms.yaml")[:3]]
    return [[s.verdict, s.plan_length, s.reason, "".join(map(str, s.plan or ()))] for s in found]


# Linting

command("lint/linted", "lint", "linted", "--workers", "1")
command("lint/linted-json", "lint", "linted", "--workers", "1", "--json", form="json")
command("lint/file", "lint", "bad/problems/agent-two.yaml", "--json", form="json")
command("lint/good", "lint", "several.yaml")
command("lint/authors", "lint", "authors", "--json", form="json")
command("lint/limit", "lint", "problems/01-one-room.yaml", "--step-limit", "5", "--workers", "1")
command("lint/hand", "lint", "problems", "--workers", "1", "--json", form="json", slow=True)

# Sampling

FAST = {("independent", "sequential"), ("level", "dag"), ("task", "authors-dag"), ("independent", "cyclic"), ("level", "hierarchical")}
for pairing in ("independent", "level", "task"):
    for tasks in ("sequential", "dag", "authors-dag", "cyclic", "hierarchical"):
        command(
            f"sample/{pairing}-{tasks}", "sample", "-n", "3", "--pairing", pairing, "--tasks", tasks, "--seed", "7",
            slow=(pairing, tasks) not in FAST,
        )  # fmt: skip
command("sample/json", "sample", "-n", "3", "--seed", "1", "--json", form="json")
command("sample/rooms", "sample", "--n", "3", "--rooms", "9", "--tasks", "dag", "--pairing", "task", "--json", form="json", slow=True)
command("sample/solvable", "sample", "-n", "3", "--solvable", "--seed", "2", "--json", form="json", slow=True)
command("sample/levels", "sample", "-n", "4", "--levels-only")
command("sample/levels-json", "sample", "-n", "3", "--levels-only", "--rooms", "1", "2", "--seed", "5", "--json", form="json")
command("sample/file", "sample", "-n", "3", "--seed", "1", "--out", "three.yaml", reads=("three.yaml",))
command("sample/folder", "sample", "-n", "3", "--seed", "1", "--out", "three", reads=("three",))
command("sample/picture", "sample", "-n", "3", "--seed", "1", "--png", "three.png", reads=("three.png",))
command("sample/npz", "sample", "-n", "3", "--seed", "1", "--out", "three.npz", reads=("three.npz",))
command("sample/npz-shown", "show", "three.npz", "--json", form="json")


@function("sample/function")
def _sample_function() -> Any:
    return saved(atlas.sample(3, pairing="level", tasks="dag", seed=11), "sampled.yaml")


@function("sample/english", slow=True)
def _sample_english() -> Any:
    tasks = ("sequential", "dag", "authors-dag", "cyclic", "hierarchical")
    return {kind: [lines(atlas.explain(one)) for one in atlas.sample(12, tasks=kind, seed=4)] for kind in tasks}


# Sets, presets, sweeps

command("sets/list", "sets", "list")
command("sets/list-json", "sets", "list", "--json", form="json")
command("sets/verify-hand", "sets", "verify", "hand", "--json", form="json")
command("sets/verify-path", "sets", "verify", "problems")
command("sets/verify-file", "sets", "verify", "room.yaml", "--prove")
command("sets/verify-npz", "sets", "verify", "three.npz", "--json", form="json")
command("sets/verify-same", "sets", "verify", "twins.yaml")
command("sets/build-validation", "sets", "build", "validation", "--out", "v.npz", "--workers", "1", "--json", form="json", drop=("seconds",), slow=True)
FILES["twins.yaml"] = "---\n".join(["name: a\n" + problem(), "name: b\n" + problem(), "name: c\n" + problem("go to a key")])

command("presets/list", "presets", form="listed")
command("presets/list-json", "presets", "--json", form="json")
for one in ("paper-dr", "quick", "tiny"):
    command(f"presets/{one}", "presets", one, form="yaml")
    command(f"presets/{one}-json", "presets", one, "--json", form="json")


@function("presets/all")
def _presets_all() -> Any:
    """What each differs in from `paper-dr`; settings it does not have are null."""
    base = config("paper-dr")
    told = {}
    for name in results("presets").get("presets/list-json", {}).get("out") or json.loads(call(["presets", "--json"])[1]):
        own = config(name)
        told[name] = {key: own.get(key) for key in [*base, *own] if own.get(key) != base.get(key)}
        assert yaml.safe_load(call(["presets", name])[1]) == json.loads(call(["presets", name, "--json"])[1])
    return told


def config(name: str) -> dict[str, Any]:
    """The settings of a preset by their full names."""

    def flat(value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
        if not isinstance(value, dict):
            yield prefix, value
            return
        for key, part in value.items():
            yield from flat(part, f"{prefix}.{key}" if prefix else key)

    return dict(flat(json.loads(call(["presets", name, "--json"])[1]), ""))


command("sweep/list", "sweep", "sweep.yaml", "--list")
command("sweep/list-json", "sweep", "sweep.yaml", "--list", "--json", form="json")
for path in sorted(SWEEPS.glob("*.yaml")):
    if path.stem != "quick-search":
        command(f"sweep/{path.stem}", "sweep", str(path), "--list", "--folder", "swept", "--json", form="json")

# Refusals: commands

for one in BAD_PROBLEMS:
    command(f"refusals/problem-{one}", "show", f"bad/problems/{one}.yaml", "--json")
for one, words in BAD_ENGLISH.items():
    command(f"refusals/english-{one}", "task", words)
for one, words in BAD_LTLF.items():
    command(f"refusals/ltlf-{one}", "task", words, "--ltlf")
for one in BAD_HOA:
    command(f"refusals/hoa-{one}", "task", f"bad/hoa/{one}.hoa")
for one in BAD_SWEEPS:
    command(f"refusals/sweep-{one}", "sweep", f"bad/sweeps/{one}.yaml", "--list")
for one in BAD_CONFIGS:
    if one != "hierarchical-solvable":
        command(f"refusals/config-{one}", "train", f"bad/configs/{one}.yaml", cut="; known:" if one == "section" else "")
for one in BAD_AUTHORS:
    command(f"refusals/authors-{one}", "show", f"bad/authors/{one}.yaml")

command("refusals/command", "sovle")
command("refusals/command-far", "xyzzy", cut="; there are")
command("refusals/preset", "presets", "paper-acel")
command("refusals/preset-far", "presets", "zzz")
command("refusals/train-preset", "train", "papr-plr-pvl")
command("refusals/train-no-file", "train", "nowhere.yaml")
command("refusals/train-order", "train", "--run.seed", "1", "tiny")
command("refusals/train-flag", "train", "tiny", "--teacher.replay-porb", "0.5")
command("refusals/train-type", "train", "tiny", "--run.num-envs", "x")
command("refusals/train-choice", "train", "tiny", "--tasks.sampler", "dga")
command("refusals/train-range", "train", "tiny", "--teacher.replay-prob", "2")
command("refusals/train-divisor", "train", "tiny", "--run.num-envs", "10", "--student.ppo.minibatch-envs", "4")
command("refusals/train-devices", "train", "tiny", "--devices", "0")
command("refusals/train-hosts", "train", "tiny", "--num-hosts", "2")
command("refusals/train-host-id", "train", "tiny", "--num-hosts", "2", "--host-id", "5", "--coordinator", "localhost:1")
command("refusals/train-there", "train", "tiny", "--folder", "runs/begun")
command("refusals/train-file", "train", "tiny", "--folder", "file-not-folder")
command("refusals/train-solvable", "train", "bad/configs/hierarchical-solvable.yaml", "--folder", "runs/hs")
command("refusals/resume-nowhere", "resume", "runs/nowhere-at-all", cut="; there are")
command("refusals/resume-near", "resume", "runs/begum")
command("refusals/resume-other", "resume", "runs/other", cut="; there are")
command("refusals/resume-nothing", "resume")
command("refusals/resume-config", "resume", "runs/odd-config")
command("refusals/eval-nothing", "eval")
command("refusals/eval-nowhere", "eval", "nowhere")
command("refusals/eval-other", "eval", "runs/other", cut="; there are")
command("refusals/eval-no-config", "eval", "runs/no-config")
command("refusals/eval-no-config-file", "eval", "runs/no-config/policies/1.npz")
command("refusals/eval-garbage", "eval", "runs/begun/policies/000000001.npz")
command("refusals/eval-empty", "eval", "runs/begun")
command("refusals/eval-config", "eval", "runs/odd-config")
command("refusals/eval-over-time", "eval", "runs/empty-policy", "--over-time")
command("refusals/eval-which", "eval", "runs/begun", "--which", "worst")
command("refusals/eval-attempts", "eval", "runs/begun", "--attempts", "many")
command("refusals/report-nothing", "report")
command("refusals/report-out", "report", "runs/begun", "--out", "page.pdf")
command("refusals/report-nowhere", "report", "runs/nowhere-at-all", cut="; there are")
command("refusals/report-episodes", "report", "runs/begun", "--episodes", "few")
command("refusals/watch-nowhere", "watch", "nowhere")
command("refusals/watch-speed", "watch", "runs/begun", "--fps", "0")
command("refusals/watch-limit", "watch", "runs/begun", "--step-limit", "0")
command("refusals/watch-empty", "watch", "runs/begun", "room.yaml")
command("refusals/play", "play", "room.yaml")
command("refusals/bench-part", "bench", "wrold")
command("refusals/bench-figure", "bench", "growth", "--figure", "growth.doc")
command("refusals/sweep-nowhere", "sweep", "nowhere.yaml")
command("refusals/sweep-parallel", "sweep", "sweep.yaml", "--parallel", "0")
command("refusals/sweep-retries", "sweep", "sweep.yaml", "--retries", "-1")
command("refusals/sweep-search-list", "sweep", str(SWEEPS / "quick-search.yaml"), "--list")
command("refusals/show-nothing", "show")
command("refusals/show-nowhere", "show", "nowhere.yaml")
command("refusals/show-flag", "show", "room.yaml", "--nmae", "x")
command("refusals/show-name", "show", "several.yaml", "--name", "secnod")
command("refusals/show-name-far", "show", "problems", "--name", "zzz")
command("refusals/show-index", "show", "several.yaml", "--index", "3")
command("refusals/show-index-word", "show", "several.yaml", "--index", "one")
command("refusals/show-many-png", "show", "several.yaml", "--png", "many.png")
command("refusals/show-empty", "show", "empty")
command("refusals/show-same-names", "show", "same-names.yaml")
command("refusals/show-txt-cell", "show", "bad/txt/cell.txt")
command("refusals/show-txt-carrying", "show", "bad/txt/carrying.txt")
command("refusals/show-npz", "show", "garbage.npz")
command("refusals/show-png-nowhere", "show", "room.yaml", "--png", "file-not-folder/x.png")
command("refusals/show-lost-list", "show", "lost/eval.yaml")
command("refusals/show-lost-task", "show", "lost")
command("refusals/trace-action", "trace", "room.yaml", "--actions", "forwrad")
command("refusals/trace-action-far", "trace", "room.yaml", "--actions", "zzz")
command("refusals/trace-number", "trace", "room.yaml", "--actions", "0,9")
command("refusals/trace-negative", "trace", "room.yaml", "--actions=-1")
command("refusals/trace-many", "trace", "several.yaml", "--actions", "0")
command("refusals/trace-film", "trace", "room.yaml", "--film", "film.doc")
command("refusals/task-nothing", "task")
command("refusals/task-nowhere", "task", "nowhere.yaml")
command("refusals/task-nowhere-hoa", "task", "nowhere.hoa")
command("refusals/task-scale", "task", "go to a ball", "--png", "x.png", "--scale", "100")
command("refusals/task-several", "task", "several.yaml")
command("refusals/task-level", "task", "level.yaml")
command("refusals/task-check", "task", "odd.yaml", "--check")
command("refusals/solve-nothing", "solve")
command("refusals/solve-both", "solve", "room.yaml", "--sampled", "3")
command("refusals/solve-level", "solve", "level.yaml")
command("refusals/solve-limit", "solve", "room.yaml", "--step-limit", "0")
command("refusals/solve-budget", "solve", "room.yaml", "--budget", "0")
command("refusals/solve-film-many", "solve", "several.yaml", "--gif", "x.gif")
command("refusals/solve-film-none", "solve", "unsolvable/sealed.yaml", "--gif", "x.gif")
command("refusals/solve-sampled-none", "solve", "--sampled", "0")
command("refusals/solve-tasks", "solve", "--sampled", "2", "--tasks", "dga")
command("refusals/lint-nothing", "lint")
command("refusals/lint-nowhere", "lint", "nowhere")
command("refusals/lint-empty", "lint", "empty")
command("refusals/sample-none", "sample", "-n", "0")
command("refusals/sample-pairing", "sample", "--pairing", "levle")
command("refusals/sample-rooms", "sample", "--rooms", "3")
command("refusals/sample-rooms-twice", "sample", "--rooms", "1", "1")
command("refusals/sample-solvable", "sample", "--solvable", "--tasks", "hierarchical")
command("refusals/sample-out", "sample", "-n", "3", "--seed", "1", "--out", "three.doc")
command("refusals/sample-levels-npz", "sample", "-n", "3", "--levels-only", "--out", "levels.npz")
command("refusals/sets-nothing", "sets")
command("refusals/sets-command", "sets", "lits")
command("refusals/sets-build", "sets", "build", "validaton")
command("refusals/sets-build-far", "sets", "build", "zzz", cut="; sets that")
command("refusals/sets-build-seed", "sets", "build", "validation", "--seed", "7")
command("refusals/sets-build-out", "sets", "build", "validation", "--out", "v.yaml")
command("refusals/sets-verify", "sets", "verify", "hnad")
command("refusals/sets-verify-far", "sets", "verify", "zzz", cut="; sets are")
command("refusals/sets-verify-bad", "sets", "verify", "linted")
command("refusals/sets-verify-npz", "sets", "verify", "garbage.npz")

# Refusals: functions

refused("load-nowhere", lambda: atlas.load("nowhere"))
refused("load-level-nowhere", lambda: atlas.load_level("nowhere.txt"))
refused("load-level-none", lambda: atlas.load_level("words.yaml"))
refused("load-level-task", lambda: atlas.load_level("flat.yaml"))
refused("load-level-set", lambda: atlas.load_level("several.yaml"))
refused("load-level-npz", lambda: atlas.load_level("garbage.npz"))
refused("load-task-none", lambda: atlas.load_task("level.yaml"))
refused("load-task-folder", lambda: atlas.load_task("problems"))
refused("load-bad", lambda: atlas.load("bad/problems"))
refused("save-suffix", lambda: atlas.save(atlas.load("room.yaml"), "room.doc"))
refused("save-twice", lambda: atlas.save(atlas.load("room.yaml") * 2, "twice"))
refused("sample-none", lambda: atlas.sample(0))
refused("sample-pairing", lambda: atlas.sample(1, pairing="both"))
refused("sample-tasks", lambda: atlas.sample(1, tasks="linear"))
refused("sample-rooms", lambda: atlas.sample(1, rooms=(3,)))
refused("sample-solvable", lambda: atlas.sample(1, tasks="hierarchical", solvable=True))
refused("trace-action", lambda: atlas.trace(atlas.load("room.yaml")[0], ["forwrad"]))
refused("trace-number", lambda: atlas.trace(atlas.load("room.yaml")[0], [6]))
refused("trace-negative", lambda: atlas.trace(atlas.load("room.yaml")[0], [-1]))
refused("follow-name", lambda: atlas.follow(atlas.english("go to a ball"), [{"frnt_ball"}]))
refused("follow-number", lambda: atlas.follow(atlas.english("go to a ball"), [{889}]))
refused("follow-negative", lambda: atlas.follow(atlas.english("go to a ball"), [{-1}]))
refused("english", lambda: atlas.english("go to a bal"))
refused("ltlf", lambda: atlas.ltlf("F frnt_ball"))
refused("ltlf-never", lambda: atlas.ltlf("G front_ball"))
refused("solve-limit", lambda: atlas.solve(atlas.load("room.yaml")[0], step_limit=0))
refused("name", lambda: atlas.no_such_name)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
