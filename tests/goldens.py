"""Goldens: what commands print and refuse, and what public functions give, word for word.

    python tests/goldens.py record [WORD ...]     # run the cases (those whose name holds a word) and store the results
    python tests/goldens.py compare [WORD ...]    # run them again and tell what differs, as `test_goldens.py` does

Cases go through the stable surface alone: `atlas.cli.main` and the public names of `atlas`. They run in one process, in
a temporary folder that holds the hand-designed problems as `problems/` and the files of `tests/golden/inputs.yaml`; its
path, that of the hand set and the version never reach a result. Results lie in `tests/golden/GROUP.json`, one case a
line.

What may grow is compared one way: every flag, preset, set, key of a JSON object and listed line that was stored must
still be there with the same value; new ones do not matter. All else must be equal.
"""

import contextlib
import io
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
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
INPUTS = yaml.safe_load((FOLDER / "inputs.yaml").read_text(encoding="utf-8"))
SWEEPS = Path(__file__).parents[1] / "sweeps"
ENVIRONMENT = {"COLUMNS": "100", "LINES": "40", "TERM": "dumb", "NO_COLOR": "1"}
FORGOTTEN = ("FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE")


@dataclass(frozen=True)
class Case:
    """Something to run; its result is plain values."""

    name: str
    run: Callable[[], Any]
    slow: bool = False

    @property
    def group(self) -> str:
        """The file that keeps its result."""
        return self.name.split("/")[0]


CASES: list[Case] = []
HINT = "hint"
"""To cut after the first of several names that are suggested: the others may change as names are added."""


def command(
    name: str,
    line: str,
    *more: str,
    form: str = "text",
    cut: str = "",
    stdin: str = "",
    reads: tuple[str, ...] = (),
    drop: tuple[str, ...] = (),
    slow: bool = False,
) -> None:
    """A case that runs a command line; words of `more` go to its end as they are.

    `reads`: files it writes. `cut`: where its complaint becomes of no interest. `drop`: keys of no interest.
    """

    def run() -> Any:
        code, out, err = call([*shlex.split(line), *more], stdin)
        told: dict[str, Any] = {"code": code, "out": shaped(out, form, drop), "err": lines(unboxed(err))}
        if cut == HINT:
            told["err"] = lines(re.sub(r"(did you mean [^, ]+)[, ].*\?", r"\1 …", unboxed(err)))
        elif cut:
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
    CASES.append(Case(f"refusals/python-{name}", lambda: attempted(run)))


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
    for path, text in INPUTS["files"].items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        for name, drawing in INPUTS["drawings"].items() if isinstance(text, str) else ():
            text = text.replace(f"<{name}>\n", drawing)
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
    text = text.replace(str(Path.cwd()), "<work>")
    if cache := os.environ.get("XDG_CACHE_HOME"):
        text = text.replace(cache, "<cache>")
    if "hand" in text:
        text = re.sub(r"(?<![\w<])/[^\s\"']*/hand\b", "<hand>", text)
    return re.sub(r"atlas \d+\.\d+[\w.]*", "atlas <version>", text)


def unboxed(text: str) -> str:
    """What the argument parser complains about in one line, without the box around it and what help it offers."""
    if "For full helptext" not in text:
        return text
    words = " ".join(re.sub(r"[╭╮╰╯│─]|-{4,}", " ", text).split())
    words = re.split(r" (?:Argument helptext|For full helptext)", words)[0]
    words, _, hints = words.partition(" Perhaps you meant:")
    return words + (f" Perhaps you meant: {re.findall('--[a-z][a-z.-]*', hints)[0]}" if hints else "")


def lines(text: str) -> Any:
    """One line as it is, several as a list; blanks at line ends do not count."""
    split = [line.rstrip() for line in text.strip("\n").split("\n")]
    return split[0] if len(split) == 1 else split


def shaped(out: str, form: str, drop: tuple[str, ...] = ()) -> Any:
    """Standard output as it is compared."""
    if form == "json":
        return squeezed(json.loads(out), drop) if out.strip() else ""
    if form == "flags":
        return dict.fromkeys(flags(out), 1)
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


SILENT = ("code", "out", "err", "sentence", "notes")
"""Keys that a result has only where there is something to tell: these may not be new."""


def differences(stored: Any, found: Any, place: str = "") -> list[str]:
    """Where a result is not what was stored; objects may have new keys."""
    if isinstance(stored, dict) and isinstance(found, dict):
        return [
            sentence
            for key, value in stored.items()
            for sentence in (
                differences(value, found[key], f"{place}.{key}")
                if key in found
                else [f"{place}.{key} is gone: {value!r}"]
            )
        ] + [f"{place}.{key} is new: {found[key]!r}" for key in SILENT if key in found and key not in stored]
    if isinstance(stored, list) and isinstance(found, list):
        if len(stored) != len(found):
            return [f"{place}: {len(stored)} entries were stored, {len(found)} found: {_first(stored, found)}"]
        return [
            s for i, (a, b) in enumerate(zip(stored, found, strict=True)) for s in differences(a, b, f"{place}[{i}]")
        ]
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


def attempt(case: Case) -> Any:
    """The result of a case as it will be read back; of one that cannot be run, why."""
    try:
        return json.loads(json.dumps(case.run()))
    except Exception as error:
        return {"crash": f"{type(error).__name__}: {error}"}


def run_apart(names: list[str]) -> dict[str, Any]:
    """The results of some cases, all run in one other process: neither checks of types nor other tests meddle."""
    with tempfile.TemporaryDirectory() as folder:
        wanted, found = Path(folder) / "wanted", Path(folder) / "found"
        wanted.write_text(json.dumps(names), encoding="utf-8")
        kept = Path(__file__).parents[1] / ".pytest_cache" / "compiled"
        cache = {"JAX_COMPILATION_CACHE_DIR": str(kept), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.3"}
        command = [sys.executable, __file__, "run", str(wanted), str(found)]
        subprocess.run(command, check=True, env={**os.environ, **cache})
        return json.loads(found.read_text(encoding="utf-8"))


def run(argv: list[str]) -> int:
    """Record or compare, from the command line."""
    if argv[:1] == ["run"]:
        wanted, found = map(Path, argv[1:])
        names = set(json.loads(wanted.read_text(encoding="utf-8")))
        with workspace():
            told = {case.name: attempt(case) for case in CASES if case.name in names}
        found.write_text(json.dumps(told), encoding="utf-8")
        return 0
    if not argv or argv[0] not in ("record", "compare"):
        print(__doc__)
        return 2
    bad = 0
    with workspace():
        for case in chosen(argv[1:]):
            begun = time.process_time()
            found = attempt(case)
            seconds = time.process_time() - begun
            if argv[0] == "record":
                store(case.group, {**results(case.group), case.name: found})
            sentences = differences(results(case.group).get(case.name), found)
            bad += bool(sentences)
            print(f"{seconds:6.1f} s  {case.name}", *sentences, sep="\n    ", flush=True)
    print(f"{len(chosen(argv[1:]))} cases, {bad} different")
    return int(bad > 0)


# What cases read


def bad(folder: str, suffix: str = ".yaml") -> list[str]:
    """The names of the bad files of a kind."""
    return [Path(path).stem for path in INPUTS["files"] if path.startswith(f"bad/{folder}/") and path.endswith(suffix)]


ENGLISH, LTLF = INPUTS["english"], INPUTS["ltlf"]

# Help

COMMANDS = "train resume sweep eval report watch studio sample show task trace play solve lint sets bench presets"
command("help/atlas", "--help", form="flags")
command("help/nothing", "", form="flags")
command("help/version", "--version")
for one in COMMANDS.split():
    command(f"help/{one}", f"{one} --help", form="flags")
for one in ("list", "build", "verify"):
    command(f"help/sets-{one}", f"sets {one} --help", form="flags")
command("help/train-quick-dr", "train quick-dr --help", form="flags")

# Looking at problems

SHOWN = {
    "behind-you": "01-one-room", "which-key": "02-two-rooms",
    "mind-the-door": "02-two-rooms", "full-circle-spelled-out": "03-four-rooms", "warehouse": "04-six-rooms",
    "locked-heart": "05-nine-rooms", "four-gates": "07-spirals", "two-threads": "09-any-order",
    "dead-branch": "10-branching", "promise-of-a-lock": "10-branching",
    "parcel-said-twice": "12-specification", "two-promises": "13-stay-locked", "patrol-and-shut": "14-patrol",
    "choice-of-three": "15-choice", "first-things-first": "16-avoid", "key-as-parcel": "19-decoys",
}  # fmt: skip
"""Problem -> its file."""
for one, file in SHOWN.items():
    command(f"show/{one}", f"show problems/{file}.yaml --name {one}")
for one in "room.yaml carrying.yaml nameless.yaml level.yaml level.txt several.yaml deep-problem.yaml".split():  # noqa: SIM905
    command(f"show/{one}", f"show {one}")
for one in ("carrying.yaml", "level.txt", "several.yaml", "deep-problem.yaml"):
    command(f"show/{one}-json", f"show {one} --json", form="json")
command("show/authors", "show authors")
command("show/authors-json", "show authors/eval.yaml --json", form="json")
command("show/authors-level", "show authors/levels/two.yaml --json", form="json")
command("show/index", "show several.yaml --index -1")
command("show/pictures", "show room.yaml --png show.png --svg show.svg", reads=("show.png", "show.svg"))


def tags_of(path: str) -> Any:
    """How many problems there are, and how many have each tag."""
    problems = atlas.load(path)
    tags = [tag for one in problems for tag in one.tags]
    return {"": len(problems)} | {tag: tags.count(tag) for tag in sorted(set(tags))}


def saved(problems: Any, path: str) -> Any:
    """The text that problems are written as."""
    atlas.save(problems, path)
    return content(Path(path))


function("files/hand")(lambda: tags_of("problems"))
function("files/authors")(lambda: saved(atlas.load("authors"), "authors-again.yaml"))
function("files/save")(
    lambda: saved(
        [atlas.load(f"problems/{f}.yaml")[3] for f in ("02-two-rooms", "09-any-order", "10-branching", "16-avoid")],
        "all.yaml",
    )
)
function("files/save-folder")(lambda: saved(atlas.load("several.yaml"), "saved"))
function("files/save-level")(lambda: saved(atlas.load_level("level.txt"), "level-again.yaml"))
function("files/save-hierarchy")(lambda: saved(atlas.load("deep-problem.yaml"), "deep-again.yaml"))
function("files/level")(lambda: saved(atlas.load_level("authors/levels/one.yaml"), "authors-level.yaml"))
function("files/task")(
    lambda: [atlas.explain(atlas.load_task(f"{f}.yaml")) for f in ("flat", "deep", "room", "words", "odd")]
)

# Tasks

OUTPUTS = ("explain", "check", "yaml", "dot", "hoa")
for one, words in ENGLISH.items():
    command(f"task/english-{one}", "task", words)
for one, words in LTLF.items():
    command(f"task/ltlf-{one}", "task --ltlf", words)
for one in ("ball-key", "times", "without", "object"):
    command(f"task/english-{one}-json", "task --json", ENGLISH[one], form="json")
for one in ("then", "until", "doubtful", "strong"):
    command(f"task/ltlf-{one}-json", "task --ltlf --json", LTLF[one], form="json")
for one in "flat.yaml hierarchy.yaml deep.yaml odd.yaml rewards.yaml automaton.hoa formula.ltlf steps.txt".split():  # noqa: SIM905
    command(f"task/{one}", f"task {one}")
for one in ("flat.yaml", "deep.yaml"):
    command(f"task/{one}-all", f"task {one} {' '.join(f'--{flag}' for flag in OUTPUTS)}")
for one in ("room.yaml", "rewards.yaml", "authors/hrms/one.yaml"):
    command(f"task/{one}-json", f"task {one} --json", form="json")
for flag in OUTPUTS:
    command(f"task/only-{flag}", f"task --{flag}", ENGLISH["either"])
command("task/stdin", "task -", stdin=ENGLISH["or"])
command("task/stdin-ltlf", "task - --ltlf --explain", stdin=LTLF["until"])
command("task/drawn", "task --svg t.svg --png t.png --scale 1.5", ENGLISH["and"], reads=("t.svg", "t.png"))
command("task/check-hand", "task problems/10-branching.yaml --check")


@function("task/explain-hand")
def _explain_hand() -> Any:
    return {one.name: lines(atlas.explain(one)) for one in atlas.load("problems")}


@function("task/read-back")
def _read_back() -> Any:
    tasks = [atlas.english(words) for words in ENGLISH.values()] + [atlas.ltlf(words) for words in LTLF.values()]
    return [atlas.explain(atlas.english(words)) == words for words in map(atlas.explain, tasks)]


# Solving

SOLVED = """
behind-you which-key full-circle-spelled-out four-gates dead-branch two-promises choice-of-three key-as-parcel
"""
for one in SOLVED.split():
    command(f"solve/{one}", f"solve problems/{SHOWN[one]}.yaml --name {one} --json", form="json")
command("solve/one-room", "solve problems/01-one-room.yaml --workers 1")
command("solve/room", "solve room.yaml")
command("solve/unsolvable", "solve unsolvable")
command("solve/unsolvable-json", "solve unsolvable --json", form="json")
command("solve/trivial", "solve linted/c-trivial.yaml --json", form="json")
command("solve/hierarchy", "solve deep-problem.yaml --json", form="json")
command("solve/authors", "solve authors --json", form="json")
command("solve/short-limit", "solve problems/02-two-rooms.yaml --index 1 --step-limit 6 --json", form="json")
command("solve/small-budget", "solve problems/04-six-rooms.yaml --index 4 --budget 2 --polish 0 --json", form="json")
command("solve/unpolished", "solve problems/03-four-rooms.yaml --index 3 --polish 0 --json", form="json")
command("solve/film", "solve room.yaml --film plan.gif", reads=("plan.gif",))
command("solve/sampled", "solve --sampled 16 --pairing level --workers 1 --seed 3", slow=True)
for pairs in "independent sequential, level dag, level hierarchical, task authors-dag".split(", "):  # noqa: SIM905
    pairing, tasks = pairs.split()
    line = f"solve --sampled 16 --pairing {pairing} --tasks {tasks} --workers 1 --json"
    command(f"solve/sampled-{pairing}-{tasks}", line, form="json", slow=True)


@function("solve/hand", slow=True)
def _solve_hand() -> Any:
    """Verdict, lower bound and plan of all: a plan of n steps has n digits."""
    code, out, err = call(["solve", "problems", "--workers", "1", "--json"])
    told = json.loads(out)
    rows = {
        row["name"]: " ".join([row["verdict"], str(row["lower_bound"]), "".join(map(str, row["plan"] or []))])
        for row in told["problems"]
    }
    return {"code": code, "err": err, "total": told["total"], "problems": rows}


@function("solve/function")
def _solve_function() -> Any:
    found = [atlas.solve(one) for one in atlas.load("unsolvable") + atlas.load("problems/02-two-rooms.yaml")[:3]]
    return [[s.verdict, s.plan_length, s.reason, "".join(map(str, s.plan or ()))] for s in found]


# Following tasks and replaying actions

LABELS = """
-
front_ball front_ball_red
carrying_key
front_key front_ball
-
front_key
carrying_ball
next_ball_key
front_door front_door_locked
front_door_open front_door_red_open front_door
carrying_ball
front_square carrying_key
next_ball_key carrying_ball
front_ball carrying_ball
front_door carrying_key
next_ball_key
front_key
carrying_ball
next_ball_key
"""
"""What tasks are followed through, a label a line."""


def followed(task: Any) -> list[str]:
    """A line for each label, the last for one after the end."""
    ends = {(True, False): " accepted", (False, True): " rejected"}
    told = [
        f"{r.machine} {r.state} [{' '.join(r.stack)}] {r.reward:g}{ends.get((r.accepted, r.rejected), '')}"
        for r in atlas.follow(task, [set(line.split()) - {"-"} for line in LABELS.strip().splitlines()])
    ]
    over = [number for number, line in enumerate(told) if line.endswith("ted")]
    return told[: over[0] + 2] if over else told


def moments(subject: Any, actions: Any, **more: Any) -> list[str]:
    """A line for each record: place, facing, carrying, task state, reward, done, label, view (hashes)."""
    told = []
    for r in atlas.trace(subject, actions, **more):
        hashes = [
            zlib.crc32(" ".join(names).encode()) for names in (sorted(r.label), [x for row in r.view for x in row])
        ]
        told.append(
            f"{r.position[0]},{r.position[1]} {r.direction} {r.carrying} {r.task_state} {r.reward:g} {int(r.done)} "
            f"{len(r.label)} {hashes[0]:08x} {hashes[1]:08x}"
        )
    return told


def script(seed: int, length: int) -> list[int]:
    """Actions at random, the same everywhere; forward more often than others."""
    actions = []
    for _ in range(length):
        seed = (seed * 1103515245 + 12345) % 2**31
        actions.append((0, 0, 0, 1, 2, 3, 0, 5, 4, 0)[(seed >> 16) % 10])
    return actions


def plans() -> dict[str, list[int]]:
    """The plans that were stored for the hand set: what is replayed does not depend on what is solved today."""
    stored = results("solve")["solve/hand"]["gives"]["problems"]
    return {name: [int(digit) for digit in row.split()[2]] for name, row in stored.items()}


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
    return {f: moments(atlas.load(f"problems/{f}.yaml")[n % 5], script(n, 13)) for n, f in enumerate(files)}


@function("trace/plans")
def _trace_plans() -> Any:
    problems, known = {one.name: one for one in atlas.load("problems")}, plans()
    return {name: moments(problems[name], known[name]) for name in ("which-key", "dead-branch", "two-threads")}


@function("trace/all-plans", slow=True)
def _trace_all_plans() -> Any:
    """How many records, the last one, and a hash of all."""
    told, known = {}, plans()
    for one in atlas.load("problems"):
        records = moments(one, known[one.name])
        told[one.name] = f"{len(records)} {records[-1][:-18]} {zlib.crc32(' '.join(records).encode()):08x}"
    return told


@function("trace/hierarchy")
def _trace_hierarchy() -> Any:
    return moments(atlas.load("deep-problem.yaml")[0], script(5, 40))


@function("trace/level-names")
def _trace_level() -> Any:
    return moments(atlas.load_level("level.txt"), ["forward", "put down", "LEFT", 4, "5", "pick_up"])


@function("trace/limit")
def _trace_limit() -> Any:
    return moments(atlas.load("room.yaml")[0], script(3, 9), step_limit=4)


command("trace/room", "trace room.yaml --actions 2,2,0,1,3,1,0,0,0,0")
command("trace/room-json", "trace room.yaml --actions 'forward forward,right' --json", form="json")
command("trace/start", "trace room.yaml")
command("trace/level", "trace level.txt --actions 4,3 --json", form="json")
command("trace/trivial", "trace linted/c-trivial.yaml --actions 0,0")
command("trace/named", "trace several.yaml --name second --actions 1,0,0,0,0")
command("trace/film", "trace room.yaml --actions 0,1 --film trace.gif", reads=("trace.gif",))

# Linting

command("lint/linted", "lint linted --workers 1")
command("lint/linted-json", "lint linted --workers 1 --json", form="json")
command("lint/file", "lint bad/problems/agent-two.yaml --json", form="json")
command("lint/good", "lint several.yaml")
command("lint/limit", "lint several.yaml --step-limit 2 --json", form="json")
command("lint/hand", "lint problems --workers 1 --json", form="json", slow=True)

# Sampling

for pairing in ("independent", "level", "task"):
    for tasks in ("sequential", "dag", "authors-dag", "cyclic", "hierarchical"):
        line = f"sample -n 2 --pairing {pairing} --tasks {tasks} --seed 7"
        command(f"sample/{pairing}-{tasks}", line, slow=(pairing, tasks) != ("independent", "sequential"))
command("sample/json", "sample -n 2 --seed 1 --json", form="json")
command("sample/rooms", "sample --n 2 --rooms 9 --tasks dag --pairing task --json", form="json", slow=True)
command("sample/solvable", "sample -n 2 --solvable --seed 2 --json", form="json", slow=True)
command("sample/levels", "sample -n 3 --levels-only")
command("sample/levels-json", "sample -n 3 --levels-only --rooms 1 2 --seed 5 --json", form="json", slow=True)
command("sample/file", "sample -n 2 --seed 1 --out two.yaml", reads=("two.yaml",))
command("sample/folder", "sample -n 2 --seed 2 --out two", reads=("two",))
command("sample/picture", "sample -n 2 --seed 1 --png two.png", reads=("two.png",))


@function("sample/npz")
def _sample_npz() -> Any:
    """Written as arrays, read back, told apart by its fingerprint."""
    told = call(["sample", "-n", "2", "--seed", "1", "--out", "two.npz"])
    names = [row["name"] for row in json.loads(call(["show", "two.npz", "--json"])[1])]
    return [told, content(Path("two.npz")), names, json.loads(call(["sets", "verify", "two.npz", "--json"])[1])]


@function("sample/function", slow=True)
def _sample_function() -> Any:
    return saved(atlas.sample(2, pairing="level", tasks="dag", seed=11), "sampled.yaml")


@function("sample/english", slow=True)
def _sample_english() -> Any:
    """Two problems a draw, as above: what is compiled is shared."""
    told: dict[str, list[Any]] = {}
    for tasks in ("sequential", "dag", "authors-dag", "cyclic", "hierarchical"):
        problems = [one for seed in (4, 5) for one in atlas.sample(2, tasks=tasks, seed=seed)]
        told[tasks] = [lines(atlas.explain(one)) for one in problems]
    return told


# Sets, presets, sweeps

function("sets/list-json")(lambda: {row["name"]: row for row in json.loads(call(["sets", "list", "--json"])[1])})
command("sets/list", "sets list", form="listed")
command("sets/verify-hand", "sets verify hand --json", form="json")
command("sets/verify-path", "sets verify problems")
command("sets/verify-file", "sets verify room.yaml")
command("sets/verify-same", "sets verify twins.yaml")
BUILD = "sets build validation --out v.npz --workers 1 --json"
command("sets/build-validation", BUILD, form="json", drop=("seconds",), slow=True)

command("presets/list", "presets --json", form="json")
command("presets/paper-accel", "presets paper-accel --json", form="json")


@function("presets/all")
def _presets_all() -> Any:
    """What each differs in from `paper-accel`; settings it does not have are null. As text and as JSON they are one."""
    base, told, listed = config("paper-accel"), {}, call(["presets"])[1].splitlines()
    for line, (name, summary) in zip(listed, json.loads(call(["presets", "--json"])[1]).items(), strict=True):
        assert line.split(maxsplit=1) == [name, summary]
        own = config(name)
        told[name] = {key: own.get(key) for key in dict.fromkeys([*base, *own]) if own.get(key) != base.get(key)}
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


command("sweep/list", "sweep sweep.yaml --list")
command("sweep/list-json", "sweep sweep.yaml --list --json", form="json")


@function("sweep/experiments")
def _sweep_experiments() -> Any:
    """How many runs each experiment of each sweep has."""
    told = {}
    for path in sorted(SWEEPS.glob("*.yaml")):
        if path.stem != "quick-search":
            rows = json.loads(call(["sweep", str(path), "--list", "--folder", "swept", "--json"])[1])
            told[path.stem] = {row["experiment"]: row["runs"] for row in rows}
    return told


# Refusals: commands

for one in bad("problems"):
    command(f"refusals/problem-{one}", f"show bad/problems/{one}.yaml --json")
for one, words in INPUTS["bad-english"].items():
    command(f"refusals/english-{one}", "task", words)
for one, words in INPUTS["bad-ltlf"].items():
    command(f"refusals/ltlf-{one}", "task --ltlf", words)
for one in bad("hoa", ".hoa"):
    command(f"refusals/hoa-{one}", f"task bad/hoa/{one}.hoa")
for one in bad("sweeps"):
    command(f"refusals/sweep-{one}", f"sweep bad/sweeps/{one}.yaml --list", cut=HINT)
CUTS = {"teacher": "one of", "teacher-unnamed": "one of", "teacher-key": "; known", "sampler": "one of"}
for one in bad("configs"):
    if one != "hierarchical-solvable":
        command(f"refusals/config-{one}", f"train bad/configs/{one}.yaml", cut=CUTS.get(one, ""))
for one in bad("authors"):
    command(f"refusals/authors-{one}", f"show bad/authors/{one}.yaml")

command("refusals/command", "sovle")
command("refusals/command-far", "xyzzy", cut="; there are")
command("refusals/preset", "presets paper-acel", cut=HINT)
command("refusals/preset-far", "presets zzz")
command("refusals/train-preset", "train papr-plr-pvl", cut=HINT)
command("refusals/train-no-file", "train nowhere.yaml")
command("refusals/train-order", "train --run.seed 1 tiny")
command("refusals/train-flag", "train tiny --teacher.replay-porb 0.5")
command("refusals/train-type", "train tiny --run.num-envs x")
command("refusals/train-choice", "train tiny --tasks.sampler dga")
command("refusals/train-range", "train tiny --teacher.replay-prob 2")
command("refusals/train-divisor", "train tiny --run.num-envs 10 --student.ppo.minibatch-envs 4")
command("refusals/train-devices", "train tiny --devices 0")
command("refusals/train-hosts", "train tiny --num-hosts 2")
command("refusals/train-host-id", "train tiny --num-hosts 2 --host-id 5 --coordinator localhost:1")
command("refusals/train-there", "train tiny --folder runs/begun")
command("refusals/train-file", "train tiny --folder file-not-folder")
command("refusals/train-solvable", "train bad/configs/hierarchical-solvable.yaml --folder elsewhere/hs")
command("refusals/resume-nowhere", "resume runs/nowhere-at-all", cut="; there are")
command("refusals/resume-near", "resume runs/begum")
command("refusals/resume-other", "resume runs/other", cut="; there are")
command("refusals/resume-nothing", "resume")
command("refusals/resume-config", "resume runs/odd-config")
command("refusals/eval-nothing", "eval")
command("refusals/eval-nowhere", "eval nowhere")
command("refusals/eval-other", "eval runs/other", cut="; there are")
command("refusals/eval-no-config", "eval runs/no-config")
command("refusals/eval-no-config-file", "eval runs/no-config/policies/1.npz")
command("refusals/eval-garbage", "eval runs/begun/policies/000000001.npz", cut=" (This")
command("refusals/eval-empty", "eval runs/begun")
command("refusals/eval-config", "eval runs/odd-config")
command("refusals/eval-over-time", "eval runs/empty-policy --over-time")
command("refusals/eval-which", "eval runs/begun --which worst")
command("refusals/eval-attempts", "eval runs/begun --attempts many")
command("refusals/report-nothing", "report")
command("refusals/report-out", "report runs/begun --out page.pdf")
command("refusals/report-nowhere", "report runs/nowhere-at-all", cut="; there are")
command("refusals/report-episodes", "report runs/begun --episodes few")
command("refusals/watch-nowhere", "watch nowhere")
command("refusals/watch-speed", "watch runs/begun --fps 0")
command("refusals/watch-limit", "watch runs/begun --step-limit 0")
command("refusals/watch-empty", "watch runs/begun room.yaml")
command("refusals/play", "play room.yaml")
command("refusals/bench-part", "bench wrold")
command("refusals/bench-figure", "bench growth --figure growth.doc")
command("refusals/sweep-nowhere", "sweep nowhere.yaml")
command("refusals/sweep-parallel", "sweep sweep.yaml --parallel 0")
command("refusals/sweep-retries", "sweep sweep.yaml --retries -1")
command("refusals/sweep-search-list", "sweep", str(SWEEPS / "quick-search.yaml"), "--list")
command("refusals/show-nothing", "show")
command("refusals/show-nowhere", "show nowhere.yaml")
command("refusals/show-flag", "show room.yaml --nmae x")
command("refusals/show-name", "show several.yaml --name secnod")
command("refusals/show-name-far", "show problems --name zzz")
command("refusals/show-index", "show several.yaml --index 3")
command("refusals/show-index-word", "show several.yaml --index one")
command("refusals/show-many-png", "show several.yaml --png many.png")
command("refusals/show-empty", "show empty")
command("refusals/show-same-names", "show same-names.yaml")
command("refusals/show-txt-cell", "show bad/txt/cell.txt")
command("refusals/show-txt-carrying", "show bad/txt/carrying.txt")
command("refusals/show-npz", "show garbage.npz", cut=" (This")
command("refusals/show-png-nowhere", "show room.yaml --png file-not-folder/x.png")
command("refusals/show-lost-list", "show lost/eval.yaml")
command("refusals/show-lost-task", "show lost")
command("refusals/trace-action", "trace room.yaml --actions forwrad")
command("refusals/trace-action-far", "trace room.yaml --actions zzz")
command("refusals/trace-number", "trace room.yaml --actions 0,9")
command("refusals/trace-negative", "trace room.yaml --actions=-1")
command("refusals/trace-many", "trace several.yaml --actions 0")
command("refusals/trace-film", "trace room.yaml --film film.doc")
command("refusals/task-nothing", "task")
command("refusals/task-nowhere", "task nowhere.yaml")
command("refusals/task-nowhere-hoa", "task nowhere.hoa")
command("refusals/task-scale", "task 'go to a ball' --png x.png --scale 100")
command("refusals/task-several", "task several.yaml")
command("refusals/task-level", "task level.yaml")
command("refusals/task-check", "task odd.yaml --check")
command("refusals/solve-nothing", "solve")
command("refusals/solve-both", "solve room.yaml --sampled 3")
command("refusals/solve-level", "solve level.yaml")
command("refusals/solve-limit", "solve room.yaml --step-limit 0")
command("refusals/solve-budget", "solve room.yaml --budget 0")
command("refusals/solve-film-many", "solve several.yaml --film x.gif")
command("refusals/solve-film-none", "solve unsolvable/sealed.yaml --film x.gif")
command("refusals/solve-sampled-none", "solve --sampled 0")
command("refusals/solve-tasks", "solve --sampled 2 --tasks dga")
command("refusals/lint-nothing", "lint")
command("refusals/lint-nowhere", "lint nowhere")
command("refusals/lint-empty", "lint empty")
command("refusals/sample-none", "sample -n 0")
command("refusals/sample-pairing", "sample --pairing levle")
command("refusals/sample-rooms", "sample --rooms 3")
command("refusals/sample-rooms-twice", "sample --rooms 1 1")
command("refusals/sample-solvable", "sample --solvable --tasks hierarchical")
command("refusals/sample-out", "sample -n 2 --seed 1 --out three.doc")
command("refusals/sample-levels-npz", "sample -n 1 --levels-only --out levels.npz")
command("refusals/sets-nothing", "sets")
command("refusals/sets-command", "sets lits")
command("refusals/sets-build", "sets build validaton")
command("refusals/sets-build-far", "sets build zzz", cut="; sets that")
command("refusals/sets-build-seed", "sets build validation --seed 7")
command("refusals/sets-build-out", "sets build validation --out v.yaml")
command("refusals/sets-verify", "sets verify hnad")
command("refusals/sets-verify-far", "sets verify zzz", cut="; sets are")
command("refusals/sets-verify-bad", "sets verify linted")
command("refusals/sets-verify-npz", "sets verify garbage.npz", cut=" (This")

# Refusals: functions

refused("load-nowhere", lambda: atlas.load("nowhere"))
refused("load-level-nowhere", lambda: atlas.load_level("nowhere.txt"))
refused("load-level-none", lambda: atlas.load_level("words.yaml"))
refused("load-level-task", lambda: atlas.load_level("flat.yaml"))
refused("load-level-set", lambda: atlas.load_level("several.yaml"))
refused("load-level-npz", lambda: atlas.load_level("garbage.npz"))
refused("load-task-none", lambda: atlas.load_task("level.yaml"))
refused("load-task-folder", lambda: atlas.load_task("problems"))
refused("load-folder", lambda: atlas.load("bad/problems"))
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


assert len({case.name for case in CASES}) == len(CASES), "two cases have the same name"

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
