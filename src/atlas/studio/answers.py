"""The answers of workers to messages.

Every input goes through the loaders that files go through; every path is looked at first. A page holds all state (a
problem as the entries of a file, the actions that were played), so that a worker can be lost at any time: what is kept
here is only kept to be quick.
"""

import base64
import io
import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np

from atlas.documents import parse_documents
from atlas.domains import (
    DOMAINS,
    default_name,
    domain_for,
    domain_of,
    name_for,
    settings_class,
    surface_of,
    vocabulary_of,
)
from atlas.errors import AtlasError, LevelTextError, TaskWarning
from atlas.programs import Program
from atlas.runs.folder import RunFolder, in_use, is_in_zoo, located
from atlas.runs.policy import load_policy, run_of
from atlas.runs.problem_files import SUFFIXES, YAML_SUFFIXES, format_problem, load, locate, parse_problem, save
from atlas.settings import STEP_LIMIT
from atlas.show import canvas
from atlas.show.episode import Episode, Scene, ending, film, most_specific, scenes
from atlas.show.problem import sprite
from atlas.studio.messages import MESSAGES, Body, Studio
from atlas.tasks.check import Finding, check
from atlas.tasks.draw import HIDDEN, machine_drawing
from atlas.tasks.english import read as read_english
from atlas.tasks.explain import explain, in_one_line
from atlas.tasks.formats import draft, format_task, parse_task, to_plain
from atlas.tasks.ltlf import parse as parse_ltlf
from atlas.tasks.machine import NO_CALL, Task, literal_names, machine_name
from atlas.tasks.packed import roomy, unpack
from atlas.types import About, Level, NamedProblem, Problem

Plain = dict[str, Any]

MOST_ENTRIES: Final = 500
"""Most entries of a folder that are listed."""
MOST_PROBLEMS: Final = 5_000
"""Most problems of a set that a gallery shows."""
MOST_POINTS: Final = 240
"""Most points of a curve."""
MOST_ANCESTORS: Final = 40
MOST_GAMES: Final = 4
"""Episodes that are kept: what is played, the plan, and what was played before."""
THUMBNAIL: Final = 168
"""Pixels of the longer side of a level in a gallery."""
TRIED: Final = 1500
"""Nodes that the prover searches at first."""
CURVES: Final = ("held_out", "solve_rate", "curriculum", "score", "losses")
"""Groups of numbers that the live view draws."""


class Answers:
    """Answers messages. The lanes desk and lab are two processes with one of these each."""

    def __init__(self, studio: Studio) -> None:
        self.studio, self.root = studio, Path(studio.root).resolve()
        self._sets: dict[Path, tuple[float, list[NamedProblem]]] = {}
        self._proven: dict[str, Plain] = {}
        self._games: list[Game] = []
        self._players: dict[Any, Any] = {}

    def answer(self, name: str, body: Plain) -> Any:
        """The reply to a message."""
        if name not in MESSAGES:
            raise AtlasError(f"there is no message '{name[:80]}'")
        if MESSAGES[name].writes and self.studio.read_only:
            raise AtlasError("this studio is read-only: nothing can be saved")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TaskWarning)  # they are findings: see `task`
            return getattr(self, name)(Body(body))

    # What a page needs first

    def start(self, body: Body) -> Plain:
        """The domains, the problem to begin with, and what can be opened."""
        document, where = self._first()
        problem = _problem(Body(document))
        return {
            "domains": {name: _domain_facts(name) for name in DOMAINS},
            "problem": document,
            "level": _level_facts(problem.level),
            "task": self._task_facts(unpack(problem.task), name_for(problem)),
            "where": where,
            "run": self._given_run(),
            "sets": sorted(_built_sets()),
            "policy": self.studio.policy,
            "read_only": self.studio.read_only,
            "root": self.root.name or str(self.root),
        }

    def _given_run(self) -> str | None:
        """The run folder that the studio was started on, if it was."""
        given = self.studio.given
        return self._told(Path(given)) if given is not None and RunFolder(Path(given)).is_run() else None

    def _first(self) -> tuple[Plain, str | None]:
        """The problem to begin with, and the set that it belongs to."""
        if self.studio.given is None:
            return _example(self.studio.domain or default_name()), None
        if self._given_run() is not None:
            return _example(RunFolder(Path(self.studio.given)).config().domain.name), None
        path, name = locate(self.studio.given)
        known = _built_sets()
        where = next((given for given, place in known.items() if place == path), None) or self._told(path)
        problems = self._set(where)
        one = next((p for p in problems if p.name == name), problems[0])
        return _document(one), where if len(problems) > 1 else None

    # Levels

    def level(self, body: Body) -> Plain:
        """A level from its text."""
        return _level_facts(_level(body))

    def paint(self, body: Body) -> Plain:
        """A level after some strokes. Those that cannot be are left out and told with their places."""
        level, surface = _level(body), _surface(body)
        refused = []
        for stroke in body.each("strokes", 1000):
            brush, (row, column) = stroke.text("brush"), stroke.pair("at")
            try:
                level = surface.paint(level, brush, row, column)
            except LevelTextError as error:
                refused.append({"at": [row, column], "sentence": error.problem})
        return {**_level_facts(level), "refused": refused}

    def move(self, body: Body) -> Plain:
        """A level after something was dragged."""
        return _level_facts(_surface(body).move(_level(body), body.pair("source"), body.pair("target")))

    def resize(self, body: Body) -> Plain:
        rows, columns = body.whole("rows", 0, 999), body.whole("columns", 0, 999)
        return _level_facts(_surface(body).resize(_level(body), rows, columns))

    def template(self, body: Body) -> Plain:
        templates = _surface(body).templates()
        return _level_facts(templates[body.one_of("name", templates)])

    # Tasks

    def task(self, body: Body) -> Plain:
        """A task from words, a formula, a text in YAML, or a value as files hold it; a level says what `all` means."""
        domain = _domain(body)
        things = surface_of(domain).things(_level(body)) if body.has("level") else None
        vocabulary = vocabulary_of(domain)
        mode = body.one_of("mode", ("english", "ltlf", "yaml", "value"))
        value: Any = body.fields.get("value") if mode == "value" else body.text("text")
        phrase: Any = None
        notes: Sequence[str] = ()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", TaskWarning)
            try:
                if mode == "english":
                    task, phrase, notes = read_english(value, vocabulary, things)
                else:
                    if mode == "yaml":
                        documents = parse_documents(value, Path("task"))
                        value = documents[0].value() if len(documents) == 1 else None
                    task = parse_task({"ltlf": value} if mode == "ltlf" else value, vocabulary, things)
            except AtlasError as error:
                if mode == "english" and _is_formula(value, vocabulary):
                    raise AtlasError("This is an LTLf formula: choose LTLf to read it as one.") from None
                if not (isinstance(value, dict) and "transitions" in value):
                    raise
                # A graph that is being made may be drawn before it can be used.
                facts = self._task_facts(draft(value, vocabulary), domain)
                return {**facts, "refused": str(error)}
        doubts = dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, TaskWarning))
        return self._task_facts(task, domain, in_one_line(task, vocabulary, phrase), notes, list(doubts))

    def _task_facts(
        self, task: Task, domain: str, understood: str = "", notes: Sequence[str] = (), doubts: Sequence[str] = ()
    ) -> Plain:
        """All that a page shows of a task."""
        vocabulary = vocabulary_of(domain)
        found = check(task, vocabulary)
        findings = [
            *(Finding("note", note) for note in notes),
            *(Finding("warning", doubt) for doubt in doubts if not any(f.sentence in doubt for f in found)),
            *found,
        ]
        value = format_task(task, vocabulary) if task.root in task.can_accept else to_plain(task, vocabulary)
        return {
            "value": value,
            "yaml": _yaml(to_plain(task, vocabulary)),
            "explanation": explain(task, vocabulary),
            "understood": understood or in_one_line(task, vocabulary),
            "findings": [{"level": finding.level, "sentence": finding.sentence} for finding in findings],
            "root": machine_name(task.root),
            "machines": {machine_name(m): _machine_facts(task, m, domain) for m in range(len(task.machines))},
            "hidden": HIDDEN,
        }

    # Whole problems

    def text(self, body: Body) -> Plain:
        """A problem as the text of a file."""
        return {"text": format_problem(_problem(body))}

    def read(self, body: Body) -> Plain:
        """The problem of a text as files hold it."""
        found = parse_problem(body.text("text", most=200_000))
        return {"problem": _document(found)}

    def save(self, body: Body) -> Plain:
        """Write a problem to a file below the folder of the studio."""
        problem, words = _problem(body), body.text("path", most=300)
        path = self._below(words if words.endswith(YAML_SUFFIXES) else words + YAML_SUFFIXES[0])
        if path.is_dir():
            raise AtlasError(f"{self._told(path)} is a folder")
        if path.exists():
            if not body.flag("overwrite"):
                raise AtlasError(f"{self._told(path)} is there already")
            text = path.read_text(errors="replace")
            if len(parse_documents(text, path)) > 1:
                raise AtlasError(f"{self._told(path)} holds several problems: save this one under another name")
        if not problem.name:
            problem = problem.replace(about=About(path.stem, problem.notes, problem.tags))
        save(problem, path)
        return {"path": self._told(path), "name": problem.name}

    # Playing

    def play(self, body: Body) -> Plain:
        """The moments of an episode, from number `since` on."""
        problem = _problem(body.inside("problem"))
        actions = body.numbers("actions", 0, len(domain_for(problem).actions) - 1, STEP_LIMIT)
        key, since = format_problem(problem), body.whole("since", 0, STEP_LIMIT, 0)
        fitting = (game for game in self._games if game.key == key and game.actions == actions[: len(game.actions)])
        game = max(fitting, key=lambda game: len(game.actions), default=None) or Game(key, problem)
        self._games = [game, *(other for other in self._games if other is not game)][:MOST_GAMES]
        game.go_on(actions)
        watched = game.watched
        first = max(0, min(since - 1, len(watched) - 1))
        return {**_film(watched[first:], watched[:first]), "first": first, "ending": _how(watched)}

    # Files

    def folder(self, body: Body) -> Plain:
        """The folders, files and runs of a folder."""
        path = self._below(body.text("path", "."))
        if not path.is_dir():
            raise AtlasError(f"{self._told(path)} is no folder")
        found = []
        for entry in sorted(path.iterdir(), key=lambda e: (e.is_file(), e.name.lower())):
            if entry.name.startswith(".") or not self._is_shown(entry):
                continue
            is_run = entry.is_dir() and RunFolder(entry).is_run()
            if entry.is_dir() or entry.suffix in SUFFIXES:
                kind = "run" if is_run else "folder" if entry.is_dir() else "file"
                found.append({"name": entry.name, "path": self._told(entry), "kind": kind})
            if len(found) == MOST_ENTRIES:
                break
        parent = None if path == self.root else self._told(path.parent)
        return {"path": self._told(path), "parent": parent, "entries": found}

    def open(self, body: Body) -> Plain:
        """The problems of a set, in outline; or one of them, whole."""
        where = body.text("where", most=1000)
        problems = self._set(where)
        if body.has("name") or len(problems) == 1:
            name = body.text("name", problems[0].name)
            return {"problem": _document(_called(problems, name)), "where": where}
        rates = self._rates(where)
        told = []
        for problem in problems[:MOST_PROBLEMS]:
            task, vocabulary = unpack(problem.task), vocabulary_of(name_for(problem))
            told.append(
                {
                    "name": problem.name,
                    "tags": list(problem.tags),
                    "words": in_one_line(task, vocabulary),
                    "sizes": surface_of(name_for(problem)).overview(problem.level),
                    "states": sum(len(machine.states) for machine in task.machines),
                    "rate": rates.get(problem.name),
                }
            )
        return {"where": where, "problems": told, "total": len(problems)}

    def picture(self, body: Body) -> Plain:
        """The level of a problem of a set as a small picture, as PNG in base64."""
        problem = _called(self._set(body.text("where", most=1000)), body.text("name"))
        drawing = surface_of(name_for(problem)).drawing(problem.level, strip=False)
        scale = max(4, min(28, THUMBNAIL // max(drawing.size)))
        buffer = io.BytesIO()
        canvas.pixels(drawing, scale).save(buffer, "PNG")
        return {"png": base64.b64encode(buffer.getvalue()).decode()}

    def _set(self, where: str) -> list[NamedProblem]:
        """The problems of a set by its name, or of a file or folder that may be read."""
        path = _built_sets().get(where) or self._readable(where)
        when = _changed(path)
        if path not in self._sets or self._sets[path][0] != when:
            found = load(path, [])
            self._sets[path] = when, found
        return self._sets[path][1]

    def _rates(self, where: str) -> dict[str, float]:
        """Solve rates that the policy's run was evaluated to on this set, by problem."""
        if self.studio.policy is None:
            return {}
        from atlas.evaluation.results import FOLDER, read_evaluation

        file = run_of(Path(self.studio.policy)) / FOLDER / f"{Path(where).stem}.json"
        if not file.is_file():
            return {}
        rows = read_evaluation(file)["runs"][0]["problems"]
        return {row["name"]: row["rate"] for row in rows}

    def _is_shown(self, path: Path) -> bool:
        """Whether a path is below the folder of the studio, links that lead out of it excepted, and not hidden."""
        path = _resolved(path)
        return path.is_relative_to(self.root) and not any(p.startswith(".") for p in path.relative_to(self.root).parts)

    def _below(self, words: str) -> Path:
        """A path below the folder of the studio; anything else is refused."""
        path = _resolved(self.root / words)
        if not self._is_shown(path):
            raise AtlasError(f"'{words[:80]}' is not below the folder that the studio was started on, or hidden")
        return path

    def _readable(self, words: str) -> Path:
        """A path that may be read: below the folder of the studio, or of the run whose policy it was started with."""
        if self.studio.policy is not None and not is_in_zoo(self.studio.policy):
            path = _resolved(Path(words))
            if path.is_relative_to(_resolved(Path(self.studio.policy))):
                return path
        return self._below(words)

    def _told(self, path: Path) -> str:
        """The name of a path on a page."""
        path = path.resolve()
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    # Runs

    def runs(self, body: Body) -> Plain:
        """The runs of the folder, and of folders in it."""
        config = RunFolder(self.root).config_file.name
        found = [path.parent for above in ("*", "*/*", "*/*/*") for path in sorted(self.root.glob(f"{above}/{config}"))]
        return {"runs": [self._told(path) for path in found if self._is_shown(path)][:MOST_ENTRIES]}

    def run(self, body: Body) -> Plain:
        """The curves of a run, and what is replayed now."""
        path = self._readable(body.text("run", most=1000))
        folder = RunFolder(path)
        if not folder.is_run():
            raise AtlasError(f"{self._told(path)} is no run: it has no {folder.config_file.name}")
        from atlas.runs.metrics import flat, read

        config = folder.config()
        try:
            records = [dict(flat(record)) for record in read(folder.metrics_file)]
        except OverflowError:
            raise AtlasError(f"{self._told(folder.metrics_file)} has a number in it that is too large") from None
        records = [record for record in records if np.isfinite(record.get("steps", np.nan))]
        curves: dict[str, list[list[float]]] = {}
        for record in records:
            for name, value in record.items():
                group, *rest = name.split("/")
                if group in CURVES and len(rest) == 1 and np.isfinite(value):
                    curves.setdefault(name, []).append([record["steps"], value])
        seconds = records[-1].get("seconds", np.nan) if records else np.nan
        snapshots = sorted(folder.snapshots.glob("*.npz"))
        return {
            "run": self._told(path),
            "name": path.name,
            "teacher": config.plan.title,
            "total": config.run.total_steps,
            "steps": records[-1]["steps"] if records else 0,
            "seconds": seconds if np.isfinite(seconds) else None,
            "training": in_use(path),
            "curves": {name: line[:: -(-len(line) // MOST_POINTS)] for name, line in curves.items()},
            "replayed": self._examples(snapshots[-1]) if snapshots else None,
        }

    def _examples(self, path: Path) -> Plain:
        """The problems of a snapshot with what is known of each."""
        from atlas.runs.store import read_header

        settings = read_header(path).get("settings", {})
        problems = self._set(str(path) if self._told(path) == str(path) else self._told(path))
        facts = settings.get("examples", [])
        return {
            "where": self._told(path),
            "steps": settings.get("steps"),
            "problems": [
                {
                    "name": problem.name,
                    "words": in_one_line(unpack(problem.task), vocabulary_of(name_for(problem))),
                    **fact,
                }
                for problem, fact in zip(problems, facts, strict=False)
            ],
        }

    def lineage(self, body: Body) -> Plain:
        """A problem of a run, its parent, its grandparent and so on, as far as snapshots have kept them."""
        run = self._readable(body.text("run", most=1000))
        name = body.text("name", most=1000)
        known: dict[int, Plain] = {}
        for path in sorted(RunFolder(run).snapshots.glob("*.npz")):
            told = self._examples(path)
            for place, one in enumerate(told["problems"]):
                number = one.get("number", place)
                known[number] = {**one, "number": number, "where": told["where"]}
        start = next((number for number, one in known.items() if one["name"] == name), None)
        if start is None:
            raise AtlasError(f"no snapshot of this run has a problem called '{name[:80]}'")
        chain: list[Plain] = []
        number = start
        while number >= 0 and len(chain) < MOST_ANCESTORS and all(number != one["number"] for one in chain):
            if number not in known:
                chain.append({"number": number, "missing": True})
                break
            chain.append(known[number])
            number = int(known[number].get("parent", -1))
        return {"chain": chain}

    # The lab

    def verdict(self, body: Body) -> Plain:
        """Whether a problem can be solved, with its proof, and what `atlas lint` would say."""
        from atlas.evaluation.lint import Known, look_at

        problem = _problem(body.inside("problem"))
        budget = body.whole("budget", 1, 1_000_000, TRIED)
        solution = self._prove(problem, budget)
        findings = [f for f in look_at(problem, solution) if f.kind not in ("task", solution.verdict)]
        if body.has("where"):
            others = Known(p for p in self._set(body.text("where", most=1000)) if name_for(p) == name_for(problem))
            twin = others.duplicate(problem, besides=problem.name)
            findings += [twin] if twin else []
        actions = domain_for(problem).actions
        return {
            **_solution_facts(solution),
            "plan": None if solution.plan is None else list(solution.plan),
            "names": None if solution.plan is None else [actions[a] for a in solution.plan],
            "budget": budget,
            "findings": [{"kind": f.kind, "level": f.level, "sentence": f.sentence} for f in findings],
        }

    def _prove(self, problem: NamedProblem, budget: int, polish: int = 300) -> Any:
        return surface_of(name_for(problem)).solve_many([problem.bare()], budget=budget, polish=polish)[0]

    def verdicts(self, body: Body) -> Plain:
        """Verdicts on some problems of a set, by name."""
        where = body.text("where", most=1000)
        problems, found = self._set(where), {}
        for name in body.words("names", 50):
            problem = _called(problems, name)
            key = format_problem(problem)
            if key not in self._proven:
                self._proven[key] = _solution_facts(self._prove(problem, TRIED, polish=0))
            found[name] = self._proven[key]
        return {"verdicts": found}

    def sample(self, body: Body) -> Plain:
        """A level, a task or a whole problem at random."""
        from atlas.config import Config
        from atlas.settings import from_plain

        domain = _domain(body)
        what = body.one_of("what", ("level", "task", "problem"))
        plain: Plain = {
            "domain": {"name": domain},
            "tasks": {"sampler": body.text("tasks", "sequential")},
            "pairing": {"how": body.text("pairing", "level")},
        }
        size = body.whole("size", 0, 100, 0)
        if size and (stratum := _stratum(domain)):
            plain["domain"][stratum] = [size]
        config = from_plain(Config, plain)
        seed = body.whole("seed", 0, 2**32 - 1)
        level = None if what != "task" or config.pairing.how == "independent" else _level(body)
        drawn = _sampled(config, what, level, seed)
        reply: Plain = {}
        if what != "task":
            reply["level"] = surface_of(domain).format_level(surface_of(domain).crop(drawn.level))
        if what != "level":
            reply["task"] = format_task(unpack(drawn.task), vocabulary_of(domain))
        return reply

    def edit(self, body: Body) -> Plain:
        """A problem after one edit of a kind, and the edit in words."""
        from atlas.api import edit

        problem = _problem(body.inside("problem"))
        edited = edit(problem, body.text("kind"), body.whole("seed", 0, 2**32 - 1, 0))
        return {"problem": _document(edited.problem), "edit": edited.edit}

    def watch(self, body: Body) -> Plain:
        """An episode of a policy on a problem."""
        problem = _problem(body.inside("problem"))
        player, about = self._player(body, name_for(problem))
        player.greedy = body.flag("greedy")
        player.random = np.random.default_rng(body.whole("seed", 0, 2**32 - 1, 0))
        watched = list(scenes(player, problem.bare()))
        return {**_film(watched), "first": 0, "ending": _how(watched), "policy": about}

    def rate(self, body: Body) -> Plain:
        """How many of some attempts of a policy at a problem succeed."""
        from atlas.evaluation.play import attempt
        from atlas.evaluation.statistics import wilson

        problem, attempts = _problem(body.inside("problem")), body.whole("attempts", 1, 200, 20)
        player, about = self._player(body, name_for(problem))
        padded = Problem(level=surface_of(name_for(problem)).pad(problem.level), task=roomy(problem.task))
        options = {"attempts": attempts, "greedy": body.flag("greedy"), "seed": body.whole("seed", 0, 2**31 - 1, 0)}
        found = attempt(player.student, player.params, [padded], **options)
        solved = int(found.solved.sum())
        share = wilson(solved, attempts)
        steps = found.steps[found.solved]
        return {
            "solved": solved,
            "attempts": attempts,
            "low": share.low,
            "high": share.high,
            "steps": float(steps.mean()) if steps.size else None,
            "policy": about,
        }

    def _player(self, body: Body, domain: str) -> tuple[Any, Plain]:
        """The actor that plays a run's policy, and a description of it."""
        from atlas.show.episode import PolicyActor

        given = body.text("policy", self.studio.policy, most=1000)
        if not is_in_zoo(given) and given != self.studio.policy:
            given = str(self._readable(given))
        when = _changed(RunFolder(located(given)).checkpoints)
        if (given, when) not in self._players:
            policy = load_policy(given)
            self._players = {(given, when): (PolicyActor(policy.student, policy.params), policy)}
        player, policy = self._players[given, when]
        trained_in = RunFolder(policy.run).config().domain.name
        if trained_in != domain:
            raise AtlasError(f"the policy was trained in {trained_in}, and this problem is of {domain}")
        return player, {"name": given if is_in_zoo(given) else policy.run.name, "steps": policy.steps}


class Game:
    """An episode that somebody plays, as far as it has got."""

    def __init__(self, key: str, problem: NamedProblem) -> None:
        self.key, self.problem = key, problem
        self.actions: list[int] = []
        self.episode = Episode(problem.bare())
        self.watched = [self._scene(None)]

    def go_on(self, actions: Sequence[int]) -> None:
        """Take those of the actions that were not taken yet, until the episode ends."""
        for action in actions[len(self.actions) :]:
            if self.episode.record.done:
                return
            self.episode.act(action)
            self.actions.append(action)
            self.watched.append(self._scene(self.episode.domain.actions[action]))

    def _scene(self, action: str | None) -> Scene:
        one = self.episode
        return Scene(one.steps, action, one.level, one.place, one.record, None, one.domain.actions, one.view)


# Plain values for pages


def _document(found: NamedProblem | Level) -> Plain:
    """A problem as the entries of a file, by the names that messages have for them."""
    level, domain = getattr(found, "level", found), name_for(found)
    about = found.about if isinstance(found, NamedProblem) else About()
    task = format_task(unpack(found.task), vocabulary_of(domain)) if isinstance(found, Problem) else None
    return {
        "domain": domain,
        "level": surface_of(domain).format_level(level),
        "task": task,
        "name": about.name,
        "tags": list(about.tags),
        "notes": about.notes,
    }


def _domain(body: Body) -> str:
    return body.one_of("domain", DOMAINS, default_name())


def _surface(body: Body) -> Any:
    return surface_of(_domain(body))


def _level(body: Body) -> Level:
    """The level of a message, read as that of a file is."""
    surface, texts = _surface(body), body.texts("level")
    unknown = [key for key in texts if key not in surface.level_keys]
    if unknown or surface.level_keys[0] not in texts:
        raise AtlasError(f"a level is described by {', '.join(surface.level_keys)}; the first is needed")
    return surface.parse_level({k: text for k, text in texts.items() if text.strip() or k == surface.level_keys[0]})


def _problem(body: Body) -> NamedProblem:
    """The problem of a message."""
    level, value = _level(body), body.fields.get("task")
    tags = tuple(body.words("tags")) if body.has("tags") else ()
    about = About(body.text("name", "", 300), body.text("notes", "", 20_000), tags)
    domain = _domain(body)
    task = _parsed_task(json.dumps(value), domain, tuple(surface_of(domain).things(level)))
    return NamedProblem(level=level, task=task, about=about)


@lru_cache(maxsize=64)
def _parsed_task(value: str, domain: str, things: tuple[str, ...]) -> Task:
    return parse_task(json.loads(value), vocabulary_of(domain), things)


@cache
def _domain_facts(name: str) -> Plain:
    """The facts about a domain that an editor needs."""
    from atlas.config import Config
    from atlas.problems import edit_names
    from atlas.tasks.sample import SAMPLERS, formalism

    surface, vocabulary, domain = surface_of(name), vocabulary_of(name), domain_of(settings_class(name)())
    tasks, _ = formalism(Config().tasks, vocabulary, mask=domain.mask)
    keys, help_line = surface.keys
    return {
        "example": _example(name),
        "sprite": sprite([name]),
        "keys": surface.level_keys,
        "brushes": [{"name": b.name, "group": b.group, "symbols": b.symbols} for b in surface.brushes()],
        "templates": list(surface.templates()),
        "actions": [action.replace("_", " ") for action in domain.actions],
        "play": keys,
        "help": help_line,
        "propositions": vocabulary.names,
        "phrases": vocabulary.phrases,
        "edits": edit_names(domain, tasks),
        "samplers": list(SAMPLERS),
        "stratum": _stratum(name),
        "sizes": list(domain.strata[1]),
        "legend": [
            [canvas.svg(canvas.themed(picture), 22, part_of_page=True), words] for picture, words in surface.legend()
        ],
    }


def _stratum(name: str) -> str | None:
    """The measure that sampled levels can be asked for, if it is a setting of the domain."""
    settings = settings_class(name)()
    measure, values = domain_of(settings).strata
    return measure if getattr(settings, measure, None) == tuple(values) else None


def _example(name: str) -> Plain:
    """The problem that a domain shows itself with, in its own words."""
    surface, entries = surface_of(name), dict(surface_of(name).example())
    task = entries.pop("task")
    level = surface.format_level(surface.parse_level(entries))
    return {"domain": name, "level": level, "task": task, "name": "", "tags": [], "notes": ""}


def _level_facts(level: Level) -> Plain:
    """All that a page shows of a level."""
    surface = surface_of(name_for(level))
    return {
        "level": surface.format_level(level),
        "tiles": surface.tiles(level),
        "sizes": surface.overview(level),
        "possible": np.flatnonzero(_possible(level)).tolist(),
    }


@cache
def _possible_program(name: str) -> Program:
    return Program(f"{name} possible", lambda: domain_of(settings_class(name)()).possible)


def _possible(level: Level) -> np.ndarray:
    """`bool[props]`: which propositions the objects of a level could make true."""
    return np.asarray(_possible_program(name_for(level))(surface_of(name_for(level)).pad(level)))


def _machine_facts(task: Task, m: int, domain: str) -> Plain:
    machine, names = task.machines[m], vocabulary_of(domain).names
    drawing = machine_drawing(machine, vocabulary_of(domain), surface_of(domain).sign, None, m == task.root, keyed=True)
    return {
        "svg": canvas.svg(canvas.themed(drawing), part_of_page=True),
        "states": [machine.name(u) for u in machine.states],
        "calls": sorted({machine_name(edge.call) for edge in machine.edges if edge.call != NO_CALL}),
        "edges": [
            {
                "source": machine.name(edge.source),
                "target": machine.name(edge.target),
                "formula": literal_names(edge.literals, names),
                "call": None if edge.call == NO_CALL else machine_name(edge.call),
                "reward": edge.reward,
                "usual": edge.reward == machine.usual_reward(edge, m == task.root),
            }
            for edge in machine.edges
        ],
    }


def _film(watched: Sequence[Scene], before: Sequence[Scene] = ()) -> Plain:
    """An episode, or the later part of one, for the player of the page."""
    domain = name_for(watched[0].level)
    surface, vocabulary = surface_of(domain), vocabulary_of(domain)
    told = film(watched, list(dict.fromkeys(scene.place for scene in watched)))
    total = sum(scene.record.reward for scene in before)
    for plain, scene in zip(told["scenes"], watched, strict=True):
        total += scene.record.reward
        machine, _ = scene.place
        state = (scene.record.task_state or "").rpartition(":")[2]
        plain |= {
            "place": [machine_name(machine), state],
            "label": most_specific(scene.record.label, vocabulary),
            "view": surface.view_tiles(np.asarray(scene.view)),
            "reward": scene.record.reward,
            "total": total,
            "done": scene.record.done,
            "outcome": scene.record.outcome,
        }
    return told


def _how(watched: Sequence[Scene]) -> str:
    """How an episode ended; nothing while it goes on."""
    return ending(watched) if watched[-1].record.done or watched[0].record.outcome else ""


def _solution_facts(solution: Any) -> Plain:
    return {
        "verdict": solution.verdict,
        "reason": solution.reason,
        "plan_length": solution.plan_length,
        "lower_bound": solution.lower_bound,
        "trivial": solution.trivial,
    }


def _yaml(value: Any) -> str:
    import yaml

    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=88)


def _is_formula(text: str, vocabulary: Any) -> bool:
    try:
        parse_ltlf(text, vocabulary)
    except AtlasError:
        return False
    return True


def _called(problems: Iterable[NamedProblem], name: str) -> NamedProblem:
    for problem in problems:
        if problem.name == name:
            return problem
    raise AtlasError(f"no problem is called '{name[:80]}'")


def _resolved(path: Path) -> Path:
    """A path without links."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):
        raise AtlasError(f"'{str(path)[:80]}' is no path") from None


def _built_sets() -> dict[str, Path]:
    """The sets with a name that are there, and where they lie."""
    from atlas.evaluation.sets import named_sets

    return {name: known.path() for name, known in named_sets().items() if known.path().exists()}


def _changed(path: Path) -> float:
    """When a file, or something in a folder, was last changed."""
    try:
        inside: Iterator[Path] = path.rglob("*") if path.is_dir() else iter(())
        return max([path.stat().st_mtime, *(entry.stat().st_mtime for entry in inside)])
    except OSError:
        return 0.0


def _sampled(config: Any, what: str, level: Level | None, seed: int) -> Any:
    """One draw by the samplers of a config."""
    from atlas.api import sample_batch

    if what == "problem" or (what == "task" and level is None):
        return jax.tree.map(lambda leaf: leaf[0], sample_batch(config, 1, seed))
    draw_level, draw_task = _samplers(config)
    if what == "level":
        return Problem.unchecked(level=jax.device_get(draw_level(np.uint32(seed))), task=None)
    padded = surface_of(config.domain.name).pad(level)
    return Problem.unchecked(level=level, task=jax.device_get(draw_task(np.uint32(seed), padded)))


@cache
def _samplers(config: Any) -> tuple[Any, Any]:
    """Draw a level from a seed, and a task from a seed and what a level holds."""
    from atlas.tasks.sample import formalism

    domain = domain_of(config.domain)
    tasks, _ = formalism(config.tasks, domain.vocabulary, mask=domain.mask)
    return (
        jax.jit(lambda seed: domain.sample(jax.random.key(seed))),
        jax.jit(lambda seed, level: tasks.sample(jax.random.key(seed), domain.possible(level) & domain.mask)),
    )
