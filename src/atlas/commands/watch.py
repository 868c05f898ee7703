"""`atlas watch`: see a trained policy play a problem."""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from atlas.errors import AtlasError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

    from atlas.runs.named import NamedProblem
    from atlas.watching import Scene

WIDTH = 24
"""Letters of a full bar."""


@dataclass(frozen=True)
class Args:
    """See a trained policy play a problem: the level, how far its task has got, the probabilities of the actions, and
    the return that the policy expects.

    Any problem will do, whatever the sizes the policy was trained on. In a terminal the episode moves; elsewhere its
    moments are printed one below the other.
    """

    run: tyro.conf.Positional[Path]
    """A run folder, one of its checkpoints (RUN/checkpoints/123) or policies (RUN/policies/000000123.npz)."""
    problem: tyro.conf.Positional[str | None] = None
    """A problem file, SET:NAME for one of a set, or the name of one of the hand-designed problems. If not given, one of
    the run's own held-out problems, another for each seed."""
    out: Path | None = None
    """Write a film instead: .gif, or .mp4 (needs the extra `video`)."""
    seed: int = 0
    """Another seed, another episode."""
    greedy: bool = False
    """Take the likeliest action instead of drawing one."""
    step_limit: int = 512
    """Steps after which the episode is cut."""
    which: Literal["last", "best"] = "last"
    """Which checkpoint of a run."""
    fps: Annotated[float, tyro.conf.arg(metavar="MOMENTS")] = 6.0
    """Moments a second."""
    json: bool = False
    """Print JSON: how it ended, and a record of every moment."""


def main(argv: list[str]) -> int:
    """Play and show."""
    args = tyro.cli(Args, args=argv, prog="atlas watch")
    if args.step_limit < 1 or args.fps <= 0:
        raise AtlasError("--step-limit and --fps must be positive")
    from rich.console import Console

    from atlas.runs.find_problem import find_problem
    from atlas.runs.policy import load_policy
    from atlas.watching import Trained, scenes

    policy = load_policy(args.run, args.which)
    problem = find_problem(args.problem) if args.problem else _held_out(policy.run, args.seed)
    playing = scenes(Trained(policy.student, policy.params, args.seed, args.greedy), problem, args.step_limit)
    console = Console(highlight=False)
    shown = args.out is None and not args.json
    watched = list(_show(console, problem, playing, args.fps) if shown else playing)
    if args.out is not None:
        _film(problem, watched, args.out, args.fps)
    print(_as_json(problem, watched, args) if args.json else _summary(problem, watched))
    return 0


def _held_out(run: Path, seed: int) -> "NamedProblem":
    """One of the problems that a run is examined on."""
    from atlas.runs.problem_files import load

    path = run / "held_out.npz"
    if not path.exists():
        raise AtlasError(
            f"{run} keeps no held-out problems: name the problem to watch, e.g. `atlas watch {run} myopic`"
        )
    problems = load(path)
    return problems[seed % len(problems)]


def _film(problem: "NamedProblem", watched: "list[Scene]", path: Path, fps: float) -> None:
    from atlas.runs.films import watched_frames
    from atlas.runs.pictures import save_film

    save_film(watched_frames(problem, watched), path, fps)


def _as_json(problem: "NamedProblem", watched: "list[Scene]", args: Args) -> str:
    from atlas.watching import ending

    told = {"problem": problem.name, "ending": ending(watched), "steps": watched[-1].step, "seed": args.seed}
    film = {"out": str(args.out)} if args.out else {}
    return json.dumps(told | film | {"moments": [scene.plain() for scene in watched]})


def _summary(problem: "NamedProblem", watched: "list[Scene]") -> str:
    from atlas.watching import ending

    return f"{problem.name or 'problem'}: {ending(watched)} after {watched[-1].step} steps"


def _show(console: "Console", problem: "NamedProblem", playing: "Iterable[Scene]", fps: float) -> "Iterator[Scene]":
    """Show each moment as it passes: moving in a terminal, else one below the other."""
    moving = console.is_terminal and not console.is_dumb_terminal
    colour = console.color_system is not None
    with _own_screen() if moving else _no_screen():
        for scene in playing:
            due = time.monotonic() + 1 / fps
            if moving:
                _redraw(console, screen(problem, scene, colour))
                time.sleep(max(0.0, due - time.monotonic()) if scene.choice else 4 / fps)
            else:
                console.print(screen(problem, scene, colour))
                console.print()
            yield scene


def screen(problem: "NamedProblem", scene: "Scene", colour: bool = True) -> "RenderableType":
    """Everything there is to see of a moment; without colours the level is drawn in letters."""
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    from atlas.domains.minigrid import terminal, text
    from atlas.runs.portrait import task_rows

    record = scene.record
    action = (scene.action or "start").replace("_", " ")
    title = f"[bold]{escape(problem.name) or 'problem'}[/]   step {scene.step}   {action}"
    title += f"   [bold]{record.task_state}[/]" + (f"   reward {record.reward:g}" if record.reward else "")
    level = terminal.level_text(scene.level) if colour else Text(text.format_level(scene.level))
    sides = Table.grid(padding=(0, 3))
    sides.add_row(level, Text("\n").join(_thoughts(scene)))
    task = task_rows(problem.task, scene.place, colour)
    return Group(title, "", sides, "", *task)


def _thoughts(scene: "Scene") -> "list[Text]":
    """What the policy thinks of doing, a line each, and what it has in its hands."""
    from rich.text import Text

    from atlas.domains.minigrid import text
    from atlas.domains.minigrid.grid import ACTIONS

    carried = text.object_phrase(int(scene.level.carrying)) if scene.record.carrying else "nothing"
    hands = f"carrying  {carried}"
    if scene.choice is None:
        return [Text(hands), Text(), Text("the end", style="bold")]
    lines = []
    for number, (name, share) in enumerate(zip(ACTIONS, scene.choice.probabilities, strict=True)):
        taken = number == scene.choice.action
        bar = "█" * round(share * WIDTH)
        words = f"{'▶' if taken else ' '} {name.replace('_', ' '):<9} {bar:<{WIDTH}} {share:4.0%}"
        lines.append(Text(words, style="bold" if taken else ""))
    value = (
        [] if scene.choice.value is None else [Text(f"  expects a return of {round(scene.choice.value, 2) + 0.0:.2f}")]
    )
    return [*lines, Text(), *value, Text(f"  {hands}")]


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
