"""`atlas trace`, `atlas play`, `atlas watch`: one problem, played from actions, by keyboard or by a policy."""

import functools
import itertools
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import tyro

from atlas.commands.checks import require_film, require_positive
from atlas.commands.inputs import DOMAIN, drawn, subject
from atlas.errors import AtlasError
from atlas.settings import STEP_LIMIT, require_seed
from atlas.words import plural

# `atlas trace`: replay actions, tell what happens.

if TYPE_CHECKING:
    from rich.table import Table

    from atlas.show.episode import Record


@dataclass(frozen=True)
class TraceArgs:
    """Replay a list of actions in a problem, or in a level without a task, and tell every moment.

    In Minigrid actions are 0 forward, 1 right, 2 left (turns), 3 pick_up, 4 put_down, 5 toggle, in LetterWorld 0 up, 1
    right, 2 down, 3 left. The first line is the start, after
    the task has seen the first label. Nothing follows the end of an episode.
    """

    file: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PROBLEM")]
    """A file that ATLAS reads, SET:NAME for a problem of a set, or the name of a set or of a hand-designed problem."""
    actions: str = ""
    """Actions by number or name, separated by commas: 0,0,3 or "forward x2, pick up", as `atlas solve` prints plans."""
    name: str | None = None
    """Which problem of a set, by name."""
    index: int | None = None
    """Which problem of a set, by number from 0."""
    film: Path | None = None
    """Also write the episode as a film: .gif, or .mp4 (needs the extra `video`)."""
    json: bool = False
    """Print JSON: a list of records."""


def trace_command(argv: list[str]) -> int:
    """Replay and print."""
    args = tyro.cli(TraceArgs, args=argv, prog="atlas trace")
    require_film(args.film)
    from atlas.domains import domain_for
    from atlas.programs import keep_programs
    from atlas.runs.problem_files import choose
    from atlas.runs.screen import Screen, wrote
    from atlas.show.episode import trace
    from atlas.world import action_numbers

    keep_programs()
    subject = choose(args.file, args.name, args.index)
    actions = action_numbers(args.actions, domain_for(subject).actions)
    records = trace(subject, actions)
    if args.film:
        from atlas.show.media import save_episode

        save_episode(subject, actions, args.film)
    if args.json:
        print(json.dumps([record.plain() for record in records]))
    else:
        Screen().print(_table(subject, records, actions))
        wrote(args.film)
    return 0


def _table(subject: Any, records: "list[Record]", actions: list[int]) -> "Table":
    from rich import box
    from rich.table import Table

    from atlas.domains import domain_for, surface_for
    from atlas.show.episode import most_specific

    domain, moments = domain_for(subject), [surface_for(subject).moment(record.observed) for record in records]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("", "action", *moments[0], "task", "reward", "label"):
        table.add_column(column, overflow="fold")
    for step, record in enumerate(records):
        table.add_row(
            str(step),
            domain.actions[actions[step - 1]] if step else "start",
            *moments[step].values(),
            (record.task_state or "") + (" done" if record.done else ""),
            f"{record.reward:g}" if record.reward else "",
            " ".join(most_specific(record.label, domain.vocabulary)),
        )
    return table


# `atlas play`: a problem on the keyboard, in the terminal.

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from atlas.evaluation.from_text import ProblemFromText
    from atlas.settings import DomainSettings
    from atlas.show.episode import Episode
    from atlas.types import Level, Problem


@dataclass(frozen=True)
class PlayArgs:
    """Play a problem, or walk through a level without a task, with the keyboard.

    Keys: up goes forward, left and right turn, p picks up, d puts down, space toggles a door, r restarts, q quits. In
    LetterWorld the arrows walk.
    """

    file: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="PROBLEM")] = None
    """A file that ATLAS reads, SET:NAME for a problem of a set, or the name of a set or of a hand-designed problem. If
    not given, one is drawn."""
    domain: Annotated[str | None, DOMAIN] = None
    """Of a problem that is drawn: minigrid (if not given) or letterworld."""
    name: str | None = None
    """Which problem of a set, by name."""
    index: int | None = None
    """Which problem of a set, by number from 0."""
    task: str | None = None
    """What to do, in English: in the level of PROBLEM, or in one that is drawn for it and proven solvable."""
    rooms: int | None = None
    """Rooms of the level that is drawn."""
    seed: int = 0
    """Another seed draws another problem, or another level for the task."""


ARROWS: Final = {"A": "up", "B": "down", "C": "right", "D": "left"}
"""The last character of what a terminal sends for an arrow key."""
QUIT: Final = ("q", "\x03", "\x04")


def play_command(argv: list[str]) -> int:
    """Play until q."""
    args = tyro.cli(PlayArgs, args=argv, prog="atlas play")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise AtlasError("play needs a terminal to read keys from; `atlas trace FILE --actions …` replays without one")
    _require_task(args.file, args.task, args.rooms, args.name, args.index)
    require_seed(args.seed)
    from atlas.domains import known_domain, settings_class
    from atlas.programs import keep_programs
    from atlas.runs.display import bar

    keep_programs()
    given = (
        None
        if args.file is None and args.task is not None
        else subject(args.file, args.name, args.index, args.domain, args.seed)
    )
    if args.task is not None:
        with bar("looking for a level"):
            settings = settings_class(known_domain(args.domain))()
            asked = _ask(args.task, given, settings, args.rooms, args.seed, STEP_LIMIT)
        print(*_told(asked), sep="\n")
        given = asked.problem
    game = Game(given)
    with _raw_terminal() as keys:
        _show(game.screen)
        for key in keys:
            game.press(key)
            if not game.running:
                break
            _show(game.screen)
    print(game.summary())
    return 0


def _require_task(
    problem: str | None, task: str | None, rooms: int | None, name: str | None, index: int | None
) -> None:
    """A sentence where options of `play` and `watch` do not go together."""
    if problem is None and (name is not None or index is not None):
        raise AtlasError("--name and --index choose among the problems of a set: name the set before them")
    if rooms is not None and (task is None or problem is not None):
        raise AtlasError("--rooms is for the level that is drawn for a --task; a PROBLEM brings its own")


def _ask(
    task: str,
    given: "Problem | Level | None",
    settings: "DomainSettings",
    rooms: int | None,
    seed: int,
    step_limit: int,
) -> "ProblemFromText":
    """The problem that a task in words makes: in the level that is given, or in one drawn for it."""
    from atlas.config import Config
    from atlas.evaluation.from_text import problem_from_text, problem_in_level
    from atlas.settings import from_plain, to_plain

    if given is not None:
        return problem_in_level(task, getattr(given, "level", given), step_limit)
    if rooms is not None:
        settings = from_plain(Config, {"domain": to_plain(settings) | {"rooms": [rooms]}}).domain
    return problem_from_text(task, settings, seed, step_limit)


def _told(asked: "ProblemFromText") -> list[str]:
    """How a task in words was understood, and what the prover says."""
    notes = [f"note: {note}" for note in asked.notes]
    return [f"understood: {asked.understood}", *notes, f"here it is {asked.verdict}", ""]


class Game:
    """A problem being played: keys in, screens out."""

    def __init__(self, subject: "Problem | Level") -> None:
        self.subject = subject
        self.running = True
        self.episode: Episode
        self.total: float
        self._restart()

    def _restart(self) -> None:
        from atlas.show.episode import Episode

        self.episode, self.total = Episode(self.subject), 0.0

    def press(self, key: str) -> None:
        """React to a key; unknown ones do nothing, and nothing moves after the end."""
        key = ARROWS.get(key[-1], key) if key.startswith("\x1b") else key
        actions, _ = self.episode.surface.keys
        if key in QUIT:
            self.running = False
        elif key == "r":
            self._restart()
        elif key in actions and not self.episode.record.done:
            self.total += self.episode.act(actions[key]).reward

    def screen(self, most: int | None = None) -> "RenderableType":
        """Everything there is to see; `most` lines of the machine."""
        from rich.console import Group
        from rich.table import Table

        from atlas.show.episode import most_specific

        surface, level = self.episode.surface, self.episode.level
        hands = ("", "carrying", surface.holding(level) or "nothing") if surface.carries else ()
        panel = Group("view", surface.terminal_view(self.episode.view), *hands)
        sides = Table.grid(padding=(0, 3))
        sides.add_row(surface.terminal(level), panel)
        label = "  ".join(most_specific(self.episode.record.label, self.episode.domain.vocabulary)) or "nothing"
        keys = f"[dim]{surface.keys[1]}  r restart  q quit[/]"
        return Group(self._title(), "", sides, "", f"[bold]label[/]  {label}", *self._progress(most), "", keys)

    def _title(self) -> str:
        from rich.markup import escape

        name = getattr(self.subject, "name", "")
        return f"[bold]{escape(name) or 'level'}[/]   step {self.episode.steps}   return {self.total:g}"

    def _progress(self, most: int | None) -> "list[RenderableType]":
        """The task with its current state marked, and how it ended."""
        from atlas.show.problem import task_rows
        from atlas.types import Problem

        if not isinstance(self.subject, Problem):
            return []
        rows = ["", *task_rows(self.subject.task, self.episode.domain.vocabulary, self.episode.place, most)]
        return rows + (["", f"{self._ending()}   r plays again"] if self.episode.record.done else [])

    def _ending(self) -> str:
        """How the episode ended, in words."""
        from atlas.vocabulary import ACCEPTED, REJECTED

        words = {
            ACCEPTED: "[bold green]done: the task is complete[/]",
            REJECTED: "[bold red]over: the task has failed[/]",
        }
        return words.get(self.episode.record.outcome, "[bold red]over: out of steps[/]")

    def summary(self) -> str:
        """One line to leave on the screen."""
        return f"{plural(self.episode.steps, 'step')}, return {self.total:g}" + (
            f", task in {self.episode.record.task_state}" if self.episode.record.task_state else ""
        )


def fitted(console: "Console", screen: "Callable[[int | None], RenderableType]", height: int) -> "RenderableType":
    """A screen with as many lines of its machine as there is room for, so that the level does not scroll away."""

    def lines(content: "RenderableType") -> int:
        return len(console.render_lines(content, pad=False))

    whole = screen(None)
    if lines(whole) <= height:
        return whole
    return screen(max(2, height - lines(screen(2)) + 2))


def _show(screen: "Callable[[int | None], RenderableType]") -> None:
    """Draw from the top left; what the last screen left below is wiped."""
    from atlas.runs.screen import Screen

    console = Screen()
    with console.capture() as capture:
        console.print(fitted(console, screen, console.height))
    lines = "\x1b[K\r\n".join(capture.get().splitlines())
    sys.stdout.write(f"\x1b[H{lines}\x1b[K\x1b[J")
    sys.stdout.flush()


@contextmanager
def _raw_terminal() -> Iterator[Iterator[str]]:
    """Single keys instead of lines, on a screen of its own; the terminal is put back whatever happens."""
    import termios
    import tty

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    try:
        tty.setraw(number)
        sys.stdout.write("\x1b[?1049h\x1b[?25l")
        yield _keys(number)
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)
        sys.stdout.write("\x1b[?25h\x1b[?1049l")
        sys.stdout.flush()


def _keys(number: int) -> Iterator[str]:
    """Keys as they are pressed, until the input ends."""
    import os

    while data := os.read(number, 64):
        yield from split_keys(data.decode(errors="ignore"))


def split_keys(data: str) -> list[str]:
    """The keys that a terminal sent at once, one by one: an arrow is several characters."""
    return re.findall(r"\x1b[\[O].|.", data, re.DOTALL)


# `atlas watch`: see a trained policy play a problem.

if TYPE_CHECKING:
    from rich.text import Text

    from atlas.show.episode import Scene
    from atlas.types import NamedProblem

WIDTH = 24
"""Letters of a full bar."""


@dataclass(frozen=True)
class WatchArgs:
    """See a trained policy play a problem: the level, how far its task has got, the probabilities of the actions, and
    the return that the policy expects.

    Any problem will do, whatever the sizes the policy was trained on. In a terminal the episode moves; elsewhere its
    moments are printed one below the other.
    """

    run: tyro.conf.Positional[Path]
    """A run folder, one of its checkpoints (RUN/checkpoints/123) or policies (RUN/policies/000000123.npz), or a policy
    that comes with ATLAS (zoo:NAME; `atlas zoo` lists them)."""
    problem: tyro.conf.Positional[str | None] = None
    """A problem or a set: any file that ATLAS reads, SET:NAME, or the name of a set or hand-designed problem. If not
    given, one of the run's own held-out problems, another for each seed."""
    domain: Annotated[str | None, DOMAIN] = None
    """Draw a new problem of this domain, which must be the run's, instead of a held-out one."""
    name: str | None = None
    """Which problem of a set, by name."""
    index: int | None = None
    """Which problem of a set, by number from 0."""
    film: Path | None = None
    """Write a film instead: .gif, or .mp4 (needs the extra `video`)."""
    seed: int = 0
    """Another seed, another episode, and another level where one is drawn."""
    task: str | None = None
    """What to do, in English: in the level of PROBLEM, or in one that is drawn for it and proven solvable."""
    rooms: int | None = None
    """Rooms of the level that is drawn; those of the run's settings if not given."""
    greedy: bool = False
    """Take the likeliest action instead of drawing one."""
    step_limit: int = STEP_LIMIT
    """Steps after which the episode is cut."""
    which: Literal["last", "best"] = "last"
    """Which checkpoint of a run."""
    fps: Annotated[float, tyro.conf.arg(metavar="MOMENTS")] = 6.0
    """Moments a second."""
    json: bool = False
    """Print JSON: how it ended, and a record of every moment."""


def watch_command(argv: list[str]) -> int:
    """Play and show."""
    args = tyro.cli(WatchArgs, args=argv, prog="atlas watch")
    require_positive(step_limit=args.step_limit, fps=args.fps)
    require_seed(args.seed)
    require_film(args.film)
    _require_task(args.problem, args.task, args.rooms, args.name, args.index)
    if args.domain is not None and (args.problem is not None or args.task is not None):
        source = "the run" if args.problem is None else args.problem
        raise AtlasError(f"--domain is for a problem that is drawn: {source} says itself of which domain it is")
    from atlas.programs import keep_programs
    from atlas.runs.display import bar
    from atlas.runs.policy import load_policy
    from atlas.runs.problem_files import choose, choose_problem
    from atlas.runs.screen import Screen, wrote
    from atlas.show.episode import PolicyActor, scenes

    keep_programs()
    with bar("loading"):
        policy = load_policy(args.run, args.which)
        asked = None
        if args.task is not None:
            given = choose(args.problem, args.name, args.index) if args.problem else None
            asked = _ask(args.task, given, policy.config.domain, args.rooms, args.seed, args.step_limit)
            problem = asked.problem
        elif args.problem:
            problem = choose_problem(args.problem, args.name, args.index)
        else:
            problem = drawn(args.domain, args.seed) if args.domain is not None else _held_out(policy.run, args.seed)
        policy.require_domain([problem])
        playing = iter(
            scenes(PolicyActor(policy.student, policy.params, args.seed, args.greedy), problem, args.step_limit)
        )
        playing = itertools.chain([next(playing)], playing)  # the first moment takes seconds: it is compiled
    console = Screen()
    if asked is not None and not args.json:
        print(*_told(asked), sep="\n")
    shown = args.film is None and not args.json
    watched = list(_show_watch(console, problem, playing, args.fps) if shown else playing)
    if args.film is not None:
        _film(problem, watched, args.film, args.fps, args.task or "")
    if args.json:
        print(_as_json(problem, watched, args, asked))
    else:
        print(_summary(problem, watched))
        wrote(args.film)
    return 0


def _held_out(run: Path, seed: int) -> "NamedProblem":
    """One of the problems that a run is examined on."""
    from atlas.runs.folder import called
    from atlas.runs.problem_files import load

    path = run / "held_out.npz"
    if not path.exists():
        name = called(run)
        raise AtlasError(
            f"{name} keeps no held-out problems: name the problem to watch, e.g. `atlas watch {name} myopic`"
        )
    problems = load(path)
    return problems[seed % len(problems)]


def _film(problem: "NamedProblem", watched: "list[Scene]", path: Path, fps: float, said: str) -> None:
    from atlas.show.media import save_film, watched_frames

    save_film(watched_frames(problem, watched, said), path, fps)


def _as_json(problem: "NamedProblem", watched: "list[Scene]", args: WatchArgs, asked: "ProblemFromText | None") -> str:
    from atlas.show.episode import ending

    told = {"problem": problem.name, "ending": ending(watched), "steps": watched[-1].step, "seed": args.seed}
    film = {"film": str(args.film)} if args.film else {}
    if asked is not None:
        told |= {"understood": asked.understood, "notes": asked.notes, "verdict": asked.verdict}
    return json.dumps(told | film | {"moments": [scene.plain() for scene in watched]})


def _summary(problem: "NamedProblem", watched: "list[Scene]") -> str:
    from atlas.show.episode import ending

    return f"{problem.name or 'problem'}: {ending(watched)} after {plural(watched[-1].step, 'step')}"


def _show_watch(
    console: "Console", problem: "NamedProblem", playing: "Iterable[Scene]", fps: float
) -> "Iterator[Scene]":
    """Show each moment as it passes: moving in a terminal, else one below the other."""
    moving = console.is_terminal and not console.is_dumb_terminal
    colour = console.color_system is not None
    with _own_screen() if moving else _no_screen():
        for scene in playing:
            due = time.monotonic() + 1 / fps
            if moving:
                made = functools.partial(screen, problem, scene, colour)
                _redraw(console, fitted(console, made, console.height - 1))
                time.sleep(max(0.0, due - time.monotonic()) if scene.choice else 4 / fps)
            else:
                console.print(screen(problem, scene, colour))
                console.print()
            yield scene


def screen(problem: "NamedProblem", scene: "Scene", colour: bool = True, most: int | None = None) -> "RenderableType":
    """Everything there is to see of a moment, with `most` lines of the machine; without colours the level is drawn in
    letters."""
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    from atlas.domains import domain_for
    from atlas.show.problem import level_rows, task_rows

    record = scene.record
    action = (scene.action or "start").replace("_", " ")
    title = f"[bold]{escape(problem.name) or 'problem'}[/]   step {scene.step}   {action}"
    title += f"   [bold]{record.task_state}[/]" + (f"   reward {record.reward:g}" if record.reward else "")
    sides = Table.grid(padding=(0, 3))
    sides.add_row(level_rows(scene.level, colour)[0], Text("\n").join(_thoughts(scene)))
    task = task_rows(problem.task, domain_for(problem).vocabulary, scene.place, most)
    return Group(title, "", sides, "", *task)


def _thoughts(scene: "Scene") -> "list[Text]":
    """The policy's action probabilities, a line each, and what the agent carries."""
    from rich.text import Text

    from atlas.domains import surface_for

    surface = surface_for(scene.level)
    held = surface.format_level(scene.level).get("carrying", "nothing")
    hands = [f"carrying  {held}"] if surface.carries else []
    if scene.choice is None:
        return [*map(Text, hands), Text(), Text("the end", style="bold")]
    lines = []
    for number, (name, share) in enumerate(zip(scene.actions, scene.choice.probabilities, strict=True)):
        taken = number == scene.choice.action
        bar = "█" * round(share * WIDTH)
        words = f"{'▶' if taken else ' '} {name.replace('_', ' '):<9} {bar:<{WIDTH}} {share:4.0%}"
        lines.append(Text(words, style="bold" if taken else ""))
    value = (
        [] if scene.choice.value is None else [Text(f"  expects a return of {round(scene.choice.value, 2) + 0.0:.2f}")]
    )
    return [*lines, Text(), *value, *(Text(f"  {words}") for words in hands)]


def _redraw(console: "Console", content: "RenderableType") -> None:
    """Draw from the top left; what the last moment left below is wiped, what does not fit is cut."""
    with console.capture() as capture:
        console.print(content)
    lines = capture.get().splitlines()[: max(1, console.height - 1)]
    sys.stdout.write("\x1b[H" + "\x1b[K\n".join(lines) + "\x1b[K\x1b[J")
    sys.stdout.flush()


@contextmanager
def _own_screen() -> Iterator[None]:
    """A screen beside the user's own, without a cursor; put back whatever happens."""
    try:
        sys.stdout.write("\x1b[?1049h\x1b[?25l")
        yield
    finally:
        sys.stdout.write("\x1b[?25h\x1b[?1049l")
        sys.stdout.flush()


@contextmanager
def _no_screen() -> Iterator[None]:
    yield
