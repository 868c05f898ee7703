"""BabyAI's levels and missions as problems: the level converted, the mission read by our English.

BabyAI is part of the package `minigrid` (extra `babyai`), which is imported when it is needed. Its boxes are our
squares. A mission that cannot be said, or a level that cannot be built, is left out and counted.
"""

import contextlib
import io
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final

import numpy as np

from atlas.domains.minigrid import grid, text
from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.domains.minigrid.grid import Level
from atlas.errors import AtlasError, LevelTextError, extra
from atlas.evaluation.sets import Plan, Progress, Recipe
from atlas.proofs import accepted_after
from atlas.settings import STEP_LIMIT
from atlas.struct import static
from atlas.tasks.machine import TaskSize
from atlas.tasks.packed import pack
from atlas.types import About, Problem

LEVELS: Final = (
    "GoToLocal", "GoToDoor", "GoToObjMazeS5", "GoToSeqS5R2", "PickupDist", "PickupLoc", "FindObjS5", "KeyCorridorS4R3",
    "BlockedUnlockPickup", "OpenDoorsOrderN4", "PutNextLocal", "PutNextS6N3Carrying", "MoveTwoAcrossS8N9",
    "ActionObjDoor", "MiniBossLevel", "SynthS5R2",
)  # fmt: skip
"""Levels of the set, as BabyAI calls them: every kind of instruction, rooms and mazes, keys and distractors."""
SIZE: Final = TaskSize(machines=1, states=7, edges=3, literals=2)
"""Room for the largest mission: two instructions, then two others."""
DRAWN: Final = 32
"""Missions of each level that are drawn at a time."""
ROUNDS: Final = 32
"""How often, before something must be wrong."""

THEIRS: Final = (2, 1, 0, 3, 4, 5)
"""Our actions, in their order, as BabyAI numbers them."""
OURS: Final = {theirs: ours for ours, theirs in enumerate(THEIRS)}
KINDS: Final = {
    "GoToInstr": "go to", "PickupInstr": "pick up", "OpenInstr": "open", "PutNextInstr": "put next to",
    "BeforeInstr": "then", "AfterInstr": "after you", "AndInstr": "and",
}  # fmt: skip
"""Kind of instruction, by BabyAI's class. What is put together goes by the outermost word."""
PLACE: Final = "it tells objects apart by where they are from the agent ('on your left'), which no proposition does"


# One level


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """BabyAI prints whatever it draws in vain."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def environment(level: str) -> Any:
    """BabyAI's environment, without a limit of its own."""
    gymnasium = extra("gymnasium", "BabyAI", "babyai")
    extra("minigrid", "BabyAI", "babyai")  # which makes its levels known
    with quiet():
        return gymnasium.make(f"BabyAI-{level}-v0", max_steps=10**6).unwrapped


def reset(env: Any, seed: int) -> Any:
    """An environment at the start of the mission of a seed."""
    with quiet():
        env.reset(seed=seed)
    return env


@dataclass(frozen=True)
class Origin:
    """Where a problem came from."""

    level: str = ""
    seed: int = 0
    words: str = ""
    """The mission."""
    kind: str = ""
    """One of the values of KINDS."""


def to_level(env: Any) -> Level:
    """The world of an environment as it stands; an error if we have nothing like it."""
    things = [[_to_cell(env.grid.get(x, y)) for x in range(env.grid.width)] for y in range(env.grid.height)]
    column, row = map(int, env.agent_pos)
    agent = text.Agent(row, column, (int(env.agent_dir) + 1) % 4)
    carried = None if env.carrying is None else text.object_phrase(_to_cell(env.carrying))
    return text.make_level(np.array(things, np.uint8), agent, carried)


def _to_cell(thing: Any) -> int:
    if thing is None:
        return grid.FLOOR_CELL
    if thing.type == "wall":
        return grid.WALL_CELL
    colour = grid.COLOURS.index(VOCABULARY.synonyms.get(thing.color, thing.color))
    if thing.type == "door":
        state = grid.DOOR_OPEN if thing.is_open else grid.DOOR_LOCKED if thing.is_locked else grid.DOOR_CLOSED
        return grid.cell(state, colour)
    if getattr(thing, "contains", None) is not None:
        raise LevelTextError("something is inside a box, and a square holds nothing")
    name = VOCABULARY.synonyms.get(thing.type, thing.type)
    if name not in grid.KINDS:
        raise LevelTextError(f"there is no {name} in our levels")
    return grid.cell(grid.KINDS.index(name), colour)


class Mission(Problem):
    """A problem that was a mission of BabyAI's."""

    origin: Origin = static(Origin())


def to_problem(env: Any, level: str = "", seed: int = 0) -> Mission:
    """The problem of an environment at the start of a mission; an error if it cannot be said.

    Level and seed are only remembered.
    """
    from atlas.tasks.english import english

    padded = text.pad_level(to_level(env), text.MAX_ROWS, text.MAX_COLS)
    if any(description.loc for description in _descriptions(env.instrs)):
        raise AtlasError(PLACE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # notes for those who write tasks
        task = pack(english(env.mission, VOCABULARY), SIZE)
    origin = Origin(level, seed, env.mission, KINDS[type(env.instrs).__name__])
    return Mission(level=padded, task=task, origin=origin)


def _descriptions(instruction: Any) -> Iterator[Any]:
    """Everything that an instruction says about objects."""
    for part in ("instr_a", "instr_b"):
        if hasattr(instruction, part):
            yield from _descriptions(getattr(instruction, part))
    for name in ("desc", "desc_move", "desc_fixed"):
        if hasattr(instruction, name):
            yield getattr(instruction, name)


# Who says that a mission is done


def done_after(env: Any, plan: Sequence[int]) -> int:
    """The action of a plan of ours that completes the mission for BabyAI, counted from 1; 0 if none does."""
    for number, action in enumerate(plan, start=1):
        _, reward, terminated, _, _ = env.step(THEIRS[action])
        if terminated:
            return number if reward > 0 else 0
    return 0


def bot_plan(env: Any, most: int = STEP_LIMIT) -> list[int] | None:
    """What BabyAI's own bot does to complete the mission, as actions of ours; None if it fails.

    It also fails if it opens a box, which our squares do not do.
    """
    bot_class = extra("minigrid.utils.baby_ai_bot", "BabyAI's bot", "babyai").BabyAIBot
    plan: list[int] = []
    try:
        bot, action = bot_class(env), None
        while len(plan) < most:
            action = bot.replan(action)
            ahead = env.grid.get(*env.front_pos)
            if int(action) not in OURS or (action == env.actions.toggle and ahead is not None and ahead.type == "box"):
                return None
            plan.append(OURS[int(action)])
            _, reward, terminated, _, _ = env.step(action)
            if terminated:
                return plan if reward > 0 else None
    except (AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None  # the bot gives up with all kinds of errors
    return None


# The set


class Missions:
    """Missions of BabyAI's levels as problems of a set, by level. What is left out is counted, with the reason."""

    def __init__(self, recipe: Recipe, seed: int, levels: Sequence[str] = LEVELS) -> None:
        self.levels = levels
        self.environments = [environment(level) for level in levels]
        self.seed, self.round = seed, 0
        self.drawn = 0
        self.left_out: dict[str, Counter[str]] = {}

    def draw(self) -> Iterator[tuple[int, Problem]]:
        """More missions of every level; the kind is the number of the level."""
        if self.round == ROUNDS:
            raise AtlasError(f"{self.drawn:,} missions of BabyAI were drawn, and too few can be used: {self.left_out}")
        rows = np.random.default_rng((self.seed, self.round)).integers(2**31, size=(DRAWN, len(self.levels)))
        self.round += 1
        for number, (level, env) in enumerate(zip(self.levels, self.environments, strict=True)):
            for seed in rows[:, number].tolist():
                reset(env, seed)
                self.drawn += 1
                try:
                    yield number, to_problem(env, level, seed)
                except AtlasError as error:
                    reason = error.problem if isinstance(error, LevelTextError) else str(error).split("\n")[0]
                    self.left_out.setdefault(reason, Counter())[level] += 1

    def finish(
        self, problems: Sequence[Problem], plans: Sequence[Plan], progress: Progress
    ) -> tuple[list[About], dict[str, Any]]:
        """Names by level, and how far BabyAI agrees that plans complete missions."""
        origins = [problem.origin for problem in problems if isinstance(problem, Mission)]
        counts: Counter[str] = Counter()
        abouts = []
        for origin in origins:
            tags = (f"level-{origin.level}", f"instruction-{origin.kind.replace(' ', '-')}")
            abouts.append(About(f"{origin.level}-{counts[origin.level]:02d}", origin.words, tags))
            counts[origin.level] += 1
        environments = dict(zip(self.levels, self.environments, strict=True))
        theirs, bots = [], []
        for number, (origin, plan) in enumerate(zip(origins, plans, strict=True), start=1):
            theirs.append(done_after(reset(environments[origin.level], origin.seed), plan))
            bots.append(bot_plan(reset(environments[origin.level], origin.seed)))
            progress(number, len(plans))
        return abouts, {
            "minigrid": version("minigrid"),
            "seeds": [origin.seed for origin in origins],
            "drawn": self.drawn,
            "left_out": {reason: dict(levels) for reason, levels in self.left_out.items()},
            "too_large": too_large(),
            "agreement": agreement([origin.kind for origin in origins], problems, plans, theirs, bots),
        }


def agreement(
    kinds: Sequence[str],
    problems: Sequence[Problem],
    plans: Sequence[Plan],
    theirs: Sequence[int],
    bots: Sequence[Plan | None],
) -> dict[str, dict[str, int]]:
    """By kind of instruction: how many of our plans BabyAI calls done (`theirs`), and how many of its bot's we do."""
    tried = [row for row, plan in enumerate(bots) if plan is not None]
    ours = dict.fromkeys(range(len(bots)), 0)
    ended = accepted_after([problems[row] for row in tried], [bots[row] or () for row in tried], STEP_LIMIT)
    ours |= dict(zip(tried, ended.tolist(), strict=True))
    found: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS.values() if kind in kinds}
    for row, kind in enumerate(kinds):
        length = len(bots[row] or ())
        found[kind] += Counter(
            problems=1,
            done=theirs[row] > 0,
            same_step=theirs[row] == len(plans[row]),
            bot=bots[row] is not None,
            bot_done=ours[row] > 0,
            bot_same_step=0 < length == ours[row],
        )
    keys = ("problems", "done", "same_step", "bot", "bot_done", "bot_same_step")
    return {kind: {key: int(counts[key]) for key in keys} for kind, counts in found.items()}


def too_large() -> dict[str, str]:
    """The levels of BabyAI that never fit, with their size."""
    gymnasium = extra("gymnasium", "BabyAI", "babyai")
    found = {}
    for name in sorted(name for name in gymnasium.registry if name.startswith("BabyAI-")):
        with quiet():
            env = gymnasium.make(name).unwrapped
        if env.height > text.MAX_ROWS or env.width > text.MAX_COLS:
            found[name.removeprefix("BabyAI-").rsplit("-", 1)[0]] = f"{env.height}x{env.width}"
    return found


def report(settings: dict[str, Any]) -> list[Any]:
    """What people are told about the set once it is built."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    headings = ("instruction", "problems", "our plans: done for BabyAI", "at the same step",
                "plans of its bot", "done for us", "at the same step")  # fmt: skip
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "instruction" else "right")
    for kind, row in settings["agreement"].items():
        table.add_row(kind, *map(str, row.values()))
    lines = []
    for reason, levels in settings["left_out"].items():
        where = ", ".join(f"{level} {count}" for level, count in levels.items())
        lines.append(f"  {sum(levels.values())} left out: {reason} ({where})")
    proven = settings["proven"]
    lines += [f"  {proven[word]} {word}" for word in ("unsolvable", "unknown", "trivial") if proven.get(word)]
    names = settings["too_large"]
    lines.append(f"  {len(names)} levels of BabyAI are larger than {text.MAX_ROWS}x{text.MAX_COLS}: {', '.join(names)}")
    return [f"{settings['drawn']:,} missions were drawn", *lines, "", table]
