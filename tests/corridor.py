"""A second domain, as small as can be: a corridor of letters, and an agent that walks along it.

It is here to show that nothing but `atlas.domains` knows Minigrid: everything that training and people need of a domain
is in this one file, and `register` adds its row.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Int, Int8, Int32, Key, UInt8
from rich.text import Text as TerminalText

from atlas.domains import DOMAINS, DomainRow
from atlas.domains.shared import batch_check
from atlas.errors import LevelTextError
from atlas.presets import Preset, tiny
from atlas.settings import DomainSettings, setting
from atlas.show.canvas import Circle, Drawing, Rectangle, Shape, Sign, Symbol, Text
from atlas.struct import Struct
from atlas.tasks.machine import Stack, chains, holds, outcome, take
from atlas.tasks.packed import unpack
from atlas.types import Brush, Edit, Problem
from atlas.vocabulary import ACCEPTED, RUNNING, Pictured, Vocabulary

LETTERS = "wxyz"
WALL = len(LETTERS)
SIGHT = 1
"""How far the agent sees to either side."""
MOST = 9
"""Cells of the longest corridor."""

VOCABULARY = Vocabulary(
    names=tuple(f"at_{letter}" for letter in LETTERS),
    phrases=tuple(f"stand on the {letter}" for letter in LETTERS),
    commands={f"stand on {letter}": i for i, letter in enumerate(LETTERS)},
    synonyms={},
    features=np.eye(len(LETTERS), dtype=np.float32)[:, None].repeat(2, axis=1),
    implies=np.eye(len(LETTERS), dtype=bool),
    excludes=~np.eye(len(LETTERS), dtype=bool),
    ids={f"at_{letter}": i for i, letter in enumerate(LETTERS)},
    verbs={"go to {}": "stand on {}"},
)


@dataclass(frozen=True, kw_only=True)
class CorridorConfig(DomainSettings):
    """Corridors that are sampled and edited."""

    name: Literal["corridor"] = "corridor"
    """Which domain."""
    lengths: tuple[int, ...] = (5, 7)
    """How many cells a corridor may have."""
    step_limit: int = setting(16, at_least=1)
    """Steps after which an episode is cut."""


class Level(Struct, Pictured):
    """A corridor at the start of an episode; also its state in the middle of one."""

    domain: ClassVar[str] = "corridor"
    cells: UInt8[Array, "cells"]
    """A letter by its number; WALL beyond the end."""
    position: Int8[Array, ""]


@dataclass(frozen=True)
class Corridor:
    """The domain."""

    config: CorridorConfig

    actions = ("left", "right")
    vocabulary = VOCABULARY
    view_shape = (1, 2 * SIGHT + 1)
    view_fields = (WALL + 1,)
    padding = MappingProxyType({"cells": WALL})

    @property
    def strata(self) -> tuple[str, tuple[int, ...]]:
        return "cells", tuple(self.config.lengths)

    def measure(self, level: Level) -> dict[str, Int32[Array, ""]]:
        return {"cells": (level.cells != WALL).sum(dtype=np.int32)}

    @property
    def mask(self) -> np.ndarray:
        return np.ones(len(LETTERS), bool)

    @property
    def edits(self) -> tuple[Edit[Level], ...]:
        def change_letter(key: Key[Array, ""], level: Level) -> tuple[Level, Array]:
            key_place, key_letter = jax.random.split(key)
            place = jax.random.randint(key_place, (), 0, self.measure(level)["cells"])
            letter = jax.random.randint(key_letter, (), 0, len(LETTERS))
            told = jnp.stack([place, jnp.int32(-1), letter]).astype(jnp.int16)
            return level.replace(cells=level.cells.at[place].set(letter.astype(jnp.uint8))), told

        return (Edit("change_letter", lambda level: jnp.array(True), change_letter),)

    def sample(self, key: Key[Array, ""]) -> Level:
        key_length, key_cells, key_place = jax.random.split(key, 3)
        length = jax.random.choice(key_length, jnp.array(self.config.lengths))
        letters = jax.random.randint(key_cells, (max(self.config.lengths),), 0, len(LETTERS))
        cells = jnp.where(jnp.arange(len(letters)) < length, letters, WALL).astype(jnp.uint8)
        return Level(cells=cells, position=jax.random.randint(key_place, (), 0, length).astype(jnp.int8))

    sample_minimal = sample

    def sample_for(self, key: Key[Array, ""], props: Int[Array, "mentions"], minimal: bool = False) -> Level:
        level = self.sample(key)
        wanted = jnp.arange(len(level.cells)) < len(props)
        padded = jnp.resize(props, level.cells.shape).astype(jnp.uint8)
        return level.replace(cells=jnp.where(wanted & (level.cells != WALL), padded, level.cells))

    def reset(self, level: Level) -> Level:
        return level

    def step(self, state: Level, action: Int[Array, ""]) -> Level:
        last = self.measure(state)["cells"] - 1
        moved = jnp.clip(state.position + jnp.where(action == 0, -1, 1), 0, last)
        return state.replace(position=moved.astype(jnp.int8))

    def view(self, state: Level) -> UInt8[Array, "1 3"]:
        padded = jnp.pad(state.cells, SIGHT, constant_values=WALL)
        return jax.lax.dynamic_slice(padded, (state.position.astype(jnp.int32),), (2 * SIGHT + 1,))[None]

    def holds(self, state: Level, props: Int[Array, "*asked"]) -> Bool[Array, "*asked"]:
        return state.cells[state.position.astype(jnp.int32)] == props

    def as_level(self, state: Level) -> Level:
        return state

    def possible(self, level: Level) -> Bool[Array, "props"]:
        return jnp.any(level.cells[:, None] == jnp.arange(len(LETTERS))[None], axis=0)


@dataclass(frozen=True)
class Verdict:
    """What the solver says."""

    verdict: str
    plan: tuple[int, ...] | None
    reason: str
    trivial: bool = False
    lower_bound: int | None = None

    @property
    def plan_length(self) -> int | None:
        return None if self.plan is None else len(self.plan)


class CorridorSurface:
    """What people need."""

    level_type = Level
    level_keys = ("corridor", "start")
    carries = False
    keys = ({"left": 0, "right": 1}, "← → walk")

    def parse_level(self, texts: Mapping[str, str]) -> Level:
        letters = texts["corridor"].strip()
        if not set(letters) <= set(LETTERS) or not 0 < len(letters) <= MOST:
            raise LevelTextError(f"'{letters}' is no corridor: 1 to {MOST} letters of {LETTERS}", key="corridor")
        start = texts.get("start", "0").strip()
        if start not in map(str, range(len(letters))):
            raise LevelTextError(f"'{start}' is no start: a number below {len(letters)} is needed", key="start")
        return self._made(letters, int(start))

    def _made(self, letters: str, start: int) -> Level:
        cells = jnp.array([LETTERS.index(letter) for letter in letters], jnp.uint8)
        return Level(cells=cells, position=jnp.int8(start))

    def format_level(self, level: Level) -> dict[str, str]:
        return {"corridor": self._letters(level), "start": str(int(level.position))}

    def _letters(self, level: Level) -> str:
        return "".join(LETTERS[code] for code in np.asarray(level.cells).tolist() if code != WALL)

    def crop(self, level: Level) -> Level:
        return level.replace(cells=jnp.asarray(np.asarray(level.cells)[: len(self._letters(level))]))

    def pad(self, level: Level) -> Level:
        cells = np.asarray(self.crop(level).cells)
        return level.replace(cells=jnp.asarray(np.pad(cells, (0, MOST - len(cells)), constant_values=WALL)))

    def sound(self, levels: Level) -> np.ndarray:
        cells, place = np.asarray(levels.cells), np.asarray(levels.position)
        return (cells <= WALL).all(1) & (place >= 0) & (place < (cells != WALL).sum(1))

    def things(self, level: Level) -> list[str]:
        return list(self._letters(level))

    def describe(self, level: Level) -> dict[str, Any]:
        return {"cells": len(self._letters(level)), **self.format_level(level)}

    def overview(self, level: Level) -> dict[str, str]:
        return {"cells": str(len(self._letters(level)))}

    def observe(self, state: Level) -> dict[str, Any]:
        return {"position": int(state.position), "letter": LETTERS[int(state.cells[int(state.position)])]}

    def moment(self, observed: Mapping[str, Any]) -> dict[str, str]:
        return {name: str(value) for name, value in observed.items()}

    def edit_words(self, name: str, arguments: Sequence[int]) -> str | None:
        return f"{LETTERS[arguments[2]]} at {arguments[0]}" if name == "change_letter" else None

    def drawing(self, level: Level, strip: bool | None = None) -> Drawing:
        letters = self._letters(level)
        shapes: list[Shape] = [Symbol(f"cell{LETTERS.index(x)}", _tile(x), at=(n, 0)) for n, x in enumerate(letters)]
        agent = Symbol("agent0", _agent(), at=(int(level.position), 0))
        return Drawing((*shapes, agent), (float(len(letters)), 1.0))

    def sign(self, prop: int) -> Sign:
        return Sign(LETTERS[prop], Drawing(_tile(LETTERS[prop]), (1.0, 1.0)))

    def legend(self) -> list[tuple[Drawing, str]]:
        return [(Drawing(_agent(), (1.0, 1.0)), "the agent")]

    def symbols(self) -> list[Symbol]:
        return [*(Symbol(f"cell{n}", _tile(x)) for n, x in enumerate(LETTERS)), Symbol("agent0", _agent())]

    def tiles(self, level: Level) -> dict[str, Any]:
        cells = [LETTERS.index(letter) for letter in self._letters(level)]
        return {"cols": len(cells), "cells": cells, "at": [0, int(level.position)], "to": 0, "lit": []}

    def view_tiles(self, view: np.ndarray) -> dict[str, Any]:
        return {"cols": view.size, "cells": view.flatten().tolist(), "at": [0, SIGHT], "to": 0, "lit": []}

    def brushes(self) -> list[Brush]:
        letters = [Brush(f"the {letter}", "letter", (f"cell{n}",)) for n, letter in enumerate(LETTERS)]
        return [*letters, Brush("agent", "agent", ("agent0",))]

    def paint(self, level: Level, brush: str, row: int, column: int) -> Level:
        letters = self._letters(level)
        self._require_inside(letters, row, column)
        if brush == "agent":
            return self._made(letters, column)
        if brush not in (known.name for known in self.brushes()):
            raise LevelTextError(f"'{brush}' is no brush")
        return self._made(letters[:column] + brush[-1] + letters[column + 1 :], int(level.position))

    def move(self, level: Level, source: tuple[int, int], target: tuple[int, int]) -> Level:
        letters = self._letters(level)
        for place in (source, target):
            self._require_inside(letters, *place)
        if source[1] == int(level.position):
            return self._made(letters, target[1])
        order = list(letters)
        order[source[1]], order[target[1]] = order[target[1]], order[source[1]]
        return self._made("".join(order), int(level.position))

    def resize(self, level: Level, rows: int, columns: int) -> Level:
        if rows != 1 or not int(level.position) < columns <= MOST:
            raise LevelTextError(f"a corridor has one row and up to {MOST} cells, and the agent must stay in it")
        return self._made(self._letters(level)[:columns].ljust(columns, LETTERS[0]), int(level.position))

    def templates(self) -> dict[str, Level]:
        return {"five letters": self._made("wxyzw", 2)}

    def _require_inside(self, letters: str, row: int, column: int) -> None:
        if row != 0 or not 0 <= column < len(letters):
            raise LevelTextError(f"there is no cell {row},{column}: the corridor has {len(letters)}")

    def example(self) -> dict[str, str]:
        return {"corridor": "wxyzw", "start": "2", "task": "stand on the z, then stand on the x"}

    def terminal(self, level: Level) -> TerminalText:
        text = TerminalText(self._letters(level))
        text.stylize("reverse", int(level.position), int(level.position) + 1)
        return text

    def terminal_view(self, view: np.ndarray) -> TerminalText:
        return TerminalText("".join((*LETTERS, "#")[code] for code in view.flatten().tolist()))

    def holding(self, level: Level) -> None:
        return None

    def screen_many(self, problems: Problem) -> np.ndarray:
        return np.asarray(jax.vmap(partial(_screen, Corridor(CorridorConfig())))(problems))

    def solve_many(self, problems: Sequence[Problem], step_limit: int = 16, **options: Any) -> list[Verdict]:
        return [_solve(problem, step_limit) for problem in problems]

    def hints(self, problem: Problem) -> list[str]:
        return []


def _tile(letter: str) -> tuple[Shape, ...]:
    return (Rectangle((0, 0), (1, 1), fill="#eeeeee"), Text((0.3, 0.5), letter, 0.6))


def _agent() -> tuple[Shape, ...]:
    return (Circle((0.5, 0.5), 0.4, stroke="#cc3333", width=0.1),)


def _screen(domain: Corridor, problem: Problem) -> Bool[Array, ""]:
    """Whether all letters that some edge asks for are there."""
    asked = jnp.maximum(problem.task.guard.astype(jnp.int32) - 1, 0)
    return jnp.all(domain.possible(problem.level)[asked] | (problem.task.guard <= 0))


def _solve(problem: Problem, step_limit: int) -> Verdict:
    """Breadth-first search in the product of corridor and task."""
    task, cells = unpack(problem.task), [c for c in np.asarray(problem.level.cells).tolist() if c != WALL]

    def see(stack: Stack, position: int) -> Stack:
        label = frozenset({cells[position]})
        for chain in chains(task, stack.node) if outcome(task, stack.node) == RUNNING else ():
            if all(holds(edge.literals, label) for edge in chain):
                return take(task, stack, chain)[0]
        return stack

    start = int(problem.level.position)
    first = (start, see(Stack((task.root, 0)), start))
    if outcome(task, first[1].node) == ACCEPTED:
        return Verdict("solvable", (), "trivial: the first label alone completes the task", trivial=True)
    plans: dict[Any, tuple[int, ...]] = {first: ()}
    todo = deque([first])
    while todo:
        position, stack = now = todo.popleft()
        if outcome(task, stack.node) == ACCEPTED:
            return Verdict("solvable", plans[now], f"a plan of {len(plans[now])} steps")
        for action, change in enumerate((-1, 1)):
            place = min(max(position + change, 0), len(cells) - 1)
            after = (place, see(stack, place))
            if after not in plans and len(plans[now]) < step_limit:
                plans[after] = (*plans[now], action)
                todo.append(after)
    return Verdict("unsolvable", None, "everything that can be done was tried")


PRESETS = {"corridor-tiny": Preset(tiny(CorridorConfig()), "a corridor of letters")}


def screen(settings: CorridorConfig) -> Callable[[Problem], Bool[Array, "batch"]]:
    return batch_check(partial(_screen, Corridor(settings)))


ROW = DomainRow(
    settings="corridor:CorridorConfig",
    domain="corridor:Corridor",
    screen="corridor:screen",
    vocabulary="corridor:VOCABULARY",
    surface="corridor:CorridorSurface",
    presets="corridor:PRESETS",
)


def register(monkeypatch: Any) -> None:
    """Add the domain for the length of a test."""
    monkeypatch.setitem(DOMAINS, "corridor", ROW)
